//! The words that a reader of HTML sees, and that the source of the HTML does not have.
//!
//! `H<b>e</b>llo` has the word `Hello` for a reader. An index that has the words of the HTML needs
//! that one too. It needs no other word of the text between two tags: those are in the HTML as they
//! are. So most of a text is only looked through for its first and last gap.

use crate::html::{Layout, Tag, is_unseen, is_within_word, push_seen};

/// Bytes of a word that are kept until its end.
const KEPT_MAX: usize = 1024;

/// Collects words that are joined across tags, entities and comments.
#[derive(Debug, Default)]
pub(crate) struct JoinedWords {
    /// Words that wait to be taken, with blanks between them.
    words: String,
    /// The word that has not ended: all characters since the last gap in ASCII.
    word: String,
    /// Whether it has more than one piece, or its beginning is among the words already.
    is_joined: bool,
}

impl JoinedWords {
    /// Moves the words so far.
    pub(crate) fn take(&mut self, into: &mut String) {
        into.push_str(&self.words);
        self.words.clear();
    }

    /// The HTML ends: moves the last words.
    pub(crate) fn finish(&mut self, into: &mut String) {
        self.end_word();
        self.take(into);
    }

    fn append(&mut self, piece: &str) {
        self.is_joined |= !(self.word.is_empty() || piece.is_empty());
        self.word.push_str(piece);
        if self.word.len() > KEPT_MAX {
            self.is_joined = true;
            self.words.push_str(&self.word);
            self.word.clear();
        }
    }

    fn end_word(&mut self) {
        if self.is_joined {
            self.words.push_str(&self.word);
            self.words.push(' ');
        }
        self.word.clear();
        self.is_joined = false;
    }
}

/// Whether a byte separates words in the HTML as well as in the text.
fn is_gap(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

impl Layout for JoinedWords {
    fn text(&mut self, text: &str) {
        if !text.is_ascii() && text.contains(is_unseen) {
            // Any of its words may be new.
            self.is_joined = true;
            push_seen(text, &mut self.word);
            return self.append("");
        }
        let Some((head, rest)) = text.split_once(|c: char| c.is_ascii() && is_gap(c as u8)) else {
            return self.append(text);
        };
        self.append(head);
        self.end_word();
        let last = rest.bytes().rposition(is_gap).map_or(0, |at| at + 1);
        self.append(rest.get(last..).unwrap_or_default());
    }

    fn entity(&mut self, character: &str) {
        match character {
            // A space that does not break lines is folded to a blank.
            "\u{a0}" => self.end_word(),
            _ => {
                self.text(character);
                // The HTML has its name instead.
                self.is_joined |= !self.word.is_empty();
            }
        }
    }

    fn tag(&mut self, name: &str, _: Tag) {
        if !is_within_word(name) {
            self.end_word();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::Rendering;

    fn joined(html: &str) -> String {
        let (mut rendering, mut joined, mut words) =
            (Rendering::default(), JoinedWords::default(), String::new());
        rendering.push(html, &mut joined);
        rendering.finish(&mut joined);
        joined.finish(&mut words);
        words
    }

    #[test]
    fn only_words_that_html_does_not_have_are_taken() {
        for (html, words) in [
            ("<p>one two</p><p>three</p>", ""),
            ("say H<b>e</b>llo, all", "Hello "),
            ("a <b>bold</b> word", ""),
            ("f&uuml;r sie &amp; ihn&nbsp;da", "für "),
            ("x<!-- c -->y z", "xy "),
            ("Do\u{ad}nau fährt", "Donau fährt "),
            ("Do&shy;nau", "Donau "),
            ("<span>日本</span>語", "日本語 "),
            ("&auml; x", "ä "),
            ("end<i>", ""),
        ] {
            assert_eq!(joined(html), words, "{html}");
        }
    }

    #[test]
    fn a_long_word_is_not_kept() {
        let long = "x<b></b>".repeat(100_000);
        assert_eq!(joined(&long), "x".repeat(100_000) + " ");
    }
}
