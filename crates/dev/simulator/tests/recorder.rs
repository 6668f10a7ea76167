//! The recorder and the seeds, in one process that starts no other.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use posthaste_simulator::driver::{Driver, Opening, Strict, options};
use posthaste_simulator::image::{Files, Image, Keep, Names};
use posthaste_simulator::model::Knowledge;
use posthaste_simulator::op::Op;
use posthaste_simulator::random::Random;
use posthaste_simulator::record::Recorder;
use posthaste_simulator::run::{Settings, run};
use posthaste_simulator::serial;

/// The record equals the directory: the recorder misses no write.
#[test]
fn the_log_restores_the_directory() {
    let _serial = serial();
    let base = Settings::all().base;
    for seed in 1..6 {
        let dir = tempfile::tempdir_in(&base).unwrap();
        let recorder = Recorder::watch(dir.path()).unwrap();
        let mut driver =
            Driver::new(Arc::clone(&recorder), Knowledge::default(), seed, 0).with_options(options(seed));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for opening in [Opening::Serving, Opening::Command] {
            let engine = driver.open(opening).unwrap().unwrap();
            runtime.block_on(driver.steps(Some(&engine), 30)).unwrap();
            driver.close(engine);
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

/// A state is the same whenever it is made: a failure can be repeated.
#[test]
fn a_seed_always_gives_the_same_states() {
    let _serial = serial();
    let settings = Settings { faults: false, ..Settings::all() };
    let first = run(7, &settings, None).unwrap();
    let second = run(7, &settings, None).unwrap();
    assert!(first.states > 20);
    assert_eq!((first.states, first.operations), (second.states, second.operations));
}
