//! A server's possible waits in the window besides the CPU: its disk, memory, the network.

use serde::{Deserialize, Serialize};

use crate::Offered;

/// The waits of a server in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Share of the window in which the disk with the server's mail had I/O in flight, 0–100. Other
    /// programs' I/O on that disk is in it. 0 on a file system in memory.
    pub disk_busy_percent: Offered<f64>,
    /// Tasks that waited for a disk.
    pub disk_pressure: Offered<Pressure>,
    /// Tasks that waited for memory.
    pub memory_pressure: Offered<Pressure>,
    /// The limit of the server's control group.
    pub memory_limit: Offered<MemoryLimit>,
    /// The way to the server.
    pub network: Offered<Network>,
}

/// Time in which tasks waited for a resource, by the kernel's pressure stall information.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// The share of the window in which at least one task waited, percent.
    pub some_percent: f64,
    /// The share of the window in which all tasks that had something to do waited, percent.
    pub full_percent: f64,
    /// The tasks that the pressure is of.
    pub of: PressureOf,
}

/// The tasks that a pressure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PressureOf {
    /// The server's control group.
    Server,
    /// All programs of the machine.
    Machine,
}

/// A control group's limit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// The limit, the system's cache of the group's files included.
    pub bytes: u64,
    /// The number of times that the group reached the limit in the window.
    pub reached: u64,
}

/// The way between the instrument and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Both are on one machine.
    Loopback,
    /// A link of this speed, in bytes a second, at the instrument's end.
    Link(u64),
}
