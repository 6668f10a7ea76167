//! A whole message: its rich parts become MIME, and every other byte stays as it was.
//!
//! | place of the TNEF part | result |
//! | --- | --- |
//! | it is the message | the header stays, without Content-*; the content is new |
//! | in a multipart/mixed, the same text before it | that text gets further parts: HTML, a meeting |
//! | in a multipart/mixed, another text before it | both texts stay |
//! | in a multipart/mixed, without a text | the text takes the part's place |
//! | in another multipart | one multipart/mixed takes the part's place |
//!
//! In a multipart/mixed, the attachments take the part's place.
//!
//! Mail that is signed or encrypted is not changed, since any change would break it.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use memchr::memmem;
use posthaste_mime_summary::{
    Encoding, HeaderFields, InBounds, Kind, Media, Part, PartIndex, Span, Structure, decode_transfer,
    html_lines, is_header_bounded,
};
use sha2::{Digest, Sha256};

use super::body::TextBudget;
use super::entity::{Entity, Printer};
use super::headers::{header_fields, subject_or};
use super::look::{is_rich, might_be_rich};
use super::outer_text::{Essence, Outer, PartRole, Texts};
use super::people::People;
use super::whole::Whole;
use crate::decode::decode_and_name;
use crate::error::Damage;
use crate::model::{Content, Message, Value};
use crate::tags::{attribute, property};

/// The most rich parts that a message may have. Real ones have one, digests of lists some more.
/// Each reads the header of the message around it.
const PARTS_MAX: usize = 32;

/// The outcome for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The message has no rich part.
    Ordinary,
    /// The message has one, and is signed or encrypted: it stays as it is.
    Sealed,
    /// The message as MIME.
    Converted(Vec<u8>),
}

/// Bytes that all texts out of a message of this many bytes may take, before they are encoded
/// again. Compressed RTF expands to eight times its length at most, and HTML made from it to four
/// times that. 16 MiB are the longest novels twice over, as RTF and as HTML.
fn text_max(len: usize) -> usize {
    len.saturating_mul(40).min(16 << 20).saturating_add(4 << 10)
}

/// Bytes that pictures inside RTF may take together, in a message of this many bytes. RTF has a
/// byte as two digits, and a picture is compressed already. So its compressed RTF is no shorter
/// than the picture, and base64 of that a third longer. More than this comes from no real
/// picture.
fn pictures_max(len: usize) -> usize {
    len / 4 * 3
}

/// Memory that [`convert`] takes at most for a message of this many bytes, besides the message. It
/// holds the decoded part, the model, the texts, and the result while it grows.
pub fn conversion_memory_max(len: usize) -> usize {
    let values = crate::VALUES_MAX.saturating_mul(100).min(len.saturating_mul(24));
    len.saturating_mul(6).saturating_add(text_max(len).saturating_mul(5)).saturating_add(values)
}

/// Makes MIME of the rich parts of a message. The same message always gives the same bytes. Work
/// and memory are linear in the message; see [`conversion_memory_max`].
///
/// A damaged part stays the attachment that it is, if another one can be converted. If none can,
/// the damage of the first one is the error.
pub fn convert(message: &[u8]) -> Result<Outcome, Damage> {
    convert_and_name(message, &mut |_| {})
}

