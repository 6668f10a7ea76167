//! The parser of FETCH data: RFC 9051 §7.5.2. Recursive only as deep as [`BODY_NESTING_MAX`].

use std::borrow::Cow;

use bytes::Bytes;

use super::parse_words::{flags, mod_seq_in_parentheses, object_id_in_parentheses, object_ids, uid};
use super::{
    Address, BasicPart, BodyStructure, Disposition, Envelope, FetchValue, MultiPart, NString, Param,
    PartKind, PartTail, SinglePart,
};
use crate::chars::is_word_char;
use crate::command::{SnippetName, binary_part, date_time, gm_label};
use crate::cursor::{Cursor, Parsed};
use crate::limits::BODY_NESTING_MAX;
use crate::message_annotation::annotation_data;
use crate::{DateTime, Section};

/// `"(" msg-att ")"`
pub(super) fn items(c: &mut Cursor<'_>) -> Parsed<Vec<FetchValue>> {
    c.spaces();
    c.expect(b'(', "fetched items in parentheses")?;
    let mut items = Vec::new();
    loop {
        c.spaces();
        if c.eat(b')') {
            return Ok(items);
        }
        items.push(item(c)?);
    }
}

fn item(c: &mut Cursor<'_>) -> Parsed<FetchValue> {
    let start = c.clone();
    let name = c.take_while(is_word_char);
    let word = crate::cursor::Word::new(name);
    match word.as_bytes() {
        b"BODY" if c.peek() == Some(b'[') => return body_section(c),
        b"BINARY" if c.peek() == Some(b'[') => return binary(c),
        b"BINARY.SIZE" if c.peek() == Some(b'[') => {
            let part = binary_part(c)?;
            c.sp()?;
            return Ok(FetchValue::BinarySize { part, size: c.number64("a number of bytes")? });
        }
        _ => {}
    }
    // Names of others' items hold more characters than ours.
    let (name, word) = if c.peek() == Some(b' ') {
        (name, word)
    } else {
        (rest_of_name(c, &start)?, crate::cursor::Word::new(b""))
    };
    c.sp()?;
    c.spaces();
    let bytes = |c: &mut Cursor<'_>| c.nstring_bytes("bytes in quotes or a literal, or NIL");
    Ok(match word.as_bytes() {
        b"FLAGS" => FetchValue::Flags(flags(c)?),
        b"UID" => FetchValue::Uid(uid(c)?),
        b"ENVELOPE" => FetchValue::Envelope(Box::new(envelope(c)?)),
        b"BODY" => FetchValue::Body(body(c, 0)?),
        b"BODYSTRUCTURE" => FetchValue::BodyStructure(body(c, 0)?),
        b"INTERNALDATE" => FetchValue::InternalDate(date_time(c)?),
        b"RFC822.SIZE" => FetchValue::Rfc822Size(c.number64("a number of bytes")?),
        b"MODSEQ" => FetchValue::ModSeq(mod_seq_in_parentheses(c)?),
        b"CREATEDMODSEQ" => FetchValue::CreatedModSeq(mod_seq_in_parentheses(c)?),
        b"EMAILID" => FetchValue::EmailId(object_id_in_parentheses(c)?),
        b"THREADID" if c.nil() => FetchValue::ThreadId(None),
        b"THREADID" => FetchValue::ThreadId(Some(object_id_in_parentheses(c)?)),
        b"OBJECTID" => FetchValue::ObjectIds(object_ids(c)?),
        b"SAVEDATE" => FetchValue::SaveDate(save_date(c)?),
        b"RFC822" => FetchValue::Rfc822(bytes(c)?),
        b"RFC822.HEADER" => FetchValue::Rfc822Header(bytes(c)?),
        b"RFC822.TEXT" => FetchValue::Rfc822Text(bytes(c)?),
        b"PREVIEW" if c.peek() == Some(b'(') => FetchValue::Snippet(SnippetName::Preview, snippet(c)?),
        b"PREVIEW" => FetchValue::Preview(bytes(c)?),
        b"SNIPPET" => FetchValue::Snippet(SnippetName::Snippet, snippet(c)?),
        b"ANNOTATION" => FetchValue::Annotation(annotation_data(c)?),
        b"DIGEST.SHA1" => FetchValue::DigestSha1(sha1(c)?),
        b"X-GM-MSGID" => FetchValue::GmMessageId(c.number64("a message number of Gmail")?),
        b"X-GM-THRID" => FetchValue::GmThreadId(c.number64("a thread number of Gmail")?),
        b"X-GM-LABELS" => FetchValue::GmLabels(c.list(usize::MAX, "", gm_label)?),
        _ => {
            let from = c.at();
            c.skip_value()?;
            FetchValue::Other(c.text(name)?, c.slice(from..c.at()))
        }
    })
}

