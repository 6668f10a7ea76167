//! A random sample of messages, counted over several mailboxes.
//!
//! Each message has the same chance, independent of its neighbours: mail may be periodic.

use std::hash::{BuildHasher, RandomState};

use posthaste_mail_model::NumSet;

/// Draws messages until it has the requested number.
#[derive(Debug)]
pub struct Sample {
    /// Messages that it lacks.
    wanted: u64,
    /// Messages that it has not seen.
    rest: u64,
    random: u64,
}

impl Sample {
    /// A sample of `wanted` messages out of `of`, or of all if there are fewer.
    #[must_use]
    pub fn new(wanted: u64, of: u64) -> Self {
        // The keys of the standard library's hash maps are random.
        Self { wanted: wanted.min(of), rest: of, random: RandomState::new().hash_one(of) }
    }

    /// Draws from the next messages.
    pub(crate) fn take(&mut self, uids: &NumSet) -> NumSet {
        let mut taken = NumSet::new();
        for uid in uids.iter() {
            // Knuth, The Art of Computer Programming, vol. 2, §3.4.2, algorithm S. A message that
            // came since they were counted is drawn if one is missing.
            if self.below(self.rest.max(1)) < self.wanted {
                taken.push(uid);
                self.wanted -= 1;
            }
            self.rest = self.rest.saturating_sub(1);
        }
        taken
    }

    /// A random number below this one. SplitMix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // Messages are far fewer than 2^64, so each number has the same chance.
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws from two mailboxes that have these messages together.
    fn drawn(wanted: u64, of: u32) -> Vec<u32> {
        let mut sample = Sample::new(wanted, of.into());
        let half = of / 2;
        let first = sample.take(&NumSet::range(1, half));
        let second = sample.take(&NumSet::range(half + 1, of));
        first.iter().chain(second.iter()).collect()
    }

    #[test]
    fn a_sample_has_the_size_that_was_wanted() {
        for (wanted, of) in [(10, 1_000), (300, 301), (300, 300), (300, 7), (1, 2)] {
            let some = drawn(wanted, of);
            assert_eq!(some.len() as u64, wanted.min(of.into()), "{wanted} of {of}");
            assert!(some.is_sorted_by(|a, b| a < b) && some.iter().all(|n| (1..=of).contains(n)));
        }
    }

    /// Every tenth message is rich. By every tenth message, all or none would be.
    #[test]
    fn periodic_mail_does_not_mislead() {
        const RUNS: usize = 200;
        let mut counts = Vec::new();
        for _ in 0..RUNS {
            counts.push(drawn(100, 1_000).iter().filter(|n| *n % 10 == 1).count());
        }
        // The mean is 10, with a standard deviation of 2.85 in a run. A mean of 200 runs is 1 off,
        // or a run has over 30, less often than once in 100,000 tests.
        let mean = counts.iter().sum::<usize>() as f64 / RUNS as f64;
        assert!((9.0..=11.0).contains(&mean) && counts.iter().all(|count| *count <= 30), "{counts:?}");
        assert_ne!(counts.iter().min(), counts.iter().max(), "each run draws other messages");
    }
}
