//! The usage of the server: CPU of its threads, and memory that only it has.

use std::collections::HashMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use posthaste_testkit::Server;

/// A server is idle after so many ticks with less CPU than this: timers take some tenth of it. One
/// tick is not enough, because work in the background has pauses.
const IDLE_TICKS: u32 = 3;
const IDLE_TICK: Duration = Duration::from_millis(400);
const IDLE_TICK_NS: u64 = 4_000_000;
/// Longer than the index of three million messages takes.
const IDLE_WITHIN: Duration = Duration::from_secs(1800);

/// CPU nanoseconds of each of the server's threads so far.
struct Cpu(HashMap<OsString, u64>);

impl Cpu {
    fn of(server: &Server) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let one = |task: std::io::Result<std::fs::DirEntry>| {
            let task = task.ok()?;
            let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((task.file_name(), line.split(' ').next()?.parse().ok()?))
        };
        Self(tasks.filter_map(one).collect())
    }

    /// The use since `before`, by all threads that exist now. A thread that has ended meanwhile
    /// had been idle for a while.
    fn since(&self, before: &Self) -> u64 {
        self.0.iter().map(|(task, ns)| ns - before.0.get(task).copied().unwrap_or(0)).sum()
    }
}

/// Waits until the server has no work in the background. The search index of new messages is made
/// there: after an import, one CPU is busy for some seconds.
pub fn wait_for_background(server: &Server) {
    let started = Instant::now();
    let mut idle = 0;
    while idle < IDLE_TICKS {
        assert!(started.elapsed() < IDLE_WITHIN, "the server is not idle after {IDLE_WITHIN:?}");
        let before = Cpu::of(server);
        std::thread::sleep(IDLE_TICK);
        idle = if Cpu::of(server).since(&before) < IDLE_TICK_NS { idle + 1 } else { 0 };
    }
}

/// Resident memory that only this process has, in bytes.
pub fn private_bytes(server: &Server) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.pid())).unwrap();
    let line = rollup.lines().find(|l| l.starts_with("Anonymous:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Longer than the index takes to follow acknowledged commits.
pub const INDEX_FOLLOWS: Duration = Duration::from_millis(30);

/// CPU and wall time of a piece of work.
pub fn measured(server: &Server, work: impl FnOnce()) -> (u64, u64) {
    measured_with(server, work, Duration::ZERO)
}

/// The same of work that changes something: the cost of the index, which follows later, is counted,
/// though nobody waits for it.
pub fn measured_to_the_end(server: &Server, work: impl FnOnce()) -> (u64, u64) {
    std::thread::sleep(INDEX_FOLLOWS);
    measured_with(server, work, INDEX_FOLLOWS)
}

fn measured_with(server: &Server, work: impl FnOnce(), follows: Duration) -> (u64, u64) {
    let (before, started) = (Cpu::of(server), Instant::now());
    work();
    let wall = started.elapsed();
    std::thread::sleep(follows);
    (Cpu::of(server).since(&before), wall.as_nanos() as u64)
}
