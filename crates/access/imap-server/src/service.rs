//! What all sessions share, and the way in for a connection.

use std::sync::Arc;

use posthaste_delivery::Delivery;
use posthaste_directory::Directory;
use posthaste_net::{ByteBudget, Certificates, Connection, Shutdown};
use posthaste_store::Store;

use crate::connection;
use crate::options::ImapOptions;
use crate::session::Session;

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
        let (store, directory) = (delivery.store().clone(), Arc::clone(delivery.directory()));
        Self { options, store, directory, delivery, certificates, budget }
    }

    /// Serves one connection to its end. Once a shutdown is asked for, the command under way is finished and
    /// BYE is said.
    pub async fn serve(self: Arc<Self>, connection: Connection, shutdown: Shutdown) {
        let peer = connection.peer();
        let mut session = Box::new(Session::new(self, connection, shutdown));
        match connection::run(&mut session).await {
            Ok(()) => tracing::debug!(%peer, "session ended"),
            Err(error) if error.is_ordinary() => tracing::debug!(%peer, %error, "session lost"),
            Err(error) => tracing::warn!(%peer, %error, "session broken off"),
        }
        let Session { wire, service, .. } = *session;
        // Whatever there is to say was said; a peer that does not hear it is not waited for.
        let _ = wire.connection.close(service.options.write_within).await;
    }
}
