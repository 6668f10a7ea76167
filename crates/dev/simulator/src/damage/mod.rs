//! The damage sweep: every region of every file of a small store is damaged in turn, and the store
//! must notice.
//!
//! [`Sample`] is the store, and the list of all damage. `judge` opens the store with one damage and
//! compares. `sweep` does so in a process of its own, which is started again if damage ends it.
//!
//! The requirements for a damaged file while the store is open. Each message reads right or with an
//! error, and none is missing without one. Damage in a pack affects only the messages whose bytes
//! are there. `check` names a fault wherever a reader met one, and wherever a record of a pack was
//! damaged. A rebuild keeps every message that the damage does not affect, and never gives a UID to
//! another message.
//!
//! A part that cannot be read is an error as well, never a signal: at an opening, the index is read
//! without its map. If a page of the index fails after that, LMDB touches it through the map, and
//! the kernel ends the process with SIGBUS ([`Kind::Fails`]). Then the process has written the file
//! `suspect`, and the next process is not ended again.

mod judge;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use posthaste_mail_model::{BodyId, Id};
use posthaste_store_lmdb::Options;

pub use self::sweep::{Sweep, child};
use crate::driver::{Driver, Opening, options};
use crate::image::Files;
use crate::model::{Knowledge, World};
use crate::record::Recorder;
use crate::runtime::Runtime;
use crate::unreadable::PAGE;
use crate::verify::Violation;

/// How a region is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One bit in its middle is flipped.
    Flip,
    /// It is zero.
    Zero,
    /// It cannot be read.
    Unreadable,
    /// It cannot be read any more after the store was opened. A page of the index.
    Fails,
}

/// A damaged region of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file's path in the store.
    pub file: String,
    /// Where it begins.
    pub at: usize,
    /// The damage's length in bytes.
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
            Kind::Fails => "fails",
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
            Some("fails") => Kind::Fails,
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

/// The file that LMDB maps.
const INDEX: &str = "index/data.mdb";
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
        let runtime = Runtime::new().map_err(fails)?;
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
    /// left out. A disk reads whole sectors, and a map whole pages, so an unreadable region is no
    /// smaller.
    pub fn all(&self, step: usize) -> Vec<Damage> {
        let mut all = Vec::new();
        for (file, bytes) in &self.files {
            let Some(bytes) = bytes else { continue };
            let used = |at: usize, len: usize| bytes.iter().skip(at).take(len).any(|b| *b != 0);
            let mut add = |at: usize, len: usize, kind| {
                all.push(Damage { file: file.clone(), at, len: len.min(bytes.len() - at), kind });
            };
            let is_index = file == INDEX;
            let least = step.max(if is_index { PAGE } else { SECTOR });
            for at in (0..bytes.len()).step_by(step) {
                add(at, step, Kind::Flip);
                if used(at, step) {
                    add(at, step, Kind::Zero);
                }
                if at.is_multiple_of(least) && used(at, least) {
                    add(at, least, Kind::Unreadable);
                    if is_index {
                        add(at, least, Kind::Fails);
                    }
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
                Kind::Unreadable | Kind::Fails => {}
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

/// The answers of an opened store, for the sweep's own test: an intact sample has nothing wrong
/// with it.
pub fn intact(sample: &Sample, base: &Path) -> Result<(), Violation> {
    let none = Damage { file: "format".into(), at: 0, len: 0, kind: Kind::Zero };
    sample.judge(&none, base, true)
}
