//! The small values: heads, log entries, lists, summaries.
//!
//! Each is sealed ([`crate::stored::seal::seal`]) at its location. Byte tables:
//! `docs/cassandra.md`.

use std::sync::Arc;

use posthaste_mail_model::{
    AccountId, BodyId, Id, Keyword, KeywordTable, MailboxId, MailboxName, ModSeq, Uid, UidValidity,
};
use posthaste_store::octets::{Octets, put_counted, put_set, put_varint};
use posthaste_store::{
    Counts, ExpungedUids, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, MailboxList, Row, SpecialUse,
};

use crate::stored::seal::{location, seal, unseal};

const HEAD: u8 = 2;
const LOG: u8 = 3;
const LIST: u8 = 4;
const SUMMARY: u8 = 5;
/// The numbers between are those of other modules.
const CREATED: u8 = 10;

/// A head as stored, with the mod-sequence below which expunges have been forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredHead {
    pub(crate) head: MailboxHead,
    pub(crate) forgotten: ModSeq,
}

impl StoredHead {
    pub(crate) fn encode(&self, mailbox: MailboxId) -> Vec<u8> {
        let head = &self.head;
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&self.forgotten.value().to_le_bytes());
        out.extend_from_slice(&head.modseq.value().to_le_bytes());
        for number in [
            head.uid_next.value(),
            head.first_recent.value(),
            head.counts.messages,
            head.counts.unseen,
            head.counts.deleted,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&head.counts.bytes.to_le_bytes());
        put_varint(&mut out, head.keywords.keywords().len() as u64);
        for keyword in head.keywords.keywords() {
            put_counted(&mut out, keyword.as_str().as_bytes());
        }
        seal(location(HEAD, mailbox.0, 0), &out)
    }

    pub(crate) fn decode(mailbox: MailboxId, value: &[u8]) -> Option<Self> {
        let mut read = Octets(unseal(location(HEAD, mailbox.0, 0), value)?);
        let (forgotten, modseq) = (ModSeq::new(read.u64()?)?, ModSeq::new(read.u64()?)?);
        let (uid_next, first_recent) = (Uid::new(read.u32()?)?, Uid::new(read.u32()?)?);
        let (messages, unseen, deleted) = (read.u32()?, read.u32()?, read.u32()?);
        let counts = Counts { messages, unseen, deleted, bytes: read.u64()? };
        let n = read.varint()?.min(KeywordTable::SLOTS as u64 + 1);
        let keywords = (0..n).map(|_| Keyword::new(read.text()?).ok()).collect::<Option<Vec<_>>>()?;
        let keywords = Arc::new(KeywordTable::from_keywords(keywords).ok()?);
        Some(Self { head: MailboxHead { modseq, uid_next, first_recent, keywords, counts }, forgotten })
    }
}

/// Rows in one log entry at most: 3.5 KiB. A commit of more says so, and its rows are read from the
/// chunks.
const LOG_ROWS_MAX: usize = 128;

/// The changes of one commit, for readers of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// The commit's id: how a writer whose answer was lost learns that it was applied.
    pub(crate) commit: Id,
    /// New and changed rows in UID order; `None` if they were too many.
    pub(crate) rows: Option<Vec<Row>>,
    /// Expunged UIDs by mod-sequence.
    pub(crate) expunged: Vec<ExpungedUids>,
}

impl LogEntry {
    pub(crate) fn new(id: Id, commit: &MailboxCommit) -> Self {
        let few = commit.changed.len() + commit.appended.len() <= LOG_ROWS_MAX;
        let rows = few
            .then(|| commit.changed.iter().copied().chain(commit.appended.iter().map(|m| m.row)).collect());
        Self { commit: id, rows, expunged: commit.expunged.clone() }
    }

    pub(crate) fn encode(&self, mailbox: MailboxId, modseq: ModSeq) -> Vec<u8> {
        let mut out = self.commit.to_bytes().to_vec();
        // 0 for "too many", else one more than their number.
        put_varint(&mut out, self.rows.as_ref().map_or(0, |rows| rows.len() as u64 + 1));
        for row in self.rows.iter().flatten() {
            out.extend_from_slice(&row.to_bytes());
        }
        put_varint(&mut out, self.expunged.len() as u64);
        for (modseq, uids) in &self.expunged {
            put_varint(&mut out, modseq.value());
            put_set(&mut out, uids);
        }
        seal(location(LOG, mailbox.0, modseq.value()), &out)
    }

