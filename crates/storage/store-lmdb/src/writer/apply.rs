//! Applies commits to an index transaction and gathers their records for the pack.
//!
//! Each call first checks that the commit can be applied and only then writes. So a commit that
//! cannot be applied leaves the transaction as it was, and the others in the group continue. An
//! error after that point ends the whole transaction.

use foldhash::HashMap;
use posthaste_mail_model::{BodyId, Id, MailboxId, NumSet};
use posthaste_store::form::{FormHeader, restores};
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, ExpungedUids, Holders, IN_ANOTHER_LIST, ListCommit,
    MailboxCommit, MailboxHead, NewMessage, Result, Row, StoreError, SummaryOf,
};

use crate::index::bodies::BodyLocation;
use crate::index::checksum::seed;
use crate::index::heads::StoredHead;
use crate::index::logged::Logged;
use crate::index::packs::PackState;
use crate::index::rows::{self, RowWalk, Scratch};
use crate::index::summaries::record::{
    CREATED_LEN, Origin, RecordKind, SUMMARY_HEADER, SummaryRef, add_summary, put_summary, summary_from,
};
use crate::index::{
    Index, Writing, copied, directory, due, expunged, expunging, links, lists, removed, summaries,
};
use crate::log::PackBytes;
use crate::log::entry;
use crate::log::pair;
use crate::log::range::{KeyPosition, Table};
use crate::log::record::{Batch, Kind, body_record_len, record_len};
use crate::shared::Shared;

/// Bytes up to which a summary is copied: half a page. LMDB gives a longer record pages of its
/// own, which are in memory until the transaction ends. A summary may have 10 MiB, and a command
/// may copy thousands of messages.
const SUMMARY_COPIED_MAX: usize = 2 << 10;

/// The outcome of one commit of a group.
#[derive(Debug)]
pub(crate) enum Applied {
    /// The commit is in the transaction.
    Done,
    /// The commit was made against another state.
    Conflict,
    /// The commit cannot be applied.
    Refused(StoreError),
}

/// The new bodies of a commit: each once, even if several of its messages have it.
#[derive(Default)]
struct NewBodies {
    places: Vec<(BodyId, BodyLocation)>,
    by_id: HashMap<BodyId, usize>,
}

impl NewBodies {
    fn add(&mut self, body: BodyId, location: BodyLocation) {
        self.by_id.insert(body, self.places.len());
        self.places.push((body, location));
    }

    /// Counts one more reference to a new body; `false` if it is not among them.
    fn count_again(&mut self, body: BodyId) -> bool {
        let Some(at) = self.by_id.get(&body) else { return false };
        let (_, location) = &mut self.places[*at];
        location.refs = location.refs.saturating_add(1);
        true
    }
}

/// The source of a copied message.
fn source(message: &NewMessage) -> Option<Origin> {
    match &message.content {
        Content::CopyOf { mailbox, uid } => Some((*mailbox, uid.value())),
        Content::New { .. } => None,
    }
}

/// The order in which neighbouring summaries are put, the longest of them this long.
///
/// LMDB splits a page that overflows at its end so that its last record moves along with the new
/// one. If a page could hold three records it keeps two, and if two, one. So one in three (or
/// two) is left out at first, and then put into the space that is left in its page. Short records
/// lose nearly nothing and keep their order.
fn filling_order(count: usize, longest: usize) -> impl Iterator<Item = usize> {
    /// The bytes of LMDB's page without its own head.
    const PAGE: usize = 4096 - 16;
    /// The bytes of a record in addition to the summary: its head, its place, the key, and what
    /// `put_summary` puts before it.
    const BESIDE: usize = 8 + 2 + 20 + SUMMARY_HEADER + CREATED_LEN;
    /// With six or more records to a page, a second round saves too little.
    const MANY: usize = 6;
    let to_a_page = PAGE / (longest + BESIDE);
    let every = if (2..MANY).contains(&to_a_page) { to_a_page } else { usize::MAX };
    let is_late = move |at: &usize| at % every == every - 1;
    (0..count).filter(move |at| !is_late(at)).chain((0..count).filter(is_late))
}

