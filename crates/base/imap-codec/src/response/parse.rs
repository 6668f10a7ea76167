//! The parser of responses: status responses, codes and the table of data.
//!
//! Looser than the parser of commands: spaces may be doubled, and unknown data is kept unchanged.
//! Known data that does not parse is an error, since a client that measures must see it.

use bytes::Bytes;

use super::parse_words::{
    capabilities, flags, object_id_in_parentheses, object_ids, seq_num, uid, uid_ranges, uid_validity,
};
use super::{Code, Response, Status, StatusKind};
use crate::chars::is_tag_char;
use crate::command::mod_seq;
use crate::cursor::{Cursor, Parsed, Quoting};
use crate::print::BARE_CODES;
use crate::{AnnotateCode, AnnotationSupport, MetadataCode, NameEncoding, ParseError, Tag};

/// A response from all its bytes, literals in place, as [`crate::framing::ResponseFramer`] yields
/// them. Lenient where servers in the field are: unknown codes and data become `Other`.
pub fn parse_response(input: &Bytes, names: NameEncoding) -> Result<Response, ParseError> {
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

/// The rest of the line, text for a person; invalid UTF-8 in it is replaced.
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
    Response::Status(Status { tag, kind, code, text: text_line(c).into() })
}

/// A code and its closing bracket. A code that does not parse by its own rule is kept unchanged;
/// without a bracket on the line it is text.
fn code(c: &mut Cursor<'_>) -> Option<Code> {
    let name = c.take_while(|b| crate::chars::is_atom_char(b) && b != b'[');
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
        b"BADEVENT" => {
            let events = c.list(usize::MAX, "", |c| {
                let event = c.atom("an event")?;
                c.text(event)
            })?;
            Code::BadEvent(events)
        }
        b"UNDEFINED-FILTER" => {
            let name = c.atom("the name of a filter")?;
            Code::UndefinedFilter(c.text(name)?)
        }
        b"BADURL" => Code::BadUrl(url(c)?),
        // RFC 2221 §6, RFC 2193 §6
        b"REFERRAL" => Code::Referral(url(c)?.split_ascii_whitespace().map(str::to_owned).collect()),
        b"CAPABILITY" => Code::Capability(capabilities(c)?),
        b"HIGHESTMODSEQ" => Code::HighestModSeq(mod_seq(c)?),
        b"INPROGRESS" => in_progress(c)?,
        b"MAILBOXID" => Code::MailboxId(object_id_in_parentheses(c)?),
        b"MESSAGELIMIT" => {
            let limit = c.nz_number("a number of messages")?;
            Code::MessageLimit(limit, if c.eat(b' ') { Some(uid(c)?) } else { None })
        }
        b"ANNOTATE" if c.eat_word(b"TOOBIG") => Code::Annotate(AnnotateCode::TooBig),
        b"ANNOTATE" if c.eat_word(b"TOOMANY") => Code::Annotate(AnnotateCode::TooMany),
        b"ANNOTATE" => return Ok(None),
        b"ANNOTATIONS" => annotations(c)?,
        b"METADATA" => match metadata(c)? {
            Some(code) => Code::Metadata(code),
            None => return Ok(None),
        },
        b"MODIFIED" => Code::Modified(c.num_set("a set of numbers")?),
        b"NOUPDATE" => {
            let at = c.clone();
            match Tag::new(c.string("the tag of a search in quotes")?) {
                Some(tag) => Code::NoUpdate(tag),
                None => return at.fail("a tag"),
            }
        }
        b"OBJECTID" => Code::ObjectIds(object_ids(c)?),
        b"PERMANENTFLAGS" => Code::PermanentFlags(flags(c)?),
        b"UIDNEXT" => Code::UidNext(uid(c)?),
        b"UIDVALIDITY" => Code::UidValidity(uid_validity(c)?),
        b"UNSEEN" => Code::Unseen(seq_num(c)?),
        b"URLMECH" => Code::UrlMech(url_mechanisms(c)?),
        _ => return Ok(None),
    }))
}

/// RFC 4467 §9: `"INTERNAL" *(SP mechanism ["=" base64])`.
fn url_mechanisms(c: &mut Cursor<'_>) -> Parsed<Vec<(String, Option<String>)>> {
    if !c.eat_word(b"INTERNAL") {
        return c.fail("INTERNAL");
    }
    let mut others = Vec::new();
    while c.eat(b' ') {
        let name = c.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
        if name.is_empty() {
            return c.fail("a mechanism");
        }
        let name = c.text(name)?.to_ascii_uppercase();
        let mut data = None;
        if c.eat(b'=') {
            let base64 = c.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
            data = Some(c.text(base64)?);
        }
        others.push((name, data));
    }
    Ok(others)
}

/// A URL without quotes, up to the bracket.
fn url(c: &mut Cursor<'_>) -> Parsed<String> {
    let at = c.clone();
    let url = c.take_while(|b| !matches!(b, b']' | b'\r' | b'\n'));
    match std::str::from_utf8(url) {
        Ok(url) if !url.is_empty() => Ok(url.to_owned()),
        _ => at.fail("a URL"),
    }
}

/// RFC 5464 §5.
fn metadata(c: &mut Cursor<'_>) -> Parsed<Option<MetadataCode>> {
    let octets = |c: &mut Cursor<'_>| {
        c.sp()?;
        c.number64("a number of octets")
    };
    Ok(Some(match c.word().as_bytes() {
        b"LONGENTRIES" => MetadataCode::LongEntries(octets(c)?),
        b"MAXSIZE" => MetadataCode::MaxSize(octets(c)?),
        b"TOOMANY" => MetadataCode::TooMany,
        b"NOPRIVATE" => MetadataCode::NoPrivate,
        _ => return Ok(None),
    }))
}

/// RFC 5257 §5: `ann-size`. We have private values everywhere, and pass over NOPRIVATE of others.
fn annotations(c: &mut Cursor<'_>) -> Parsed<Code> {
    let support = if c.eat_word(b"NONE") {
        AnnotationSupport::None
    } else if c.eat_word(b"READ-ONLY") {
        AnnotationSupport::ReadOnly
    } else {
        AnnotationSupport::Octets(c.nz_number("NONE, READ-ONLY or a number of octets")?)
    };
    if c.eat(b' ') && !c.eat_word(b"NOPRIVATE") {
        return c.fail("NOPRIVATE");
    }
    Ok(Code::Annotations(support))
}

/// RFC 9585 §6: `"(" (quoted / nil) SP (number / nil) SP (nz-number / nil) ")"`.
fn in_progress(c: &mut Cursor<'_>) -> Parsed<Code> {
    let amount = |c: &mut Cursor<'_>| {
        c.sp()?;
        if c.nil() { Ok(None) } else { c.number64("a number, or NIL").map(Some) }
    };
    c.expect(b'(', "(")?;
    let at = c.clone();
    let tag = match c.nstring("the tag of a command in quotes, or NIL")? {
        None => None,
        Some(text) => match Tag::new(text) {
            None => return at.fail("a tag"),
            tag => tag,
        },
    };
    let (done, goal) = (amount(c)?, amount(c)?);
    c.expect(b')', ")")?;
    Ok(Code::InProgress { tag, done, goal })
}
