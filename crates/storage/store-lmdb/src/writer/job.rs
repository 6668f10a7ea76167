//! The jobs of the writer.

use bytes::Bytes;
use posthaste_mail_model::{BodyId, FlagSet, MailboxName};
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, Holders, ListCommit, MailboxCommit, Report, Result, Row,
    StoreError, SummaryOf,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::data_dir::reserve::Purpose;
use crate::maintenance::PreparedRound;

/// Bytes up to which a directory record is a change and not new content: settings of an account
/// have a few hundred.
const RECORD_SMALL: usize = 4096;
/// Bytes of a page of the index, which holds a chunk of rows. A changed row writes its page.
const PAGE_BYTES: usize = 4096;
/// Bytes that a copy adds to the index: a summary has some 900. A link has fewer.
const COPY_BYTES: usize = 1024;
/// Bytes of an entry of a mailbox list in addition to its name, in the log and in the index.
const ENTRY_BYTES: usize = 128;

/// The channel of an outcome.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// The jobs of the writer.
pub(crate) enum Job {
    /// A change, and the channel of its outcome.
    Change(Change, Reply<CommitOutcome>),
    /// A summary that a message lacks. Only the index has it, no log record.
    Summary((SummaryOf, Bytes), Reply<CommitOutcome>),
    /// A round of maintenance, which may write these checkpoints.
    Maintain(Box<PreparedRound>, Reply<Report>),
    /// Let maintenance compact packs that are marked as damaged; the answer is their number.
    AcceptLoss(Reply<usize>),
    /// Bring the index up to all that was acknowledged.
    Checkpoint(Reply<()>),
}

/// Passes a job to the writer, and waits for its answer. The caller makes the job: a future that
/// makes it has room for what it makes the job of, too.
pub(crate) async fn pass<T>(
    jobs: Option<&mpsc::Sender<Job>>,
    job: Job,
    answer: oneshot::Receiver<Result<T>>,
) -> Result<T> {
    let stopped = || StoreError::Unavailable("the writer has stopped: restart the process".into());
    let jobs = jobs.ok_or_else(stopped)?;
    let waiting = match jobs.try_send(job) {
        Ok(()) => None,
        // Boxed: the queue is hardly ever full.
        Err(TrySendError::Full(job)) => Some(Box::pin(jobs.send(job))),
        Err(TrySendError::Closed(_)) => return Err(stopped()),
    };
    if let Some(waiting) = waiting {
        waiting.await.map_err(|_| stopped())?;
    }
    answer.await.map_err(|_| stopped())?
}

/// A change of one kind.
pub(crate) enum Change {
    /// On a mailbox.
    Mailbox(MailboxCommit),
    /// On two mailboxes, both or neither.
    Pair(Box<[MailboxCommit; 2]>),
    /// On a mailbox list.
    List(ListCommit),
    /// On the directory.
    Directory(DirectoryChange),
    /// A body in another form.
    Recode(BodyId, Bytes, Holders),
}