/// A transaction in progress.
pub(crate) struct Apply<'a, 'e> {
    /// To rebuild summaries from bodies.
    pub(crate) shared: &'a Shared,
    pub(crate) index: &'a Index,
    pub(crate) txn: Writing<'e>,
    pub(crate) batch: Batch,
    /// The next record's sequence number.
    pub(crate) seq: u64,
    /// The smallest number of neighbours that are copied as links.
    pub(crate) links_from: usize,
    pub(crate) scratch: &'a mut Scratch,
}

impl Apply<'_, '_> {
    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq - 1
    }

    fn log(&mut self, kind: Kind, id: Id, content: impl Into<bytes::Bytes>) {
        let seq = self.next_seq();
        self.batch.record(kind, seq, id, content);
    }

    /// Logs what checkpoints of ranges supersede, and counts it.
    fn log_counted(&mut self, kind: Kind, id: Id, content: impl Into<bytes::Bytes>) -> Result<()> {
        let (content, seq) = (content.into(), self.seq);
        let record = PackBytes { pack: self.batch.pack, bytes: record_len(content.len()) };
        self.log(kind, id, content);
        self.index.log_grew(&mut self.txn, kind, seq, record)
    }

    /// A commit on a mailbox.
    pub(crate) fn mailbox(&mut self, commit: &MailboxCommit) -> Result<Applied> {
        let stored = match self.verified(commit)? {
            Ok(stored) => stored,
            Err(why_not) => return Ok(why_not),
        };
        let content = entry::mailbox_content(commit);
        self.enter(commit, stored, record_len(content.len()))?;
        self.log(Kind::Mailbox, commit.mailbox.0, content);
        Ok(Applied::Done)
    }

    /// Commits on two mailboxes, both or neither: one record of the log holds both.
    pub(crate) fn pair(&mut self, pair: &[MailboxCommit; 2]) -> Result<Applied> {
        let [first, second] = pair;
        if first.mailbox == second.mailbox {
            return Ok(Applied::Refused(StoreError::Refused("both commits of a pair are on one mailbox")));
        }
        let heads = match (self.verified(first)?, self.verified(second)?) {
            (Ok(first), Ok(second)) => [first, second],
            (Err(why_not), _) | (_, Err(why_not)) => return Ok(why_not),
        };
        let content = pair::content(pair);
        let share = pair::share(record_len(content.len()));
        for (commit, stored) in pair.iter().zip(heads) {
            self.enter(commit, stored, share)?;
        }
        self.log(Kind::Pair, first.mailbox.0, content);
        Ok(Applied::Done)
    }

    /// The head of a mailbox to which a commit can be applied, or why it cannot be.
    fn verified(&self, commit: &MailboxCommit) -> Result<std::result::Result<StoredHead, Applied>> {
        let Some(stored) = self.index.head(&self.txn, commit.mailbox)? else {
            return Ok(Err(Applied::Refused(StoreError::NoMailbox(commit.mailbox))));
        };
        if stored.head.modseq != commit.expected {
            return Ok(Err(Applied::Conflict));
        }
        if commit.head.modseq <= commit.expected {
            let why = StoreError::Refused("a commit must raise the mod-sequence");
            return Ok(Err(Applied::Refused(why)));
        }
        // UIDs rise while UIDVALIDITY stays the same (RFC 9051 §2.3.1.1).
        if commit.head.uid_next < stored.head.uid_next {
            let why = StoreError::Refused("a commit must not lower UIDNEXT");
            return Ok(Err(Applied::Refused(why)));
        }
        if !self.sources_exist(&commit.appended)? {
            return Ok(Err(Applied::Conflict));
        }
        Ok(Ok(stored))
    }

    /// Writes a commit that was verified. `record`: bytes of the log that it takes.
    fn enter(&mut self, commit: &MailboxCommit, stored: StoredHead, record: u64) -> Result<()> {
        self.messages(commit)?;
        self.expunged(commit)?;
        let MailboxCommit { mailbox, ref head, ref appended, ref changed, ref expunged, .. } = *commit;
        let record = PackBytes { pack: self.batch.pack, bytes: record };
        let change = MailboxChange { mailbox, before: stored, head, changed, expunged, record };
        let new = appended.iter().map(|m| m.row);
        put_mailbox(self.index, &mut self.txn, change, new, self.scratch)
    }

    /// Logs a checkpoint of a mailbox. `before`: the counts of its log when the checkpoint was
    /// prepared. All these records are superseded.
    pub(crate) fn checkpoint(
        &mut self,
        mailbox: MailboxId,
        stored: StoredHead,
        (upto, before): (u64, &Logged),
        content: bytes::Bytes,
    ) -> Result<()> {
        let record = PackBytes { pack: self.batch.pack, bytes: record_len(content.len()) };
        let logged = stored.logged.after(before, self.seq, upto, record);
        self.log(Kind::Checkpoint, mailbox.0, content);
        self.index.add_dead(&mut self.txn, before.by_pack.iter())?;
        self.index.put_head(&mut self.txn, mailbox, &StoredHead { logged, ..stored })
    }

    /// Logs a checkpoint of a range. The pass continues at `to`.
    pub(crate) fn range_checkpoint(
        &mut self,
        table: Table,
        to: KeyPosition,
        content: bytes::Bytes,
    ) -> Result<()> {
        let bytes = record_len(content.len());
        let mut id = [0; 16];
        id[0] = table as u8;
        self.log_counted(Kind::Range, Id::from_bytes(id), content)?;
        let mut passes = self.index.passes(&self.txn)?;
        let dead = passes.advance(to, bytes);
        self.index.put_passes(&mut self.txn, &passes)?;
        self.index.add_dead(&mut self.txn, dead.iter())
    }

    /// Removes a compacted pack from the index and logs that its file must be removed.
    pub(crate) fn retire(&mut self, pack: u32) -> Result<()> {
        self.log_counted(Kind::Retire, Id::from_bytes([0; 16]), entry::retire_content(pack))?;
        let mut passes = self.index.passes(&self.txn)?;
        passes.left(pack);
        self.index.put_passes(&mut self.txn, &passes)?;
        self.index.retire_pack(&mut self.txn, pack)
    }

    /// Lowers the end of a sealed pack and logs it: its live records from there on have been
    /// copied.
    pub(crate) fn cut(&mut self, pack: u32, state: PackState) -> Result<()> {
        self.log_counted(Kind::Cut, Id::from_bytes([0; 16]), entry::abandon_content(pack, state.end))?;
        self.index.put_pack(&mut self.txn, pack, state)
    }

    /// Whether every message to be copied exists.
    fn sources_exist(&self, appended: &[NewMessage]) -> Result<bool> {
        let mut walk: Option<RowWalk> = None;
        for message in appended {
            let Content::CopyOf { mailbox, uid } = &message.content else { continue };
            let walk = match &mut walk {
                Some(walk) if walk.mailbox() == *mailbox => walk,
                other => other.insert(RowWalk::new(*mailbox)),
            };
            if walk.find(self.index, &self.txn, uid.value())?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bodies and summaries of new messages.
    fn messages(&mut self, commit: &MailboxCommit) -> Result<()> {
        let mut bodies = NewBodies::default();
        let mut rest = &commit.appended[..];
        let mut copies = NumSet::new();
        while let Some(message) = rest.first() {
            let is_copy = source(message).is_some();
            let same = rest.iter().take_while(|m| source(m).is_some() == is_copy).count();
            let (these, after) = rest.split_at(same);
            rest = after;
            if is_copy {
                these.iter().for_each(|m| copies.push(m.row.uid().value()));
                self.copies(commit.mailbox, these)?;
            } else {
                self.new_messages(commit.mailbox, these, &mut bodies)?;
            }
        }
        self.index.add_bodies(&mut self.txn, &bodies.places)?;
        if copies.is_empty() {
            return Ok(());
        }
        // Maintenance counts the references; see `maintain` for why no body can be lost
        // meanwhile.
        let seq = self.next_seq();
        copied::note(self.index, &mut self.txn, seq, commit.mailbox, &copies)
    }

    /// Bodies and summaries of messages that come from outside.
    fn new_messages(&mut self, to: MailboxId, new: &[NewMessage], bodies: &mut NewBodies) -> Result<()> {
        let mut longest = 0;
        for message in new {
            let Content::New { bytes, summary } = &message.content else { continue };
            longest = longest.max(summary.len());
            self.body(message, bytes, bodies)?;
        }
        let own = seed(to.0);
        for message in filling_order(new.len(), longest).filter_map(|at| new.get(at)) {
            let Content::New { summary, .. } = &message.content else { continue };
            let uid = message.row.uid().value();
            put_summary(&mut self.scratch.bytes, own, uid, message.into(), summary);
            summaries::put(self.index, &mut self.txn, to, uid, &self.scratch.bytes)?;
        }
        Ok(())
    }

    /// Writes a new body, or counts one more reference to a known one.
    fn body(&mut self, message: &NewMessage, bytes: &bytes::Bytes, new: &mut NewBodies) -> Result<()> {
        if let Some(location) = self.index.body(&self.txn, message.body)? {
            let location = BodyLocation { refs: location.refs.saturating_add(1), ..location };
            if location.len != bytes.len() as u64 && self.is_restored(message.body, location, bytes) {
                return self.other_form(message.body, location, bytes);
            }
            return self.index.put_body(&mut self.txn, message.body, location);
        }
        if new.count_again(message.body) {
            return Ok(());
        }
        let seq = self.next_seq();
        let offset = self.batch.body(seq, message.body, bytes);
        let len = bytes.len() as u64;
        new.add(message.body, BodyLocation { pack: self.batch.pack, offset, len, refs: 1 });
        Ok(())
    }

    /// Whether a stored body lost the rich original that these bytes have. `false` if the body
    /// cannot be read.
    fn is_restored(&self, body: BodyId, location: BodyLocation, bytes: &[u8]) -> bool {
        let begin = self.shared.reader.read(body, location, 0..FormHeader::LEN as u64);
        begin.is_ok_and(|begin| restores(&begin, bytes))
    }

    /// Stores a body in another form. While copies are not counted, the number of its messages is
    /// unknown.
    pub(crate) fn recode(&mut self, body: BodyId, bytes: &bytes::Bytes, holders: Holders) -> Result<Applied> {
        let Some(location) = self.index.body(&self.txn, body)? else { return Ok(Applied::Conflict) };
        if let Holders::AtMost(most) = holders
            && (u64::from(location.refs) > most || !copied::is_empty(self.index, &self.txn)?)
        {
            return Ok(Applied::Conflict);
        }
        self.other_form(body, location, bytes)?;
        Ok(Applied::Done)
    }

    /// The new record has the number of the old one, as if maintenance had moved it: a redo
    /// applies it, and a rebuild uses either.
    fn other_form(&mut self, body: BodyId, location: BodyLocation, bytes: &bytes::Bytes) -> Result<()> {
        let unreadable =
            |fault| StoreError::Corrupt(format!("body {body} in pack {}: {fault}", location.pack));
        let seq = self.shared.reader.seq(body, location).map_err(unreadable)?;
        let offset = self.batch.body(seq, body, bytes);
        let now = BodyLocation { pack: self.batch.pack, offset, len: bytes.len() as u64, ..location };
        self.index.put_body(&mut self.txn, body, now)?;
        let dead = PackBytes { pack: location.pack, bytes: body_record_len(location.len) };
        self.index.add_dead(&mut self.txn, std::iter::once(dead))
    }

    /// Adds the summary that a message lacks. It replaces an empty one, so that copies which link
    /// to it have it, too. A damaged record is not changed.
    pub(crate) fn add_summary(&mut self, message: &SummaryOf, summary: &[u8]) -> Result<CommitOutcome> {
        let read = |(mailbox, uid): Origin| -> Result<_> {
            let record = summaries::record(self.index, &self.txn, mailbox, uid)?;
            let record = record.filter(|record| self.index.holds(record));
            let found = record.and_then(|record| summary_from(seed(mailbox.0), uid, record));
            Ok(found.filter(|found| found.body == message.body))
        };
        let own = (message.mailbox, message.uid.value());
        let location = read(own)?.map(|found| found.kind.origin().unwrap_or(own));
        let Some(location @ (mailbox, uid)) = location else { return Ok(CommitOutcome::Conflict) };
        let found = read(location)?.filter(|found| matches!(found.kind, RecordKind::Summary([])));
        let Some(arrival) = found.map(|found| found.arrival()) else { return Ok(CommitOutcome::Conflict) };
        put_summary(&mut self.scratch.bytes, seed(mailbox.0), uid, arrival, summary);
        summaries::put(self.index, &mut self.txn, mailbox, uid, &self.scratch.bytes)?;
        Ok(CommitOutcome::Done)
    }

    /// Adds copied messages. Many neighbours link to their origins; others get copies of the
    /// summaries, unless these are long.
    fn copies(&mut self, to: MailboxId, copies: &[NewMessage]) -> Result<()> {
        let sources: Vec<Origin> = copies.iter().filter_map(source).collect();
        let mut origins = Vec::with_capacity(sources.len());
        let mut damaged = Vec::new();
        for run in links::runs(&sources) {
            let bodies = copies[run.clone()].iter().map(|m| m.body);
            let known = origins.len();
            match links::origins_of(self.index, &self.txn, &sources[run.clone()], bodies, &mut origins) {
                // One of them is damaged. Each is read by itself, and no copy links.
                Err(StoreError::Corrupt(_)) => {
                    origins.truncate(known);
                    origins.extend_from_slice(&sources[run.clone()]);
                    damaged.push(run);
                }
                found => found?,
            }
        }
        for run in links::runs(&origins) {
            let is_damaged = damaged.iter().any(|bad| bad.start < run.end && run.start < bad.end);
            let (copies, origins) = (&copies[run.clone()], &origins[run]);
            if copies.len() >= self.links_from && !is_damaged {
                links::put_links(self.index, &mut self.txn, to, copies, origins)?;
            } else {
                self.copied_summaries(to, copies, origins)?;
            }
        }
        Ok(())
    }

    /// Copies the summaries of a short run: all are read, then written. If one is long, its copy
    /// links to the origin.
    fn copied_summaries(&mut self, to: MailboxId, copies: &[NewMessage], origins: &[Origin]) -> Result<()> {
        let (mut made, mut places) = (Vec::new(), Vec::with_capacity(copies.len()));
        let (mut longest, mut linked) = (0, Vec::new());
        for (at, (message, &(from, origin))) in copies.iter().zip(origins).enumerate() {
            let value = summaries::record(self.index, &self.txn, from, origin)?;
            let found = value.and_then(|value| summary_from(seed(from.0), origin, value));
            let repaired;
            let summary = match found {
                Some(SummaryRef { body, kind: RecordKind::Summary(summary), .. }) if body == message.body => {
                    if summary.len() > SUMMARY_COPIED_MAX {
                        linked.push(at);
                        continue;
                    }
                    summary
                }
                // The copied message names its body. Its origin's record may be damaged.
                _ => {
                    let (mailbox, uid) = source(message).unwrap_or((from, origin));
                    repaired = summaries::for_copy(self.shared, &self.txn, mailbox, uid, message.body)?;
                    &repaired[..]
                }
            };
            let start = made.len();
            let uid = message.row.uid().value();
            add_summary(&mut made, seed(to.0), uid, message.into(), summary);
            places.push((uid, start..made.len()));
            longest = longest.max(summary.len());
        }
        for at in filling_order(places.len(), longest) {
            let Some((uid, place)) = places.get(at) else { continue };
            summaries::put(self.index, &mut self.txn, to, *uid, &made[place.clone()])?;
        }
        for at in linked {
            links::put_links(self.index, &mut self.txn, to, &copies[at..=at], &origins[at..=at])?;
        }
        Ok(())
    }

    /// Writes the notes of expunged messages: for clients, and for maintenance.
    fn expunged(&mut self, commit: &MailboxCommit) -> Result<()> {
        for (modseq, set) in &commit.expunged {
            expunged::note(self.index, &mut self.txn, commit.mailbox, *modseq, set)?;
            expunging::note(self.index, &mut self.txn, commit.mailbox, *modseq, set)?;
        }
        Ok(())
    }

    /// A change of a mailbox list.
    pub(crate) fn list(&mut self, commit: &ListCommit) -> Result<Applied> {
        let version = lists::version(self.index, &self.txn, commit.account)?;
        if version != commit.expected {
            return Ok(Applied::Conflict);
        }
        for entry in &commit.upsert {
            if removed::has(self.index, &self.txn, entry.id)? {
                let why = "a mailbox of this id was removed from the store, which never uses an id twice";
                return Ok(Applied::Refused(StoreError::Refused(why)));
            }
            if lists::is_in_another(self.index, &self.txn, commit.account, entry.id)? {
                return Ok(Applied::Refused(IN_ANOTHER_LIST));
            }
        }
        for name in &commit.subscribe {
            if lists::is_crowded(self.index, &self.txn, commit.account, name)? {
                let why = "too many subscribed names have the same checksum as this one";
                return Ok(Applied::Refused(StoreError::Refused(why)));
            }
        }
        lists::apply(self.index, &mut self.txn, commit)?;
        self.log_counted(Kind::List, commit.account.0, entry::list_content(commit))?;
        Ok(Applied::Done)
    }

    /// A change of the directory.
    pub(crate) fn directory(&mut self, change: &DirectoryChange) -> Result<Applied> {
        // Bytes: LMDB's keys end at 511.
        if change.name.is_empty() || change.name.len() > directory::NAME_MAX {
            let limit = directory::NAME_MAX as u64;
            return Ok(Applied::Refused(StoreError::TooLarge { what: "directory name in bytes", limit }));
        }
        let there = directory::directory_entry(self.index, &self.txn, &change.name)?;
        if there.map_or(0, |e| e.version) != change.expected {
            return Ok(Applied::Conflict);
        }
        directory::apply_directory(self.index, &mut self.txn, change)?;
        self.log_counted(Kind::Directory, Id::from_bytes([0; 16]), entry::directory_content(change))?;
        Ok(Applied::Done)
    }
}

/// The changes of a commit to a mailbox's rows and head, without new rows.
pub(crate) struct MailboxChange<'c> {
    pub(crate) mailbox: MailboxId,
    pub(crate) before: StoredHead,
    pub(crate) head: &'c MailboxHead,
    pub(crate) changed: &'c [Row],
    pub(crate) expunged: &'c [ExpungedUids],
    /// The pack of its log record, and the record's bytes.
    pub(crate) record: PackBytes,
}

