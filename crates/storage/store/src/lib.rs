//! The mail store: mailboxes as immutable shared views, changed by conditional commits, kept by an
//! engine.
//!
//! Protocols see [`Store`] and [`Mailbox`]; engines implement [`Engine`]. Between them lies the one
//! idea of the project: **a mailbox is a value.** A session holds an `Arc` of it, a change makes a
//! new one that shares all it did not touch, and what a session has to announce is the difference
//! of two.
//!
//! What always holds: a change is on disk before anyone is told of it; no lock is held while an
//! engine works; what a summary or a body means is not this crate's business.

mod change;
mod engine;
mod error;
mod head;
mod list;
mod mailbox;
pub mod octets;
mod oracle;
mod row;
mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod transfer;
mod view;

pub use change::{Appended, CommitOutcome, Content, FlagChange, MailboxCommit, NewMessage};
pub use engine::{
    BodyRange, Changes, DirectoryChange, DirectoryEntry, Engine, Epoch, Report, Stored, Unreadable, Visit,
};
pub use error::{Result, StoreError, named_ranges};
pub use head::{Counts, MailboxHead};
pub use list::{ListCommit, MailboxEntry, MailboxList, SpecialUse};
pub use mailbox::{Copied, Destination, Expunged, FlagsStored, IncomingMessage, Mailbox, Moved, Watch};
pub use oracle::MemoryEngine;
pub use row::Row;
pub use store::{ListDraft, Store, StoreOptions};
pub use transfer::{Compare, Places, Progress, Transfer};
pub use view::{CHUNK_ROWS, Difference, Part, Rows, Runs, Totals, View, ViewBuilder};
