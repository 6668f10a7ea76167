//! Statements of records that end one pack. They are searched by their ends, from the last one on.

/// The statements about one pack, in the order of their records.
pub(super) struct Endings {
    /// The record of each.
    records: Vec<usize>,
    /// The lowest end below each node of a tree. Below node n are 2n and 2n + 1. The last half of
    /// the nodes are the statements.
    lowest: Vec<u64>,
}

/// The end of a statement that was removed: above every offset.
const NONE: u64 = u64::MAX;

impl Endings {
    /// For statements with these ends, each of a record.
    pub(super) fn new(stated: Vec<(u64, usize)>) -> Self {
        let leaves = stated.len().next_power_of_two();
        let mut lowest = vec![NONE; 2 * leaves];
        for (leaf, (end, _)) in lowest[leaves..].iter_mut().zip(&stated) {
            *leaf = *end;
        }
        let records = stated.into_iter().map(|(_, record)| record).collect();
        let mut endings = Self { records, lowest };
        (1..leaves).rev().for_each(|node| endings.set(node));
        endings
    }

    fn set(&mut self, node: usize) {
        self.lowest[node] = self.lowest[2 * node].min(self.lowest[2 * node + 1]);
    }

    /// The last statement that ends the pack at this offset or before it: its number, and its
    /// record.
    pub(super) fn last_before(&self, offset: u64) -> Option<(usize, usize)> {
        let ends_before = |node: usize| self.lowest[node] <= offset;
        let (mut node, leaves) = (1, self.lowest.len() / 2);
        if !ends_before(node) {
            return None;
        }
        while node < leaves {
            node = 2 * node + 1;
            if !ends_before(node) {
                node -= 1;
            }
        }
        self.records.get(node - leaves).map(|record| (node - leaves, *record))
    }

    /// Removes the statement of this number.
    pub(super) fn remove(&mut self, number: usize) {
        let mut node = self.lowest.len() / 2 + number;
        self.lowest[node] = NONE;
        while node > 1 {
            node /= 2;
            self.set(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        #[test]
        fn the_last_one_before_an_offset_is_found(ends in prop::collection::vec(0_u64..9, 0..20), offset in 0_u64..9) {
            let mut stated: Vec<(u64, usize)> = ends.into_iter().zip(100..).collect();
            let mut endings = Endings::new(stated.clone());
            // Each is found once: then it is removed.
            for _ in 0..=stated.len() {
                let expected = stated.iter().rposition(|(end, _)| *end <= offset);
                let found = endings.last_before(offset);
                prop_assert_eq!(found, expected.map(|at| (at, stated[at].1)));
                let Some(at) = expected else { break };
                stated[at].0 = u64::MAX;
                endings.remove(at);
            }
        }
    }
}
