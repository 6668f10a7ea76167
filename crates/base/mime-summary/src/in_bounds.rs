//! Slices at offsets that the caller has found in the same bytes.

use std::slice::SliceIndex;

/// Slices whose range cannot be outside, whatever a sender wrote.
///
/// If it could be outside, the caller uses `get` and handles `None`. A range outside is therefore
/// our mistake. Tests fail on it. A server continues with an empty slice: no mail may end a
/// session.
pub trait InBounds<Range> {
    /// The part at this range.
    fn in_bounds(&self, range: Range) -> &Self;
}

impl<T, Range: SliceIndex<[T], Output = [T]>> InBounds<Range> for [T] {
    #[inline]
    fn in_bounds(&self, range: Range) -> &Self {
        let part = self.get(range);
        debug_assert!(part.is_some(), "a range is outside of {} elements", self.len());
        part.unwrap_or_default()
    }
}

impl<Range: SliceIndex<str, Output = str>> InBounds<Range> for str {
    #[inline]
    fn in_bounds(&self, range: Range) -> &Self {
        let part = self.get(range);
        debug_assert!(part.is_some(), "a range is outside of {} bytes, or splits a character", self.len());
        part.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::InBounds;

    #[test]
    fn ranges_inside_are_returned() {
        assert_eq!(b"abc".as_slice().in_bounds(1..), b"bc");
        assert_eq!(b"abc".as_slice().in_bounds(3..), b"");
        assert_eq!("aé".in_bounds(1..3), "é");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a range is outside of 3 elements")]
    fn a_range_outside_fails_in_tests() {
        b"abc".as_slice().in_bounds(2..4);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "splits a character")]
    fn a_range_within_a_character_fails_in_tests() {
        "é".in_bounds(1..);
    }
}
