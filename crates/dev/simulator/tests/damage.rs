//! The embedded store under damage. In a process of its own, as in `recorder.rs`.

#![allow(clippy::unwrap_used)]

use posthaste_simulator::damage::{Damage, Kind, Sample, Sweep, intact};
use posthaste_simulator::run::Settings;
use posthaste_simulator::serial;

/// Flips, zeroes and unreadable sectors in all files: an open store answers right or with an error,
/// and a rebuild keeps what the damage does not concern.
#[test]
fn damage_concerns_its_own_messages_and_a_rebuild_keeps_the_others() {
    let _serial = serial();
    let base = Settings::all().base;
    let sample = Sample::make(1, &base).unwrap();
    intact(&sample, &base).unwrap();
    let mut sweep = Sweep::new(env!("CARGO_BIN_EXE_simulate").into(), 1);
    let some: Vec<Damage> = sample.all(512).into_iter().step_by(15).collect();
    assert!(some.len() > 500 && some.iter().any(|d| d.file.starts_with("index/")));
    for damage in &some {
        sweep.judge(damage).unwrap().unwrap_or_else(|violation| panic!("{damage}: {violation}"));
    }
}

/// A page of the index, and a file beside it, that the disk cannot read, before the store is opened
/// and while it is open.
#[test]
fn parts_that_cannot_be_read_end_nothing_silently() {
    let _serial = serial();
    let base = Settings::all().base;
    let sample = Sample::make(1, &base).unwrap();
    let mut sweep = Sweep::new(env!("CARGO_BIN_EXE_simulate").into(), 1);
    let all = sample.all(4096);
    let outside_packs = |d: &&Damage| !d.file.ends_with(".pack");
    for kind in [Kind::Unreadable, Kind::Fails] {
        let some: Vec<&Damage> = all.iter().filter(|d| d.kind == kind).filter(outside_packs).collect();
        assert!(some.len() > 20, "{}", some.len());
        for damage in some.into_iter().step_by(4) {
            sweep.judge(damage).unwrap().unwrap_or_else(|violation| panic!("{damage}: {violation}"));
        }
    }
}
