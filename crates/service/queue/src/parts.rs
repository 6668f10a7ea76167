//! Something that visits share, and of which each key may hold a part only: slots, or memory.
//!
//! Those who wait have their turn in the order in which they came. One whose key holds its part
//! lets those with other keys pass. One that waits for more than is free does not, so that small
//! ones cannot keep a large one waiting for ever.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::keys::{Key, Keys};

/// What is shared. Clones are one.
#[derive(Clone)]
pub(crate) struct Parts(Arc<Mutex<State>>);

struct State {
    total: u64,
    free: u64,
    /// What each key holds. A key that holds nothing has no entry.
    held: HashMap<Key, u64>,
    /// The oldest first.
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    keys: Keys,
    count: u64,
    /// Brings its part.
    sender: oneshot::Sender<Part>,
}

/// A part; given back when dropped.
pub(crate) struct Part {
    parts: Parts,
    keys: Keys,
    count: u64,
}

impl Parts {
    /// Something of which there is so much.
    pub fn new(total: u64) -> Self {
        let state = State { total, free: total, held: HashMap::new(), waiting: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// What nobody holds.
    pub fn free(&self) -> u64 {
        self.0.lock().free
    }

    /// What all hold.
    pub fn held(&self) -> u64 {
        let state = self.0.lock();
        state.total - state.free
    }

    /// What one key holds.
    pub fn held_by(&self, key: Key) -> u64 {
        self.0.lock().held_by(key)
    }

    /// Whether a key may hold one more. It may always hold one, if that is free.
    pub fn has_room(&self, key: Key) -> bool {
        let state = self.0.lock();
        state.free > 0 && state.may_hold(key, 1)
    }

    /// Takes so much if it is free, whatever its keys hold.
    pub fn take_any(&self, keys: Keys, count: u64) -> Option<Part> {
        let mut state = self.0.lock();
        (state.free >= count).then(|| self.part(&mut state, keys, count))
    }

    /// Takes so much if it is free, its keys may hold it, and nobody else has the next turn.
    pub fn try_take(&self, keys: Keys, count: u64) -> Option<Part> {
        let mut state = self.0.lock();
        let mut full = HashSet::new();
        let mut waiting = state.waiting.iter().filter(|waiter| !waiter.sender.is_closed());
        let is_others_turn = waiting.any(|waiter| state.has_turn(waiter.keys, waiter.count, &mut full));
        let is_free = !is_others_turn && state.free >= count && state.has_turn(keys, count, &mut full);
        is_free.then(|| self.part(&mut state, keys, count))
    }

    /// Whether a key may not hold so much more, or others wait until it may hold more.
    pub fn is_full(&self, key: Key, count: u64) -> bool {
        let state = self.0.lock();
        let mut full = HashSet::new();
        for waiter in state.waiting.iter().filter(|waiter| !waiter.sender.is_closed()) {
            state.has_turn(waiter.keys, waiter.count, &mut full);
        }
        full.contains(&key) || !state.may_hold(key, count)
    }

    /// Takes so much, and waits for its turn. There must be as much in all. `None` never happens:
    /// a waiter stays until it has its part.
    pub async fn take(&self, keys: Keys, count: u64) -> Option<Part> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().waiting.push_back(Waiter { keys, count, sender });
        self.serve();
        receiver.await.ok()
    }

    fn part(&self, state: &mut State, keys: Keys, count: u64) -> Part {
        state.take(keys, count);
        Part { parts: self.clone(), keys, count }
    }

    /// Gives those who wait what they may have now.
    fn serve(&self) {
        let served = self.0.lock().take_for_waiters();
        for Waiter { keys, count, sender } in served {
            let part = Part { parts: self.clone(), keys, count };
            // A waiter that has just left refuses it. It is dropped, and the next has it.
            drop(sender.send(part));
        }
    }
}

impl State {
    fn held_by(&self, key: Key) -> u64 {
        self.held.get(&key).copied().unwrap_or_default()
    }

    /// Whether a key may hold so much more. A message may be larger than any part, so a key that
    /// holds nothing may hold all that is free.
    fn may_hold(&self, key: Key, more: u64) -> bool {
        let held = self.held_by(key);
        held == 0 || key.may_hold(held.saturating_add(more), self.free.saturating_sub(more))
    }

    /// Whether keys may hold so much more. Those that may not are full for all who came later:
    /// small ones with the same key cannot keep a large one waiting for ever.
    fn has_turn(&self, keys: Keys, more: u64, full: &mut HashSet<Key>) -> bool {
        let mut has_turn = true;
        for key in keys.into_iter().flatten() {
            if full.contains(&key) || !self.may_hold(key, more) {
                full.insert(key);
                has_turn = false;
            }
        }
        has_turn
    }

    fn take(&mut self, keys: Keys, count: u64) {
        self.free -= count;
        for key in keys.into_iter().flatten() {
            *self.held.entry(key).or_default() += count;
        }
    }

    fn give_back(&mut self, keys: Keys, count: u64) {
        self.free += count;
        for key in keys.into_iter().flatten() {
            if let Some(held) = self.held.get_mut(&key) {
                *held -= count;
                if *held == 0 {
                    self.held.remove(&key);
                }
            }
        }
    }

