//! The embedded store after crashes, by the seeded simulator.
//!
//! A failure names its seed and state; `cargo run -p posthaste-simulator -- --seed S --state N`
//! with the flags it names prints the story.

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Has the program look at this many different states; a finding is in its output, with the seed.
fn look_at(states: usize, flags: &[&str]) {
    let program = env!("CARGO_BIN_EXE_simulate");
    let output = Command::new(program).args(["--states", &states.to_string()]).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let counted = said.lines().find_map(|line| line.split_once(" states, ")?.0.parse::<usize>().ok());
    assert!(counted.is_some_and(|counted| counted >= states), "{said}");
}

/// Power cuts, a second process, a disk that fails and is full, rebuilds, which must find no fault.
/// Processes that act at the same time have a test of their own.
#[test]
fn acknowledged_mail_survives_whatever_happens() {
    look_at(5_000, &["--together", "0", "--rebuild-at-once", "3"]);
}

/// Several processes write to one store at the same time, and copy it. At each operation and lock
/// the seed decides which of them continues.
#[test]
fn acknowledged_mail_survives_writers_and_copies_at_the_same_time() {
    look_at(600, &["--together", "100", "--seed", "31000006"]);
}

/// A process opens while another one makes its first pack, and looks at that pack before it writes.
#[test]
fn a_pack_that_is_made_during_an_opening_is_seen() {
    let state = ["--seed", "42000034", "--state", "13", "--together", "100", "--rebuild-at-once", "3"];
    let output = Command::new(env!("CARGO_BIN_EXE_simulate")).args(state).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("0 findings"), "{said}");
}

/// The machine keeps running: all that was written is there for the next process.
#[test]
fn acknowledged_mail_survives_killed_processes() {
    look_at(400, &["--no-power", "--seed", "50000", "--together", "0"]);
}
