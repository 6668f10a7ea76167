//! The format of a pack and of a record in it.
//!
//! A pack begins with 64 bytes:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–7 | `PHPACK\r\n` |
//! | 8–11 | format: 2, or 1 in packs of older programs |
//! | 12–15 | number of the pack |
//! | 16–31 | id of the store |
//! | 32–59 | zero |
//! | 60–63 | CRC-32C of bytes 0–59 |
//!
//! Records follow, each at a multiple of eight:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | `PHR1` |
//! | 4 | kind |
//! | 5–7 | steps of 8 bytes from its batch's begin, plus one; 0 if that is not known |
//! | 8–15 | sequence number, ascending over the whole store |
//! | 16–23 | length of the content |
//! | 24–39 | id: of the body, mailbox or account; zero for other kinds |
//! | 40–43 | CRC-32C of the content; of a body: of its table |
//! | 44–47 | CRC-32C of the record's location and of bytes 0–43 |
//! | 48–… | a body's table: CRC-32C of each 64 KiB block of the content |
//! | … | content, then zeroes to a multiple of eight |
//!
//! The location is the store's id (16), the pack's number (4) and the record's offset (8). In
//! format 1 the checksum covers bytes 0–43 alone.
//!
//! A batch is written and synced before the next one begins. So each record shows that the disk
//! once had all bytes before its batch. If records are missing there, it is damage and not the
//! effect of a crash. Older programs wrote 0 there, and so do batches of over 128 MiB.
//!
//! So a rebuild can search a damaged pack for records. The bytes of a record at another location do
//! not pass, and a message that imitates a record would have to know the store's id.

use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use posthaste_mail_model::{BodyId, Id};

/// Bytes before the first record.
pub(crate) const PACK_HEADER: usize = 64;
/// Bytes of a record before its table or content.
pub(crate) const RECORD_HEADER: usize = 48;
/// Bytes of a body under one checksum. A ranged read may have to check this many extra bytes at
/// either end. Half would double the table of large bodies for little gain. Twice as much would
/// make a preview of 2 KiB cost 10 µs.
pub(crate) const BLOCK: usize = 64 * 1024;
/// The most that the three bytes of [`Header::steps`] can hold: batches of up to 128 MiB.
const STEPS_MAX: u32 = (1 << 24) - 1;
/// The highest sequence number. With a billion records a second, a store takes 146 years to reach
/// it. A record with a higher number is forged: the numbers after it would end.
const SEQ_MAX: u64 = (1 << 62) - 1;
/// The highest number with which a transaction may begin. None takes 2^32 of them.
pub(crate) const SEQ_NEXT_MAX: u64 = SEQ_MAX - (1 << 32);
const PACK_MAGIC: &[u8; 8] = b"PHPACK\r\n";
const RECORD_MAGIC: &[u8; 4] = b"PHR1";

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The bytes of a message.
    Body = 1,
    /// A commit on a mailbox.
    Mailbox = 2,
    /// A commit on a mailbox list.
    List = 3,
    /// A change of the directory.
    Directory = 4,
    /// Names a pack and the offset from which on its records do not count.
    Abandon = 5,
    /// Names a pack whose live records were all copied elsewhere: its file is removed.
    Retire = 6,
    /// Commits on two mailboxes. Its id is that of the first.
    Pair = 7,
    /// Names a pack and the offset from which its live records were all copied elsewhere: the file
    /// is cut there.
    Cut = 8,
    /// The state of a mailbox at a sequence number.
    Checkpoint = 9,
    /// The rows of one table between two keys, at a sequence number. The first byte of its id is
    /// the table's number.
    Range = 10,
}

/// The checksum of the heads of a pack's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackFormat {
    /// Format 1: each head by itself.
    Unbound,
    /// Format 2: each head together with the store, the pack's number and the record's offset.
    Bound {
        /// CRC-32C of the store's id.
        store: u32,
        /// The pack.
        pack: u32,
    },
}

impl PackFormat {
    /// The format of packs that this program writes.
    pub(crate) fn bound(store: Id, pack: u32) -> Self {
        Self::Bound { store: crc32c(&store.to_bytes()), pack }
    }

    fn version(self) -> u32 {
        match self {
            Self::Unbound => 1,
            Self::Bound { .. } => 2,
        }
    }

