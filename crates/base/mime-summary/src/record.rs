//! The stored form of a summary: version 2.
//!
//! All numbers little-endian. A head, then sections one after the other without gaps; the head has
//! the end of each, and the first begins after the head.
//!
//! | offset | size | what |
//! | --- | --- | --- |
//! | 0 | 2 | version, 2 |
//! | 2 | 2 | flags: see `FLAG_…` |
//! | 4 | 4 | length of the record in bytes |
//! | 8 | 4 | size of the message |
//! | 12 | 4 | size of its header, blank line included |
//! | 16 | 8 | Date: seconds since 1970, signed |
//! | 24 | 4 | Date: days since 1970 as written, signed |
//! | 28 | 20 × 2 | numbers, see below; 20 × 4 with `FLAG_WIDE`, which a record over 65,535 bytes has |
//!
//! Numbers, in this order: where in the folded subject the base subject begins and ends. The ends
//! of the 15 sections, from the start of the record. Where in ENVELOPE the list of From begins and
//! ends, if it is repeated after it as Sender and Reply-To. (Nearly all mail has neither field.
//! Both numbers are 0 if nothing is repeated.) The length of the beginning that BODY and
//! BODYSTRUCTURE share.
//!
//! Sections: 0–4 folded subject, from, to, cc, bcc; 5 ENVELOPE; 6 field table; 7 kept fields; 8
//! BODY without what it shares with BODYSTRUCTURE; 9 BODYSTRUCTURE; 10 preview; 11 thread; 12 sort
//! keys; 13 part table (see [`crate::table`]); 14 bits of the fields that were left out. The
//! sections that a search of a whole folder reads come first and are short. So a search reads three
//! or four cache lines a message.
//!
//! Field table: for each kept field, in message order, number (1), length of the name (1), length
//! (2). The fields are in section 7 in this order. Thread: hash of Message-ID (8; 0 if none), then
//! of each identifier that the message refers to (8). Sort keys: of From, To and Cc the folded
//! local part of the first address, each with its length (2) before it. Bits of fields left out:
//! the well-known ones (8), other names (8); nothing if there are none.
//!
//! A reader refuses versions that it does not know. New sections may be added only with a new
//! version.
//!
//! Version 1 is still read. It is longer by a fifth. Its head has 4 bytes of zero at 28, and the
//! bits of section 14 at 40 and 48. The numbers, 16 × 4, begin at 56. The records of section 14,
//! and of repeated and shared data, are not among them. Its field table has each field's offset
//! (4) after its length.

use std::ops::Range;

use crate::address::{ADDRESSES_MAX, Address, addresses_up_to, write_addresses};
use crate::date::sent_date;
use crate::exact::is_kept_by_folding;
use crate::fold::{fold_into, folded};
use crate::header::Field;
use crate::in_bounds::InBounds;
use crate::known::{FieldId, is_kept, other_name_bit};
use crate::preview::preview;
use crate::scan::newline_before;
use crate::structure::Structure;
use crate::subject::base_subject;
use crate::table::write_table;
use crate::thread::{IDS_MAX, message_ids};
use crate::words::decode_words;

/// The version that is written.
pub const RECORD_VERSION: u16 = 2;

/// The position of the numbers in a record.
pub(crate) const NUMBERS_AT: usize = 28;
/// The first number that is the end of a section: the base subject comes before.
pub(crate) const FIRST_END: usize = 2;
pub(crate) const SECTIONS: usize = 15;
/// The number where the list of From begins that is repeated; its end follows.
pub(crate) const REPEATED: usize = FIRST_END + SECTIONS;
/// The number that says how much BODY shares with BODYSTRUCTURE.
pub(crate) const SHARED: usize = REPEATED + 2;
pub(crate) const NUMBERS: usize = SHARED + 1;

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
pub(crate) const LEFT: usize = 14;

/// The Date field could be read.
pub(crate) const FLAG_SENT: u16 = 1;
/// The header ends with a blank line.
pub(crate) const FLAG_BLANK_LINE: u16 = 2;
/// Reply or forward, by its subject.
pub(crate) const FLAG_REPLY: u16 = 4;
/// Not every field of the header is in the table or the masks.
pub(crate) const FLAG_FIELDS_CUT: u16 = 8;
/// The flag of a record whose blank line is a bare LF.
pub(crate) const FLAG_BARE_LF: u16 = 16;

