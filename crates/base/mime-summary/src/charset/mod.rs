//! Text of any charset as UTF-8: whole, or piece by piece.
//!
//! Tables are those of `encoding_rs`. Mail has further charsets. Some of them are `mail-parser`'s
//! (UTF-7 …), and some are in [`legacy`]. Nothing is refused. Text without a charset, or labelled
//! us-ascii, is read as UTF-8 if it is valid UTF-8, and as windows-1252 otherwise. An unknown
//! charset is read as UTF-8 with replacement characters.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, CoderResult, Decoder, EUC_KR, Encoding as Charset, GBK, MACINTOSH, SHIFT_JIS, UTF_8, UTF_16BE,
    UTF_16LE, WINDOWS_874, WINDOWS_1252,
};
use mail_parser::decoders::charsets::map::charset_decoder;

use crate::in_bounds::InBounds;

mod legacy;

/// Longest text in a charset that can only be decoded whole (UTF-7 …); the rest is not read.
const WHOLE_MAX: usize = 1024 * 1024;

/// Longest label that is looked up.
const LABEL_MAX: usize = 40;

/// The decoder that a charset's label names.
enum Named {
    /// None given, or us-ascii, whose bytes are often something else.
    Unsaid,
    Known(&'static Charset),
    /// One of `mail-parser`'s own.
    Other(fn(&[u8]) -> String),
}

fn named(label: &[u8]) -> Named {
    let label = label.trim_ascii();
    if label.is_empty() || label.eq_ignore_ascii_case(b"us-ascii") || label.eq_ignore_ascii_case(b"ascii") {
        return Named::Unsaid;
    }
    if let Some(charset) = Charset::for_label_no_replacement(label) {
        return Named::Known(charset);
    }
    // The tables are meant for labels in printable ASCII of a sane length.
    if label.len() > LABEL_MAX || !label.is_ascii() {
        return Named::Known(UTF_8);
    }
    by_alias(&label.to_ascii_lowercase())
        .unwrap_or_else(|| charset_decoder(label).map_or(Named::Known(UTF_8), Named::Other))
}

/// Charsets under names that mail programs use and the encoding standard does not have, and those
/// that it leaves out.
fn by_alias(label: &[u8]) -> Option<Named> {
    let prefixes = [&b"cp-"[..], b"cp", b"ibm-", b"ibm", b"x-cp", b"dos-", b"windows-", b"ms-", b"ms", b""];
    let number = prefixes.iter().find_map(|prefix| {
        label.strip_prefix(*prefix).filter(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
    });
    Some(match (label, number) {
        (_, Some(b"874")) => Named::Known(WINDOWS_874),
        (_, Some(b"932" | b"943")) => Named::Known(SHIFT_JIS),
        (_, Some(b"936")) | (b"euc-cn" | b"euccn", _) => Named::Known(GBK),
        (_, Some(b"949")) | (b"uhc" | b"x-windows-949", _) => Named::Known(EUC_KR),
        (_, Some(b"950")) => Named::Known(BIG5),
        (b"mac-roman" | b"macroman" | b"x-macroman", _) => Named::Known(MACINTOSH),
        (b"hz" | b"hz-gb-2312" | b"hz-gb2312", _) => Named::Other(legacy::hz),
        (b"iso-2022-kr" | b"csiso2022kr", _) => Named::Other(legacy::iso_2022_kr),
        (b"utf-32" | b"utf32" | b"ucs-4" | b"iso-10646-ucs-4", _) => Named::Other(legacy::utf_32),
        (b"utf-32be" | b"utf32be", _) => Named::Other(legacy::utf_32_be),
        (b"utf-32le" | b"utf32le", _) => Named::Other(legacy::utf_32_le),
        // `8859-1` without its first word.
        _ if label.starts_with(b"8859-") => {
            Named::Known(Charset::for_label_no_replacement(&[b"iso-", label].concat())?)
        }
        (_, Some(number)) => Named::Other(legacy::code_page(number)?),
        _ => return None,
    })
}

/// Whether text in this charset has states, so that each piece of it begins in the first one and
/// pieces cannot be put together.
pub(crate) fn has_states(label: &[u8]) -> bool {
    let label = label.trim_ascii();
    let begins =
        |with: &str| label.get(..with.len()).is_some_and(|l| l.eq_ignore_ascii_case(with.as_bytes()));
    ["iso-2022-", "csiso2022", "hz", "utf-7", "unicode-1-1-utf-7"].iter().any(|with| begins(with))
        || (["utf-16", "utf-32", "utf16", "utf32", "ucs-"].iter().any(|with| begins(with)))
}

/// The charset of these bytes: of UTF-16 the byte order mark says which (RFC 2781 §4.3).
fn with_byte_order(charset: &'static Charset, label: &[u8], bytes: &[u8]) -> (&'static Charset, usize) {
    if charset != UTF_16LE && charset != UTF_16BE {
        return (charset, 0);
    }
    let is_open = !label.trim_ascii().to_ascii_lowercase().ends_with(b"e");
    match bytes {
        [0xfe, 0xff, ..] if is_open || charset == UTF_16BE => (UTF_16BE, 2),
        [0xff, 0xfe, ..] if is_open || charset == UTF_16LE => (UTF_16LE, 2),
        _ => (charset, 0),
    }
}

/// `bytes` in the charset with this label as text; borrowed if they are UTF-8 already.
pub(crate) fn decode_bytes<'b>(label: &[u8], bytes: &'b [u8]) -> Cow<'b, str> {
    match named(label) {
        Named::Unsaid => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        },
        Named::Known(charset) => {
            let (charset, mark) = with_byte_order(charset, label, bytes);
            charset.decode_without_bom_handling(bytes.in_bounds(mark..)).0
        }
        Named::Other(decode) => Cow::Owned(decode(bytes.get(..WHOLE_MAX).unwrap_or(bytes))),
    }
}

