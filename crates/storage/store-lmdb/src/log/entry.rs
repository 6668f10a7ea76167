//! The contents of commit records: enough to rebuild the index, without values that can be made
//! from a body.
//!
//! Changed rows are grouped by their new values. Each distinct pair of flags and mod-sequence has
//! one entry with the set of UIDs. So marking 10,000 messages as read takes a few dozen bytes.

use std::collections::HashMap;

use posthaste_mail_model::{AccountId, BodyId, FlagSet, MailboxId, MailboxName, ModSeq, NumSet, Uid};
use posthaste_store::octets::{Octets, put_counted, put_set, put_varint};
use posthaste_store::{
    DirectoryChange, ExpungedUids, ListCommit, MailboxCommit, MailboxEntry, MailboxHead, Row,
};

use crate::index::directory::NAME_MAX;
use crate::index::heads::{put_head, read_head};
use crate::index::lists::{put_entry, read_entry};
use crate::index::summaries::record::Arrival;
use crate::log::{PACK_MAX, PackOffset};

/// The version of all contents here.
const VERSION: u8 = 1;
/// The version of a mailbox commit that has the first mod-sequences of its new messages. For
/// others see [`created_without`].
const VERSION_CREATED: u8 = 2;

/// A new message as logged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoggedMessage {
    pub(crate) row: Row,
    pub(crate) arrival: Arrival,
}

/// Writes row, body and date saved of a message.
pub(crate) fn put_message(out: &mut Vec<u8>, row: &Row, arrival: Arrival) {
    out.extend_from_slice(&row.to_bytes());
    out.extend_from_slice(&arrival.body.0.to_bytes());
    out.extend_from_slice(&arrival.saved.to_le_bytes());
}

/// Reads what [`put_message`] wrote. The first mod-sequence is `created` of the row.
pub(crate) fn read_message(
    read: &mut Octets<'_>,
    created: impl FnOnce(&mut Octets<'_>, &Row) -> Option<ModSeq>,
) -> Option<LoggedMessage> {
    let row = Row::from_bytes(read.take(Row::LEN)?.first_chunk()?)?;
    let (body, saved) = (BodyId(read.id()?), read.i64()?);
    let created = created(read, &row)?;
    Some(LoggedMessage { row, arrival: Arrival { body, saved, created } })
}

/// Writes the first mod-sequence of a message: 0 if it is not known, otherwise one more than the
/// distance to the row's.
pub(crate) fn put_created(out: &mut Vec<u8>, row: &Row, created: ModSeq) {
    let distance = row.modseq().value().saturating_sub(created.value());
    put_varint(out, if created == ModSeq::ZERO { 0 } else { distance + 1 });
}

/// Reads what [`put_created`] wrote.
pub(crate) fn read_created(read: &mut Octets<'_>, row: &Row) -> Option<ModSeq> {
    match read.varint()?.checked_sub(1) {
        None => Some(ModSeq::ZERO),
        Some(distance) => ModSeq::new(row.modseq().value().checked_sub(distance)?),
    }
}

/// The first mod-sequences of new messages in a commit that does not have them: those of the rows.
///
/// They are not known if all rows, new and changed, are older than the head. Transfers by programs
/// before format 10 of the store made such commits. Their rows say only when flags changed last.
fn created_without(head: &MailboxHead, mut rows: impl Iterator<Item = ModSeq>) -> fn(&Row) -> ModSeq {
    if rows.any(|modseq| modseq == head.modseq) { Row::modseq } else { |_| ModSeq::ZERO }
}

/// A mailbox commit as logged.
#[derive(Debug)]
pub(crate) struct LoggedMailbox {
    pub(crate) expected: ModSeq,
    pub(crate) head: MailboxHead,
    pub(crate) appended: Vec<LoggedMessage>,
    pub(crate) changed: Vec<(FlagSet, ModSeq, NumSet)>,
    pub(crate) expunged: Vec<ExpungedUids>,
}

/// Writes a mailbox commit.
pub(crate) fn mailbox_content(commit: &MailboxCommit) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + commit.appended.len() * 52);
    let rows = commit.appended.iter().map(|message| &message.row).chain(&commit.changed);
    let without = created_without(&commit.head, rows.map(Row::modseq));
    let has_created = commit.appended.iter().any(|message| message.created != without(&message.row));
    out.push(if has_created { VERSION_CREATED } else { VERSION });
    out.extend_from_slice(&commit.expected.value().to_le_bytes());
    put_head(&mut out, &commit.head);
    put_varint(&mut out, commit.appended.len() as u64);
    for message in &commit.appended {
        put_message(&mut out, &message.row, message.into());
        if has_created {
            put_created(&mut out, &message.row, message.created);
        }
    }
    let groups = groups_of(&commit.changed);
    put_varint(&mut out, groups.len() as u64);
    for (flags, modseq, set) in &groups {
        out.extend_from_slice(&flags.bits().to_le_bytes());
        out.extend_from_slice(&modseq.value().to_le_bytes());
        put_set(&mut out, set);
    }
    put_varint(&mut out, commit.expunged.len() as u64);
    for (modseq, set) in &commit.expunged {
        out.extend_from_slice(&modseq.value().to_le_bytes());
        put_set(&mut out, set);
    }
    out
}

