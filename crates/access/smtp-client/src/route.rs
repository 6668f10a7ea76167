//! Which hosts take mail for a destination.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use posthaste_mail_model::Secret;
use posthaste_queue::{Failure, address_of};

use crate::dns::Dns;

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsRule {
    /// If the host offers it, with any certificate; in clear if not, or if the handshake fails
    /// (RFC 7435).
    #[default]
    Opportunistic,
    /// Always, with a certificate that is verified; else the mail waits.
    Verified,
    /// Always and from the first byte (RFC 8314 §3.3), with a certificate that is verified.
    Implicit,
    /// Never: for hosts on a network that encrypts below us.
    Never,
}

/// The credentials for a host.
#[derive(Debug, Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Secret<String>,
}

/// A host that takes mail.
#[derive(Debug, Clone)]
pub struct Route {
    /// The host's name, which its certificate must have, or its address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether the connection is encrypted.
    pub tls: TlsRule,
    /// A login, only ever sent inside verified TLS.
    pub login: Option<Login>,
}

/// The hosts that take mail, by destination.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// The routes of single domains.
    pub domains: HashMap<String, Route>,
    /// The route of all other domains.
    pub smarthost: Option<Route>,
    /// The resolver that finds the hosts of all other domains, if there is no smarthost.
    pub dns: Option<Dns>,
}

impl Routes {
    /// The host that is named for a domain here, whatever DNS says.
    pub(crate) fn named(&self, domain: &str) -> Option<&Route> {
        self.domains.get(domain).or(self.smarthost.as_ref())
    }

    /// The resolver.
    pub(crate) fn dns(&self) -> Result<&Dns, Failure> {
        self.dns.as_ref().ok_or_else(|| {
            Failure::temporary("4.4.4", "there is no route: set relay.smarthost, or relay.routes")
        })
    }

    /// The addresses of a host: by DNS if it was found there, else as the system knows it.
    pub(crate) async fn addresses(&self, domain: &str, route: &Route) -> Result<Vec<SocketAddr>, Failure> {
        let is_literal = address_of(domain).is_some();
        if let Some(dns) = self.dns.as_ref().filter(|_| self.named(domain).is_none() && !is_literal) {
            let found = dns.addresses(&route.host).await?;
            return Ok(found.into_iter().map(|ip| SocketAddr::new(ip, route.port)).collect());
        }
        let found = tokio::net::lookup_host((route.host.as_str(), route.port)).await;
        // RFC 3463 §3.5: directory server failure.
        let failed = |error: io::Error| Failure::temporary("4.4.3", format!("{}: {error}", route.host));
        found.map(Iterator::collect).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str) -> Route {
        Route { host: host.into(), port: 25, tls: TlsRule::default(), login: None }
    }

    #[test]
    fn a_domains_route_goes_before_the_smarthost() {
        let mut routes = Routes::default();
        assert!(routes.named("x.test").is_none() && !routes.dns().unwrap_err().permanent);
        routes.smarthost = Some(route("smart"));
        routes.domains.insert("x.test".into(), route("x"));
        let host = |domain: &str| routes.named(domain).unwrap().host.clone();
        assert_eq!((host("x.test"), host("y.test")), ("x".into(), "smart".into()));
    }
}
