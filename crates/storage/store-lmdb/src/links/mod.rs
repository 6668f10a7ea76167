//! Copies that have their summary where the message has it from which they were copied.
//!
//! COPY of many neighbours writes no summaries but *links*: records of 48 bytes that name the message whose summary is theirs, the
//! *origin*. A copy of a copy links to its origin at once, so that there is one step at most. Reading follows links with a second cursor
//! that walks along the origins, which are neighbours too, or there would be no links.
//!
//! Beside the links lie *notes*, found by the origins: before maintenance removes an origin, those that link to it are given summaries of
//! their own ([`detach`]). A note speaks of 64 UIDs at most, so that those of an origin are found in one short walk, however many there are.

mod follow;
mod note;

pub(crate) use follow::Follow;
pub(crate) use note::noted;

use heed::types::Bytes;
use heed::{RoRange, RoTxn, RwTxn};
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::{NewMessage, Result, StoreError};
use std::ops::Range;

use crate::chunk::{uid_key, uid_of};
use crate::index::{Index, Indexed, between, damaged};
use crate::sum::seed;
use crate::values::{Kept, put_link, put_summary, summary_from, summary_parts};
use note::{Note, WINDOW, notes_between};

/// The message that has a summary: its mailbox and UID.
pub(crate) type Origin = (MailboxId, u32);

/// UIDs walked over for want of a jump: a step costs some 30 ns, a jump some 400.
pub(crate) const GAP: u32 = 12;

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

/// Appends to `origins` those of a run of messages that are copied: the message itself, or what it links to. `bodies`: theirs, as whoever
/// copies them has read.
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

type Records<'t> = RoRange<'t, Bytes, Bytes>;

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

/// Whether a link's origin has a good summary of its own, of the same body.
pub(crate) fn has_origin(index: &Index, txn: &RoTxn, (mailbox, uid): Origin, body: BodyId) -> Result<bool> {
    let value = index.summaries.get(txn, &uid_key(mailbox, uid)).indexed()?;
    let found = value.and_then(|value| summary_from(seed(mailbox.0), uid, value));
    Ok(found.is_some_and(|found| found.body == body && matches!(found.kept, Kept::Here(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_mail_model::Id;

    #[test]
    fn runs_end_where_a_cursor_would_have_to_jump() {
        let (a, b) = (MailboxId(Id::new(1, 1)), MailboxId(Id::new(1, 2)));
        let of = [(a, 1), (a, 2), (a, 14), (a, 27), (b, 28), (b, 28), (b, 5)];
        assert!(runs(&of).eq([0..3, 3..4, 4..5, 5..6, 6..7]));
        assert_eq!(runs(&[]).count(), 0);
    }
}
