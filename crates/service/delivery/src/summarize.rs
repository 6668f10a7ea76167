//! A message becomes its summary: the one place where MIME and IMAP's grammar meet.
//!
//! ENVELOPE, BODY and BODYSTRUCTURE are printed here, once, in the very bytes that FETCH sends. The
//! store keeps them as opaque bytes, and no listing ever parses mail. Invariants: any bytes
//! have a summary. Printing goes no deeper than [`posthaste_mime_summary::MAX_DEPTH`]. A summary is
//! no longer than [`posthaste_mime_summary::summary_len_max`], because all printing takes its bytes
//! from one [`PrintBudget`].

use std::borrow::Cow;

use posthaste_imap_codec::print;
use posthaste_imap_codec::response::{
    Address, BasicPart, BodyStructure, Disposition, Envelope, MultiPart, NString, Param, PartKind, PartTail,
    SinglePart,
};
use posthaste_mime_summary as mime;
use posthaste_mime_summary::{
    DecodedMessage, HeaderFields, Kind, Part, PartIndex, PrintBudget, Span, Structure, SummaryParts,
};
use posthaste_tnef::declares_rich;

/// The number of times that BODY and BODYSTRUCTURE together print what both contain.
const IN_BOTH: usize = 2;

/// Computes all that IMAP can need of `message`, as the stored record that [`mime::SummaryRef`]
/// reads.
pub fn summarize(message: &[u8]) -> Vec<u8> {
    of_structure(message, Structure::parse(message))
}

/// The structure of a message that does not say that it is rich. The look for rich content needs
/// no more than that, and neither do the summary and the rich form of ordinary mail.
pub(crate) fn structure_unless_rich(message: &[u8]) -> Option<Structure> {
    let structure = Structure::parse(message);
    (!declares_rich(&structure, message)).then_some(structure)
}

/// The summary of a message that has this structure.
pub(crate) fn of_structure(message: &[u8], mut structure: Structure) -> Vec<u8> {
    let decoded = structure.decode_messages(message);
    let mut budget = PrintBudget::new(message, &structure, &decoded);
    let of_message =
        envelope(mime::Envelope::within(message, structure.fields().iter().copied(), 1, &mut budget));
    let mut tree = Tree { message, structure: &structure, decoded: &decoded, budget: &mut budget };
    let parts = tree.body(0, structure.root());
    // One buffer for all three: where each begins is all that has to be known.
    let mut printed = Vec::with_capacity(2048);
    let repeated = print::envelope(&mut printed, &of_message);
    drop(of_message);
    let envelope_end = printed.len();
    print::body(&mut printed, &parts);
    let body_end = printed.len();
    print::body_structure(&mut printed, &parts);
    drop(parts);
    let (envelope, rest) = printed.split_at(envelope_end);
    let (body, body_structure) = rest.split_at(body_end - envelope_end);
    SummaryParts { message, structure: &structure, envelope, repeated, body, body_structure }.encode()
}

