//! The index: one LMDB environment with twelve named databases, and what it takes to open it.
//!
//! | database | key | value |
//! | --- | --- | --- |
//! | `heads` | mailbox | head ([`values::head_value`]) |
//! | `rows` | mailbox, low UID | column chunk (`chunk`) |
//! | `summaries` | mailbox, UID | body, date saved, summary or where it is |
//! | `linked` | mailbox, UID, mailbox, UID of a copy | which copies have their summaries here (`links`) |
//! | `expunged` | mailbox, mod-sequence | set of UIDs that went then |
//! | `expunging` | mailbox, mod-sequence | set of UIDs whose summaries are still to be removed; mod-sequence 2^64 - 1 with the empty set: all |
//! | `copied` | sequence number | mailbox and set of UIDs whose bodies are still to be counted once more |
//! | `bodies` | body | pack, offset, length, references |
//! | `lists` | account, tag … | a mailbox list |
//! | `removed` | mailbox | nothing: it was removed |
//! | `directory` | name | version, content |
//! | `due` | mailbox | nothing: its log wants a checkpoint |
//! | (main) | `00`, pack number | end, dead bytes, state |
//! | | `00`, `ffffffff` | the next sequence number |
//! | | `00`, `fffffffe` | the next pack's number |
//! | | `00`, `fffffffd` | the form of the index |
//! | | `02`, pack number | nothing: the pack was retired, and its file is to be removed |
//! | | `01`, body | as in `bodies`: the last few that came |
//!
//! The main database is the one in which LMDB keeps the others' roots: its page is rewritten by
//! every transaction, whatever it changes. What every append changes is kept there, too: the pack's
//! end, the sequence number, and the new body's place, which is moved to `bodies` with some thirty
//! others. That is four pages less to write and sync for every append, of twelve.

pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod epoch;
pub(crate) mod links;
pub(crate) mod lists;
pub(crate) mod lock_file;
pub(crate) mod logged;
pub(crate) mod prefetch;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod snapshot;
pub(crate) mod summaries;
pub(crate) mod values;
pub(crate) mod verified;

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, MdbError, RoTxn, RwTxn, WithoutTls};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use posthaste_mail_model::{BodyId, Id, MailboxId, ModSeq, NumSet};
use posthaste_store::{MailboxHead, Result, StoreError};
use std::fs::File;
use std::ops::{Bound, Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use self::logged::Logged;
use self::values::{BodyPlace, PackState, StoredHead, open_value, seal, seed_of_key, unseal};
use crate::log::Ahead;
use crate::log::disk::failed;
use crate::verify::pages::{self, Extent, PageFile};
use crate::verify::suspicion;
use posthaste_store::octets::{Octets, put_set};

/// A database of the index: keys and values are bytes, in byte order.
pub(crate) type Db = Database<Bytes, Bytes>;

/// The key under which the main database keeps the next sequence number.
const SEQ_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xff];

/// The key under which the main database keeps the number of the next pack.
const NEXT_PACK_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xfe];

/// The key under which the main database keeps the form of the index.
const FORM_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xfd];

/// The form of the index: 5 from format 5 on. An index without one is older.
const FORM: u32 = 5;

/// The first byte of the keys of retired packs.
const RETIRED: u8 = 2;

/// Bodies whose places are kept in the main database at a time: 32 × 53 bytes, less than half a
/// page beside the roots and the packs.
const RECENT_MAX: usize = 32;

/// The first byte of the keys of recent bodies.
const RECENT: u8 = 1;

fn pack_key(pack: u32) -> [u8; 5] {
    let mut key = [0; 5];
    key[1..].copy_from_slice(&pack.to_be_bytes());
    key
}

fn retired_key(pack: u32) -> [u8; 5] {
    let mut key = pack_key(pack);
    key[0] = RETIRED;
    key
}

fn recent_key(body: BodyId) -> [u8; 17] {
    let mut key = [RECENT; 17];
    key[1..].copy_from_slice(&body.0.to_bytes());
    key
}

/// Bytes written ahead of the index at least and at most: an eighth of what it has, within these.
const RESERVE_MIN: u64 = 256 * 1024;
const RESERVE_MAX: u64 = 8 * 1024 * 1024;

