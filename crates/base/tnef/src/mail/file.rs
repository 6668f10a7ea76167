//! A file that is a message: whether its bytes may be a message in mail.

use posthaste_mime_summary::{HeaderFields, InBounds, Span, bounded_header_len};

/// The type of a message in a message: RFC 2046 §5.2.1.
pub(super) const MESSAGE: &str = "message/rfc822";

/// The transfer encodings that a message may have: RFC 2046 §5.2.1. Its bytes stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AsItIs {
    SevenBit,
    EightBit,
}

impl AsItIs {
    /// The encoding of a message with these bytes. None if they can only be in base64, or are no
    /// message.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let header = bytes.in_bounds(..bounded_header_len(bytes)?);
        // RFC 6532 §3.7: a message with another header has another type.
        if !header.is_ascii() || !is_header(header) || !has_lines(bytes) {
            return None;
        }
        Some(if bytes.is_ascii() { Self::SevenBit } else { Self::EightBit })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::SevenBit => "7bit",
            Self::EightBit => "8bit",
        }
    }
}

/// Whether a header has a field that every message has, by RFC 2046 §5.2.1.
fn is_header(header: &[u8]) -> bool {
    let Ok(len) = u32::try_from(header.len()) else { return false };
    let mut fields = HeaderFields::new(header, Span::new(0, len));
    fields.any(|field| ["from", "subject", "date"].iter().any(|name| field.is(header, name)))
}

/// Whether bytes are lines as 7bit and 8bit want them: RFC 2045 §2.7 and §2.8.
fn has_lines(bytes: &[u8]) -> bool {
    const LINE_MAX: usize = 998;
    let mut begin = 0;
    for at in memchr::memchr3_iter(b'\r', b'\n', 0, bytes) {
        match bytes.get(at) {
            Some(b'\r') if bytes.get(at + 1) == Some(&b'\n') => {}
            Some(b'\n') if at > begin && bytes.get(at - 1) == Some(&b'\r') && at - 1 - begin <= LINE_MAX => {
                begin = at + 1;
            }
            _ => return false,
        }
    }
    bytes.len() - begin <= LINE_MAX
}

/// Whether a line of these bytes would be a delimiter of a multipart with one of these boundaries:
/// RFC 2046 §5.1.1. The line may go on behind it.
pub(super) fn has_delimiter<'b>(bytes: &[u8], boundaries: impl Iterator<Item = &'b [u8]> + Clone) -> bool {
    let begins = |at: usize| {
        let line = bytes.get(at + 2..).unwrap_or_default();
        boundaries.clone().any(|boundary| line.starts_with(boundary))
    };
    bytes.starts_with(b"--") && begins(0)
        || memchr::memmem::find_iter(bytes, b"\n--").any(|at| begins(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stands_as_it_is_or_not_at_all() {
        let line = "x".repeat(998);
        for (bytes, encoding) in [
            ("Subject: x\r\n\r\ntext\r\n", Some(AsItIs::SevenBit)),
            ("From: a@b.example\r\n\r\ntext", Some(AsItIs::SevenBit)),
            ("Date: x", Some(AsItIs::SevenBit)),
            ("Subject: x\r\n\r\n\u{fc}\r\n", Some(AsItIs::EightBit)),
            (&format!("Subject: x\r\n\r\n{line}\r\n\r\n{line}"), Some(AsItIs::SevenBit)),
            (&format!("Subject: x\r\n\r\n{line}y\r\n"), None),
            (&format!("Subject: x\r\n\r\n{line}y"), None),
            ("Subject: \u{fc}\r\n\r\ntext\r\n", None),
            ("Subject: x\n\ntext\n", None),
            ("Subject: x\r\n\r\na\rb\r\n", None),
            ("Subject: x\r\n\r\n\n", None),
            ("Subject: x\r\n\r\na\0\r\n", None),
            ("X: y\r\n\r\ntext\r\n", None),
            ("text\r\n", None),
            ("", None),
        ] {
            assert_eq!(AsItIs::of(bytes.as_bytes()), encoding, "{bytes:?}");
        }
    }

    #[test]
    fn a_delimiter_begins_a_line() {
        let has = |text: &str| has_delimiter(text.as_bytes(), [&b"ab"[..], b"q"].into_iter());
        assert!(has("--ab") && has("x\r\n--q--\r\n") && has("x\n--abc"));
        assert!(!has("--a") && !has("x --ab\r\n -- q") && !has("") && !has("--"));
    }
}
