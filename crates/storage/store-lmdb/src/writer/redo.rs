//! Redo: applies logged commits to an index that lacks them, for an opening and for a rebuild. No
//! other code applies them. Both read them as a [`Commit`].
//!
//! At open, and after a failed index commit, the *tail* of a pack is redone. It is the records
//! beyond the end that the index has of the pack. A server acknowledges a commit when its pack is
//! synced, so its tail holds acknowledged commits. The tail of a command has commits that were
//! not acknowledged; redoing them does no harm. An index restored from a backup is older than all
//! packs, and a redo brings it up to date.
//!
//! A rebuild redoes the whole log, in the order of its sequence numbers, into an empty index. It
//! chooses the records (`rebuild/replay.rs`).
//!
//! A commit is applied only if the mailbox, list or record is at the state that it was made
//! against. A rebuild of a damaged log meets commits whose predecessors are lost. It first adapts
//! the commits on mailboxes. Commits on lists and records have functions of their own here. A
//! rebuild also puts whole states into the index: those of checkpoints, and those of the old
//! index.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::{DirectoryChange, ListCommit, Result, Row, StoreError};

use crate::index::bodies::BodyLocation;
use crate::index::checksum::seed;
use crate::index::packs::PackState;
use crate::index::rows::{self, Scratch};
use crate::index::summaries::record::put_summary;
use crate::index::{Index, Writing, damaged, directory, expunged, expunging, lists, summaries};
use crate::log::commit::Commit;
use crate::log::disk::DiskFile;
use crate::log::entry::{self, LoggedMailbox, LoggedMessage};
use crate::log::pair;
use crate::log::reader::{PackReader, ReadFault};
use crate::log::record::{Header, Kind, PACK_HEADER, PackFormat, RECORD_HEADER, body_record_len};
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::{PackBytes, PackOffset};
use crate::shared::{Summarize, summary_of};
use crate::writer::apply::{MailboxChange, put_mailbox};

/// The outcome of redoing a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redone {
    /// The commit is in the transaction.
    Done,
    /// The index is at another state than the commit was made against.
    OtherState,
}

/// The time when messages get their summaries and bodies their reference counts.
#[derive(Clone, Copy)]
pub(crate) enum MakeSummaries<'a> {
    /// With each commit: for the few commits of a tail.
    AtOnce(&'a PackReader, Summarize),
    /// At the end, when expunged messages are removed: for a rebuild. Records are written without
    /// a summary.
    AtTheEnd,
}

/// Bytes of summaries that the redo of a tail writes: as many as a round of maintenance gives to
/// copies. LMDB keeps what a transaction writes in memory, and on a full disk the reserve must hold
/// it. A COPY of any number of messages, whose copies linked to long summaries, may be in the tail.
const SUMMARIES_MAX: usize = 4 << 20;
/// Bytes of bodies that it reads for them: a second's work. The start waits for it.
const BODIES_MAX: u64 = 256 << 20;
/// A summary longer than this may find no room although shorter ones do.
const LONG: usize = 64 << 10;

/// Changed messages of a commit that take little memory, whether or not they are there. For more,
/// the mailbox's chunks are counted.
pub(crate) const CHANGED_FEW: u64 = 10_000;

/// The summaries that a redo may still make. The other messages get empty ones: their first readers
/// make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SummaryRoom {
    summaries: usize,
    bodies: u64,
}

impl SummaryRoom {
    /// Whether a body of this length is read.
    fn takes_body(&mut self, len: u64) -> bool {
        match self.bodies.checked_sub(len) {
            Some(left) if self.summaries > 0 => {
                self.bodies = left;
                true
            }
            _ => false,
        }
    }

    /// The summary, or an empty one if there is no room for it.
    fn or_empty(&mut self, summary: Vec<u8>) -> Vec<u8> {
        match self.summaries.checked_sub(summary.len()) {
            Some(left) => {
                self.summaries = left;
                summary
            }
            None => {
                if summary.len() <= LONG {
                    // Others would hardly fit, either, and their bodies would be read in vain.
                    self.summaries = 0;
                }
                Vec::new()
            }
        }
    }
}

/// Applies logged commits in one transaction.
pub(crate) struct Redo<'a, 't, 'e> {
    pub(crate) index: &'a Index,
    pub(crate) txn: &'t mut Writing<'e>,
    pub(crate) summaries: MakeSummaries<'a>,
    pub(crate) scratch: &'a mut Scratch,
    /// Bodies since the last commit, with their locations.
    new_bodies: HashMap<BodyId, BodyLocation>,
    room: SummaryRoom,
}

