//! Values of mailboxes in memory, within a number of bytes. The one used longest ago leaves first.

use std::collections::{BTreeMap, HashMap};

use posthaste_mail_model::MailboxId;

/// A value that takes memory.
pub(crate) trait Weighed: Clone + Default {
    /// The bytes of the value in memory.
    fn memory_bytes(&self) -> usize;

    /// Lets parts go until the rest fits, as far as it can.
    fn shrink(&mut self, bytes_max: usize);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lru<T> {
    bytes_max: usize,
    bytes: usize,
    entries: HashMap<MailboxId, Entry<T>>,
    /// By time of last use.
    order: BTreeMap<u64, MailboxId>,
    uses: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    bytes: usize,
    used: u64,
}

impl<T: Weighed> Lru<T> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, entries: HashMap::new(), order: BTreeMap::new(), uses: 0 }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of a mailbox; counts as a use.
    pub(crate) fn get(&mut self, mailbox: MailboxId) -> T {
        self.uses += 1;
        let Some(entry) = self.entries.get_mut(&mailbox) else { return T::default() };
        self.order.remove(&entry.used);
        entry.used = self.uses;
        self.order.insert(entry.used, mailbox);
        entry.value.clone()
    }

    /// Changes the value of a mailbox.
    pub(crate) fn change(&mut self, mailbox: MailboxId, change: impl FnOnce(&mut T)) {
        let mut value = self.get(mailbox);
        change(&mut value);
        value.shrink(self.bytes_max);
        self.forget(mailbox);
        let bytes = value.memory_bytes();
        while self.bytes + bytes > self.bytes_max {
            let Some((_, &oldest)) = self.order.first_key_value() else { break };
            self.forget(oldest);
        }
        self.bytes += bytes;
        self.order.insert(self.uses, mailbox);
        self.entries.insert(mailbox, Entry { value, bytes, used: self.uses });
    }

    /// Forgets a mailbox.
    pub(crate) fn forget(&mut self, mailbox: MailboxId) {
        if let Some(entry) = self.entries.remove(&mailbox) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}
