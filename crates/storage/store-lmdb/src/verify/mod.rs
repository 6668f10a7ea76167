//! Verification: the check of a whole store, the pages of the index, and the trace of a fault
//! signal.

pub(crate) mod check;
pub(crate) mod pages;
pub(crate) mod suspicion;