fn groups_of(changed: &[Row]) -> Vec<(FlagSet, ModSeq, NumSet)> {
    let mut groups: Vec<(FlagSet, ModSeq, NumSet)> = Vec::new();
    let mut places: HashMap<(FlagSet, u64), usize> = HashMap::new();
    let mut last: Option<((FlagSet, u64), usize)> = None;
    for row in changed {
        let key = (row.flags(), row.modseq().value());
        let at = match last {
            Some((k, at)) if k == key => at,
            _ => *places.entry(key).or_insert_with(|| {
                groups.push((row.flags(), row.modseq(), NumSet::new()));
                groups.len() - 1
            }),
        };
        last = Some((key, at));
        groups[at].2.push(row.uid().value());
    }
    groups
}

/// Reads a mailbox commit.
pub(crate) fn mailbox_from(content: &[u8]) -> Option<LoggedMailbox> {
    let mut read = Octets(content);
    let has_created = match read.u8()? {
        VERSION => false,
        VERSION_CREATED => true,
        _ => return None,
    };
    let expected = ModSeq::new(read.u64()?)?;
    let head = read_head(&mut read)?;
    let mut appended = many(&mut read, |read| {
        read_message(read, |read, row| if has_created { read_created(read, row) } else { Some(ModSeq::ZERO) })
    })?;
    let changed = many(&mut read, |read| {
        Some((FlagSet::from_bits(read.u64()?), ModSeq::new(read.u64()?)?, read.set()?))
    })?;
    if !has_created {
        let new = appended.iter().map(|message| message.row.modseq());
        let created = created_without(&head, new.chain(changed.iter().map(|(_, modseq, _)| *modseq)));
        appended.iter_mut().for_each(|message| message.arrival.created = created(&message.row));
    }
    let expunged = many(&mut read, |read| Some((ModSeq::new(read.u64()?)?, read.set()?)))?;
    read.is_empty().then_some(LoggedMailbox { expected, head, appended, changed, expunged })
}

impl LoggedMailbox {
    /// The number of UIDs that it changes.
    pub(crate) fn changed_count(&self) -> u64 {
        self.changed.iter().map(|(_, _, set)| set.count()).fold(0, u64::saturating_add)
    }

    /// Leaves out the changes of messages that are not there. False if it changes some of them more
    /// than once, as no commit does: many sets of all of them would take any memory.
    pub(crate) fn changes_within(&mut self, there: &NumSet) -> bool {
        let mut left = there.count();
        self.changed.iter_mut().all(|(_, _, set)| {
            *set = set.intersection(there);
            let Some(rest) = left.checked_sub(set.count()) else { return false };
            left = rest;
            true
        })
    }

