//! Memory for messages that are being sent.

use async_recursion::async_recursion as boxed;

use crate::keys::Keys;
use crate::parts::{Part, Parts};

/// Messages of up to this many KiB have a part of the memory that large ones to slow hosts cannot
/// take.
const SMALL_KIB: u64 = 256;
/// The share of that part: one in this many.
const SMALL_SHARE: u64 = 8;

/// The memory, counted in KiB. Messages of one payer have a part of it, and so have messages to one
/// registered domain: a host may take hours to accept a large message.
pub(super) struct SendMemory {
    /// For small messages.
    small: Parts,
    /// For the others: one that is larger than all of it takes all of it.
    large: Parts,
    large_kib: u64,
}

impl SendMemory {
    /// Memory of this many bytes. If they are few, all messages share them.
    pub fn new(bytes: u64) -> Self {
        let all = bytes.div_ceil(1024);
        let part = all / SMALL_SHARE;
        let is_parted = part >= SMALL_KIB;
        let large_kib = if is_parted { all - part } else { all };
        let large = Parts::new(large_kib);
        let small = if is_parted { Parts::new(part) } else { large.clone() };
        Self { small, large, large_kib }
    }

    fn of(&self, size: u64) -> (&Parts, u64) {
        let kib = size.div_ceil(1024).min(self.large_kib);
        (if kib <= SMALL_KIB { &self.small } else { &self.large }, kib)
    }

    /// Acquires memory for a message of this many octets, if it is free and these may have it.
    pub fn try_acquire(&self, keys: Keys, size: u64) -> Option<Part> {
        let (part, kib) = self.of(size);
        part.try_take(keys, kib)
    }

    /// Whether the payer of a message of this many octets holds its part.
    pub fn is_payer_full(&self, keys: Keys, size: u64) -> bool {
        let (part, kib) = self.of(size);
        keys.is_some_and(|[payer, _]| part.is_full(payer, kib))
    }

    /// Acquires memory for a message of this many octets. Waits until it is free, and these may
    /// have it.
    #[boxed]
    pub async fn acquire(&self, keys: Keys, size: u64) -> Option<Part> {
        let (part, kib) = self.of(size);
        part.take(keys, kib).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Key, PayerId};

    fn keys(account: &str) -> Keys {
        Some([Key::Payer(PayerId::of(Some(account), None)), Key::of_domain(&format!("{account}.test"))])
    }

    #[test]
    fn large_messages_leave_room_for_small_ones() {
        let memory = SendMemory::new(16 << 20);
        let large = memory.try_acquire(None, 1 << 40).unwrap();
        assert!(memory.try_acquire(None, 300 << 10).is_none());
        let small: Vec<_> = std::iter::from_fn(|| memory.try_acquire(None, 256 << 10)).collect();
        assert_eq!(small.len(), 8);
        drop(large);
        assert!(memory.try_acquire(None, 14 << 20).is_some());
    }

    #[test]
    fn little_memory_is_for_all() {
        let memory = SendMemory::new(1);
        let one = memory.try_acquire(None, 9).unwrap();
        assert!(memory.try_acquire(None, 9).is_none() && memory.try_acquire(None, 1 << 40).is_none());
        drop(one);
        assert!(memory.try_acquire(None, 1 << 40).is_some());
    }

    #[test]
    fn messages_of_one_account_leave_memory_for_others() {
        let memory = SendMemory::new(256 << 20);
        let all = |octets: u64| {
            let of = |n: u32| {
                let [payer, _] = keys("ana")?;
                memory.try_acquire(Some([payer, Key::of_domain(&format!("d{n}.test"))]), octets)
            };
            (0..).map_while(of).collect::<Vec<_>>()
        };
        // 32 MiB are for small messages.
        let (small, large) = (all(256 << 10), all(50 << 20));
        assert_eq!((small.len(), large.len()), (64, 2));
        assert!(memory.try_acquire(keys("ben"), 256 << 10).is_some());
        assert!(memory.try_acquire(keys("ben"), 64 << 20).is_some());
    }
}