/// Bytes of a mailbox's commits below which it gets no checkpoint: some 130 changes of flags. Half
/// would have small mailboxes written again for a few dozen changes; twice as much would keep 32 KiB
/// of log for each of a million small mailboxes.
pub(crate) const CHECKPOINT_FROM: u64 = 16 << 10;

/// The opened index.
pub(crate) struct Index {
    pub(crate) env: Env<WithoutTls>,
    /// The file of the map, to write ahead of it.
    file: File,
    /// The same, to judge its pages.
    pub(crate) pages: PageFile,
    /// Where it is mapped, if the system says so.
    map: Option<Range<usize>>,
    /// Bytes of it that were written when last looked.
    written: AtomicUsize,
    pub(crate) heads: Db,
    pub(crate) rows: Db,
    pub(crate) summaries: Db,
    pub(crate) linked: Db,
    pub(crate) expunged: Db,
    pub(crate) expunging: Db,
    pub(crate) copied: Db,
    bodies: Db,
    pub(crate) lists: Db,
    pub(crate) removed: Db,
    pub(crate) directory: Db,
    pub(crate) due: Db,
    main: Db,
    /// Bytes of a mailbox's commits below which it gets no checkpoint.
    pub(crate) checkpoint_from: u64,
    /// The last transaction that a reader is known to have seen.
    readable: AtomicU64,
    /// The transaction that all reading happens in, if this is the index of a snapshot.
    pinned: OnceLock<Pinned>,
}

/// A reading transaction that several threads use, one at a time. A thread that has it may take it
/// again.
type Pinned = ReentrantMutex<RoTxn<'static, WithoutTls>>;

/// A reading transaction: one of its own, or the one that is pinned.
pub(crate) enum Reading<'i> {
    Own(RoTxn<'i, WithoutTls>),
    Pinned(ReentrantMutexGuard<'i, RoTxn<'static, WithoutTls>>),
}

impl<'i> Deref for Reading<'i> {
    type Target = RoTxn<'i, WithoutTls>;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Own(txn) => txn,
            Self::Pinned(txn) => txn,
        }
    }
}

/// Turns errors of the index into the store's words.
pub(crate) trait Indexed<T> {
    /// `Corrupt` for what LMDB itself found broken, `Unavailable` for all else.
    fn indexed(self) -> Result<T>;
}

impl<T> Indexed<T> for heed::Result<T> {
    fn indexed(self) -> Result<T> {
        self.map_err(|error| match error {
            heed::Error::Io(error) => failed("the index")(error),
            heed::Error::Mdb(
                MdbError::Corrupted
                | MdbError::PageNotFound
                | MdbError::Invalid
                | MdbError::VersionMismatch
                // A transaction in which one of these was met before, and a tree deeper than any
                // LMDB makes.
                | MdbError::BadTxn
                | MdbError::CursorFull,
            ) => StoreError::Corrupt(format!("the index: {error}")),
            heed::Error::Mdb(MdbError::Panic) => StoreError::Unavailable(DEAD.into()),
            heed::Error::Mdb(MdbError::MapFull) => {
                StoreError::Unavailable("the index has reached its map size".into())
            }
            other => StoreError::Unavailable(format!("the index: {other}")),
        })
    }
}

/// What is known of an index after LMDB failed to write its meta page: LMDB then refuses every
/// transaction of the process.
const DEAD: &str = "the index could not be written, and this process can use it no more: see to the disk, then start \
                    again; what was acknowledged is in the packs and is brought into the index";

/// A fault of one record, for `ok_or_else`.
pub(crate) fn damaged(what: impl std::fmt::Display) -> impl FnOnce() -> StoreError {
    move || StoreError::Corrupt(what.to_string())
}

/// Times a snapshot is tried for because two commits came between the transaction and its meta
/// page.
const SNAPSHOTS_MAX: usize = 100;

/// Judges the pages of an index that LMDB has opened and not yet read.
fn prove_pages(env: &Env<WithoutTls>, pages: &PageFile, extent: Extent) -> Result<()> {
    for _ in 0..SNAPSHOTS_MAX {
        let txn = env.read_txn().indexed()?;
        match pages.snapshot(&txn) {
            Err(StoreError::Busy) => {}
            snapshot => return pages::examine(pages, &snapshot?, extent),
        }
    }
    Err(StoreError::Busy)
}

