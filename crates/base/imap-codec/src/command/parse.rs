//! The parser of commands: the table of names, and the commands with simple arguments.
//!
//! Recursive descent over a complete command. Strict where RFC 9051 §9 is strict; loose only about
//! case, spaces before the line end and a line end of LF alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use posthaste_mail_model::Secret;

use super::parse_words::{capability, mailbox};
use super::{Access, Command, CommandBody};
use crate::cursor::{Cursor, Parsed, Quoting, Word};
use crate::limits::{ID_PAIRS_MAX, LIST_ITEMS_MAX};
use crate::{
    AclCommand, MessageSet, NameEncoding, Numbering, ParseError, ParseErrorKind, SequenceSet, Tag, UidSet,
};

/// A command from all its bytes: the line or lines with literals in place, as
/// [`crate::framing::CommandFramer`] yields them. The line end at its end may be missing.
pub fn parse_command(input: &Bytes, names: NameEncoding) -> Result<Command, ParseError> {
    let mut c = Cursor::new(input, Quoting::Strict);
    let tag = Tag::new(c.take_while(crate::chars::is_tag_char));
    // `a+b` is no tag, and `a` is not the tag of that command.
    let ends = c.at_end() || c.peek() == Some(b' ');
    let tag = tag.filter(|_| ends).ok_or(ParseError {
        tag: None,
        kind: ParseErrorKind::Tag,
        offset: 0,
        expected: "a tag",
    })?;
    match tagged(&mut c, names) {
        Ok(body) => Ok(Command { tag, body }),
        Err(fault) => Err(fault.with_tag(Some(tag))),
    }
}

fn tagged(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let start = c.clone();
    let word = c.word();
    let body = match word.as_bytes() {
        b"UID" => {
            c.sp()?;
            by_number(c, &start, c.clone().word(), names, Numbering::Uid)?
        }
        b"FETCH" | b"STORE" | b"COPY" | b"MOVE" | b"SEARCH" | b"SORT" | b"THREAD" | b"EXPUNGE"
        | b"REPLACE" => {
            *c = start.clone();
            by_number(c, &start, word, names, Numbering::Seq)?
        }
        other => plain(c, &start, other, names)?,
    };
    c.end()?;
    Ok(body)
}

fn unknown<T>(at: &Cursor<'_>) -> Parsed<T> {
    at.fail("a command").map_err(|mut f| {
        f.kind = ParseErrorKind::UnknownCommand;
        f
    })
}

/// The commands that `UID` may precede: RFC 9051 §6.4.9.
fn by_number(
    c: &mut Cursor<'_>,
    start: &Cursor<'_>,
    word: Word,
    names: NameEncoding,
    numbering: Numbering,
) -> Parsed<CommandBody> {
    // The caller has read the word. This moves the cursor past it.
    c.word();
    let set_and_mailbox = |c: &mut Cursor<'_>| {
        c.sp()?;
        let set = MessageSet::new(numbering, SequenceSet::parse(c)?);
        c.sp()?;
        Ok((set, mailbox(c, names)?))
    };
    Ok(match word.as_bytes() {
        b"FETCH" => super::parse_fetch::fetch(c, numbering)?,
        b"STORE" => super::parse_fetch::store(c, numbering)?,
        b"SEARCH" => super::parse_search::search(c, numbering)?,
        b"SORT" => super::parse_sort::sort(c, numbering)?,
        b"THREAD" => super::parse_sort::thread(c, numbering)?,
        b"COPY" => {
            let (set, mailbox) = set_and_mailbox(c)?;
            CommandBody::Copy { set, mailbox }
        }
        b"MOVE" => {
            let (set, mailbox) = set_and_mailbox(c)?;
            CommandBody::Move { set, mailbox }
        }
        b"REPLACE" => super::parse_append::replace(c, names, numbering)?,
        b"EXPUNGE" if numbering == Numbering::Uid => {
            c.sp()?;
            CommandBody::Expunge { uids: Some(UidSet(SequenceSet::parse(c)?)) }
        }
        b"EXPUNGE" => CommandBody::Expunge { uids: None },
        // The syntax of RFC 7377 has no UID ESEARCH, but its §2 has examples of it.
        b"ESEARCH" => super::parse_multi_search::multi_search(c, names)?,
        _ => return unknown(start),
    })
}

