//! Every attack of `scripts/hostile` on a small scale: answers, memory and a neighbour that is
//! answered. Nothing here depends on how long anything takes; polls are judged by the CPU time that
//! they use.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_hostile::{ATTACKS, Rules, Scale, Stage, try_attack};
use posthaste_testkit::ServerBuilder;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");

#[test]
fn every_attack_is_held() {
    let (dns, folder) = (Stage::name_server(), tempfile::tempdir().unwrap());
    let config = folder.path().join("hostile.toml");
    // So few connections that the attack `full` takes all that it can have.
    std::fs::write(&config, Stage::settings(&dns) + "[limits]\nconnections = 400\n").unwrap();
    let server = ServerBuilder::new(BINARY).arg("--config").arg(config.to_string_lossy());
    let stage = Stage::new(Stage::listen(server).start(), Scale::Quick).unwrap();
    let mut broken = Vec::new();
    for attack in ATTACKS {
        let row = try_attack(&stage, attack, &Rules::Counts);
        println!("{row}");
        if !row.faults.is_empty() {
            broken.push(row.to_string());
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    // A debug build logs each poll that used over 100 ms of CPU time.
    let polls = stage.long_polls();
    assert!(polls.is_empty(), "\n{}", polls.join("\n"));
}
