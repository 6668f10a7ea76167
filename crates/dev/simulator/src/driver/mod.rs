//! Drives a store with the requests of a mail server, step by step, and records the contents that
//! the store must have.
//!
//! Everything is chosen by the seed. One step is requested and answered before the next, except
//! groups: commits that wait together while the disk is paused. The outcome of a failed step is
//! uncertain, as it is for a client.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use posthaste_store::{
    CommitOutcome, DirectoryChange, Engine, ListCommit, MailboxCommit, Result, StoreError,
};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

use crate::clock::{self, Passing};
use crate::model::{Change, Knowledge, Moment, Timeline, Unit};
use crate::random::Random;
use crate::record::Recorder;
use crate::verify::{Violation, find, verify};

mod shared;
pub(crate) mod sight;
mod steps;

/// A summary as delivery might make it: long enough that pages fill.
pub fn summarize(bytes: &[u8]) -> Vec<u8> {
    let head = &bytes[..bytes.len().min(40)];
    format!("{} octets, begins {head:?}", bytes.len()).into_bytes()
}

/// A message of this length.
pub fn message(n: u64, len: usize) -> Bytes {
    let line = format!("Message {n}, byte for byte. ");
    line.bytes().cycle().take(len).collect::<Vec<u8>>().into()
}

/// Sizes small enough that packs fill and maintenance has work left within a few dozen steps.
pub fn options(seed: u64) -> Options {
    let mut random = Random::new(seed, 7);
    let pack_bytes = random.pick(&[24u64 << 10, 64 << 10, 256 << 10]).copied().unwrap_or(64 << 10);
    let links_from = random.pick(&[2usize, 32]).copied().unwrap_or(32);
    // 0: after each commit.
    let checkpoint_from = random.pick(&[0u64, 0, 64]).copied().unwrap_or(0);
    Options {
        map_bytes: 64 << 20,
        readers: 16,
        pack_bytes,
        links_from,
        round_messages: 20,
        checkpoint_from,
        reserve_bytes: 8 << 10,
        // The clock: time advances when a step reads a commit that the index lacks, never by
        // itself.
        checkpoint_within: Duration::from_secs(3600),
        ..Options::new(summarize)
    }
}

/// The kind of process that opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A server, whose index may be behind the log.
    Serving,
    /// A command such as `import`.
    Command,
}

impl Opening {
    /// Opens the store.
    pub fn open(self, dir: &Path, options: Options) -> Result<LmdbEngine> {
        match self {
            Self::Command => LmdbEngine::open(dir, options),
            Self::Serving => {
                let lock = EngineLock::acquire(dir).map_err(|e| StoreError::Unavailable(e.to_string()))?;
                LmdbEngine::serve(Arc::new(lock), options)
            }
        }
    }
}

/// Whether a rebuild may find faults after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    /// It may not.
    Yes,
    /// It may, and is forced then.
    No,
}

/// Rebuilds the index; returns the faults it found.
pub fn rebuild_index(dir: &Path, options: &Options, mode: Rebuild) -> Result<Vec<String>> {
    let lock = EngineLock::acquire(dir).map_err(|e| StoreError::Unavailable(e.to_string()))?;
    rebuild(&lock, options, mode, &mut |_| {}).map(|report| report.faults)
}

/// Has a store check itself, whatever else is done to it meanwhile.
pub async fn check(engine: &LmdbEngine) -> std::result::Result<(), Violation> {
    let report = engine.check(&mut |_| {}).await.map_err(|e| format!("check: {e}"))?;
    report.faults.first().map_or(Ok(()), |fault| Err(format!("check beside others finds: {fault}")))
}

/// A commit of any kind.
enum Request {
    Mailbox(MailboxCommit),
    List(ListCommit),
    Record(DirectoryChange),
}

impl Request {
    async fn send(self, engine: &LmdbEngine) -> Result<CommitOutcome> {
        match self {
            Self::Mailbox(commit) => engine.commit(commit).await,
            Self::List(commit) => engine.commit_list(commit).await,
            Self::Record(change) => engine.directory_commit(change).await,
        }
    }
}

/// A request, and the state of its unit after it.
type Attempt = (Request, Change);

