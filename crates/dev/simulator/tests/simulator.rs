//! The embedded store after crashes and under damage, by the seeded simulator.
//!
//! A failure names its seed and state; `cargo run -p posthaste-simulator -- --seed S --state N`
//! with the flags it names tells the story.

#![allow(clippy::unwrap_used)]

use posthaste_simulator::damage::{Damage, Kind, Sample, Sweep, intact};
use posthaste_simulator::driver::{Driver, Opening, Strict, options};
use posthaste_simulator::image::{Files, Image, Keep, Names};
use posthaste_simulator::model::Knowledge;
use posthaste_simulator::op::Op;
use posthaste_simulator::random::Random;
use posthaste_simulator::record::Recorder;
use posthaste_simulator::run::{Settings, run};
use std::process::Command;
use std::sync::Arc;

/// Has the program look at so many different states; a finding is in its output, with the seed.
fn look_at(states: usize, flags: &[&str]) {
    let program = env!("CARGO_BIN_EXE_simulate");
    let output = Command::new(program).args(["--states", &states.to_string()]).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let counted = said.lines().find_map(|line| line.split_once(" states, ")?.0.parse::<usize>().ok());
    assert!(counted.is_some_and(|counted| counted >= states), "{said}");
}

/// Power cuts, a second process, a disk that fails and is full, rebuilds, which must find no fault.
#[test]
fn acknowledged_mail_survives_whatever_happens() {
    look_at(9_000, &[]);
}

/// The machine keeps running: all that was written is there for the next process.
#[test]
fn acknowledged_mail_survives_killed_processes() {
    look_at(1_000, &["--no-power", "--seed", "50000"]);
}

/// What was recorded is what is there: the recorder misses no write.
#[test]
fn the_log_makes_the_directory_again() {
    let base = Settings::all().base;
    for seed in 1..6 {
        let dir = tempfile::tempdir_in(&base).unwrap();
        let recorder = Recorder::watch(dir.path()).unwrap();
        let mut driver = Driver::new(Arc::clone(&recorder), Knowledge::default(), seed, 0, false)
            .with_options(options(seed));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for opening in [Opening::Serving, Opening::Command] {
            let engine = driver.open(opening).unwrap().unwrap();
            runtime.block_on(driver.steps(Some(&engine), 30)).unwrap();
            driver.end(engine, false);
        }
        driver.rebuild(Strict::Yes).unwrap();
        recorder.stop();
        let ops = recorder.ops();
        assert!(ops.iter().filter(|op| matches!(op, Op::Sync { .. })).count() > 30);
        assert!(ops.iter().any(|op| matches!(op, Op::Write { durable: true, .. })), "LMDB's meta page");
        let mut image = Image::of_files(&Files::new(), seed);
        image.advance(&ops, ops.len());
        let files = image.crash(None, Keep::All, Names::Journalled, &mut Random::new(seed, 0));
        for (path, content) in &files {
            // LMDB writes its lock file through a map, and makes it again at the next first open.
            if path.ends_with("lock.mdb") {
                continue;
            }
            match content {
                Some(bytes) => assert!(std::fs::read(dir.path().join(path)).unwrap() == *bytes, "{path}"),
                None => assert!(dir.path().join(path).is_dir(), "{path}"),
            }
        }
        assert_eq!(count(dir.path()), files.len());
    }
}

fn count(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    entries.map(|e| 1 + if e.file_type().unwrap().is_dir() { count(&e.path()) } else { 0 }).sum()
}

/// A state is the same whenever it is made: a failure can be had again.
#[test]
fn a_seed_always_gives_the_same_states() {
    let settings = Settings { faults: false, ..Settings::all() };
    let first = run(7, &settings, None).unwrap();
    let second = run(7, &settings, None).unwrap();
    assert!(first.states > 20);
    assert_eq!((first.states, first.operations), (second.states, second.operations));
}

/// Bytes of packs, and the places of bodies in them: what is damaged is an error for its own
/// messages, and for no others.
#[test]
fn damage_in_packs_concerns_its_own_messages() {
    let base = Settings::all().base;
    let sample = Sample::make(1, &base).unwrap();
    intact(&sample, &base).unwrap();
    let mut sweep = Sweep::new(env!("CARGO_BIN_EXE_simulate").into(), 1).without_rebuild();
    let all = sample.all(64);
    let packs = all.iter().filter(|d| d.file.ends_with(".pack") && d.kind != Kind::Unreadable);
    let some: Vec<&Damage> = packs.step_by(37).take(300).collect();
    assert!(some.len() > 100);
    for damage in some {
        sweep.judge(damage).unwrap().unwrap_or_else(|violation| panic!("{damage}: {violation}"));
    }
}
