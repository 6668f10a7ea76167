//! The listeners that are up, and how that set is changed while the server runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use posthaste_directory::Network;
use posthaste_metrics::{Metered, Registry};
use posthaste_net::{
    ConnectionLimits, Drained, Endpoint, Listener, Mode, NetError, Peers, ServeOptions, Shutdown,
    ShutdownTrigger, SocketAccess, SocketAddress, per_address,
};
use tokio::task::JoinHandle;

use super::services::{Budgets, HTTP_ALPN, IMAP_ALPN, POP3_ALPN, Services, refusal};
use crate::cli::{Listen, Protocol};
use crate::config::Config;
use crate::failure::Result;
use crate::memory::Plan;

/// A listener that is up.
struct RunningListener {
    listen: Listen,
    address: SocketAddress,
    trigger: ShutdownTrigger,
    task: JoinHandle<Result<Drained, NetError>>,
}

/// The bounds on connections: in all, and from one address.
fn connections(config: &Config, plan: &Plan) -> (usize, usize) {
    let total = usize::try_from(plan.connections).unwrap_or(usize::MAX);
    let set = config.limits.connections_per_address;
    (total, set.map(|set| *set).unwrap_or_else(|| per_address(total)))
}

/// The listeners of the server.
pub struct Listeners {
    services: Arc<ArcSwap<Services>>,
    limits: ConnectionLimits,
    grace: Duration,
    metrics: Arc<Registry>,
    up: Vec<RunningListener>,
    access: SocketAccess,
}

impl Listeners {
    /// No listener is up yet.
    pub fn new(
        services: Services,
        config: &Config,
        budgets: &Budgets,
        plan: &Plan,
        access: SocketAccess,
    ) -> Self {
        let (total, per_address) = connections(config, plan);
        Self {
            services: Arc::new(ArcSwap::from_pointee(services)),
            limits: ConnectionLimits::new(total, per_address),
            grace: config.limits.shutdown_timeout,
            metrics: Arc::clone(&budgets.metrics),
            up: Vec::new(),
            access,
        }
    }

    /// Serves new connections by these services, up to these limits.
    pub fn replace(&mut self, services: Services, config: &Config, plan: &Plan) {
        self.services.store(Arc::new(services));
        let (total, per_address) = connections(config, plan);
        self.limits.set(total, per_address);
    }

    /// Binds the wanted listeners that do not run. If one cannot be bound, none is.
    pub fn bind(&self, wanted: &[Listen]) -> Result<Vec<(Listen, Listener)>> {
        let runs = |listen: &Listen| self.up.iter().any(|up| up.listen == *listen);
        let missing: Vec<Listen> = wanted.iter().filter(|listen| !runs(listen)).cloned().collect();
        bind_all(&missing, self.access)
    }

    /// Starts those that were [bound](Self::bind), and stops those that are not wanted.
    pub fn set(&mut self, wanted: &[Listen], bound: Vec<(Listen, Listener)>) {
        let started: Vec<RunningListener> =
            bound.into_iter().map(|(listen, listener)| self.start(listen, listener)).collect();
        let (stay, go) = std::mem::take(&mut self.up).into_iter().partition(|up| wanted.contains(&up.listen));
        self.up = stay;
        self.up.extend(started);
        // The sessions of a listener that stops end with BYE. Nothing waits for them here.
        for up in go {
            let RunningListener { trigger, .. } = up;
            trigger.request();
        }
    }

