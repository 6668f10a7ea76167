//! The expected state of a mailbox of an engine. Commits are made from it, and the engine's
//! answers are compared with it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{BodyId, Flag, FlagSet, Keyword, MailboxId, ModSeq, NumSet, Uid};

use super::{Seeded, new_body_id};
use crate::change::{CommitOutcome, Content, ExpungedUids, MailboxCommit, NewMessage};
use crate::engine::{Engine, Loaded, Unreadable};
use crate::head::MailboxHead;
use crate::row::Row;
use crate::view::{View, ViewBuilder};

/// A message's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message's body's id.
    pub body: BodyId,
    /// The message's bytes.
    pub bytes: Bytes,
    /// The message's summary.
    pub summary: Bytes,
    /// SAVEDATE.
    pub saved: i64,
    /// The mod-sequence with which the message came.
    pub created: ModSeq,
}

/// A message as a listing shows it: UID, body, SAVEDATE, first mod-sequence, summary.
pub type ListedMessage = (Uid, BodyId, i64, ModSeq, Vec<u8>);

/// A mailbox as it should be.
#[derive(Clone)]
pub struct Folder {
    /// The engine that keeps it.
    pub engine: Arc<dyn Engine>,
    /// The mailbox's id.
    pub id: MailboxId,
    /// The mailbox's rows and head.
    pub view: View,
    /// The mailbox's messages' contents.
    pub kept: BTreeMap<Uid, StoredMessage>,
    /// Each commit's mod-sequence and the UIDs that were there after it.
    pub history: Vec<ExpungedUids>,
}

/// `size` bytes that depend on the seed.
pub(crate) fn contents(seed: u64, size: usize) -> Bytes {
    let mut random = Seeded::new(seed);
    let mut out = Vec::with_capacity(size + 8);
    while out.len() < size {
        out.extend(random.next().to_le_bytes());
    }
    out.truncate(size);
    out.into()
}

impl Folder {
    /// A mailbox never committed to.
    pub fn new(engine: Arc<dyn Engine>, id: MailboxId) -> Self {
        let history = vec![(ModSeq::ZERO, NumSet::new())];
        Self { engine, id, view: View::default(), kept: BTreeMap::new(), history }
    }

    /// UIDs of all messages.
    pub fn uids(&self) -> NumSet {
        self.view.uids_of_seqs(&self.view.all())
    }

    fn next_head(&self) -> MailboxHead {
        let mut head = self.view.head().clone();
        head.modseq = head.modseq.next();
        head
    }

    fn commit_of(
        &self,
        head: MailboxHead,
        appended: Vec<NewMessage>,
        changed: Vec<Row>,
        expunged: NumSet,
    ) -> MailboxCommit {
        let rows: Vec<Row> = appended.iter().map(|m| m.row).collect();
        let head = self.view.edited(head, &changed, &expunged, &rows).head().clone();
        let expunged = if expunged.is_empty() { Vec::new() } else { vec![(head.modseq, expunged)] };
        MailboxCommit { mailbox: self.id, expected: self.view.modseq(), head, appended, changed, expunged }
    }

    /// A commit that adds new messages of these sizes.
    pub fn appending(&self, sizes: &[usize]) -> MailboxCommit {
        let contents = sizes.iter().enumerate().map(|(n, size)| {
            let bytes = contents(*size as u64 ^ (n as u64) << 32, *size);
            let summary = contents(n as u64, 20 + n % 600);
            (new_body_id(), bytes.len() as u32, FlagSet::EMPTY, Content::New { bytes, summary })
        });
        self.adding(contents.collect())
    }

    /// A commit that adds copies of another mailbox's messages.
    pub fn copying(&self, source: &Self, uids: &NumSet) -> MailboxCommit {
        let copies = source.view.rows_of_uids(uids).map(|(_, row)| {
            let content = Content::CopyOf { mailbox: source.id, uid: row.uid() };
            // Keywords mean something else over there.
            let flags = FlagSet::from_bits(row.flags().bits() & 31);
            (source.kept[&row.uid()].body, row.stored_size(), flags, content)
        });
        self.adding(copies.collect())
    }

    /// A commit that adds messages: body, size, flags, content.
    pub fn adding(&self, messages: Vec<(BodyId, u32, FlagSet, Content)>) -> MailboxCommit {
        let mut head = self.next_head();
        let mut appended = Vec::new();
        for (body, size, flags, content) in messages {
            let uid = head.uid_next;
            head.uid_next = uid.next().unwrap();
            let row = Row::new(uid, size, 1_700_000_000 + uid.value(), flags, head.modseq);
            let saved = 1_800_000_000 + i64::from(uid.value());
            appended.push(NewMessage { row, body, saved, created: head.modseq, content });
        }
        self.commit_of(head, appended, Vec::new(), NumSet::new())
    }

    /// A commit that gives messages these flags, and a keyword of this number.
    pub fn flagging(&self, uids: &NumSet, flags: FlagSet, keyword: Option<u64>) -> MailboxCommit {
        let mut head = self.next_head();
        let mut set = flags;
        if let Some(n) = keyword {
            let flag = Flag::Keyword(Keyword::new(&format!("$keyword{n}")).unwrap());
            let in_use = self.view.totals().flags_any.union(set);
            set = set.union(Arc::make_mut(&mut head.keywords).set_or_insert([&flag], in_use).unwrap());
        }
        let changed = self.view.rows_of_uids(uids).map(|(_, row)| row.with_flags(set, head.modseq)).collect();
        self.commit_of(head, Vec::new(), changed, NumSet::new())
    }

