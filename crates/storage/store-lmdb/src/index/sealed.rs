//! Values under a checksum.
//!
//! Each value of the index starts with a checksum of the rest, seeded with its key ([`seal`],
//! [`unseal`]). A value in the place of another fails it.

use posthaste_store::octets::Octets;

use crate::index::checksum::{seed_at, sum32};

/// Begins a value with space for the checksum; [`seal`] fills it in.
pub(crate) fn open_value() -> Vec<u8> {
    vec![0; 4]
}

/// Fills in the checksum of a value begun with [`open_value`].
pub(crate) fn seal(key_seed: u64, mut value: Vec<u8>) -> Vec<u8> {
    let sum = sum32(key_seed, &value[4..]).to_le_bytes();
    value[..4].copy_from_slice(&sum);
    value
}

/// The value after its checksum; `None` if it does not match.
pub(crate) fn unseal(key_seed: u64, value: &[u8]) -> Option<Octets<'_>> {
    let mut read = Octets(value);
    (read.u32()? == sum32(key_seed, read.0)).then_some(read)
}

/// A seed from a key of any length.
pub(crate) fn seed_of_key(key: &[u8]) -> u64 {
    seed_at(u64::from(sum32(0, key)), key.len() as u64)
}