/// [`convert`], with a list: `left` gets the damage of each part that is not changed while others
/// are converted. It also gets why a message inside a part stays an attachment, and how many
/// pictures are not shown.
pub fn convert_and_name(message: &[u8], left: &mut dyn FnMut(Damage)) -> Result<Outcome, Damage> {
    if !might_be_rich(message) {
        return Ok(Outcome::Ordinary);
    }
    let structure = Structure::parse(message);
    let places: Vec<_> = (0..).zip(structure.parts()).filter(|(_, part)| is_rich(part, message)).collect();
    if places.is_empty() {
        return Ok(Outcome::Ordinary);
    }
    if places.len() > PARTS_MAX {
        return Err(Damage::Parts { limit: PARTS_MAX });
    }
    if is_sealed(&structure, message) {
        return Ok(Outcome::Sealed);
    }
    let mut conversion = Conversion::new(message, &structure)?;
    let (count, mut damaged) = (places.len(), Vec::new());
    for (index, part) in places {
        match conversion.part(index, part) {
            Ok(PartOutcome::Done) => {}
            Ok(PartOutcome::Sealed) => return Ok(Outcome::Sealed),
            Err(why) => damaged.push(why),
        }
    }
    if damaged.len() == count {
        return Err(damaged.swap_remove(0));
    }
    let count = conversion.budget.unshown;
    let unshown = (count > 0).then_some(Damage::Pictures { count });
    let named: Vec<_> = damaged.into_iter().chain(conversion.left.drain(..)).chain(unshown).collect();
    let mime = conversion.finish();
    if !is_header_bounded(&mime) {
        return Err(Damage::Header);
    }
    named.into_iter().for_each(left);
    Ok(Outcome::Converted(mime))
}

/// Whether a message or a part of it is signed or encrypted.
pub(super) fn is_sealed(structure: &Structure, message: &[u8]) -> bool {
    structure.parts().iter().any(|part| {
        let media = part.media(message);
        is_sealed_type(&media) || media.text_kind().is_some() && is_armored(part, message)
    })
}

/// Whether a change within it would make a signature false, or could not be seen.
fn is_sealed_type(media: &Media<'_>) -> bool {
    media.is("multipart", "signed")
        || media.is("multipart", "encrypted")
        || media.is("application", "pkcs7-mime")
        || media.is("application", "x-pkcs7-mime")
        || media.is("application", "pgp-encrypted")
}

/// Lines that begin a text which is encrypted or signed: RFC 9580 §6.2.1 and §7.
const ARMOR: [&[u8]; 2] = [b"-----BEGIN PGP MESSAGE-----", b"-----BEGIN PGP SIGNED MESSAGE-----"];

/// Whether a text has such a line. A key in a text seals nothing.
fn is_armored(part: &Part, message: &[u8]) -> bool {
    if part.kind != Kind::Leaf {
        return false;
    }
    let body = part.body.of(message);
    match part.encoding {
        Encoding::SevenBit | Encoding::EightBit | Encoding::Binary => has_armor(body),
        // Only where these letters stand, or may be written as escapes, is it worth decoding.
        Encoding::QuotedPrintable
            if ![b"PGP", b"=50", b"=47"].iter().any(|sign| memmem::find(body, *sign).is_some()) =>
        {
            false
        }
        encoding => decode_transfer(encoding, body).is_ok_and(|text| has_armor(&text)),
    }
}

fn has_armor(text: &[u8]) -> bool {
    memmem::find_iter(text, b"-----BEGIN PGP ").any(|at| {
        let (before, line) = text.split_at_checked(at).unwrap_or_default();
        let begins_line = before.last().is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
        begins_line && ARMOR.iter().any(|begin| line.starts_with(begin))
    })
}

/// Whether a rich message, or one inside it, is signed or encrypted. With S/MIME, the message is
/// in an attachment as a whole: MS-OXOSMIME §2.1.
fn is_sealed_within(rich: &Message) -> bool {
    let texts = [rich.text(property::BODY), rich.attribute_text(attribute::BODY)];
    let inner = rich.attachments.iter().flat_map(|attachment| &attachment.properties);
    let mut inner = inner.filter_map(|property| match &property.value {
        Value::Object(object) => Some(&object.content),
        _ => None,
    });
    rich.class().to_ascii_uppercase().starts_with("IPM.NOTE.SMIME")
        || texts.into_iter().flatten().any(|text| has_armor(text.as_bytes()))
        || inner.any(|content| matches!(content, Content::Message(message) if is_sealed_within(message)))
}

enum PartOutcome {
    Done,
    Sealed,
}

