//! Watches a server during a run: takes a sample each second, memory every few seconds, and
//! computes the cost between two samples.

use std::io;

use posthaste_load_results::{Counters as CounterResult, Machine, Offered, Role, ServerCost};

use crate::agent::Remote;
use crate::cgroup::Group;
use crate::perf::Counters;
use crate::process::{Pss, Tree, io_of, pss_of};
use crate::sample::{Sample, WatchTarget};
use crate::waits::{WaitSources, waits};

/// PSS is read once in this many samples: the kernel walks all page tables of the process for it.
const PSS_EVERY: u32 = 5;

/// Watches one target.
pub struct Monitor {
    kind: MonitorKind,
    reads: u32,
    samples: Vec<(f64, Sample)>,
}

enum MonitorKind {
    Local {
        tree: Option<Tree>,
        group: Option<Group>,
        counters: Result<Counters, String>,
        waits: Box<WaitSources>,
        source: String,
    },
    Remote(Box<Remote>),
    Parts(Vec<(String, Monitor)>),
}

impl Monitor {
    /// Starts watching; `None` if there is nothing to watch.
    pub fn start(target: &WatchTarget) -> io::Result<Option<Self>> {
        let kind = match target {
            WatchTarget::Nothing => return Ok(None),
            WatchTarget::Agent { address, token, pid } => {
                MonitorKind::Remote(Box::new(Remote::connect(address, token, *pid)?))
            }
            WatchTarget::Parts(parts) => match all(parts)? {
                none if none.is_empty() => return Ok(None),
                all => MonitorKind::Parts(all),
            },
            WatchTarget::Local { pid, cgroup, data } => {
                let mut tree = pid.map(Tree::new);
                let group = cgroup.as_deref().map(Group::open).transpose()?;
                let pids = match (&mut tree, &group) {
                    (Some(tree), _) => tree.read_usage()?.pids,
                    (None, Some(group)) => group.pids(),
                    (None, None) => return Ok(None),
                };
                let source = match (pid, &group) {
                    (Some(pid), Some(group)) => {
                        format!(
                            "CPU and disk of control group {}, the rest of the process tree of {pid}",
                            group.path().display()
                        )
                    }
                    (Some(pid), None) => format!("process tree of {pid}"),
                    (None, Some(group)) => format!("control group {}", group.path().display()),
                    (None, None) => String::new(),
                };
                let waits = Box::new(WaitSources::of(data.as_deref(), group.as_ref()));
                MonitorKind::Local { tree, group, counters: Counters::start(&pids), waits, source }
            }
        };
        Ok(Some(Self { kind, reads: 0, samples: Vec::new() }))
    }

    /// Reads a sample that is not kept, for an agent.
    pub fn read_sample(&mut self) -> io::Result<Sample> {
        let with_pss = self.reads.is_multiple_of(PSS_EVERY);
        self.reads += 1;
        match &mut self.kind {
            MonitorKind::Remote(remote) => remote.sample(),
            MonitorKind::Parts(parts) => {
                let samples = parts.iter_mut().map(|(name, part)| Ok((name.clone(), part.read_sample()?)));
                samples.collect::<io::Result<_>>().map(Sample::sum)
            }
            MonitorKind::Local { tree, group, counters, waits, source } => {
                let usage = tree.as_mut().map(Tree::read_usage).transpose();
                // The tree may have ended while its group still has its usage.
                let usage =
                    if group.is_some() { usage.unwrap_or_default() } else { usage? }.unwrap_or_default();
                let mut sample = Sample {
                    source: source.clone(),
                    cpu_user_s: usage.user_s,
                    cpu_system_s: usage.system_s,
                    io: usage.io,
                    waits: waits.read_totals(),
                    context_switches: usage.switches,
                    roles: usage.roles,
                    ..Sample::default()
                };
                let mut pids = usage.pids;
                if let Some(group) = group {
                    (sample.cpu_user_s, sample.cpu_system_s) = group.cpu()?;
                    sample.disk = group.disk();
                    sample.disk_read_operations = group.disk_read_operations();
                    if tree.is_none() {
                        pids = group.pids();
                        sample.io = io_of(&pids);
                    }
                }
                sample.processes = pids.len() as u32;
                sample.pss = if with_pss { pss_of(&pids) } else { None };
                match counters {
                    Ok(counters) => sample.counters = counters.read().ok(),
                    Err(reason) => sample.counters_missing.clone_from(reason),
                }
                Ok(sample)
            }
        }
    }

