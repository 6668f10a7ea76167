//! The filled store is put back before each point: every point of every server begins with the same
//! mail, and with a server that was just started.
//!
//! A server is filled once and stopped, and its folder is set aside. Before each point, the folder
//! that was measured in is made a copy of that again. One server runs at a time, and the
//! servers take turns at each point, round after round, as in [`super::side_by_side`].

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use posthaste_load_drive::Accounts;

use super::copies::{allocated, filled_beside, put_back};
use super::player::Player;
use super::position::StudyPosition;
use super::simulate::Stores;
use super::work::Work;
use crate::plan::Stage;
use crate::server::ServerChoice;

impl Player<'_> {
    /// A server that already runs is measured as it is.
    fn is_ours_to_stop(&self) -> bool {
        !matches!(self.which, ServerChoice::Running(_))
    }

    /// The folder in which its filled store is kept.
    fn filled(&self) -> PathBuf {
        filled_beside(&self.folder)
    }
}

/// Measures all points on all servers, in turn.
///
/// # Errors
/// The study's accounts cannot be named. A failure of one server is recorded with its points.
pub(super) fn one_at_a_time(work: &mut Work) -> Result<(), String> {
    let accounts = work.accounts()?;
    let plan = work.plan;
    let mut players = Player::all(work);
    for player in &mut players {
        if work.is_over() {
            break;
        }
        if !work.wants_server(player.which) {
            continue;
        }
        if let Err(why) = fill(work, player, &accounts) {
            let why = format!("{}: {why}", player.which.name());
            for stage in &plan.stages {
                work.not_measured(player.which, stage, 0, &why);
            }
            work.record.note_failure(player.which.name(), &why);
            player.failed = Some(why);
        }
    }
    for round in 0..work.study.rounds {
        for stage in &plan.stages {
            for number in 0..stage.points.len() {
                let place = StudyPosition { stage, number, round };
                take_turns(work, &players, place, &accounts);
            }
        }
    }
    for player in &players {
        if player.filled && work.wants_simulation(player.which) && !work.is_over() {
            let filled = player.is_ours_to_stop().then(|| player.filled());
            work.simulate(player.which, Stores { filled, folder: &player.folder }, &accounts);
        }
        work.clear(&player.folder);
        work.clear(&player.filled());
    }
    Ok(())
}

/// Fills a server, stops it, and sets its folder aside.
fn fill(work: &mut Work, player: &mut Player, accounts: &[Accounts]) -> Result<(), String> {
    work.say(&format!("starting {}", player.which.name()));
    // Mail of a study that was killed is no beginning for this one.
    if player.is_ours_to_stop() && player.folder.exists() {
        fs::remove_dir_all(&player.folder).map_err(|e| format!("{}: {e}", player.folder.display()))?;
    }
    let plain = Stage::default();
    let instance = work.start(player.which, &player.folder, &plain, accounts)?;
    work.fill(player.which, &instance, accounts)?;
    work.record.note_server(&instance.facts);
    player.filled = true;
    drop(instance);
    if player.is_ours_to_stop() {
        let filled = player.filled();
        if filled.exists() {
            fs::remove_dir_all(&filled).map_err(|e| format!("{}: {e}", filled.display()))?;
        }
        fs::rename(&player.folder, &filled).map_err(|e| format!("{}: {e}", filled.display()))?;
    }
    Ok(())
}

/// One point on all servers. Another server begins in each round.
fn take_turns(work: &mut Work, players: &[Player], place: StudyPosition, accounts: &[Accounts]) {
    let takes_part =
        |work: &Work, player: &Player| player.failed.is_none() && work.wants(player.which, place);
    let count = players.iter().filter(|player| takes_part(work, player)).count();
    if count == 0 || !work.begins(place, count) {
        return;
    }
    let first = place.round as usize;
    for turn in 0..players.len() {
        let Some(player) = players.get((first + turn) % players.len()) else { continue };
        if work.is_over() {
            return;
        }
        if !takes_part(work, player) {
            continue;
        }
        let begun = Instant::now();
        let started = match player.is_ours_to_stop() {
            true => put_back(&player.filled(), &player.folder),
            false => Ok(()),
        };
        let started = started.and_then(|()| work.start(player.which, &player.folder, place.stage, accounts));
        match started {
            Ok(instance) => {
                work.filled_bytes = player.is_ours_to_stop().then(|| allocated(&player.filled()));
                work.point(player.which, place, &instance, accounts);
                drop(instance);
                work.budget.note(begun.elapsed());
            }
            Err(why) => {
                let point = place.stage.points.get(place.number).cloned();
                let only = Stage { points: point.into_iter().collect(), ..*place.stage };
                work.not_measured(player.which, &only, place.round, &why);
            }
        }
    }
}
