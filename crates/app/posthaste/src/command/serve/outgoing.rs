//! Mail to other domains, while the server runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste_authentication::DomainKeys;
use posthaste_metrics::{Metered, Registry};
use posthaste_queue::{LeaseTimes, Queue, Relay, Runner};
use posthaste_smtp_client::SmtpTransport;
use posthaste_store::Engine;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::services;
use crate::config::{Auto, Config};
use crate::failure::Result;
use crate::open::Opened;

/// The queue and what empties it.
pub struct Outgoing {
    /// Where mail for other domains is given.
    pub relay: Relay,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Outgoing {
    /// Opens the queue and begins to send; `None` if the configuration relays nothing, or leaves it
    /// to the domains and none is set up.
    pub async fn start(config: &Config, opened: &Opened, metrics: &Arc<Registry>) -> Result<Option<Self>> {
        if !opened.relays(config).await? {
            return Ok(None);
        }
        let host = services::hostname(config);
        let transport = SmtpTransport::new(&host, config.relay.routes()?, config.relay.tls()?);
        let queue = Queue::open(opened.delivery.clone()).await?;
        let relay = Relay::new(queue, opened.delivery.clone(), &host).rewriting(config.relay.srs);
        // The embedded engine has one server; a cluster has several, of which one sends.
        let is_cluster = opened.store.engine().epoch().is_none();
        let lease_times = is_cluster.then(LeaseTimes::default);
        let times = config.relay.times();
        let runner = Runner::new(relay.clone(), Arc::new(transport), times, Arc::new(unix_s), lease_times);
        let (stop, stopped) = oneshot::channel();
        let run = runner.run(async { stopped.await.unwrap_or_default() });
        let task = tokio::spawn(Metered::background(Arc::clone(metrics), "queue", run));
        Ok(Some(Self { relay, stop, task }))
    }

    /// Lets messages that are being sent end, for so long.
    pub async fn stop(self, within: Duration) {
        let _ = self.stop.send(());
        if tokio::time::timeout(within, self.task).await.is_err() {
            tracing::warn!(
                "messages that were being sent were cut off: they are sent again after the next start"
            );
        }
    }
}

/// Returns when a domain is set up; never, if the configuration does not leave relaying to that.
pub async fn first_domain(enabled: Auto<bool>, engine: Arc<dyn Engine>, pause: Duration) {
    if enabled != Auto::Auto {
        return std::future::pending().await;
    }
    let mut seen = None;
    loop {
        let epoch = engine.epoch();
        // Without an epoch, as on a cluster, each look reads.
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

fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
