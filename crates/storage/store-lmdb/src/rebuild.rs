//! Makes the index again from the packs alone.
//!
//! All records of all packs are listed, what was abandoned is struck out, and the log is replayed in the order of its sequence numbers into
//! `index.new`; then each message that is left gets its summary from its body, by the function that delivery uses. Only when all is there does
//! the new index take the place of the old, which stays as `index.old` until the next rebuild.

use posthaste_mail_model::{AccountId, BodyId, MailboxId};
use posthaste_store::{Report, Result, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::apply::replay_rows;
use crate::chunk::uid_key;
use crate::disk::DiskFile;
use crate::engine::Options;
use crate::format;
use crate::index::{Index, Indexed, damaged};
use crate::lists;
use crate::lock::EngineLock;
use crate::logged;
use crate::packs::reader::PackReader;
use crate::packs::record::{Header, Kind, body_record_len};
use crate::packs::scan::{Found, Scan, has_pack_header};
use crate::packs::{number_of, path_of};
use crate::pair;
use crate::rows::Scratch;
use crate::shared::Summarize;
use crate::sum::seed;
use crate::values::{BodyPlace, PackState, put_summary, summary_from};

/// Records, or summaries, of one index transaction.
const STEP: usize = 2_000;

/// A record and where it lies.
#[derive(Clone, Copy)]
struct Entry {
    pack: u32,
    offset: u64,
    header: Header,
}

/// A pack that takes part.
struct Pack {
    file: Arc<dyn DiskFile>,
    end: u64,
    last_seq: u64,
}

struct Rebuild {
    packs: BTreeMap<u32, Pack>,
    reader: PackReader,
    index: Index,
    report: Report,
    summarize: Summarize,
}

/// Makes the index of the locked directory again. `examined` counts records, `faults` name what could not be used. No other process may have the
/// store open.
pub fn rebuild(lock: &EngineLock, options: &Options) -> Result<Report> {
    let dir = lock.dir();
    let store = format::open(dir)?;
    let new = dir.join("index.new");
    remove_if_there(&new)?;
    let packs = dir.join("packs");
    let mut rebuild = Rebuild {
        packs: BTreeMap::new(),
        reader: PackReader::new(Arc::clone(&options.disk), packs.clone()),
        index: Index::open(&new, options.map_bytes, options.readers)?,
        report: Report::default(),
        summarize: options.summarize,
    };
    let entries = rebuild.list_records(options, &packs, store)?;
    rebuild.report.examined = entries.len() as u64;
    let log = rebuild.place_bodies(&entries)?;
    rebuild.replay(&log)?;
    rebuild.summarize_all()?;
    rebuild.settle(&entries)?;
    let Rebuild { index, report, .. } = rebuild;
    index.env.force_sync().indexed()?;
    index.env.prepare_for_closing().wait();
    replace(dir, &new)?;
    Ok(report)
}

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::Unavailable(format!("{}: {e}", path.display()))
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(unavailable(path)(e)),
        _ => Ok(()),
    }
}

/// The new index takes the old one's place. A crash in between leaves no `index`, and the rebuild is started again.
fn replace(dir: &Path, new: &Path) -> Result<()> {
    let (index, old): (PathBuf, PathBuf) = (dir.join("index"), dir.join("index.old"));
    remove_if_there(&old)?;
    if index.exists() {
        std::fs::rename(&index, &old).map_err(unavailable(&index))?;
    }
    std::fs::rename(new, &index).map_err(unavailable(new))?;
    std::fs::File::open(dir).and_then(|d| d.sync_all()).map_err(unavailable(dir))
}

