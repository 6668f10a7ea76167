//! Tracks the items of other nodes that were seen.
//!
//! Items have consecutive numbers, and an item's number is assigned before its record is written.
//! So a missing number is an item that left the queue, or one whose record is about to come.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::item::ItemId;

/// The time that is waited for a record that is about to come. Nodes write it within
/// milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The items seen so far.
#[derive(Debug)]
pub(crate) struct SeenItems {
    /// The id up to which all items were seen, or are waited for no longer.
    whole: ItemId,
    /// The items seen beyond a missing number.
    beyond: BTreeSet<ItemId>,
    /// The newest item at earlier scans, and when those were: what was missing before it then has
    /// been missing since.
    scans: VecDeque<(ItemId, Instant)>,
}

impl SeenItems {
    /// The state in which all items up to this one were seen.
    pub(crate) fn after(whole: ItemId) -> Self {
        Self { whole, beyond: BTreeSet::new(), scans: VecDeque::new() }
    }

    /// The next scan reads items after this one.
    pub(crate) fn whole(&self) -> ItemId {
        self.whole
    }

    /// Adds an item that was seen. Returns whether it is new.
    pub(crate) fn insert(&mut self, id: ItemId) -> bool {
        let is_new = id > self.whole && self.beyond.insert(id);
        self.advance();
        is_new
    }

    /// Advances to the next number that is missing.
    fn advance(&mut self) {
        while self.whole.checked_add(1).is_some_and(|next| self.beyond.remove(&next)) {
            self.whole += 1;
        }
    }

    /// Ends a scan. A number that has been missing for long has left the queue. Each number has
    /// its own time: its neighbour may be missing for milliseconds.
    pub(crate) fn end_scan(&mut self, now: Instant) {
        if let Some(newest) = self.beyond.last().copied()
            && self.scans.back().is_none_or(|(before, _)| *before < newest)
        {
            self.scans.push_back((newest, now));
        }
        while let Some((newest, _)) =
            self.scans.pop_front_if(|(newest, since)| *newest <= self.whole || now - *since >= WAIT_MAX)
        {
            if newest > self.whole {
                self.whole = newest;
                self.beyond = self.beyond.split_off(&newest);
                self.beyond.remove(&newest);
                self.advance();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_comes_late_is_still_seen() {
        let mut front = SeenItems::after(4);
        assert!(front.insert(5) && !front.insert(5) && front.insert(7));
        assert_eq!(front.whole(), 5);
        let now = Instant::now();
        front.end_scan(now);
        front.end_scan(now + WAIT_MAX / 2);
        assert!(!front.insert(7) && front.insert(6));
        assert_eq!(front.whole(), 7);
        assert!(!front.insert(3));
    }

    /// A number that has been missing for long says nothing about another one.
    #[test]
    fn each_number_is_waited_for_by_itself() {
        let mut front = SeenItems::after(4);
        let now = Instant::now();
        front.insert(6);
        front.end_scan(now);
        let later = now + WAIT_MAX;
        for id in [101, 102, 104] {
            assert!(front.insert(id));
        }
        front.end_scan(later);
        assert_eq!(front.whole(), 6);
        assert!(front.insert(103), "it comes a moment later");
        front.end_scan(later + WAIT_MAX / 2);
        assert_eq!(front.whole(), 6);
        front.end_scan(later + WAIT_MAX);
        assert_eq!(front.whole(), 104);
        assert!(!front.insert(103) && front.insert(105));
        assert_eq!((front.whole(), front.beyond.len(), front.scans.len()), (105, 0, 0));
    }

    #[test]
    fn numbers_of_items_that_left_are_not_waited_for_in_the_long_run() {
        let mut front = SeenItems::after(4);
        let now = Instant::now();
        front.insert(6);
        front.insert(9);
        front.end_scan(now);
        assert_eq!(front.whole(), 4);
        front.end_scan(now + WAIT_MAX);
        assert_eq!(front.whole(), 9);
    }
}
