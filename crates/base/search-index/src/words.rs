//! Splits folded text into words.
//!
//! A word is a run of letters and digits: ASCII ones, and all bytes of other characters. Scripts
//! without spaces between words (Chinese, Japanese, Thai …) become pairs of neighbouring
//! characters. A word over 47 bytes becomes chunks of 47 bytes. Each chunk repeats the last 15
//! bytes of the one before. So a piece of 16 bytes or fewer is whole in one of them.
//!
//! Invariants: where a piece of a text begins or ends does not change its words.

/// Bytes of a word at most.
pub(crate) const WORD_MAX: usize = 47;

/// Bytes between the beginnings of two chunks of a long word.
const STRIDE: usize = 32;

/// Bytes that are whole in a chunk, wherever they begin.
pub(crate) const WHOLE_MAX: usize = WORD_MAX - STRIDE + 1;

/// Bytes that are added to a long word before whole chunks of it are emitted.
const STEP: usize = 256;

/// The class of a place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A separator of words.
    Gap,
    /// A byte of a word.
    Plain,
    /// A character of a script without spaces, of this many bytes.
    Dense(usize),
}

/// Bytes that are part of a word, whatever follows them: [`class`] says [`Class::Plain`].
static IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte, 0x80..=0xDF | 0xF5..);
        byte += 1;
    }
    table
};

/// The number of bytes at the beginning that are of class [`Class::Plain`].
#[inline]
fn plain_len(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len += text[len..].iter().take_while(|byte| IS_PLAIN[usize::from(**byte)]).count();
        if class(text, len) != Class::Plain {
            return len;
        }
        len += 1;
    }
}

/// The class of this place.
#[inline]
pub(crate) fn class(text: &[u8], at: usize) -> Class {
    let Some(&byte) = text.get(at) else { return Class::Gap };
    match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Class::Plain,
        0..=0x7F => Class::Gap,
        0xE0..=0xF4 => dense(byte, &text[at + 1..]),
        _ => Class::Plain,
    }
}

/// Thai and Lao, Myanmar, Khmer, and all from U+2E80 on.
fn dense(first: u8, rest: &[u8]) -> Class {
    let len = if first >= 0xF0 { 4 } else { 3 };
    let Some(more) = rest.get(..len - 1).filter(|more| more.iter().all(|b| matches!(b, 0x80..=0xBF))) else {
        return Class::Plain;
    };
    let second = more[0];
    let is_dense = match first {
        0xE0 => matches!(second, 0xB8..=0xBB),
        0xE1 => matches!(second, 0x80..=0x82 | 0x9E..=0x9F),
        0xE2 => second >= 0xBA,
        _ => true,
    };
    if is_dense { Class::Dense(len) } else { Class::Plain }
}

/// Splits one text after the other. A text may come in pieces, which end between characters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Splitter {
    /// The beginning of a word that may continue in the next piece.
    word: Vec<u8>,
    /// The last character, if it is of a script without spaces.
    last: Vec<u8>,
    /// Whether that character is in a pair already.
    is_paired: bool,
}

impl Splitter {
    /// Takes a piece of a text.
    pub(crate) fn add(&mut self, text: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let mut at = 0;
        while at < text.len() {
            match class(text, at) {
                Class::Gap => {
                    self.end(emit);
                    at += 1;
                }
                Class::Plain => {
                    self.end_dense(emit);
                    let run = &text[at..at + plain_len(&text[at..])];
                    at += run.len();
                    if self.word.is_empty() && at < text.len() && run.len() <= WORD_MAX {
                        emit(run);
                    } else {
                        self.add_to_word(run, emit);
                    }
                }
                Class::Dense(len) => {
                    self.end_plain(emit);
                    let character = &text[at..at + len];
                    if !self.last.is_empty() {
                        self.last.extend_from_slice(character);
                        emit(&self.last);
                        self.is_paired = true;
                    }
                    self.last.clear();
                    self.last.extend_from_slice(character);
                    at += len;
                }
            }
        }
    }

    /// The text ends.
    pub(crate) fn end(&mut self, emit: &mut dyn FnMut(&[u8])) {
        self.end_plain(emit);
        self.end_dense(emit);
    }

    fn add_to_word(&mut self, run: &[u8], emit: &mut dyn FnMut(&[u8])) {
        for step in run.chunks(STEP) {
            self.word.extend_from_slice(step);
            // While another whole chunk follows.
            while self.word.len() >= WORD_MAX + STRIDE {
                emit(&self.word[..WORD_MAX]);
                self.word.drain(..STRIDE);
            }
        }
    }

    fn end_plain(&mut self, emit: &mut dyn FnMut(&[u8])) {
        let mut rest = self.word.as_slice();
        while rest.len() > WORD_MAX {
            emit(&rest[..WORD_MAX]);
            rest = &rest[STRIDE..];
        }
        if !rest.is_empty() {
            emit(rest);
        }
        self.word.clear();
    }

    fn end_dense(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if !self.last.is_empty() && !self.is_paired {
            emit(&self.last);
        }
        self.last.clear();
        self.is_paired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Vec<String> {
        let (mut splitter, mut words) = (Splitter::default(), Vec::new());
        let mut emit = |word: &[u8]| words.push(String::from_utf8(word.to_vec()).unwrap());
        pieces.iter().for_each(|piece| splitter.add(piece.as_bytes(), &mut emit));
        splitter.end(&mut emit);
        words
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(
            split(&["re: müller@example.org, 2026-11"]),
            ["re", "müller", "example", "org", "2026", "11"]
        );
        assert_eq!(split(&["привет, wor", "ld"]), ["привет", "world"]);
        assert!(split(&["--", ""]).is_empty());
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(split(&["漢字", "文 x字y ก"]), ["漢字", "字文", "x", "字", "y", "ก"]);
    }

    #[test]
    fn long_words_become_chunks_that_overlap() {
        let long: String = (0..1000).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
        let whole = split(&[&long]);
        assert!(whole.iter().all(|word| word.len() <= WORD_MAX));
        assert_eq!(split(&[&long[..300], &long[300..301], &long[301..]]), whole);
        for at in 0..long.len() - WHOLE_MAX {
            assert!(whole.iter().any(|word| word.contains(&long[at..at + WHOLE_MAX])), "{at}");
        }
        assert_eq!(split(&[&long[..WORD_MAX]]), [&long[..WORD_MAX]]);
        assert_eq!(split(&[&long[..WORD_MAX + 1]]).len(), 2);
    }
}