/// Turns the content of one text part into UTF-8, piece by piece.
pub struct CharsetReader {
    state: State,
}

enum State {
    Streaming(Box<Decoder>),
    Whole(fn(&[u8]) -> String, Vec<u8>),
}

impl CharsetReader {
    /// For the charset with this label; `sample` is the first piece of the bytes, which decides if
    /// the label says nothing.
    pub fn new(label: &[u8], sample: &[u8]) -> Self {
        let charset = match named(label) {
            Named::Other(decode) => return CharsetReader { state: State::Whole(decode, Vec::new()) },
            // The mark itself is a space without width, which nobody looks for.
            Named::Known(charset) => with_byte_order(charset, label, sample).0,
            Named::Unsaid => match std::str::from_utf8(sample) {
                // A character cut by the end of the sample is no error.
                Err(error) if error.error_len().is_some() => WINDOWS_1252,
                _ => UTF_8,
            },
        };
        CharsetReader { state: State::Streaming(Box::new(charset.new_decoder_without_bom_handling())) }
    }

    /// Appends the text of the next bytes to `into`.
    pub fn read(&mut self, bytes: &[u8], into: &mut String) {
        match &mut self.state {
            State::Streaming(decoder) => stream(decoder, bytes, into, Piece::Next),
            State::Whole(_, kept) => {
                let room = WHOLE_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
        }
    }

    /// Appends the rest after the last bytes.
    pub fn finish(self, into: &mut String) {
        match self.state {
            State::Streaming(mut decoder) => stream(&mut decoder, b"", into, Piece::Last),
            State::Whole(decode, kept) => into.push_str(&decode(&kept)),
        }
    }
}

/// Whether more bytes of a text follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Next,
    Last,
}

fn stream(decoder: &mut Decoder, mut bytes: &[u8], into: &mut String, piece: Piece) {
    loop {
        let room = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len());
        into.reserve(room.clamp(16, 256 * 1024));
        let (result, read, _) = decoder.decode_to_string(bytes, into, piece == Piece::Last);
        bytes = bytes.in_bounds(read..);
        if result == CoderResult::InputEmpty {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mail_programs_use() {
        for (label, bytes, text) in [
            ("cp437", &b"\x81ber"[..], "über"),
            ("IBM437", b"\x9c", "£"),
            ("cp850", b"\xb5\x9b", "Áø"),
            ("cp852", b"\x9f\xe7", "čš"),
            ("cp862", b"\x99\x8c\x85\x8d", "שלום"),
            ("cp874", b"\xca", "ส"),
            ("cp932", b"\x93\xfa\x96\x7b", "日本"),
            ("cp949", b"\xc7\xd1\x81\x41", "한갂"),
            ("uhc", b"\xc7\xd1", "한"),
            ("cp950", b"\xa4\xa4", "中"),
            ("euc-cn", b"\xd6\xd0", "中"),
            ("mac-roman", b"\x8a", "ä"),
            ("8859-1", b"\xe4", "ä"),
            ("8859-2", b"\xb9", "š"),
            ("hz-gb-2312", b"a~~~{VPND~}b", "a~中文b"),
            ("iso-2022-kr", b"\x1b$)Ca\x0eGQ1[\x0fb", "a한글b"),
            ("utf-32", b"\xff\xfe\0\0\xe4\0\0\0", "ä"),
            ("UTF-32BE", b"\0\x01\xf6\0", "😀"),
            ("utf-16", b"\xfe\xff\0a\0b", "ab"),
            ("utf-16", b"\xff\xfea\0b\0", "ab"),
            ("utf-16be", b"\0a\0b", "ab"),
            ("utf-7", b"+AOQ-", "ä"),
            ("nonsense", "ä".as_bytes(), "ä"),
        ] {
            assert_eq!(decode_bytes(label.as_bytes(), bytes), text, "{label}");
        }
    }
}