    /// Takes a sample at this second of the run and keeps it.
    pub fn sample(&mut self, at_s: f64) -> io::Result<()> {
        let sample = self.read_sample()?;
        self.samples.push((at_s, sample));
        Ok(())
    }

    /// CPU used in each second, in processors.
    pub fn per_second(&self, seconds: usize) -> Vec<f64> {
        let points: Vec<(f64, f64)> = self.samples.iter().map(|(at, s)| (*at, s.cpu_s())).collect();
        rates(&points, seconds)
    }

    /// CPU used between the two last samples, in processors.
    pub fn now(&self) -> Option<f64> {
        let [.., (t0, before), (t1, now)] = self.samples.as_slice() else { return None };
        Some((now.cpu_s() - before.cpu_s()) / (t1 - t0).max(1e-3))
    }

    /// The cost between two moments of the run; `None` without samples near them.
    pub fn cost(&self, start_s: f64, end_s: f64, done: &Done, machine: &Machine) -> Option<ServerCost> {
        let near = |t: f64| self.samples.iter().min_by(|a, b| (a.0 - t).abs().total_cmp(&(b.0 - t).abs()));
        let ((t0, before), (t1, after)) = (near(start_s)?, near(end_s)?);
        let seconds = t1 - t0;
        if seconds <= 0.0 {
            return None;
        }
        let inside = self.samples.iter().filter(|(t, _)| *t >= *t0 && *t <= *t1);
        let mut pss: Vec<Pss> = inside.filter_map(|(_, s)| s.pss).collect();
        if pss.is_empty() {
            // In a window without a sample of memory, the last one before it counts.
            let before = self.samples.iter().rev().filter(|(t, _)| *t <= *t1);
            pss.extend(before.filter_map(|(_, s)| s.pss).take(1));
        }
        let memory = |f: fn(&[Pss]) -> u64| match pss.as_slice() {
            [] => Offered::NotOffered("smaps_rollup of the server's processes cannot be read".into()),
            all => Offered::Value(f(all)),
        };
        let (user, system) = (after.cpu_user_s - before.cpu_user_s, after.cpu_system_s - before.cpu_system_s);
        let megacycles = (user + system) * machine.mhz;
        let per = |n: u64| (n > 0).then(|| megacycles / n as f64);
        let difference = |f: fn(&Sample) -> Option<u64>, why: &str| match (f(before), f(after)) {
            (Some(a), Some(b)) => Offered::Value(b.saturating_sub(a)),
            _ => Offered::NotOffered(why.to_owned()),
        };
        let disk = disk(before, after);
        Some(ServerCost {
            source: after.source.clone(),
            seconds,
            cpu_user_s: user,
            cpu_system_s: system,
            cpu_percent: (user + system) / seconds / f64::from(machine.cpus.max(1)) * 100.0,
            megacycles,
            sessions: done.sessions,
            messages: done.messages,
            megacycles_per_session: per(done.sessions),
            megacycles_per_message: per(done.messages),
            megacycles_per_transaction: per(done.transactions),
            pss_mean_bytes: memory(|all| all.iter().map(|m| m.all).sum::<u64>() / all.len().max(1) as u64),
            pss_max_bytes: memory(|all| all.iter().map(|m| m.all).max().unwrap_or(0)),
            pss_own_max_bytes: memory(|all| all.iter().map(|m| m.own).max().unwrap_or(0)),
            processes: after.processes,
            disk_operations: disk.operations,
            disk_read_operations: disk.read_operations,
            disk_read_bytes: disk.read_bytes,
            disk_write_bytes: disk.write_bytes,
            waits: waits(&before.waits, &after.waits, seconds),
            context_switches: difference(|s| s.context_switches, "needs the process tree"),
            counters: counters(before, after),
            roles: roles(before, after),
            hottest: None,
            sampled: Vec::new(),
        })
    }
}