    fn head_crc(self, head: &[u8], offset: u64) -> u32 {
        let Self::Bound { store, pack } = self else { return crc32c(head) };
        let crc = crc32c_append(crc32c_append(store, &pack.to_le_bytes()), &offset.to_le_bytes());
        crc32c_append(crc, head)
    }
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        use Kind::{Abandon, Body, Checkpoint, Cut, Directory, List, Mailbox, Pair, Range, Retire};
        let all = [Body, Mailbox, List, Directory, Abandon, Retire, Pair, Cut, Checkpoint, Range];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

impl Kind {
    /// Whether checkpoints of ranges supersede records of this kind.
    pub(crate) fn is_in_ranges(self) -> bool {
        use Kind::{Abandon, Cut, Directory, List, Range, Retire};
        matches!(self, List | Directory | Abandon | Retire | Cut | Range)
    }

    /// Whether records of this kind count towards the next pass of checkpoints of ranges.
    pub(crate) fn is_change_in_ranges(self) -> bool {
        matches!(self, Kind::List | Kind::Directory)
    }
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// Steps of 8 bytes from the begin of its batch, plus one; 0 if that is not known.
    pub(crate) steps: u32,
    pub(crate) seq: u64,
    pub(crate) len: u64,
    pub(crate) id: Id,
    pub(crate) content_crc: u32,
}

impl Header {
    /// The head of a record at `offset`.
    pub(crate) fn to_bytes(self, format: PackFormat, offset: u64) -> [u8; RECORD_HEADER] {
        let mut out = [0; RECORD_HEADER];
        out[..4].copy_from_slice(RECORD_MAGIC);
        out[4] = self.kind as u8;
        out[5..8].copy_from_slice(&self.steps.to_le_bytes()[..3]);
        out[8..16].copy_from_slice(&self.seq.to_le_bytes());
        out[16..24].copy_from_slice(&self.len.to_le_bytes());
        out[24..40].copy_from_slice(&self.id.to_bytes());
        out[40..44].copy_from_slice(&self.content_crc.to_le_bytes());
        let crc = format.head_crc(&out[..44], offset);
        out[44..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` if these bytes are no intact head of a record at `offset`.
    pub(crate) fn from_bytes(bytes: &[u8], format: PackFormat, offset: u64) -> Option<Self> {
        let bytes: &[u8; RECORD_HEADER] = bytes.first_chunk()?;
        if !bytes.starts_with(RECORD_MAGIC) {
            return None;
        }
        if format.head_crc(&bytes[..44], offset).to_le_bytes() != bytes[44..] {
            return None;
        }
        let header = Self {
            kind: Kind::from_byte(bytes[4])?,
            steps: u32::from_le_bytes([bytes[5], bytes[6], bytes[7], 0]),
            seq: u64::from_le_bytes(*bytes[8..].first_chunk()?),
            len: u64::from_le_bytes(*bytes[16..].first_chunk()?),
            id: Id::from_bytes(*bytes[24..].first_chunk()?),
            content_crc: u32::from_le_bytes(*bytes[40..].first_chunk()?),
        };
        (header.seq <= SEQ_MAX).then_some(header)
    }

    /// Whether both are heads of the same record, which maintenance may have copied to another
    /// batch.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        Self { steps: 0, ..*self } == Self { steps: 0, ..*other }
    }

    /// The offset at which the batch of the record at `offset` begins, if that is known.
    pub(crate) fn batch_at(&self, offset: u64) -> Option<u64> {
        let steps = u64::from(self.steps).checked_sub(1)?;
        offset.checked_sub(steps * 8)
    }

    /// Bytes of the table between head and content.
    pub(crate) fn table_len(&self) -> u64 {
        if self.kind == Kind::Body { table_len(self.len) } else { 0 }
    }

    /// Bytes of the whole record, padding included. Saturates for a length no file could have.
    pub(crate) fn record_len(&self) -> u64 {
        match self.kind {
            Kind::Body => body_record_len(self.len),
            _ => (RECORD_HEADER as u64).saturating_add(self.len).saturating_add(7) & !7,
        }
    }
}

/// Bytes of the table of a body.
pub(crate) fn table_len(len: u64) -> u64 {
    len.div_ceil(BLOCK as u64) * 4
}

/// Bytes of a whole body record. Saturates for a length no file could have.
pub(crate) fn body_record_len(len: u64) -> u64 {
    (RECORD_HEADER as u64 + table_len(len)).saturating_add(len).saturating_add(7) & !7
}

/// Bytes of a whole record of another kind.
pub(crate) fn record_len(len: usize) -> u64 {
    (RECORD_HEADER as u64 + len as u64 + 7) & !7
}

/// The table of a body.
pub(crate) fn table_of(content: &[u8]) -> Vec<u8> {
    content.chunks(BLOCK).flat_map(|block| crc32c(block).to_le_bytes()).collect()
}

/// The head of a pack.
pub(crate) fn pack_header(number: u32, format: PackFormat, store: Id) -> [u8; PACK_HEADER] {
    let mut out = [0; PACK_HEADER];
    out[..8].copy_from_slice(PACK_MAGIC);
    out[8..12].copy_from_slice(&format.version().to_le_bytes());
    out[12..16].copy_from_slice(&number.to_le_bytes());
    out[16..32].copy_from_slice(&store.to_bytes());
    let crc = crc32c(&out[..60]);
    out[60..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The format of pack `number` of this store; `None` if these bytes are not its head.
pub(crate) fn format_from(bytes: &[u8], number: u32, store: Id) -> Option<PackFormat> {
    [PackFormat::bound(store, number), PackFormat::Unbound]
        .into_iter()
        .find(|format| bytes.starts_with(&pack_header(number, *format, store)))
}

/// The id of the store, from the head of its pack `number`.
pub(crate) fn store_of_head(bytes: &[u8; PACK_HEADER], number: u32) -> Option<Id> {
    let store = Id::from_bytes(*bytes[16..].first_chunk()?);
    format_from(bytes, number, store).map(|_| store)
}

/// A transaction's records on their way to a pack.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Pack and offset of the batch.
    pub(crate) pack: u32,
    pub(crate) start: u64,
    format: PackFormat,
    len: u64,
    parts: Vec<Bytes>,
    /// Small pieces are gathered here, so that a group of small messages goes out in one write.
    small: Vec<u8>,
}

/// Bytes from which a piece is written without a copy.
const LARGE: usize = 64 * 1024;

impl Batch {
    pub(crate) fn new(store: Id, pack: u32, start: u64) -> Self {
        let format = PackFormat::bound(store, pack);
        Self { pack, start, format, len: 0, parts: Vec::new(), small: Vec::new() }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The offset of the next record.
    fn next(&self) -> u64 {
        self.start + self.len
    }

    /// Adds a pack's head.
    pub(crate) fn pack_header(&mut self, store: Id) {
        self.copy(&pack_header(self.pack, self.format, store));
    }

    /// Adds a body and returns its record's location.
    pub(crate) fn body(&mut self, seq: u64, body: BodyId, content: &Bytes) -> u64 {
        let table = table_of(content);
        let len = content.len() as u64;
        let at = self.head(Kind::Body, seq, body.0, len, crc32c(&table));
        self.copy(&table);
        self.share(content);
        self.pad();
        at
    }

    /// Adds a record of another kind.
    pub(crate) fn record(&mut self, kind: Kind, seq: u64, id: Id, content: impl Into<Bytes>) {
        let content = content.into();
        self.head(kind, seq, id, content.len() as u64, crc32c(&content));
        self.share(&content);
        self.pad();
    }

    /// Adds a record that was read whole from another pack, under a new head, and returns its
    /// location.
    pub(crate) fn moved(&mut self, header: Header, record: &Bytes) -> u64 {
        let Header { kind, seq, len, id, content_crc, .. } = header;
        let at = self.head(kind, seq, id, len, content_crc);
        self.share(&record.slice(RECORD_HEADER..));
        self.pad();
        at
    }

    /// Adds the head of a record and returns the record's location.
    fn head(&mut self, kind: Kind, seq: u64, id: Id, len: u64, content_crc: u32) -> u64 {
        let at = self.next();
        let steps = u32::try_from(self.len / 8 + 1).ok().filter(|steps| *steps <= STEPS_MAX);
        let header = Header { kind, steps: steps.unwrap_or(0), seq, len, id, content_crc };
        self.copy(&header.to_bytes(self.format, at));
        at
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
    }

    fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < LARGE {
            self.copy(bytes);
            return;
        }
        if !self.small.is_empty() {
            self.parts.push(Bytes::from(std::mem::take(&mut self.small)));
        }
        self.parts.push(bytes.clone());
        self.len += bytes.len() as u64;
    }

    fn pad(&mut self) {
        let short = self.len.next_multiple_of(8) - self.len;
        self.copy(&[0; 8][..short as usize]);
    }

    /// The pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|p| &p[..]).chain(std::iter::once(&self.small[..]))
    }
}

/// Whether a content matches the checksum in its record's head.
pub(crate) fn content_matches(header: &Header, table: &[u8], content: &[u8]) -> bool {
    if header.kind == Kind::Body {
        crc32c(table) == header.content_crc && table_of(content) == table
    } else {
        crc32c_append(0, content) == header.content_crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back_at_its_place_alone_and_damage_is_seen() {
        let id = Id::new(3, 4);
        let header = Header { kind: Kind::List, steps: STEPS_MAX, seq: 7, len: 13, id, content_crc: 5 };
        let format = PackFormat::bound(Id::new(1, 1), 2);
        let mut bytes = header.to_bytes(format, 640);
        assert_eq!(Header::from_bytes(&bytes, format, 640), Some(header));
        assert_eq!(header.record_len(), 64);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_eq!(Header::from_bytes(&bytes, format, 640), None, "{at}");
            bytes[at] ^= 1;
        }
        assert_eq!(Header::from_bytes(&bytes, format, 648), None, "another offset");
        assert_eq!(
            Header::from_bytes(&bytes, PackFormat::bound(Id::new(1, 1), 3), 640),
            None,
            "another pack"
        );
        assert_eq!(
            Header::from_bytes(&bytes, PackFormat::bound(Id::new(1, 2), 2), 640),
            None,
            "another store"
        );
        assert_eq!(Header::from_bytes(&bytes, PackFormat::Unbound, 640), None);
        let old = header.to_bytes(PackFormat::Unbound, 640);
        assert_eq!(Header::from_bytes(&old, PackFormat::Unbound, 1), Some(header), "format 1 binds nothing");
        assert_eq!(Header::from_bytes(&[0; 48], format, 0), None);
        assert_eq!(Header { len: u64::MAX, ..header }.record_len(), !7);
        assert_eq!(body_record_len(u64::MAX), !7);
    }

    /// A sum with the number of such a record would overflow, and no number would come after it.
    #[test]
    fn a_head_with_a_number_that_no_store_reaches_is_no_head() {
        let id = Id::new(3, 4);
        for (seq, is_known) in
            [(SEQ_NEXT_MAX, true), (SEQ_MAX, true), (SEQ_MAX + 1, false), (u64::MAX, false)]
        {
            let header = Header { kind: Kind::List, steps: 1, seq, len: 13, id, content_crc: 5 };
            let bytes = header.to_bytes(PackFormat::Unbound, 64);
            assert_eq!(Header::from_bytes(&bytes, PackFormat::Unbound, 64).is_some(), is_known, "{seq}");
        }
    }

    #[test]
    fn a_pack_head_names_its_form_number_and_store() {
        let store = Id::new(1, 1);
        for format in [PackFormat::Unbound, PackFormat::bound(store, 9)] {
            let bytes = pack_header(9, format, store);
            assert_eq!(format_from(&bytes, 9, store), Some(format));
            assert_eq!(format_from(&bytes, 8, store), None);
            assert_eq!(format_from(&bytes, 9, Id::new(1, 2)), None);
        }
    }

    #[test]
    fn a_batch_is_its_pieces() {
        let mut batch = Batch::new(Id::new(9, 9), 1, 64);
        let format = PackFormat::bound(Id::new(9, 9), 1);
        let large = Bytes::from(vec![7; 3 * BLOCK + 1]);
        let first = batch.body(1, BodyId(Id::new(1, 1)), &Bytes::from_static(b"small"));
        let second = batch.body(2, BodyId(Id::new(1, 2)), &large);
        batch.record(Kind::Mailbox, 3, Id::new(1, 3), vec![1, 2, 3]);
        assert_eq!((first, second), (64, 64 + body_record_len(5)));
        let all: Vec<u8> = batch.pieces().flatten().copied().collect();
        assert_eq!(all.len() as u64, batch.len());
        let head = Header::from_bytes(&all, format, first).unwrap();
        let header = Header::from_bytes(&all[(second - 64) as usize..], format, second).unwrap();
        assert_eq!((head.batch_at(first), header.batch_at(second)), (Some(64), Some(64)));
        assert_eq!(Header { steps: 0, ..header }.batch_at(second), None);
        assert_eq!(
            (header.len, header.record_len()),
            (large.len() as u64, body_record_len(large.len() as u64))
        );
        let third = second + header.record_len();
        let found = Header::from_bytes(&all[(third - 64) as usize..], format, third).unwrap();
        assert_eq!(found.kind, Kind::Mailbox);
    }

    #[test]
    fn a_moved_record_has_the_head_of_its_new_place() {
        let mut first = Batch::new(Id::new(9, 9), 1, 64);
        let at = first.body(1, BodyId(Id::new(1, 1)), &Bytes::from_static(b"moved whole"));
        let record: Vec<u8> = first.pieces().flatten().copied().collect();
        let header = Header::from_bytes(&record, PackFormat::bound(Id::new(9, 9), 1), at).unwrap();
        let mut second = Batch::new(Id::new(9, 9), 2, 4096);
        let to = second.moved(header, &Bytes::from(record.clone()));
        let bytes: Vec<u8> = second.pieces().flatten().copied().collect();
        let there = Header::from_bytes(&bytes, PackFormat::bound(Id::new(9, 9), 2), to).unwrap();
        assert_eq!((there, there.batch_at(to)), (header, Some(4096)));
        assert_eq!(bytes[RECORD_HEADER..], record[RECORD_HEADER..]);
    }
}
