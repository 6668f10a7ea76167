//! Runs the server again on a simulated processor, for the figures that seed 004 reads from
//! processor counters.
//!
//! Cachegrind runs the server's instructions one by one and counts them, with caches and a branch
//! predictor of its own. It knows no kernel, no other processor and no time. Each workload runs
//! twice, the second time with twice as many transactions. So the difference excludes the start and
//! the logins.

use std::path::Path;
use std::time::Duration;

use posthaste_load_drive::Accounts;
use posthaste_load_drive::run::RunOptions;
use posthaste_load_measure::WatchTarget;
use posthaste_load_results::{Offered, Simulated, SimulatedCounts};
use posthaste_load_workload::Think;

use super::measured::measure;
use super::work::Work;
use crate::plan::{PlannedPoint, Stage, simulation_time};
use crate::server::{self, ServerChoice, Setting};

/// The longest that this many transactions may take: the simulated processor is some fifty times
/// slower.
const LONGEST: Duration = Duration::from_secs(600);

impl Work<'_> {
    /// Simulates each workload that was not simulated yet, if the study has that step.
    pub(super) fn simulate(&mut self, which: &ServerChoice, folder: &Path, accounts: &[Accounts]) {
        let (study, plan) = (self.study, self.plan);
        let Some(simulate) = study.simulate else { return };
        for (number, workload) in study.workloads.iter().enumerate() {
            let of = |p: &&PlannedPoint| p.workload == number && !p.at.contains_key("cpus");
            let found = plan.stages.iter().find_map(|stage| Some((stage, stage.points.iter().find(of)?)));
            let Some((stage, point)) = found else { continue };
            if self.record.is_simulated(which.name(), &workload.name) {
                continue;
            }
            if self.is_over() || !self.has_time_for(simulation_time(study)) {
                return;
            }
            self.say(&format!("{} on a simulated processor: {}", which.name(), workload.name));
            let stage = Stage { points: Vec::new(), ..*stage };
            let run =
                |each| self.simulated(which, (&stage, point), (folder, accounts), (simulate.clients, each));
            let each = simulate.transactions_each;
            let counts = run(each).and_then(|once| Ok(difference(run(each.saturating_mul(2))?, once)));
            if self.is_over() {
                return;
            }
            let counts = counts.map_or_else(Offered::NotOffered, Offered::Value);
            self.record.note_simulated(which.name(), Simulated { workload: workload.name.clone(), counts });
        }
    }

    /// The counts of this many users, who make this many transactions each.
    fn simulated(
        &self,
        which: &ServerChoice,
        (stage, point): (&Stage, &PlannedPoint),
        (folder, accounts): (&Path, &[Accounts]),
        (clients, each): (u32, u32),
    ) -> Result<(u64, SimulatedCounts), String> {
        let counts = folder.join("cachegrind.out");
        let setting = Setting {
            folder,
            accounts,
            cpus: None,
            memory_mb: None,
            posthaste: self.options.posthaste.clone(),
            counts: Some(counts.clone()),
            sink: None,
            submits: !self.study.submission.is_empty(),
            nodes: None,
        };
        let instance = server::start(which, &setting)?;
        let options = self.run_options(which, stage, point, &instance, &accounts[point.population])?;
        // Each client has an account of its own: two in one meet each other's changes.
        let most = accounts[point.population].count();
        let done = measure(RunOptions {
            clients: clients.min(most),
            think: Some(Think::Fixed(0.0)),
            ramp: Duration::ZERO,
            warmup: Duration::ZERO,
            measure: LONGEST,
            transactions_each: Some(each),
            watch: WatchTarget::Nothing,
            figures: None,
            ..options
        })?;
        if !done.outcome.clean {
            return Err(done.outcome.headline);
        }
        // Counts are written when the server ends.
        drop(instance);
        let text = std::fs::read_to_string(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
        Ok((done.total.count, parse(&text)?))
    }
}

