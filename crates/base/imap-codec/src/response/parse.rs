//! The parser of responses: status responses, codes and the table of data.
//!
//! Looser than the parser of commands: spaces may be doubled, and what is not known is kept as it stands.
//! What is known and does not parse is an error: a client that measures must see it.

use bytes::Bytes;
use posthaste_mail_model::{Flag, Keyword, ModSeq, SeqNum, Uid, UidValidity};

use super::{Code, Response, ResponseFlag, Status, StatusKind};
use crate::command::{capability, mod_seq, object_id};
use crate::cursor::{Cursor, Parsed, Quoting, is_astring_char, is_tag_char};
use crate::print::BARE_CODES;
use crate::{Capability, NameEncoding, ParseError, Tag, UidRanges};

pub(super) fn response(input: &Bytes, names: NameEncoding) -> Result<Response, ParseError> {
    let mut c = Cursor::new(input, Quoting::Lenient);
    if c.eat(b'+') {
        c.eat(b' ');
        return Ok(Response::Continue(text_line(&mut c)));
    }
    if c.eat(b'*') {
        return data_or_status(&mut c, names).map_err(|fault| fault.with_tag(None));
    }
    let tag = Tag::new(c.take_while(is_tag_char));
    let Some(tag) = tag else {
        return c.fail("a tag, * or +").map_err(|fault| fault.with_tag(None));
    };
    tagged(&mut c, tag.clone()).map_err(|fault| fault.with_tag(Some(tag)))
}

fn tagged(c: &mut Cursor<'_>, tag: Tag) -> Parsed<Response> {
    c.sp()?;
    c.spaces();
    let at = c.clone();
    match status_kind(c.word().as_bytes()) {
        Some(kind @ (StatusKind::Ok | StatusKind::No | StatusKind::Bad)) => Ok(status(c, Some(tag), kind)),
        _ => at.fail("OK, NO or BAD"),
    }
}

fn status_kind(word: &[u8]) -> Option<StatusKind> {
    Some(match word {
        b"OK" => StatusKind::Ok,
        b"NO" => StatusKind::No,
        b"BAD" => StatusKind::Bad,
        b"BYE" => StatusKind::Bye,
        b"PREAUTH" => StatusKind::PreAuth,
        _ => return None,
    })
}

