//! The damage sweep: every region of every file of a small store is damaged in turn, and the store
//! must notice.
//!
//! What must hold for a damaged file while the store is open. Each message reads right or with an
//! error, and none is missing without one. Damage in a pack concerns only the messages whose bytes
//! lie there. `check` names a fault wherever a reader met one, and wherever a record of a pack was
//! damaged. A rebuild keeps every message that the damage does not concern, and never gives a UID
//! to another message.
//!
//! A damaged index may end a process with a signal. So the store is opened in a process of its own
//! ([`child`]), which the sweep starts again when it has died ([`Sweep`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;

use posthaste_mail_model::{BodyId, Id, NumSet};
use posthaste_store::{Engine, Stored};
use posthaste_store_lmdb::{LmdbEngine, Options, Rebuild};

use crate::driver::{Driver, Opening, options, rebuild_index};
use crate::image::{Files, materialise};
use crate::model::{Held, Knowledge, World};
use crate::record::Recorder;
use crate::verify::Violation;

/// How a region is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One bit in its middle is flipped.
    Flip,
    /// It is zero.
    Zero,
    /// Reading it fails with `EIO`. Packs only: a map answers such a page with a signal.
    Unreadable,
}

/// A damaged region of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's path in the store.
    pub file: String,
    /// Where it begins.
    pub at: usize,
    /// Its length in bytes.
    pub len: usize,
    /// How it is damaged.
    pub kind: Kind,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Flip => "flip",
            Kind::Zero => "zero",
            Kind::Unreadable => "unreadable",
        };
        write!(f, "{kind} {} {} {}", self.at, self.len, self.file)
    }
}

impl FromStr for Damage {
    type Err = ();
    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split(' ');
        let kind = match words.next() {
            Some("flip") => Kind::Flip,
            Some("zero") => Kind::Zero,
            Some("unreadable") => Kind::Unreadable,
            _ => return Err(()),
        };
        let mut number = || words.next().and_then(|w| w.parse().ok()).ok_or(());
        let (at, len) = (number()?, number()?);
        Ok(Self { file: words.next().ok_or(())?.to_owned(), at, len, kind })
    }
}

/// A closed store, and its contents.
pub struct Sample {
    files: Files,
    world: World,
    options: Options,
    /// Records of each pack: start, end and id.
    records: BTreeMap<String, Vec<Record>>,
}

struct Record {
    start: usize,
    end: usize,
    is_body: bool,
    id: [u8; 16],
}

/// The least unit that a disk reads.
const SECTOR: usize = 512;
/// Bytes of a pack's head, and of a record's: `docs/storage.md`.
const PACK_HEADER: usize = 64;
const RECORD_HEADER: usize = 48;

/// The records of a pack, by the tables of `docs/storage.md`.
fn records(pack: &[u8]) -> Vec<Record> {
    let mut all = Vec::new();
    let mut at = PACK_HEADER;
    while let Some(head) = pack.get(at..at + RECORD_HEADER).filter(|h| h.starts_with(b"PHR1")) {
        let len = head.get(16..24).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes) as usize;
        let is_body = head.get(4) == Some(&1);
        let table = if is_body { len.div_ceil(64 << 10) * 4 } else { 0 };
        let end = (at + RECORD_HEADER + table + len).next_multiple_of(8);
        let id = head.get(24..40).and_then(|b| b.try_into().ok()).unwrap_or_default();
        all.push(Record { start: at, end, is_body, id });
        at = end;
    }
    all
}

