//! A record of the table `summaries`.
//!
//! Key: mailbox (16), UID (4). Value: the table at [`SUMMARY_HEADER`], then the summary, or the
//! mailbox (16) and UID (4) of the message that has it.

use posthaste_mail_model::{BodyId, Id, MailboxId, ModSeq};
use posthaste_store::NewMessage;
use posthaste_store::octets::Octets;

use crate::index::checksum::{seed_at, sum32};

/// The body of a message, and when the message came into its mailbox. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) body: BodyId,
    /// SAVEDATE, unix seconds: less than 2^55.
    pub(crate) saved: i64,
    /// The mod-sequence with which it came; [`ModSeq::ZERO`] if it is not known.
    pub(crate) created: ModSeq,
}

impl From<&NewMessage> for Arrival {
    fn from(message: &NewMessage) -> Self {
        Self { body: message.body, saved: message.saved, created: message.created }
    }
}

/// One message as stored, borrowed.
pub(crate) struct SummaryRef<'a> {
    pub(crate) body: BodyId,
    pub(crate) saved: i64,
    pub(crate) created: ModSeq,
    pub(crate) kind: RecordKind<'a>,
}

impl SummaryRef<'_> {
    /// The values that a new record of the message has, too.
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival { body: self.body, saved: self.saved, created: self.created }
    }
}

/// A message: its mailbox and UID.
pub(crate) type MailboxUid = (MailboxId, u32);

/// The message that has a summary.
pub(crate) type Origin = MailboxUid;

/// The content after the header of a summary record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind<'a> {
    /// The summary.
    Summary(&'a [u8]),
    /// A link: the message this one was copied from has the summary (`links`).
    Link(Origin),
}

impl RecordKind<'_> {
    /// The message that has the summary, if it is another one.
    pub(crate) fn origin(self) -> Option<Origin> {
        if let Self::Link(origin) = self { Some(origin) } else { None }
    }
}

/// Bytes of a summary record before the first mod-sequence or the summary: checksum, body, date
/// saved, kind.
///
/// | bytes | field |
/// | --- | --- |
/// | 0–3 | checksum of the rest, seeded with mailbox and UID |
/// | 4–19 | body |
/// | 20–26 | date saved: seconds since 1970, signed |
/// | 27 | kind: 0 and 0xff a summary follows; 0x40 and 0xbf a link |
///
/// With bit 5 of the kind inverted (0x20, 0xdf, 0x60, 0x9f), the mod-sequence with which the
/// message came follows (8). It is missing if it is not known, as in stores of formats before 10.
///
/// A kind has two values because stores of format 1 to 3 keep the date's sign in this byte.
pub(crate) const SUMMARY_HEADER: usize = 28;

/// Bytes of the mod-sequence with which a message came.
pub(crate) const CREATED_LEN: usize = 8;

const KIND_SUMMARY: u8 = 0;
const KIND_LINK: u8 = 0x40;
/// Added to a kind: the mod-sequence with which the message came follows.
const HAS_CREATED: u8 = 0x20;

/// Date and kind in eight bytes. `saved` is of less than 2^55 seconds.
fn date_and_kind(saved: i64, kind: u8) -> [u8; 8] {
    let mut bytes = saved.to_le_bytes();
    bytes[7] ^= kind;
    bytes
}

/// Reads what [`date_and_kind`] wrote; `None` for a kind that is not known.
fn date_and_kind_from(mut bytes: [u8; 8]) -> Option<(i64, u8)> {
    let kind = match bytes[7] {
        0 | 0xff => KIND_SUMMARY,
        0x20 | 0xdf => HAS_CREATED,
        0x40 | 0xbf => KIND_LINK,
        0x60 | 0x9f => KIND_LINK | HAS_CREATED,
        _ => return None,
    };
    bytes[7] ^= kind;
    Some((i64::from_le_bytes(bytes), kind))
}

/// The date saved in the header of a record whose kind may be damaged.
pub(crate) fn date_in(header: &[u8; SUMMARY_HEADER]) -> i64 {
    let mut bytes = [0; 8];
    bytes[..7].copy_from_slice(&header[20..27]);
    // The sign of a date of less than 2^55 seconds.
    bytes[7] = if bytes[6] & 0x80 == 0 { 0 } else { 0xff };
    i64::from_le_bytes(bytes)
}

/// Writes a summary record into `out`, which is emptied first. `seed` is the mailbox's.
pub(crate) fn put_summary(out: &mut Vec<u8>, seed: u64, uid: u32, arrival: Arrival, summary: &[u8]) {
    out.clear();
    add_summary(out, seed, uid, arrival, summary);
}

/// Bytes of a link's record at most.
pub(crate) const LINK_LEN: usize = SUMMARY_HEADER + CREATED_LEN + 20;

/// Writes the record of a message that has its summary elsewhere into `out`, which is emptied
/// first.
pub(crate) fn put_link(out: &mut Vec<u8>, seed: u64, uid: u32, arrival: Arrival, (mailbox, at): Origin) {
    let mut place = [0; 20];
    place[..16].copy_from_slice(&mailbox.0.to_bytes());
    place[16..].copy_from_slice(&at.to_le_bytes());
    out.clear();
    add_record(out, seed, uid, arrival, (KIND_LINK, &place));
}

