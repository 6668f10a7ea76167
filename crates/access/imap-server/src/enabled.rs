//! The extensions a session has switched on, by ENABLE (RFC 9051 §6.3.1) or by using a command
//! that implies one.

use posthaste_imap_codec::NameEncoding;

/// The extensions that the client switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Enabled {
    /// MODSEQ is reported: RFC 7162 §3.1.
    pub(crate) condstore: bool,
    /// VANISHED replaces EXPUNGE: RFC 7162 §3.2. Never without `condstore`.
    pub(crate) qresync: bool,
    /// Ids of objects come in one list: OBJECTID+ (draft 06 §2.2).
    pub(crate) object_ids: bool,
    /// Message sequence numbers are not used: UIDFETCH replaces FETCH, and VANISHED replaces
    /// EXPUNGE (RFC 9586).
    pub(crate) uid_only: bool,
    /// Names and other strings in UTF-8: RFC 6855 §3.
    pub(crate) utf8: bool,
    /// IMAP4rev2: UTF-8 names, no RECENT, ESEARCH always (RFC 9051 §6.3.1).
    pub(crate) rev2: bool,
}

impl Enabled {
    /// The encoding of the names of mailboxes, and of Gmail's labels.
    pub(crate) fn names(self) -> NameEncoding {
        if self.utf8 || self.rev2 { NameEncoding::Utf8 } else { NameEncoding::Utf7 }
    }

    /// Whether expunged messages are reported by their UIDs.
    pub(crate) fn reports_vanished(self) -> bool {
        self.qresync || self.uid_only
    }
}
