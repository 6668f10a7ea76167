//! Removes links when one of their two ends is removed.

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_store::Result;

use super::note::{LinkNote, NOTES_AT_ONCE, WINDOW, next_notes, notes_to};
use crate::index::checksum::seed;
use crate::index::summaries::record::{
    CREATED_LEN, Origin, RecordKind, SUMMARY_HEADER, SummaryRef, is_link_to, put_summary, summary_from,
};
use crate::index::{Index, Writing, summaries};

/// Bytes of the longest summary that a copy is given. The first reader of a copy makes a longer one
/// of its body. With 10 MiB, a round could take more than the reserve for a full disk.
const GIVEN_MAX: usize = 1 << 20;

/// What [`detach`] did.
#[derive(Default)]
pub(crate) struct DetachReport {
    /// The copies that were given summaries of their own.
    pub(crate) copies: usize,
    /// The faults that could not be repaired.
    pub(crate) faults: Vec<String>,
    /// Whether copies are left, because there was no room for their summaries.
    pub(crate) is_rest: bool,
}

/// Gives the copies that link to these messages of a mailbox summaries of their own, or empty ones
/// instead of very long ones. The messages are in UID order. Copies that are among these messages
/// keep their links. `room`: the bytes that summaries may still take. The last of them may exceed
/// it.
pub(crate) fn detach(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    uids: &[u32],
    room: &mut usize,
) -> Result<DetachReport> {
    let mut report = DetachReport::default();
    for run in uids.chunk_by(|low, high| high - low <= WINDOW) {
        let (Some(&low), Some(&high)) = (run.first(), run.last()) else { continue };
        let mut last: Option<LinkNote> = None;
        loop {
            let notes = next_notes(index, txn, (mailbox, low, high), last.as_ref())?;
            last = notes.last().copied();
            let are_all = notes.len() < NOTES_AT_ONCE;
            for note in notes {
                detach_noted(index, txn, (note, uids), (&mut *room, &mut report))?;
                if report.is_rest {
                    return Ok(report);
                }
            }
            if are_all {
                break;
            }
        }
    }
    Ok(report)
}

/// Detaches the copies of one note from those of these messages that are its origins.
fn detach_noted(
    index: &Index,
    txn: &mut Writing,
    (mut note, uids): (LinkNote, &[u32]),
    (room, report): (&mut usize, &mut DetachReport),
) -> Result<()> {
    let (mailbox, to) = (note.first.0, note.copy.0);
    for (at, copy) in note.links().filter(|(at, _)| uids.binary_search(at).is_ok()) {
        let origin = (mailbox, at);
        let is_among_them = to == mailbox && uids.binary_search(&copy).is_ok();
        if is_among_them && link_of(index, txn, origin, (to, copy))?.is_some() {
            continue;
        }
        if *room == 0 {
            report.is_rest = true;
            break;
        }
        note.linked &= !(1 << (at - note.first.1));
        match detach_one(index, txn, origin, (to, copy))? {
            Detached::Done(bytes) => {
                report.copies += 1;
                *room = room.saturating_sub(bytes);
            }
            Detached::Unlinked => {}
            Detached::Damaged => report.faults.push(format!(
                "UID {copy} of mailbox {to} has its summary at UID {at} of mailbox {mailbox}, which is damaged"
            )),
        }
    }
    note.put(index, txn)
}

/// Forgets links of a mailbox that must be removed, each with its UID.
pub(crate) fn forget(
    index: &Index,
    txn: &mut Writing,
    mailbox: MailboxId,
    links: &[(Origin, u32)],
) -> Result<()> {
    let near = |((a, low), _): &(Origin, u32), ((b, high), _): &(Origin, u32)| {
        a == b && low < high && high - low <= WINDOW
    };
    for run in links.chunk_by(near) {
        let (Some(((from, low), _)), Some(((_, high), _))) = (run.first(), run.last()) else { continue };
        let copies = run.iter().map(|(_, copy)| *copy);
        let (Some(first), Some(last)) = (copies.clone().min(), copies.max()) else { continue };
        for mut note in notes_to(index, txn, (*from, *low, *high), (mailbox, first, last))? {
            let is_expunged = |link: &(u32, u32)| run.binary_search(&((*from, link.0), link.1)).is_ok();
            let bits = note.links().filter(is_expunged).map(|(origin, _)| 1 << (origin - note.first.1));
            let bits = bits.fold(0_u64, |all, bit| all | bit);
            if bits != 0 {
                note.linked &= !bits;
                note.put(index, txn)?;
            }
        }
    }
    Ok(())
}

enum Detached {
    /// The copy has its own summary now, which takes this many bytes.
    Done(usize),
    /// The copy was expunged, or has its own summary.
    Unlinked,
    Damaged,
}

/// The link of a copy to this origin, if the copy has it and it is intact.
fn link_of<'t>(
    index: &Index,
    txn: &'t RoTxn,
    origin: Origin,
    (to, uid): Origin,
) -> Result<Option<SummaryRef<'t>>> {
    let link = summaries::record(index, txn, to, uid)?.filter(|value| is_link_to(value, origin));
    Ok(link.and_then(|value| summary_from(seed(to.0), uid, value)))
}