impl Change {
    /// An estimate of the bytes that it adds to its transaction: new messages with their
    /// summaries, pages of changed rows, names and records.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Mailbox(_) | Self::Pair(_) => self.on_mailboxes().iter().map(commit_weight).sum(),
            Self::List(commit) => list_weight(commit),
            Self::Directory(change) => change.name.len() + change.value.as_ref().map_or(0, Bytes::len),
            Self::Recode(_, bytes, _) => bytes.len(),
        }
    }

    /// Bytes of new messages.
    pub(super) fn new_bytes(&self) -> usize {
        if let Self::Recode(_, bytes, _) = self {
            return bytes.len();
        }
        let bytes = |c: &Content| if let Content::New { bytes, .. } = c { bytes.len() } else { 0 };
        self.on_mailboxes().iter().flat_map(|commit| &commit.appended).map(|m| bytes(&m.content)).sum()
    }

    /// The change's commits on mailboxes, which may be acknowledged before the index has them.
    /// Changes of lists and of the directory must not: other processes read and change those
    /// while a server runs, and they are rare.
    pub(super) fn on_mailboxes(&self) -> &[MailboxCommit] {
        match self {
            Self::Mailbox(commit) => std::slice::from_ref(commit),
            Self::Pair(pair) => &pair[..],
            Self::List(_) | Self::Directory(_) | Self::Recode(..) => &[],
        }
    }

    /// The purpose for which it needs disk space.
    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Mailbox(commit) if commit.appended.is_empty() => deletes(commit),
            Self::Mailbox(_) => Purpose::Content,
            // A MOVE adds as many summaries as it removes. Many clients delete in this way.
            Self::Pair(pair) if self.new_bytes() == 0 => {
                pair.iter().map(deletes).max().unwrap_or(Purpose::Content)
            }
            Self::Pair(_) | Self::Recode(..) => Purpose::Content,
            Self::List(commit) if commit.remove.is_empty() && commit.unsubscribe.is_empty() => {
                Purpose::Change
            }
            Self::List(_) => Purpose::Deletion,
            Self::Directory(change) => match &change.value {
                None => Purpose::Deletion,
                Some(value) if value.len() <= RECORD_SMALL => Purpose::Change,
                Some(_) => Purpose::Content,
            },
        }
    }
}

fn commit_weight(commit: &MailboxCommit) -> usize {
    let new = commit.appended.iter().map(|message| match &message.content {
        Content::New { bytes, summary } => bytes.len() + summary.len() + Row::LEN,
        Content::CopyOf { .. } => COPY_BYTES,
    });
    let changed = commit.changed.iter().map(|row| row.uid().value());
    let expunged = commit.expunged.iter().map(|(_, uids)| pages_of(uids.ranges().iter().copied()));
    new.sum::<usize>() + pages_of(changed.map(|uid| (uid, uid))) + expunged.sum::<usize>()
}

/// Bytes of the pages that hold the rows of these ascending ranges of UIDs.
fn pages_of(ranges: impl Iterator<Item = (u32, u32)>) -> usize {
    let rows_len = |count: u32| (count as usize).saturating_mul(Row::LEN);
    let mut before = None::<u32>;
    let len = |(low, high): (u32, u32)| {
        // Rows between two ranges are written again if they share a page with one of them.
        let between = before.map_or(PAGE_BYTES, |before| rows_len(low.saturating_sub(before)));
        before = Some(high);
        between.min(PAGE_BYTES).saturating_add(rows_len(high.saturating_sub(low)))
    };
    ranges.map(len).sum()
}

fn list_weight(commit: &ListCommit) -> usize {
    let names = commit.upsert.iter().map(|entry| &entry.name);
    let names = names.chain(&commit.subscribe).chain(&commit.unsubscribe);
    let entry_len = |name: &MailboxName| ENTRY_BYTES + name.as_str().len();
    names.map(entry_len).sum::<usize>() + commit.remove.len() * ENTRY_BYTES
}

