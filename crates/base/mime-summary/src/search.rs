//! SEARCH keys and the texts in which they are looked for.
//!
//! A key is folded once; a stored text is folded already, so that SEARCH SUBJECT is one substring
//! search over some fifty bytes. Where it finds the key, the exact text decides, if folding lost
//! something (see `envelope_text`). BODY and TEXT decode the text parts of the message piece by
//! piece, in bounded memory, once for all keys. HTML is read twice: its source, and as a reader
//! sees it.

use memchr::memmem::Finder;

use crate::charset::CharsetReader;
use crate::decoded::DecodedParts;
use crate::envelope_text::{EnvelopeText, search_part};
use crate::exact::exact;
use crate::fold::{fold_into, folded, has_marks, spellings, unmarked};
use crate::header::HeaderFields;
use crate::html::Rendering;
use crate::html_joined::JoinedWords;
use crate::in_bounds::InBounds;
use crate::known::FieldMask;
use crate::media::{Media, TextKind, media_of};
use crate::scan::Span;
use crate::structure::Kind;
use crate::summary::SummaryRef;
use crate::table::PartRow;
use crate::tap::{Tap, Tapped, field_text};
use crate::transfer::{TransferDecoder, decode_transfer};
use crate::window::Window;
use crate::words::decode_words;

/// The bytes of a body that are decoded at a time. It is large enough for the substring search to
/// run at memory speed. It is small enough to stay in the processor's second cache together with
/// its decoded text.
const PIECE_LEN: usize = 32 * 1024;

/// The cost of decoding and folding a byte, in bytes that are searched for one key. About: text in
/// ASCII takes 2 ns a byte, base64 and other scripts some 5.
const DECODING: u64 = 8;

/// The cost of the tap of a text, in the same unit.
const TAPPING: usize = 4;

/// A string to be searched for.
#[derive(Debug, Clone)]
pub struct SearchKey {
    /// Folded.
    finder: Finder<'static>,
    /// The same with the marks of a character in another order: as texts may have them.
    others: Vec<Finder<'static>>,
    /// The text that the index looks for, if it is another one.
    indexed: Option<Box<[u8]>>,
    /// Octets for exact comparison; `None` if all texts are compared folded.
    exact: Option<Box<Exact>>,
}

/// A key in the form for substring comparison (RFC 9051 §6.4.4).
#[derive(Debug, Clone)]
struct Exact {
    finder: Finder<'static>,
    /// Whether the key is in a text wherever it is in the folded form of it, if that form lost
    /// nothing.
    is_plain: bool,
    /// The folded key without the blank that it begins with. Folded texts begin with none.
    trimmed: Option<Finder<'static>>,
    /// Whether marks are in it. Earlier programs stored folded texts with marks in another order.
    has_marks: bool,
}

impl SearchKey {
    /// The key for this string; the empty string is in every text.
    pub fn new(text: &str) -> Self {
        let mut key = Self::approximate(text);
        let trimmed = key.folded().strip_prefix(b" ").map(|rest| Finder::new(rest).into_owned());
        let is_plain = text.is_ascii() && key.folded().len() == text.len() && trimmed.is_none();
        let finder = Finder::new(&exact(text)).into_owned();
        key.exact = Some(Box::new(Exact { finder, is_plain, trimmed, has_marks: has_marks(text) }));
        key
    }

    /// A key that is compared folded in every text: for FUZZY. RFC 6203 §3.
    pub fn approximate(text: &str) -> Self {
        let needle = folded(text);
        let mut others: Vec<Vec<u8>> = spellings(text).iter().map(|spelling| folded(spelling)).collect();
        others.retain(|other| *other != needle);
        others.dedup();
        let indexed = (!others.is_empty()).then(|| folded(&unmarked(text)).into_boxed_slice());
        let others = others.iter().map(|other| Finder::new(other).into_owned()).collect();
        SearchKey { finder: Finder::new(&needle).into_owned(), others, indexed, exact: None }
    }

    /// Whether texts of the envelope whose folded forms lost nothing are compared folded. Otherwise
    /// each text that has the folded key is made and compared exactly.
    pub fn is_plain(&self) -> bool {
        self.exact.as_ref().is_none_or(|exact| exact.is_plain)
    }

    /// The folded text that is looked for.
    pub fn folded(&self) -> &[u8] {
        self.finder.needle()
    }

    /// The folded text that the index looks for. It is in each text that the key is in.
    pub fn indexed(&self) -> &[u8] {
        self.indexed.as_deref().unwrap_or(self.finder.needle())
    }

