//! The oracle: an in-memory engine, simple enough to be checked by reading. Every other engine is
//! compared with it.
//!
//! It also refuses calls that no engine should ever get. They are a commit whose counts do not add
//! up, rows out of order, and a UID assigned twice. So a test on the oracle also tests the store
//! above it. Its data is lost when it is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, BodyId, FlagSet, MailboxId, ModSeq, NumSet, Uid};

use crate::change::{CommitOutcome, Content, ExpungedUids, MailboxCommit, NewMessage};
use crate::engine::{
    BodyRange, Changes, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders, Recodes, Report, Stored,
    SummaryOf, Unreadable, Visit,
};
use crate::error::{Result, StoreError};
use crate::form::{is_body_of, restores};
use crate::head::{Counts, MailboxHead};
use crate::list::{IN_ANOTHER_LIST, ListCommit, MailboxList};
use crate::pages::page_within;
use crate::row::Row;

/// An in-memory engine.
pub struct MemoryEngine {
    state: Arc<Mutex<OracleState>>,
    /// Commits made through this handle.
    own: Mutex<u64>,
}

#[derive(Default)]
struct OracleState {
    /// Commits made through any handle.
    commits: u64,
    directory: BTreeMap<String, DirectoryEntry>,
    lists: BTreeMap<AccountId, MailboxList>,
    mailboxes: BTreeMap<MailboxId, OracleMailbox>,
    bodies: BTreeMap<BodyId, Bytes>,
}

#[derive(Default, Clone)]
struct OracleMailbox {
    head: MailboxHead,
    messages: BTreeMap<Uid, Message>,
    expunged: Vec<ExpungedUids>,
    /// Expunges up to this mod-sequence are forgotten.
    forgotten: ModSeq,
    /// Messages whose summaries were damaged by a test.
    unreadable: NumSet,
}

#[derive(Clone)]
struct Message {
    row: Row,
    body: BodyId,
    saved: i64,
    created: ModSeq,
    summary: Bytes,
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryEngine {
    /// An empty store.
    pub fn new() -> Self {
        Self { state: Arc::default(), own: Mutex::new(0) }
    }

    /// A handle of the same store, as another process has it: its epoch changes with the commits
    /// made through other handles.
    pub fn another_process(&self) -> Self {
        let own = self.state.lock().commits;
        Self { state: Arc::clone(&self.state), own: Mutex::new(own) }
    }

    /// Forgets which messages were expunged before now, as an engine may after a while.
    pub fn forget_expunged(&self, mailbox: MailboxId) {
        if let Some(folder) = self.state.lock().mailboxes.get_mut(&mailbox) {
            folder.expunged.clear();
            folder.forgotten = folder.head.modseq;
        }
    }

    /// Damages the summaries of messages, as a disk may: the messages exist and cannot be read.
    pub fn damage_summaries(&self, mailbox: MailboxId, uids: &NumSet) {
        if let Some(folder) = self.state.lock().mailboxes.get_mut(&mailbox) {
            folder.unreadable = folder.unreadable.union(uids);
        }
    }

    /// Loses bodies, as a disk may.
    pub fn lose_body(&self, body: BodyId) {
        self.state.lock().bodies.remove(&body);
    }

    /// Changes the state; counts as a commit if `change` returns `Done`.
    fn commit_with(
        &self,
        change: impl FnOnce(&mut OracleState) -> Result<CommitOutcome>,
    ) -> Result<CommitOutcome> {
        let mut own = self.own.lock();
        let mut state = self.state.lock();
        let outcome = change(&mut state)?;
        if outcome == CommitOutcome::Done {
            state.commits += 1;
            *own += 1;
        }
        Ok(outcome)
    }
}

impl OracleState {
    fn mailbox(&self, mailbox: MailboxId) -> Result<&OracleMailbox> {
        self.mailboxes.get(&mailbox).ok_or(StoreError::NoMailbox(mailbox))
    }

