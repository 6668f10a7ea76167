//! Folds text, so that texts that should match are equal: for BODY, TEXT and the index.
//!
//! It is wider than i;unicode-casemap (RFC 5051), which is in `casemap`. Each character
//! is decomposed for compatibility, and mapped to upper and then to lower case. So ß is ss, and
//! both small sigmas are one. The result is decomposed again. Marks keep their order, as in RFC
//! 5051 §2. So each exact match is a folded one, too. White space of any length, line ends
//! included, is one space, so that a phrase is found across a line break. Keys and texts are folded
//! by the same function; a substring is then looked for byte by byte.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};

use crate::in_bounds::InBounds;

/// An ASCII character folded: lower case, and any white space a space. Without a branch, so that
/// many are folded at once.
const fn fold_byte(byte: u8) -> u8 {
    let is_space = matches!(byte, b'\t' | b'\r' | b'\n') as u8;
    let lower = byte | (byte.is_ascii_uppercase() as u8) << 5;
    is_space * b' ' + (1 - is_space) * lower
}

/// The number of bytes at the beginning that are ASCII.
fn ascii_len(bytes: &[u8]) -> usize {
    const STEP: usize = 32;
    let whole = bytes.as_chunks::<STEP>().0.iter().take_while(|chunk| chunk.is_ascii()).count() * STEP;
    let rest = bytes.in_bounds(whole..);
    match rest.is_ascii() {
        true => bytes.len(),
        false => whole + rest.iter().position(|b| !b.is_ascii()).unwrap_or(rest.len()),
    }
}

/// Bytes of ASCII that are folded at once.
const STEP: usize = 16;

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

    /// Appends folded `text` to `into`. Pieces may end after any character.
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

    /// Several at once, with zeros after the last ones.
    fn fold_ascii(&mut self, bytes: &[u8], into: &mut Vec<u8>) {
        let (chunks, rest) = bytes.as_chunks();
        chunks.iter().for_each(|chunk| self.fold_step(chunk, STEP, into));
        if !rest.is_empty() {
            let mut last = [0; STEP];
            last[..rest.len()].copy_from_slice(rest);
            self.fold_step(&last, rest.len(), into);
        }
    }

    /// Appends the first `len` of these bytes.
    #[inline]
    fn fold_step(&mut self, bytes: &[u8; STEP], len: usize, into: &mut Vec<u8>) {
        const UPPER_BITS: u128 = u128::from_ne_bytes([0x80; STEP]);
        let folded = bytes.map(fold_byte);
        let others = u128::from_le_bytes(folded) ^ u128::from_ne_bytes([b' '; STEP]);
        // The upper bit of each byte that is white space. No byte of ASCII has that bit.
        let spaces = !(others + !UPPER_BITS) & UPPER_BITS;
        let doubles = spaces & (spaces << 8 | u128::from(self.in_space) << 7);
        let start = into.len();
        into.extend_from_slice(&folded);
        into.truncate(start + len);
        if doubles.is_power_of_two() {
            // The end of a line: CR LF.
            into.remove(start + doubles.trailing_zeros() as usize / 8);
        } else if doubles != 0 {
            into.truncate(start);
            let is_double = |at: usize| doubles >> (8 * at + 7) & 1 == 1;
            into.extend((0..len).filter(|at| !is_double(*at)).map(|at| folded[at]));
        }
        self.in_space = folded[len - 1] == b' ';
    }

    /// Characters beyond ASCII: from the table, if they are in it.
    fn fold_foreign(&mut self, text: &str, into: &mut Vec<u8>) {
        for c in text.chars() {
            match lookup(c) {
                Some(Folded::Itself) => {
                    into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.in_space = false;
                }
                Some(Folded::Space) => self.fold_ascii(b" ", into),
                Some(Folded::Short(bytes)) => {
                    into.extend_from_slice(bytes);
                    self.in_space = false;
                }
                None => self.fold_defined(c, into),
            }
        }
    }

    /// The definition of folding, for any character.
    fn fold_defined(&mut self, c: char, into: &mut Vec<u8>) {
        let mut utf8 = [0; 4];
        fold_char(c, &mut |part| {
            // No-break and other spaces become plain ones by decomposition.
            if part == ' ' {
                self.fold_ascii(b" ", into);
            } else {
                self.in_space = false;
                into.extend_from_slice(part.encode_utf8(&mut utf8).as_bytes());
            }
        });
    }
}

/// Gives the characters that one character becomes.
fn fold_char(c: char, emit: &mut impl FnMut(char)) {
    decompose_compatible(c, |part| {
        for small in part.to_uppercase().flat_map(char::to_lowercase) {
            decompose_compatible(small, &mut *emit);
        }
    });
}

