//! A process that acts at the same time as others on one store.
//!
//! Each waits for permission before every operation, every lock and some reads ([`crate::gate`]).
//! The process that keeps the log lets only one of them continue at a time. So commits,
//! maintenance, copies and openings of several processes interleave at every point at which one
//! process can see another's work. The seed decides how.
//!
//! Each has accounts and directory records of its own and takes its own steps. The process that
//! keeps the log follows them with a driver of the same seed ([`Actor::driver`]). So it knows the
//! allowed states of each at every length of the log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use posthaste_store::StoreError;
use posthaste_store_lmdb::{LmdbEngine, Rebuild};

use crate::copying::{Way, copy};
use crate::driver::sight::States;
use crate::driver::{Driver, Opening, RemoteResult, StepResult, check, options, rebuild_index};
use crate::gate::{At, Gate, Leave};
use crate::model::{Knowledge, Timeline};
use crate::record::{Recorder, set_gate};
use crate::runtime::Runtime;
use crate::verify::Violation;

/// The longest wait for a process that may continue: it waits for nobody.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The event for which a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A command.
    Idle,
    /// Leave to do something.
    Waits(At),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// The store refused.
    Refused(String),
}

/// A command under way.
struct Task {
    command: String,
    start: usize,
    results: Vec<RemoteResult>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    line: BufReader<UnixStream>,
    operations: File,
    /// Bytes of `operations` that were read.
    read: u64,
}

/// One process, seen from the process that keeps the log.
pub(crate) struct Actor {
    number: usize,
    seed: u64,
    program: PathBuf,
    root: PathBuf,
    recorder: Arc<Recorder>,
    /// Follows its steps.
    pub(crate) driver: Driver,
    faulty: bool,
    process: Option<Process>,
    task: Option<Task>,
    history: Vec<String>,
    pub(crate) state: State,
    /// How it has the store open, if it has.
    pub(crate) open: Option<Opening>,
    /// The states of the mailbox that all processes share.
    states: States,
}

fn failed(error: io::Error) -> Violation {
    format!("a process beside others: {error}")
}

impl Actor {
    pub(crate) fn new(
        program: PathBuf,
        seed: u64,
        number: usize,
        recorder: &Arc<Recorder>,
        faulty: bool,
    ) -> Self {
        let driver = Driver::beside_others(Arc::clone(recorder), seed, number, faulty);
        Self {
            number,
            seed,
            program,
            root: recorder.root().to_owned(),
            recorder: Arc::clone(recorder),
            driver: driver.with_options(options(seed)),
            faulty,
            process: None,
            task: None,
            history: Vec::new(),
            state: State::Idle,
            open: None,
            states: States::default(),
        }
    }

    /// Makes it share a mailbox with other actors.
    pub(crate) fn sharing(mut self, states: &States) -> Self {
        self.driver.share(states);
        self.states = states.clone();
        self
    }

    /// A file next to the store, for this process alone.
    fn beside(&self, name: &str) -> PathBuf {
        self.root.with_file_name(format!("{name}{}", self.number))
    }

