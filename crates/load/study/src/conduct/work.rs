//! A study under way: what is left of it, and whether it continues.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use posthaste_imap_client::net::Dialer;
use posthaste_load_drive::interrupt;
use posthaste_load_null_server::{SinkCounts, sink};
use posthaste_load_text::for_terminal;
use posthaste_load_text::quantity::show_duration;

use super::budget::Budget;
use super::position::StudyPosition;
use super::record::Record;
use super::ways::outside_share;
use crate::file::Study;
use crate::options::Options;
use crate::plan::{Plan, Stage};
use crate::server::ServerChoice;

/// A study under way.
pub(super) struct Work<'a> {
    pub(super) study: &'a Study,
    pub(super) options: &'a Options,
    pub(super) plan: &'a Plan,
    pub(super) dialer: Dialer,
    pub(super) record: Record<'a>,
    pub(super) budget: Budget,
    pub(super) interrupted: bool,
    /// The next point would end too late.
    pub(super) out_of_time: bool,
    /// The server that takes mail for other domains, if a study has such mail.
    pub(super) other: Option<OtherServer>,
    /// The bytes of the filled store on the disk, if it is put back.
    pub(super) filled_bytes: Option<u64>,
}

/// A server of another domain: it takes mail and keeps none.
pub(super) struct OtherServer {
    pub(super) address: SocketAddr,
    pub(super) taken: Arc<SinkCounts>,
}

impl OtherServer {
    /// Starts one, if any server of the study gets mail for it.
    pub(super) fn for_study(servers: &[ServerChoice], study: &Study) -> Result<Option<Self>, String> {
        if !servers.iter().any(|which| outside_share(study, which) > 0.0) {
            return Ok(None);
        }
        let (address, taken) = sink("127.0.0.1:0").map_err(|e| format!("the other server: {e}"))?;
        Ok(Some(Self { address, taken }))
    }
}

impl Work<'_> {
    /// Whether no further point begins.
    pub(super) fn is_over(&mut self) -> bool {
        self.interrupted |= interrupt::happened();
        self.interrupted || self.out_of_time
    }

    /// Whether a point is still to be measured on a server, or its functions to be sampled.
    pub(super) fn wants(&self, which: &ServerChoice, place: StudyPosition) -> bool {
        let Some(point) = place.stage.points.get(place.number) else { return false };
        self.record.run(which.name(), point, place.round).is_none() || self.wants_profile(which, place)
    }

    /// Whether the functions of a server are still to be sampled at a point.
    pub(super) fn wants_profile(&self, which: &ServerChoice, place: StudyPosition) -> bool {
        let point = place.stage.points.get(place.number).filter(|p| p.profile.is_some() && place.round == 0);
        let run = point.and_then(|point| self.record.run(which.name(), point, 0));
        run.and_then(|run| run.server.as_ref()).is_some_and(|server| server.hottest.is_none())
    }

    /// Whether any point of a stage is still to be measured on a server.
    pub(super) fn wants_any_of(&self, which: &ServerChoice, stage: &Stage) -> bool {
        self.wants_in(&(0..self.study.rounds), which, stage)
    }

    /// The same in some of the rounds.
    pub(super) fn wants_in(&self, rounds: &Range<u32>, which: &ServerChoice, stage: &Stage) -> bool {
        let places =
            rounds.clone().flat_map(|round| (0..stage.points.len()).map(move |number| (number, round)));
        places.into_iter().any(|(number, round)| self.wants(which, StudyPosition { stage, number, round }))
    }

    /// Whether anything is left to do with a server.
    pub(super) fn wants_server(&self, which: &ServerChoice) -> bool {
        self.plan.stages.iter().any(|stage| self.wants_any_of(which, stage)) || self.wants_simulation(which)
    }

    /// Whether a workload is still to be simulated.
    pub(super) fn wants_simulation(&self, which: &ServerChoice) -> bool {
        let left = |name: &str| !self.record.is_simulated(which.name(), name);
        self.study.simulate.is_some() && self.study.workloads.iter().any(|workload| left(&workload.name))
    }

    /// Whether a point begins on this many servers: unless the study is over, or it would end too
    /// late.
    pub(super) fn begins(&mut self, place: StudyPosition, servers: usize) -> bool {
        if self.is_over() {
            return false;
        }
        let times = &self.study.times;
        let point = place.stage.points.get(place.number);
        let profile = point.and_then(|p| p.profile).filter(|_| place.round == 0);
        let each = profile.map_or(Duration::ZERO, |profile| times.ramp + times.warmup + profile);
        let count = u32::try_from(servers).unwrap_or(u32::MAX);
        self.has_time_for(self.budget.of(servers) + each.saturating_mul(count))
    }

    /// Whether work of this length ends in time. If not, the study is over.
    pub(super) fn has_time_for(&mut self, work: Duration) -> bool {
        if !self.budget.fits(work) {
            self.say(&format!("no time is left: the next part takes about {}", show_duration(work)));
            self.out_of_time = true;
        }
        !self.out_of_time
    }

    /// The done and the remaining work, in words.
    pub(super) fn progress(&self) -> String {
        let (done, all) = self.record.done();
        let left = show_duration(self.budget.of(self.record.left()));
        format!("{done} of {all} points done, about {left} left")
    }

    /// Shows progress.
    pub(super) fn say(&self, what: &str) {
        if self.options.live {
            eprintln!("study {}: {}", self.study.name, for_terminal(what));
        }
    }
}
