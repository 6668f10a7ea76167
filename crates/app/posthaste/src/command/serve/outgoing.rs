//! Mail to other domains, while the server runs.

use std::sync::Arc;
use std::time::Duration;

use posthaste_authentication::DomainKeys;
use posthaste_directory::unix_time;
use posthaste_filter::{CurrentFilter, Filter, ToMailboxes};
use posthaste_metrics::Metered;
use posthaste_queue::{LeaseTimes, Queue, Relay, Runner, RunnerOptions};
use posthaste_smtp_client::{Dns, SmtpTransport};
use posthaste_store::Engine;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::services::{self, Budgets};
use crate::config::{Auto, Config, Limits};
use crate::failure::Result;
use crate::open::Opened;

/// The queue and what empties it.
pub struct Outgoing {
    /// The filter with the way out.
    pub filter: Filter,
    /// Delivers to local mailboxes, from the queue.
    current: CurrentFilter,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Outgoing {
    /// Opens the queue and begins to send; `None` if the configuration relays nothing, or leaves it
    /// to the domains and none is set up. The filter is one without a way out.
    pub async fn start(
        config: &Config,
        opened: &Opened,
        budgets: &Budgets,
        filter: &Filter,
    ) -> Result<Option<Self>> {
        let (metrics, reporter) = (&budgets.metrics, budgets.reporter.clone());
        if !opened.relays(config).await? {
            if Queue::has_items(&**opened.store.engine()).await? {
                tracing::warn!(
                    "mail waits in the queue, and this server sends none: set `relay.enabled = true`, \
                     or see `posthaste queue list` and drop what is there"
                );
            }
            return Ok(None);
        }
        let host = services::hostname(config);
        let mut transport = SmtpTransport::new(&host, config.relay.routes()?, config.relay.tls()?);
        if config.relay.mta_sts {
            let engine = Arc::clone(opened.store.engine());
            transport = transport.with_sts(config.relay.sts_port, Some(engine)).await?;
        }
        let transport = transport.with_reports(reporter.tls());
        let queue = Queue::open(opened.delivery.clone()).await?;
        let relay = Relay::new(queue, opened.delivery.clone(), &host).rewriting(config.relay.srs);
        let relay = relay.naming_members(config.relay.verp).to_addresses(config.relay.to_addresses);
        relay.set_account_octets_max(config.limits.account_queued.as_u64());
        relay.set_items_max(budgets.queue_items);
        let filter = filter.clone().with_relay(Some(relay.clone()));
        let current = CurrentFilter::new(filter.clone());
        let transport = ToMailboxes::beside(Arc::new(transport), current.clone());
        // The embedded engine has one server. A cluster has several, and one of them sends.
        let is_cluster = opened.store.engine().epoch().is_none();
        let lease_times = is_cluster.then(LeaseTimes::default);
        let options = RunnerOptions {
            times: config.relay.times(),
            lease_times,
            bodies_bytes: budgets.queue,
            connections: config.relay.connections(),
        };
        let runner =
            Runner::new(relay.clone(), Arc::new(transport), Arc::new(unix_time::now_signed), options);
        budgets.runner.set(Arc::clone(&runner));
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let run = runner.run(until_stopped(stopped.clone()));
        tasks.spawn(Metered::background(Arc::clone(metrics), "queue", run));
        match Dns::new(&config.relay.dns, config.relay.port) {
            Ok(dns) => {
                let run = reporter.run(relay.clone(), dns.resolver().clone(), until_stopped(stopped));
                tasks.spawn(Metered::background(Arc::clone(metrics), "reports", run));
            }
            Err(error) => {
                tracing::warn!(%error, "no reports are sent to other domains: name the name servers in `relay.dns`");
            }
        }
        Ok(Some(Self { filter, current, stop, tasks }))
    }

    /// Delivers by another filter from now on, and with other limits.
    pub fn set(&self, filter: &Filter, limits: &Limits) {
        self.current.set(filter.clone());
        if let Some(relay) = self.filter.relay() {
            relay.set_account_octets_max(limits.account_queued.as_u64());
        }
    }

    /// Waits for messages that are being sent, for this time at most.
    pub async fn stop(mut self, within: Duration) {
        let _ = self.stop.send(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(within, ended).await.is_err() {
            tracing::warn!(
                "the sending of messages was interrupted: they are sent again after the next start"
            );
        }
    }
}

/// Returns when the server stops.
async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error: the sender has ended.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns when a domain is set up; never, if the configuration does not leave relaying to that.
pub async fn first_domain(enabled: Auto<bool>, engine: Arc<dyn Engine>, pause: Duration) {
    if enabled != Auto::Auto {
        return std::future::pending().await;
    }
    let mut seen = None;
    loop {
        let epoch = engine.epoch();
        // Without an epoch, as on a cluster, each check reads.
        if epoch.is_none() || epoch != seen {
            match DomainKeys::any(&*engine).await {
                Ok(true) => return,
                Ok(false) => seen = epoch,
                Err(error) => tracing::warn!(%error, "cannot check whether a domain is set up"),
            }
        }
        tokio::time::sleep(pause).await;
    }
}