    fn commit(&mut self, commit: MailboxCommit) -> Result<CommitOutcome> {
        let folder = self.mailbox(commit.mailbox)?;
        if folder.head.modseq != commit.expected {
            return Ok(CommitOutcome::Conflict);
        }
        let Some(arrived) = self.arrivals(&commit)? else { return Ok(CommitOutcome::Conflict) };
        let mut messages = folder.messages.clone();
        for (_, uids) in &commit.expunged {
            messages.retain(|uid, _| !uids.contains(uid.value()));
        }
        for row in &commit.changed {
            let message =
                messages.get_mut(&row.uid()).ok_or_else(|| wrong("a changed message does not exist"))?;
            message.row = *row;
        }
        for message in &arrived {
            if messages.insert(message.row.uid(), message.clone()).is_some() {
                return Err(wrong("a UID is given twice"));
            }
        }
        verify(&folder.head, &commit, &messages)?;
        for message in &commit.appended {
            if let Content::New { bytes, .. } = &message.content {
                let stored = self.bodies.entry(message.body).or_insert_with(|| bytes.clone());
                if restores(stored, bytes) {
                    stored.clone_from(bytes);
                }
            }
        }
        let folder = self.mailboxes.get_mut(&commit.mailbox).ok_or(StoreError::NoMailbox(commit.mailbox))?;
        folder.messages = messages;
        folder.head = commit.head;
        folder.expunged.extend(commit.expunged);
        Ok(CommitOutcome::Done)
    }

    /// The number of messages with a body.
    fn references(&self, body: BodyId) -> u64 {
        let messages = self.mailboxes.values().flat_map(|folder| folder.messages.values());
        messages.filter(|message| message.body == body).count() as u64
    }

