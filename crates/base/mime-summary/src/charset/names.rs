//! The charsets that a search may name, for the answer to one that is not known.

/// The charsets that can be decoded, by the preferred MIME name of IANA's list, or by the usual
/// name if IANA has none. US-ASCII and UTF-8 come first, as every server has them; then by name.
///
/// UTF-16 and UTF-32 are left out. They can be decoded, but their ASCII letters have NULs, which no
/// string of a command may have (RFC 9051 §9, CHAR8). A test compares the list with the tables.
pub const CHARSETS: [&str; 82] = [
    "US-ASCII",
    "UTF-8",
    "Big5",
    "Big5-HKSCS",
    "EUC-JP",
    "EUC-KR",
    "GB18030",
    "GB2312",
    "GBK",
    "HZ-GB-2312",
    "IBM00858",
    "IBM1006",
    "IBM1125",
    "IBM437",
    "IBM720",
    "IBM737",
    "IBM775",
    "IBM850",
    "IBM852",
    "IBM855",
    "IBM856",
    "IBM857",
    "IBM860",
    "IBM861",
    "IBM862",
    "IBM863",
    "IBM864",
    "IBM865",
    "IBM866",
    "IBM869",
    "ISO-2022-JP",
    "ISO-2022-JP-1",
    "ISO-2022-JP-2",
    "ISO-2022-KR",
    "ISO-8859-1",
    "ISO-8859-10",
    "ISO-8859-11",
    "ISO-8859-13",
    "ISO-8859-14",
    "ISO-8859-15",
    "ISO-8859-16",
    "ISO-8859-2",
    "ISO-8859-3",
    "ISO-8859-4",
    "ISO-8859-5",
    "ISO-8859-6",
    "ISO-8859-6-E",
    "ISO-8859-6-I",
    "ISO-8859-7",
    "ISO-8859-8",
    "ISO-8859-8-E",
    "ISO-8859-8-I",
    "ISO-8859-9",
    "KOI8-R",
    "KOI8-T",
    "KOI8-U",
    "KZ-1048",
    "PTCP154",
    "Shift_JIS",
    "TIS-620",
    "UTF-7",
    "Windows-31J",
    "hp-roman8",
    "johab",
    "macintosh",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "windows-1255",
    "windows-1256",
    "windows-1257",
    "windows-1258",
    "windows-874",
    "x-mac-ce",
    "x-mac-croatian",
    "x-mac-cyrillic",
    "x-mac-greek",
    "x-mac-iceland",
    "x-mac-romanian",
    "x-mac-turkish",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Named, decode_bytes, looked_up};
    use super::CHARSETS;

    /// The decoded upper half of a charset, and one of its states. Charsets that differ there are
    /// different.
    fn shown(label: &str) -> String {
        let upper: Vec<u8> = (0x20..=0xff).chain(*b"\x1b$B$\"\x1b(B~{VP~}+AOQ-").collect();
        decode_bytes(label.as_bytes(), &upper).into_owned()
    }

    #[test]
    fn every_name_is_a_charset_and_is_listed_once() {
        for name in CHARSETS {
            assert!(looked_up(name.as_bytes()).is_some(), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        }
        assert!(CHARSETS[2..].is_sorted());
        assert_eq!(CHARSETS.iter().collect::<BTreeSet<_>>().len(), CHARSETS.len());
        // It is sent in one line.
        assert!(CHARSETS.iter().map(|name| name.len() + 1).sum::<usize>() < 1000);
    }

    /// Nothing that can be decoded has no name in the list.
    #[test]
    fn every_table_has_a_name() {
        let named: BTreeSet<String> = CHARSETS.into_iter().map(shown).collect();
        for number in 0..60_000 {
            let label = format!("cp{number}");
            if looked_up(label.as_bytes()).is_some() && !["cp1200", "cp1201"].contains(&&*label) {
                assert!(named.contains(&shown(&label)), "{label}");
            }
        }
        for number in 1..20 {
            let label = format!("iso-8859-{number}");
            assert!(
                looked_up(label.as_bytes()).is_none() || CHARSETS.contains(&&*label.to_uppercase()),
                "{label}"
            );
        }
        let others = "big5 euc-jp euc-kr gb18030 gbk iso-2022-jp koi8-r koi8-u macintosh shift_jis utf-8 \
                      x-mac-cyrillic hz iso-2022-kr johab utf-7 koi8-t kz1048 ptcp154 macce macgreek macturkish \
                      maciceland maccroatian macromanian hproman8";
        for label in others.split_whitespace() {
            assert!(named.contains(&shown(label)), "{label}");
        }
        assert!(matches!(looked_up(b"us-ascii"), Some(Named::Unsaid)));
    }
}