/// The numbers of the head have four bytes, not two.
pub(crate) const FLAG_WIDE: u16 = 32;
/// The folded subject, from, to, cc and bcc have all that an exact comparison needs. Records of
/// earlier programs never have it.
pub(crate) const FLAG_EXACT: u16 = 64;

/// Size of an entry in the field table.
pub(crate) const FIELD_ENTRY_LEN: usize = 4;

// The layout of version 1.
pub(crate) const FIRST_LEFT_AT: usize = 40;
pub(crate) const FIRST_NUMBERS_AT: usize = 56;
pub(crate) const FIRST_SECTIONS: usize = 14;
pub(crate) const FIRST_NUMBERS: usize = FIRST_END + FIRST_SECTIONS;
pub(crate) const FIRST_ENTRY_LEN: usize = 8;

/// The most bytes of a header that are kept in all: 64 KiB, a hundred times the usual length.
const KEPT_TOTAL_MAX: usize = 64 * 1024;

/// The most bytes of a field that SEARCH, SORT and THREAD look at: 256 KiB, which is several
/// thousand addresses.
pub(crate) const SEARCH_TEXT_MAX: usize = 256 * 1024;

/// The most bytes of a local part that SORT compares. RFC 5321 §4.5.3.1.1 allows 64 bytes.
pub(crate) const LOCAL_PART_MAX: usize = 256;

/// The most bytes that a folded text may have for each byte of its field. Korean takes 3.4, the
/// most of all scripts in use; ligatures that are a whole sentence take 16.
const FOLDED_SHARE: usize = 4;
/// Bytes that a folded text may have besides its share of the field's length.
const FOLDED_BASE: usize = 256;

/// The parts of a summary: the message, its structure, and the responses printed from them,
/// which are opaque here.
#[derive(Debug, Clone)]
pub struct SummaryParts<'a> {
    /// The message, whole.
    pub message: &'a [u8],
    /// The message's structure.
    pub structure: &'a Structure,
    /// The bytes that FETCH ENVELOPE sends.
    pub envelope: &'a [u8],
    /// The range of the envelope's bytes that are repeated twice right after themselves. The list
    /// of From is, if Sender and Reply-To are missing. They are kept once.
    pub repeated: Range<usize>,
    /// The bytes that FETCH BODY sends.
    pub body: &'a [u8],
    /// The bytes that FETCH BODYSTRUCTURE sends.
    pub body_structure: &'a [u8],
}

