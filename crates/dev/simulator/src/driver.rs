//! Does to a store what a mail server does, step by step, and keeps beside it what the store must hold.
//!
//! Everything is chosen by the seed. One step is asked and answered before the next, but for groups: commits that wait together while the disk
//! is held up. Steps that fail leave a doubt, as they do for a client.

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_mail_model::{
    AccountId, BodyId, FlagSet, Id, Keyword, MailboxId, MailboxName, NumSet, UidValidity,
};
use posthaste_store::{
    CommitOutcome, Content, DirectoryChange, Engine, ListCommit, MailboxCommit, MailboxEntry, MailboxHead,
    NewMessage, Result, Row, StoreError,
};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, rebuild};
use std::collections::VecDeque;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::model::{Change, Held, Knowledge, Message, Moment, Timeline, Unit, World};
use crate::random::Random;
use crate::record::Recorder;
use crate::verify::{Violation, find, verify};

/// What delivery would make of a message: long enough that pages fill.
pub fn summarize(bytes: &[u8]) -> Vec<u8> {
    let head = bytes.get(..bytes.len().min(40)).unwrap_or_default();
    format!("{} octets, begins {head:?}", bytes.len()).into_bytes()
}

/// A message of this length.
pub fn message(n: u64, len: usize) -> Bytes {
    let line = format!("Message {n}, byte for byte. ");
    line.bytes().cycle().take(len).collect::<Vec<u8>>().into()
}

/// Sizes that make everything happen within a few dozen steps: packs that fill, maintenance that leaves something over.
pub fn options(seed: u64) -> Options {
    let mut random = Random::new(seed, 7);
    let pack_bytes = random.pick(&[24u64 << 10, 64 << 10, 256 << 10]).copied().unwrap_or(64 << 10);
    let links_from = random.pick(&[2usize, 32]).copied().unwrap_or(32);
    Options {
        map_bytes: 64 << 20,
        readers: 16,
        pack_bytes,
        links_from,
        round_messages: 20,
        // The clock: time passes when a step reads what the index lacks, never by itself.
        behind_max: Duration::from_secs(3600),
        ..Options::new(summarize)
    }
}

/// Who opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// A server, whose index may stay behind.
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

/// Makes the index again.
pub fn rebuild_index(dir: &Path, options: &Options) -> Result<()> {
    let lock = EngineLock::acquire(dir).map_err(|e| StoreError::Unavailable(e.to_string()))?;
    rebuild(&lock, options).map(drop)
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

/// A request, and what it makes of its unit.
type Asked = (Request, Change);

/// Drives one store.
pub struct Driver {
    recorder: Arc<Recorder>,
    random: Random,
    options: Options,
    /// What is known now.
    pub known: Knowledge,
    /// What was known when.
    pub timeline: Timeline,
    /// Whether the disk fails now and then, so that errors are to be expected.
    faulty: bool,
    /// Numbers for ids and contents, never the same twice in one seed.
    ids: u64,
    /// For steps that another process takes: what it was answered.
    script: VecDeque<Heard>,
    /// Where what this process is answered is told.
    listener: Option<Box<dyn FnMut(Told) + Send>>,
}

/// The engine of the process that takes a step; `None` if it is another process, and this one follows.
pub type Who<'e> = Option<&'e LmdbEngine>;

/// What a process was answered, in a step that others follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// A request was done.
    Done,
    /// A request met a conflict.
    Conflict,
    /// A request failed.
    Failed,
    /// The doubt of this number was found to have happened.
    Found(usize),
    /// More is left to maintain.
    More,
    /// Nothing to say.
    Nothing,
}

impl Told {
    /// As a word.
    pub fn word(self) -> String {
        match self {
            Self::Done => "done".into(),
            Self::Conflict => "conflict".into(),
            Self::Failed => "failed".into(),
            Self::Found(n) => format!("found{n}"),
            Self::More => "more".into(),
            Self::Nothing => "nothing".into(),
        }
    }

    /// From its word.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "done" => Self::Done,
            "conflict" => Self::Conflict,
            "failed" => Self::Failed,
            "more" => Self::More,
            "nothing" => Self::Nothing,
            _ => Self::Found(word.strip_prefix("found")?.parse().ok()?),
        })
    }
}

