//! The data directory: what it is, who may use it, and whether its parts fit together.

pub(crate) mod format;
pub(crate) mod identity;
pub(crate) mod lock;
pub(crate) mod reserve;
pub(crate) mod unknown;