    /// Whether it is in a text that is folded, as the texts of a summary are.
    #[inline]
    pub fn is_in(&self, folded: &[u8]) -> bool {
        self.finder.find(folded).is_some() || self.others.iter().any(|other| other.find(folded).is_some())
    }

    /// Whether it is in a text of the envelope: SUBJECT, FROM, TO, CC and BCC. RFC 9051 §6.4.4.
    #[inline]
    pub fn is_in_envelope(&self, text: EnvelopeText, summary: &SummaryRef<'_>) -> bool {
        let folded = text.folded(summary);
        let Some(exact) = &self.exact else { return self.is_in(folded) };
        let is_proposed = match &exact.trimmed {
            None => self.is_in(folded),
            Some(trimmed) => trimmed.find(folded).is_some(),
        };
        let is_other = || exact.has_marks && !summary.has_exact_texts() && !folded.is_ascii();
        // The summary has only the folded form of a very long field.
        (is_proposed || is_other())
            && exact.is_in_envelope(text, summary).unwrap_or_else(|| self.is_in(folded))
    }

    /// Whether it is in a field's raw value, for SEARCH HEADER. RFC 9051 §6.4.4. Only the
    /// beginning of a very long field is read.
    pub fn is_in_field(&self, raw: &[u8]) -> bool {
        match &self.exact {
            None => self.is_in(&field_text(raw)),
            Some(_) => self.is_in_decoded(&decode_words(search_part(raw)), &[]),
        }
    }

    /// Whether it is in a field that has this text, and this one folded.
    fn is_in_decoded(&self, text: &str, folded: &[u8]) -> bool {
        match &self.exact {
            None => self.is_in(folded),
            Some(key) => key.finder.find(&exact(text)).is_some(),
        }
    }

    /// Whether it is in the body: the parts of type text and message, and the headers of nested
    /// messages.
    /// RFC 9051 §6.4.4: BODY.
    pub fn is_in_body(&self, message: &[u8], summary: &SummaryRef<'_>) -> bool {
        self.is_found(message, summary, Within::Body)
    }

    /// Whether it is in the header, in the header of a part or in the body. RFC 9051 §6.4.4: TEXT.
    pub fn is_in_text(&self, message: &[u8], summary: &SummaryRef<'_>) -> bool {
        self.is_found(message, summary, Within::Text)
    }

    fn is_found(&self, message: &[u8], summary: &SummaryRef<'_>, within: Within) -> bool {
        let keys = [TextKey { key: self.clone(), within }];
        let mut search = TextSearch::new(&keys, summary);
        while search.step(&keys, message).is_some() {}
        search.is_found(0)
    }
}

impl Exact {
    /// Whether the key is in a text of the envelope whose folded form has it. `None` if the
    /// summary has nothing to compare exactly.
    fn is_in_envelope(&self, text: EnvelopeText, summary: &SummaryRef<'_>) -> Option<bool> {
        if self.is_plain && summary.has_exact_texts() {
            return Some(true);
        }
        text.exact(summary).map(|text| self.finder.find(&text).is_some())
    }
}

/// The place in a message where a key is looked for.
#[derive(Debug, Clone)]
pub enum Within {
    /// RFC 9051 §6.4.4: BODY.
    Body,
    /// RFC 9051 §6.4.4: TEXT.
    Text,
    /// RFC 9051 §6.4.4: HEADER, in the fields of these names. The empty key is in every field.
    Fields(FieldMask),
}

/// A key, and where it is looked for.
#[derive(Debug, Clone)]
pub struct TextKey {
    /// The text to find.
    pub key: SearchKey,
    /// The part of the message in which the key is looked for.
    pub within: Within,
}

/// Looks for many keys in one message that is open, and decodes it once for all of them.
///
/// The work is done in steps of some 32 KiB, so that the caller can pause.
pub struct TextSearch {
    found: Vec<bool>,
    /// Numbers of the keys that are not found yet: of BODY and TEXT, of TEXT alone, and of header
    /// fields.
    in_body: Vec<usize>,
    in_text: Vec<usize>,
    in_fields: Vec<usize>,
    /// Bytes of the longest of them.
    needle_max: usize,
    /// The parts that are left, the next one last, and whether each is the root of a nested message
    /// or of all.
    rows: Vec<(PartRow, Root)>,
    at: At,
    /// A message in base64 or quoted-printable that is looked through now.
    decoded: Option<Decoded>,
}

