//! Rebuilds the index from the packs.
//!
//! 1. `survey` finds every record of every pack, whatever else is damaged, and lists it in a
//!    `catalog`.
//! 2. `replay` redoes the log in the order of its sequence numbers into an empty index. Each
//!    mailbox, list and record begins at its newest checkpoint (`checkpoints`, `ranges`). Where
//!    the log is damaged, `salvage` takes intact records from the old index.
//! 3. `finish` makes the summaries and counts the references.
//! 4. The new index replaces the old one in one step. The old one is kept under another name.
//!
//! If there were faults, step 4 is left out unless `--force` requests it, because the old index
//! may be better than the new one.

mod catalog;
mod checkpoints;
mod controls;
mod endings;
mod finish;
#[cfg(test)]
mod forged_tests;
mod last_bodies;
mod missing;
mod pack;
mod ranges;
mod replay;
mod restore;
mod restore_ranges;
mod salvage;
mod statements;
mod survey;
mod torn_round;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_store::{Report, Result, StoreError};

use self::catalog::Catalog;
use self::missing::{MissingPacks, missing_packs};
use self::replay::Replay;
use self::salvage::{NextNumbers, OldIndex};
use self::survey::{OldPacks, Survey, survey};
use crate::data_dir::format::{self, Access};
use crate::data_dir::identity;
use crate::data_dir::lock::EngineLock;
use crate::engine::Options;
use crate::index::Index;
use crate::index::lists;
use crate::index::packs::PackState;
use crate::log::disk::failed;
use crate::log::reader::PackReader;

/// The action of a rebuild that has found faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuild {
    /// The rebuild reports the faults and does not change the index.
    UnlessFaulty,
    /// The rebuild replaces the index despite the faults.
    Force,
}

/// Rebuilds the index of the locked directory. `examined` counts records; `faults` name the
/// records that could not be used and the remedies. `left_out` names what is damaged in the old
/// index. No other process may have the store open. `progress`: the share done, 0.0 … 1.0.
///
/// With faults and [`Rebuild::UnlessFaulty`], the index stays as it is.
pub fn rebuild(
    lock: &EngineLock,
    options: &Options,
    mode: Rebuild,
    progress: &mut dyn FnMut(f64),
) -> Result<Report> {
    let dir = lock.dir();
    let missing =
        || StoreError::Corrupt(format!("{}: no store is here: there is no file `format`", dir.display()));
    identity::repair(dir)?;
    let format = format::open(dir, Access::Alone)?.ok_or_else(missing)?;
    let scratch = Workplace::make(dir)?;
    let report = build(dir, &scratch, options, (format.id, mode), progress)?;
    if report.faults.is_empty() || mode == Rebuild::Force {
        // Every name on the way to the new index is durable before the new index counts.
        for path in [scratch.index().as_path(), &scratch.0, dir] {
            format::sync_directory(path).map_err(unavailable(path))?;
        }
        put_in_place(dir, &scratch.index())?;
    }
    Ok(report)
}

/// A directory for the new index and temporary files, removed at the end.
struct Workplace(PathBuf);

impl Workplace {
    fn make(dir: &Path) -> Result<Self> {
        let path = dir.join("index.new");
        remove(&path)?;
        std::fs::create_dir(&path).map_err(unavailable(&path))?;
        Ok(Self(path))
    }

    fn index(&self) -> PathBuf {
        self.0.join("index")
    }

    fn catalog(&self) -> PathBuf {
        self.0.join("catalog")
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // The next rebuild removes files that are left here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| failed(path.display())(e)
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(unavailable(path)(e)),
        _ => Ok(()),
    }
}

/// Builds the new index in the workplace.
fn build(
    dir: &Path,
    place: &Workplace,
    options: &Options,
    (store, mode): (posthaste_mail_model::Id, Rebuild),
    progress: &mut dyn FnMut(f64),
) -> Result<Report> {
    let packs = dir.join("packs");
    let catalog = Catalog::make(&place.catalog(), options.map_bytes)?;
    let mut faults = Vec::new();
    let old = OldIndex::open(&dir.join("index"), options, &mut faults);
    let next = old.as_ref().map_or(NextNumbers::FIRST, OldIndex::next_numbers);
    let (before, mut left_out) = packs_of(old.as_ref(), next.seq);
    let mut found =
        survey(&*options.disk, &packs, store, &before, &catalog, &mut |share| progress(share * 0.1))?;
    faults.append(&mut found.faults);
    let missing = missing_packs(&found, &before, next.pack, &mut faults);
    let is_complete = damaged_parts(&found, &before.packs, &mut faults) && missing != MissingPacks::Unknown;

    let mut index = Index::open(&place.index(), options.map_bytes, options.readers)?;
    index.checkpoint_from = options.checkpoint_from;
    index.upgrade()?;
    let reader = PackReader::new(std::sync::Arc::clone(&options.disk), packs, store);
    finish::place_bodies(&index, &reader, &catalog, &found)?;
    let mut replay = Replay::new(&index, &catalog, &found.packs, old.as_ref(), &before.packs, &mut faults);
    if missing == MissingPacks::InOldIndex {
        replay.doubt_all();
    }
    replay.run(&mut |share| progress(0.1 + share * 0.2))?;
    let mut txn = index.write()?;
    replay.recount(&mut txn)?;
    let (gaps, next_seq) = (std::mem::take(&mut replay.gaps), replay.next_seq);
    left_out.extend(std::mem::take(&mut replay.left_out));
    let superseded = std::mem::take(&mut replay.checkpoints.superseded);
    index.put_passes(&mut txn, &replay.ranges.passes)?;
    index.add_retired(&mut txn, &found.retired)?;
    let is_log_complete = is_complete && replay.is_complete;
    for account in lists::accounts(&index, &txn)? {
        let is_renewed = |mailbox| !is_log_complete || gaps.contains(&mailbox);
        for name in lists::renew_uid_validity(&index, &mut txn, account, now_unix_s(), is_renewed)? {
            faults.push(format!("mailbox {} of account {account} has a new UIDVALIDITY", name.as_str()));
        }
    }
    faults.extend(lists::unlisted(&index, &txn)?.iter().map(ToString::to_string));
    let highest = found.packs.keys().chain(&found.empty).max().copied().max(found.retired.last());
    index.put_next_pack(&mut txn, next.pack.max(highest.map_or(1, |number| number.saturating_add(1))))?;
    index.put_seq(&mut txn, next.seq.max(next_seq))?;
    txn.commit()?;

    let mut summaries = finish::SummaryMaker {
        index: &index,
        reader: &reader,
        summarize: options.summarize,
        catalog: &catalog,
        old: old.as_ref(),
        faults: &mut faults,
        last: None,
    };
    summaries.make_all(&mut |share| progress(0.3 + share * 0.7))?;
    finish::record_packs(&index, &catalog, &found, &superseded, !faults.is_empty())?;
    if faults.is_empty() || mode == Rebuild::Force {
        sync_packs(&found, &before.packs)?;
    }
    let examined = catalog.len(&*catalog.read()?)?;
    index.sync()?;
    index.close();
    Ok(Report { examined, faults, left_out, ..Report::default() })
}

