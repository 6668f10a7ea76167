//! Mailboxes of which messages came or went, or that were deleted: for work that is done in the
//! background.
//!
//! What always holds: a mailbox is here once, however often it changes; while nobody takes them,
//! a change costs one atomic load.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use posthaste_mail_model::MailboxId;
use tokio::sync::Notify;

/// Mailboxes that wait at most: some 3 MiB. Further ones are noted with their next change.
const WAITING_MAX: usize = 100_000;

/// See the module.
#[derive(Default)]
pub struct ChangedMailboxes {
    is_wanted: AtomicBool,
    waiting: Mutex<HashSet<MailboxId>>,
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

    /// Notes a mailbox, if anyone wants to know.
    pub fn note(&self, mailbox: MailboxId) {
        if !self.is_wanted() {
            return;
        }
        let is_first = {
            let mut waiting = self.waiting.lock();
            let is_first = waiting.is_empty();
            if waiting.len() < WAITING_MAX {
                waiting.insert(mailbox);
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

    /// Takes all that are noted, in no order.
    pub fn take(&self) -> Vec<MailboxId> {
        self.waiting.lock().drain().collect()
    }
}
