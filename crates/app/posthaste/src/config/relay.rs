//! The section `relay`: mail to other domains.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_directory::Network;
use posthaste_directory::unix_time::seconds;
use posthaste_mail_model::Secret;
use posthaste_queue::{Connections, RetryTimes};
use posthaste_smtp_client::{Dns, Login, Route, Routes, Tls, TlsRule};
use serde::Deserialize;

use super::values::{Auto, networks, period};
use crate::failure::{Failure, Result};
use crate::private;

/// The port that mail between hosts goes to (RFC 5321 §4.5.4.2).
const SMTP_PORT: u16 = 25;

/// Connections to one domain at a time. More would take the places of other domains: there are 64.
const CONNECTIONS_MAX: usize = 32;

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Relay {
    pub enabled: Auto<bool>,
    pub smarthost: String,
    pub tls: RouteTls,
    pub user: String,
    pub password_file: PathBuf,
    pub routes: Vec<DomainRoute>,
    pub ca: PathBuf,
    pub dns: Vec<SocketAddr>,
    pub port: u16,
    #[serde(deserialize_with = "networks")]
    pub private_networks: Vec<Network>,
    pub mta_sts: bool,
    pub sts_port: u16,
    pub dane: bool,
    pub to_addresses: bool,
    pub connections_per_domain: usize,
    pub srs: bool,
    pub verp: bool,
    #[serde(deserialize_with = "period")]
    pub retry_first: Duration,
    #[serde(deserialize_with = "period")]
    pub retry_longest: Duration,
    #[serde(deserialize_with = "period")]
    pub warn_after: Duration,
    #[serde(deserialize_with = "period")]
    pub expire_after: Duration,
}

/// The route of mail for one domain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DomainRoute {
    pub domain: String,
    pub host: String,
    #[serde(default)]
    pub tls: RouteTls,
    #[serde(default)]
    pub accept: RouteAccept,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub password_file: PathBuf,
    pub connections: Option<usize>,
}

/// The clients whose mail for a domain is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteAccept {
    #[default]
    Users,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteTls {
    #[default]
    Opportunistic,
    Verified,
    Implicit,
    Never,
}

impl From<RouteTls> for TlsRule {
    fn from(set: RouteTls) -> Self {
        match set {
            RouteTls::Opportunistic => Self::Opportunistic,
            RouteTls::Verified => Self::Verified,
            RouteTls::Implicit => Self::Implicit,
            RouteTls::Never => Self::Never,
        }
    }
}

impl Relay {
    /// The times at which a message is tried again, warned about and given up.
    pub fn times(&self) -> RetryTimes {
        RetryTimes {
            first: seconds(self.retry_first),
            longest: seconds(self.retry_longest),
            warn_after: seconds(self.warn_after),
            expire_after: seconds(self.expire_after),
        }
    }

    /// The number of connections that a domain has at a time.
    pub fn connections(&self) -> Connections {
        let of_route = |route: &DomainRoute| Some((normal_domain(&route.domain).ok()?, route.connections?));
        Connections {
            each: self.connections_per_domain,
            domains: self.routes.iter().filter_map(of_route).collect(),
        }
    }

    /// The resolver of DNS.
    pub fn dns(&self) -> Result<Dns> {
        let dns = Dns::new(&self.dns, self.port);
        let dns = dns.map_err(|error| Failure::Usage(format!("`relay.dns`: {error}")))?;
        Ok(dns.allowing(&self.private_networks))
    }

    /// The hosts that take mail. Reads the password.
    pub fn routes(&self) -> Result<Routes> {
        let mut routes = Routes::default();
        for DomainRoute { domain, host, tls, user, password_file, .. } in &self.routes {
            let normal = normal_domain(domain).map_err(Failure::Usage)?;
            let login = login("relay.routes.password_file", user, password_file)?;
            routes.domains.insert(normal, route("relay.routes", host, *tls, login)?);
        }
        if !self.smarthost.is_empty() {
            let login = login("relay.password_file", &self.user, &self.password_file)?;
            routes.smarthost = Some(route("relay.smarthost", &self.smarthost, self.tls, login)?);
        } else {
            let dns = self.dns()?;
            routes.dns = Some(if self.dane { dns.trusting(&self.dns) } else { dns });
        }
        Ok(routes)
    }

