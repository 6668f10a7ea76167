//! Rows in column chunks: reading, editing and appending them inside a transaction.
//!
//! A change costs a look-up and one page per chunk it touches, whatever the size of the mailbox.
//! Chunks that shrink below a quarter are joined to the one before, so that a thinned-out mailbox
//! does not keep its old number of chunks.

use heed::RoTxn;
use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_store::{Result, Row, StoreError};

use crate::index::chunk::{self, ROWS_MAX, UidKey, number, uid_key, uid_of};
use crate::index::{Index, Indexed, Writing, between, damaged};

/// Rows below which a chunk is joined to the one before, if both together stay under three quarters
/// of [`ROWS_MAX`].
const JOIN_BELOW: usize = ROWS_MAX / 4;

fn damaged_chunk(mailbox: MailboxId, low: u32) -> StoreError {
    StoreError::Corrupt(format!("rows of mailbox {mailbox} from UID {low}"))
}

/// Reads one chunk into `rows`, which is emptied first.
pub(crate) fn read_chunk(mailbox: MailboxId, low: u32, value: &[u8], rows: &mut Vec<Row>) -> Result<()> {
    rows.clear();
    chunk::decode(mailbox, low, value, rows).ok_or_else(|| damaged_chunk(mailbox, low))
}

/// A chunk of a mailbox, borrowed from the map.
pub(crate) struct Chunk<'t> {
    mailbox: MailboxId,
    /// The UID of its key.
    pub(crate) low: u32,
    value: &'t [u8],
}

impl Chunk<'_> {
    /// Appends its rows to `rows`.
    pub(crate) fn add_rows(&self, rows: &mut Vec<Row>) -> Result<()> {
        let Self { mailbox, low, value } = *self;
        chunk::decode(mailbox, low, value, rows).ok_or_else(|| damaged_chunk(mailbox, low))
    }

    /// The highest mod-sequence of its rows.
    pub(crate) fn modseq_max(&self) -> Result<ModSeq> {
        let Self { mailbox, low, value } = *self;
        chunk::modseq_max(mailbox, low, value).ok_or_else(|| damaged_chunk(mailbox, low))
    }
}

/// The chunks of a mailbox in UID order.
pub(crate) fn chunks<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
) -> Result<impl Iterator<Item = Result<Chunk<'t>>> + use<'t>> {
    let records = index.rows.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()?;
    Ok(records.map(move |item| chunk_from(mailbox, item)))
}

/// The chunks of a mailbox, in UID order, whose keys have at least this UID.
pub(super) fn chunks_from<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    from: u32,
) -> Result<impl Iterator<Item = Result<Chunk<'t>>> + use<'t>> {
    let (from, to) = (uid_key(mailbox, from), uid_key(mailbox, u32::MAX));
    let records = index.rows.range(txn, &between(&from, &to)).indexed()?;
    Ok(records.map(move |item| chunk_from(mailbox, item)))
}

#[inline]
fn chunk_from<'t>(mailbox: MailboxId, item: heed::Result<(&'t [u8], &'t [u8])>) -> Result<Chunk<'t>> {
    let (key, value) = item.indexed()?;
    let low = uid_of(mailbox, key).ok_or_else(damaged("key of a chunk"))?;
    Ok(Chunk { mailbox, low, value })
}

/// Whether a mailbox has rows.
pub(super) fn has_any(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<bool> {
    Ok(index.rows.prefix_iter(txn, &mailbox.0.to_bytes()).indexed()?.next().is_some())
}

/// Messages that a mailbox has at most: as many as its chunks can hold.
pub(crate) fn count_max(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<u64> {
    chunks(index, txn, mailbox)?.try_fold(0, |most, chunk| chunk.map(|_| most + ROWS_MAX as u64))
}

/// The UIDs of the messages of a mailbox.
pub(crate) fn uids(index: &Index, txn: &RoTxn, mailbox: MailboxId) -> Result<NumSet> {
    let (mut rows, mut uids) = (Vec::new(), NumSet::new());
    for chunk in chunks(index, txn, mailbox)? {
        rows.clear();
        chunk?.add_rows(&mut rows)?;
        rows.iter().for_each(|row| uids.push(number(row)));
    }
    Ok(uids)
}

/// The number of chunks of all mailboxes.
pub(crate) fn count(index: &Index, txn: &RoTxn) -> Result<u64> {
    index.rows.len(txn).indexed()
}

/// Deletes all rows of a mailbox.
pub(crate) fn remove_all(index: &Index, txn: &mut Writing, mailbox: MailboxId) -> Result<()> {
    let (low, high) = (uid_key(mailbox, 0), uid_key(mailbox, u32::MAX));
    index.rows.delete_range(txn, &between(&low, &high)).indexed().map(drop)
}

/// The chunk that has `uid` if it exists.
pub(crate) fn chunk_of<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    uid: u32,
) -> Result<Option<(u32, &'t [u8])>> {
    let found = index.rows.get_lower_than_or_equal_to(txn, &uid_key(mailbox, uid)).indexed()?;
    Ok(found.and_then(|(key, value)| Some((uid_of(mailbox, key)?, value))))
}

/// The first chunk whose low UID is above `uid`.
fn chunk_after<'t>(
    index: &Index,
    txn: &'t RoTxn,
    mailbox: MailboxId,
    uid: u32,
) -> Result<Option<(u32, &'t [u8])>> {
    let found = index.rows.get_greater_than(txn, &uid_key(mailbox, uid)).indexed()?;
    Ok(found.and_then(|(key, value)| Some((uid_of(mailbox, key)?, value))))
}

