//! Reading a stored summary in place: every answer is a slice of it.
//!
//! [`SummaryRef::new`] checks version, length and the ends of all sections once (some ten
//! nanoseconds). After that no access can leave the record, whatever its bytes are. A damaged
//! record gives wrong or empty answers, never a panic. The store's checksum detects damage.

use std::ops::Range;

use crate::date::SentDate;
use crate::header::HeaderFields;
use crate::in_bounds::InBounds;
use crate::known::FieldMask;
use crate::record::{self, FIELD_ENTRY_LEN, RECORD_VERSION};
use crate::scan::Span;
use crate::table::{InDecoded, Located, PartRow, ROW_LEN, Section, locate, locate_in_decoded, rows};

/// A record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// The record is shorter than its length field, or than any record.
    #[error("the summary is truncated: {len} bytes")]
    Short {
        /// The number of bytes.
        len: usize,
    },
    /// The record was written by a later release.
    #[error("the summary has version {version}; this release reads {RECORD_VERSION}")]
    Version {
        /// The version it has.
        version: u16,
    },
    /// The ends of its sections are out of order.
    #[error("the summary's table of sections is damaged")]
    Sections,
}

/// The layout of the head of a record.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Whether it has version 1, which had fewer numbers and longer entries of the field table.
    is_first: bool,
    /// Whether a number has four bytes rather than two.
    is_wide: bool,
}

impl Layout {
    fn of(version: u16, flags: u16) -> Option<Self> {
        match version {
            1 => Some(Self { is_first: true, is_wide: true }),
            RECORD_VERSION => Some(Self { is_first: false, is_wide: flags & record::FLAG_WIDE != 0 }),
            _ => None,
        }
    }

    /// The offset of a number. The offset of one more number is the length of the head.
    #[inline]
    fn place_of(self, number: usize) -> usize {
        let numbers_at = if self.is_first { record::FIRST_NUMBERS_AT } else { record::NUMBERS_AT };
        numbers_at + (number << if self.is_wide { 2 } else { 1 })
    }

    #[inline]
    fn head_len(self) -> usize {
        self.place_of(if self.is_first { record::FIRST_NUMBERS } else { record::NUMBERS })
    }

    #[inline]
    fn sections(self) -> usize {
        if self.is_first { record::FIRST_SECTIONS } else { record::SECTIONS }
    }
}

/// A stored summary.
///
/// The numbers that bound its sections are verified. If another number points outside of its
/// section, the record is damaged and its value is empty. Engines verify a checksum of the record
/// first, so only a faulty program can have written such a record.
#[derive(Debug, Clone, Copy)]
pub struct SummaryRef<'s> {
    bytes: &'s [u8],
    layout: Layout,
}

impl<'s> SummaryRef<'s> {
    /// Takes the bytes of a record; more bytes may follow it.
    pub fn new(bytes: &'s [u8]) -> Result<Self, SummaryError> {
        let short = SummaryError::Short { len: bytes.len() };
        let &[v0, v1, f0, f1, l0, l1, l2, l3] = bytes.first_chunk().ok_or(short)?;
        let version = u16::from_le_bytes([v0, v1]);
        let layout =
            Layout::of(version, u16::from_le_bytes([f0, f1])).ok_or(SummaryError::Version { version })?;
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let bytes = bytes.get(..len).ok_or(short)?;
        let made = SummaryRef { bytes, layout };
        if made.sections_fit(len) { Ok(made) } else { Err(SummaryError::Sections) }
    }

    /// Whether the sections follow each other from the end of the head to that of the record.
    fn sections_fit(&self, len: usize) -> bool {
        let first = record::FIRST_END;
        let ends = self.layout.place_of(first)..self.layout.place_of(first + self.layout.sections());
        let Some(ends) = self.bytes.get(ends) else { return false };
        let head_len = self.layout.head_len();
        if let (false, Some(ends)) = (self.layout.is_wide, ends.as_chunks().0.first_chunk()) {
            return usual_sections_fit(head_len, ends, len);
        }
        let mut before = head_len as u32;
        let in_order = ends.as_chunks().0.iter().all(|end| {
            let end = u32::from_le_bytes(*end);
            std::mem::replace(&mut before, end) <= end
        });
        in_order && before as usize == len
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or([0; N])
    }

