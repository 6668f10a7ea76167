//! Processors of their own for a server and for the instrument.
//!
//! On a machine that both share, each slows the other down. With `--server-cpus N` the server keeps
//! to the first N processors, and the instrument to the others.

use std::ops::Range;
use std::{fs, io};

use posthaste_load_results::RunResult;

use crate::process::Tree;

/// Keeps this thread, and the threads and processes that it starts from now on, to the processors
/// from `first` to the last of `all`.
///
/// # Errors
/// No processor is left for the instrument, or the system refuses.
pub fn keep_to_the_last(first: u32, all: u32) -> Result<(), String> {
    if first >= all {
        return Err(format!(
            "--server-cpus {first}: this machine has {all} processors, and the instrument needs one of them"
        ));
    }
    keep_to(first..all).map_err(|error| format!("--server-cpus: {error}"))
}

/// Keeps this thread, and the threads and processes that it starts from now on, to these
/// processors.
///
/// # Errors
/// The system refuses: the machine has none of them, or a control group forbids them.
pub fn keep_to(processors: Range<u32>) -> io::Result<()> {
    // SAFETY: a set of bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in processors.filter(|cpu| *cpu < libc::CPU_SETSIZE as u32) {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the set is valid for its size, and is only read.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a server that runs already keeps to the first processors: each thread of its process
/// tree.
///
/// # Errors
/// A thread may use others, or the process does not exist: what to do.
pub fn keeps_to_the_first(root: u32, first: u32) -> Result<(), String> {
    let pids = Tree::new(root).read_usage().map_err(|e| e.to_string())?.pids;
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            // A thread may end meanwhile.
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let Some(allowed) = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")) else {
                continue;
            };
            let allowed = allowed.trim();
            if last_of(allowed).is_none_or(|last| last >= first) {
                let last = first.saturating_sub(1);
                return Err(format!(
                    "--server-cpus {first}: process {pid} of the server may use the processors {allowed}; start the server \
                     by `taskset -c 0-{last}`, or `taskset -a -c -p 0-{last} {pid}`"
                ));
            }
        }
    }
    Ok(())
}

/// The last processor of a list such as `0-3,8`.
fn last_of(list: &str) -> Option<u32> {
    list.split(',').filter_map(|range| range.rsplit('-').next()?.parse().ok()).max()
}

/// Makes the CPU of a server that was kept to some processors a share of these.
pub fn of_its_own(run: &mut RunResult, cpus: Option<u32>) {
    let all = run.machine.cpus;
    if let Some(server) = &mut run.server {
        server.cpu_percent = percent_of_own(server.cpu_percent, all, cpus);
    }
}

fn percent_of_own(percent: f64, all: u32, cpus: Option<u32>) -> f64 {
    match cpus {
        Some(own) if own > 0 && own < all => percent * f64::from(all) / f64::from(own),
        _ => percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_of_the_processors_that_the_server_may_use() {
        let percent = |cpus| percent_of_own(20.0, 4, cpus);
        assert_eq!((percent(None), percent(Some(1)), percent(Some(4))), (20.0, 80.0, 20.0));
        assert_eq!((percent(Some(0)), percent(Some(8))), (20.0, 20.0));
    }

    #[test]
    fn a_processor_is_left_for_the_instrument() {
        assert!(keep_to_the_last(2, 2).unwrap_err().contains("needs one"));
    }

    #[test]
    fn the_machine_keeps_its_processors_when_the_instrument_gives_some_up() {
        let all = crate::machine::facts(None).cpus;
        // On one processor there is nothing to give up.
        if keep_to_the_last(1, all).is_ok() {
            assert_eq!(crate::machine::facts(None).cpus, all);
        }
    }

    #[test]
    fn a_server_on_other_processors_is_refused_with_a_remedy() {
        assert_eq!(
            (last_of("0-3,8"), last_of("2"), last_of("0-1"), last_of("")),
            (Some(8), Some(2), Some(1), None)
        );
        let mut server = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let own = server.id();
        let (all, refused) = (keeps_to_the_first(own, 4096), keeps_to_the_first(own, 0));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(all, Ok(()));
        let refused = refused.unwrap_err();
        assert!(refused.contains(&format!("process {own}")) && refused.contains("taskset"), "{refused}");
        assert!(keeps_to_the_first(own, 1).unwrap_err().contains("does not exist"));
    }
}
