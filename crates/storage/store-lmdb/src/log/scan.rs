//! Walks the records of a pack, for check, redo, rebuild and maintenance.

use bytes::Bytes;
use posthaste_mail_model::Id;

use super::reader::{ReadFault, read_exactly};
use super::record::{Header, PACK_HEADER, PackFormat, RECORD_HEADER, content_matches, format_from};
use crate::log::disk::DiskFile;

/// A record and its location.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocatedRecord {
    pub(crate) offset: u64,
    pub(crate) header: Header,
}

impl LocatedRecord {
    /// The offset at which the next record begins.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.header.record_len())
    }
}

/// A walk over the records below `end`.
pub(crate) struct Scan<'f> {
    file: &'f dyn DiskFile,
    format: PackFormat,
    at: u64,
    end: u64,
}

impl<'f> Scan<'f> {
    /// From `at`, which is 0 for the first record.
    pub(crate) fn new(file: &'f dyn DiskFile, format: PackFormat, at: u64, end: u64) -> Self {
        Self { file, format, at: at.max(PACK_HEADER as u64), end }
    }

    /// Continues the walk at another record.
    pub(crate) fn from(&self, at: u64) -> Self {
        Self { at, ..*self }
    }

    /// The offset at which the next record would begin.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    /// The next record; `None` at the end. Bytes that are not a record end the walk with a fault.
    pub(crate) fn advance(&mut self) -> Result<Option<LocatedRecord>, ReadFault> {
        if self.at.saturating_add(RECORD_HEADER as u64) > self.end {
            return Ok(None);
        }
        let bytes = read_exactly(self.file, self.at, RECORD_HEADER)?;
        let header =
            Header::from_bytes(&bytes, self.format, self.at).ok_or(ReadFault::Damaged("no intact record"))?;
        let found = LocatedRecord { offset: self.at, header };
        if found.end() > self.end {
            return Err(ReadFault::Damaged("a record reaches past the pack's end"));
        }
        self.at = found.end();
        Ok(Some(found))
    }

    /// The whole record, verified.
    pub(crate) fn whole(&self, found: &LocatedRecord) -> Result<Bytes, ReadFault> {
        let bytes = read_exactly(self.file, found.offset, found.header.record_len() as usize)?;
        let content = RECORD_HEADER + found.header.table_len() as usize;
        let end = content + found.header.len as usize;
        if !content_matches(&found.header, &bytes[RECORD_HEADER..content], &bytes[content..end]) {
            return Err(ReadFault::Damaged("a record's checksum does not match"));
        }
        Ok(bytes)
    }

    /// The content of a record, verified.
    pub(crate) fn content(&self, found: &LocatedRecord) -> Result<Bytes, ReadFault> {
        let bytes = self.whole(found)?;
        let content = RECORD_HEADER + found.header.table_len() as usize;
        Ok(bytes.slice(content..content + found.header.len as usize))
    }
}

/// The format in which the tail of a pack is read. A head that is damaged or cannot be read does
/// not hide acknowledged commits. Tails are written in the newest format, and each record is
/// recognized by its checksum.
pub(crate) fn tail_format(file: &dyn DiskFile, number: u32, store: Id) -> PackFormat {
    let known = pack_format(file, number, store).ok().flatten();
    known.unwrap_or_else(|| PackFormat::bound(store, number))
}

/// The format of a pack of this store; `None` if the file does not begin with the head of this
/// pack.
pub(crate) fn pack_format(
    file: &dyn DiskFile,
    number: u32,
    store: Id,
) -> Result<Option<PackFormat>, ReadFault> {
    Ok(format_from(&read_exactly(file, 0, PACK_HEADER)?, number, store))
}
