//! ENVELOPE, BODY and BODYSTRUCTURE: RFC 9051 §7.5.2. Called once a message, at delivery.

use std::borrow::Cow;
use std::ops::Range;

use super::{nstring, number, string};
use crate::response::{
    Address, BasicPart, BodyStructure, Disposition, Envelope, MultiPart, Param, PartKind, PartTail,
    SinglePart,
};

/// The extent to which a structure is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// BODY: no extension data.
    Body,
    /// BODYSTRUCTURE: with it.
    BodyStructure,
}

/// Appends `("date" "subject" ((…)) … "message-id")`. If Sender and Reply-To are printed like From,
/// returns the range of From's list, with the space before it. The range counts from the first byte
/// appended. A store of the text then needs only one of the three. An empty range otherwise.
pub fn envelope(out: &mut Vec<u8>, envelope: &Envelope<'_>) -> Range<usize> {
    let start = out.len();
    out.push(b'(');
    nstring(out, envelope.date.as_deref());
    out.push(b' ');
    nstring(out, envelope.subject.as_deref());
    let e = envelope;
    let from = out.len() - start;
    let mut repeated = from..from;
    let is_from = |list: &Option<Vec<Address<'_>>>| list.as_ref().is_none_or(|list| *list == e.from);
    let (sender, reply_to) = (e.sender.as_ref().unwrap_or(&e.from), e.reply_to.as_ref().unwrap_or(&e.from));
    for (i, addresses) in [&e.from, sender, reply_to, &e.to, &e.cc, &e.bcc].into_iter().enumerate() {
        out.push(b' ');
        address_list(out, addresses);
        if i == 0 && is_from(&e.sender) && is_from(&e.reply_to) {
            repeated.end = out.len() - start;
        }
    }
    out.push(b' ');
    nstring(out, envelope.in_reply_to.as_deref());
    out.push(b' ');
    nstring(out, envelope.message_id.as_deref());
    out.push(b')');
    repeated
}