/// A message within the message that was decoded, and its parts that are left.
struct Decoded {
    message: Vec<u8>,
    rows: Vec<(PartRow, Root)>,
}

/// The owner of a part's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The message itself.
    Message,
    /// A nested message.
    Nested,
    /// A part.
    None,
}

/// The place of the search in the message.
enum At {
    /// The next part begins.
    Part,
    /// A header, from this byte on.
    Header(PartRow, Root, u32),
    /// The text of a part, from this byte of the message on.
    Text(Box<OpenText>, u32, u32),
}

/// A text part that is being decoded.
struct OpenText {
    row: PartRow,
    /// For the second time that HTML is read.
    rendered: Option<Rendered>,
    transfer: Option<TransferDecoder>,
    reader: Option<CharsetReader>,
    charset: Vec<u8>,
    window: Window,
    bytes: Vec<u8>,
}

/// HTML as a reader sees it.
#[derive(Default)]
struct Rendered {
    rendering: Rendering,
    /// If no key is looked for in it: the words that the source of the HTML does not have.
    joined: Option<JoinedWords>,
}

impl Rendered {
    fn push(&mut self, html: &str, into: &mut String) {
        match &mut self.joined {
            None => self.rendering.push(html, into),
            Some(joined) => {
                self.rendering.push(html, joined);
                joined.take(into);
            }
        }
    }

    fn finish(&mut self, into: &mut String) {
        match &mut self.joined {
            None => self.rendering.finish(into),
            Some(joined) => {
                self.rendering.finish(joined);
                joined.finish(into);
            }
        }
    }
}

impl TextSearch {
    /// A search in a message with this summary.
    pub fn new(keys: &[TextKey], summary: &SummaryRef<'_>) -> Self {
        let found: Vec<bool> = keys
            .iter()
            .map(|key| key.key.finder.needle().is_empty() && !matches!(key.within, Within::Fields(_)))
            .collect();
        let of = |wanted: fn(&Within) -> bool| {
            let is_wanted = |number: &usize| !found[*number] && wanted(&keys[*number].within);
            (0..keys.len()).filter(is_wanted).collect::<Vec<_>>()
        };
        let (in_body, in_text) = (of(|w| matches!(w, Within::Body)), of(|w| matches!(w, Within::Text)));
        let in_fields = of(|w| matches!(w, Within::Fields(_)));
        let needle_max = keys.iter().map(|key| key.key.finder.needle().len()).max().unwrap_or(0);
        let rows = rows_of(summary.parts(), Root::Message);
        TextSearch { found, in_body, in_text, in_fields, needle_max, rows, at: At::Part, decoded: None }
    }

    /// Whether the key of this number was found so far. Its number is its place in the keys that
    /// [`new`](Self::new) got.
    pub fn is_found(&self, number: usize) -> bool {
        self.found[number]
    }

    /// The result: for each key, whether it was found.
    pub fn into_found(self) -> Vec<bool> {
        self.found
    }

    /// Does a step of the work and returns its size: bytes read, times the keys that were looked
    /// for in them. Returns `None` at the end.
    pub fn step(&mut self, keys: &[TextKey], message: &[u8]) -> Option<u64> {
        self.step_tapped(keys, message, None)
    }

