//! Size and mailbox that APPEND or REPLACE announces.
//!
//! So a server can refuse a message that is over the quota before the client sends it. The parser
//! of the whole command reports faults in the grammar.

use bytes::Bytes;

use crate::cursor::{Cursor, Quoting};

/// Bytes of a mailbox's name as a client writes it. A name has 1,000 bytes at most, and modified
/// UTF-7 makes at most three of one.
const MAILBOX_BYTES_MAX: usize = 4096;

/// A message whose literal is announced, or a part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncomingMessage {
    /// The name of the mailbox as the client wrote it.
    pub mailbox: Bytes,
    /// Bytes of the messages in the command's earlier literals.
    pub before: u64,
    /// The command is a REPLACE.
    pub replaces: bool,
}

impl IncomingMessage {
    /// Reads the first line of a command; `None` if the mailbox is not named there, or if no
    /// mailbox has such a name.
    pub(super) fn of(command: &[u8], before: u64) -> Option<Self> {
        let end = memchr::memchr(b'\n', command)? + 1;
        let line = Bytes::copy_from_slice(&command[..end]);
        let (_tag, rest) = word(&line)?;
        let (first, after) = word(rest)?;
        let (name, after) = if first.eq_ignore_ascii_case(b"UID") { word(after)? } else { (first, after) };
        let replaces = name.eq_ignore_ascii_case(b"REPLACE");
        // RFC 8508 §6: the message comes first, then the mailbox.
        let argument = if replaces { word(after)?.1 } else { after };
        if argument.starts_with(b"{") {
            return None;
        }
        let argument = line.slice_ref(argument);
        let mailbox = Cursor::new(&argument, Quoting::Strict).astring("a mailbox name").ok()?;
        if mailbox.len() > MAILBOX_BYTES_MAX {
            return None;
        }
        Some(Self { mailbox: Bytes::copy_from_slice(&mailbox), before, replaces })
    }
}

/// A word, and the rest after the space that follows it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', line)?;
    Some((&line[..end], &line[end + 1..]))
}

/// Whether a line of an APPEND announces a literal that is no message, or names values that may be
/// literals: an annotation (RFC 5257 §4.7) or a URL (RFC 4469 §3). Each line of an APPEND is
/// examined, so the first letter of a word is compared before the word.
pub(super) fn names_other_literal(line: &[u8]) -> bool {
    let begins = |at: usize, word: &[u8]| {
        line.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word))
    };
    line.iter().enumerate().any(|(at, first)| match first {
        b'A' | b'a' => begins(at, b"ANNOTATION"),
        b'U' | b'u' => begins(at, b"URL {"),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailbox_of_a_message_is_read_from_the_first_line() {
        let of = |line: &str| {
            let message = IncomingMessage::of(line.as_bytes(), 7)?;
            assert_eq!(message.before, 7);
            Some((String::from_utf8(message.mailbox.to_vec()).unwrap(), message.replaces))
        };
        let named = |name: &str, replaces| Some((name.to_owned(), replaces));
        assert_eq!(of("a APPEND Sent {9}\r\n"), named("Sent", false));
        assert_eq!(of("a append \"two \\\"words\" (\\Seen) {9}\r\nx {3}\r\n"), named("two \"words", false));
        assert_eq!(of("a REPLACE 4 Drafts {9+}\r\n"), named("Drafts", true));
        assert_eq!(of("a UID REPLACE 4 Drafts {9+}\r\n"), named("Drafts", true));
        let long = |len: usize| format!("a APPEND {} {{9}}\r\n", "x".repeat(len));
        assert!(of(&long(MAILBOX_BYTES_MAX)).is_some() && of(&long(MAILBOX_BYTES_MAX + 1)).is_none());
        for line in ["a APPEND {4}\r\n", "a APPEND \"x {4}\r\n", "a APPEND", "a\r\n", "a REPLACE {4}\r\n"] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn literals_that_are_no_messages() {
        for line in
            ["a APPEND x annotation (/comment (value.priv {3}\r\n", " Url {30}\r\n", "uuRL {", "aAnnotation"]
        {
            assert!(names_other_literal(line.as_bytes()), "{line}");
        }
        for line in ["a APPEND x (\\Seen) CATENATE (TEXT {3}\r\n", "a APPEND annotatio", "URL ", "", "a"] {
            assert!(!names_other_literal(line.as_bytes()), "{line}");
        }
    }
}