    #[inline]
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    #[inline]
    fn number(&self, place: usize) -> u32 {
        let at = self.layout.place_of(place);
        if self.layout.is_wide { self.u32_at(at) } else { u32::from(u16::from_le_bytes(self.array(at))) }
    }

    /// A number that records of version 1 do not have.
    #[inline]
    fn later_number(&self, place: usize) -> usize {
        if self.layout.is_first { 0 } else { self.number(place) as usize }
    }

    #[inline]
    fn flag(&self, flag: u16) -> bool {
        u16::from_le_bytes(self.array(2)) & flag != 0
    }

    #[inline]
    fn section(&self, place: usize) -> &'s [u8] {
        let end = record::FIRST_END + place;
        let start = if place == 0 { self.layout.head_len() } else { self.number(end - 1) as usize };
        self.bytes.in_bounds(start..self.number(end) as usize)
    }

    /// The number of bytes of the record.
    #[inline]
    pub fn record_len(&self) -> usize {
        self.bytes.len()
    }

    /// Size of the message in bytes.
    pub fn message_size(&self) -> u32 {
        self.u32_at(8)
    }

    /// Size of its header in bytes, blank line included.
    pub fn header_size(&self) -> u32 {
        self.u32_at(12)
    }

    /// The time of its Date field; `None` if it has no Date that can be read.
    pub fn sent(&self) -> Option<SentDate> {
        self.flag(record::FLAG_SENT).then(|| SentDate {
            unix_s: i64::from_le_bytes(self.array(16)),
            local_day: self.u32_at(24) as i32,
        })
    }

    /// The bytes that FETCH ENVELOPE sends. The list of From is stored once. Here it is the end of
    /// the first piece, the second piece, and the beginning of the third: From, Sender, Reply-To.
    pub fn envelope(&self) -> Pieces<'s, 3> {
        let kept = self.section(record::ENVELOPE);
        let [start, end] = [record::REPEATED, record::REPEATED + 1].map(|place| self.later_number(place));
        let Some(before) = kept.get(..end) else { return Pieces([&[]; 3]) };
        let start = start.min(end);
        // The third is one piece, not two: a listing copies each for each message.
        Pieces([before, before.in_bounds(start..), kept.in_bounds(start..)])
    }

    /// The bytes that FETCH BODY sends.
    pub fn body(&self) -> Pieces<'s, 2> {
        let shared = self.body_structure().get(..self.later_number(record::SHARED)).unwrap_or_default();
        Pieces([shared, self.section(record::BODY)])
    }

    /// The bytes that FETCH BODYSTRUCTURE sends.
    pub fn body_structure(&self) -> &'s [u8] {
        self.section(record::BODY_STRUCTURE)
    }

    /// Subject, decoded and folded (see [`crate::fold_into`]).
    #[inline]
    pub fn subject_folded(&self) -> &'s [u8] {
        self.section(record::SUBJECT)
    }

    /// The value of From, decoded and folded.
    pub fn from_folded(&self) -> &'s [u8] {
        self.section(record::FROM)
    }

    /// The value of To, decoded and folded.
    pub fn to_folded(&self) -> &'s [u8] {
        self.section(record::TO)
    }

    /// Cc, decoded and folded.
    pub fn cc_folded(&self) -> &'s [u8] {
        self.section(record::CC)
    }

    /// Bcc, decoded and folded.
    pub fn bcc_folded(&self) -> &'s [u8] {
        self.section(record::BCC)
    }

    /// Whether the folded texts have all that an exact comparison needs: no white space was
    /// dropped, and no letter became another one that i;unicode-casemap (RFC 5051) distinguishes.
    #[inline]
    pub fn has_exact_texts(&self) -> bool {
        self.flag(record::FLAG_EXACT)
    }

    /// The number of bytes of the folded texts together.
    #[inline]
    pub fn folded_len(&self) -> usize {
        (self.number(record::FIRST_END + record::BCC) as usize).saturating_sub(self.layout.head_len())
    }

    /// The number of bytes of the kept fields together.
    pub fn fields_len(&self) -> usize {
        self.section(record::FIELD_BYTES).len()
    }

    /// The base subject, folded. RFC 5256 §2.1.
    pub fn base_subject(&self) -> &'s [u8] {
        Span::new(self.number(0), self.number(1)).of(self.subject_folded())
    }

    /// Whether the subject marks a reply or a forward.
    pub fn is_reply(&self) -> bool {
        self.flag(record::FLAG_REPLY)
    }

    /// The beginning of the text, for people: at most 200 characters. RFC 8970 §3.
    pub fn preview(&self) -> &'s str {
        std::str::from_utf8(self.section(record::PREVIEW)).unwrap_or_default()
    }

    /// Hash of the Message-ID.
    pub fn message_id_hash(&self) -> Option<u64> {
        self.thread_hashes().next().filter(|id| *id != 0)
    }

    /// Hashes of the identifiers that the message refers to, the root first.
    pub fn reference_hashes(&self) -> impl Iterator<Item = u64> + 's {
        self.thread_hashes().skip(1)
    }

    fn thread_hashes(&self) -> impl Iterator<Item = u64> + 's {
        self.section(record::THREAD).as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id))
    }

    /// The folded local part of the first address of From.
    pub fn sort_from(&self) -> &'s [u8] {
        self.sort_key(0)
    }

    /// The folded local part of the first address of To.
    pub fn sort_to(&self) -> &'s [u8] {
        self.sort_key(1)
    }

    /// The folded local part of the first address of Cc.
    pub fn sort_cc(&self) -> &'s [u8] {
        self.sort_key(2)
    }

    fn sort_key(&self, number: usize) -> &'s [u8] {
        let mut rest = self.section(record::SORT);
        for _ in 0..number {
            rest = split_key(rest).1;
        }
        split_key(rest).0
    }

    /// Number of rows in the part table.
    pub fn part_count(&self) -> usize {
        self.section(record::PARTS).len() / ROW_LEN
    }

    /// The parts, breadth first; the message itself is the first.
    pub fn parts(&self) -> impl Iterator<Item = PartRow> + Clone + 's {
        rows(self.section(record::PARTS))
    }

    /// Finds the bytes of `BODY[path.section]` or `BINARY[path]`; `None` if the message has no such
    /// part.
    pub fn locate(&self, path: &[u32], section: Section) -> Option<Located> {
        locate(self.section(record::PARTS), path, section)
    }

    /// The message that has to be decoded for `BODY[path.section]`: RFC 9051 §6.4.5.1 gives a
    /// message "nested part numbers, referring to parts of the MESSAGE part's body". `None` if
    /// [`SummaryRef::locate`] finds the section, or if there is no such section.
    pub fn locate_in_decoded<'p>(&self, path: &'p [u32], section: Section) -> Option<InDecoded<'p>> {
        locate_in_decoded(self.section(record::PARTS), path, section)
    }

    /// Bits of the fields that were left out: of the well-known ones, and of other names.
    fn left_out(&self) -> (u64, u64) {
        let bits = match self.layout.is_first {
            true => self.array(record::FIRST_LEFT_AT),
            false => self.section(record::LEFT).first_chunk().copied().unwrap_or([0; 16]),
        };
        let bits = u128::from_le_bytes(bits);
        (bits as u64, (bits >> 64) as u64)
    }

    /// Whether all fields of the header are kept, so that the header itself can be put together.
    pub fn has_all_fields(&self) -> bool {
        self.left_out() == (0, 0) && !self.flag(record::FLAG_FIELDS_CUT)
    }

    /// Whether a field that the mask selects may have been left out of the summary: then the header
    /// has to be read.
    pub fn needs_body(&self, mask: &FieldMask) -> bool {
        let (left_known, left_other) = self.left_out();
        let is_left = if mask.is_negated {
            left_known & !mask.known != 0 || left_other != 0
        } else {
            left_known & mask.known != 0 || left_other & mask.other_bits != 0
        };
        is_left || self.flag(record::FLAG_FIELDS_CUT)
    }

    /// The selected fields, unchanged, and the blank line. RFC 9051 §6.4.5.1: "the blank line is
    /// included in all header fetches, except in the case of a message that has no body and no
    /// blank line".
    pub fn header_fields(&self, mask: &FieldMask) -> HeaderText<'s> {
        let blank_line = self.blank_line();
        let mut text = HeaderText { runs: [&[]; RUNS], count: 0, more: Vec::new(), len: 0 };
        let fields = self.section(record::FIELD_BYTES);
        let mut run = 0..0;
        for field in self.selected_spans(mask) {
            // Fields that follow each other in the message are one run: the usual five mostly do.
            if field.start == run.end {
                run.end = field.end;
            } else {
                text.push(fields.get(run).unwrap_or_default());
                run = field;
            }
        }
        text.push(fields.get(run).unwrap_or_default());
        text.push(blank_line);
        text
    }

    /// The kept fields that the mask selects, in message order, unchanged.
    pub fn selected<'q>(&self, mask: &'q FieldMask) -> impl Iterator<Item = &'s [u8]> + use<'s, 'q> {
        let fields = self.section(record::FIELD_BYTES);
        self.selected_spans(mask).filter_map(move |span| fields.get(span))
    }

    /// The spans of the selected fields in the kept fields.
    fn selected_spans<'q>(&self, mask: &'q FieldMask) -> impl Iterator<Item = Range<usize>> + use<'s, 'q> {
        let (fields, wanted) = (self.section(record::FIELD_BYTES), mask.known);
        let is_negated = mask.is_negated;
        let mut end = 0;
        self.field_entries().filter_map(move |[number, name_len, len0, len1]| {
            let start = end;
            end += u16::from_le_bytes([len0, len1]) as usize;
            let is_named = wanted >> (number & 63) & 1 != 0;
            if is_named == is_negated && (number != 0 || !is_named) {
                return None;
            }
            // A name without a number: bit 0 only says that the mask has such names.
            let is_selected = number != 0 || !is_named || {
                let name = fields.get(start..end)?.get(..name_len as usize).unwrap_or_default();
                mask.names_other(name) != is_negated
            };
            is_selected.then_some(start..end)
        })
    }

    /// The field table: number, length of the name, length.
    fn field_entries(&self) -> impl Iterator<Item = [u8; FIELD_ENTRY_LEN]> + use<'s> {
        let len = if self.layout.is_first { record::FIRST_ENTRY_LEN } else { FIELD_ENTRY_LEN };
        let entries = self.section(record::FIELD_TABLE).chunks_exact(len);
        entries.filter_map(|entry| entry.first_chunk().copied())
    }

    /// The number of fields that are kept.
    pub fn field_count(&self) -> usize {
        let len = if self.layout.is_first { record::FIRST_ENTRY_LEN } else { FIELD_ENTRY_LEN };
        self.section(record::FIELD_TABLE).len() / len
    }

    /// The raw values of the kept fields of this name, in message order.
    pub fn field_values<'q>(&self, mask: &'q FieldMask) -> impl Iterator<Item = &'s [u8]> + use<'s, 'q> {
        self.selected(mask).map(|field| {
            let colon = memchr::memchr(b':', field).map_or(field.len(), |at| at + 1);
            field.in_bounds(colon..)
        })
    }

    fn blank_line(&self) -> &'static [u8] {
        match (self.flag(record::FLAG_BLANK_LINE), self.flag(record::FLAG_BARE_LF)) {
            (false, _) => b"",
            (true, false) => b"\r\n",
            (true, true) => b"\n",
        }
    }
}