    /// [`Self::step`] with a tap. The tap gets each text in which any key would be looked for. So
    /// all of the message is read, whatever is found in it. Pass a tap to each step or to no step.
    pub fn step_tapped(&mut self, keys: &[TextKey], message: &[u8], mut tap: Option<Tap<'_>>) -> Option<u64> {
        if let Some(mut decoded) = self.decoded.take() {
            std::mem::swap(&mut self.rows, &mut decoded.rows);
            let step = self.step_in(keys, &decoded.message, tap.as_mut().map(|tap| &mut **tap as Tap<'_>));
            std::mem::swap(&mut self.rows, &mut decoded.rows);
            if step.is_some() {
                self.decoded = Some(decoded);
                return step;
            }
        }
        self.step_in(keys, message, tap)
    }

    /// A step in the message, or in one that was decoded.
    fn step_in(&mut self, keys: &[TextKey], message: &[u8], tap: Option<Tap<'_>>) -> Option<u64> {
        let is_tapped = tap.is_some();
        let texts = self.in_body.len() + self.in_text.len() + if is_tapped { TAPPING } else { 0 };
        match std::mem::replace(&mut self.at, At::Part) {
            At::Part => {
                if texts + self.in_fields.len() == 0 {
                    return None;
                }
                let (row, root) = self.rows.pop()?;
                if texts == 0 && root != Root::Message {
                    return None;
                }
                self.at = At::Header(row, root, row.header.start);
                Some(1)
            }
            At::Header(row, root, from) => {
                let until = self.header(keys, message, (row.header, root, from), tap);
                let wanted = self.in_text.len() + self.in_body.len() + self.in_fields.len();
                match until {
                    Some(at) => self.at = At::Header(row, root, at),
                    None if texts > 0 => self.open(message, &row),
                    None => {}
                }
                let end = until.unwrap_or(row.header.end);
                let decoded = if self.decoded.is_some() { row.body.len() } else { 0 };
                let read = u64::from(end.saturating_sub(from)) * (DECODING + wanted as u64);
                Some(read + u64::from(decoded) * DECODING + 1)
            }
            At::Text(open, from, end) => {
                self.text(keys, message, open, (from, end), tap);
                let read = u64::from(end.saturating_sub(from)).min(PIECE_LEN as u64);
                Some(read * (DECODING + texts as u64) + 1)
            }
        }
    }

    /// Looks through some fields of a header. Where it stopped, if it is not at the end.
    fn header(
        &mut self,
        keys: &[TextKey],
        message: &[u8],
        (header, root, from): (Span, Root, u32),
        mut tap: Option<Tap<'_>>,
    ) -> Option<u32> {
        let has_texts =
            tap.is_some() || !self.in_text.is_empty() || (root == Root::Nested && !self.in_body.is_empty());
        let has_fields = root == Root::Message && !self.in_fields.is_empty();
        if !has_texts && !has_fields {
            return None;
        }
        let mut text = Vec::new();
        for field in HeaderFields::new(message, Span::new(from, header.end)) {
            if field.start.saturating_sub(from) as usize >= PIECE_LEN {
                return Some(field.start);
            }
            let name = field.name(message);
            if !has_texts && !self.selects(keys, name) {
                continue;
            }
            text.clear();
            fold_into(&String::from_utf8_lossy(name), &mut text);
            text.extend_from_slice(b": ");
            let value_at = text.len();
            let decoded = decode_words(search_part(field.raw_value(message)));
            fold_into(&decoded, &mut text);
            if let Some(tap) = &mut tap {
                tap(Tapped::whole(&text));
            }
            let found = &mut self.found;
            note(keys, found, &mut self.in_text, |key| key.is_in(&text));
            if root == Root::Nested {
                note(keys, found, &mut self.in_body, |key| key.is_in(&text));
            }
            if has_fields {
                let value = text.in_bounds(value_at..);
                self.in_fields.retain(|&number| {
                    let Some(TextKey { key, within: Within::Fields(mask) }) = keys.get(number) else {
                        return false;
                    };
                    let is_in = mask.selects_name(name) && key.is_in_decoded(&decoded, value);
                    if let Some(found) = found.get_mut(number) {
                        *found |= is_in;
                    }
                    !is_in
                });
            }
        }
        None
    }

    /// Whether a key that is left is looked for in fields of this name.
    fn selects(&self, keys: &[TextKey], name: &[u8]) -> bool {
        let mut left = self.in_fields.iter().filter_map(|&number| keys.get(number));
        left.any(|key| matches!(&key.within, Within::Fields(mask) if mask.selects_name(name)))
    }

    /// Begins with the text of a part, if it is one.
    fn open(&mut self, message: &[u8], row: &PartRow) {
        if row.kind != Kind::Leaf {
            return;
        }
        if row.is_encoded_message {
            self.decoded = Decoded::of(row, message);
            return;
        }
        // RFC 3501 §6.4.4 lets a search pass over parts whose type is neither TEXT nor MESSAGE.
        // The part table has no mark for reports such as message/delivery-status: their header says
        // it.
        let media = media_in(message, row.header);
        if row.text.is_none() && !media.top.eq_ignore_ascii_case(b"message") {
            return;
        }
        let bytes = Vec::with_capacity(PIECE_LEN.min(row.body.len() as usize));
        self.begin(row, media.charset().to_vec(), bytes, None);
    }

    /// Begins to decode the text of a part.
    fn begin(&mut self, row: &PartRow, charset: Vec<u8>, bytes: Vec<u8>, rendered: Option<Rendered>) {
        // Bytes that cannot be decoded are not text.
        let Ok(transfer) = TransferDecoder::new(row.encoding) else { return };
        let (transfer, window) = (Some(transfer), Window::default());
        let open = OpenText { row: *row, rendered, transfer, reader: None, charset, window, bytes };
        self.at = At::Text(Box::new(open), row.body.start, row.body.end);
    }

    /// Looks through a piece of a text.
    fn text(
        &mut self,
        keys: &[TextKey],
        message: &[u8],
        mut open: Box<OpenText>,
        (from, end): (u32, u32),
        mut tap: Option<Tap<'_>>,
    ) {
        let until = end.min(from.saturating_add(PIECE_LEN as u32));
        let is_last = until >= end;
        open.decode(Span::new(from, until).of(message));
        if is_last {
            open.finish();
        }
        open.window.fold();
        for wanted in [&mut self.in_body, &mut self.in_text] {
            note(keys, &mut self.found, wanted, |key| key.is_in(&open.window.folded));
        }
        if let Some(tap) = &mut tap {
            let text = open.window.folded.in_bounds(open.window.kept..);
            tap(Tapped { text, is_last, is_repeated: open.rendered.is_some() });
        }
        open.window.keep(self.needle_max);
        if tap.is_none() && self.in_body.is_empty() && self.in_text.is_empty() {
            return;
        }
        if !is_last {
            self.at = At::Text(open, until, end);
        } else if open.rendered.is_none() && open.row.text == Some(TextKind::Html) {
            let OpenText { row, charset, bytes, .. } = *open;
            let is_searched = !(self.in_body.is_empty() && self.in_text.is_empty());
            let joined = (!is_searched).then(JoinedWords::default);
            self.begin(&row, charset, bytes, Some(Rendered { joined, ..Rendered::default() }));
        }
    }
}

impl Decoded {
    fn of(row: &PartRow, message: &[u8]) -> Option<Self> {
        let message = decode_transfer(row.encoding, row.body.of(message)).ok()?;
        let rows = rows_of(DecodedParts::of(&message).parts(), Root::Nested);
        Some(Self { message, rows })
    }
}

/// The parts of a message, the first one last, each with the owner of its header.
fn rows_of(parts: impl Iterator<Item = PartRow> + Clone, of_message: Root) -> Vec<(PartRow, Root)> {
    let mut nested: Vec<u32> =
        parts.clone().filter(|row| row.kind == Kind::Message).map(|row| row.first_child).collect();
    nested.sort_unstable();
    let root = |index: u32| match index {
        0 => of_message,
        index if nested.binary_search(&index).is_ok() => Root::Nested,
        _ => Root::None,
    };
    let mut rows: Vec<_> = (0_u32..).zip(parts).map(|(i, row)| (row, root(i))).collect();
    rows.reverse();
    rows
}

impl OpenText {
    /// Appends the text of these bytes to the window.
    fn decode(&mut self, raw: &[u8]) {
        self.bytes.clear();
        if let Some(transfer) = &mut self.transfer {
            transfer.decode(raw, &mut self.bytes);
        }
        let mut text = String::with_capacity(self.bytes.len());
        let Self { reader, charset, bytes, .. } = self;
        reader.get_or_insert_with(|| CharsetReader::new(charset, bytes)).read(bytes, &mut text);
        self.take_up(text);
    }

    /// Appends the rest after the last bytes.
    fn finish(&mut self) {
        self.bytes.clear();
        if let Some(transfer) = self.transfer.take() {
            transfer.finish(&mut self.bytes);
        }
        let mut text = String::new();
        if let Some(mut reader) = self.reader.take() {
            reader.read(&self.bytes, &mut text);
            reader.finish(&mut text);
        }
        self.take_up(text);
        if let Some(rendered) = &mut self.rendered {
            rendered.finish(&mut self.window.text);
        }
    }

    fn take_up(&mut self, text: String) {
        let window = &mut self.window.text;
        match &mut self.rendered {
            Some(rendered) => rendered.push(&text, window),
            None if window.is_empty() => *window = text,
            None => window.push_str(&text),
        }
    }
}

/// Evaluates the keys that are left, and removes those that match.
fn note(keys: &[TextKey], found: &mut [bool], left: &mut Vec<usize>, is_in: impl Fn(&SearchKey) -> bool) {
    left.retain(|&number| {
        let has = keys.get(number).is_some_and(|key| is_in(&key.key));
        if has && let Some(found) = found.get_mut(number) {
            *found = true;
        }
        !has
    });
}

/// The media type that a part's header declares.
fn media_in(message: &[u8], header: Span) -> Media<'_> {
    HeaderFields::new(message, header)
        .find(|field| field.is(message, "Content-Type"))
        .and_then(|field| media_of(field.raw_value(message)))
        .unwrap_or(Media::TEXT_PLAIN)
}
