//! Patterns of `:matches`: `*` is any characters, `?` is one character, `\` quotes. RFC 5228
//! §2.7.1.
//!
//! A pattern is cut at its stars into segments. The first segment stands at the beginning, the last
//! one at the end. Each other one is searched from the end of the one before it, and the earliest
//! place is taken. So each star takes as little as it can, from the first star on, which is what
//! RFC 5229 §3.2 requires of match variables. Nothing is tried twice. A segment without `?` is
//! found in linear time. A segment with `?` is found by a bit for each of its characters, 64 at a
//! time.

use std::ops::Range;

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
        let mut segments = Vec::new();
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

    /// Whether all of `text` matches; if so, `captures` has what each wildcard took, in order.
    /// `steps` counts the characters that were compared.
    pub(crate) fn matches(&self, text: &str, captures: &mut Vec<Range<usize>>, steps: &mut u64) -> bool {
        captures.clear();
        let Some((last, before)) = self.segments.split_last() else { return text.is_empty() };
        let Some((first, middle)) = before.split_first() else {
            return last.at_start(text, 0, captures, steps) == Some(text.len());
        };
        let Some(mut at) = first.at_start(text, 0, captures, steps) else { return false };
        for segment in middle {
            let Some(found) = segment.find(text, at, steps) else { return false };
            captures.push(at..found);
            match segment.at_start(text, found, captures, steps) {
                Some(end) => at = end,
                None => return false,
            }
        }
        // The last segment ends where the text ends: its beginning is counted back from there.
        let Some(start) = last.start_before_end(text) else { return false };
        if start < at {
            return false;
        }
        captures.push(at..start);
        last.at_start(text, start, captures, steps) == Some(text.len())
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

    /// Where the segment ends if it stands at this place.
    fn at_start(
        &self,
        text: &str,
        at: usize,
        captures: &mut Vec<Range<usize>>,
        steps: &mut u64,
    ) -> Option<usize> {
        if let Some(literal) = &self.literal {
            *steps += literal.len() as u64;
            return text.get(at..)?.starts_with(literal.as_str()).then(|| at + literal.len());
        }
        let mut end = at;
        let mut chars = text.get(at..)?.chars();
        for unit in &self.units {
            *steps += 1;
            let c = chars.next()?;
            if !unit.takes(c) {
                return None;
            }
            if *unit == Unit::Any {
                captures.push(end..end + c.len_utf8());
            }
            end += c.len_utf8();
        }
        Some(end)
    }

    /// The earliest place from `at` on where the segment stands.
    fn find(&self, text: &str, at: usize, steps: &mut u64) -> Option<usize> {
        let rest = text.get(at..)?;
        match &self.literal {
            Some(literal) => {
                *steps += rest.len() as u64;
                let found = memchr::memmem::find(rest.as_bytes(), literal.as_bytes())?;
                // What is found early costs only what was passed over.
                *steps -= (rest.len() - found - literal.len()) as u64;
                Some(at + found)
            }
            None => self.find_units(rest, steps).map(|found| at + found),
        }
    }

    /// Looks for the segment with a bit for each of its units. Bit `i` is set while the last
    /// `i + 1` characters match the first `i + 1` units.
    fn find_units(&self, text: &str, steps: &mut u64) -> Option<usize> {
        let words = self.units.len().div_ceil(64);
        let mut state = vec![0_u64; words];
        let last = self.units.len().checked_sub(1)?;
        let mut masks: Vec<(char, Vec<u64>)> = Vec::new();
        let mut any = vec![0_u64; words];
        for (index, unit) in self.units.iter().enumerate() {
            let bit = 1_u64 << (index % 64);
            match unit {
                Unit::Any => {
                    if let Some(word) = any.get_mut(index / 64) {
                        *word |= bit;
                    }
                }
                Unit::Char(c) => {
                    let place = match masks.binary_search_by_key(c, |mask| mask.0) {
                        Ok(place) => place,
                        Err(place) => {
                            masks.insert(place, (*c, vec![0; words]));
                            place
                        }
                    };
                    if let Some(word) = masks.get_mut(place).and_then(|mask| mask.1.get_mut(index / 64)) {
                        *word |= bit;
                    }
                }
            }
        }
        for (at, c) in text.char_indices() {
            *steps += words as u64;
            let own = masks.binary_search_by_key(&c, |mask| mask.0).ok().and_then(|place| masks.get(place));
            let mut carry = 1;
            for (index, word) in state.iter_mut().enumerate() {
                let wanted = any.get(index).copied().unwrap_or(0)
                    | own.and_then(|mask| mask.1.get(index)).copied().unwrap_or(0);
                let next = *word >> 63;
                *word = (*word << 1 | carry) & wanted;
                carry = next;
            }
            if state.get(last / 64).is_some_and(|word| word & 1 << (last % 64) != 0) {
                let end = at + c.len_utf8();
                return self.start_before_end(text.get(..end)?);
            }
        }
        None
    }

    /// Where the segment begins if it ends with the text.
    fn start_before_end(&self, text: &str) -> Option<usize> {
        match self.units.len() {
            0 => Some(text.len()),
            len => text.char_indices().rev().nth(len - 1).map(|(at, _)| at),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(pattern: &str, text: &str) -> Option<Vec<String>> {
        let mut captures = Vec::new();
        Glob::new(pattern, str::to_string)
            .matches(text, &mut captures, &mut 0)
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

    proptest! {
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
        for (pattern, words) in [(literal.as_str(), 1), (any.as_str(), 1), (long.as_str(), 10)] {
            let glob = Glob::new(pattern, str::to_string);
            let counted = |len: usize| {
                let mut steps = 0;
                assert!(!glob.matches(&"a".repeat(len), &mut Vec::new(), &mut steps));
                steps
            };
            for len in [10_000, 100_000] {
                let most = words * len as u64 + 1000;
                assert!(counted(len) <= most, "{pattern}: {} steps for {len}", counted(len));
            }
        }
    }
}
