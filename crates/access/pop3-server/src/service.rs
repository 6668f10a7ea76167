//! The state that all sessions share.

use std::sync::Arc;

use posthaste_delivery::{Delivery, HeldMessages};
use posthaste_directory::Directory;
use posthaste_net::{Accounts, ByteBudget, Certificates};
use posthaste_store::Store;

use crate::delays::Delays;
use crate::options::Pop3Options;

/// Everything a POP3 session needs in addition to its connection. All listeners share one.
pub struct Pop3Service {
    pub(crate) options: Arc<Pop3Options>,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) delivery: Delivery,
    pub(crate) certificates: Option<Certificates>,
    /// The limits of each account over all its sessions.
    pub(crate) accounts: Accounts,
    pub(crate) delays: Delays,
    /// Memory for large messages that are converted and read again.
    pub(crate) reads: ByteBudget,
    /// The large messages that sessions hold.
    pub(crate) held: HeldMessages,
}

/// Bytes of the messages that all sessions together hold: four of the largest.
const READS_BYTES_DEFAULT: usize = 256 << 20;

impl Pop3Service {
    /// A service on the store and the directory of `delivery`. Without `certificates` there is no
    /// STLS.
    pub fn new(options: Pop3Options, delivery: Delivery, certificates: Option<Certificates>) -> Self {
        let (store, directory) = (delivery.store().clone(), Arc::clone(delivery.directory()));
        let (accounts, delays) = (Accounts::default(), Delays::new(options.login_delay));
        let reads = one_message(ByteBudget::new(READS_BYTES_DEFAULT), &delivery);
        let (options, held) = (Arc::new(options), HeldMessages::default());
        Self { options, store, directory, delivery, certificates, accounts, delays, reads, held }
    }

    /// Sets the memory for large messages that are read again, and those that sessions hold. Share
    /// both with other services.
    #[must_use]
    pub fn with_reads(mut self, reads: ByteBudget, held: HeldMessages) -> Self {
        self.reads = one_message(reads, &self.delivery);
        self.held = held;
        self
    }

    /// Sets the limits for each account. Share them with other services.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = accounts;
        self
    }
}

/// The budget with a share of each account that holds the largest message.
fn one_message(reads: ByteBudget, delivery: &Delivery) -> ByteBudget {
    let largest = usize::try_from(delivery.options().message_len_max).unwrap_or(usize::MAX);
    reads.with_share_of_at_least(largest)
}