    /// Domains, in normal form, whose mail is taken from everybody.
    pub fn relay_domains(&self) -> impl Iterator<Item = String> + '_ {
        let of_all = self.routes.iter().filter(|route| route.accept == RouteAccept::All);
        of_all.filter_map(|route| posthaste_directory::normal_domain(&route.domain).ok())
    }

    /// TLS with the authorities of `ca`, if that file is there.
    pub fn tls(&self) -> Result<Tls> {
        let authorities = (!self.ca.as_os_str().is_empty()).then_some(self.ca.as_path());
        let present = authorities.filter(|file| file.exists());
        if authorities.is_some() && present.is_none() {
            tracing::warn!(file = %self.ca.display(), "the file that relay.ca names does not exist: routes with \
                                                       verified TLS cannot be used");
        }
        let unreadable = |e| Failure::Usage(format!("`relay.ca`: {}: {e}", self.ca.display()));
        Tls::new(present).map_err(unreadable)
    }

    /// Checks rules that the types do not express.
    pub(super) fn check(&self) -> std::result::Result<(), String> {
        check_login("relay.", &self.user, &self.password_file, self.tls)?;
        if self.dane && self.dns.is_empty() {
            return Err(
                "`relay.dane` needs `relay.dns`: name a resolver on this machine that validates DNSSEC, \
                        such as \"127.0.0.1:53\""
                    .into(),
            );
        }
        if !self.smarthost.is_empty() {
            host_and_port("relay.smarthost", &self.smarthost)?;
        }
        for DomainRoute { domain, host, tls, user, password_file, .. } in &self.routes {
            normal_domain(domain)?;
            host_and_port("relay.routes", host)?;
            check_login("relay.routes.", user, password_file, *tls)?;
        }
        if self.enabled == Auto::Is(false) && self.relay_domains().next().is_some() {
            return Err(
                "`relay.routes` takes mail from everybody (`accept = \"all\"`), and `relay.enabled` is false"
                    .into(),
            );
        }
        let of_routes = self.routes.iter().filter_map(|route| route.connections);
        if [self.connections_per_domain]
            .into_iter()
            .chain(of_routes)
            .any(|count| !(1..=CONNECTIONS_MAX).contains(&count))
        {
            return Err(format!(
                "`relay.connections_per_domain`, and that of a route, must be between 1 and {CONNECTIONS_MAX}"
            ));
        }
        if self.retry_first.as_secs() == 0 || self.retry_longest < self.retry_first {
            return Err("`relay.retry_first` must be at least 1 s, and `relay.retry_longest` at least \
                 `relay.retry_first`"
                .into());
        }
        Ok(())
    }
}

/// The login at a host, if there is one. Reads the password.
fn login(setting: &str, user: &str, file: &Path) -> Result<Option<Login>> {
    if user.is_empty() {
        return Ok(None);
    }
    Ok(Some(Login { user: user.to_owned(), password: password(setting, file)? }))
}

/// Whether a login is whole, and has TLS that protects it.
fn check_login(section: &str, user: &str, file: &Path, tls: RouteTls) -> std::result::Result<(), String> {
    if user.is_empty() != file.as_os_str().is_empty() {
        return Err(format!(
            "`{section}user` and `{section}password_file` go together: set both, or neither"
        ));
    }
    if !user.is_empty() && !matches!(tls, RouteTls::Verified | RouteTls::Implicit) {
        return Err(format!(
            "`{section}user` needs `{section}tls = \"verified\"` or \"implicit\": a password is sent to a host \
             whose certificate was verified, and to no other"
        ));
    }
    Ok(())
}

fn normal_domain(domain: &str) -> std::result::Result<String, String> {
    posthaste_directory::normal_domain(domain)
        .map_err(|_| format!("`relay.routes`: {domain:?} is not a domain; write for example \"example.net\""))
}

fn route(key: &str, host: &str, tls: RouteTls, login: Option<Login>) -> Result<Route> {
    let (host, port) = host_and_port(key, host).map_err(Failure::Usage)?;
    Ok(Route { host, port, tls: tls.into(), login })
}

/// `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
fn host_and_port(key: &str, text: &str) -> std::result::Result<(String, u16), String> {
    let wrong = || {
        format!(
            "`{key}`: {text:?} is not a host; write for example \"mail.example.net\" or \"192.0.2.1:587\""
        )
    };
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        let port = if rest.is_empty() {
            Some(SMTP_PORT)
        } else {
            rest.strip_prefix(':').and_then(|p| p.parse().ok())
        };
        return port.map(|port| (host.to_owned(), port)).ok_or_else(wrong);
    }
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address without brackets.
        Some((before, _)) if before.contains(':') => (text, SMTP_PORT),
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (text, SMTP_PORT),
    };
    if host.is_empty() || host.contains([' ', '/', '@']) { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

/// The first line of a file that holds a secret.
pub(super) fn password(setting: &str, file: &Path) -> Result<Secret<String>> {
    private::tighten_secret(setting, file)?;
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| Failure::Usage(format!("`{setting}`: {}: {e}", file.display())))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn hosts_and_ports() {
        let read = |text: &str| host_and_port("key", text).ok();
        assert_eq!(read("mx.test"), Some(("mx.test".into(), 25)));
        assert_eq!(read("mx.test:587"), Some(("mx.test".into(), 587)));
        assert_eq!(read("::1"), Some(("::1".into(), 25)));
        assert_eq!(read("[::1]:2525"), Some(("::1".into(), 2525)));
        for wrong in ["", "mx.test:smtp", ":25", "a b", "[::1]x", "smtp://mx.test"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn inconsistent_settings_are_refused_by_name() {
        let error = |text: &str| {
            Config::parse(Path::new("x.toml"), &format!("[relay]\n{text}")).unwrap_err().to_string()
        };
        assert!(error("user = \"ana\"").contains("relay.password_file"));
        assert!(error("user = \"ana\"\npassword_file = \"x\"").contains("verified"));
        let route = |more: &str| error(&format!("routes = [{{ domain = \"a\", host = \"x\", {more} }}]"));
        assert!(route("user = \"ana\"").contains("relay.routes.password_file"));
        assert!(route("user = \"ana\", password_file = \"x\"").contains("relay.routes.tls"));
        assert!(error("routes = [{ domain = \"a b\", host = \"x\" }]").contains("not a domain"));
        assert!(error("routes = [{ domain = \"a\", host = \"x:y\" }]").contains("not a host"));
        assert!(error("connections_per_domain = 0").contains("relay.connections_per_domain"));
        assert!(route("connections = 33").contains("relay.connections_per_domain"));
        assert!(error("retry_first = \"0 s\"").contains("retry_first"));
        assert!(error("dane = true").contains("relay.dns"));
    }
}
