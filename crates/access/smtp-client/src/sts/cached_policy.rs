//! A policy that is kept until its time ends.

use serde::{Deserialize, Serialize};

use super::policy::Policy;

/// Bytes that a policy takes beside its texts: its places in the table, and its allocations.
const OF_POLICY: usize = 256;
/// Bytes that a pattern takes beside its text: a `String` in a vector with room, an allocation.
const OF_PATTERN: usize = 64;

/// A policy that was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CachedPolicy {
    pub id: String,
    /// Unix seconds.
    pub fetched: i64,
    pub policy: Policy,
}

impl CachedPolicy {
    pub fn ends(&self) -> i64 {
        self.fetched.saturating_add(self.policy.max_age)
    }

    /// Bytes that it takes in memory, with its domain. The estimate is not too small.
    pub fn bytes(&self, domain: &str) -> usize {
        let patterns = self.policy.patterns_len() + self.policy.mx.len() * OF_PATTERN;
        OF_POLICY + domain.len() + self.id.len() + patterns
    }

    /// Whether more than half of its time is over: it is fetched again before it ends.
    pub fn is_old(&self, now: i64) -> bool {
        now.saturating_sub(self.fetched) > self.policy.max_age / 2
    }
}
