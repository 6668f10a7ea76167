//! Memory for messages that are being sent.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages of up to this many KiB have a part of the memory that large ones to slow hosts cannot
/// take.
const SMALL_KIB: u32 = 256;
/// The share of that part: one in this many.
const SMALL_SHARE: u32 = 8;

/// The memory, counted in KiB.
pub(super) struct SendMemory {
    /// For small messages.
    small: Arc<Semaphore>,
    /// For the others: one that is larger than all of it takes all of it.
    large: Arc<Semaphore>,
    large_kib: u32,
}

impl SendMemory {
    /// Memory of this many bytes. If they are few, all messages share them.
    pub fn new(bytes: u64) -> Self {
        let all = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let part = all / SMALL_SHARE;
        let is_parted = part >= SMALL_KIB;
        let large_kib = if is_parted { all - part } else { all };
        let large = Arc::new(Semaphore::new(large_kib as usize));
        let small = if is_parted { Arc::new(Semaphore::new(part as usize)) } else { Arc::clone(&large) };
        Self { small, large, large_kib }
    }

    fn of(&self, size: u64) -> (Arc<Semaphore>, u32) {
        let kib = u32::try_from(size.div_ceil(1024)).unwrap_or(u32::MAX).min(self.large_kib);
        (Arc::clone(if kib <= SMALL_KIB { &self.small } else { &self.large }), kib)
    }

    /// Acquires memory for a message of this many octets, if it is free.
    pub fn try_acquire(&self, size: u64) -> Option<OwnedSemaphorePermit> {
        let (part, kib) = self.of(size);
        part.try_acquire_many_owned(kib).ok()
    }

    /// Acquires memory for a message of this many octets. Waits until it is free.
    #[boxed]
    pub async fn acquire(&self, size: u64) -> Option<OwnedSemaphorePermit> {
        let (part, kib) = self.of(size);
        // The semaphores are never closed.
        part.acquire_many_owned(kib).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_leave_room_for_small_ones() {
        let memory = SendMemory::new(16 << 20);
        let large = memory.try_acquire(1 << 40).unwrap();
        assert!(memory.try_acquire(300 << 10).is_none());
        let small: Vec<_> = std::iter::from_fn(|| memory.try_acquire(256 << 10)).collect();
        assert_eq!(small.len(), 8);
        drop(large);
        assert!(memory.try_acquire(14 << 20).is_some());
    }

    #[test]
    fn little_memory_is_for_all() {
        let memory = SendMemory::new(1);
        let one = memory.try_acquire(9).unwrap();
        assert!(memory.try_acquire(9).is_none() && memory.try_acquire(1 << 40).is_none());
        drop(one);
        assert!(memory.try_acquire(1 << 40).is_some());
    }
}