    fn start(&self, listen: Listen, listener: Listener) -> RunningListener {
        let protocol = listen.protocol;
        let address = listener.address().clone();
        if protocol == Protocol::Lmtp && address.is_open() {
            tracing::warn!(
                %address,
                "LMTP has no login and does not require TLS: any client that reaches this address can deliver mail, \
                 possibly unencrypted; set `listen.lmtp` to loopback or a Unix socket, or restrict the address by a \
                 firewall"
            );
        }
        let (trigger, shutdown) = Shutdown::new();
        let certificates = self.services.load().certificates.clone();
        let certificates = match protocol {
            Protocol::Imaps => certificates.for_protocol(IMAP_ALPN),
            Protocol::Pop3s => certificates.for_protocol(POP3_ALPN),
            Protocol::Https => certificates.for_protocol(HTTP_ALPN),
            _ => certificates,
        };
        let options = ServeOptions {
            limits: self.limits.clone(),
            certificates: Some(certificates),
            grace: self.grace,
            refusal: refusal(protocol),
            proxies: self.peers(|services| &services.proxy_networks),
            trusted: self.peers(|services| &services.trusted_networks),
            metrics: Some((Arc::clone(&self.metrics), protocol.metric())),
            ..ServeOptions::new(shutdown.clone())
        };
        let services = Arc::clone(&self.services);
        let session = move |connection| services.load_full().serve(protocol, connection, shutdown.clone());
        let accepting = listener.serve(options, session);
        let task = tokio::spawn(Metered::background(Arc::clone(&self.metrics), "accept", accepting));
        RunningListener { listen, address, trigger, task }
    }

    /// The peers in networks of the configuration, also after it was read again.
    fn peers(&self, networks: fn(&Services) -> &[Network]) -> Peers {
        let services = Arc::clone(&self.services);
        Peers::new(move |peer| networks(&services.load()).iter().any(|network| network.contains(peer)))
    }

    /// `imap=127.0.0.1:1143 …`, in the order of the protocols.
    pub fn addresses(&self) -> String {
        let all: BTreeMap<_, _> = self.up.iter().map(|up| ((up.listen.protocol, &up.address), ())).collect();
        let all: Vec<_> =
            all.keys().map(|(protocol, address)| format!("{}={address}", protocol.name())).collect();
        all.join(" ")
    }

    /// Stops them all and waits for their sessions, for as long as the configuration says.
    pub async fn stop(self) {
        for up in &self.up {
            up.trigger.request();
        }
        for up in self.up {
            match up.task.await {
                Ok(Ok(drained)) if drained.aborted > 0 => {
                    tracing::warn!(address = %up.address, sessions = drained.aborted, "sessions were ended before their commands finished");
                }
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::error!(address = %up.address, %error, "listener failed: this address accepted no connections since then")
                }
                Err(error) => {
                    tracing::error!(address = %up.address, %error, "the task of a listener panicked: please report this bug")
                }
            }
        }
    }
}

/// Binds and listens; connections wait.
fn bind(listen: &Listen, access: SocketAccess) -> Result<Listener> {
    let address = match &listen.place {
        SocketAddress::Unix(path) => return Ok(Listener::bind_unix(path, access)?),
        SocketAddress::Tcp(address) => *address,
    };
    let mode = match listen.protocol {
        Protocol::Imaps | Protocol::Pop3s | Protocol::Submissions | Protocol::Https => Mode::ImplicitTls,
        Protocol::Imap
        | Protocol::Pop3
        | Protocol::Lmtp
        | Protocol::Submission
        | Protocol::Smtp
        | Protocol::Sieve => Mode::Plain,
    };
    Ok(Listener::bind(&Endpoint { address, mode })?)
}

/// Binds all of these, for [`Listeners::set`].
pub fn bind_all(wanted: &[Listen], access: SocketAccess) -> Result<Vec<(Listen, Listener)>> {
    wanted.iter().map(|listen| Ok((listen.clone(), bind(listen, access)?))).collect()
}

/// The listeners of the configuration.
pub fn configured(config: &Config) -> Vec<Listen> {
    let listen = &config.listen;
    let by_protocol = [
        (Protocol::Imap, &listen.imap),
        (Protocol::Imaps, &listen.imaps),
        (Protocol::Pop3, &listen.pop3),
        (Protocol::Pop3s, &listen.pop3s),
        (Protocol::Submission, &listen.submission),
        (Protocol::Submissions, &listen.submissions),
        (Protocol::Smtp, &listen.smtp),
        (Protocol::Sieve, &listen.sieve),
        (Protocol::Https, &listen.https),
    ];
    let addresses = by_protocol.into_iter().flat_map(|(protocol, addresses)| {
        addresses.iter().map(move |address| Listen { protocol, place: SocketAddress::Tcp(*address) })
    });
    let lmtp = listen.lmtp.iter().map(|place| Listen { protocol: Protocol::Lmtp, place: place.clone() });
    addresses.chain(lmtp).collect()
}
