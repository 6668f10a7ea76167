//! One seed: runs the requests, cuts the log at many operations, and opens and rebuilds the store
//! after each cut.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_store_lmdb::{LmdbEngine, Options};

use crate::company::{Company, Copied, copy_at, known_at};
use crate::copying::{Copy, repeat};
use crate::driver::{Driver, Opening, StepResult, Strict, options};
use crate::image::{Files, Image, Keep, Names, fingerprint, materialise};
use crate::model::{Knowledge, Moment, Timeline};
use crate::op::Op;
use crate::process::{Ended, Visitor};
use crate::random::Random;
use crate::record::{Failure, Faults, Recorder};
use crate::runtime::Runtime;
use crate::verify::Violation;

/// How much is done for one seed, and what may happen to the disk.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Steps of the life that is cut.
    pub steps: usize,
    /// Cuts of it.
    pub cuts: usize,
    /// Cuts of what happens after each cut.
    pub nested: usize,
    /// Whether a power cut may lose unsynced bytes; else processes are killed, and the machine
    /// continues.
    pub power: bool,
    /// Whether changes of names may be lost out of order, as POSIX allows.
    pub posix_names: bool,
    /// Whether operations fail now and then, and the disk is full for a while.
    pub faults: bool,
    /// Whether the index is also made again after cuts.
    pub rebuild: bool,
    /// After one cut in this many the index is made again at once, on a copy of the state, and then
    /// lost and made again. After all others it is made again later, by chance.
    pub rebuild_at_once: u64,
    /// Whether a rebuild after a crash must find no fault.
    pub strict: Strict,
    /// Whether power cuts before anything was acknowledged are left out.
    pub from_first_answer: bool,
    /// In this many seeds of 100, several processes write at the same time, and copy the store.
    pub together: usize,
    /// The `simulate` binary, for a second process; none, no second process.
    pub visitor: Option<PathBuf>,
    /// Where the files of the one state that is looked at are left.
    pub keep: Option<PathBuf>,
    /// Where directories are made.
    pub base: PathBuf,
}

impl Settings {
    /// All of it, in memory if the system has such a file system.
    pub fn all() -> Self {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        Self {
            steps: 40,
            cuts: 24,
            nested: 1,
            power: true,
            posix_names: true,
            faults: true,
            rebuild: true,
            rebuild_at_once: 1,
            strict: Strict::Yes,
            from_first_answer: false,
            together: 40,
            visitor: None,
            keep: None,
            base,
        }
    }
}

/// A state in which the store breaks a promise.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Replays it.
    pub seed: u64,
    /// Which state of the seed; 0 is the life itself.
    pub state: usize,
    /// How the state was reached, and the fault.
    pub story: String,
    /// The fault, in one line.
    pub violation: Violation,
}

/// The result of a seed.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Different states that were opened and compared.
    pub states: usize,
    /// Operations of the life and of the processes after cuts.
    pub operations: usize,
    /// The faults.
    pub findings: Vec<Finding>,
}

/// One seed under way.
struct Seed<'s> {
    seed: u64,
    settings: &'s Settings,
    options: Options,
    runtime: Runtime,
    root: tempfile::TempDir,
    /// The only state to look at; all if none.
    only: Option<usize>,
    number: usize,
    seen: HashSet<u64>,
    outcome: Outcome,
}

/// A life: its log, and the known contents over time.
struct Life {
    ops: Vec<Op>,
    /// One for each process that wrote by itself.
    timelines: Vec<Timeline>,
    /// The commands on the copy.
    copied: Vec<Copied>,
    ids: u64,
    violation: Option<Violation>,
}

impl Life {
    /// The requests in progress at a length of the log, for people.
    fn story(&self, cut: usize) -> String {
        self.timelines.iter().map(|timeline| timeline.story(cut)).collect()
    }
}

/// A state to be judged.
struct State {
    files: Files,
    /// The disk below the files: after a kill, bytes that were not durable still are not.
    disk: Image,
    known: Knowledge,
    /// The contents of the copy, if they are known.
    copy: Option<Arc<Copy>>,
    story: String,
    ids: u64,
    random: Random,
    depth: usize,
}

