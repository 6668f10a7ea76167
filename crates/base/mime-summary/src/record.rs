//! The stored form of a summary: version 1.
//!
//! All numbers little-endian. A fixed head, then sections one after the other without gaps; the head has the end of
//! each, and the first begins after the head.
//!
//! | offset | size | what |
//! | --- | --- | --- |
//! | 0 | 2 | version, 1 |
//! | 2 | 2 | flags: see `FLAG_…` |
//! | 4 | 4 | length of the record in bytes |
//! | 8 | 4 | size of the message |
//! | 12 | 4 | size of its header, blank line included |
//! | 16 | 8 | Date: seconds since 1970, signed |
//! | 24 | 4 | Date: days since 1970 as written, signed |
//! | 28 | 4 | 0 |
//! | 32 | 8 | bits of the well-known fields that are kept |
//! | 40 | 8 | bits of the well-known fields of which one or more were left out |
//! | 48 | 8 | bits of other names of which one or more were left out |
//! | 56 | 4 + 4 | where in the folded subject the base subject begins and ends |
//! | 64 | 14 × 4 | ends of the sections, from the start of the record |
//!
//! Sections: 0–4 folded subject, from, to, cc, bcc, 5 ENVELOPE, 6 field table, 7 kept fields, 8 BODY,
//! 9 BODYSTRUCTURE, 10 preview, 11 thread, 12 sort keys, 13 part table (see [`crate::table`]). What a search of a whole folder
//! looks at comes first and is short, so that it reads three or four lines of memory a message.
//!
//! Field table: for each kept field, in message order, number (1), length of the name (1), length (2), offset in
//! section 7 (4). Thread: hash of Message-ID (8; 0 if none), then of each identifier that the message refers to (8).
//! Sort keys: of From, To and Cc the folded local part of the first address, each with its length (2) before it.
//!
//! A reader refuses versions that it does not know. New sections may be added only with a new version.

use crate::address::address_list;
use crate::date::sent_date;
use crate::fold::{fold_into, folded};
use crate::header::Field;
use crate::known::{FieldId, is_kept, other_name_bit};
use crate::preview::preview;
use crate::scan::{Span, newline_before};
use crate::structure::Structure;
use crate::subject::base_subject;
use crate::table::write_table;
use crate::thread::{IDS_MAX, message_ids};
use crate::words::decode_words;

/// The version that is written.
pub const RECORD_VERSION: u16 = 1;

pub(crate) const HEAD_LEN: usize = 64 + SECTIONS * 4;
pub(crate) const SECTIONS: usize = 14;

pub(crate) const SUBJECT: usize = 0;
pub(crate) const FROM: usize = 1;
pub(crate) const TO: usize = 2;
pub(crate) const CC: usize = 3;
pub(crate) const BCC: usize = 4;
pub(crate) const ENVELOPE: usize = 5;
pub(crate) const FIELD_TABLE: usize = 6;
pub(crate) const FIELD_BYTES: usize = 7;
pub(crate) const BODY: usize = 8;
pub(crate) const BODY_STRUCTURE: usize = 9;
pub(crate) const PREVIEW: usize = 10;
pub(crate) const THREAD: usize = 11;
pub(crate) const SORT: usize = 12;
pub(crate) const PARTS: usize = 13;

/// The Date field could be read.
pub(crate) const FLAG_SENT: u16 = 1;
/// The header ends with a blank line.
pub(crate) const FLAG_BLANK_LINE: u16 = 2;
/// Reply or forward, by its subject.
pub(crate) const FLAG_REPLY: u16 = 4;
/// Not every field of the header is in the table or the masks.
pub(crate) const FLAG_FIELDS_CUT: u16 = 8;
/// That blank line is a bare LF.
pub(crate) const FLAG_BARE_LF: u16 = 16;

/// Size of an entry in the field table.
pub(crate) const FIELD_ENTRY_LEN: usize = 8;

/// How much of a header is kept in all: 64 KiB, a hundred times what is usual.
const KEPT_TOTAL_MAX: usize = 64 * 1024;

/// How much of a field SEARCH, SORT and THREAD look at: 256 KiB, which is several thousand addresses.
const SEARCH_TEXT_MAX: usize = 256 * 1024;

/// What a summary is made of: the message, its structure, and the responses printed from them, which are opaque
/// here.
#[derive(Debug, Clone, Copy)]
pub struct SummaryParts<'a> {
    /// The message, whole.
    pub message: &'a [u8],
    /// Its structure.
    pub structure: &'a Structure,
    /// What FETCH ENVELOPE sends.
    pub envelope: &'a [u8],
    /// What FETCH BODY sends.
    pub body: &'a [u8],
    /// What FETCH BODYSTRUCTURE sends.
    pub body_structure: &'a [u8],
}

