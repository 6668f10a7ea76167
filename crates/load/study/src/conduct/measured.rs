//! Runs of a point: one, or one for each kind of users, all at the same time.

use posthaste_load_drive::Accounts;
use posthaste_load_drive::run::{RunOptions, run};
use posthaste_load_results::{RunResult, WorkloadFacts, together};
use posthaste_load_workload::Workload;

use super::ways::{others, reading, ways};
use super::work::Work;
use crate::plan::PlannedPoint;
use crate::server::{Instance, ServerChoice};
use crate::settings::{ARRIVES_BY, SENT_BY};

const NO_USERS: &str = "the point has no users";

impl Work<'_> {
    /// The options of each kind of users at a point, from those of the first kind. One, if all
    /// users do the same.
    pub(super) fn of_all_kinds(
        &self,
        (which, instance): (&ServerChoice, &Instance),
        point: &PlannedPoint,
        (mut first, accounts): (RunOptions, &[Accounts]),
    ) -> Result<Vec<RunOptions>, String> {
        if point.kinds.is_empty() {
            return Ok(vec![first]);
        }
        // These are settings of one kind.
        for name in ["accounts", "messages in each", "tls"] {
            first.settings.remove(name);
        }
        let mut all = Vec::new();
        for (number, kind) in point.kinds.iter().enumerate() {
            let workload = point.workload_of(self.study, number).ok_or_else(|| NO_USERS.to_owned())?;
            let population = &self.plan.populations[kind.population];
            let has = format!("{} of {} messages", population.accounts, population.contents.messages());
            first.settings.insert(format!("accounts of {}", workload.name), has);
            let ways = ways(self.study, &instance.at, &workload);
            for (name, way) in [(SENT_BY, ways.sent_by), (ARRIVES_BY, ways.arrives_by)] {
                first.settings.extend(way.map(|way| (name.to_owned(), way)));
            }
            all.push(RunOptions {
                server: reading(which, &instance.at, &workload)?,
                cluster: others(instance, &workload),
                send: ways.send,
                deliver: ways.deliver,
                accounts: accounts[kind.population].clone(),
                clients: kind.clients,
                workload,
                ..first.clone()
            });
        }
        // The result has the settings of its first part.
        if let Some(part) = all.first_mut() {
            part.settings = first.settings;
        }
        Ok(all)
    }
}

/// Runs all at the same time, each with threads of its own. The result of several has the name of
/// the mix, and the server's cost once.
pub(super) fn at_once(mut all: Vec<RunOptions>, mix: &Workload) -> Result<RunResult, String> {
    if all.len() < 2 {
        return all.pop().ok_or_else(|| NO_USERS.to_owned()).and_then(measure);
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = all.into_iter().map(|options| scope.spawn(move || measure(options))).collect();
        running.into_iter().map(|thread| thread.join()).collect()
    });
    let mut runs = Vec::new();
    for result in results {
        runs.push(result.map_err(|_| "the thread of a kind of users failed".to_owned())??);
    }
    let mut run = together(runs).ok_or_else(|| NO_USERS.to_owned())?;
    run.workload = WorkloadFacts {
        name: mix.name.clone(),
        description: mix.description.clone(),
        toml: mix.source.clone(),
    };
    Ok(run)
}

/// One run.
pub(super) fn measure(options: RunOptions) -> Result<RunResult, String> {
    run(options, None).map(|ended| ended.result).map_err(|e| e.to_string())
}