impl Sample {
    /// Makes a store with a bit of everything in it: the same for the same seed, except for the
    /// store's id.
    pub fn make(seed: u64, base: &Path) -> Result<Self, Violation> {
        let fails = |e: std::io::Error| e.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(fails)?;
        let dir = tempfile::Builder::new().prefix("posthaste-damage").tempdir_in(base).map_err(fails)?;
        let recorder = Recorder::watch(dir.path()).map_err(fails)?;
        let options = options(seed);
        let mut driver =
            Driver::new(Arc::clone(&recorder), Knowledge::default(), seed, 0).with_options(options.clone());
        for opening in [Opening::Serving, Opening::Command] {
            let engine = driver.open(opening)?.ok_or("the sample cannot be opened")?;
            runtime.block_on(driver.steps(Some(&engine), 40))?;
            driver.close(engine);
        }
        recorder.stop();
        let files = files_of(dir.path()).map_err(fails)?;
        let packs = files.iter().filter(|(path, _)| path.ends_with(".pack"));
        let records =
            packs.filter_map(|(path, bytes)| Some((path.clone(), records(bytes.as_ref()?)))).collect();
        Ok(Self { files, world: driver.known.certain, options, records })
    }

    /// Every damage with regions of `step` bytes. Regions that zeroing or a flip cannot change are
    /// left out. A disk reads whole sectors, so an unreadable region is no smaller.
    pub fn all(&self, step: usize) -> Vec<Damage> {
        let mut all = Vec::new();
        let is_unreadable = |file: &str, at: usize, bytes: &[u8]| {
            let used = bytes.iter().skip(at).take(step.max(SECTOR)).any(|b| *b != 0);
            file.ends_with(".pack") && used && at.is_multiple_of(step.max(SECTOR))
        };
        for (file, bytes) in &self.files {
            let Some(bytes) = bytes else { continue };
            for at in (0..bytes.len()).step_by(step) {
                let len = step.min(bytes.len() - at);
                let zero = bytes.iter().skip(at).take(len).all(|b| *b == 0);
                let mut add = |kind| all.push(Damage { file: file.clone(), at, len, kind });
                add(Kind::Flip);
                if !zero {
                    add(Kind::Zero);
                }
                if is_unreadable(file, at, bytes) {
                    let len = step.max(SECTOR).min(bytes.len() - at);
                    all.push(Damage { file: file.clone(), at, len, kind: Kind::Unreadable });
                }
            }
        }
        all
    }

    fn damaged(&self, damage: &Damage) -> Files {
        let mut files = self.files.clone();
        let region = files.get_mut(&damage.file).and_then(|f| f.as_mut());
        let region = region.and_then(|bytes| bytes.get_mut(damage.at..damage.at + damage.len));
        if let Some(region) = region {
            match damage.kind {
                Kind::Zero => region.fill(0),
                Kind::Flip => {
                    let middle = region.len() / 2;
                    region.iter_mut().skip(middle).take(1).for_each(|b| *b ^= 0x10);
                }
                Kind::Unreadable => {}
            }
        }
        files
    }

    fn overlapping(&self, damage: &Damage) -> impl Iterator<Item = &Record> {
        // A flip is one byte of the region.
        let (from, to) = match damage.kind {
            Kind::Flip => (damage.at + damage.len / 2, damage.at + damage.len / 2 + 1),
            _ => (damage.at, damage.at + damage.len),
        };
        let records = self.records.get(&damage.file).into_iter().flatten();
        records.filter(move |r| r.start < to && from < r.end)
    }

    /// Bodies whose records the damage touches.
    fn bodies_hit(&self, damage: &Damage) -> BTreeSet<BodyId> {
        let bodies = self.overlapping(damage).filter(|r| r.is_body);
        bodies.map(|r| BodyId(Id::from_bytes(r.id))).collect()
    }

    /// Judges one damage in this process; `rebuild`: also the result of a rebuild.
    pub fn judge(&self, damage: &Damage, base: &Path, rebuild: bool) -> Result<(), Violation> {
        let fails = |e: std::io::Error| e.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(fails)?;
        let root = tempfile::Builder::new().prefix("posthaste-damage").tempdir_in(base).map_err(fails)?;
        let dir = root.path().join("store");
        materialise(&self.damaged(damage), &dir).map_err(fails)?;
        let recorder = Recorder::watch(&dir).map_err(fails)?;
        if damage.kind == Kind::Unreadable {
            recorder.set_unreadable(&dir.join(&damage.file), damage.at as u64, damage.len as u64);
        }
        let judged = self.judge_open(damage, &dir, &runtime).and_then(|()| match rebuild {
            true => self.judge_rebuilt(damage, &dir, &runtime).map_err(|e| format!("after a rebuild: {e}")),
            false => Ok(()),
        });
        recorder.stop();
        judged
    }