/// Writes rows and head of a mailbox.
pub(crate) fn put_mailbox(
    index: &Index,
    txn: &mut Writing,
    change: MailboxChange<'_>,
    new: impl Iterator<Item = Row>,
    scratch: &mut Scratch,
) -> Result<()> {
    let MailboxChange { mailbox, before, head, changed, expunged, record } = change;
    let expunged = NumSet::from_ranges(expunged.iter().flat_map(|(_, set)| set.ranges().iter().copied()));
    rows::edit(index, txn, mailbox, changed, &expunged, scratch)?;
    rows::append(index, txn, mailbox, new, scratch)?;
    let mut stored = StoredHead { head: head.clone(), ..before };
    if stored.logged.grew(record, head.counts.messages, index.checkpoint_from) {
        due::note(index, txn, mailbox)?;
    }
    index.put_head(txn, mailbox, &stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_summary_has_its_turn_once() {
        for count in [0, 1, 2, 3, 100] {
            for longest in [0, 100, 1_200, 1_900, 5_000] {
                let mut order: Vec<usize> = filling_order(count, longest).collect();
                order.sort_unstable();
                assert!(order.into_iter().eq(0..count));
            }
        }
        assert!(filling_order(7, 1_200).eq([0, 1, 3, 4, 6, 2, 5]), "three to a page");
        assert!(filling_order(5, 1_900).eq([0, 2, 4, 1, 3]), "two to a page");
        assert!(filling_order(4, 300).eq(0..4), "many to a page");
    }
}