/// Looks rows up by UID; ascending UIDs read each chunk once.
pub(crate) struct RowWalk {
    mailbox: MailboxId,
    rows: Vec<Row>,
}

impl RowWalk {
    pub(crate) fn new(mailbox: MailboxId) -> Self {
        Self { mailbox, rows: Vec::new() }
    }

    pub(crate) fn mailbox(&self) -> MailboxId {
        self.mailbox
    }

    /// The row of a UID.
    pub(crate) fn find(&mut self, index: &Index, txn: &RoTxn, uid: u32) -> Result<Option<Row>> {
        let covered = self.rows.first().is_some_and(|r| number(r) <= uid)
            && self.rows.last().is_some_and(|r| number(r) >= uid);
        if !covered {
            self.rows.clear();
            if let Some((low, value)) = chunk_of(index, txn, self.mailbox, uid)? {
                read_chunk(self.mailbox, low, value, &mut self.rows)?;
            }
        }
        let at = self.rows.binary_search_by_key(&uid, number);
        Ok(at.ok().and_then(|i| self.rows.get(i)).copied())
    }
}

/// The lowest number of a set at or above `from`.
fn next_in(set: &NumSet, from: u32) -> Option<u32> {
    let at = set.ranges().partition_point(|r| r.1 < from);
    set.ranges().get(at).map(|r| r.0.max(from))
}

/// Buffers that the edits of one transaction share.
#[derive(Default)]
pub(crate) struct Scratch {
    rows: Vec<Row>,
    joined: Vec<Row>,
    pub(crate) bytes: Vec<u8>,
}

/// Changes flags and mod-sequences of the rows in `changed` and removes those of `expunged`. A
/// UID in `expunged` without a row is ignored; one in `changed` is a fault.
pub(crate) fn edit(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    mut changed: &[Row],
    expunged: &NumSet,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut from = 0;
    loop {
        let next = [changed.first().map(number), next_in(expunged, from)].into_iter().flatten().min();
        let Some(target) = next else { return Ok(()) };
        let found = match chunk_of(index, txn, mailbox, target)? {
            Some(found) => Some(found),
            None => chunk_after(index, txn, mailbox, target)?,
        };
        let Some((low, value)) = found else { return no_row_left(mailbox, changed) };
        let stored = chunk::stored_rows(mailbox, low, value).filter(|rows| rows.iter().all(is_valid));
        let stored = stored.ok_or_else(|| damaged_chunk(mailbox, low))?;
        let last = stored.last().map_or(0, |row| Row::numbers_in(row).0);
        if last < target {
            // Between two chunks, or past the last one: nothing is there.
            if changed.first().is_some_and(|r| number(r) == target) {
                return no_row_left(mailbox, changed);
            }
            let Some((after, _)) = chunk_after(index, txn, mailbox, target)? else {
                return no_row_left(mailbox, changed);
            };
            from = after;
            continue;
        }
        let (here, later) = changed.split_at(changed.partition_point(|row| number(row) <= last));
        if next_in(expunged, target).is_none_or(|uid| uid > last) {
            // All rows stay, so that the others need not be read.
            match chunk::encode_changed(mailbox, low, stored, here, &mut scratch.bytes) {
                Ok(()) => index.rows.put(txn, &uid_key(mailbox, low), &scratch.bytes).indexed()?,
                Err(lacked) => return no_row_left(mailbox, std::slice::from_ref(lacked)),
            }
        } else {
            scratch.rows.clear();
            scratch.rows.extend(stored.iter().map_while(Row::from_bytes));
            change_rows(mailbox, &mut scratch.rows, here)?;
            let before = scratch.rows.len();
            scratch.rows.retain(|row| !expunged.contains(number(row)));
            let shrunk = scratch.rows.len() < before;
            store(index, txn, mailbox, low, shrunk, scratch)?;
        }
        changed = later;
        match last.checked_add(1) {
            Some(next) => from = next,
            None => return no_row_left(mailbox, changed),
        }
    }
}

