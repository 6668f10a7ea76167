//! A process tree: its processes and their usage, from `/proc`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// One process's times and parent, from `/proc/PID/stat` (proc(5)).
#[derive(Clone, Debug, PartialEq)]
pub struct Stat {
    /// The process's number.
    pub pid: u32,
    /// The process's parent's.
    pub parent: u32,
    /// The program's name.
    pub name: String,
    /// CPU in user mode: its own, and that of children it has waited for.
    pub user: [u64; 2],
    /// CPU in the kernel, likewise.
    pub system: [u64; 2],
    /// The time when the process started, so that a reused number is noticed.
    pub started: u64,
}

impl Stat {
    /// Reads a line of `/proc/PID/stat`. The name is between the first and the last parenthesis: it
    /// may hold any.
    pub fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            parent: number(1)? as u32,
            name: name.to_owned(),
            user: [number(11)?, number(13)?],
            system: [number(12)?, number(14)?],
            started: number(19)?,
        })
    }

    fn own_ticks(&self) -> u64 {
        self.user[0] + self.system[0]
    }
}

/// Clock ticks per second in `/proc`.
pub fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes a constant and has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// A tree, watched over time.
pub struct Tree {
    root: u32,
    last: HashMap<(u32, u64), Last>,
    roles: BTreeMap<String, f64>,
    switches: u64,
}

#[derive(Clone, Copy)]
struct Last {
    ticks: u64,
    switches: Option<u64>,
}

/// The usage of a tree.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// CPU, user mode.
    pub user_s: f64,
    /// CPU, kernel.
    pub system_s: f64,
    /// Living processes, root included.
    pub pids: Vec<u32>,
    /// Bytes read from and written to disk, children waited for included.
    pub io: Option<[u64; 2]>,
    /// Context switches between looks.
    pub switches: Option<u64>,
    /// CPU seconds and processes by name.
    pub roles: BTreeMap<String, (f64, u32)>,
}

impl Tree {
    /// The tree under a process.
    pub fn new(root: u32) -> Self {
        Self { root, last: HashMap::new(), roles: BTreeMap::new(), switches: 0 }
    }

    /// Reads the usage of the processes.
    pub fn read_usage(&mut self) -> io::Result<Usage> {
        let members = members(self.root, read_all()?);
        if members.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("process {} does not exist any more", self.root),
            ));
        }
        let hz = ticks_per_second();
        let mut usage = Usage::default();
        let mut now = HashMap::with_capacity(members.len());
        for stat in &members {
            usage.user_s += (stat.user[0] + stat.user[1]) as f64 / hz;
            usage.system_s += (stat.system[0] + stat.system[1]) as f64 / hz;
            usage.pids.push(stat.pid);
            let key = (stat.pid, stat.started);
            let before = self.last.get(&key).copied();
            let ticks = stat.own_ticks() - before.map_or(0, |l| l.ticks.min(stat.own_ticks()));
            *self.roles.entry(stat.name.clone()).or_default() += ticks as f64 / hz;
            usage.roles.entry(stat.name.clone()).or_default().1 += 1;
            let switches = switches_of(stat.pid);
            if let (Some(now), Some(then)) = (switches, before.and_then(|l| l.switches)) {
                self.switches += now.saturating_sub(then);
            }
            now.insert(key, Last { ticks: stat.own_ticks(), switches });
        }
        self.last = now;
        for (name, cpu_s) in &self.roles {
            usage.roles.entry(name.clone()).or_default().0 = *cpu_s;
        }
        usage.io = io_of(&usage.pids);
        usage.switches = Some(self.switches);
        Ok(usage)
    }
}

fn read_all() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) else { continue };
        // A process may end while we look.
        if let Ok(line) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            all.extend(Stat::parse(&line));
        }
    }
    Ok(all)
}

/// The root and everything below it.
fn members(root: u32, all: Vec<Stat>) -> Vec<Stat> {
    let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, stat) in all.iter().enumerate() {
        children.entry(stat.parent).or_default().push(at);
    }
    let Some(start) = all.iter().position(|s| s.pid == root) else { return Vec::new() };
    let (mut found, mut queue) = (vec![start], vec![root]);
    while let Some(parent) = queue.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            found.push(child);
            queue.push(all[child].pid);
        }
    }
    found.into_iter().map(|at| all[at].clone()).collect()
}

/// Bytes that processes read from and wrote towards the disk, by `/proc/PID/io`. `None` where that
/// may not be read, since it needs the same user or privileges. A process that has ended meanwhile
/// is in its parent's account.
pub fn io_of(pids: &[u32]) -> Option<[u64; 2]> {
    let mut sum = [0, 0];
    for pid in pids {
        match fs::read_to_string(format!("/proc/{pid}/io")) {
            Ok(text) => {
                sum[0] += field(&text, "read_bytes:")?;
                sum[1] += field(&text, "write_bytes:")?;
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            Err(_) => {}
        }
    }
    Some(sum)
}

/// Voluntary and involuntary context switches of all threads.
fn switches_of(pid: u32) -> Option<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(entry.path().join("status")).ok()?;
        sum += field(&text, "voluntary_ctxt_switches:")? + field(&text, "nonvoluntary_ctxt_switches:")?;
    }
    Some(sum)
}

/// Proportional set size of processes: shared pages are split among those who share them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pss {
    /// The whole memory, bytes.
    pub all: u64,
    /// Without pages of files: what the kernel cannot take back by forgetting it.
    pub own: u64,
}

impl Pss {
    /// The sum of both.
    pub fn with(self, other: Self) -> Self {
        Self { all: self.all + other.all, own: self.own + other.own }
    }
}

/// Memory of processes; `None` if nobody's can be read.
pub fn pss_of(pids: &[u32]) -> Option<Pss> {
    let one = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let bytes = |name| Some(field(&text, name)? * 1024);
        let all = bytes("Pss:")?;
        Some(Pss { all, own: all.saturating_sub(bytes("Pss_File:").unwrap_or(0)) })
    };
    // Ended processes are skipped. Without any process there is no result.
    pids.iter().filter_map(one).reduce(Pss::with)
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat =
            Stat::parse("42 (a) (b c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 999 1 1").unwrap();
        assert_eq!((stat.pid, stat.parent, stat.name.as_str()), (42, 7, "a) (b c"));
        assert_eq!((stat.user, stat.system, stat.started), ([10, 30], [20, 40], 999));
        assert_eq!(Stat::parse("nonsense"), None);
    }

    #[test]
    fn pages_of_files_are_counted_apart() {
        let memory = pss_of(&[std::process::id()]).unwrap();
        // This program's own text is pages of a file, and its stacks are not.
        assert!(memory.own > 0 && memory.own < memory.all, "{memory:?}");
        assert_eq!(pss_of(&[]), None);
    }

    #[test]
    fn cpu_of_children_that_have_ended_is_counted() {
        // A shell forks loops that burn processor time and end; it waits for them.
        let burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh")
            .args(["-c", &format!("sh -c '{burn}'; sh -c '{burn}'; echo; read x")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0u8; 1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let usage = Tree::new(child.id()).read_usage().unwrap();
        assert_eq!(usage.pids.len(), 1, "the loops have ended");
        assert!(usage.user_s + usage.system_s >= 0.05, "{usage:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(Tree::new(child.id()).read_usage().is_err());
    }
}
