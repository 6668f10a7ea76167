//! The result of a run: the types of `results.json`, documented in `docs/measuring.md`.
//!
//! One schema for single runs and for studies (`study`), so that `report` reads both. Every figure
//! is in the unit its name ends with; a figure that was not available is an [`Offered`] with the
//! reason, never a zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Counted, StudyResult, Waits};

/// Raised when a field changes its meaning or goes; new fields do not raise it.
pub const SCHEMA: u32 = 1;

/// The contents of `results.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Results {
    /// The result of `posthaste-load run`.
    Run(Box<RunResult>),
    /// The result of `posthaste-load study`.
    Study(Box<StudyResult>),
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered<T> {
    /// The value was measured.
    Value(T),
    /// The value could not be measured: the reason.
    NotOffered(String),
}

/// The value of a newer figure in a result of an earlier version.
impl<T> Default for Offered<T> {
    fn default() -> Self {
        Self::NotOffered("not recorded".into())
    }
}

impl<T> Offered<T> {
    /// The figure, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(v) => Some(v),
            Self::NotOffered(_) => None,
        }
    }
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `posthaste-load` and its version.
    pub tool: String,
    /// The exact command.
    pub command: Vec<String>,
    /// Start, seconds since 1970.
    pub started_unix: u64,
    /// The start by a clock that several generators can compare.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// The name of the server in plots.
    pub label: String,
    /// The server's own name and version: its answer to ID (RFC 2971), or IMPLEMENTATION of CAPA
    /// (RFC 2449 §6.9).
    #[serde(default)]
    pub server_says: Offered<String>,
    /// The workload.
    pub workload: WorkloadFacts,
    /// Every setting, as text, by the name of its flag.
    pub settings: BTreeMap<String, String>,
    /// Virtual users.
    pub clients: u32,
    /// The machine of the generator (and of the server, unless an agent was used).
    pub machine: Machine,
    /// The outcome.
    pub outcome: Outcome,
    /// Everything a reader must know before believing a figure.
    pub caveats: Vec<String>,
    /// The measured window.
    pub window: Window,
    /// The sum of all transactions.
    pub total: Summary,
    /// The transactions.
    pub transactions: Vec<Transaction>,
    /// The kinds of users, if there were several.
    #[serde(default)]
    pub kinds: Vec<UserKindResult>,
    /// The generators whose results were merged into this one; empty for a single one.
    #[serde(default)]
    pub generators: Vec<GeneratorResult>,
    /// The protocol commands.
    pub commands: Vec<NamedSummary>,
    /// Per second, from the start of the ramp.
    pub series: Series,
    /// Errors by kind.
    pub errors: Vec<ErrorCount>,
    /// The slowest transactions of the window, slowest first.
    pub slowest: Vec<Slow>,
    /// The server's cost in the window, if it was watched.
    pub server: Option<ServerCost>,
    /// The server's own counts in the window, if they were read.
    #[serde(default)]
    pub counted: Option<Offered<Counted>>,
    /// The generator's own cost in the window.
    pub generator: GeneratorCost,
    /// The findings of the audit, if requested.
    pub audit: Option<AuditResult>,
}

/// One of several kinds of users that were at work together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UserKindResult {
    /// The users' workload.
    pub workload: String,
    /// The number of users.
    pub clients: u32,
    /// The sum of the kind's transactions.
    pub total: Summary,
    /// The commands of these users.
    pub commands: Vec<NamedSummary>,
}

/// The start of a run, by a clock that several generators can compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The start of the ramp, seconds since 1970 by that clock.
    pub start_unix_s: f64,
    /// The name of the clock in words.
    pub reference: String,
    /// The machine of that clock: its boot id. Clocks of one machine are one clock.
    pub machine: String,
    /// The largest error of reading the clock: for an agent, half of the shortest round trip.
    pub reading_bound_s: f64,
    /// The largest error of the clock against UTC, as its kernel says (adjtimex(2), `maxerror`).
    pub utc_bound_s: Offered<f64>,
}

/// One of several generators whose results were merged.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GeneratorResult {
    /// The name of its result.
    pub name: String,
    /// The exact command.
    pub command: Vec<String>,
    /// The generator's machine.
    pub machine: Machine,
    /// The generator's accounts, as a pattern.
    pub users: String,
    /// The number of its virtual users.
    pub clients: u32,
    /// The start of its window, in seconds of the merged result.
    pub start_s: f64,
    /// The end of its window.
    pub end_s: f64,
    /// The clock by which they are known.
    pub clock: Clock,
    /// The sum of its transactions.
    pub total: Summary,
    /// The cost of the generator itself.
    pub cost: GeneratorCost,
    /// Processors of the server in its window, if it watched the server.
    pub server_cpus: Option<f64>,
}

