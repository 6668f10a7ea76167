//! The mailboxes of others that an account sees, with their names and the account's rights.
//!
//! ```text
//! Other Users/bo@example.org/Projects a mailbox of the account bo@example.org
//! Shared/sales@example.org/INBOX a mailbox of an account without a login
//! ```
//!
//! The directory stores the lists of rights. The mailboxes that they let an account see are read
//! once. One small record counts the changes of all lists. After a change, the count of each owner
//! shows whose lists must be read again. So a command on a mailbox of another account reads one
//! additional record. A command on a user's own mailboxes has no additional cost. Sessions of one
//! account that need the lists at the same time read them once.
//!
//! Invariants: a mailbox without rights is not in [`Visible`]. A missing mailbox or account is
//! not visible, either. A user cannot distinguish these cases, not even by the time that a
//! command takes.
//!
//! Not in here: the rights that a command needs, except those for flags.

mod known;
mod names;
mod visible;

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use posthaste_directory::{Account, Directory, DirectoryError, Result};
use posthaste_mail_model::{Flag, Id, MailboxId, Rights};
use posthaste_store::{MailboxEntry, Store};
use tokio::sync::watch;

use known::KnownReaders;
pub use known::{SHARED_BYTES_LEAST, SHARED_BYTES_MAX};
pub use names::{Namespace, SharedName};
pub use visible::{Owner, Visible};

/// Time between two polls of waiters for a change by another process.
const POLL_PAUSE: Duration = Duration::from_secs(10);

/// The right that a flag needs: RFC 4314 §2.1.
pub const fn right_of(flag: &Flag) -> Rights {
    match flag {
        Flag::Seen => Rights::SEEN,
        Flag::Deleted => Rights::DELETE_MESSAGES,
        _ => Rights::WRITE,
    }
}

/// The id of no mailbox. Its records are read in place of those of a missing one.
pub const NO_MAILBOX: MailboxId = MailboxId(Id::new(0, 0));

/// A mailbox of another account, and the rights of an account in it.
#[derive(Debug)]
pub struct SharedMailbox {
    /// The account that it belongs to.
    pub owner: Account,
    /// The mailbox in its owner's list.
    pub entry: MailboxEntry,
    /// The rights of the other account.
    pub rights: Rights,
}

/// Finds a mailbox by its name among those of others, for work that has no [`SharedMailboxes`].
/// `None` if the reader has no right in it. As many records are read if the mailbox or its
/// account does not exist.
#[boxed]
pub async fn find_mailbox(
    directory: &Directory,
    store: &Store,
    reader: &Account,
    shown: &SharedName<'_>,
) -> Result<Option<SharedMailbox>> {
    let owner = owner_of(directory, shown).await?.filter(|owner| owner.id != reader.id);
    let account = owner.as_ref().map_or(reader.id, |owner| owner.id);
    let list = store.list(account).await?;
    let entry = shown.name.as_ref().and_then(|name| list.find(name));
    let mailbox = entry.map_or(NO_MAILBOX, |entry| entry.id);
    let rights = directory.acls().get(account, mailbox).await?.rights_of(&reader.name);
    let found = owner.zip(entry).filter(|_| !rights.is_empty());
    Ok(found.map(|(owner, entry)| SharedMailbox { owner, entry: entry.clone(), rights }))
}

/// The account that a name among the mailboxes of others leads to, whether it shares anything or
/// not.
async fn owner_of(directory: &Directory, shown: &SharedName<'_>) -> Result<Option<Account>> {
    let owner = match directory.account(shown.owner).await {
        Err(DirectoryError::Address { .. }) => None,
        owner => owner?,
    };
    Ok(owner.filter(|owner| owner.name == shown.owner && Namespace::of(owner) == shown.namespace))
}

/// The mailboxes that each account sees of others.
pub struct SharedMailboxes {
    directory: Arc<Directory>,
    known: KnownReaders,
    /// Woken after each change in this process.
    changed: watch::Sender<()>,
}

impl SharedMailboxes {
    /// By the lists of this directory.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, known: KnownReaders::within(SHARED_BYTES_MAX), changed: watch::Sender::new(()) }
    }

    /// With this many bytes for what is known, at least [`SHARED_BYTES_LEAST`].
    #[must_use]
    pub fn with_bytes_max(self, bytes: u64) -> Self {
        Self { known: KnownReaders::within(bytes), ..self }
    }

    /// The mailboxes that an account sees now.
    #[boxed]
    pub async fn visible_to(&self, reader: &Account) -> Result<Arc<Visible>> {
        let changes = self.directory.acls().changes().await?;
        let known = self.known.of(reader.id);
        if let Some(visible) = known.as_of(changes) {
            return Ok(visible);
        }
        // A session may have waited for another session of this account. It need not read the lists
        // again if the other began to read them after the wait began.
        let refresh = known.refresh.lock().await;
        if let Some(visible) = known.as_of(changes) {
            return Ok(visible);
        }
        let had = known.mailboxes();
        let visible = known.read_up_to(self.known.visible_max(), &self.directory, reader).await?;
        drop(refresh);
        self.known.keep_within_bounds(had, visible.mailboxes());
        Ok(visible)
    }

    /// Wakes those who wait, after a change.
    pub fn note_change(&self) {
        self.changed.send_replace(());
    }

    /// For [`SharedMailboxes::wait`].
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits until something may have changed.
    #[boxed]
    pub async fn wait(watch: &mut watch::Receiver<()>) {
        // An error means that the service ends. The caller looks again.
        let _ = tokio::time::timeout(POLL_PAUSE, watch.changed()).await;
    }
}

#[cfg(test)]
mod tests;
