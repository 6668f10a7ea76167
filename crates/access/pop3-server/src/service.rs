//! The state that all sessions share.

use std::sync::Arc;

use posthaste_delivery::Delivery;
use posthaste_directory::Directory;
use posthaste_net::{Accounts, Certificates};
use posthaste_store::Store;

use crate::delays::Delays;
use crate::options::Pop3Options;

/// Everything a POP3 session needs beside its connection. All listeners share one.
pub struct Pop3Service {
    pub(crate) options: Arc<Pop3Options>,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) delivery: Delivery,
    pub(crate) certificates: Option<Certificates>,
    /// The limits of each account over all its sessions.
    pub(crate) accounts: Accounts,
    pub(crate) delays: Delays,
}

impl Pop3Service {
    /// A service on the store and the directory of `delivery`. Without `certificates` there is no
    /// STLS.
    pub fn new(options: Pop3Options, delivery: Delivery, certificates: Option<Certificates>) -> Self {
        let (store, directory) = (delivery.store().clone(), Arc::clone(delivery.directory()));
        let (accounts, delays) = (Accounts::default(), Delays::new(options.login_delay));
        Self { options: Arc::new(options), store, directory, delivery, certificates, accounts, delays }
    }

    /// Sets the limits for each account. Share them with other services.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = accounts;
        self
    }
}