impl<'a, 't, 'e> Redo<'a, 't, 'e> {
    pub(crate) fn new(
        index: &'a Index,
        txn: &'t mut Writing<'e>,
        summaries: MakeSummaries<'a>,
        scratch: &'a mut Scratch,
    ) -> Self {
        let room = SummaryRoom { summaries: SUMMARIES_MAX, bodies: BODIES_MAX };
        Self { index, txn, summaries, scratch, new_bodies: HashMap::new(), room }
    }

    /// Applies a commit of a tail. `record`: the pack of its record, and the record's bytes.
    fn commit(&mut self, commit: &Commit, record: PackBytes) -> Result<Redone> {
        match commit {
            Commit::Mailbox(mailbox, logged) => self.mailbox(*mailbox, logged, record),
            Commit::Pair(pair) => self.pair(pair, record),
            Commit::List(commit) => self.list(commit),
            Commit::Directory(change) => self.directory(change),
        }
    }

    /// A commit on a mailbox. A rebuild calls it for each half of a commit on two mailboxes, too:
    /// checkpoints may have one of them.
    pub(crate) fn mailbox(
        &mut self,
        mailbox: MailboxId,
        logged: &LoggedMailbox,
        record: PackBytes,
    ) -> Result<Redone> {
        let redone = self.apply(mailbox, logged, record)?;
        self.new_bodies.clear();
        Ok(redone)
    }

    fn apply(&mut self, mailbox: MailboxId, logged: &LoggedMailbox, record: PackBytes) -> Result<Redone> {
        let Some(stored) = self.index.head(self.txn, mailbox)? else { return Ok(Redone::OtherState) };
        if stored.head.modseq != logged.expected {
            return Ok(Redone::OtherState);
        }
        let changed = self.changed(mailbox, logged)?;
        self.messages(mailbox, logged)?;
        self.expunged(mailbox, logged)?;
        let LoggedMailbox { head, appended, expunged, .. } = logged;
        let change = MailboxChange { mailbox, before: stored, head, changed: &changed, expunged, record };
        put_mailbox(self.index, self.txn, change, appended.iter().map(|message| message.row), self.scratch)?;
        Ok(Redone::Done)
    }

    /// The changed rows. A forged record may name more messages than there are: they are counted
    /// before they take memory.
    fn changed(&self, mailbox: MailboxId, logged: &LoggedMailbox) -> Result<Vec<Row>> {
        let most = match logged.changed_count() {
            few if few <= CHANGED_FEW => few,
            _ => {
                let there = rows::count_max(self.index, self.txn, mailbox)?;
                there.saturating_add(logged.appended.len() as u64)
            }
        };
        logged.changed_rows(most).ok_or_else(damaged("a logged change of flags"))
    }

    /// Commits on two mailboxes, both or neither.
    fn pair(&mut self, pair: &[(MailboxId, LoggedMailbox); 2], record: PackBytes) -> Result<Redone> {
        for (mailbox, logged) in pair {
            let head = self.index.head(self.txn, *mailbox)?.map(|stored| stored.head.modseq);
            if head != Some(logged.expected) {
                return Ok(Redone::OtherState);
            }
        }
        for (mailbox, logged) in pair {
            self.apply(*mailbox, logged, PackBytes { bytes: pair::share(record.bytes), ..record })?;
        }
        self.new_bodies.clear();
        Ok(Redone::Done)
    }

    /// Summaries of new messages, and the references to their bodies.
    fn messages(&mut self, mailbox: MailboxId, logged: &LoggedMailbox) -> Result<()> {
        for LoggedMessage { row, arrival } in &logged.appended {
            let summary = match self.summaries {
                MakeSummaries::AtOnce(reader, summarize) => {
                    self.add_reference(arrival.body, reader, summarize)?
                }
                MakeSummaries::AtTheEnd => Vec::new(),
            };
            let uid = row.uid().value();
            put_summary(&mut self.scratch.bytes, seed(mailbox.0), uid, *arrival, &summary);
            summaries::put(self.index, self.txn, mailbox, uid, &self.scratch.bytes)?;
        }
        Ok(())
    }

