//! An account's mailbox list: a small unit of consistency, changed by conditional commits.

use std::collections::BTreeSet;

use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq, UidValidity};

use crate::error::StoreError;

/// The refusal of a change that adds a mailbox which another account's list has: an
/// account reads and expunges the mail of each mailbox in its list.
pub const IN_ANOTHER_LIST: StoreError =
    StoreError::Refused("a mailbox of this id is in the list of another account");

/// The purpose of a mailbox: RFC 6154 §2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SpecialUse {
    /// `\All`
    All = 0,
    /// `\Archive`
    Archive = 1,
    /// `\Drafts`
    Drafts = 2,
    /// `\Flagged`
    Flagged = 3,
    /// `\Junk`
    Junk = 4,
    /// `\Sent`
    Sent = 5,
    /// `\Trash`
    Trash = 6,
}

impl SpecialUse {
    /// Every use, in order of its number on disk.
    pub const ALL: [Self; 7] =
        [Self::All, Self::Archive, Self::Drafts, Self::Flagged, Self::Junk, Self::Sent, Self::Trash];
}

/// An entry of the list: a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxEntry {
    /// The mailbox's id, which never changes.
    pub id: MailboxId,
    /// The mailbox's name.
    pub name: MailboxName,
    /// UIDVALIDITY, assigned at creation; each is used once in an account.
    pub uid_validity: UidValidity,
    /// The mailbox's purpose.
    pub special_use: Option<SpecialUse>,
}

/// The mailboxes of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxList {
    /// The account it belongs to.
    pub account: AccountId,
    /// Counts the commits; [`ModSeq::ZERO`] for an account that never had a mailbox.
    pub version: ModSeq,
    /// By name, each name once.
    pub entries: Vec<MailboxEntry>,
    /// Subscribed names; a name may be subscribed without existing (RFC 9051 §6.3.7).
    pub subscribed: BTreeSet<MailboxName>,
    /// The highest UIDVALIDITY ever assigned in this account.
    pub uid_validity_last: u32,
}

impl MailboxList {
    /// The empty list of a new account.
    pub const fn empty(account: AccountId) -> Self {
        Self {
            account,
            version: ModSeq::ZERO,
            entries: Vec::new(),
            subscribed: BTreeSet::new(),
            uid_validity_last: 0,
        }
    }

    /// Whether the list had mailboxes and has none now. No client can delete INBOX (RFC 9051
    /// §6.3.5). So the account was removed, or a rebuild of an index lost commits of the list.
    pub fn is_emptied(&self) -> bool {
        self.version != ModSeq::ZERO && self.entries.is_empty()
    }

    /// The entry of a name.
    pub fn find(&self, name: &MailboxName) -> Option<&MailboxEntry> {
        self.entries.binary_search_by(|e| e.name.cmp(name)).ok().and_then(|i| self.entries.get(i))
    }

    /// Whether there is a mailbox below this name. Logarithmic: names below `a` sort between `a/`
    /// and `a0`.
    pub fn has_children(&self, name: &MailboxName) -> bool {
        let prefix = format!("{name}/");
        let at = self.entries.partition_point(|e| e.name.as_str() < prefix.as_str());
        self.entries.get(at).is_some_and(|e| e.name.as_str().starts_with(&prefix))
    }

    /// The list after a commit.
    #[must_use]
    pub fn apply(&self, commit: &ListCommit) -> Self {
        let removed: BTreeSet<MailboxId> =
            commit.remove.iter().copied().chain(commit.upsert.iter().map(|e| e.id)).collect();
        let mut next = self.clone();
        next.entries.retain(|e| !removed.contains(&e.id));
        next.entries.extend(commit.upsert.iter().cloned());
        next.entries.sort_by(|a, b| a.name.cmp(&b.name));
        next.subscribed.extend(commit.subscribe.iter().cloned());
        for name in &commit.unsubscribe {
            next.subscribed.remove(name);
        }
        next.version = commit.version;
        next.uid_validity_last = commit.uid_validity_last;
        next
    }
}

/// A change of a mailbox list. It is applied whole if the list is still at `expected`, or not at
/// all.
#[derive(Debug, Clone)]
pub struct ListCommit {
    /// The account of the list.
    pub account: AccountId,
    /// The list's version that the commit was made against.
    pub expected: ModSeq,
    /// The list's version after the commit.
    pub version: ModSeq,
    /// Entries new or changed (a rename keeps the id).
    pub upsert: Vec<MailboxEntry>,
    /// Mailboxes deleted. The engine removes their messages later.
    pub remove: Vec<MailboxId>,
    /// Names subscribed.
    pub subscribe: Vec<MailboxName>,
    /// Names unsubscribed.
    pub unsubscribe: Vec<MailboxName>,
    /// The highest UIDVALIDITY assigned, including this commit's.
    pub uid_validity_last: u32,
}
