//! Hosts of a domain by DNS (RFC 5321 §5).
//!
//! No answer is kept. Any stranger with a name server can have us look up its names, and an
//! answer takes megabytes. A cache that counts answers would hold gigabytes of them. The resolver
//! that is asked has a cache: one on this machine, or in its network. It costs a round trip for
//! each question, which is short beside a connection to another host.
//!
//! Answers are read on a thread of their own ([`on_dns_thread`]), and dropped there. Callers get
//! the few texts, names and addresses that are used.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::{Record, RecordType};
use posthaste_directory::Network;
use posthaste_net::on_dns_thread;
use posthaste_queue::Failure;

use crate::reachable::Reachable;
use crate::validated::{RECORDS_MAX, Validated};

/// Hosts that are tried for one domain: RFC 5321 §5.1 requires at least two.
const HOSTS_MAX: usize = 8;
/// Refused addresses of a host that one line of the log names.
const REFUSED_LOGGED: usize = 8;
/// Octets of an answer's texts that are used: RFC 7208 §3.4 advises that all texts of a name fit
/// 512 octets. The texts that services want at a domain's own name take some 4 KiB.
const TEXTS_LEN_MAX: usize = 16 * 1024;
/// Bytes that answers take at a time: two of the longest, with the copy that the resolver makes
/// of each. An answer has 64 KiB at most (RFC 1035 §4.2.2), and some 4 MiB when it is parsed:
/// 3,600 MX records with long names. It is dropped once its records are read. More can arrive at
/// one moment: one for each of 512 destinations, and several for each of 64 verifications.
pub const DNS_BYTES_MAX: u64 = 16 << 20;

/// RFC 3463 §3.5: unable to route. Another host of the domain may have a better address.
pub(crate) const NO_ROUTE: &str = "5.4.4";

/// Asks name servers.
#[derive(Clone)]
pub struct Dns {
    resolver: TokioResolver,
    /// TCP port of hosts.
    pub(crate) port: u16,
    /// Addresses that answers may name.
    reachable: Reachable,
    /// Asks the same servers whether DNSSEC proves their answers, if they are trusted to know.
    pub(crate) validated: Option<Validated>,
}

/// The hosts of a domain, the one to be tried first in front.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    pub names: Vec<String>,
    /// Whether DNSSEC proves them.
    pub are_secure: bool,
}

