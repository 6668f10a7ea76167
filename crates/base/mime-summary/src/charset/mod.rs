//! Text of any charset as UTF-8: whole, or piece by piece.
//!
//! Tables are those of `encoding_rs`. Mail has further charsets. Some of them are `mail-parser`'s,
//! and some are in [`legacy`] (UTF-7 …). Nothing is refused. Text without a charset, or labelled
//! us-ascii, is read as UTF-8 if it is valid UTF-8, and as windows-1252 otherwise. Piece by piece,
//! it is UTF-8 up to the first byte that is not. An unknown charset is read as UTF-8 with
//! replacement characters.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, CoderResult, Decoder, EUC_JP, EUC_KR, Encoding as Charset, GBK, ISO_2022_JP, ISO_8859_16,
    MACINTOSH, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_874, WINDOWS_1252, X_MAC_CYRILLIC,
};
use mail_parser::decoders::charsets::map::charset_decoder;

use crate::in_bounds::InBounds;
use crate::piece::Piece;

mod iso_2022_jp;
mod legacy;
mod names;
mod single_byte;

pub use names::CHARSETS;

/// Longest line of a text whose charset is decoded line by line, such as UTF-7. A longer line is
/// cut, and its rest begins in the first state.
const LINE_MAX: usize = 1024 * 1024;

/// Longest label that is looked up.
const LABEL_MAX: usize = 40;

/// The decoder that a charset's label names.
enum Named {
    /// No charset is named. Or it is us-ascii, whose bytes are often something else.
    Unsaid,
    Known(&'static Charset),
    /// One of `mail-parser`'s own, or of [`legacy`].
    Other(Decode, Cut),
}

type Decode = fn(&[u8]) -> String;

/// The places where a text can be cut, so that its pieces can be decoded by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// A byte is a character.
    Anywhere,
    /// Four bytes are a character. The first one may say which byte of the four comes first.
    Words,
    /// A line begins in the first state.
    Lines,
    /// The state of ISO-2022-KR stays over the ends of lines.
    Shifts,
    /// So does the set of ISO-2022-JP-2, if its writer did not return to ASCII.
    Sets,
}

/// The bytes that shift out and in: ISO-2022-KR (RFC 1557).
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

impl Cut {
    /// The number of these bytes that can be decoded by themselves; those from `fresh` on are
    /// new.
    fn place(self, bytes: &[u8], fresh: usize) -> usize {
        let words = bytes.len() / 4 * 4;
        match self {
            Cut::Anywhere => bytes.len(),
            Cut::Words => words,
            Cut::Lines | Cut::Shifts | Cut::Sets => {
                let line_end = bytes.in_bounds(fresh..).iter().rposition(|&byte| byte == b'\n');
                match line_end.map(|at| fresh + at + 1) {
                    None if bytes.len() > LINE_MAX => bytes.len(),
                    until => until.unwrap_or(0),
                }
            }
        }
    }
}

/// The decoder of a label; UTF-8 if no charset has it.
fn named(label: &[u8]) -> Named {
    looked_up(label).unwrap_or(Named::Known(UTF_8))
}

fn looked_up(label: &[u8]) -> Option<Named> {
    let label = label.trim_ascii();
    if label.is_empty() || label.eq_ignore_ascii_case(b"us-ascii") || label.eq_ignore_ascii_case(b"ascii") {
        return Some(Named::Unsaid);
    }
    if let Some(charset) = Charset::for_label_no_replacement(label) {
        return Some(Named::Known(charset));
    }
    // The tables are meant for labels in printable ASCII of a sane length.
    if label.len() > LABEL_MAX || !label.is_ascii() {
        return None;
    }
    let lower = label.to_ascii_lowercase();
    by_alias(&lower)
        .or_else(|| charset_decoder(label).map(|decode| Named::Other(decode, Cut::Lines)))
        .or_else(|| by_letters(&lower))
}

/// Whether a charset has this label.
pub fn is_charset(label: &[u8]) -> bool {
    looked_up(label).is_some()
}

