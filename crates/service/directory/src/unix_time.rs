//! The time of day, as records have it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
