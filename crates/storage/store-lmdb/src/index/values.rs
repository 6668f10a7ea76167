//! The small values of the index: heads, body places, pack states, list entries, directory records.
//!
//! Each starts with a checksum of the rest, seeded with its key ([`seal`], [`unseal`]). The tables
//! are in `docs/storage.md`.

use bytes::Bytes;
use posthaste_mail_model::{
    AccountId, BodyId, Id, Keyword, KeywordTable, MailboxId, MailboxName, ModSeq, Uid, UidValidity,
};
use posthaste_store::{Counts, DirectoryEntry, MailboxEntry, MailboxHead, SpecialUse};
use std::sync::Arc;

use crate::index::checksum::{seed, seed_at, sum32};
use crate::index::logged::Logged;
use posthaste_store::octets::{Octets, put_counted, put_varint};

/// Leaves room for the checksum; [`seal`] fills it in.
pub(crate) fn open_value() -> Vec<u8> {
    vec![0; 4]
}

/// Fills in the checksum of a value begun with [`open_value`].
pub(crate) fn seal(key_seed: u64, mut value: Vec<u8>) -> Vec<u8> {
    let sum = sum32(key_seed, &value[4..]).to_le_bytes();
    value[..4].copy_from_slice(&sum);
    value
}

/// The value behind its checksum; `None` if it does not match.
pub(crate) fn unseal(key_seed: u64, value: &[u8]) -> Option<Octets<'_>> {
    let mut read = Octets(value);
    (read.u32()? == sum32(key_seed, read.0)).then_some(read)
}

/// A seed from a key of any length.
pub(crate) fn seed_of_key(key: &[u8]) -> u64 {
    seed_at(u64::from(sum32(0, key)), key.len() as u64)
}

/// Writes a head's fields.
pub(crate) fn put_head(out: &mut Vec<u8>, head: &MailboxHead) {
    out.extend_from_slice(&head.modseq.value().to_le_bytes());
    out.extend_from_slice(&head.uid_next.value().to_le_bytes());
    out.extend_from_slice(&head.first_recent.value().to_le_bytes());
    out.extend_from_slice(&head.counts.messages.to_le_bytes());
    out.extend_from_slice(&head.counts.unseen.to_le_bytes());
    out.extend_from_slice(&head.counts.deleted.to_le_bytes());
    out.extend_from_slice(&head.counts.bytes.to_le_bytes());
    put_varint(out, head.keywords.keywords().len() as u64);
    for keyword in head.keywords.keywords() {
        put_counted(out, keyword.as_str().as_bytes());
    }
}

/// Reads what [`put_head`] wrote.
pub(crate) fn read_head(read: &mut Octets<'_>) -> Option<MailboxHead> {
    let modseq = ModSeq::new(read.u64()?)?;
    let (uid_next, first_recent) = (Uid::new(read.u32()?)?, Uid::new(read.u32()?)?);
    let (messages, unseen, deleted) = (read.u32()?, read.u32()?, read.u32()?);
    let counts = Counts { messages, unseen, deleted, bytes: read.u64()? };
    let n = read.varint()?.min(KeywordTable::SLOTS as u64 + 1);
    let keywords = (0..n).map(|_| Keyword::new(read.text()?).ok()).collect::<Option<Vec<_>>>()?;
    let keywords = Arc::new(KeywordTable::from_keywords(keywords).ok()?);
    Some(MailboxHead { modseq, uid_next, first_recent, keywords, counts })
}

/// A head as stored.
pub(crate) struct StoredHead {
    pub(crate) head: MailboxHead,
    /// The mod-sequence below which expunges have been forgotten.
    pub(crate) forgotten: ModSeq,
    /// What the log holds of the mailbox.
    pub(crate) logged: Logged,
}

pub(crate) fn head_value(mailbox: MailboxId, stored: &StoredHead) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&stored.forgotten.value().to_le_bytes());
    put_head(&mut out, &stored.head);
    stored.logged.put(&mut out);
    seal(seed(mailbox.0), out)
}