/// Watches the parts of a cluster; those with nothing to watch are left out.
fn all(parts: &[(String, WatchTarget)]) -> io::Result<Vec<(String, Monitor)>> {
    let watched = |(name, target): &(String, WatchTarget)| {
        let monitor = Monitor::start(target).transpose()?;
        Some(monitor.map(|monitor| (name.clone(), monitor)))
    };
    parts.iter().filter_map(watched).collect()
}

/// The traffic to and from the disk.
struct DiskFigures {
    operations: Offered<u64>,
    read_operations: Offered<u64>,
    read_bytes: Offered<u64>,
    write_bytes: Offered<u64>,
}

/// By the control group if it counts at all: some kernels have the files and leave them at zero,
/// and that is no measurement. Otherwise bytes by the processes' own accounts. These know no
/// operations. Their `syscr` and `syscw` count calls of read and write, files in memory and sockets
/// included.
fn disk(before: &Sample, after: &Sample) -> DiskFigures {
    let counts = |disk: Option<[u64; 3]>| disk.filter(|d| d.iter().any(|n| *n > 0));
    if let (Some(then), Some(now)) = (before.disk, counts(after.disk)) {
        let [operations, read_bytes, write_bytes] =
            [0, 1, 2].map(|i| Offered::Value(now[i].saturating_sub(then[i])));
        let read_operations = read_operations(before, after).map_or_else(Offered::default, Offered::Value);
        return DiskFigures { operations, read_operations, read_bytes, write_bytes };
    }
    let why = match after.disk {
        Some(_) => {
            "the control group's disk counters do not change (Linux 6.10 and later count in version 1 only where a \
             limit is set)"
        }
        None => "needs a control group with disk accounting (blkio of version 1, io of version 2)",
    };
    let bytes = |i: usize| match (before.io, after.io) {
        (Some(then), Some(now)) => Offered::Value(now[i].saturating_sub(then[i])),
        _ => Offered::NotOffered(format!("{why}, or leave to read /proc/PID/io of the server")),
    };
    let none = || Offered::NotOffered(why.to_owned());
    DiskFigures { operations: none(), read_operations: none(), read_bytes: bytes(0), write_bytes: bytes(1) }
}

fn read_operations(before: &Sample, after: &Sample) -> Option<u64> {
    Some(after.disk_read_operations?.saturating_sub(before.disk_read_operations?))
}

/// The work for which the cost arose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Logins.
    pub sessions: u64,
    /// FETCH responses and messages retrieved.
    pub messages: u64,
    /// Transactions that ended well.
    pub transactions: u64,
}

fn counters(before: &Sample, after: &Sample) -> Offered<CounterResult> {
    match (before.counters, after.counters) {
        (Some(a), Some(b)) if b[1] > a[1] => {
            let [cycles, instructions, cache_misses] = [0, 1, 2].map(|i| b[i].saturating_sub(a[i]));
            let cpi = cycles as f64 / instructions as f64;
            Offered::Value(CounterResult { cycles, instructions, cache_misses, cpi })
        }
        _ => Offered::NotOffered(after.counters_missing.clone()),
    }
}

fn roles(before: &Sample, after: &Sample) -> Vec<Role> {
    let mut roles: Vec<Role> = after
        .roles
        .iter()
        .map(|(name, (cpu, processes))| {
            let then = before.roles.get(name).map_or(0.0, |r| r.0);
            Role { name: name.clone(), cpu_s: cpu - then, processes: *processes }
        })
        .collect();
    let known: f64 = roles.iter().map(|r| r.cpu_s).sum();
    let ended = after.cpu_s() - before.cpu_s() - known;
    if ended > 0.02 * (after.cpu_s() - before.cpu_s()).max(0.1) {
        roles.push(Role {
            name: "(processes that ended between samples)".into(),
            cpu_s: ended,
            processes: 0,
        });
    }
    roles.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
    roles
}

