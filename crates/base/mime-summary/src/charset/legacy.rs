//! Charsets that the tables of `encoding_rs` do not have. They are code pages of MS-DOS, UTF-7, and
//! the forms of GB 2312, KS X 1001 and UTF-32 that mail uses. `single_byte` has rarer ones.

use encoding_rs::{EUC_KR, GBK};

use super::single_byte::single_bytes;

/// The code page with this number as text; `None` if it is not one of these.
pub(super) fn code_page(number: &[u8]) -> Option<fn(&[u8]) -> String> {
    Some(match number {
        b"437" => |bytes| single_bytes(&CP437, bytes),
        b"737" => |bytes| single_bytes(&CP737, bytes),
        b"775" => |bytes| single_bytes(&CP775, bytes),
        b"850" => |bytes| single_bytes(&CP850, bytes),
        b"852" => |bytes| single_bytes(&CP852, bytes),
        b"855" => |bytes| single_bytes(&CP855, bytes),
        b"857" => |bytes| single_bytes(&CP857, bytes),
        // IANA's name is IBM00858.
        b"858" | b"00858" => |bytes| single_bytes(&CP858, bytes),
        b"860" => |bytes| single_bytes(&CP860, bytes),
        b"861" => |bytes| single_bytes(&CP861, bytes),
        b"862" => |bytes| single_bytes(&CP862, bytes),
        b"863" => |bytes| single_bytes(&CP863, bytes),
        b"865" => |bytes| single_bytes(&CP865, bytes),
        _ => return None,
    })
}

/// UTF-7 (RFC 2152): `+` begins a run of UTF-16 in Base64, which ends before the first other byte.
/// A `-` there belongs to the run, and `+-` is a plus sign.
pub(super) fn utf_7(bytes: &[u8]) -> String {
    let (mut text, mut units) = (String::with_capacity(bytes.len()), Vec::new());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte != b'+' {
            text.push(if byte.is_ascii() { char::from(byte) } else { char::REPLACEMENT_CHARACTER });
            continue;
        }
        let (mut bits, mut held, begin) = (0_u32, 0, at);
        while let Some(six) = bytes.get(at).and_then(|byte| six_bits(*byte)) {
            at += 1;
            (bits, held) = (bits << 6 | six, held + 6);
            if held >= 16 {
                held -= 16;
                units.push((bits >> held) as u16);
            }
        }
        if at == begin {
            text.push('+');
        }
        let characters = char::decode_utf16(units.drain(..));
        text.extend(characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)));
        at += usize::from(bytes.get(at) == Some(&b'-'));
    }
    text
}

/// The value of a Base64 character.
fn six_bits(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// HZ (RFC 1843): `~{` begins GB 2312 in seven bits, `~}` ends it, `~~` is a tilde, and a tilde
/// before a line end joins lines.
pub(super) fn hz(bytes: &[u8]) -> String {
    let (mut eight_bit, mut is_chinese) = (Vec::with_capacity(bytes.len()), false);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (byte, bytes.get(at), is_chinese) {
            (b'~', Some(b'{'), false) | (b'~', Some(b'}'), true) => {
                is_chinese = !is_chinese;
                at += 1;
            }
            (b'~', Some(b'~'), false) => {
                eight_bit.push(b'~');
                at += 1;
            }
            (b'~', Some(b'\n'), false) => at += 1,
            // RFC 1843: a line end ends the mode.
            (b'\n', ..) => {
                is_chinese = false;
                eight_bit.push(byte);
            }
            (b' '.., _, true) => eight_bit.push(byte | 0x80),
            _ => eight_bit.push(byte),
        }
    }
    GBK.decode_without_bom_handling(&eight_bit).0.into_owned()
}

