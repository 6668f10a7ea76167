//! The transport of the queue's runner: routes to addresses, addresses to connections.

use std::net::SocketAddr;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use posthaste_queue::{
    Body, Channel, Destination, Failure, Item, Sent, TlsRequirement, Transport, Unreachable, address_of,
};
use posthaste_reporting::{TlsFailure, TlsFault, TlsReports};
use posthaste_store::Engine;

use crate::client::{Client, ConnectError, GOES_ROUND};
use crate::dns::NO_ROUTE;
use crate::plan::{Plan, Plans};
use crate::route::{Route, Routes, TlsRule};
use crate::sts::Sts;
use crate::tls::Tls;

/// Addresses that are tried for one destination at a time.
const ADDRESSES_MAX: usize = 8;

/// Sends by SMTP.
#[derive(Debug)]
pub struct SmtpTransport {
    host: String,
    routes: Routes,
    tls: Tls,
    sts: Option<Sts>,
    reports: Option<TlsReports>,
}

impl SmtpTransport {
    /// A transport for a server of this name.
    pub fn new(host: &str, routes: Routes, tls: Tls) -> Self {
        Self { host: host.to_owned(), routes, tls, sts: None, reports: None }
    }

    /// Follows the policies of domains (MTA-STS), which are fetched at this port of HTTPS and kept
    /// in the engine. Without authorities for certificates none can be fetched.
    #[boxed]
    pub async fn with_sts(
        mut self,
        port: u16,
        engine: Option<Arc<dyn Engine>>,
    ) -> posthaste_store::Result<Self> {
        if let Some(tls) = &self.tls.verified {
            let sts = Sts::new(tls.clone(), port, engine);
            sts.open().await?;
            self.sts = Some(sts);
        }
        Ok(self)
    }

    /// Counts how TLS goes.
    #[must_use]
    pub fn with_reports(self, reports: Option<TlsReports>) -> Self {
        Self { reports, ..self }
    }