    pub(crate) fn decode(mailbox: MailboxId, modseq: u64, value: &[u8]) -> Option<Self> {
        let mut read = Octets(unseal(location(LOG, mailbox.0, modseq), value)?);
        let commit = read.id()?;
        let rows = match usize::try_from(read.varint()?).ok()? {
            0 => None,
            n => {
                let (rows, _) = read.take((n - 1).checked_mul(Row::LEN)?)?.as_chunks::<{ Row::LEN }>();
                Some(rows.iter().map(Row::from_bytes).collect::<Option<Vec<_>>>()?)
            }
        };
        let n = read.varint()?;
        let mut expunged = Vec::new();
        for _ in 0..n {
            expunged.push((ModSeq::new(read.varint()?)?, read.set()?));
        }
        Some(Self { commit, rows, expunged })
    }
}

/// Commits whose ids a list holds, so that a writer whose answer was lost finds its own.
const LIST_COMMITS_MAX: usize = 32;

/// A mailbox list as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredList {
    pub(crate) list: MailboxList,
    /// The last commits, oldest first.
    pub(crate) commits: Vec<Id>,
}

impl StoredList {
    /// The list after a change of this id.
    pub(crate) fn after(&self, commit: &ListCommit, id: Id) -> Self {
        let forget = (self.commits.len() + 1).saturating_sub(LIST_COMMITS_MAX);
        let commits = self.commits.iter().skip(forget).copied().chain([id]).collect();
        Self { list: self.list.apply(commit), commits }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let list = &self.list;
        let mut out = Vec::with_capacity(64 * (list.entries.len() + 1));
        out.extend_from_slice(&list.version.value().to_le_bytes());
        out.extend_from_slice(&list.uid_validity_last.to_le_bytes());
        put_varint(&mut out, list.entries.len() as u64);
        for entry in &list.entries {
            out.extend_from_slice(&entry.id.0.to_bytes());
            out.extend_from_slice(&entry.uid_validity.value().to_le_bytes());
            out.push(entry.special_use.map_or(0, |u| u as u8 + 1));
            put_counted(&mut out, entry.name.as_str().as_bytes());
        }
        put_varint(&mut out, list.subscribed.len() as u64);
        for name in &list.subscribed {
            put_counted(&mut out, name.as_str().as_bytes());
        }
        put_varint(&mut out, self.commits.len() as u64);
        for commit in &self.commits {
            out.extend_from_slice(&commit.to_bytes());
        }
        seal(location(LIST, list.account.0, 0), &out)
    }

    pub(crate) fn decode(account: AccountId, value: &[u8]) -> Option<Self> {
        let mut read = Octets(unseal(location(LIST, account.0, 0), value)?);
        let version = ModSeq::new(read.u64()?)?;
        let uid_validity_last = read.u32()?;
        let mut list = MailboxList { version, uid_validity_last, ..MailboxList::empty(account) };
        for _ in 0..read.varint()? {
            list.entries.push(read_entry(&mut read)?);
        }
        for _ in 0..read.varint()? {
            list.subscribed.insert(MailboxName::new(read.text()?).ok()?);
        }
        let mut commits = Vec::new();
        for _ in 0..read.varint()? {
            commits.push(read.id()?);
        }
        Some(Self { list, commits })
    }
}

fn read_entry(read: &mut Octets<'_>) -> Option<MailboxEntry> {
    let id = MailboxId(read.id()?);
    let uid_validity = UidValidity::new(read.u32()?)?;
    let special_use = match read.u8()? {
        0 => None,
        n => Some(*SpecialUse::ALL.get(usize::from(n) - 1)?),
    };
    Some(MailboxEntry { id, name: MailboxName::new(read.text()?).ok()?, uid_validity, special_use })
}

/// Body, date saved and summary of one message as stored, borrowed.
pub(crate) struct SummaryRef<'a> {
    pub(crate) body: BodyId,
    pub(crate) saved: i64,
    pub(crate) summary: &'a [u8],
}

pub(crate) fn summary_value(
    mailbox: MailboxId,
    uid: u32,
    body: BodyId,
    saved: i64,
    summary: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 + summary.len());
    out.extend_from_slice(&body.0.to_bytes());
    out.extend_from_slice(&saved.to_le_bytes());
    out.extend_from_slice(summary);
    seal(location(SUMMARY, mailbox.0, u64::from(uid)), &out)
}

pub(crate) fn summary_from(mailbox: MailboxId, uid: u32, value: &[u8]) -> Option<SummaryRef<'_>> {
    let mut read = Octets(unseal(location(SUMMARY, mailbox.0, u64::from(uid)), value)?);
    Some(SummaryRef { body: BodyId(read.id()?), saved: read.i64()?, summary: read.0 })
}

/// The mod-sequence with which a message came. It has a column of its own, because servers of
/// schema version 9 read all of a summary's value.
pub(crate) fn created_value(mailbox: MailboxId, uid: u32, created: ModSeq) -> Vec<u8> {
    let mut out = Vec::with_capacity(10);
    put_varint(&mut out, created.value());
    seal(location(CREATED, mailbox.0, u64::from(uid)), &out)
}

