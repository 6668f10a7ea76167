//! Character classes of RFC 9051 §9.

const ATOM: u8 = 1;
const ASTRING: u8 = 2;
const TAG: u8 = 4;
const WORD: u8 = 8;

/// One byte of class bits for each byte value.
const CLASS: [u8; 256] = {
    let mut class = [0u8; 256];
    let mut b = 0x21;
    while b < 0x7f {
        // atom-specials: ( ) { SP CTL list-wildcards quoted-specials resp-specials
        class[b] = match b as u8 {
            b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\' => 0,
            b']' => ASTRING | TAG,
            b'+' => ATOM | ASTRING,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => ATOM | ASTRING | TAG | WORD,
            _ => ATOM | ASTRING | TAG,
        };
        b += 1;
    }
    class
};

/// `ATOM-CHAR`
pub(crate) fn is_atom_char(b: u8) -> bool {
    CLASS[b as usize] & ATOM != 0
}
/// `ASTRING-CHAR`
pub(crate) fn is_astring_char(b: u8) -> bool {
    CLASS[b as usize] & ASTRING != 0
}
/// A character of a tag: `ASTRING-CHAR` without `+`.
pub(crate) fn is_tag_char(b: u8) -> bool {
    CLASS[b as usize] & TAG != 0
}
/// A character of the grammar's own words: letters, digits, `.` and `-`.
pub(crate) fn is_word_char(b: u8) -> bool {
    CLASS[b as usize] & WORD != 0
}
