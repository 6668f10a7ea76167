//! Reads and verifies ranges of bodies.
//!
//! Open files are kept, up to a bound; the lock on them is held for a look-up, never for a read.
//! If a pack does not exist any more, maintenance has removed it after the look-up. The caller
//! then looks the body up again.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc32c::crc32c;
use parking_lot::Mutex;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::{BodyRange, StoreError};

use super::path_of;
use super::readers::Lock;
use super::record::{BLOCK, Header, Kind, PackFormat, RECORD_HEADER, table_len};
use crate::index::bodies::BodyLocation;
use crate::log::disk::{Disk, DiskFile};

/// Open pack files. 64 packs of 256 MiB are 16 GiB of mail, more than is read at a time on one
/// machine. Each is one of the 1,024 descriptors a process has by default.
const FILES_MAX: usize = 64;

/// The reason why a body was not read.
#[derive(Debug)]
pub(crate) enum ReadFault {
    /// The pack no longer exists: look the location up again.
    Missing,
    /// The disk reported an error.
    Io(io::Error),
    /// The bytes at the location are not the body.
    Damaged(&'static str),
}

impl ReadFault {
    /// The fault of reading a body from a pack.
    pub(crate) fn of(self, body: BodyId, pack: u32) -> StoreError {
        match self {
            Self::Missing => StoreError::Corrupt(format!("body {body}: pack {pack} is missing")),
            Self::Io(e) => StoreError::Unavailable(format!("pack {pack}: {e}")),
            Self::Damaged(why) => StoreError::Corrupt(format!("body {body} in pack {pack}: {why}")),
        }
    }
}

impl std::fmt::Display for ReadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::Io(error) => error.fmt(f),
            Self::Damaged(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Io(error) }
    }
}

struct OpenFile {
    file: Arc<dyn DiskFile>,
    used: u64,
}

/// The packs of a snapshot, and the lock that keeps them from being cut.
type OpenPacks = (HashMap<u32, Arc<dyn DiskFile>>, Lock);

/// Reads bodies from packs.
pub(crate) struct PackReader {
    disk: Arc<dyn Disk>,
    packs: PathBuf,
    store: Id,
    open: Mutex<(HashMap<u32, OpenFile>, u64)>,
    /// The packs of a snapshot. They stay readable when maintenance removes their names, and no
    /// pack is cut.
    pinned: OnceLock<OpenPacks>,
}

impl PackReader {
    pub(crate) fn new(disk: Arc<dyn Disk>, packs: PathBuf, store: Id) -> Self {
        Self { disk, packs, store, open: Mutex::default(), pinned: OnceLock::new() }
    }

    /// Opens these packs and keeps them open. An error of the kind `NotFound` if one was removed.
    pub(crate) fn open_all(&self, packs: &[u32]) -> io::Result<HashMap<u32, Arc<dyn DiskFile>>> {
        packs.iter().map(|pack| Ok((*pack, self.disk.open(&path_of(&self.packs, *pack))?))).collect()
    }

    /// Reads these open files from now on, also after their names are removed. A second call
    /// changes nothing.
    pub(crate) fn pin(&self, files: HashMap<u32, Arc<dyn DiskFile>>, lock: Lock) {
        let _ = self.pinned.set((files, lock));
    }

