//! A message becomes its summary: the one place where MIME and IMAP's grammar meet.
//!
//! ENVELOPE, BODY and BODYSTRUCTURE are printed here, once, in the very bytes that FETCH sends; the store keeps them
//! as opaque bytes and no listing ever parses mail. What always holds: any bytes have a summary, and printing goes
//! no deeper than [`posthaste_mime_summary::MAX_DEPTH`].

use std::borrow::Cow;

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::{
    Address, BasicPart, BodyStructure, Disposition, Envelope, MultiPart, NString, Param, PartKind, PartTail,
    SinglePart,
};
use posthaste_mime_summary as mime;
use posthaste_mime_summary::{HeaderFields, Kind, Part, PartIndex, Span, Structure, SummaryParts};

/// Computes all that IMAP can ask of `message`, as the stored record that [`mime::SummaryRef`] reads.
pub fn summarize(message: &[u8]) -> Vec<u8> {
    let structure = Structure::parse(message);
    let of_message = envelope(mime::Envelope::of(message, structure.fields().iter().copied()));
    let parts = body_structure(message, &structure, 0, structure.root());
    // One buffer for all three: where each begins is all that has to be known.
    let mut printed = Vec::with_capacity(2048);
    let repeated = print::envelope(&mut printed, &of_message);
    let envelope_end = printed.len();
    print::body(&mut printed, &parts);
    let body_end = printed.len();
    print::body_structure(&mut printed, &parts);
    let (envelope, rest) = printed.split_at(envelope_end);
    let (body, body_structure) = rest.split_at(body_end - envelope_end);
    SummaryParts { message, structure: &structure, envelope, repeated, body, body_structure }.encode()
}

fn envelope(of: mime::Envelope<'_>) -> Envelope<'_> {
    Envelope {
        date: of.date,
        subject: of.subject,
        from: addresses(of.from),
        sender: addresses(of.sender),
        reply_to: addresses(of.reply_to),
        to: addresses(of.to),
        cc: addresses(of.cc),
        bcc: addresses(of.bcc),
        in_reply_to: of.in_reply_to,
        message_id: of.message_id,
    }
}

fn addresses(list: Vec<mime::Address<'_>>) -> Vec<Address<'_>> {
    list.into_iter()
        .map(|a| Address { name: a.name, route: a.route, mailbox: a.mailbox, host: a.host })
        .collect()
}

/// What a part is to IMAP, and all inside it. RFC 9051 §7.5.2.
fn body_structure<'m>(
    message: &'m [u8],
    structure: &Structure,
    index: PartIndex,
    part: &Part,
) -> BodyStructure<'m> {
    let media = part.media(message);
    let mut inside = structure
        .children(index)
        .map(|(child, part)| (body_structure(message, structure, child, part), part));
    let kind = match part.kind {
        Kind::Multipart => {
            return BodyStructure::Multi(Box::new(MultiPart {
                parts: inside.map(|(body, _)| body).collect(),
                media_subtype: Cow::Borrowed(media.sub),
                params: params(media.params),
                tail: tail(message, part),
            }));
        }
        Kind::Message => match inside.next() {
            Some((body, root)) => PartKind::Message {
                envelope: Box::new(envelope(mime::Envelope::of(
                    message,
                    HeaderFields::new(message, root.header),
                ))),
                body,
                lines: u64::from(part.lines),
            },
            None => PartKind::Basic,
        },
        Kind::Leaf if media.text_kind().is_some() => PartKind::Text { lines: u64::from(part.lines) },
        Kind::Leaf => PartKind::Basic,
    };
    BodyStructure::Single(Box::new(SinglePart {
        basic: BasicPart {
            media_type: Cow::Borrowed(media.top),
            media_subtype: Cow::Borrowed(media.sub),
            params: if part.is_text_by_default(message) { default_params() } else { params(media.params) },
            id: text(message, part.fields.id),
            description: text(message, part.fields.description),
            encoding: Cow::Borrowed(part.encoding_name(message)),
            size: u64::from(part.body.len()),
        },
        kind,
        md5: text(message, part.fields.md5),
        tail: tail(message, part),
    }))
}

/// RFC 2045 §5.2: what an absent Content-Type means.
fn default_params() -> Vec<Param<'static>> {
    vec![(Cow::Borrowed(b"charset"), Cow::Borrowed(b"us-ascii"))]
}

fn params(of: mime::Params<'_>) -> Vec<Param<'_>> {
    of.into_iter().map(|param| (Cow::Borrowed(param.name), param.value)).collect()
}

fn tail<'m>(message: &'m [u8], part: &Part) -> PartTail<'m> {
    let disposition = part.fields.disposition.and_then(|span| mime::Disposition::parse(span.of(message)));
    let language = part.fields.language.map(|span| mime::language_tags(span.of(message))).unwrap_or_default();
    PartTail {
        disposition: disposition.map(|d| Disposition { kind: d.kind, params: params(d.params) }),
        language: language.into_iter().map(Cow::Borrowed).collect(),
        location: text(message, part.fields.location),
    }
}

/// The value of a field, unfolded; none if the field is absent or empty.
fn text(message: &[u8], field: Option<Span>) -> NString<'_> {
    field.map(|span| mime::unfold(span.of(message))).filter(|value| !value.is_empty())
}

#[cfg(test)]
#[path = "summarize_tests.rs"]
mod tests;
