//! CPU time of the process by the role of its threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

/// The CPU that threads of one name have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCpu {
    /// The threads' name, without a number at its end: their role.
    pub role: String,
    /// Threads of that name there are now.
    pub threads: u64,
    /// CPU time of these threads, and of those that called [`thread_ends`], in nanoseconds.
    pub cpu: u64,
}

/// CPU time of threads that have ended, by role, in nanoseconds.
static ENDED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Keeps the CPU time of this thread, which is about to end. A pool of threads calls it: without it
/// the time of a role would fall when one of them ends.
pub fn thread_ends() {
    let of_this = |file| fs::read_to_string(format!("/proc/thread-self/{file}"));
    let (Ok(name), Ok(stat)) = (of_this("comm"), of_this("schedstat")) else { return };
    let mut ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner);
    *ended.entry(role(&name).to_owned()).or_default() += cpu(&stat).unwrap_or(0);
}

/// The threads of this process, by role. Errors where `/proc` is not there.
pub fn threads() -> io::Result<Vec<ThreadCpu>> {
    let mut roles = BTreeMap::<String, (u64, u64)>::new();
    for (role, cpu) in &*ENDED.lock().unwrap_or_else(PoisonError::into_inner) {
        roles.insert(role.clone(), (0, *cpu));
    }
    for entry in fs::read_dir("/proc/self/task")? {
        let path = entry?.path();
        // A thread may end between the two reads.
        let (Ok(name), Ok(stat)) =
            (fs::read_to_string(path.join("comm")), fs::read_to_string(path.join("schedstat")))
        else {
            continue;
        };
        let sums = roles.entry(role(&name).to_owned()).or_default();
        sums.0 += 1;
        sums.1 += cpu(&stat).unwrap_or(0);
    }
    Ok(roles.into_iter().map(|(role, (threads, cpu))| ThreadCpu { role, threads, cpu }).collect())
}

/// A thread's name without its number.
fn role(name: &str) -> &str {
    name.trim_end().trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', ' ', '#'])
}

/// The first number of `schedstat`: nanoseconds on a processor (Linux, Documentation/scheduler).
fn cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_numbers() {
        assert_eq!(role("tokio-rt-worker\n"), "tokio-rt-worker");
        assert_eq!(role("worker-12\n"), "worker");
        assert_eq!(cpu("1234 5 6\n"), Some(1234));
        assert!(threads().unwrap().iter().map(|role| role.threads).sum::<u64>() > 0);
    }

    #[test]
    fn the_time_of_a_role_does_not_fall_when_a_thread_ends() {
        let spent = || threads().unwrap().into_iter().find(|role| role.role == "ends").map(|role| role.cpu);
        let thread = std::thread::Builder::new().name("ends-1".to_owned()).spawn(move || {
            let mut sum = 0u64;
            while spent().unwrap_or(0) < 1_000_000 {
                sum = (0..10_000).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
            }
            thread_ends();
            std::hint::black_box(sum);
        });
        thread.unwrap().join().unwrap();
        assert!(spent().unwrap() >= 1_000_000);
    }
}
