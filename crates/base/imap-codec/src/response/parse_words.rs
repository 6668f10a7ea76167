//! The words of which codes and data are made: flags, capabilities, numbers of their kinds.

use posthaste_mail_model::{Flag, Keyword, ModSeq, SeqNum, Uid, UidValidity};

use super::ResponseFlag;
use crate::chars::is_astring_char;
use crate::command::{capability, mod_seq};
use crate::cursor::{Cursor, Parsed};
use crate::object_ids::{object_id, object_id_pair};
use crate::{Capability, ObjectIds, UidRanges};

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

/// OBJECTID+ (draft 06 §10): `"(" [objectid-kvpair *(SP objectid-kvpair)] ")"`.
pub(super) fn object_ids(c: &mut Cursor<'_>) -> Parsed<ObjectIds> {
    c.expect(b'(', "object ids in parentheses")?;
    let mut ids = ObjectIds::default();
    loop {
        c.spaces();
        if c.eat(b')') {
            return Ok(ids);
        }
        ids.0.push(object_id_pair(c)?);
    }
}

pub(super) fn uid_ranges(c: &mut Cursor<'_>) -> Parsed<UidRanges> {
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
