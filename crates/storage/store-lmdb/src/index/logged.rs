//! How much of the log speaks of one mailbox, counted where a commit is written.
//!
//! Kept in the mailbox's head, which every commit writes anyway. From it follow when a checkpoint
//! is due, and how much of each pack is dead when it is written.

use posthaste_store::octets::{Octets, put_varint};

use crate::log::PackBytes;

/// Another checkpoint is due after this many bytes of commits for each byte of the last one. The
/// log of a mailbox is then at most some five times its checkpoint. A byte of commits costs a
/// quarter of a byte of checkpoints. Half the multiple would cost twice as much, and twice the
/// multiple would keep twice the log.
const MULTIPLE: u64 = 4;

/// Bytes of a message in a checkpoint.
pub(crate) const MESSAGE: u64 = 52;

/// Packs of which the bytes are counted. A mailbox that is seldom changed in a busy store may have
/// its log in more of them. The records in those are not counted as dead. They are removed when
/// their pack is compacted for another reason. Eight keep a head below 200 bytes.
const PLACES: usize = 8;

/// Bytes of log records, by pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByPack([PackBytes; PLACES]);

impl ByPack {
    /// Packs, and the bytes in each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PackBytes> {
        self.0.iter().copied().filter(|(_, bytes)| *bytes > 0)
    }

    /// Adds bytes to those logged in a pack. If there are too many packs, the one with the fewest
    /// bytes is left out.
    pub(crate) fn add(&mut self, pack: u32, bytes: u64) {
        let known = self.0.iter().position(|(there, bytes)| *there == pack && *bytes > 0);
        let less = |least: usize, at: usize| if self.0[at].1 < self.0[least].1 { at } else { least };
        let at = known.unwrap_or_else(|| (1..PLACES).fold(0, less));
        let place = &mut self.0[at];
        let there = if known.is_some() { place.1 } else { 0 };
        *place = (pack, there.saturating_add(bytes));
    }

    /// Subtracts bytes from those logged in a pack.
    pub(crate) fn remove(&mut self, pack: u32, bytes: u64) {
        for (_, there) in self.0.iter_mut().filter(|(there, _)| *there == pack) {
            *there = there.saturating_sub(bytes);
        }
    }

    /// Adds it to a value.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.iter().count() as u64);
        for (pack, bytes) in self.iter() {
            put_varint(out, u64::from(pack));
            put_varint(out, bytes);
        }
    }

    /// Reads what [`ByPack::put`] wrote.
    pub(crate) fn read(read: &mut Octets<'_>) -> Option<Self> {
        let mut places = Self::default();
        for _ in 0..read.varint()?.min(PLACES as u64) {
            places.add(u32::try_from(read.varint()?).ok()?, read.varint()?);
        }
        Some(places)
    }

    /// The growth since it was `before`.
    fn since(&self, before: &Self) -> Self {
        let mut rest = *self;
        before.iter().for_each(|(pack, bytes)| rest.remove(pack, bytes));
        rest
    }
}

/// The sizes of one mailbox's records in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Logged {
    /// The sequence number of its checkpoint; 0: it has none.
    pub(crate) checkpoint: u64,
    /// The checkpoint has all that records before this sequence number say.
    pub(crate) upto: u64,
    /// Bytes of the checkpoint's record.
    pub(crate) size: u64,
    /// Bytes of the commits that it lacks.
    pub(crate) commits: u64,
    /// Where both lie.
    pub(crate) places: ByPack,
}

impl Logged {
    /// Counts a commit's record. Answers whether the mailbox wants a checkpoint now: its commits
    /// come to another multiple of what that would take. `least`: no checkpoint for fewer bytes; 0
    /// has one after each commit.
    pub(crate) fn grew(&mut self, (pack, bytes): PackBytes, messages: u32, least: u64) -> bool {
        let step = match least {
            0 => 1,
            least => least.max(MULTIPLE * self.size.max(u64::from(messages) * MESSAGE)),
        };
        let before = self.commits / step;
        self.commits = self.commits.saturating_add(bytes);
        self.places.add(pack, bytes);
        self.commits / step > before
    }

    /// After a checkpoint was written that has all that was counted when it was `before`.
    pub(crate) fn after(&self, before: &Self, seq: u64, upto: u64, (pack, size): PackBytes) -> Self {
        let mut places = self.places.since(&before.places);
        places.add(pack, size);
        let commits = self.commits.saturating_sub(before.commits);
        Self { checkpoint: seq, upto, size, commits, places }
    }

    /// Maintenance copied records of this many bytes to another pack.
    pub(crate) fn moved(&mut self, from: u32, to: u32, bytes: u64) {
        self.places.remove(from, bytes);
        self.places.add(to, bytes);
    }

    /// Adds it to a head's value.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        for number in [self.checkpoint, self.upto, self.size, self.commits] {
            put_varint(out, number);
        }
        self.places.put(out);
    }

    /// Reads what [`Logged::put`] wrote. Heads of formats 1 to 4 end before it: nothing was
    /// counted.
    pub(crate) fn read(read: &mut Octets<'_>) -> Option<Self> {
        if read.is_empty() {
            return Some(Self::default());
        }
        let (checkpoint, upto) = (read.varint()?, read.varint()?);
        let (size, commits) = (read.varint()?, read.varint()?);
        let places = ByPack::read(read)?;
        read.is_empty().then_some(Self { checkpoint, upto, size, commits, places })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_an_old_head_has_none() {
        let mut logged = Logged { checkpoint: 9, upto: 8, size: 700, ..Logged::default() };
        for pack in 1..=PLACES as u32 {
            logged.grew((pack, 100 + u64::from(pack)), 0, 1_000);
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
        let due: Vec<u64> = (1..=20).filter(|_| logged.grew((1, 100), 0, 1)).collect();
        assert_eq!(due, [4, 8, 12, 16, 20]);
        let mut logged = Logged::default();
        assert_eq!((0..100).filter(|_| logged.grew((1, 52), 10, 1)).count(), 2, "4 × 10 messages of 52");
        let mut logged = Logged::default();
        assert_eq!((0..100).filter(|_| logged.grew((1, 52), 1, 2_600)).count(), 2, "no smaller steps");
    }

    #[test]
    fn what_came_after_a_checkpoint_was_prepared_is_counted_still() {
        let mut logged = Logged::default();
        logged.grew((1, 500), 1, 0);
        logged.grew((2, 300), 1, 0);
        let before = logged;
        logged.grew((2, 70), 1, 0);
        let after = logged.after(&before, 40, 30, (3, 90));
        assert_eq!((after.checkpoint, after.upto, after.size, after.commits), (40, 30, 90, 70));
        assert!(after.places.iter().all(|place| [(2, 70), (3, 90)].contains(&place)));
        let mut moved = after;
        moved.moved(2, 5, 70);
        assert!(moved.places.iter().all(|place| [(5, 70), (3, 90)].contains(&place)));
    }

    #[test]
    fn of_too_many_packs_the_smallest_part_is_left_out() {
        let mut places = ByPack::default();
        (1..=9).for_each(|pack| places.add(pack, u64::from(pack)));
        assert!(places.iter().count() == PLACES && places.iter().all(|(pack, _)| pack != 1));
    }
}
