//! The filled store is put back before each point: every point of every server begins with the same
//! mail, and with a server that was just started.
//!
//! A server is filled once and stopped, and its folder is set aside. Before each point a copy of
//! that folder takes the place of the one that was measured in. One server runs at a time, and the
//! servers take turns at each point, round after round, as in [`super::side_by_side`].

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use posthaste_load_drive::Accounts;

use super::player::Player;
use super::position::StudyPosition;
use super::simulate::Stores;
use super::work::Work;
use crate::plan::Stage;
use crate::server::{ServerChoice, output};

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

/// The folder in which the filled store of a server's folder is kept.
pub(super) fn filled_beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".filled");
    folder.with_file_name(name)
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
            true => copy(&player.filled(), &player.folder),
            false => Ok(()),
        };
        let started = started.and_then(|()| work.start(player.which, &player.folder, place.stage, accounts));
        match started {
            Ok(instance) => {
                work.filled_bytes = player.is_ours_to_stop().then(|| allocated(&player.filled()));
                work.point(player.which, place, &instance, accounts);
                drop(instance);
                if player.is_ours_to_stop() {
                    work.clear(&player.folder);
                }
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

/// Makes a folder a copy of another one, with owners, times and holes, and waits until it is on the
/// disk. So no server is measured while the copy is written.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    let [source, target] = [from, to].map(|path| path.display().to_string());
    output(&["cp", "-a", "--reflink=auto", "--", &source, &target])?;
    let folder = fs::File::open(to).map_err(|e| format!("{target}: {e}"))?;
    // SAFETY: a descriptor that is open; nothing in memory is touched.
    match unsafe { libc::syncfs(folder.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(format!("{target}: {}", std::io::Error::last_os_error())),
    }
}

/// Bytes that the files of a folder take on the disk, without holes. A file with several names
/// counts once, and one that cannot be read as none.
fn allocated(path: &Path) -> u64 {
    allocated_besides(path, &mut HashSet::new())
}

fn allocated_besides(path: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !seen.insert((found.dev(), found.ino())) {
        return 0;
    }
    let within = fs::read_dir(path).into_iter().flatten().flatten();
    found.blocks() * 512 + within.map(|entry| allocated_besides(&entry.path(), seen)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_filled_one_again() {
        let work = tempfile::tempdir().unwrap();
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        fs::create_dir_all(filled.join("mail")).unwrap();
        fs::write(filled.join("mail/1"), "one").unwrap();
        copy(&filled, &folder).unwrap();
        fs::write(folder.join("mail/1"), "changed").unwrap();
        fs::write(folder.join("mail/2"), "more").unwrap();
        copy(&filled, &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("mail/1")).unwrap(), "one");
        assert!(!folder.join("mail/2").exists());
        assert!(copy(&work.path().join("missing"), &folder).is_err());
    }

    #[test]
    fn a_file_with_two_names_takes_its_bytes_once_also_in_a_copy() {
        let work = tempfile::tempdir().unwrap();
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        fs::create_dir_all(&filled).unwrap();
        fs::write(filled.join("1"), vec![7; 1 << 20]).unwrap();
        let one = allocated(&filled);
        fs::hard_link(filled.join("1"), filled.join("2")).unwrap();
        copy(&filled, &folder).unwrap();
        assert!(one >= 1 << 20);
        for both in [allocated(&filled), allocated(&folder)] {
            assert!(both < one + (1 << 19), "{both} after {one}");
        }
    }
}
