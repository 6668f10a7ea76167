//! Patterns of `:matches`: `*` is any characters, `?` is one character, `\` quotes. RFC 5228
//! §2.7.1.
//!
//! A pattern is cut at its stars into segments. The first segment is at the beginning, the last
//! one at the end. Each other one is searched from the end of the one before it, and the earliest
//! place is taken. So each star takes as little as it can, from the first star on, which is what
//! RFC 5229 §3.2 requires of match variables. Nothing is tried twice. A segment without `?` is
//! found in linear time. A segment with `?` is found by a bit for each of its characters, 64 at a
//! time.

use std::ops::Range;

use crate::meter::{Meter, Spent};

/// Characters of a segment with `?`. Its bits take a megabyte then, a quarter of what a run has
/// besides its message.
pub(crate) const SEGMENT_MAX: usize = 64 * 1024;
/// Wildcards whose text is kept. RFC 5229 §3.2 requires nine.
const CAPTURES_MAX: usize = 255;
/// Parts of a step that it takes to sort one unit among the others.
const MASK_WORK: u64 = 16;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    segments: Vec<Segment>,
}

/// The characters between two stars.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    units: Vec<Unit>,
    /// The units as text, if no `?` is among them.
    literal: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Char(char),
    Any,
}

impl Unit {
    fn takes(self, c: char) -> bool {
        match self {
            Unit::Any => true,
            Unit::Char(own) => own == c,
        }
    }
}

impl Glob {
    /// Compiles a pattern. Each literal character goes through `fold`, as the texts will.
    pub(crate) fn new(pattern: &str, fold: impl Fn(&str) -> String) -> Self {
        // A list that grows would take three times as much meanwhile.
        let mut segments = Vec::with_capacity(pattern.matches('*').count() + 1);
        let mut units: Vec<Unit> = Vec::new();
        let mut literal = String::new();
        let flush = |literal: &mut String, units: &mut Vec<Unit>| {
            units.extend(fold(literal).chars().map(Unit::Char));
            literal.clear();
        };
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' => {
                    flush(&mut literal, &mut units);
                    segments.push(Segment::new(std::mem::take(&mut units)));
                }
                '?' => {
                    flush(&mut literal, &mut units);
                    units.push(Unit::Any);
                }
                // A backslash at the end of the pattern matches itself.
                '\\' => literal.push(chars.next().unwrap_or('\\')),
                _ => literal.push(c),
            }
        }
        flush(&mut literal, &mut units);
        segments.push(Segment::new(units));
        Glob { segments }
    }

    /// Whether a segment with `?` is longer than [`SEGMENT_MAX`].
    pub(crate) fn is_too_long(&self) -> bool {
        self.segments.iter().any(|segment| segment.literal.is_none() && segment.units.len() > SEGMENT_MAX)
    }

    /// Whether all of `text` matches; if so, `captures` has what the wildcards took, in order: the
    /// first [`CAPTURES_MAX`] of them.
    pub(crate) fn matches(
        &self,
        text: &str,
        captures: &mut Vec<Range<usize>>,
        meter: &Meter<'_>,
    ) -> Result<bool, Spent> {
        captures.clear();
        let Some((last, before)) = self.segments.split_last() else { return Ok(text.is_empty()) };
        // The caller has counted the text, of which no character is compared twice.
        meter.work(self.segments.len() as u64)?;
        let Some((first, middle)) = before.split_first() else {
            return Ok(last.at_start(text, 0, captures) == Some(text.len()));
        };
        let Some(mut at) = first.at_start(text, 0, captures) else { return Ok(false) };
        for segment in middle {
            let Some(found) = segment.find(text, at, meter)? else { return Ok(false) };
            push(captures, at..found);
            match segment.at_start(text, found, captures) {
                Some(end) => at = end,
                None => return Ok(false),
            }
        }
        // The last segment ends where the text ends: its beginning is counted back from there.
        let Some(start) = last.start_before_end(text).filter(|start| *start >= at) else { return Ok(false) };
        push(captures, at..start);
        Ok(last.at_start(text, start, captures) == Some(text.len()))
    }
}

fn push(captures: &mut Vec<Range<usize>>, range: Range<usize>) {
    if captures.len() < CAPTURES_MAX {
        captures.push(range);
    }
}

