//! How long a change is tried again when others come first: for a time, however many come.
//!
//! Processes and nodes that change one mailbox at once overtake each other. Each pauses for a
//! random time before its next attempt. The pauses grow with the first conflicts, so that others
//! can commit. Then they shrink with the age of the change, so an older change has more attempts
//! than a newer one.

use std::time::Duration;

use tokio::time::Instant;

use crate::context::Context;
use crate::error::{Result, StoreError};

/// A change is tried again for this long. A client waits for at least a minute, so twice as much
/// could outlast the client.
const RETRIED_FOR: Duration = Duration::from_secs(30);

/// The pauses after the first conflicts are at most 2, 4, 8 … 2^6 ms.
const PAUSE_MAX_LOG2: u32 = 6;

/// The longest pause of an old change: about a commit of a cluster. With a shorter one, the
/// attempts of many old changes would only delay each other.
const PAUSE_OF_OLD: Duration = Duration::from_millis(8);

/// The attempts of one change.
pub(crate) struct Backoff {
    /// The time when the change was requested.
    begun: Instant,
    /// After this time it is not tried again.
    until: Instant,
    conflicts: u32,
}

impl Backoff {
    /// For a command that was requested at this time.
    pub fn of_command(begun: Instant) -> Self {
        Self { begun, until: begun + RETRIED_FOR, conflicts: 0 }
    }

    /// For work that begins now, and whose oldest command was requested at this time.
    pub fn of_step(begun: Instant) -> Self {
        Self { until: Instant::now() + RETRIED_FOR, ..Self::of_command(begun) }
    }

    /// Lets others commit after a conflict. `Busy`: the time for further attempts is over.
    pub async fn pause(&mut self, context: &Context) -> Result<()> {
        let now = Instant::now();
        if now >= self.until {
            return Err(StoreError::Busy);
        }
        if self.conflicts == 0 {
            // The answer may have come at once: then this task has not paused since it read.
            tokio::task::yield_now().await;
        } else {
            let most = pause_max(self.conflicts, now.saturating_duration_since(self.begun));
            let most_us = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
            // Boxed: nearly no change meets two conflicts.
            Box::pin(tokio::time::sleep(Duration::from_micros((context.random() as u64) % most_us))).await;
        }
        self.conflicts = self.conflicts.saturating_add(1);
        Ok(())
    }
}

/// The longest pause after this many conflicts of a change of this age.
fn pause_max(conflicts: u32, age: Duration) -> Duration {
    let seconds = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    let of_age = Duration::from_millis(1 << PAUSE_MAX_LOG2) / seconds.saturating_add(1);
    Duration::from_millis(1 << conflicts.min(PAUSE_MAX_LOG2)).min(of_age.max(PAUSE_OF_OLD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_conflicts_and_shrink_with_age() {
        let ms = |conflicts, seconds| pause_max(conflicts, Duration::from_secs(seconds)).as_millis();
        assert_eq!([1, 2, 3, 6, 7, 1000].map(|conflicts| ms(conflicts, 0)), [2, 4, 8, 64, 64, 64]);
        assert_eq!([0, 1, 3, 7, 15, 29].map(|seconds| ms(100, seconds)), [64, 32, 16, 8, 8, 8]);
        assert_eq!([0, 29].map(|seconds| ms(1, seconds)), [2, 2]);
    }
}
