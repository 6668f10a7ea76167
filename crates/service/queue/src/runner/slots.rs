//! Slots for visits: the number of hosts that are visited at once.
//!
//! A visit begins with a fast slot. If it takes long, it moves to a slow one. If its keys hold
//! their part of the slow slots, it keeps the fast one until it ends, or until they hold less.

use crate::keys::{Key, Keys};
use crate::parts::{Part, Parts};

/// Destinations that are sent to at once.
const FAST_MAX: u64 = 64;
/// Visits that take longer, at a time. Each has a connection.
const SLOW_MAX: u64 = 448;

/// The slots.
pub(super) struct Slots {
    fast: Parts,
    slow: Parts,
}

impl Slots {
    /// All of them, free.
    pub fn new() -> Self {
        Self { fast: Parts::new(FAST_MAX), slow: Parts::new(SLOW_MAX) }
    }

    /// Whether a visit may begin.
    pub fn is_any_free(&self) -> bool {
        self.fast.free() > 0
    }

    /// Whether a key may not have another visit now.
    ///
    /// It may have one if all its visits could have slow slots, even if all visits with fast slots
    /// needed slow ones. So usual mail can have all fast slots. Otherwise it has its part of these,
    /// which its visits may keep for long.
    pub fn is_full(&self, key: Key) -> bool {
        let visits = self.fast.held_by(key) + self.slow.held_by(key);
        let slow_left = self.slow.free().saturating_sub(self.fast.held() + 1);
        !self.fast.has_room(key) && !key.may_hold(visits + 1, slow_left)
    }

    /// A slot for a visit that begins, if one is free. Its keys have room: [`Self::is_full`].
    pub fn begin(&self, keys: Keys) -> Option<Part> {
        self.fast.take_any(keys, 1)
    }

    /// A slot for a visit that takes long, if one is free and its keys may have it.
    pub fn try_slow(&self, keys: Keys) -> Option<Part> {
        self.slow.try_take(keys, 1)
    }

    /// The same. Waits for it.
    pub async fn slow(&self, keys: Keys) -> Option<Part> {
        self.slow.take(keys, 1).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PayerId;

    fn keys(account: &str, domain: &str) -> [Key; 2] {
        [Key::Payer(PayerId::of(Some(account), None)), Key::of_domain(domain)]
    }

    /// Begins as many visits as there may be now.
    fn begin(slots: &Slots, keys: impl Fn(usize) -> [Key; 2]) -> Vec<([Key; 2], Part)> {
        let has_room = |keys: &[Key; 2]| keys.iter().all(|key| !slots.is_full(*key));
        let one = |n| Some(keys(n)).filter(has_room);
        let begun = |n| {
            let keys = one(n)?;
            Some((keys, slots.begin(Some(keys))?))
        };
        (0..).map_while(begun).collect()
    }

    /// Visits that never end: with slow slots, and those that could not get one.
    fn all(slots: &Slots, keys: impl Fn(usize) -> [Key; 2]) -> [Vec<Part>; 2] {
        let (mut slow, mut waiting) = (Vec::new(), Vec::new());
        loop {
            let begun = begin(slots, |n| keys(slow.len() + n));
            if begun.is_empty() {
                return [slow, waiting];
            }
            for (keys, fast) in begun {
                match slots.try_slow(Some(keys)) {
                    Some(part) => slow.push(part),
                    None => waiting.push(fast),
                }
            }
        }
    }

    #[test]
    fn usual_mail_has_all_fast_slots() {
        let slots = Slots::new();
        let of_account = begin(&slots, |n| keys("ana", &format!("d{n}.test")));
        assert_eq!(of_account.len(), 64);
        drop(of_account);
        assert_eq!(begin(&slots, |n| keys(&format!("u{n}"), &format!("h{n}.x.test"))).len(), 64);
    }

    #[test]
    fn slow_hosts_of_one_account_or_domain_leave_slots_to_others() {
        let slots = Slots::new();
        let of_account = all(&slots, |n| keys("ana", &format!("d{n}.test")));
        assert_eq!(of_account.each_ref().map(Vec::len), [224, 32]);
        let of_domain = all(&slots, |n| keys(&format!("u{n}"), &format!("h{n}.evil.test")));
        assert_eq!(of_domain.each_ref().map(Vec::len), [56, 8]);
        assert!(slots.is_any_free());
        let others = keys("ben", "x.test");
        assert!(others.iter().all(|key| !slots.is_full(*key)));
        assert!(slots.begin(Some(others)).is_some() && slots.try_slow(Some(others)).is_some());
    }

    #[test]
    fn an_account_has_slots_again_once_its_slow_hosts_have_answered() {
        let slots = Slots::new();
        let of_account = all(&slots, |n| keys("ana", &format!("d{n}.test")));
        let other = keys("ana", "x.test");
        assert!(slots.is_full(other[0]));
        drop(of_account);
        assert!(!slots.is_full(other[0]));
    }
}
