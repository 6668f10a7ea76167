//! The functions that use a server's CPU, by `perf record` if it is installed and the kernel allows
//! it.
//!
//! Sampling has a cost, so it is done in a separate run whose other figures are not used.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use posthaste_load_results::{HotFunction, Offered, SampledFunction};

use crate::process::Tree;

/// Samples per second and processor. Often enough to distinguish 1 % from 2 % in ten seconds, rare
/// enough to cost little. Odd, so that it does not beat with timers.
const SAMPLES_PER_S: u32 = 499;
/// With fewer samples in all, shares mean nothing: at a hundred, 10 % is 10 ± 3.
const SAMPLES_MIN: u64 = 100;
/// Functions with less than this share are left out.
const PERCENT_MIN: f64 = 0.5;

/// The profile of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The functions worth naming, hottest first.
    pub hottest: Vec<HotFunction>,
    /// The samples by function, most first.
    pub sampled: Vec<SampledFunction>,
}

/// Waits for `after`, and then samples the process tree for `length`.
pub fn sample(root: u32, after: Duration, length: Duration) -> Offered<Profile> {
    std::thread::sleep(after);
    recorded(root, length).map_or_else(Offered::NotOffered, Offered::Value)
}

/// The file of perf is in a folder of this user alone. Elsewhere others could put a link in its
/// place.
fn recorded(root: u32, length: Duration) -> Result<Profile, String> {
    let folder = tempfile::tempdir().map_err(|e| format!("perf: a folder for its file: {e}"))?;
    let file = folder.path().join("samples");
    record(root, length, &file)?;
    report(&file)
}

/// Processes and threads that are started meanwhile are sampled, too: perf's counters are
/// inherited.
fn record(root: u32, length: Duration, file: &Path) -> Result<(), String> {
    let pids = Tree::new(root).read_usage().map_err(|e| e.to_string())?.pids;
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // Without -e perf chooses: cycles where the processor counts them, else the clock.
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-F", &SAMPLES_PER_S.to_string(), "-o"]).arg(file);
    command.args(["-p", &pids.join(","), "--", "sleep", &length.as_secs_f64().to_string()]);
    printed(&mut command).map(drop)
}

fn report(file: &Path) -> Result<Profile, String> {
    let mut command = Command::new("perf");
    command.args(["report", "-q", "--stdio", "--no-children", "-g", "none", "-t", "|"]);
    command.args(["-F", "overhead,sample,period,comm,dso,sym", "-i"]).arg(file);
    enough(functions(&printed(&mut command)?))
}

/// The profile, if there were samples enough.
fn enough(all: Vec<Line>) -> Result<Profile, String> {
    match all.iter().map(|line| line.samples).sum::<u64>() {
        few @ 0..SAMPLES_MIN => {
            Err(format!("perf record took {few} samples: the server used too little CPU"))
        }
        _ => Ok(Profile {
            sampled: by_function(&all),
            hottest: all.into_iter().map(|line| line.function).filter(|f| f.percent >= PERCENT_MIN).collect(),
        }),
    }
}

/// Samples of a function in several programs are put together.
fn by_function(all: &[Line]) -> Vec<SampledFunction> {
    let mut sums = BTreeMap::<(&str, &str, bool), (u64, u64)>::new();
    for Line { function: f, samples, weight } in all {
        let sum = sums.entry((&f.object, &f.function, f.kernel)).or_default();
        *sum = (sum.0 + samples, sum.1 + weight);
    }
    let mut functions: Vec<SampledFunction> = sums
        .into_iter()
        .map(|((object, function, kernel), (samples, weight))| SampledFunction {
            object: object.to_owned(),
            function: function.to_owned(),
            kernel,
            samples,
            weight,
        })
        .collect();
    functions.sort_by_key(|f| std::cmp::Reverse(f.weight));
    functions
}

fn printed(command: &mut Command) -> Result<String, String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => "perf is not installed; Debian: apt-get install linux-perf".to_owned(),
        _ => format!("perf: {e}"),
    })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(refused(&String::from_utf8_lossy(&out.stderr)))
}

/// The complaint of perf. A kernel that does not let this user sample is named with the remedy.
fn refused(said: &str) -> String {
    if said.contains("perf_event_paranoid") {
        return "perf: the kernel lets only root sample; as root: sysctl kernel.perf_event_paranoid=1"
            .to_owned();
    }
    let line = said.lines().map(str::trim).find(|l| !l.is_empty() && *l != "Error:").unwrap_or("it failed");
    format!("perf: {line}")
}