/// The purpose of a commit without new messages. A message is marked as deleted before it is
/// expunged.
fn deletes(commit: &MailboxCommit) -> Purpose {
    let is_marked = commit.changed.iter().any(|row| row.flags().contains(FlagSet::DELETED));
    if is_marked || !commit.expunged.is_empty() { Purpose::Deletion } else { Purpose::Change }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use posthaste_mail_model::{AccountId, Id, MailboxId, ModSeq, NumSet, Uid};
    use posthaste_store::{MailboxHead, NewMessage};

    use super::*;

    /// Rows of a mailbox, each `step` UIDs after the one before.
    fn rows(count: u32, step: u32) -> Vec<Row> {
        let row =
            |n: u32| Row::new(Uid::new(1 + n * step).unwrap(), 5, 6, FlagSet::SEEN, ModSeq::new(1).unwrap());
        (0..count).map(row).collect()
    }

    fn commit() -> MailboxCommit {
        MailboxCommit {
            mailbox: MailboxId(Id::new(1, 1)),
            expected: ModSeq::ZERO,
            head: MailboxHead::default(),
            appended: Vec::new(),
            changed: Vec::new(),
            expunged: Vec::new(),
        }
    }

    /// It took a kibibyte for each commit: it held the commit five times.
    #[tokio::test]
    async fn a_job_waits_for_a_place_and_for_its_answer() {
        let (jobs, mut queue) = mpsc::channel(1);
        assert!(jobs.try_send(Job::Checkpoint(oneshot::channel().0)).is_ok());
        let (reply, answer) = oneshot::channel();
        let mut passed = Box::pin(pass(Some(&jobs), Job::Change(Change::Mailbox(commit()), reply), answer));
        assert!(std::mem::size_of_val(&*passed) <= 512);
        for _ in 0..2 {
            assert!(poll_fn(|cx| Poll::Ready(passed.as_mut().poll(cx))).await.is_pending());
            match queue.recv().await {
                Some(Job::Checkpoint(_)) => {}
                Some(Job::Change(_, reply)) => assert!(reply.send(Ok(CommitOutcome::Done)).is_ok()),
                _ => panic!("another job"),
            }
        }
        assert_eq!(passed.await.unwrap(), CommitOutcome::Done);
        drop(queue);
        let (reply, answer) = oneshot::channel();
        assert!(pass(Some(&jobs), Job::Checkpoint(reply), answer).await.is_err());
        let (reply, answer) = oneshot::channel();
        assert!(pass(None, Job::Checkpoint(reply), answer).await.is_err());
    }

    #[test]
    fn changed_rows_have_the_weight_of_their_pages() {
        let change = |changed| Change::Mailbox(MailboxCommit { changed, ..commit() });
        assert_eq!(change(Vec::new()).weight(), 0);
        assert_eq!(change(rows(1, 1)).weight(), PAGE_BYTES);
        assert_eq!(change(rows(1_001, 1)).weight(), PAGE_BYTES + 1_000 * Row::LEN);
        // Every row has a page of its own: this is all that one group takes.
        assert_eq!(change(rows(8_192, 1_000)).weight(), 32 << 20);
        assert_eq!(change(rows(8_192, 1_000)).new_bytes(), 0);
        // UIDs of the second set are below those of the first.
        let expunged = [NumSet::range(2_000, 3_000), NumSet::range(1, 1_001)]
            .map(|uids| (ModSeq::new(1).unwrap(), uids));
        let expunged = Change::Mailbox(MailboxCommit { expunged: expunged.into(), ..commit() });
        assert_eq!(expunged.weight(), 2 * (PAGE_BYTES + 1_000 * Row::LEN));
    }

    #[test]
    fn messages_lists_and_records_have_a_weight() {
        let message = |content| NewMessage {
            row: rows(1, 1)[0],
            body: BodyId(Id::new(1, 2)),
            saved: 9,
            created: ModSeq::ZERO,
            content,
        };
        let bytes = |len: usize| Bytes::from(vec![0; len]);
        let new = message(Content::New { bytes: bytes(5_000), summary: bytes(900) });
        let copy = message(Content::CopyOf { mailbox: MailboxId(Id::new(1, 3)), uid: Uid::new(7).unwrap() });
        let into = MailboxCommit { appended: vec![new, copy], ..commit() };
        let pair = Change::Pair(Box::new([into, commit()]));
        assert_eq!((pair.weight(), pair.new_bytes()), (5_900 + Row::LEN + COPY_BYTES, 5_000));
        let names = ["a", "bb"].map(|name| MailboxName::new(name).unwrap());
        let list = Change::List(ListCommit {
            account: AccountId(Id::new(2, 2)),
            expected: ModSeq::ZERO,
            version: ModSeq::new(1).unwrap(),
            upsert: Vec::new(),
            remove: vec![MailboxId(Id::new(1, 9))],
            subscribe: names.into(),
            unsubscribe: Vec::new(),
            uid_validity_last: 8,
        });
        assert_eq!((list.weight(), list.new_bytes()), (3 * ENTRY_BYTES + 3, 0));
        let value = Some(bytes(9_000));
        let record = Change::Directory(DirectoryChange { name: "account/x".into(), expected: 3, value });
        assert_eq!((record.weight(), record.new_bytes()), (9_009, 0));
    }
}