    fn start(&mut self) -> io::Result<Process> {
        let (sink, gate) = (self.beside("operations"), self.beside("gate"));
        File::create(&sink)?;
        match std::fs::remove_file(&gate) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(&gate)?;
        let mut child = Command::new(&self.program)
            .arg("--actor")
            .arg(self.number.to_string())
            .arg("--root")
            .arg(&self.root)
            .arg("--sink")
            .arg(&sink)
            .arg("--gate")
            .arg(&gate)
            .args(["--seed", &self.seed.to_string()])
            .args(self.faulty.then_some("--expect-faults"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let mut input = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let (line, _) = listener.accept()?;
        line.set_read_timeout(Some(TIMEOUT))?;
        for line in &self.history {
            writeln!(input, "{line}")?;
        }
        Ok(Process { child, input, line: BufReader::new(line), operations: File::open(&sink)?, read: 0 })
    }

    /// Gives it a command, and lets it continue until it waits again.
    pub(crate) fn command(&mut self, command: &str) -> Result<Option<(String, Ended)>, Violation> {
        if self.process.is_none() {
            self.process = Some(self.start().map_err(failed)?);
        }
        let start = self.recorder.len();
        self.task = Some(Task { command: command.to_owned(), start, results: Vec::new() });
        if let Some(process) = &mut self.process {
            writeln!(process.input, "{command}").map_err(failed)?;
        }
        self.until_it_waits()
    }

    /// Lets it continue until it waits again.
    pub(crate) fn resume(&mut self, leave: Leave) -> Result<Option<(String, Ended)>, Violation> {
        if let Some(process) = &mut self.process {
            process.line.get_mut().write_all(&[leave.byte()]).map_err(failed)?;
        }
        self.until_it_waits()
    }

    /// Takes over its operations, up to a length of its sink.
    fn adopt(&mut self, upto: u64) -> Result<(), Violation> {
        let Some(process) = &mut self.process else { return Ok(()) };
        let mut operations = Vec::new();
        let most = upto.saturating_sub(process.read);
        (&mut process.operations).take(most).read_to_end(&mut operations).map_err(failed)?;
        process.read += operations.len() as u64;
        self.recorder.adopt(&operations);
        Ok(())
    }

    fn until_it_waits(&mut self) -> Result<Option<(String, Ended)>, Violation> {
        loop {
            let mut line = String::new();
            let Some(process) = &mut self.process else { return Err("no process".into()) };
            let command = self.task.as_ref().map_or(String::new(), |task| task.command.clone());
            match process.line.read_line(&mut line) {
                Ok(0) => {
                    let status = process.child.wait().map_err(failed)?;
                    return Err(format!("a process ended while it was to {command}: {status}"));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(format!("a process beside others waits for ever at {command}: {error}"));
                }
            }
            let line = line.trim_end();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some((len, result)) = rest.split_once(' ').filter(|_| word == "result") {
                self.adopt(len.parse().unwrap_or(0))?;
                let at = Some(self.recorder.len());
                let result = StepResult::from_word(result);
                if let Some(StepResult::Saw(sight)) = result {
                    self.states.expect(sight)?;
                }
                let task = self.task.as_mut();
                task.into_iter().for_each(|t| {
                    t.results.push(RemoteResult { result, operations: Vec::new(), at });
                });
                continue;
            }
            self.adopt(u64::MAX)?;
            if let Some(at) = At::from_word(word) {
                self.state = State::Waits(at);
                return Ok(None);
            }
            self.state = State::Idle;
            match word {
                "ended" => return self.ended(Ended::Done),
                "refused" => return self.ended(Ended::Refused(rest.to_owned())),
                _ => return Err(format!("in a process beside others, at {command}: {rest}")),
            }
        }
    }

    fn ended(&mut self, ended: Ended) -> Result<Option<(String, Ended)>, Violation> {
        let Some(task) = self.task.take() else { return Ok(None) };
        let command = task.command.clone();
        let done = ended == Ended::Done;
        match task.command.as_str() {
            "open serving" if done => self.open = Some(Opening::Serving),
            "open command" if done => self.open = Some(Opening::Command),
            "close" => self.open = None,
            _ => {}
        }
        self.follow(task, &format!("{ended:?}"))?;
        Ok(Some((command, ended)))
    }

    /// Has the driver follow the steps.
    fn follow(&mut self, task: Task, how: &str) -> Result<(), Violation> {
        let Task { command, start, results } = task;
        let end = self.recorder.len();
        if command != "step" {
            self.driver.was_done(format!("process {}: {command}: {how}", self.number), start, end);
            return Ok(());
        }
        let words: Vec<String> = results.iter().filter_map(|h| h.result).map(StepResult::word).collect();
        self.history.push(format!("follow {}", words.join(" ")));
        self.driver.begins_at(start);
        // Requests without an answer end with the process.
        let rest = RemoteResult { result: None, operations: Vec::new(), at: Some(end) };
        self.driver.set_script(results.into_iter().chain([rest]));
        futures_util::FutureExt::now_or_never(self.driver.follow()).unwrap_or(Ok(()))
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Violation> {
        if let Some(process) = &mut self.process {
            process.child.kill().map_err(failed)?;
            process.child.wait().map_err(failed)?;
            self.adopt(u64::MAX)?;
        }
        (self.process, self.open, self.state) = (None, None, State::Idle);
        let end = self.recorder.len();
        if let Some(task) = self.task.take() {
            self.follow(task, "killed")?;
        }
        self.driver.was_done(format!("process {}: killed", self.number), end, end);
        Ok(())
    }

    /// Which of the processes it is.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The process's operations, and when each was known to the others.
    pub(crate) fn into_timeline(mut self) -> Timeline {
        std::mem::replace(&mut self.driver.timeline, Timeline::new(Knowledge::default()))
    }

    /// The process's activity, for people.
    pub(crate) fn doing(&self) -> String {
        let command = self.task.as_ref().map_or("nothing", |task| &task.command);
        format!("process {} at {command}: {:?}", self.number, self.state)
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Where a process of this kind finds its files.
#[derive(Debug)]
pub struct ActorPaths<'a> {
    /// The store.
    pub root: &'a Path,
    /// The process's operations are written here.
    pub sink: &'a Path,
    /// The socket of the process that decides.
    pub gate: &'a Path,
}

/// The process itself.
struct Acting<'a> {
    place: &'a ActorPaths<'a>,
    seed: u64,
    driver: Driver,
    faulty: bool,
    runtime: Runtime,
    engine: Option<LmdbEngine>,
}

/// Executes commands from standard input until it ends.
pub fn act(place: &ActorPaths<'_>, seed: u64, number: usize, faulty: bool) -> Result<(), Violation> {
    let sink = std::fs::OpenOptions::new().append(true).open(place.sink).map_err(failed)?;
    let gate = Gate::connect(place.gate).map_err(failed)?;
    let recorder = Recorder::watch_into(place.root, Some(sink)).map_err(failed)?;
    let runtime = Runtime::new().map_err(failed)?;
    let gate = set_gate(gate);
    let mut driver = Driver::beside_others(Arc::clone(&recorder), seed, number, faulty);
    driver = driver.with_options(options(seed));
    driver.set_listener(move |result| {
        gate.say(&format!("result {} {}", recorder.sunk(), result.word()));
    });
    let mut acting = Acting { place, seed, driver, faulty, runtime, engine: None };
    for line in io::stdin().lines() {
        let line = line.map_err(failed)?;
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if command == "follow" {
            let results = rest.split_whitespace().filter_map(StepResult::from_word);
            let heard = results.map(|t| RemoteResult { result: Some(t), ..RemoteResult::default() });
            acting.driver.set_script(heard);
            acting.runtime.block_on(acting.driver.follow())?;
            continue;
        }
        match acting.does(&line) {
            Ok(Ok(())) => gate.say("ended"),
            Ok(Err(error)) if error.is_temporary() => gate.say(&format!("refused {error}")),
            Ok(Err(error)) => gate.say(&format!("violation {error}")),
            Err(violation) => gate.say(&format!("violation {violation}")),
        }
    }
    Ok(())
}

impl Acting<'_> {
    /// Executes a command. The inner error is the store's.
    fn does(&mut self, command: &str) -> Result<Result<(), StoreError>, Violation> {
        let (root, options) = (self.place.root, options(self.seed));
        let way = Way::ALL.into_iter().find(|way| way.word() == command);
        if let Some(way) = way {
            return match self.runtime.block_on(copy(root, &options, way)) {
                Ok(None) => Ok(Ok(())),
                Ok(Some(difference)) => Err(format!("{way:?}: {difference}")),
                Err(error) => Ok(Err(error)),
            };
        }
        let opening = match command {
            "open serving" => Some(Opening::Serving),
            "open command" => Some(Opening::Command),
            _ => None,
        };
        if let Some(opening) = opening {
            return Ok(opening.open(root, options).map(|opened| self.engine = Some(opened)));
        }
        match command {
            "close" => drop(self.engine.take()),
            "rebuild" => return Ok(rebuild_index(root, &options, Rebuild::UnlessFaulty).map(drop)),
            _ => {
                let Some(engine) = &self.engine else { return Err("it is not open".into()) };
                match command {
                    "step" => self.runtime.block_on(self.driver.steps(Some(engine), 1))?,
                    "tick" => self.runtime.block_on(self.driver.tick(engine))?,
                    "check" => {
                        let checked = self.runtime.block_on(check(engine));
                        // A disk that fails may fail now.
                        let is_excused = |v: &Violation| self.faulty && v.contains("storage is unavailable");
                        checked.or_else(|v| if is_excused(&v) { Ok(()) } else { Err(v) })?
                    }
                    _ => return Err(format!("no command: {command}")),
                }
            }
        }
        Ok(Ok(()))
    }
}
