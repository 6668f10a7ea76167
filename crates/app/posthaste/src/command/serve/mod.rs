//! `posthaste serve`: from a data directory to listeners that answer, and an orderly end.

mod current_runner;
mod expiry;
mod first_account;
mod listeners;
pub mod metrics;
mod outgoing;
mod policies;
mod postmaster;
mod request_head;
mod services;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use posthaste_delivery::Renewals;
use posthaste_directory::LoginSettings;
use posthaste_filter::Filter;
use posthaste_metrics::Metered;
use posthaste_net::{Certificates, Listener, Pair, SocketAccess, raise_file_limit};
use posthaste_retention::{Mode, Outcome, Retention, RetentionError, Target};
use posthaste_store::Store;
use posthaste_store_lmdb::EngineLock;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;

use self::first_account::first_account;
use self::listeners::Listeners;
use self::metrics::Metrics;
use self::outgoing::{Outgoing, first_domain};
use self::services::{Budgets, Services};
pub use self::services::{hostname, machine_name};
use crate::audit::Act;
use crate::cli::{Common, Listen, Serve};
use crate::command::configuration::{configuration, configuration_file};
use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::logging::{self, Level};
use crate::memory::{self, Plan};
use crate::open::{self, Opened};
use crate::private;
use crate::privileges::{self, Identity};

/// Time between two polls of what other processes changed, while sessions wait for changes. So
/// sessions in IDLE report mail that a command imports within a tenth of a second. A poll reads one
/// number. The cost is waking up: some 2 ms of CPU a second in all.
const FOREIGN_POLL_PAUSE: Duration = Duration::from_millis(75);
/// The pause on a cluster, where each poll costs a read for each mailbox that is watched. With
/// one poll a second an idle session reports a change well within two seconds, reading included.
const CLUSTER_POLL_PAUSE: Duration = Duration::from_secs(1);
/// Time between two checks whether accounts with sessions were disabled, removed or given another
/// password. The embedded engine has an epoch, so most checks read one number. On a cluster each
/// check reads every such account.
const ACCOUNT_POLL_PAUSE: Duration = Duration::from_millis(500);
/// Time between two such checks on a cluster.
const ACCOUNT_POLL_PAUSE_CLUSTER: Duration = Duration::from_secs(3);
/// Between two rounds of maintenance when there was nothing to do.
const MAINTENANCE_PAUSE: Duration = Duration::from_secs(2);
/// The pause between the start and the first run of retention: clients come back first.
const FIRST_RUN_AFTER: Duration = Duration::from_secs(5 * 60);
/// Time between two checks of the certificates' ends.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Files kept for the store, listeners and up to 512 connections to other hosts, in addition to
/// one for each connection of a client.
const FILES_BESIDE_CONNECTIONS: u64 = 1024;

/// Polls of tasks between two looks of a busy thread at its sockets and clocks. A poll should take
/// 2 ms at most, and may take 10 ms. After 61 polls, the runtime's default, a session might notice
/// its input after half a second. A look takes less than a microsecond.
const POLLS_BETWEEN_EVENTS: u32 = 8;

/// Runs the server until SIGTERM or SIGINT.
pub fn run(config: Config, common: Common, options: Serve) -> Result<()> {
    let level = logging::start(&config.log)?;
    watch_sessions(config.log.long_polls);
    let mut plan = Plan::of(&config);
    plan.check().map_err(Failure::Usage)?;
    if let Some(warning) = plan.warning() {
        tracing::warn!("{warning}");
    }
    report(&plan);
    plan.connections = with_files(plan.connections);
    privileges::refuse_new_ones()?;
    let identity = Identity::of(&config)?;
    let access = privileges::socket_access(&config, identity.as_ref())?;
    let becomes = ServerUser { identity, access };
    logging::write_in_batches();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("sessions")
        .on_thread_stop(posthaste_metrics::thread_ends)
        .event_interval(POLLS_BETWEEN_EVENTS)
        .enable_all()
        .build()?;
    // Boxed as every command is: its code is compiled once.
    let work: Pin<Box<dyn Future<Output = Result<()>>>> =
        Box::pin(serve(config, common, options, level, plan, becomes));
    runtime.block_on(work)
}

/// Logs the worst case of memory, which an administrator compares with the machine. If the level of
/// the log hides it, it goes to standard output, as the line `ready` does.
fn report(plan: &Plan) {
    let (most, bound) = (memory::size(plan.worst_case()), memory::size(plan.memory));
    let line = format!("memory: at most {most} of {bound}: {}", plan.parts());
    if tracing::enabled!(tracing::Level::INFO) {
        tracing::info!("{line}");
    } else {
        logging::say(&line);
    }
}

