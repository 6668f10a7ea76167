//! The contract of a storage engine.
//!
//! An engine keeps four kinds of things. **Bodies** are bytes, found by id. What clients see of a
//! body never changes. [`Engine::recode`] may change its stored form. **Mailboxes** have rows,
//! summaries and a head, and are changed by conditional commits. There is one **mailbox list** per
//! account. The **directory** has small named records: accounts, aliases. An engine knows no
//! grammar, no MIME and no session.
//!
//! Every `commit*` call answers `Done` only when the change survives power loss. It changes nothing
//! if it answers `Conflict` or fails. Several processes (embedded) or nodes (cluster) may use one
//! store at a time. Each commit names the state that it was made against, so none overwrites
//! another's change.

use std::ops::{ControlFlow, Range};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet, Uid};

use crate::change::{CommitOutcome, MailboxCommit};
use crate::error::{Result, StoreError};
use crate::head::{Counts, MailboxHead};
use crate::list::{ListCommit, MailboxList};
use crate::row::Row;

/// A number that changes whenever another process or node may have changed anything. While it stays
/// the same, every view that was current is still current. An engine that cannot know this cheaply
/// returns `None`, and the store reads heads instead.
pub type Epoch = Option<u64>;

/// Bytes `start..end` of a body.
pub type BodyRange = Range<u64>;

/// The changes of a mailbox since a mod-sequence.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The head now.
    pub head: MailboxHead,
    /// Rows with a higher mod-sequence in UID order: new and changed messages.
    pub rows: Vec<Row>,
    /// Expunged UIDs. May name UIDs that were added and expunged within the span.
    pub expunged: NumSet,
    /// `false` if the engine no longer knows every expunge that far back. `expunged` is then
    /// incomplete.
    pub complete: bool,
}

/// The answer of [`Engine::load_up_to`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded {
    /// Every row was visited. This is the head that belongs to them.
    All(MailboxHead),
    /// The mailbox has this many messages, which is more. No row was visited.
    TooMany(u32),
}

/// A summary as stored, borrowed for the length of one visit.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// The message's UID.
    pub uid: Uid,
    /// The message's body.
    pub body: BodyId,
    /// SAVEDATE, unix seconds.
    pub saved: i64,
    /// The mod-sequence with which the message came into its mailbox. [`ModSeq::ZERO`] if the
    /// message came before engines stored it, or if its record was damaged.
    pub created: ModSeq,
    /// The summary from delivery, or from [`Engine::add_summary`]. Empty if it was not made yet.
    pub summary: &'a [u8],
    /// Whether the summary is another message's, of which this one is a copy.
    pub is_shared: bool,
}

/// The message whose summary is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryOf {
    /// The message's mailbox.
    pub mailbox: MailboxId,
    /// The message's UID.
    pub uid: Uid,
    /// The message's body.
    pub body: BodyId,
}

/// The messages that may have a body while it takes another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holders {
    /// Any: the new form holds all that the old one does.
    Any,
    /// At most this many, as [`Engine::references`] counts them. So a change that loses something
    /// meets no message that was copied or delivered since the count.
    AtMost(u64),
}

/// The bodies that an engine can store in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recodes {
    /// No body.
    Nothing,
    /// Those that have at most this many bytes in both forms, with [`Holders::Any`]. A body with
    /// more bytes always has the form in which it came.
    Short(u64),
    /// Each body.
    Everything,
}

impl Recodes {
    /// Whether a body of `from` bytes can take a form of `to` bytes that loses nothing.
    pub fn fits(self, from: u64, to: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::Short(most) => from <= most && to <= most,
            Self::Everything => true,
        }
    }
}

/// UIDs of a requested set whose messages exist and whose summaries an engine cannot return. The
/// record is missing or damaged, and the engine cannot rebuild it.
///
/// The caller must report them to its own caller: a message that is left out silently looks like
/// one that does not exist.
#[must_use = "a message that is left out silently looks like one that does not exist"]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unreadable(
    /// The messages' UIDs.
    pub NumSet,
);

