//! The mail store: mailboxes as immutable shared views, changed by conditional commits, kept by an
//! engine.
//!
//! Protocols see [`Store`] and [`Mailbox`]; engines implement [`Engine`]. The central idea of the
//! project connects them: **a mailbox is a value.** A session holds an `Arc` of it. A change makes
//! a new value that shares everything it did not touch. The session reports the difference between
//! two values.
//!
//! Invariants: a change is on disk before it is reported to anyone. No lock is held while an
//! engine works. This crate does not interpret summaries and bodies.

mod backoff;
mod cache;
mod change;
mod changed;
pub mod compressed;
mod context;
mod counted_in;
mod engine;
mod entry;
mod error;
mod follow;
pub mod form;
mod head;
mod holder;
mod items;
mod list;
mod mailbox;
pub mod octets;
mod offload;
mod old_views;
mod open_views;
mod oracle;
mod pages;
mod pinned;
mod row;
mod served;
mod store;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod transfer;
mod view;

pub use change::{Appended, CommitOutcome, Content, ExpungedUids, FlagChange, MailboxCommit, NewMessage};
pub use changed::ChangedMailboxes;
pub use context::StoreOptions;
pub use engine::{
    BodyRange, Changes, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders, Loaded, Recodes, Report,
    Stored, SummaryOf, Unreadable, Visit,
};
pub use entry::set_directory_entry;
pub use error::{Result, StoreError, named_ranges};
pub use follow::{AccountNews, AccountWatch, MailboxNews, OwnArrivals};
pub use head::{Counts, MailboxHead};
pub use holder::ViewHolder;
pub use items::Keep;
pub use list::{IN_ANOTHER_LIST, ListCommit, MailboxEntry, MailboxList, SpecialUse};
pub use mailbox::{
    Copied, Destination, Expunged, FlagsStored, HeldPermit, IncomingMessage, Mailbox, Moved, Watch,
};
pub use offload::Place;
pub use old_views::SessionEnd;
pub use oracle::MemoryEngine;
pub use pages::{DirectoryPages, page_within};
pub use pinned::PinnedBody;
pub use row::Row;
pub use served::Serve;
pub use store::{ListDraft, Store, WeakStore};
pub use transfer::{Compare, CopiedRecords, LeftOut, Progress, TargetIds, Transfer, Verifier};
pub use view::{
    CHUNK_ROWS, ChunkMatch, Comparison, Difference, RowFinder, Rows, Runs, Totals, View, ViewBuilder,
};