impl std::fmt::Debug for Dns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dns").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Dns {
    /// Asks these name servers, or without any the system's name servers. Hosts take mail on
    /// `port`, which is 25 outside of tests.
    pub fn new(servers: &[SocketAddr], port: u16) -> io::Result<Self> {
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio().map_err(io::Error::other)?
        } else {
            let servers = servers.iter().map(|server| {
                let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                    connection.port = server.port();
                    connection
                });
                NameServerConfig::new(server.ip(), true, connections.to_vec())
            });
            let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        builder.options_mut().cache_size = 0;
        let resolver = builder.build().map_err(io::Error::other)?;
        Ok(Self { resolver, port, reachable: Reachable::default(), validated: None })
    }

    /// Lets answers name addresses of these networks, which are not public.
    #[must_use]
    pub fn allowing(self, networks: &[Network]) -> Self {
        Self { reachable: Reachable::with(networks.to_vec()), ..self }
    }

    /// Believes these servers when they say that DNSSEC proves an answer, so that hosts are known
    /// by DANE. They must be on this machine.
    #[must_use]
    pub fn trusting(self, servers: &[SocketAddr]) -> Self {
        Self { validated: Some(Validated::new(servers)), ..self }
    }

    /// The resolver, for other questions than hosts. It keeps no answers. A server uses it within
    /// [`on_dns_thread`].
    pub fn resolver(&self) -> &TokioResolver {
        &self.resolver
    }

    /// The texts at a name, as many as are used of an answer. Empty if DNS does not answer.
    pub(crate) async fn texts(&self, name: &str) -> Vec<String> {
        let (this, name) = (self.clone(), format!("{name}."));
        on_dns_thread(async move { this.read_texts(&name).await }).await
    }

    async fn read_texts(&self, name: &str) -> Vec<String> {
        let Ok(found) = self.resolver.txt_lookup(name).await else { return Vec::new() };
        let (mut texts, mut left) = (Vec::new(), TEXTS_LEN_MAX);
        for record in found.answers().iter().take(RECORDS_MAX) {
            let RData::TXT(txt) = &record.data else { continue };
            let len: usize = txt.txt_data.iter().map(|string| string.len()).sum();
            let Some(rest) = left.checked_sub(len) else { break };
            left = rest;
            texts.push(String::from_utf8_lossy(&txt.txt_data.concat()).into_owned());
        }
        texts
    }

    /// The hosts that take mail for a domain, the ones to be tried first in front.
    pub(crate) async fn hosts(&self, domain: &str) -> Result<Hosts, Failure> {
        let (this, domain) = (self.clone(), domain.to_owned());
        on_dns_thread(async move { this.read_hosts(&domain).await }).await
    }

    async fn read_hosts(&self, domain: &str) -> Result<Hosts, Failure> {
        let (records, are_secure) = self.mx_records(domain).await?;
        let mut hosts = Vec::new();
        for record in &records {
            if let RData::MX(mx) = &record.data {
                let name = mx.exchange.to_ascii();
                hosts.push((mx.preference, random(), name.trim_end_matches('.').to_owned()));
            }
        }
        if hosts.iter().any(|(_, _, name)| name.is_empty()) {
            // RFC 7505 §3, §4.1.
            return Err(Failure::permanent("5.1.10", format!("{domain} takes no mail (null MX)")));
        }
        if hosts.is_empty() {
            // RFC 5321 §5.1: without MX records the domain is the host. It must have an address.
            if self.has_no_address(domain).await {
                return Err(Failure::permanent(
                    NO_ROUTE,
                    format!("{domain} has no MX record and no address"),
                ));
            }
            return Ok(Hosts { names: vec![domain.to_owned()], are_secure });
        }
        // RFC 5321 §5.1: by preference, and at random among equals.
        hosts.sort_unstable();
        hosts.truncate(HOSTS_MAX);
        Ok(Hosts { names: hosts.into_iter().map(|(_, _, name)| name).collect(), are_secure })
    }

    /// The MX records of a domain, and whether DNSSEC proves them.
    async fn mx_records(&self, domain: &str) -> Result<(Vec<Record>, bool), Failure> {
        if let Some(validated) = &self.validated {
            let answer = validated.lookup(domain, RecordType::MX).await;
            // RFC 7672 §2.1.1: an answer that is proven to be forged counts as no answer.
            let answer = answer.map_err(|why| Failure::temporary("4.4.3", why))?;
            return match answer.is_nowhere {
                true => Err(nowhere(domain)),
                false => Ok((answer.records, answer.is_secure)),
            };
        }
        match self.resolver.mx_lookup(format!("{domain}.")).await {
            Ok(found) => Ok((found.answers().iter().take(RECORDS_MAX).cloned().collect(), false)),
            Err(error) if error.is_no_records_found() && !error.is_nx_domain() => Ok((Vec::new(), false)),
            Err(error) => Err(failure(domain, &error)),
        }
    }

    /// Whether an address that mail names may be connected to.
    pub(crate) fn reach(&self, address: IpAddr) -> Result<(), Failure> {
        match self.reachable.allows(address) {
            true => Ok(()),
            false => Err(Failure::permanent(NO_ROUTE, format!("{address} is not a public address"))),
        }
    }

    /// Whether DNS says that a host has no address of either kind. A failure says nothing.
    async fn has_no_address(&self, host: &str) -> bool {
        let name = format!("{host}.");
        if self.resolver.lookup_ip(name.as_str()).await.is_ok() {
            return false;
        }
        let is_none = |error: NetError| error.is_no_records_found();
        self.resolver.ipv4_lookup(name.as_str()).await.is_err_and(is_none)
            && self.resolver.ipv6_lookup(name.as_str()).await.is_err_and(is_none)
    }

    /// The addresses of a host that may be connected to. The failure has [`NO_ROUTE`] if all its
    /// addresses are refused.
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Failure> {
        let (this, host) = (self.clone(), host.to_owned());
        on_dns_thread(async move { this.read_addresses(&host).await }).await
    }

    async fn read_addresses(&self, host: &str) -> Result<Vec<IpAddr>, Failure> {
        let found = match self.resolver.lookup_ip(format!("{host}.")).await {
            Ok(found) => found.iter().take(RECORDS_MAX).collect::<Vec<_>>(),
            // A host that is missing may be one of several: the mail waits.
            Err(error) => {
                return Err(Failure { permanent: false, status: "4.4.3".into(), ..failure(host, &error) });
            }
        };
        let (good, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| self.reachable.allows(*address));
        if !refused.is_empty() {
            let some: Vec<_> = refused.iter().take(REFUSED_LOGGED).collect();
            tracing::info!(host, refused = ?some, "addresses that are not public are skipped");
        }
        match good.is_empty() && !refused.is_empty() {
            true => Err(Failure::permanent(NO_ROUTE, format!("{host} has no public address"))),
            false => Ok(good),
        }
    }
}

