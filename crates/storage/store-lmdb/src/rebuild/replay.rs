//! Redoes the log into the new index, and skips damage.
//!
//! Commits on a mailbox form a chain: each names the mod-sequence it was made against. If a
//! commit of the chain is damaged, the mailbox is taken from the old index if that has more of
//! it. If not, the later commits are applied as far as possible, and the mailbox has a *gap*. It
//! gets a new UIDVALIDITY then, so that no client takes one message for another.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use posthaste_mail_model::{AccountId, MailboxId, ModSeq, NumSet};
use posthaste_store::{Counts, DirectoryChange, ListCommit, MailboxHead, Result, Row, StoreError};

use super::catalog::{Catalog, Entry};
use super::checkpoints::Checkpoints;
use super::pack::Pack;
use super::ranges::Ranges;
use super::salvage::{OldIndex, Salvaged};
use crate::index::heads::StoredHead;
use crate::index::packs::PackState;
use crate::index::rows::{self, RowWalk, Scratch};
use crate::index::{Index, Writing, damaged, directory, expunging, lists, removed};
use crate::log::PackBytes;
use crate::log::commit::Commit;
use crate::log::entry::{self, LoggedMailbox};
use crate::log::pair;
use crate::log::range::Table;
use crate::log::record::Kind;
use crate::writer::redo::{CHANGED_FEW, MakeSummaries, Redo, Redone};

/// Records of one index transaction.
const STEP: usize = 10_000;