/// The number in the name of a code page, such as `cp-1251`, `win1251`, `IBM 850` or `1251`.
fn code_page_number(label: &[u8]) -> Option<&[u8]> {
    let digits = label.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1);
    let (begin, number) = label.split_at(digits);
    let begin = begin.strip_prefix(b"x-").unwrap_or(begin);
    let begin = begin.strip_suffix(b"-").or_else(|| begin.strip_suffix(b"_")).unwrap_or(begin);
    let is_of_code_page = [&b"cp"[..], b"ibm", b"dos", b"windows", b"win", b"ms", b""].contains(&begin);
    (is_of_code_page && !number.is_empty()).then_some(number)
}

/// Charsets under names that mail programs use and the encoding standard does not have, and those
/// that it leaves out.
fn by_alias(label: &[u8]) -> Option<Named> {
    let number = code_page_number(label);
    Some(match (label, number) {
        (_, Some(b"874")) => Named::Known(WINDOWS_874),
        (_, Some(b"932" | b"943")) => Named::Known(SHIFT_JIS),
        (_, Some(b"936")) | (b"euc-cn" | b"euccn", _) => Named::Known(GBK),
        (_, Some(b"949")) | (b"uhc" | b"x-windows-949", _) => Named::Known(EUC_KR),
        (_, Some(b"950")) => Named::Known(BIG5),
        (_, Some(b"951")) | (b"big5hkscs" | b"big5-hkscs:2004", _) => Named::Known(BIG5),
        (_, Some(b"50220" | b"50221" | b"50222")) => Named::Known(ISO_2022_JP),
        (_, Some(b"51932")) => Named::Known(EUC_JP),
        (_, Some(b"51936")) => Named::Known(GBK),
        (_, Some(b"51949")) => Named::Known(EUC_KR),
        (b"mac-roman" | b"macroman" | b"x-macroman" | b"x-mac", _) | (_, Some(b"10000")) => {
            Named::Known(MACINTOSH)
        }
        (b"mac-cyrillic" | b"maccyrillic" | b"mac-ukrainian" | b"macukrainian", _) | (_, Some(b"10007")) => {
            Named::Known(X_MAC_CYRILLIC)
        }
        _ if label == b"iso2022-jp" || label == b"iso2022jp" => Named::Known(ISO_2022_JP),
        // RFC 1554, RFC 2237.
        (b"iso2022-jp-1" | b"iso2022jp-1" | b"iso2022-jp-2" | b"iso2022jp-2" | b"csiso2022jp2", _) => {
            Named::Other(iso_2022_jp::decode, Cut::Sets)
        }
        _ if label.starts_with(b"iso-2022-jp-") => Named::Other(iso_2022_jp::decode, Cut::Sets),
        (b"johab" | b"ms-johab" | b"ksc5601_1992", _) | (_, Some(b"1361")) => {
            Named::Other(legacy::johab, Cut::Lines)
        }
        (b"hz" | b"hz-gb-2312" | b"hz-gb2312", _) => Named::Other(legacy::hz, Cut::Lines),
        (b"iso-2022-kr" | b"csiso2022kr", _) => Named::Other(legacy::iso_2022_kr, Cut::Shifts),
        (b"utf-32" | b"utf32" | b"ucs-4" | b"iso-10646-ucs-4", _) => Named::Other(legacy::utf_32, Cut::Words),
        (b"utf-32be" | b"utf32be", _) => Named::Other(legacy::utf_32_be, Cut::Words),
        (b"utf-32le" | b"utf32le", _) => Named::Other(legacy::utf_32_le, Cut::Words),
        (b"utf-7" | b"utf7" | b"csutf7", _) => Named::Other(legacy::utf_7, Cut::Lines),
        _ if label.ends_with(b"unicode-1-1-utf-7") || label.ends_with(b"unicode-2-0-utf-7") => {
            Named::Other(legacy::utf_7, Cut::Lines)
        }
        (b"utf16" | b"utf16le", _) => Named::Known(UTF_16LE),
        (b"utf16be", _) => Named::Known(UTF_16BE),
        (b"iso8859-16" | b"iso_8859-16", _) => Named::Known(ISO_8859_16),
        _ => {
            let code_page = number.and_then(legacy::code_page);
            Named::Other(code_page.or_else(|| single_byte_named(label))?, Cut::Anywhere)
        }
    })
}

