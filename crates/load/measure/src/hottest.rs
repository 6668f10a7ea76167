//! The functions that use a server's CPU, by `perf record` if it is installed and the kernel allows
//! it.
//!
//! Sampling has a cost, so it is done in a separate run whose other figures are not used.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use posthaste_load_results::{HotFunction, Offered};

use crate::process::Tree;

/// Samples per second and processor. Often enough to distinguish 1 % from 2 % in ten seconds, rare
/// enough to cost little. Odd, so that it does not beat with timers.
const SAMPLES_PER_S: u32 = 499;
/// With fewer samples in all, shares mean nothing: at a hundred, 10 % is 10 ± 3.
const SAMPLES_MIN: u64 = 100;
/// Functions with less than this share are left out.
const PERCENT_MIN: f64 = 0.5;

/// Samples the process tree for so long, after waiting.
pub fn sample(root: u32, after: Duration, length: Duration) -> Offered<Vec<HotFunction>> {
    std::thread::sleep(after);
    let file = std::env::temp_dir().join(format!("posthaste-load-{}-{root}.perf", std::process::id()));
    let found = record(root, length, &file).and_then(|()| report(&file));
    let _ = std::fs::remove_file(&file);
    found.map_or_else(Offered::NotOffered, Offered::Value)
}

/// Processes and threads that are started meanwhile are sampled, too: perf's counters are
/// inherited.
fn record(root: u32, length: Duration, file: &Path) -> Result<(), String> {
    let pids = Tree::new(root).look().map_err(|e| e.to_string())?.pids;
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // Without -e perf chooses: cycles where the processor counts them, else the clock.
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-F", &SAMPLES_PER_S.to_string(), "-o"]).arg(file);
    command.args(["-p", &pids.join(","), "--", "sleep", &length.as_secs_f64().to_string()]);
    printed(&mut command).map(drop)
}

fn report(file: &Path) -> Result<Vec<HotFunction>, String> {
    let mut command = Command::new("perf");
    command.args(["report", "-q", "--stdio", "--no-children", "-g", "none", "-t", "|"]);
    command.args(["-F", "overhead,sample,comm,dso,sym", "-i"]).arg(file);
    enough(functions(&printed(&mut command)?))
}

/// The functions worth naming, if there were samples enough.
fn enough(all: Vec<(u64, HotFunction)>) -> Result<Vec<HotFunction>, String> {
    match all.iter().map(|(samples, _)| *samples).sum::<u64>() {
        few @ 0..SAMPLES_MIN => {
            Err(format!("perf record took {few} samples: the server used too little CPU"))
        }
        _ => Ok(all.into_iter().map(|(_, f)| f).filter(|f| f.percent >= PERCENT_MIN).collect()),
    }
}

fn printed(command: &mut Command) -> Result<String, String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| format!("perf: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(format!("perf: {}", said.lines().find(|l| !l.trim().is_empty()).unwrap_or("it failed").trim()))
}

/// Lines `12.34%|56|imap|libdovecot.so.0|[.] function`, samples and function; a name may itself
/// hold the separator.
fn functions(report: &str) -> Vec<(u64, HotFunction)> {
    let line = |line: &str| {
        let mut parts = line.splitn(5, '|').map(str::trim);
        let percent: f64 = parts.next()?.trim_end_matches('%').parse().ok()?;
        let samples: u64 = parts.next()?.parse().ok()?;
        let (program, object) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let (kind, function) = parts.next()?.split_once(' ')?;
        let (function, kernel) = (function.trim().to_owned(), kind == "[k]");
        Some((samples, HotFunction { percent, program, object, function, kernel }))
    };
    report.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = "# Overhead|Samples|Command|Shared Object|Symbol\n\
                    94.64|1060|imap         |libc.so.6        |[.] __memmove_avx|x\n\
                    5.26%|59 |imap-login|[kernel.kallsyms]|[k] finish_task_switch.isra.0\n\
                    0.10|1|imap|libc.so.6|[.] rare\n\n";
        assert_eq!(functions(text).len(), 3);
        let read = enough(functions(text)).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].percent, read[0].program.as_str()), (94.64, "imap"));
        assert_eq!((read[0].function.as_str(), read[0].kernel), ("__memmove_avx|x", false));
        assert_eq!((read[1].object.as_str(), read[1].kernel), ("[kernel.kallsyms]", true));
        let few = enough(functions("100.0|1|imap|libc.so.6|[.] only\n")).unwrap_err();
        assert!(few.starts_with("perf record took 1 samples"), "{few}");
    }

    #[test]
    fn samples_are_taken_or_it_is_said_why_not() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let found = sample(busy.id(), Duration::ZERO, Duration::from_millis(500));
        busy.kill().unwrap();
        busy.wait().unwrap();
        match found {
            Offered::Value(functions) => assert!(functions.iter().all(|f| f.percent <= 100.0)),
            Offered::NotOffered(why) => assert!(why.starts_with("perf"), "{why}"),
        }
    }
}