/// Reads what [`created_value`] wrote. [`ModSeq::ZERO`] if it is missing or damaged.
pub(crate) fn created_from(mailbox: MailboxId, uid: u32, value: Option<&[u8]>) -> ModSeq {
    let content = value.and_then(|value| unseal(location(CREATED, mailbox.0, u64::from(uid)), value));
    let created = content.and_then(|content| ModSeq::new(Octets(content).varint()?));
    created.unwrap_or(ModSeq::ZERO)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_mail_model::NumSet;

    use super::*;

    #[test]
    fn values_come_back_and_only_under_their_key() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let head = posthaste_store::suite::sample_head();
        let stored = StoredHead { head, forgotten: ModSeq::new(9).unwrap() };
        let value = stored.encode(a);
        assert_eq!(StoredHead::decode(a, &value), Some(stored));
        assert_eq!(StoredHead::decode(b, &value), None);

        let uids = NumSet::from_ranges([(3, 9), (11, 11)]);
        for rows in [None, Some(vec![])] {
            let entry =
                LogEntry { commit: a.0, rows, expunged: vec![(ModSeq::new(5).unwrap(), uids.clone())] };
            let value = entry.encode(a, ModSeq::new(6).unwrap());
            assert_eq!(LogEntry::decode(a, 6, &value), Some(entry));
            assert_eq!(LogEntry::decode(a, 7, &value), None);
        }

        let value = summary_value(a, 9, BodyId(b.0), -1, b"summary");
        let back = summary_from(a, 9, &value).unwrap();
        assert_eq!((back.body, back.saved, back.summary), (BodyId(b.0), -1, &b"summary"[..]));
        assert!(summary_from(a, 10, &value).is_none());

        for created in [0, 1, 300, i64::MAX as u64].map(|n| ModSeq::new(n).unwrap()) {
            let value = created_value(a, 9, created);
            assert_eq!(created_from(a, 9, Some(&value)), created);
            assert_eq!(created_from(a, 10, Some(&value)), ModSeq::ZERO);
        }
        assert_eq!(created_from(a, 9, None), ModSeq::ZERO);
    }

    #[test]
    fn a_list_comes_back() {
        let account = AccountId(Id::new(3, 3));
        let mut list = MailboxList {
            version: ModSeq::new(4).unwrap(),
            uid_validity_last: 8,
            ..MailboxList::empty(account)
        };
        for (name, special_use) in [("INBOX", None), ("a/ü", Some(SpecialUse::Trash))] {
            let name = MailboxName::new(name).unwrap();
            list.subscribed.insert(name.clone());
            let id = MailboxId(Id::new(1, 1));
            list.entries.push(MailboxEntry { id, name, uid_validity: UidValidity::MIN, special_use });
        }
        let stored = StoredList { list, commits: vec![Id::new(1, 9)] };
        assert_eq!(StoredList::decode(account, &stored.encode()), Some(stored));
    }

    #[test]
    fn a_list_has_the_ids_of_its_last_changes() {
        let account = AccountId(Id::new(3, 3));
        let commit = ListCommit {
            account,
            expected: ModSeq::ZERO,
            version: ModSeq::ZERO.next(),
            upsert: Vec::new(),
            remove: Vec::new(),
            subscribe: vec![MailboxName::inbox()],
            unsubscribe: Vec::new(),
            uid_validity_last: 8,
        };
        let mut stored = StoredList { list: MailboxList::empty(account), commits: Vec::new() };
        for n in 1..=40 {
            stored = stored.after(&commit, Id::new(1, n));
        }
        assert_eq!(stored.commits, (9..=40).map(|n| Id::new(1, n)).collect::<Vec<_>>());
        assert_eq!((stored.list.version, stored.list.subscribed.len()), (ModSeq::ZERO.next(), 1));
    }

    /// A number that a value names reserves no memory: its content ends before.
    #[test]
    fn a_list_that_names_more_than_it_has_is_damaged() {
        let account = AccountId(Id::new(3, 3));
        let stored = StoredList { list: MailboxList::empty(account), commits: Vec::new() };
        let empty = stored.encode();
        assert_eq!(StoredList::decode(account, &empty), Some(stored));
        // Version, last UIDVALIDITY, and the numbers of mailboxes, subscriptions and commits.
        let content = &empty[4..];
        assert_eq!(content.len(), 8 + 4 + 3);
        for at in 12..15 {
            let mut more = content[..at].to_vec();
            put_varint(&mut more, u64::MAX);
            more.extend_from_slice(&content[at + 1..]);
            let value = seal(location(LIST, account.0, 0), &more);
            assert_eq!(StoredList::decode(account, &value), None, "number {at}");
        }
    }
}
