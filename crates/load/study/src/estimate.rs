//! The rough time of a study on one server.

use std::time::Duration;

use crate::conduct::LEAST_WAIT;
use crate::file::Study;
use crate::plan::Plan;

/// Messages a second that filling is reckoned with: what one busy machine appended when this was
/// written, in sizes of a kilobyte. Only for estimates.
const FILL_MESSAGES_PER_S: f64 = 3_000.0;
/// Bytes a second likewise, when messages are large.
const FILL_BYTES_PER_S: f64 = 60e6;
/// Messages a second likewise on a cluster, when Cassandra has part of one busy machine. Only for
/// estimates.
const FILL_ON_CASSANDRA_PER_S: f64 = 300.0;
/// Seconds that a command takes there which adds an account. Only for estimates.
const ACCOUNT_S: f64 = 0.5;
/// Bytes a second with which a filled store is copied, and the start of a server. Only for
/// estimates.
const COPY_BYTES_PER_S: f64 = 200e6;
const START: Duration = Duration::from_secs(2);
/// Rounds of raising load that are reckoned with.
const RAISES: u32 = 3;
/// The start of a server on a simulated processor, and a transaction there, which takes some
/// fifty times as long as on a real one. Only for estimates.
const SIMULATED_START: Duration = Duration::from_secs(20);
const SIMULATED_TRANSACTION: Duration = Duration::from_millis(50);

impl Plan {
    /// The rough time of the study on one server: filling with the usual wait until the server is
    /// idle, and measuring with the profiles and the simulated processor.
    pub fn estimate(&self, study: &Study) -> (Duration, Duration) {
        let fill: f64 = self
            .populations
            .iter()
            .map(|p| {
                let messages = p.messages();
                if study.nodes_max().is_some() {
                    return messages / FILL_ON_CASSANDRA_PER_S + f64::from(p.count) * ACCOUNT_S;
                }
                (messages / FILL_MESSAGES_PER_S)
                    .max(messages * p.contents.sizes.mean_bytes() / FILL_BYTES_PER_S)
            })
            .sum();
        // A server that indexes mail keeps up with filling, so it is idle soon after. 50 GB took
        // 13 minutes with the wait, where 19 are reckoned for filling alone.
        let fill = Duration::from_secs_f64(fill) + LEAST_WAIT;
        let runs = u32::try_from(self.points()).unwrap_or(u32::MAX).saturating_mul(study.rounds);
        let simulated = study.workloads.len() as u32 * self.simulation_time(study);
        let starts: u32 = self.stages.iter().filter_map(|stage| stage.nodes).sum();
        let starts = START * starts.saturating_mul(study.rounds);
        let all = self.point_time(study) * runs + self.profiles(study).1 + simulated + starts;
        (fill, all)
    }

    /// The rough time of copying the filled store.
    pub(crate) fn copy_time(&self) -> Duration {
        Duration::from_secs_f64(self.mail_bytes() as f64 / COPY_BYTES_PER_S)
    }

    /// The rough time of both runs of one workload on a simulated processor. The store is put
    /// back before each, and after it the server's work in the background is waited for.
    pub(crate) fn simulation_time(&self, study: &Study) -> Duration {
        study.simulate.map_or(Duration::ZERO, |simulate| {
            // The second run has twice as many transactions.
            let transactions = simulate.clients.saturating_mul(simulate.transactions_each).saturating_mul(3);
            let each = self.copy_time() + SIMULATED_START + LEAST_WAIT;
            2 * each + SIMULATED_TRANSACTION.saturating_mul(transactions)
        })
    }

    /// The runs in which functions are sampled, and how long they take.
    pub(crate) fn profiles(&self, study: &Study) -> (usize, Duration) {
        let before = study.times.ramp + study.times.warmup;
        let all = self.stages.iter().flat_map(|s| &s.points).filter_map(|p| p.profile);
        (all.clone().count(), all.map(|sampled| sampled + before).sum())
    }

    /// The rough time of one point on one server.
    pub fn point_time(&self, study: &Study) -> Duration {
        let t = &study.times;
        let mut point = t.ramp + t.warmup + t.measure + Duration::from_secs(1);
        if study.load.is_some() {
            point += (t.trial + Duration::from_secs(2)) * RAISES;
        }
        if study.put_back {
            point += START + self.copy_time();
        }
        point
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    #[test]
    fn the_usual_wait_after_filling_is_in_the_plan() {
        let study = load("item-count", Length::Quick).unwrap();
        let plan = Plan::of(&study, 2);
        let mut twice = plan.clone();
        twice.populations.iter_mut().for_each(|population| population.count *= 2);
        let fill = |plan: &Plan| plan.estimate(&study).0;
        // Twice the mail takes twice the time, but for the wait.
        let wait = (2 * fill(&plan)).saturating_sub(fill(&twice));
        assert!(wait.abs_diff(LEAST_WAIT) < Duration::from_millis(1), "{wait:?}");
        assert_eq!(LEAST_WAIT, Duration::from_secs(6));
    }
}
