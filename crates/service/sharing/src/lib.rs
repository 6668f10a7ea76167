//! Mailboxes that an account sees of others: by which names, and with which rights.
//!
//! ```text
//! Other Users/bo@example.org/Projects      a mailbox of the account bo@example.org
//! Shared/sales@example.org/INBOX           a mailbox of an account that nobody logs in to
//! ```
//!
//! The lists of rights are the directory's. What one account may see by them is read once, and
//! again after any list has changed: one small record counts the changes. So a command costs one
//! read of a record beside its own work, and a command on one's own mailboxes costs nothing more.
//!
//! What always holds: a mailbox without rights is nowhere in [`Visible`], no more than one that
//! does not exist, or an account that does not. Whoever asks it cannot tell them apart, nor by the
//! time that it takes.
//!
//! Not in here: which rights a command needs, beside those for flags.

mod names;
mod visible;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use posthaste_directory::{Account, Directory, Result};
use posthaste_mail_model::{AccountId, Flag, Rights};
use tokio::sync::watch;

pub use names::{Namespace, Shown};
pub use visible::{Owner, Visible};

/// Accounts whose view of others is kept. Most accounts share nothing, and take some 200 bytes.
const KNOWN_MAX: usize = 10_000;
/// How often a change made by another process is looked for by those who wait.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The right that a flag needs: RFC 4314 §2.1.
pub const fn right_of(flag: &Flag) -> Rights {
    match flag {
        Flag::Seen => Rights::SEEN,
        Flag::Deleted => Rights::DELETE_MESSAGES,
        _ => Rights::WRITE,
    }
}

/// What an account sees of others, read now.
pub async fn read_visible(directory: &Directory, reader: &Account) -> Result<Visible> {
    Ok(Visible::new(directory.shared_with(reader).await?))
}

struct Known {
    /// The count of changes up to which it knows all.
    changes: u64,
    visible: Arc<Visible>,
}

/// What each account sees of others.
pub struct SharedMailboxes {
    directory: Arc<Directory>,
    known: Mutex<HashMap<AccountId, Known>>,
    /// Woken after each change in this process.
    changed: watch::Sender<()>,
}

impl SharedMailboxes {
    /// By the lists of this directory.
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory, known: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// What an account sees now.
    pub async fn visible_to(&self, reader: &Account) -> Result<Arc<Visible>> {
        // Before the lists are read: a change meanwhile is found by the next look.
        let changes = self.directory.sharing_changes().await?;
        if let Some(known) = self.known.lock().get(&reader.id)
            && known.changes == changes
        {
            return Ok(Arc::clone(&known.visible));
        }
        let visible = Arc::new(read_visible(&self.directory, reader).await?);
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(reader.id, Known { changes, visible: Arc::clone(&visible) });
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
    pub async fn wait(watch: &mut watch::Receiver<()>) {
        // An error says that the service ends: one more reason to look.
        let _ = tokio::time::timeout(LOOK_EVERY, watch.changed()).await;
    }
}