pub(crate) fn head_from(mailbox: MailboxId, value: &[u8]) -> Option<StoredHead> {
    let mut read = unseal(seed(mailbox.0), value)?;
    let forgotten = ModSeq::new(read.u64()?)?;
    let head = read_head(&mut read)?;
    let logged = Logged::read(&mut read)?;
    Some(StoredHead { head, forgotten, logged })
}

/// Where a body lies, and how many messages are known to hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyPlace {
    pub(crate) pack: u32,
    /// Of the record in the pack.
    pub(crate) offset: u64,
    /// Of the content.
    pub(crate) len: u64,
    pub(crate) refs: u32,
}

impl BodyPlace {
    pub(crate) fn to_value(self, body: BodyId) -> [u8; 28] {
        let mut out = [0; 28];
        out[4..8].copy_from_slice(&self.pack.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.len.to_le_bytes());
        out[24..].copy_from_slice(&self.refs.to_le_bytes());
        let sum = sum32(seed(body.0), &out[4..]).to_le_bytes();
        out[..4].copy_from_slice(&sum);
        out
    }

    pub(crate) fn from_value(body: BodyId, value: &[u8]) -> Option<Self> {
        let mut read = unseal(seed(body.0), value)?;
        Some(Self { pack: read.u32()?, offset: read.u64()?, len: read.u64()?, refs: read.u32()? })
    }
}

/// What the index knows of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PackState {
    /// Every record below this offset belongs to a committed transaction; nothing above it counts.
    pub(crate) end: u64,
    /// Bytes of records of bodies that nothing refers to any more.
    pub(crate) dead: u64,
    /// How far its live records have been copied elsewhere; 0 while it is not being emptied.
    pub(crate) emptied: u64,
    /// No more is written to it.
    pub(crate) sealed: bool,
    /// Damage was met while it was being emptied, or by a rebuild: it is left as it is.
    pub(crate) damaged: bool,
}

impl PackState {
    pub(crate) fn to_value(self, pack: u32) -> Vec<u8> {
        let mut out = open_value();
        for field in [self.end, self.dead, self.emptied] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.push(u8::from(self.sealed) | u8::from(self.damaged) << 1);
        seal(u64::from(pack), out)
    }

    pub(crate) fn from_value(pack: u32, value: &[u8]) -> Option<Self> {
        let mut read = unseal(u64::from(pack), value)?;
        let (end, dead, emptied) = (read.u64()?, read.u64()?, read.u64()?);
        let bits = read.u8()?;
        let bit = |n: u8| bits & (1 << n) != 0;
        Some(Self { end, dead, emptied, sealed: bit(0), damaged: bit(1) })
    }
}

/// Writes a list entry's fields.
pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &MailboxEntry) {
    out.extend_from_slice(&entry.id.0.to_bytes());
    out.extend_from_slice(&entry.uid_validity.value().to_le_bytes());
    out.push(entry.special_use.map_or(0, |u| u as u8 + 1));
    put_counted(out, entry.name.as_str().as_bytes());
}

/// Reads what [`put_entry`] wrote.
pub(crate) fn read_entry(read: &mut Octets<'_>) -> Option<MailboxEntry> {
    let id = MailboxId(read.id()?);
    let uid_validity = UidValidity::new(read.u32()?)?;
    let special_use = match read.u8()? {
        0 => None,
        n => Some(*SpecialUse::ALL.get(usize::from(n) - 1)?),
    };
    let name = MailboxName::new(read.text()?).ok()?;
    Some(MailboxEntry { id, name, uid_validity, special_use })
}

/// What a mailbox list says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListHead {
    pub(crate) version: ModSeq,
    pub(crate) uid_validity_last: u32,
    /// Its other records: mailboxes and subscriptions. None in a list of formats 1 to 4 that was
    /// not counted yet.
    pub(crate) records: Option<u32>,
}