    fn judge_open(
        &self,
        damage: &Damage,
        dir: &Path,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<(), Violation> {
        let in_pack = damage.file.ends_with(".pack");
        let opened = Opening::Serving.open(dir, self.options.clone());
        let engine = match opened {
            Ok(engine) => engine,
            // Reading a damaged index or format file may stop the store from opening. A damaged
            // pack affects only its own messages.
            Err(_) if !in_pack && !damage.file.starts_with("lock") => return Ok(()),
            Err(error) => return Err(format!("opening fails: {error}")),
        };
        let hit = self.bodies_hit(damage);
        runtime.block_on(async {
            let mut errors = 0;
            for (id, held) in &self.world.boxes {
                let read = self.read(&engine, *id, held).await?;
                errors += read.errors;
                if in_pack && let Some(body) = read.unread.iter().find(|body| !hit.contains(body)) {
                    return Err(format!("body {body} cannot be read, and is not where the damage is"));
                }
                if in_pack && read.errors > read.unread.len() {
                    return Err(format!("mailbox {id} cannot be listed, and the index is intact"));
                }
            }
            let lists = self.read_lists(&engine).await;
            let checked = engine.check(&mut |_| {}).await;
            let faults = checked.as_ref().map_or(1, |report| report.faults.len());
            errors += lists.map_err(|wrong| format!("{wrong}; check finds {faults} faults"))?;
            let clean = checked.is_ok_and(|report| report.faults.is_empty());
            match clean {
                true if errors > 0 => Err(format!("check finds no fault, and {errors} errors were met")),
                true if in_pack && self.overlapping(damage).next().is_some() => {
                    Err("check does not find a damaged record".into())
                }
                _ => Ok(()),
            }
        })
    }

    /// Reads a mailbox as clients do. Wrong or missing without an error is a violation.
    async fn read(
        &self,
        engine: &LmdbEngine,
        id: posthaste_mail_model::MailboxId,
        held: &Held,
    ) -> Result<Read, Violation> {
        let mut read = Read::default();
        let mut rows = Vec::new();
        match engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await {
            Ok(head) if head != held.head => {
                return Err(format!("mailbox {id}: {}", held.difference(&Held { head, ..held.clone() })));
            }
            Ok(_) if !rows.iter().eq(held.messages.values().map(|m| &m.row)) => {
                return Err(format!("mailbox {id}: {} rows of {}", rows.len(), held.messages.len()));
            }
            Ok(_) => {}
            Err(_) => read.errors += 1,
        }
        let mut seen = BTreeMap::new();
        let mut visit = |s: Stored<'_>| {
            seen.insert(s.uid.value(), (s.body, s.summary.to_vec()));
            ControlFlow::Continue(())
        };
        // What a client can request: UIDs that have rows.
        let all: NumSet = held.messages.keys().copied().collect();
        let listed = engine.summaries(id, &all, &mut visit).await;
        for (uid, (body, summary)) in &seen {
            let message = held.messages.get(uid);
            if message.is_none_or(|m| m.body != *body || m.summary != *summary) {
                let (now, was) = (String::from_utf8_lossy(summary), message.map(|m| (m.body, m.bytes.len())));
                return Err(format!(
                    "mailbox {id}: the summary of UID {uid} is wrong: body {body}, {now}; it was {was:?}"
                ));
            }
        }
        match listed {
            Ok(unreadable) if seen.len() as u64 + unreadable.0.count() != held.messages.len() as u64 => {
                return Err(format!("mailbox {id}: {} summaries of {}", seen.len(), held.messages.len()));
            }
            Ok(unreadable) => read.errors += usize::from(!unreadable.0.is_empty()),
            Err(_) => read.errors += 1,
        }
        for (uid, message) in &held.messages {
            match engine.read_body(message.body, 0..u64::MAX).await {
                Ok(bytes) if bytes != message.bytes => {
                    return Err(format!("mailbox {id}: UID {uid} has wrong bytes"));
                }
                Ok(_) => {}
                Err(_) => {
                    read.errors += 1;
                    read.unread.push(message.body);
                }
            }
        }
        Ok(read)
    }