/// The folded form of one character.
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

/// For each character below [`TABLE_END`]: its folded bytes, and how many they are; 0 for a long
/// one, and for one that has a space and more. 96 KiB, made at the first need.
static TABLE: LazyLock<Vec<[u8; SHORT_LEN_MAX + 1]>> =
    LazyLock::new(|| (0..TABLE_END).map(table_entry).collect());

fn table_entry(code: u32) -> [u8; SHORT_LEN_MAX + 1] {
    let mut entry = [0; SHORT_LEN_MAX + 1];
    let Some(c) = char::from_u32(code) else { return entry };
    let mut folded = String::new();
    fold_char(c, &mut |part| folded.push(part));
    let has_space = folded.contains(' ') && folded != " ";
    if !has_space && folded.len() <= SHORT_LEN_MAX {
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

/// Whether marks are among the characters that `text` is decomposed to.
pub(crate) fn has_marks(text: &str) -> bool {
    !text.is_ascii() && text.nfkd().any(is_mark)
}

/// A mark: its place among others of its character has no meaning, if they are of other classes.
fn is_mark(c: char) -> bool {
    canonical_combining_class(c) != 0
}

/// The same text with the marks of each character in other orders: the one of Unicode's
/// decomposition (UAX 15), and the one in which Windows-1258 writes Vietnamese. There a dot below
/// comes after the mark that is part of the letter. Empty if no character has two marks.
pub(crate) fn spellings(text: &str) -> Vec<String> {
    /// The class of marks below a character, and the one of marks above it.
    const BELOW: u8 = 220;
    const ABOVE: u8 = 230;
    if !has_marks(text) {
        return Vec::new();
    }
    let canonical: String = text.nfkd().collect();
    let mut characters: Vec<char> = canonical.chars().collect();
    for marks in characters.chunk_by_mut(|a, b| is_mark(*a) && is_mark(*b)) {
        marks.sort_by_key(|mark| match canonical_combining_class(*mark) {
            BELOW => ABOVE + 1,
            class => class,
        });
    }
    vec![canonical, characters.into_iter().collect()]
}

/// The longest part of `text` that has no mark, when it is decomposed. It stays as it is in each
/// spelling of the text.
pub(crate) fn unmarked(text: &str) -> String {
    let decomposed: String = text.nfkd().collect();
    decomposed.split(is_mark).max_by_key(|part| part.len()).unwrap_or_default().to_owned()
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

    /// RFC 5051 §2 has no order of marks.
    #[test]
    fn marks_keep_their_order() {
        for (text, expected) in [
            ("e\u{302}\u{323}", "e\u{302}\u{323}"),
            ("\u{ea}\u{323}", "e\u{302}\u{323}"),
            ("\u{1eb9}\u{302}", "e\u{323}\u{302}"),
            ("\u{1ec7}", "e\u{323}\u{302}"),
            ("\u{3b1}\u{345}\u{323}", "\u{3b1}\u{3b9}\u{323}"),
        ] {
            assert_eq!(String::from_utf8(folded(text)).unwrap(), expected, "{text}");
        }
        assert!(spellings("m\u{fc}ller").iter().all(|spelling| folded(spelling) == folded("m\u{fc}ller")));
        assert_eq!(spellings("Vi\u{1ec7}t"), ["Vie\u{323}\u{302}t", "Vie\u{302}\u{323}t"]);
        assert_eq!(spellings("\u{1a1}\u{323}"), ["o\u{31b}\u{323}"; 2]);
        assert!(spellings("viet").is_empty());
        assert_eq!(unmarked("Vi\u{1ec7}t Nam"), "t Nam");
    }

    #[test]
    fn tables_say_what_the_definition_says() {
        let chars: Vec<char> =
            ('\u{80}'..'\u{3200}').chain('\u{4dbe}'..'\u{4e02}').chain('\u{9ffe}'..'\u{a002}').collect();
        let marks = ["", "\u{301}", "\u{323}\u{307}", "\u{345}", "\u{a0}", "\u{1100}\u{1161}", "漢"];
        for c in chars {
            for mark in marks {
                for text in [format!("{c}{mark}"), format!("{mark}{c}{mark}"), format!("й{c}")] {
                    let (mut fast, mut slow) = (Vec::new(), Vec::new());
                    Folder::default().fold(&text, &mut fast);
                    let mut folder = Folder::default();
                    text.chars().for_each(|c| folder.fold_defined(c, &mut slow));
                    assert_eq!(fast, slow, "{text} {:x}", u32::from(c));
                }
            }
        }
    }
}