/// Such a charset, however its name is written: `mac_ce`, `x-mac-ce`, `KOI8_T`.
fn single_byte_named(label: &[u8]) -> Option<Decode> {
    single_byte::named(&letters(label))
}

/// A name without separators between its words.
fn letters(label: &[u8]) -> String {
    let is_of_name = |c: &char| !matches!(c, '-' | '_' | ' ');
    label.iter().copied().map(char::from).filter(is_of_name).collect()
}

/// A charset whose usual name has other signs between its words, such as `latin-1`, `euckr`,
/// `big-5`, `8859_2` or `win-1251`.
fn by_letters(label: &[u8]) -> Option<Named> {
    if let Some(page) = code_page_number(label) {
        return Charset::for_label_no_replacement(&[b"cp", page].concat()).map(Named::Known);
    }
    let name = letters(label.strip_prefix(b"x-").unwrap_or(label));
    let usual = match name.as_str() {
        "eucjp" | "ujis" | "eucjpms" => "euc-jp",
        "euckr" => "euc-kr",
        "tis620" => "tis-620",
        "koi8r" => "koi8-r",
        "koi8u" => "koi8-u",
        "latin7" => "iso-8859-13",
        "latin8" => "iso-8859-14",
        "latin9" => "iso-8859-15",
        "latin10" => "iso-8859-16",
        other => match other.strip_prefix("8859") {
            Some(part) => &format!("iso-8859-{part}"),
            None => other,
        },
    };
    Charset::for_label_no_replacement(usual.as_bytes()).map(Named::Known)
}

/// Whether text in this charset has states, so that each piece of it begins in the first one and
/// pieces cannot be put together.
pub(crate) fn has_states(label: &[u8]) -> bool {
    let label = label.trim_ascii();
    let begins =
        |with: &str| label.get(..with.len()).is_some_and(|l| l.eq_ignore_ascii_case(with.as_bytes()));
    [
        "iso-2022-",
        "iso2022",
        "csiso2022",
        "cp5022",
        "hz",
        "utf-7",
        "utf7",
        "csutf7",
        "unicode-1-1-utf-7",
        "unicode-2-0-utf-7",
        "x-unicode-",
    ]
    .iter()
    .any(|with| begins(with))
        || (["utf-16", "utf-32", "utf16", "utf32", "ucs-"].iter().any(|with| begins(with)))
}

/// Whether the label of a charset does not end in BE or LE.
fn is_open(label: &[u8]) -> bool {
    !label.trim_ascii().to_ascii_lowercase().ends_with(b"e")
}

/// The charset of these bytes: of UTF-16 the byte order mark says which (RFC 2781 §4.3).
fn with_byte_order(charset: &'static Charset, label: &[u8], bytes: &[u8]) -> (&'static Charset, usize) {
    if charset != UTF_16LE && charset != UTF_16BE {
        return (charset, 0);
    }
    match bytes {
        [0xfe, 0xff, ..] if is_open(label) || charset == UTF_16BE => (UTF_16BE, 2),
        [0xff, 0xfe, ..] if is_open(label) || charset == UTF_16LE => (UTF_16LE, 2),
        _ => (charset, 0),
    }
}

/// `bytes` in the charset with this label as text; borrowed if they are UTF-8 already.
pub fn decode_bytes<'b>(label: &[u8], bytes: &'b [u8]) -> Cow<'b, str> {
    match named(label) {
        Named::Unsaid => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        },
        Named::Known(charset) => {
            let (charset, mark) = with_byte_order(charset, label, bytes);
            charset.decode_without_bom_handling(bytes.in_bounds(mark..)).0
        }
        Named::Other(decode, _) => Cow::Owned(decode(bytes)),
    }
}

/// Turns the content of one text part into UTF-8, piece by piece.
pub struct CharsetReader {
    decoding: CharsetDecoding,
}

enum CharsetDecoding {
    Streaming(Box<Decoder>),
    /// UTF-8 so far, and the bytes of a character that is cut.
    Guessed(Vec<u8>),
    /// The bytes after the last offset at which the text could be cut.
    Pieces(Decode, Cut, Vec<u8>),
}

