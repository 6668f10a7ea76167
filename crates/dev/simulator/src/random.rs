//! Randomness from one seed: the same seed gives the same numbers on every machine.

/// Seeds that tests name. Their lives stay as they were when they found a fault.
pub const KEPT: [u64; 1] = [42_000_034];

/// SplitMix64. Small, and good enough to choose what a test does next.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed and a purpose, so that two uses of one seed do not draw the same
    /// numbers.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.draw();
        random
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0. The small bias of the remainder does not matter
    /// here.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    /// `true` in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One element of a slice; `None` of an empty one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }
}