    /// Lists and directory: each is right or an error. Returns the number of errors.
    async fn read_lists(&self, engine: &LmdbEngine) -> Result<usize, Violation> {
        let mut errors = 0;
        for (account, list) in &self.world.lists {
            match engine.load_list(*account).await {
                Ok(there) if there != **list => {
                    let (now, was) = (there.entries.len(), list.entries.len());
                    let versions = (there.version, list.version);
                    return Err(format!(
                        "list {account} is wrong: {now} entries of {was}, version {} for {}",
                        versions.0, versions.1
                    ));
                }
                Ok(_) => {}
                Err(_) => errors += 1,
            }
        }
        match engine.directory_scan("", None, usize::MAX).await {
            Ok(all) => {
                let all = all.into_iter().map(|e| (e.name, (e.version, e.value)));
                if !all.eq(self.world.directory.clone()) {
                    return Err("the directory is wrong".into());
                }
            }
            Err(_) => errors += 1,
        }
        Ok(errors)
    }

    /// After a rebuild: everything outside the damage exists, and everything that exists is right.
    fn judge_rebuilt(
        &self,
        damage: &Damage,
        dir: &Path,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<(), Violation> {
        let rebuilt = rebuild_index(dir, &self.options, Rebuild::Force);
        match rebuilt {
            Ok(_) => {}
            Err(error) => return Err(format!("it fails: {error}")),
        }
        let engine = Opening::Command.open(dir, self.options.clone());
        let engine = engine.map_err(|e| format!("opening fails: {e}"))?;
        let hit = self.bodies_hit(damage);
        runtime.block_on(async {
            for (account, list) in &self.world.lists {
                let there = engine.load_list(*account).await.map_err(|e| e.to_string())?;
                for entry in &list.entries {
                    let now = there.entries.iter().find(|e| e.name == entry.name);
                    let Some(now) = now else { return Err(format!("mailbox {} is not there", entry.id)) };
                    let Some(held) = self.world.boxes.get(&entry.id) else { continue };
                    let same = now.uid_validity == entry.uid_validity;
                    kept(&engine, now.id, held, same, &hit).await?;
                }
            }
            Ok(())
        })
    }
}

/// The results of reading a mailbox.
#[derive(Default)]
struct Read {
    errors: usize,
    unread: Vec<BodyId>,
}

/// Every message outside the damage exists. `same`: UIDVALIDITY is unchanged, so UIDs must name the
/// same messages.
async fn kept(
    engine: &LmdbEngine,
    id: posthaste_mail_model::MailboxId,
    held: &Held,
    same: bool,
    hit: &BTreeSet<BodyId>,
) -> Result<(), Violation> {
    let mut seen = Vec::new();
    let mut visit = |s: Stored<'_>| {
        seen.push((s.uid.value(), s.body));
        ControlFlow::Continue(())
    };
    let listed = engine.summaries(id, &NumSet::range(1, u32::MAX), &mut visit).await;
    let listed = listed.and_then(posthaste_store::Unreadable::refuse);
    listed.map_err(|e| format!("mailbox {id} cannot be listed: {e}"))?;
    let mut wanted: HashMap<&[u8], usize> = HashMap::new();
    for message in held.messages.values().filter(|m| !hit.contains(&m.body)) {
        *wanted.entry(&message.bytes).or_default() += 1;
    }
    for (uid, body) in seen {
        let bytes = match engine.read_body(body, 0..u64::MAX).await {
            Ok(bytes) => bytes,
            Err(_) if hit.contains(&body) => continue,
            Err(error) => return Err(format!("mailbox {id}: UID {uid}: {error}")),
        };
        if same && held.messages.get(&uid).is_some_and(|m| m.bytes != bytes) {
            return Err(format!("mailbox {id}: UID {uid} names another message under the same UIDVALIDITY"));
        }
        if same && held.expunged.contains(uid) {
            return Err(format!("mailbox {id}: UID {uid} was expunged and is back"));
        }
        if let Some(left) = wanted.get_mut(&bytes[..]) {
            *left = left.saturating_sub(1);
        }
    }
    match wanted.values().sum::<usize>() {
        0 => Ok(()),
        lost => Err(format!("mailbox {id}: {lost} of {} messages are lost", held.messages.len())),
    }
}

