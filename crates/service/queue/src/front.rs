//! Which items of other nodes were seen.
//!
//! Items have consecutive numbers, and an item's number is given before its record is written. So
//! a missing number is an item that left the queue, or one whose record is about to come.

use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

use crate::item::ItemId;

/// How long a record is waited for that is about to come. Nodes write it within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The items seen so far.
#[derive(Debug)]
pub(crate) struct Front {
    /// All items up to this one were seen, or are waited for no longer.
    whole: ItemId,
    /// Those seen beyond a missing number.
    beyond: BTreeSet<ItemId>,
    /// The `whole` below which a number is missing, and since when.
    missing: Option<(ItemId, Instant)>,
}

impl Front {
    /// All items up to this one were seen.
    pub(crate) fn after(whole: ItemId) -> Self {
        Self { whole, beyond: BTreeSet::new(), missing: None }
    }

    /// The next look reads items after this one.
    pub(crate) fn whole(&self) -> ItemId {
        self.whole
    }

    /// Notes that an item was seen; whether it is new.
    pub(crate) fn note(&mut self, id: ItemId) -> bool {
        let is_new = id > self.whole && self.beyond.insert(id);
        while self.whole.checked_add(1).is_some_and(|next| self.beyond.remove(&next)) {
            self.whole += 1;
        }
        is_new
    }

    /// Ends a look. What has been missing for long left the queue.
    pub(crate) fn looked(&mut self, now: Instant) {
        let Some(newest) = self.beyond.last().copied() else {
            self.missing = None;
            return;
        };
        match self.missing {
            Some((whole, since)) if whole == self.whole => {
                if now - since >= PATIENCE {
                    *self = Self::after(newest);
                }
            }
            _ => self.missing = Some((self.whole, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_comes_late_is_still_seen() {
        let mut front = Front::after(4);
        assert!(front.note(5) && !front.note(5) && front.note(7));
        assert_eq!(front.whole(), 5);
        let now = Instant::now();
        front.looked(now);
        front.looked(now + PATIENCE / 2);
        assert!(!front.note(7) && front.note(6));
        assert_eq!(front.whole(), 7);
        assert!(!front.note(3));
    }

    #[test]
    fn numbers_of_items_that_left_are_not_waited_for_in_the_long_run() {
        let mut front = Front::after(4);
        let now = Instant::now();
        front.note(6);
        front.note(9);
        front.looked(now);
        assert_eq!(front.whole(), 4);
        front.looked(now + PATIENCE);
        assert_eq!(front.whole(), 9);
    }
}