impl Unreadable {
    /// An error that names the messages, if there are any, for callers that need all of them.
    pub fn refuse(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(StoreError::Unreadable(self.0)) }
    }
}

/// Called once for each summary; `Break` ends the call early, as when a response buffer is full.
pub type Visit<'v> = dyn FnMut(Stored<'_>) -> ControlFlow<()> + Send + 'v;

/// A record of the directory, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The record's name, for example `account/ana@example.org`: at most 400 bytes.
    pub name: String,
    /// Counts the record's changes from 1.
    pub version: u64,
    /// The content, which engines do not read.
    pub value: Bytes,
}

/// A change of one directory record.
#[derive(Debug, Clone)]
pub struct DirectoryChange {
    /// The record's name.
    pub name: String,
    /// The version that the change was made against; 0 for a record that must not exist.
    pub expected: u64,
    /// The new content; `None` removes the record.
    pub value: Option<Bytes>,
}

/// The result of a check or a round of maintenance.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Records examined.
    pub examined: u64,
    /// Bytes freed.
    pub reclaimed_bytes: u64,
    /// The faults, a sentence each that names the record. Empty means that no fault was found.
    pub faults: Vec<String>,
    /// The parts that were left out, a sentence each.
    pub left_out: Vec<String>,
}

/// A storage engine. The module's documentation says what all calls guarantee.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// The epoch, which changes whenever another process may have changed the store. The call is
    /// cheap.
    fn epoch(&self) -> Epoch;

    /// Reads a directory record by its name.
    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>>;

    /// Directory records whose name starts with `prefix` and sorts after `after`, in order, at most
    /// `limit`. Fewer only if there are no more.
    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.directory_scan_within(prefix, after, limit, usize::MAX).await
    }

    /// The records of [`Engine::directory_scan`] until their values have more than so many octets
    /// together; `usize::MAX` is no bound. The first one comes however long it is. So with a bound,
    /// only an empty answer means that there are no more. An engine that reads records from a disk
    /// or a network leaves the others there.
    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>>;

    /// The names of the records that [`Engine::directory_scan`] returns. Their content is neither
    /// read nor checked, however long it is.
    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>>;

    /// Applies one directory change.
    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome>;

    /// An account's mailbox list; an account without one has the empty list.
    async fn load_list(&self, account: AccountId) -> Result<MailboxList>;

    /// Applies one change of a mailbox list. Calls on removed mailboxes return `NoMailbox` from
    /// then on. A mailbox is in one list: a change that adds one which another list has is
    /// refused ([`crate::IN_ANOTHER_LIST`]).
    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome>;

    /// Whether a mailbox that exists, and is not in this account's list, may be in another one.
    /// In an engine that makes a mailbox and its entry in one step, it may. In another engine,
    /// an interrupted call may have made it for this account.
    async fn may_be_of_another(&self, _account: AccountId, _mailbox: MailboxId) -> Result<bool> {
        Ok(true)
    }

    /// The heads of mailboxes, in the order of `mailboxes`; `None` for one that was removed. A
    /// mailbox that is in a list and has no commit yet has the default head.
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>>;

    /// The counts of [`Engine::heads`]. An engine on this machine holds one head at a time: each
    /// may have some 10 KiB of keywords.
    async fn counts(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<Counts>>> {
        let heads = self.heads(mailboxes).await?;
        Ok(heads.into_iter().map(|head| head.map(|head| head.counts)).collect())
    }

    /// Streams every row in UID order, in slices, and returns the head that belongs to them.
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead>;

    /// [`Engine::load`] of a mailbox with at most this many messages. An engine on this machine
    /// reads the head and the rows in one go.
    async fn load_up_to(
        &self,
        mailbox: MailboxId,
        most: u32,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<Loaded> {
        let heads = self.heads(&[mailbox]).await?;
        let messages = heads.first().and_then(Option::as_ref).map_or(0, |head| head.counts.messages);
        if messages > most {
            return Ok(Loaded::TooMany(messages));
        }
        self.load(mailbox, rows).await.map(Loaded::All)
    }

    /// The changes after a mod-sequence.
    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes>;

    /// Applies one commit. It may bring a body that the store has ([`crate::Content::New`]).
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome>;

    /// Whether [`Engine::commit_pair`] works: one store holds all mailboxes.
    fn commits_pairs(&self) -> bool {
        false
    }

    /// Applies commits on two different mailboxes, both or neither, also over a crash. The second
    /// must not need messages that the first adds. `Conflict` does not say which of them
    /// conflicted. An engine that does not keep all mailboxes together refuses.
    async fn commit_pair(&self, _pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        Err(StoreError::Refused("this engine cannot change two mailboxes at once"))
    }

    /// Visits the summaries of those UIDs that exist, in UID order.
    ///
    /// Every UID of the set that has a row is either visited or returned. The engine compares the
    /// summaries with the rows, logs the fault of each record, and continues with the next. A
    /// summary that the engine can rebuild from the body is visited like any other. After `Break`
    /// the result covers the UIDs up to the last one visited. `Corrupt` is returned only if the
    /// mailbox's head or rows are damaged.
    async fn summaries(&self, mailbox: MailboxId, uids: &NumSet, visit: &mut Visit<'_>)
    -> Result<Unreadable>;

    /// A range of a body, cut at its end. Every byte returned was checked against its checksum.
    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes>;

    /// Whether there is a body of this id, damaged or not. An engine that cannot look it up
    /// without its bytes does not know one that is damaged.
    async fn has_body(&self, body: BodyId) -> Result<bool> {
        match self.read_body(body, 0..1).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The bodies that [`Engine::recode`] can store in another form.
    fn recodes(&self) -> Recodes {
        Recodes::Nothing
    }

    /// Stores a body in another form: `bytes` begin with a [`crate::form::FormHeader`], or are what
    /// clients see. Clients see the same before and after, in every mailbox that holds the body, so
    /// rows, summaries and mod-sequences stay. After a crash the body has one form or the other.
    /// `Conflict` if there is no such body any more, or if other messages than these holders may
    /// have it. [`StoreError::Refused`] if it is none of those that [`Engine::recodes`] names.
    ///
    /// Only one process may do this at a time. Otherwise a body read before may have another form.
    async fn recode(&self, _body: BodyId, _bytes: Bytes, _holders: Holders) -> Result<CommitOutcome> {
        Err(StoreError::Refused("this engine cannot change the form of a stored message"))
    }

    /// Gives a message the summary that it lacks. `Conflict`, and no change, if it was expunged,
    /// has another body, or has a summary. Rows, heads and mod-sequences stay. Copies that share
    /// the summary have it, too.
    ///
    /// Unlike a commit, it may be lost again with the index: the message has an empty summary then.
    async fn add_summary(&self, _message: SummaryOf, _summary: Bytes) -> Result<CommitOutcome> {
        Err(StoreError::Refused("this engine cannot add the summary of a stored message"))
    }

    /// The number of messages with this body, in the mailboxes of all accounts. Never too few: a
    /// message that was copied before the call is counted. Slow: an engine may look at every
    /// message with this body, or finish deferred work first.
    async fn references(&self, body: BodyId) -> Result<u64>;

    /// Does a bounded piece of the work that commits defer: summaries of expunged messages,
    /// unreferenced bodies, free space in files. Called now and then. `examined` of 0 means that
    /// nothing is left to do.
    async fn maintain(&self) -> Result<Report>;

    /// Reads everything and checks that it is consistent. `progress` is called with the share done,
    /// 0.0 … 1.0.
    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report>;
}
