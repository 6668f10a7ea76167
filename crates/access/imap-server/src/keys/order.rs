//! Puts messages into an order, by one key after the other.
//!
//! A radix sort is stable: messages with equal keys keep the order they have. So the sort begins
//! with the least significant key. Messages that are equal in all keys stay in the order of the
//! mailbox (RFC 5256 §3: "the sequence number").

use crate::heavy::Pace;

/// Bits of a digit at most: its table of counts fits the processor's first cache.
const DIGIT_MAX: u32 = 12;
/// Messages between two checks of the pace.
const CHUNK: usize = 32 * 1024;
/// Steps for a message and a digit.
const STEPS: u64 = 4;

/// The order of the keys.
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
    /// `count` messages in the order of the mailbox.
    pub(crate) fn new(count: usize) -> Self {
        let entries: Vec<_> = (0..count as u32).map(|place| (0, place)).collect();
        Self { spare: vec![(0, 0); entries.len()], entries }
    }

    /// Sorts by a key of 64 bits, given by place.
    pub(crate) async fn by(&mut self, keys: &[u64], direction: Direction, pace: &mut Pace) {
        debug_assert_eq!(keys.len(), self.entries.len(), "a key for each message");
        let least = keys.iter().copied().min().unwrap_or(0);
        let range = keys.iter().copied().max().unwrap_or(0) - least;
        if range == 0 {
            return;
        }
        for part in 0..=u32::from(range > u64::from(u32::MAX)) {
            let mut is_in_order = true;
            let mut before = 0;
            for chunk in self.entries.chunks_mut(CHUNK) {
                for (key, place) in chunk.iter_mut() {
                    let whole = keys[*place as usize] - least;
                    let whole = match direction {
                        Direction::Ascending => whole,
                        Direction::Descending => range - whole,
                    };
                    is_in_order &= before <= whole;
                    before = whole;
                    *key = (whole >> (32 * part)) as u32;
                }
                pace.worked(chunk.len() as u64 * STEPS).await;
            }
            if is_in_order {
                // Times of arrival are mostly in order.
                return;
            }
            let most = (range >> (32 * part)).min(u64::from(u32::MAX)) as u32;
            let bits = u32::BITS - most.leading_zeros();
            let width = bits.div_ceil(bits.div_ceil(DIGIT_MAX));
            for shift in (0..bits).step_by(width as usize) {
                self.by_digit(shift, width, pace).await;
            }
        }
    }

    async fn by_digit(&mut self, shift: u32, width: u32, pace: &mut Pace) {
        let digit = |key: u32| (key >> shift) as usize & ((1 << width) - 1);
        let mut starts = vec![0u32; 1 << width];
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
                if let Some(slot) = self.spare.get_mut(*start as usize) {
                    *slot = *entry;
                }
                *start += 1;
            }
            pace.worked(chunk.len() as u64 * STEPS).await;
        }
        std::mem::swap(&mut self.entries, &mut self.spare);
    }

    /// The places, in order.
    pub(crate) fn places(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.entries.iter().map(|(_, place)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_equals_a_stable_sort() {
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
                let mut model: Vec<u32> = (0..count as u32).collect();
                model.sort_by_key(|place| {
                    let (most, least) = (most[*place as usize], least[*place as usize]);
                    (if is_reverse { !most } else { most }, least)
                });
                assert_eq!(order.places().collect::<Vec<_>>(), model);
            }
        }
    }
}
