//! The links to a message: found by the message, 64 UIDs at a time.

use std::ops::Bound;

use heed::RoTxn;
use posthaste_mail_model::{Id, MailboxId};
use posthaste_store::Result;

use crate::index::chunk::uid_key;
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};
use crate::index::summaries::record::{MailboxUid, Origin, is_link_to};
use crate::index::{Hex, Index, Indexed, Writing, between, damaged, summaries};

/// Origins of one note: the bits of a word.
pub(super) const WINDOW: u32 = u64::BITS;

#[cfg(test)]
thread_local! {
    /// Notes that this thread has read.
    pub(super) static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The links to some neighbouring messages of a mailbox: copies with consecutive UIDs in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkNote {
    /// The first origin.
    pub(super) first: Origin,
    /// The first copy.
    pub(super) copy: MailboxUid,
    /// Bit `i`: the origin `i` UIDs further on was copied, to the UID after that of the one before.
    copied: u64,
    /// The copies that still link, a bit each.
    pub(super) linked: u64,
}

impl LinkNote {
    pub(super) fn new(first: Origin, to: MailboxId, uid: u32) -> Self {
        Self { first, copy: (to, uid), copied: 1, linked: 1 }
    }

    /// Adds the next link; `false` if it needs another note.
    pub(super) fn takes(&mut self, (mailbox, uid): Origin, to: u32) -> bool {
        let at = uid.wrapping_sub(self.first.1);
        let fits = mailbox == self.first.0 && at < WINDOW && self.copied >> at == 0;
        if !fits || self.copy.1.checked_add(self.copied.count_ones()) != Some(to) {
            return false;
        }
        self.copied |= 1 << at;
        self.linked = self.copied;
        true
    }

    /// Origins and copies that still link, as UIDs.
    pub(super) fn links(self) -> impl Iterator<Item = (u32, u32)> {
        (0..WINDOW).filter(move |at| self.linked >> at & 1 != 0).map(move |at| {
            let before = (self.copied & ((1 << at) - 1)).count_ones();
            (self.first.1.saturating_add(at), self.copy.1.saturating_add(before))
        })
    }

    fn key(&self) -> NoteKey {
        note_key(self.first, self.copy)
    }

    /// Stores the note, or removes it if it is empty.
    pub(super) fn put(&self, index: &Index, txn: &mut Writing) -> Result<()> {
        let key = self.key();
        if self.linked == 0 {
            return index.linked.delete(txn, &key).indexed().map(drop);
        }
        let mut value = open_value();
        value.extend_from_slice(&self.copied.to_le_bytes());
        value.extend_from_slice(&self.linked.to_le_bytes());
        index.linked.put(txn, &key, &seal(seed_of_key(&key), value)).indexed()
    }

    fn read(key: &[u8], value: &[u8]) -> Result<Self> {
        #[cfg(test)]
        READ.set(READ.get() + 1);
        let parts = || {
            let key: NoteKey = key.try_into().ok()?;
            let place = |at: usize| {
                let (id, uid) = key.get(at..at + 20)?.split_first_chunk::<16>()?;
                Some((MailboxId(Id::from_bytes(*id)), u32::from_be_bytes(uid.try_into().ok()?)))
            };
            let mut read = unseal(seed_of_key(&key), value)?;
            Some(Self { first: place(0)?, copy: place(20)?, copied: read.u64()?, linked: read.u64()? })
        };
        parts().ok_or_else(damaged(format_args!("note of links under {}", Hex(key))))
    }
}

/// Origin and copy: mailbox and UID of each.
type NoteKey = [u8; 40];

fn note_key(first: Origin, copy: MailboxUid) -> NoteKey {
    let mut key = [0; 40];
    key[..20].copy_from_slice(&uid_key(first.0, first.1));
    key[20..].copy_from_slice(&uid_key(copy.0, copy.1));
    key
}

/// Notes that are read at once. A message may have any number of copies, and work on them may end
/// after a few.
pub(super) const NOTES_AT_ONCE: usize = 256;

/// The next notes about UIDs of a range: the first ones, or those after a note.
pub(super) fn next_notes(
    index: &Index,
    txn: &RoTxn,
    (mailbox, low, high): (MailboxId, u32, u32),
    after: Option<&LinkNote>,
) -> Result<Vec<LinkNote>> {
    let (mut from, mut to) = ([0; 40], [0xff; 40]);
    from[..20].copy_from_slice(&uid_key(mailbox, low.saturating_sub(WINDOW - 1)));
    to[..20].copy_from_slice(&uid_key(mailbox, high));
    let begin = match after.map(LinkNote::key) {
        Some(last) => {
            from = last;
            Bound::Excluded(&from[..])
        }
        None => Bound::Included(&from[..]),
    };
    notes_in(index, txn, (begin, Bound::Included(&to[..])), NOTES_AT_ONCE)
}

/// Those of the notes about UIDs of a range that name copies in another range. Copies elsewhere
/// are passed, since origins may have any number of them.
pub(super) fn notes_to(
    index: &Index,
    txn: &RoTxn,
    (mailbox, low, high): (MailboxId, u32, u32),
    (to, copied, last): (MailboxId, u32, u32),
) -> Result<Vec<LinkNote>> {
    let (mut notes, mut next) = (Vec::new(), low.saturating_sub(WINDOW - 1));
    let end = note_key((mailbox, high), (MailboxId(Id::from_bytes([0xff; 16])), u32::MAX));
    loop {
        // The next UID with which notes begin.
        let mut from = [0; 40];
        from[..20].copy_from_slice(&uid_key(mailbox, next));
        let first = index.linked.range(txn, &between(&from, &end)).indexed()?.next();
        let Some(first) = first.transpose().indexed()? else { return Ok(notes) };
        let first = LinkNote::read(first.0, first.1)?.first;
        let begin = note_key(first, (to, copied.saturating_sub(WINDOW - 1)));
        let end_of_first = note_key(first, (to, last));
        notes.append(&mut notes_in(index, txn, between(&begin, &end_of_first), usize::MAX)?);
        match first.1.checked_add(1) {
            Some(after) if after <= high => next = after,
            _ => return Ok(notes),
        }
    }
}

fn notes_in(
    index: &Index,
    txn: &RoTxn,
    keys: (Bound<&[u8]>, Bound<&[u8]>),
    most: usize,
) -> Result<Vec<LinkNote>> {
    let there = index.linked.range(txn, &keys).indexed()?.take(most);
    there.map(|item| item.indexed().and_then(|(key, value)| LinkNote::read(key, value))).collect()
}

/// Reads any bytes as a note.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any(key: &[u8], value: &[u8]) {
    if let Ok(note) = LinkNote::read(key, value) {
        assert!(note.links().count() <= WINDOW as usize);
    }
}

