//! A mix of users is filled and run by the program, and each kind has its figures.

use std::process::{Command, Output};

use posthaste_load_null_server::{Faults, start};

fn load(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste-load")).args(words).output().unwrap()
}

#[test]
fn each_kind_of_users_has_accounts_and_figures_of_its_own() {
    let at = start(Faults::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mix = folder.path().join("mix.toml");
    let text = "name = 'mine'\ndescription = 'a mix'\n[[users]]\nworkload = 'koka-browse-frequencies'\nshare = 3\n\
                [[users]]\nworkload = 'inbox-sync'\nshare = 1\n";
    std::fs::write(&mix, text).unwrap();
    let (mix, out) = (mix.display().to_string(), folder.path().join("out").display().to_string());
    let imap = format!("imap://{}", at.imap);
    let common = ["--workload", &mix, "--imap", &imap, "--users", "u{0..3}@example.org", "--password", "x"];

    let filled = load(&[&["populate", "--quiet"][..], &common].concat());
    let said = String::from_utf8_lossy(&filled.stdout).into_owned();
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    assert!(
        said.contains("accounts of 240 messages") && said.contains("accounts of 1000 messages"),
        "{said}"
    );
    assert!(said.contains("3 accounts of 240"), "{said}");

    let times = [
        "--ramp",
        "0s",
        "--warmup",
        "100ms",
        "--measure",
        "5s",
        "--think",
        "0s",
        "--quiet",
        "--send",
        "append",
    ];
    let ran = load(&[&["run", "--out", &out][..], &common, &times].concat());
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(folder.path().join("out/results.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kinds: Vec<(&str, u64, bool)> = result["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| {
            let done = kind["total"]["count"].as_u64().unwrap() > 0;
            (kind["workload"].as_str().unwrap(), kind["clients"].as_u64().unwrap(), done)
        })
        .collect();
    assert_eq!(kinds, [("koka-browse-frequencies", 3, true), ("inbox-sync", 1, true)]);
    assert_eq!(result["clients"], 4);

    let audited = load(&[&["run", "--audit"][..], &common, &times].concat());
    assert!(!audited.status.success());
    assert!(String::from_utf8_lossy(&audited.stderr).contains("--audit"), "a mix has none");
    let alone = load(&[&["run", "--clients", "1"][..], &common, &times].concat());
    assert!(String::from_utf8_lossy(&alone.stderr).contains("2 kinds of users"));
}

const STUDY: &str = r#"
name = "together"
description = "two kinds of users at once"
analysis = "compare"
workloads = ["online-and-cached-large"]
think = "5ms"
sizes = "fixed:1k"
sweep = [{ items = [20, 40], clients = [4] }]
time = { ramp = "0s", warmup = "0s", measure = "700ms" }
"#;

#[test]
fn a_study_measures_a_mix_with_accounts_for_each_kind() {
    let at = start(Faults::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("together.toml"), folder.path().join("out"));
    std::fs::write(&file, STUDY).unwrap();
    let server = format!("A=imap://{}", at.imap);
    let done = load(&[
        "study",
        file.to_str().unwrap(),
        "--server",
        &server,
        "--out",
        out.to_str().unwrap(),
        "--threads",
        "1",
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(out.join("results.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for (point, items) in points.iter().zip([20, 40]) {
        assert_eq!(point["workload"], "online-and-cached-large");
        let run = &point["run"]["Ok"];
        assert_eq!((&run["clients"], &run["workload"]["name"]), (&4.into(), &point["workload"]));
        let kinds: Vec<(&str, u64)> = run["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| (kind["workload"].as_str().unwrap(), kind["clients"].as_u64().unwrap()))
            .collect();
        assert_eq!(kinds, [("outlook-express", 3), ("inbox-sync", 1)]);
        let accounts = run["settings"]["accounts of inbox-sync"].as_str().unwrap();
        assert_eq!(accounts, format!("mix0-1-items{items}-{{0..0}}@example.org of {items} messages"));
        assert!(run["outcome"]["clean"].as_bool().unwrap(), "{}", run["outcome"]["headline"]);
    }
    let titles: Vec<&str> = result["analysis"]["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| table["title"].as_str().unwrap())
        .collect();
    assert!(titles.contains(&"Median response time of each kind of users (ms)"), "{titles:?}");
}