/// The workload as it was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadFacts {
    /// The workload's name.
    pub name: String,
    /// The workload's description.
    pub description: String,
    /// The file, whole.
    pub toml: String,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu_model: String,
    /// Logical processors.
    pub cpus: u32,
    /// The clock by which CPU seconds become megacycles.
    pub mhz: f64,
    /// The source of the clock rate.
    pub mhz_source: String,
    /// Physical memory.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// `release` or `debug`: how the generator was built.
    pub build: String,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether there were no errors, and a clean audit if there was one.
    pub clean: bool,
    /// The sentence a run is summed up in.
    pub headline: String,
    /// Errors, all kinds.
    pub errors: u64,
    /// Outages that were tolerated (connections lost, servers and databases away), by kind; no
    /// errors.
    #[serde(default)]
    pub outages: std::collections::BTreeMap<String, u64>,
    /// Ended by Ctrl-C.
    pub interrupted: bool,
    /// Open loop: unfinished tasks exceeded 1.5 × users.
    pub saturated: bool,
    /// Open loop: the most tasks that were due and unfinished.
    pub unfinished_max: u64,
}

/// The part of the run that figures are of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// Seconds from the start of the ramp to the start of measuring.
    pub start_s: f64,
    /// The end of the window, seconds from the start of the ramp.
    pub end_s: f64,
    /// Steady state found inside, seconds from the start of the ramp.
    pub steady_start_s: f64,
    /// The window's end.
    pub steady_end_s: f64,
    /// Whether throughput was steady there.
    pub steady: bool,
    /// Change of throughput across the steady window by a straight line, as a fraction of its mean.
    pub drift: f64,
}

/// Counts and times of one kind of thing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The number that ended well in the window.
    pub count: u64,
    /// Per second.
    pub rate_per_s: f64,
    /// Response time, mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 %.
    pub p90_ms: f64,
    /// 95 %.
    pub p95_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// 99.9 %.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The number that failed in the window.
    pub errors: u64,
    /// Bytes from the server.
    pub bytes_in: u64,
    /// Bytes to the server.
    pub bytes_out: u64,
    /// The histogram itself: (upper edge in µs, count) of each filled bucket, so that runs can be
    /// merged.
    pub histogram_us: Vec<(u64, u64)>,
}

/// A transaction of the workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Transaction {
    /// The transaction's name.
    pub name: String,
    /// A description for readers.
    pub description: String,
    /// Share requested (0–1): the stationary distribution, or the frequency.
    pub share_asked: Option<f64>,
    /// Share realised (0–1) in the window.
    pub share_realised: f64,
    /// Times it was drawn and could not be done (thresholds, empty mailbox), so that another was
    /// drawn.
    pub redrawn: u64,
    /// Counts and times.
    pub summary: Summary,
}

/// A summary with a name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NamedSummary {
    /// The command's name.
    pub name: String,
    /// Counts and times.
    pub summary: Summary,
}

/// Per-second values; all vectors have the same length, index = second from the start of the ramp.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Transactions ended well.
    pub done: Vec<u64>,
    /// Errors.
    pub errors: Vec<u64>,
    /// Mean response time of those done, 0 if none.
    pub mean_ms: Vec<f64>,
    /// Longest response time.
    pub max_ms: Vec<f64>,
    /// Virtual users with a session.
    pub online: Vec<u64>,
    /// Open loop: tasks due and unfinished.
    pub unfinished: Vec<u64>,
    /// Server CPU, in processors (1.0 = one whole processor); empty if not watched.
    pub server_cpus: Vec<f64>,
    /// Generator CPU, in processors.
    pub generator_cpus: Vec<f64>,
}

/// Errors of one kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ErrorCount {
    /// `wrong-answer`, `refused`, `connection-lost`, `timeout`, `garbage`, `login`, `connect`,
    /// `tls`, …
    pub kind: String,
    /// Over the whole run, ramp included.
    pub count: u64,
    /// The first few.
    pub samples: Vec<ErrorSample>,
}

/// One error.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ErrorSample {
    /// Seconds from the start of the ramp.
    pub at_s: f64,
    /// The account.
    pub user: String,
    /// The transaction.
    pub transaction: String,
    /// The fault.
    pub what: String,
    /// The connection's last commands.
    pub transcript: String,
}

/// One slow transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Slow {
    /// Response time.
    pub ms: f64,
    /// The transaction's end, seconds from the start of the ramp.
    pub at_s: f64,
    /// The transaction.
    pub transaction: String,
    /// The account.
    pub user: String,
    /// The command in it that took longest, with its time in ms.
    pub command: String,
}

