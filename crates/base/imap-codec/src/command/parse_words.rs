//! What several commands are made of.

use posthaste_mail_model::{Flag, Keyword, ModSeq};

use crate::cursor::{Cursor, Parsed};
use crate::limits::FLAGS_MAX;
use crate::{Capability, MailboxArg, NameEncoding};

/// `mailbox`
pub(super) fn mailbox(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<MailboxArg> {
    Ok(MailboxArg::decode(&c.astring("a mailbox name")?, names))
}

/// `capability`
pub(crate) fn capability(c: &mut Cursor<'_>) -> Parsed<Capability> {
    let name = c.atom("a capability")?;
    match std::str::from_utf8(name).ok().and_then(Capability::new) {
        Some(capability) => Ok(capability),
        None => c.fail("a capability"),
    }
}

/// `flag` as a client may set it: RFC 9051 §9. `\Recent` and other `\` names nobody can set.
pub(super) fn flag(c: &mut Cursor<'_>) -> Parsed<Flag> {
    let at = c.clone();
    if c.eat(b'\\') {
        return Ok(match c.word().as_bytes() {
            b"ANSWERED" => Flag::Answered,
            b"FLAGGED" => Flag::Flagged,
            b"DELETED" => Flag::Deleted,
            b"SEEN" => Flag::Seen,
            b"DRAFT" => Flag::Draft,
            _ => return at.fail("\\Answered, \\Flagged, \\Deleted, \\Seen, \\Draft or a keyword"),
        });
    }
    keyword(c).map(Flag::Keyword)
}

/// `flag-keyword`
pub(super) fn keyword(c: &mut Cursor<'_>) -> Parsed<Keyword> {
    let at = c.clone();
    let atom = c.atom("a flag")?;
    match std::str::from_utf8(atom).ok().and_then(|text| Keyword::new(text).ok()) {
        Some(keyword) => Ok(keyword),
        None => at.fail("a keyword of at most 128 bytes"),
    }
}

/// `flag-list`
pub(super) fn flag_list(c: &mut Cursor<'_>) -> Parsed<Vec<Flag>> {
    c.list(FLAGS_MAX, "Too many flags", flag)
}

/// `mod-sequence-valzer`
pub(crate) fn mod_seq(c: &mut Cursor<'_>) -> Parsed<ModSeq> {
    let n = c.number64("a mod-sequence")?;
    match ModSeq::new(n) {
        Some(modseq) => Ok(modseq),
        None => c.limit("The mod-sequence is over 63 bits"),
    }
}
