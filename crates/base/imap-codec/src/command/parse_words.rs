//! The words that several commands share.

use posthaste_mail_model::{Flag, Keyword, ModSeq};

use crate::cursor::{Cursor, Parsed, Word};
use crate::limits::FLAGS_MAX;
use crate::{Capability, MailboxArg, MailboxArgError, NameEncoding};

/// `mailbox`
pub(crate) fn mailbox(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<MailboxArg> {
    let name = MailboxArg::decode(&c.astring("a mailbox name")?, names);
    utf8_or_bad(c, name, names)
}

/// RFC 6855 §3: invalid UTF-8 ends in BAD where names are UTF-8.
pub(super) fn utf8_or_bad(c: &Cursor<'_>, name: MailboxArg, names: NameEncoding) -> Parsed<MailboxArg> {
    match names == NameEncoding::Utf8 && name.text() == Err(MailboxArgError::Utf8) {
        true => c.fail("a mailbox name in UTF-8"),
        false => Ok(name),
    }
}

/// `capability`
pub(crate) fn capability(c: &mut Cursor<'_>) -> Parsed<Capability> {
    let name = c.atom("a capability")?;
    match std::str::from_utf8(name).ok().and_then(Capability::new) {
        Some(capability) => Ok(capability),
        None => c.fail("a capability"),
    }
}

/// `flag` as a client may write it: RFC 9051 §9, without `\Recent`. `None` for a `flag-extension`:
/// it is in no list of PERMANENTFLAGS. A flag that is not there can be set without an error and
/// without an effect (RFC 9051 §7.1, PERMANENTFLAGS).
pub(super) fn flag(c: &mut Cursor<'_>) -> Parsed<Option<Flag>> {
    let at = c.clone();
    if c.eat(b'\\') {
        let name = c.atom("\\Answered, \\Flagged, \\Deleted, \\Seen, \\Draft or a keyword")?;
        return Ok(match Word::new(name).as_bytes() {
            b"ANSWERED" => Some(Flag::Answered),
            b"FLAGGED" => Some(Flag::Flagged),
            b"DELETED" => Some(Flag::Deleted),
            b"SEEN" => Some(Flag::Seen),
            b"DRAFT" => Some(Flag::Draft),
            b"RECENT" => return at.fail("a flag that can be changed"),
            _ => None,
        });
    }
    keyword(c).map(|keyword| Some(Flag::Keyword(keyword)))
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
    Ok(c.list(FLAGS_MAX, "Too many flags", flag)?.into_iter().flatten().collect())
}

/// A label of Gmail: `\Starred`, or an astring.
pub(crate) fn gm_label(c: &mut Cursor<'_>) -> Parsed<String> {
    if !c.eat(b'\\') {
        return c.astring_text("a label");
    }
    let name = c.atom("the name of a label")?;
    Ok(format!("\\{}", c.text(name)?))
}

/// `mod-sequence-valzer`
pub(crate) fn mod_seq(c: &mut Cursor<'_>) -> Parsed<ModSeq> {
    let n = c.number64("a mod-sequence")?;
    match ModSeq::new(n) {
        Some(modseq) => Ok(modseq),
        None => c.limit("The mod-sequence is over 63 bits"),
    }
}
