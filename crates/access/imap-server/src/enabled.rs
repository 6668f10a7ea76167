//! The extensions a session has switched on, by ENABLE (RFC 9051 §6.3.1) or by using a command
//! that implies one.

/// What the client switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Enabled {
    /// MODSEQ is reported: RFC 7162 §3.1.
    pub(crate) condstore: bool,
    /// VANISHED replaces EXPUNGE: RFC 7162 §3.2. Never without `condstore`.
    pub(crate) qresync: bool,
    /// IMAP4rev2: UTF-8 names, no RECENT, ESEARCH always (RFC 9051 §6.3.1).
    pub(crate) rev2: bool,
}