/// Drives one store.
pub struct Driver {
    recorder: Arc<Recorder>,
    random: Random,
    options: Options,
    /// The known state now.
    pub known: Knowledge,
    /// The known state at each length of the log.
    pub timeline: Timeline,
    /// Whether the disk fails now and then, so that errors are expected.
    faulty: bool,
    /// Numbers for ids and contents, never the same twice in one seed.
    ids: u64,
    /// The results of the steps that another process took.
    script: VecDeque<RemoteResult>,
    /// Receives the results of this process's steps.
    listener: Option<Box<dyn FnMut(StepResult) + Send>>,
    /// Which of several processes that write at the same time: each has accounts and records of its
    /// own.
    actor: usize,
    /// Where the log was at the last result of another process, if that is known; else it is where
    /// the log is now.
    clock: Option<usize>,
    /// How time passes.
    passing: Passing,
    /// The actions of this process on the mailbox that several processes share, if there is one.
    shared: Option<sight::Part>,
    /// The states that mailbox may have, for a driver that follows.
    states: Option<sight::States>,
}

/// Ids of one process that writes at the same time as others. No two processes share an id.
pub fn first_id(actor: usize) -> u64 {
    (actor as u64) << 40
}

/// The accounts of a process that writes at the same time as others.
pub fn accounts_of(actor: usize) -> impl Iterator<Item = AccountId> {
    (1..=3).map(move |n| AccountId(Id::new(10 * actor as u64 + n, 0)))
}

/// The engine of the process that takes a step; `None` if it is another process, and this one
/// follows.
pub type Who<'e> = Option<&'e LmdbEngine>;

/// The result of a step that other processes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepResult {
    /// A request was done.
    Done,
    /// A request met a conflict.
    Conflict,
    /// A request failed.
    Failed,
    /// The doubt with this number turned out to have happened.
    Found(usize),
    /// More is left to maintain.
    More,
    /// The shared mailbox as it was, and the commit that is sent to it.
    Saw(sight::Sight),
    /// No result.
    Nothing,
}

impl StepResult {
    /// The result as a word, for another process.
    pub fn word(self) -> String {
        match self {
            Self::Done => "done".into(),
            Self::Conflict => "conflict".into(),
            Self::Failed => "failed".into(),
            Self::Found(n) => format!("found{n}"),
            Self::More => "more".into(),
            Self::Saw(sight) => sight.word(),
            Self::Nothing => "nothing".into(),
        }
    }

    /// Parses a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "done" => Self::Done,
            "conflict" => Self::Conflict,
            "failed" => Self::Failed,
            "more" => Self::More,
            "nothing" => Self::Nothing,
            _ if word.starts_with("saw:") => Self::Saw(sight::Sight::from_word(word)?),
            _ => Self::Found(word.strip_prefix("found")?.parse().ok()?),
        })
    }
}

/// The result of another process's step, and its operations until then.
#[derive(Debug, Clone, Default)]
pub struct RemoteResult {
    /// `None` if the process ended without a result.
    pub result: Option<StepResult>,
    /// As in the sink of its recorder.
    pub operations: Vec<u8>,
    /// Length of the log then, if these operations are in it already.
    pub at: Option<usize>,
}

fn step_result(outcome: &Result<CommitOutcome>) -> StepResult {
    match outcome {
        Ok(CommitOutcome::Done) => StepResult::Done,
        Ok(CommitOutcome::Conflict) | Err(StoreError::NoMailbox(_)) => StepResult::Conflict,
        Err(_) => StepResult::Failed,
    }
}

fn outcome_of(result: Option<StepResult>) -> Result<CommitOutcome> {
    match result {
        Some(StepResult::Done) => Ok(CommitOutcome::Done),
        Some(StepResult::Conflict) => Ok(CommitOutcome::Conflict),
        _ => Err(StoreError::Unavailable("another process was not answered".into())),
    }
}

