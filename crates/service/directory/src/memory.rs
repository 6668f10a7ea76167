//! The memory that small values take on the heap.

/// Bytes in front of a value in an `Arc`: two counts.
pub const ARC_BYTES: usize = 2 * size_of::<usize>();

/// The bytes that the allocator takes for a value of this many. The C library puts 8 bytes in
/// front of it, rounds up to 16 bytes, and takes at least 32.
pub const fn allocated(bytes: usize) -> usize {
    let taken = (bytes + 8).next_multiple_of(16);
    match (bytes, taken) {
        (0, _) => 0,
        (_, ..32) => 32,
        _ => taken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_what_the_allocator_gives() {
        let taken = [(0, 0), (1, 32), (24, 32), (25, 48), (40, 48), (41, 64), (512, 528)];
        for (bytes, expected) in taken {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
    }
}
