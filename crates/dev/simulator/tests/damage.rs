//! The embedded store under damage. In a process of its own, as in `recorder.rs`.

#![allow(clippy::unwrap_used)]

use posthaste_simulator::damage::{Damage, Kind, Sample, Sweep, intact};
use posthaste_simulator::run::Settings;

/// Bytes of packs, and the places of bodies in them: damage is an error for its own messages, and
/// for no others.
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
