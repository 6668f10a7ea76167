//! The steps that all ways to log in share. Each reads the account's record, and counts the
//! attempt.

use std::sync::Arc;
use std::time::Instant;

use crate::address::Address;
use crate::directory::Directory;
use crate::error::Result;
use crate::grant::Client;
use crate::network::Network;
use crate::record::Stored;
use crate::throttle::{Attempt, Request};

impl Directory {
    /// The record for a name. A name that is no address costs the same read.
    pub(crate) async fn stored_for_login(&self, name: Option<&Address>) -> Result<Option<Arc<Stored>>> {
        self.records.stored(name.map_or("", Address::as_str)).await
    }

    /// Counts an attempt. `key`: what failures are counted for in addition to the address,
    /// usually the account's name.
    pub(crate) fn begin_attempt(&self, client: Client, key: &str) -> Attempt {
        self.throttle.lock().begin(client.address, key, Instant::now())
    }

    pub(crate) fn forgive(&self, attempt: Attempt) {
        self.throttle.lock().forgive(attempt, Instant::now());
    }

    pub(crate) fn succeed(&self, attempt: Attempt) {
        self.throttle.lock().succeed(attempt, Instant::now());
    }

    /// Counts a request to the server that checks tokens; `None` if it must not be made.
    pub(crate) fn begin_request(&self, attempt: Attempt) -> Option<Request> {
        self.throttle.lock().begin_request(attempt, Instant::now())
    }

    /// That server answered.
    pub(crate) fn end_request(&self, request: Request) {
        self.throttle.lock().end_request(request, Instant::now());
    }

    /// Networks that are trusted from now on, as loopback is: a webmail there brings
    /// everybody's logins, and only the account that fails is slowed down.
    pub fn trust_networks(&self, networks: Vec<Network>) {
        self.throttle.lock().trust(networks);
    }
}

/// The name under which failures are counted.
pub(crate) fn key_of(name: Option<&Address>) -> &str {
    name.map_or("", Address::as_str)
}
