//! A record of the table `summaries`.
//!
//! Key: mailbox (16), UID (4). Value: the table at [`SUMMARY_HEADER`], then the summary, or the
//! mailbox (16) and UID (4) of the message that has it.

use posthaste_mail_model::{BodyId, Id, MailboxId};
use posthaste_store::octets::Octets;

use crate::index::checksum::{seed_at, sum32};

/// Body, date saved and summary of one message as stored, borrowed.
pub(crate) struct SummaryRef<'a> {
    pub(crate) body: BodyId,
    pub(crate) saved: i64,
    pub(crate) kind: RecordKind<'a>,
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

/// Bytes of a summary record before the summary: checksum, body, date saved, kind.
///
/// | bytes | field |
/// | --- | --- |
/// | 0–3 | checksum of the rest, seeded with mailbox and UID |
/// | 4–19 | body |
/// | 20–26 | date saved: seconds since 1970, signed |
/// | 27 | kind: 0 and 0xff a summary follows; 0x40 and 0xbf a link |
///
/// A kind has two values because stores of format 1 to 3 keep the date's sign in this byte.
pub(crate) const SUMMARY_HEADER: usize = 28;

const KIND_SUMMARY: u8 = 0;
const KIND_LINK: u8 = 0x40;

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
        0x40 | 0xbf => KIND_LINK,
        _ => return None,
    };
    bytes[7] ^= kind;
    Some((i64::from_le_bytes(bytes), kind))
}

/// Writes a summary record into `out`, which is emptied first. `seed` is the mailbox's.
pub(crate) fn put_summary(out: &mut Vec<u8>, seed: u64, uid: u32, body: BodyId, saved: i64, summary: &[u8]) {
    out.clear();
    add_summary(out, seed, uid, body, saved, summary);
}

/// Bytes of a link's record.
pub(crate) const LINK_LEN: usize = SUMMARY_HEADER + 20;

/// Writes the record of a message that has its summary elsewhere into `out`, which is emptied
/// first.
pub(crate) fn put_link(
    out: &mut Vec<u8>,
    seed: u64,
    uid: u32,
    body: BodyId,
    saved: i64,
    (mailbox, at): Origin,
) {
    let mut place = [0; 20];
    place[..16].copy_from_slice(&mailbox.0.to_bytes());
    place[16..].copy_from_slice(&at.to_le_bytes());
    out.clear();
    add_record(out, seed, uid, body, date_and_kind(saved, KIND_LINK), &place);
}

/// Appends a summary record to `out`.
pub(crate) fn add_summary(out: &mut Vec<u8>, seed: u64, uid: u32, body: BodyId, saved: i64, summary: &[u8]) {
    add_record(out, seed, uid, body, date_and_kind(saved, KIND_SUMMARY), summary);
}

fn add_record(out: &mut Vec<u8>, seed: u64, uid: u32, body: BodyId, date_and_kind: [u8; 8], content: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&body.0.to_bytes());
    out.extend_from_slice(&date_and_kind);
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
    let kind = match kind {
        KIND_LINK => RecordKind::Link(origin_from(content)?),
        _ => RecordKind::Summary(content),
    };
    Some(SummaryRef { body, saved, kind })
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
        let mut out = Vec::new();
        put_summary(&mut out, 5, 9, BodyId(b.0), -1, b"summary");
        let back = summary_from(5, 9, &out).unwrap();
        assert_eq!((back.body, back.saved, back.kind), (BodyId(b.0), -1, RecordKind::Summary(b"summary")));
        assert!(summary_from(5, 10, &out).is_none());
        for saved in [-1, 0, 1_800_000_000] {
            put_link(&mut out, 5, 9, BodyId(b.0), saved, (a, 7));
            let back = summary_from(5, 9, &out).unwrap();
            assert_eq!((back.body, back.saved, back.kind), (BodyId(b.0), saved, RecordKind::Link((a, 7))));
        }
    }
}
