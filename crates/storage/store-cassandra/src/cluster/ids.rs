//! Ids and times: their values in columns, and new ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_mail_model::{Id, ModSeq};
use posthaste_store::{Result, StoreError};
use scylla::value::CqlValue;

/// An id as the value of a column.
pub(crate) fn blob(id: Id) -> CqlValue {
    CqlValue::Blob(id.to_bytes().to_vec())
}

/// The id in a column.
pub(crate) fn id_of(bytes: &[u8]) -> Result<Id> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt("a key that is not an id".into()))?;
    Ok(Id::from_bytes(bytes))
}

/// The UID in a column.
pub(crate) fn uid_of(uid: i64) -> Result<u32> {
    u32::try_from(uid).map_err(|_| StoreError::Corrupt(format!("a key with the UID {uid}")))
}

/// Microseconds since 1970: the unit of Cassandra's timestamps.
pub(crate) fn now_us() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_micros()).unwrap_or(i64::MAX))
}

/// Milliseconds since an id was made, by the clocks of the two machines.
pub(crate) fn age_ms(id: Id) -> u64 {
    let made_ms = id.to_bytes().iter().take(6).fold(0, |ms, byte| ms << 8 | u64::from(*byte));
    unix_ms().saturating_sub(made_ms)
}

/// Milliseconds since 1970: what an id begins with.
fn unix_ms() -> u64 {
    now_us().cast_unsigned() / 1000
}

/// A mod-sequence as a column has it. It has 63 bits (RFC 7162 §3.1), so the sign stays free.
pub(crate) fn modseq_column(modseq: ModSeq) -> i64 {
    modseq.value().cast_signed()
}

/// The source of random numbers and of new ids.
pub(crate) struct Ids {
    /// State of the generator.
    state: AtomicU64,
}

impl Ids {
    /// Seeded by the system.
    pub(crate) fn new() -> Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|e| StoreError::Unavailable(format!("no randomness: {e}")))?;
        Ok(Self { state: AtomicU64::new(u64::from_le_bytes(seed)) })
    }

    /// A pseudo-random number (a splitmix64 step): for pauses and the random half of ids.
    pub(crate) fn random(&self) -> u64 {
        let mut x = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A new, unique id with the present time.
    pub(crate) fn new_id(&self) -> Id {
        let random = u128::from(self.random()) << 64 | u128::from(self.random());
        Id::new(unix_ms(), random)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_are_damage() {
        let id = Id::new(7, 9);
        assert_eq!(id_of(&id.to_bytes()).unwrap(), id);
        assert_eq!(uid_of(i64::from(u32::MAX)).unwrap(), u32::MAX);
        for error in [id_of(&[0; 15]).unwrap_err(), uid_of(-1).unwrap_err(), uid_of(1 << 32).unwrap_err()] {
            assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        }
    }

    #[test]
    fn ids_differ_and_are_of_now() {
        let ids = Ids::new().unwrap();
        let (one, two) = (ids.new_id(), ids.new_id());
        assert_ne!(one, two);
        assert!(age_ms(one) < 3_600_000);
        assert!(age_ms(Id::new(1_000, 1)) > 3_600_000);
    }
}