impl Driver {
    /// A driver of the store in the recorder's directory, of which so much is known. `ids` must be
    /// beyond those of earlier drivers.
    pub fn new(recorder: Arc<Recorder>, known: Knowledge, seed: u64, ids: u64) -> Self {
        let random = Random::new(seed, 2);
        let timeline = Timeline::new(known.clone());
        let (script, listener) = (VecDeque::new(), None);
        let options = options(seed);
        let (actor, clock, faulty) = (0, None, false);
        let (passing, shared, states) = (Passing::of(seed, 0), None, None);
        Self {
            recorder,
            random,
            options,
            known,
            timeline,
            faulty,
            ids,
            script,
            listener,
            actor,
            clock,
            passing,
            shared,
            states,
        }
    }

    /// Whether faults are injected: then the store may refuse requests that it could otherwise
    /// fulfil.
    pub fn with_faults(self, faulty: bool) -> Self {
        Self { faulty, ..self }
    }

    /// One of several processes that write at the same time.
    pub fn beside_others(recorder: Arc<Recorder>, seed: u64, actor: usize, faulty: bool) -> Self {
        let mut driver = Self::new(recorder, Knowledge::default(), seed, first_id(actor)).with_faults(faulty);
        driver.random = Random::new(seed, 20 + actor as u64);
        driver.actor = actor;
        driver.passing = Passing::of(seed, actor as u64);
        driver.shared = sight::is_shared(seed).then(|| sight::Part::new(seed, actor));
        driver
    }

    /// Length of the log, now or at the last result of another process.
    fn now(&self) -> usize {
        self.clock.unwrap_or_else(|| self.recorder.len())
    }

    /// The next step of another process begins when the log has this length.
    pub fn begins_at(&mut self, len: usize) {
        self.clock = Some(len);
    }

    /// Something that another process did between two lengths of the log, and that changes nothing
    /// that is known.
    pub fn was_done(&mut self, what: String, start: usize, end: usize) {
        self.clock = Some(end);
        self.moment(what, start, Vec::new());
    }

    /// Options of the store, the same for the whole of a seed.
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    fn id(&mut self) -> Id {
        self.ids += 1;
        Id::new(self.ids, 7)
    }

    /// An id of a body. As with real messages, two ids differ in many bits: one flipped bit never
    /// makes another valid id.
    fn body_id(&mut self) -> BodyId {
        self.ids += 1;
        let random = u128::from(self.ids).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        BodyId(Id::new(self.ids, random))
    }

    fn moment(&mut self, what: String, start: usize, requested: Vec<Change>) {
        let (end, mut after) = (self.now(), self.known.clone());
        after.doubts.extend(self.shared.iter().flat_map(sight::Part::doubts).cloned());
        let after = Arc::new(after);
        self.timeline.moments.push(Moment { what, start, end, requested, after });
    }

    /// Whether an error was injected or is a violation.
    fn excuse(&self, what: &str, error: &StoreError) -> Result<(), Violation> {
        if self.faulty && error.is_temporary() {
            return Ok(());
        }
        Err(format!("{what} fails: {error}"))
    }

    /// Opens the store. `None` if an injected fault prevents it.
    pub fn open(&mut self, opening: Opening) -> Result<Option<LmdbEngine>, Violation> {
        let start = self.now();
        let opened = opening.open(self.recorder.root(), self.options.clone());
        self.moment(format!("open, {opening:?}"), start, Vec::new());
        match opened {
            Ok(engine) => Ok(Some(engine)),
            Err(error) => self.excuse("opening", &error).map(|()| None),
        }
    }

    /// Ends a life in order.
    pub fn close(&mut self, engine: LmdbEngine) {
        let start = self.now();
        engine.close();
        self.moment("close".into(), start, Vec::new());
    }

    /// Ends a life as if the process were killed.
    pub fn kill(&mut self, engine: LmdbEngine) {
        let start = self.now();
        engine.kill();
        self.moment("kill".into(), start, Vec::new());
    }

    /// Rebuilds the index, whatever faults are reported. `strict`: a crash is no damage, so no
    /// fault is allowed.
    pub fn rebuild(&mut self, strict: Strict) -> Result<(), Violation> {
        let start = self.now();
        let mut done = rebuild_index(self.recorder.root(), &self.options, Rebuild::UnlessFaulty);
        if done.as_ref().is_ok_and(|faults| !faults.is_empty()) && strict == Strict::No {
            done = rebuild_index(self.recorder.root(), &self.options, Rebuild::Force);
        }
        self.moment("rebuild".into(), start, Vec::new());
        match done {
            Ok(faults) => match faults.first() {
                // Data that a failing disk could not read counts as a fault, and the index stays
                // unchanged.
                Some(fault) if strict == Strict::Yes && !self.faulty => {
                    Err(format!("rebuild finds a fault: {fault}"))
                }
                _ => Ok(()),
            },
            Err(error) => self.excuse("rebuild", &error),
        }
    }