/// Runs one seed, or one state of it.
pub fn run(seed: u64, settings: &Settings, only: Option<usize>) -> std::io::Result<Outcome> {
    let runtime = Runtime::new()?;
    let root = tempfile::Builder::new().prefix("posthaste-simulator").tempdir_in(&settings.base)?;
    let mut run = Seed {
        seed,
        settings,
        options: options(seed),
        runtime,
        root,
        only,
        number: 0,
        seen: HashSet::new(),
        outcome: Outcome::default(),
    };
    run.whole()?;
    Ok(run.outcome)
}

/// How often a life is cut.
struct Cuts<'a> {
    count: usize,
    /// The story before this life.
    story: &'a str,
    /// Lives before this one.
    depth: usize,
}

impl Seed<'_> {
    fn whole(&mut self) -> std::io::Result<()> {
        let mut random = Random::new(self.seed, 1);
        let faulty = self.settings.faults && random.chance(40);
        let life = match &self.settings.visitor {
            Some(program) if Random::new(self.seed, 9).chance(self.settings.together) => {
                self.live_together(&program.clone(), faulty)?
            }
            _ => self.live(&mut random, faulty)?,
        };
        self.outcome.operations += life.ops.len();
        if let Some(violation) = &life.violation {
            let story = format!("the life itself\n{}", life.story(usize::MAX));
            self.found(0, story, violation.clone());
        }
        if let (Some(keep), Some(_)) = (&self.settings.keep, self.only) {
            std::fs::create_dir_all(keep)?;
            std::fs::write(keep.join("life"), listing(&life))?;
        }
        let empty = Image::of_files(&Files::new(), self.seed);
        let cuts = Cuts { count: self.settings.cuts, story: "", depth: 0 };
        self.cut(&life, empty, cuts, &mut random)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn found(&mut self, state: usize, story: String, violation: Violation) {
        self.outcome.findings.push(Finding { seed: self.seed, state, story, violation });
    }

    /// Several processes, one after the other, on one directory.
    fn live(&mut self, random: &mut Random, faulty: bool) -> std::io::Result<Life> {
        let dir = self.dir("life");
        std::fs::create_dir(&dir)?;
        let recorder = Recorder::watch(&dir)?;
        if faulty {
            recorder.set_faults(some_faults(random));
        }
        let mut driver = Driver::new(Arc::clone(&recorder), Knowledge::default(), self.seed, 0)
            .with_faults(faulty)
            .with_options(self.options.clone());
        let violation = self.lives(&mut driver, random, self.settings.steps).err();
        recorder.stop();
        std::fs::remove_dir_all(&dir)?;
        let ids = driver.ids();
        let (timelines, copied) = (vec![driver.timeline], Vec::new());
        Ok(Life { ops: recorder.ops(), timelines, copied, ids, violation })
    }

    /// Several processes at the same time.
    fn live_together(&mut self, program: &Path, faulty: bool) -> std::io::Result<Life> {
        let dir = self.dir("life");
        std::fs::create_dir(&dir)?;
        let recorder = Recorder::watch(&dir)?;
        let modes = (faulty, self.settings.rebuild);
        let steps = self.settings.steps;
        let mut company = Company::new(program, self.seed, &recorder, self.dir("company-copy"), modes, steps);
        let violation = company.live().err();
        let (timelines, copied, ids) = company.into_parts();
        recorder.stop();
        std::fs::remove_dir_all(&dir)?;
        Ok(Life { ops: recorder.ops(), timelines, copied, ids, violation })
    }

    fn lives(&mut self, driver: &mut Driver, random: &mut Random, steps: usize) -> Result<(), Violation> {
        let faulty = driver.is_faulty();
        let mut company = match &self.settings.visitor {
            // Only its own process notices a failing disk.
            Some(program) if !faulty && random.chance(35) => {
                let (root, sink) = (self.dir("life"), self.dir("operations"));
                Some(Visitor::new(program.clone(), self.seed, &root, sink, faulty))
            }
            _ => None,
        };
        let results = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&results);
        driver.set_listener(move |word| listener.lock().push(word));
        let mut left = steps;
        while left > 0 {
            // Where the disk failed from the beginning, no store is there yet.
            if random.chance(8) && left < steps && self.dir("life").join("format").exists() {
                if let Some(visitor) = company.as_mut() {
                    if visitor.is_open() {
                        visitor.command(driver, "close")?;
                    }
                    // It knows the files by their names before the rebuild. The next process lists
                    // all files again.
                    visitor.kill();
                }
                driver.rebuild(self.settings.strict)?;
            }
            let opening = if random.chance(65) { Opening::Serving } else { Opening::Command };
            let now = (1 + random.below(20)).min(left);
            left -= now;
            let Some(engine) = driver.open(opening)? else { continue };
            let mut life = Shared {
                driver,
                visitor: company.as_mut(),
                results: &results,
                opening,
                rebuilds: self.settings.rebuild,
            };
            let lived = self.runtime.block_on(life.live(&engine, now, random));
            if random.chance(50) {
                driver.kill(engine)
            } else {
                driver.close(engine)
            }
            lived?;
        }
        Ok(())
    }

    /// Judges the states after cuts of a life that began on this disk.
    fn cut(
        &mut self,
        life: &Life,
        mut image: Image,
        cuts: Cuts<'_>,
        random: &mut Random,
    ) -> std::io::Result<()> {
        let Cuts { count, story, depth } = cuts;
        let mut places: Vec<(usize, u64)> =
            (0..count).map(|_| (random.below(life.ops.len() + 1), random.draw())).collect();
        places.sort_unstable();
        for (at, seed) in places {
            image.advance(&life.ops, at);
            let mut random = Random::new(seed, 4);
            let (keep, names) = self.severity(&mut random);
            let known = known_at(life.timelines.iter(), at);
            if self.settings.from_first_answer && known.certain.lists.is_empty() {
                continue;
            }
            let files = image.crash(life.ops.get(at), keep, names, &mut random);
            if !self.seen.insert(fingerprint(&files)) {
                continue;
            }
            self.number += 1;
            let story = format!(
                "{story}cut after operation {at} of {}, which keeps {keep:?}, names {names:?}\n{}",
                life.ops.len(),
                life.story(at)
            );
            let disk = match keep {
                Keep::All => image.carried(),
                _ => Image::of_files(&files, seed),
            };
            let copy = copy_at(&life.copied, at);
            let state = State { files, disk, known, copy, story, ids: life.ids, random, depth };
            self.judge(state)?;
        }
        Ok(())
    }

    fn severity(&self, random: &mut Random) -> (Keep, Names) {
        let all = [Keep::All, Keep::None, Keep::Earlier, Keep::Any, Keep::Most, Keep::Few];
        let keep = random.pick(&all).copied().unwrap_or(Keep::All);
        let names = if random.chance(50) { Names::Posix } else { Names::Journalled };
        let keep = if self.settings.power { keep } else { Keep::All };
        (keep, if self.settings.posix_names { names } else { Names::Journalled })
    }

    fn judge(&mut self, state: State) -> std::io::Result<()> {
        let number = self.number;
        let wanted = self.only.is_none_or(|only| only == number);
        if wanted {
            self.outcome.states += 1;
        }
        // Before the first commit there may be no store to rebuild.
        if wanted
            && self.only.is_some()
            && let Some(keep) = &self.settings.keep
        {
            materialise(&state.files, &keep.join("state"))?;
        }
        let any = state.files.contains_key("format") || !state.known.certain.lists.is_empty();
        if wanted
            && any
            && self.settings.rebuild
            && self.is_rebuilt_at_once(&state)
            && let Err(violation) = self.rebuilt(&state)?
        {
            self.found(number, format!("{}  then a rebuild at once\n", state.story), violation);
        }
        // The later operations are needed for the numbers of later states, even if only one is
        // judged.
        let life = self.opened(&state)?;
        self.outcome.operations += life.ops.len();
        if let Some(violation) = life.violation.clone().filter(|_| wanted) {
            let after = life.story(usize::MAX);
            self.found(number, format!("{}  then\n{after}", state.story), violation);
        }
        if state.depth < 2 && self.settings.nested > 0 {
            let mut random = state.random.clone();
            let story = format!("{}  and then ", state.story);
            let cuts = Cuts { count: self.settings.nested, story: &story, depth: state.depth + 1 };
            self.cut(&life, state.disk, cuts, &mut random)?;
        }
        Ok(())
    }

    /// Whether this is one of the states after which the index is made again at once. That costs
    /// twice as much as everything else. The choice draws from a copy of the state's generator, so
    /// it does not change what happens later.
    fn is_rebuilt_at_once(&self, state: &State) -> bool {
        let one_in = self.settings.rebuild_at_once.max(1);
        Random::new(state.random.clone().draw(), 8).draw().is_multiple_of(one_in)
    }

    /// Opens the store, compares, takes some more steps, and compares again.
    fn opened(&mut self, state: &State) -> std::io::Result<Life> {
        let dir = self.dir(&format!("state{}", self.number));
        materialise(&state.files, &dir)?;
        let recorder = Recorder::watch(&dir)?;
        let mut random = Random::new(state.random.clone().draw(), 5);
        let seed = random.draw();
        let mut driver = Driver::new(Arc::clone(&recorder), state.known.clone(), seed, state.ids)
            .with_options(self.options.clone());
        let violation = self.live_on(&mut driver, state.copy.as_deref(), &mut random).err();
        recorder.stop();
        self.dispose(&dir)?;
        let ids = driver.ids();
        let (timelines, copied) = (vec![driver.timeline], Vec::new());
        Ok(Life { ops: recorder.ops(), timelines, copied, ids, violation })
    }

    /// Opens the engine twice, with steps in the first life.
    fn live_on(
        &mut self,
        driver: &mut Driver,
        copy: Option<&Copy>,
        random: &mut Random,
    ) -> Result<(), Violation> {
        for round in 0..2 {
            let opening = if random.chance(50) { Opening::Serving } else { Opening::Command };
            let Some(engine) = driver.open(opening)? else { return Ok(()) };
            let steps = 1 + random.below(4);
            let lived = self.runtime.block_on(async {
                driver.verify(&engine).await?;
                if round == 0 { driver.steps(Some(&engine), steps).await } else { Ok(()) }
            });
            if random.chance(50) {
                driver.kill(engine)
            } else {
                driver.close(engine)
            }
            lived?;
            if round == 0 && self.settings.rebuild && random.chance(40) {
                driver.rebuild(self.settings.strict)?;
            }
        }
        self.runtime.block_on(repeat(driver.root(), &self.options, copy))
    }

    /// Removes a directory, or leaves it where a person wants to look at it.
    fn dispose(&self, dir: &Path) -> std::io::Result<()> {
        match &self.settings.keep {
            Some(keep) if self.only == Some(self.number) => {
                let files = crate::damage::files_of(dir)?;
                materialise(&files, &keep.join(dir.file_name().unwrap_or_default()))?;
            }
            _ => {}
        }
        std::fs::remove_dir_all(dir)
    }

    /// Rebuilds the index at once, compares, and continues.
    fn rebuilt(&mut self, state: &State) -> std::io::Result<Result<(), Violation>> {
        let dir = self.dir(&format!("rebuilt{}", self.number));
        materialise(&state.files, &dir)?;
        let recorder = Recorder::watch(&dir)?;
        let mut random = Random::new(state.random.clone().draw(), 6);
        let seed = random.draw();
        let mut driver = Driver::new(Arc::clone(&recorder), state.known.clone(), seed, state.ids)
            .with_options(self.options.clone());
        let judged = driver.rebuild(self.settings.strict);
        let judged = judged.and_then(|()| self.live_on(&mut driver, state.copy.as_deref(), &mut random));
        recorder.stop();
        let judged = judged.and_then(|()| self.without_index(&mut driver));
        self.dispose(&dir)?;
        Ok(judged)
    }

    /// Loses the index. Packs without a fault have all that was acknowledged.
    fn without_index(&self, driver: &mut Driver) -> Result<(), Violation> {
        if !driver.rebuild_from_packs()? {
            return Ok(());
        }
        let Some(engine) = driver.open(Opening::Command)? else { return Ok(()) };
        let judged = self.runtime.block_on(driver.verify(&engine));
        driver.close(engine);
        judged.map_err(|violation| format!("after the index was lost: {violation}"))
    }
}

