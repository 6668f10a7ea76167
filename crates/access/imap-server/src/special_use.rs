//! Special uses: the protocol's words and the store's (RFC 6154).

use bytes::Bytes;
use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_store::SpecialUse;

/// The annotation that says the special use of a mailbox: RFC 6154 §5.4.
pub(crate) const ENTRY: &str = "/private/specialuse";

/// Maps a special use of the protocol to that of the store. `\All` and `\Flagged` are views over
/// other mailboxes, which this server does not have. A mailbox that only carries the attribute
/// would mislead clients.
pub(crate) fn stored(given: &Use) -> Option<SpecialUse> {
    match given {
        Use::Archive => Some(SpecialUse::Archive),
        Use::Drafts => Some(SpecialUse::Drafts),
        Use::Junk => Some(SpecialUse::Junk),
        Use::Sent => Some(SpecialUse::Sent),
        Use::Trash => Some(SpecialUse::Trash),
        Use::All | Use::Flagged | Use::Important | Use::Other(_) => None,
    }
}

/// Maps a special use of the store to that of the protocol.
pub(crate) fn attribute(stored: SpecialUse) -> Use {
    match stored {
        SpecialUse::All => Use::All,
        SpecialUse::Archive => Use::Archive,
        SpecialUse::Drafts => Use::Drafts,
        SpecialUse::Flagged => Use::Flagged,
        SpecialUse::Junk => Use::Junk,
        SpecialUse::Sent => Use::Sent,
        SpecialUse::Trash => Use::Trash,
    }
}

/// A special use as the value of its annotation.
pub(crate) fn value(stored: SpecialUse) -> Bytes {
    attribute(stored).to_string().into()
}
