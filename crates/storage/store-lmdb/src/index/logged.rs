//! How much of the log is about one mailbox, counted when a commit is written.
//!
//! Kept in the mailbox's head, which every commit writes anyway. From it follow when a checkpoint
//! is due, and how much of each pack is dead when it is written.

use posthaste_store::octets::{Octets, put_varint};

use crate::log::PackBytes;

/// The bytes of commits, for each byte of the last checkpoint, after which another one is due.
/// The log of a mailbox is then at most some five times its checkpoint. A byte of commits costs a
/// quarter of a byte of checkpoints. Half the multiple would cost twice as much, and twice the
/// multiple would keep twice the log.
const MULTIPLE: u64 = 4;

/// Bytes of a message in a checkpoint, two of them for its first mod-sequence. That takes a third
/// byte if more than 16,000 changes of the mailbox are between it and the row's.
pub(crate) const MESSAGE: u64 = 54;

/// Packs whose bytes are counted. A mailbox that is seldom changed in a busy store may have its
/// log in more of them. The records in those are not counted as dead. They are removed when their
/// pack is compacted for another reason. Eight keep a head below 200 bytes.
const PACKS_MAX: usize = 8;

/// Bytes of log records, by pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByPack([PackBytes; PACKS_MAX]);

impl ByPack {
    /// Packs, and the bytes in each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PackBytes> {
        self.0.iter().copied().filter(|part| part.bytes > 0)
    }

    /// Adds bytes to those logged in a pack. If there are too many packs, the one with the fewest
    /// bytes is left out.
    pub(crate) fn add(&mut self, PackBytes { pack, bytes }: PackBytes) {
        let known = self.0.iter().position(|there| there.pack == pack && there.bytes > 0);
        let less = |least: usize, at: usize| if self.0[at].bytes < self.0[least].bytes { at } else { least };
        let at = known.unwrap_or_else(|| (1..PACKS_MAX).fold(0, less));
        let before = if known.is_some() { self.0[at].bytes } else { 0 };
        self.0[at] = PackBytes { pack, bytes: before.saturating_add(bytes) };
    }

    /// Subtracts bytes from those logged in a pack.
    pub(crate) fn remove(&mut self, PackBytes { pack, bytes }: PackBytes) {
        for there in self.0.iter_mut().filter(|there| there.pack == pack) {
            there.bytes = there.bytes.saturating_sub(bytes);
        }
    }

    /// Appends the counts to a value.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.iter().count() as u64);
        for PackBytes { pack, bytes } in self.iter() {
            put_varint(out, u64::from(pack));
            put_varint(out, bytes);
        }
    }

    /// Reads what [`ByPack::put`] wrote.
    pub(crate) fn read(read: &mut Octets<'_>) -> Option<Self> {
        let mut by_pack = Self::default();
        for _ in 0..read.varint()?.min(PACKS_MAX as u64) {
            by_pack.add(PackBytes { pack: u32::try_from(read.varint()?).ok()?, bytes: read.varint()? });
        }
        Some(by_pack)
    }

    /// The growth since it was `before`.
    fn since(&self, before: &Self) -> Self {
        let mut rest = *self;
        before.iter().for_each(|part| rest.remove(part));
        rest
    }
}

/// The sizes of one mailbox's records in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Logged {
    /// The sequence number of its checkpoint; 0: it has none.
    pub(crate) checkpoint: u64,
    /// The checkpoint contains all records before this sequence number.
    pub(crate) upto: u64,
    /// Bytes of the checkpoint's record.
    pub(crate) size: u64,
    /// Bytes of the commits that it lacks.
    pub(crate) commits: u64,
    /// The bytes of both, by pack.
    pub(crate) by_pack: ByPack,
}

impl Logged {
    /// Counts a commit's record. Returns whether a checkpoint is due now: the mailbox's commits
    /// have reached another multiple of a checkpoint's size. `least`: no checkpoint for fewer
    /// bytes; 0 has one after each commit.
    pub(crate) fn grew(&mut self, record: PackBytes, messages: u32, least: u64) -> bool {
        let step = match least {
            0 => 1,
            least => least.max(MULTIPLE * self.size.max(u64::from(messages) * MESSAGE)),
        };
        let before = self.commits / step;
        self.commits = self.commits.saturating_add(record.bytes);
        self.by_pack.add(record);
        self.commits / step > before
    }