/// Logs each poll of a session or background task that computes for longer than configured. The
/// rule is 10 ms, in a release build; CPU time counts, so that other load on the machine does
/// not. `scripts/hostile` reads these lines. Debug builds always log: the tests `hostile` and
/// `sessions` fail on such a line that comes each time.
fn watch_sessions(configured: Duration) {
    /// A debug build without optimization takes some ten times as long.
    const DEBUG_LIMIT: Duration = Duration::from_millis(10 * 10);
    let limit = if configured.is_zero() && cfg!(debug_assertions) { DEBUG_LIMIT } else { configured };
    if limit.is_zero() {
        return;
    }
    posthaste_metrics::watch_polls(limit, |poll| {
        tracing::warn!(
            protocol = poll.protocol,
            command = poll.command,
            microseconds = poll.cpu.as_micros(),
            on_the_clock = poll.elapsed.as_micros(),
            "one poll of a task used too much CPU time"
        );
    });
}

/// Asks the system for the open files that this many connections may need. Returns the largest
/// number of connections: fewer if the files are not available, because the store needs some of
/// its own.
fn with_files(connections: u64) -> u64 {
    let wanted = connections + FILES_BESIDE_CONNECTIONS;
    let limit = raise_file_limit(wanted).unwrap_or_else(|error| {
        tracing::warn!(%error, wanted, "the limit of open files cannot be raised");
        wanted
    });
    let possible = connections_with(limit, connections);
    if possible == connections {
        return connections;
    }
    tracing::warn!(
        limit,
        wanted,
        connections = possible,
        "the system lets this process open fewer files than `limits.connections` needs, so fewer connections are \
         accepted: raise its limit (ulimit -n, LimitNOFILE=), or lower the setting"
    );
    possible
}

/// How many of these connections a server with this limit of files accepts. It keeps at most half
/// of the files for the rest.
fn connections_with(files: u64, connections: u64) -> u64 {
    connections.min(files - FILES_BESIDE_CONNECTIONS.min(files / 2))
}

/// The user that the process becomes, and the access to its Unix socket. Both are looked up before
/// there are threads.
struct ServerUser {
    identity: Option<Identity>,
    access: SocketAccess,
}

async fn serve(
    config: Config,
    common: Common,
    options: Serve,
    level: Level,
    plan: Plan,
    ServerUser { identity, access }: ServerUser,
) -> Result<()> {
    let mut bound = Vec::new();
    // A port below 1024 needs privileges, too.
    let for_metrics = metrics::bind(&config.listen.metrics).await?;
    if let Some(identity) = &identity {
        bound = listeners::bind_all(&wanted(&options, &config), access)?;
        identity.assume()?;
        identity.check_store(&config.data)?;
    }
    private::tighten_store(&config.data)?;
    let lock = Arc::new(EngineLock::acquire(&config.data)?);
    let opened = open::serving(&config, Arc::clone(&lock)).await?;
    lock.hold_directory()?;
    let certificates = certificates(&config)?;
    opened.directory.trust_networks(config.login.trusted_networks.clone());
    opened.directory.set_logins(config.logins()?);
    let mut signals = Signals::new()?;
    let budgets = Budgets::new(&plan, &config, &opened);
    let background = Background::start(&config, &opened, &budgets, &certificates);
    let filter = Filter::new(opened.delivery.clone(), None, &services::hostname(&config));
    let filter = filter.with_site(config.sieve.site()?).with_accounts(budgets.accounts.clone());
    let filter = filter.with_scripts_bytes(plan.scripts);
    let mut outgoing = Outgoing::start(&config, &opened, &budgets, &filter).await?;
    let filter = outgoing.as_ref().map_or(filter, |outgoing| outgoing.filter.clone());
    let engine = Arc::clone(opened.store.engine());
    let mut domain = std::pin::pin!(first_domain(config.relay.enabled, engine, account_poll_pause(&opened)));
    let started = config.clone();
    let mut server =
        Server { started, config, common, options, level, opened, filter, certificates, budgets, plan };
    let mut listeners = server.listen(access, bound)?;
    let metrics = Metrics::start(server.budgets.sources(), for_metrics, &server.config.data)?;
    // Not before the listeners are up: a start that fails must not leave the password of a server
    // in somebody's log.
    first_account(&server.opened, &server.config).await?;
    logging::say(&format!("ready {}{}", listeners.addresses(), metrics.addresses()));
    let mut waits_for_domain = outgoing.is_none();
    loop {
        tokio::select! {
            request = signals.next() => match request {
                SignalRequest::Reload => {
                    server.reload(&mut listeners);
                    if let Some(outgoing) = &outgoing {
                        outgoing.set(&server.filter, &server.config.limits);
                    }
                }
                SignalRequest::Stop => break,
            },
            () = &mut domain, if waits_for_domain => {
                waits_for_domain = false;
                outgoing = server.begin_to_send(&mut listeners).await;
            }
        }
    }
    tracing::info!("stopping: running commands are finished");
    listeners.stop().await;
    drop(metrics);
    if let Some(outgoing) = outgoing {
        outgoing.stop(server.config.limits.shutdown_timeout).await;
    }
    background.stop();
    server.opened.store.wait_for_changes().await;
    tracing::info!("stopped");
    Ok(())
}