fn no_row_left(mailbox: MailboxId, changed: &[Row]) -> Result<()> {
    changed.first().map_or(Ok(()), |row| {
        Err(StoreError::Corrupt(format!("mailbox {mailbox} has no row of UID {}", row.uid())))
    })
}

/// Whether a row has a UID and a mod-sequence, as [`Row::from_bytes`] requires.
fn is_valid(row: &[u8; Row::LEN]) -> bool {
    let (uid, modseq) = Row::numbers_in(row);
    uid > 0 && ModSeq::new(modseq).is_some()
}

/// Applies changes to these rows, which have all of them.
fn change_rows(mailbox: MailboxId, rows: &mut [Row], changed: &[Row]) -> Result<()> {
    let mut at = 0;
    for change in changed {
        let uid = number(change);
        // Mostly the very next row; never before the one changed last.
        at += rows[at..].iter().position(|r| number(r) >= uid).unwrap_or(rows.len() - at);
        match rows.get_mut(at) {
            Some(row) if number(row) == uid => *row = row.with_flags(change.flags(), change.modseq()),
            _ => return no_row_left(mailbox, std::slice::from_ref(change)),
        }
    }
    Ok(())
}

/// Writes back an edited chunk: removed if it is empty, joined to the one before if it has become
/// small.
fn store(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    low: u32,
    shrunk: bool,
    scratch: &mut Scratch,
) -> Result<()> {
    let key = uid_key(mailbox, low);
    let Scratch { rows, joined, bytes } = scratch;
    if rows.is_empty() {
        index.rows.delete(txn, &key).indexed()?;
        return Ok(());
    }
    if shrunk && rows.len() < JOIN_BELOW {
        let before = index.rows.get_lower_than(txn, &key).indexed()?;
        if let Some((before, value)) = before.and_then(|(k, v)| Some((uid_of(mailbox, k)?, v))) {
            read_chunk(mailbox, before, value, joined)?;
            if joined.len() + rows.len() <= ROWS_MAX * 3 / 4 {
                joined.extend_from_slice(rows);
                chunk::encode(mailbox, before, joined, bytes);
                index.rows.delete(txn, &key).indexed()?;
                return index.rows.put(txn, &uid_key(mailbox, before), bytes).indexed();
            }
        }
    }
    chunk::encode(mailbox, low, rows, bytes);
    index.rows.put(txn, &key, bytes).indexed()
}

/// Adds rows above all existing ones.
pub(crate) fn append(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    new: impl Iterator<Item = Row>,
    scratch: &mut Scratch,
) -> Result<()> {
    let mut new = new.peekable();
    let Some(first) = new.peek().map(number) else { return Ok(()) };
    let rows = &mut scratch.rows;
    rows.clear();
    let mut low = first;
    if let Some((last_low, value)) = chunk_of(index, txn, mailbox, u32::MAX)? {
        read_chunk(mailbox, last_low, value, rows)?;
        if rows.last().is_some_and(|r| number(r) >= first) {
            return Err(damaged(format_args!("mailbox {mailbox} has rows above its UIDNEXT"))());
        }
        if rows.len() < ROWS_MAX { low = last_low } else { rows.clear() }
    }
    for row in new {
        if rows.len() == ROWS_MAX {
            put(index, txn, mailbox, low, rows, &mut scratch.bytes)?;
            rows.clear();
            low = number(&row);
        }
        rows.push(row);
    }
    put(index, txn, mailbox, low, rows, &mut scratch.bytes)
}

fn put(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    low: u32,
    rows: &[Row],
    bytes: &mut Vec<u8>,
) -> Result<()> {
    chunk::encode(mailbox, low, rows, bytes);
    let key: UidKey = uid_key(mailbox, low);
    index.rows.put(txn, &key, bytes).indexed()
}