/// For each character of a segment, the bits of the units that are that character. Takes 16 bytes
/// for each unit, however many characters there are.
struct Masks {
    /// By character, then by word.
    own: Vec<Mask>,
    /// The bits of the units that are any character, in words.
    any: Vec<u64>,
}

struct Mask {
    c: char,
    word: u32,
    bits: u64,
}

impl Masks {
    fn new(units: &[Unit]) -> Self {
        let mut any = vec![0_u64; units.len().div_ceil(64)];
        let mut own = Vec::with_capacity(units.len());
        for (index, unit) in units.iter().enumerate() {
            let (word, bits) = (index / 64, 1_u64 << (index % 64));
            match unit {
                Unit::Any => {
                    if let Some(word) = any.get_mut(word) {
                        *word |= bits;
                    }
                }
                Unit::Char(c) => own.push(Mask { c: *c, word: word as u32, bits }),
            }
        }
        own.sort_unstable_by_key(|mask| (mask.c, mask.word));
        own.dedup_by(|later, earlier| {
            let is_same = (later.c, later.word) == (earlier.c, earlier.word);
            if is_same {
                earlier.bits |= later.bits;
            }
            is_same
        });
        Masks { own, any }
    }

    fn of(&self, c: char) -> &[Mask] {
        let start = self.own.partition_point(|mask| mask.c < c);
        let rest = self.own.get(start..).unwrap_or_default();
        rest.get(..rest.partition_point(|mask| mask.c == c)).unwrap_or_default()
    }
}

impl Segment {
    fn new(units: Vec<Unit>) -> Self {
        let literal = units
            .iter()
            .map(|unit| match unit {
                Unit::Char(c) => Some(*c),
                Unit::Any => None,
            })
            .collect();
        Segment { units, literal }
    }

    /// The end of the segment if it is at this position.
    fn at_start(&self, text: &str, at: usize, captures: &mut Vec<Range<usize>>) -> Option<usize> {
        if let Some(literal) = &self.literal {
            return text.get(at..)?.starts_with(literal.as_str()).then(|| at + literal.len());
        }
        let mut end = at;
        let mut chars = text.get(at..)?.chars();
        for unit in &self.units {
            let c = chars.next()?;
            if !unit.takes(c) {
                return None;
            }
            if *unit == Unit::Any {
                push(captures, end..end + c.len_utf8());
            }
            end += c.len_utf8();
        }
        Some(end)
    }

    /// The earliest position of the segment from `at` on.
    fn find(&self, text: &str, at: usize, meter: &Meter<'_>) -> Result<Option<usize>, Spent> {
        let Some(rest) = text.get(at..) else { return Ok(None) };
        let Some(literal) = &self.literal else {
            return Ok(self.find_units(rest, meter)?.map(|found| at + found));
        };
        if rest.len() < literal.len() {
            return Ok(None);
        }
        let found = memchr::memmem::find(rest.as_bytes(), literal.as_bytes());
        // The text before it was skipped, and the literal was prepared.
        meter.work((found.unwrap_or(rest.len()) + literal.len()) as u64)?;
        Ok(found.map(|found| at + found))
    }

    /// Looks for the segment with a bit for each of its units. Bit `i` is set while the last
    /// `i + 1` characters match the first `i + 1` units.
    fn find_units(&self, text: &str, meter: &Meter<'_>) -> Result<Option<usize>, Spent> {
        let Some(last) = self.units.len().checked_sub(1) else { return Ok(None) };
        // Each unit takes a byte at least.
        if text.len() <= last {
            return Ok(None);
        }
        meter.work(self.units.len() as u64 * MASK_WORK)?;
        let masks = Masks::new(&self.units);
        let mut state = vec![0_u64; masks.any.len()];
        for (at, c) in text.char_indices() {
            let mut own = masks.of(c);
            meter.work((state.len() + own.len()) as u64)?;
            let mut carry = 1;
            for (index, (word, any)) in state.iter_mut().zip(&masks.any).enumerate() {
                let mut wanted = *any;
                if let Some((first, rest)) = own.split_first()
                    && first.word as usize == index
                {
                    wanted |= first.bits;
                    own = rest;
                }
                let next = *word >> 63;
                *word = (*word << 1 | carry) & wanted;
                carry = next;
            }
            if state.get(last / 64).is_some_and(|word| word & 1 << (last % 64) != 0) {
                let end = at + c.len_utf8();
                return Ok(text.get(..end).and_then(|text| self.start_before_end(text)));
            }
        }
        Ok(None)
    }