impl Index {
    /// Opens or makes the index in `dir`.
    pub(crate) fn open(dir: &Path, map_bytes: usize, readers: u32) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(failed(dir.display()))?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_readers(readers).max_dbs(16);
        let path = dir.join("data.mdb");
        PageFile::prove_metas(&path)?;
        lock_file::allocate(dir, readers)?;
        // SAFETY: LMDB asks that nothing but LMDB changes the files of the environment while it is
        // mapped, and that no file system without coherent maps lies below. The directory is ours
        // by its format file, every process opens it through this call, and no flag that weakens
        // locking is set.
        let env = unsafe { options.open(dir) }.indexed()?;
        env.clear_stale_readers().indexed()?;
        let map = suspicion::note_map(&path);
        let file = env.try_clone_inner_file().indexed()?;
        let pages = PageFile::new(env.try_clone_inner_file().indexed()?);
        let extent = if suspicion::is_suspect(dir) { Extent::All } else { Extent::First };
        prove_pages(&env, &pages, extent)?;
        if extent == Extent::All {
            tracing::warn!(
                "a process ended by a fault signal; every page of the index was examined and is in order"
            );
            suspicion::lift(dir);
        }
        let names = [
            "heads",
            "rows",
            "summaries",
            "linked",
            "expunged",
            "expunging",
            "copied",
            "bodies",
            "lists",
            "removed",
            "directory",
            "due",
        ];
        let databases = Self::databases(&env, names)?;
        let [heads, rows, summaries, linked, expunged, expunging, ..] = databases;
        let [.., copied, bodies, lists, removed, directory, due] = databases;
        let main = Self::main(&env)?;
        Ok(Self {
            env,
            file,
            pages,
            map,
            written: AtomicUsize::new(0),
            heads,
            rows,
            summaries,
            linked,
            expunged,
            expunging,
            copied,
            bodies,
            lists,
            removed,
            directory,
            due,
            main,
            checkpoint_from: CHECKPOINT_FROM,
            readable: AtomicU64::new(0),
            pinned: OnceLock::new(),
        })
    }

    fn main(env: &Env<WithoutTls>) -> Result<Db> {
        let txn = env.read_txn().indexed()?;
        let main = env.open_database::<Bytes, Bytes>(&txn, None).indexed()?;
        txn.commit().indexed()?;
        main.ok_or_else(damaged("the index: its main database"))
    }

    /// Opens the databases, and makes them only if one is missing: an engine that only reads never
    /// writes.
    fn databases<const N: usize>(env: &Env<WithoutTls>, names: [&str; N]) -> Result<[Db; N]> {
        let txn = env.read_txn().indexed()?;
        let mut found = Vec::with_capacity(N);
        for name in names {
            found.extend(env.open_database::<Bytes, Bytes>(&txn, Some(name)).indexed()?);
        }
        // Committing keeps the handles that a reading transaction opened.
        txn.commit().indexed()?;
        if let Ok(all) = <[Db; N]>::try_from(found.as_slice()) {
            return Ok(all);
        }
        let mut txn = env.write_txn().indexed()?;
        let mut made = Vec::with_capacity(N);
        for name in names {
            made.push(env.create_database::<Bytes, Bytes>(&mut txn, Some(name)).indexed()?);
        }
        txn.commit().indexed()?;
        <[Db; N]>::try_from(made.as_slice()).map_err(|_| StoreError::Corrupt("the index: databases".into()))
    }

    /// The length of the file that a transaction of about this size needs.
    fn need(&self, bytes: u64) -> u64 {
        // Pages are rewritten whole, and a record may have to be split over two.
        self.used() + bytes.saturating_mul(2) + RESERVE_MIN / 2
    }

    /// Bytes up to the last page.
    fn used(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * u64::from(self.env.stat().page_size)
    }

    fn file_len(&self) -> Result<u64> {
        self.file.metadata().map(|found| found.len()).map_err(failed("the index"))
    }

    /// Writes zeroes behind the last page, so that a transaction of about this size finds room: a
    /// full disk shows before anything is written, and syncing does not have to record a new
    /// length. Only inside a write transaction, when no process extends the file. `ahead` is asked
    /// only if the file must become longer.
    pub(crate) fn reserve(&self, bytes: u64, ahead: impl FnOnce() -> Result<Ahead>) -> Result<()> {
        let page = u64::from(self.env.stat().page_size);
        let (need, mut len) = (self.need(bytes).next_multiple_of(page), self.file_len()?);
        if len >= need {
            return Ok(());
        }
        let step = match ahead()? {
            Ahead::Step => (self.used() / 8).clamp(RESERVE_MIN, RESERVE_MAX),
            Ahead::Nothing => 0,
        };
        let to = (need + step).next_multiple_of(page);
        let zeroes = vec![0; RESERVE_MIN as usize];
        while len < to {
            let goal = if len < need { need } else { to };
            let n = (goal - len).min(RESERVE_MIN);
            match self.file.write_all_at(&zeroes[..n as usize], len) {
                Ok(()) => len += n,
                // Where the disk has no room for the step, what is needed is enough.
                Err(_) if len >= need => break,
                Err(e) => return Err(failed("the index")(e)),
            }
        }
        Ok(())
    }

    /// Why this process can neither read nor write the index any more; `None` if it can.
    pub(crate) fn is_dead(&self) -> Option<StoreError> {
        match self.env.read_txn() {
            Err(error @ heed::Error::Mdb(MdbError::Panic)) => Err::<(), _>(error).indexed().err(),
            _ => None,
        }
    }

    /// Judges every page, for a reader that must not be ended by a damaged one.
    pub(crate) fn prove_all_pages(&self) -> Result<()> {
        prove_pages(&self.env, &self.pages, Extent::All)
    }

    /// A reading transaction: never held across an await.
    pub(crate) fn read(&self) -> Result<Reading<'_>> {
        match self.pinned.get() {
            Some(pinned) => Ok(Reading::Pinned(pinned.lock())),
            None => self.env.read_txn().indexed().map(Reading::Own),
        }
    }

    /// The number of the last transaction that a reader sees.
    ///
    /// LMDB shows a transaction's meta page before readers begin with it: it syncs the page in
    /// between. So a number that is new here is taken from a reading transaction.
    pub(crate) fn last_readable(&self) -> u64 {
        let written = self.env.info().last_txn_id as u64;
        if written == self.readable.load(Ordering::Acquire) {
            return written;
        }
        match self.read() {
            Ok(txn) => {
                let id = txn.id() as u64;
                self.readable.fetch_max(id, Ordering::AcqRel);
                id
            }
            // Whoever reads next meets the error. An older number only makes them look again.
            Err(_) => self.readable.load(Ordering::Acquire),
        }
    }

    /// A reading transaction that may be pinned.
    pub(crate) fn read_for_good(&self) -> Result<RoTxn<'static, WithoutTls>> {
        self.env.clone().static_read_txn().indexed()
    }

    /// Has all reading from now on happen in this transaction. The first one that is pinned stays.
    pub(crate) fn pin(&self, txn: RoTxn<'static, WithoutTls>) {
        let _ = self.pinned.set(ReentrantMutex::new(txn));
    }

    /// Whether the bytes that LMDB says are a record's lie in the file. A damaged length may reach
    /// beyond it, where reading ends the process. Costs two comparisons.
    #[inline]
    pub(crate) fn holds(&self, value: &[u8]) -> bool {
        let Some(map) = &self.map else { return true };
        let end = (value.as_ptr() as usize).saturating_add(value.len()).saturating_sub(map.start);
        // What a writing transaction has changed lies in memory of its own.
        end <= self.written.load(Ordering::Relaxed)
            || !map.contains(&(value.as_ptr() as usize))
            || self.has_grown_to(end)
    }

    #[cold]
    fn has_grown_to(&self, end: usize) -> bool {
        let len = self.file.metadata().map_or(0, |found| found.len() as usize);
        self.written.store(len, Ordering::Relaxed);
        end <= len
    }

    /// The head of a mailbox; `None` if it was removed, or never was in a list.
    pub(crate) fn head(&self, txn: &RoTxn, mailbox: MailboxId) -> Result<Option<StoredHead>> {
        if let Some(value) = self.heads.get(txn, &mailbox.0.to_bytes()).indexed()? {
            let head = values::head_from(mailbox, value);
            return head.map(Some).ok_or_else(damaged(format_args!("head of mailbox {mailbox}")));
        }
        // A mailbox without a head was removed, or never was. One that has rows lost its head to
        // damage: to say that it is gone would have clients forget it.
        let is_removed = self.removed.get(txn, &mailbox.0.to_bytes()).indexed()?.is_some();
        if !is_removed && self.rows.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()?.next().is_some() {
            return Err(damaged(format_args!("the head of mailbox {mailbox} is missing"))());
        }
        Ok(None)
    }

    /// Sets the head of a mailbox.
    pub(crate) fn put_head(&self, txn: &mut RwTxn, mailbox: MailboxId, stored: &StoredHead) -> Result<()> {
        self.heads.put(txn, &mailbox.0.to_bytes(), &values::head_value(mailbox, stored)).indexed()
    }

    /// Makes a mailbox that has never been there.
    pub(crate) fn create_mailbox(&self, txn: &mut RwTxn, mailbox: MailboxId) -> Result<()> {
        let key = mailbox.0.to_bytes();
        let known = self.heads.get(txn, &key).indexed()?.is_some();
        if known || self.removed.get(txn, &key).indexed()?.is_some() {
            return Ok(());
        }
        let (head, logged) = (MailboxHead::default(), Logged::default());
        self.put_head(txn, mailbox, &StoredHead { head, forgotten: ModSeq::ZERO, logged })
    }

    /// Where a body lies.
    pub(crate) fn body(&self, txn: &RoTxn, body: BodyId) -> Result<Option<BodyPlace>> {
        let recent = self.main.get(txn, &recent_key(body)).indexed()?;
        let value = match recent {
            Some(value) => Some(value),
            None => self.bodies.get(txn, &body.0.to_bytes()).indexed()?,
        };
        let Some(value) = value else { return Ok(None) };
        BodyPlace::from_value(body, value).map(Some).ok_or_else(damaged(format_args!("place of body {body}")))
    }

    /// Changes where a body lies, or who holds it.
    pub(crate) fn put_body(&self, txn: &mut RwTxn, body: BodyId, place: BodyPlace) -> Result<()> {
        let value = place.to_value(body);
        let recent = recent_key(body);
        if self.main.get(txn, &recent).indexed()?.is_some() {
            return self.main.put(txn, &recent, &value).indexed();
        }
        self.bodies.put(txn, &body.0.to_bytes(), &value).indexed()
    }

    /// Puts new bodies into the index: a few among the recent ones, many where they stay.
    pub(crate) fn add_bodies(&self, txn: &mut RwTxn, new: &[(BodyId, BodyPlace)]) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let there = self.main.prefix_iter(txn, &[RECENT]).indexed()?.count();
        if there + new.len() > RECENT_MAX {
            self.move_recent(txn)?;
        }
        let few = new.len() <= RECENT_MAX / 4;
        for (body, place) in new {
            let value = place.to_value(*body);
            if few {
                self.main.put(txn, &recent_key(*body), &value).indexed()?;
            } else {
                self.bodies.put(txn, &body.0.to_bytes(), &value).indexed()?;
            }
        }
        Ok(())
    }

    /// Moves the recent bodies to where they stay.
    fn move_recent(&self, txn: &mut RwTxn) -> Result<()> {
        let mut recent = Vec::with_capacity(RECENT_MAX);
        for item in self.main.prefix_iter(txn, &[RECENT]).indexed()? {
            let (key, value) = item.indexed()?;
            recent.push((key.to_vec(), value.to_vec()));
        }
        for (key, value) in recent {
            self.bodies.put(txn, &key[1..], &value).indexed()?;
            self.main.delete(txn, &key).indexed()?;
        }
        Ok(())
    }

    /// A body nobody holds any more.
    pub(crate) fn remove_body(&self, txn: &mut RwTxn, body: BodyId) -> Result<()> {
        if !self.main.delete(txn, &recent_key(body)).indexed()? {
            self.bodies.delete(txn, &body.0.to_bytes()).indexed()?;
        }
        Ok(())
    }

    /// Every body: its place, or what is wrong with the record.
    pub(crate) fn all_bodies<'t>(
        &self,
        txn: &'t RoTxn,
    ) -> Result<impl Iterator<Item = Result<(BodyId, BodyPlace)>> + use<'t>> {
        let recent = self.main.prefix_iter(txn, &[RECENT]).indexed()?;
        let settled = self.bodies.iter(txn).indexed()?;
        let recent = recent.map(|item| item.map(|(key, value)| (key.get(1..).unwrap_or_default(), value)));
        Ok(recent.chain(settled).map(|item| {
            let (key, value) = item.indexed()?;
            let body = key.try_into().ok().map(|id| BodyId(Id::from_bytes(id)));
            body.and_then(|body| Some((body, BodyPlace::from_value(body, value)?)))
                .ok_or_else(damaged(format_args!("place of body {}", hex(key))))
        }))
    }

    /// Bytes of all packs.
    pub(crate) fn packs_len(&self, txn: &RoTxn) -> Result<u64> {
        Ok(self.all_packs(txn)?.iter().map(|(_, state)| state.end).sum())
    }

    /// What is known of a pack.
    pub(crate) fn pack(&self, txn: &RoTxn, pack: u32) -> Result<Option<PackState>> {
        let Some(value) = self.main.get(txn, &pack_key(pack)).indexed()? else { return Ok(None) };
        PackState::from_value(pack, value).map(Some).ok_or_else(damaged(format_args!("state of pack {pack}")))
    }

    /// Sets what is known of a pack.
    pub(crate) fn put_pack(&self, txn: &mut RwTxn, pack: u32, state: PackState) -> Result<()> {
        self.main.put(txn, &pack_key(pack), &state.to_value(pack)).indexed()
    }

    /// Counts bytes of packs that are needed no more. A pack that was retired since is passed over.
    pub(crate) fn add_dead(&self, txn: &mut RwTxn, dead: impl Iterator<Item = (u32, u64)>) -> Result<()> {
        for (pack, bytes) in dead {
            if let Some(state) = self.pack(txn, pack)? {
                let dead = state.dead.saturating_add(bytes).min(state.end);
                self.put_pack(txn, pack, PackState { dead, ..state })?;
            }
        }
        Ok(())
    }

    /// Takes an emptied pack out of the packs and notes that its file is to be removed.
    pub(crate) fn retire_pack(&self, txn: &mut RwTxn, pack: u32) -> Result<()> {
        self.main.delete(txn, &pack_key(pack)).indexed()?;
        self.main.put(txn, &retired_key(pack), &[]).indexed()
    }

    /// Retired packs whose files are to be removed, by number.
    pub(crate) fn retired_packs(&self, txn: &RoTxn) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for item in self.main.prefix_iter(txn, &[RETIRED]).indexed()? {
            let number = item.indexed()?.0.get(1..).and_then(|k| k.try_into().ok()).map(u32::from_be_bytes);
            all.push(number.ok_or_else(damaged("number of a retired pack"))?);
        }
        Ok(all)
    }

    /// The file of a retired pack was removed, and its directory synced.
    pub(crate) fn forget_retired(&self, txn: &mut RwTxn, pack: u32) -> Result<()> {
        self.main.delete(txn, &retired_key(pack)).indexed().map(|_| ())
    }

    /// The number of the next pack; `None` in a store of a program that did not keep it.
    pub(crate) fn next_pack(&self, txn: &RoTxn) -> Result<Option<u32>> {
        let Some(value) = self.main.get(txn, &NEXT_PACK_KEY).indexed()? else { return Ok(None) };
        unseal(seed_of_key(&NEXT_PACK_KEY), value)
            .and_then(|mut read| read.u32())
            .map(Some)
            .ok_or_else(damaged("the number of the next pack"))
    }

    /// Sets the number of the next pack.
    pub(crate) fn put_next_pack(&self, txn: &mut RwTxn, number: u32) -> Result<()> {
        let mut value = open_value();
        value.extend_from_slice(&number.to_le_bytes());
        self.main.put(txn, &NEXT_PACK_KEY, &seal(seed_of_key(&NEXT_PACK_KEY), value)).indexed()
    }

    /// Brings the index of an older format up to this one: lists get their counts.
    pub(crate) fn upgrade(&self) -> Result<()> {
        if self.is_of_this_form(&*self.read()?)? {
            return Ok(());
        }
        let mut txn = self.env.write_txn().indexed()?;
        if !self.is_of_this_form(&txn)? {
            lists::count_all(self, &mut txn)?;
            let mut value = open_value();
            value.extend_from_slice(&FORM.to_le_bytes());
            self.main.put(&mut txn, &FORM_KEY, &seal(seed_of_key(&FORM_KEY), value)).indexed()?;
        }
        txn.commit().indexed()
    }

    /// Whether the index is of this form, and not of an older one.
    pub(crate) fn is_of_this_form(&self, txn: &RoTxn) -> Result<bool> {
        let Some(value) = self.main.get(txn, &FORM_KEY).indexed()? else { return Ok(false) };
        let form = unseal(seed_of_key(&FORM_KEY), value).and_then(|mut read| read.u32());
        form.map(|form| form >= FORM).ok_or_else(damaged("the form of the index"))
    }

    /// All packs, by number.
    pub(crate) fn all_packs(&self, txn: &RoTxn) -> Result<Vec<(u32, PackState)>> {
        let mut all = Vec::new();
        for item in self.main.prefix_iter(txn, &[0]).indexed()? {
            let (key, value) = item.indexed()?;
            if [SEQ_KEY, NEXT_PACK_KEY, FORM_KEY].iter().any(|other| key == other) {
                continue;
            }
            let number = key.get(1..).and_then(|k| k.try_into().ok()).map(u32::from_be_bytes);
            let found = number.and_then(|n| Some((n, PackState::from_value(n, value)?)));
            all.push(found.ok_or_else(damaged("state of a pack"))?);
        }
        Ok(all)
    }

    /// The next sequence number.
    pub(crate) fn seq(&self, txn: &RoTxn) -> Result<u64> {
        let Some(value) = self.main.get(txn, &SEQ_KEY).indexed()? else { return Ok(1) };
        unseal(seed_of_key(&SEQ_KEY), value)
            .and_then(|mut read| read.u64())
            .ok_or_else(damaged("the sequence number"))
    }

    /// Sets the next sequence number.
    pub(crate) fn put_seq(&self, txn: &mut RwTxn, seq: u64) -> Result<()> {
        let mut value = open_value();
        value.extend_from_slice(&seq.to_le_bytes());
        self.main.put(txn, &SEQ_KEY, &seal(seed_of_key(&SEQ_KEY), value)).indexed()
    }

    /// Stores a set under a key.
    pub(crate) fn put_set(&self, txn: &mut RwTxn, db: Db, key: &[u8], set: &NumSet) -> Result<()> {
        let mut value = open_value();
        put_set(&mut value, set);
        db.put(txn, key, &seal(seed_of_key(key), value)).indexed()
    }
}