fn data_or_status(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Response> {
    c.sp()?;
    c.spaces();
    let start = c.clone();
    if let Some(kind) = status_kind(c.word().as_bytes()) {
        return Ok(status(c, None, kind));
    }
    *c = start;
    super::parse_data::data(c, names).map(Response::Data)
}

/// The rest of the line, text for a person; what is no UTF-8 in it is replaced.
fn text_line(c: &mut Cursor<'_>) -> String {
    let rest = c.rest();
    let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    String::from_utf8_lossy(rest).into_owned()
}

/// `[SP "[" resp-text-code "]"] [SP text]`
fn status(c: &mut Cursor<'_>, tag: Option<Tag>, kind: StatusKind) -> Response {
    c.eat(b' ');
    let mut code = None;
    let before = c.clone();
    if c.eat(b'[') {
        match self::code(c) {
            Some(found) => {
                code = Some(found);
                c.eat(b' ');
            }
            None => *c = before,
        }
    }
    Response::Status(Status { tag, kind, code, text: text_line(c) })
}

/// A code and its closing bracket. One that does not parse by its own rule is kept as it stands; without a
/// bracket on the line it is text.
fn code(c: &mut Cursor<'_>) -> Option<Code> {
    let name = c.take_while(|b| crate::cursor::is_atom_char(b) && b != b'[');
    if name.is_empty() {
        return None;
    }
    let before = c.clone();
    if let Ok(Some(code)) = known_code(c, name)
        && c.eat(b']')
    {
        return Some(code);
    }
    *c = before;
    let value = c.eat(b' ').then(|| c.take_while(|b| !matches!(b, b']' | b'\r' | b'\n')));
    let value = value.map(|v| String::from_utf8_lossy(v).into_owned());
    c.eat(b']').then(|| Code::Other(String::from_utf8_lossy(name).into_owned(), value))
}

fn known_code(c: &mut Cursor<'_>, name: &[u8]) -> Parsed<Option<Code>> {
    let word = crate::cursor::Word::new(name);
    let word = word.as_bytes();
    if c.peek() == Some(b']') {
        return Ok(BARE_CODES.iter().find(|(n, _)| n.as_bytes() == word).map(|(_, code)| code.clone()));
    }
    c.sp()?;
    Ok(Some(match word {
        b"APPENDUID" => Code::AppendUid(uid_validity(c)?, uid_ranges(c)?),
        b"COPYUID" => Code::CopyUid(uid_validity(c)?, uid_ranges(c)?, uid_ranges(c)?),
        b"BADCHARSET" => Code::BadCharset(c.list(usize::MAX, "", |c| c.astring_text("a charset"))?),
        b"CAPABILITY" => Code::Capability(capabilities(c)?),
        b"HIGHESTMODSEQ" => Code::HighestModSeq(mod_seq(c)?),
        b"MAILBOXID" => Code::MailboxId(object_id_in_parentheses(c)?),
        b"MODIFIED" => Code::Modified(c.num_set("a set of numbers")?),
        b"PERMANENTFLAGS" => Code::PermanentFlags(flags(c)?),
        b"UIDNEXT" => Code::UidNext(uid(c)?),
        b"UIDVALIDITY" => Code::UidValidity(uid_validity(c)?),
        b"UNSEEN" => Code::Unseen(seq_num(c)?),
        _ => return Ok(None),
    }))
}

/// `1*capability`, to the end of the line or a bracket.
pub(super) fn capabilities(c: &mut Cursor<'_>) -> Parsed<Vec<Capability>> {
    let mut all = Vec::new();
    loop {
        c.spaces();
        if c.at_end() || c.peek() == Some(b']') {
            return Ok(all);
        }
        all.push(capability(c)?);
    }
}

pub(super) fn uid(c: &mut Cursor<'_>) -> Parsed<Uid> {
    let at = c.clone();
    Uid::new(c.number("a UID")?).map_or_else(|| at.fail("a UID that is not 0"), Ok)
}

pub(super) fn seq_num(c: &mut Cursor<'_>) -> Parsed<SeqNum> {
    let at = c.clone();
    SeqNum::new(c.number("a sequence number")?).map_or_else(|| at.fail("a number that is not 0"), Ok)
}

pub(super) fn uid_validity(c: &mut Cursor<'_>) -> Parsed<UidValidity> {
    let at = c.clone();
    UidValidity::new(c.number("a UIDVALIDITY")?).map_or_else(|| at.fail("a UIDVALIDITY that is not 0"), Ok)
}

/// Mod-sequence in parentheses: `fetch-mod-resp` and its like.
pub(super) fn mod_seq_in_parentheses(c: &mut Cursor<'_>) -> Parsed<ModSeq> {
    c.expect(b'(', "(")?;
    let modseq = mod_seq(c)?;
    c.expect(b')', ")")?;
    Ok(modseq)
}

pub(super) fn object_id_in_parentheses(c: &mut Cursor<'_>) -> Parsed<String> {
    c.expect(b'(', "(")?;
    let id = object_id(c)?;
    c.expect(b')', ")")?;
    Ok(id)
}

fn uid_ranges(c: &mut Cursor<'_>) -> Parsed<UidRanges> {
    c.sp()?;
    c.ranges("a set of UIDs").map(UidRanges)
}

/// Flags in parentheses, as loosely as servers write them.
pub(super) fn flags(c: &mut Cursor<'_>) -> Parsed<Vec<ResponseFlag>> {
    c.expect(b'(', "flags in parentheses")?;
    let mut flags = Vec::new();
    loop {
        c.spaces();
        if c.eat(b')') {
            return Ok(flags);
        }
        flags.push(flag(c)?);
    }
}

fn flag(c: &mut Cursor<'_>) -> Parsed<ResponseFlag> {
    let at = c.clone();
    if !c.eat(b'\\') {
        let text = c.take_while(is_astring_char);
        let text = if text.is_empty() { return at.fail("a flag") } else { c.text(text)? };
        return Ok(match Keyword::new(&text) {
            Ok(keyword) => ResponseFlag::Flag(Flag::Keyword(keyword)),
            Err(_) => ResponseFlag::Other(text),
        });
    }
    if c.eat(b'*') {
        return Ok(ResponseFlag::Any);
    }
    let name = c.take_while(is_astring_char);
    Ok(match crate::cursor::Word::new(name).as_bytes() {
        b"ANSWERED" => ResponseFlag::Flag(Flag::Answered),
        b"FLAGGED" => ResponseFlag::Flag(Flag::Flagged),
        b"DELETED" => ResponseFlag::Flag(Flag::Deleted),
        b"SEEN" => ResponseFlag::Flag(Flag::Seen),
        b"DRAFT" => ResponseFlag::Flag(Flag::Draft),
        b"RECENT" => ResponseFlag::Recent,
        _ => ResponseFlag::Other(format!("\\{}", c.text(name)?)),
    })
}