    /// The file of a pack.
    pub(crate) fn file(&self, pack: u32) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(file) = self.pinned.get().and_then(|(pinned, _)| pinned.get(&pack)) {
            return Ok(Arc::clone(file));
        }
        {
            let mut open = self.open.lock();
            open.1 += 1;
            let now = open.1;
            if let Some(found) = open.0.get_mut(&pack) {
                found.used = now;
                return Ok(Arc::clone(&found.file));
            }
        }
        let file = self.disk.open(&path_of(&self.packs, pack))?;
        let mut open = self.open.lock();
        if open.0.len() >= FILES_MAX {
            let oldest = open.0.iter().min_by_key(|(_, f)| f.used).map(|(n, _)| *n);
            oldest.and_then(|n| open.0.remove(&n));
        }
        let used = open.1;
        open.0.insert(pack, OpenFile { file: Arc::clone(&file), used });
        Ok(file)
    }

    /// Forgets a pack that was removed.
    pub(crate) fn forget(&self, pack: u32) {
        self.open.lock().0.remove(&pack);
    }

    /// A range of a body, cut at its end.
    pub(crate) fn read(
        &self,
        body: BodyId,
        location: BodyLocation,
        range: BodyRange,
    ) -> Result<Bytes, ReadFault> {
        let (start, end) = (range.start, range.end.min(location.len));
        if start >= end {
            return Ok(Bytes::new());
        }
        // The index of a forged backup may name any location. Sums of offsets in files do not
        // overflow.
        if location.offset.checked_add(location.len).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(ReadFault::Damaged("its location is beyond the end of any file"));
        }
        let file = self.file(location.pack)?;
        let block = BLOCK as u64;
        let (first, last) = (start / block, (end - 1) / block);
        let table = table_len(location.len);
        let content = location.offset + RECORD_HEADER as u64 + table;
        let blocks_end = ((last + 1) * block).min(location.len);

        // Small bodies and reads from the start take one call: head, table and content are
        // adjacent.
        let prefix = (RECORD_HEADER as u64 + table) as usize;
        let (head, blocks) = if first == 0 {
            let all = read_exactly(&*file, location.offset, prefix + blocks_end as usize)?;
            (all.slice(..prefix), all.slice(prefix..))
        } else {
            let head = read_exactly(&*file, location.offset, prefix)?;
            let from = first * block;
            (head, read_exactly(&*file, content + from, (blocks_end - from) as usize)?)
        };
        self.check_head(body, location, &head)?;
        let sums = &head[RECORD_HEADER + 4 * first as usize..];
        for (block, sum) in blocks.chunks(BLOCK).zip(sums.chunks_exact(4)) {
            if crc32c(block).to_le_bytes() != sum {
                return Err(ReadFault::Damaged("a block's checksum does not match"));
            }
        }
        let skip = (start - first * block) as usize;
        Ok(blocks.slice(skip..skip + (end - start) as usize))
    }

    /// The sequence number of a body's record.
    pub(crate) fn seq(&self, body: BodyId, location: BodyLocation) -> Result<u64, ReadFault> {
        let prefix = RECORD_HEADER + table_len(location.len) as usize;
        let head = read_exactly(&*self.file(location.pack)?, location.offset, prefix)?;
        self.check_head(body, location, &head)
    }

    /// The sequence number of the record at a location, if it is the body's record.
    fn check_head(&self, body: BodyId, location: BodyLocation, head: &[u8]) -> Result<u64, ReadFault> {
        // The index names the location, so a head of either format is sufficient.
        let header = [PackFormat::bound(self.store, location.pack), PackFormat::Unbound]
            .into_iter()
            .find_map(|format| Header::from_bytes(head, format, location.offset))
            .ok_or(ReadFault::Damaged("no intact record at its location"))?;
        if header.kind != Kind::Body || header.id != body.0 || header.len != location.len {
            return Err(ReadFault::Damaged("another record at its location"));
        }
        if crc32c(&head[RECORD_HEADER..]) != header.content_crc {
            return Err(ReadFault::Damaged("the block table's checksum does not match"));
        }
        Ok(header.seq)
    }
}

/// Bytes that are read without a look at the length of the file.
const UNSEEN_MAX: usize = 1 << 20;

/// Reads the bytes of a range of a file. A length that a backup forged takes no memory: no system
/// has as much as it may say, and the process would end.
pub(crate) fn read_exactly(file: &dyn DiskFile, offset: u64, len: usize) -> Result<Bytes, ReadFault> {
    let too_short = ReadFault::Damaged("the pack ends too early");
    if len > UNSEEN_MAX && file.size().map_err(ReadFault::Io)?.saturating_sub(offset) < len as u64 {
        return Err(too_short);
    }
    let mut buffer = vec![0; len];
    if file.read_at(&mut buffer, offset).map_err(ReadFault::Io)? < len {
        return Err(too_short);
    }
    Ok(Bytes::from(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index of a forged backup may name any location.
    #[test]
    fn a_location_beyond_any_file_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(path_of(dir.path(), 1), [7; 200]).unwrap();
        let disk = Arc::new(crate::log::disk::RealDisk);
        let reader = PackReader::new(disk, dir.path().to_owned(), Id::new(1, 1));
        for (offset, len) in [(64, u64::MAX), (u64::MAX, 9), (u64::MAX - 9, 9), (1 << 63, 9)] {
            let location = BodyLocation { pack: 1, offset, len, refs: 1 };
            for range in [0..u64::MAX, len - 1..len] {
                let read = reader.read(BodyId(Id::new(1, 2)), location, range);
                assert!(matches!(read, Err(ReadFault::Damaged(_))), "{offset} {len}: {read:?}");
            }
        }
    }

    #[test]
    fn a_length_beyond_the_file_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        std::fs::write(&path, vec![7; UNSEEN_MAX + 2]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        for len in [UNSEEN_MAX + 2, 1 << 50] {
            let read = read_exactly(&file, 1, len);
            assert!(matches!(read, Err(ReadFault::Damaged(_))), "{len}");
        }
        assert_eq!(read_exactly(&file, 1, UNSEEN_MAX + 1).unwrap().len(), UNSEEN_MAX + 1);
    }
}