/// The tasks other than sessions, as long as the server runs.
struct Background(Vec<AbortHandle>);

impl Background {
    fn start(config: &Config, opened: &Opened, budgets: &Budgets, certificates: &Certificates) -> Self {
        postmaster::look_up(config, opened);
        let foreign = opened.store.clone();
        let pause =
            if opened.store.engine().epoch().is_some() { FOREIGN_POLL_PAUSE } else { CLUSTER_POLL_PAUSE };
        let metrics = || Arc::clone(&budgets.metrics);
        let foreign = async move { foreign.watch_foreign(pause).await };
        let foreign = tokio::spawn(Metered::background(metrics(), "watch", foreign));
        let accounts = Arc::clone(&opened.directory);
        accounts.renew_limits(budgets.accounts.clone());
        let account_poll_pause = account_poll_pause(opened);
        let accounts = async move { accounts.watch_accounts(account_poll_pause).await };
        let accounts = tokio::spawn(Metered::background(metrics(), "watch", accounts));
        let maintenance = maintain(opened.store.clone());
        let maintenance = tokio::spawn(Metered::background(metrics(), "maintenance", maintenance));
        let indexing = budgets.index.clone().run();
        let indexing = tokio::spawn(Metered::background(metrics(), "index", indexing));
        let retention = Retention::new(opened.store.clone(), Arc::clone(&opened.directory));
        let retention = retain(retention, config.retention.clone());
        let retention = tokio::spawn(Metered::background(metrics(), "retention", retention));
        let renewing = Metered::background(metrics(), "convert", renew(opened.renewals.clone()));
        let renewing = tokio::spawn(renewing);
        let expiry = expiry::watch(certificates.clone(), DAY);
        let expiry = tokio::spawn(Metered::background(metrics(), "expiry", expiry));
        Self(vec![
            foreign.abort_handle(),
            accounts.abort_handle(),
            maintenance.abort_handle(),
            indexing.abort_handle(),
            retention.abort_handle(),
            renewing.abort_handle(),
            expiry.abort_handle(),
        ])
    }

