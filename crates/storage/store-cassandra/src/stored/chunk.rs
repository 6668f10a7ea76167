//! A column chunk: up to 128 rows of one mailbox in one cell, and the commit of each.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–3 | checksum, seeded with mailbox and key |
//! | varint | number of rows, 0 … 128 |
//! | 28 each | rows in UID order |
//! | varint | number of origins |
//! | 4 + 16 each | an origin: the first UID it counts for (to the next origin's), and the commit's id |
//!
//! Its key is a UID at or below its first row and above every row of the chunk before. The key
//! stays when the first row is expunged. A chunk is never deleted, only emptied: a tombstone that
//! was dropped before every node had it would bring expunged messages back. Rows never move from
//! one chunk to another. So a reader that pages through a changing mailbox may see old rows but
//! misses none.
//!
//! An origin names the commit whose summary is valid for a UID. Several nodes may have written a
//! summary for the same UID.

use std::collections::BTreeMap;

use posthaste_mail_model::{Id, MailboxId, NumSet};
use posthaste_store::Row;
use posthaste_store::octets::{Octets, put_varint};

use crate::stored::seal::{location, seal, unseal};

/// Rows: 128 × 28 bytes are 3.5 KiB, with an origin for each 6 KiB. A changed flag writes that
/// much (three times: Paxos proposal, commit log, table); half of it would double the cells that a
/// cold open reads.
pub(crate) const ROWS_MAX: usize = 128;

/// The kind of the value, for its checksum.
const KIND: u8 = 1;

/// A UID, and the commit that brought it and the UIDs after it. Summaries are stored by commit.
pub(crate) type SummaryOrigin = (u32, Id);

/// Rows and their origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<Row>,
    /// In UID order.
    pub(crate) origins: Vec<SummaryOrigin>,
}

/// A mailbox's chunks by key, or some of them.
pub(crate) type Chunks = BTreeMap<u32, Chunk>;

/// The UID of a row as a bare number.
pub(crate) fn number(row: &Row) -> u32 {
    row.uid().value()
}

/// Whether a mailbox has a message of this UID from this commit.
pub(crate) fn refers(chunks: &Chunks, uid: u32, commit: Id) -> bool {
    let chunk = chunks.range(..=uid).next_back().map(|(_, chunk)| chunk);
    chunk.and_then(|chunk| chunk.origin(uid)).is_some_and(|origin| origin == commit)
}

impl Chunk {
    /// The commit that brought a UID, if the UID exists.
    pub(crate) fn origin(&self, uid: u32) -> Option<Id> {
        self.rows.binary_search_by_key(&uid, number).ok()?;
        let at = self.origins.partition_point(|(first, _)| *first <= uid);
        self.origins.get(at.checked_sub(1)?).map(|(_, commit)| *commit)
    }

    /// Adds a row above all others.
    pub(crate) fn push(&mut self, row: Row, commit: Id) {
        self.rows.push(row);
        if self.origins.last().is_none_or(|(_, last)| *last != commit) {
            self.origins.push((number(&row), commit));
        }
    }

    /// Removes rows, and origins that no row has any more.
    pub(crate) fn remove(&mut self, expunged: &NumSet) {
        self.rows.retain(|row| !expunged.contains(number(row)));
        let rows = &self.rows;
        // The first UID of the next origin; the last origin has no end.
        let ends: Vec<u32> = self.origins.iter().skip(1).map(|(first, _)| *first).collect();
        let mut ends = ends.into_iter();
        self.origins.retain(|(first, _)| {
            let end = ends.next();
            let at = rows.partition_point(|row| number(row) < *first);
            rows.get(at).is_some_and(|row| end.is_none_or(|end| number(row) < end))
        });
    }

