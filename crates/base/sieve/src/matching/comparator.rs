//! Comparators: which strings are equal, and which comes first. RFC 4790, RFC 5051.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use posthaste_mime_summary::{InBounds, casemap_char};

use crate::meter::{Meter, Spent};

/// The factor by which a text may grow for `i;unicode-casemap`. A syllable of Hangul becomes
/// three times as long, a fraction two and a half times; only a few ligatures of Arabic become
/// more than four.
const FOLD_FACTOR_MAX: usize = 4;
/// Bytes that a folded text may have besides.
const FOLD_EXTRA_MAX: usize = 64 * 1024;
/// Parts of a step that it takes to decompose a byte.
const FOLD_WORK: u64 = 2;

/// A comparator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparator {
    /// `i;octet`: byte by byte.
    Octet,
    /// `i;ascii-casemap`, the default: letters of ASCII in any case (RFC 5228 §2.7.3).
    AsciiCasemap,
    /// `i;ascii-numeric`: the number that a string begins with (RFC 4790 §9.1).
    AsciiNumeric,
    /// `i;unicode-casemap`: letters of any script in any case (RFC 5051).
    UnicodeCasemap,
}

impl Comparator {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "i;octet" => Comparator::Octet,
            "i;ascii-casemap" => Comparator::AsciiCasemap,
            "i;ascii-numeric" => Comparator::AsciiNumeric,
            "i;unicode-casemap" => Comparator::UnicodeCasemap,
            _ => return None,
        })
    }

    /// Whether it can look for a part of a string (RFC 4790 §9.1.1: numbers have no parts).
    pub(crate) const fn has_substrings(self) -> bool {
        !matches!(self, Comparator::AsciiNumeric)
    }

    pub(crate) const fn ignores_case(self) -> bool {
        matches!(self, Comparator::AsciiCasemap | Comparator::UnicodeCasemap)
    }

    /// The text in a form in which equal strings are equal bytes.
    pub(crate) fn fold(self, text: &str) -> Cow<'_, str> {
        match self {
            Comparator::Octet => Cow::Borrowed(text),
            Comparator::AsciiNumeric => numeric(text),
            Comparator::AsciiCasemap => lower_ascii(text),
            // RFC 5051 leaves ASCII to simple case mapping.
            Comparator::UnicodeCasemap if text.is_ascii() => upper_ascii(text),
            Comparator::UnicodeCasemap => {
                let mut folded = String::with_capacity(titlecased(text).map(|(_, len)| len).sum());
                for c in text.chars() {
                    casemap_char(c, |part| folded.push(part));
                }
                Cow::Owned(folded)
            }
        }
    }

    /// [`Self::fold`] for a text of any length, within the bounds of a run.
    pub(crate) fn fold_counted<'t>(self, text: &'t str, meter: &Meter<'_>) -> Result<Cow<'t, str>, Spent> {
        meter.work(text.len() as u64)?;
        if self == Comparator::UnicodeCasemap && !text.is_ascii() {
            meter.work(FOLD_WORK * text.len() as u64)?;
            let len: usize = titlecased(text).map(|(_, len)| len).sum();
            if len > text.len() * FOLD_FACTOR_MAX + FOLD_EXTRA_MAX {
                return Err(Spent::Memory);
            }
        }
        Ok(self.fold(text))
    }

    /// Makes places in the folded text, in their order, the places in the text that they come from:
    /// the beginning of the character there.
    pub(crate) fn unfold(self, text: &str, ranges: &mut [Range<usize>]) {
        if self != Comparator::UnicodeCasemap || text.is_ascii() {
            return;
        }
        let mut characters = titlecased(text);
        let (mut start, mut end, mut source) = (0, 0, 0);
        for place in ranges.iter_mut().flat_map(|range| [&mut range.start, &mut range.end]) {
            while end <= *place {
                match characters.next() {
                    Some((at, len)) => (start, end, source) = (end, end + len, at),
                    None => break,
                }
            }
            *place = if (start..end).contains(place) { source } else { text.len() };
        }
    }

    /// The order of two strings.
    pub(crate) fn compare(self, a: &str, b: &str) -> Ordering {
        match self {
            Comparator::AsciiNumeric => {
                // RFC 4790 §9.1.1: what begins with no digit is infinite, and all such are equal.
                let (a, b) = (numeric(a), numeric(b));
                match (a.is_empty(), b.is_empty()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    (false, false) => a.len().cmp(&b.len()).then_with(|| a.cmp(&b)),
                }
            }
            _ => self.fold(a).as_bytes().cmp(self.fold(b).as_bytes()),
        }
    }
}

fn lower_ascii(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|b| b.is_ascii_uppercase()) {
        true => Cow::Owned(text.to_ascii_lowercase()),
        false => Cow::Borrowed(text),
    }
}

fn upper_ascii(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|b| b.is_ascii_lowercase()) {
        true => Cow::Owned(text.to_ascii_uppercase()),
        false => Cow::Borrowed(text),
    }
}

/// The digits at the beginning without leading zeros, at least one; empty if there are none.
fn numeric(text: &str) -> Cow<'_, str> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let digits = text.in_bounds(..len);
    let significant = digits.trim_start_matches('0');
    Cow::Borrowed(if significant.is_empty() && len > 0 { "0" } else { significant })
}

/// RFC 5051 §2: each character to title case, then decomposed completely; marks keep their order.
/// Where each character begins in the text, and the length of what it becomes.
fn titlecased(text: &str) -> impl Iterator<Item = (usize, usize)> {
    text.char_indices().map(|(at, c)| {
        let mut len = 0;
        casemap_char(c, |part| len += part.len_utf8());
        (at, len)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality() {
        use Comparator::*;
        for (comparator, a, b, expected) in [
            (Octet, "a", "A", false),
            (AsciiCasemap, "aBc", "AbC", true),
            (AsciiCasemap, "ä", "Ä", false),
            (UnicodeCasemap, "ä", "Ä", true),
            (UnicodeCasemap, "a\u{308}", "Ä", true),
            (UnicodeCasemap, "ﬁ", "FI", false),
            (UnicodeCasemap, "abc", "ABC", true),
            (UnicodeCasemap, "ἀ", "Ἀ", true),
            (UnicodeCasemap, "ᾳ", "ᾼ", true),
            (AsciiNumeric, "010x", "10", true),
            (AsciiNumeric, "", "abc", true),
            (AsciiNumeric, "0", "abc", false),
        ] {
            assert_eq!(comparator.compare(a, b) == Ordering::Equal, expected, "{comparator:?} {a} {b}");
            assert_eq!(comparator.fold(a) == comparator.fold(b), expected, "{comparator:?} {a} {b}");
        }
    }

    #[test]
    fn order_of_numbers_and_letters() {
        use Comparator::*;
        assert_eq!(AsciiNumeric.compare("9", "10"), Ordering::Less);
        assert_eq!(AsciiNumeric.compare("x", "99999999999999999999999"), Ordering::Greater);
        assert_eq!(Octet.compare("9", "10"), Ordering::Greater);
        assert_eq!(AsciiCasemap.compare("B", "a"), Ordering::Greater);
    }

    #[test]
    fn places_in_the_source() {
        assert_eq!(Comparator::UnicodeCasemap.fold("xäy"), "XA\u{308}Y");
        let mut ranges = [0..0, 0..1, 1..4, 4..5];
        Comparator::UnicodeCasemap.unfold("xäy", &mut ranges);
        assert_eq!(ranges, [0..0, 0..1, 1..3, 3..4]);
    }
}
