//! Runs the server again on a simulated processor, for the figures that seed 004 reads from
//! processor counters.
//!
//! Cachegrind runs the server's instructions one by one and counts them, with caches and a branch
//! predictor of its own. It knows no kernel, no other processor and no time. Each workload runs
//! twice, the second time with twice as many transactions. So the difference excludes the start and
//! the logins.
//!
//! Both runs begin with the same store: the filled one is put back before each
//! ([`from_the_same`]). With the same seed, the users of both draw the same transactions at
//! first. They differ once one is drawn again in one run alone: mail that users got from each
//! other may allow it or not. The realised mix of both is recorded. In the second half of the
//! longer run users find mailboxes that the first half changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_load_drive::Accounts;
use posthaste_load_drive::run::RunOptions;
use posthaste_load_measure::WatchTarget;
use posthaste_load_results::{Offered, RunResult, Simulated, SimulatedCounts, SimulatedRun, SimulatedShare};
use posthaste_load_workload::Think;

use super::background::{SimulatedCpu, Waited};
use super::copies::{filled_beside, put_back};
use super::measured::measure;
use super::work::Work;
use crate::plan::{PlannedPoint, Stage};
use crate::server::{self, ServerChoice, Setting};

/// The longest that this many transactions may take: the simulated processor is some fifty times
/// slower.
const LONGEST: Duration = Duration::from_secs(600);

/// The stores of a server that is simulated.
#[derive(Clone, Debug)]
pub(super) struct Stores<'a> {
    /// The store with which each run begins. `None` for a server that the study does not start:
    /// it is not simulated.
    pub(super) filled: Option<PathBuf>,
    /// The folder in which the server runs.
    pub(super) folder: &'a Path,
}

/// A run on the simulated processor: its counts from the start of the server to its end.
struct Counted {
    counts: SimulatedCounts,
    run: SimulatedRun,
}

impl Work<'_> {
    /// Simulates a server whose store was not set aside. Both runs begin with the store as it is
    /// now.
    pub(super) fn simulate_from_here(&mut self, which: &ServerChoice, folder: &Path, accounts: &[Accounts]) {
        if !which.is_started_here() {
            return self.simulate(which, Stores { filled: None, folder }, accounts);
        }
        let filled = filled_beside(folder);
        if let Err(why) = rename_over(folder, &filled) {
            return self.not_simulated(which, &why);
        }
        self.simulate(which, Stores { filled: Some(filled.clone()), folder }, accounts);
        // A store that is kept is the one that the last point left.
        if let Err(why) = rename_over(&filled, folder) {
            self.say(&why);
            self.clear(&filled);
        }
    }

    /// Records why no workload of a server was simulated.
    fn not_simulated(&mut self, which: &ServerChoice, why: &str) {
        for workload in &self.study.workloads {
            if !self.record.is_simulated(which.name(), &workload.name) {
                let why = format!("its store cannot be put back before each run: {why}");
                let (workload, counts) = (workload.name.clone(), Offered::NotOffered(why));
                self.record
                    .note_simulated(which.name(), Simulated { workload, counts, ..Simulated::default() });
            }
        }
    }

    /// Simulates each workload that was not simulated yet, if the study has that step.
    pub(super) fn simulate(&mut self, which: &ServerChoice, stores: Stores, accounts: &[Accounts]) {
        let (study, plan) = (self.study, self.plan);
        let Some(simulate) = study.simulate else { return };
        for (number, workload) in study.workloads.iter().enumerate() {
            let of = |p: &&PlannedPoint| p.workload == number && !p.at.contains_key("cpus");
            let found = plan.stages.iter().find_map(|stage| Some((stage, stage.points.iter().find(of)?)));
            let Some((stage, point)) = found else { continue };
            if self.record.is_simulated(which.name(), &workload.name) {
                continue;
            }
            if self.is_over() || !self.has_time_for(plan.simulation_time(study)) {
                return;
            }
            self.say(&format!("{} on a simulated processor: {}", which.name(), workload.name));
            let stage = Stage { points: Vec::new(), ..*stage };
            let folder = stores.folder;
            // Nothing is copied for a server that cannot be simulated.
            let both = server::may_be_simulated(which).and_then(|()| {
                from_the_same(&stores, simulate.transactions_each, |each| {
                    self.simulated(which, (&stage, point), (folder, accounts), (simulate.clients, each))
                })
            });
            if self.is_over() {
                return;
            }
            let workload = workload.name.clone();
            let simulated = match both {
                Ok([once, twice]) => Simulated {
                    workload,
                    counts: Offered::Value(difference(&twice, &once)),
                    runs: vec![once.run, twice.run],
                },
                Err(why) => Simulated { workload, counts: Offered::NotOffered(why), runs: Vec::new() },
            };
            self.record.note_simulated(which.name(), simulated);
        }
    }

    /// The counts of this many users, who make this many transactions each.
    fn simulated(
        &self,
        which: &ServerChoice,
        (stage, point): (&Stage, &PlannedPoint),
        (folder, accounts): (&Path, &[Accounts]),
        (clients, each): (u32, u32),
    ) -> Result<Counted, String> {
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
        let cpu = SimulatedCpu::watch(&self.watched(which, &instance))?;
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
        // Counts are written when the server ends. Work in the background would be cut by that,
        // and the longer run has more of it.
        let waited = cpu.wait_until_idle()?;
        drop(instance);
        let text = fs::read_to_string(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
        Ok(Counted { counts: parse(&text)?, run: realised(&done, waited) })
    }
}

