//! What all sessions share.

use std::sync::Arc;

use posthaste_delivery::Delivery;
use posthaste_directory::Directory;
use posthaste_net::{ByteBudget, Certificates};
use posthaste_store::Store;

use crate::options::ImapOptions;

/// Everything an IMAP session needs beside its connection. One for all listeners.
pub struct ImapService {
    pub(crate) options: ImapOptions,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) delivery: Delivery,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) budget: ByteBudget,
}

impl ImapService {
    /// A service on the store and the directory of `delivery`. Without `certificates` there is no STARTTLS. `budget` bounds the bytes of messages that all
    /// sessions together hold while they are appended.
    pub fn new(
        options: ImapOptions,
        delivery: Delivery,
        certificates: Option<Certificates>,
        budget: ByteBudget,
    ) -> Self {
        // One account's share must hold the largest APPEND that is allowed.
        let largest = usize::try_from(options.append_total_bytes_max).unwrap_or(usize::MAX);
        let budget = budget.with_share_of_at_least(largest);
        let (store, directory) = (delivery.store().clone(), Arc::clone(delivery.directory()));
        Self { options, store, directory, delivery, certificates, budget }
    }
}