/// A life, of one process or of several.
struct Shared<'a> {
    driver: &'a mut Driver,
    visitor: Option<&'a mut Visitor>,
    /// The answers to this process in its last step.
    results: &'a Mutex<Vec<StepResult>>,
    opening: Opening,
    /// Whether the other process may make the index again.
    rebuilds: bool,
}

impl Shared<'_> {
    async fn live(
        &mut self,
        engine: &LmdbEngine,
        steps: usize,
        random: &mut Random,
    ) -> Result<(), Violation> {
        for _ in 0..steps {
            let visit = self.visitor.is_some() && random.chance(35);
            if !visit || !self.visit(engine, random).await? {
                self.results.lock().clear();
                self.driver.steps(Some(engine), 1).await?;
                let results = std::mem::take(&mut *self.results.lock());
                if let Some(visitor) = &mut self.visitor {
                    visitor.send_results(&results).map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Something that the other process does; `false` if it took no step.
    async fn visit(&mut self, engine: &LmdbEngine, random: &mut Random) -> Result<bool, Violation> {
        let Some(visitor) = &mut self.visitor else { return Ok(false) };
        // A process that holds a transaction would make the other wait until the clock advances.
        self.driver.tick(engine).await?;
        if self.rebuilds && random.chance(4) && self.opening == Opening::Command {
            if visitor.is_open() {
                visitor.command(self.driver, "close")?;
            }
            // Beside a process that writes it must refuse, or that process must notice.
            visitor.command(self.driver, "rebuild")?;
            return Ok(false);
        }
        if !visitor.is_open() && visitor.command(self.driver, "open")? != Ended::Done {
            return Ok(false);
        }
        match random.below(12) {
            0 => {
                visitor.command(self.driver, "check")?;
                Ok(false)
            }
            1 => {
                visitor.command(self.driver, "close")?;
                Ok(false)
            }
            2 => {
                visitor.kill();
                Ok(false)
            }
            n => {
                let die = (n < 5).then(|| random.below(24));
                visitor.step(self.driver, die).await?;
                Ok(true)
            }
        }
    }
}

/// Some operations that fail, and perhaps a while in which the disk is full.
fn some_faults(random: &mut Random) -> Faults {
    let mut faults = Faults::default();
    for _ in 0..1 + random.below(4) {
        let how = if random.chance(50) { Failure::Whole } else { Failure::Half };
        faults.fail.insert(20 + random.below(300), how);
    }
    if random.chance(40) {
        let from = 20 + random.below(250);
        faults.full = Some((from, from + random.below(100)));
    }
    faults
}

/// The operations of a life and their purpose, for a person who looks for a lost commit.
fn listing(life: &Life) -> String {
    let mut text = String::new();
    let mut moments: Vec<&Moment> = life.timelines.iter().flat_map(|t| &t.moments).collect();
    moments.sort_by_key(|m| m.end);
    let mut moments = moments.into_iter().peekable();
    for (at, op) in life.ops.iter().enumerate() {
        while let Some(moment) = moments.next_if(|m| m.end <= at) {
            text += &format!("--- {}..{}: {}\n", moment.start, moment.end, moment.what);
        }
        text += &match op {
            Op::Write { node, at: offset, data, durable } => {
                format!("{at}: write node {node} at {offset}, {} bytes, durable {durable}\n", data.len())
            }
            other => format!("{at}: {other:?}\n"),
        };
    }
    text
}

/// Whether a directory can be watched here.
pub fn works(base: &Path) -> bool {
    tempfile::tempdir_in(base).and_then(|d| Recorder::watch(d.path()).map(|r| r.stop())).is_ok()
}
