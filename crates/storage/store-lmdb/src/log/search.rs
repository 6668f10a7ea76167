//! Looks for records in a pack that may be damaged.

use super::GROUP_MAX;
use super::disk::DiskFile;
use super::record::{Header, Kind, PackFormat, RECORD_HEADER};
use super::scan::{LocatedRecord, Scan};

/// Bytes searched at a time.
const WINDOW: usize = 1 << 20;
/// Bytes that are searched first. Each later window has four times as many. A forged pack may have
/// a gap of some bytes before each record.
const FIRST_WINDOW: usize = 4 << 10;
/// The unit that a disk writes whole or not at all. The search skips sectors that the disk cannot
/// read.
pub(crate) const SECTOR: u64 = 512;

/// Sequence numbers that a commit takes before its own, for notes of its copies.
pub(crate) const NOTES_MAX: u64 = 2;

/// Looks for records in one pack.
pub(crate) struct Search<'f> {
    pub(crate) file: &'f dyn DiskFile,
    pub(crate) format: PackFormat,
    pub(crate) size: u64,
}

impl Search<'_> {
    /// The record at `at`, or else the next one after it.
    pub(crate) fn next(&self, at: u64) -> Option<LocatedRecord> {
        let mut head = [0; RECORD_HEADER];
        if self.file.read_at(&mut head, at).is_ok_and(|n| n == RECORD_HEADER)
            && let Some(found) = self.record(&head, at)
        {
            return Some(found);
        }
        // A record of format 1 does not name its location: a message may contain the bytes of a
        // record.
        if self.format == PackFormat::Unbound {
            return None;
        }
        let (mut from, mut len) = (at.saturating_add(8), FIRST_WINDOW);
        while from.saturating_add(RECORD_HEADER as u64) <= self.size {
            let (window, next) = self.window(from, len);
            let heads = window.len().saturating_sub(RECORD_HEADER - 1);
            for skip in (0..heads).step_by(8) {
                let offset = from + skip as u64;
                if let Some(found) = self.record(&window[skip..], offset) {
                    return Some(found);
                }
            }
            (from, len) = (next, (4 * len).min(WINDOW));
        }
        None
    }

    /// Whether the pack was cut off at `at`, as `tail` describes it. No later batch follows, and
    /// the record at `at` is not whole. `commits`: the number of whole commits from there on that
    /// the index lacks.
    pub(super) fn is_torn(&self, at: u64, found: &LocatedRecord, commits: usize) -> bool {
        let is_last_batch = commits <= GROUP_MAX;
        commits == 0 || (is_last_batch && (self.lacks_sector(at, found.offset) || self.lacks_part(at, found)))
    }

    /// The whole commits from `at` on that an index with this next sequence number lacks.
    pub(super) fn new_commits(&self, at: u64, next_seq: u64) -> impl Iterator<Item = LocatedRecord> {
        let is_new =
            move |found: &LocatedRecord| found.header.kind != Kind::Body && found.header.seq >= next_seq;
        self.records_from(at).filter(move |found| is_new(found) && self.is_whole(found))
    }

    /// Offset of the first damage that opening must report. `None` if all records from `at` on are
    /// whole, or if the records after the damage were never acknowledged. A last batch that
    /// maintenance wrote counts as not acknowledged: the records that it copied are still at their
    /// old offsets.
    pub(crate) fn damage_from(&self, mut at: u64, next_seq: u64) -> Option<u64> {
        self.last_byte(at)?;
        let found = loop {
            let found = self.next(at)?;
            if found.offset > at || !self.is_whole(&found) {
                break found;
            }
            at = found.end();
        };
        let is_change = |found: &LocatedRecord| {
            let kind = found.header.kind;
            matches!(kind, Kind::Mailbox | Kind::Pair | Kind::List | Kind::Directory)
                && found.header.seq >= next_seq
        };
        let is_torn = || self.is_torn(at, &found, self.new_commits(at, next_seq).count());
        let is_damage =
            self.has_later_batch(at) || (self.records_from(at).any(|found| is_change(&found)) && !is_torn());
        is_damage.then_some(at)
    }

    /// Whether the first commit of the tail at `at` follows commits that no index has. A process
    /// writes only when the index has all commits of others, so the earlier commits were
    /// acknowledged. A commit with copies takes up to [`NOTES_MAX`] numbers more than its own.
    ///
    /// All records before the commit must be whole. Otherwise it may be a later commit of a batch
    /// that was torn.
    pub(crate) fn begins_later(&self, mut at: u64, next_seq: u64) -> bool {
        while let Some(found) = self.next(at).filter(|found| found.offset == at && self.is_whole(found)) {
            if found.header.kind != Kind::Body {
                return found.header.seq > next_seq + NOTES_MAX;
            }
            at = found.end();
        }
        false
    }

    /// The records from `at` on whose heads are intact.
    fn records_from(&self, at: u64) -> impl Iterator<Item = LocatedRecord> {
        std::iter::successors(self.next(at), |found| self.next(found.end()))
    }

    /// Whether a batch follows that began after `at`: all before it was synced.
    pub(crate) fn has_later_batch(&self, at: u64) -> bool {
        self.records_from(at).any(|found| found.header.batch_at(found.offset).is_some_and(|batch| batch > at))
    }

    /// Whether a sector of the record at `at` is missing. A large body and its head are written
    /// separately: a sector that both share may have the head alone.
    fn lacks_part(&self, at: u64, found: &LocatedRecord) -> bool {
        let content = at + RECORD_HEADER as u64 + found.header.table_len();
        found.offset == at && (self.lacks_sector(at, found.end()) || self.lacks_sector(content, content + 1))
    }

    /// Whether one of the sectors from `from` to `to` is zero, as far as it is not before `from`.
    fn lacks_sector(&self, from: u64, to: u64) -> bool {
        let mut at = from;
        while at < to.min(self.size) {
            let end = (at + 1).next_multiple_of(SECTOR).min(self.size);
            let mut sector = [0; SECTOR as usize];
            let sector = &mut sector[..(end - at) as usize];
            if self.file.read_at(sector, at).is_ok_and(|n| n == sector.len())
                && sector.iter().all(|b| *b == 0)
            {
                return true;
            }
            at = end;
        }
        false
    }

    /// Whether the disk can read everything from `from` on.
    pub(crate) fn is_readable(&self, from: u64) -> bool {
        let (mut at, mut bytes) = (from, vec![0; self.window_len(from)]);
        while at < self.size {
            match self.file.read_at(&mut bytes, at) {
                Ok(0) => return true,
                Ok(read) => at += read as u64,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether a record's content is intact, too.
    pub(crate) fn is_whole(&self, found: &LocatedRecord) -> bool {
        Scan::new(self.file, self.format, 0, self.size).whole(found).is_ok()
    }

    fn record(&self, head: &[u8], offset: u64) -> Option<LocatedRecord> {
        let header = Header::from_bytes(head, self.format, offset)?;
        let found = LocatedRecord { offset, header };
        (found.end() <= self.size).then_some(found)
    }

    /// The number of bytes to read at `from`.
    fn window_len(&self, from: u64) -> usize {
        usize::try_from(self.size.saturating_sub(from)).unwrap_or(WINDOW).min(WINDOW)
    }

    /// At most `len` bytes from `from` on, and the offset at which to continue; no bytes where the
    /// disk cannot read.
    fn window(&self, from: u64, len: usize) -> (Vec<u8>, u64) {
        let mut bytes = vec![0; self.window_len(from).min(len)];
        let read = self.file.read_at(&mut bytes, from).unwrap_or_else(|_| self.readable(from, &mut bytes));
        bytes.truncate(read);
        if read == 0 {
            return (bytes, (from + 1).next_multiple_of(SECTOR));
        }
        // Heads that begin in the last bytes are looked at with the next window.
        let heads = (read.saturating_sub(RECORD_HEADER) & !7) as u64;
        (bytes, from + (heads + 8))
    }

    /// Reads the bytes before the first sector that the disk cannot read.
    fn readable(&self, from: u64, bytes: &mut [u8]) -> usize {
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            let at = from + read as u64;
            let len = ((SECTOR - at % SECTOR) as usize).min(rest.len());
            match self.file.read_at(&mut rest[..len], at) {
                Ok(n) if n > 0 => read += n,
                _ => break,
            }
        }
        read
    }

    /// Whether nothing was ever written: all bytes are zero. A byte that cannot be read counts as
    /// written.
    pub(crate) fn is_zero(&self) -> bool {
        let mut first = [0; SECTOR as usize];
        let read = self.file.read_at(&mut first, 0).unwrap_or(0);
        used(&first[..read]) == 0 && self.last_byte(0).is_none()
    }

    /// The end of the last byte from `from` on that is not zero; `None` if all are zero. A byte
    /// that cannot be read counts as not zero.
    pub(crate) fn last_byte(&self, from: u64) -> Option<u64> {
        let (mut at, mut last) = (from, None);
        let mut bytes = vec![0; self.window_len(from)];
        while at < self.size {
            let buffer = &mut bytes[..self.window_len(at)];
            match self.file.read_at(buffer, at) {
                Ok(0) => break,
                Ok(read) => {
                    let used = used(&buffer[..read]);
                    last = if used > 0 { Some(at + used as u64) } else { last };
                    at += read as u64;
                }
                Err(_) => {
                    at = (at + 1).next_multiple_of(SECTOR).min(self.size);
                    last = Some(at);
                }
            }
        }
        last
    }
}

/// Bytes up to the last that is not zero. Packs are preallocated, so most of the last one is
/// zero: whole pages are compared.
fn used(bytes: &[u8]) -> usize {
    const ZEROES: [u8; 4096] = [0; 4096];
    let mut rest = bytes;
    while let Some((before, page)) =
        rest.len().checked_sub(ZEROES.len()).and_then(|n| rest.split_at_checked(n))
        && page == ZEROES
    {
        rest = before;
    }
    rest.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)
}
