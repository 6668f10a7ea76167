//! Conditions of X-GM-RAW on the parts of a message: `has:attachment` and `filename:`. They are
//! read from the stored BODYSTRUCTURE, so no message is opened.

use std::borrow::Cow;

use posthaste_imap_codec::command::SearchKey;
use posthaste_mime_summary::SearchKey as Text;

/// A condition on the parts of a message.
#[derive(Debug)]
pub(crate) enum PartCondition {
    /// A part has the disposition `attachment`.
    Attachment,
    /// The text is in the file name of a part.
    FileName(Box<Text>),
}

const FILENAME: &str = "filename:";

/// Steps of reading an octet of a structure: its tokens are short.
const TOKEN_STEPS: u64 = 4;
/// Steps of the same, if the names of files are decoded and compared as well. A name may have one
/// octet, with 11 around it.
const NAME_STEPS: u64 = 16;

impl PartCondition {
    /// The search key of `has:attachment`. Only [`super::raw`] makes it.
    pub(super) fn attachment_key() -> SearchKey {
        SearchKey::GmRaw("has:attachment".to_owned())
    }

    /// The search key of `filename:`.
    pub(super) fn filename_key(name: &str) -> SearchKey {
        SearchKey::GmRaw(format!("{FILENAME}{name}"))
    }

    /// Reads the condition from the text of one of these keys.
    pub(crate) fn of_key(key: &str) -> Self {
        match key.strip_prefix(FILENAME) {
            Some(name) => Self::FileName(Box::new(Text::new(name))),
            None => Self::Attachment,
        }
    }

    /// Steps of reading an octet of a structure.
    pub(crate) const fn octet_steps(&self) -> u64 {
        match self {
            Self::Attachment => TOKEN_STEPS,
            Self::FileName(_) => NAME_STEPS,
        }
    }

    /// Whether the condition holds.
    pub(crate) fn holds(&self, structure: &[u8]) -> bool {
        match self {
            Self::Attachment => has_attachment(structure),
            Self::FileName(text) => any_file_name(structure, |name| text.is_in_field(name)),
        }
    }
}

/// A token of a printed structure.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Token<'s> {
    Open,
    Close,
    Str(Cow<'s, [u8]>),
    Atom(&'s [u8]),
}

/// The tokens of a structure as FETCH prints it.
pub(super) struct Tokens<'s>(pub(super) &'s [u8]);

impl<'s> Iterator for Tokens<'s> {
    type Item = Token<'s>;

    fn next(&mut self) -> Option<Token<'s>> {
        let (&first, rest) = self.0.trim_ascii_start().split_first()?;
        let (token, rest) = match first {
            b'(' => (Token::Open, rest),
            b')' => (Token::Close, rest),
            b'"' => {
                let (text, rest) = unquoted(rest)?;
                (Token::Str(text), rest)
            }
            b'{' => {
                let end = memchr::memchr(b'\n', rest)?;
                let len = str::from_utf8(&rest[..end]).ok()?.trim_end_matches(['+', '}', '\r']);
                let (text, rest) = rest[end + 1..].split_at_checked(len.parse().ok()?)?;
                (Token::Str(text.into()), rest)
            }
            _ => {
                let is_end = |b: &u8| matches!(b, b'(' | b')' | b' ');
                let atom = self.0.trim_ascii_start();
                let (atom, rest) = atom.split_at(atom.iter().position(is_end).unwrap_or(atom.len()));
                (Token::Atom(atom), rest)
            }
        };
        self.0 = rest;
        Some(token)
    }
}

/// The text up to the closing quote, and the bytes after that.
fn unquoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', text)?;
    if text[end] == b'"' {
        return Some((text[..end].into(), &text[end + 1..]));
    }
    let (mut made, mut at) = (text[..end].to_vec(), end);
    loop {
        match text.get(at)? {
            b'"' => return Some((made.into(), &text[at + 1..])),
            b'\\' => {
                made.push(*text.get(at + 1)?);
                at += 2;
            }
            byte => {
                made.push(*byte);
                at += 1;
            }
        }
    }
}

/// RFC 9051 §9: `body-fld-dsp = "(" string SP body-fld-param ")"`. The name of an address, which
/// may also be the first string of a list, has strings after it.
pub(super) fn has_attachment(structure: &[u8]) -> bool {
    let (mut before, mut is_named, mut is_nil) = (None, false, false);
    for token in Tokens(structure) {
        if (is_named && token == Token::Open) || (is_nil && token == Token::Close) {
            return true;
        }
        is_nil = is_named && matches!(token, Token::Atom(b"NIL"));
        is_named = before == Some(Token::Open)
            && matches!(&token, Token::Str(text) if text.eq_ignore_ascii_case(b"attachment"));
        before = Some(token);
    }
    false
}