/// A message that is being converted: bytes that take the place of others.
struct Conversion<'m> {
    message: &'m [u8],
    structure: &'m Structure,
    budget: TextBudget,
    printer: Printer,
    /// Boundaries of the message's own multiparts.
    boundaries: HashMap<PartIndex, Box<[u8]>>,
    edits: Vec<(Range<usize>, Vec<u8>)>,
    /// The reasons why messages inside parts stay attachments.
    left: Vec<Damage>,
    /// Texts that were compared.
    texts: Texts,
    /// Texts that have a rich form by now, and headers that were completed.
    used: Vec<usize>,
    /// Parts whose headers say 8bit by now.
    in_8bit: HashSet<PartIndex>,
}

impl<'m> Conversion<'m> {
    fn new(message: &'m [u8], structure: &'m Structure) -> Result<Self, Damage> {
        let boundaries = boundaries(message, structure);
        let stem = stem(message, &boundaries).ok_or(Damage::Boundaries)?;
        Ok(Self {
            message,
            structure,
            budget: TextBudget::new(text_max(message.len()), pictures_max(message.len())),
            printer: Printer::new(stem),
            boundaries,
            edits: Vec::new(),
            left: Vec::new(),
            texts: Texts::default(),
            used: Vec::new(),
            in_8bit: HashSet::new(),
        })
    }

    /// Makes the edits for one rich part; `None` if it is damaged.
    fn part(&mut self, index: PartIndex, part: &Part) -> Result<PartOutcome, Damage> {
        let body = part.body.of(self.message);
        if part.encoding == Encoding::Unknown {
            return Err(Damage::TransferEncoding);
        }
        let bytes = decode_transfer(part.encoding, body).map_err(|_| Damage::TransferEncoding)?;
        let rich = decode_and_name(&bytes, &mut |why| self.left.push(why))?;
        drop(bytes);
        if is_sealed_within(&rich) {
            return Ok(PartOutcome::Sealed);
        }
        let owner = self.owner(index);
        let header = self.structure.part(owner).map(|part| part.header).unwrap_or_default();
        let message = self.message;
        let field = |name: &str| {
            let mut fields = HeaderFields::new(message, header);
            fields.find(|field| field.is(message, name)).map(|field| field.value(message).into_owned())
        };
        let own = People::of_message(&rich);
        // The author of a message is checked by its From (DMARC: RFC 7489 §3.1; RFC 6409 §6.1)
        // before it comes here. Without one, nobody was checked.
        let is_outermost = self.structure.part(owner).is_some_and(|part| part.parent().is_none());
        let left_out = if is_outermost { left_out(message, header) } else { Vec::new() };
        let is_left_out = |name: &str| {
            left_out.split(|b| *b == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        };
        let may_add = |name: &str| !is_outermost || name != "From" && !is_left_out(name);
        let fields = header_fields(&rich, &own).into_iter();
        let missing: Vec<_> = fields.filter(|(name, _)| field(name).is_none() && may_add(name)).collect();
        let people = own.with_header(field);
        let subject = subject_or(&rich, field("subject"));
        let mut whole = Whole::of(&rich, &people, subject.as_deref(), &mut self.budget)?;
        if !self.has_others(part) {
            whole.add_report(&rich, &mut self.budget)?;
        }
        let class = rich.class();
        if whole.is_empty() && !is_note(&class) && !(is_notice(&class) && self.has_others(part)) {
            return Err(Damage::Empty { class });
        }
        let has_version = field("mime-version").is_some();
        self.printer.around = self.around(index).filter_map(|at| self.boundaries.get(&at).cloned()).collect();
        if whole.is_8bit() {
            self.say_8bit(index);
        }
        match part.parent().and_then(|parent| self.structure.part(parent)) {
            Some(parent) if parent.kind == Kind::Multipart => {
                if part.parent() == Some(owner) && !self.used.contains(&header.range().start) {
                    self.used.push(header.range().start);
                    self.complete_header(owner, &missing);
                    if !left_out.is_empty() {
                        self.drop_left_out(header);
                    }
                }
                self.in_multipart(index, part, whole);
            }
            _ => self.as_message(part, &missing, has_version, whole),
        }
        Ok(PartOutcome::Done)
    }

    /// The parts around a part, innermost first.
    fn around(&self, index: PartIndex) -> impl Iterator<Item = PartIndex> + 'm {
        let parent = |at: PartIndex, structure: &Structure| structure.part(at).and_then(Part::parent);
        let structure = self.structure;
        std::iter::successors(parent(index, structure), move |at| parent(*at, structure))
    }

