//! A study that is stopped or killed continues: what was measured stays, and the rest is
//! measured.
//!
//! The servers do nothing, and windows are short. Only counts are compared.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use posthaste_load_null_server::{Faults, start};
use serde_json::Value;

const STUDY: &str = r#"
name = "tiny"
description = "a tiny study"
analysis = "compare"
workloads = ["inbox-sync"]
think = "5ms"
sizes = "fixed:1k"
rounds = 2
sweep = [{ items = [20], clients = [1, 2] }]
time = { ramp = "0s", warmup = "0s", measure = "400ms" }
"#;

/// A study in a folder of its own, and two servers for it.
struct Tiny {
    folder: tempfile::TempDir,
    servers: [String; 2],
}

impl Tiny {
    fn new(study: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tiny.toml"), study).unwrap();
        Self { folder, servers: ["A", "B"].map(server) }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste-load"));
        command.args(["study", "./tiny.toml", "--out", "out", "--threads", "1"]).args(more);
        command.args(self.servers.iter().flat_map(|server| ["--server", server]));
        // A killed program leaves its folder for the servers' data.
        command.env("TMPDIR", self.folder.path());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.out().join("results.json")).unwrap()).unwrap()
    }

    fn report(&self) -> String {
        std::fs::read_to_string(self.out().join("report.html")).unwrap()
    }
}

fn server(name: &str) -> String {
    let at = start(Faults::default()).unwrap();
    format!("{name}=imap://{}", at.imap)
}

/// Waits until the program says a text.
fn until(child: &mut Child, wanted: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().any(|line| line.unwrap().contains(wanted)), "never said: {wanted}");
    // Later output is read and dropped, so that the pipe never fills.
    std::thread::spawn(move || lines.for_each(drop));
}

fn points(result: &Value) -> &Vec<Value> {
    result["points"].as_array().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn part_files(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".part")).count()
}

#[test]
fn points_measured_before_a_kill_stay_and_the_others_are_measured() {
    let tiny = Tiny::new(STUDY);
    let mut killed =
        tiny.command(&["--resume"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    until(&mut killed, "3 of 8 points done");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = tiny.result();
    let kept = points(&before).len();
    assert!(kept >= 3, "{kept} points");

    let resumed = tiny.run(&["--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}{}", text(&resumed.stdout), text(&resumed.stderr));
    assert!(text(&resumed.stdout).contains("\nfilling and measuring took "), "{}", text(&resumed.stdout));
    assert!(tiny.report().contains("Filling and measuring took "));
    let whole = tiny.result();
    assert_eq!((points(&whole).len(), &whole["unmeasured"], part_files(&tiny.out())), (8, &0.into(), 0));
    for point in points(&before) {
        assert!(points(&whole).contains(point), "measured again: {}", point["server"]);
    }
    let sittings = whole["sittings"].as_array().unwrap();
    let counts: Vec<u64> = sittings.iter().map(|s| s["points"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 8, "{counts:?}");

    // For documents that quote it.
    let tables = std::fs::read_to_string(tiny.out().join("tables.md")).unwrap();
    assert!(tables.starts_with("# Study tiny\n") && tables.contains("\n| --- "), "{tables}");

    // Nothing is left. Rounds are added to it.
    let again = tiny.run(&["--resume"]);
    assert!(text(&again.stdout).contains("nothing was left to measure"), "{}", text(&again.stdout));
    assert_eq!(points(&tiny.result()), points(&whole));
    let more = tiny.run(&["--add-rounds", "1"]);
    assert_eq!(more.status.code(), Some(0), "{}", text(&more.stderr));
    assert_eq!((points(&tiny.result()).len(), &tiny.result()["rounds"]), (12, &3.into()));
    let report = tiny.report();
    assert!(report.contains("Each cell has 3 rounds. They were measured in "), "{}", &report[..200]);
}

#[test]
fn ctrl_c_writes_the_report_and_names_the_command_that_goes_on() {
    let tiny = Tiny::new(&STUDY.replace("400ms", "2h"));
    let mut child = tiny.command(&[]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    until(&mut child, "0 of 8 points done");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(said.contains("not finished: 0 of 8 points are measured; go on with"), "{said}");
    assert!(said.trim_end().ends_with("--resume") && said.contains("study ./tiny.toml --out out"), "{said}");
    assert!(tiny.report().contains("8 of 8 points are still to be measured"));
}

#[test]
fn no_point_begins_that_would_end_after_the_time() {
    let tiny = Tiny::new(STUDY);
    let ended = tiny.run(&["--resume", "--max-time", "100ms"]);
    assert_eq!(ended.status.code(), Some(3), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("no time is left"), "{}", text(&ended.stderr));
    assert_eq!((points(&tiny.result()).len(), &tiny.result()["unmeasured"]), (0, &8.into()));
}

#[test]
fn a_result_that_does_not_belong_to_the_study_is_refused_and_stays() {
    let mut tiny = Tiny::new(&STUDY.replace("rounds = 2", "rounds = 1").replace("[1, 2]", "[1]"));
    assert_eq!(tiny.run(&["--add-rounds", "1"]).status.code(), Some(2));
    assert_eq!(tiny.run(&["--resume"]).status.code(), Some(0));
    let before = tiny.result();
    let refused = |tiny: &Tiny, more: &[&str], wanted: &str| {
        let done = tiny.run(more);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(wanted) && said.contains("--out"), "{more:?}: {said}");
        assert_eq!(tiny.result(), before, "{more:?}");
    };
    refused(&tiny, &["--resume", "--measure", "1s"], "--measure was 0.4s, and is 1s");
    refused(&tiny, &["--resume", "--seed", "7"], "--seed was 1, and is 7");
    let another = server("C");
    refused(&tiny, &["--resume", "--server", &another], "--server was A, B, and is C, A, B");
    let file = tiny.folder.path().join("tiny.toml");
    let study = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{study}# changed\n")).unwrap();
    refused(&tiny, &["--resume"], "the file of the study has changed");
    std::fs::write(&file, study).unwrap();

    // A server of another version: refused, unless a flag allows it. Then the report says so.
    tiny.servers[1] = server("B");
    refused(&tiny, &["--add-rounds", "1"], "the version of B was already running at");
    let mixed = tiny.run(&["--add-rounds", "1", "--mix-versions"]);
    assert_eq!(mixed.status.code(), Some(0), "{}", text(&mixed.stderr));
    assert_eq!(points(&tiny.result()).len(), 4);
    assert!(tiny.report().contains("rounds of B are of several versions"));
}
