//! Flags as responses name them: RFC 9051 §7.3.5, RFC 3501 §7.1.

use posthaste_mail_model::Flag;

/// A flag as a server sends it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ResponseFlag {
    /// One that can be set.
    Flag(Flag),
    /// `\Recent` (RFC 3501).
    Recent,
    /// `\*` of PERMANENTFLAGS: new keywords can be made.
    Any,
    /// An unknown `\Name`, or a keyword that our model does not allow, unchanged.
    Other(String),
}
