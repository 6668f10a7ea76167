//! Mail that waits to be sent to other domains: the queue, its schedule, and reports to senders.
//!
//! ```text
//! submission ── Relay::accept ──> Queue (in the store) ──> Runner ── Transport ──> the next host
//!                                                            │
//!                                        gave up: a report ──┴──> the sender's mailbox, or the Queue
//! ```
//!
//! Invariants:
//! * [`Relay::accept`] returns after the message and its envelope are on disk.
//! * An item leaves the queue after the next host has answered 250, or after the report about it is
//!   on disk. A crash in between may send it twice (RFC 1047). No crash loses it. A report is sent
//!   once, even after a crash at any step (`pending_report`).
//! * An item has one destination. A message for three domains is three items, which share the bytes
//!   of one body. A message with very many recipients at one destination is several items. Local
//!   recipients that a message did not reach are an item, too ([`Local`]).
//! * On a cluster one node sends at a time (`lease`). Another takes over within a minute.
//! * While a destination does not answer, its items cost nothing: the destination waits, not each
//!   item.
//!
//! An item has two parts. The message is a row of a mailbox of the reserved account
//! [`QUEUE_ACCOUNT`]. The envelope and the outcomes so far are the directory record `queue/<uid>`.

mod copy;
mod date;
mod dsn;
mod error;
mod figures;
mod header_lines;
mod item;
mod keys;
mod lease;
mod ledger;
mod local;
mod parts;
mod pending_report;
mod priority;
mod queue;
mod relay;
mod report;
mod runner;
mod schedule;
mod seen_items;
mod success;
#[cfg(test)]
mod tests;
mod transport;

pub use copy::{
    CopiedItems, RestoredQueue, compare_queues, compare_restored_queue, copy_queue, has_other_items,
    restore_queue,
};
pub use date::date_time;
pub use dsn::{EnvelopeId, Notify, OriginalRecipient, Return, xtext};
pub use error::QueueError;
pub use figures::{Attempts, Done, Figures, Totals};
pub use header_lines::header_lines;
pub use item::{Address, Destination, Envelope, Item, ItemId, Local, Outcome, Recipient, TlsRequirement, To};
pub use lease::LeaseTimes;
pub use local::Missed;
pub use priority::Priority;
pub use queue::{Page, QUEUE_ACCOUNT, Queue, Wait};
pub use relay::{Refusal, Relay, ScriptsRun, address_of};
pub use runner::{Clock, Runner, RunnerOptions};
pub use schedule::{Connections, ItemState, RetryTimes, SCHEDULED_BYTES_MAX};
pub use success::Success;
pub use transport::{Body, Channel, Failure, LeaseEnd, REPLY_CHARS_MAX, Sent, Transport, Unreachable};
