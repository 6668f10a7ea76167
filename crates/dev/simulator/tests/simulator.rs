//! The embedded store after crashes and under damage, by the seeded simulator.
//!
//! A failure names its seed and state; `cargo run -p posthaste-simulator -- --seed S --state N` with the flags it names tells the story.

#![allow(clippy::unwrap_used)]

use posthaste_simulator::damage::{Damage, Kind, Sample, Sweep, intact};
use posthaste_simulator::driver::{Driver, Opening, options};
use posthaste_simulator::image::{Files, Image, Keep, Names};
use posthaste_simulator::model::Knowledge;
use posthaste_simulator::random::Random;
use posthaste_simulator::record::{Op, Recorder};
use posthaste_simulator::run::{Settings, run};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Runs seeds on two threads until so many different states were looked at.
fn look_at(states: usize, settings: &Settings, flags: &str) {
    let (next, seen) = (AtomicU64::new(1), AtomicUsize::new(0));
    let findings = Mutex::new(Vec::new());
    let work = || {
        while seen.load(Ordering::Relaxed) < states && findings.lock().unwrap().is_empty() {
            let outcome = run(next.fetch_add(1, Ordering::Relaxed), settings, None).unwrap();
            seen.fetch_add(outcome.states, Ordering::Relaxed);
            findings.lock().unwrap().extend(outcome.findings);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let findings = findings.into_inner().unwrap();
    if let Some(f) = findings.first() {
        let again = format!("simulate --seed {} --state {} {flags}", f.seed, f.state);
        panic!("{}{}\nagain: {again}", f.story, f.violation);
    }
    assert!(seen.into_inner() >= states);
}

#[test]
fn acknowledged_mail_survives_killed_processes() {
    let settings =
        Settings { power: false, faults: false, posix_names: false, rebuild: false, ..Settings::all() };
    look_at(2_000, &settings, "--no-power --no-faults --no-posix-names --no-rebuild");
}

#[test]
fn acknowledged_mail_survives_power_cuts() {
    let settings = Settings {
        faults: false,
        posix_names: false,
        rebuild: false,
        from_first_answer: true,
        ..Settings::all()
    };
    look_at(8_000, &settings, "--no-faults --no-posix-names --no-rebuild --from-first-answer");
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
        driver.rebuild().unwrap();
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

/// Bytes of packs, and the places of bodies in them: what is damaged is an error for its own messages, and for no others.
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