impl SummaryParts<'_> {
    /// Makes the stored form.
    pub fn encode(&self) -> Vec<u8> {
        let room = 1500 + self.envelope.len() + self.body.len() + self.body_structure.len();
        let mut out = Sections { bytes: Vec::with_capacity(room), ends: [0; SECTIONS] };
        let digest = HeaderDigest::of(self.message, self.structure.fields());
        let (envelope, repeated) = self.envelope_once();
        let shared = self.body.iter().zip(self.body_structure).take_while(|(a, b)| a == b).count();

        for (place, text) in (SUBJECT..=BCC).zip(&digest.search) {
            out.put(place, &[text]);
        }
        out.put(ENVELOPE, &envelope);
        out.put(FIELD_TABLE, &[&digest.table]);
        out.put(FIELD_BYTES, &[&digest.kept]);
        out.put(BODY, &[self.body.in_bounds(shared..)]);
        out.put(BODY_STRUCTURE, &[self.body_structure]);
        out.put(PREVIEW, &[preview(self.message, self.structure).as_bytes()]);
        digest.write_thread(&mut out.bytes);
        out.end(THREAD);
        digest.write_sort_keys(&mut out.bytes);
        out.end(SORT);
        write_table(self.message, self.structure, &mut out.bytes);
        out.end(PARTS);
        digest.write_left(&mut out.bytes);
        out.end(LEFT);

        let base = base_subject(&digest.search[0]);
        let mut numbers = [0; NUMBERS];
        numbers[..FIRST_END].copy_from_slice(&[base.span.start, base.span.end]);
        numbers[FIRST_END..REPEATED].copy_from_slice(&out.ends);
        numbers[REPEATED..SHARED].copy_from_slice(&[repeated.start as u32, repeated.end as u32]);
        numbers[SHARED] = shared as u32;
        let flags = self.flags(&digest) | if base.is_reply { FLAG_REPLY } else { 0 };
        self.with_head(flags, &digest, numbers, &out.bytes)
    }

    /// ENVELOPE without the repeated list, in two pieces, and where the first of the three lies.
    /// The whole of it if it is not there three times after all.
    fn envelope_once(&self) -> ([&[u8]; 2], Range<usize>) {
        let Range { start, end } = self.repeated;
        let whole = ([self.envelope, &[]], 0..0);
        let Some(once) = self.envelope.get(start..end) else { return whole };
        let (before, after) = self.envelope.split_at(end);
        match after.strip_prefix(once).and_then(|after| after.strip_prefix(once)) {
            Some(after) => ([before, after], start..end),
            None => whole,
        }
    }

    fn flags(&self, digest: &HeaderDigest<'_>) -> u16 {
        let header_bytes = self.structure.root().header.of(self.message);
        let (before, newline) =
            header_bytes.split_at(header_bytes.len() - newline_before(header_bytes, header_bytes.len()));
        let blank =
            (before.is_empty() || before.ends_with(b"\n")).then_some(newline).filter(|line| !line.is_empty());
        let flags = [
            (digest.sent.is_some(), FLAG_SENT),
            (blank.is_some(), FLAG_BLANK_LINE),
            (blank == Some(b"\n".as_slice()), FLAG_BARE_LF),
            (!self.structure.fields_complete(), FLAG_FIELDS_CUT),
            (digest.search_lost == [false; 5], FLAG_EXACT),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag)
    }

    /// The record: the head, in which the ends of sections count from the start of the record, and
    /// the sections.
    fn with_head(
        &self,
        flags: u16,
        digest: &HeaderDigest<'_>,
        mut numbers: [u32; NUMBERS],
        sections: &[u8],
    ) -> Vec<u8> {
        let narrow_len = NUMBERS_AT + NUMBERS * 2 + sections.len();
        let is_wide = narrow_len > usize::from(u16::MAX);
        let head_len = NUMBERS_AT + NUMBERS * if is_wide { 4 } else { 2 };
        numbers[FIRST_END..REPEATED].iter_mut().for_each(|end| *end += head_len as u32);
        let flags = flags | if is_wide { FLAG_WIDE } else { 0 };
        let (unix_s, local_day) = digest.sent.map_or((0, 0), |sent| (sent.unix_s, sent.local_day));

        let mut out = Vec::with_capacity(head_len + sections.len());
        out.extend_from_slice(&RECORD_VERSION.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&((head_len + sections.len()) as u32).to_le_bytes());
        out.extend_from_slice(&(self.message.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.structure.root().header.end.to_le_bytes());
        out.extend_from_slice(&unix_s.to_le_bytes());
        out.extend_from_slice(&local_day.to_le_bytes());
        for number in numbers {
            out.extend_from_slice(&number.to_le_bytes()[..if is_wide { 4 } else { 2 }]);
        }
        out.extend_from_slice(sections);
        out
    }
}

/// Sections so far, and where in them each ends.
struct Sections {
    bytes: Vec<u8>,
    ends: [u32; SECTIONS],
}