/// The usage of the server in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ServerCost {
    /// `process-tree of PID`, `control group PATH`, `agent HOST:PORT`.
    pub source: String,
    /// Length of what was measured.
    pub seconds: f64,
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// Share of the processors, 0–100: of the machine, or in a study of the server.
    pub cpu_percent: f64,
    /// CPU seconds × MHz.
    pub megacycles: f64,
    /// Sessions (logins) in the window.
    pub sessions: u64,
    /// Messages the server listed or sent in the window.
    pub messages: u64,
    /// Megacycles ÷ sessions.
    pub megacycles_per_session: Option<f64>,
    /// Megacycles ÷ messages.
    pub megacycles_per_message: Option<f64>,
    /// Megacycles ÷ transactions.
    pub megacycles_per_transaction: Option<f64>,
    /// Proportional set size, mean over the window.
    pub pss_mean_bytes: Offered<u64>,
    /// Proportional set size, highest.
    pub pss_max_bytes: Offered<u64>,
    /// The highest set size without pages of files. A server that maps its store has the store's
    /// pages in its set size. A server that reads its files has them in the system's cache, which
    /// is in nobody's.
    #[serde(default)]
    pub pss_own_max_bytes: Offered<u64>,
    /// Processes at the end of the window.
    pub processes: u32,
    /// Read and write operations that reached the disk.
    pub disk_operations: Offered<u64>,
    /// The operations that read.
    #[serde(default)]
    pub disk_read_operations: Offered<u64>,
    /// Bytes read from disk.
    pub disk_read_bytes: Offered<u64>,
    /// Bytes written to disk.
    pub disk_write_bytes: Offered<u64>,
    /// The possible waits of the server.
    #[serde(default)]
    pub waits: Waits,
    /// Voluntary and involuntary context switches of processes alive at both ends.
    pub context_switches: Offered<u64>,
    /// Processor counters.
    pub counters: Offered<Counters>,
    /// CPU by program name, or by part of a cluster.
    pub roles: Vec<Role>,
    /// The functions it spent its CPU in, hottest first, from a run of its own; `None` if that was
    /// not requested.
    #[serde(default)]
    pub hottest: Option<Offered<Vec<HotFunction>>>,
    /// The samples of that run by function, most first; none if it has no profile, and in a
    /// result of an earlier version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<SampledFunction>,
}

/// A function and its share of the server's CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotFunction {
    /// Share of all samples, 0–100.
    pub percent: f64,
    /// The thread's or process's name.
    pub program: String,
    /// Program or library it is in.
    pub object: String,
    /// The function's name, or its address if the file has no symbols.
    pub function: String,
    /// Whether the function is in the kernel.
    pub kernel: bool,
}

/// The samples of a server's CPU in one function, of all its programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledFunction {
    /// Program or library it is in.
    pub object: String,
    /// The function's name, or its address if the file has no symbols.
    pub function: String,
    /// Whether the function is in the kernel.
    pub kernel: bool,
    /// The number of samples.
    pub samples: u64,
    /// The sum of their cost: cycles, or nanoseconds where the processor counts no cycles.
    pub weight: u64,
}

/// Processor counters of the server in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Cycles.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
    /// Last-level cache misses.
    pub cache_misses: u64,
    /// Cycles per instruction.
    pub cpi: f64,
}

/// CPU by program name (`imap`, `imap-login`, …), or by part of a cluster (`access 1`, `store 1`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Role {
    /// The program or the part.
    pub name: String,
    /// CPU seconds of live processes in the window; short-lived children count with their parent.
    pub cpu_s: f64,
    /// Processes at the end.
    pub processes: u32,
}

/// The usage of the generator in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GeneratorCost {
    /// User mode.
    pub cpu_user_s: f64,
    /// Kernel.
    pub cpu_system_s: f64,
    /// CPU ÷ transactions.
    pub cpu_us_per_transaction: Option<f64>,
    /// Generator CPU ÷ server CPU, if that is known.
    pub share_of_server: Option<f64>,
    /// Highest resident size.
    pub rss_max_bytes: u64,
    /// Open loop: 99th percentile of how late tasks were dispatched by the generator itself.
    pub late_p99_ms: Option<f64>,
    /// Processors of the generator's machine that neither it nor the server used and that were not
    /// idle; not known where the server is not watched.
    #[serde(default)]
    pub other_cpus: Option<f64>,
}

/// The findings of the audit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditResult {
    /// Accounts looked at.
    pub accounts: u64,
    /// Messages found.
    pub messages_found: u64,
    /// Messages that had to be there.
    pub messages_expected: u64,
    /// Acknowledged and not there.
    pub missing: u64,
    /// Messages that exist more often than acknowledged.
    pub duplicated: u64,
    /// Expunged and still there, or never sent.
    pub unexpected: u64,
    /// Bodies whose digest is wrong.
    pub altered: u64,
    /// UIDs that named another message before.
    #[serde(default)]
    pub reused: u64,
    /// Accounts that could not be looked at.
    pub unreadable: u64,
    /// The first few findings, in words.
    pub findings: Vec<String>,
}

impl AuditResult {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.missing + self.duplicated + self.unexpected + self.altered + self.reused + self.unreadable == 0
    }
}