    /// The messages to be added; `None` if a message to be copied does not exist.
    fn arrivals(&self, commit: &MailboxCommit) -> Result<Option<Vec<Message>>> {
        let mut arrived = Vec::new();
        for new in &commit.appended {
            let summary = match &new.content {
                Content::New { summary, .. } => summary.clone(),
                Content::CopyOf { mailbox, uid } => {
                    let origin = self.mailboxes.get(mailbox).and_then(|folder| folder.messages.get(uid));
                    match origin {
                        Some(origin) if origin.body == new.body => origin.summary.clone(),
                        Some(_) => return Err(wrong("a copy has another body than its origin")),
                        None => return Ok(None),
                    }
                }
            };
            let &NewMessage { row, body, saved, created, .. } = new;
            arrived.push(Message { row, body, saved, created, summary });
        }
        Ok(Some(arrived))
    }
}

/// The conditions of every commit.
fn verify(old: &MailboxHead, commit: &MailboxCommit, after: &BTreeMap<Uid, Message>) -> Result<()> {
    let head = &commit.head;
    let ascend = |mut uids: std::slice::Windows<'_, Uid>| uids.all(|w| w[0] < w[1]);
    let new: Vec<Uid> = commit.appended.iter().map(|m| m.row.uid()).collect();
    let changed: Vec<Uid> = commit.changed.iter().map(Row::uid).collect();
    let touched = commit.appended.iter().map(|m| &m.row).chain(&commit.changed);
    let renamed = head.keywords.renamed_since(&old.keywords);
    let is_touched = |uid: &Uid| new.binary_search(uid).is_ok() || changed.binary_search(uid).is_ok();
    let mut untouched = after.iter().filter(|(uid, _)| !is_touched(uid)).map(|(_, message)| message);
    let rules = [
        (head.modseq > commit.expected, "the mod-sequence does not rise"),
        (ascend(new.windows(2)) && ascend(changed.windows(2)), "UIDs are not in ascending order"),
        (new.iter().all(|uid| *uid >= old.uid_next && *uid < head.uid_next), "a new UID is out of bounds"),
        (commit.appended.iter().all(|m| m.created <= m.row.modseq()), "a message came after its last change"),
        (head.uid_next >= old.uid_next, "UIDNEXT falls"),
        (head.first_recent >= old.first_recent, "the first recent UID falls"),
        (
            touched.clone().all(|r| r.modseq() > commit.expected && r.modseq() <= head.modseq)
                // A transfer adds rows with their old mod-sequences, in commits above all of them.
                || touched.clone().all(|r| r.modseq() < head.modseq),
            "a row's mod-sequence is out of bounds",
        ),
        (
            head.keywords.keywords().len() >= old.keywords.keywords().len()
                && untouched.all(|m| !m.row.flags().intersects(renamed)),
            "a keyword that a message has lost its slot",
        ),
        (counts(after) == head.counts, "the counts do not add up"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(wrong(what)),
        None => Ok(()),
    }
}

fn wrong(what: &str) -> StoreError {
    StoreError::Corrupt(format!("the oracle was given a commit that cannot be: {what}"))
}

fn counts(messages: &BTreeMap<Uid, Message>) -> Counts {
    let with = |flag| messages.values().filter(|m| m.row.flags().contains(flag)).count() as u32;
    Counts {
        messages: messages.len() as u32,
        unseen: messages.len() as u32 - with(FlagSet::SEEN),
        deleted: with(FlagSet::DELETED),
        bytes: messages.values().map(|m| m.row.weight()).sum(),
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    fn epoch(&self) -> Epoch {
        let own = self.own.lock();
        Some(self.state.lock().commits - *own)
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(self.state.lock().directory.get(name).cloned())
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let state = self.state.lock();
        let after = |name: &str| after.is_none_or(|after| name > after);
        let entries = state.directory.values().filter(|e| e.name.starts_with(prefix) && after(&e.name));
        Ok(page_within(entries.take(limit).cloned(), octets))
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let entries = self.directory_scan(prefix, after, limit).await?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.commit_with(|state| {
            let version = state.directory.get(&change.name).map_or(0, |e| e.version);
            if version != change.expected {
                return Ok(CommitOutcome::Conflict);
            }
            let name = change.name;
            match change.value {
                Some(value) => {
                    let entry = DirectoryEntry { name: name.clone(), version: version + 1, value };
                    state.directory.insert(name, entry);
                }
                None => {
                    state.directory.remove(&name);
                }
            }
            Ok(CommitOutcome::Done)
        })
    }

    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        let state = self.state.lock();
        Ok(state.lists.get(&account).cloned().unwrap_or_else(|| MailboxList::empty(account)))
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.commit_with(|state| {
            let empty = || MailboxList::empty(commit.account);
            let version = state.lists.get(&commit.account).map_or(ModSeq::ZERO, |list| list.version);
            if version != commit.expected {
                return Ok(CommitOutcome::Conflict);
            }
            let others = state.lists.values().filter(|list| list.account != commit.account);
            let mut taken = others.flat_map(|list| &list.entries).map(|entry| entry.id);
            if taken.any(|id| commit.upsert.iter().any(|entry| entry.id == id)) {
                return Err(IN_ANOTHER_LIST);
            }
            let list = state.lists.entry(commit.account).or_insert_with(empty);
            let next = list.apply(&commit);
            let names: BTreeSet<_> = next.entries.iter().map(|e| &e.name).collect();
            if commit.version <= commit.expected || names.len() != next.entries.len() {
                return Err(wrong("a list's version does not rise, or a name is there twice"));
            }
            *list = next;
            for entry in &commit.upsert {
                state.mailboxes.entry(entry.id).or_default();
            }
            for id in &commit.remove {
                state.mailboxes.remove(id);
            }
            Ok(CommitOutcome::Done)
        })
    }

    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let state = self.state.lock();
        Ok(mailboxes.iter().map(|id| state.mailboxes.get(id).map(|folder| folder.head.clone())).collect())
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        let state = self.state.lock();
        let folder = state.mailbox(mailbox)?;
        let all: Vec<Row> = folder.messages.values().map(|m| m.row).collect();
        // Slices of an odd length, so that no caller relies on a round one.
        all.chunks(101).for_each(rows);
        Ok(folder.head.clone())
    }

    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        let state = self.state.lock();
        let folder = state.mailbox(mailbox)?;
        let later = folder.expunged.iter().filter(|(modseq, _)| *modseq > since);
        Ok(Changes {
            head: folder.head.clone(),
            rows: folder.messages.values().map(|m| m.row).filter(|r| r.modseq() > since).collect(),
            expunged: NumSet::from_ranges(later.flat_map(|(_, uids)| uids.ranges().iter().copied())),
            complete: since >= folder.forgotten,
        })
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.commit_with(|state| state.commit(commit))
    }

    fn commits_pairs(&self) -> bool {
        true
    }