impl Sections {
    fn put(&mut self, place: usize, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
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
    left_known: u64,
    left_other: u64,
    /// Folded subject, from, to, cc, bcc.
    search: [Vec<u8>; 5],
    /// The number of bytes of the message that each text comes from.
    search_raw: [usize; 5],
    /// Whether folding lost something that an exact comparison needs.
    search_lost: [bool; 5],
    sent: Option<crate::date::SentDate>,
    message_id: Option<&'m [u8]>,
    in_reply_to: Option<&'m [u8]>,
    references: Option<&'m [u8]>,
    /// The folded local part of the first address of From, To and Cc, from the first such field.
    people: [Option<Vec<u8>>; 3],
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
        // A field with a NUL is not sent unchanged, so it is not kept.
        let is_sendable = memchr::memchr(0, field).is_none();
        if is_sendable && is_kept(id, name, field.len()) && self.kept.len() + field.len() <= KEPT_TOTAL_MAX {
            self.table.extend_from_slice(&[id.number(), name.len() as u8]);
            self.table.extend_from_slice(&(field.len() as u16).to_le_bytes());
            self.kept.extend_from_slice(field);
        } else if id == FieldId::OTHER {
            self.left_other |= other_name_bit(name);
        } else {
            self.left_known |= id.bit();
        }
    }

    /// Takes the values of a field that search, sort and thread need.
    fn note(&mut self, id: FieldId, raw: &'m [u8]) {
        match id {
            // If there are several, the last counts, as in the envelope.
            FieldId::SUBJECT => {
                self.search[0].clear();
                self.search_raw[0] = 0;
                self.search_lost[0] = false;
                self.add_search(0, raw.len(), raw);
            }
            FieldId::FROM => self.add_people(1, raw),
            FieldId::TO => self.add_people(2, raw),
            FieldId::CC => self.add_people(3, raw),
            FieldId::BCC => self.add_people(4, raw),
            FieldId::DATE => self.sent = sent_date(raw),
            FieldId::MESSAGE_ID => self.message_id = Some(raw),
            FieldId::IN_REPLY_TO => self.in_reply_to = Some(raw),
            FieldId::REFERENCES => _ = self.references.get_or_insert(raw),
            _ => {}
        }
    }

    /// RFC 9051 §6.4.4: FROM, TO, CC and BCC look for their string in the envelope's addresses.
    fn add_people(&mut self, place: usize, raw: &[u8]) {
        let addresses = addresses_up_to(ADDRESSES_MAX, raw);
        if let Some(person) = self.people.get_mut(place - 1) {
            person.get_or_insert_with(|| sort_key(&addresses));
        }
        let mut text = Vec::with_capacity(raw.len());
        write_addresses(&addresses, &mut text);
        self.add_search(place, raw.len(), &text);
    }

    fn add_search(&mut self, place: usize, field_len: usize, raw: &[u8]) {
        let Some(text) = self.search.get_mut(place) else { return };
        let Some(raw_len) = self.search_raw.get_mut(place) else { return };
        let Some(is_lost) = self.search_lost.get_mut(place) else { return };
        *raw_len += field_len;
        let most = (*raw_len * FOLDED_SHARE + FOLDED_BASE).min(SEARCH_TEXT_MAX);
        if text.len() >= most {
            *is_lost = true;
            return;
        }
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        let (decoded, start) = (decode_words(raw), text.len());
        fold_into(&decoded, text);
        *is_lost |= !is_kept_by_folding(&decoded, text.in_bounds(start..));
        if text.len() > most {
            *is_lost = true;
            // Behind the last character that fits.
            let end = (0..=most).rev().find(|&end| text.get(end).is_none_or(|b| b & 0xc0 != 0x80));
            text.truncate(end.unwrap_or(0));
            text.shrink_to_fit();
        }
    }

    fn write_left(&self, out: &mut Vec<u8>) {
        if (self.left_known, self.left_other) != (0, 0) {
            out.extend_from_slice(&self.left_known.to_le_bytes());
            out.extend_from_slice(&self.left_other.to_le_bytes());
        }
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

    /// Each key with its length before it.
    fn write_sort_keys(&self, out: &mut Vec<u8>) {
        for key in &self.people {
            let key = key.as_deref().unwrap_or_default();
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(key);
        }
    }
}

/// RFC 5256 §2.2: SORT FROM, TO and CC compare the mailbox of the first address.
fn sort_key(addresses: &[Address<'_>]) -> Vec<u8> {
    let first = addresses.first().and_then(|address| address.mailbox.as_deref()).unwrap_or_default();
    let mut key = folded(&String::from_utf8_lossy(first));
    key.truncate(LOCAL_PART_MAX);
    key
}