    /// A commit that removes messages.
    pub fn expunging(&self, uids: &NumSet) -> MailboxCommit {
        self.commit_of(self.next_head(), Vec::new(), Vec::new(), self.view.existing(uids))
    }

    /// Lets the engine commit it, which it must.
    #[boxed]
    pub async fn commit(&mut self, commit: MailboxCommit) {
        let outcome = self.engine.commit(commit.clone()).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Done);
        self.committed(&commit, None);
    }

    /// The same for copies from this mailbox.
    #[boxed]
    pub async fn commit_copies(&mut self, commit: MailboxCommit, source: &Self) {
        let outcome = self.engine.commit(commit.clone()).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Done);
        self.committed(&commit, Some(source));
    }

    /// Notes a commit that was applied.
    pub fn committed(&mut self, commit: &MailboxCommit, source: Option<&Self>) {
        for message in &commit.appended {
            let (bytes, summary) = match (&message.content, source) {
                (Content::New { bytes, summary }, _) => (bytes.clone(), summary.clone()),
                (Content::CopyOf { uid, .. }, Some(source)) => {
                    (source.kept[uid].bytes.clone(), source.kept[uid].summary.clone())
                }
                (Content::CopyOf { uid, .. }, None) => {
                    (self.kept[uid].bytes.clone(), self.kept[uid].summary.clone())
                }
            };
            let &NewMessage { body, saved, created, .. } = message;
            let kept = StoredMessage { body, bytes, summary, saved, created };
            self.kept.insert(message.row.uid(), kept);
        }
        self.view = self.view.apply(commit);
        self.kept.retain(|uid, _| self.view.seq_of(*uid).is_some());
        self.history.push((self.view.modseq(), self.uids()));
    }

    /// The engine must say what this says: head, rows, summaries; bodies too, unless there are
    /// many.
    #[boxed]
    pub async fn verify(&self) {
        assert_eq!(self.engine.heads(&[self.id]).await.unwrap(), [Some(self.view.head().clone())]);
        let loaded = load(&*self.engine, self.id).await;
        assert_eq!(loaded.head(), self.view.head());
        let rows = |view: &View| view.rows(&view.all()).map(|(_, row)| *row).collect::<Vec<_>>();
        assert!(rows(&loaded) == rows(&self.view), "the rows of {} are other than they should be", self.id);
        assert!(self.load_up_to(self.view.exists()).await == rows(&self.view), "the same in one go");
        if let Some(fewer) = self.view.exists().checked_sub(1) {
            assert!(self.load_up_to(fewer).await.is_empty(), "{} has more messages", self.id);
        }
        let all = NumSet::range(1, u32::MAX);
        assert!(
            self.summaries(&all).await == self.expected_summaries(&all),
            "summaries of {} differ",
            self.id
        );
        for kept in self.kept.values().take(200) {
            let bytes = self.engine.read_body(kept.body, 0..u64::MAX).await.unwrap();
            assert!(bytes == kept.bytes, "the body {} differs", kept.body);
        }
    }

    /// The rows that the engine visits if there are at most this many.
    #[boxed]
    async fn load_up_to(&self, most: u32) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut visit = |slice: &[Row]| rows.extend_from_slice(slice);
        let loaded = self.engine.load_up_to(self.id, most, &mut visit).await.unwrap();
        let (head, exists) = (self.view.head().clone(), self.view.exists());
        let expected = if exists > most { Loaded::TooMany(exists) } else { Loaded::All(head) };
        assert_eq!(loaded, expected);
        rows
    }

    /// The changes since each commit, which the engine must report.
    #[boxed]
    pub async fn verify_changes(&self) {
        for (since, there) in &self.history {
            let changes = self.engine.changes_since(self.id, *since).await.unwrap();
            assert_eq!(&changes.head, self.view.head());
            let later: Vec<Row> =
                self.view.rows(&self.view.changed_since(*since)).map(|(_, row)| *row).collect();
            assert_eq!(changes.rows, later);
            let expunged = there.difference(&self.uids());
            assert!(changes.expunged.intersection(&self.uids()).is_empty(), "expunged and there");
            if changes.complete {
                assert_eq!(changes.expunged.intersection(there), expunged, "since {since}");
            } else {
                assert!(changes.expunged.difference(&expunged).intersection(there).is_empty());
            }
        }
    }

    /// The engine's summaries of these UIDs.
    #[boxed]
    pub async fn summaries(&self, uids: &NumSet) -> Vec<ListedMessage> {
        let mut out = Vec::new();
        let mut visit = |s: crate::Stored<'_>| {
            out.push((s.uid, s.body, s.saved, s.created, s.summary.to_vec()));
            ControlFlow::Continue(())
        };
        let unreadable = self.engine.summaries(self.id, uids, &mut visit).await.unwrap();
        assert_eq!(unreadable, Unreadable::default());
        out
    }

    /// The expected values.
    pub fn expected_summaries(&self, uids: &NumSet) -> Vec<ListedMessage> {
        let kept = self.kept.iter().filter(|(uid, _)| uids.contains(uid.value()));
        kept.map(|(uid, k)| (*uid, k.body, k.saved, k.created, k.summary.to_vec())).collect()
    }
}

/// The rows an engine has of a mailbox.
pub(crate) async fn load(engine: &dyn Engine, id: MailboxId) -> View {
    let mut builder = ViewBuilder::new();
    let head = engine.load(id, &mut |rows| builder.push_rows(rows)).await.unwrap();
    builder.finish(head)
}
