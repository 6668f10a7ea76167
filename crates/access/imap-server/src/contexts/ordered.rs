//! The members of a sorted result in their order, in blocks. Each block counts its members.
//!
//! A change looks at the blocks that it concerns, and counts the blocks once: some 2,000 of a
//! result of a million. A member takes some 20 bytes: itself, and which block it is in.

use std::collections::BTreeMap;

use posthaste_mail_model::NumSet;

use crate::heavy::Pace;

/// Members of a new block. One with twice as many becomes two.
const BLOCK: usize = 512;
/// Steps for a member that is looked up, added or removed.
const MEMBER_STEPS: u64 = 600;
/// Steps for a block that is counted.
const BLOCK_STEPS: u64 = 4;
/// Bytes of a member in the map of blocks, about.
const MAPPED_BYTES: usize = 16;

/// Neighbours, with the place of the first, from 1.
pub(super) type Run = (u32, Vec<u32>);

/// Some of the members.
struct MemberBlock {
    /// The number stays the same while blocks before this one are added and removed.
    name: u32,
    uids: Vec<u32>,
}

/// See the module.
#[derive(Default)]
pub(super) struct OrderedMembers {
    /// No block is empty.
    blocks: Vec<MemberBlock>,
    /// The number of members before each block.
    before: Vec<usize>,
    /// The index of each block by its name.
    index: Vec<u32>,
    /// Names that no block has.
    free: Vec<u32>,
    /// The name of the block of each member.
    of: BTreeMap<u32, u32>,
}

impl OrderedMembers {
    /// Members in this order.
    pub(super) async fn of(uids: &[u32], pace: &mut Pace) -> Self {
        let mut order = Self::default();
        for chunk in uids.chunks(BLOCK) {
            let name = order.blocks.len() as u32;
            order.of.extend(chunk.iter().map(|uid| (*uid, name)));
            order.blocks.push(MemberBlock { name, uids: chunk.to_vec() });
            pace.worked(MEMBER_STEPS / 4 * chunk.len() as u64).await;
        }
        order.count();
        order
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.of.len()
    }

    /// The member with this index.
    pub(super) fn get(&self, at: usize) -> Option<u32> {
        let (block, offset) = self.find(at)?;
        self.blocks.get(block)?.uids.get(offset).copied()
    }

    /// The block of an index, and the index in it. The index after the last member is in the last
    /// block.
    fn find(&self, at: usize) -> Option<(usize, usize)> {
        let block = self.before.partition_point(|before| *before <= at).checked_sub(1)?;
        Some((block, at - self.before.get(block)?))
    }

    /// The block of a member, and its index there.
    fn place(&self, uid: u32) -> Option<(usize, usize)> {
        let block = *self.index.get(*self.of.get(&uid)? as usize)? as usize;
        let offset = self.blocks.get(block)?.uids.iter().position(|other| *other == uid)?;
        Some((block, offset))
    }

    /// The places of members: runs of neighbours.
    pub(super) async fn runs(&self, wanted: &NumSet, pace: &mut Pace) -> Vec<Run> {
        let mut places = Vec::new();
        for uid in wanted.iter() {
            if let Some((block, offset)) = self.place(uid) {
                places.push((self.before.get(block).map_or(0, |before| before + offset), uid));
            }
            pace.worked(MEMBER_STEPS).await;
        }
        places.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (at, uid) in places {
            match runs.last_mut() {
                Some((first, run)) if *first as usize + run.len() == at + 1 => run.push(uid),
                _ => runs.push((at as u32 + 1, vec![uid])),
            }
        }
        runs
    }

    /// Removes members. Ignores UIDs that are not members.
    pub(super) async fn remove(&mut self, dropped: &NumSet, pace: &mut Pace) {
        for uid in dropped.iter() {
            if let Some((block, offset)) = self.place(uid)
                && let Some(block) = self.blocks.get_mut(block)
            {
                block.uids.remove(offset);
                self.of.remove(&uid);
            }
            pace.worked(MEMBER_STEPS).await;
        }
        let free = &mut self.free;
        self.blocks.retain(|block| {
            if block.uids.is_empty() {
                free.push(block.name);
            }
            !block.uids.is_empty()
        });
        pace.worked(self.count()).await;
    }

    /// Adds members, each before the one with this index. The indices ascend; they are those
    /// before any is added.
    pub(super) async fn insert(&mut self, placed: &[(usize, u32)], pace: &mut Pace) {
        // The last one is added first, so that the indices before it remain valid.
        for &(at, uid) in placed.iter().rev() {
            self.insert_one(at, uid);
            pace.worked(MEMBER_STEPS).await;
        }
        pace.worked(self.count()).await;
    }

    /// Puts members back at their earlier places.
    pub(super) async fn put_back(&mut self, runs: &[Run], pace: &mut Pace) {
        for (first, run) in runs {
            for (at, uid) in (*first as usize - 1..).zip(run) {
                self.insert_one(at, *uid);
                pace.worked(MEMBER_STEPS + self.count()).await;
            }
        }
    }