impl SummaryParts<'_> {
    /// Makes the stored form.
    pub fn encode(&self) -> Vec<u8> {
        let room = HEAD_LEN + 1500 + self.envelope.len() + self.body.len() + self.body_structure.len();
        let mut out = Record { bytes: Vec::with_capacity(room), ends: [0; SECTIONS] };
        out.bytes.resize(HEAD_LEN, 0);
        let digest = HeaderDigest::of(self.message, self.structure.fields());

        for (place, text) in (SUBJECT..=BCC).zip(&digest.search) {
            out.section(place, text);
        }
        out.section(ENVELOPE, self.envelope);
        out.section(FIELD_TABLE, &digest.table);
        out.section(FIELD_BYTES, &digest.kept);
        out.section(BODY, self.body);
        out.section(BODY_STRUCTURE, self.body_structure);
        out.section(PREVIEW, preview(self.message, self.structure).as_bytes());
        digest.write_thread(&mut out.bytes);
        out.end(THREAD);
        digest.write_sort_keys(&mut out.bytes);
        out.end(SORT);
        write_table(self.message, self.structure, &mut out.bytes);
        out.end(PARTS);
        self.write_head(&digest, &mut out);
        out.bytes
    }

    fn write_head(&self, digest: &HeaderDigest<'_>, out: &mut Record) {
        let base = base_subject(&digest.search[0]);
        let header = self.structure.root().header;
        let header_bytes = header.of(self.message);
        let (before, newline) =
            header_bytes.split_at(header_bytes.len() - newline_before(header_bytes, header_bytes.len()));
        let blank =
            (before.is_empty() || before.ends_with(b"\n")).then_some(newline).filter(|line| !line.is_empty());
        let mut flags = 0;
        for (is_set, flag) in [
            (digest.sent.is_some(), FLAG_SENT),
            (blank.is_some(), FLAG_BLANK_LINE),
            (blank == Some(b"\n".as_slice()), FLAG_BARE_LF),
            (base.is_reply, FLAG_REPLY),
            (!self.structure.fields_complete(), FLAG_FIELDS_CUT),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let (unix_s, local_day) = digest.sent.map_or((0, 0), |sent| (sent.unix_s, sent.local_day));
        let mut head = Vec::with_capacity(HEAD_LEN);
        head.extend_from_slice(&RECORD_VERSION.to_le_bytes());
        head.extend_from_slice(&flags.to_le_bytes());
        head.extend_from_slice(&(out.bytes.len() as u32).to_le_bytes());
        head.extend_from_slice(&(self.message.len() as u32).to_le_bytes());
        head.extend_from_slice(&header.end.to_le_bytes());
        head.extend_from_slice(&unix_s.to_le_bytes());
        head.extend_from_slice(&local_day.to_le_bytes());
        head.extend_from_slice(&0_u32.to_le_bytes());
        for bits in [digest.kept_bits, digest.left_known, digest.left_other] {
            head.extend_from_slice(&bits.to_le_bytes());
        }
        for number in [base.span.start, base.span.end].iter().chain(&out.ends) {
            head.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(place) = out.bytes.get_mut(..HEAD_LEN) {
            place.copy_from_slice(&head);
        }
    }
}

struct Record {
    bytes: Vec<u8>,
    ends: [u32; SECTIONS],
}

impl Record {
    fn section(&mut self, place: usize, content: &[u8]) {
        self.bytes.extend_from_slice(content);
        self.end(place);
    }

    fn end(&mut self, place: usize) {
        if let Some(end) = self.ends.get_mut(place) {
            *end = self.bytes.len() as u32;
        }
    }
}

/// All that one walk over the header's fields gives.
#[derive(Default)]
struct HeaderDigest<'m> {
    table: Vec<u8>,
    kept: Vec<u8>,
    kept_bits: u64,
    left_known: u64,
    left_other: u64,
    /// Folded subject, from, to, cc, bcc.
    search: [Vec<u8>; 5],
    sent: Option<crate::date::SentDate>,
    is_dated: bool,
    is_titled: bool,
    message_id: Option<&'m [u8]>,
    in_reply_to: Option<&'m [u8]>,
    references: Option<&'m [u8]>,
    /// First From, To and Cc field.
    people: [Option<&'m [u8]>; 3],
}

impl<'m> HeaderDigest<'m> {
    fn of(message: &'m [u8], fields: &[Field]) -> Self {
        let mut digest = HeaderDigest::default();
        digest.table.reserve(fields.len() * FIELD_ENTRY_LEN);
        digest.kept.reserve(1024);
        for field in fields {
            let name = field.name(message);
            let id = FieldId::of(name);
            digest.keep(id, name, field.span().of(message));
            let raw = field.raw_value(message);
            digest.note(id, raw.get(..SEARCH_TEXT_MAX).unwrap_or(raw));
        }
        digest
    }

    /// Puts a field into the table, or notes that it was left out.
    fn keep(&mut self, id: FieldId, name: &[u8], field: &[u8]) {
        if is_kept(id, name, field.len()) && self.kept.len() + field.len() <= KEPT_TOTAL_MAX {
            self.table.extend_from_slice(&[id.number(), name.len() as u8]);
            self.table.extend_from_slice(&(field.len() as u16).to_le_bytes());
            self.table.extend_from_slice(&(self.kept.len() as u32).to_le_bytes());
            self.kept.extend_from_slice(field);
            self.kept_bits |= id.bit();
        } else if id == FieldId::OTHER {
            self.left_other |= other_name_bit(name);
        } else {
            self.left_known |= id.bit();
        }
    }

    /// Takes what search, sort and thread need of a field.
    fn note(&mut self, id: FieldId, raw: &'m [u8]) {
        match id {
            FieldId::SUBJECT if !self.is_titled => {
                self.is_titled = true;
                self.add_search(0, raw);
            }
            FieldId::FROM => self.add_person(1, raw),
            FieldId::TO => self.add_person(2, raw),
            FieldId::CC => self.add_person(3, raw),
            FieldId::BCC => self.add_search(4, raw),
            FieldId::DATE if !self.is_dated => {
                self.is_dated = true;
                self.sent = sent_date(raw);
            }
            FieldId::MESSAGE_ID => _ = self.message_id.get_or_insert(raw),
            FieldId::IN_REPLY_TO => _ = self.in_reply_to.get_or_insert(raw),
            FieldId::REFERENCES => _ = self.references.get_or_insert(raw),
            _ => {}
        }
    }

    fn add_person(&mut self, place: usize, raw: &'m [u8]) {
        if let Some(person) = self.people.get_mut(place - 1) {
            person.get_or_insert(raw);
        }
        self.add_search(place, raw);
    }

    fn add_search(&mut self, place: usize, raw: &[u8]) {
        let Some(text) = self.search.get_mut(place) else { return };
        if text.len() > SEARCH_TEXT_MAX {
            return;
        }
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        fold_into(&decode_words(raw), text);
    }

    /// RFC 5256 §3, step 1: References; without it, the first identifier of In-Reply-To.
    fn write_thread(&self, out: &mut Vec<u8>) {
        let own = self.message_id.and_then(|raw| message_ids(raw).next()).unwrap_or(0);
        let mut ids: Vec<u64> = self.references.map(|raw| message_ids(raw).collect()).unwrap_or_default();
        if ids.is_empty() {
            ids.extend(self.in_reply_to.and_then(|raw| message_ids(raw).next()));
        }
        if ids.len() > IDS_MAX {
            // The root and the nearest ancestors.
            ids.drain(1..ids.len() - (IDS_MAX - 1));
        }
        for id in std::iter::once(own).chain(ids) {
            out.extend_from_slice(&id.to_le_bytes());
        }
    }

    /// RFC 5256 §2.2: SORT FROM, TO and CC compare the mailbox of the first address.
    fn write_sort_keys(&self, out: &mut Vec<u8>) {
        /// RFC 5321 §4.5.3.1.1 allows 64.
        const LOCAL_PART_MAX: usize = 256;
        for raw in self.people {
            // The first address is near the beginning; a list is not read to its end for it.
            let raw = raw.map(|raw| raw.get(..2048).unwrap_or(raw)).unwrap_or_default();
            let first = address_list(raw).into_iter().next().and_then(|address| address.mailbox);
            let mut key = folded(&String::from_utf8_lossy(&first.unwrap_or_default()));
            key.truncate(LOCAL_PART_MAX);
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(&key);
        }
    }
}

/// Where the base subject lies; kept here beside the layout that has it.
pub(crate) fn base_span(head: &[u8]) -> Span {
    let number = |at: usize| {
        head.get(at..).and_then(|b| b.first_chunk::<4>()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    Span::new(number(56), number(60))
}