/// Appends a summary record to `out`.
pub(crate) fn add_summary(out: &mut Vec<u8>, seed: u64, uid: u32, arrival: Arrival, summary: &[u8]) {
    add_record(out, seed, uid, arrival, (KIND_SUMMARY, summary));
}

fn add_record(out: &mut Vec<u8>, seed: u64, uid: u32, arrival: Arrival, (kind, content): (u8, &[u8])) {
    let Arrival { body, saved, created } = arrival;
    let has_created = if created == ModSeq::ZERO { 0 } else { HAS_CREATED };
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&body.0.to_bytes());
    out.extend_from_slice(&date_and_kind(saved, kind | has_created));
    if has_created != 0 {
        out.extend_from_slice(&created.value().to_le_bytes());
    }
    out.extend_from_slice(content);
    let sum = sum32(seed_at(seed, u64::from(uid)), &out[start + 4..]).to_le_bytes();
    out[start..start + 4].copy_from_slice(&sum);
}

/// Whether a summary record is whole and under its own key.
#[inline]
pub(crate) fn is_summary_good(seed: u64, uid: u32, value: &[u8]) -> bool {
    value
        .split_first_chunk::<4>()
        .is_some_and(|(sum, rest)| u32::from_le_bytes(*sum) == sum32(seed_at(seed, u64::from(uid)), rest))
}

/// Reads a summary record; `None` if it is damaged.
#[inline]
pub(crate) fn summary_from(seed: u64, uid: u32, value: &[u8]) -> Option<SummaryRef<'_>> {
    if is_summary_good(seed, uid, value) { summary_parts(value) } else { None }
}

/// Reads a summary record that was verified; `None` if it is not one.
#[inline]
pub(crate) fn summary_parts(value: &[u8]) -> Option<SummaryRef<'_>> {
    let (header, content) = value.split_first_chunk::<SUMMARY_HEADER>()?;
    let body = BodyId(Id::from_bytes(*header[4..].first_chunk()?));
    let (saved, kind) = date_and_kind_from(*header[20..].first_chunk()?)?;
    let (created, content) = match kind & HAS_CREATED {
        0 => (ModSeq::ZERO, content),
        _ => {
            let (created, content) = content.split_first_chunk::<CREATED_LEN>()?;
            (ModSeq::new(u64::from_le_bytes(*created))?, content)
        }
    };
    let kind = match kind & KIND_LINK {
        0 => RecordKind::Summary(content),
        _ => RecordKind::Link(origin_from(content)?),
    };
    Some(SummaryRef { body, saved, created, kind })
}

/// The origin that a link has instead of a summary.
pub(crate) fn origin_from(place: &[u8]) -> Option<Origin> {
    let mut place = Octets(place);
    Some((MailboxId(place.id()?), place.u32()?))
}

/// Whether a record is a link to this message.
pub(crate) fn is_link_to(value: &[u8], origin: Origin) -> bool {
    summary_parts(value).is_some_and(|found| found.kind == RecordKind::Link(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_under_its_key_alone() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let dates = [-1, 0, 1_800_000_000];
        let mut out = Vec::new();
        for (saved, created) in
            dates.into_iter().flat_map(|date| [(date, 0), (date, 1), (date, i64::MAX as u64)])
        {
            let arrival = Arrival { body: BodyId(b.0), saved, created: ModSeq::new(created).unwrap() };
            put_summary(&mut out, 5, 9, arrival, b"summary");
            let back = summary_from(5, 9, &out).unwrap();
            assert_eq!((back.arrival(), back.kind), (arrival, RecordKind::Summary(b"summary")));
            assert!(summary_from(5, 10, &out).is_none());
            assert_eq!(date_in(out.first_chunk().unwrap()), saved);
            put_link(&mut out, 5, 9, arrival, (a, 7));
            let back = summary_from(5, 9, &out).unwrap();
            assert_eq!((back.arrival(), back.kind), (arrival, RecordKind::Link((a, 7))));
            assert!(out.len() <= LINK_LEN);
        }
    }

    /// A record of a format before 10, byte for byte.
    #[test]
    fn a_record_without_the_first_mod_sequence_is_read() {
        let mut old = vec![0; 4];
        old.extend_from_slice(&Id::new(1, 2).to_bytes());
        old.extend_from_slice(&1_800_000_000_i64.to_le_bytes());
        old.extend_from_slice(b"summary");
        let sum = sum32(seed_at(5, 9), &old[4..]).to_le_bytes();
        old[..4].copy_from_slice(&sum);
        let back = summary_from(5, 9, &old).unwrap();
        let arrival = Arrival { body: BodyId(Id::new(1, 2)), saved: 1_800_000_000, created: ModSeq::ZERO };
        assert_eq!((back.arrival(), back.kind), (arrival, RecordKind::Summary(b"summary")));
    }
}
