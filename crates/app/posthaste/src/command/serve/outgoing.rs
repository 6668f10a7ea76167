//! Mail to other domains, while the server runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste_queue::{Queue, QueueError, Relay, Runner};
use posthaste_smtp_client::SmtpTransport;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::services;
use crate::config::Config;
use crate::failure::Result;
use crate::open::Opened;

/// The queue and what empties it.
pub struct Outgoing {
    /// Where mail for other domains is given.
    pub relay: Relay,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), QueueError>>,
}

impl Outgoing {
    /// Opens the queue and begins to send; `None` if the configuration relays nothing.
    pub async fn start(config: &Config, opened: &Opened) -> Result<Option<Self>> {
        if !config.relay.enabled {
            return Ok(None);
        }
        let host = services::hostname(config);
        let transport = SmtpTransport::new(&host, config.relay.routes()?, config.relay.tls()?);
        let queue = Queue::open(opened.delivery.clone()).await?;
        let relay = Relay::new(queue, opened.delivery.clone(), &host);
        let runner = Runner::new(relay.clone(), Arc::new(transport), config.relay.times(), Arc::new(unix_s));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let outcome = runner.run(async { stopped.await.unwrap_or_default() }).await;
            if let Err(error) = &outcome {
                tracing::error!(%error, "the queue cannot be read: mail to other domains waits until the next start");
            }
            outcome
        });
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

fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
