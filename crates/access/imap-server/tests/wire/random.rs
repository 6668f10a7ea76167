//! Numbers that a seed determines: the same world every time.

/// xorshift64*
pub struct Random(pub u64);

impl Random {
    /// A number from 0 to below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % u64::from(end)) as u32
    }

    /// One of these words.
    pub fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len() as u32) as usize]
    }
}