    fn insert_one(&mut self, at: usize, uid: u32) {
        let Some((index, offset)) = self.find(at) else {
            // The order was empty.
            let name = self.name();
            self.of.insert(uid, name);
            self.blocks.push(MemberBlock { name, uids: vec![uid] });
            self.count();
            return;
        };
        let Some(block) = self.blocks.get_mut(index) else { return };
        block.uids.insert(offset.min(block.uids.len()), uid);
        self.of.insert(uid, block.name);
        if block.uids.len() >= 2 * BLOCK {
            let uids = block.uids.split_off(BLOCK);
            let name = self.name();
            self.of.extend(uids.iter().map(|uid| (*uid, name)));
            self.blocks.insert(index + 1, MemberBlock { name, uids });
            self.count();
        }
    }

    /// A name for a new block.
    fn name(&mut self) -> u32 {
        self.free.pop().unwrap_or(self.blocks.len() as u32)
    }

    /// Counts the members of all blocks again. Returns the steps that it took.
    fn count(&mut self) -> u64 {
        let mut before = 0;
        self.before.clear();
        self.index.resize(self.blocks.len() + self.free.len(), 0);
        for (at, block) in self.blocks.iter().enumerate() {
            self.before.push(before);
            before += block.uids.len();
            if let Some(index) = self.index.get_mut(block.name as usize) {
                *index = at as u32;
            }
        }
        self.blocks.len() as u64 * BLOCK_STEPS
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|block| block.uids.capacity() * size_of::<u32>()).sum();
        let lists = (self.before.capacity() + self.index.capacity()) * size_of::<usize>();
        blocks + self.blocks.capacity() * size_of::<MemberBlock>() + lists + self.of.len() * MAPPED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: &OrderedMembers) -> Vec<u32> {
        (0..order.len()).filter_map(|at| order.get(at)).collect()
    }

    /// Against a plain list: members come, leave and are put back.
    #[tokio::test]
    async fn it_is_a_list() {
        let pace = &mut Pace::default();
        let mut model: Vec<u32> = (1..=2000).rev().collect();
        let mut order = OrderedMembers::of(&model, pace).await;
        let (mut state, mut next) = (7_u64, 2001);
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below.max(1)
        };
        for round in 0..400 {
            let mut places: Vec<usize> = (0..random(40)).map(|_| random(model.len() + 1)).collect();
            places.sort_unstable();
            let placed: Vec<(usize, u32)> = places.into_iter().zip(next..).collect();
            next += placed.len() as u32;
            order.insert(&placed, pace).await;
            for &(at, uid) in placed.iter().rev() {
                model.insert(at, uid);
            }
            let count = if round > 300 { 60 } else { 20 };
            let wanted: NumSet = (0..count)
                .map(|_| random(next as usize) as u32 + 1)
                .collect::<Vec<_>>()
                .into_iter()
                .collect();
            let runs = order.runs(&wanted, pace).await;
            let stood: Vec<(usize, u32)> = (1..)
                .zip(&model)
                .filter(|(_, uid)| wanted.contains(**uid))
                .map(|(at, uid)| (at, *uid))
                .collect();
            let said: Vec<(usize, u32)> =
                runs.iter().flat_map(|(first, run)| (*first as usize..).zip(run.iter().copied())).collect();
            assert_eq!(said, stood);
            order.remove(&wanted, pace).await;
            if round % 3 == 0 {
                order.put_back(&runs, pace).await;
            } else {
                model.retain(|uid| !wanted.contains(*uid));
            }
            assert_eq!(order.len(), model.len());
            assert!(order.blocks.iter().all(|block| (1..2 * BLOCK).contains(&block.uids.len())));
        }
        assert_eq!(all(&order), model);
        order.remove(&NumSet::range(1, next), pace).await;
        assert!(order.len() == 0 && order.blocks.is_empty() && order.get(0).is_none());
        order.insert(&[(0, 5), (0, 4)], pace).await;
        assert_eq!(all(&order), [5, 4]);
    }

    /// A change of one member concerns one block, whatever the size of the result.
    #[tokio::test]
    async fn a_change_concerns_one_block() {
        let pace = &mut Pace::default();
        let uids: Vec<u32> = (1..=100_000).collect();
        let mut order = OrderedMembers::of(&uids, pace).await;
        let at: Vec<*const u32> = order.blocks.iter().map(|block| block.uids.as_ptr()).collect();
        order.remove(&NumSet::range(50_000, 50_000), pace).await;
        order.insert(&[(70_000, 200_000)], pace).await;
        let moved = order.blocks.iter().zip(&at).filter(|(block, at)| block.uids.as_ptr() != **at).count();
        assert!(moved <= 1, "{moved} blocks were copied");
        assert_eq!(order.get(49_999), Some(50_001));
        assert_eq!(order.get(70_000), Some(200_000));
    }
}
