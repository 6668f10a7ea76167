//! Folds text, so that texts that should match are equal: for BODY, TEXT and the index.
//!
//! It is wider than i;unicode-casemap (RFC 5051), which is in `casemap`. Text is decomposed for
//! compatibility (NFKD). Each character is mapped to upper and then to lower case, so that ß is ss
//! and both small sigmas are one. The result is decomposed again. White space of any length, line
//! ends included, is one space, so that a phrase is found across a line break. Keys and texts are
//! folded by the same function; a substring is then looked for byte by byte.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

use crate::in_bounds::InBounds;

/// An ASCII character folded: lower case, and any white space a space. Without a branch, so that
/// many are folded at once.
const fn fold_byte(byte: u8) -> u8 {
    let is_space = matches!(byte, b'\t' | b'\r' | b'\n') as u8;
    let lower = byte | (byte.is_ascii_uppercase() as u8) << 5;
    is_space * b' ' + (1 - is_space) * lower
}

/// How many bytes at the beginning are ASCII.
fn ascii_len(bytes: &[u8]) -> usize {
    const STEP: usize = 32;
    let whole = bytes.as_chunks::<STEP>().0.iter().take_while(|chunk| chunk.is_ascii()).count() * STEP;
    let rest = bytes.in_bounds(whole..);
    whole + rest.iter().position(|b| !b.is_ascii()).unwrap_or(rest.len())
}

/// Folds text that comes in pieces: remembers whether the last character was white space.
#[derive(Debug, Clone, Default)]
pub struct Folder {
    in_space: bool,
}

impl Folder {
    /// A folder that drops white space at the very beginning.
    pub fn trimming() -> Self {
        Folder { in_space: true }
    }

    /// Appends folded `text` to `into`. Pieces should end at ASCII characters: marks are ordered
    /// within a piece.
    pub fn fold(&mut self, text: &str, into: &mut Vec<u8>) {
        into.reserve(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let (plain, tail) = rest.split_at_checked(ascii_len(rest.as_bytes())).unwrap_or((rest, ""));
            self.fold_ascii(plain.as_bytes(), into);
            let other = tail.bytes().position(|b| b.is_ascii()).unwrap_or(tail.len());
            let (foreign, tail) = tail.split_at_checked(other).unwrap_or((tail, ""));
            self.fold_foreign(foreign, into);
            rest = tail;
        }
    }

    /// Several at once, unless white space follows white space among them.
    fn fold_ascii(&mut self, bytes: &[u8], into: &mut Vec<u8>) {
        const STEP: usize = 16;
        let (chunks, rest) = bytes.as_chunks::<STEP>();
        for chunk in chunks {
            let folded = chunk.map(fold_byte);
            let mut before = [if self.in_space { b' ' } else { 0 }; STEP];
            before[1..].copy_from_slice(&folded[..STEP - 1]);
            let is_double = |(a, b): (&u8, &u8)| u8::from(*a == b' ') & u8::from(*b == b' ');
            if folded.iter().zip(&before).map(is_double).fold(0, |all, one| all | one) == 0 {
                into.extend_from_slice(&folded);
                self.in_space = folded[STEP - 1] == b' ';
            } else {
                self.squeeze(&folded, into);
            }
        }
        for byte in rest {
            self.squeeze(&[fold_byte(*byte)], into);
        }
    }

    /// Appends folded ASCII without white space after white space.
    fn squeeze(&mut self, folded: &[u8], into: &mut Vec<u8>) {
        for &byte in folded {
            let is_space = byte == b' ';
            if !(is_space && self.in_space) {
                into.push(byte);
            }
            self.in_space = is_space;
        }
    }

    /// Characters beyond ASCII: one by one from the tables, as long as there is no mark among
    /// them.
    fn fold_foreign(&mut self, text: &str, into: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let after = rest.in_bounds(c.len_utf8()..);
            // A mark that follows is ordered together with those of this character.
            let stands_alone = after.chars().next().is_none_or(|next| lookup(next).is_some());
            match lookup(c).filter(|_| stands_alone) {
                Some(Folded::Itself) => {
                    into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.in_space = false;
                }
                Some(Folded::Space) => self.fold_ascii(b" ", into),
                Some(Folded::Short(bytes)) => {
                    into.extend_from_slice(bytes);
                    self.in_space = false;
                }
                None => {
                    let len = marked_len(rest);
                    let (marked, tail) = rest.split_at_checked(len).unwrap_or((rest, ""));
                    self.fold_marked(marked, into);
                    rest = tail;
                    continue;
                }
            }
            rest = after;
        }
    }

    /// The definition of folding, for any text.
    fn fold_marked(&mut self, text: &str, into: &mut Vec<u8>) {
        let mut utf8 = [0; 4];
        for c in fold_chars(text.chars()) {
            // No-break and other spaces become plain ones by decomposition.
            if c == ' ' {
                self.fold_ascii(b" ", into);
            } else {
                self.in_space = false;
                into.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
}

fn fold_chars(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    text.nfkd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkd()
}

/// Length of the beginning of `text` that has to be folded together. It reaches up to the last
/// character that is in the tables and has another one of them after it.
fn marked_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let is_next_plain = chars.peek().is_none_or(|(_, next)| lookup(*next).is_some());
        if lookup(c).is_some() && is_next_plain {
            return at;
        }
    }
    text.len()
}

