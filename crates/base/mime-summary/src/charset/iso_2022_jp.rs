//! ISO-2022-JP-1 and -2 (RFC 2237, RFC 1554): ISO-2022-JP with JIS X 0212, and -2 also with
//! GB 2312, KS C 5601 and the upper halves of ISO 8859-1 and -7.
//!
//! An escape sequence says to which set the bytes after it belong. The tables are those of
//! `encoding_rs`, which has the sets of two bytes in their eight-bit forms.

use encoding_rs::{EUC_JP, EUC_KR, Encoding, GBK, ISO_8859_7};

/// The byte before a character of JIS X 0212 in EUC-JP.
const EUC_JIS_X_0212: u8 = 0x8f;

const ESCAPE: u8 = 0x1b;

/// The set of the bytes 33 to 126.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Ascii,
    /// JIS X 0201: ASCII with a yen sign and an overline.
    Roman,
    /// JIS X 0201, half-width katakana.
    Katakana,
    JisX0208,
    JisX0212,
    Gb2312,
    KsC5601,
}

/// The characters that `ESC N` takes: those of the bytes from 160 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upper {
    Latin,
    Greek,
}

/// The effect of an escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Set(Set),
    Upper(Upper),
    /// One character of the upper half.
    Single(u8),
}

/// RFC 1554, "Formal Syntax" and the table before it; RFC 2237 has some of them.
const DESIGNATIONS: [(&[u8], Escape); 11] = [
    (b"\x1b(B", Escape::Set(Set::Ascii)),
    (b"\x1b(J", Escape::Set(Set::Roman)),
    (b"\x1b(I", Escape::Set(Set::Katakana)),
    (b"\x1b$@", Escape::Set(Set::JisX0208)),
    (b"\x1b$B", Escape::Set(Set::JisX0208)),
    (b"\x1b$(D", Escape::Set(Set::JisX0212)),
    (b"\x1b$A", Escape::Set(Set::Gb2312)),
    // Not in RFC 1554, but Python writes it.
    (b"\x1b$(A", Escape::Set(Set::Gb2312)),
    (b"\x1b$(C", Escape::Set(Set::KsC5601)),
    (b"\x1b.A", Escape::Upper(Upper::Latin)),
    (b"\x1b.F", Escape::Upper(Upper::Greek)),
];

impl Escape {
    /// The escape sequence at the beginning of these bytes, and the bytes after it.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        if let [ESCAPE, b'N', byte @ 0x20..=0x7f, rest @ ..] = bytes {
            return Some((Self::Single(*byte), rest));
        }
        DESIGNATIONS.iter().find_map(|(sequence, escape)| Some((*escape, bytes.strip_prefix(*sequence)?)))
    }
}

impl Upper {
    fn character(self, byte: u8) -> Option<char> {
        let byte = byte | 0x80;
        match self {
            Self::Latin => Some(char::from(byte)),
            Self::Greek => {
                ISO_8859_7.decode_without_bom_handling_and_without_replacement(&[byte])?.chars().next()
            }
        }
    }
}

impl Set {
    /// Appends the text of bytes between 33 and 126.
    fn decode(self, run: &[u8], text: &mut String) {
        match self {
            Self::Ascii => text.extend(run.iter().copied().map(char::from)),
            Self::Roman => text.extend(run.iter().map(|byte| match byte {
                b'\\' => '¥',
                b'~' => '‾',
                other => char::from(*other),
            })),
            Self::Katakana => text.extend(run.iter().map(|byte| match byte {
                0x21..=0x5f => char::from_u32(0xff40 + u32::from(*byte)).unwrap_or_default(),
                _ => char::REPLACEMENT_CHARACTER,
            })),
            Self::JisX0208 => pairs(EUC_JP, &[], run, text),
            Self::JisX0212 => pairs(EUC_JP, &[EUC_JIS_X_0212], run, text),
            Self::Gb2312 => pairs(GBK, &[], run, text),
            Self::KsC5601 => pairs(EUC_KR, &[], run, text),
        }
    }
}

