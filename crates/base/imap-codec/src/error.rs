//! Errors of commands and responses that cannot be parsed, as texts for `BAD`.

use std::fmt;

use crate::Tag;

/// The fault, its place, and the tag of the answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ParseError {
    /// The tag, if one could be read: a server answers `tag BAD`, without one `* BAD`.
    pub tag: Option<Tag>,
    /// The kind of fault, and the side that made it.
    pub kind: ParseErrorKind,
    /// Byte of the input at which the rule was broken.
    pub offset: usize,
    /// The expected element of the grammar, or the limit that was met.
    pub expected: &'static str,
}

/// Sorts of error that a server answers differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseErrorKind {
    /// No tag: `* BAD`.
    Tag,
    /// No command of this name: `BAD`.
    UnknownCommand,
    /// The command is known, its arguments are not right: `BAD`.
    Syntax,
    /// One of [`crate::limits`]: `BAD`, or `NO [LIMIT]`.
    Limit,
    /// `SEARCH CHARSET` with an unknown charset: `NO [BADCHARSET (US-ASCII UTF-8 …)]` (RFC 9051
    /// §6.4.4).
    BadCharset {
        /// Whether the command saves its result: then the NO empties `$` (RFC 5182 §2.1).
        saving: bool,
    },
    /// FILTER in a search whose charset is not UTF-8 or US-ASCII: `BAD [BADCHARSET (US-ASCII
    /// UTF-8)]` (RFC 5466 §3.1).
    FilterCharset,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ParseErrorKind::Limit => write!(f, "{} (at byte {})", self.expected, self.offset),
            ParseErrorKind::UnknownCommand => write!(f, "Unknown command"),
            ParseErrorKind::BadCharset { .. } => write!(f, "Charset is not supported, use US-ASCII or UTF-8"),
            ParseErrorKind::FilterCharset => {
                write!(f, "A search with FILTER has the charset US-ASCII or UTF-8")
            }
            _ => write!(f, "Expected {} at byte {}", self.expected, self.offset),
        }
    }
}