/// The folded form of one character, where no mark is near.
enum Folded {
    Itself,
    Space,
    Short(&'static [u8]),
}

/// First character that is not in the table. The table has Latin, Greek, Cyrillic, Hebrew, Arabic,
/// the scripts of India and the punctuation of all of them.
const TABLE_END: u32 = 0x3000;

/// Longest folded character in the table; longer ones are not in it.
const SHORT_LEN_MAX: usize = 7;

/// For each character below [`TABLE_END`]: its folded bytes, and how many they are; 0 for a mark,
/// or one that may change with its neighbours. 96 KiB, made at the first need.
static TABLE: LazyLock<Vec<[u8; SHORT_LEN_MAX + 1]>> =
    LazyLock::new(|| (0..TABLE_END).map(table_entry).collect());

fn table_entry(code: u32) -> [u8; SHORT_LEN_MAX + 1] {
    let mut entry = [0; SHORT_LEN_MAX + 1];
    let Some(c) = char::from_u32(code) else { return entry };
    let folded: String = fold_chars(std::iter::once(c)).collect();
    let begins_with_starter =
        folded.chars().next().is_some_and(|first| canonical_combining_class(first) == 0);
    let has_space = folded.contains(' ') && folded != " ";
    if canonical_combining_class(c) == 0 && begins_with_starter && !has_space && folded.len() <= SHORT_LEN_MAX
    {
        if let Some(place) = entry.get_mut(1..=folded.len()) {
            place.copy_from_slice(folded.as_bytes());
        }
        entry[0] = folded.len() as u8;
    }
    entry
}

fn lookup(c: char) -> Option<Folded> {
    let code = u32::from(c);
    match code {
        // CJK ideographs have neither case nor decomposition.
        0x3400..0x4DC0 | 0x4E00..0xA000 => return Some(Folded::Itself),
        _ => {}
    }
    let entry = TABLE.get(code as usize)?;
    match entry.get(1..=entry[0] as usize)? {
        [] => None,
        b" " => Some(Folded::Space),
        bytes => Some(Folded::Short(bytes)),
    }
}

/// Appends folded `text` to `into`, without white space at the beginning.
pub fn fold_into(text: &str, into: &mut Vec<u8>) {
    Folder::trimming().fold(text, into);
}

/// `text` folded, white space at both ends as one space each: for a search key.
pub fn folded(text: &str) -> Vec<u8> {
    let mut made = Vec::new();
    Folder::default().fold(text, &mut made);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_is_equal() {
        for (a, b) in [
            ("Hello World", "hELLO\r\n  world"),
            ("GRÜSSE", "grüße"),
            ("ΟΔΟΣ", "οδος"),
            ("cafe\u{301}", "CAFÉ"),
            ("ﬁne", "FINE"),
            ("a\u{a0}b", "A B"),
        ] {
            assert_eq!(folded(a), folded(b), "{a} {b}");
        }
        assert_ne!(folded("a"), folded("ä"));
        assert_eq!(folded(" x "), b" x ");
        let mut made = Vec::new();
        fold_into("  x\t\ty ", &mut made);
        assert_eq!(made, b"x y ");
    }

    #[test]
    fn tables_say_what_the_definition_says() {
        let chars: Vec<char> =
            ('\u{80}'..'\u{3200}').chain('\u{4dbe}'..'\u{4e02}').chain('\u{9ffe}'..'\u{a002}').collect();
        let marks = [
            "",
            "\u{301}",
            "\u{323}\u{307}",
            "\u{345}",
            "\u{5d0}",
            "\u{430}",
            "\u{a0}",
            "\u{1100}\u{1161}",
            "漢",
        ];
        for c in chars {
            for mark in marks {
                for text in [format!("{c}{mark}"), format!("{mark}{c}{mark}"), format!("й{c}")] {
                    let (mut fast, mut slow) = (Vec::new(), Vec::new());
                    Folder::default().fold(&text, &mut fast);
                    Folder::default().fold_marked(&text, &mut slow);
                    assert_eq!(fast, slow, "{text} {:x}", u32::from(c));
                }
            }
        }
    }
}
