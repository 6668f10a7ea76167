//! Mailboxes to which messages were added, or from which they were expunged, and deleted
//! mailboxes: for background work.
//!
//! Invariants: a mailbox is listed once, however often it changes, with the first UID that may be
//! new; while nobody reads the list, a change costs one atomic load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use posthaste_mail_model::{MailboxId, Uid};
use tokio::sync::Notify;

/// Mailboxes that wait at most: some 4 MiB. Further ones are noted with their next change.
const WAITING_MAX: usize = 100_000;

/// See the module.
#[derive(Default)]
pub struct ChangedMailboxes {
    is_wanted: AtomicBool,
    waiting: Mutex<HashMap<MailboxId, Uid>>,
    any: Notify,
}

impl ChangedMailboxes {
    /// Whether changes are noted.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// From now on changes are noted.
    pub fn begin(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Notes a mailbox, if anyone reads the list. Messages from this UID on may be new.
    pub fn note(&self, mailbox: MailboxId, from: Uid) {
        if !self.is_wanted() {
            return;
        }
        let is_first = {
            let mut waiting = self.waiting.lock();
            let is_first = waiting.is_empty();
            if let Some(first) = waiting.get_mut(&mailbox) {
                *first = from.min(*first);
            } else if waiting.len() < WAITING_MAX {
                waiting.insert(mailbox, from);
            }
            is_first
        };
        if is_first {
            self.any.notify_one();
        }
    }

    /// Waits until a mailbox is noted.
    pub async fn wait(&self) {
        while self.waiting.lock().is_empty() {
            self.any.notified().await;
        }
    }

    /// Takes all noted mailboxes, in no order, each with the first UID that may be new.
    pub fn take(&self) -> Vec<(MailboxId, Uid)> {
        self.waiting.lock().drain().collect()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn a_mailbox_is_noted_once_with_its_first_new_uid() {
        let (changed, uid) = (ChangedMailboxes::default(), |n| Uid::new(n).unwrap());
        let mailbox = MailboxId(Id::new(1, 1));
        changed.note(mailbox, uid(3));
        assert!(changed.take().is_empty(), "nobody wants to know");
        changed.begin();
        [7, 5, 9].into_iter().for_each(|n| changed.note(mailbox, uid(n)));
        assert_eq!(changed.take(), [(mailbox, uid(5))]);
        assert!(changed.take().is_empty());
    }
}
