//! HTML and text inside RTF: MS-OXRTFEX §2.1.3. [`super::read()`] extracts them again.
//!
//! Programs that know RTF alone show the text with its paragraphs. NULs are left out: RTF has none.

use std::fmt::Write;

use posthaste_mime_summary::InBounds;

/// HTML as RTF.
pub fn wrap_html(html: &str) -> Vec<u8> {
    let mut out = String::with_capacity(html.len() * 2);
    out.push_str("{\\rtf1\\ansi\\ansicpg1252\\fromhtml1 \\deff0");
    out.push_str("{\\fonttbl{\\f0\\fswiss\\fcharset0 Arial;}}\r\n\\uc1\\pard\\plain\\deftab360 \\f0\\fs20 ");
    let mut rest = html;
    let mut unended = 0;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_len(rest, &mut unended));
        rest = after;
        write_piece(piece, &mut out);
    }
    out.push('}');
    out.into_bytes()
}

/// Text as RTF.
pub fn wrap_text(text: &str) -> Vec<u8> {
    let mut out = String::with_capacity(text.len() + 128);
    out.push_str("{\\rtf1\\ansi\\ansicpg1252\\fromtext \\deff0");
    out.push_str(
        "{\\fonttbl{\\f0\\fmodern\\fcharset0 Courier New;}}\r\n\\uc1\\pard\\plain\\deftab360 \\f0\\fs20 ",
    );
    escape_into(text, &mut out);
    out.push('}');
    out.into_bytes()
}

/// Elements whose content is no text.
const RAW: [&str; 3] = ["script", "style", "title"];

/// The length of the first piece: a tag, a comment, a script, an entity, a line end, or text.
/// `unended` has a bit for each element of [`RAW`] that has no end from here on, so that the end is
/// not looked for again.
fn piece_len(html: &str, unended: &mut u8) -> usize {
    let bytes = html.as_bytes();
    let upto = |end: &str, from: usize| {
        let found = html.get(from..).and_then(|rest| rest.find(end));
        found.map_or(html.len(), |at| from + at + end.len())
    };
    match bytes {
        [b'<', b'!', b'-', b'-', ..] => upto("-->", 4),
        [b'<', next, ..] if next.is_ascii_alphabetic() || matches!(next, b'/' | b'!' | b'?') => {
            let tag = upto(">", 1);
            let is_raw =
                |name: &str| html.get(1..=name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
            let raw = (0..).zip(RAW).find(|(bit, name)| is_raw(name) && *unended & (1 << bit) == 0);
            let Some((bit, name)) = raw else { return tag };
            let end = memchr::memmem::find(bytes.in_bounds(tag..), format!("</{name}").as_bytes());
            if end.is_none() {
                *unended |= 1 << bit;
            }
            tag + end.unwrap_or_default()
        }
        [b'&', ..] => {
            let name = bytes.iter().skip(1).take_while(|b| b.is_ascii_alphanumeric() || **b == b'#').count();
            if name > 0 && bytes.get(name + 1) == Some(&b';') { name + 2 } else { 1 }
        }
        [b'\r', b'\n', ..] => 2,
        _ => {
            let text = bytes.iter().skip(1).position(|b| matches!(b, b'<' | b'&' | b'\r'));
            text.map_or(html.len(), |len| len + 1)
        }
    }
}

fn write_piece(piece: &str, out: &mut String) {
    match piece.as_bytes() {
        [b'<', _, ..] => {
            out.push_str("{\\*\\htmltag64 ");
            escape_into(piece, out);
            out.push('}');
            out.push_str(shown_for(piece));
        }
        [b'&', .., b';'] => {
            out.push_str("{\\*\\htmltag84 ");
            escape_into(piece, out);
            out.push('}');
            let shown = match piece {
                "&amp;" => "&",
                "&lt;" => "<",
                "&gt;" => ">",
                "&quot;" => "\"",
                "&nbsp;" => "\\~",
                _ => "",
            };
            if !shown.is_empty() {
                let _ = write!(out, "\\htmlrtf {shown}\\htmlrtf0 ");
            }
        }
        // A line end in HTML is a space in the text.
        b"\r\n" => out.push_str("{\\*\\htmltag64\\par }\\htmlrtf  \\htmlrtf0 "),
        _ => escape_into(piece, out),
    }
}

/// The RTF for a tag, for programs that know only RTF.
fn shown_for(tag: &str) -> &'static str {
    let name: String = tag
        .chars()
        .skip(1)
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match name.as_str() {
        "br" | "br/" => "\\htmlrtf \\line\\htmlrtf0 ",
        "/p" | "/div" | "/li" | "/tr" | "/h1" | "/h2" | "/h3" | "/h4" => "\\htmlrtf \\par\\htmlrtf0 ",
        _ => "",
    }
}

/// Text with RTF's escapes.
fn escape_into(text: &str, out: &mut String) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' | '{' | '}' => {
                out.push('\\');
                out.push(character);
            }
            '\r' if characters.peek() == Some(&'\n') => {
                characters.next();
                out.push_str("\\par ");
            }
            '\t' => out.push_str("\\tab "),
            '\0' => {}
            ' '..='~' => out.push(character),
            '\u{1}'..='\u{7F}' => {
                let _ = write!(out, "\\'{:02x}", u32::from(character));
            }
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{}?", unit.cast_signed());
                }
            }
        }
    }
}
