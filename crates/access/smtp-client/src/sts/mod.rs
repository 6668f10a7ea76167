//! MTA-STS (RFC 8461): the policies of domains on TLS to their hosts, fetched, kept and followed.
//!
//! A fetched policy is valid until its `max_age` is over, even if DNS or HTTPS fails or is blocked
//! meanwhile. So an attacker between us and the domain cannot make us ignore it (RFC 8461 §10.2).
//! It is kept in memory and in the directory record `sts-policy/DOMAIN`, so a restart does not lose
//! it.

mod cached_policy;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod https;
mod policy;
mod table;

use std::net::SocketAddr;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use posthaste_directory::unix_time;
use posthaste_store::{DirectoryChange, DirectoryEntry, Engine};
use tokio_rustls::TlsConnector;

use crate::dns::Dns;
use crate::tls::Tls;
use cached_policy::CachedPolicy;
use https::FetchError;
pub(crate) use policy::{Mode, Policy};
use table::{POLICIES_BYTES_MAX, POLICIES_MAX, Table};

const PREFIX: &str = "sts-policy/";
/// Bytes of all policies, and of the ids that could not be fetched: 10,000 with their domains.
pub const STS_BYTES_MAX: u64 = POLICIES_BYTES_MAX as u64 + (4 << 20);
/// Addresses of a policy's host that are tried.
const ADDRESSES_MAX: usize = 4;
/// Records read at a time at the start.
const PAGE: usize = 256;
/// Seconds between two attempts to fetch a policy of the same id (RFC 8461 §3.3 advises five
/// minutes).
const AGAIN: i64 = 300;

/// Knows the policies of domains.
#[derive(Clone)]
pub struct Sts {
    inner: Arc<Inner>,
}

struct Inner {
    tls: TlsConnector,
    /// TCP port of HTTPS.
    port: u16,
    engine: Option<Arc<dyn Engine>>,
    table: Mutex<Table>,
}

/// The state of a domain's policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct DomainPolicy {
    /// The policy that counts.
    pub policy: Option<Policy>,
    /// The reason why a newer policy could not be fetched, for reports.
    pub fault: Option<Fault>,
}

/// The reason why a policy could not be fetched (RFC 8460 §4.3.2.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    Fetch(String),
    Invalid(String),
    Certificate(String),
}

impl Tls {
    /// The policy of a domain as others fetch it, for `posthaste domain check`.
    #[boxed]
    pub async fn fetch_policy(&self, dns: &Dns, domain: &str, port: u16) -> Result<String, String> {
        let tls = self.verified.as_ref().ok_or("no authorities are configured: set relay.ca")?;
        fetch(tls, dns, domain, port).await.map_err(|fault| match fault {
            Fault::Fetch(why) | Fault::Invalid(why) | Fault::Certificate(why) => why,
        })
    }
}

impl std::fmt::Debug for Sts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sts").field("port", &self.inner.port).finish_non_exhaustive()
    }
}

impl Sts {
    /// Fetches policies over this TLS. `port` is 443 outside of tests. With an engine, policies
    /// outlive the process.
    pub(crate) fn new(tls: TlsConnector, port: u16, engine: Option<Arc<dyn Engine>>) -> Self {
        Self { inner: Arc::new(Inner { tls, port, engine, table: Mutex::default() }) }
    }

    /// Reads the stored policies, and removes those that have ended.
    pub(crate) async fn open(&self) -> posthaste_store::Result<()> {
        let Some(engine) = &self.inner.engine else { return Ok(()) };
        let mut after: Option<String> = None;
        loop {
            let page = engine.directory_scan(PREFIX, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.name.clone());
            for entry in page {
                let good = read(&entry).filter(|(_, kept)| kept.ends() > unix_time::now_signed());
                let fits =
                    |(domain, kept): &(String, CachedPolicy)| self.inner.table.lock().has_room(domain, kept);
                match good.filter(fits) {
                    Some((domain, kept)) => self.inner.table.lock().insert(domain, kept),
                    None => remove(engine, entry).await?,
                }
            }
        }
    }

