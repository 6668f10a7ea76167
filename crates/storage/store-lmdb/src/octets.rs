//! Bytes on disk to values and back: little-endian numbers, varints, sets, and the checksum of index records.
//!
//! Reading never trusts a length: every call answers `None` when the bytes end too early, and the caller turns that
//! into a fault that names the record.

use posthaste_mail_model::{Id, NumSet};

/// A reader over borrowed bytes.
#[derive(Clone, Copy)]
pub(crate) struct Octets<'a>(pub(crate) &'a [u8]);

impl<'a> Octets<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
    pub(crate) fn id(&mut self) -> Option<Id> {
        self.array().map(Id::from_bytes)
    }

    /// Seven bits a byte, low first; at most ten bytes.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Bytes after their length.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    /// Text after its length.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }

    /// A set: how many ranges, then for each the gap since the last one's end and its length less one.
    pub(crate) fn set(&mut self) -> Option<NumSet> {
        let ranges = self.varint()?;
        let (mut set, mut floor) = (NumSet::new(), 0u64);
        for _ in 0..ranges {
            let low = floor.checked_add(self.varint()?)?;
            let high = low.checked_add(self.varint()?)?;
            set.push_range(u32::try_from(low).ok()?, u32::try_from(high).ok()?);
            floor = high;
        }
        Some(set)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_set(out: &mut Vec<u8>, set: &NumSet) {
    put_varint(out, set.ranges().len() as u64);
    let mut floor = 0;
    for &(low, high) in set.ranges() {
        put_varint(out, u64::from(low - floor));
        put_varint(out, u64::from(high - low));
        floor = high;
    }
}

/// Odd, with about as many ones as zeros; taken from the fractions of the square roots of the first eight primes.
const LANES: [u64; 8] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// Bytes of one step: a word for each lane.
const STEP: usize = 64;

/// What a checksum starts from, so that a record in the wrong place fails it too.
pub(crate) fn seed(id: Id) -> u64 {
    let bits = u128::from_be_bytes(id.to_bytes());
    ((bits >> 64) as u64).wrapping_mul(LANES[0]).rotate_left(32) ^ (bits as u64).wrapping_mul(LANES[1])
}

/// The seed of one numbered record of a mailbox.
pub(crate) fn seed_at(seed: u64, number: u64) -> u64 {
    (seed ^ number).wrapping_mul(LANES[2]).rotate_left(27)
}

/// The checksum of index records: eight multiplying lanes, 64 bytes a step.
///
/// Not CRC-32C, which the packs use: one stream of the CRC instruction takes three cycles for eight bytes, and a listing of
/// 100,000 messages checks a few hundred bytes a message; the lanes take some eight cycles for 64. Each step is a bijection of
/// its lane, so that damage within one eight-byte word always reaches the end; from there one in 2^32 is missed.
pub(crate) fn sum32(seed: u64, bytes: &[u8]) -> u32 {
    let mut lanes = LANES;
    lanes[0] ^= seed;
    let (blocks, rest) = bytes.as_chunks::<STEP>();
    for block in blocks {
        step(&mut lanes, block);
    }
    if !rest.is_empty() {
        let mut block = [0; STEP];
        block[..rest.len()].copy_from_slice(rest);
        step(&mut lanes, &block);
    }
    // In two halves, so that the last steps overlap.
    let (mut low, mut high) = (bytes.len() as u64, LANES[3]);
    for i in 0..4 {
        low = (low ^ lanes[i]).wrapping_mul(LANES[7]).rotate_left(29);
        high = (high ^ lanes[i + 4]).wrapping_mul(LANES[6]).rotate_left(33);
    }
    let sum = (low ^ high.rotate_left(17)).wrapping_mul(LANES[5]);
    (sum ^ (sum >> 32)) as u32
}

#[inline(always)]
fn step(lanes: &mut [u64; 8], block: &[u8; STEP]) {
    let (words, _) = block.as_chunks::<8>();
    for i in 0..8 {
        lanes[i] = (lanes[i] ^ u64::from_le_bytes(words[i])).wrapping_mul(LANES[i]).rotate_left(31);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_and_varints_come_back(
            numbers in prop::collection::vec(any::<u32>(), 0..40),
            value in any::<u64>(),
        ) {
            let set: NumSet = numbers.into_iter().collect();
            let mut out = Vec::new();
            put_set(&mut out, &set);
            put_varint(&mut out, value);
            put_counted(&mut out, b"text");
            let mut read = Octets(&out);
            prop_assert_eq!(read.set(), Some(set));
            prop_assert_eq!(read.varint(), Some(value));
            prop_assert_eq!(read.text(), Some("text"));
            prop_assert!(read.is_empty() && read.u8().is_none());
        }

        #[test]
        fn any_flipped_bit_changes_the_sum(
            bytes in prop::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut other = bytes.clone();
            other[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(sum32(7, &bytes), sum32(7, &other));
            prop_assert_ne!(sum32(7, &bytes), sum32(8, &bytes));
        }

        #[test]
        fn garbage_is_no_set(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Octets(&bytes).set();
        }
    }

    #[test]
    fn the_sum_is_what_it_was_when_the_format_was_written() {
        assert_eq!(sum32(0, b""), 0xd340_2e7d);
        assert_eq!(sum32(1, b"Posthaste keeps what it was given, byte for byte."), 0x9ef5_fbd2);
    }
}
