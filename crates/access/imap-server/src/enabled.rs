//! What a session has switched on: ENABLE (RFC 9051 §6.3.1), and commands that do it by being
//! used.

/// What the client switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Enabled {
    /// MODSEQ is told: RFC 7162 §3.1.
    pub(crate) condstore: bool,
    /// VANISHED takes the place of EXPUNGE: RFC 7162 §3.2. Never without `condstore`.
    pub(crate) qresync: bool,
    /// IMAP4rev2: UTF-8 names, no RECENT, ESEARCH always (RFC 9051 §6.3.1).
    pub(crate) rev2: bool,
}