fn detach_one(index: &Index, txn: &mut Writing, origin: Origin, (to, uid): Origin) -> Result<Detached> {
    let Some(link) = link_of(index, txn, origin, (to, uid))? else { return Ok(Detached::Unlinked) };
    let value = summaries::record(index, txn, origin.0, origin.1)?;
    let found = value.and_then(|value| summary_from(seed(origin.0.0), origin.1, value));
    let Some(RecordKind::Summary(summary)) = found.map(|found| found.kind) else {
        return Ok(Detached::Damaged);
    };
    let given = if summary.len() <= GIVEN_MAX { summary } else { &[] };
    let mut own = Vec::with_capacity(given.len() + SUMMARY_HEADER + CREATED_LEN);
    put_summary(&mut own, seed(to.0), uid, link.arrival(), given);
    summaries::put(index, txn, to, uid, &own)?;
    Ok(Detached::Done(own.len()))
}

/// Whether a link's origin has an intact summary of its own, of the same body.
pub(crate) fn has_origin(index: &Index, txn: &RoTxn, (mailbox, uid): Origin, body: BodyId) -> Result<bool> {
    let value = summaries::record(index, txn, mailbox, uid)?;
    let found = value.and_then(|value| summary_from(seed(mailbox.0), uid, value));
    Ok(found.is_some_and(|found| found.body == body && matches!(found.kind, RecordKind::Summary(_))))
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{Id, ModSeq};

    use super::*;
    use crate::index::links::note::READ;
    use crate::index::summaries::record::{Arrival, put_link};

    /// Each round read the notes of all copies, so that the removal of a message with very many
    /// copies was quadratic.
    #[test]
    fn a_round_reads_few_notes_of_a_message_with_many_copies() {
        const COPIES: u32 = 4 * NOTES_AT_ONCE as u32;
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        let [from, to] = [1, 2].map(|n| MailboxId(Id::new(n, 9)));
        let arrival = Arrival { body: BodyId(Id::new(3, 9)), saved: 0, created: ModSeq::ZERO };
        let mut value = Vec::new();
        put_summary(&mut value, seed(from.0), 1, arrival, &[7; 100]);
        summaries::put(&index, &mut txn, from, 1, &value).unwrap();
        for uid in 1..=COPIES {
            put_link(&mut value, seed(to.0), uid, arrival, (from, 1));
            summaries::put(&index, &mut txn, to, uid, &value).unwrap();
            LinkNote::new((from, 1), to, uid).put(&index, &mut txn).unwrap();
        }
        let mut copies = 0;
        loop {
            READ.set(0);
            let report = detach(&index, &mut txn, from, &[1], &mut 1).unwrap();
            assert!(READ.get() <= NOTES_AT_ONCE, "{} notes were read", READ.get());
            assert_eq!(report.faults, [""; 0]);
            copies += report.copies;
            if !report.is_rest {
                break;
            }
        }
        assert_eq!(copies, COPIES as usize);
    }

    /// Messages that were copied a hundred times: each removed copy wrote all of the notes, so that
    /// the removal of all copies was quadratic.
    #[test]
    fn forgetting_a_link_writes_its_own_note_alone() {
        const COPIES: u32 = 32;
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 24, 8).unwrap();
        let mut txn = index.write().unwrap();
        let [from, to, other] = [1, 2, 3].map(|n| MailboxId(Id::new(n, 9)));
        let mut demand = 0;
        for (to, place) in (1..=100).flat_map(|n| [(to, 1_000 * n), (other, 1_000 * n)]) {
            // Two notes begin with different UIDs.
            for first in [1, 1 + COPIES] {
                let mut note = LinkNote::new((from, first), to, place + first);
                for at in 1..COPIES {
                    assert!(note.takes((from, first + at), place + first + at));
                }
                let before = txn.demand();
                note.put(&index, &mut txn).unwrap();
                demand = txn.demand() - before;
            }
        }
        let links = |txn: &Writing| -> Vec<_> {
            let (mut all, mut last): (Vec<_>, Option<LinkNote>) = (Vec::new(), None);
            loop {
                let notes = next_notes(&index, txn, (from, 1, 2 * COPIES), last.as_ref()).unwrap();
                let Some(note) = notes.last() else { return all };
                last = Some(*note);
                let links = |note: LinkNote| note.links().map(move |link| (note.copy.0, link));
                all.extend(notes.into_iter().flat_map(links));
            }
        };
        let mut left = links(&txn);
        assert_eq!(left.len(), 100 * 2 * 2 * COPIES as usize);
        let forgotten: Vec<_> = (10..=2 * COPIES).map(|at| ((from, at), 50_000 + at)).collect();
        let before = txn.demand();
        forget(&index, &mut txn, to, &forgotten).unwrap();
        assert!(txn.demand() - before <= 2 * demand, "{} bytes", txn.demand() - before);
        left.retain(|(mailbox, (origin, copy))| {
            *mailbox != to || !forgotten.contains(&((from, *origin), *copy))
        });
        assert_eq!(links(&txn), left);
    }
}