    async fn commit_pair(&self, [first, second]: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.commit_with(|state| {
            if first.mailbox == second.mailbox {
                return Err(wrong("both commits of a pair are on one mailbox"));
            }
            let before = state.mailboxes.clone();
            let mut outcome = state.commit(first);
            if matches!(outcome, Ok(CommitOutcome::Done)) {
                outcome = state.commit(second);
            }
            if !matches!(outcome, Ok(CommitOutcome::Done)) {
                state.mailboxes = before;
            }
            outcome
        })
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        let state = self.state.lock();
        let folder = state.mailbox(mailbox)?;
        let mut unreadable = NumSet::new();
        for (uid, message) in folder.messages.iter().filter(|(uid, _)| uids.contains(uid.value())) {
            if folder.unreadable.contains(uid.value()) {
                unreadable.push(uid.value());
                continue;
            }
            let &Message { body, saved, created, ref summary, .. } = message;
            let stored = Stored { uid: *uid, body, saved, created, summary, is_shared: false };
            if visit(stored) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(Unreadable(unreadable))
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        let state = self.state.lock();
        let bytes =
            state.bodies.get(&body).ok_or_else(|| StoreError::Corrupt(format!("there is no body {body}")))?;
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(bytes.len());
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        Ok(bytes.slice(start..end))
    }

    fn recodes(&self) -> Recodes {
        Recodes::Everything
    }

    async fn recode(&self, body: BodyId, bytes: Bytes, holders: Holders) -> Result<CommitOutcome> {
        let mut state = self.state.lock();
        if let Holders::AtMost(most) = holders
            && state.references(body) > most
        {
            return Ok(CommitOutcome::Conflict);
        }
        let Some(stored) = state.bodies.get_mut(&body) else { return Ok(CommitOutcome::Conflict) };
        *stored = bytes;
        Ok(CommitOutcome::Done)
    }

    async fn add_summary(&self, message: SummaryOf, summary: Bytes) -> Result<CommitOutcome> {
        let mut state = self.state.lock();
        let folder = state.mailboxes.get_mut(&message.mailbox);
        let found = folder.and_then(|folder| folder.messages.get_mut(&message.uid));
        let Some(found) = found.filter(|found| found.body == message.body && found.summary.is_empty()) else {
            return Ok(CommitOutcome::Conflict);
        };
        found.summary = summary;
        Ok(CommitOutcome::Done)
    }

    async fn references(&self, body: BodyId) -> Result<u64> {
        Ok(self.state.lock().references(body))
    }

    async fn maintain(&self) -> Result<Report> {
        let mut state = self.state.lock();
        let used: BTreeSet<BodyId> =
            state.mailboxes.values().flat_map(|folder| folder.messages.values().map(|m| m.body)).collect();
        let mut report = Report::default();
        state.bodies.retain(|id, bytes| {
            let keep = used.contains(id);
            if !keep {
                report.examined += 1;
                report.reclaimed_bytes += bytes.len() as u64;
            }
            keep
        });
        Ok(report)
    }

    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        let state = self.state.lock();
        let mut report = Report::default();
        for (id, folder) in &state.mailboxes {
            if counts(&folder.messages) != folder.head.counts {
                report.faults.push(format!("mailbox {id}: the counts do not add up"));
            }
            for (uid, message) in &folder.messages {
                report.examined += 1;
                match state.bodies.get(&message.body) {
                    Some(bytes) if is_body_of(bytes, bytes.len() as u64, &message.row) => {}
                    _ => report.faults.push(format!(
                        "mailbox {id}, UID {uid}: body {} is missing or differs",
                        message.body
                    )),
                }
            }
        }
        progress(1.0);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, Factory};

    struct Memory;

    #[async_trait]
    impl Factory for Memory {
        async fn open(&self) -> Arc<dyn Engine> {
            Arc::new(MemoryEngine::new())
        }
        async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
            engine
        }
        fn seeds(&self) -> Vec<u64> {
            (1..20).collect()
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_contract_holds() {
        suite::run_all(&Memory).await;
    }

    #[tokio::test]
    async fn mail_moves() {
        suite::mail_moves(Arc::new(MemoryEngine::new()), Arc::new(MemoryEngine::new())).await;
    }
}