    /// The changes as rows. Only UID, flags and mod-sequence are valid in them. `None` for more
    /// than `most`: some bytes of a forged record may name four billion.
    pub(crate) fn changed_rows(&self, most: u64) -> Option<Vec<Row>> {
        if self.changed_count() > most {
            return None;
        }
        let mut rows = Vec::new();
        for (flags, modseq, set) in &self.changed {
            for uid in set.iter() {
                rows.push(Row::new(Uid::new(uid)?, 0, 0, *flags, *modseq));
            }
        }
        rows.sort_unstable_by_key(Row::uid);
        Some(rows)
    }
}

/// Bytes that a list has before it grows.
const RESERVED_MAX: usize = 1 << 20;

/// A list with capacity for as many entries as a count says, but at most for as many as the bytes
/// can contain. A long list grows: an entry in memory may be a hundred times its bytes.
pub(crate) fn many<'a, T>(
    read: &mut Octets<'a>,
    mut one: impl FnMut(&mut Octets<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let n = read.varint()?;
    let most = read.0.len().min(RESERVED_MAX / size_of::<T>().max(1));
    let mut out = Vec::with_capacity(usize::try_from(n).ok()?.min(most));
    for _ in 0..n {
        out.push(one(read)?);
    }
    Some(out)
}

/// Writes the number of names, then the names.
pub(crate) fn put_names<'n>(out: &mut Vec<u8>, names: impl ExactSizeIterator<Item = &'n MailboxName>) {
    put_varint(out, names.len() as u64);
    for name in names {
        put_counted(out, name.as_str().as_bytes());
    }
}

/// Writes a list commit.
pub(crate) fn list_content(commit: &ListCommit) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend_from_slice(&commit.expected.value().to_le_bytes());
    out.extend_from_slice(&commit.version.value().to_le_bytes());
    out.extend_from_slice(&commit.uid_validity_last.to_le_bytes());
    put_varint(&mut out, commit.upsert.len() as u64);
    for entry in &commit.upsert {
        put_entry(&mut out, entry);
    }
    put_varint(&mut out, commit.remove.len() as u64);
    for id in &commit.remove {
        out.extend_from_slice(&id.0.to_bytes());
    }
    put_names(&mut out, commit.subscribe.iter());
    put_names(&mut out, commit.unsubscribe.iter());
    out
}

/// Reads a list commit.
pub(crate) fn list_from(account: AccountId, content: &[u8]) -> Option<ListCommit> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    let (expected, version) = (ModSeq::new(read.u64()?)?, ModSeq::new(read.u64()?)?);
    let uid_validity_last = read.u32()?;
    let name = |read: &mut Octets<'_>| MailboxName::new(read.text()?).ok();
    let upsert: Vec<MailboxEntry> = many(&mut read, read_entry)?;
    let remove = many(&mut read, |read| Some(MailboxId(read.id()?)))?;
    let subscribe = many(&mut read, name)?;
    let unsubscribe = many(&mut read, name)?;
    let commit =
        ListCommit { account, expected, version, upsert, remove, subscribe, unsubscribe, uid_validity_last };
    read.is_empty().then_some(commit)
}

/// Writes a directory change.
pub(crate) fn directory_content(change: &DirectoryChange) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend_from_slice(&change.expected.to_le_bytes());
    put_counted(&mut out, change.name.as_bytes());
    out.push(u8::from(change.value.is_some()));
    out.extend_from_slice(change.value.as_deref().unwrap_or_default());
    out
}

/// Reads a directory change.
pub(crate) fn directory_from(content: &[u8]) -> Option<DirectoryChange> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    let expected = read.u64()?;
    let name = directory_name(&mut read)?;
    let present = read.u8()? != 0;
    let value = present.then(|| bytes::Bytes::copy_from_slice(read.0));
    Some(DirectoryChange { name, expected, value })
}

/// Reads the name of a directory record. LMDB refuses other keys, and a rebuild would end.
pub(crate) fn directory_name(read: &mut Octets<'_>) -> Option<String> {
    let name = read.text()?;
    (1..=NAME_MAX).contains(&name.len()).then(|| name.to_owned())
}

