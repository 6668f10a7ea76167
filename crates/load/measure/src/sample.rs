//! The watched part of a server, and its totals at one moment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::Pss;
use crate::waits::WaitTotals;

/// The part of the server to watch.
#[derive(Clone, Debug, Default)]
pub enum WatchTarget {
    /// Nothing.
    #[default]
    Nothing,
    /// On this machine.
    Local {
        /// The root of its process tree.
        pid: Option<u32>,
        /// The server's control group's directory.
        cgroup: Option<PathBuf>,
        /// The folder of the server's mail, for the time that its disk was busy.
        data: Option<PathBuf>,
    },
    /// On another machine, where `posthaste-load agent` runs.
    Agent {
        /// Host and port.
        address: String,
        /// The token both know.
        token: String,
        /// The process there; the agent's own choice if `None`.
        pid: Option<u32>,
    },
}

/// Totals at one moment; two of them make a cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The source of these figures.
    pub source: String,
    /// CPU time, user mode.
    pub cpu_user_s: f64,
    /// CPU time, kernel.
    pub cpu_system_s: f64,
    /// Living processes.
    pub processes: u32,
    /// Proportional set size, if it was read this time.
    pub pss: Option<Pss>,
    /// The control group's disk accounting: operations, bytes read, bytes written.
    pub disk: Option<[u64; 3]>,
    /// The reads among its operations.
    #[serde(default)]
    pub disk_read_operations: Option<u64>,
    /// Bytes read and written by the account of each process, children waited for included.
    pub io: Option<[u64; 2]>,
    /// What it waits for.
    #[serde(default)]
    pub waits: WaitTotals,
    /// Context switches of living processes, summed up between samples.
    pub context_switches: Option<u64>,
    /// Cycles, instructions, cache misses.
    pub counters: Option<[u64; 3]>,
    /// Why there are no counters.
    pub counters_missing: String,
    /// CPU seconds and living processes by program name.
    pub roles: BTreeMap<String, (f64, u32)>,
}

impl Sample {
    /// CPU time in all.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }
}