impl Rebuild {
    /// All records that count.
    fn list_records(
        &mut self,
        options: &Options,
        dir: &Path,
        store: posthaste_mail_model::Id,
    ) -> Result<Vec<Entry>> {
        let mut numbers: Vec<u32> =
            options.disk.list(dir).map_err(unavailable(dir))?.iter().filter_map(|n| number_of(n)).collect();
        numbers.sort_unstable();
        let mut entries = Vec::new();
        for number in numbers {
            let path = path_of(dir, number);
            let file = options.disk.open(&path).map_err(unavailable(&path))?;
            let size = file.size().map_err(unavailable(&path))?;
            if size == 0 {
                continue;
            }
            if !matches!(has_pack_header(&*file, number, store), Ok(true)) {
                self.report
                    .faults
                    .push(format!("pack {number} does not begin as this store's pack {number}"));
                continue;
            }
            let end = self.scan(number, &*file, size, &mut entries);
            let last_seq = entries.iter().filter(|e| e.pack == number).map(|e| e.header.seq).max();
            self.packs.insert(number, Pack { file, end, last_seq: last_seq.unwrap_or(0) });
        }
        self.strike_out_abandoned(&mut entries)?;
        Ok(entries)
    }

    /// Lists a pack's records and answers where they end.
    fn scan(&mut self, pack: u32, file: &dyn DiskFile, size: u64, entries: &mut Vec<Entry>) -> u64 {
        let mut scan = Scan::new(file, 0, size);
        while let Ok(Some(Found { offset, header })) = scan.advance() {
            entries.push(Entry { pack, offset, header });
        }
        let end = scan.offset();
        let mut next = [0; 48];
        let read = file.read_at(&mut next, end).unwrap_or(0);
        if next[..read].iter().any(|b| *b != 0) {
            self.report
                .faults
                .push(format!("pack {pack} has no intact record at byte {end}; what follows was not used"));
        }
        end
    }

    /// Takes out what lies beyond an end that was given up.
    fn strike_out_abandoned(&mut self, entries: &mut Vec<Entry>) -> Result<()> {
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for entry in entries.iter().filter(|e| e.header.kind == Kind::Abandon) {
            let content = self.content(entry)?;
            let (pack, end) = logged::abandon_from(&content).ok_or_else(damaged("an abandon record"))?;
            ends.entry(pack).and_modify(|e| *e = end.min(*e)).or_insert(end);
        }
        entries.retain(|e| ends.get(&e.pack).is_none_or(|end| e.offset < *end));
        for (number, end) in ends {
            if let Some(pack) = self.packs.get_mut(&number) {
                pack.end = pack.end.min(end);
            }
        }
        Ok(())
    }

    fn content(&self, entry: &Entry) -> Result<bytes::Bytes> {
        let what =
            || format!("{:?} record in pack {} at byte {}", entry.header.kind, entry.pack, entry.offset);
        let pack = self.packs.get(&entry.pack).ok_or_else(|| StoreError::Corrupt(what()))?;
        let scan = Scan::new(&*pack.file, 0, pack.end);
        let found = Found { offset: entry.offset, header: entry.header };
        scan.content(&found).map_err(|fault| StoreError::Corrupt(format!("{}: {fault:?}", what())))
    }

    /// Puts all bodies into the index, held by no one yet, and answers with the log in order.
    fn place_bodies(&mut self, entries: &[Entry]) -> Result<Vec<Entry>> {
        let mut log = Vec::new();
        for step in entries.chunks(STEP) {
            let mut txn = self.index.env.write_txn().indexed()?;
            for entry in step {
                if entry.header.kind != Kind::Body {
                    log.push(*entry);
                    continue;
                }
                let Header { id, len, .. } = entry.header;
                let place = BodyPlace { pack: entry.pack, offset: entry.offset, len, refs: 0 };
                self.index.put_body(&mut txn, BodyId(id), place)?;
            }
            txn.commit().indexed()?;
        }
        let last_seq = |e: &Entry| self.packs.get(&e.pack).map_or(0, |p| p.last_seq);
        // A record copied while its pack was emptied is there twice. Of two different ones of the same number, one was written by a process
        // that was stopped before its index commit, as the last thing in its pack.
        log.sort_by_key(|e| (e.header.seq, std::cmp::Reverse(last_seq(e))));
        log.dedup_by(|later, first| later.header.seq == first.header.seq);
        Ok(log)
    }