    /// Counts one more reference to a body and makes its summary. The summary of a body that cannot
    /// be read is empty, and so is one for which there is no room: each read of the message tries
    /// again.
    fn add_reference(&mut self, body: BodyId, reader: &PackReader, summarize: Summarize) -> Result<Vec<u8>> {
        let location = match self.index.body(self.txn, body)? {
            Some(location) => BodyLocation { refs: location.refs.saturating_add(1), ..location },
            None => match self.new_bodies.get(&body) {
                Some(location) => *location,
                None => {
                    tracing::error!(%body, "no pack has the body of a message: the message cannot be read");
                    return Ok(Vec::new());
                }
            },
        };
        self.index.put_body(self.txn, body, location)?;
        if !self.room.takes_body(location.len) {
            return Ok(Vec::new());
        }
        match reader.read(body, location, 0..location.len) {
            Ok(bytes) => Ok(self.room.or_empty(summary_of(summarize, &bytes))),
            Err(fault) => {
                tracing::error!(%body, pack = location.pack, ?fault, "a body cannot be read");
                Ok(Vec::new())
            }
        }
    }

    /// Notes of expunged messages. With summaries to be made at the end, there is nothing for
    /// maintenance to remove.
    fn expunged(&mut self, mailbox: MailboxId, logged: &LoggedMailbox) -> Result<()> {
        for (modseq, set) in &logged.expunged {
            expunged::note(self.index, self.txn, mailbox, *modseq, set)?;
            if matches!(self.summaries, MakeSummaries::AtOnce(..)) {
                expunging::note(self.index, self.txn, mailbox, *modseq, set)?;
                continue;
            }
            for &range in set.ranges() {
                summaries::remove_range(self.index, self.txn, mailbox, range)?;
            }
        }
        Ok(())
    }

    /// A change of a mailbox list.
    pub(crate) fn list(&mut self, commit: &ListCommit) -> Result<Redone> {
        let version = lists::version(self.index, self.txn, commit.account)?;
        if version != commit.expected {
            return Ok(Redone::OtherState);
        }
        self.list_after_gap(commit).map(|()| Redone::Done)
    }

    /// Redoes a change of a list whose earlier changes are lost.
    pub(crate) fn list_after_gap(&mut self, commit: &ListCommit) -> Result<()> {
        lists::apply(self.index, self.txn, commit)
    }

    /// A change of the directory.
    pub(crate) fn directory(&mut self, change: &DirectoryChange) -> Result<Redone> {
        let there = directory::directory_entry(self.index, self.txn, &change.name)?;
        if there.map_or(0, |e| e.version) != change.expected {
            return Ok(Redone::OtherState);
        }
        self.directory_after_gap(change).map(|()| Redone::Done)
    }

    /// Redoes a change of a record whose earlier changes are lost. A change has the whole record.
    pub(crate) fn directory_after_gap(&mut self, change: &DirectoryChange) -> Result<()> {
        directory::apply_directory(self.index, self.txn, change)
    }
}

/// The first record beyond a pack's end in the index, if it is the next record that the index
/// lacks. `next`: the index's next sequence number.
pub(crate) fn first_of_tail(
    file: &dyn DiskFile,
    format: PackFormat,
    end: u64,
    next: u64,
) -> std::io::Result<Option<Kind>> {
    let mut bytes = [0; RECORD_HEADER];
    let at = end.max(PACK_HEADER as u64);
    let read = file.read_at(&mut bytes, at)?;
    let header = Header::from_bytes(&bytes[..read], format, at);
    Ok(header.filter(|header| follows(header, next) || is_moved(header, next)).map(|header| header.kind))
}

/// Packs that a tail abandons: it begins with a record for each.
pub(crate) fn abandoned_by_tail(mut scan: Scan<'_>) -> Vec<u32> {
    let mut packs = Vec::new();
    while let Ok(Some(found)) = scan.advance() {
        let content =
            Some(&found).filter(|f| f.header.kind == Kind::Abandon).and_then(|f| scan.content(f).ok());
        let Some(end) = content.and_then(|content| entry::abandon_from(&content)) else { break };
        packs.push(end.pack);
    }
    packs
}

/// Whether a record is the next one in the log. A commit with copies takes one more number for each
/// mailbox: that of the note about its copies.
fn follows(header: &Header, next: u64) -> bool {
    let notes = match header.kind {
        Kind::Mailbox => 1,
        Kind::Pair => 2,
        _ => 0,
    };
    (next..=next + notes).contains(&header.seq)
}

/// Whether maintenance copied a record here, under its old number.
fn is_moved(header: &Header, next: u64) -> bool {
    header.seq < next
}

/// A tail that is being redone.
pub(crate) struct TailRedo<'a, 't, 'e> {
    redo: Redo<'a, 't, 'e>,
    scan: Scan<'a>,
    pack: u32,
    /// The next sequence number.
    seq: u64,
    /// Packs that were retired. The set in the index is written once: a forged tail may be all
    /// retirements, and the set grows with each.
    retired_packs: Vec<u32>,
}

/// The end of the redo of a tail.
pub(crate) struct TailEnd {
    /// Bytes below this are in the index.
    pub(crate) end: u64,
    /// The next sequence number.
    pub(crate) seq: u64,
}

