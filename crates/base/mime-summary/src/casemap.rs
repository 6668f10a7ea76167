//! The comparator i;unicode-casemap to the letter: RFC 5051 §2.
//!
//! Each character is mapped to title case, and then decomposed completely. Only the simple mappings
//! of UnicodeData.txt count: `ß` has none, so it is no `ss`. A ligature has none either, so its
//! letters stay small. Marks keep their order. The folded texts of `fold` are wider: texts that are
//! equal here are equal there.

use unicode_normalization::char::decompose_compatible;

/// Gives the characters that one character becomes.
pub fn casemap_char(c: char, emit: impl FnMut(char)) {
    decompose_compatible(title(c), emit);
}

/// Appends `text` in a form whose bytes decide equality, substrings and order.
pub fn casemap_into(text: &str, into: &mut Vec<u8>) {
    into.reserve(text.len());
    if text.is_ascii() {
        into.extend(text.bytes().map(|byte| byte.to_ascii_uppercase()));
        return;
    }
    let mut utf8 = [0; 4];
    for c in text.chars() {
        if c.is_ascii() {
            into.push(c.to_ascii_uppercase() as u8);
        } else {
            casemap_char(c, |part| into.extend_from_slice(part.encode_utf8(&mut utf8).as_bytes()));
        }
    }
}

/// The same as a text of its own.
pub fn casemapped(text: &str) -> Vec<u8> {
    let mut made = Vec::new();
    casemap_into(text, &mut made);
    made
}

/// The simple mapping to title case of UnicodeData.txt. It differs from that to upper case for
/// digraphs, for Georgian, and for Greek letters with an iota below.
fn title(c: char) -> char {
    let above = |distance: u32| char::from_u32(u32::from(c) + distance).unwrap_or(c);
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        '\u{10d0}'..='\u{10ff}' => c,
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => above(8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => above(9),
        _ => {
            let mut upper = c.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(single), None) => single,
                _ => c,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::folded;

    fn mapped(text: &str) -> String {
        String::from_utf8(casemapped(text)).unwrap()
    }

    #[test]
    fn known_answers() {
        for (text, expected) in [
            ("aBc 1_", "ABC 1_"),
            ("ä", "A\u{308}"),
            ("straße", "STRAßE"),
            // A ligature has no title case, but a decomposition.
            ("ﬁne", "fiNE"),
            // The example of RFC 5051 §2.
            ("\u{1c4}", "Dz\u{30c}"),
            ("\u{1c6}", "Dz\u{30c}"),
            ("ςσ", "ΣΣ"),
            ("\u{1fb3}", "Α\u{345}"),
            ("\u{1f80}", "Α\u{313}\u{345}"),
            ("\u{10d0}", "\u{10d0}"),
            ("\u{a0}", " "),
            // Marks do not change.
            ("a\u{301}\u{323}", "A\u{301}\u{323}"),
        ] {
            assert_eq!(mapped(text), expected, "{text}");
        }
    }

    #[test]
    fn the_order_is_that_of_title_case() {
        // RFC 5051 §2: "A" (0x41) comes before "_" (0x5F), which comes before "a" (0x61).
        assert!(mapped("Z") < mapped("_") && mapped("z") < mapped("_"));
        assert_eq!(mapped("Ünïcode"), mapped("üNÏCODE"));
        assert!(mapped("e\u{301}") > mapped("ez") && mapped("é") < mapped("f"));
        assert!(mapped("strasse") < mapped("straße"));
    }

    /// The index and the texts of summaries propose by the folded form.
    #[test]
    fn texts_that_are_equal_here_are_equal_folded() {
        for c in ('\0'..='\u{ffff}').chain('\u{10000}'..'\u{1f000}') {
            let text = String::from(c);
            assert_eq!(folded(&mapped(&text)), folded(&text), "{:x}", u32::from(c));
        }
    }
}
