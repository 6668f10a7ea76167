//! What one account sees of others.

use std::collections::{BTreeMap, HashMap};

use posthaste_directory::{Account, Sharing};
use posthaste_mail_model::{MailboxId, MailboxName, Rights, SEPARATOR};

use crate::names::{Namespace, Shown};

/// The mailboxes of others in which an account has rights.
#[derive(Debug, Default)]
pub struct Visible {
    /// By the level above their mailboxes.
    owners: BTreeMap<String, Owner>,
    /// The level above each mailbox.
    tops: HashMap<MailboxId, String>,
}

/// An account of which another one sees something.
#[derive(Debug)]
pub struct Owner {
    /// Whose mailboxes they are.
    pub account: Account,
    rights: HashMap<MailboxId, Rights>,
}

impl Visible {
    pub(crate) fn new(sharing: Vec<Sharing>) -> Self {
        let mut visible = Self::default();
        for Sharing { owner, mailboxes } in sharing {
            let top = Namespace::of(&owner).top(&owner.name);
            visible.tops.extend(mailboxes.iter().map(|(mailbox, _)| (*mailbox, top.clone())));
            visible.owners.insert(top, Owner { account: owner, rights: mailboxes.into_iter().collect() });
        }
        visible
    }

    /// Whether the account sees nothing.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Everybody of whom it sees something, by the level above their mailboxes.
    pub fn owners(&self) -> impl Iterator<Item = (&str, &Owner)> {
        self.owners.iter().map(|(top, owner)| (top.as_str(), owner))
    }

    /// Whose mailboxes stand below this level.
    pub fn owner_below(&self, top: &str) -> Option<&Owner> {
        self.owners.get(top)
    }

    /// Whose mailbox a name means.
    pub fn owner(&self, shown: &Shown<'_>) -> Option<&Owner> {
        self.owner_below(&shown.namespace.top(shown.owner))
    }

    /// Whose mailbox it is.
    pub fn owner_of(&self, mailbox: MailboxId) -> Option<&Owner> {
        self.owner_below(self.tops.get(&mailbox)?)
    }

    /// The account's rights in a mailbox of another one.
    pub fn rights(&self, mailbox: MailboxId) -> Rights {
        self.owner_of(mailbox).map_or(Rights::NONE, |owner| owner.rights(mailbox))
    }
}

impl Owner {
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