/// A replay under way.
pub(crate) struct Replay<'a> {
    pub(crate) index: &'a Index,
    pub(crate) catalog: &'a Catalog,
    pub(crate) packs: &'a BTreeMap<u32, Pack>,
    pub(crate) old: Option<&'a OldIndex>,
    /// Ends of packs in the old index.
    pub(crate) old_packs: &'a BTreeMap<u32, PackState>,
    pub(crate) faults: &'a mut Vec<String>,
    /// What the old index has and the rebuild cannot use, a sentence each.
    pub(crate) left_out: BTreeSet<String>,
    /// Mailboxes that lack a commit.
    pub(crate) gaps: BTreeSet<MailboxId>,
    /// Whether every damaged record is in the old index, or names its mailbox.
    pub(crate) is_complete: bool,
    /// The next sequence number.
    pub(crate) next_seq: u64,
    /// Mailboxes that are removed somewhere in the log.
    removed: HashSet<MailboxId>,
    /// Directory records that the log removed, each with the version.
    removed_entries: HashMap<String, u64>,
    /// Mailboxes with a damaged record that the old index has. It may be their last record.
    doubtful: HashSet<MailboxId>,
    pub(super) checkpoints: Checkpoints,
    pub(super) ranges: Ranges,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        index: &'a Index,
        catalog: &'a Catalog,
        packs: &'a BTreeMap<u32, Pack>,
        old: Option<&'a OldIndex>,
        old_packs: &'a BTreeMap<u32, PackState>,
        faults: &'a mut Vec<String>,
    ) -> Self {
        let (gaps, removed, removed_entries) = (BTreeSet::new(), HashSet::new(), HashMap::new());
        let doubtful = HashSet::new();
        Self {
            index,
            catalog,
            packs,
            old,
            old_packs,
            faults,
            left_out: BTreeSet::new(),
            gaps,
            is_complete: true,
            next_seq: 1,
            removed,
            removed_entries,
            doubtful,
            checkpoints: Checkpoints::default(),
            ranges: Ranges::default(),
        }
    }

    /// Redoes everything.
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Result<()> {
        self.survey_log()?;
        self.restore_ranges()?;
        self.restore()?;
        let total = self.catalog.len(&*self.catalog.read()?)?.max(1);
        let mut scratch = Scratch::default();
        let mut done = 0;
        loop {
            let step = self.step()?;
            let mut txn = self.index.write()?;
            for same in &step {
                self.one(&mut txn, same, &mut scratch)?;
                done += same.len() as u64;
            }
            self.index.put_seq(&mut txn, self.next_seq)?;
            txn.commit()?;
            progress(done as f64 / total as f64);
            if step.is_empty() {
                break;
            }
        }
        self.take_newer_from_old()?;
        self.gaps.extend(self.doubtful.drain());
        Ok(())
    }

    /// The next records of the log that count: all of one sequence number.
    fn step(&self) -> Result<Vec<Vec<Entry>>> {
        let txn = self.catalog.read()?;
        let mut step: Vec<Vec<Entry>> = Vec::new();
        for entry in self.catalog.log(&txn, self.next_seq)? {
            let entry = entry?;
            if !self.is_counted(&entry) {
                continue;
            }
            let is_full = step.len() == STEP;
            match step.last_mut() {
                Some(same) if same.first().is_some_and(|e| e.seq() == entry.seq()) => same.push(entry),
                _ if is_full => break,
                _ => step.push(vec![entry]),
            }
        }
        Ok(step)
    }

    /// Whether some list commit removes a mailbox.
    pub(super) fn is_removed(&self, mailbox: MailboxId) -> bool {
        self.removed.contains(&mailbox)
    }

    /// A mailbox was removed.
    pub(super) fn note_removed(&mut self, mailbox: MailboxId) {
        self.removed.insert(mailbox);
    }

    /// Notes copies of a damaged record that a mailbox may lack. The old index can remove the
    /// doubt only if it has one of them. An older index would assign their UIDs again.
    pub(super) fn in_doubt(&mut self, mailbox: MailboxId, copies: &[Entry]) {
        if self.is_in_old(copies) {
            self.doubtful.insert(mailbox);
        } else {
            self.gaps.insert(mailbox);
        }
    }

    /// Any mailbox of the old index may lack commits that only that index has. A mailbox is taken
    /// from it if its head is intact there and the old index has more of it.
    pub(super) fn doubt_all(&mut self) {
        self.doubtful.extend(self.old.into_iter().flat_map(|old| old.mailboxes().intact));
    }

    /// Whether the old index has the record of these copies.
    fn is_in_old(&self, copies: &[Entry]) -> bool {
        copies.iter().any(|copy| OldIndex::covers(self.old_packs, copy.pack, copy.found.end()))
    }

    /// Finds mailboxes that some list commit removes, whose commits need not be redone, and
    /// checkpoints. Only records that the replay redoes count: a removal that was refused, and lies
    /// in a tail that was abandoned, removes nothing.
    fn survey_log(&mut self) -> Result<()> {
        let catalog = self.catalog;
        let txn = catalog.read()?;
        let mut same: Vec<Entry> = Vec::new();
        for entry in catalog.log(&txn, 0)? {
            let entry = entry?;
            if !self.is_counted(&entry) {
                continue;
            }
            if same.first().is_some_and(|first| first.seq() != entry.seq()) {
                self.examine(&same);
                same.clear();
            }
            same.push(entry);
        }
        self.examine(&same);
        Ok(())
    }

    /// Examines the record of one sequence number, and its copies.
    fn examine(&mut self, same: &[Entry]) {
        let Some(entry) = self.chosen(same) else { return };
        for copy in same.iter().filter(|other| other.is_copy_of(&entry)) {
            let id = copy.found.header.id;
            self.ranges.count(copy);
            match copy.found.header.kind {
                Kind::Checkpoint => self.checkpoints.found.entry(MailboxId(id)).or_default().push(*copy),
                Kind::Range => self.ranges.found.push(*copy),
                Kind::List => {
                    let content = self.content(copy).ok();
                    let commit = content.and_then(|content| entry::list_from(AccountId(id), &content));
                    self.removed.extend(commit.into_iter().flat_map(|c| c.remove));
                }
                _ => {}
            }
        }
    }

    /// Whether a record is below the end of its pack.
    fn is_counted(&self, entry: &Entry) -> bool {
        self.packs.get(&entry.pack).is_none_or(|pack| pack.counts(entry.found.offset))
    }

    pub(super) fn content(&self, entry: &Entry) -> std::result::Result<bytes::Bytes, String> {
        let Some(pack) = self.packs.get(&entry.pack) else { return Err("its pack is missing".into()) };
        pack.content(&entry.found)
    }

    /// Redoes the record of one sequence number, from any of its copies.
    fn one(&mut self, txn: &mut Writing, same: &[Entry], scratch: &mut Scratch) -> Result<()> {
        let Some(entry) = self.choose(same) else { return Ok(()) };
        self.next_seq = self.next_seq.max(entry.seq() + 1);
        let header = entry.found.header;
        let mailbox = MailboxId(header.id);
        let is_superseded = header.kind == Kind::Mailbox
            && (self.removed.contains(&mailbox) || self.checkpoints.has(mailbox, entry.seq()));
        if is_superseded {
            same.iter().for_each(|e| self.checkpoints.count_dead(e.pack, e.found.header.record_len()));
            return Ok(());
        }
        if !Commit::is_in(header.kind) {
            return Ok(());
        }
        let copies = same.iter().filter(|other| other.is_copy_of(&entry));
        let read = copies.map(|copy| self.content(copy)).reduce(|first, next| first.or(next));
        let applied = match read {
            Some(Ok(content)) => self.apply(txn, &entry, &content, scratch),
            Some(Err(why)) => Err(StoreError::Corrupt(why)),
            None => Ok(()),
        };
        if let Err(StoreError::Corrupt(why)) = applied {
            self.damaged_record(&entry, same, &why);
            return Ok(());
        }
        applied
    }

    /// The record of one sequence number that counts, and a fault if there are different ones.
    fn choose(&mut self, same: &[Entry]) -> Option<Entry> {
        let chosen = self.chosen(same)?;
        if same.iter().all(|other| other.is_copy_of(&chosen)) {
            return Some(chosen);
        }
        let places: Vec<String> =
            same.iter().map(|e| format!("pack {} byte {}", e.pack, e.found.offset)).collect();
        self.faults.push(format!(
            "different records have number {}: {}; the one in pack {} is used",
            chosen.seq(),
            places.join(", "),
            chosen.pack
        ));
        Some(chosen)
    }

    /// If different records have one number, a process wrote one of them and ended before its index
    /// commit. The old index decides. Without it, the record at the end of a pack is dropped.
    fn chosen(&self, same: &[Entry]) -> Option<Entry> {
        let first = *same.first()?;
        if same.iter().all(|other| other.is_copy_of(&first)) {
            return Some(first);
        }
        let is_covered = |e: &&Entry| OldIndex::covers(self.old_packs, e.pack, e.found.end());
        let behind = |e: &Entry| self.packs.get(&e.pack).map_or(0, |pack| pack.end - e.found.end());
        same.iter().find(is_covered).or_else(|| same.iter().max_by_key(|e| behind(e))).copied()
    }

    fn damaged_record(&mut self, entry: &Entry, same: &[Entry], why: &str) {
        let header = entry.found.header;
        let copies: Vec<Entry> = same.iter().filter(|other| other.is_copy_of(entry)).copied().collect();
        let what = match header.kind {
            Kind::Mailbox => {
                self.in_doubt(MailboxId(header.id), &copies);
                format!("a commit on mailbox {}", header.id)
            }
            Kind::Pair => {
                // Its head names one of the two mailboxes.
                self.is_complete &= self.is_in_old(&copies);
                self.in_doubt(MailboxId(header.id), &copies);
                format!("a commit on mailbox {} and another mailbox", header.id)
            }
            Kind::List => format!("a commit on the mailbox list of account {}", header.id),
            kind => format!("a {kind:?} record"),
        };
        self.faults.push(format!("{what} in pack {} at byte {}: {why}", entry.pack, entry.found.offset));
    }

    fn apply(
        &mut self,
        txn: &mut Writing,
        entry: &Entry,
        content: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let record = PackBytes { pack: entry.pack, bytes: entry.found.header.record_len() };
        match Commit::from_record(&entry.found.header, content)? {
            Some(Commit::Mailbox(mailbox, logged)) => self.mailbox(txn, (mailbox, logged), record, scratch),
            Some(Commit::Pair(pair)) => {
                let record = PackBytes { bytes: pair::share(record.bytes), ..record };
                for (mailbox, logged) in pair {
                    if self.removed.contains(&mailbox) || self.checkpoints.has(mailbox, entry.seq()) {
                        self.checkpoints.count_dead(record.pack, record.bytes);
                    } else {
                        self.mailbox(txn, (mailbox, logged), record, scratch)?;
                    }
                }
                Ok(())
            }
            Some(Commit::List(commit)) => self.list(txn, commit, entry.seq(), scratch),
            Some(Commit::Directory(change)) => self.directory(txn, change, entry.seq(), scratch),
            None => Ok(()),
        }
    }

    fn mailbox(
        &mut self,
        txn: &mut Writing,
        (mailbox, logged): (MailboxId, LoggedMailbox),
        record: PackBytes,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut redo = Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch);
        if redo.mailbox(mailbox, &logged, record)? == Redone::Done {
            return Ok(());
        }
        if self.index.head(txn, mailbox)?.is_none() {
            self.faults.push(format!("mailbox {mailbox} has commits before the one that creates it"));
            self.index.create_mailbox(txn, mailbox)?;
        }
        if self.modseq(txn, mailbox)? < logged.expected {
            self.adopt(txn, mailbox, "commits before it are damaged")?;
        }
        let now = self.modseq(txn, mailbox)?;
        if logged.head.modseq <= now {
            return Ok(());
        }
        if logged.expected != now && self.gaps.insert(mailbox) {
            let (from, to) = (now, logged.expected);
            self.faults.push(format!("mailbox {mailbox} lost its commits from mod-sequence {from} to {to}"));
        }
        let fitting = self.fitting(txn, mailbox, logged, now)?;
        Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch)
            .mailbox(mailbox, &fitting, record)
            .map(drop)
    }

    fn modseq(&self, txn: &Writing, mailbox: MailboxId) -> Result<ModSeq> {
        Ok(self.index.head(txn, mailbox)?.map_or(ModSeq::ZERO, |stored| stored.head.modseq))
    }

    /// Adapts a commit to a mailbox that lacks those before it: the commit changes the messages
    /// that exist.
    fn fitting(
        &self,
        txn: &Writing,
        mailbox: MailboxId,
        mut logged: LoggedMailbox,
        now: ModSeq,
    ) -> Result<LoggedMailbox> {
        logged.expected = now;
        // A forged set may have four billion UIDs, and the mailbox has those of its rows. Reading
        // all rows for each commit would take quadratic time.
        if logged.changed_count() > CHANGED_FEW {
            let there = rows::uids(self.index, txn, mailbox)?;
            return match logged.changes_within(&there) {
                true => Ok(logged),
                false => Err(damaged("a logged change of flags")()),
            };
        }
        let mut walk = RowWalk::new(mailbox);
        for (_, _, set) in &mut logged.changed {
            let mut there = NumSet::new();
            for uid in set.iter() {
                if walk.find(self.index, txn, uid)?.is_some() {
                    there.push(uid);
                }
            }
            *set = there;
        }
        Ok(logged)
    }

    /// Takes a mailbox from the old index, if that has more commits than were redone.
    fn adopt(&mut self, txn: &mut Writing, mailbox: MailboxId, why: &str) -> Result<()> {
        let now = self.modseq(txn, mailbox)?;
        let Some(old) = self.old else { return Ok(()) };
        let Some(found) = old.newer_mailbox(mailbox, now) else { return Ok(()) };
        let upto = found.stored.head.modseq;
        let left_out = old.adopt(mailbox, found, self.index, txn)?;
        self.doubtful.remove(&mailbox);
        self.faults.push(format!(
            "mailbox {mailbox} was taken from the old index from mod-sequence {now} to {upto}: {why}"
        ));
        if left_out > 0 {
            self.gaps.insert(mailbox);
            self.faults
                .push(format!("mailbox {mailbox}: {left_out} messages are damaged in the old index, too"));
        }
        Ok(())
    }

    fn list(&mut self, txn: &mut Writing, commit: ListCommit, seq: u64, scratch: &mut Scratch) -> Result<()> {
        let account = commit.account;
        if self.has_list(account, seq) {
            // The checkpoint of removed mailboxes may be an earlier one.
            return commit.remove.iter().try_for_each(|mailbox| self.put_removed(txn, *mailbox));
        }
        let redone = Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch).list(&commit)?;
        if redone == Redone::OtherState {
            let now = lists::version(self.index, txn, account)?;
            if commit.version <= now {
                return Ok(());
            }
            let old = self.old.and_then(|old| old.newer_list(account, now));
            let from = if old.is_some() { "the old index" } else { "the later commits alone" };
            self.faults.push(format!(
                "the mailbox list of account {account} lost its commits from version {now} to {}; it is taken from {from}",
                commit.expected
            ));
            if let Some(list) = old {
                lists::put_list(self.index, txn, &list)?;
            }
            if lists::version(self.index, txn, account)? < commit.version {
                Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch).list_after_gap(&commit)?;
            }
        }
        // The commits of a removed mailbox are not redone: there is nothing to remove.
        for mailbox in &commit.remove {
            expunging::forget_all(self.index, txn, *mailbox)?;
        }
        Ok(())
    }

    fn directory(
        &mut self,
        txn: &mut Writing,
        change: DirectoryChange,
        seq: u64,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if self.has_directory(&change.name, seq) {
            return Ok(());
        }
        let redone = Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch).directory(&change)?;
        if redone == Redone::OtherState {
            let now = directory::directory_entry(self.index, txn, &change.name)?.map_or(0, |e| e.version);
            if change.expected < now {
                return Ok(());
            }
            // Maintenance drops the records before it.
            Redo::new(self.index, txn, MakeSummaries::AtTheEnd, scratch).directory_after_gap(&change)?;
        }
        match change.value {
            None => drop(self.removed_entries.insert(change.name, change.expected.saturating_add(1))),
            Some(_) => drop(self.removed_entries.remove(&change.name)),
        }
        Ok(())
    }

    /// Takes values from the old index that no intact record has: the last commits of a mailbox,
    /// a list or a record.
    fn take_newer_from_old(&mut self) -> Result<()> {
        let Some(old) = self.old else { return Ok(()) };
        let mut txn = self.index.write()?;
        let why = "its last commits are damaged";
        let Salvaged { intact: accounts, left_out } = old.accounts();
        self.left_out.extend(left_out);
        for account in accounts {
            let now = lists::version(self.index, &txn, account)?;
            let list = old.list(account);
            if list.is_none() {
                self.left_out
                    .insert(format!("damaged in the old index: the mailbox list of account {account}"));
            }
            if let Some(list) = list.filter(|list| list.version > now) {
                self.faults.push(format!(
                    "the mailbox list of account {account} was taken from the old index: {why}"
                ));
                lists::put_list(self.index, &mut txn, &list)?;
            }
        }
        let Salvaged { intact: mailboxes, left_out } = old.mailboxes();
        self.left_out.extend(left_out);
        for mailbox in mailboxes {
            let is_removed = removed::has(self.index, &txn, mailbox)?;
            // A damaged head cannot remove the doubt.
            let Some(stored) = old.head(mailbox) else {
                self.left_out.insert(format!("damaged in the old index: the head of mailbox {mailbox}"));
                continue;
            };
            if is_removed || stored.head.modseq <= self.modseq(&txn, mailbox)? {
                // The old index has the doubtful state.
                self.doubtful.remove(&mailbox);
                continue;
            }
            self.adopt(&mut txn, mailbox, why)?;
        }
        txn.commit()?;
        self.take_newer_directory(old, why)
    }

    /// Does this for the directory's records.
    fn take_newer_directory(&mut self, old: &OldIndex, why: &str) -> Result<()> {
        let old_seq = old.next_numbers().seq;
        let mut from = Some(Vec::new());
        let mut damaged = 0;
        while let Some(key) = from {
            let page = old.directory(&key);
            damaged += page.damaged;
            if page.next.is_none() {
                self.left_out.extend(page.left_out(damaged));
            }
            from = page.next;
            let mut txn = self.index.write()?;
            for entry in page.entries {
                // The checkpoint is later than the old index: what it does not have was removed.
                if self.ranges.upto(Table::Directory, entry.name.as_bytes()) >= old_seq {
                    continue;
                }
                let now = directory::directory_entry(self.index, &txn, &entry.name)?.map_or(0, |e| e.version);
                let removed = self.removed_entries.get(&entry.name).copied().unwrap_or(0);
                if entry.version > now.max(removed) {
                    let name = &entry.name;
                    self.faults.push(format!("directory record {name} was taken from the old index: {why}"));
                    directory::put_record(self.index, &mut txn, name, entry.version, &entry.value)?;
                }
            }
            txn.commit()?;
        }
        Ok(())
    }

    /// Counts the messages of mailboxes with gaps: the counts in their commits assume that
    /// nothing is lost.
    pub(crate) fn recount(&self, txn: &mut Writing) -> Result<()> {
        for &mailbox in &self.gaps {
            let Some(stored) = self.index.head(txn, mailbox)? else { continue };
            let mut rows: Vec<Row> = Vec::new();
            for chunk in rows::chunks(self.index, txn, mailbox)? {
                chunk?.add_rows(&mut rows)?;
            }
            let counts = counts_of(&rows);
            // Expunges before the gap are not known completely.
            let forgotten = stored.head.modseq;
            let head = MailboxHead { counts, ..stored.head };
            let logged = stored.logged;
            self.index.put_head(txn, mailbox, &StoredHead { head, forgotten, logged })?;
        }
        Ok(())
    }
}

fn counts_of(rows: &[Row]) -> Counts {
    let mut counts = Counts::default();
    for row in rows {
        counts.add(row);
    }
    counts
}
