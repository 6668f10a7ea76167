//! The tables `expunged` and `expunging`: what went from a mailbox, and what maintenance has yet to
//! remove of it.
//!
//! Key: mailbox (16), mod-sequence (8). Value: sum (4), set of UIDs. In `expunging`, the
//! mod-sequence [`ALL_OF_MAILBOX`] means all of a removed mailbox.

use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_store::Result;
use posthaste_store::octets::put_set;

use super::{Hex, Index, Indexed, Table, Writing, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// Means "every UID" in `expunging`: above every mod-sequence, which has 63 bits.
pub(crate) const ALL_OF_MAILBOX: u64 = u64::MAX;

impl Index {
    /// Stores a set under a key.
    pub(crate) fn put_set(&self, txn: &mut Writing, db: Table, key: &[u8], set: &NumSet) -> Result<()> {
        let mut value = open_value();
        put_set(&mut value, set);
        db.put(txn, key, &seal(seed_of_key(key), value)).indexed()
    }
}

/// The set stored under a key.
pub(crate) fn set_from(key: &[u8], value: &[u8]) -> Result<NumSet> {
    unseal(seed_of_key(key), value)
        .and_then(|mut read| read.set())
        .ok_or_else(damaged(format_args!("set of UIDs under {}", Hex(key))))
}

/// The key of a numbered record of a mailbox.
pub(crate) fn numbered_key(mailbox: MailboxId, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&mailbox.0.to_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of such a key.
pub(crate) fn number_of_key(key: &[u8]) -> Option<u64> {
    key.get(16..)?.try_into().ok().map(u64::from_be_bytes)
}
