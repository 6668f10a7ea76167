//! The bytes of stored values: what a cell holds, and the checksum before it.
//!
//! Nothing here reads or writes the database.

pub(crate) mod chunk;
pub(crate) mod seal;
pub(crate) mod values;

use posthaste_store::StoreError;

/// The error for a state that correct code never reaches. A debug build panics, except in this
/// crate's own tests. A release build refuses the call.
// The assertion holds in this crate's own tests alone.
#[allow(clippy::assertions_on_constants)]
pub(crate) fn impossible(what: String) -> StoreError {
    debug_assert!(cfg!(test), "{what}");
    StoreError::Corrupt(what)
}
