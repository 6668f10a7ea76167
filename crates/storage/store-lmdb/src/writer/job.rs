//! The jobs of the writer.

use bytes::Bytes;
use posthaste_mail_model::{BodyId, FlagSet};
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, Holders, ListCommit, MailboxCommit, Report, Result, SummaryOf,
};
use tokio::sync::oneshot;

use crate::data_dir::reserve::Purpose;
use crate::maintenance::PreparedRound;

/// Bytes up to which a directory record is a change and not new content: settings of an account
/// have a few hundred.
const RECORD_SMALL: usize = 4096;

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
    /// Bytes of new messages.
    pub(super) fn weight(&self) -> usize {
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
            Self::Pair(pair) if self.weight() == 0 => {
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

/// The purpose of a commit without new messages. A message is marked as deleted before it is
/// expunged.
fn deletes(commit: &MailboxCommit) -> Purpose {
    let is_marked = commit.changed.iter().any(|row| row.flags().contains(FlagSet::DELETED));
    if is_marked || !commit.expunged.is_empty() { Purpose::Deletion } else { Purpose::Change }
}
