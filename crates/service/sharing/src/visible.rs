//! The mailboxes of others that one account sees.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use posthaste_directory::{Account, Sharing};
use posthaste_mail_model::{MailboxId, MailboxName, Rights, SEPARATOR};

use crate::names::{Namespace, SharedName};

/// Mailboxes between two pauses for other tasks: less than 1 ms.
const MAILBOXES_AT_ONCE: usize = 4096;

/// The mailboxes of others in which an account has rights.
#[derive(Debug, Default)]
pub struct Visible {
    /// By the level above their mailboxes.
    owners: BTreeMap<String, Arc<Owner>>,
    by_mailbox: HashMap<MailboxId, Arc<Owner>>,
}

/// An account that shares something with another one.
#[derive(Debug)]
pub struct Owner {
    /// The owner of the mailboxes.
    pub account: Account,
    rights: HashMap<MailboxId, Rights>,
}

impl Visible {
    /// The mailboxes of these owners. It pauses for other tasks.
    pub(crate) async fn of(owners: Vec<Arc<Owner>>) -> Self {
        let mut visible = Self::default();
        visible.by_mailbox.reserve(owners.iter().map(|owner| owner.mailboxes()).sum());
        for owner in owners {
            for mailbox in owner.rights.keys() {
                visible.by_mailbox.insert(*mailbox, Arc::clone(&owner));
                if visible.by_mailbox.len().is_multiple_of(MAILBOXES_AT_ONCE) {
                    tokio::task::yield_now().await;
                }
            }
            visible.owners.insert(owner.top(), owner);
        }
        visible
    }

    /// How many mailboxes they are.
    pub(crate) fn mailboxes(&self) -> usize {
        self.by_mailbox.len()
    }

    /// Whether the account sees nothing.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Everybody of whom it sees something, by the level above their mailboxes.
    pub fn owners(&self) -> impl Iterator<Item = (&str, &Owner)> {
        self.owners.iter().map(|(top, owner)| (top.as_str(), &**owner))
    }

    /// The same. Those with the fewest mailboxes come first: where not all are shown, nobody hides
    /// the few of others.
    pub fn owners_fewest_first(&self) -> Vec<(&str, &Owner)> {
        let mut owners: Vec<_> = self.owners().collect();
        owners.sort_by_key(|(_, owner)| owner.mailboxes());
        owners
    }

    /// The account whose mailboxes are below this level.
    pub fn owner_below(&self, top: &str) -> Option<&Owner> {
        self.owners.get(top).map(Arc::as_ref)
    }

    /// The owner of the mailbox that a name means.
    pub fn owner(&self, shown: &SharedName<'_>) -> Option<&Owner> {
        self.owner_below(&shown.namespace.top(shown.owner))
    }

    /// The owner of a mailbox.
    pub fn owner_of(&self, mailbox: MailboxId) -> Option<&Owner> {
        self.by_mailbox.get(&mailbox).map(Arc::as_ref)
    }

    /// The account's rights in a mailbox of another one.
    pub fn rights(&self, mailbox: MailboxId) -> Rights {
        self.owner_of(mailbox).map_or(Rights::NONE, |owner| owner.rights(mailbox))
    }
}

impl Owner {
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self { account: sharing.owner, rights: sharing.mailboxes.into_iter().collect() }
    }

    /// The number of its mailboxes with rights.
    pub fn mailboxes(&self) -> usize {
        self.rights.len()
    }

    /// The rights in one of its mailboxes.
    pub fn rights(&self, mailbox: MailboxId) -> Rights {
        self.rights.get(&mailbox).copied().unwrap_or_default()
    }

    /// Whether one of its mailboxes can be read.
    pub fn shows_anything(&self) -> bool {
        self.rights.values().any(|rights| rights.contains(Rights::READ))
    }

    /// The level above its mailboxes.
    pub fn top(&self) -> String {
        Namespace::of(&self.account).top(&self.account.name)
    }

    /// The name under which one of its mailboxes is shown. `None` if that would be too long.
    pub fn shown(&self, name: &MailboxName) -> Option<MailboxName> {
        MailboxName::new(&format!("{}{SEPARATOR}{name}", self.top())).ok()
    }
}
