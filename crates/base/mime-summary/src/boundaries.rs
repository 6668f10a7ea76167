//! The boundaries of open multiparts, and the one that a line begins with.
//!
//! A sender chooses up to a hundred boundaries and any number of short lines. So a line is not
//! compared with each boundary. They are sorted, and it is compared with a few of each length that
//! it has. The work stays in proportion to the line, whatever the boundaries are. With a hash, a
//! sender could make boundaries that have the same one.

use std::cmp::Ordering;

use crate::in_bounds::InBounds;

/// A boundary, and the level of its multipart.
struct Boundary {
    text: Box<[u8]>,
    level: usize,
}

impl Boundary {
    /// The order of the boundary and of the beginning of a line, which is as long.
    fn compared(&self, start: &[u8]) -> Ordering {
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + 1);
        (*self.text).cmp(start)
    }
}

/// The boundaries of all open multiparts.
#[derive(Default)]
pub(crate) struct Boundaries {
    /// The shortest first. Those of one length are in the order of their octets. Of equal ones the
    /// innermost is first.
    sorted: Vec<Boundary>,
    /// How many boundaries each length has, in that order.
    counts: Vec<usize>,
}

impl Boundaries {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Adds the boundary of a multipart, which is the innermost one.
    pub fn insert(&mut self, text: Box<[u8]>, level: usize) {
        let at = self.sorted.partition_point(|other| (other.text.len(), &other.text) < (text.len(), &text));
        self.sorted.insert(at, Boundary { text, level });
        self.count();
    }

    /// Removes the boundary of the multipart at this level.
    pub fn remove(&mut self, level: usize) {
        self.sorted.retain(|boundary| boundary.level != level);
        self.count();
    }

    fn count(&mut self) {
        let of_one_length = self.sorted.chunk_by(|one, next| one.text.len() == next.text.len());
        self.counts.clear();
        self.counts.extend(of_one_length.map(<[Boundary]>::len));
    }

    /// The level of the multipart that a delimiter line belongs to, and whether it closes it. The
    /// line is given without its hyphens and without white space at its end.
    ///
    /// A whole boundary is before one with which the line begins (RFC 2046 §5.1.1), and an inner
    /// multipart before an outer one (§5.1.2).
    pub fn find(&self, line: &[u8]) -> Option<(usize, bool)> {
        let mut found: Option<(bool, usize, bool)> = None;
        let mut from = 0;
        for count in &self.counts {
            let of_one_length = self.sorted.in_bounds(from..from + count);
            from += count;
            let len = of_one_length.first().map_or(0, |boundary| boundary.text.len());
            let Some((start, rest)) = line.split_at_checked(len) else { break };
            let at = of_one_length.partition_point(|boundary| boundary.compared(start) == Ordering::Less);
            if let Some(boundary) = of_one_length.get(at)
                && boundary.compared(start) == Ordering::Equal
            {
                let is_whole = rest.is_empty() || rest == b"--";
                found = found.max(Some((is_whole, boundary.level, rest.starts_with(b"--"))));
            }
        }
        found.map(|(_, level, is_close)| (level, is_close))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::structure::{MAX_DEPTH, Structure};

    thread_local! {
        /// How often a boundary was compared with a line.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    fn of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Boundaries {
        let mut boundaries = Boundaries::default();
        for (level, text) in texts.into_iter().enumerate() {
            boundaries.insert(text.as_ref().into(), level);
        }
        boundaries
    }

    /// How often boundaries are compared with lines while this is done.
    fn compared(done: impl FnOnce()) -> usize {
        let before = COMPARED.get();
        done();
        COMPARED.get() - before
    }

    /// The same as [`Boundaries::find`], by a look at each boundary.
    fn searched(open: &[(usize, String)], line: &str) -> Option<(usize, bool)> {
        let begins = |(level, boundary): &(usize, String)| Some((*level, line.strip_prefix(&**boundary)?));
        let mut whole = open.iter().rev().filter_map(begins).filter(|(_, rest)| matches!(*rest, "" | "--"));
        let found = whole.next().or_else(|| open.iter().rev().find_map(begins));
        found.map(|(level, rest)| (level, rest.starts_with("--")))
    }

    /// With a look at each boundary, a line of four octets cost a hundred comparisons.
    #[test]
    fn a_line_is_compared_with_few_of_a_hundred_boundaries() {
        // The boundaries of one length end differently, and all of them begin alike.
        for of_one_length in [1, 2, 3, 4, 8, 16, 33, 50, MAX_DEPTH] {
            let text =
                |n: usize| [b"a".repeat(n / of_one_length), vec![b'a' + (n % of_one_length) as u8]].concat();
            let boundaries = of((0..MAX_DEPTH).map(text));
            for len in 0..=MAX_DEPTH + 20 {
                let line = b"a".repeat(len);
                let count = compared(|| assert_eq!(boundaries.find(&line).is_some(), len > 0));
                // A line also has its two hyphens and its end.
                assert!(count <= 5 * (len + 3), "{of_one_length} of a length, {len} octets: {count}");
            }
        }
    }

    #[test]
    fn short_lines_in_a_hundred_multiparts_are_compared_with_few_boundaries() {
        const LINES: usize = 10_000;
        let nested = "Content-Type: multipart/mixed; boundary=b\n\n--b\n".repeat(MAX_DEPTH);
        let message = [nested, "\n".to_owned(), "--a\n".repeat(LINES)].concat();
        let mut depth = 0;
        let count = compared(|| depth = Structure::parse(message.as_bytes()).depth);
        assert_eq!(depth, MAX_DEPTH + 1);
        assert!(count <= 10 * (LINES + MAX_DEPTH), "{count}");
    }

    /// RFC 2046 §5.1.1, §5.1.2.
    #[test]
    fn a_whole_boundary_counts_first_and_then_the_innermost() {
        for (open, line, found) in [
            ("b b b", "b", Some((2, false))),
            ("b b b", "b--", Some((2, true))),
            ("b b b", "a", None),
            ("ab a", "ab", Some((0, false))),
            ("ab a", "abc", Some((1, false))),
            ("ab a", "ab--x", Some((1, false))),
            ("a ab", "ab--x", Some((1, true))),
            ("a-- a", "a--", Some((1, true))),
            ("a a--", "a--", Some((1, false))),
            ("a a--", "a----", Some((1, true))),
            ("a abcd", "", None),
        ] {
            assert_eq!(of(open.split(' ')).find(line.as_bytes()), found, "{open}: {line}");
        }
    }

    properties! {
        #[test]
        fn the_boundary_that_is_found_is_that_of_a_look_at_each(
            open in prop::collection::vec(("[ab-]{1,4}", any::<bool>()), 0..12),
            lines in prop::collection::vec("[ab-]{0,7}", 1..12),
        ) {
            let mut boundaries = of(open.iter().map(|(text, _)| text));
            let mut left = Vec::new();
            for (level, (text, is_closed)) in open.into_iter().enumerate() {
                if is_closed {
                    boundaries.remove(level);
                } else {
                    left.push((level, text));
                }
            }
            prop_assert_eq!(boundaries.is_empty(), left.is_empty());
            for line in lines {
                prop_assert_eq!(boundaries.find(line.as_bytes()), searched(&left, &line), "{} {:?}", line, left);
            }
        }
    }
}