/// Writes the permanent end of a pack that was abandoned or cut.
pub(crate) fn abandon_content(pack: u32, end: u64) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend_from_slice(&pack.to_le_bytes());
    out.extend_from_slice(&end.to_le_bytes());
    out
}

/// Reads the permanent end of a pack.
pub(crate) fn abandon_from(content: &[u8]) -> Option<PackOffset> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    Some(PackOffset { pack: pack_number(&mut read)?, offset: read.u64()? })
}

/// Reads the number of a pack.
pub(crate) fn pack_number(read: &mut Octets<'_>) -> Option<u32> {
    read.u32().filter(|number| *number <= PACK_MAX)
}

/// Writes the number of a retired pack.
pub(crate) fn retire_content(pack: u32) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend_from_slice(&pack.to_le_bytes());
    out
}

/// Reads the number of a retired pack.
pub(crate) fn retire_from(content: &[u8]) -> Option<u32> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    pack_number(&mut read)
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, UidValidity};
    use posthaste_store::{Content, NewMessage};

    use super::*;

    fn row(uid: u32, flags: FlagSet, modseq: u64) -> Row {
        Row::new(Uid::new(uid).unwrap(), 5, 6, flags, ModSeq::new(modseq).unwrap())
    }

    #[test]
    fn a_mailbox_commit_comes_back() {
        // A new message with the mod-sequence 4 came with this commit, with an earlier one, or
        // nobody knows. Then others were changed in the same commit.
        for (version, changed, created) in [(1, 4, 4), (2, 4, 3), (2, 4, 0), (1, 5, 4), (2, 5, 0)] {
            comes_back(version, (changed, changed), ModSeq::new(created).unwrap());
        }
        // All rows of a transfer are older than the head.
        for (version, created) in [(2, 4), (2, 3), (1, 0)] {
            comes_back(version, (4, 5), ModSeq::new(created).unwrap());
        }
    }

    /// `changed`: the mod-sequence of changed rows. `head`: that of the head.
    fn comes_back(version: u8, (changed, head): (u64, u64), created: ModSeq) {
        let new = row(30, FlagSet::EMPTY, 4);
        let content = Content::New { bytes: bytes::Bytes::new(), summary: bytes::Bytes::new() };
        let body = BodyId(Id::new(1, 2));
        let commit = MailboxCommit {
            mailbox: MailboxId(Id::new(1, 1)),
            expected: ModSeq::new(3).unwrap(),
            head: MailboxHead { modseq: ModSeq::new(head).unwrap(), ..MailboxHead::default() },
            appended: vec![NewMessage { row: new, body, saved: 9, created, content }],
            changed: (1..20)
                .map(|n| row(n, if n % 2 == 0 { FlagSet::SEEN } else { FlagSet::DRAFT }, changed))
                .collect(),
            expunged: vec![(ModSeq::new(4).unwrap(), NumSet::range(21, 29))],
        };
        let bytes = mailbox_content(&commit);
        assert_eq!(bytes[0], version);
        let back = mailbox_from(&bytes).unwrap();
        assert_eq!((back.expected, back.head.clone()), (commit.expected, commit.head));
        let arrival = Arrival { body, saved: 9, created };
        assert_eq!(back.appended, [LoggedMessage { row: new, arrival }]);
        assert_eq!(back.changed.len(), 2);
        let flags = |rows: &[Row]| rows.iter().map(|r| (r.uid(), r.flags(), r.modseq())).collect::<Vec<_>>();
        assert_eq!(flags(&back.changed_rows(19).unwrap()), flags(&commit.changed));
        assert_eq!(back.expunged, commit.expunged);
        for cut in 0..bytes.len() {
            assert!(mailbox_from(&bytes[..cut]).is_none());
        }
    }

    /// Each set of a few bytes would get all ranges of the mailbox.
    #[test]
    fn changes_of_messages_that_are_there_are_counted() {
        let there: NumSet = (1..=1000).map(|n| 2 * n).collect();
        let change = |from, to| (FlagSet::SEEN, ModSeq::ZERO.next(), NumSet::range(from, to));
        let mut logged = LoggedMailbox {
            expected: ModSeq::ZERO,
            head: MailboxHead::default(),
            appended: Vec::new(),
            changed: vec![change(1, 1000), change(1001, u32::MAX), change(5, 5)],
            expunged: Vec::new(),
        };
        assert!(logged.changes_within(&there));
        assert_eq!(logged.changed_count(), 1000);
        logged.changed = vec![change(1, u32::MAX); 100];
        assert!(!logged.changes_within(&there));
        let ranges = logged.changed.iter().map(|(_, _, set)| set.ranges().len());
        assert!(ranges.sum::<usize>() < 2100, "the first two sets were made");
    }

    /// A count of a few bytes reserved a value for each byte that follows.
    #[test]
    fn a_count_reserves_little_memory() {
        let mut content = Vec::new();
        put_varint(&mut content, u64::from(u32::MAX));
        content.resize(1 << 24, 0);
        let read: Option<Vec<[u64; 1 << 13]>> = many(&mut Octets(&content), |_| None);
        assert!(read.is_none());
    }

    /// Each UID would take a row of memory.
    #[test]
    fn a_change_of_more_messages_than_there_are_is_refused() {
        let change = |from, to| (FlagSet::SEEN, ModSeq::ZERO.next(), NumSet::range(from, to));
        let mut logged = LoggedMailbox {
            expected: ModSeq::ZERO,
            head: MailboxHead::default(),
            appended: Vec::new(),
            changed: vec![change(1, 4), change(7, 7)],
            expunged: Vec::new(),
        };
        assert_eq!(logged.changed_rows(5).map(|rows| rows.len()), Some(5));
        assert_eq!(logged.changed_rows(4).map(|rows| rows.len()), None);
        logged.changed.extend([change(1, u32::MAX), change(1, u32::MAX)]);
        assert_eq!(logged.changed_rows(1_000_000).map(|rows| rows.len()), None);
    }

    #[test]
    fn lists_directory_and_abandoned_ends_come_back() {
        let name = |n: &str| MailboxName::new(n).unwrap();
        let commit = ListCommit {
            account: AccountId(Id::new(2, 2)),
            expected: ModSeq::ZERO,
            version: ModSeq::new(1).unwrap(),
            upsert: vec![MailboxEntry {
                id: MailboxId(Id::new(1, 1)),
                name: name("a"),
                uid_validity: UidValidity::MIN,
                special_use: None,
            }],
            remove: vec![MailboxId(Id::new(1, 9))],
            subscribe: vec![name("a"), name("b")],
            unsubscribe: vec![name("c")],
            uid_validity_last: 8,
        };
        let back = list_from(commit.account, &list_content(&commit)).unwrap();
        assert_eq!(format!("{back:?}"), format!("{commit:?}"));
        for value in [None, Some(bytes::Bytes::from_static(b"v"))] {
            let change = DirectoryChange { name: "account/x".into(), expected: 3, value };
            let back = directory_from(&directory_content(&change)).unwrap();
            assert_eq!(format!("{back:?}"), format!("{change:?}"));
        }
        assert_eq!(abandon_from(&abandon_content(3, 99)), Some(PackOffset { pack: 3, offset: 99 }));
        assert_eq!(retire_from(&retire_content(7)), Some(7));
    }

    /// A forged name or number ended a rebuild: the index has no such keys.
    #[test]
    fn names_and_numbers_that_the_index_cannot_have_are_refused() {
        let named = |len| {
            let change = DirectoryChange { name: "n".repeat(len), expected: 0, value: None };
            directory_from(&directory_content(&change)).is_some()
        };
        assert_eq!([0, 1, NAME_MAX, NAME_MAX + 1].map(named), [false, true, true, false]);
        assert_eq!(retire_from(&retire_content(PACK_MAX)), Some(PACK_MAX));
        assert_eq!(retire_from(&retire_content(PACK_MAX + 1)), None);
        assert_eq!(abandon_from(&abandon_content(u32::MAX, 64)), None);
    }
}