/// Appends `((…)(…))`, or `NIL` for an empty list.
pub fn address_list(out: &mut Vec<u8>, addresses: &[Address<'_>]) {
    if addresses.is_empty() {
        return out.extend_from_slice(b"NIL");
    }
    out.push(b'(');
    for one in addresses {
        address(out, one);
    }
    out.push(b')');
}

/// Appends `("name" NIL "mailbox" "host")`.
pub fn address(out: &mut Vec<u8>, address: &Address<'_>) {
    let fields = [&address.name, &address.route, &address.mailbox, &address.host];
    for (i, field) in fields.into_iter().enumerate() {
        out.push(if i == 0 { b'(' } else { b' ' });
        nstring(out, field.as_deref());
    }
    out.push(b')');
}

/// Appends a structure as in BODY.
pub fn body(out: &mut Vec<u8>, structure: &BodyStructure<'_>) {
    part(out, structure, Boundary::Body);
}

/// Appends a structure as in BODYSTRUCTURE.
pub fn body_structure(out: &mut Vec<u8>, structure: &BodyStructure<'_>) {
    part(out, structure, Boundary::BodyStructure);
}

fn part(out: &mut Vec<u8>, structure: &BodyStructure<'_>, until: Boundary) {
    out.push(b'(');
    match structure {
        BodyStructure::Single(single) => single_part(out, single, until),
        BodyStructure::Multi(multi) => multi_part(out, multi, until),
    }
    out.push(b')');
}

fn single_part(out: &mut Vec<u8>, single: &SinglePart<'_>, until: Boundary) {
    basic(out, &single.basic);
    match &single.kind {
        PartKind::Basic => {}
        PartKind::Text { lines } => {
            out.push(b' ');
            number(out, *lines);
        }
        PartKind::Message { envelope: inner, body, lines } => {
            out.push(b' ');
            envelope(out, inner);
            out.push(b' ');
            part(out, body, until);
            out.push(b' ');
            number(out, *lines);
        }
    }
    if until == Boundary::BodyStructure {
        out.push(b' ');
        nstring(out, single.md5.as_deref());
        tail(out, &single.tail);
    }
}

fn multi_part(out: &mut Vec<u8>, multi: &MultiPart<'_>, until: Boundary) {
    for one in &multi.parts {
        part(out, one, until);
    }
    if multi.parts.is_empty() {
        // RFC 9051 §9, body-type-mpart: 1*body.
        let nothing = SinglePart {
            basic: BasicPart {
                media_type: Cow::Borrowed(b"text"),
                media_subtype: Cow::Borrowed(b"plain"),
                params: Vec::new(),
                id: None,
                description: None,
                encoding: Cow::Borrowed(b"7bit"),
                size: 0,
            },
            kind: PartKind::Text { lines: 0 },
            md5: None,
            tail: PartTail::default(),
        };
        out.push(b'(');
        single_part(out, &nothing, until);
        out.push(b')');
    }
    out.push(b' ');
    string(out, &multi.media_subtype);
    if until == Boundary::BodyStructure {
        out.push(b' ');
        params(out, &multi.params);
        tail(out, &multi.tail);
    }
}

fn basic(out: &mut Vec<u8>, basic: &BasicPart<'_>) {
    string(out, &basic.media_type);
    out.push(b' ');
    string(out, &basic.media_subtype);
    out.push(b' ');
    params(out, &basic.params);
    out.push(b' ');
    nstring(out, basic.id.as_deref());
    out.push(b' ');
    nstring(out, basic.description.as_deref());
    out.push(b' ');
    string(out, &basic.encoding);
    out.push(b' ');
    number(out, basic.size);
}

/// Appends `("name" "value" …)`, or `NIL` for an empty list.
pub fn params(out: &mut Vec<u8>, params: &[Param<'_>]) {
    if params.is_empty() {
        return out.extend_from_slice(b"NIL");
    }
    for (i, (name, value)) in params.iter().enumerate() {
        out.push(if i == 0 { b'(' } else { b' ' });
        string(out, name);
        out.push(b' ');
        string(out, value);
    }
    out.push(b')');
}

fn tail(out: &mut Vec<u8>, tail: &PartTail<'_>) {
    out.push(b' ');
    match &tail.disposition {
        None => out.extend_from_slice(b"NIL"),
        Some(Disposition { kind, params: of }) => {
            out.push(b'(');
            string(out, kind);
            out.push(b' ');
            params(out, of);
            out.push(b')');
        }
    }
    out.push(b' ');
    match tail.language.as_slice() {
        [] => out.extend_from_slice(b"NIL"),
        [one] => string(out, one),
        several => super::list(out, several, |out, one| string(out, one)),
    }
    out.push(b' ');
    nstring(out, tail.location.as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Cow<'_, [u8]> {
        Cow::Borrowed(s.as_bytes())
    }

    /// The envelope of RFC 9051 §8's sample session.
    #[test]
    fn the_envelope_of_the_rfc() {
        let gray = Address {
            name: Some(text("Terry Gray")),
            route: None,
            mailbox: Some(text("gray")),
            host: Some(text("cac.washington.edu")),
        };
        let value = Envelope {
            date: Some(text("Wed, 17 Jul 1996 02:23:25 -0700 (PDT)")),
            subject: Some(text("IMAP4rev2 WG mtg summary and minutes")),
            from: vec![gray],
            sender: Some(Vec::new()),
            reply_to: Some(Vec::new()),
            ..Envelope::default()
        };
        let mut out = Vec::new();
        envelope(&mut out, &value);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "(\"Wed, 17 Jul 1996 02:23:25 -0700 (PDT)\" \"IMAP4rev2 WG mtg summary and minutes\" \
             ((\"Terry Gray\" NIL \"gray\" \"cac.washington.edu\")) NIL NIL NIL NIL NIL NIL NIL)"
        );
    }

    #[test]
    fn a_multipart_without_parts_is_given_one() {
        let empty = BodyStructure::Multi(Box::new(MultiPart {
            parts: Vec::new(),
            media_subtype: text("mixed"),
            params: Vec::new(),
            tail: PartTail::default(),
        }));
        let mut out = Vec::new();
        body(&mut out, &empty);
        assert_eq!(out, b"((\"text\" \"plain\" NIL NIL NIL \"7bit\" 0 0) \"mixed\")");
    }
}