/// The sums of a file of cachegrind: its `events:` name the columns of its `summary:`.
fn parse(text: &str) -> Result<SimulatedCounts, String> {
    let line = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    let (events, sums) = (line("events:"), line("summary:"));
    let columns: Vec<(&str, u64)> = events
        .split_ascii_whitespace()
        .zip(sums.split_ascii_whitespace().filter_map(|n| n.replace(',', "").parse().ok()))
        .collect();
    let of = |name: &str| {
        let found = columns.iter().find(|c| c.0 == name).map(|c| c.1);
        found.ok_or_else(|| format!("cachegrind's file has no sum of {name}"))
    };
    Ok(SimulatedCounts {
        transactions: 0,
        instructions: of("Ir")?,
        loads: of("Dr")?,
        stores: of("Dw")?,
        branches: of("Bc")?,
        indirect_branches: of("Bi")?,
        mispredicted: of("Bcm")? + of("Bim")?,
        l1_instruction_misses: of("I1mr")?,
        l1_data_misses: of("D1mr")? + of("D1mw")?,
        l1_store_misses: Some(of("D1mw")?),
        last_level_misses: of("ILmr")? + of("DLmr")? + of("DLmw")?,
        last_level_instruction_misses: Some(of("ILmr")?),
        last_level_store_misses: Some(of("DLmw")?),
    })
}

/// The work of the longer run beyond the shorter.
fn difference(
    (more, long): (u64, SimulatedCounts),
    (fewer, short): (u64, SimulatedCounts),
) -> SimulatedCounts {
    let less = |of: fn(&SimulatedCounts) -> u64| of(&long).saturating_sub(of(&short));
    let part = |of: fn(&SimulatedCounts) -> Option<u64>| Some(of(&long)?.saturating_sub(of(&short)?));
    SimulatedCounts {
        transactions: more.saturating_sub(fewer),
        instructions: less(|c| c.instructions),
        loads: less(|c| c.loads),
        stores: less(|c| c.stores),
        branches: less(|c| c.branches),
        indirect_branches: less(|c| c.indirect_branches),
        mispredicted: less(|c| c.mispredicted),
        l1_instruction_misses: less(|c| c.l1_instruction_misses),
        l1_data_misses: less(|c| c.l1_data_misses),
        l1_store_misses: part(|c| c.l1_store_misses),
        last_level_misses: less(|c| c.last_level_misses),
        last_level_instruction_misses: part(|c| c.last_level_instruction_misses),
        last_level_store_misses: part(|c| c.last_level_store_misses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "desc: I1 cache: 32768 B\ncmd: posthaste serve\n\
        events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\nfn=main\n1 5 0 0\n\
        summary: 1000 10 1 300 20 2 200 30 3 100 4 50 5\n";

    #[test]
    fn sums_are_read_by_their_names() {
        let counts = parse(FILE).unwrap();
        assert_eq!((counts.instructions, counts.loads, counts.stores), (1000, 300, 200));
        assert_eq!((counts.l1_data_misses, counts.last_level_misses, counts.mispredicted), (50, 6, 9));
        assert_eq!(counts.l1_store_misses, Some(30));
        assert_eq!(
            (counts.last_level_instruction_misses, counts.last_level_store_misses),
            (Some(1), Some(3))
        );
        assert!(parse("events: Ir\nsummary: 5\n").unwrap_err().contains("no sum of Dr"));
        assert!(parse("").is_err());
    }

    #[test]
    fn twice_the_work_less_the_work_has_no_start_in_it() {
        let short = parse(FILE).unwrap();
        let long = SimulatedCounts { instructions: 1600, loads: 400, l1_store_misses: Some(37), ..short };
        let counts = difference((80, long), (40, short));
        assert_eq!(
            (counts.transactions, counts.instructions, counts.loads, counts.stores),
            (40, 600, 100, 0)
        );
        assert_eq!(counts.l1_store_misses, Some(7));
    }
}
