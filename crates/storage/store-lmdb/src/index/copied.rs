//! The table `copied`: messages whose bodies are still to be counted once more.
//!
//! Key: sequence number (8). Value: sum (4), mailbox (16), set of UIDs.

use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_store::Result;
use posthaste_store::octets::{Octets, put_set};

use super::{Hex, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// A note of copies: mailbox and set.
pub(crate) fn copied_from(key: &[u8], value: &[u8]) -> Result<(MailboxId, NumSet)> {
    let read = |mut read: Octets<'_>| Some((MailboxId(read.id()?), read.set()?));
    unseal(seed_of_key(key), value)
        .and_then(read)
        .ok_or_else(damaged(format_args!("note of copies under {}", Hex(key))))
}

/// The bytes of a note of copies.
pub(crate) fn copied_value(key: &[u8], mailbox: MailboxId, set: &NumSet) -> Vec<u8> {
    let mut value = open_value();
    value.extend_from_slice(&mailbox.0.to_bytes());
    put_set(&mut value, set);
    seal(seed_of_key(key), value)
}
