//! What the queue's runner sends with: routes to addresses, addresses to connections.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_queue::{Channel, Destination, Failure, Item, Sent, Transport, Unreachable};
use std::net::SocketAddr;

use crate::client::{Client, Trouble};
use crate::route::{Route, Routes, TlsRule};
use crate::tls::Tls;

/// Addresses that are tried for one destination at a time.
const ADDRESSES_MAX: usize = 8;

/// Sends by SMTP.
#[derive(Debug)]
pub struct SmtpTransport {
    host: String,
    routes: Routes,
    tls: Tls,
}

impl SmtpTransport {
    /// A transport for a server of this name.
    pub fn new(host: &str, routes: Routes, tls: Tls) -> Self {
        Self { host: host.to_owned(), routes, tls }
    }

    /// Tries the addresses of one host.
    async fn connect_host(&self, destination: &Destination, route: &Route) -> Result<Client, Failure> {
        let addresses = self.routes.addresses(destination, route).await?;
        let mut last = Failure::temporary("4.4.4", format!("{} has no address", route.host));
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            match self.connect_address(route, address).await {
                Ok(client) => return Ok(client),
                Err(failure) if failure.permanent => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn connect_address(&self, route: &Route, address: SocketAddr) -> Result<Client, Failure> {
        match Client::connect(route, address, &self.tls, &self.host).await {
            Ok(client) => Ok(client),
            Err(Trouble::Other(failure)) => Err(failure),
            Err(Trouble::Handshake(failure)) => {
                tracing::info!(host = route.host, reply = failure.reply, "tried again in clear");
                let clear = Route { tls: TlsRule::Never, ..route.clone() };
                match Client::connect(&clear, address, &self.tls, &self.host).await {
                    Ok(client) => Ok(client),
                    Err(Trouble::Other(failure) | Trouble::Handshake(failure)) => Err(failure),
                }
            }
        }
    }
}

#[async_trait]
impl Transport for SmtpTransport {
    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        let hosts = self.routes.hosts(destination).await.map_err(Unreachable)?;
        let mut last = Failure::temporary("4.4.4", format!("{destination} has no host that takes mail"));
        for route in &hosts {
            match self.connect_host(destination, route).await {
                Ok(client) => return Ok(Box::new(client)),
                Err(failure) if failure.permanent => return Err(Unreachable(failure)),
                Err(failure) => last = failure,
            }
        }
        Err(Unreachable(last))
    }
}

#[async_trait]
impl Channel for Client {
    async fn send(&mut self, item: &Item, message: Bytes) -> Sent {
        Self::send(self, item, &message).await
    }

    async fn close(self: Box<Self>) {
        self.quit().await;
    }
}