    fn replay(&mut self, log: &[Entry]) -> Result<()> {
        let mut removed = HashSet::new();
        for entry in log.iter().filter(|e| e.header.kind == Kind::List) {
            if let Ok(content) = self.content(entry) {
                let commit = logged::list_from(AccountId(entry.header.id), &content);
                removed.extend(commit.into_iter().flat_map(|c| c.remove));
            }
        }
        let mut scratch = Scratch::default();
        let mut next = 1;
        for step in log.chunks(STEP) {
            let mut txn = self.index.env.write_txn().indexed()?;
            for entry in step {
                next = next.max(entry.header.seq + 1);
                if entry.header.kind == Kind::Mailbox && removed.contains(&MailboxId(entry.header.id)) {
                    continue;
                }
                if let Err(error) = self.replay_one(&mut txn, entry, &removed, &mut scratch) {
                    self.report.faults.push(format!("not replayed: {error}"));
                }
            }
            self.index.put_seq(&mut txn, next)?;
            txn.commit().indexed()?;
        }
        Ok(())
    }

    fn replay_one(
        &self,
        txn: &mut heed::RwTxn,
        entry: &Entry,
        removed: &HashSet<MailboxId>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let content = self.content(entry)?;
        let id = entry.header.id;
        match entry.header.kind {
            Kind::Mailbox => self.replay_mailbox(txn, MailboxId(id), &content, scratch),
            Kind::Pair => {
                let parts = pair::parts(&content).ok_or_else(damaged("a commit on two mailboxes"))?;
                let kept = parts.into_iter().filter(|(mailbox, _)| !removed.contains(mailbox));
                kept.map(|(mailbox, part)| self.replay_mailbox(txn, mailbox, part, scratch)).collect()
            }
            Kind::List => {
                let commit =
                    logged::list_from(AccountId(id), &content).ok_or_else(damaged("a list commit"))?;
                lists::apply(&self.index, txn, &commit)?;
                // What a removed mailbox held was not replayed: nothing is left to sweep.
                for mailbox in &commit.remove {
                    let note = crate::index::numbered_key(*mailbox, lists::ALL_OF_MAILBOX);
                    self.index.expunging.delete(txn, &note).indexed()?;
                }
                Ok(())
            }
            Kind::Directory => {
                let change = logged::directory_from(&content).ok_or_else(damaged("a directory change"))?;
                lists::apply_directory(&self.index, txn, &change)
            }
            Kind::Body | Kind::Abandon => Ok(()),
        }
    }

    fn replay_mailbox(
        &self,
        txn: &mut heed::RwTxn,
        mailbox: MailboxId,
        content: &[u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let logged = logged::mailbox_from(content).ok_or_else(damaged("a mailbox commit"))?;
        let stored = self.index.head(txn, mailbox)?.ok_or(StoreError::NoMailbox(mailbox))?;
        if stored.head.modseq != logged.expected {
            return Err(StoreError::Corrupt(format!(
                "commit {} of mailbox {mailbox} follows {}, the mailbox is at {}",
                logged.head.modseq, logged.expected, stored.head.modseq
            )));
        }
        replay_rows(&self.index, txn, mailbox, &logged, scratch)?;
        for (_, set) in &logged.expunged {
            for &(low, high) in set.ranges() {
                let (low, high) = (uid_key(mailbox, low), uid_key(mailbox, high));
                self.index.summaries.delete_range(txn, &crate::index::between(&low, &high)).indexed()?;
            }
        }
        for (row, body, saved) in &logged.appended {
            let uid = row.uid().value();
            put_summary(&mut scratch.bytes, seed(mailbox.0), uid, *body, *saved, &[]);
            self.index.summaries.put(txn, &uid_key(mailbox, uid), &scratch.bytes).indexed()?;
        }
        Ok(())
    }

    /// Fills in the summaries and counts who holds each body.
    fn summarize_all(&mut self) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        let mut faults = Vec::new();
        loop {
            let mut txn = self.index.env.write_txn().indexed()?;
            let Some(last) = self.summarize_step(&mut txn, after.as_deref(), &mut faults)? else { break };
            txn.commit().indexed()?;
            after = Some(last);
        }
        self.report.faults.append(&mut faults);
        Ok(())
    }