fn plain(c: &mut Cursor<'_>, start: &Cursor<'_>, word: &[u8], names: NameEncoding) -> Parsed<CommandBody> {
    use super::{parse_append, parse_mailbox as boxes, parse_metadata, parse_url};
    let one_mailbox = |c: &mut Cursor<'_>| {
        c.sp()?;
        mailbox(c, names)
    };
    Ok(match word {
        b"NOOP" => CommandBody::Noop,
        b"IDLE" => CommandBody::Idle,
        b"CHECK" => CommandBody::Check,
        b"CLOSE" => CommandBody::Close,
        b"LOGOUT" => CommandBody::Logout,
        b"UNSELECT" => CommandBody::Unselect,
        b"UNAUTHENTICATE" => CommandBody::Unauthenticate,
        b"STARTTLS" => CommandBody::StartTls,
        b"NAMESPACE" => CommandBody::Namespace,
        b"GETJMAPACCESS" => CommandBody::GetJmapAccess,
        b"CAPABILITY" => CommandBody::Capability,
        b"LOGIN" => login(c)?,
        b"AUTHENTICATE" => authenticate(c)?,
        b"ID" => id(c)?,
        b"ENABLE" => enable(c)?,
        b"COMPRESS" => compress(c)?,
        b"UIDBATCHES" => uid_batches(c)?,
        b"CANCELUPDATE" => cancel_update(c)?,
        b"SELECT" => boxes::select(c, names, Access::ReadWrite)?,
        b"EXAMINE" => boxes::select(c, names, Access::ReadOnly)?,
        b"CREATE" => boxes::create(c, names)?,
        b"DELETE" => CommandBody::Delete(one_mailbox(c)?),
        b"RENAME" => CommandBody::Rename { from: one_mailbox(c)?, to: one_mailbox(c)? },
        b"SUBSCRIBE" => CommandBody::Subscribe(one_mailbox(c)?),
        b"UNSUBSCRIBE" => CommandBody::Unsubscribe(one_mailbox(c)?),
        b"LIST" => boxes::list(c, names)?,
        b"LSUB" => {
            let (reference, pattern) = boxes::reference_and_pattern(c, names)?;
            CommandBody::Lsub { reference, pattern }
        }
        b"RLIST" => {
            let (reference, pattern) = boxes::reference_and_pattern(c, names)?;
            CommandBody::Rlist { reference, pattern }
        }
        b"RLSUB" => {
            let (reference, pattern) = boxes::reference_and_pattern(c, names)?;
            CommandBody::Rlsub { reference, pattern }
        }
        b"XLIST" => {
            let (reference, pattern) = boxes::reference_and_pattern(c, names)?;
            CommandBody::Xlist { reference, pattern }
        }
        b"STATUS" => boxes::status(c, names)?,
        b"NOTIFY" => super::parse_notify::notify(c, names)?,
        b"ESEARCH" => super::parse_multi_search::multi_search(c, names)?,
        b"LANGUAGE" => CommandBody::Language(super::parse_i18n::words(c)?),
        b"COMPARATOR" => CommandBody::Comparator(super::parse_i18n::words(c)?),
        b"GETQUOTA" => boxes::get_quota(c)?,
        b"GETQUOTAROOT" => CommandBody::GetQuotaRoot(one_mailbox(c)?),
        b"SETQUOTA" => boxes::set_quota(c)?,
        b"GETMETADATA" => parse_metadata::get(c, names)?,
        b"SETMETADATA" => parse_metadata::set(c, names)?,
        b"GENURLAUTH" => parse_url::generate(c)?,
        b"RESETKEY" => parse_url::reset(c, names)?,
        b"URLFETCH" => parse_url::fetch(c)?,
        b"APPEND" => parse_append::append(c, names)?,
        other => match AclCommand::parse(other, c, names)? {
            Some(command) => CommandBody::Acl(command),
            None => return unknown(start),
        },
    })
}