/// The packs of the old index, and what was left out. Nothing, if there is no old index.
fn packs_of(old: Option<&OldIndex>, next_seq: u64) -> (OldPacks, Vec<String>) {
    let Some(old) = old else { return (OldPacks { next_seq, ..OldPacks::default() }, Vec::new()) };
    let (packs, mut retired) = (old.packs(), old.retired());
    let mut left_out = packs.left_out;
    left_out.append(&mut retired.left_out);
    let (packs, retired) = (packs.intact.into_iter().collect(), retired.intact.into_iter().collect());
    (OldPacks { packs, retired, next_seq }, left_out)
}

/// A new UIDVALIDITY is the time, unless it is below an earlier one (RFC 9051 §2.3.1.1 requires
/// that they rise).
fn now_unix_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    u32::try_from(now).unwrap_or(u32::MAX)
}

/// Names the damage, and returns whether the log is known to be complete. It is if an intact head
/// or the old index names every lost record.
fn damaged_parts(found: &Survey, old: &BTreeMap<u32, PackState>, faults: &mut Vec<String>) -> bool {
    let mut is_complete = true;
    for damage in &found.damage {
        let is_covered = OldIndex::covers(old, damage.pack, damage.to);
        let is_known = old.contains_key(&damage.pack);
        // The pack ends before it in the old index: a commit was cut off there that was not
        // acknowledged.
        if damage.is_last && is_known && !is_covered {
            continue;
        }
        is_complete &= is_covered;
        let (pack, from, to) = (damage.pack, damage.from, damage.to);
        faults.push(format!("pack {pack} is damaged from byte {from} to {to}"));
    }
    is_complete
}

/// The new index names records beyond the ends in the old one: a power cut must not lose them.
/// Below those ends all is durable. Without an old index each pack is synced whole.
fn sync_packs(found: &Survey, old: &BTreeMap<u32, PackState>) -> Result<()> {
    for (number, pack) in &found.packs {
        let known = old.get(number).map(|state| state.end);
        let from = known.unwrap_or(pack.counted_end());
        if known.is_none() || from < pack.counted_end() {
            let failed = |e| StoreError::Unavailable(format!("pack {number}: {e}"));
            pack.make_durable(from).map_err(failed)?;
        }
    }
    Ok(())
}

/// The path at which the next rebuild keeps the index that it replaces: `index.old` in the data
/// directory, or `index.old.1` and so on while that is there.
pub fn kept_index(dir: &Path) -> PathBuf {
    (0..)
        .map(|n| if n == 0 { dir.join("index.old") } else { dir.join(format!("index.old.{n}")) })
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.join("index.old"))
}

/// Replaces the old index, in one step if the system can exchange names. The old one is kept.
fn put_in_place(dir: &Path, new: &Path) -> Result<()> {
    let index = dir.join("index");
    let saved = kept_index(dir);
    if !index.exists() {
        std::fs::rename(new, &index).map_err(unavailable(new))?;
        return format::sync_directory(dir).map_err(unavailable(dir));
    }
    // Out of the workplace, which the next rebuild removes: from here on each step leaves both
    // indexes, however this process ends.
    std::fs::rename(new, &saved).map_err(unavailable(new))?;
    format::sync_directory(dir).map_err(unavailable(dir))?;
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    let cwd = rustix::fs::CWD;
    if rustix::fs::renameat_with(cwd, &saved, cwd, &index, exchange).is_err() {
        // Without an exchange there is a moment without an index. A start in that moment is
        // refused, and names the remedy.
        let between = kept_index(dir);
        std::fs::rename(&index, &between).map_err(unavailable(&index))?;
        std::fs::rename(&saved, &index).map_err(unavailable(&saved))?;
        format::sync_directory(dir).map_err(unavailable(dir))?;
        std::fs::rename(&between, &saved).map_err(unavailable(&between))?;
    }
    format::sync_directory(dir).map_err(unavailable(dir))
}