    /// Loses the index of a closed store and makes it again from the packs alone. Returns whether
    /// no fault was found: without the old index, a batch that a crash cut off is one.
    pub fn rebuild_from_packs(&mut self) -> Result<bool, Violation> {
        let index = self.recorder.root().join("index");
        if !index.exists() {
            return Ok(false);
        }
        std::fs::remove_dir_all(index).map_err(|e| format!("the index cannot be removed: {e}"))?;
        let start = self.now();
        let done = rebuild_index(self.recorder.root(), &self.options, Rebuild::UnlessFaulty);
        self.moment("the index is lost, rebuild".into(), start, Vec::new());
        done.map(|faults| faults.is_empty()).map_err(|e| format!("rebuild without an index: {e}"))
    }

    /// Reads everything and compares.
    pub async fn verify(&mut self, engine: &LmdbEngine) -> Result<(), Violation> {
        let start = self.now();
        let outcome = verify(engine, &mut self.known).await;
        self.moment("everything is read".into(), start, Vec::new());
        outcome
    }

    /// Reads one unit; while the disk fails it may be unreadable.
    async fn observe(&mut self, engine: Who<'_>, unit: &Unit) -> Result<(), Violation> {
        let Some(engine) = engine else {
            if let Some(StepResult::Found(n)) = self.next_remote_result()
                && let Some(doubt) = self.known.doubts.get(n).cloned()
            {
                self.known.found(&doubt);
            }
            return Ok(());
        };
        let seen = find(engine, &self.known, unit).await;
        if self.faulty && seen.as_ref().is_err_and(|e| e.contains("storage is unavailable")) {
            self.publish(StepResult::Nothing);
            return Ok(());
        }
        let found = seen?;
        self.publish(found.map_or(StepResult::Nothing, StepResult::Found));
        if let Some(doubt) = found.and_then(|n| self.known.doubts.get(n).cloned()) {
            self.known.found(&doubt);
        }
        Ok(())
    }

    /// Sends the result of a step to other processes.
    fn publish(&mut self, result: StepResult) {
        if let Some(listener) = &mut self.listener {
            listener(result);
        }
    }

