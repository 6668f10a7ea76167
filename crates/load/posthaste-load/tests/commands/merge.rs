//! Two generators, each a program of its own, drive one server at the same time. Their results are
//! merged into one.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_load_null_server::{Addresses, Faults, start};
use serde_json::Value;

fn program(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste-load"));
    command
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn load(words: &[&str], folder: &Path) -> Output {
    program(words, folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn result(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("results.json")).unwrap()).unwrap()
}

/// A generator of two users with its own accounts, and its result in a directory of its name.
fn generator(at: Addresses, folder: &Path, (name, users, seed): (&str, &str, &str), start_at: &str) -> Child {
    let imap = format!("imap://{}", at.imap);
    let words = ["run", "--workload", "koka-browse", "--imap", &imap, "--send", "append", "--password", "x"];
    let more = ["--users", users, "--seed", seed, "--out", name, "--force", "--start-at", start_at];
    let times = ["--ramp", "0s", "--warmup", "100ms", "--measure", "2s", "--think", "1ms", "--threads", "1"];
    program(&[&words[..], &more, &times].concat(), folder).spawn().unwrap()
}

/// Runs both at once. On a busy machine the programs may be ready after the time that was named:
/// then again, with a later one.
fn both(at: Addresses, folder: &Path) {
    for lead_s in [3, 15, 60, 240] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let start_at = (now + lead_s).to_string();
        let one = generator(at, folder, ("one", "user{1..2}@example.org", "1"), &start_at);
        let two = generator(at, folder, ("two", "user{3..4}@example.org", "2"), &start_at);
        let ended = [one, two].map(|child| child.wait_with_output().unwrap());
        if ended.iter().all(|output| output.status.success()) {
            return;
        }
        for output in &ended {
            let late =
                said(output).contains("name a later one") || said(output).contains("choose a later one");
            assert!(output.status.success() || late, "{}", said(output));
        }
    }
    panic!("the programs are never ready in time");
}

#[test]
fn the_merged_result_has_the_sums_of_both_generators() {
    let at = start(Faults::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let imap = format!("imap://{}", at.imap);
    let fill = ["populate", "--quiet", "--workload", "koka-browse", "--imap", &imap, "--password", "x"];
    let filled = load(&[&fill[..], &["--users", "user{1..4}@example.org"]].concat(), folder.path());
    assert!(filled.status.success(), "{}", said(&filled));
    both(at, folder.path());

    let merged = load(&["merge", "one", "two/", "--out", "all"], folder.path());
    assert!(merged.status.success(), "{}", said(&merged));
    let summary = String::from_utf8_lossy(&merged.stdout).into_owned();
    assert!(summary.starts_with("2 generators: ") && summary.contains("generator two: 2 users"), "{summary}");
    let [one, two, all] = ["one", "two", "all"].map(|name| result(&folder.path().join(name)));
    assert_eq!(all["clients"], 4);
    let sum = |of: &dyn Fn(&Value) -> u64| assert_eq!(of(&all), of(&one) + of(&two));
    for field in ["count", "errors", "bytes_in", "bytes_out"] {
        sum(&|result| result["total"][field].as_u64().unwrap());
    }
    assert!(one["total"]["count"].as_u64().unwrap() > 0 && two["total"]["count"].as_u64().unwrap() > 0);
    sum(&|result| {
        let buckets = result["total"]["histogram_us"].as_array().unwrap();
        buckets.iter().map(|bucket| bucket[1].as_u64().unwrap()).sum()
    });
    for row in all["transactions"].as_array().unwrap() {
        sum(&|result| {
            let rows = result["transactions"].as_array().unwrap();
            let same = rows.iter().find(|r| r["name"] == row["name"]);
            same.map_or(0, |r| r["summary"]["count"].as_u64().unwrap())
        });
    }
    // Both began at one time by one clock, so their windows are one.
    let start_of = |result: &Value| result["clock"]["start_unix_s"].as_f64().unwrap();
    assert!((start_of(&one) - start_of(&two)).abs() < 0.1, "{} {}", one["clock"], two["clock"]);
    let names: Vec<&str> =
        all["generators"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    let page = std::fs::read_to_string(folder.path().join("all/report.html")).unwrap();
    assert!(page.contains("2 generators: one and two"), "the report names them");
    // It is a result as any other.
    let compared = load(&["report", "all", "one"], folder.path());
    assert!(compared.status.success(), "{}", said(&compared));
    refusals(folder.path());
}

fn refusals(folder: &Path) {
    let refused = |words: &[&str]| {
        let output = load(words, folder);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    };
    let text = refused(&["merge", "one", "one", "--out", "twice"]);
    assert!(text.contains("drove the same accounts, for instance user1@example.org"), "{text}");
    let text = refused(&["merge", "all", "one", "--out", "twice"]);
    assert!(text.contains("all is a merged result"), "{text}");
    // The second one as if it had begun a second later.
    let mut later = result(&folder.join("two"));
    let start = later["clock"]["start_unix_s"].as_f64().unwrap();
    later["clock"]["start_unix_s"] = (start + 1.0).into();
    std::fs::create_dir(folder.join("later")).unwrap();
    std::fs::write(folder.join("later/results.json"), later.to_string()).unwrap();
    let text = refused(&["merge", "one", "later", "--out", "half"]);
    assert!(text.contains("s of 2.00 s") && text.contains("--start-at"), "{text}");
    assert!(!folder.join("half").exists(), "nothing is written");
    let lower = load(&["merge", "one", "later", "--out", "half", "--overlap", "0.3"], folder);
    assert!(lower.status.success(), "{}", said(&lower));
    let past = ["run", "--workload", "inbox-sync", "--imap", "imap://127.0.0.1:9", "--users", "u"];
    let text = refused(&[&past[..], &["--password", "x", "--start-at", "1970-01-01T00:00:09Z"]].concat());
    assert!(text.contains("--start-at") && text.contains("name a later one"), "{text}");
}
