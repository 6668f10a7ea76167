//! Every attack of `scripts/hostile` on a small scale: answers, memory and a neighbour that is
//! answered. Nothing here depends on how long anything takes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use posthaste_hostile::{ATTACKS, Rules, Scale, Stage, try_attack};
use posthaste_testkit::ServerBuilder;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");

#[test]
fn every_attack_is_held() {
    let stage = Stage::new(Stage::listen(ServerBuilder::new(BINARY)).start(), Scale::Quick).unwrap();
    let mut broken = Vec::new();
    for attack in ATTACKS {
        let row = try_attack(&stage, attack, &Rules::Counts);
        println!("{row}");
        if !row.faults.is_empty() {
            broken.push(row.to_string());
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