/// A line of the report.
struct Line {
    function: HotFunction,
    samples: u64,
    weight: u64,
}

/// Lines `12.34%|56|789000|imap|libdovecot.so.0|[.] function`: share, samples, their sum of cycles,
/// and the function. A name may itself hold the separator.
fn functions(report: &str) -> Vec<Line> {
    let line = |line: &str| {
        let mut parts = line.splitn(6, '|').map(str::trim);
        let percent: f64 = parts.next()?.trim_end_matches('%').parse().ok()?;
        let (samples, weight) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (program, object) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let (kind, function) = parts.next()?.split_once(' ')?;
        let (function, kernel) = (function.trim().to_owned(), kind == "[k]");
        Some(Line { function: HotFunction { percent, program, object, function, kernel }, samples, weight })
    };
    report.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "# Overhead|Samples|Period|Command|Shared Object|Symbol\n\
                    90.64|1000|2000000|imap         |libc.so.6        |[.] __memmove_avx|x\n\
                    5.26%|59 |118000|imap-login|[kernel.kallsyms]|[k] finish_task_switch.isra.0\n\
                    4.00|60|120000|imap-login|libc.so.6|[.] __memmove_avx|x\n\
                    0.10|1|2000|imap|libc.so.6|[.] rare\n\n";
        assert_eq!(functions(text).len(), 4);
        let read = enough(functions(text)).unwrap();
        let hottest = &read.hottest;
        assert_eq!(hottest.len(), 3);
        assert_eq!((hottest[0].percent, hottest[0].program.as_str()), (90.64, "imap"));
        assert_eq!((hottest[0].function.as_str(), hottest[0].kernel), ("__memmove_avx|x", false));
        assert_eq!((hottest[1].object.as_str(), hottest[1].kernel), ("[kernel.kallsyms]", true));
        // Every sample is kept, those of both programs together.
        let sums: Vec<(&str, u64, u64)> =
            read.sampled.iter().map(|f| (f.function.as_str(), f.samples, f.weight)).collect();
        let all = [
            ("__memmove_avx|x", 1_060, 2_120_000),
            ("finish_task_switch.isra.0", 59, 118_000),
            ("rare", 1, 2_000),
        ];
        assert_eq!(sums, all);
        let few = enough(functions("100.0|1|5|imap|libc.so.6|[.] only\n")).unwrap_err();
        assert!(few.starts_with("perf record took 1 samples"), "{few}");
    }

    #[test]
    fn failures_of_perf_come_with_a_remedy() {
        let mut missing = Command::new("/nonexistent/perf");
        assert!(printed(&mut missing).unwrap_err().contains("apt-get install linux-perf"));
        let said = "Error:\nAccess to performance monitoring and observability operations is limited.\n\
                    Consider adjusting /proc/sys/kernel/perf_event_paranoid setting …\n";
        assert!(refused(said).contains("sysctl kernel.perf_event_paranoid=1"));
        assert_eq!(refused("Error:\nNo such file\n"), "perf: No such file");
        assert_eq!(refused(""), "perf: it failed");
    }

    #[test]
    fn no_name_that_others_may_know_is_used_for_the_file() {
        // No process has this number.
        let root = u32::MAX;
        let name = format!("posthaste-load-{}-{root}.perf", std::process::id());
        let known = std::env::temp_dir().join(name);
        std::fs::write(&known, "of another user").unwrap();
        assert!(matches!(sample(root, Duration::ZERO, Duration::ZERO), Offered::NotOffered(_)));
        let left = std::fs::read_to_string(&known);
        let _ = std::fs::remove_file(&known);
        assert_eq!(left.unwrap(), "of another user");
    }

    #[test]
    fn samples_are_taken_or_it_is_said_why_not() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let found = sample(busy.id(), Duration::ZERO, Duration::from_millis(500));
        busy.kill().unwrap();
        busy.wait().unwrap();
        match found {
            Offered::Value(profile) => {
                assert!(profile.hottest.iter().all(|f| f.percent <= 100.0));
                let samples: u64 = profile.sampled.iter().map(|f| f.samples).sum();
                assert!(samples >= SAMPLES_MIN && profile.sampled.iter().all(|f| f.weight > 0));
            }
            Offered::NotOffered(why) => assert!(why.starts_with("perf"), "{why}"),
        }
    }
}
