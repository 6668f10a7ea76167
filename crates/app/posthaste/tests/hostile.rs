//! Every attack of `scripts/hostile` on a small scale: answers, memory and a neighbour that is
//! answered. Nothing here depends on how long anything takes. Polls are judged by the CPU time that
//! they use each time that an attack is tried.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use posthaste_hostile::{ATTACKS, Attack, Poll, Rules, Scale, Stage, try_attack};
use posthaste_testkit::ServerBuilder;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
/// How many times an attack is tried until a long poll of the same task counts. A poll that
/// computes too much does so each time. One whose processor was slow for a moment does not.
const TRIES: usize = 3;
/// Attacks before one, whose work in the background may be done during it.
const BEFORE: usize = 2;

/// The attacks so far.
struct Tried {
    stage: Stage,
    broken: Vec<String>,
    /// Lines about long polls that were read.
    polls: usize,
}

impl Tried {
    /// Tries an attack. The result is the tasks whose long polls were logged since the last one.
    fn attack(&mut self, attack: &Attack) -> BTreeSet<String> {
        let row = try_attack(&self.stage, attack, &Rules::Counts);
        println!("{row}");
        if !row.faults.is_empty() {
            self.broken.push(row.to_string());
        }
        // A debug build logs each poll that used over 100 ms of CPU time.
        let new = self.stage.long_polls().split_off(self.polls);
        self.polls += new.len();
        let task = |line: &String| {
            println!("{line}");
            Poll::read(line).unwrap().task
        };
        new.iter().map(task).collect()
    }
}

#[test]
fn every_attack_is_held() {
    let (dns, folder) = (Stage::name_server(), tempfile::tempdir().unwrap());
    let config = folder.path().join("hostile.toml");
    // So few connections that the attack `full` takes all that it can have.
    std::fs::write(&config, Stage::settings(&dns) + "[limits]\nconnections = 400\n").unwrap();
    let server = ServerBuilder::new(BINARY).arg("--config").arg(config.to_string_lossy());
    let stage = Stage::new(Stage::listen(server).start(), Scale::Quick).unwrap();
    let mut tried = Tried { stage, broken: Vec::new(), polls: 0 };
    let tasks: Vec<_> = ATTACKS.iter().map(|attack| tried.attack(attack)).collect();
    for (number, mut tasks) in tasks.into_iter().enumerate() {
        for _ in 1..TRIES {
            if tasks.is_empty() {
                break;
            }
            let attacks = &ATTACKS[number.saturating_sub(BEFORE)..=number];
            let again: BTreeSet<_> = attacks.iter().flat_map(|attack| tried.attack(attack)).collect();
            tasks.retain(|task| again.contains(task));
        }
        if !tasks.is_empty() {
            tried.broken.push(format!("{}: polls of over 100 ms by {tasks:?}", ATTACKS[number].name));
        }
    }
    assert!(tried.broken.is_empty(), "\n{}", tried.broken.join("\n"));
}