impl CharsetReader {
    /// A decoder for the charset with this label; `sample` is the first piece of the bytes, which
    /// decides if the label says nothing.
    pub fn new(label: &[u8], sample: &[u8]) -> Self {
        let decoding = match named(label) {
            Named::Other(decode, Cut::Words) => {
                CharsetDecoding::Pieces(with_mark(decode, label, sample), Cut::Words, Vec::new())
            }
            Named::Other(decode, cut) => CharsetDecoding::Pieces(decode, cut, Vec::new()),
            // The mark itself is a space without width, for which no search looks.
            Named::Known(charset) => streaming(with_byte_order(charset, label, sample).0),
            Named::Unsaid => match std::str::from_utf8(sample) {
                // A character cut by the end of the sample is no error.
                Err(error) if error.error_len().is_some() => streaming(WINDOWS_1252),
                _ => CharsetDecoding::Guessed(Vec::new()),
            },
        };
        CharsetReader { decoding }
    }

    /// Appends the text of the next bytes to `into`.
    pub fn read(&mut self, bytes: &[u8], into: &mut String) {
        match &mut self.decoding {
            CharsetDecoding::Streaming(decoder) => stream(decoder, bytes, into, Piece::Next),
            CharsetDecoding::Guessed(cut) => {
                let joined: Cow<'_, [u8]> = match cut.is_empty() {
                    true => Cow::Borrowed(bytes),
                    false => Cow::Owned([cut, bytes].concat()),
                };
                let (text, rest, is_utf8) = utf8_part(&joined);
                into.push_str(text);
                match is_utf8 {
                    true => *cut = rest.to_vec(),
                    false => {
                        let rest = rest.to_vec();
                        self.decoding = streaming(WINDOWS_1252);
                        self.read(&rest, into);
                    }
                }
            }
            CharsetDecoding::Pieces(decode, cut, kept) => {
                let fresh = kept.len();
                kept.extend_from_slice(bytes);
                let until = cut.place(kept, fresh);
                let piece: Vec<u8> = kept.drain(..until).collect();
                into.push_str(&decode(&piece));
                let last_shift = piece.iter().rfind(|byte| matches!(**byte, SHIFT_OUT | SHIFT_IN));
                if *cut == Cut::Shifts && last_shift == Some(&SHIFT_OUT) {
                    kept.insert(0, SHIFT_OUT);
                }
                if *cut == Cut::Sets
                    && let Some(sequence) = iso_2022_jp::set_at_end(&piece)
                {
                    kept.splice(..0, sequence.iter().copied());
                }
            }
        }
    }

    /// Appends the rest after the last bytes.
    pub fn finish(self, into: &mut String) {
        match self.decoding {
            CharsetDecoding::Streaming(mut decoder) => stream(&mut decoder, b"", into, Piece::Last),
            CharsetDecoding::Guessed(cut) => into.push_str(&WINDOWS_1252.decode_without_bom_handling(&cut).0),
            CharsetDecoding::Pieces(decode, _, kept) => into.push_str(&decode(&kept)),
        }
    }
}

fn streaming(charset: &'static Charset) -> CharsetDecoding {
    CharsetDecoding::Streaming(Box::new(charset.new_decoder_without_bom_handling()))
}

/// The text at the beginning that is UTF-8, the bytes after it, and whether these can still
/// become UTF-8.
fn utf8_part(bytes: &[u8]) -> (&str, &[u8], bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text, b"", true),
        Err(error) => {
            let (valid, rest) = bytes.split_at(error.valid_up_to());
            (std::str::from_utf8(valid).unwrap_or_default(), rest, error.error_len().is_none())
        }
    }
}

