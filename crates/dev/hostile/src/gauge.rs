//! What a process takes, as Linux counts it.

use std::fs;
use std::time::Duration;

/// Reads `/proc` for one process.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    pid: u32,
}

impl Gauge {
    /// For a process that runs.
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Bytes in memory now; 0 if the process has ended.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most bytes that were in memory since [`Gauge::forget_peak`].
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Begins a new peak (`man 5 proc`, clear_refs).
    pub fn forget_peak(&self) -> std::io::Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5")
    }

    /// CPU time of all its threads since its start, in steps of 10 ms.
    pub fn cpu(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The name in parentheses may hold spaces; behind it, utime and stime are fields 12 and 13.
        let fields = text.rsplit(')').next().unwrap_or_default();
        let ticks: u64 =
            fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        // USER_HZ is 100 on every Linux that we run on.
        Duration::from_millis(ticks * 10)
    }

    fn status(&self, what: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}