    /// Sets the counts after a checkpoint that contains all that `before` counted.
    pub(crate) fn after(&self, before: &Self, seq: u64, upto: u64, record: PackBytes) -> Self {
        let mut by_pack = self.by_pack.since(&before.by_pack);
        by_pack.add(record);
        let commits = self.commits.saturating_sub(before.commits);
        Self { checkpoint: seq, upto, size: record.bytes, commits, by_pack }
    }

    /// Maintenance copied records of this many bytes to another pack.
    pub(crate) fn moved(&mut self, from: u32, to: u32, bytes: u64) {
        self.by_pack.remove(PackBytes { pack: from, bytes });
        self.by_pack.add(PackBytes { pack: to, bytes });
    }

    /// Appends the counts to a head's value.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.checkpoint, self.upto, self.size, self.commits] {
            put_varint(out, number);
        }
        self.by_pack.put(out);
    }

    /// Reads what [`Logged::put`] wrote. Heads of formats 1 to 4 end before it: nothing was
    /// counted.
    pub(crate) fn read(read: &mut Octets<'_>) -> Option<Self> {
        if read.is_empty() {
            return Some(Self::default());
        }
        let (checkpoint, upto) = (read.varint()?, read.varint()?);
        let (size, commits) = (read.varint()?, read.varint()?);
        let by_pack = ByPack::read(read)?;
        read.is_empty().then_some(Self { checkpoint, upto, size, commits, by_pack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pack: u32, bytes: u64) -> PackBytes {
        PackBytes { pack, bytes }
    }

    #[test]
    fn it_comes_back_and_an_old_head_has_none() {
        let mut logged = Logged { checkpoint: 9, upto: 8, size: 700, ..Logged::default() };
        for pack in 1..=PACKS_MAX as u32 {
            logged.grew(of(pack, 100 + u64::from(pack)), 0, 1_000);
        }
        let mut out = Vec::new();
        logged.put(&mut out);
        assert_eq!(Logged::read(&mut Octets(&out)), Some(logged));
        assert_eq!(Logged::read(&mut Octets(&[])), Some(Logged::default()));
        for cut in 1..out.len() {
            assert_eq!(Logged::read(&mut Octets(&out[..cut])), None);
        }
    }

    #[test]
    fn a_checkpoint_is_due_at_each_multiple_of_its_size() {
        let mut logged = Logged { size: 100, ..Logged::default() };
        let due: Vec<u64> = (1..=20).filter(|_| logged.grew(of(1, 100), 0, 1)).collect();
        assert_eq!(due, [4, 8, 12, 16, 20]);
        let mut logged = Logged::default();
        assert_eq!((0..100).filter(|_| logged.grew(of(1, MESSAGE), 10, 1)).count(), 2, "4 × 10 messages");
        let mut logged = Logged::default();
        assert_eq!((0..100).filter(|_| logged.grew(of(1, 52), 1, 2_600)).count(), 2, "no smaller steps");
    }

    #[test]
    fn commits_after_the_preparation_of_a_checkpoint_still_count() {
        let mut logged = Logged::default();
        logged.grew(of(1, 500), 1, 0);
        logged.grew(of(2, 300), 1, 0);
        let before = logged;
        logged.grew(of(2, 70), 1, 0);
        let after = logged.after(&before, 40, 30, of(3, 90));
        assert_eq!((after.checkpoint, after.upto, after.size, after.commits), (40, 30, 90, 70));
        assert!(after.by_pack.iter().all(|part| [of(2, 70), of(3, 90)].contains(&part)));
        let mut moved = after;
        moved.moved(2, 5, 70);
        assert!(moved.by_pack.iter().all(|part| [of(5, 70), of(3, 90)].contains(&part)));
    }

    #[test]
    fn of_too_many_packs_the_smallest_part_is_left_out() {
        let mut by_pack = ByPack::default();
        (1..=9).for_each(|pack| by_pack.add(of(pack, u64::from(pack))));
        assert!(by_pack.iter().count() == PACKS_MAX && by_pack.iter().all(|part| part.pack != 1));
    }
}