fn envelope(of: mime::Envelope<'_>) -> Envelope<'_> {
    Envelope {
        date: of.date,
        subject: of.subject,
        from: addresses(of.from),
        sender: of.sender.map(addresses),
        reply_to: of.reply_to.map(addresses),
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

/// The parts of a message on their way into BODY and BODYSTRUCTURE, and the budget that is left for
/// them.
struct Tree<'m, 'b> {
    message: &'m [u8],
    structure: &'m Structure,
    /// The messages in it that are in base64 or quoted-printable, in the order of their parts.
    decoded: &'m [DecodedMessage],
    budget: &'b mut PrintBudget,
}

impl<'m> Tree<'m, '_> {
    /// The body structure of a part and of all parts inside it. RFC 9051 §7.5.2.
    fn body(&mut self, index: PartIndex, part: &Part) -> BodyStructure<'m> {
        let message = self.message;
        let media = part.media(message);
        if part.kind == Kind::Multipart {
            let children = self.structure.children(index);
            return BodyStructure::Multi(Box::new(MultiPart {
                parts: children.map(|(child, part)| self.body(child, part)).collect(),
                media_subtype: Cow::Borrowed(media.sub),
                params: self.params(media.params, 1),
                tail: self.tail(part),
            }));
        }
        let is_text = media.text_kind().is_some();
        let basic = BasicPart {
            media_type: Cow::Borrowed(media.top),
            media_subtype: Cow::Borrowed(media.sub),
            params: match part.is_text_by_default(message) {
                true => default_params(),
                false => self.params(media.params, IN_BOTH),
            },
            id: self.text(part.fields.id, IN_BOTH),
            description: self.text(part.fields.description, IN_BOTH),
            encoding: Cow::Borrowed(part.encoding_name(message)),
            size: u64::from(part.body.len()),
        };
        let md5 = self.text(part.fields.md5, 1);
        let tail = self.tail(part);
        let kind = match part.kind {
            Kind::Message => self.nested(index, part),
            Kind::Leaf if part.is_encoded_message => self.decoded(index, part),
            _ if is_text => PartKind::Text { lines: u64::from(part.lines) },
            _ => PartKind::Basic,
        };
        BodyStructure::Single(Box::new(SinglePart { basic, kind, md5, tail }))
    }

    fn nested(&mut self, index: PartIndex, part: &Part) -> PartKind<'m> {
        let Some((child, root)) = self.structure.children(index).next() else { return PartKind::Basic };
        self.message(child, root, part)
    }

    /// A message that is encoded. Its size and lines are those of the encoded bytes, which BODY[n]
    /// sends; what is in it is that of the decoded ones.
    fn decoded(&mut self, index: PartIndex, part: &Part) -> PartKind<'m> {
        let Ok(place) = self.decoded.binary_search_by_key(&index, DecodedMessage::part) else {
            return PartKind::Basic;
        };
        let (message, structure) = (self.decoded[place].bytes(), self.decoded[place].structure());
        let mut tree = Tree { message, structure, decoded: &[], budget: self.budget };
        tree.message(0, structure.root(), part)
    }

    /// The message with this root, which a part holds.
    fn message(&mut self, index: PartIndex, root: &Part, holder: &Part) -> PartKind<'m> {
        let fields = HeaderFields::new(self.message, root.header);
        let of_message = mime::Envelope::within(self.message, fields, IN_BOTH, self.budget);
        PartKind::Message {
            envelope: Box::new(envelope(of_message)),
            body: self.body(index, root),
            lines: u64::from(holder.lines),
        }
    }

    fn params(&mut self, of: mime::Params<'m>, times: usize) -> Vec<Param<'m>> {
        self.budget.params(of.joined(), times).map(|param| (Cow::Borrowed(param.name), param.value)).collect()
    }

    fn tail(&mut self, part: &Part) -> PartTail<'m> {
        let message = self.message;
        let disposition = part.fields.disposition.and_then(|span| mime::Disposition::parse(span.of(message)));
        let disposition = disposition.and_then(|d| {
            let kind = self.budget.text(Some(d.kind), 1)?;
            Some(Disposition { kind, params: self.params(d.params, 1) })
        });
        let language =
            part.fields.language.map(|span| mime::language_tags(span.of(message))).unwrap_or_default();
        PartTail {
            disposition,
            language: self.budget.tags(language).map(Cow::Borrowed).collect(),
            location: self.text(part.fields.location, 1),
        }
    }

    /// The value of a field, unfolded; none if the field is absent or empty, or finds no budget.
    fn text(&mut self, field: Option<Span>, times: usize) -> NString<'m> {
        let value = field.map(|span| mime::unfold(span.of(self.message))).filter(|value| !value.is_empty());
        self.budget.text(value, times)
    }
}

/// RFC 2045 §5.2: what an absent Content-Type means.
fn default_params() -> Vec<Param<'static>> {
    vec![(Cow::Borrowed(b"charset"), Cow::Borrowed(b"us-ascii"))]
}

#[cfg(test)]
#[path = "summarize_tests.rs"]
mod tests;
