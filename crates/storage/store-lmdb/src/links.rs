//! Copies that have their summary where the message has it from which they were copied.
//!
//! COPY of many neighbours writes no summaries but *links*: records of 48 bytes that name the message whose summary is theirs, the
//! *origin*. A copy of a copy links to its origin at once, so that there is one step at most. Reading follows links with a second cursor
//! that walks along the origins, which are neighbours too, or there would be no links.
//!
//! Beside the links lie *notes*, found by the origins: before maintenance removes an origin, those that link to it are given summaries of
//! their own ([`detach`]). A note speaks of 64 UIDs at most, so that those of an origin are found in one short walk, however many there are.

use heed::{RoRange, RoTxn, RwTxn, WithoutTls};
use posthaste_mail_model::{BodyId, Id, MailboxId};
use posthaste_store::{NewMessage, Result, StoreError};
use std::ops::Range;

use crate::ahead::ask_ahead;
use crate::chunk::{uid_key, uid_of};
use crate::index::{Index, Indexed, between, damaged};
use crate::proven::{self, Proven};
use crate::sum::seed;
use crate::values::{
    Kept, is_summary_good, open_value, put_link, put_summary, seal, seed_of_key, summary_from, summary_parts,
    unseal,
};

/// The message that has a summary: its mailbox and UID.
pub(crate) type Origin = (MailboxId, u32);

/// UIDs walked over for want of a jump: a step costs some 30 ns, a jump some 400.
pub(crate) const GAP: u32 = 12;

/// Origins of one note: the bits of a word.
const WINDOW: u32 = u64::BITS;

/// Splits messages into runs in one mailbox, UIDs there rising, none far from the one before: what one cursor walks along.
pub(crate) fn runs(of: &[Origin]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = of.get(start..).filter(|rest| !rest.is_empty())?;
        let follows = |pair: &&[Origin]| {
            let ((a, low), (b, high)) = (pair[0], pair[1]);
            a == b && low < high && high - low <= GAP
        };
        let run = start..start + 1 + rest.windows(2).take_while(follows).count();
        start = run.end;
        Some(run)
    })
}

/// Appends to `origins` those of a run of messages that are copied: the message itself, or what it links to. `found` is called with
/// each body.
pub(crate) fn origins_of(
    index: &Index,
    txn: &RoTxn,
    run: &[Origin],
    bodies: impl Iterator<Item = BodyId>,
    origins: &mut Vec<Origin>,
) -> Result<()> {
    let (Some(&(from, low)), Some(&(_, high))) = (run.first(), run.last()) else { return Ok(()) };
    let (low, high) = (uid_key(from, low), uid_key(from, high));
    let mut there = index.summaries.range(txn, &between(&low, &high)).indexed()?;
    for (&(_, uid), body) in run.iter().zip(bodies) {
        let value = next_of(&mut there, from, uid)?;
        // What a summary of its own says is proved by whoever reads it; a link is copied, and so proved now.
        let found = match summary_parts(value).ok_or_else(bad(from, uid))? {
            link if link.kept.elsewhere().is_some() => {
                summary_from(seed(from.0), uid, value).ok_or_else(bad(from, uid))?
            }
            own => own,
        };
        if found.body != body {
            return Err(StoreError::Refused("a copy must name the body of its source"));
        }
        origins.push(found.kept.elsewhere().unwrap_or((from, uid)));
    }
    Ok(())
}

/// The record of a UID, which the walk has not passed yet.
fn next_of<'t>(there: &mut Records<'t>, mailbox: MailboxId, uid: u32) -> Result<&'t [u8]> {
    loop {
        let (key, value) = there.next().ok_or_else(bad(mailbox, uid))?.indexed()?;
        match uid_of(mailbox, key) {
            Some(at) if at == uid => return Ok(value),
            Some(at) if at < uid => {}
            _ => return Err(bad(mailbox, uid)()),
        }
    }
}

type Records<'t> = RoRange<'t, heed::types::Bytes, heed::types::Bytes>;

fn bad(mailbox: MailboxId, uid: u32) -> impl FnOnce() -> StoreError {
    move || damaged(format_args!("summary of UID {uid} in mailbox {mailbox}"))()
}

/// Puts a run of copies as links to their origins, and the notes of them.
pub(crate) fn put_links(
    index: &Index,
    txn: &mut RwTxn,
    to: MailboxId,
    copies: &[NewMessage],
    origins: &[Origin],
) -> Result<()> {
    let (own, mut value) = (seed(to.0), Vec::new());
    let mut note: Option<Note> = None;
    for (message, &origin) in copies.iter().zip(origins) {
        let uid = message.row.uid().value();
        put_link(&mut value, own, uid, message.body, message.saved, origin);
        index.summaries.put(txn, &uid_key(to, uid), &value).indexed()?;
        if !note.as_mut().is_some_and(|note| note.takes(origin, uid)) {
            let full = note.replace(Note::new(origin, to, uid));
            full.map_or(Ok(()), |full| full.put(index, txn))?;
        }
    }
    note.map_or(Ok(()), |last| last.put(index, txn))
}