    /// Tries the addresses of one host.
    async fn connect_host(&self, domain: &str, plan: &Plan) -> Result<Client, Failure> {
        let addresses = self.routes.addresses(domain, &plan.route).await?;
        let mut last = Failure::temporary("4.4.4", format!("{} has no address", plan.route.host));
        for address in addresses.into_iter().take(ADDRESSES_MAX) {
            match self.connect_address(domain, plan, address).await {
                Ok(client) => return Ok(client),
                Err(failure) if failure.permanent => return Err(failure),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Tries an address with each of the attempts that are left while TLS is what fails.
    async fn connect_address(
        &self,
        domain: &str,
        plan: &Plan,
        address: SocketAddr,
    ) -> Result<Client, Failure> {
        let mut last =
            Failure::temporary("4.4.4", format!("connections to {} are not allowed", plan.route.host));
        for (at, security) in plan.attempts.iter().enumerate() {
            let connected = Client::connect(&plan.route, security, address, &self.tls, &self.host).await;
            if at == 0 {
                self.note(domain, plan, address, &connected);
            }
            match connected {
                Ok(client) => return Ok(client),
                Err(ConnectError::Other(failure)) => return Err(failure),
                Err(ConnectError::Tls(failure, _)) => {
                    tracing::info!(host = plan.route.host, reply = failure.reply, ?security, "TLS failed");
                    last = failure;
                }
            }
        }
        Err(last)
    }

    /// Counts the outcome of the first attempt, if it used TLS.
    fn note(&self, domain: &str, plan: &Plan, address: SocketAddr, connected: &Result<Client, ConnectError>) {
        let (Some(reports), Some(policy)) = (&self.reports, &plan.policy) else { return };
        let failed = |fault| {
            // RFC 8460 §4.3.3: the general failure alone needs words.
            let reason = if fault == TlsFault::ValidationFailure { "the TLS handshake failed" } else { "" };
            let host = plan.route.host.clone();
            let failure = TlsFailure { fault, host, address: Some(address.ip()), reason };
            reports.failure(domain, policy, failure);
        };
        match connected {
            Ok(client) if client.is_tls() => reports.success(domain, policy),
            Ok(_) => failed(TlsFault::StarttlsNotSupported),
            Err(ConnectError::Tls(_, fault)) => failed(*fault),
            Err(ConnectError::Other(_)) => {}
        }
    }

    /// A connection by one plan that meets the sender's requirements.
    async fn try_plan(
        &self,
        domain: &str,
        requirement: TlsRequirement,
        plan: &Plan,
    ) -> Result<Client, Failure> {
        let client = self.connect_host(domain, plan).await?;
        if requirement == TlsRequirement::Required
            && let Err(failure) = client.fits_require_tls()
        {
            client.quit().await;
            return Err(failure);
        }
        Ok(client)
    }

    async fn try_hosts(&self, domain: &str, requirement: TlsRequirement) -> Result<Client, Failure> {
        if let Some(route) = self.routes.named(domain) {
            return self.try_plan(domain, requirement, &Plan::named(route, requirement)).await;
        }
        let dns = self.routes.dns()?;
        if let Some(address) = address_of(domain) {
            // RFC 5321 §5.1: nothing is looked up. No name can be in its certificate.
            dns.reach(address)?;
            let (host, tls) = (address.to_string(), TlsRule::Opportunistic);
            let route = Route { host, port: dns.port, tls, login: None };
            return self.try_plan(domain, requirement, &Plan::named(&route, requirement)).await;
        }
        let hosts = dns.hosts(domain).await?;
        let (sts, reports) = (self.sts.as_ref(), self.reports.as_ref());
        let plans = Plans::of(dns, (domain, requirement), &hosts, sts, reports).await;
        let mut last = Failure::temporary("4.4.4", format!("{domain} has no host that takes mail"));
        for (at, host) in hosts.names.iter().enumerate() {
            let tried = match plans.host(host).await {
                Ok(plan) => self.try_plan(domain, requirement, &plan).await,
                Err(failure) => Err(failure),
            };
            match tried {
                Ok(client) => return Ok(client),
                // RFC 5321 §5.1: this server and the hosts after it are not used. The hosts
                // before it are tried again later.
                Err(failure) if failure.status == GOES_ROUND && !last.permanent && at > 0 => {
                    return Err(last);
                }
                // RFC 8689 §4.2.1: another host may be better.
                Err(failure)
                    if failure.permanent
                        && requirement != TlsRequirement::Required
                        && failure.status != NO_ROUTE =>
                {
                    return Err(failure);
                }
                // One that may be better later counts more.
                Err(failure) if failure.permanent && !last.status.starts_with("4.4.4") => {}
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }
}

#[async_trait]
impl Transport for SmtpTransport {
    fn kind(&self, destination: &Destination) -> &'static str {
        let (domain, _) = TlsRequirement::split(destination);
        match self.routes.named(domain) {
            Some(_) if self.routes.domains.contains_key(domain) => "route",
            Some(_) => "smarthost",
            None if address_of(domain).is_some() => "address",
            None => "dns",
        }
    }

    async fn connect(&self, destination: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        let (domain, requirement) = TlsRequirement::split(destination);
        match self.try_hosts(domain, requirement).await {
            Ok(client) => Ok(Box::new(client)),
            Err(failure) if requirement == TlsRequirement::Required && failure.status.starts_with("4.7.") => {
                // RFC 8689 §4.2.2: a host that cannot be trusted now is reported at once.
                let status = failure.status.replacen('4', "5", 1);
                Err(Unreachable(Failure { permanent: true, status, ..failure }))
            }
            Err(failure) => Err(Unreachable(failure)),
        }
    }
}

#[async_trait]
impl Channel for Client {
    fn transactions(&self, item: &Item) -> Vec<Vec<usize>> {
        Self::transactions(self, item)
    }

    fn is_spent(&self) -> bool {
        Self::is_spent(self)
    }

    async fn send(&mut self, item: &Item, to: &[usize], message: Body) -> Sent {
        Self::send(self, item, to, message).await
    }

    async fn close(self: Box<Self>) {
        self.quit().await;
    }
}