/// [`SummaryRef::sections_fit`] of a record whose numbers have two bytes. Each listing asks it for
/// each message. The number of ends is known here, so there is no loop.
#[inline]
fn usual_sections_fit(head_len: usize, ends: &[[u8; 2]; record::SECTIONS], len: usize) -> bool {
    let end = |at: usize| u16::from_le_bytes(ends[at]);
    let in_order = (1..record::SECTIONS).all(|at| end(at - 1) <= end(at));
    in_order && head_len <= usize::from(end(0)) && usize::from(end(record::SECTIONS - 1)) == len
}

/// A response in pieces, in the order in which they are sent; some may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces<'s, const N: usize>([&'s [u8]; N]);

impl<'s, const N: usize> Pieces<'s, N> {
    /// The pieces, for callers that send them one by one.
    pub fn iter(&self) -> impl Iterator<Item = &'s [u8]> + '_ {
        self.0.iter().copied()
    }

    /// Appends it.
    #[inline]
    pub fn append_to(&self, into: &mut Vec<u8>) {
        into.reserve(self.0.iter().map(|piece| piece.len()).sum());
        self.0.iter().for_each(|piece| into.extend_from_slice(piece));
    }

    /// The whole response.
    pub fn to_vec(self) -> Vec<u8> {
        self.0.concat()
    }
}

