//! Texts in the form in which SUBJECT, FROM, TO, CC, BCC and HEADER compare them.
//!
//! RFC 9051 §6.4.4 lets a server be flexible in BODY and TEXT alone. The other keys look for a
//! substring, compared by i;unicode-casemap. A tab or a line end counts as a blank, because
//! programs fold lines with tabs. Two blanks are not one.

use crate::casemap::casemapped;

/// Folded bytes of a text beyond ASCII that are compared with the text. It is the length of a field
/// that summaries keep: of longer ones the folded form decides.
const COMPARED_MAX: usize = 16 * 1024;

/// The form of `text`.
pub(crate) fn exact(text: &str) -> Vec<u8> {
    let mut made = casemapped(text);
    made.iter_mut().filter(|byte| matches!(byte, b'\t' | b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    made
}

/// The form of a folded text.
pub(crate) fn exact_of_folded(folded: &[u8]) -> Vec<u8> {
    exact(&String::from_utf8_lossy(folded))
}

/// Whether the folded form of a text has all that an exact comparison needs.
pub(crate) fn is_kept_by_folding(text: &str, folded: &[u8]) -> bool {
    match text.is_ascii() {
        // Folding only drops white space.
        true => text.len() == folded.len(),
        false => folded.len() <= COMPARED_MAX && exact(text) == exact_of_folded(folded),
    }
}

#[cfg(test)]
mod tests {
    use memchr::memmem;
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::fold::{fold_into, folded};

    properties! {
        /// The folded form proposes, and the exact form decides.
        #[test]
        fn an_exact_match_is_a_folded_match(
            text in "[ aeiost\t\u{ea}\u{e2}\u{df}\u{1ec7}\u{1a1}\u{302}\u{323}\u{31b}\u{345}\u{fb01}\u{b4}]{0,16}",
            (from, len) in (0_usize..16, 0_usize..16),
        ) {
            let part: String = text.chars().skip(from).take(len).collect();
            // A part of the exact form is a key, too.
            let mapped = String::from_utf8(exact(&text)).unwrap();
            let within: String = mapped.chars().skip(from).take(len).collect();
            for key in [part, within] {
                let is_in = |text: Vec<u8>, key: Vec<u8>| memmem::find(&text, &key).is_some();
                prop_assert!(!is_in(exact(&text), exact(&key)) || is_in(folded(&text), folded(&key)), "{key:?}");
            }
        }
    }

    #[test]
    fn a_folded_text_is_exact_unless_something_was_lost() {
        for (text, is_exact) in [
            ("", true),
            ("Hello World", true),
            ("Hello\tWorld", true),
            ("Grüße", false),
            ("Grün, Ünder", true),
            ("οδος", true),
            ("ΟΔΟΣ", true),
            ("日本 한국", true),
            ("a  b", false),
            ("ä  b", false),
            (" a", false),
            ("ﬁne", false),
        ] {
            let mut folded = Vec::new();
            fold_into(text, &mut folded);
            assert_eq!(is_kept_by_folding(text, &folded), is_exact, "{text}");
        }
    }
}
