//! ADDTO, REMOVEFROM and NOUPDATE: RFC 5267 §4.3.

use posthaste_imap_codec::response::{Code, Esearch, Status, StatusKind, Update};
use posthaste_imap_codec::{Numbering, Tag, print};
use posthaste_mail_model::{NumSet, SeqNum, Uid};
use posthaste_store::View;

use crate::heavy::Pace;
use crate::offload::range_steps;
use crate::reply::Failure;
use crate::wire::Wire;

/// Steps of finding a message's number.
const NUMBER_STEPS: u64 = 100;
/// UIDs whose numbers are found between two counts of the steps.
const NUMBERED_AT_ONCE: u64 = 10_000;
/// Ranges printed between two checks of the output buffer.
const RANGES_PER_RELIEF: usize = 2048;

/// `* ESEARCH (TAG "a") UID REMOVEFROM (0 4) ADDTO (0 7:9)`. The response is as long as the
/// difference, so it is streamed.
pub(super) async fn updates(
    wire: &mut Wire,
    tag: &Tag,
    numbering: Numbering,
    updates: &[Update],
) -> Result<(), Failure> {
    if updates.is_empty() {
        return Ok(());
    }
    let (min, max, count, all, partial, modseq) = (None, None, None, None, None, None);
    let updates_later = Vec::new();
    let tag = Some(tag.clone());
    let head = Esearch {
        tag,
        mailbox: None,
        numbering,
        min,
        max,
        count,
        all,
        partial,
        modseq,
        relevancy: None,
        updates: updates_later,
    };
    wire.out().extend_from_slice(b"* ");
    let names = wire.names;
    print::esearch(wire.out(), &head, names);
    for update in updates {
        let out = wire.out();
        out.push(b' ');
        out.extend_from_slice(update.kind.name().as_bytes());
        for (nth, (place, ranges)) in update.places.iter().enumerate() {
            let out = wire.out();
            out.extend_from_slice(if nth == 0 { b" (" } else { b" " });
            print::number(out, u64::from(*place));
            for (nth, part) in ranges.chunks(RANGES_PER_RELIEF).enumerate() {
                let out = wire.out();
                out.push(if nth == 0 { b' ' } else { b',' });
                print::ranges(out, part);
                wire.relieve().await?;
            }
        }
        wire.out().push(b')');
    }
    wire.out().extend_from_slice(b"\r\n");
    Ok(())
}

/// `* NO [NOUPDATE "a"] why`: RFC 5267 §4.3.1.
pub(super) fn no_update(wire: &mut Wire, tag: &Tag, why: &str) {
    let code = Some(Code::NoUpdate(tag.clone()));
    wire.say_status(Status { tag: None, kind: StatusKind::No, code, text: why.to_owned().into() });
}

/// A set of messages without an order of its own: at place 0 (RFC 5267 §4.3.3).
pub(super) async fn unordered(
    view: &View,
    numbering: Numbering,
    uids: &NumSet,
    pace: &mut Pace,
) -> Vec<(u32, Vec<(u32, u32)>)> {
    if numbering == Numbering::Uid {
        return vec![(0, uids.ranges().to_vec())];
    }
    let mut seqs = NumSet::<SeqNum>::new();
    for part in uids.slices(NUMBERED_AT_ONCE) {
        view.seqs_of_uids(&part).ranges().iter().for_each(|&(low, high)| seqs.push_range(low, high));
        pace.worked(range_steps(part.ranges().len())).await;
    }
    vec![(0, seqs.ranges().to_vec())]
}

/// Runs of messages in their order, each with its place. Consecutive numbers are a range (RFC
/// 5267 §3.2).
pub(super) async fn ordered(
    view: &View,
    numbering: Numbering,
    runs: &[(u32, Vec<u32>)],
    pace: &mut Pace,
) -> Vec<(u32, Vec<(u32, u32)>)> {
    let mut places = Vec::with_capacity(runs.len());
    for (place, uids) in runs {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for uid in uids {
            let number = match numbering {
                Numbering::Uid => Some(*uid),
                Numbering::Seq => Uid::new(*uid).and_then(|uid| view.seq_of(uid)).map(|seq| seq.value()),
            };
            pace.worked(NUMBER_STEPS).await;
            let Some(number) = number else { continue };
            match ranges.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(number) => last.1 = number,
                _ => ranges.push((number, number)),
            }
        }
        places.push((*place, ranges));
    }
    places
}