    fn stop(self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Gives new UIDs to the mail that an earlier version would have converted otherwise. The rest is
/// done when a client reads it, or by the next start.
async fn renew(renewals: Renewals) {
    match renewals.run().await {
        Ok(0) => {}
        Ok(renewed) => {
            tracing::info!(renewed, "rich mail that an earlier version converted in another way got new UIDs")
        }
        Err(error) => {
            tracing::warn!(%error, "rich mail that an earlier version converted in another way has no new UIDs yet: the next start tries again")
        }
    }
}

/// The pause between two looks at accounts that another process or node may have changed.
fn account_poll_pause(opened: &Opened) -> Duration {
    if opened.store.engine().epoch().is_some() { ACCOUNT_POLL_PAUSE } else { ACCOUNT_POLL_PAUSE_CLUSTER }
}

/// The addresses to listen on: those of the command line, else of the configuration.
fn wanted(options: &Serve, config: &Config) -> Vec<Listen> {
    if options.listen.is_empty() { listeners::configured(config) } else { options.listen.clone() }
}

/// The parts of a running server, so that it can be made again.
struct Server {
    /// The configuration of the start. Some settings hold until the next one.
    started: Config,
    config: Config,
    common: Common,
    options: Serve,
    level: Level,
    opened: Opened,
    filter: Filter,
    certificates: Certificates,
    budgets: Budgets,
    plan: Plan,
}

impl Server {
    fn services(&self) -> Result<Services> {
        Services::new(&self.config, &self.opened, &self.filter, &self.certificates, &self.budgets)
            .map_err(Failure::Usage)
    }

    /// Starts the listeners. Sockets in `bound` were bound before the privileges for it were
    /// dropped.
    fn listen(&self, access: SocketAccess, mut bound: Vec<(Listen, Listener)>) -> Result<Listeners> {
        let mut listeners = Listeners::new(self.services()?, &self.config, &self.budgets, &self.plan, access);
        if bound.is_empty() {
            bound = listeners.bind(&self.wanted())?;
        }
        listeners.set(&self.wanted(), bound);
        Ok(listeners)
    }

    fn wanted(&self) -> Vec<Listen> {
        wanted(&self.options, &self.config)
    }

    /// A domain was set up while nothing was sent. New sessions may send to other domains.
    async fn begin_to_send(&mut self, listeners: &mut Listeners) -> Option<Outgoing> {
        let started = Outgoing::start(&self.config, &self.opened, &self.budgets, &self.filter).await;
        let served = started.and_then(|outgoing| {
            if let Some(outgoing) = &outgoing {
                self.filter = outgoing.filter.clone();
            }
            listeners.replace(self.services()?, &self.config, &self.plan);
            Ok(outgoing)
        });
        match served {
            Ok(outgoing) => {
                tracing::info!("a domain is set up: the server now sends mail to other domains");
                outgoing
            }
            Err(error) => {
                tracing::error!(%error, "mail cannot be sent to other domains: correct this and restart the server");
                None
            }
        }
    }

    /// SIGHUP: certificate and configuration are read again. If a part cannot be used, nothing
    /// changes.
    fn reload(&mut self, listeners: &mut Listeners) {
        let outcome = self.read_again(listeners).and_then(|next| {
            self.level.set(&next.config.log)?;
            Ok(next)
        });
        match outcome {
            Ok(next) => {
                self.apply(next, listeners);
                Act::of_server(self.reload_act(), &self.config).done();
                tracing::info!(
                    addresses = listeners.addresses(),
                    "configuration and certificate were read again"
                );
            }
            Err(error) => {
                tracing::error!(%error, "the configuration was not reloaded: the server continues with the old one")
            }
        }
    }

    /// A reload as `audit.log` names it: with the file that was read.
    fn reload_act(&self) -> String {
        match configuration_file(&self.common) {
            Some(file) => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
                format!("serve: reload {}", file.display())
            }
            None => "serve: reload without a configuration file".to_owned(),
        }
    }

    /// Reads everything, and binds the new listeners. Changes nothing that is in use.
    fn read_again(&self, listeners: &Listeners) -> Result<ReloadedConfig> {
        let next = configuration(&self.common)?;
        let waiting = next.keys_that_wait(&self.started);
        // A new `data` waits for the next start, and with it the self-signed pair there.
        let config = next.for_running(&self.started);
        // Only the number of connections changes before the next start.
        let plan = Plan { connections: with_files(Plan::of(&config).connections), ..self.plan };
        plan.check().map_err(Failure::Usage)?;
        let certificates = certificates(&config)?;
        let logins = config.logins()?;
        let filter = self.filter.clone().with_site(config.sieve.site()?);
        let services = Services::new(&config, &self.opened, &filter, &self.certificates, &self.budgets)
            .map_err(Failure::Usage)?;
        let bound = listeners.bind(&wanted(&self.options, &config))?;
        Ok(ReloadedConfig { config, waiting, plan, certificates, logins, filter, services, bound })
    }

    fn apply(&mut self, next: ReloadedConfig, listeners: &mut Listeners) {
        let ReloadedConfig { config, waiting, plan, certificates, logins, filter, services, bound } = next;
        // The listeners hold this very one: all of them show the new certificate, whichever files
        // it is in.
        self.certificates.replace_by(&certificates);
        expiry::warn(&self.certificates);
        self.opened.directory.trust_networks(config.login.trusted_networks.clone());
        self.opened.directory.set_logins(logins);
        self.budgets.accounts.set(config.limits.of_accounts(plan.connections));
        for key in waiting {
            tracing::warn!(key, "this setting has changed: it takes effect at the next start of the server");
        }
        postmaster::look_up(&config, &self.opened);
        listeners.replace(services, &config, &plan);
        (self.config, self.plan, self.filter) = (config, plan, filter);
        listeners.set(&self.wanted(), bound);
    }
}

/// A configuration that was read again, and what was made of it. Nothing of it is in use yet.
struct ReloadedConfig {
    config: Config,
    /// Settings that take effect at the next start.
    waiting: Vec<&'static str>,
    plan: Plan,
    certificates: Certificates,
    logins: LoginSettings,
    filter: Filter,
    services: Services,
    bound: Vec<(Listen, Listener)>,
}

/// The configured certificates, or a self-signed one kept in the data directory.
fn certificates(config: &Config) -> Result<Certificates> {
    let tls = &config.tls;
    if tls.certificate.as_os_str().is_empty() {
        let pair = Certificates::self_signed_pair(&config.data, &services::hostname(config))?;
        return Ok(Certificates::load_all(vec![pair], tls.settings())?);
    }
    private::tighten_secret("tls.key", &tls.key)?;
    let mut pairs = vec![Pair { chain: tls.certificate.clone(), key: tls.key.clone() }];
    for other in &tls.others {
        private::tighten_secret("tls.others", &other.key)?;
        pairs.push(Pair { chain: other.certificate.clone(), key: other.key.clone() });
    }
    Ok(Certificates::load_all(pairs, tls.settings())?)
}

/// Does what commits left for later, for as long as the server runs.
async fn maintain(store: Store) {
    loop {
        match store.engine().maintain().await {
            Ok(report) => {
                for fault in &report.faults {
                    tracing::error!(fault, "maintenance found a fault: run `posthaste check`");
                }
                if report.examined > 0 {
                    tokio::task::yield_now().await;
                    continue;
                }
            }
            Err(error) => {
                let seconds = MAINTENANCE_PAUSE.as_secs();
                tracing::warn!(%error, seconds, "maintenance failed: it is tried again after these seconds");
            }
        }
        tokio::time::sleep(MAINTENANCE_PAUSE).await;
    }
}

/// Applies the rules of the configuration, for as long as the server runs.
async fn retain(retention: Retention, config: config::Retention) {
    let rules = config.rules();
    if config.every.is_zero() || rules.is_empty() {
        return;
    }
    let mut pause = before_first_run(config.every);
    loop {
        tokio::time::sleep(pause).await;
        pause = config.every;
        let mut report = |outcome: std::result::Result<Outcome, RetentionError>| {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) => {
                    return tracing::warn!(%error, "`retention.rules` could not be applied to all of a folder; the \
                                                   server tries again");
                }
            };
            let Outcome { account, folder, rule, target, messages, octets } = outcome;
            let to = match &target {
                Target::Folder(name) => name.as_str(),
                Target::Nowhere => "",
            };
            let (folder, rule) = (folder.as_str(), rule + 1);
            tracing::info!(target: "posthaste::retention", account, folder, rule, to, messages, octets, "a retention rule moved or deleted mail of a folder");
        };
        if let Err(error) = retention.run(&rules, Mode::Apply, &mut report).await {
            tracing::warn!(%error, "not all `retention.rules` were applied; the server tries again after \
                                    `retention.every`");
        }
    }
}

