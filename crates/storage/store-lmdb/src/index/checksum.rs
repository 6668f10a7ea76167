//! The checksum of index records.

use posthaste_mail_model::Id;

/// Odd, with about as many ones as zeros; taken from the fractions of the square roots of the first
/// eight primes.
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

/// The seed of a checksum, so that a record in the wrong place does not match either.
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
/// Not CRC-32C, which the packs use: one stream of the CRC instruction takes three cycles for eight
/// bytes. A listing of 100,000 messages checks a few hundred bytes a message. The lanes take some
/// eight cycles for 64. Each step is a bijection of its lane, so that damage within one eight-byte
/// word always reaches the end. There one in 2^32 is missed.
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
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
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
    }

    #[test]
    fn the_checksum_has_not_changed_since_the_first_format() {
        assert_eq!(sum32(0, b""), 0xd340_2e7d);
        assert_eq!(sum32(1, b"Posthaste keeps what it was given, byte for byte."), 0x9ef5_fbd2);
    }
}
