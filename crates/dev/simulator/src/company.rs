//! Several processes that write to one store at the same time, and how the seed interleaves them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_store_lmdb::Options;

use crate::actor::{Actor, Ended, State};
use crate::copying::{Copy, Way, place_of};
use crate::driver::sight::States;
use crate::driver::{Opening, options};
use crate::gate::{At, Leave};
use crate::model::{Knowledge, Timeline};
use crate::random::Random;
use crate::record::{Failure, Recorder};
use crate::verify::Violation;

/// The process that copies. The processes before it write.
const COPIER: usize = 2;

/// A command on the copy: the length of the log when it began and ended, and the contents of the
/// copy then.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    way: Way,
    start: usize,
    end: usize,
    /// `None` if it did not finish.
    copy: Option<Arc<Copy>>,
}

/// All processes.
pub(crate) struct Company {
    recorder: Arc<Recorder>,
    random: Random,
    options: Options,
    actors: Vec<Actor>,
    faulty: bool,
    /// Changes whenever a process continued.
    progress: usize,
    /// For each process, the progress at which it met a lock that somebody had.
    waited: Vec<Option<usize>>,
    /// Commands that are still to be given.
    left: usize,
    /// The copier's running command: its kind and its beginning.
    copying: Option<(Way, usize)>,
    copied: Vec<Copied>,
    rebuilds: bool,
    /// Whether any of them began to make the index again.
    rebuilt: bool,
    /// A directory of its own, for reading the copy.
    copy_dir: PathBuf,
}

impl Company {
    pub(crate) fn new(
        program: &Path,
        seed: u64,
        recorder: &Arc<Recorder>,
        copy_dir: PathBuf,
        (faulty, rebuilds): (bool, bool),
        steps: usize,
    ) -> Self {
        let mut random = Random::new(seed, 10);
        // A second writer, a copier, or both.
        let numbers: &[usize] = match random.below(4) {
            0 | 1 => &[0, 1],
            2 => &[0, COPIER],
            _ => &[0, 1, COPIER],
        };
        let states = States::default();
        let actor =
            |number: &usize| Actor::new(program.to_owned(), seed, *number, recorder, faulty).sharing(&states);
        Self {
            recorder: Arc::clone(recorder),
            random,
            options: options(seed),
            actors: numbers.iter().map(actor).collect(),
            faulty,
            progress: 0,
            waited: vec![None; numbers.len()],
            left: steps,
            copying: None,
            copied: Vec::new(),
            rebuilds,
            rebuilt: false,
            copy_dir,
        }
    }

    /// Has them live until all commands were given and executed, and ends them.
    pub(crate) fn live(&mut self) -> Result<(), Violation> {
        let lived = self.all_commands();
        // The next operation of each may be there, also where one of them met a violation.
        let killed: Vec<Result<(), Violation>> = self.actors.iter_mut().map(Actor::kill).collect();
        lived?;
        killed.into_iter().collect::<Result<(), Violation>>()?;
        self.judge_backups()
    }

