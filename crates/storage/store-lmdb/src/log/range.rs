//! The content of a checkpoint of a range: every row of one table of the index between two keys,
//! at a sequence number.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | 1, the version of this content |
//! | 1–8 | it contains all records about the range before this sequence number |
//! | … | the first key of the range: length as a varint, table (1), key |
//! | … | the first key after the range, in the same encoding |
//! | … | the rows, in the order of their keys |
//!
//! | table | key | row |
//! | --- | --- | --- |
//! | 1 packs | none | retired packs as a set · for each sealed pack: pack (4), end (8) |
//! | 2 removed mailboxes | mailbox | mailbox (16) |
//! | 3 mailbox lists | account | account (16) · the list, see `put_list` |
//! | 4 directory | name | name · version (8) · length of the content as a varint, content |
//!
//! A key without a row does not exist. So the record of its removal is dead.

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, ModSeq, NumSet};
use posthaste_store::octets::{Octets, put_counted, put_set, put_varint};
use posthaste_store::{DirectoryEntry, MailboxEntry, MailboxList};

use crate::index::lists::{put_entry, read_entry};
use crate::log::entry::{directory_name, many, pack_number, put_names};
use crate::log::{PACK_MAX, PackOffset};

/// The version of the content.
const VERSION: u8 = 1;

/// A table with checkpoints of ranges in the log. The log has these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Table {
    /// Retired packs, and the ends of sealed packs.
    Packs = 1,
    /// The ids of removed mailboxes.
    Removed = 2,
    /// Mailbox lists.
    Lists = 3,
    /// The directory.
    Directory = 4,
}

impl Table {
    pub(crate) const ALL: [Self; 4] = [Self::Packs, Self::Removed, Self::Lists, Self::Directory];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|table| *table as u8 == byte)
    }
}

/// A position in the order of all tables and their keys: the table's number, then the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyPosition(pub(crate) Vec<u8>);

impl KeyPosition {
    /// Before every key of a table.
    pub(crate) fn start_of(table: Table) -> Self {
        Self(vec![table as u8])
    }

    /// After every key of a table.
    pub(crate) fn end_of(table: Table) -> Self {
        Self(vec![table as u8 + 1])
    }

    /// A key of a table.
    pub(crate) fn of(table: Table, key: &[u8]) -> Self {
        Self([&[table as u8], key].concat())
    }

    /// The table; none after the last one.
    pub(crate) fn table(&self) -> Option<Table> {
        Table::from_byte(*self.0.first()?)
    }

    /// The key in its table. Call it only for a position that has a key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0[1..]
    }
}

/// The rows of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rows {
    Packs(Packs),
    Removed(Vec<MailboxId>),
    Lists(Vec<MailboxList>),
    Directory(Vec<DirectoryEntry>),
}

/// The values about packs in the index that come from records of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Packs {
    /// Packs whose files may be missing.
    pub(crate) retired: NumSet,
    /// Sealed packs, each with its end.
    pub(crate) sealed: Vec<PackOffset>,
}

/// A checkpoint of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeCheckpoint {
    pub(crate) upto: u64,
    pub(crate) from: KeyPosition,
    /// The first position after the range.
    pub(crate) to: KeyPosition,
    pub(crate) rows: Rows,
}

/// Writes a content: the header, then the encoded rows.
pub(crate) fn content(upto: u64, from: &KeyPosition, to: &KeyPosition, rows: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + from.0.len() + to.0.len() + rows.len());
    out.push(VERSION);
    out.extend_from_slice(&upto.to_le_bytes());
    put_counted(&mut out, &from.0);
    put_counted(&mut out, &to.0);
    out.extend_from_slice(rows);
    out
}