    /// Takes for those who wait, in their order, and returns them.
    fn take_for_waiters(&mut self) -> Vec<Waiter> {
        self.waiting.retain(|waiter| !waiter.sender.is_closed());
        let (mut served, mut full, mut at) = (Vec::new(), HashSet::new(), 0);
        while let Some(&Waiter { keys, count, .. }) = self.waiting.get(at) {
            if !self.has_turn(keys, count, &mut full) {
                at += 1;
                continue;
            }
            if count > self.free {
                break;
            }
            self.take(keys, count);
            served.extend(self.waiting.remove(at));
        }
        served
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.parts.0.lock().give_back(self.keys, self.count);
        self.parts.serve();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::keys::PayerId;

    fn keys(account: &str, domain: &str) -> Keys {
        Some([Key::Payer(PayerId::of(Some(account), None)), Key::of_domain(domain)])
    }

    /// Polls a call once, without a runtime.
    fn poll(call: Pin<&mut impl Future<Output = Option<Part>>>) -> Option<Part> {
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(part) => Some(part.unwrap()),
            Poll::Pending => None,
        }
    }

    /// As many as there are for these keys, one at a time.
    fn all(parts: &Parts, keys: impl Fn(usize) -> Keys) -> Vec<Part> {
        (0..).map_while(|n| parts.try_take(keys(n), 1)).collect()
    }

    #[test]
    fn an_account_and_a_domain_hold_a_part_and_leave_the_rest() {
        let parts = Parts::new(64);
        let account = all(&parts, |n| keys("ana", &format!("d{n}.test")));
        assert_eq!((account.len(), parts.free()), (32, 32));
        let domain = all(&parts, |n| keys(&format!("u{n}"), &format!("h{n}.evil.test")));
        assert_eq!((domain.len(), parts.held()), (8, 40));
        drop((account, domain));
        assert_eq!(parts.free(), 64);
        assert!(parts.0.lock().held.is_empty());
        // Mailboxes here have no bound.
        assert_eq!(all(&parts, |_| None).len(), 64);
    }

    #[test]
    fn several_accounts_leave_something_to_the_next() {
        let parts = Parts::new(64);
        let of = |n: u64| all(&parts, |domain| keys(&format!("u{n}"), &format!("u{n}d{domain}.test")));
        let held: Vec<_> = (0..5).map(of).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [32, 16, 8, 4, 2]);
        assert_eq!(parts.free(), 2);
    }

    #[test]
    fn a_waiter_whose_key_has_its_part_lets_others_pass() {
        let parts = Parts::new(8);
        let mut held = all(&parts, |n| keys("ana", &format!("d{n}.test")));
        assert_eq!(held.len(), 4);
        let mut its = pin!(parts.take(keys("ana", "e.test"), 1));
        assert!(poll(its.as_mut()).is_none());
        let other = parts.try_take(keys("ben", "b.test"), 1).unwrap();
        assert!(poll(its.as_mut()).is_none());
        held.truncate(2);
        let one = poll(its.as_mut()).unwrap();
        drop((one, other, held));
        assert_eq!(parts.free(), 8);
    }

    #[test]
    fn nobody_overtakes_one_that_waits_for_more_than_is_free() {
        let parts = Parts::new(8);
        let held = parts.try_take(keys("ana", "a.test"), 3).unwrap();
        let mut large = pin!(parts.take(keys("ben", "b.test"), 8));
        assert!(poll(large.as_mut()).is_none());
        let mut small = pin!(parts.take(keys("cy", "c.test"), 1));
        assert!(poll(small.as_mut()).is_none() && parts.try_take(keys("di", "d.test"), 1).is_none());
        drop(held);
        assert!(poll(small.as_mut()).is_none());
        drop(poll(large.as_mut()).unwrap());
        assert!(poll(small.as_mut()).is_some());
    }

    #[test]
    fn nobody_overtakes_one_that_waits_for_its_key() {
        let parts = Parts::new(8);
        let held = parts.try_take(keys("ana", "a.test"), 1).unwrap();
        let mut large = pin!(parts.take(keys("ana", "b.test"), 4));
        assert!(poll(large.as_mut()).is_none());
        // There is room for a small one of the account, but it would keep the large one waiting.
        let mut small = pin!(parts.take(keys("ana", "c.test"), 1));
        assert!(poll(small.as_mut()).is_none() && parts.try_take(keys("ana", "d.test"), 1).is_none());
        let [ana, ben] = ["ana", "ben"].map(|account| Key::Payer(PayerId::of(Some(account), None)));
        assert!(parts.is_full(ana, 1) && !parts.is_full(ben, 1));
        assert!(parts.try_take(keys("ben", "b.test"), 1).is_some());
        drop(held);
        drop(poll(large.as_mut()).unwrap());
        assert!(poll(small.as_mut()).is_some());
    }

    #[test]
    fn a_waiter_that_leaves_keeps_nothing() {
        let parts = Parts::new(1);
        let held = parts.try_take(keys("ana", "a.test"), 1).unwrap();
        let mut second = Box::pin(parts.take(keys("ben", "b.test"), 1));
        let mut third = pin!(parts.take(keys("cy", "c.test"), 1));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        drop(held);
        // The second has it, and leaves before it looks.
        drop(second);
        assert!(poll(third.as_mut()).is_some());
        assert_eq!(parts.free(), 1);
    }
}