    /// The policy of a domain that counts now.
    pub(crate) async fn policy(&self, dns: &Dns, domain: &str) -> DomainPolicy {
        let now = unix_time::now_signed();
        let kept = self.inner.table.lock().policies.get(domain).filter(|kept| kept.ends() > now).cloned();
        let of_kept = || DomainPolicy { policy: kept.as_ref().map(|kept| kept.policy.clone()), fault: None };
        // RFC 8461 §5.1: without a record the policy that is kept still counts.
        let texts = dns.texts(&format!("_mta-sts.{domain}")).await;
        let id = policy::policy_id(texts.iter().map(String::as_str));
        let Some(id) = id else { return of_kept() };
        if kept.as_ref().is_some_and(|kept| kept.id == id && !kept.is_old(now)) {
            return of_kept();
        }
        let has_failed = |(failed, at): &(String, i64)| *failed == id && now - at < AGAIN;
        if self.inner.table.lock().failed.get(domain).is_some_and(has_failed) {
            return DomainPolicy {
                fault: Some(Fault::Fetch("it could not be fetched minutes ago".into())),
                ..of_kept()
            };
        }
        let Inner { tls, port, .. } = &*self.inner;
        let parse = |text: String| {
            Policy::parse(&text).map_err(|error| Fault::Invalid(format!("mta-sts.{domain}: {error}")))
        };
        match fetch(tls, dns, domain, *port).await.and_then(parse) {
            Ok(policy) => {
                tracing::info!(domain, id, mode = ?policy.mode, "MTA-STS: a policy was fetched");
                self.keep(domain, CachedPolicy { id, fetched: now, policy: policy.clone() }).await;
                DomainPolicy { policy: Some(policy), fault: None }
            }
            Err(fault) => {
                tracing::info!(domain, id, ?fault, "MTA-STS: the policy cannot be fetched");
                // A failed early renewal does no harm: the old policy still counts.
                let is_same = kept.as_ref().is_some_and(|kept| kept.id == id);
                self.note_failure(domain, id, now);
                DomainPolicy { fault: Some(fault).filter(|_| !is_same), ..of_kept() }
            }
        }
    }

    fn note_failure(&self, domain: &str, id: String, now: i64) {
        let mut table = self.inner.table.lock();
        if table.failed.len() >= POLICIES_MAX {
            table.failed.clear();
        }
        table.failed.insert(domain.to_owned(), (id, now));
    }

    async fn keep(&self, domain: &str, kept: CachedPolicy) {
        let evicted = {
            let mut table = self.inner.table.lock();
            table.failed.remove(domain);
            table.put(domain, kept.clone())
        };
        let Some(engine) = &self.inner.engine else { return };
        let value = serde_json::to_vec(&kept);
        debug_assert!(value.is_ok(), "texts and numbers are always JSON");
        let Ok(value) = value else { return };
        let written = async {
            put(engine, domain, Some(value)).await?;
            for evicted in &evicted {
                put(engine, evicted, None).await?;
            }
            Ok::<(), posthaste_store::StoreError>(())
        };
        if let Err(error) = written.await {
            tracing::warn!(domain, %error, "MTA-STS: the policy is kept only in memory");
        }
    }
}

/// The text of a domain's policy.
async fn fetch(tls: &TlsConnector, dns: &Dns, domain: &str, port: u16) -> Result<String, Fault> {
    let host = format!("mta-sts.{domain}");
    let found = dns.addresses(&host).await.map_err(|failure| Fault::Fetch(failure.reply))?;
    let addresses: Vec<_> =
        found.into_iter().map(|ip| SocketAddr::new(ip, port)).take(ADDRESSES_MAX).collect();
    let text = https::fetch(tls, &host, &addresses, "/.well-known/mta-sts.txt").await;
    text.map_err(|error| match error {
        FetchError::Away(why) => Fault::Fetch(why),
        FetchError::Certificate(why) => Fault::Certificate(why),
    })
}

/// A record as domain and policy; none if it is damaged.
fn read(entry: &DirectoryEntry) -> Option<(String, CachedPolicy)> {
    let domain = entry.name.strip_prefix(PREFIX)?;
    Some((domain.to_owned(), serde_json::from_slice(&entry.value).ok()?))
}

async fn remove(engine: &Arc<dyn Engine>, entry: DirectoryEntry) -> posthaste_store::Result<()> {
    let change = DirectoryChange { name: entry.name, expected: entry.version, value: None };
    engine.directory_commit(change).await.map(|_| ())
}

/// Writes a record. After a lost race, the record has the equally new policy of another node.
async fn put(engine: &Arc<dyn Engine>, domain: &str, value: Option<Vec<u8>>) -> posthaste_store::Result<()> {
    let name = format!("{PREFIX}{domain}");
    let expected = engine.directory_entry(&name).await?.map_or(0, |entry| entry.version);
    if expected > 0 || value.is_some() {
        engine.directory_commit(DirectoryChange { name, expected, value: value.map(Into::into) }).await?;
    }
    Ok(())
}