/// ISO-2022-KR (RFC 1557): SO begins KS X 1001 in seven bits, SI ends it; the designation `ESC $
/// ) C` has no other effect.
pub(super) fn iso_2022_kr(bytes: &[u8]) -> String {
    const DESIGNATION: &[u8] = b"\x1b$)C";
    let (mut eight_bit, mut is_korean) = (Vec::with_capacity(bytes.len()), false);
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(DESIGNATION) {
            rest = after;
            continue;
        }
        rest = after;
        match byte {
            0x0e => is_korean = true,
            0x0f => is_korean = false,
            0x21..=0x7e if is_korean => eight_bit.push(byte | 0x80),
            _ => eight_bit.push(byte),
        }
    }
    EUC_KR.decode_without_bom_handling(&eight_bit).0.into_owned()
}

/// Johab (KS X 1001, annex 3): a syllable is three numbers of five bits, of its first consonant,
/// its vowel and its last consonant. All other characters are rows of KS X 1001.
pub(super) fn johab(bytes: &[u8]) -> String {
    let (mut text, mut rest) = (String::with_capacity(bytes.len() * 2), bytes);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first.is_ascii() {
            text.push(char::from(first));
            continue;
        }
        let Some((&second, after)) = rest.split_first() else {
            text.push(char::REPLACEMENT_CHARACTER);
            break;
        };
        let made = if first < 0xd8 { syllable(first, second) } else { row_of_johab(first, second) };
        // A byte of ASCII after one that begins nothing is a character of its own.
        if made.is_some() || !second.is_ascii() {
            rest = after;
        }
        text.push(made.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    text
}

fn syllable(first: u8, second: u8) -> Option<char> {
    const FIRST: [char; 19] = [
        'ㄱ', 'ㄲ', 'ㄴ', 'ㄷ', 'ㄸ', 'ㄹ', 'ㅁ', 'ㅂ', 'ㅃ', 'ㅅ', 'ㅆ', 'ㅇ', 'ㅈ', 'ㅉ', 'ㅊ', 'ㅋ', 'ㅌ',
        'ㅍ', 'ㅎ',
    ];
    const LAST: [char; 27] = [
        'ㄱ', 'ㄲ', 'ㄳ', 'ㄴ', 'ㄵ', 'ㄶ', 'ㄷ', 'ㄹ', 'ㄺ', 'ㄻ', 'ㄼ', 'ㄽ', 'ㄾ', 'ㄿ', 'ㅀ', 'ㅁ', 'ㅂ',
        'ㅄ', 'ㅅ', 'ㅆ', 'ㅇ', 'ㅈ', 'ㅊ', 'ㅋ', 'ㅌ', 'ㅍ', 'ㅎ',
    ];
    let bits = u32::from(first) << 8 | u32::from(second);
    let (begin, vowel, end) = (bits >> 10 & 31, bits >> 5 & 31, bits & 31);
    // Each is `None`, or the number of a letter.
    let begin = if begin == 1 { None } else { Some(begin.checked_sub(2).filter(|n| *n < 19)?) };
    let vowel = match vowel {
        2 => None,
        3..=7 => Some(vowel - 3),
        10..=15 => Some(vowel - 5),
        18..=23 => Some(vowel - 7),
        26..=29 => Some(vowel - 9),
        _ => return None,
    };
    let end = match end {
        1 => None,
        2..=17 => Some(end - 2),
        19..=29 => Some(end - 3),
        _ => return None,
    };
    match (begin, vowel, end) {
        (Some(begin), Some(vowel), end) => {
            char::from_u32(0xac00 + (begin * 21 + vowel) * 28 + end.map_or(0, |end| end + 1))
        }
        (Some(begin), None, None) => FIRST.get(begin as usize).copied(),
        (None, Some(vowel), None) => char::from_u32(0x314f + vowel),
        (None, None, Some(end)) => LAST.get(end as usize).copied(),
        (None, None, None) => Some('\u{3000}'),
        _ => None,
    }
}

/// A character of a row of KS X 1001. Two rows share a first byte.
fn row_of_johab(first: u8, second: u8) -> Option<char> {
    let row = match first {
        0xd9..=0xde => 2 * (first - 0xd9),
        0xe0..=0xf9 => 41 + 2 * (first - 0xe0),
        _ => return None,
    };
    let cell = match second {
        0x31..=0x7e => second - 0x31,
        0x91..=0xfe => second - 0x43,
        _ => return None,
    };
    let euc = [0xa1 + row + cell / 94, 0xa1 + cell % 94];
    let text = EUC_KR.decode_without_bom_handling_and_without_replacement(&euc)?;
    text.chars().next()
}

/// UTF-32 (Unicode §3.10): the byte order mark says which end comes first; without one, the most
/// significant byte does.
pub(super) fn utf_32(bytes: &[u8]) -> String {
    match bytes.strip_prefix(b"\xff\xfe\0\0") {
        Some(rest) => utf_32_le(rest),
        None => utf_32_be(bytes.strip_prefix(b"\0\0\xfe\xff").unwrap_or(bytes)),
    }
}

pub(super) fn utf_32_be(bytes: &[u8]) -> String {
    characters(bytes, u32::from_be_bytes)
}

pub(super) fn utf_32_le(bytes: &[u8]) -> String {
    characters(bytes, u32::from_le_bytes)
}

fn characters(bytes: &[u8], number: fn([u8; 4]) -> u32) -> String {
    let (whole, _) = bytes.as_chunks::<4>();
    whole.iter().map(|four| char::from_u32(number(*four)).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Code page 437, from byte 128 on.
#[rustfmt::skip]
const CP437: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', '¢', '£', '¥', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 737, from byte 128 on.
#[rustfmt::skip]
const CP737: [char; 128] = [
    'Α', 'Β', 'Γ', 'Δ', 'Ε', 'Ζ', 'Η', 'Θ', 'Ι', 'Κ', 'Λ', 'Μ', 'Ν', 'Ξ', 'Ο', 'Π',
    'Ρ', 'Σ', 'Τ', 'Υ', 'Φ', 'Χ', 'Ψ', 'Ω', 'α', 'β', 'γ', 'δ', 'ε', 'ζ', 'η', 'θ',
    'ι', 'κ', 'λ', 'μ', 'ν', 'ξ', 'ο', 'π', 'ρ', 'σ', 'ς', 'τ', 'υ', 'φ', 'χ', 'ψ',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'ω', 'ά', 'έ', 'ή', 'ϊ', 'ί', 'ό', 'ύ', 'ϋ', 'ώ', 'Ά', 'Έ', 'Ή', 'Ί', 'Ό', 'Ύ',
    'Ώ', '±', '≥', '≤', 'Ϊ', 'Ϋ', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 775, from byte 128 on.
#[rustfmt::skip]
const CP775: [char; 128] = [
    'Ć', 'ü', 'é', 'ā', 'ä', 'ģ', 'å', 'ć', 'ł', 'ē', 'Ŗ', 'ŗ', 'ī', 'Ź', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ō', 'ö', 'Ģ', '¢', 'Ś', 'ś', 'Ö', 'Ü', 'ø', '£', 'Ø', '×', '¤',
    'Ā', 'Ī', 'ó', 'Ż', 'ż', 'ź', '”', '¦', '©', '®', '¬', '½', '¼', 'Ł', '«', '»',
    '░', '▒', '▓', '│', '┤', 'Ą', 'Č', 'Ę', 'Ė', '╣', '║', '╗', '╝', 'Į', 'Š', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'Ų', 'Ū', '╚', '╔', '╩', '╦', '╠', '═', '╬', 'Ž',
    'ą', 'č', 'ę', 'ė', 'į', 'š', 'ų', 'ū', 'ž', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'Ó', 'ß', 'Ō', 'Ń', 'õ', 'Õ', 'µ', 'ń', 'Ķ', 'ķ', 'Ļ', 'ļ', 'ņ', 'Ē', 'Ņ', '’',
    '\u{ad}', '±', '“', '¾', '¶', '§', '÷', '„', '°', '∙', '·', '¹', '³', '²', '■', '\u{a0}',
];
/// Code page 850, from byte 128 on.
#[rustfmt::skip]
const CP850: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', 'ø', '£', 'Ø', '×', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '®', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', 'Á', 'Â', 'À', '©', '╣', '║', '╗', '╝', '¢', '¥', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'ã', 'Ã', '╚', '╔', '╩', '╦', '╠', '═', '╬', '¤',
    'ð', 'Ð', 'Ê', 'Ë', 'È', 'ı', 'Í', 'Î', 'Ï', '┘', '┌', '█', '▄', '¦', 'Ì', '▀',
    'Ó', 'ß', 'Ô', 'Ò', 'õ', 'Õ', 'µ', 'þ', 'Þ', 'Ú', 'Û', 'Ù', 'ý', 'Ý', '¯', '´',
    '\u{ad}', '±', '‗', '¾', '¶', '§', '÷', '¸', '°', '¨', '·', '¹', '³', '²', '■', '\u{a0}',
];
/// Code page 852, from byte 128 on.
#[rustfmt::skip]
const CP852: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'ů', 'ć', 'ç', 'ł', 'ë', 'Ő', 'ő', 'î', 'Ź', 'Ä', 'Ć',
    'É', 'Ĺ', 'ĺ', 'ô', 'ö', 'Ľ', 'ľ', 'Ś', 'ś', 'Ö', 'Ü', 'Ť', 'ť', 'Ł', '×', 'č',
    'á', 'í', 'ó', 'ú', 'Ą', 'ą', 'Ž', 'ž', 'Ę', 'ę', '¬', 'ź', 'Č', 'ş', '«', '»',
    '░', '▒', '▓', '│', '┤', 'Á', 'Â', 'Ě', 'Ş', '╣', '║', '╗', '╝', 'Ż', 'ż', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'Ă', 'ă', '╚', '╔', '╩', '╦', '╠', '═', '╬', '¤',
    'đ', 'Đ', 'Ď', 'Ë', 'ď', 'Ň', 'Í', 'Î', 'ě', '┘', '┌', '█', '▄', 'Ţ', 'Ů', '▀',
    'Ó', 'ß', 'Ô', 'Ń', 'ń', 'ň', 'Š', 'š', 'Ŕ', 'Ú', 'ŕ', 'Ű', 'ý', 'Ý', 'ţ', '´',
    '\u{ad}', '˝', '˛', 'ˇ', '˘', '§', '÷', '¸', '°', '¨', '˙', 'ű', 'Ř', 'ř', '■', '\u{a0}',
];
/// Code page 855, from byte 128 on.
#[rustfmt::skip]
const CP855: [char; 128] = [
    'ђ', 'Ђ', 'ѓ', 'Ѓ', 'ё', 'Ё', 'є', 'Є', 'ѕ', 'Ѕ', 'і', 'І', 'ї', 'Ї', 'ј', 'Ј',
    'љ', 'Љ', 'њ', 'Њ', 'ћ', 'Ћ', 'ќ', 'Ќ', 'ў', 'Ў', 'џ', 'Џ', 'ю', 'Ю', 'ъ', 'Ъ',
    'а', 'А', 'б', 'Б', 'ц', 'Ц', 'д', 'Д', 'е', 'Е', 'ф', 'Ф', 'г', 'Г', '«', '»',
    '░', '▒', '▓', '│', '┤', 'х', 'Х', 'и', 'И', '╣', '║', '╗', '╝', 'й', 'Й', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'к', 'К', '╚', '╔', '╩', '╦', '╠', '═', '╬', '¤',
    'л', 'Л', 'м', 'М', 'н', 'Н', 'о', 'О', 'п', '┘', '┌', '█', '▄', 'П', 'я', '▀',
    'Я', 'р', 'Р', 'с', 'С', 'т', 'Т', 'у', 'У', 'ж', 'Ж', 'в', 'В', 'ь', 'Ь', '№',
    '\u{ad}', 'ы', 'Ы', 'з', 'З', 'ш', 'Ш', 'э', 'Э', 'щ', 'Щ', 'ч', 'Ч', '§', '■', '\u{a0}',
];
/// Code page 857, from byte 128 on.
#[rustfmt::skip]
const CP857: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ı', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'İ', 'Ö', 'Ü', 'ø', '£', 'Ø', 'Ş', 'ş',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'Ğ', 'ğ', '¿', '®', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', 'Á', 'Â', 'À', '©', '╣', '║', '╗', '╝', '¢', '¥', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'ã', 'Ã', '╚', '╔', '╩', '╦', '╠', '═', '╬', '¤',
    'º', 'ª', 'Ê', 'Ë', 'È', '�', 'Í', 'Î', 'Ï', '┘', '┌', '█', '▄', '¦', 'Ì', '▀',
    'Ó', 'ß', 'Ô', 'Ò', 'õ', 'Õ', 'µ', '�', '×', 'Ú', 'Û', 'Ù', 'ì', 'ÿ', '¯', '´',
    '\u{ad}', '±', '�', '¾', '¶', '§', '÷', '¸', '°', '¨', '·', '¹', '³', '²', '■', '\u{a0}',
];
/// Code page 858, from byte 128 on.
#[rustfmt::skip]
const CP858: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', 'ø', '£', 'Ø', '×', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '®', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', 'Á', 'Â', 'À', '©', '╣', '║', '╗', '╝', '¢', '¥', '┐',
    '└', '┴', '┬', '├', '─', '┼', 'ã', 'Ã', '╚', '╔', '╩', '╦', '╠', '═', '╬', '¤',
    'ð', 'Ð', 'Ê', 'Ë', 'È', '€', 'Í', 'Î', 'Ï', '┘', '┌', '█', '▄', '¦', 'Ì', '▀',
    'Ó', 'ß', 'Ô', 'Ò', 'õ', 'Õ', 'µ', 'þ', 'Þ', 'Ú', 'Û', 'Ù', 'ý', 'Ý', '¯', '´',
    '\u{ad}', '±', '‗', '¾', '¶', '§', '÷', '¸', '°', '¨', '·', '¹', '³', '²', '■', '\u{a0}',
];
/// Code page 860, from byte 128 on.
#[rustfmt::skip]
const CP860: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ã', 'à', 'Á', 'ç', 'ê', 'Ê', 'è', 'Í', 'Ô', 'ì', 'Ã', 'Â',
    'É', 'À', 'È', 'ô', 'õ', 'ò', 'Ú', 'ù', 'Ì', 'Õ', 'Ü', '¢', '£', 'Ù', '₧', 'Ó',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', 'Ò', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 861, from byte 128 on.
