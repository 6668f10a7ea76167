//! Walks the records of a pack from its start, for check, rebuild and emptying.

use bytes::Bytes;
use posthaste_mail_model::Id;

use super::reader::{ReadFault, read_exactly};
use super::record::{Header, PACK_HEADER, RECORD_HEADER, content_matches, pack_header};
use crate::disk::DiskFile;

/// One record where it lies.
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) header: Header,
}

/// A walk over the records below `end`.
pub(crate) struct Scan<'f> {
    file: &'f dyn DiskFile,
    at: u64,
    end: u64,
}

impl<'f> Scan<'f> {
    /// From `at`, which is 0 for the first record.
    pub(crate) fn new(file: &'f dyn DiskFile, at: u64, end: u64) -> Self {
        Self { file, at: at.max(PACK_HEADER as u64), end }
    }

    /// Where the next record would begin.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    /// The next record; `None` at the end. What is no record ends the walk with a fault.
    pub(crate) fn advance(&mut self) -> Result<Option<Found>, ReadFault> {
        if self.at + RECORD_HEADER as u64 > self.end {
            return Ok(None);
        }
        let bytes = read_exactly(self.file, self.at, RECORD_HEADER)?;
        let header = Header::from_bytes(&bytes).ok_or(ReadFault::Damaged("no intact record"))?;
        let offset = self.at;
        let next = offset.saturating_add(header.record_len());
        if next > self.end {
            return Err(ReadFault::Damaged("a record reaches past the pack's end"));
        }
        self.at = next;
        Ok(Some(Found { offset, header }))
    }

    /// The whole record, checked.
    pub(crate) fn whole(&self, found: &Found) -> Result<Bytes, ReadFault> {
        let bytes = read_exactly(self.file, found.offset, found.header.record_len() as usize)?;
        let content = RECORD_HEADER + found.header.table_len() as usize;
        let end = content + found.header.len as usize;
        if !content_matches(&found.header, &bytes[RECORD_HEADER..content], &bytes[content..end]) {
            return Err(ReadFault::Damaged("a record's checksum does not match"));
        }
        Ok(bytes)
    }

    /// The content of a record, checked.
    pub(crate) fn content(&self, found: &Found) -> Result<Bytes, ReadFault> {
        let bytes = self.whole(found)?;
        let content = RECORD_HEADER + found.header.table_len() as usize;
        Ok(bytes.slice(content..content + found.header.len as usize))
    }
}

/// Whether a file begins as this pack of this store must.
pub(crate) fn has_pack_header(file: &dyn DiskFile, number: u32, store: Id) -> Result<bool, ReadFault> {
    Ok(read_exactly(file, 0, PACK_HEADER)?[..] == pack_header(number, store))
}
