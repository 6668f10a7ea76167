//! Ctrl-C during a run: once ends measuring and writes the report, twice stops at once. Signals go
//! to the program itself, and only after it has printed its progress.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use posthaste_load_null_server::{Addresses, Faults, start};

/// After this a test has failed; nothing here is meant to come near it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Longer than any test: what takes this long never happens.
const NEVER: Duration = Duration::from_secs(7200);

struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
    pid: String,
}

impl Program {
    fn start(words: &[&str], out: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste-load"))
            .args(words)
            .current_dir(out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let pid = child.id().to_string();
        Self { child, lines, pid }
    }

    /// Reads what it says until a line is as wanted.
    fn until(&mut self, wanted: impl Fn(&str) -> bool) {
        let mut said = String::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if wanted(&line) {
                return;
            }
            said.push_str(&line);
            said.push('\n');
        }
        panic!("it ended before it said what was waited for:\n{said}");
    }

    fn press_ctrl_c(&self) {
        assert!(Command::new("kill").args(["-INT", &self.pid]).status().unwrap().success());
    }

    fn ends(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < TIMEOUT, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn populate(at: Addresses, out: &Path) {
    let imap = format!("imap://{}", at.imap);
    let words = ["populate", "--imap", &imap, "--users", "user{1..4}@example.org", "--password", "x"];
    let more = ["--inbox", "20", "--sizes", "fixed:1k"];
    let mut program = Program::start(&[&words[..], &more[..]].concat(), out);
    assert!(program.ends().success());
}

/// Whether a line of progress reports transactions done in the last second.
fn shows_a_rate(line: &str) -> bool {
    line.split_ascii_whitespace()
        .any(|w| w.strip_suffix("/s").is_some_and(|n| n.parse::<u64>().is_ok_and(|n| n > 0)))
}

#[test]
fn once_ends_measuring_and_writes_the_report() {
    let at = start(Faults::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    populate(at, folder.path());
    let imap = format!("imap://{}", at.imap);
    let words = ["run", "--workload", "inbox-sync", "--imap", &imap, "--users", "user{1..4}@example.org"];
    let more = [
        "--password",
        "x",
        "--think",
        "10ms",
        "--ramp",
        "0",
        "--warmup",
        "0",
        "--measure",
        "2h",
        "--out",
        "result",
    ];
    let mut program = Program::start(&[&words[..], &more[..]].concat(), folder.path());
    program.until(shows_a_rate);
    program.press_ctrl_c();
    assert_eq!(program.ends().code(), Some(0), "an interrupted run without errors is a good one");
    let result = std::fs::read_to_string(folder.path().join("result/results.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["outcome"]["interrupted"], true);
    assert!(result["total"]["count"].as_u64().unwrap() > 0);
    let report = std::fs::read_to_string(folder.path().join("result/report.html")).unwrap();
    assert!(report.contains("ended early by Ctrl-C") && report.contains("instead of 7200 s"));
}

#[test]
fn before_anything_was_measured_it_still_writes_the_report() {
    let at = start(Faults::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    populate(at, folder.path());
    let imap = format!("imap://{}", at.imap);
    let words = ["run", "--workload", "inbox-sync", "--imap", &imap, "--users", "user{1..4}@example.org"];
    let more = ["--password", "x", "--ramp", "0", "--warmup", "1h", "--measure", "1h", "--out", "result"];
    let mut program = Program::start(&[&words[..], &more[..]].concat(), folder.path());
    program.until(|line| line.contains("warm-up"));
    program.press_ctrl_c();
    assert!(program.ends().code().is_some());
    let report = std::fs::read_to_string(folder.path().join("result/report.html")).unwrap();
    assert!(
        report.contains("ended early by Ctrl-C") && report.contains("the window is 0 s instead of 3600 s")
    );
}

#[test]
fn twice_stops_at_once() {
    // A server that never answers the present command: an orderly end is waited for in vain.
    let delay = Some(("APPEND", NEVER, 1));
    let at = start(Faults { delay, ..Faults::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let imap = format!("imap://{}", at.imap);
    let words = ["populate", "--imap", &imap, "--users", "user{1..4}@example.org", "--password", "x"];
    let more = ["--inbox", "20", "--sizes", "fixed:1k", "--timeout", "2h"];
    let mut program = Program::start(&[&words[..], &more[..]].concat(), folder.path());
    program.until(|line| line.contains("0 of 80 messages"));
    program.press_ctrl_c();
    program.until(|line| line.contains("Ctrl-C again"));
    assert!(program.child.try_wait().unwrap().is_none(), "one is not enough here");
    program.press_ctrl_c();
    assert_eq!(program.ends().code(), Some(1));
}