/// All files below a directory.
pub fn files_of(dir: &Path) -> std::io::Result<Files> {
    let mut files = Files::new();
    read_tree(dir, "", &mut files)?;
    Ok(files)
}

fn read_tree(dir: &Path, prefix: &str, files: &mut Files) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_tree(&entry.path(), &format!("{path}/"), files)?;
            files.insert(path, None);
        } else {
            files.insert(path, Some(std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// The other process: reads one damage a line, answers one line each. Ends with its input.
pub fn child(seed: u64, base: &Path, rebuild: bool) -> Result<(), Violation> {
    let sample = Sample::make(seed, base)?;
    for line in std::io::stdin().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let Ok(damage) = line.parse::<Damage>() else { return Err(format!("no damage: {line}")) };
        let answer = match sample.judge(&damage, base, rebuild) {
            Ok(()) => "right".to_owned(),
            Err(violation) => format!("wrong {}", violation.replace('\n', " ")),
        };
        println!("answer {answer}");
    }
    Ok(())
}

/// A process that judges damage. It is started again when damage ends it.
pub struct Sweep {
    program: PathBuf,
    seed: u64,
    rebuild: bool,
    running: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Sweep {
    /// `program` is the `simulate` binary.
    pub fn new(program: PathBuf, seed: u64) -> Self {
        Self { program, seed, rebuild: true, running: None }
    }

    /// Judges only what an open store answers.
    #[must_use]
    pub fn without_rebuild(mut self) -> Self {
        self.rebuild = false;
        self
    }

    /// Judges one damage in the other process.
    pub fn judge(&mut self, damage: &Damage) -> std::io::Result<Result<(), Violation>> {
        if self.running.is_none() {
            let mut child = Command::new(&self.program)
                .args(["--damage-child", "--seed", &self.seed.to_string()])
                .args(if self.rebuild { None } else { Some("--no-rebuild") })
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let missing = || std::io::Error::other("no pipe");
            let (input, output) = (input.ok_or_else(missing)?, output.ok_or_else(missing)?);
            self.running = Some((child, input, BufReader::new(output)));
        }
        let Some((child, input, output)) = &mut self.running else { return Ok(Ok(())) };
        writeln!(input, "{damage}")?;
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            if let Some(answer) = line.trim_end().strip_prefix("answer ") {
                return Ok(answer.strip_prefix("wrong ").map_or(Ok(()), |wrong| Err(wrong.to_owned())));
            }
            line.clear();
        }
        let status = child.wait()?;
        self.running = None;
        Ok(Err(format!("the process ended: {status}")))
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some((mut child, input, _)) = self.running.take() {
            drop(input);
            let _ = child.wait();
        }
    }
}

/// The answers of an opened store, for the sweep's own test: an intact sample has nothing wrong
/// with it.
pub fn intact(sample: &Sample, base: &Path) -> Result<(), Violation> {
    let none = Damage { file: "format".into(), at: 0, len: 0, kind: Kind::Zero };
    sample.judge(&none, base, true)
}