/// The decoder of a charset. In UTF-32 the byte order mark decides which byte comes first.
fn with_mark(decode: Decode, label: &[u8], sample: &[u8]) -> Decode {
    match (is_open(label), sample.starts_with(b"\xff\xfe\0\0")) {
        (true, true) => legacy::utf_32_le,
        (true, false) => legacy::utf_32_be,
        (false, _) => decode,
    }
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
            ("8859_2", b"\xb9", "š"),
            ("latin-1", b"\xe4", "ä"),
            ("Latin-9", b"\xa4", "€"),
            ("latin10", b"\xa4", "€"),
            ("koi8r", b"\xc1", "а"),
            ("KOI8_U", b"\xa4", "є"),
            ("cp-1251", b"\xe0", "а"),
            ("win-1251", b"\xe0", "а"),
            ("Windows1251", b"\xe0", "а"),
            ("ms1251", b"\xe0", "а"),
            ("1251", b"\xe0", "а"),
            ("x-cp-866", b"\xa0", "а"),
            ("tis620", b"\xca", "ส"),
            ("euckr", b"\xc7\xd1", "한"),
            ("ks_c_5601", b"\xc7\xd1", "한"),
            ("eucJP", b"\xc6\xfc", "日"),
            ("ujis", b"\xc6\xfc", "日"),
            ("eucJP-ms", b"\xc6\xfc", "日"),
            ("big-5", b"\xa4\xa4", "中"),
            ("x-unicode-2-0-utf-7", b"+AOQ-", "ä"),
            ("hz-gb-2312", b"a~~~{VPND~}b", "a~中文b"),
            ("iso-2022-kr", b"\x1b$)Ca\x0eGQ1[\x0fb", "a한글b"),
            ("utf-32", b"\xff\xfe\0\0\xe4\0\0\0", "ä"),
            ("UTF-32BE", b"\0\x01\xf6\0", "😀"),
            ("utf-16", b"\xfe\xff\0a\0b", "ab"),
            ("utf-16", b"\xff\xfea\0b\0", "ab"),
            ("utf-16be", b"\0a\0b", "ab"),
            ("utf-7", b"+AOQ-", "ä"),
            // RFC 2152: a run ends at each byte outside of Base64, and only `-` is absorbed.
            ("utf-7", b"+AN8.a gcgh +AN8 b +- +AOk,c +2D3eCw-- +AOQ", "ß.a gcgh ß b + é,c 😋- ä"),
            ("unicode-1-1-utf-7", b"+ZeVnLIqe\r\n+ZeU", "日本語\r\n日"),
            ("utf16le", b"a\0", "a"),
            ("iso8859-16", b"\xa4", "€"),
            ("iso-2022-jp-2", b"\x1b$B$\x22\x1b(B", "あ"),
            ("iso-2022-jp-1", b"\x1b$BF|\x1b(B", "日"),
            ("cp50221", b"\x1b$BF|\x1b(Ba", "日a"),
            ("johab", b"\xd0\x65\x8b\x69 \xe0\x31\x88\x41a\xff", "한글 伽ㄱa\u{fffd}"),
            ("koi8-t", b"\x80\xc1", "қа"),
            ("macintosh", b"\x8a", "ä"),
            ("x-mac-cyrillic", b"\x80", "А"),
            ("x-mac-ce", b"\x8b", "č"),
            ("mac_greek", b"\xe1", "α"),
            ("x-mac-turkish", b"\xdf", "ş"),
            ("mac-iceland", b"\xdd", "ð"),
            ("x-mac-croatian", b"\xb9", "š"),
            ("big5-hkscs", b"\x87\x40", "䏰"),
            ("Big5-HKSCS:2004", b"\xa4\xa4", "中"),
            ("cp720", b"\xa5", "ح"),
            ("IBM864", b"\xc7", "\u{fe8d}"),
            ("cp869", b"\xa2", "ό"),
            ("cp1006", b"\xa1", "۰"),
            ("cp1125", b"\xf5", "є"),
            ("cp737", b"\x98", "α"),
            ("cp775", b"\xd0", "ą"),
            ("hp-roman8", b"\xcc", "ä"),
            ("kz-1048", b"\x9d", "қ"),
            ("pt154", b"\x8d", "Қ"),
            ("nonsense", "ä".as_bytes(), "ä"),
        ] {
            assert_eq!(decode_bytes(label.as_bytes(), bytes), text, "{label}");
        }
    }
    /// The result of a reader for a text in pieces of these lengths.
    fn in_pieces(label: &str, bytes: &[u8], lengths: &[usize]) -> String {
        let (mut text, mut rest, mut lengths) = (String::new(), bytes, lengths.iter().cycle());
        let mut reader: Option<CharsetReader> = None;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*lengths.next().unwrap()));
            reader.get_or_insert_with(|| CharsetReader::new(label.as_bytes(), piece)).read(piece, &mut text);
            rest = after;
        }
        if let Some(reader) = reader {
            reader.finish(&mut text);
        }
        text
    }

    /// The first 32 KiB are ASCII, or UTF-8. The next byte is neither.
    #[test]
    fn text_without_a_charset_is_utf8_up_to_the_first_byte_that_is_not() {
        let ascii = "All work and no play.\n".repeat(2000);
        let mixed = [ascii.as_bytes(), "Ä".as_bytes(), b" caf\xe9 \xfc \xe2\x82"].concat();
        for label in ["", "us-ascii"] {
            let text = in_pieces(label, &mixed, &[32 * 1024, 7]);
            assert!(text.ends_with("play.\nÄ café ü â‚"), "{}", &text[ascii.len()..]);
        }
        let utf8 = [ascii.as_bytes(), "日本語 über".as_bytes()].concat();
        assert!(in_pieces("", &utf8, &[ascii.len() + 1, 1]).ends_with("\n日本語 über"));
        assert_eq!(in_pieces("", b"caf\xe9 \xc3\xa4", &[5, 1]), "café Ã¤", "the sample decides");
    }

    /// No text is too long to be read whole.
    #[test]
    fn the_end_of_a_long_text_is_read() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        let wide = |text: &str| text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect::<Vec<u8>>();
        let long = "0123456789abcde\n".repeat(80_000);
        let ends = |label: &str, filler: &[u8], end: &[u8], wanted: &str| {
            let text = in_pieces(label, &[filler, end].concat(), &[32 * 1024 - 3]);
            assert!(text.ends_with(wanted), "{label}: {}", text.chars().rev().take(20).collect::<String>());
        };
        ends("cp850", long.as_bytes(), b"Caf\x82", "Café");
        ends("cp437", long.replace('\n', " ").as_bytes(), b"\x81ber", "über");
        ends("utf-7", long.as_bytes(), b"+AOQ-", "ä");
        ends("hz", long.as_bytes(), b"a~{VPND~}b", "a中文b");
        ends("iso-2022-kr", long.as_bytes(), b"a\x0eGQ1[\x0fb", "a한글b");
        ends("iso-2022-jp-2", long.as_bytes(), b"a\x1b$(D0!\x1b(Bb", "a丂b");
        ends("utf-32", &wide(&long[..400_000]), &wide("ä\u{1f600}"), "ä\u{1f600}");
        ends("utf-16be", &utf16(&long), &utf16("ä"), "ä");
    }

    #[test]
    fn pieces_of_any_length_are_one_text() {
        let utf32 = b"\xff\xfe\0\0\xe4\0\0\0\x0a\0\0\0\xe4\0\0\0";
        for (label, bytes) in [
            ("hz", &b"a~~~{VPND~}b\n~{VPND~}\n"[..]),
            // The mode stays over a line end.
            ("iso-2022-kr", b"\x1b$)Ca\x0eGQ1[\nGQ\n1[\x0fb\n\x0eGQ"),
            ("iso-2022-jp-2", b"\x1b$(D0!\n0H\x1b(Ba\n\x1b$(AVP\n9z\n"),
            ("utf-7", b"a+AOQ-b\n+AOQ-\n"),
            ("cp850", b"\xb5\x9b\n\x82"),
            ("utf-32", utf32),
            ("", "aä日\n\u{1f600}".as_bytes()),
        ] {
            let whole = decode_bytes(label.as_bytes(), bytes);
            for lengths in [&[4, 1][..], &[4, 3, 2], &[5], &[100]] {
                let text = in_pieces(label, bytes, lengths);
                assert_eq!(text.trim_start_matches('\u{feff}'), whole, "{label} {lengths:?}");
            }
        }
    }
}