fn failure(name: &str, error: &NetError) -> Failure {
    if error.is_nx_domain() {
        return nowhere(name);
    }
    Failure::temporary("4.4.3", format!("DNS for {name}: {error}"))
}

fn nowhere(domain: &str) -> Failure {
    // RFC 3463 §3.2: bad destination system address.
    Failure::permanent("5.1.2", format!("there is no domain {domain}"))
}

/// A random number for the order of equal hosts. Without randomness it is 0, which does no harm.
fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::{DnsRecord, DnsServer};

    use super::*;

    async fn hosts(dns: &Dns, domain: &str) -> Result<Vec<String>, (bool, String)> {
        dns.hosts(domain)
            .await
            .map(|hosts| hosts.names)
            .map_err(|failure| (failure.permanent, failure.status))
    }

    #[tokio::test]
    async fn hosts_by_preference() {
        let mx = |preference, host: &str| DnsRecord::Mx(preference, host.into());
        let server = DnsServer::start([
            ("x.test", mx(20, "second.test")),
            ("x.test", mx(10, "first.test")),
            ("plain.test", DnsRecord::A([127, 0, 0, 1])),
            ("none.test", mx(0, "")),
            ("first.test", DnsRecord::A([127, 0, 0, 7])),
        ]);
        let dns = Dns::new(&[server.address()], 25).unwrap();
        let refused = dns.addresses("first.test").await.unwrap_err();
        assert_eq!((refused.permanent, refused.status.as_str()), (true, NO_ROUTE));
        let dns = dns.allowing(&["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(hosts(&dns, "x.test").await.unwrap(), ["first.test", "second.test"]);
        assert_eq!(hosts(&dns, "plain.test").await.unwrap(), ["plain.test"]);
        assert_eq!(hosts(&dns, "none.test").await, Err((true, "5.1.10".into())));
        assert_eq!(hosts(&dns, "missing.test").await, Err((true, "5.1.2".into())));
        assert_eq!(dns.addresses("first.test").await.unwrap(), [IpAddr::from([127, 0, 0, 7])]);
        assert!(!dns.addresses("missing.test").await.unwrap_err().permanent);
    }

    /// RFC 5321 §5.1: nobody can ever take its mail, unless DNS answers otherwise later.
    #[tokio::test]
    async fn a_domain_without_hosts_is_given_up() {
        let text = |name| (name, DnsRecord::Txt("v=spf1 -all".into()));
        let server = DnsServer::start([text("bare.test"), text("away.test")]);
        let dns = Dns::new(&[server.address()], 25).unwrap();
        assert_eq!(hosts(&dns, "bare.test").await, Err((true, NO_ROUTE.into())));
        server.fail("away.test");
        assert!(!hosts(&dns, "away.test").await.unwrap_err().0);
    }

    /// A stranger's name server has an answer of almost 64 KiB for each of its names.
    #[tokio::test]
    async fn a_long_answer_is_used_in_part_and_not_kept() {
        let texts = (0..4_000).map(|n| ("*.evil.test", DnsRecord::Txt(format!("{n:03x}"))));
        let hosts = (0..1_000).map(|n| ("*.evil.test", DnsRecord::Mx(n, format!("{n}.evil.test"))));
        let addresses = (1..=255).map(|n| ("*.evil.test", DnsRecord::A([127, 0, 0, n])));
        let server = DnsServer::start(texts.chain(hosts).chain(addresses));
        let dns = Dns::new(&[server.address()], 25).unwrap().allowing(&["127.0.0.0/8".parse().unwrap()]);
        assert_eq!(dns.texts("a.evil.test").await.len(), RECORDS_MAX);
        assert_eq!(dns.hosts("a.evil.test").await.unwrap().names.len(), HOSTS_MAX);
        assert_eq!(dns.mx_records("a.evil.test").await.unwrap().0.len(), RECORDS_MAX);
        assert_eq!(dns.addresses("a.evil.test").await.unwrap().len(), RECORDS_MAX);
        server.serve([("a.evil.test", DnsRecord::Txt("new".into()))]);
        assert_eq!(dns.texts("a.evil.test").await, ["new"]);
    }

    /// This runtime has neither sockets nor timers: a look-up on it panics.
    #[test]
    fn answers_are_not_read_on_the_thread_that_wants_them() {
        let server = DnsServer::start_secure([
            ("x.test", DnsRecord::Mx(10, "first.test".into())),
            ("x.test", DnsRecord::Txt("text".into())),
            ("first.test", DnsRecord::A([127, 0, 0, 7])),
            ("_25._tcp.first.test", DnsRecord::Tlsa(3, 1, 1, vec![7; 32])),
        ]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dns = Dns::new(&[server.address()], 25).unwrap();
            let dns = dns.allowing(&["127.0.0.0/8".parse().unwrap()]);
            assert_eq!(dns.texts("x.test").await, ["text"]);
            assert_eq!(hosts(&dns, "x.test").await.unwrap(), ["first.test"]);
            assert_eq!(dns.addresses("first.test").await.unwrap(), [IpAddr::from([127, 0, 0, 7])]);
            let dns = dns.trusting(&[server.address()]);
            assert!(dns.hosts("x.test").await.unwrap().are_secure);
            let found = dns.validated.unwrap().tlsa("first.test", 25).await.unwrap();
            assert_eq!(found.map(|(base, records)| (base, records.len())), Some(("first.test".into(), 1)));
        });
    }

    #[tokio::test]
    async fn texts_of_an_answer_have_a_bound_in_octets() {
        let text = "x".repeat(TEXTS_LEN_MAX / 4);
        let server = DnsServer::start((0..10).map(|_| ("x.test", DnsRecord::Txt(text.clone()))));
        let dns = Dns::new(&[server.address()], 25).unwrap();
        assert_eq!(dns.texts("x.test").await.len(), 4);
        assert_eq!(dns.texts("missing.test").await, [""; 0]);
    }

    #[tokio::test]
    async fn equal_hosts_take_turns() {
        let mx = |host: &str| DnsRecord::Mx(10, host.into());
        let server = DnsServer::start([("x.test", mx("a.test")), ("x.test", mx("b.test"))]);
        let dns = Dns::new(&[server.address()], 25).unwrap();
        let mut first = std::collections::BTreeSet::new();
        // Not to see both in a hundred draws has a chance of 2^-99.
        for _ in 0..100 {
            first.extend(hosts(&dns, "x.test").await.unwrap().into_iter().next());
        }
        assert_eq!(first.len(), 2);
    }
}
