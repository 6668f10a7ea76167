//! Mailbox names as arguments: the decoded name, or the reason why it cannot be decoded.
//!
//! A name that does not decode is not a syntax error of the command: the server answers it like any
//! other invalid name. So the parser keeps the bytes as a value.

use std::fmt;

use posthaste_mail_model::{MailboxName, NameError, SEPARATOR};

use crate::utf7::{self, Utf7Error};

/// The encoding of names beyond ASCII on this connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum NameEncoding {
    /// Modified UTF-7: RFC 3501 §5.1.3, until the client enables something better.
    #[default]
    Utf7,
    /// UTF-8: RFC 9051 §5.1 after ENABLE IMAP4rev2, RFC 6855 §3 after ENABLE UTF8=ACCEPT.
    Utf8,
}

/// A mailbox name from the wire.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MailboxArg(Decoded);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Decoded {
    Text(Box<str>),
    Raw(Box<[u8]>, MailboxArgError),
}

/// The reason why a name from the wire cannot be used. `Display` is fit for a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MailboxArgError {
    /// Not modified UTF-7 (RFC 3501 §5.1.3).
    #[error("the mailbox name is not valid modified UTF-7: {0}")]
    Utf7(#[from] Utf7Error),
    /// Not UTF-8 (RFC 9051 §5.1).
    #[error("the mailbox name is not valid UTF-8")]
    Utf8,
    /// Decoded, but no name a mailbox may have.
    #[error("{0}")]
    Name(BadName),
}

/// [`NameError`], comparable and hashable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadName(pub NameError);

impl std::hash::Hash for BadName {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(&self.0).hash(state);
    }
}
impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl MailboxArg {
    /// Reads the bytes of an argument.
    pub fn decode(bytes: &[u8], encoding: NameEncoding) -> Self {
        // Plain names mean the same in both encodings; nearly all are.
        let plain = bytes.iter().all(|&b| matches!(b, 0x20..=0x7e) && b != b'&');
        let decoded = match (encoding, plain) {
            (NameEncoding::Utf7, false) => utf7::decode(bytes).map_err(MailboxArgError::Utf7),
            _ => std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| MailboxArgError::Utf8),
        };
        Self(match decoded {
            Ok(text) => Decoded::Text(text.into()),
            Err(error) => Decoded::Raw(bytes.into(), error),
        })
    }

    /// A name that is known.
    pub fn from_text(text: &str) -> Self {
        Self(Decoded::Text(text.into()))
    }

    /// The text as sent, decoded.
    pub fn text(&self) -> Result<&str, MailboxArgError> {
        match &self.0 {
            Decoded::Text(text) => Ok(text),
            Decoded::Raw(_, error) => Err(*error),
        }
    }

    /// The name of a mailbox.
    pub fn name(&self) -> Result<MailboxName, MailboxArgError> {
        MailboxName::new(self.text()?).map_err(|e| MailboxArgError::Name(BadName(e)))
    }

    /// The name for CREATE: one separator at the end only announces children (RFC 9051 §6.3.4).
    pub fn create_name(&self) -> Result<MailboxName, MailboxArgError> {
        let text = self.text()?;
        MailboxName::new(text.strip_suffix(SEPARATOR).unwrap_or(text))
            .map_err(|e| MailboxArgError::Name(BadName(e)))
    }

    /// The bytes of this name in `encoding`.
    pub fn encode(&self, encoding: NameEncoding) -> std::borrow::Cow<'_, [u8]> {
        match (&self.0, encoding) {
            (Decoded::Raw(bytes, _), _) => bytes.as_ref().into(),
            (Decoded::Text(text), NameEncoding::Utf8) => text.as_bytes().into(),
            (Decoded::Text(text), NameEncoding::Utf7) => utf7::encode(text),
        }
    }
}

impl From<&MailboxName> for MailboxArg {
    fn from(name: &MailboxName) -> Self {
        Self::from_text(name.as_str())
    }
}

impl fmt::Debug for MailboxArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Decoded::Text(text) => fmt::Debug::fmt(text, f),
            Decoded::Raw(bytes, error) => write!(f, "\"{}\" ({error})", bytes.escape_ascii()),
        }
    }
}

/// A LIST pattern: a name in which `*` and `%` are wildcards (RFC 9051 §6.3.9). The wildcards are
/// ASCII, so decoding leaves them alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ListPattern(pub MailboxArg);

impl ListPattern {
    /// A pattern that is known.
    pub fn from_text(text: &str) -> Self {
        Self(MailboxArg::from_text(text))
    }

    /// The pattern, decoded. One that does not decode matches nothing.
    pub fn text(&self) -> Result<&str, MailboxArgError> {
        self.0.text()
    }
}
