//! A bound on the message bytes that all sessions together hold in memory.
//!
//! A session reserves before it reads: strangers who each send half of a large message then meet a refusal
//! (`452 4.3.1`) and not a server out of memory. Counted in KiB, because a semaphore counts in `u32`.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::NetError;

/// Bytes a permit of the semaphore stands for.
const UNIT_BYTES: usize = 1024;

/// The bytes all sessions share; clones count against the same bound.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    free: Arc<Semaphore>,
    total_units: u32,
}

/// Bytes reserved from a [`ByteBudget`]; given back when dropped.
#[derive(Debug)]
pub struct BytePermit {
    held: OwnedSemaphorePermit,
    budget: ByteBudget,
}

impl ByteBudget {
    /// A budget of so many bytes, rounded up to KiB (and at least one).
    pub fn new(bytes: usize) -> Self {
        let largest = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
        let total = bytes.div_ceil(UNIT_BYTES).clamp(1, largest);
        Self { free: Arc::new(Semaphore::new(total)), total_units: total as u32 }
    }

    /// Bytes not reserved at the moment.
    pub fn available(&self) -> usize {
        self.free.available_permits().saturating_mul(UNIT_BYTES)
    }

    /// Reserves at once or refuses.
    pub fn try_reserve(&self, bytes: usize) -> Result<BytePermit, NetError> {
        let held = Arc::clone(&self.free)
            .try_acquire_many_owned(self.units(bytes)?)
            .map_err(|_| NetError::BudgetExhausted)?;
        Ok(BytePermit { held, budget: self.clone() })
    }

    /// Reserves, waiting for others to finish. Wait only while holding nothing: two that hold half each and
    /// wait for the other would wait until the deadline.
    pub async fn reserve(&self, bytes: usize, within: Duration) -> Result<BytePermit, NetError> {
        let wanted = Arc::clone(&self.free).acquire_many_owned(self.units(bytes)?);
        match tokio::time::timeout(within, wanted).await {
            Ok(Ok(held)) => Ok(BytePermit { held, budget: self.clone() }),
            Ok(Err(_)) | Err(_) => Err(NetError::BudgetExhausted),
        }
    }

    fn units(&self, bytes: usize) -> Result<u32, NetError> {
        match u32::try_from(bytes.div_ceil(UNIT_BYTES)) {
            Ok(units) if units <= self.total_units => Ok(units),
            _ => Err(NetError::BudgetExhausted),
        }
    }
}

impl BytePermit {
    /// Bytes reserved, in whole KiB.
    pub fn bytes(&self) -> usize {
        self.held.num_permits() * UNIT_BYTES
    }

    /// Makes sure that at least so many bytes are reserved, at once or not at all.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NetError> {
        if bytes > self.bytes() {
            let more = self.budget.try_reserve(bytes - self.bytes())?;
            self.held.merge(more.held);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reserves_grows_and_gives_back() {
        let budget = ByteBudget::new(10 * 1024);
        let mut one = budget.try_reserve(1).unwrap();
        assert_eq!((one.bytes(), budget.available()), (1024, 9 * 1024));
        one.grow_to(4096).unwrap();
        one.grow_to(100).unwrap();
        assert_eq!((one.bytes(), budget.available()), (4096, 6 * 1024));
        assert!(matches!(one.grow_to(11 * 1024), Err(NetError::BudgetExhausted)));
        assert!(budget.try_reserve(7 * 1024).is_err());
        drop(one);
        assert_eq!(budget.available(), 10 * 1024);
        assert!(budget.reserve(10 * 1024, Duration::ZERO).await.is_ok());
    }

    #[tokio::test]
    async fn waits_for_others() {
        let budget = ByteBudget::new(1024);
        let held = budget.try_reserve(1024).unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve(1024, Duration::from_secs(30)).await.map(|permit| permit.bytes()) }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiting.await.unwrap().unwrap(), 1024);
    }

    #[test]
    fn more_than_there_is_never_waits() {
        assert!(ByteBudget::new(1024).try_reserve(usize::MAX).is_err());
        assert!(ByteBudget::new(usize::MAX).try_reserve(1 << 30).is_ok());
    }
}
