//! The result of a study: every point with its run, and the sittings in which they were measured.
//!
//! A long study is measured in several sittings. A point is identified by its server, workload,
//! swept values and round.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::drawn::Analysis;
use crate::{Machine, Offered, RunResult};

/// A whole study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudyResult {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// `posthaste-load` and its version.
    pub tool: String,
    /// The exact command.
    pub command: Vec<String>,
    /// `item-count`, `koka`, …
    pub study: String,
    /// The question it answers.
    pub description: String,
    /// The article that the study repeats.
    pub after: String,
    /// The article's result in a sentence.
    #[serde(default)]
    pub published: String,
    /// The study's file, whole.
    pub toml: String,
    /// Whether this was the shortened version.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// The servers, in order; the first is the one ratios are taken against.
    pub servers: Vec<ServerFacts>,
    /// Every point, in the order measured.
    pub points: Vec<StudyPoint>,
    /// The analysis of the points.
    pub analysis: Analysis,
    /// Everything a reader must know.
    pub caveats: Vec<String>,
    /// Rounds that were requested; 0 in a result of an earlier version.
    #[serde(default)]
    pub rounds: u32,
    /// Points of all servers and rounds together; 0 in a result of an earlier version.
    #[serde(default)]
    pub planned: usize,
    /// The points that are not measured yet.
    #[serde(default)]
    pub unmeasured: usize,
    /// Workloads that are still to be run on a simulated processor, on all servers together.
    #[serde(default)]
    pub simulations_left: usize,
    /// The settings that all sittings share, by the name of the flag.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The times when the study was measured.
    #[serde(default)]
    pub sittings: Vec<Sitting>,
}

impl StudyResult {
    /// The time that all sittings took, filling included; `None` in a result of an earlier version.
    pub fn took(&self) -> Option<Duration> {
        let seconds = |sitting: &Sitting| sitting.ended_unix.saturating_sub(sitting.started_unix);
        let all = || Duration::from_secs(self.sittings.iter().map(seconds).sum());
        (!self.sittings.is_empty()).then(all)
    }
}

/// A time in which points of a study were measured: one call of `posthaste-load study`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sitting {
    /// Start, seconds since 1970.
    pub started_unix: u64,
    /// End of the last point, or of the profile or simulation after it.
    pub ended_unix: u64,
    /// The exact command.
    pub command: Vec<String>,
    /// `posthaste-load` and its version.
    pub tool: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Points that were measured in it.
    pub points: usize,
    /// The version of each server that was started.
    pub versions: BTreeMap<String, String>,
}

/// A server under test.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerFacts {
    /// The server's name in plots.
    pub name: String,
    /// The server's version, as it says.
    pub version: String,
    /// The settings it was started with, whole.
    pub settings: String,
    /// The counts of a simulated processor for each workload, if the study requested that.
    #[serde(default)]
    pub simulated: Vec<Simulated>,
}

/// A workload on a server under a simulator of the processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The workload.
    pub workload: String,
    /// The counts.
    pub counts: Offered<SimulatedCounts>,
    /// The two runs whose difference they are, the shorter one first. Empty in a result of an
    /// earlier version, and where nothing was counted.
    #[serde(default)]
    pub runs: Vec<SimulatedRun>,
}

/// One of the two runs of a workload on a simulated processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedRun {
    /// Transactions of the workload that ended well.
    pub transactions: u64,
    /// The realised mix.
    pub mix: Vec<SimulatedShare>,
    /// The time for which work in the background was waited for, if the server was still at it
    /// then. It was stopped, so the counts lack the rest of that work. In seconds.
    pub cut_after_s: Option<f64>,
}

/// A transaction's share of a run on a simulated processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedShare {
    /// The transaction's name. In parentheses: what the instrument does besides the workload.
    pub name: String,
    /// Share requested (0–1).
    pub share_asked: Option<f64>,
    /// Share realised (0–1), of the transactions of the workload.
    pub share_realised: f64,
    /// The number that ended well.
    pub count: u64,
    /// Times it was drawn and could not be done, so that another was drawn.
    pub redrawn: u64,
}

/// Counts of a simulated processor, user mode alone: those of this many transactions, without
/// start, logins and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedCounts {
    /// Transactions.
    pub transactions: u64,
    /// Instructions.
    pub instructions: u64,
    /// Instructions that read memory.
    pub loads: u64,
    /// Instructions that write memory.
    pub stores: u64,
    /// Conditional branches.
    pub branches: u64,
    /// Indirect branches.
    pub indirect_branches: u64,
    /// Branches of both kinds that were predicted wrongly.
    pub mispredicted: u64,
    /// Instructions that the first-level cache missed.
    pub l1_instruction_misses: u64,
    /// Loads and stores that the first-level cache missed.
    pub l1_data_misses: u64,
    /// Of these, the stores; not known in a result of an earlier version, as the next two.
    #[serde(default)]
    pub l1_store_misses: Option<u64>,
    /// Instructions, loads and stores that the last-level cache missed.
    pub last_level_misses: u64,
    /// Of these, the instructions.
    #[serde(default)]
    pub last_level_instruction_misses: Option<u64>,
    /// And the stores.
    #[serde(default)]
    pub last_level_store_misses: Option<u64>,
}

/// One point of a study: the values swept and the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudyPoint {
    /// The server's name.
    pub server: String,
    /// The swept quantity and its value here: `items`, `mailbox_mb`, `clients`, `think_s`, `cpus`,
    /// `memory_mb`.
    pub at: BTreeMap<String, f64>,
    /// The workload, or the one transaction of it that was run.
    pub workload: String,
    /// The round, from 0: points are measured once a round, servers in turn.
    #[serde(default)]
    pub round: u32,
    /// The run, or why there is none.
    pub run: Result<Box<RunResult>, String>,
}

impl StudyPoint {
    /// The run, if it was measured to its end. A run that Ctrl-C ended is not.
    pub fn measured(&self) -> Option<&RunResult> {
        self.run.as_deref().ok().filter(|run| !run.outcome.interrupted)
    }
}