    fn all_commands(&mut self) -> Result<(), Violation> {
        let mut current = 0;
        while self.goes_on() {
            let ready: Vec<usize> = (0..self.actors.len()).filter(|n| self.is_ready(*n)).collect();
            if !ready.contains(&current) || self.random.chance(25) {
                let Some(next) = self.random.pick(&ready) else { return Err(self.stuck()) };
                current = *next;
            }
            self.advance(current)?;
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.left > 0 || self.actors.iter().any(|a| a.state != State::Idle)
    }

    fn stuck(&self) -> Violation {
        let all: Vec<String> = self.actors.iter().map(Actor::doing).collect();
        format!("each process waits for another one: {}", all.join(", "))
    }

    /// Whether any process waits for a lock that another one has.
    fn is_any_waiting(&self) -> bool {
        self.actors.iter().any(|a| a.state == State::Waits(At::TakenLock))
    }

    fn is_ready(&self, n: usize) -> bool {
        let Some(actor) = self.actors.get(n) else { return false };
        match actor.state {
            // One that has commits in an open transaction ends it after some time.
            State::Idle => self.left > 0 || (self.is_any_waiting() && actor.open.is_some()),
            State::Waits(At::TakenLock) => self.waited.get(n).copied().flatten() != Some(self.progress),
            State::Waits(_) => true,
        }
    }

    fn advance(&mut self, n: usize) -> Result<(), Violation> {
        let Some(actor) = self.actors.get_mut(n) else { return Ok(()) };
        let is_copier = actor.number() == COPIER;
        if actor.state != State::Idle && self.random.below(300) == 0 {
            actor.kill()?;
            self.progress += 1;
            if is_copier {
                self.copier_ended(None);
            }
            return Ok(());
        }
        let was = actor.state;
        let ended = match was {
            State::Idle => {
                let command = if is_copier { self.copier_command() } else { self.command(n) };
                let Some(actor) = self.actors.get_mut(n) else { return Ok(()) };
                self.left = self.left.saturating_sub(1);
                match command {
                    Some(command) => {
                        self.rebuilt |= command == "rebuild";
                        actor.command(&command)?
                    }
                    None => {
                        actor.kill()?;
                        None
                    }
                }
            }
            State::Waits(at) => {
                let leave = self.leave(at);
                let Some(actor) = self.actors.get_mut(n) else { return Ok(()) };
                actor.resume(leave)?
            }
        };
        let now = self.actors.get(n).map_or(State::Idle, |a| a.state);
        let is_stopped = now == State::Waits(At::TakenLock);
        if !(is_stopped && was == now) {
            self.progress += 1;
        }
        if let Some(waited) = self.waited.get_mut(n) {
            *waited = is_stopped.then_some(self.progress);
        }
        match ended {
            None => Ok(()),
            Some((command, Ended::Done)) => {
                if command == "rebuild" {
                    self.others_begin_again(n)?;
                }
                if is_copier { self.copier_has_copied() } else { Ok(()) }
            }
            Some((command, Ended::Refused(why))) => {
                // One that makes the index again keeps others out. So does one that makes the
                // store: a server waits for it, but here it does not continue meanwhile.
                let is_made = why.contains("by process unknown");
                if command.starts_with("open") && !self.faulty && !self.rebuilt && !is_made {
                    return Err(format!("{command} is refused: {why}"));
                }
                // It tries again while that one continues.
                if self.actors.iter().any(|a| a.state != State::Idle) {
                    self.left += 1;
                }
                if is_copier {
                    self.copier_ended(None);
                }
                Ok(())
            }
        }
    }

    /// After a rebuild, the others would know the files by the names they had.
    fn others_begin_again(&mut self, n: usize) -> Result<(), Violation> {
        for other in (0..self.actors.len()).filter(|other| *other != n) {
            let Some(actor) = self.actors.get_mut(other) else { continue };
            actor.kill()?;
            if actor.number() == COPIER {
                self.copier_ended(None);
            }
        }
        Ok(())
    }

    /// Whether the operation fails.
    fn leave(&mut self, at: At) -> Leave {
        if !self.faulty || at != At::Operation {
            return Leave::Go;
        }
        match self.random.below(400) {
            0 | 1 => Leave::Fail(Failure::Whole),
            2 => Leave::Fail(Failure::Half),
            3..5 => Leave::Full,
            _ => Leave::Go,
        }
    }

    /// The next command of a process that writes; `None`: it is killed.
    fn command(&mut self, n: usize) -> Option<String> {
        let open = self.actors.get(n).and_then(|a| a.open);
        let is_any_waiting = self.is_any_waiting();
        let is_made = self.recorder.root().join("format").exists();
        let word = match open {
            None if self.rebuilds && is_made && self.random.chance(6) => "rebuild",
            // One server at a time.
            None if n == 0 && self.random.chance(65) => "open serving",
            None => "open command",
            Some(Opening::Serving) if is_any_waiting && (self.left == 0 || self.random.chance(50)) => "tick",
            Some(_) if self.left == 0 => "close",
            Some(opening) => match self.random.below(100) {
                0..4 => "check",
                4..9 => "close",
                9..12 => return None,
                12..16 if opening == Opening::Serving => "tick",
                _ => "step",
            },
        };
        Some(word.into())
    }

    fn copier_command(&mut self) -> Option<String> {
        if self.random.chance(10) {
            return None;
        }
        let way = self.random.pick(&Way::ALL).copied().unwrap_or(Way::Out);
        self.copying = Some((way, self.recorder.len()));
        Some(way.word().into())
    }

    /// The copier's command was done.
    fn copier_has_copied(&mut self) -> Result<(), Violation> {
        let is_there = place_of(self.recorder.root()).join("format").exists();
        let copy = if is_there && self.copying.is_some() { Some(Arc::new(self.read_copy()?)) } else { None };
        self.copier_ended(copy);
        Ok(())
    }

    /// The copier's command ended, with this copy or without one.
    fn copier_ended(&mut self, copy: Option<Arc<Copy>>) {
        let Some((way, start)) = self.copying.take() else { return };
        let end = self.recorder.len();
        self.copied.push(Copied { way, start, end, copy });
    }

    /// Reads the copy in another place: opening it would be seen in the log.
    fn read_copy(&self) -> Result<Copy, Violation> {
        let failed = |e: std::io::Error| e.to_string();
        let files = crate::damage::files_of(&place_of(self.recorder.root())).map_err(failed)?;
        crate::image::materialise(&files, &place_of(&self.copy_dir)).map_err(failed)?;
        let read = Copy::read(&self.copy_dir, &self.options);
        let copy = futures_util::FutureExt::now_or_never(read);
        std::fs::remove_dir_all(&self.copy_dir).map_err(failed)?;
        copy.unwrap_or_else(|| Err("reading the copy waits".into()))
    }

    /// A backup has the contents of the store at one instant between the command's beginning and
    /// its end.
    fn judge_backups(&self) -> Result<(), Violation> {
        let backups = self.copied.iter().filter(|c| c.way == Way::Backup);
        for Copied { start, end, copy, .. } in backups {
            let Some(copy) = copy else { continue };
            let moments = self.actors.iter().flat_map(|a| &a.driver.timeline.moments);
            let instants = moments.flat_map(|m| [m.start, m.end]).filter(|at| (start..=end).contains(&at));
            let mut first = None;
            let mut is_one = |at: usize| match copy.difference(&self.known_at(at)) {
                None => true,
                Some(difference) => {
                    first.get_or_insert(difference);
                    false
                }
            };
            if !instants.chain([*start, *end]).any(&mut is_one) {
                let why = first.unwrap_or_default();
                return Err(format!(
                    "a backup from {start} to {end} has what the store had at no instant; at one: {why}"
                ));
            }
        }
        Ok(())
    }

    fn known_at(&self, at: usize) -> Knowledge {
        known_at(self.actors.iter().map(|a| &a.driver.timeline), at)
    }

    /// The timeline of each process, and the commands on the copy. The number from which ids are
    /// free.
    pub(crate) fn into_parts(self) -> (Vec<Timeline>, Vec<Copied>, u64) {
        let ids = self.actors.iter().map(|a| a.driver.ids()).max().unwrap_or_default();
        let timelines = self.actors.into_iter().map(Actor::into_timeline);
        (timelines.collect(), self.copied, ids)
    }
}

/// The known contents of all at a length of the log.
pub(crate) fn known_at<'t>(timelines: impl Iterator<Item = &'t Timeline>, at: usize) -> Knowledge {
    let mut known = Knowledge::default();
    timelines.for_each(|timeline| known.and(timeline.at(at)));
    known
}

/// The contents of the copy at a length of the log, unless a command is at work on it.
pub(crate) fn copy_at(copied: &[Copied], at: usize) -> Option<Arc<Copy>> {
    let last = copied.iter().rfind(|c| c.start <= at)?;
    last.copy.clone().filter(|_| last.end <= at)
}