/// A server that is started again more often than `retention.every` applies its rules, too.
fn before_first_run(every: Duration) -> Duration {
    every.min(FIRST_RUN_AFTER)
}

enum SignalRequest {
    Reload,
    Stop,
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let of = |kind| signal(kind).map_err(Failure::Terminal);
        Ok(Self {
            hangup: of(SignalKind::hangup())?,
            terminate: of(SignalKind::terminate())?,
            interrupt: of(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.hangup.recv() => SignalRequest::Reload,
            _ = self.terminate.recv() => SignalRequest::Stop,
            _ = self.interrupt.recv() => SignalRequest::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 1,200 files a server accepted 600 connections, although its plan of memory had 300.
    #[test]
    fn few_files_never_raise_the_number_of_connections() {
        let accepted = [(256, 1000), (1200, 300), (3000, 1000), (1500, 1000)];
        let accepted = accepted.map(|(files, connections)| connections_with(files, connections));
        assert_eq!(accepted, [128, 300, 1000, 750]);
    }

    #[test]
    fn retention_runs_although_the_server_is_started_again_often() {
        let week = 7 * DAY;
        assert!(before_first_run(week) < Duration::from_secs(60 * 60));
        assert_eq!(before_first_run(Duration::from_secs(2)), Duration::from_secs(2));
    }
}