/// Appends the text of pairs of bytes, with `before` before each pair in the eight-bit form.
fn pairs(charset: &'static Encoding, before: &[u8], run: &[u8], text: &mut String) {
    let mut eight_bit = Vec::with_capacity(run.len() + run.len().div_ceil(2) * before.len());
    for pair in run.chunks(2) {
        eight_bit.extend_from_slice(before);
        eight_bit.extend(pair.iter().map(|byte| byte | 0x80));
    }
    text.push_str(&charset.decode_without_bom_handling(&eight_bit).0);
}

/// Bytes of ISO-2022-JP-2 as text.
pub(super) fn decode(bytes: &[u8]) -> String {
    let is_of_set = |byte: &u8| (0x21..=0x7e).contains(byte);
    let (mut text, mut rest) = (String::with_capacity(bytes.len()), bytes);
    let (mut set, mut upper) = (Set::Ascii, None::<Upper>);
    while let Some((&byte, after)) = rest.split_first() {
        if let Some((escape, after)) = Escape::read(rest) {
            match escape {
                Escape::Set(new) => set = new,
                Escape::Upper(new) => upper = Some(new),
                Escape::Single(byte) => {
                    let character = upper.and_then(|upper| upper.character(byte));
                    text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
            }
            rest = after;
        } else if is_of_set(&byte) {
            let until = rest.iter().position(|byte| !is_of_set(byte)).unwrap_or(rest.len());
            let (run, after) = rest.split_at(until);
            set.decode(run, &mut text);
            rest = after;
        } else {
            // RFC 1554: the upper half is designated again in each line.
            upper = upper.filter(|_| byte != b'\n');
            let is_text = byte.is_ascii() && byte != ESCAPE;
            text.push(if is_text { char::from(byte) } else { char::REPLACEMENT_CHARACTER });
            rest = after;
        }
    }
    text
}

/// The escape sequence of the set at the end of these bytes. `None` if it is ASCII.
pub(super) fn set_at_end(bytes: &[u8]) -> Option<&'static [u8]> {
    let escapes = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == ESCAPE);
    escapes
        .filter_map(|(at, _)| {
            let bytes = bytes.get(at..)?;
            DESIGNATIONS.iter().find(|(sequence, _)| bytes.starts_with(sequence))
        })
        .find(|(_, escape)| matches!(escape, Escape::Set(_)))
        .filter(|(_, escape)| *escape != Escape::Set(Set::Ascii))
        .map(|(sequence, _)| *sequence)
}

#[cfg(test)]
mod tests {
    use crate::charset::decode_bytes;

    #[test]
    fn each_set_has_its_escape_sequence() {
        for (label, bytes, text) in [
            ("iso-2022-jp-1", &b"\x1b$(D0!\x1b(B"[..], "丂"),
            ("iso-2022-jp-2", b"\x1b$(D0!0H\x1b(Ba", "丂仡a"),
            ("iso-2022-jp-2", b"\x1b$A::So\x1b(B", "汉语"),
            ("csISO2022JP2", b"\x1b$(CGQ1[\x1b(B b", "한글 b"),
            ("iso-2022-jp-2", b"\x1b$BF|\x1b.A\x1bNiK\\\x1b(B", "日é本"),
            ("iso-2022-jp-2", b"\x1b.F\x1bNE\x1bNk\x1bNk", "Ελλ"),
            ("iso-2022-jp-2", b"\x1b.A\x1bNi\n\x1bNi", "é\n\u{fffd}"),
            ("iso-2022-jp-2", b"\x1b(J\\a\x1b(I1\x1b(B\\\x1bx\xff", "¥aｱ\\\u{fffd}x\u{fffd}"),
        ] {
            assert_eq!(decode_bytes(label.as_bytes(), bytes), text, "{label}");
        }
    }

    /// A writer that does not return to ASCII at the end of a line.
    #[test]
    fn the_set_at_the_end_of_a_piece_is_the_last_one() {
        assert_eq!(super::set_at_end(b"\x1b$BF|\x1b$(D0!\x1b.A\n"), Some(&b"\x1b$(D"[..]));
        assert_eq!(super::set_at_end(b"\x1b$BF|\x1b(B\n"), None);
        assert_eq!(super::set_at_end(b"abc"), None);
    }
}