    /// The position where the segment begins if it ends with the text.
    fn start_before_end(&self, text: &str) -> Option<usize> {
        match self.units.len() {
            0 => Some(text.len()),
            len => text.char_indices().rev().nth(len - 1).map(|(at, _)| at),
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn captured(pattern: &str, text: &str) -> Option<Vec<String>> {
        let mut captures = Vec::new();
        Glob::new(pattern, str::to_string)
            .matches(text, &mut captures, &Meter::new(u64::MAX, None))
            .unwrap()
            .then(|| captures.into_iter().map(|range| text[range].to_string()).collect())
    }

    #[test]
    fn known_answers() {
        for (pattern, text, expected) in [
            ("", "", Some(vec![])),
            ("", "a", None),
            ("*", "", Some(vec![""])),
            ("*", "abc", Some(vec!["abc"])),
            ("?", "ü", Some(vec!["ü"])),
            ("a*c", "abbc", Some(vec!["bb"])),
            ("a*c", "ac", Some(vec![""])),
            ("a*b*c", "aXbYbZc", Some(vec!["X", "YbZ"])),
            ("*?b?*", "aabb", Some(vec!["a", "a", "b", ""])),
            ("*ab", "aab", Some(vec!["a"])),
            ("ab*ba", "aba", None),
            (r"\*\?\\", r"*?\", Some(vec![])),
            (r"a\", r"a\", Some(vec![])),
            ("**", "x", Some(vec!["", "x"])),
            ("*?", "äö", Some(vec!["ä", "ö"])),
        ] {
            let expected = expected.map(|all| all.into_iter().map(String::from).collect::<Vec<_>>());
            assert_eq!(captured(pattern, text), expected, "{pattern} on {text}");
        }
    }

    /// The definition: tries everything, each star from nothing on.
    fn naive(pattern: &[char], text: &[char], captures: &mut Vec<String>) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|len| {
                let kept = captures.len();
                captures.push(text[..len].iter().collect());
                naive(rest, &text[len..], captures) || {
                    captures.truncate(kept);
                    false
                }
            }),
            ['?', rest @ ..] => text.split_first().is_some_and(|(c, text)| {
                captures.push(c.to_string());
                naive(rest, text, captures) || {
                    captures.pop();
                    false
                }
            }),
            ['\\', c, rest @ ..] | [c, rest @ ..] => {
                text.split_first().is_some_and(|(own, text)| own == c && naive(rest, text, captures))
            }
        }
    }

    properties! {
        #[test]
        fn does_what_the_definition_says(pattern in r"[abü*?]{0,9}", text in "[abü]{0,14}") {
            let (chars, of): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
            let mut captures = Vec::new();
            let expected = naive(&chars, &of, &mut captures).then_some(captures);
            prop_assert_eq!(captured(&pattern, &text), expected);
        }
    }

    /// Steps grow with the text, not with its square, whatever the pattern is.
    #[test]
    fn the_worst_patterns_are_linear() {
        let literal = format!("*{}b", "a*".repeat(30));
        let any = format!("*{}b*c", "a?".repeat(30));
        let long = format!("*{}b*", "a?".repeat(300));
        // A look at each byte, or for each character two at each word of bits.
        for (pattern, parts) in [(literal.as_str(), 1), (any.as_str(), 2), (long.as_str(), 20)] {
            let glob = Glob::new(pattern, str::to_string);
            let counted = |len: usize| {
                let meter = Meter::new(u64::MAX, None);
                assert_eq!(glob.matches(&"a".repeat(len), &mut Vec::new(), &meter), Ok(false));
                meter.steps()
            };
            for len in [10_000, 100_000] {
                let most = parts * len as u64 / 64 + 200;
                assert!(counted(len) <= most, "{pattern}: {} steps for {len}", counted(len));
            }
        }
    }
}