/// Who links to some neighbouring messages of a mailbox: copies with consecutive UIDs in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    /// The first origin.
    first: Origin,
    /// Its copy.
    copy: (MailboxId, u32),
    /// Bit `i`: the origin `i` UIDs further on was copied, to the UID after that of the one before.
    copied: u64,
    /// Of these, what still links.
    linked: u64,
}

impl Note {
    fn new(first: Origin, to: MailboxId, uid: u32) -> Self {
        Self { first, copy: (to, uid), copied: 1, linked: 1 }
    }

    /// Takes one more, the last so far; `false` if it has to go into another note.
    fn takes(&mut self, (mailbox, uid): Origin, to: u32) -> bool {
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
    fn links(self) -> impl Iterator<Item = (u32, u32)> {
        (0..WINDOW).filter(move |at| self.linked >> at & 1 != 0).map(move |at| {
            let before = (self.copied & ((1 << at) - 1)).count_ones();
            (self.first.1.saturating_add(at), self.copy.1.saturating_add(before))
        })
    }

    fn key(&self) -> NoteKey {
        let mut key = [0; 40];
        key[..20].copy_from_slice(&uid_key(self.first.0, self.first.1));
        key[20..].copy_from_slice(&uid_key(self.copy.0, self.copy.1));
        key
    }

    /// Stores what it says, or removes it if that is nothing.
    fn put(&self, index: &Index, txn: &mut RwTxn) -> Result<()> {
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
        let parts = || {
            let key: NoteKey = key.try_into().ok()?;
            let place = |at: usize| {
                let (id, uid) = key.get(at..at + 20)?.split_first_chunk::<16>()?;
                Some((MailboxId(Id::from_bytes(*id)), u32::from_be_bytes(uid.try_into().ok()?)))
            };
            let mut read = unseal(seed_of_key(&key), value)?;
            Some(Self { first: place(0)?, copy: place(20)?, copied: read.u64()?, linked: read.u64()? })
        };
        parts().ok_or_else(damaged(format_args!("note of links under {}", crate::index::hex(key))))
    }
}

/// Origin and copy: mailbox and UID of each.
type NoteKey = [u8; 40];

/// Whether a record is a link to this message.
fn is_link_to(value: &[u8], origin: Origin) -> bool {
    summary_parts(value).is_some_and(|found| found.kept == Kept::At(origin))
}

/// Gives those that link to these messages of a mailbox, UIDs rising, summaries of their own. Answers how many did, and what could not be
/// mended.
pub(crate) fn detach(
    index: &Index,
    txn: &mut RwTxn,
    mailbox: MailboxId,
    uids: &[u32],
) -> Result<(usize, Vec<String>)> {
    let (mut done, mut faults) = (0, Vec::new());
    for run in uids.chunk_by(|low, high| high - low <= WINDOW) {
        let (Some(&low), Some(&high)) = (run.first(), run.last()) else { continue };
        for mut note in notes_between(index, txn, mailbox, low, high)? {
            for (origin, copy) in note.links().filter(|(origin, _)| run.binary_search(origin).is_ok()) {
                note.linked &= !(1 << (origin - note.first.1));
                match detach_one(index, txn, (mailbox, origin), (note.copy.0, copy))? {
                    Detached::Done => done += 1,
                    Detached::Gone => {}
                    Detached::Damaged => faults.push(format!(
                        "UID {copy} of mailbox {} has its summary at UID {origin} of mailbox {mailbox}, which is damaged",
                        note.copy.0
                    )),
                }
            }
            note.put(index, txn)?;
        }
    }
    Ok((done, faults))
}

/// Forgets links of a mailbox that are to be removed, each with its UID.
pub(crate) fn forget(
    index: &Index,
    txn: &mut RwTxn,
    mailbox: MailboxId,
    links: &[(Origin, u32)],
) -> Result<()> {
    let near = |((a, low), _): &(Origin, u32), ((b, high), _): &(Origin, u32)| {
        a == b && low < high && high - low <= WINDOW
    };
    for run in links.chunk_by(near) {
        let (Some(((from, low), _)), Some(((_, high), _))) = (run.first(), run.last()) else { continue };
        let notes = notes_between(index, txn, *from, *low, *high)?;
        for mut note in notes.into_iter().filter(|note| note.copy.0 == mailbox) {
            let gone = |link: &(u32, u32)| run.binary_search(&((*from, link.0), link.1)).is_ok();
            let bits = note.links().filter(gone).map(|(origin, _)| 1 << (origin - note.first.1));
            note.linked &= !bits.fold(0_u64, |all, bit| all | bit);
            note.put(index, txn)?;
        }
    }
    Ok(())
}

/// The notes that speak of UIDs of a range.
fn notes_between(index: &Index, txn: &RoTxn, mailbox: MailboxId, low: u32, high: u32) -> Result<Vec<Note>> {
    let (mut from, mut to) = ([0; 40], [0xff; 40]);
    from[..20].copy_from_slice(&uid_key(mailbox, low.saturating_sub(WINDOW - 1)));
    to[..20].copy_from_slice(&uid_key(mailbox, high));
    let there = index.linked.range(txn, &between(&from, &to)).indexed()?;
    there.map(|item| item.indexed().and_then(|(key, value)| Note::read(key, value))).collect()
}

enum Detached {
    Done,
    /// The copy is no more, or links no more.
    Gone,
    Damaged,
}

fn detach_one(index: &Index, txn: &mut RwTxn, origin: Origin, (to, uid): Origin) -> Result<Detached> {
    let key = uid_key(to, uid);
    let link = index.summaries.get(txn, &key).indexed()?.filter(|value| is_link_to(value, origin));
    let Some(link) = link.and_then(|value| summary_from(seed(to.0), uid, value)) else {
        return Ok(Detached::Gone);
    };
    let value = index.summaries.get(txn, &uid_key(origin.0, origin.1)).indexed()?;
    let found = value.and_then(|value| summary_from(seed(origin.0.0), origin.1, value));
    let Some(Kept::Here(summary)) = found.map(|found| found.kept) else { return Ok(Detached::Damaged) };
    let mut own = Vec::with_capacity(summary.len() + 32);
    put_summary(&mut own, seed(to.0), uid, link.body, link.saved, summary);
    index.summaries.put(txn, &key, &own).indexed()?;
    Ok(Detached::Done)
}

/// How many links all notes together speak of; those that are not there are faults.
pub(crate) fn noted(index: &Index, txn: &RoTxn, faults: &mut Vec<String>) -> Result<u64> {
    let mut count = 0;
    for item in index.linked.iter(txn).indexed()? {
        let (key, value) = item.indexed()?;
        let note = Note::read(key, value)?;
        for (at, uid) in note.links() {
            let ((from, _), (mailbox, _)) = (note.first, note.copy);
            let value = index.summaries.get(txn, &uid_key(mailbox, uid)).indexed()?;
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

/// Whether a link's origin has a good summary of its own, of the same body.
pub(crate) fn has_origin(index: &Index, txn: &RoTxn, (mailbox, uid): Origin, body: BodyId) -> Result<bool> {
    let value = index.summaries.get(txn, &uid_key(mailbox, uid)).indexed()?;
    let found = value.and_then(|value| summary_from(seed(mailbox.0), uid, value));
    Ok(found.is_some_and(|found| found.body == body && matches!(found.kept, Kept::Here(_))))
}

/// Follows links, in the order in which a listing meets them.
pub(crate) struct Follow<'w> {
    index: &'w Index,
    txn: &'w RoTxn<'w, WithoutTls>,
    proven: &'w Proven,
    along: Option<Along<'w>>,
}

/// Where the last origin was found.
struct Along<'w> {
    at: Origin,
    seed: u64,
    records: Records<'w>,
    proven: proven::Walk<'w>,
}

impl<'w> Follow<'w> {
    pub(crate) fn new(index: &'w Index, txn: &'w RoTxn<'w, WithoutTls>, proven: &'w Proven) -> Self {
        Self { index, txn, proven, along: None }
    }

    /// The summary of an origin.
    pub(crate) fn summary(&mut self, origin: Origin, body: BodyId) -> Result<&'w [u8]> {
        let (mailbox, uid) = origin;
        let near = |at: Origin| at.0 == mailbox && at.1 < uid && uid - at.1 <= GAP;
        let along = match self.along.take() {
            Some(along) if near(along.at) => along,
            _ => {
                let (low, high) = (uid_key(mailbox, uid), uid_key(mailbox, u32::MAX));
                let records = self.index.summaries.range(self.txn, &between(&low, &high)).indexed()?;
                Along { at: origin, seed: seed(mailbox.0), records, proven: self.proven.walk(mailbox) }
            }
        };
        let along = self.along.insert(along);
        along.at = origin;
        let value = next_of(&mut along.records, mailbox, uid)?;
        ask_ahead(value);
        let seed = along.seed;
        let good = along.proven.is_good(uid, || is_summary_good(seed, uid, value));
        match summary_parts(value).filter(|found| good && found.body == body).map(|found| found.kept) {
            Some(Kept::Here(summary)) => Ok(summary),
            _ => Err(bad(mailbox, uid)()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_a_cursor_would_have_to_jump() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let of = [(a, 1), (a, 2), (a, 14), (a, 27), (b, 28), (b, 28), (b, 5)];
        assert!(runs(&of).eq([0..3, 3..4, 4..5, 5..6, 6..7]));
        assert_eq!(runs(&[]).count(), 0);
    }

    #[test]
    fn a_note_tells_origins_and_copies_apart() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let mut note = Note::new((a, 10), b, 100);
        assert!(note.takes((a, 12), 101) && note.takes((a, 73), 102));
        assert!(!note.takes((a, 74), 103), "beyond the window");
        assert!(!note.takes((a, 73), 103) && !note.takes((a, 11), 103), "origins rise");
        assert!(!note.takes((b, 73), 103) && !Note::new((a, 10), b, 100).takes((a, 11), 102));
        assert!(note.links().eq([(10, 100), (12, 101), (73, 102)]));
        note.linked &= !(1 << 2);
        assert!(note.links().eq([(10, 100), (73, 102)]), "the others keep their places");
    }
}