/// Gives the folder of a stopped server another name. A folder that has this name is removed.
fn rename_over(from: &Path, to: &Path) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", to.display());
    if to.exists() {
        fs::remove_dir_all(to).map_err(fail)?;
    }
    fs::rename(from, to).map_err(fail)
}

/// Runs something with a number of transactions and with twice as many. The same store is put
/// back before each.
fn from_the_same<T>(
    stores: &Stores,
    each: u32,
    mut run: impl FnMut(u32) -> Result<T, String>,
) -> Result<[T; 2], String> {
    let mut begin = |each| {
        if let Some(filled) = &stores.filled {
            put_back(filled, stores.folder).map_err(|e| format!("its store cannot be put back: {e}"))?;
        }
        run(each)
    };
    Ok([begin(each)?, begin(each.saturating_mul(2))?])
}

/// The realised mix of a run.
fn realised(done: &RunResult, waited: Waited) -> SimulatedRun {
    let all = done.total.count;
    let shares = done.transactions.iter().map(|t| SimulatedShare {
        name: t.name.clone(),
        share_asked: t.share_asked,
        share_realised: t.summary.count as f64 / all.max(1) as f64,
        count: t.summary.count,
        redrawn: t.redrawn,
    });
    let cut_after_s = match waited {
        Waited::Idle => None,
        Waited::AtWork(time) => Some(time.as_secs_f64()),
    };
    SimulatedRun { transactions: all, mix: shares.collect(), cut_after_s }
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
fn difference(twice: &Counted, once: &Counted) -> SimulatedCounts {
    let (long, short) = (twice.counts, once.counts);
    let less = |of: fn(&SimulatedCounts) -> u64| of(&long).saturating_sub(of(&short));
    let part = |of: fn(&SimulatedCounts) -> Option<u64>| Some(of(&long)?.saturating_sub(of(&short)?));
    SimulatedCounts {
        transactions: twice.run.transactions.saturating_sub(once.run.transactions),
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
    use posthaste_load_results::{Summary, Transaction};

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
        let run = |transactions: u64, counts: SimulatedCounts| Counted {
            counts,
            run: SimulatedRun { transactions, ..SimulatedRun::default() },
        };
        let counts = difference(&run(80, long), &run(40, short));
        assert_eq!(
            (counts.transactions, counts.instructions, counts.loads, counts.stores),
            (40, 600, 100, 0)
        );
        assert_eq!(counts.l1_store_misses, Some(7));
    }

    /// The names and contents of the files below a folder, in order.
    fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => found.extend(contents(&path)),
                false => found.push((path.clone(), fs::read(&path).unwrap())),
            }
        }
        found.sort();
        found
    }

    #[test]
    fn both_runs_begin_with_the_same_store() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("posthaste-0");
        fs::create_dir_all(folder.join("data")).unwrap();
        fs::write(folder.join("data/mail"), "one message").unwrap();
        let filled = filled_beside(&folder);
        rename_over(&folder, &filled).unwrap();
        let stores = Stores { filled: Some(filled.clone()), folder: &folder };
        let mut begun = Vec::new();
        let both = from_the_same(&stores, 20, |each| {
            begun.push(contents(&folder));
            fs::write(folder.join("data/mail"), "changed").unwrap();
            fs::write(folder.join("data/left by the first run"), "").unwrap();
            Ok(each)
        });
        assert_eq!(both, Ok([20, 40]));
        assert_eq!(begun[0], begun[1]);
        assert_eq!(begun[0], [(folder.join("data/mail"), b"one message".to_vec())]);
        // The store is as before both runs, and no other one is left.
        rename_over(&filled, &folder).unwrap();
        assert_eq!(contents(&folder), begun[0]);
        assert!(!filled.exists());
    }

    #[test]
    fn a_store_that_cannot_be_put_back_is_not_simulated() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("posthaste-0");
        let stores = Stores { filled: Some(work.path().join("missing")), folder: &folder };
        let said = from_the_same(&stores, 20, Ok).unwrap_err();
        assert!(said.starts_with("its store cannot be put back"), "{said}");
        assert!(rename_over(&folder, &filled_beside(&folder)).is_err());
    }

    #[test]
    fn the_realised_mix_of_a_run_is_recorded() {
        let transaction = |name: &str, share_asked, count| Transaction {
            name: name.into(),
            share_asked,
            redrawn: 3,
            summary: Summary { count, ..Summary::default() },
            ..Transaction::default()
        };
        let done = RunResult {
            total: Summary { count: 40, ..Summary::default() },
            transactions: vec![
                transaction("MDEL", Some(0.25), 10),
                transaction("SEND", Some(0.12), 30),
                transaction("(trim)", None, 2),
            ],
            ..RunResult::default()
        };
        let run = realised(&done, Waited::Idle);
        let shares: Vec<(f64, u64)> = run.mix.iter().map(|part| (part.share_realised, part.count)).collect();
        assert_eq!((run.transactions, run.cut_after_s), (40, None));
        assert_eq!(shares, [(0.25, 10), (0.75, 30), (0.05, 2)]);
        assert_eq!((run.mix[0].share_asked, run.mix[0].redrawn), (Some(0.25), 3));
        let cut = realised(&done, Waited::AtWork(Duration::from_secs(300)));
        assert_eq!(cut.cut_after_s, Some(300.0));
    }
}