/// The number of links in all notes. A noted link that does not exist is a fault.
pub(crate) fn noted(index: &Index, txn: &RoTxn, faults: &mut Vec<String>) -> Result<u64> {
    let mut count = 0;
    for item in index.linked.iter(txn).indexed()? {
        let (key, value) = item.indexed()?;
        let note = LinkNote::read(key, value)?;
        for (at, uid) in note.links() {
            let ((from, _), (mailbox, _)) = (note.first, note.copy);
            let value = summaries::record(index, txn, mailbox, uid)?;
            if value.is_some_and(|value| is_link_to(value, (from, at))) {
                count += 1;
            } else {
                faults
                    .push(format!("UID {uid} of mailbox {mailbox} is no copy of UID {at} of mailbox {from}"));
            }
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_distinguishes_origins_and_copies() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let mut note = LinkNote::new((a, 10), b, 100);
        assert!(note.takes((a, 12), 101) && note.takes((a, 73), 102));
        assert!(!note.takes((a, 74), 103), "beyond the window");
        assert!(!note.takes((a, 73), 103) && !note.takes((a, 11), 103), "origins rise");
        assert!(!note.takes((b, 73), 103) && !LinkNote::new((a, 10), b, 100).takes((a, 11), 102));
        assert!(note.links().eq([(10, 100), (12, 101), (73, 102)]));
        note.linked &= !(1 << 2);
        assert!(note.links().eq([(10, 100), (73, 102)]), "the others keep their places");
    }
}