    pub(crate) fn encode(&self, mailbox: MailboxId, low: u32) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.rows.len() * Row::LEN + self.origins.len() * 20);
        put_varint(&mut out, self.rows.len() as u64);
        for row in &self.rows {
            out.extend_from_slice(&row.to_bytes());
        }
        put_varint(&mut out, self.origins.len() as u64);
        for (first, commit) in &self.origins {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&commit.to_bytes());
        }
        seal(location(KIND, mailbox.0, u64::from(low)), &out)
    }

    /// `None` if it is damaged.
    pub(crate) fn decode(mailbox: MailboxId, low: u32, value: &[u8]) -> Option<Self> {
        let mut read = Octets(unseal(location(KIND, mailbox.0, u64::from(low)), value)?);
        let count = usize::try_from(read.varint()?).ok().filter(|n| *n <= ROWS_MAX)?;
        let (rows, _) = read.take(count * Row::LEN)?.as_chunks::<{ Row::LEN }>();
        let rows = rows.iter().map(Row::from_bytes).collect::<Option<Vec<_>>>()?;
        let count = usize::try_from(read.varint()?).ok().filter(|n| *n <= ROWS_MAX)?;
        let origins = (0..count).map(|_| Some((read.u32()?, read.id()?))).collect::<Option<Vec<_>>>()?;
        // A row below the first origin would have no summary, and would be missing in a listing.
        let all_have_origins = match (rows.first(), origins.first()) {
            (Some(row), Some((first, _))) => *first <= number(row),
            (Some(_), None) => false,
            (None, _) => true,
        };
        all_have_origins.then_some(Self { rows, origins })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_mail_model::{FlagSet, ModSeq, Uid};

    use super::*;

    fn row(uid: u32) -> Row {
        Row::new(Uid::new(uid).unwrap(), uid, uid, FlagSet::SEEN, ModSeq::new(7).unwrap())
    }

    #[test]
    fn a_chunk_comes_back_and_damage_is_seen() {
        let mailbox = MailboxId(Id::new(1, 2));
        let mut chunk = Chunk::default();
        for uid in 1..=ROWS_MAX as u32 {
            chunk.push(row(uid * 3), Id::new(u64::from(uid / 10), 1));
        }
        let mut bytes = chunk.encode(mailbox, 3);
        assert_eq!(Chunk::decode(mailbox, 3, &bytes), Some(chunk));
        assert_eq!(Chunk::decode(mailbox, 4, &bytes), None);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert_eq!(Chunk::decode(mailbox, 3, &bytes), None, "{at}");
            bytes[at] ^= 0x10;
        }
        let empty = Chunk::default();
        assert_eq!(Chunk::decode(mailbox, 0, &empty.encode(mailbox, 0)), Some(empty));
    }

    #[test]
    fn a_row_without_an_origin_is_damage() {
        let mailbox = MailboxId(Id::new(1, 2));
        for origins in [Vec::new(), vec![(6, Id::new(1, 1))]] {
            let chunk = Chunk { rows: vec![row(5), row(6)], origins };
            assert_eq!(Chunk::decode(mailbox, 5, &chunk.encode(mailbox, 5)), None, "{chunk:?}");
        }
    }

    #[test]
    fn the_highest_uid_keeps_its_origin() {
        let mut chunk = Chunk::default();
        chunk.push(row(7), Id::new(1, 1));
        chunk.push(row(u32::MAX), Id::new(1, 1));
        chunk.remove(&NumSet::range(7, 7));
        assert_eq!(chunk.origin(u32::MAX), Some(Id::new(1, 1)));
    }

    #[test]
    fn origins_follow_their_rows() {
        let (a, b, c) = (Id::new(1, 1), Id::new(1, 2), Id::new(1, 3));
        let mut chunk = Chunk::default();
        for (uid, commit) in [(2, a), (3, a), (5, b), (8, c), (9, c)] {
            chunk.push(row(uid), commit);
        }
        assert_eq!(chunk.origins.len(), 3);
        assert_eq!(
            [1, 2, 3, 4, 5, 8, 9, 10].map(|uid| chunk.origin(uid)),
            [None, Some(a), Some(a), None, Some(b), Some(c), Some(c), None]
        );
        chunk.remove(&NumSet::from_ranges([(2, 2), (5, 5)]));
        assert_eq!(chunk.origins, [(2, a), (8, c)]);
        assert_eq!([3, 5, 9].map(|uid| chunk.origin(uid)), [Some(a), None, Some(c)]);
        chunk.remove(&NumSet::range(1, 100));
        assert_eq!(chunk, Chunk::default());
    }
}