    /// The next summaries after a key; answers with the last key done.
    fn summarize_step(
        &self,
        txn: &mut heed::RwTxn,
        after: Option<&[u8]>,
        faults: &mut Vec<String>,
    ) -> Result<Option<Vec<u8>>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let low = after.map_or(Unbounded, Excluded);
        let mut todo = Vec::new();
        for item in self.index.summaries.range(txn, &(low, Unbounded)).indexed()?.take(STEP) {
            let (key, value) = item.indexed()?;
            let (mailbox, uid) = split_key(key).ok_or_else(damaged("key of a summary"))?;
            let found = summary_from(seed(mailbox.0), uid, value).ok_or_else(damaged("a new summary"))?;
            todo.push((key.to_vec(), mailbox, uid, found.body, found.saved));
        }
        let mut out = Vec::new();
        for (key, mailbox, uid, body, saved) in &todo {
            match self.summary(txn, *body) {
                Ok(summary) => put_summary(&mut out, seed(mailbox.0), *uid, *body, *saved, &summary),
                Err(error) => {
                    faults.push(format!("mailbox {mailbox}, UID {uid}: {error}"));
                    continue;
                }
            }
            self.index.summaries.put(txn, key, &out).indexed()?;
        }
        Ok(todo.pop().map(|(key, ..)| key))
    }

    fn summary(&self, txn: &mut heed::RwTxn, body: BodyId) -> Result<Vec<u8>> {
        let missing = || StoreError::Corrupt(format!("body {body} is in no pack"));
        let place = self.index.body(txn, body)?.ok_or_else(missing)?;
        self.index.put_body(txn, body, BodyPlace { refs: place.refs + 1, ..place })?;
        let bytes = self.reader.read(body, place, 0..place.len);
        let bytes = bytes.map_err(|fault| StoreError::Corrupt(format!("body {body}: {fault:?}")))?;
        Ok((self.summarize)(&bytes))
    }

    /// Takes out bodies nobody holds, and records the packs: all sealed, so that new records never follow old tails.
    fn settle(&mut self, entries: &[Entry]) -> Result<()> {
        let mut live: HashMap<u32, u64> = HashMap::new();
        let mut txn = self.index.env.write_txn().indexed()?;
        let mut unused = Vec::new();
        for item in self.index.all_bodies(&txn)? {
            let (body, place) = item?;
            if place.refs == 0 {
                unused.push(body);
            } else {
                *live.entry(place.pack).or_default() += body_record_len(place.len);
            }
        }
        for body in unused {
            self.index.remove_body(&mut txn, body)?;
        }
        let mut bodies: HashMap<u32, u64> = HashMap::new();
        for entry in entries.iter().filter(|e| e.header.kind == Kind::Body) {
            *bodies.entry(entry.pack).or_default() += entry.header.record_len();
        }
        for (&number, pack) in &self.packs {
            let all = bodies.get(&number).copied().unwrap_or(0);
            let dead = all.saturating_sub(live.get(&number).copied().unwrap_or(0));
            let state =
                PackState { end: pack.end, dead, emptied: 0, sealed: true, damaged: false, ahead: false };
            self.index.put_pack(&mut txn, number, state)?;
        }
        txn.commit().indexed()
    }
}

fn split_key(key: &[u8]) -> Option<(MailboxId, u32)> {
    let id = posthaste_mail_model::Id::from_bytes(*key.first_chunk()?);
    let uid = u32::from_be_bytes(key.get(16..)?.try_into().ok()?);
    Some((MailboxId(id), uid))
}
