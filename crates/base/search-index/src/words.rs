//! Splits folded text into words.
//!
//! A word is a run of letters and digits: ASCII ones, and all bytes of other characters. Scripts
//! without spaces between words (Chinese, Japanese, Thai …) become pairs of neighbouring
//! characters. A word over 47 bytes becomes chunks of 47 bytes. Each chunk repeats the last 15
//! bytes of the one before. So a piece of 16 bytes or fewer is whole in one of them.
//!
//! Invariants: where a piece of a text begins or ends does not change its words.

use crate::word_set::Word;

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

/// The number of letters and digits of ASCII at the beginning of eight bytes; the highest byte is
/// the first. All are compared together: each byte has an upper bit for the result.
#[inline]
fn ascii_word_len(eight: u64) -> usize {
    const fn each(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // Without their upper bits, no byte carries into the next one.
    let low = eight & each(0x7F);
    let within =
        |bytes: u64, first: u8, last: u8| (bytes + each(0x80 - first)) & !(bytes + each(0x7F - last));
    let letters = within(low | each(0x20), b'a', b'z');
    let plain = (letters | within(low, b'0', b'9')) & !eight & each(0x80);
    (plain ^ each(0x80)).leading_zeros() as usize / 8
}

/// Gives the words at the beginning of a text, as long as it is ASCII and goes on for eight bytes.
/// Returns where it stopped: at the beginning of a word, or between words.
#[inline]
fn ascii_words(text: &[u8], sink: &mut impl WordSink) -> usize {
    // The word under way begins at `at`, and `len` bytes of it were read.
    let (mut at, mut len, mut first) = (0, 0, 0);
    while let Some(eight) = text.get(at + len..).and_then(|rest| rest.first_chunk()) {
        let eight = u64::from_be_bytes(*eight);
        if len == 0 {
            first = eight;
        }
        let more = ascii_word_len(eight);
        len += more;
        if len > WORD_MAX {
            break;
        }
        if more == 8 {
            continue;
        }
        let is_ascii = (eight << (8 * more)) >> 63 == 0;
        if !is_ascii {
            break;
        }
        if let Some(word) = text.get(at..at + len).filter(|word| !word.is_empty()) {
            sink.word(Word::at_start_of(first, word));
        }
        (at, len) = (at + len + 1, 0);
    }
    at
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

/// Takes words.
pub(crate) trait WordSink {
    /// Takes a word, which may have been given before.
    fn word(&mut self, word: Word<'_>);
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
    pub(crate) fn add(&mut self, text: &[u8], sink: &mut impl WordSink) {
        let mut at = 0;
        while at < text.len() {
            if self.word.is_empty() && self.last.is_empty() {
                at += ascii_words(&text[at..], sink);
            }
            match class(text, at) {
                Class::Gap => {
                    self.end(sink);
                    at += 1;
                }
                Class::Plain => {
                    self.end_dense(sink);
                    let run = &text[at..at + plain_len(&text[at..])];
                    at += run.len();
                    if self.word.is_empty() && at < text.len() && run.len() <= WORD_MAX {
                        sink.word(Word::new(run));
                    } else {
                        self.add_to_word(run, sink);
                    }
                }
                Class::Dense(len) => {
                    self.end_plain(sink);
                    let character = &text[at..at + len];
                    if !self.last.is_empty() {
                        self.last.extend_from_slice(character);
                        sink.word(Word::new(&self.last));
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
    pub(crate) fn end(&mut self, sink: &mut impl WordSink) {
        self.end_plain(sink);
        self.end_dense(sink);
    }

    fn add_to_word(&mut self, run: &[u8], sink: &mut impl WordSink) {
        for step in run.chunks(STEP) {
            self.word.extend_from_slice(step);
            // While another whole chunk follows.
            while self.word.len() >= WORD_MAX + STRIDE {
                sink.word(Word::new(&self.word[..WORD_MAX]));
                self.word.drain(..STRIDE);
            }
        }
    }

    fn end_plain(&mut self, sink: &mut impl WordSink) {
        let mut rest = self.word.as_slice();
        while rest.len() > WORD_MAX {
            sink.word(Word::new(&rest[..WORD_MAX]));
            rest = &rest[STRIDE..];
        }
        if !rest.is_empty() {
            sink.word(Word::new(rest));
        }
        self.word.clear();
    }

    fn end_dense(&mut self, sink: &mut impl WordSink) {
        if !self.last.is_empty() && !self.is_paired {
            sink.word(Word::new(&self.last));
        }
        self.last.clear();
        self.is_paired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WordSink for Vec<String> {
        fn word(&mut self, word: Word<'_>) {
            self.push(String::from_utf8(word.bytes().to_vec()).unwrap());
        }
    }

    fn split(pieces: &[&str]) -> Vec<String> {
        let (mut splitter, mut words) = (Splitter::default(), Vec::new());
        pieces.iter().for_each(|piece| splitter.add(piece.as_bytes(), &mut words));
        splitter.end(&mut words);
        words
    }

    #[test]
    fn eight_bytes_are_classed_as_each_of_them_is() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                let mut eight = *b"aZ09zA5m";
                eight[place] = byte;
                let expected = if byte.is_ascii_alphanumeric() { 8 } else { place };
                assert_eq!(ascii_word_len(u64::from_be_bytes(eight)), expected, "{byte} at {place}");
            }
        }
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
