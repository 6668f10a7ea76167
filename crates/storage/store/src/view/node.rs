//! Chunks and groups: shared slices that store totals of their contents.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, ModSeq};

use crate::head::Counts;
use crate::row::Row;

/// Rows in a chunk at most: 7 KiB, which is what changing one flag copies. With twice as many the
/// copy would cost more than the list of groups. With half as many, a million messages would need
/// twice as many groups. Unit tests use small ones, so that few rows make many groups.
pub const CHUNK_ROWS: usize = if cfg!(test) { 8 } else { 256 };

/// Chunks in a group at most: a million messages are 3,907 chunks, and 64 is about the square root
/// of that.
pub const GROUP_CHUNKS: usize = if cfg!(test) { 4 } else { 64 };

/// A chunk or group of at most this share of its fullest size is joined to a neighbour when both
/// fit into one.
pub(super) const SMALL: usize = 4;

/// The totals of consecutive rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Rows.
    pub messages: u32,
    /// Rows without `\Seen`.
    pub unseen: u32,
    /// Rows with `\Deleted`.
    pub deleted: u32,
    /// Sum of sizes in octets.
    pub bytes: u64,
    /// The highest mod-sequence.
    pub modseq_max: ModSeq,
    /// Flags that any row has.
    pub flags_any: FlagSet,
    /// Flags that every row has.
    pub flags_all: FlagSet,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            messages: 0,
            unseen: 0,
            deleted: 0,
            bytes: 0,
            modseq_max: ModSeq::ZERO,
            flags_any: FlagSet::EMPTY,
            flags_all: FlagSet::from_bits(u64::MAX),
        }
    }
}

impl Totals {
    /// Totals of rows.
    pub fn of(rows: &[Row]) -> Self {
        let (mut seen, mut deleted, mut bytes, mut modseq_max) = (0u32, 0u32, 0u64, ModSeq::ZERO);
        let (mut any, mut all) = (0u64, u64::MAX);
        for row in rows {
            let flags = row.flags().bits();
            seen += u32::from(flags & FlagSet::SEEN.bits() != 0);
            deleted += u32::from(flags & FlagSet::DELETED.bits() != 0);
            bytes += row.weight();
            modseq_max = modseq_max.max(row.modseq());
            any |= flags;
            all &= flags;
        }
        let messages = rows.len() as u32;
        Self {
            messages,
            unseen: messages - seen,
            deleted,
            bytes,
            modseq_max,
            flags_any: FlagSet::from_bits(any),
            flags_all: FlagSet::from_bits(all),
        }
    }

    /// The counts that STATUS reports of them.
    pub fn counts(&self) -> Counts {
        Counts { messages: self.messages, unseen: self.unseen, deleted: self.deleted, bytes: self.bytes }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.unseen += other.unseen;
        self.deleted += other.deleted;
        self.bytes += other.bytes;
        self.modseq_max = self.modseq_max.max(other.modseq_max);
        self.flags_any = self.flags_any.union(other.flags_any);
        self.flags_all = FlagSet::from_bits(self.flags_all.bits() & other.flags_all.bits());
    }
}

/// A shared slice with totals that are known without reading it.
pub(super) struct Node<T> {
    pub item: Arc<[T]>,
    pub totals: Totals,
    /// Rows before this node in its group or view.
    pub start: u32,
    /// The highest UID in it.
    pub last_uid: u32,
}

pub(super) type Chunk = Node<Row>;
pub(super) type Group = Node<Chunk>;

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Self { item: Arc::clone(&self.item), ..*self }
    }
}

impl<T> Node<T> {
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.item, &other.item)
    }
}

impl Chunk {
    /// A chunk of rows, at least one.
    pub fn of(rows: &[Row]) -> Self {
        let last_uid = rows.last().map_or(0, |r| r.uid().value());
        Self { item: Arc::from(rows), totals: Totals::of(rows), start: 0, last_uid }
    }
}

impl Group {
    /// A group of chunks, at least one.
    pub fn of(mut chunks: Vec<Chunk>) -> Self {
        let totals = number(&mut chunks);
        let last_uid = chunks.last().map_or(0, |c| c.last_uid);
        Self { item: Arc::from(chunks), totals, start: 0, last_uid }
    }
}

/// The memory of this many groups, chunks and rows.
pub(super) fn memory_bytes(groups: usize, chunks: usize, rows: usize) -> usize {
    // Two counters precede the items of an `Arc`.
    let counters = 2 * std::mem::size_of::<usize>();
    groups * (std::mem::size_of::<Group>() + counters)
        + chunks * (std::mem::size_of::<Chunk>() + counters)
        + rows * Row::LEN
}

/// Gives each node its starting number; returns the totals of all.
pub(super) fn number<T>(nodes: &mut [Node<T>]) -> Totals {
    let mut totals = Totals::default();
    for node in nodes {
        node.start = totals.messages;
        totals.add(&node.totals);
    }
    totals
}
