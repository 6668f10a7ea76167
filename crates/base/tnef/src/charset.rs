//! Text of Windows' code pages.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use posthaste_mime_summary::CharsetReader;

/// `bytes` in a code page as text. An unknown code page is read as 1252; bytes that mean nothing
/// become U+FFFD.
pub fn decode(code_page: u32, bytes: &[u8]) -> Cow<'_, str> {
    if bytes.is_ascii() && !matches!(code_page, 1200 | 1201) && !has_states(code_page) {
        return String::from_utf8_lossy(bytes);
    }
    match label(code_page) {
        Label::Charset(charset) => charset.decode_without_bom_handling(bytes).0,
        // Code pages of MS-DOS and the like, which `encoding_rs` lacks.
        Label::Other(label) => {
            let mut text = String::with_capacity(bytes.len());
            let mut reader = CharsetReader::new(label.as_bytes(), bytes);
            reader.read(bytes, &mut text);
            reader.finish(&mut text);
            Cow::Owned(text)
        }
    }
}

/// ISO-2022 and UTF-7: seven-bit bytes that are not ASCII.
fn has_states(code_page: u32) -> bool {
    matches!(code_page, 50_220..=50_229 | 52_936 | 65_000)
}

enum Label {
    Charset(&'static Encoding),
    Other(String),
}

fn label(code_page: u32) -> Label {
    let name = match code_page {
        0 | 1 | 1252 => return Label::Charset(WINDOWS_1252),
        1200 => return Label::Charset(UTF_16LE),
        1201 => return Label::Charset(UTF_16BE),
        1361 => return Label::Other("johab".to_owned()),
        65_001 => return Label::Charset(UTF_8),
        65_000 => return Label::Other("utf-7".to_owned()),
        10_000 => "macintosh",
        // Code pages of classic Mac OS: each differs from the one here in a few characters.
        10_001 => "shift_jis",
        10_002 => "big5",
        10_003 => "euc-kr",
        10_006 => return Label::Other("x-mac-greek".to_owned()),
        10_007 => "x-mac-cyrillic",
        10_008 => "gbk",
        10_010 => return Label::Other("x-mac-romanian".to_owned()),
        10_017 => "x-mac-cyrillic",
        10_021 => "windows-874",
        10_029 => return Label::Other("x-mac-ce".to_owned()),
        10_079 => return Label::Other("x-mac-iceland".to_owned()),
        10_081 => return Label::Other("x-mac-turkish".to_owned()),
        10_082 => return Label::Other("x-mac-croatian".to_owned()),
        20_127 => "windows-1252",
        20_866 => "koi8-r",
        21_866 => "koi8-u",
        20_932 | 51_932 => "euc-jp",
        20_949 | 51_949 => "euc-kr",
        20_936 | 51_936 | 936 => "gbk",
        54_936 => "gb18030",
        932 => "shift_jis",
        949 => "euc-kr",
        950 => "big5",
        874 => "windows-874",
        50_220..=50_222 => "iso-2022-jp",
        50_225 => return Label::Other("iso-2022-kr".to_owned()),
        52_936 => return Label::Other("hz-gb-2312".to_owned()),
        28_591 => "windows-1252",
        28_592..=28_606 => {
            let label = format!("iso-8859-{}", code_page - 28_590);
            return Encoding::for_label(label.as_bytes())
                .map_or(Label::Charset(WINDOWS_1252), Label::Charset);
        }
        // Text in its logical order, which MIME names by a letter: RFC 1556.
        38_596 => "iso-8859-6-i",
        38_598 => "iso-8859-8-i",
        437 | 720 | 737 | 775 | 850 | 852 | 855..=858 | 860..=866 | 869 | 1125 => {
            return Label::Other(format!("cp{code_page}"));
        }
        _ => {
            let label = format!("windows-{code_page}");
            return Encoding::for_label(label.as_bytes())
                .map_or(Label::Charset(WINDOWS_1252), Label::Charset);
        }
    };
    Label::Charset(Encoding::for_label(name.as_bytes()).unwrap_or(WINDOWS_1252))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_pages_by_number() {
        for (code_page, bytes, text) in [
            (1252, &b"\x80\xe4"[..], "€ä"),
            (1251, b"\xcf\xf0", "Пр"),
            (1250, b"\x9a", "š"),
            (932, b"\x93\xfa\x96\x7b", "日本"),
            (936, b"\xd6\xd0", "中"),
            (949, b"\xc7\xd1", "한"),
            (950, b"\xa4\xa4", "中"),
            (874, b"\xca", "ส"),
            (437, b"\x81", "ü"),
            (720, b"\x9f", "ا"),
            (864, b"\xe1", "ﻓ"),
            (866, b"\x8f\xe0", "Пр"),
            (869, b"\xa4", "Α"),
            (1201, b"\0a\0\xfc", "aü"),
            (1361, b"\x88\x61", "가"),
            (10_001, b"\x93\xfa\x96\x7b", "日本"),
            (10_002, b"\xa4\xa4", "中"),
            (10_003, b"\xc7\xd1", "한"),
            (10_006, b"\xb0", "Α"),
            (10_008, b"\xd6\xd0", "中"),
            (10_021, b"\xca", "ส"),
            (10_029, b"\xe4", "š"),
            (38_598, b"\xe0", "א"),
            (850, b"\xb5", "Á"),
            (10_000, b"\x8a", "ä"),
            (20_866, b"\xf0", "П"),
            (20_936, b"\xd6\xd0", "中"),
            (20_949, b"\xc7\xd1", "한"),
            (28_592, b"\xb9", "š"),
            (28_605, b"\xa4", "€"),
            (50_220, b"\x1b$BF|\x1b(B", "日"),
            (54_936, b"\x81\x30\x81\x30", "\u{80}"),
            (65_001, "ü".as_bytes(), "ü"),
            (1200, b"a\0\xfc\0", "aü"),
            (0, b"\xfc", "ü"),
            (12_345, b"\xfc", "ü"),
        ] {
            assert_eq!(decode(code_page, bytes), text, "{code_page}");
        }
    }
}