/// RFC 9051 §6.2.3.
fn login(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    let user = c.astring_text("a user name")?;
    c.sp()?;
    let password = Secret::new(c.astring("a password")?.into_owned());
    Ok(CommandBody::Login { user, password })
}

/// RFC 9051 §6.2.2 and §9: `"AUTHENTICATE" SP auth-type [SP initial-resp]`.
fn authenticate(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    let name = c.atom("a SASL mechanism")?;
    let mechanism = c.text(name)?.to_ascii_uppercase();
    if !c.more()? {
        return Ok(CommandBody::Authenticate { mechanism, initial: None });
    }
    let at = c.clone();
    let base64 = c.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    let initial = match base64 {
        b"=" => Vec::new(),
        b"" => return at.fail("an initial response in base64"),
        _ => BASE64.decode(base64).or_else(|_| at.fail("an initial response in base64"))?,
    };
    Ok(CommandBody::Authenticate { mechanism, initial: Some(Secret::new(initial)) })
}

/// RFC 2971 §3.1: `"ID" SP ("(" [string SP nstring *…] ")" / nil)`.
fn id(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    if c.nil() {
        return Ok(CommandBody::Id(None));
    }
    id_pairs(c).map(|pairs| CommandBody::Id(Some(pairs)))
}

fn id_pairs(c: &mut Cursor<'_>) -> Parsed<Vec<(String, Option<String>)>> {
    c.list(ID_PAIRS_MAX, "ID takes at most 30 pairs", |c| {
        let name = c.string("the name of an ID field in quotes")?;
        let name = c.text(&name)?;
        c.sp()?;
        let value = c.nstring("the value of an ID field in quotes, or NIL")?;
        Ok((name, value.map(|v| c.text(&v)).transpose()?))
    })
}

/// RFC 9051 §6.3.1: `"ENABLE" 1*(SP capability)`.
fn enable(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    let mut capabilities = vec![capability(c)?];
    while c.more()? {
        if capabilities.len() == LIST_ITEMS_MAX {
            return c.limit("Too many capabilities");
        }
        capabilities.push(capability(c)?);
    }
    Ok(CommandBody::Enable(capabilities))
}

/// RFC 4978 §3.
fn compress(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    if c.eat_word(b"DEFLATE") { Ok(CommandBody::CompressDeflate) } else { c.fail("DEFLATE") }
}

/// RFC 5267 §5: `"CANCELUPDATE" 1*(SP quoted)`.
fn cancel_update(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mut tags = Vec::new();
    c.sp()?;
    loop {
        let at = c.clone();
        let text = c.string("the tag of a search in quotes")?;
        match Tag::new(text) {
            Some(tag) => tags.push(tag),
            None => return at.fail("the tag of a search in quotes"),
        }
        if !c.more()? {
            return Ok(CommandBody::CancelUpdate(tags));
        }
        if tags.len() == LIST_ITEMS_MAX {
            return c.limit("Too many tags");
        }
    }
}

/// RFC 10022: `"UIDBATCHES" SP nz-number [SP nz-number ":" nz-number]`.
fn uid_batches(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    let size = c.nz_number("how many messages make a batch")?;
    let mut batches = None;
    if c.more()? {
        let first = c.nz_number("the first batch")?;
        c.expect(b':', ":")?;
        batches = Some((first, c.nz_number("the last batch")?));
    }
    Ok(CommandBody::UidBatches { size, batches })
}
