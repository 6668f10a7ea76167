//! Control words that name characters, destinations, and character sets.

/// The character that a control word names, and what encapsulated HTML has in its place: MS-OXRTFEX
/// §2.1.3.1.4.2.
pub(super) fn character(word: &[u8]) -> Option<(&'static str, &'static str)> {
    Some(match word {
        b"tab" | b"cell" | b"nestcell" => ("\t", "\t"),
        b"lquote" => ("\u{2018}", "&lsquo;"),
        b"rquote" => ("\u{2019}", "&rsquo;"),
        b"ldblquote" => ("\u{201C}", "&ldquo;"),
        b"rdblquote" => ("\u{201D}", "&rdquo;"),
        b"bullet" => ("\u{2022}", "&bull;"),
        b"endash" => ("\u{2013}", "&ndash;"),
        b"emdash" => ("\u{2014}", "&mdash;"),
        b"enspace" => ("\u{2002}", "&ensp;"),
        b"emspace" => ("\u{2003}", "&emsp;"),
        b"qmspace" => ("\u{2005}", "&#8197;"),
        b"zwj" => ("\u{200D}", "&zwj;"),
        b"zwnj" => ("\u{200C}", "&zwnj;"),
        b"ltrmark" => ("\u{200E}", "&lrm;"),
        b"rtlmark" => ("\u{200F}", "&rlm;"),
        _ => return None,
    })
}

/// The character that a control symbol names, in the same two forms.
pub(super) fn symbol(symbol: u8) -> Option<(&'static str, &'static str)> {
    Some(match symbol {
        b'{' => ("{", "{"),
        b'}' => ("}", "}"),
        b'\\' => ("\\", "\\"),
        b'~' => ("\u{A0}", "&nbsp;"),
        b'_' => ("\u{2011}", "&shy;"),
        _ => return None,
    })
}

/// Whether a control word begins a group whose text is no part of the document.
pub(super) fn is_skipped(word: &[u8]) -> bool {
    matches!(
        word,
        b"colortbl"
            | b"stylesheet"
            | b"info"
            | b"header"
            | b"headerl"
            | b"headerr"
            | b"headerf"
            | b"footer"
            | b"footerl"
            | b"footerr"
            | b"footerf"
            | b"filetbl"
            | b"revtbl"
            | b"listtable"
            | b"listoverridetable"
            | b"nonshppict"
            | b"objdata"
            | b"objclass"
            | b"objname"
            | b"pntxta"
            | b"pntxtb"
            | b"xe"
            | b"tc"
            | b"comment"
            | b"atnid"
            | b"atnauthor"
            | b"private"
    )
}

/// The code page of a font's character set: RTF 1.9.1, `\fcharset`. `None` means the document's
/// own.
pub(super) fn code_page(charset: i32) -> Option<u32> {
    Some(match charset {
        0 => 1252,
        2 => SYMBOL,
        77 => 10_000,
        78 => 10_001,
        79 => 10_003,
        80 => 10_008,
        81 => 10_002,
        85 => 10_006,
        86 => 10_081,
        87 => 10_021,
        88 => 10_029,
        89 => 10_007,
        128 => 932,
        129 => 949,
        130 => 1361,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        254 => 437,
        255 => 850,
        _ => return None,
    })
}

/// A number for the fonts Symbol and Wingdings, which have no code page of Windows.
pub(super) const SYMBOL: u32 = 42;

/// A byte in a symbol font: bullets are most of what mail has of them.
pub(super) fn in_symbol_font(byte: u8) -> char {
    match byte {
        0xB7 | b'l' => '\u{2022}',
        0xA7 | b'n' => '\u{25AA}',
        0xD8 => '\u{27A2}',
        0xE0 => '\u{2192}',
        0xFC => '\u{2713}',
        b'J' => '\u{263A}',
        b'L' => '\u{2639}',
        byte => char::from(byte),
    }
}