/// Totals at moments as rates per whole second.
pub fn rates(points: &[(f64, f64)], seconds: usize) -> Vec<f64> {
    let at = |t: f64| match points.iter().position(|p| p.0 >= t) {
        None => points.last().map_or(0.0, |p| p.1),
        Some(0) => points.first().map_or(0.0, |p| p.1),
        Some(i) => {
            let ((t0, v0), (t1, v1)) = (points[i - 1], points[i]);
            if t1 > t0 { v0 + (v1 - v0) * (t - t0) / (t1 - t0) } else { v1 }
        }
    };
    (0..seconds).map(|s| (at(s as f64 + 1.0) - at(s as f64)).max(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_taken_between_samples() {
        assert_eq!(rates(&[(0.0, 0.0), (1.0, 0.5), (3.0, 2.5)], 3), vec![0.5, 1.0, 1.0]);
    }

    #[test]
    fn a_disk_account_that_stands_still_is_no_zero() {
        let sample = |disk, io| Sample { disk, io, ..Sample::default() };
        let of = |before: &Sample, after: &Sample| {
            let disk = disk(before, after);
            [disk.operations, disk.read_bytes, disk.write_bytes].map(|offered| offered.value().copied())
        };
        // It counts: from the first operation on, and nothing may be what was measured.
        let (none, some) = (sample(Some([0, 0, 0]), Some([1, 1])), sample(Some([7, 10, 20]), Some([1, 90])));
        assert_eq!(of(&none, &some), [Some(7), Some(10), Some(20)]);
        assert_eq!(of(&some, &some), [Some(0), Some(0), Some(0)]);
        // It does not, or is not there: the processes' own bytes, and no operations.
        let later = sample(Some([0, 0, 0]), Some([5, 91]));
        assert_eq!(of(&none, &later), [None, Some(4), Some(90)]);
        assert_eq!(of(&sample(None, Some([0, 0])), &sample(None, Some([0, 3]))), [None, Some(0), Some(3)]);
        assert_eq!(of(&sample(None, None), &sample(None, None)), [None; 3]);
    }

    #[test]
    fn each_part_of_a_cluster_has_its_cost() {
        let me = || WatchTarget::Local { pid: Some(std::process::id()), cgroup: None, data: None };
        let parts = [("access 1", me()), ("store 1", me()), ("store 2", WatchTarget::Nothing)];
        let parts = parts.map(|(name, target)| (name.to_owned(), target)).to_vec();
        let mut monitor = Monitor::start(&WatchTarget::Parts(parts)).unwrap().unwrap();
        monitor.sample(0.0).unwrap();
        let before = crate::own::now();
        while crate::own::now().user_s - before.user_s < 0.1 {}
        monitor.sample(1.0).unwrap();
        let machine = crate::machine::facts(Some(1000.0));
        let cost = monitor.cost(0.0, 1.0, &Done::default(), &machine).unwrap();
        let mut names: Vec<&str> = cost.roles.iter().map(|role| role.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["access 1", "store 1"]);
        assert!(cost.roles.iter().all(|role| role.cpu_s >= 0.05), "{cost:?}");
        let sum: f64 = cost.roles.iter().map(|role| role.cpu_s).sum();
        assert!((sum - cost.cpu_user_s - cost.cpu_system_s).abs() < 1e-9, "{cost:?}");
    }

    #[test]
    fn a_busy_process_costs_what_it_uses() {
        let target = WatchTarget::Local { pid: Some(std::process::id()), cgroup: None, data: None };
        let mut monitor = Monitor::start(&target).unwrap().unwrap();
        monitor.sample(0.0).unwrap();
        let before = crate::own::now();
        while crate::own::now().user_s - before.user_s < 0.1 {}
        monitor.sample(1.0).unwrap();
        let machine = crate::machine::facts(Some(1000.0));
        let done = Done { sessions: 2, messages: 0, transactions: 10 };
        let cost = monitor.cost(0.0, 1.0, &done, &machine).unwrap();
        assert!(cost.megacycles >= 50.0, "{cost:?}");
        assert_eq!(cost.megacycles_per_message, None);
        assert_eq!(cost.megacycles_per_session, Some(cost.megacycles / 2.0));
    }
}
