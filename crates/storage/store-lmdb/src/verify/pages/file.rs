//! The file of the index, and the snapshot of it that a reading transaction holds.
//!
//! Pages are read with `pread`, never through the map: a page that the disk cannot read is an
//! error here, and a signal through the map.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use heed::{RoTxn, WithoutTls};
use posthaste_store::{Result, StoreError};

use super::REMEDY;
use super::layout::{META_LEN, Meta, MetaHead, PAGE_HEADER};

/// Times the two meta pages are read again because a commit changed them meanwhile. A commit takes
/// a millisecond at most, reading some microseconds.
const META_READS_MAX: usize = 100;

/// The head of a meta page, and the whole page or why it is not in order.
type JudgedMeta = (MetaHead, std::result::Result<Meta, &'static str>);

/// The opened file of the index.
pub(crate) struct PageFile {
    file: File,
}

/// The snapshot of a reading transaction.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot {
    pub(super) meta: Meta,
    /// Pages in the file, which may be fewer than the meta page knows: free ones at the end need
    /// not have been written.
    pub(super) pages: u64,
}

impl PageFile {
    pub(crate) fn new(file: File) -> Self {
        Self { file }
    }

    /// Verifies the meta pages of a file before LMDB opens it. LMDB creates a file that is
    /// missing or empty.
    pub(crate) fn prove_metas(path: &Path) -> Result<()> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::Unavailable(format!("{}: {error}", path.display()))),
        };
        let len = file.metadata().map_err(io)?.len();
        if len == 0 {
            return Ok(());
        }
        Self::new(file).metas().map(|_| ()).map_err(|error| match error {
            StoreError::Corrupt(why) => StoreError::Corrupt(format!("{}: {why}: {REMEDY}", path.display())),
            other => other,
        })
    }

    /// The snapshot of a transaction, which keeps its pages from being overwritten.
    pub(crate) fn snapshot(&self, txn: &RoTxn<'_, WithoutTls>) -> Result<Snapshot> {
        let metas = self.metas()?;
        let meta = metas.into_iter().flatten().find(|meta| meta.transaction == txn.id() as u64);
        // Two commits since the transaction began took its meta page: the caller begins another.
        let meta = meta.ok_or(StoreError::Busy)?;
        let len = self.file.metadata().map_err(io)?.len();
        Ok(Snapshot { meta, pages: (len / u64::from(meta.page_size)).min(meta.last_page.saturating_add(1)) })
    }

    /// Both meta pages; `None` for one that is half written. Transactions write them in turn.
    fn metas(&self) -> Result<[Option<Meta>; 2]> {
        let mut why = "";
        for _ in 0..META_READS_MAX {
            match self.read_metas()? {
                Ok(metas) => return Ok(metas),
                Err(fault) => why = fault,
            }
            std::thread::yield_now();
        }
        Err(StoreError::Corrupt(format!("a meta page: {why}")))
    }

    /// LMDB uses the meta page with the higher transaction and ignores the other. A failed write
    /// may leave new trees in the other page under its old, lower transaction. LMDB never reads
    /// such a page: its next transaction overwrites it. So a damaged page is accepted if LMDB
    /// uses the other one. If LMDB would use the damaged page, the index is refused. The other
    /// page is one transaction older. After that transaction the files of retired packs may have
    /// been removed. So it is not safe to use the older page.
    fn read_metas(&self) -> Result<Result<[Option<Meta>; 2], &'static str>> {
        let (first_head, first) = match self.meta(0, 0)? {
            Ok(first) => first,
            Err(why) => return Ok(Err(why)),
        };
        let (second_head, second) = match self.meta(1, u64::from(first_head.page_size))? {
            Ok(second) => second,
            Err(why) => return Ok(Err(why)),
        };
        if second_head.page_size != first_head.page_size {
            return Ok(Err("the two are of different stores"));
        }
        // Transaction n writes meta page n modulo 2; a new file has two of transaction 0.
        let in_turn = first_head.transaction.is_multiple_of(2)
            && (second_head.transaction == 0 || !second_head.transaction.is_multiple_of(2))
            && first_head.transaction.abs_diff(second_head.transaction) <= 1;
        if !in_turn {
            return Ok(Err("the two are not of neighbouring transactions"));
        }
        let takes_second = first_head.transaction < second_head.transaction;
        Ok(match (first, second) {
            (Ok(first), Ok(second)) if first.free.flags != second.free.flags => {
                Err("the two are of different stores")
            }
            (Ok(first), Ok(second)) => Ok([Some(first), Some(second)]),
            (Ok(first), Err(_)) if !takes_second => Ok([Some(first), None]),
            (Err(_), Ok(second)) if takes_second => Ok([None, Some(second)]),
            (Err(why), _) | (_, Err(why)) => Err(why),
        })
    }

    /// The meta page of this number at this place: its head, and the whole of it if it is in order.
    fn meta(&self, number: u64, at: u64) -> Result<Result<JudgedMeta, &'static str>> {
        let mut bytes = [0; META_LEN];
        match self.file.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(MetaHead::read(&bytes, number).map(|head| (head, Meta::read(&bytes, number)))),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(Err("it is cut off")),
            Err(error) => Err(io(error)),
        }
    }

    /// The contents of the two meta pages, of which LMDB uses one.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let len = self.file.metadata().map_err(io)?.len();
        let metas = self.metas()?.into_iter().flatten();
        let snapshot = |meta: Meta| Snapshot {
            meta,
            pages: (len / u64::from(meta.page_size)).min(meta.last_page.saturating_add(1)),
        };
        Ok(metas.map(snapshot).collect())
    }

    /// The bytes after the header of an overflow page, as many as `len`; `None` if they cannot be
    /// read.
    pub(super) fn data(&self, snapshot: &Snapshot, number: u64, len: u32) -> Option<Vec<u8>> {
        let at = number.checked_mul(u64::from(snapshot.meta.page_size))? + PAGE_HEADER as u64;
        let end = snapshot.pages * u64::from(snapshot.meta.page_size);
        if at.checked_add(u64::from(len))? > end {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    }

    /// Reads a page; `None` if it is not in the file.
    pub(super) fn page(&self, snapshot: &Snapshot, number: u64, bytes: &mut Vec<u8>) -> Result<Option<()>> {
        if number >= snapshot.pages {
            return Ok(None);
        }
        let size = snapshot.meta.page_size;
        bytes.resize(size as usize, 0);
        match self.file.read_exact_at(bytes, number * u64::from(size)) {
            Ok(()) => Ok(Some(())),
            // The fault names the page that the disk cannot read; the others can be checked.
            Err(_) => Ok(None),
        }
    }
}

fn io(error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!(
        "the index: {error}: if the disk cannot read it any more, `posthaste check --rebuild` rebuilds it from the packs"
    ))
}
