//! Places that are shared fairly among keys, and a queue for them.
//!
//! A free place goes to the waiting key with the fewest places. Keys with equally few take turns:
//! a key that has just got a place goes behind the others. Within a key the oldest waiter is
//! first. So a key with many waiters does not delay another key by more than one place each
//! round.
//!
//! Each call takes O(log n) for n waiters. Nothing in here waits or wakes: the caller keeps a
//! waiter's handle in the queue and gets it back together with a place.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The places, and the keys that have or want some. `W` is a waiter's handle.
#[derive(Debug)]
pub(crate) struct FairQueue<K, W> {
    /// Nobody waits while a place is free.
    free: usize,
    /// The number of the next waiter or turn.
    next: u64,
    /// The keys that have a place or wait for one.
    keys: HashMap<K, Part<W>>,
    /// The keys that wait, by rank.
    order: BTreeMap<Rank, K>,
}

/// The places that a key has, then its turn. The lowest rank is served first.
type Rank = (usize, u64);

/// What one key has and wants.
#[derive(Debug)]
struct Part<W> {
    places: usize,
    /// Its turn among keys with equally many places. Only a key that waits has one.
    turn: u64,
    /// By number: the oldest first.
    waiters: BTreeMap<u64, W>,
}

impl<W> Part<W> {
    const fn new() -> Self {
        Self { places: 0, turn: 0, waiters: BTreeMap::new() }
    }

    const fn rank(&self) -> Rank {
        (self.places, self.turn)
    }
}

impl<K: Eq + Hash + Clone, W> FairQueue<K, W> {
    /// With so many free places.
    pub fn new(places: usize) -> Self {
        Self { free: places, next: 0, keys: HashMap::new(), order: BTreeMap::new() }
    }

    /// Takes a free place for a key. False if there is none.
    pub fn take(&mut self, key: &K) -> bool {
        if self.free == 0 {
            return false;
        }
        self.free -= 1;
        self.keys.entry(key.clone()).or_insert_with(Part::new).places += 1;
        true
    }

    /// Adds a waiter when no place is free. The number is for [`Self::leave`].
    pub fn wait(&mut self, key: &K, waiter: W) -> u64 {
        let number = self.number();
        let part = self.keys.entry(key.clone()).or_insert_with(Part::new);
        if part.waiters.is_empty() {
            part.turn = number;
            self.order.insert(part.rank(), key.clone());
        }
        part.waiters.insert(number, waiter);
        number
    }

    /// Removes a waiter, unless it was given a place before.
    pub fn leave(&mut self, key: &K, number: u64) {
        let Some(part) = self.keys.get_mut(key) else { return };
        if part.waiters.remove(&number).is_some() && part.waiters.is_empty() {
            self.order.remove(&part.rank());
        }
        self.forget_if_unused(key);
    }

    /// Releases a place of a key. If a waiter gets it, returns the waiter with its key.
    pub fn release(&mut self, key: &K) -> Option<(K, W)> {
        if let Some(part) = self.keys.get_mut(key) {
            let waits = self.order.remove(&part.rank()).is_some();
            part.places = part.places.saturating_sub(1);
            if waits {
                self.order.insert(part.rank(), key.clone());
            }
        }
        self.forget_if_unused(key);
        let next = self.serve();
        if next.is_none() {
            self.free += 1;
        }
        next
    }

    /// Gives a place to the oldest waiter of the key with the lowest rank.
    fn serve(&mut self) -> Option<(K, W)> {
        let (_, key) = self.order.pop_first()?;
        let turn = self.number();
        let part = self.keys.get_mut(&key)?;
        let (_, waiter) = part.waiters.pop_first()?;
        part.places += 1;
        part.turn = turn;
        if !part.waiters.is_empty() {
            self.order.insert(part.rank(), key.clone());
        }
        Some((key, waiter))
    }

    /// Makes a number that is higher than all before. 2^64 of them never run out.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn forget_if_unused(&mut self, key: &K) {
        if self.keys.get(key).is_some_and(|part| part.places == 0 && part.waiters.is_empty()) {
            self.keys.remove(key);
        }
    }

    /// Whether no key has or wants a place.
    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.keys.is_empty() && self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whom the next releases of these keys serve.
    fn served(queue: &mut FairQueue<char, usize>, releases: &str) -> String {
        releases.chars().filter_map(|key| queue.release(&key)).map(|(key, _)| key).collect()
    }

    #[test]
    fn keys_take_turns_and_a_new_key_waits_for_one_round() {
        let mut queue = FairQueue::new(1);
        assert!(queue.take(&'a') && !queue.take(&'b'));
        for waiter in 0..3 {
            queue.wait(&'a', waiter);
        }
        for waiter in 0..3 {
            queue.wait(&'b', waiter);
        }
        queue.wait(&'c', 0);
        assert_eq!(served(&mut queue, "aa"), "ab");
        queue.wait(&'d', 0);
        assert_eq!(served(&mut queue, "bcabdab"), "cabdab");
        assert!(queue.is_unused() && queue.free == 1);
    }

    #[test]
    fn the_key_with_the_fewest_places_is_served_first() {
        let mut queue = FairQueue::new(4);
        assert!("aaab".chars().all(|key| queue.take(&key)));
        for key in "aabbc".chars() {
            queue.wait(&key, 0);
        }
        // The places of `a`, `b` and `c` at each release: 2 1 0, 2 1 0, 1 2 0, 2 1 0.
        assert_eq!(served(&mut queue, "acab"), "cbab");
    }

    #[test]
    fn the_oldest_waiter_of_a_key_is_first() {
        let mut queue = FairQueue::new(1);
        assert!(queue.take(&'a'));
        for waiter in 0..3 {
            queue.wait(&'a', waiter);
        }
        let order: Vec<_> = (0..3).filter_map(|_| queue.release(&'a')).map(|(_, waiter)| waiter).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn a_waiter_that_leaves_is_never_served() {
        let mut queue = FairQueue::new(1);
        assert!(queue.take(&'a'));
        let [first, second] = [0, 1].map(|waiter| queue.wait(&'b', waiter));
        let third = queue.wait(&'c', 2);
        queue.leave(&'b', first);
        queue.leave(&'c', third);
        queue.leave(&'c', third);
        assert_eq!(queue.release(&'a'), Some(('b', 1)));
        // It has its place, so there is nothing to leave.
        queue.leave(&'b', second);
        assert_eq!(queue.release(&'b'), None);
        assert!(queue.is_unused() && queue.take(&'d'));
    }
}
