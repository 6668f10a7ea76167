//! A mailbox that is converted.

use std::sync::Arc;

use posthaste_delivery::{DeliveryError, SharedBodies};
use posthaste_directory::Account;
use posthaste_store::{MailboxEntry, StoreError};

use crate::failure::Failure;

/// A mailbox to convert.
pub(super) struct MailboxToConvert {
    pub account: Account,
    pub mailbox: MailboxEntry,
    /// The account's bodies that several messages share.
    pub shared: Arc<SharedBodies>,
}

/// Whether the mailbox was deleted meanwhile. Then there is nothing to convert.
pub(super) fn is_deleted(error: &Failure) -> bool {
    let (Failure::Store(error) | Failure::Delivery(DeliveryError::Store(error))) = error else {
        return false;
    };
    matches!(error, StoreError::NoMailbox(_))
}
