//! Mailbox names as the store keeps them: UTF-8, levels separated by `/`, INBOX in capitals.
//!
//! The codec defines the forms of a name on the wire: modified UTF-7 in RFC 3501 §5.1.3, UTF-8 in
//! RFC 9051 §5.1. This file decides which names are valid.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// The hierarchy separator.
pub const SEPARATOR: char = '/';

/// A valid mailbox name. The first level `INBOX` is written in capitals, whatever the client sent
/// (RFC 9051 §5.1: INBOX is case-insensitive). Characters are composed. So names that look alike
/// are the same (RFC 9051 §5.1, §6.3.4: names are Net-Unicode, RFC 5198 §3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxName(Arc<str>);

/// The reason why a text is not a mailbox name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// Nothing there, or nothing between two separators.
    #[error("a mailbox name has no empty level: no leading, trailing or doubled '/'")]
    EmptyLevel,
    /// `.` or `..` as a level: harmless here, an attack on whatever it is exported to.
    #[error("'.' and '..' are not mailbox names")]
    Dots,
    /// A control character (RFC 9051 §5.1 advises against, RFC 5198 §2 forbids).
    #[error("a mailbox name holds no control characters")]
    Control,
    /// `%` and `*`, which LIST could never name.
    #[error("a mailbox name holds no '%' and no '*'")]
    Wildcard,
    /// Over [`MailboxName::LEN_MAX`] bytes or [`MailboxName::LEVELS_MAX`] levels.
    #[error("a mailbox name has at most 1000 bytes and 32 levels")]
    TooLong,
}

impl MailboxName {
    /// Bytes of UTF-8. Twice as much would not fit the 2 KiB that LMDB keeps in a page of its own.
    pub const LEN_MAX: usize = 1000;
    /// Levels.
    pub const LEVELS_MAX: usize = 32;

    /// The inbox.
    pub fn inbox() -> Self {
        Self("INBOX".into())
    }

    /// Text with its characters composed, as they are in every name: Unicode's form NFC.
    pub fn composed(text: &str) -> Cow<'_, str> {
        if is_nfc(text) { text.into() } else { text.nfc().collect::<String>().into() }
    }

    /// A name from text in UTF-8.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.len() > Self::LEN_MAX {
            return Err(NameError::TooLong);
        }
        match Self::is_plain(text) {
            true => Ok(Self(Self::fold_inbox(text).into())),
            false => Self::checked(text),
        }
    }

    /// A name from text that may have to be changed or refused.
    fn checked(text: &str) -> Result<Self, NameError> {
        let text = &*Self::composed(text);
        if text.len() > Self::LEN_MAX || text.split(SEPARATOR).count() > Self::LEVELS_MAX {
            return Err(NameError::TooLong);
        }
        for level in text.split(SEPARATOR) {
            match level {
                "" => return Err(NameError::EmptyLevel),
                "." | ".." => return Err(NameError::Dots),
                _ => {}
            }
        }
        if text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            return Err(NameError::Control);
        }
        if text.contains(['%', '*']) {
            return Err(NameError::Wildcard);
        }
        Ok(Self(Self::fold_inbox(text).into()))
    }

    /// Whether nothing in the text has to be changed or refused, as in nearly every name: one level
    /// of ASCII.
    fn is_plain(text: &str) -> bool {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'%' | b'*' | b'/');
        !matches!(text, "" | "." | "..") && text.bytes().all(is_plain)
    }

    /// `inbox` and `inbox/…` with their first level in capitals.
    fn fold_inbox(text: &str) -> Cow<'_, str> {
        const INBOX: &str = "INBOX";
        match text.split_at_checked(INBOX.len()) {
            Some((first, rest))
                if first.eq_ignore_ascii_case(INBOX)
                    && first != INBOX
                    && (rest.is_empty() || rest.starts_with(SEPARATOR)) =>
            {
                [INBOX, rest].concat().into()
            }
            _ => text.into(),
        }
    }

    /// Whether this is the inbox itself.
    pub fn is_inbox(&self) -> bool {
        &*self.0 == "INBOX"
    }

    /// The name in UTF-8.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name one level up; `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once(SEPARATOR).map(|(parent, _)| Self(parent.into()))
    }

    /// Whether this name lies somewhere below `other`.
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_prefix(&*other.0).is_some_and(|rest| rest.starts_with(SEPARATOR))
    }
}

impl fmt::Display for MailboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for MailboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        #[test]
        fn plain_text_need_not_be_checked(text in "[ -~]{0,8}|[iI][nN][bB][oO][xX]") {
            if MailboxName::is_plain(&text) {
                prop_assert_eq!(MailboxName::new(&text), MailboxName::checked(&text));
            }
        }
    }

    #[test]
    fn inbox_is_one_mailbox_however_it_is_written() {
        assert_eq!(MailboxName::new("iNbOx").unwrap(), MailboxName::inbox());
        assert_eq!(MailboxName::new("inbox/Lists").unwrap().as_str(), "INBOX/Lists");
        assert_eq!(MailboxName::new("Inboxes").unwrap().as_str(), "Inboxes");
    }

    #[test]
    fn characters_are_composed() {
        assert_eq!(MailboxName::new("Entwu\u{308}rfe").unwrap().as_str(), "Entw\u{fc}rfe");
        // Some characters are three when composed: the limit is on the stored name.
        let long = "\u{fb2c}".repeat(MailboxName::LEN_MAX / 3);
        assert_eq!(MailboxName::new(&long), Err(NameError::TooLong));
    }

    #[test]
    fn bad_names_say_why() {
        for (text, error) in [
            ("", NameError::EmptyLevel),
            ("a//b", NameError::EmptyLevel),
            ("a/", NameError::EmptyLevel),
            ("a/../b", NameError::Dots),
            ("a\u{7}b", NameError::Control),
            ("a\0", NameError::Control),
            ("50%", NameError::Wildcard),
        ] {
            assert_eq!(MailboxName::new(text), Err(error), "{text:?}");
        }
        assert_eq!(MailboxName::new(&"x".repeat(1001)), Err(NameError::TooLong));
        assert_eq!(MailboxName::new(&vec!["x"; 33].join("/")), Err(NameError::TooLong));
    }

    #[test]
    fn levels() {
        let name = MailboxName::new("a/b/c").unwrap();
        assert_eq!(name.parent().unwrap().as_str(), "a/b");
        assert!(name.is_below(&MailboxName::new("a").unwrap()));
        assert!(!MailboxName::new("ab").unwrap().is_below(&MailboxName::new("a").unwrap()));
    }
}
