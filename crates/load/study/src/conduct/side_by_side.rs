//! Servers side by side: all of them run at once and take turns at each point, round after round.
//!
//! A machine's speed changes over minutes. Servers measured one after the other get different
//! machines; servers that take turns within seconds get the same one. The server that begins
//! changes from round to round, so that no server always follows the same one. For the same reason
//! all numbers of nodes of a cluster are measured in each round.

use std::ops::Range;
use std::time::Instant;

use posthaste_load_drive::Accounts;

use super::player::Player;
use super::position::StudyPosition;
use super::work::Work;
use crate::file::Study;
use crate::plan::Stage;
use crate::server::Instance;

/// Measures all points on all servers, in turn.
///
/// # Errors
/// The study's accounts cannot be named. A failure of one server is recorded with its points.
pub(super) fn side_by_side(work: &mut Work) -> Result<(), String> {
    let accounts = work.accounts()?;
    let mut players = Player::all(work);
    let plan = work.plan;
    'all: for rounds in starts(work.study) {
        for stage in &plan.stages {
            let of = |number| Round { stage, number, accounts: &accounts };
            let begun = players.iter_mut().map(|player| begin(work, player, of(rounds.start), &rounds));
            let mut instances: Vec<Option<Instance>> = begun.collect();
            for round in rounds.clone() {
                take_turns(work, &players, &mut instances, of(round));
            }
            if work.is_over() {
                break 'all;
            }
        }
    }
    players.iter().for_each(|player| work.clear(&player.folder));
    Ok(())
}

/// The rounds for which servers are started once. All of them, if stages differ by what each server
/// has to itself. Numbers of nodes are compared with each other, so each round has all of them.
fn starts(study: &Study) -> impl Iterator<Item = Range<u32>> {
    let together = study.nodes_max().map_or(study.rounds, |_| 1);
    (0..study.rounds).step_by(together.max(1) as usize).map(move |first| first..first + together)
}

/// Starts a server for rounds of a stage, and fills it the first time. `None` if it cannot take
/// part.
fn begin(work: &mut Work, player: &mut Player, first: Round, rounds: &Range<u32>) -> Option<Instance> {
    let Round { stage, number, accounts } = first;
    if work.is_over() || !work.wants_in(rounds, player.which, stage) {
        return None;
    }
    if let Some(why) = &player.failed {
        work.not_measured(player.which, stage, number, why);
        return None;
    }
    work.say(&format!("starting {}", player.which.name()));
    let started = work.start(player.which, &player.folder, stage, accounts).and_then(|instance| {
        if !player.filled {
            work.fill(player.which, &instance, accounts)?;
            player.filled = true;
        }
        Ok(instance)
    });
    match started {
        Ok(instance) => {
            work.record.note_server(&instance.facts);
            Some(instance)
        }
        Err(why) => {
            // The stage may need processors or memory that this server cannot get.
            if stage.cpus.is_none() && stage.memory_mb.is_none() {
                work.record.note_failure(player.which.name(), &why);
                player.failed = Some(why.clone());
            }
            work.not_measured(player.which, stage, number, &why);
            None
        }
    }
}

/// One round of a stage.
#[derive(Clone, Copy)]
struct Round<'a> {
    stage: &'a Stage,
    number: u32,
    accounts: &'a [Accounts],
}

fn take_turns(work: &mut Work, players: &[Player], instances: &mut [Option<Instance>], round: Round) {
    let first = round.number as usize;
    for number in 0..round.stage.points.len() {
        let place = StudyPosition { stage: round.stage, number, round: round.number };
        let takes_part = |work: &Work, player: &Player, instance: &Option<Instance>| {
            instance.is_some() && work.wants(player.which, place)
        };
        let all = players.iter().zip(instances.iter());
        let count = all.filter(|(player, instance)| takes_part(work, player, instance)).count();
        if count == 0 {
            continue;
        }
        if !work.begins(place, count) {
            return;
        }
        for turn in 0..players.len() {
            let at = (first + turn) % players.len();
            let (Some(player), Some(running)) = (players.get(at), instances.get_mut(at)) else { continue };
            if work.is_over() {
                return;
            }
            if running.is_some() && work.wants(player.which, place) {
                let begun = Instant::now();
                work.make_cold(player.which, &player.folder, running, (place, round.accounts));
                if let Some(instance) = running {
                    work.point(player.which, place, instance, round.accounts);
                }
                work.budget.note(begun.elapsed());
            }
        }
    }
}