impl<'a, 't, 'e> TailRedo<'a, 't, 'e> {
    pub(crate) fn new(redo: Redo<'a, 't, 'e>, scan: Scan<'a>, pack: u32, seq: u64) -> Self {
        Self { redo, scan, pack, seq, retired_packs: Vec::new() }
    }

    /// Redoes whole commits for as long as each follows the one before.
    pub(crate) fn redo(mut self) -> Result<TailEnd> {
        let mut done = TailEnd { end: self.scan.offset(), seq: self.seq };
        while let Some(found) = whole(self.scan.advance())? {
            let Some(content) = whole(self.scan.content(&found).map(Some))? else { break };
            let applied = self.record(&found, &content);
            if !applied.map_err(|error| self.named(error, &found))? {
                break;
            }
            // A body counts only with a whole commit.
            if found.header.kind != Kind::Body || is_moved(&found.header, done.seq) {
                done = TailEnd { end: found.end(), seq: self.seq };
            }
        }
        if !self.retired_packs.is_empty() {
            self.redo.index.add_retired(self.redo.txn, &self.retired_packs.into_iter().collect())?;
        }
        Ok(done)
    }

    /// Names the record that cannot be applied.
    fn named(&self, error: StoreError, found: &LocatedRecord) -> StoreError {
        let (pack, at) = (self.pack, found.offset);
        match error {
            StoreError::Corrupt(why) => StoreError::Corrupt(format!(
                "the {:?} record in pack {pack} at byte {at} cannot be redone: {why}",
                found.header.kind
            )),
            other => other,
        }
    }

    /// Applies one record; `false` if it does not follow.
    fn record(&mut self, found: &LocatedRecord, content: &Bytes) -> Result<bool> {
        if is_moved(&found.header, self.seq) {
            return self.moved(found).map(|()| true);
        }
        if !follows(&found.header, self.seq) {
            return Ok(false);
        }
        let Header { kind, seq, id, len, .. } = found.header;
        let record = PackBytes { pack: self.pack, bytes: found.header.record_len() };
        let redone = match kind {
            Kind::Body => {
                let location = BodyLocation { pack: self.pack, offset: found.offset, len, refs: 1 };
                self.redo.new_bodies.insert(BodyId(id), location);
                Redone::Done
            }
            Kind::Mailbox | Kind::Pair | Kind::List | Kind::Directory => {
                match Commit::from_record(&found.header, content)? {
                    Some(commit) => self.redo.commit(&commit, record)?,
                    None => Redone::OtherState,
                }
            }
            Kind::Abandon => self.abandoned(content)?,
            Kind::Retire => self.retired(content)?,
            Kind::Cut => self.cut(content)?,
            // The index has these states. Maintenance writes new checkpoints.
            Kind::Checkpoint | Kind::Range => Redone::Done,
        };
        if redone == Redone::Done && kind.is_in_ranges() {
            self.redo.index.log_grew(self.redo.txn, kind, seq, record)?;
        }
        self.seq = seq + 1;
        Ok(redone == Redone::Done)
    }

    /// Points the index at a body that maintenance copied or `recode` rewrote. Copied log records
    /// are in the index already.
    fn moved(&mut self, found: &LocatedRecord) -> Result<()> {
        let body = BodyId(found.header.id);
        if found.header.kind != Kind::Body {
            return Ok(());
        }
        let (index, pack) = (self.redo.index, self.pack);
        let Some(location) = index.body(self.redo.txn, body)? else { return Ok(()) };
        let len = found.header.len;
        index.put_body(self.redo.txn, body, BodyLocation { pack, offset: found.offset, len, ..location })?;
        // Counting dead bytes of a pack under compaction does no harm.
        let dead = PackBytes { pack: location.pack, bytes: body_record_len(location.len) };
        index.add_dead(self.redo.txn, std::iter::once(dead))
    }

    fn abandoned(&mut self, content: &[u8]) -> Result<Redone> {
        let PackOffset { pack, offset: end } =
            entry::abandon_from(content).ok_or_else(damaged("an abandon record"))?;
        let (index, txn) = (self.redo.index, &mut *self.redo.txn);
        match index.pack(txn, pack)? {
            // It was redone further than the offset at which its writer abandoned it.
            Some(state) if state.end > end => return Ok(Redone::OtherState),
            Some(state) => index.put_pack(txn, pack, PackState { sealed: true, ..state })?,
            None => {}
        }
        Ok(Redone::Done)
    }

