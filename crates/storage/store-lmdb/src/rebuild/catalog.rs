//! The records of all packs in two orders, and the further places of bodies, on disk. So a rebuild
//! needs no memory for them.
//!
//! A catalog is an LMDB environment of its own, which is discarded when the rebuild ends.

use std::collections::HashMap;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};
use posthaste_mail_model::BodyId;
use posthaste_store::{Result, StoreError};

use crate::index::bodies::BodyLocation;
use crate::index::{Indexed, damaged, lock_file};
use crate::log::record::{Header, Kind, PackFormat};
use crate::log::scan::LocatedRecord;

/// A record and its pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) pack: u32,
    pub(crate) found: LocatedRecord,
}

impl Entry {
    pub(crate) fn seq(&self) -> u64 {
        self.found.header.seq
    }

    /// Whether both are the same record: maintenance copies records.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        self.found.header.is_copy_of(&other.found.header)
    }
}

/// Reading transactions at a time: the rebuild has a few.
const READERS: u32 = 126;

type CatalogTable = Database<Bytes, Bytes>;

pub(crate) struct Catalog {
    env: Env<WithoutTls>,
    /// Bodies by pack and offset.
    bodies: CatalogTable,
    /// The other records by sequence number, pack and offset.
    log: CatalogTable,
    /// Further locations of bodies in the new index, by body, pack and offset. Maintenance copied
    /// such a body, and the old pack still exists.
    copies: CatalogTable,
}

impl Catalog {
    /// Creates an empty catalog in `dir`, which must not exist.
    pub(crate) fn make(dir: &Path, map_bytes: usize) -> Result<Self> {
        std::fs::create_dir_all(dir)
            .map_err(|e| StoreError::Unavailable(format!("{}: {e}", dir.display())))?;
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(map_bytes).max_dbs(3).max_readers(READERS);
        lock_file::allocate(dir, READERS)?;
        // SAFETY: LMDB requires that nothing but LMDB changes the files while they are mapped. The
        // directory was made a moment ago by this process, which holds the store alone and opens it
        // once. Nothing preallocates this file: `lock_file::allocate` has written to another one,
        // before LMDB maps it.
        let env = unsafe { options.open(dir) }.indexed()?;
        let mut txn = env.write_txn().indexed()?;
        let bodies = env.create_database(&mut txn, Some("bodies")).indexed()?;
        let log = env.create_database(&mut txn, Some("log")).indexed()?;
        let copies = env.create_database(&mut txn, Some("copies")).indexed()?;
        txn.commit().indexed()?;
        Ok(Self { env, bodies, log, copies })
    }

    pub(crate) fn write(&self) -> Result<RwTxn<'_>> {
        self.env.write_txn().indexed()
    }

    pub(crate) fn read(&self) -> Result<RoTxn<'_, WithoutTls>> {
        self.env.read_txn().indexed()
    }

    /// Adds a record.
    pub(crate) fn add(&self, txn: &mut RwTxn, entry: &Entry) -> Result<()> {
        let (location, value) = (place_key(entry), entry.found.header.to_bytes(PackFormat::Unbound, 0));
        if entry.found.header.kind == Kind::Body {
            return self.bodies.put(txn, &location, &value).indexed();
        }
        let mut key = [0; 20];
        key[..8].copy_from_slice(&entry.seq().to_be_bytes());
        key[8..].copy_from_slice(&location);
        self.log.put(txn, &key, &value).indexed()
    }

    /// Adds a further place of a body.
    pub(crate) fn add_copy(&self, txn: &mut RwTxn, body: BodyId, location: BodyLocation) -> Result<()> {
        let mut key = [0; 28];
        key[..16].copy_from_slice(&body.0.to_bytes());
        key[16..20].copy_from_slice(&location.pack.to_be_bytes());
        key[20..].copy_from_slice(&location.offset.to_be_bytes());
        self.copies.put(txn, &key, &location.len.to_be_bytes()).indexed()
    }

    /// The further locations of a body, by pack and offset. Each has the references of `place`.
    pub(crate) fn copies(&self, body: BodyId, location: BodyLocation) -> Result<Vec<BodyLocation>> {
        let id = body.0.to_bytes();
        let txn = self.read()?;
        let found = self.copies.prefix_iter(&txn, &id).indexed()?.map(|item| {
            let (key, value) = item.indexed()?;
            let at = key.strip_prefix(&id).and_then(|at| at.split_first_chunk());
            let (pack, offset) = at.ok_or_else(damaged("the catalog of a rebuild"))?;
            let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
            let (offset, len) = (number(offset), number(value));
            let whole = offset.zip(len).ok_or_else(damaged("the catalog of a rebuild"));
            whole.map(|(offset, len)| BodyLocation {
                pack: u32::from_be_bytes(*pack),
                offset,
                len,
                ..location
            })
        });
        found.collect()
    }

    /// Bodies by pack and offset.
    pub(crate) fn bodies<'t>(&self, txn: &'t RoTxn) -> Result<impl Iterator<Item = Result<Entry>> + use<'t>> {
        Ok(self.bodies.iter(txn).indexed()?.map(|item| {
            let (key, value) = item.indexed()?;
            entry_from(key, value).ok_or_else(damaged("the catalog of a rebuild"))
        }))
    }

    /// The log in the order of its sequence numbers, from one on.
    pub(crate) fn log<'t>(
        &self,
        txn: &'t RoTxn,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<Entry>> + use<'t>> {
        let low = from.to_be_bytes();
        let range = (std::ops::Bound::Included(&low[..]), std::ops::Bound::Unbounded);
        Ok(self.log.range(txn, &range).indexed()?.map(|item| {
            let (key, value) = item.indexed()?;
            key.get(8..)
                .and_then(|location| entry_from(location, value))
                .ok_or_else(damaged("the catalog of a rebuild"))
        }))
    }

    /// The highest sequence number of the log's records before the ends of their packs; 0 if
    /// there is no record.
    pub(crate) fn last_counted(&self, ends: &HashMap<u32, u64>) -> Result<u64> {
        for item in self.log.rev_iter(&*self.read()?).indexed()? {
            let (key, value) = item.indexed()?;
            let entry = key.get(8..).and_then(|location| entry_from(location, value));
            let entry = entry.ok_or_else(damaged("the catalog of a rebuild"))?;
            if ends.get(&entry.pack).is_none_or(|end| entry.found.offset < *end) {
                return Ok(entry.seq());
            }
        }
        Ok(0)
    }

    /// The number of records.
    pub(crate) fn len(&self, txn: &RoTxn) -> Result<u64> {
        Ok(self.bodies.len(txn).indexed()? + self.log.len(txn).indexed()?)
    }
}

fn place_key(entry: &Entry) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&entry.pack.to_be_bytes());
    key[4..].copy_from_slice(&entry.found.offset.to_be_bytes());
    key
}

fn entry_from(location: &[u8], value: &[u8]) -> Option<Entry> {
    let (pack, offset) = location.split_first_chunk()?;
    let header = Header::from_bytes(value, PackFormat::Unbound, 0)?;
    let offset = u64::from_be_bytes(offset.try_into().ok()?);
    Some(Entry { pack: u32::from_be_bytes(*pack), found: LocatedRecord { offset, header } })
}
