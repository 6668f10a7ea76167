//! A pack whose records a rebuild uses.

use std::sync::Arc;

use crate::log::disk::DiskFile;
use crate::log::record::PackFormat;
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::search::SECTOR;

/// A pack that takes part.
pub(crate) struct Pack {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) format: PackFormat,
    /// Every record is below this offset.
    pub(crate) end: u64,
    /// The offset at which a later process abandoned the pack: records from there on do not
    /// count. Or the offset at which maintenance cut it: they were copied.
    pub(crate) abandoned: Option<u64>,
}

impl Pack {
    /// The verified content of one of its records, or why it is not available.
    pub(crate) fn content(&self, found: &LocatedRecord) -> std::result::Result<bytes::Bytes, String> {
        let scan = Scan::new(&*self.file, self.format, 0, self.end);
        scan.content(found).map_err(|fault| fault.to_string())
    }

    /// The end of the records that count.
    pub(crate) fn counted_end(&self) -> u64 {
        self.abandoned.map_or(self.end, |end| end.min(self.end))
    }

    /// Makes the counted records from `from` on durable, as a redo does. The process that wrote
    /// it may have ended before its sync, or its sync may have failed. So the same bytes are
    /// written again. Bytes that cannot be read are left as they are.
    pub(crate) fn make_durable(&self, from: u64) -> std::io::Result<()> {
        let (mut at, end) = (from, self.counted_end());
        let mut sector = [0; SECTOR as usize];
        while at < end {
            let next = (at + 1).next_multiple_of(SECTOR).min(end);
            let piece = &mut sector[..(next - at) as usize];
            if self.file.read_at(piece, at).is_ok_and(|read| read == piece.len()) {
                self.file.write_at(piece, at)?;
            }
            at = next;
        }
        self.file.sync()
    }

    pub(crate) fn counts(&self, offset: u64) -> bool {
        self.abandoned.is_none_or(|end| offset < end)
    }
}