    fn cut(&mut self, content: &[u8]) -> Result<Redone> {
        let PackOffset { pack, offset: end } =
            entry::abandon_from(content).ok_or_else(damaged("a cut record"))?;
        let (index, txn) = (self.redo.index, &mut *self.redo.txn);
        if let Some(state) = index.pack(txn, pack)?.filter(|state| state.end > end) {
            let dead = state.dead.min(end);
            index.put_pack(txn, pack, PackState { end, dead, sealed: true, ..state })?;
        }
        Ok(Redone::Done)
    }

    fn retired(&mut self, content: &[u8]) -> Result<Redone> {
        let pack = entry::retire_from(content).ok_or_else(damaged("a retire record"))?;
        if self.redo.index.pack(self.redo.txn, pack)?.is_some() {
            self.redo.index.take_out_pack(self.redo.txn, pack)?;
        }
        self.retired_packs.push(pack);
        Ok(Redone::Done)
    }
}

/// An incomplete record ends a tail. A disk that does not answer is an error.
fn whole<T>(read: Result<Option<T>, ReadFault>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(found),
        Err(ReadFault::Io(e)) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
            Err(StoreError::Unavailable(format!("the tail of a pack: {e}")))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;
    use crate::log::record::Batch;

    const STORE: Id = Id::new(1, 1);

    /// The redo of a pack with these records, and the length of the pack.
    fn redone(index: &Index, txn: &mut Writing, fill: impl FnOnce(&mut Batch)) -> (Result<TailEnd>, u64) {
        let mut batch = Batch::new(STORE, 1, 0);
        batch.pack_header(STORE);
        fill(&mut batch);
        let bytes: Vec<u8> = batch.pieces().flatten().copied().collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        std::fs::write(&path, &bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mut scratch = Scratch::default();
        let redo = Redo::new(index, txn, MakeSummaries::AtTheEnd, &mut scratch);
        let scan = Scan::new(&file, PackFormat::bound(STORE, 1), 0, bytes.len() as u64);
        (TailRedo::new(redo, scan, 1, 1).redo(), bytes.len() as u64)
    }

    /// Each wrote the set of all before it again.
    #[test]
    fn a_tail_of_many_retirements_writes_their_set_once() {
        const PACKS: u32 = 2_000;
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        index.put_pack(&mut txn, 10, PackState::default()).unwrap();
        let (done, len) = redone(&index, &mut txn, |batch| {
            for number in 0..PACKS {
                // Every other number: the set has as many ranges.
                let content = entry::retire_content(10 + 2 * number);
                batch.record(Kind::Retire, u64::from(number) + 1, Id::from_bytes([0; 16]), content);
            }
        });
        let done = done.unwrap();
        assert_eq!((done.end, done.seq), (len, u64::from(PACKS) + 1));
        assert_eq!(index.ever_retired(&txn).unwrap().count(), u64::from(PACKS));
        assert_eq!(index.pack(&txn, 10).unwrap(), None, "maintenance removes its file");
        assert_eq!(index.retired_packs(&txn).unwrap(), [10]);
        let each = txn.demand() / u64::from(PACKS);
        assert!(each < 600, "{each} bytes of records of the index for each");
    }

    /// LMDB has no keys of such lengths: the error named neither the pack nor the record.
    #[test]
    fn a_record_that_cannot_be_redone_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 20, 8).unwrap();
        let change = DirectoryChange { name: "n".repeat(600), expected: 0, value: None };
        let (done, _) = redone(&index, &mut index.write().unwrap(), |batch| {
            batch.record(Kind::Directory, 1, STORE, entry::directory_content(&change));
        });
        let refusal = done.err().unwrap();
        let place = format!("in pack 1 at byte {PACK_HEADER}");
        assert!(matches!(&refusal, StoreError::Corrupt(why) if why.contains(&place)), "{refusal}");
    }

    #[test]
    fn summaries_are_made_while_there_is_room() {
        let mut room = SummaryRoom { summaries: 100 << 10, bodies: 1000 };
        assert!(room.takes_body(400));
        assert_eq!(room.or_empty(vec![1; 30 << 10]).len(), 30 << 10);
        // A long one is left out, and others fit.
        assert!(room.takes_body(400));
        assert!(room.or_empty(vec![1; 80 << 10]).is_empty());
        assert!(!room.takes_body(201), "too many bytes of bodies");
        assert!(room.takes_body(100));
        assert_eq!(room.or_empty(vec![1; 60 << 10]).len(), 60 << 10);
        // No room for a short one: no further body is read.
        assert!(room.takes_body(50));
        assert!(room.or_empty(vec![1; 20 << 10]).is_empty());
        assert!(!room.takes_body(1));
    }
}