fn rest_of_name<'a>(c: &mut Cursor<'a>, start: &Cursor<'a>) -> Parsed<&'a [u8]> {
    *c = start.clone();
    let name = c.take_while(|b| !matches!(b, b' ' | b'(' | b')' | b'{' | b'"' | b'\r' | b'\n' | 0));
    if name.is_empty() { c.fail("the name of a fetched item") } else { Ok(name) }
}

fn save_date(c: &mut Cursor<'_>) -> Parsed<Option<DateTime>> {
    if c.nil() { Ok(None) } else { date_time(c).map(Some) }
}

/// `(FUZZY "text")`
fn snippet(c: &mut Cursor<'_>) -> Parsed<Option<Bytes>> {
    c.expect(b'(', "(")?;
    if !c.eat_word(b"FUZZY") {
        return c.fail("FUZZY");
    }
    c.sp()?;
    let text = c.nstring_bytes("bytes in quotes or a literal, or NIL")?;
    c.expect(b')', ")")?;
    Ok(text)
}

/// 40 hexadecimal digits.
fn sha1(c: &mut Cursor<'_>) -> Parsed<[u8; 20]> {
    const WANTED: &str = "40 hexadecimal digits";
    let mut sha1 = [0; 20];
    let digits = c.take_while(|b| b.is_ascii_hexdigit());
    if digits.len() != 2 * sha1.len() {
        return c.fail(WANTED);
    }
    for (byte, pair) in sha1.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_default() as u8;
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    Ok(sha1)
}

fn origin(c: &mut Cursor<'_>) -> Parsed<Option<u64>> {
    if !c.eat(b'<') {
        return Ok(None);
    }
    let n = c.number64("the first byte of a partial fetch")?;
    c.expect(b'>', ">")?;
    Ok(Some(n))
}

fn body_section(c: &mut Cursor<'_>) -> Parsed<FetchValue> {
    let section = Section::parse(c)?;
    let origin = origin(c)?;
    c.sp()?;
    Ok(FetchValue::BodySection { section, origin, data: c.nstring_bytes("the bytes of a section")? })
}

fn binary(c: &mut Cursor<'_>) -> Parsed<FetchValue> {
    let part = binary_part(c)?;
    let origin = origin(c)?;
    c.sp()?;
    Ok(FetchValue::Binary { part, origin, data: c.nstring_bytes("the bytes of a part")? })
}