    /// The part whose header is that of the message around a part.
    fn owner(&self, index: PartIndex) -> PartIndex {
        let is_message = |at: &PartIndex| self.structure.part(*at).is_some_and(|p| p.kind == Kind::Message);
        self.around(index).take_while(|at| !is_message(at)).last().unwrap_or(index)
    }

    /// RFC 2045 §6.4: what contains 8bit says so. Their own headers get it, once.
    fn say_8bit(&mut self, index: PartIndex) {
        let mut around: Vec<_> = self.around(index).collect();
        around.retain(|at| self.in_8bit.insert(*at));
        for part in around.into_iter().filter_map(|at| self.structure.part(at)) {
            if part.encoding != Encoding::SevenBit {
                continue;
            }
            let message = self.message;
            let fields = HeaderFields::new(message, part.header);
            let said = fields.clone().find(|field| field.is(message, "content-transfer-encoding"));
            let end = fields.last().map_or(part.header.range().start, |field| field.span().range().end);
            let edit = match said {
                Some(said) => (said.value_span().range(), b" 8bit\r\n".to_vec()),
                None => (end..end, b"Content-Transfer-Encoding: 8bit\r\n".to_vec()),
            };
            self.edits.push(edit);
        }
    }

    /// The content of a message is TNEF and nothing else.
    fn as_message(
        &mut self,
        part: &Part,
        missing: &[(&'static str, String)],
        has_version: bool,
        whole: Whole<'_>,
    ) {
        let mut out = Vec::new();
        for field in HeaderFields::new(self.message, part.header) {
            let name = field.name(self.message);
            let is_of_content = name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"));
            let is_left_out = part.parent().is_none() && field.is(self.message, LEFT_OUT);
            if !is_of_content && !is_left_out {
                let until = field.value_span().range().end;
                push_lines(&mut out, self.message.in_bounds(field.span().range().start..until));
            }
        }
        self.printer.out = out;
        for (name, value) in missing {
            self.printer.field(name, value);
        }
        if !has_version {
            self.printer.field("MIME-Version", "1.0");
        }
        self.printer.entity(&whole.into_entity());
        let range = part.header.range().start..part.body.range().end;
        self.edits.push((range, std::mem::take(&mut self.printer.out)));
    }

    /// Adds fields at the end of a header.
    fn complete_header(&mut self, owner: PartIndex, missing: &[(&'static str, String)]) {
        let Some(owner) = self.structure.part(owner) else { return };
        let end = HeaderFields::new(self.message, owner.header).last();
        let at = end.map_or(owner.header.range().start, |field| field.value_span().range().end);
        if missing.is_empty() {
            return;
        }
        for (name, value) in missing {
            self.printer.field(name, value);
        }
        self.edits.push((at..at, std::mem::take(&mut self.printer.out)));
    }

    /// Removes [`LEFT_OUT`] from a header.
    fn drop_left_out(&mut self, header: Span) {
        let message = self.message;
        let found = HeaderFields::new(message, header).filter(|field| field.is(message, LEFT_OUT));
        self.edits.extend(found.map(|field| (field.span().range(), Vec::new())));
    }

    /// The TNEF part is one of several.
    fn in_multipart(&mut self, index: PartIndex, part: &Part, mut whole: Whole<'_>) {
        let range = part.header.range().start..part.body.range().end;
        let Some(delimiter) = self.delimiter_before(range.start) else { return };
        let parent = part.parent().and_then(|parent| self.structure.part(parent));
        let is_mixed = parent.is_some_and(|parent| parent.media(self.message).is("multipart", "mixed"));
        if is_mixed {
            self.beside_text(index, part, &mut whole);
        }
        let mut parts: Vec<_> = whole.take_body().into_iter().collect();
        parts.append(&mut whole.attachments);
        if !is_mixed {
            parts = Entity::group("mixed", parts).into_iter().collect();
        }
        if parts.is_empty() && self.has_others(part) {
            // Nothing is left of it: the part ends where the next delimiter begins.
            let end = range.end + line_end_len(self.message, range.end);
            self.edits.push((delimiter.start..end, Vec::new()));
            return;
        }
        let line = self.message.in_bounds(delimiter);
        for (place, entity) in parts.iter().enumerate() {
            if place > 0 {
                self.printer.line("");
                self.printer.out.extend_from_slice(line);
            }
            self.printer.entity(entity);
        }
        if parts.is_empty() {
            self.printer.line("");
        }
        self.edits.push((range, std::mem::take(&mut self.printer.out)));
    }

    /// Whether a part has siblings.
    fn has_others(&self, part: &Part) -> bool {
        let parent = part
            .parent()
            .filter(|at| self.structure.part(*at).is_some_and(|parent| parent.kind == Kind::Multipart));
        parent.is_some_and(|at| self.structure.children(at).nth(1).is_some())
    }

    /// A text before the TNEF part may be the same text in another form: then it gets the other
    /// forms beside it. A blank text is dropped. Any other is a text of its own, and both are
    /// kept.
    fn beside_text(&mut self, at: PartIndex, part: &Part, whole: &mut Whole<'_>) {
        let Some(parent) = part.parent() else { return };
        let structure = self.structure;
        let before = self.texts.of_multipart(self.message, structure, parent);
        // Parts keep their order in the message.
        let before = before.iter().take_while(|index| **index < at);
        let before = before.filter_map(|index| Some((*index, structure.part(*index)?)));
        let before = before.filter(|(_, child)| !self.used.contains(&child.body.range().start));
        let before: Vec<_> = before.collect();
        let own = whole.text.as_deref().and_then(Essence::of);
        let shown = whole.html.as_ref().filter(|_| !before.is_empty());
        let shown = shown.and_then(|html| Essence::of(&html_lines(html)));
        for (place, (index, text)) in before.into_iter().enumerate() {
            let outer = Outer::of(self.message, structure, index, &mut self.texts);
            let is_plain = self.texts.role(self.message, structure, index) == PartRole::Plain;
            let has_text = own.as_ref().is_some_and(|own| outer.has_text(own));
            let has_html = shown.as_ref().is_some_and(|shown| outer.has_html(shown));
            let has_no_words = whole.text.is_none() && whole.html.is_none();
            if is_plain && place == 0 && outer.is_blank() {
                let forms = [whole.take_text(), whole.take_html(), whole.meeting.take()];
                self.replace_text(text, forms);
            } else if is_plain && (has_text || has_no_words) {
                whole.text = None;
                let verbatim = self.message.in_bounds(text.header.range().start..text.body.range().end);
                self.replace_text(
                    text,
                    [Some(Entity::Verbatim(verbatim)), whole.take_html(), whole.meeting.take()],
                );
            } else if has_text || has_html || own.as_ref().is_some_and(|own| outer.has_html(own)) {
                // It has its forms. Only what it lacks is new.
                whole.text = None;
                if has_html {
                    whole.drop_html();
                }
            } else {
                continue;
            }
            self.used.push(text.body.range().start);
            return;
        }
    }

    /// Puts the forms of a text in its place.
    fn replace_text(&mut self, text: &Part, forms: [Option<Entity<'_>>; 3]) {
        match Entity::group("alternative", forms.into_iter().flatten().collect()) {
            None | Some(Entity::Verbatim(_)) => {}
            Some(entity) => {
                self.printer.entity(&entity);
                let range = text.header.range().start..text.body.range().end;
                self.edits.push((range, std::mem::take(&mut self.printer.out)));
            }
        }
    }

    /// The delimiter line that ends where a part begins.
    fn delimiter_before(&self, at: usize) -> Option<Range<usize>> {
        let before = self.message.get(..at)?.strip_suffix(b"\n")?;
        let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Some(start..at)
    }

    fn finish(mut self) -> Vec<u8> {
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let more: usize = self.edits.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut out = Vec::with_capacity(self.message.len() + more);
        let mut at = 0;
        for (range, bytes) in &self.edits {
            out.extend_from_slice(self.message.in_bounds(at..range.start));
            out.extend_from_slice(bytes);
            at = range.end;
        }
        out.extend_from_slice(self.message.in_bounds(at..));
        // Where the new content is the end, its last line ends as lines do. LMTP, SMTP and POP3
        // would add the line end otherwise.
        if at == self.message.len() && !out.ends_with(b"\n") {
            out.extend_from_slice(b"\r\n");
        }
        out
    }
}

/// The boundaries of a message's multiparts.
fn boundaries(message: &[u8], structure: &Structure) -> HashMap<PartIndex, Box<[u8]>> {
    let multiparts = (0..).zip(structure.parts()).filter(|(_, part)| part.kind == Kind::Multipart);
    let boundary = |(at, part): (PartIndex, &Part)| {
        let params = part.media(message).params;
        let decoded = || params.decoded("boundary").map(String::into_bytes);
        let boundary = params.value("boundary").map(<[u8]>::to_vec).or_else(decoded)?;
        // RFC 2046 §5.1.1: it does not end with white space.
        let boundary = boundary.trim_ascii_end();
        (!boundary.is_empty()).then(|| (at, Box::from(boundary)))
    };
    multiparts.filter_map(boundary).collect()
}

/// A field of a rich message as it is stored. It names fields that the conversion does not make of
/// properties, with commas between them. Clients do not see it. A sender who writes it only omits
/// fields of the own message.
const LEFT_OUT: &str = "X-Posthaste-Left-Out";

/// The names in all such fields of a header, with commas between them.
fn left_out(message: &[u8], header: Span) -> Vec<u8> {
    let fields = HeaderFields::new(message, header).filter(|field| field.is(message, LEFT_OUT));
    fields.map(|field| field.value(message).into_owned()).collect::<Vec<_>>().join(&b',')
}

/// A rich message of which the conversion makes none of these header fields. A script deleted them
/// from the message that clients see.
pub fn leaving_out(message: &[u8], names: &[&str]) -> Vec<u8> {
    [format!("{LEFT_OUT}: {}\r\n", names.join(", ")).as_bytes(), message].concat()
}

/// The hash of a message, which each new boundary contains.
pub fn hash_in_boundaries(message: &[u8]) -> String {
    Sha256::digest(message).iter().take(12).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The beginning of new boundaries: a hash of the message, which does not occur in it. No
/// boundary of the message is its beginning. Otherwise a new delimiter would be one of the
/// message's own, too (RFC 2046 §5.1.1). `None` if there is no such stem.
fn stem(message: &[u8], taken: &HashMap<PartIndex, Box<[u8]>>) -> Option<String> {
    let hash = hash_in_boundaries(message);
    // RFC 2045 §6.7: `=_` occurs in no quoted-printable text, and in no base64.
    let leads = std::iter::once(String::new()).chain(('A'..='Z').chain('a'..='z').map(String::from));
    let is_free = |stem: &String| !taken.values().any(|boundary| stem.as_bytes().starts_with(boundary));
    leads.map(|lead| format!("{lead}=_{hash}")).find(is_free)
}

/// Whether a class is that of ordinary mail, which may be empty: its header has all that it says.
fn is_note(class: &str) -> bool {
    class.is_empty() || class.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case("IPM.Note"))
}

/// Whether a class is a report's or a meeting's. The text before it has all that it says. Messages
/// of other classes, such as a task, have more.
fn is_notice(class: &str) -> bool {
    let begins = |prefix: &str| class.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
    begins("REPORT.") || begins("IPM.Schedule.")
}

/// Bytes of a header, which end with a line end afterwards.
fn push_lines(out: &mut Vec<u8>, lines: &[u8]) {
    out.extend_from_slice(lines);
    if !lines.ends_with(b"\n") {
        out.extend_from_slice(b"\r\n");
    }
}

/// The length of the line end at a place.
fn line_end_len(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at..) {
        Some([b'\r', b'\n', ..]) => 2,
        Some([b'\n', ..]) => 1,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