/// Runs of fields that need no list of their own.
const RUNS: usize = 8;

/// Fields selected from a header, ready to be copied.
#[derive(Debug)]
pub struct HeaderText<'s> {
    runs: [&'s [u8]; RUNS],
    count: usize,
    /// Runs beyond the length of `runs`.
    more: Vec<&'s [u8]>,
    len: usize,
}

impl<'s> HeaderText<'s> {
    fn push(&mut self, run: &'s [u8]) {
        if run.is_empty() {
            return;
        }
        self.len += run.len();
        match self.runs.get_mut(self.count) {
            Some(slot) => {
                *slot = run;
                self.count += 1;
            }
            None => self.more.push(run),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends it.
    pub fn append_to(&self, into: &mut Vec<u8>) {
        into.reserve(self.len);
        self.iter().for_each(|run| into.extend_from_slice(run));
    }

    /// The runs, for callers that send them one by one.
    pub fn iter(&self) -> impl Iterator<Item = &'s [u8]> + '_ {
        self.runs.iter().take(self.count).chain(&self.more).copied()
    }
}

impl FieldMask {
    /// Appends the selected fields of a header read from the message itself, and its blank line.
    /// For a summary that [needs the body](SummaryRef::needs_body), and for the headers of nested
    /// messages.
    pub fn append_from_header(&self, header: &[u8], into: &mut Vec<u8>) {
        let mut at = Some(0);
        while let Some(from) = at {
            at = self.append_piece(header, from..usize::MAX, into);
        }
    }

    /// [`Self::append_from_header`] for the fields that begin in a range of the header, which
    /// begins at a field. Returns where the next piece begins; `None` at the end.
    pub fn append_piece(&self, header: &[u8], range: Range<usize>, into: &mut Vec<u8>) -> Option<usize> {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let mut end = range.start;
        for field in HeaderFields::new(header, Span::new(offset(range.start), offset(header.len()))) {
            end = field.end as usize;
            if self.selects_name(field.name(header)) {
                into.extend_from_slice(field.span().of(header));
            }
            if end >= range.end {
                return Some(end);
            }
        }
        into.extend_from_slice(header.in_bounds(end..));
        None
    }
}

/// A sort key and what follows it.
fn split_key(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((&[low, high], rest)) = bytes.split_first_chunk::<2>() else { return (&[], &[]) };
    rest.split_at_checked(u16::from_le_bytes([low, high]) as usize).unwrap_or_default()
}