fn nstring(c: &mut Cursor<'_>) -> Parsed<NString<'static>> {
    Ok(c.nstring("a string or NIL")?.map(|s| Cow::Owned(s.into_owned())))
}

fn string(c: &mut Cursor<'_>) -> Parsed<Cow<'static, [u8]>> {
    Ok(Cow::Owned(c.string("a string")?.into_owned()))
}

/// A string where some servers send `NIL`: then it is empty.
fn loose_string(c: &mut Cursor<'_>) -> Parsed<Cow<'static, [u8]>> {
    Ok(nstring(c)?.unwrap_or_default())
}

/// `envelope`
fn envelope(c: &mut Cursor<'_>) -> Parsed<Envelope<'static>> {
    c.expect(b'(', "an envelope in parentheses")?;
    let mut e = Envelope { date: nstring(c)?, ..Envelope::default() };
    c.sp()?;
    e.subject = nstring(c)?;
    c.sp()?;
    e.from = addresses(c)?;
    for field in [&mut e.sender, &mut e.reply_to] {
        c.sp()?;
        *field = Some(addresses(c)?);
    }
    for field in [&mut e.to, &mut e.cc, &mut e.bcc] {
        c.sp()?;
        *field = addresses(c)?;
    }
    c.sp()?;
    e.in_reply_to = nstring(c)?;
    c.sp()?;
    e.message_id = nstring(c)?;
    c.expect(b')', ") after an envelope")?;
    Ok(e)
}

/// `"(" 1*address ")" / nil`
fn addresses(c: &mut Cursor<'_>) -> Parsed<Vec<Address<'static>>> {
    if c.nil() {
        return Ok(Vec::new());
    }
    c.expect(b'(', "addresses in parentheses, or NIL")?;
    let mut all = Vec::new();
    loop {
        c.spaces();
        if c.eat(b')') {
            return Ok(all);
        }
        c.expect(b'(', "an address in parentheses")?;
        let name = nstring(c)?;
        c.sp()?;
        let route = nstring(c)?;
        c.sp()?;
        let mailbox = nstring(c)?;
        c.sp()?;
        all.push(Address { name, route, mailbox, host: nstring(c)? });
        c.expect(b')', ") after an address")?;
    }
}

/// `body`
pub(super) fn body(c: &mut Cursor<'_>, depth: usize) -> Parsed<BodyStructure<'static>> {
    if depth > BODY_NESTING_MAX {
        return c.limit("The body structure is nested too deep");
    }
    c.expect(b'(', "a body structure in parentheses")?;
    let structure = if c.peek() == Some(b'(') {
        BodyStructure::Multi(Box::new(multi_part(c, depth)?))
    } else {
        BodyStructure::Single(Box::new(single_part(c, depth)?))
    };
    // body-extension: whatever a later RFC may add.
    while c.eat(b' ') {
        c.skip_value()?;
    }
    c.expect(b')', ") after a body structure")?;
    Ok(structure)
}

/// `body-type-mpart`
fn multi_part(c: &mut Cursor<'_>, depth: usize) -> Parsed<MultiPart<'static>> {
    let mut parts = Vec::new();
    while c.peek() == Some(b'(') {
        parts.push(body(c, depth + 1)?);
        // Some servers put a space between parts.
        if c.peek() == Some(b' ') && c.peek_second() == Some(b'(') {
            c.advance(1);
        }
    }
    c.sp()?;
    let media_subtype = string(c)?;
    let params = if c.eat(b' ') { params(c)? } else { Vec::new() };
    Ok(MultiPart { parts, media_subtype, params, tail: tail(c)? })
}

/// `body-type-1part`
fn single_part(c: &mut Cursor<'_>, depth: usize) -> Parsed<SinglePart<'static>> {
    let media_type = loose_string(c)?;
    c.sp()?;
    let media_subtype = loose_string(c)?;
    c.sp()?;
    let params = params(c)?;
    c.sp()?;
    let id = nstring(c)?;
    c.sp()?;
    let description = nstring(c)?;
    c.sp()?;
    let encoding = loose_string(c)?;
    c.sp()?;
    let size = c.number64("a number of bytes")?;
    let basic = BasicPart { media_type, media_subtype, params, id, description, encoding, size };
    let kind = part_kind(c, &basic, depth)?;
    let md5 = if c.eat(b' ') { nstring(c)? } else { None };
    Ok(SinglePart { basic, kind, md5, tail: tail(c)? })
}

/// The fields that the media type calls for. A server that leaves it out is believed: the part is a
/// basic one then.
fn part_kind(c: &mut Cursor<'_>, basic: &BasicPart<'_>, depth: usize) -> Parsed<PartKind<'static>> {
    let is = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
    if is(&basic.media_type, b"text") && matches!(c.peek_second(), Some(b'0'..=b'9')) && c.eat(b' ') {
        return Ok(PartKind::Text { lines: c.number64("a number of lines")? });
    }
    let message = is(&basic.media_type, b"message")
        && (is(&basic.media_subtype, b"rfc822") || is(&basic.media_subtype, b"global"));
    if message && c.peek_second() == Some(b'(') && c.eat(b' ') {
        let envelope = Box::new(envelope(c)?);
        c.sp()?;
        let body = body(c, depth + 1)?;
        c.sp()?;
        return Ok(PartKind::Message { envelope, body, lines: c.number64("a number of lines")? });
    }
    Ok(PartKind::Basic)
}

/// `"(" string SP string *(…) ")" / nil`
fn params(c: &mut Cursor<'_>) -> Parsed<Vec<Param<'static>>> {
    if c.nil() {
        return Ok(Vec::new());
    }
    c.list(usize::MAX, "", |c| {
        let name = string(c)?;
        c.sp()?;
        Ok((name, loose_string(c)?))
    })
}

/// `[SP body-fld-dsp [SP body-fld-lang [SP body-fld-loc]]]`
fn tail(c: &mut Cursor<'_>) -> Parsed<PartTail<'static>> {
    let mut tail = PartTail::default();
    if !c.eat(b' ') {
        return Ok(tail);
    }
    if c.eat(b'(') {
        let kind = string(c)?;
        c.sp()?;
        tail.disposition = Some(Disposition { kind, params: params(c)? });
        c.expect(b')', ") after a disposition")?;
    } else if !c.nil() {
        return c.fail("a disposition in parentheses, or NIL");
    }
    if !c.eat(b' ') {
        return Ok(tail);
    }
    tail.language = match c.peek() {
        Some(b'(') => c.list(usize::MAX, "", string)?,
        _ => nstring(c)?.into_iter().collect(),
    };
    if c.eat(b' ') {
        tail.location = nstring(c)?;
    }
    Ok(tail)
}
