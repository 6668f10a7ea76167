//! The commits of the log, of all kinds of records. A redo and a rebuild read them here.

use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::{DirectoryChange, ListCommit, Result};

use crate::index::damaged;
use crate::log::entry::{self, LoggedMailbox};
use crate::log::pair;
use crate::log::record::{Header, Kind};

/// A logged commit.
#[derive(Debug)]
pub(crate) enum Commit {
    /// On a mailbox.
    Mailbox(MailboxId, LoggedMailbox),
    /// On two mailboxes, both or neither.
    Pair([(MailboxId, LoggedMailbox); 2]),
    /// On the mailbox list of an account.
    List(ListCommit),
    /// On a record of the directory.
    Directory(DirectoryChange),
}

impl Commit {
    /// Whether records of a kind have commits. The others are bodies, checkpoints, and records
    /// about packs.
    pub(crate) fn is_in(kind: Kind) -> bool {
        matches!(kind, Kind::Mailbox | Kind::Pair | Kind::List | Kind::Directory)
    }

    /// The commit of a record; `None` if its kind has none.
    pub(crate) fn from_record(header: &Header, content: &[u8]) -> Result<Option<Self>> {
        let (read, what) = match header.kind {
            Kind::Mailbox => {
                let logged = entry::mailbox_from(content);
                (logged.map(|logged| Self::Mailbox(MailboxId(header.id), logged)), "a mailbox commit")
            }
            Kind::Pair => (pair_from(content).map(Self::Pair), "a commit on two mailboxes"),
            Kind::List => (entry::list_from(AccountId(header.id), content).map(Self::List), "a list commit"),
            Kind::Directory => (entry::directory_from(content).map(Self::Directory), "a directory change"),
            Kind::Body | Kind::Abandon | Kind::Retire | Kind::Cut | Kind::Checkpoint | Kind::Range => {
                return Ok(None);
            }
        };
        read.map(Some).ok_or_else(damaged(what))
    }
}

fn pair_from(content: &[u8]) -> Option<[(MailboxId, LoggedMailbox); 2]> {
    let [(first, one), (second, other)] = pair::parts(content)?;
    Some([(first, entry::mailbox_from(one)?), (second, entry::mailbox_from(other)?)])
}
