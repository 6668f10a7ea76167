//! Kinds of heavy work at once. Each has threads of its own, one fewer than there are processors.
//! So together they may have more of them than there are processors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::outcome::Outcome;
use super::{commands, logins, verification};
use crate::{Scale, Stage};

/// Does it once, or at full scale again and again until the others are over.
fn beside(stage: &Stage, is_over: &AtomicBool, run: fn(&Stage) -> Outcome) -> Outcome {
    let mut said = run(stage)?;
    while stage.scale == Scale::Full && !is_over.load(Ordering::Relaxed) {
        said = run(stage)?;
    }
    Ok(said)
}

/// Guessed passwords take longest: mail is verified and searched until they are over.
pub fn heavy(stage: &Stage) -> Outcome {
    let is_over = &AtomicBool::new(false);
    let outcomes = std::thread::scope(|scope| {
        let guessing = scope.spawn(move || logins::logins(stage));
        let verifying = scope.spawn(move || beside(stage, is_over, verification::headers));
        let searching = scope.spawn(move || beside(stage, is_over, commands::search));
        while !guessing.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
        [guessing, verifying, searching].map(|attack| attack.join())
    });
    let mut said = Vec::new();
    for outcome in outcomes {
        said.push(outcome.map_err(|_| "an attacker panicked".to_owned())??);
    }
    Ok(said.join("; "))
}
