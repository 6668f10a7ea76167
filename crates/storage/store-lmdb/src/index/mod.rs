//! The index: one LMDB environment with twelve named databases, and what it takes to open it.
//!
//! | database | key | value |
//! | --- | --- | --- |
//! | `heads` | mailbox | head ([`heads::head_value`]) |
//! | `rows` | mailbox, low UID | column chunk (`chunk`) |
//! | `summaries` | mailbox, UID | body, date saved, summary or where it is |
//! | `linked` | mailbox, UID, mailbox, UID of a copy | nothing: this copy has its summary here (`links`) |
//! | `expunged` | mailbox, mod-sequence | set of UIDs that were expunged then |
//! | `expunging` | mailbox, mod-sequence | set of UIDs whose summaries are still to be removed; mod-sequence 2^64 - 1 with the empty set: all |
//! | `copied` | sequence number | mailbox and set of UIDs whose bodies are still to be counted again |
//! | `bodies` | body | pack, offset, length, references |
//! | `lists` | account, tag … | a mailbox list |
//! | `removed` | mailbox | nothing: it was removed |
//! | `directory` | name | version, content |
//! | `due` | mailbox | nothing: it needs a checkpoint record |
//! | (main) | `00`, pack number | end, dead bytes, state |
//! | | `00`, `ffffffff` | the next sequence number |
//! | | `00`, `fffffffe` | the next pack's number |
//! | | `00`, `fffffffd` | the version of the index |
//! | | `02`, pack number | nothing: the pack is retired. Maintenance removes its file |
//! | | `03` | passes over lists, directory and packs (`passes`) |
//! | | `04` | every pack that was retired |
//! | | `01`, body | as in `bodies`: written by programs up to November 2026 only |
//!
//! Each table has a module of its name, which alone reads and writes it. `linked` has `links`, and
//! the main database has `packs`, `passes` and `numbers`. A transaction counts what is written
//! (`transaction`), and the file is made as long as that needs (`preallocation`).
//!
//! LMDB keeps the other databases' roots in the main database, so every transaction rewrites a page
//! of it. Two values that every append changes are therefore kept there: the pack's end and the
//! next sequence number. So an append seldom writes a further page for them.

mod begin;
pub(crate) mod bodies;
pub(crate) mod checksum;
pub(crate) mod chunk;
pub(crate) mod copied;
pub(crate) mod directory;
pub(crate) mod due;
pub(crate) mod epoch;
pub(crate) mod expunged;
pub(crate) mod expunging;
pub(crate) mod heads;
mod indexed;
pub(crate) mod links;
pub(crate) mod lists;
pub(crate) mod lock_file;
pub(crate) mod logged;
pub(crate) mod numbers;
pub(crate) mod packs;
pub(crate) mod passes;
mod preallocation;
pub(crate) mod prefetch;
pub(crate) mod read;
pub(crate) mod removed;
pub(crate) mod rows;
pub(crate) mod sealed;
pub(crate) mod snapshot;
pub(crate) mod summaries;
mod transaction;
pub(crate) mod verified;

use std::fs::File;
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use heed::types::Bytes;
use heed::{Env, EnvOpenOptions, MdbError, WithoutTls};
use posthaste_store::{Result, StoreError};

pub(crate) use self::indexed::Indexed;
use self::transaction::{Pinned, Table};
pub(crate) use self::transaction::{Reading, Writing};
use crate::log::disk::failed;
use crate::verify::pages::{self, Extent, PageFile};
use crate::verify::suspicion;

/// The key under which the main database keeps the next sequence number.
const SEQ_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xff];

/// The key under which the main database keeps the number of the next pack.
const NEXT_PACK_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xfe];

/// The key under which the main database keeps the version of the index.
const VERSION_KEY: [u8; 5] = [0, 0xff, 0xff, 0xff, 0xfd];

/// Bytes of a mailbox's commits below which it gets no checkpoint: some 130 changes of flags. Half
/// would have small mailboxes written again for a few dozen changes. Twice as much would keep 32
/// KiB of log for each of a million small mailboxes.
pub(crate) const CHECKPOINT_FROM: u64 = 16 << 10;

/// The opened index.
pub(crate) struct Index {
    env: Env<WithoutTls>,
    /// The file of the map, to preallocate it.
    file: File,
    /// The file of the map, to check its pages.
    pub(crate) pages: PageFile,
    /// The addresses of the map, if the system names them.
    map: Option<Range<usize>>,
    /// Bytes of the file that were written at the last look.
    written: AtomicUsize,
    heads: Table,
    rows: Table,
    summaries: Table,
    linked: Table,
    expunged: Table,
    expunging: Table,
    copied: Table,
    bodies: Table,
    lists: Table,
    removed: Table,
    directory: Table,
    due: Table,
    main: Table,
    /// Bytes of a mailbox's commits below which it gets no checkpoint.
    pub(crate) checkpoint_from: u64,
    /// The last transaction that a reader is known to have seen.
    readable: AtomicU64,
    /// The transaction of all reads, if this is the index of a snapshot.
    pinned: OnceLock<Pinned>,
}

/// A fault of one record, for `ok_or_else`.
pub(crate) fn damaged(what: impl std::fmt::Display) -> impl FnOnce() -> StoreError {
    move || StoreError::Corrupt(what.to_string())
}

/// Attempts at a snapshot: two commits may come between the transaction and its meta page.
const SNAPSHOTS_MAX: usize = 100;