/// Writes the values of the table of packs.
pub(crate) fn put_packs(out: &mut Vec<u8>, packs: &Packs) {
    put_set(out, &packs.retired);
    for PackOffset { pack, offset } in &packs.sealed {
        out.extend_from_slice(&pack.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
    }
}

/// Writes a mailbox list.
pub(crate) fn put_list(out: &mut Vec<u8>, list: &MailboxList) {
    out.extend_from_slice(&list.account.0.to_bytes());
    out.extend_from_slice(&list.version.value().to_le_bytes());
    out.extend_from_slice(&list.uid_validity_last.to_le_bytes());
    put_varint(out, list.entries.len() as u64);
    list.entries.iter().for_each(|entry| put_entry(out, entry));
    put_names(out, list.subscribed.iter());
}

/// Writes a record of the directory.
pub(crate) fn put_record(out: &mut Vec<u8>, name: &[u8], version: u64, value: &[u8]) {
    put_counted(out, name);
    out.extend_from_slice(&version.to_le_bytes());
    put_counted(out, value);
}

/// Reads a content.
pub(crate) fn from_content(content: &[u8]) -> Option<RangeCheckpoint> {
    let mut read = Octets(content);
    if read.u8()? != VERSION {
        return None;
    }
    let upto = read.u64()?;
    let (from, to) = (KeyPosition(read.counted()?.to_vec()), KeyPosition(read.counted()?.to_vec()));
    let table = from.table()?;
    if to <= from || to > KeyPosition::end_of(table) {
        return None;
    }
    let rows = match table {
        Table::Packs => Rows::Packs(packs(&mut read)?),
        Table::Removed => Rows::Removed(rows(&mut read, |read| Some(MailboxId(read.id()?)))?),
        Table::Lists => Rows::Lists(rows(&mut read, list)?),
        Table::Directory => Rows::Directory(rows(&mut read, record)?),
    };
    Some(RangeCheckpoint { upto, from, to, rows })
}

/// Rows up to the end of the content.
fn rows<'a, T>(read: &mut Octets<'a>, one: impl Fn(&mut Octets<'a>) -> Option<T>) -> Option<Vec<T>> {
    let mut rows = Vec::new();
    while !read.is_empty() {
        rows.push(one(read)?);
    }
    Some(rows)
}

fn packs(read: &mut Octets<'_>) -> Option<Packs> {
    let retired = read.set().filter(|set| set.last() <= Some(PACK_MAX))?;
    let sealed = rows(read, |read| Some(PackOffset { pack: pack_number(read)?, offset: read.u64()? }))?;
    Some(Packs { retired, sealed })
}

fn list(read: &mut Octets<'_>) -> Option<MailboxList> {
    let account = AccountId(read.id()?);
    let (version, uid_validity_last) = (ModSeq::new(read.u64()?)?, read.u32()?);
    let entries: Vec<MailboxEntry> = many(read, read_entry)?;
    let subscribed = many(read, |read| MailboxName::new(read.text()?).ok())?;
    let subscribed = subscribed.into_iter().collect();
    Some(MailboxList { account, version, entries, subscribed, uid_validity_last })
}

fn record(read: &mut Octets<'_>) -> Option<DirectoryEntry> {
    let name = directory_name(read)?;
    let version = read.u64()?;
    Some(DirectoryEntry { name, version, value: Bytes::copy_from_slice(read.counted()?) })
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, UidValidity};

    use super::*;

    fn comes_back(from: KeyPosition, rows: Rows, written: &[u8]) {
        let to = KeyPosition::end_of(from.table().unwrap());
        let bytes = content(77, &from, &to, written);
        assert_eq!(from_content(&bytes), Some(RangeCheckpoint { upto: 77, from, to, rows }));
        // A cut may fall between two rows: the checksum of the record covers that.
        (0..bytes.len()).for_each(|cut| drop(from_content(&bytes[..cut])));
    }

    #[test]
    fn the_rows_of_every_table_come_back() {
        let packs = Packs {
            retired: NumSet::range(1, 9),
            sealed: vec![PackOffset { pack: 10, offset: 64 }, PackOffset { pack: 12, offset: u64::MAX }],
        };
        let mut out = Vec::new();
        put_packs(&mut out, &packs);
        comes_back(KeyPosition::start_of(Table::Packs), Rows::Packs(packs), &out);

        let ids = [MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2))];
        let out: Vec<u8> = ids.iter().flat_map(|id| id.0.to_bytes()).collect();
        comes_back(KeyPosition::start_of(Table::Removed), Rows::Removed(ids.to_vec()), &out);

        let entry = MailboxEntry {
            id: ids[0],
            name: MailboxName::new("a/ü").unwrap(),
            uid_validity: UidValidity::MIN,
            special_use: None,
        };
        let list = MailboxList {
            account: AccountId(Id::new(2, 2)),
            version: ModSeq::new(4).unwrap(),
            entries: vec![entry],
            subscribed: [MailboxName::new("b").unwrap()].into(),
            uid_validity_last: 9,
        };
        let mut out = Vec::new();
        put_list(&mut out, &list);
        comes_back(KeyPosition::of(Table::Lists, &[2; 16]), Rows::Lists(vec![list]), &out);

        let record = DirectoryEntry { name: "alias/ä".into(), version: 3, value: Bytes::from_static(b"x") };
        let mut out = Vec::new();
        put_record(&mut out, record.name.as_bytes(), 3, b"x");
        comes_back(KeyPosition::of(Table::Directory, b"al"), Rows::Directory(vec![record]), &out);
    }

    /// A forged name or number ended a rebuild: the index has no such keys.
    #[test]
    fn rows_that_the_index_cannot_have_are_refused() {
        let reads = |table, rows: &[u8]| {
            let (from, to) = (KeyPosition::start_of(table), KeyPosition::end_of(table));
            from_content(&content(1, &from, &to, rows)).is_some()
        };
        let packs = |retired, sealed| {
            let mut out = Vec::new();
            let sealed = vec![PackOffset { pack: sealed, offset: 64 }];
            put_packs(&mut out, &Packs { retired: NumSet::range(1, retired), sealed });
            reads(Table::Packs, &out)
        };
        assert!(packs(PACK_MAX, 9) && packs(8, PACK_MAX));
        assert!(!packs(u32::MAX, 9) && !packs(8, u32::MAX));
        let named = |len| {
            let mut out = Vec::new();
            put_record(&mut out, &vec![b'n'; len], 1, b"x");
            reads(Table::Directory, &out)
        };
        assert_eq!([0, 1, 400, 401].map(named), [false, true, true, false]);
    }

    #[test]
    fn a_range_lies_in_one_table_and_holds_something() {
        let start = KeyPosition::start_of(Table::Lists);
        for to in
            [start.clone(), KeyPosition::start_of(Table::Removed), KeyPosition::end_of(Table::Directory)]
        {
            assert_eq!(from_content(&content(1, &start, &to, &[])), None, "{to:?}");
        }
        assert!(from_content(&content(1, &start, &KeyPosition::end_of(Table::Lists), &[])).is_some());
        assert_eq!(from_content(&content(1, &KeyPosition(vec![9]), &KeyPosition(vec![10]), &[])), None);
    }
}
