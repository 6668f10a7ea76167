//! The words every crate shares: identifiers, flags, sets of UIDs and mailbox names. Also how
//! secrets are hidden in what people read.
//!
//! Each is a type of its own, so that a UID cannot be passed where a sequence number is meant.
//! Nothing here knows a protocol's syntax, a file, a clock or a lock. The exception is the syntax
//! of URLs, for the passwords in them.

mod flags;
mod ids;
mod masked;
mod name;
mod rights;
mod secret;
mod set;

pub use flags::{Flag, FlagSet, Keyword, KeywordError, KeywordTable};
pub use ids::{AccountId, BodyId, Id, MailboxId, ModSeq, SeqNum, Uid, UidValidity};
pub use masked::{masked, masked_text};
pub use name::{MailboxName, NameError, SEPARATOR};
pub use rights::Rights;
pub use secret::Secret;
pub use set::{NumSet, ResponseNum};
