//! Notices changes by other processes and nodes while sessions here are idle.

use std::sync::Arc;
use std::time::Duration;

use posthaste_mail_model::{AccountId, MailboxId};

use super::Store;
use crate::engine::Epoch;
use crate::error::Result;
use crate::mailbox::MailboxState;

/// Heads read in one call. A thousand heads are a few hundred KiB.
const HEADS_MAX: usize = 1000;

impl Store {
    /// Checks, every `interval`, whether another process or node changed a watched mailbox, and if
    /// so wakes the watchers. It does nothing while no session waits for changes. Never returns:
    /// spawn it, and drop it to end it.
    pub async fn watch_foreign(&self, interval: Duration) {
        let mut seen: Epoch = self.engine().epoch();
        // The state of an unfinished pass over the followed accounts: the last account that was
        // read, and the epoch when the pass began.
        let (mut checked, mut begun): (Option<AccountId>, Epoch) = (None, None);
        let mut waiting = self.context().waiting_sessions();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Cannot fail: the sender is in the context.
            let _ = waiting.wait_for(|sessions| *sessions > 0).await;
            let epoch = self.engine().epoch();
            if epoch.is_some() && epoch == seen {
                continue;
            }
            if checked.is_none() {
                begun = epoch;
            }
            let outcome = match self.check_watched().await {
                Ok(()) => self.check_followed(checked).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(None) => (seen, checked) = (begun, None),
                // Too many for one round: the next one continues.
                Ok(last) => checked = last,
                // The next round tries again.
                Err(error) => tracing::warn!(%error, "cannot see what other processes changed"),
            }
        }
    }

    /// Checks all watched mailboxes once. One that cannot be read does not stop the others from
    /// being checked; the first failure is returned at the end.
    pub async fn check_watched(&self) -> Result<()> {
        let watched: Vec<Arc<MailboxState>> = {
            let mailboxes = self.shared.mailboxes.lock();
            mailboxes.values().filter(|m| m.is_watched()).cloned().collect()
        };
        let mut outcome = Ok(());
        for batch in watched.chunks(HEADS_MAX) {
            let epoch = self.engine().epoch();
            let ids: Vec<MailboxId> = batch.iter().map(|m| m.id()).collect();
            let heads = self.engine().heads(&ids).await?;
            for (mailbox, head) in batch.iter().zip(&heads) {
                let refreshed = mailbox.refresh_from_head(head.as_ref(), epoch).await;
                outcome = outcome.and(refreshed.map(drop));
            }
            // An engine that answers at once would never let another task in.
            tokio::task::yield_now().await;
        }
        outcome
    }
}
