//! Errors of the queue.

use posthaste_authentication::KeyError;
use posthaste_delivery::DeliveryError;
use posthaste_store::StoreError;

/// Why the queue could not do it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The message was refused.
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is damaged, or of another version.
    #[error("the directory record {record} cannot be read: {why}")]
    Record {
        /// The name of the record.
        record: String,
        /// The fault.
        why: String,
    },
    /// The message would leave unsigned.
    #[error("the message cannot be signed: {0}")]
    Unsigned(#[from] KeyError),
    /// The item does not exist.
    #[error("there is no item {0} in the queue: `posthaste queue list` shows all items")]
    NoItem(u32),
    /// Too much waits already because of the account.
    #[error(
        "messages that wait because of {account} would have more than {limit} octets (`limits.account_queued`)"
    )]
    AccountFull {
        /// The account.
        account: String,
        /// The limit.
        limit: u64,
    },
    /// Too many reports to other domains wait already, or too many to this one.
    #[error("too many reports to other domains wait, or too many to {domain}")]
    ReportsFull {
        /// The registered domain.
        domain: String,
    },
    /// The queue has as many items as it may have, or an account has half of them.
    #[error(
        "the queue has no room: it may have {limit} items, an account half of them, and a quarter is for users"
    )]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The item was changed by others again and again.
    #[error("item {0} is being changed by others; try again")]
    Busy(u32),
}
