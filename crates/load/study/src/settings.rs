//! Names of settings in the results that the study writes and its tables read.

/// Bytes that the filled store takes on the disk.
pub(crate) const FILLED_BYTES: &str = "bytes of the filled store";
/// The setting for the way by which users send mail.
pub(crate) const SENT_BY: &str = "users send by";
/// The setting for the way by which mail from outside arrives.
pub(crate) const ARRIVES_BY: &str = "mail arrives by";
/// Messages that the other server took during the run.
pub(crate) const TAKEN_BY_OTHER: &str = "messages taken by the other server";

/// The name, before a number, of the nodes that clients reach.
pub const ACCESS: &str = "access";
/// The nodes of the database.
pub const STORE: &str = "store";
