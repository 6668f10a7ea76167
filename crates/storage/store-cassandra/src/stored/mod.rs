//! The bytes of stored values: what a cell holds, and the checksum before it.
//!
//! Nothing here reads or writes the database.

pub(crate) mod chunk;
pub(crate) mod seal;
pub(crate) mod values;