pub(crate) fn list_value(account: AccountId, list: ListHead) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&list.version.value().to_le_bytes());
    out.extend_from_slice(&list.uid_validity_last.to_le_bytes());
    out.extend(list.records.into_iter().flat_map(u32::to_le_bytes));
    seal(seed(account.0), out)
}

pub(crate) fn list_from(account: AccountId, value: &[u8]) -> Option<ListHead> {
    let mut read = unseal(seed(account.0), value)?;
    let (version, uid_validity_last) = (ModSeq::new(read.u64()?)?, read.u32()?);
    let records = if read.is_empty() { None } else { Some(read.u32()?) };
    read.is_empty().then_some(ListHead { version, uid_validity_last, records })
}

/// A directory record.
pub(crate) fn directory_value(name: &str, version: u64, content: &[u8]) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(content);
    seal(seed_of_key(name.as_bytes()), out)
}

pub(crate) fn directory_from(name: &str, value: &[u8]) -> Option<DirectoryEntry> {
    let mut read = unseal(seed_of_key(name.as_bytes()), value)?;
    let version = read.u64()?;
    Some(DirectoryEntry { name: name.to_owned(), version, value: Bytes::copy_from_slice(read.0) })
}

/// Body, date saved and summary of one message as stored, borrowed.
pub(crate) struct SummaryRef<'a> {
    pub(crate) body: BodyId,
    pub(crate) saved: i64,
    pub(crate) kind: RecordKind<'a>,
}

/// The message that has a summary: its mailbox and UID.
pub(crate) type Origin = (MailboxId, u32);

/// What follows the header of a summary record.
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

/// Writes a summary record behind what `out` has.
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

/// Whether a summary record is whole and lies where it belongs.
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

/// Reads a summary record that was proved good; `None` if it is not one.
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

/// What a link has instead of a summary.
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
    fn values_come_back_and_only_under_their_key() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let keywords = vec![Keyword::new("$Junk").unwrap(), Keyword::new("later").unwrap()];
        let head = MailboxHead {
            modseq: ModSeq::new(77).unwrap(),
            uid_next: Uid::new(5).unwrap(),
            keywords: Arc::new(KeywordTable::from_keywords(keywords).unwrap()),
            counts: Counts { messages: 4, unseen: 3, deleted: 2, bytes: 1 << 40 },
            ..MailboxHead::default()
        };
        let mut logged = Logged::default();
        logged.grew((3, 120), 4, 0);
        let stored = StoredHead { head: head.clone(), forgotten: ModSeq::new(9).unwrap(), logged };
        let value = head_value(a, &stored);
        let back = head_from(a, &value).unwrap();
        assert_eq!((back.head, back.forgotten.value(), back.logged), (head, 9, logged));
        assert!(head_from(b, &value).is_none());

        let place = BodyPlace { pack: 3, offset: 1 << 33, len: 9, refs: 2 };
        assert_eq!(BodyPlace::from_value(BodyId(a.0), &place.to_value(BodyId(a.0))), Some(place));
        let state = PackState { end: 1, dead: 2, emptied: 3, sealed: true, damaged: true };
        assert_eq!(PackState::from_value(8, &state.to_value(8)), Some(state));
        assert_eq!(PackState::from_value(9, &state.to_value(8)), None);

        let entry = directory_from("account/ana", &directory_value("account/ana", 3, b"x")).unwrap();
        assert_eq!((entry.version, &entry.value[..]), (3, &b"x"[..]));

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

    #[test]
    fn a_list_entry_comes_back() {
        for special_use in [None, Some(SpecialUse::All), Some(SpecialUse::Trash)] {
            let entry = MailboxEntry {
                id: MailboxId(Id::new(1, 1)),
                name: MailboxName::new("a/ü").unwrap(),
                uid_validity: UidValidity::MIN,
                special_use,
            };
            let mut out = Vec::new();
            put_entry(&mut out, &entry);
            assert_eq!(read_entry(&mut Octets(&out)), Some(entry));
        }
    }
}