    /// Sets the receiver of results for other processes.
    pub fn set_listener(&mut self, listener: impl FnMut(StepResult) + Send + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// The results of another process, for the next step that it took.
    pub fn set_script(&mut self, script: impl IntoIterator<Item = RemoteResult>) {
        self.script = script.into_iter().collect();
    }

    /// The next result of another process. Its operations until then are added to the log first.
    fn next_remote_result(&mut self) -> Option<StepResult> {
        let heard = self.script.pop_front()?;
        self.recorder.adopt(&heard.operations);
        self.clock = heard.at.or(self.clock);
        heard.result
    }

    /// Takes the next step of another process.
    pub async fn follow(&mut self) -> Result<(), Violation> {
        self.step(None).await?;
        while !self.script.is_empty() {
            self.next_remote_result();
        }
        Ok(())
    }

    /// The clock moves before some steps. The index follows then, as it does after a moment.
    async fn time_passes(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some(seconds) = self.passing.before_step() else { return Ok(()) };
        let Some(engine) = engine else { return Ok(()) };
        clock::pass(seconds);
        self.tick(engine).await
    }

    /// Brings the index up to date, so that another process can write.
    pub async fn tick(&mut self, engine: &LmdbEngine) -> Result<(), Violation> {
        let start = self.now();
        let all: Vec<MailboxId> = self.known.certain.boxes.keys().copied().collect();
        let read = engine.heads(&all).await;
        self.moment("the index follows".into(), start, Vec::new());
        read.map(drop).or_else(|error| self.excuse("reading heads", &error))
    }

    /// Something that another process did and that changes nothing that is known.
    pub fn elsewhere(&mut self, what: &str, operations: &[u8]) {
        let start = self.now();
        self.recorder.adopt(operations);
        self.moment(what.into(), start, Vec::new());
    }

    /// The outcomes of requests, made here or reported by another process. A process that ended
    /// without a result leaves all open.
    async fn outcomes(&mut self, engine: Who<'_>, requests: Vec<Request>) -> Vec<Result<CommitOutcome>> {
        let Some(engine) = engine else {
            return requests.iter().map(|_| outcome_of(self.next_remote_result())).collect();
        };
        let outcomes = if requests.len() == 1 {
            join_all(requests.into_iter().map(|r| r.send(engine))).await
        } else {
            self.together(engine, requests).await
        };
        outcomes.iter().for_each(|outcome| self.publish(step_result(outcome)));
        outcomes
    }

    /// Sends requests, all at once if there are several, and records their outcomes.
    async fn submit(
        &mut self,
        engine: Who<'_>,
        what: String,
        requested: Vec<Attempt>,
    ) -> Result<(), Violation> {
        let start = self.now();
        let (requests, changes): (Vec<_>, Vec<_>) = requested.into_iter().unzip();
        let outcomes = self.outcomes(engine, requests).await;
        // A mailbox may have been removed by a list commit that was not acknowledged.
        let lists: Vec<Unit> =
            self.known.doubts.iter().map(Change::unit).filter(|u| matches!(u, Unit::List(_))).collect();
        let conflict = |o: &Result<CommitOutcome>| step_result(o) == StepResult::Conflict;
        let mut unclear = if outcomes.iter().any(conflict) { lists.clone() } else { Vec::new() };
        for (change, outcome) in changes.iter().zip(&outcomes) {
            match outcome {
                Ok(CommitOutcome::Done) => self.known.done(change),
                Ok(CommitOutcome::Conflict) => unclear.push(change.unit()),
                Err(StoreError::NoMailbox(_)) if !lists.is_empty() => unclear.push(change.unit()),
                Err(error) => {
                    if engine.is_some() {
                        self.excuse(&what, error)?;
                    }
                    self.known.doubts.push(change.clone());
                    unclear.push(change.unit());
                }
            }
        }
        let refused = outcomes.iter().any(|o| matches!(o, Ok(CommitOutcome::Conflict)));
        if refused && engine.is_some() && !self.faulty && self.known.doubts.is_empty() {
            return Err(format!("{what}: a conflict, and nobody else writes"));
        }
        self.moment(format!("{what}: {outcomes:?}"), start, changes);
        for unit in unclear {
            self.observe(engine, &unit).await?;
        }
        Ok(())
    }

    /// The first request is paused in the middle of its writing until all others wait behind it.
    /// The writer then makes one transaction of them. So the grouping of requests does not depend
    /// on threads.
    async fn together(&self, engine: &LmdbEngine, requests: Vec<Request>) -> Vec<Result<CommitOutcome>> {
        self.recorder.hold();
        let mut requests = requests.into_iter().map(|r| r.send(engine));
        let Some(first) = requests.next() else { return Vec::new() };
        let (mut first, mut rest) = (pin!(first), pin!(join_all(requests)));
        let early = polled(first.as_mut()).await;
        self.recorder.wait_until_held();
        let late = polled(rest.as_mut()).await;
        self.recorder.release();
        let mut outcomes = vec![match early {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => first.await,
        }];
        outcomes.extend(match late {
            Poll::Ready(outcomes) => outcomes,
            Poll::Pending => rest.await,
        });
        outcomes
    }

    /// Takes this many steps.
    pub async fn steps(&mut self, engine: Who<'_>, count: usize) -> Result<(), Violation> {
        for _ in 0..count {
            self.step(engine).await?;
        }
        Ok(())
    }

    /// The store's directory.
    pub fn root(&self) -> &Path {
        self.recorder.root()
    }

    /// Whether errors are expected.
    pub fn is_faulty(&self) -> bool {
        self.faulty
    }

    /// The number from which another driver of this seed may give ids.
    pub fn ids(&self) -> u64 {
        self.ids
    }
}

/// The result of polling a future once.
async fn polled<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