#[rustfmt::skip]
const CP861: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'Ð', 'ð', 'Þ', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'þ', 'û', 'Ý', 'ý', 'Ö', 'Ü', 'ø', '£', 'Ø', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'Á', 'Í', 'Ó', 'Ú', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 862, from byte 128 on.
#[rustfmt::skip]
const CP862: [char; 128] = [
    'א', 'ב', 'ג', 'ד', 'ה', 'ו', 'ז', 'ח', 'ט', 'י', 'ך', 'כ', 'ל', 'ם', 'מ', 'ן',
    'נ', 'ס', 'ע', 'ף', 'פ', 'ץ', 'צ', 'ק', 'ר', 'ש', 'ת', '¢', '£', '¥', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 863, from byte 128 on.
#[rustfmt::skip]
const CP863: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'Â', 'à', '¶', 'ç', 'ê', 'ë', 'è', 'ï', 'î', '‗', 'À', '§',
    'É', 'È', 'Ê', 'ô', 'Ë', 'Ï', 'û', 'ù', '¤', 'Ô', 'Ü', '¢', '£', 'Ù', 'Û', 'ƒ',
    '¦', '´', 'ó', 'ú', '¨', '¸', '³', '¯', 'Î', '⌐', '¬', '½', '¼', '¾', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
/// Code page 865, from byte 128 on.
#[rustfmt::skip]
const CP865: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', 'ø', '£', 'Ø', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '¤',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];
