//! The messages that must be in each account at the end, each with its minimum and maximum number
//! of copies.
//!
//! A change is entered before it is requested (it may happen) and again when it is acknowledged (it
//! did). A request without an answer stays between the two, because its outcome is unknown.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use posthaste_load_workload::corpus::Serial;

/// The number of times that a message is in an account: at least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountBounds {
    /// Acknowledged, and certainly not expunged.
    pub least: i32,
    /// Possibly there.
    pub most: i32,
}

/// One account's messages.
pub type Account = HashMap<Serial, CountBounds>;

/// The message of each UID, by mailbox and UIDVALIDITY. A UID is never reused, by
/// RFC 9051 §2.3.1.1, so expunged messages are included.
type Uids = HashMap<(String, u32, u32), Serial>;

/// The messages of all accounts of a run.
#[derive(Default)]
pub struct Ledger {
    accounts: Vec<Mutex<Account>>,
    uids: Vec<Mutex<Uids>>,
}

impl Ledger {
    /// A ledger for this many accounts.
    pub fn new(accounts: u32) -> Self {
        Self {
            accounts: (0..accounts).map(|_| Mutex::default()).collect(),
            uids: (0..accounts).map(|_| Mutex::default()).collect(),
        }
    }

    fn change(&self, account: u32, serial: Serial, least: i32, most: i32) {
        if serial == 0 {
            return;
        }
        if let Some(book) = self.accounts.get(account as usize) {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            let span = book.entry(serial).or_default();
            span.least += least;
            span.most += most;
        }
    }

    /// The message was there at the start.
    pub fn found(&self, account: u32, serial: Serial) {
        self.change(account, serial, 1, 1);
    }

    /// Records that a message will be added (sent, appended, copied).
    pub fn adding(&self, account: u32, serial: Serial) {
        self.change(account, serial, 0, 1);
    }

    /// The message was acknowledged.
    pub fn added(&self, account: u32, serial: Serial) {
        self.change(account, serial, 1, 0);
    }

    /// The message was refused permanently.
    pub(super) fn not_added(&self, account: u32, serial: Serial) {
        self.change(account, serial, 0, -1);
    }

    /// The message is about to be removed.
    pub fn removing(&self, account: u32, serial: Serial) {
        self.change(account, serial, -1, 0);
    }

    /// The message was reported as removed.
    pub fn removed(&self, account: u32, serial: Serial) {
        self.change(account, serial, 0, -1);
    }

    /// The message was not removed after all.
    pub(super) fn not_removed(&self, account: u32, serial: Serial) {
        self.change(account, serial, 1, 0);
    }

    /// Notes the message of a UID in a mailbox (name and UIDVALIDITY). Returns the other message
    /// if the UID named another one before.
    pub fn identified(
        &self,
        account: u32,
        (mailbox, validity): (&str, u32),
        uid: u32,
        serial: Serial,
    ) -> Option<Serial> {
        if serial == 0 || validity == 0 {
            return None;
        }
        let mut uids = self.uids.get(account as usize)?.lock().unwrap_or_else(PoisonError::into_inner);
        let first = *uids.entry((mailbox.to_owned(), validity, uid)).or_insert(serial);
        (first != serial).then_some(first)
    }

    /// One account's book.
    pub fn account(&self, account: u32) -> Account {
        let book = self.accounts.get(account as usize);
        book.map(|b| b.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_always_names_the_same_message() {
        let ledger = Ledger::new(1);
        assert_eq!(ledger.identified(0, ("INBOX", 9), 1, 10), None);
        assert_eq!(ledger.identified(0, ("INBOX", 9), 1, 10), None);
        assert_eq!(ledger.identified(0, ("INBOX", 9), 1, 11), Some(10));
        assert_eq!(ledger.identified(0, ("INBOX", 8), 1, 11), None);
        assert_eq!(ledger.identified(0, ("other", 9), 1, 11), None);
    }

    #[test]
    fn unacknowledged_messages_may_be_there() {
        let ledger = Ledger::new(1);
        ledger.found(0, 1);
        ledger.removing(0, 1);
        ledger.adding(0, 2);
        ledger.added(0, 2);
        ledger.adding(0, 3);
        let book = ledger.account(0);
        assert_eq!(book[&1], CountBounds { least: 0, most: 1 });
        assert_eq!(book[&2], CountBounds { least: 1, most: 1 });
        assert_eq!(book[&3], CountBounds { least: 0, most: 1 });
    }
}