/// RFC 9051 §9: `body-fld-param = "(" string SP string *(SP string SP string) ")"`. Every other
/// list of strings that a structure has begins otherwise, or has a NIL before its third string.
pub(super) fn any_file_name(structure: &[u8], mut is_it: impl FnMut(&[u8]) -> bool) -> bool {
    // The strings of the innermost list; odd ones are names of parameters. `None` if something
    // else is in the list.
    let mut strings = None;
    let mut is_name = false;
    for token in Tokens(structure) {
        let text = match &token {
            Token::Open => {
                strings = Some(0u32);
                continue;
            }
            Token::Close | Token::Atom(_) => {
                strings = None;
                continue;
            }
            Token::Str(text) => text,
        };
        let Some(count) = &mut strings else { continue };
        *count += 1;
        if *count % 2 == 1 {
            let names: [&[u8]; 4] = [b"filename", b"name", b"filename*", b"name*"];
            is_name = names.iter().any(|name| text.eq_ignore_ascii_case(name));
        } else if is_name && is_it(&plain(text)) {
            return true;
        }
    }
    false
}

/// A value of RFC 2231 without its charset, language and percent signs: `utf-8''%c3%bc`.
pub(super) fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    let mut parts = value.splitn(3, |&b| b == b'\'');
    let (Some(_), Some(_), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        return value.into();
    };
    let (mut made, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        let digits =
            text.get(at + 1..at + 3).filter(|_| byte == b'%').and_then(|two| str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(escaped) => {
                made.push(escaped);
                at += 3;
            }
            None => {
                made.push(byte);
                at += 1;
            }
        }
    }
    made.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(structure: &str) -> Vec<String> {
        let mut found = Vec::new();
        any_file_name(structure.as_bytes(), |name| {
            found.push(String::from_utf8(name.to_vec()).unwrap());
            false
        });
        found
    }

    const NESTED: &str = "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 9 (NIL \"name\" \
        ((\"attachment\" NIL \"name\" \"x.pdf\")) ((\"attachment\" NIL \"a\" \"b\")) NIL NIL NIL NIL NIL NIL) \
        (\"text\" \"plain\" (\"charset\" \"name\") NIL NIL \"7bit\" 1 1) 1)";

    #[test]
    fn names_of_files_are_found() {
        for (structure, expected) in [
            ("(\"text\" \"plain\" (\"charset\" \"utf-8\" \"NAME\" \"a.txt\") NIL NIL \"7bit\" 1 1)", "a.txt"),
            (
                "(\"a\" \"b\" NIL NIL NIL \"7bit\" 1 NIL (\"inline\" (\"filename\" \"q\\\"\\\\.pdf\")))",
                "q\"\\.pdf",
            ),
            ("(\"a\" \"b\" (\"x\" \"name\" \"name\" {3}\r\n\"()) NIL)", "\"()"),
            ("(\"a\" \"b\" (\"filename*\" \"utf-8''%c3%bc%20%zz.pdf\"))", "\u{fc} %zz.pdf"),
            ("(\"a\" \"b\" (\"filename\" \"it's.pdf\"))", "it's.pdf"),
        ] {
            assert_eq!(names(structure), [expected], "{structure}");
        }
        for structure in [NESTED, "", "(\"", "({9}\r\n", "({x}\r\n", "(\"name\" \"a\\"] {
            assert_eq!(names(structure), Vec::<String>::new(), "{structure}");
        }
    }

    #[test]
    fn attachments_are_found_by_their_disposition() {
        for (structure, expected) in [
            ("(\"a\" \"b\" NIL NIL NIL \"7bit\" 1 NIL (\"ATTACHMENT\" (\"filename\" \"x\")) NIL NIL)", true),
            ("(\"a\" \"b\" NIL NIL NIL \"7bit\" 1 NIL (\"attachment\" NIL) NIL NIL)", true),
            (
                "(\"a\" \"b\" NIL NIL NIL \"7bit\" 1 NIL (\"inline\" (\"filename\" \"attachment\")) NIL NIL)",
                false,
            ),
            (NESTED, false),
            ("", false),
        ] {
            assert_eq!(has_attachment(structure.as_bytes()), expected, "{structure}");
        }
    }
}
