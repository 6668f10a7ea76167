//! Puts messages into an order, by one key after the other.
//!
//! A radix sort is stable: messages with equal keys keep the order they have. So the sort begins
//! with the least significant key. Messages that are equal in all keys stay in the order of the
//! mailbox (RFC 5256 §3: "the sequence number").

use crate::heavy::Pace;

/// Bits of a digit: its table of counts fits the processor's first cache.
const DIGIT: u32 = 11;
/// Messages between two looks at the pace.
const CHUNK: usize = 32 * 1024;
/// Steps for a message and a digit.
const STEPS: u64 = 4;

/// Which keys come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// The lowest.
    Ascending,
    /// The highest: REVERSE of RFC 5256 §3.
    Descending,
}

/// Messages in the order found so far, each by its place in the mailbox's order.
#[derive(Debug)]
pub(crate) struct Order {
    /// The key that is sorted by, and the place.
    entries: Vec<(u32, u32)>,
    spare: Vec<(u32, u32)>,
}

impl Order {
    /// So many messages in the order of the mailbox.
    pub(crate) fn new(count: usize) -> Self {
        let entries: Vec<_> = (0..count as u32).map(|place| (0, place)).collect();
        Self { spare: vec![(0, 0); entries.len()], entries }
    }

    /// Sorts by a key of 64 bits, given by place.
    pub(crate) async fn by(&mut self, keys: &[u64], direction: Direction, pace: &mut Pace) {
        debug_assert_eq!(keys.len(), self.entries.len(), "a key for each message");
        let least = keys.iter().copied().min().unwrap_or(0);
        let range = keys.iter().copied().max().unwrap_or(0) - least;
        for part in 0..=u32::from(range > u64::from(u32::MAX)) {
            for chunk in self.entries.chunks_mut(CHUNK) {
                for (key, place) in chunk.iter_mut() {
                    let whole = keys.get(*place as usize).copied().unwrap_or(0) - least;
                    let whole = match direction {
                        Direction::Ascending => whole,
                        Direction::Descending => range - whole,
                    };
                    *key = (whole >> (32 * part)) as u32;
                }
                pace.worked(chunk.len() as u64 * STEPS).await;
            }
            let most = (range >> (32 * part)).min(u64::from(u32::MAX)) as u32;
            let digits = (u32::BITS - most.leading_zeros()).div_ceil(DIGIT);
            for digit in 0..digits {
                self.by_digit(digit * DIGIT, pace).await;
            }
        }
    }

    async fn by_digit(&mut self, shift: u32, pace: &mut Pace) {
        let digit = |key: u32| (key >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = vec![0usize; 1 << DIGIT];
        for chunk in self.entries.chunks(CHUNK) {
            for (key, _) in chunk {
                if let Some(count) = starts.get_mut(digit(*key)) {
                    *count += 1;
                }
            }
            pace.worked(chunk.len() as u64 * STEPS).await;
        }
        let mut before = 0;
        for start in &mut starts {
            before += std::mem::replace(start, before);
        }
        for chunk in self.entries.chunks(CHUNK) {
            for entry in chunk {
                let Some(start) = starts.get_mut(digit(entry.0)) else { continue };
                if let Some(slot) = self.spare.get_mut(*start) {
                    *slot = *entry;
                }
                *start += 1;
            }
            pace.worked(chunk.len() as u64 * STEPS).await;
        }
        std::mem::swap(&mut self.entries, &mut self.spare);
    }

    /// The places, in order.
    pub(crate) fn places(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + '_ {
        self.entries.iter().map(|(_, place)| *place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut state = 3u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) % below
        };
        for (count, below) in [(0, 1), (1, 9), (500, 3), (5_000, 1 << 20), (5_000, u64::MAX >> 11)] {
            for direction in [Direction::Ascending, Direction::Descending] {
                let is_reverse = direction == Direction::Descending;
                let least: Vec<u64> = (0..count).map(|_| random(5)).collect();
                let most: Vec<u64> = (0..count).map(|_| random(below) << 7).collect();
                let mut order = Order::new(count);
                runtime.block_on(async {
                    order.by(&least, Direction::Ascending, &mut Pace::default()).await;
                    order.by(&most, direction, &mut Pace::default()).await;
                });
                let mut model: Vec<usize> = (0..count).collect();
                model.sort_by_key(|place| {
                    (if is_reverse { !most[*place] } else { most[*place] }, least[*place])
                });
                assert_eq!(order.places().collect::<Vec<_>>(), model);
            }
        }
    }
}
