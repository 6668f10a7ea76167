//! Commits that are acknowledged, and in a pack, but not yet in the index. Before a reader reads
//! one of them, the index is brought up to date.

use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::HashSet;
use parking_lot::Mutex;
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::MailboxCommit;

#[derive(Default)]
struct Sets {
    mailboxes: HashSet<MailboxId>,
    bodies: HashSet<BodyId>,
}

/// Mailboxes and bodies whose commits the index lacks. Filled before a commit is acknowledged,
/// emptied after the index has it. A reader that begins after the acknowledgement finds the
/// commit here or in the index.
#[derive(Default)]
pub(crate) struct Unindexed {
    /// Whether there are any. If not, a reader looks no further.
    any: AtomicBool,
    sets: Mutex<Sets>,
}

impl Unindexed {
    /// A commit is about to be acknowledged.
    pub(crate) fn add(&self, commit: &MailboxCommit) {
        let mut sets = self.sets.lock();
        sets.mailboxes.insert(commit.mailbox);
        sets.bodies.extend(commit.appended.iter().map(|m| m.body));
        self.any.store(true, Ordering::Release);
    }

    /// A commit in a pack cannot be brought into the index yet: its mailbox.
    pub(crate) fn add_mailbox(&self, mailbox: MailboxId) {
        self.sets.lock().mailboxes.insert(mailbox);
        self.any.store(true, Ordering::Release);
    }

    /// A commit in a pack cannot be brought into the index yet: one of its bodies.
    pub(crate) fn add_body(&self, body: BodyId) {
        self.sets.lock().bodies.insert(body);
        self.any.store(true, Ordering::Release);
    }

    /// The index has all of them.
    pub(crate) fn clear(&self) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut sets = self.sets.lock();
        sets.mailboxes.clear();
        sets.bodies.clear();
        self.any.store(false, Ordering::Release);
    }

    /// Whether there is any mailbox or body.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether one of these mailboxes is among them.
    pub(crate) fn has_mailbox(&self, mailboxes: &[MailboxId]) -> bool {
        self.any() && {
            let sets = self.sets.lock();
            mailboxes.iter().any(|m| sets.mailboxes.contains(m))
        }
    }

    /// Whether this body is among them.
    pub(crate) fn has_body(&self, body: BodyId) -> bool {
        self.any() && self.sets.lock().bodies.contains(&body)
    }
}
