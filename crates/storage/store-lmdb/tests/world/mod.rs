//! A store and its expected contents: every commit that was acknowledged is made in both.

#![allow(clippy::unwrap_used, dead_code)]

pub mod disk;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_mail_model::{
    AccountId, BodyId, FlagSet, Id, MailboxId, MailboxName, ModSeq, NumSet, UidValidity,
};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{
    CommitOutcome, Content, Counts, DirectoryChange, Engine, ExpungedUids, Holders, ListCommit,
    MailboxCommit, MailboxEntry, MailboxHead, MailboxList, NewMessage, Result, Row, SummaryOf,
};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

/// A stored body as clients see it.
pub fn seen(stored: &[u8]) -> &[u8] {
    match FormHeader::of(stored) {
        Some(_) => &stored[FormHeader::LEN..],
        None => stored,
    }
}

/// The stored forms that delivery would make of a message.
pub fn summarize(bytes: &[u8]) -> Vec<u8> {
    let bytes = seen(bytes);
    let head = &bytes[..bytes.len().min(24)];
    format!("{} octets, begins {head:?}", bytes.len()).into_bytes()
}

/// Options for a test: a small map, small packs, links for the smallest copies, and rounds of
/// maintenance that leave something over.
pub fn small() -> Options {
    Options {
        map_bytes: 1 << 28,
        readers: 64,
        pack_bytes: 1 << 20,
        links_from: 2,
        reserve_bytes: 16 << 10,
        round_messages: 20,
        checkpoint_from: 1 << 10,
        ..Options::new(summarize)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub row: Row,
    pub body: BodyId,
    pub saved: i64,
    pub created: ModSeq,
    pub bytes: Bytes,
}

#[derive(Clone, Default)]
pub struct Held {
    pub head: MailboxHead,
    pub messages: BTreeMap<u32, Message>,
    pub expunged: Vec<ExpungedUids>,
}

/// The expected contents.
#[derive(Clone)]
pub struct World {
    pub list: MailboxList,
    pub boxes: BTreeMap<MailboxId, Held>,
    pub directory: BTreeMap<String, (u64, Bytes)>,
    pub removed: Vec<MailboxId>,
    /// How it would be if the first of the latest commits that failed had been done: a crash may
    /// leave that.
    pub doubt: Option<Box<World>>,
    ids: u64,
}

fn set(uids: &[u32]) -> NumSet {
    uids.iter().copied().collect()
}

impl World {
    pub fn new() -> Self {
        Self::of_account(1)
    }

    pub fn of_account(n: u64) -> Self {
        let list = MailboxList::empty(AccountId(Id::new(n, 0)));
        let (boxes, directory) = (BTreeMap::new(), BTreeMap::new());
        Self { list, boxes, directory, removed: Vec::new(), doubt: None, ids: n << 32 }
    }

    /// Takes over the new state if the engine reports success, or notes it as possible.
    fn outcome(&mut self, after: Self, outcome: Result<CommitOutcome>) -> Result<CommitOutcome> {
        match &outcome {
            Ok(CommitOutcome::Done) => *self = Self { doubt: None, ..after },
            Ok(CommitOutcome::Conflict) => {}
            Err(_) => {
                self.doubt.get_or_insert_with(|| Box::new(Self { doubt: None, ..after }));
            }
        }
        outcome
    }

    /// The world as the engine has it after a crash: with or without the commit that is in doubt.
    pub async fn found_in(&self, engine: &LmdbEngine) -> Self {
        let Some(doubt) = &self.doubt else { return self.clone() };
        let ids: Vec<_> = doubt.boxes.keys().copied().collect();
        let heads = engine.heads(&ids).await.unwrap();
        let has_heads =
            heads.iter().zip(doubt.boxes.values()).all(|(there, held)| there.as_ref() == Some(&held.head));
        let list = engine.load_list(self.list.account).await.unwrap();
        let entries = engine.directory_scan("", None, usize::MAX).await.unwrap();
        let versions = entries.iter().map(|e| (&e.name, e.version));
        let has_directory = versions.eq(doubt.directory.iter().map(|(name, (version, _))| (name, *version)));
        let done = has_heads && has_directory && list == doubt.list;
        if done { (**doubt).clone() } else { Self { doubt: None, ..self.clone() } }
    }

    fn id(&mut self) -> Id {
        self.ids += 1;
        Id::new(self.ids, 7)
    }

    /// Like those of real messages, ids of bodies have little in common: a flipped bit makes none
    /// of another.
    fn body_id(&mut self) -> BodyId {
        self.ids += 1;
        let random = u128::from(self.ids).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        BodyId(Id::new(self.ids, random))
    }

    fn list_commit(&self) -> ListCommit {
        ListCommit {
            account: self.list.account,
            expected: self.list.version,
            version: self.list.version.next(),
            upsert: Vec::new(),
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: self.list.uid_validity_last,
        }
    }

    async fn commit_list(&mut self, engine: &LmdbEngine, commit: ListCommit) -> Result<CommitOutcome> {
        let mut after = self.clone();
        after.list = self.list.apply(&commit);
        for entry in &commit.upsert {
            after.boxes.entry(entry.id).or_default();
        }
        for id in &commit.remove {
            after.boxes.remove(id);
            after.removed.push(*id);
        }
        let outcome = engine.commit_list(commit).await;
        self.outcome(after, outcome)
    }

    pub async fn create(&mut self, engine: &LmdbEngine, name: &str) -> Result<MailboxId> {
        let id = MailboxId(self.id());
        let name = MailboxName::new(name).unwrap();
        let mut commit = self.list_commit();
        commit.uid_validity_last += 1;
        let uid_validity = UidValidity::new(commit.uid_validity_last).unwrap();
        commit.subscribe.push(name.clone());
        commit.upsert.push(MailboxEntry { id, name, uid_validity, special_use: None });
        self.commit_list(engine, commit).await?;
        Ok(id)
    }

    /// Gives the body of a message a header, or takes it away. Clients see the same.
    pub async fn recode(&self, engine: &LmdbEngine, mailbox: MailboxId, uid: u32) -> Result<CommitOutcome> {
        let message = &self.boxes[&mailbox].messages[&uid];
        let served_len = message.bytes.len() as u32;
        let header = FormHeader { form: Form::Plain, served_len, digest: [0; 8] };
        let stored = engine.read_body(message.body, 0..u64::MAX).await?;
        let other = match FormHeader::of(&stored) {
            Some(_) => message.bytes.clone(),
            None => header.before(&message.bytes),
        };
        engine.recode(message.body, other, Holders::Any).await
    }

    /// Delivers a message to a further mailbox, with a rich original, which the stored form of the
    /// body may lack.
    pub async fn deliver_again(
        &mut self,
        engine: &LmdbEngine,
        (mailbox, uid): (MailboxId, u32),
        to: MailboxId,
    ) -> Result<CommitOutcome> {
        let Message { body, bytes, .. } = self.boxes[&mailbox].messages[&uid].clone();
        let header = FormHeader { form: Form::Rich, served_len: bytes.len() as u32, digest: [0; 8] };
        let mut commit = self.appending(to, &[(body, bytes.clone())]);
        if let Some(NewMessage { content: Content::New { bytes: stored, .. }, .. }) =
            commit.appended.first_mut()
        {
            *stored = header.before(&bytes);
        }
        self.after(&mut commit);
        self.commit(engine, commit).await
    }

    pub async fn remove(&mut self, engine: &LmdbEngine, id: MailboxId) -> Result<CommitOutcome> {
        let mut commit = self.list_commit();
        commit.remove.push(id);
        self.commit_list(engine, commit).await
    }

    /// A commit that changes nothing yet.
    fn commit_on(&self, mailbox: MailboxId) -> MailboxCommit {
        let head = self.boxes[&mailbox].head.clone();
        let expected = head.modseq;
        let head = MailboxHead { modseq: expected.next(), ..head };
        MailboxCommit { mailbox, expected, head, appended: vec![], changed: vec![], expunged: vec![] }
    }

    /// The mailbox after a commit, whose counts are set to fit.
    fn after(&self, commit: &mut MailboxCommit) -> Held {
        let mut held = self.boxes[&commit.mailbox].clone();
        for row in &commit.changed {
            held.messages.get_mut(&row.uid().value()).unwrap().row = *row;
        }
        for (_, uids) in &commit.expunged {
            held.messages.retain(|uid, _| !uids.contains(*uid));
        }
        held.expunged.extend(commit.expunged.iter().cloned());
        for new in &commit.appended {
            let bytes = match &new.content {
                Content::New { bytes, .. } => bytes.slice_ref(seen(bytes)),
                Content::CopyOf { mailbox, uid } => self.boxes[mailbox].messages[&uid.value()].bytes.clone(),
            };
            let &NewMessage { row, body, saved, created, .. } = new;
            let message = Message { row, body, saved, created, bytes };
            held.messages.insert(new.row.uid().value(), message);
        }
        commit.head.counts = Counts::default();
        held.messages.values().for_each(|message| commit.head.counts.add(&message.row));
        held.head = commit.head.clone();
        held
    }

    pub async fn commit(&mut self, engine: &LmdbEngine, mut commit: MailboxCommit) -> Result<CommitOutcome> {
        let mut after = self.clone();
        after.boxes.insert(commit.mailbox, self.after(&mut commit));
        let outcome = engine.commit(commit).await;
        self.outcome(after, outcome)
    }

    /// A commit that appends these bodies.
    pub fn appending(&mut self, mailbox: MailboxId, bodies: &[(BodyId, Bytes)]) -> MailboxCommit {
        let mut commit = self.commit_on(mailbox);
        for (body, bytes) in bodies {
            let uid = commit.head.uid_next;
            commit.head.uid_next = uid.next().unwrap();
            let row = Row::new(uid, bytes.len() as u32, 1_700_000_000, FlagSet::EMPTY, commit.head.modseq);
            let content = Content::New { bytes: bytes.clone(), summary: summarize(bytes).into() };
            let (body, created) = (*body, row.modseq());
            commit.appended.push(NewMessage { row, body, saved: 1_700_000_001, created, content });
        }
        commit
    }

    pub async fn append(
        &mut self,
        engine: &LmdbEngine,
        mailbox: MailboxId,
        bodies: &[Bytes],
    ) -> Result<CommitOutcome> {
        let bodies: Vec<_> = bodies.iter().map(|b| (self.body_id(), b.clone())).collect();
        let mut commit = self.appending(mailbox, &bodies);
        self.after(&mut commit);
        self.commit(engine, commit).await
    }

    /// Appends messages that delivery did not convert: they have no summary.
    pub async fn append_bare(
        &mut self,
        engine: &LmdbEngine,
        mailbox: MailboxId,
        sent: &[Bytes],
    ) -> Result<CommitOutcome> {
        let stored = |sent: &Bytes| {
            let served_len = sent.len() as u32;
            FormHeader { form: Form::Unconverted, served_len, digest: [0; 8] }.before(sent)
        };
        let bodies: Vec<_> = sent.iter().map(|sent| (self.body_id(), stored(sent))).collect();
        let mut commit = self.appending(mailbox, &bodies);
        for (message, sent) in commit.appended.iter_mut().zip(sent) {
            let (row, size) = (message.row, Row::WITHOUT_ITEMS + sent.len() as u32);
            message.row = Row::new(row.uid(), size, row.date(), row.flags(), row.modseq());
            if let Content::New { summary, .. } = &mut message.content {
                *summary = Bytes::new();
            }
        }
        self.after(&mut commit);
        self.commit(engine, commit).await
    }

    /// Adds the summaries that messages of a mailbox may lack; how many did.
    pub async fn add_summaries(&self, engine: &LmdbEngine, mailbox: MailboxId) -> Result<usize> {
        let mut added = 0;
        for message in self.boxes[&mailbox].messages.values().filter(|message| message.row.lacks_items()) {
            let of = SummaryOf { mailbox, uid: message.row.uid(), body: message.body };
            let outcome = engine.add_summary(of, summarize(&message.bytes).into()).await?;
            added += usize::from(outcome == CommitOutcome::Done);
        }
        Ok(added)
    }

    /// Appends messages with other summaries than [`summarize`] makes.
    pub async fn append_with(
        &mut self,
        engine: &LmdbEngine,
        mailbox: MailboxId,
        bodies: &[Bytes],
        summaries: &[Vec<u8>],
    ) -> Result<CommitOutcome> {
        let bodies: Vec<_> = bodies.iter().map(|b| (self.body_id(), b.clone())).collect();
        let mut commit = self.appending(mailbox, &bodies);
        for (message, own) in commit.appended.iter_mut().zip(summaries) {
            if let Content::New { summary, .. } = &mut message.content {
                *summary = own.clone().into();
            }
        }
        self.after(&mut commit);
        self.commit(engine, commit).await
    }

    pub async fn flag(
        &mut self,
        engine: &LmdbEngine,
        mailbox: MailboxId,
        uids: &[u32],
        flags: FlagSet,
    ) -> Result<CommitOutcome> {
        let mut commit = self.commit_on(mailbox);
        let messages = &self.boxes[&mailbox].messages;
        let rows = uids.iter().filter_map(|uid| messages.get(uid));
        commit.changed = rows.map(|m| m.row.with_flags(flags, commit.head.modseq)).collect();
        self.commit(engine, commit).await
    }

    pub async fn expunge(
        &mut self,
        engine: &LmdbEngine,
        mailbox: MailboxId,
        uids: &[u32],
    ) -> Result<CommitOutcome> {
        let mut commit = self.commit_on(mailbox);
        commit.expunged.push((commit.head.modseq, set(uids)));
        self.commit(engine, commit).await
    }

    pub async fn copy(
        &mut self,
        engine: &LmdbEngine,
        from: MailboxId,
        uids: &[u32],
        to: MailboxId,
    ) -> Result<CommitOutcome> {
        let commit = self.copying(from, uids, to);
        self.commit(engine, commit).await
    }

    /// Moves messages in one commit on both mailboxes.
    pub async fn move_messages(
        &mut self,
        engine: &LmdbEngine,
        from: MailboxId,
        uids: &[u32],
        to: MailboxId,
    ) -> Result<CommitOutcome> {
        let (mut enters, mut leaves) = (self.copying(from, uids, to), self.commit_on(from));
        leaves.expunged.push((leaves.head.modseq, set(uids)));
        let mut after = self.clone();
        after.boxes.insert(to, self.after(&mut enters));
        after.boxes.insert(from, self.after(&mut leaves));
        let outcome = engine.commit_pair([enters, leaves]).await;
        self.outcome(after, outcome)
    }

    /// A commit that copies messages to another mailbox.
    fn copying(&self, from: MailboxId, uids: &[u32], to: MailboxId) -> MailboxCommit {
        let mut commit = self.commit_on(to);
        for message in uids.iter().filter_map(|uid| self.boxes[&from].messages.get(uid)) {
            let uid = commit.head.uid_next;
            commit.head.uid_next = uid.next().unwrap();
            let old = message.row;
            let row = Row::new(uid, old.stored_size(), old.date(), old.flags(), commit.head.modseq);
            let content = Content::CopyOf { mailbox: from, uid: old.uid() };
            let (body, created) = (message.body, row.modseq());
            commit.appended.push(NewMessage { row, body, saved: 1_700_000_002, created, content });
        }
        commit
    }

    pub async fn set_directory(
        &mut self,
        engine: &LmdbEngine,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<CommitOutcome> {
        let expected = self.directory.get(name).map_or(0, |(version, _)| *version);
        let value = value.map(Bytes::copy_from_slice);
        let change = DirectoryChange { name: name.into(), expected, value: value.clone() };
        let mut after = self.clone();
        match value {
            Some(value) => after.directory.insert(name.into(), (expected + 1, value)),
            None => after.directory.remove(name),
        };
        let outcome = engine.directory_commit(change).await;
        self.outcome(after, outcome)
    }

    /// Everything is in the store as it must be, and the store finds nothing wrong with itself.
    /// Loses the index, rebuilds it without a fault, finds all mail, and adds a message: twice.
    pub async fn lose_index_twice(&mut self, dir: &Path, inbox: MailboxId, first: u32) {
        for number in [first, first + 1] {
            std::fs::remove_dir_all(dir.join("index")).unwrap();
            rebuild_whole(dir, &small());
            let engine = LmdbEngine::open(dir, small()).unwrap();
            self.verify(&engine).await;
            self.append(&engine, inbox, &[body(number, 300)]).await.unwrap();
            engine.close();
        }
    }

    pub async fn verify(&self, engine: &LmdbEngine) {
        self.verify_contents(engine).await;
        let report = engine.check(&mut |_| {}).await.unwrap();
        assert_eq!(report.faults, [""; 0]);
    }

    /// Everything is in the store as it must be.
    pub async fn verify_contents(&self, engine: &LmdbEngine) {
        assert_eq!(engine.load_list(self.list.account).await.unwrap(), self.list);
        for (id, held) in &self.boxes {
            self.verify_mailbox(engine, *id, held).await;
        }
        for id in &self.removed {
            assert_eq!(engine.heads(&[*id]).await.unwrap(), [None]);
        }
        let entries = engine.directory_scan("", None, usize::MAX).await.unwrap();
        let entries: BTreeMap<_, _> = entries.into_iter().map(|e| (e.name, (e.version, e.value))).collect();
        assert_eq!(entries, self.directory);
    }

    async fn verify_mailbox(&self, engine: &LmdbEngine, id: MailboxId, held: &Held) {
        let mut rows = Vec::new();
        let head = engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await.unwrap();
        assert_eq!(head, held.head);
        assert_eq!(rows, held.messages.values().map(|m| m.row).collect::<Vec<_>>());
        let mut stored = Vec::new();
        let mut visit = |s: posthaste_store::Stored<'_>| {
            let message = held.messages.get(&s.uid.value());
            // One that delivery did not make may be lost again.
            let summary = match message.filter(|m| m.row.lacks_items() && s.summary.is_empty()) {
                Some(message) => summarize(&message.bytes),
                None => s.summary.to_vec(),
            };
            stored.push((s.uid.value(), s.body, s.saved, s.created, summary));
            ControlFlow::Continue(())
        };
        engine.summaries(id, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
        let listed = |(uid, m): (&u32, &Message)| (*uid, m.body, m.saved, m.created, summarize(&m.bytes));
        let expected: Vec<_> = held.messages.iter().map(listed).collect();
        assert_eq!(stored, expected);
        for message in held.messages.values() {
            let bytes = engine.read_body(message.body, 0..u64::MAX).await.unwrap();
            assert!(seen(&bytes) == message.bytes, "body {}", message.body);
        }
        let changes = engine.changes_since(id, ModSeq::ZERO).await.unwrap();
        let expunged = held.expunged.iter().flat_map(|(_, set)| set.ranges().iter().copied());
        assert_eq!(changes.expunged, NumSet::from_ranges(expunged));
        assert_eq!(changes.rows, rows);
    }
}

/// Opens a directory as a server does, whose index follows only when it must.
pub fn serve(dir: &Path, options: Options) -> LmdbEngine {
    let lock = Arc::new(EngineLock::acquire(dir).unwrap());
    LmdbEngine::serve(lock, Options { checkpoint_within: Duration::from_secs(3600), ..options }).unwrap()
}

/// A message of this length.
pub fn body(n: u32, len: usize) -> Bytes {
    let line = format!("Message {n}, byte for byte. ");
    line.bytes().cycle().take(len).collect::<Vec<u8>>().into()
}

/// Maintains until nothing is left to do.
pub async fn maintain(engine: &LmdbEngine) {
    for _ in 0..10_000 {
        let report = engine.maintain().await.unwrap();
        assert_eq!(report.faults, [""; 0]);
        if report.examined == 0 {
            return;
        }
    }
    panic!("maintenance finds no end");
}

/// Makes the index of a closed store again, from packs that are whole.
pub fn rebuild_whole(dir: &Path, options: &Options) {
    let lock = EngineLock::acquire(dir).unwrap();
    let report = rebuild(&lock, options, Rebuild::UnlessFaulty, &mut |_| {}).unwrap();
    assert_eq!(report.faults, [""; 0]);
}

fn packs(dir: &Path) -> Vec<PathBuf> {
    let mut packs: Vec<PathBuf> =
        std::fs::read_dir(dir.join("packs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    packs.sort();
    packs
}

/// Where the heads of records of a kind begin: pack and offset, in the order of their sequence
/// numbers.
pub fn records(dir: &Path, kind: u8) -> Vec<(PathBuf, usize)> {
    let mut found = Vec::new();
    for pack in packs(dir) {
        let bytes = std::fs::read(&pack).unwrap();
        let mut at = 64;
        while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"PHR1")) {
            let number =
                |from: usize| u64::from_le_bytes(bytes[at + from..at + from + 8].try_into().unwrap());
            let (seq, len) = (number(8), number(16) as usize);
            if bytes[at + 4] == kind {
                found.push((seq, pack.clone(), at));
            }
            let table = if bytes[at + 4] == 1 { len.div_ceil(64 << 10) * 4 } else { 0 };
            at += (48 + table + len).next_multiple_of(8);
        }
    }
    found.sort();
    found.into_iter().map(|(_, pack, at)| (pack, at)).collect()
}

/// Bytes that packs take on the disk.
pub fn packs_len(dir: &Path) -> u64 {
    packs(dir).iter().map(|pack| std::fs::metadata(pack).unwrap().len()).sum()
}

/// Turns a bit of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    std::fs::write(path, bytes).unwrap();
}

/// A rebuild without the old index makes the same contents.
pub async fn rebuilt_equals(dir: &Path, world: &World, options: &Options) {
    std::fs::remove_dir_all(dir.join("index")).unwrap();
    rebuild_whole(dir, options);
    world.verify(&LmdbEngine::open(dir, options.clone()).unwrap()).await;
}