/// Attempts to open an index that has no free slot for a snapshot, and the unit of the pauses
/// between them: some two seconds in all.
const OPENINGS_MAX: u32 = 20;
const OPENING_PAUSE: Duration = Duration::from_millis(10);

/// Checks the pages of an index that LMDB has opened and not yet read.
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

/// The environment, or why LMDB did not open it. The system refuses to map more address space than
/// a process may have: ENOMEM, and EINVAL below valgrind.
fn mapped(env: heed::Result<Env<WithoutTls>>, map_bytes: usize) -> Result<Env<WithoutTls>> {
    match env {
        Err(heed::Error::Io(why)) if matches!(why.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL)) => {
            let gib = map_bytes >> 30;
            Err(StoreError::Unavailable(format!(
                "the index: {why}: cannot map {gib} GiB of address space (lower `store.index_map`, or raise \
                 `ulimit -v`)"
            )))
        }
        env => env.indexed(),
    }
}

impl Index {
    /// Opens or creates the index in `dir`.
    ///
    /// The first process to open it sets up LMDB's lock file. If it is killed while others wait for
    /// it, they use the file as earlier processes left it. Then no meta page fits the transaction
    /// that the file names. Then the index is closed and opened again: when all have closed it, the
    /// next one sets the file up.
    pub(crate) fn open(dir: &Path, map_bytes: usize, readers: u32) -> Result<Self> {
        for tries in 0..OPENINGS_MAX {
            match Self::open_once(dir, map_bytes, readers) {
                Err(StoreError::Busy) => std::thread::sleep(OPENING_PAUSE * tries),
                opened => return opened,
            }
        }
        Err(StoreError::Busy)
    }

    fn open_once(dir: &Path, map_bytes: usize, readers: u32) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(failed(dir.display()))?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_readers(readers).max_dbs(16);
        let path = dir.join("data.mdb");
        PageFile::prove_metas(&path)?;
        lock_file::allocate(dir, readers)?;
        // SAFETY: LMDB requires that nothing else changes the pages of the environment while they
        // are mapped. The directory is ours by its format file, every process opens it through
        // this call, and no flag that weakens locking is set. `preallocation` writes to the file,
        // too: zeroes after its end, inside the one write transaction. There is no committed page
        // there. New pages of the running transaction are in memory, since the flag WRITEMAP is
        // not set. So no byte changes that is read through the map. LMDB also requires a file
        // system whose maps show what is written to the file. Local file systems do;
        // docs/storage.md says so.
        let env = mapped(unsafe { options.open(dir) }, map_bytes)?;
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

    fn main(env: &Env<WithoutTls>) -> Result<Table> {
        let txn = env.read_txn().indexed()?;
        let main = env.open_database::<Bytes, Bytes>(&txn, None).indexed()?;
        txn.commit().indexed()?;
        main.map(Table::new).ok_or_else(damaged("the index: its main database"))
    }

    /// Opens the databases, and creates them only if one is missing: an engine that only reads
    /// never writes.
    fn databases<const N: usize>(env: &Env<WithoutTls>, names: [&str; N]) -> Result<[Table; N]> {
        let txn = env.read_txn().indexed()?;
        let mut found = Vec::with_capacity(N);
        for name in names {
            found.extend(env.open_database::<Bytes, Bytes>(&txn, Some(name)).indexed()?.map(Table::new));
        }
        // Committing keeps the handles that a reading transaction opened.
        txn.commit().indexed()?;
        if let Ok(all) = <[Table; N]>::try_from(found.as_slice()) {
            return Ok(all);
        }
        let mut txn = env.write_txn().indexed()?;
        let mut made = Vec::with_capacity(N);
        for name in names {
            made.push(Table::new(env.create_database::<Bytes, Bytes>(&mut txn, Some(name)).indexed()?));
        }
        txn.commit().indexed()?;
        <[Table; N]>::try_from(made.as_slice())
            .map_err(|_| StoreError::Corrupt("the index: databases".into()))
    }

    /// Why this process can neither read nor write the index any more; `None` if it can.
    pub(crate) fn is_dead(&self) -> Option<StoreError> {
        match self.env.read_txn() {
            Err(error @ heed::Error::Mdb(MdbError::Panic)) => Err::<(), _>(error).indexed().err(),
            _ => None,
        }
    }

    /// Syncs all committed transactions to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.env.force_sync().indexed()
    }

    /// Closes the files, and waits until they are closed.
    pub(crate) fn close(self) {
        self.env.prepare_for_closing().wait();
    }

    /// Forgets readers of processes that have ended: they would keep LMDB from reusing pages.
    pub(crate) fn forget_ended_readers(&self) -> Result<()> {
        self.env.clear_stale_readers().indexed().map(drop)
    }

    /// Checks every page, for a reader that a damaged page must not end.
    pub(crate) fn prove_all_pages(&self) -> Result<()> {
        prove_pages(&self.env, &self.pages, Extent::All)
    }
}

/// A range of keys, both ends included.
fn between<'a>(low: &'a [u8], high: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(low), Bound::Included(high))
}

/// From a key on. LMDB has no empty key to start from.
fn beginning_with(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (if key.is_empty() { Bound::Unbounded } else { Bound::Included(key) }, Bound::Unbounded)
}

/// Prints bytes in hexadecimal. They become text only when a fault is printed: walks over whole
/// tables prepare a fault for each record.
pub(crate) struct Hex<'b>(pub(crate) &'b [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