/// What another process was answered, and what it wrote until then.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// `None` if it ended without a word.
    pub told: Option<Told>,
    /// As in the sink of its recorder.
    pub operations: Vec<u8>,
}

fn told_of(outcome: &Result<CommitOutcome>) -> Told {
    match outcome {
        Ok(CommitOutcome::Done) => Told::Done,
        Ok(CommitOutcome::Conflict) | Err(StoreError::NoMailbox(_)) => Told::Conflict,
        Err(_) => Told::Failed,
    }
}

fn outcome_of(told: Option<Told>) -> Result<CommitOutcome> {
    match told {
        Some(Told::Done) => Ok(CommitOutcome::Done),
        Some(Told::Conflict) => Ok(CommitOutcome::Conflict),
        _ => Err(StoreError::Unavailable("another process was not answered".into())),
    }
}

impl Driver {
    /// A driver of the store in the recorder's directory, of which so much is known. `ids` must be beyond those of earlier drivers.
    pub fn new(recorder: Arc<Recorder>, known: Knowledge, seed: u64, ids: u64, faulty: bool) -> Self {
        let random = Random::new(seed, 2);
        let timeline = Timeline::new(known.clone());
        let (script, listener) = (VecDeque::new(), None);
        Self { recorder, random, options: options(seed), known, timeline, faulty, ids, script, listener }
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

    fn moment(&mut self, what: String, start: usize, asked: Vec<Change>) {
        let (end, after) = (self.recorder.len(), Arc::new(self.known.clone()));
        self.timeline.moments.push(Moment { what, start, end, asked, after });
    }

    /// What an error means: trouble that was made, or a violation.
    fn excuse(&self, what: &str, error: &StoreError) -> Result<(), Violation> {
        if self.faulty && error.is_temporary() {
            return Ok(());
        }
        Err(format!("{what} fails: {error}"))
    }

    /// Opens the store. `None` if trouble that was made forbids it.
    pub fn open(&mut self, opening: Opening) -> Result<Option<LmdbEngine>, Violation> {
        let start = self.recorder.len();
        let opened = opening.open(self.recorder.root(), self.options.clone());
        self.moment(format!("open, {opening:?}"), start, Vec::new());
        match opened {
            Ok(engine) => Ok(Some(engine)),
            Err(error) => self.excuse("opening", &error).map(|()| None),
        }
    }

    /// Ends a life: in order, or as a process does that is killed.
    pub fn end(&mut self, engine: LmdbEngine, killed: bool) {
        let start = self.recorder.len();
        if killed {
            engine.kill();
        } else {
            engine.close();
        }
        self.moment(if killed { "kill" } else { "close" }.into(), start, Vec::new());
    }

    /// Makes the index again.
    pub fn rebuild(&mut self) -> Result<(), Violation> {
        let start = self.recorder.len();
        let done = rebuild_index(self.recorder.root(), &self.options);
        self.moment("rebuild".into(), start, Vec::new());
        done.or_else(|error| self.excuse("rebuild", &error))
    }

    /// Reads everything and compares.
    pub async fn verify(&mut self, engine: &LmdbEngine) -> Result<(), Violation> {
        let start = self.recorder.len();
        let outcome = verify(engine, &mut self.known).await;
        self.moment("everything is read".into(), start, Vec::new());
        outcome
    }

    /// Reads one unit; while the disk fails it may be unreadable.
    async fn observe(&mut self, engine: Who<'_>, unit: &Unit) -> Result<(), Violation> {
        let Some(engine) = engine else {
            if let Some(Told::Found(n)) = self.hear()
                && let Some(doubt) = self.known.doubts.get(n).cloned()
            {
                self.known.found(&doubt);
            }
            return Ok(());
        };
        let seen = find(engine, &self.known, unit).await;
        if self.faulty && seen.as_ref().is_err_and(|e| e.contains("storage is unavailable")) {
            self.tell(Told::Nothing);
            return Ok(());
        }
        let found = seen?;
        self.tell(found.map_or(Told::Nothing, Told::Found));
        if let Some(doubt) = found.and_then(|n| self.known.doubts.get(n).cloned()) {
            self.known.found(&doubt);
        }
        Ok(())
    }

    /// Tells other processes what this one was answered.
    fn tell(&mut self, told: Told) {
        if let Some(listener) = &mut self.listener {
            listener(told);
        }
    }

    /// What other processes are to be told goes there.
    pub fn set_listener(&mut self, listener: impl FnMut(Told) + Send + 'static) {
        self.listener = Some(Box::new(listener));
    }

    /// What another process was answered, for the next step that it took.
    pub fn set_script(&mut self, script: impl IntoIterator<Item = Heard>) {
        self.script = script.into_iter().collect();
    }

    /// The next that another process was answered. What it wrote until then comes into the log first.
    fn hear(&mut self) -> Option<Told> {
        let heard = self.script.pop_front()?;
        self.recorder.adopt(&heard.operations);
        heard.told
    }

    /// Takes the next step of another process.
    pub async fn follow(&mut self) -> Result<(), Violation> {
        self.step(None).await?;
        while !self.script.is_empty() {
            self.hear();
        }
        Ok(())
    }

    /// Has the index follow, so that another process can write.
    pub async fn tick(&mut self, engine: &LmdbEngine) -> Result<(), Violation> {
        let start = self.recorder.len();
        let all: Vec<MailboxId> = self.known.certain.boxes.keys().copied().collect();
        let read = engine.heads(&all).await;
        self.moment("the index follows".into(), start, Vec::new());
        read.map(drop).or_else(|error| self.excuse("reading heads", &error))
    }

    /// Something that another process did and that changes nothing that is known.
    pub fn elsewhere(&mut self, what: &str, operations: &[u8]) {
        let start = self.recorder.len();
        self.recorder.adopt(operations);
        self.moment(what.into(), start, Vec::new());
    }

    /// What became of requests: asked here, or told by the process that asked. One that ended without a word leaves all open.
    async fn outcomes(&mut self, engine: Who<'_>, requests: Vec<Request>) -> Vec<Result<CommitOutcome>> {
        let Some(engine) = engine else {
            return requests.iter().map(|_| outcome_of(self.hear())).collect();
        };
        let outcomes = if requests.len() == 1 {
            join_all(requests.into_iter().map(|r| r.send(engine))).await
        } else {
            self.together(engine, requests).await
        };
        outcomes.iter().for_each(|outcome| self.tell(told_of(outcome)));
        outcomes
    }

    /// Sends requests, all at once if there are several, and takes over what became of them.
    async fn ask(&mut self, engine: Who<'_>, what: String, asked: Vec<Asked>) -> Result<(), Violation> {
        let start = self.recorder.len();
        let (requests, changes): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let outcomes = self.outcomes(engine, requests).await;
        // A mailbox may have gone with a list commit that was not answered.
        let lists: Vec<Unit> =
            self.known.doubts.iter().map(Change::unit).filter(|u| matches!(u, Unit::List(_))).collect();
        let conflict = |o: &Result<CommitOutcome>| told_of(o) == Told::Conflict;
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

    /// The first request is held up in the middle of its writing until all others wait behind it: the committer then makes one transaction of
    /// them. Which requests go together so does not depend on threads.
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

    /// Takes so many steps.
    pub async fn steps(&mut self, engine: Who<'_>, count: usize) -> Result<(), Violation> {
        for _ in 0..count {
            self.step(engine).await?;
        }
        Ok(())
    }

    async fn step(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        if self.known.certain.boxes.is_empty() {
            return self.create(engine).await;
        }
        match self.random.below(100) {
            0..24 => self.append(engine).await,
            24..28 => self.append_many(engine).await,
            28..33 => self.deliver(engine).await,
            33..45 => self.flag(engine).await,
            45..52 => self.copy(engine, 8).await,
            52..58 => self.copy(engine, 80).await,
            58..63 => self.move_some(engine).await,
            63..73 => self.expunge(engine).await,
            73..76 => self.create(engine).await,
            76..78 => self.remove(engine).await,
            78..80 => self.rename(engine).await,
            80..85 => self.record(engine).await,
            85..92 => self.maintain(engine).await,
            92..96 => self.group(engine).await,
            _ => self.read(engine).await,
        }
    }

    fn a_box(&mut self) -> MailboxId {
        let boxes: Vec<MailboxId> = self.known.certain.boxes.keys().copied().collect();
        self.random.pick(&boxes).copied().unwrap_or(MailboxId(Id::new(0, 0)))
    }

    fn held(&self, id: MailboxId) -> Arc<Held> {
        self.known.certain.boxes.get(&id).cloned().unwrap_or_default()
    }

    fn some_uids(&mut self, id: MailboxId, most: usize) -> Vec<u32> {
        let uids: Vec<u32> = self.held(id).messages.keys().copied().collect();
        if uids.is_empty() {
            return uids;
        }
        let from = self.random.below(uids.len());
        let count = 1 + self.random.below(most);
        let every = if self.random.chance(70) { 1 } else { 2 };
        uids.into_iter().skip(from).step_by(every).take(count).collect()
    }

    fn new_message(&mut self, from: &mut MailboxHead) -> NewMessage {
        let len = match self.random.below(20) {
            0 => 70_000 + self.random.below(5_000),
            1 => 0,
            2..6 => self.random.below(6_000),
            _ => self.random.below(900),
        };
        let body = BodyId(self.id());
        let bytes = message(self.ids, len);
        let uid = from.uid_next;
        from.uid_next = uid.next().unwrap_or(uid);
        let flags = if self.random.chance(20) { FlagSet::SEEN } else { FlagSet::EMPTY };
        let row = Row::new(uid, len as u32, 1_700_000_000, flags, from.modseq);
        let summary = summarize(&bytes).into();
        NewMessage { row, body, saved: 1_700_000_001, content: Content::New { bytes, summary } }
    }

    fn commit_on(held: &Held, mailbox: MailboxId) -> MailboxCommit {
        let expected = held.head.modseq;
        let head = MailboxHead { modseq: expected.next(), ..held.head.clone() };
        MailboxCommit { mailbox, expected, head, appended: vec![], changed: vec![], expunged: vec![] }
    }

    fn append_to(&mut self, world: &World, to: MailboxId, count: usize) -> Asked {
        let held = world.boxes.get(&to).cloned().unwrap_or_default();
        let mut commit = Self::commit_on(&held, to);
        for _ in 0..count {
            let new = self.new_message(&mut commit.head);
            commit.appended.push(new);
        }
        finished(world, commit)
    }

    async fn append(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let to = self.a_box();
        let count = 1 + self.random.below(3);
        let asked = self.append_to(&self.known.certain.clone(), to, count);
        self.ask(engine, format!("append {count} to {to}"), vec![asked]).await
    }

    async fn append_many(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let to = self.a_box();
        let count = 34 + self.random.below(30);
        let asked = self.append_to(&self.known.certain.clone(), to, count);
        self.ask(engine, format!("append {count} to {to}"), vec![asked]).await
    }

    /// One body to two mailboxes, as a message for two recipients comes.
    async fn deliver(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let (first, second) = (self.a_box(), self.a_box());
        let asked = self.append_to(&self.known.certain.clone(), first, 1);
        let Request::Mailbox(commit) = &asked.0 else { return Ok(()) };
        let Some(new) = commit.appended.first().cloned() else { return Ok(()) };
        self.ask(engine, format!("deliver to {first}"), vec![asked]).await?;
        let mut commit = Self::commit_on(&self.held(second), second);
        let uid = commit.head.uid_next;
        commit.head.uid_next = uid.next().unwrap_or(uid);
        let row = Row::new(uid, new.row.size(), new.row.date(), FlagSet::EMPTY, commit.head.modseq);
        commit.appended.push(NewMessage { row, ..new });
        let asked = finished(&self.known.certain, commit);
        self.ask(engine, format!("deliver the same to {second}"), vec![asked]).await
    }

    async fn flag(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let id = self.a_box();
        let uids = self.some_uids(id, 30);
        let held = self.held(id);
        let mut commit = Self::commit_on(&held, id);
        let mut flags = FlagSet::from_bits(self.random.draw() & 31);
        if self.random.chance(30) {
            let mut table = (*commit.head.keywords).clone();
            let keyword = Keyword::new(&format!("$Word{}", self.random.below(12)));
            if let Some(slot) = keyword.ok().and_then(|k| table.slot_or_insert(&k).ok()) {
                flags = flags.union(FlagSet::keyword(slot));
                commit.head.keywords = Arc::new(table);
            }
        }
        let rows = uids.iter().filter_map(|uid| held.messages.get(uid));
        commit.changed = rows.map(|m| m.row.with_flags(flags, commit.head.modseq)).collect();
        let asked = finished(&self.known.certain, commit);
        self.ask(engine, format!("flag {} in {id}", uids.len()), vec![asked]).await
    }

    fn copying(&mut self, from: MailboxId, uids: &[u32], to: MailboxId) -> Asked {
        let source = self.held(from);
        let mut commit = Self::commit_on(&self.held(to), to);
        for message in uids.iter().filter_map(|uid| source.messages.get(uid)) {
            let uid = commit.head.uid_next;
            commit.head.uid_next = uid.next().unwrap_or(uid);
            let old = message.row;
            let system = FlagSet::from_bits(old.flags().bits() & 31);
            let row = Row::new(uid, old.size(), old.date(), system, commit.head.modseq);
            let content = Content::CopyOf { mailbox: from, uid: old.uid() };
            commit.appended.push(NewMessage { row, body: message.body, saved: 1_700_000_002, content });
        }
        finished(&self.known.certain, commit)
    }

    async fn copy(&mut self, engine: Who<'_>, most: usize) -> Result<(), Violation> {
        let (from, to) = (self.a_box(), self.a_box());
        let uids = self.some_uids(from, most);
        let asked = self.copying(from, &uids, to);
        self.ask(engine, format!("copy {} from {from} to {to}", uids.len()), vec![asked]).await
    }

    async fn move_some(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let (from, to) = (self.a_box(), self.a_box());
        let uids = self.some_uids(from, 40);
        let asked = self.copying(from, &uids, to);
        self.ask(engine, format!("move {} from {from} to {to}: copy", uids.len()), vec![asked]).await?;
        self.expunge_these(engine, from, &uids).await
    }

    async fn expunge_these(
        &mut self,
        engine: Who<'_>,
        from: MailboxId,
        uids: &[u32],
    ) -> Result<(), Violation> {
        let held = self.held(from);
        let set: NumSet = uids.iter().copied().filter(|uid| held.messages.contains_key(uid)).collect();
        let mut commit = Self::commit_on(&held, from);
        if !set.is_empty() {
            commit.expunged.push((commit.head.modseq, set));
        }
        let asked = finished(&self.known.certain, commit);
        self.ask(engine, format!("expunge {} from {from}", uids.len()), vec![asked]).await
    }

    async fn expunge(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let from = self.a_box();
        let uids = self.some_uids(from, 70);
        self.expunge_these(engine, from, &uids).await
    }

    fn an_account(&mut self) -> AccountId {
        AccountId(Id::new(1 + self.random.below(3) as u64, 0))
    }

    fn list_commit(&self, account: AccountId) -> ListCommit {
        let list = self.known.certain.list(account);
        ListCommit {
            account,
            expected: list.version,
            version: list.version.next(),
            upsert: Vec::new(),
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: list.uid_validity_last,
        }
    }

    fn list_change(&self, commit: ListCommit) -> Asked {
        let list = self.known.certain.list(commit.account);
        let came = commit.upsert.iter().map(|e| e.id).filter(|id| !list.entries.iter().any(|e| e.id == *id));
        let change = Change::List(Arc::new(list.apply(&commit)), came.collect(), commit.remove.clone());
        (Request::List(commit), change)
    }

    async fn create(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let account = self.an_account();
        let mut commit = self.list_commit(account);
        let id = MailboxId(self.id());
        commit.uid_validity_last += 1;
        let name = MailboxName::new(&format!("box {}", self.ids));
        let (Ok(name), Some(uid_validity)) = (name, UidValidity::new(commit.uid_validity_last)) else {
            return Ok(());
        };
        commit.subscribe.push(name.clone());
        commit.upsert.push(MailboxEntry { id, name, uid_validity, special_use: None });
        let asked = self.list_change(commit);
        self.ask(engine, format!("create {id}"), vec![asked]).await
    }

    async fn remove(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some((account, entry)) = self.an_entry() else { return Ok(()) };
        if self.known.certain.boxes.len() < 3 {
            return Ok(());
        }
        let mut commit = self.list_commit(account);
        commit.remove.push(entry.id);
        commit.unsubscribe.push(entry.name);
        let asked = self.list_change(commit);
        self.ask(engine, format!("remove {}", entry.id), vec![asked]).await
    }

    async fn rename(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let Some((account, entry)) = self.an_entry() else { return Ok(()) };
        let mut commit = self.list_commit(account);
        self.ids += 1;
        let Ok(name) = MailboxName::new(&format!("renamed {}", self.ids)) else { return Ok(()) };
        let what = format!("rename {}", entry.id);
        commit.upsert.push(MailboxEntry { name, ..entry });
        let asked = self.list_change(commit);
        self.ask(engine, what, vec![asked]).await
    }

    fn an_entry(&mut self) -> Option<(AccountId, MailboxEntry)> {
        let lists = self.known.certain.lists.values();
        let all: Vec<_> = lists.flat_map(|l| l.entries.iter().map(|e| (l.account, e.clone()))).collect();
        self.random.pick(&all).cloned()
    }

    async fn record(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let name = format!("account/{}", self.random.below(4));
        let there = self.known.certain.directory.get(&name).map(|(version, _)| *version);
        let expected = there.unwrap_or(0);
        let removed = there.is_some() && self.random.chance(20);
        let value = (!removed).then(|| message(self.random.draw() % 1_000, 60));
        let record = value.clone().map(|value| (expected + 1, value));
        let change = DirectoryChange { name: name.clone(), expected, value };
        let asked = (Request::Record(change), Change::Record(name.clone(), record));
        self.ask(engine, format!("set {name}"), vec![asked]).await
    }

    async fn maintain(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        for _ in 0..1 + self.random.below(12) {
            let start = self.recorder.len();
            let Some(engine) = engine else {
                match self.hear() {
                    Some(Told::More) => continue,
                    _ => break,
                }
            };
            let done = engine.maintain().await;
            let rest = done.as_ref().map_or(true, |r| !r.faults.is_empty() || r.examined > 0);
            self.tell(if rest { Told::More } else { Told::Nothing });
            self.moment("maintain".into(), start, Vec::new());
            match done {
                Ok(report) if report.faults.is_empty() && report.examined == 0 => break,
                Ok(report) => match report.faults.first() {
                    Some(fault) if !self.faulty => return Err(format!("maintenance finds a fault: {fault}")),
                    _ => {}
                },
                Err(error) => self.excuse("maintenance", &error)?,
            }
        }
        Ok(())
    }

    /// Commits on several mailboxes, and on one, at the same time.
    async fn group(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let mut world = self.known.certain.clone();
        let mut asked = Vec::new();
        for _ in 0..2 + self.random.below(4) {
            let to = self.a_box();
            let one = self.append_to(&world, to, 1);
            world.apply(&one.1);
            asked.push(one);
        }
        self.ask(engine, format!("append {} at once", asked.len()), asked).await
    }

    /// Time passes: the index follows. What is read must be what is known.
    async fn read(&mut self, engine: Who<'_>) -> Result<(), Violation> {
        let id = self.a_box();
        let start = self.recorder.len();
        self.observe(engine, &Unit::Mailbox(id)).await?;
        self.moment(format!("read {id}"), start, Vec::new());
        Ok(())
    }

    /// Whether errors are to be expected.
    pub fn is_faulty(&self) -> bool {
        self.faulty
    }

    /// The number from which another driver of this seed may give ids.
    pub fn ids(&self) -> u64 {
        self.ids
    }
}

/// What polling once gives.
async fn polled<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// A commit whose head's counts fit, and the mailbox after it.
fn finished(world: &World, mut commit: MailboxCommit) -> Asked {
    let mut held = world.boxes.get(&commit.mailbox).map(|h| (**h).clone()).unwrap_or_default();
    for row in &commit.changed {
        if let Some(message) = held.messages.get_mut(&row.uid().value()) {
            message.row = *row;
        }
    }
    for (_, gone) in &commit.expunged {
        held.messages.retain(|uid, _| !gone.contains(*uid));
        held.expunged = held.expunged.union(gone);
    }
    for new in &commit.appended {
        let (bytes, summary) = match &new.content {
            Content::New { bytes, summary } => (bytes.clone(), summary.clone()),
            Content::CopyOf { mailbox, uid } => {
                let original = world.boxes.get(mailbox).and_then(|h| h.messages.get(&uid.value()));
                original.map(|m| (m.bytes.clone(), m.summary.clone())).unwrap_or_default()
            }
        };
        let message = Message { row: new.row, body: new.body, saved: new.saved, bytes, summary };
        held.messages.insert(new.row.uid().value(), message);
    }
    commit.head.counts = held.counts();
    held.head = commit.head.clone();
    let change = Change::Mailbox(commit.mailbox, Arc::new(held));
    (Request::Mailbox(commit), change)
}
