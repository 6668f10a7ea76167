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
    /// The parts of a cluster, by name. Their sum is the server. Each is one of its roles.
    Parts(Vec<(String, WatchTarget)>),
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
    /// The server's waits, in total.
    #[serde(default)]
    pub waits: WaitTotals,
    /// Context switches of living processes, summed up between samples.
    pub context_switches: Option<u64>,
    /// Cycles, instructions, cache misses.
    pub counters: Option<[u64; 3]>,
    /// The reason why there are no counters.
    pub counters_missing: String,
    /// CPU seconds and living processes by program name.
    pub roles: BTreeMap<String, (f64, u32)>,
}

impl Sample {
    /// CPU time in all.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_user_s + self.cpu_system_s
    }

    /// The sum of the parts of a cluster. If a part lacks a figure, the sum lacks it, too. The
    /// roles are the parts.
    pub(crate) fn sum(parts: Vec<(String, Self)>) -> Self {
        let roles = parts.iter().map(|(name, part)| (name.clone(), (part.cpu_s(), part.processes)));
        let roles = roles.collect();
        let sources: Vec<String> =
            parts.iter().map(|(name, part)| format!("{name}: {}", part.source)).collect();
        let sum = parts.into_iter().map(|(_, part)| part).reduce(Self::with);
        Self { roles, source: sources.join("; "), ..sum.unwrap_or_default() }
    }

    fn with(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            source: String::new(),
            cpu_user_s: self.cpu_user_s + other.cpu_user_s,
            cpu_system_s: self.cpu_system_s + other.cpu_system_s,
            processes: self.processes + other.processes,
            pss: self.pss.zip(other.pss).map(|(a, b)| a.with(b)),
            disk: each(self.disk, other.disk),
            disk_read_operations: both(self.disk_read_operations, other.disk_read_operations),
            io: each(self.io, other.io),
            // Parts wait for different disks and limits: their sum is of none.
            waits: WaitTotals::default(),
            context_switches: both(self.context_switches, other.context_switches),
            counters: each(self.counters, other.counters),
            counters_missing: match self.counters_missing.is_empty() {
                true => other.counters_missing,
                false => self.counters_missing,
            },
            roles: BTreeMap::new(),
        }
    }
}

/// The sums of counts that both have.
fn each<const N: usize>(a: Option<[u64; N]>, b: Option<[u64; N]>) -> Option<[u64; N]> {
    let (a, b) = (a?, b?);
    Some(std::array::from_fn(|at| a[at] + b[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_cluster_are_its_roles_and_their_sum_the_server() {
        let part = |cpu_user_s, disk, io| Sample {
            source: "a process".into(),
            cpu_user_s,
            processes: 1,
            disk,
            io: Some(io),
            pss: Some(Pss { all: 10, own: 4 }),
            ..Sample::default()
        };
        let parts = vec![
            ("access 1".to_owned(), part(1.0, Some([1, 2, 3]), [5, 6])),
            ("store 1".to_owned(), part(2.5, None, [7, 8])),
        ];
        let sum = Sample::sum(parts);
        assert_eq!((sum.cpu_s(), sum.processes, sum.io), (3.5, 2, Some([12, 14])));
        assert_eq!((sum.roles["access 1"], sum.roles["store 1"]), ((1.0, 1), (2.5, 1)));
        assert_eq!(sum.pss, Some(Pss { all: 20, own: 8 }));
        // One part has no control group.
        assert_eq!(sum.disk, None);
        assert_eq!(sum.source, "access 1: a process; store 1: a process");
    }
}
