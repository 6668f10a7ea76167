//! A set of UIDs that changes by single ones: bits, in blocks of 256 UIDs.
//!
//! A result of neighbours takes an eighth of a byte a message, one of scattered messages 40 bytes
//! each. A change costs a search among the blocks.

use posthaste_mail_model::NumSet;

use crate::heavy::Pace;

/// Steps for a range that is added, or a UID.
pub(super) const STEPS: u64 = 40;

const WORDS: usize = 4;

/// UIDs with the same upper 24 bits.
#[derive(Clone, Copy, Debug)]
struct BitBlock {
    /// The upper 24 bits.
    number: u32,
    /// A bit for each UID.
    bits: [u64; WORDS],
}

/// The set.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// The blocks that are not empty, by their numbers.
    blocks: Vec<BitBlock>,
}

/// The block of a UID, its word and its bit there.
fn place(uid: u32) -> (u32, usize, u64) {
    (uid >> 8, (uid >> 6) as usize & (WORDS - 1), 1 << (uid & 63))
}

impl Members {
    /// The set of these UIDs.
    pub(super) async fn of(uids: &NumSet, pace: &mut Pace) -> Self {
        let mut members = Self::default();
        for uid in uids.iter() {
            members.insert(uid);
            if pace.count(STEPS / 4) {
                pace.rest().await;
            }
        }
        members
    }

    fn find(&self, number: u32) -> Result<usize, usize> {
        // Most changes concern the newest messages.
        match self.blocks.last() {
            Some(last) if last.number == number => Ok(self.blocks.len() - 1),
            Some(last) if last.number < number => Err(self.blocks.len()),
            _ => self.blocks.binary_search_by_key(&number, |block| block.number),
        }
    }

    /// Whether a UID is in the set.
    pub(super) fn contains(&self, uid: u32) -> bool {
        let (number, word, bit) = place(uid);
        let block = self.find(number).ok().and_then(|at| self.blocks.get(at));
        block.and_then(|block| block.bits.get(word)).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds a UID.
    pub(super) fn insert(&mut self, uid: u32) {
        let (number, word, bit) = place(uid);
        let at = self.find(number).unwrap_or_else(|at| {
            self.blocks.insert(at, BitBlock { number, bits: [0; WORDS] });
            at
        });
        if let Some(bits) = self.blocks.get_mut(at).and_then(|block| block.bits.get_mut(word)) {
            *bits |= bit;
        }
    }

    /// Removes a UID. Returns whether it was there.
    pub(super) fn remove(&mut self, uid: u32) -> bool {
        let (number, word, bit) = place(uid);
        let Ok(at) = self.find(number) else { return false };
        let Some(block) = self.blocks.get_mut(at) else { return false };
        let Some(bits) = block.bits.get_mut(word) else { return false };
        let was_there = *bits & bit != 0;
        *bits &= !bit;
        if block.bits == [0; WORDS] {
            self.blocks.remove(at);
        }
        was_there
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<BitBlock>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set() {
        let (mut members, mut model) = (Members::default(), BTreeSet::new());
        let mut state = 7u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uid = ((state >> 33) % 3000) as u32 * if state & (1 << 20) == 0 { 1 } else { 1_400_000 };
            if state & (1 << 21) == 0 {
                members.insert(uid);
                model.insert(uid);
            } else {
                assert_eq!(members.remove(uid), model.remove(&uid));
            }
            assert_eq!(members.contains(uid), model.contains(&uid));
        }
        for uid in 0..3000 {
            assert_eq!(members.contains(uid), model.contains(&uid));
        }
        model.iter().for_each(|uid| assert!(members.remove(*uid)));
        assert!(members.blocks.is_empty());
    }
}
