//! Header fields as bytes: text, names of people, and parameters.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Octets of a line at most, without its end: RFC 5322 §2.1.1 recommends it.
const LINE_MAX: usize = 78;
/// Octets of UTF-8 in one encoded word: with base64 and `=?utf-8?B?…?=` it stays under 75
/// (RFC 2047 §2).
const WORD_MAX: usize = 45;
/// Octets of text that one field may have. A subject of the specification has 255 characters.
const TEXT_MAX: usize = 16 * 1024;

/// Text without control characters, and not endless.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if out.len() >= TEXT_MAX {
            break;
        }
        out.push(if character.is_control() { ' ' } else { character });
    }
    out.trim().to_owned()
}

/// Unstructured text: as it is, or as encoded words (RFC 2047).
pub(super) fn text(text: &str) -> String {
    let text = clean(text);
    let is_plain =
        text.is_ascii() && !text.contains("=?") && text.split(' ').all(|word| word.len() < LINE_MAX - 20);
    if is_plain { fold(&text) } else { encoded_words(&text) }
}

/// The value of a field whose grammar is unknown. ASCII stays as it is: encoded words mean nothing
/// in most fields (RFC 2047 §5).
pub(super) fn value(text: &str) -> String {
    // With the name of the field, a line stays under 998.
    const LONG_MAX: usize = 900;
    let text = clean(text);
    let is_plain = text.is_ascii() && text.split(' ').all(|word| word.len() < LONG_MAX);
    if is_plain { fold(&text) } else { encoded_words(&text) }
}

/// Breaks at spaces, so that lines stay short. A line of nothing but white space would end the
/// header for some programs, so runs of spaces stay together.
fn fold(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 32);
    // The name of the field is on the first line.
    let mut column = 20;
    for (place, word) in text.split(' ').enumerate() {
        if place > 0 {
            if column + word.len() > LINE_MAX - 2 && !word.is_empty() && !out.ends_with(' ') {
                out.push_str("\r\n ");
                column = 1;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += word.len();
    }
    out
}

fn encoded_words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let cut = rest.floor_char_boundary(WORD_MAX);
        let (word, after) = rest.split_at(cut);
        rest = after;
        if !out.is_empty() {
            out.push_str("\r\n ");
        }
        let _ = write!(out, "=?utf-8?B?{}?=", STANDARD.encode(word));
    }
    out
}

/// A display name: a quoted string or encoded words.
pub(super) fn phrase(name: &str) -> String {
    let name = clean(name);
    if !name.is_ascii() || name.contains("=?") || name.len() > 60 {
        return encoded_words(&name);
    }
    let mut out = String::from("\"");
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

/// A parameter, with `;` and a line end before it: RFC 2045 §5.1, or RFC 2231 where that cannot
/// say it.
pub(super) fn parameter(name: &str, value: &str) -> String {
    const PIECE_MAX: usize = 60;
    let value = clean(value);
    let is_plain = value.bytes().all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\'));
    if is_plain && value.len() <= PIECE_MAX {
        return format!(";\r\n {name}=\"{value}\"");
    }
    let mut pieces = vec![String::new()];
    for byte in value.bytes() {
        let mut escaped = String::new();
        // RFC 2231 §7: attribute-char.
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
        if pieces.last().is_some_and(|piece| piece.len() + escaped.len() > PIECE_MAX) {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(&escaped);
        }
    }
    if let [piece] = pieces.as_slice() {
        return format!(";\r\n {name}*=utf-8''{piece}");
    }
    let mut out = String::new();
    for (place, piece) in pieces.iter().enumerate() {
        let charset = if place == 0 { "utf-8''" } else { "" };
        let _ = write!(out, ";\r\n {name}*{place}*={charset}{piece}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(parameter("filename", "a b.txt"), ";\r\n filename=\"a b.txt\"");
        assert_eq!(parameter("filename", "ü \".txt"), ";\r\n filename*=utf-8''%C3%BC%20%22.txt");
        let long = parameter("name", &"ü".repeat(20));
        assert!(
            long.starts_with(";\r\n name*0*=utf-8''%C3%BC") && long.contains(";\r\n name*1*=%C3"),
            "{long}"
        );
        assert_eq!(parameter("name", "a\r\nb"), ";\r\n name=\"a  b\"");
    }

    #[test]
    fn texts_and_names() {
        assert_eq!(text("Hello\r\nBcc: x"), "Hello  Bcc: x");
        assert_eq!(text("Grüße"), "=?utf-8?B?R3LDvMOfZQ==?=");
        assert!(
            text(&"word ".repeat(100)).split("\r\n").all(|line| line.len() < 78 && !line.trim().is_empty())
        );
        assert!(text(&"ü".repeat(100)).split("\r\n").all(|line| line.len() <= 76));
        let long = format!("x={}", "y".repeat(300));
        assert_eq!((value(&long), value("a\r\nb"), value("ü")), (long, "a  b".into(), text("ü")));
        assert!(value(&"y".repeat(1_000)).split("\r\n").all(|line| line.len() <= 76));
        assert_eq!(phrase("A \"B\" C"), "\"A \\\"B\\\" C\"");
        assert_eq!(phrase("Zoë"), "=?utf-8?B?Wm/Dqw==?=");
    }
}