/// The set stored under a key.
pub(crate) fn set_from(key: &[u8], value: &[u8]) -> Result<NumSet> {
    unseal(seed_of_key(key), value)
        .and_then(|mut read| read.set())
        .ok_or_else(damaged(format_args!("set of UIDs under {}", hex(key))))
}

/// A note of copies: mailbox and set.
pub(crate) fn copied_from(key: &[u8], value: &[u8]) -> Result<(MailboxId, NumSet)> {
    let read = |mut read: Octets<'_>| Some((MailboxId(read.id()?), read.set()?));
    unseal(seed_of_key(key), value)
        .and_then(read)
        .ok_or_else(damaged(format_args!("note of copies under {}", hex(key))))
}

/// The bytes of a note of copies.
pub(crate) fn copied_value(key: &[u8], mailbox: MailboxId, set: &NumSet) -> Vec<u8> {
    let mut value = open_value();
    value.extend_from_slice(&mailbox.0.to_bytes());
    put_set(&mut value, set);
    seal(seed_of_key(key), value)
}

/// The key of a numbered record of a mailbox.
pub(crate) fn numbered_key(mailbox: MailboxId, number: u64) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&mailbox.0.to_bytes());
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of such a key.
pub(crate) fn number_of_key(key: &[u8]) -> Option<u64> {
    key.get(16..)?.try_into().ok().map(u64::from_be_bytes)
}

/// Both ends included.
pub(crate) fn between<'a>(low: &'a [u8], high: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(low), Bound::Included(high))
}

/// Bytes as a person can search for them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
