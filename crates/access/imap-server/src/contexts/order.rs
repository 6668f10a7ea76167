//! The order of a sorted result, and the places of new messages in it.
//!
//! A new message is placed by a search among the members. At each round the keys of a few members
//! are read from their summaries. So a message costs some 60 summaries in a result of a million.
//! The list itself has four bytes for each member, and each change reads it once.

use std::cmp::Ordering;
use std::collections::HashMap;

use posthaste_imap_codec::command::{SortCriterion, SortKey};
use posthaste_mail_model::NumSet;

use crate::command::gather::{Source, Value, values};
use crate::heavy::Pace;
use crate::reply::Failure;

/// Members that are passed over between two looks at the pace, and steps for them.
const CHUNK: usize = 16 * 1024;
const CHUNK_STEPS: u64 = 8 * CHUNK as u64;
/// Messages that are placed at once. Each takes the keys of [`PROBES`] members, of up to 1 KB.
const BATCH: usize = 64;
/// Members that a message is compared with in one round. With twice as many there are four rounds
/// instead of seven in a result of a million, and a third more summaries to read.
const PROBES: usize = 7;

/// Where members stand: runs of neighbours with the place of the first, from 1.
pub(super) async fn runs(uids: &[u32], wanted: &NumSet, pace: &mut Pace) -> Vec<(u32, Vec<u32>)> {
    let mut runs: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut place = 0;
    for chunk in uids.chunks(CHUNK) {
        for uid in chunk {
            place += 1;
            if !wanted.contains(*uid) {
                continue;
            }
            match runs.last_mut() {
                Some((first, run)) if *first as usize + run.len() == place => run.push(*uid),
                _ => runs.push((place as u32, vec![*uid])),
            }
        }
        pace.worked(CHUNK_STEPS).await;
    }
    runs
}

/// The members without some of them.
pub(super) async fn without(uids: &[u32], dropped: &NumSet, pace: &mut Pace) -> Vec<u32> {
    let mut left = Vec::with_capacity(uids.len());
    for chunk in uids.chunks(CHUNK) {
        left.extend(chunk.iter().filter(|uid| !dropped.contains(**uid)));
        pace.worked(CHUNK_STEPS).await;
    }
    left
}

/// The members with more of them, each in its place. `None` if somebody expunged a message whose
/// key is needed.
pub(super) async fn with(
    source: Source<'_>,
    criteria: &[SortCriterion],
    mut uids: Vec<u32>,
    more: &NumSet,
    pace: &mut Pace,
) -> Result<Option<Vec<u32>>, Failure> {
    let more: Vec<u32> = more.iter().collect();
    for batch in more.chunks(BATCH) {
        match place(source, criteria, &uids, batch, pace).await? {
            Some(placed) => uids = merged(&uids, &placed, pace).await,
            None => return Ok(None),
        }
    }
    Ok(Some(uids))
}

/// A message, and the part of the list in which its place is.
struct Coming {
    uid: u32,
    keys: Vec<Value>,
    low: usize,
    high: usize,
}

impl Coming {
    /// The members to compare it with.
    fn probes(&self) -> impl Iterator<Item = usize> + use<> {
        let (low, len) = (self.low, self.high - self.low);
        let count = len.min(PROBES);
        (1..=count).map(move |nth| if len <= PROBES { low + nth - 1 } else { low + len * nth / (PROBES + 1) })
    }
}

/// The messages in their order, each with the index of the member that it comes before.
async fn place(
    source: Source<'_>,
    criteria: &[SortCriterion],
    uids: &[u32],
    batch: &[u32],
    pace: &mut Pace,
) -> Result<Option<Vec<(usize, u32)>>, Failure> {
    let keys: Vec<SortKey> = criteria.iter().map(|criterion| criterion.key).collect();
    let wanted = batch.iter().copied().collect();
    let Some(mut of_batch) = values(source, &keys, &wanted, pace).await? else { return Ok(None) };
    let mut coming: Vec<Coming> = batch
        .iter()
        .filter_map(|uid| Some(Coming { uid: *uid, keys: of_batch.remove(uid)?, low: 0, high: uids.len() }))
        .collect();
    loop {
        let probed = coming.iter().flat_map(Coming::probes).filter_map(|at| uids.get(at).copied());
        let mut probed: Vec<u32> = probed.collect();
        if probed.is_empty() {
            break;
        }
        probed.sort_unstable();
        let wanted = probed.into_iter().collect();
        let Some(known) = values(source, &keys, &wanted, pace).await? else { return Ok(None) };
        for message in &mut coming {
            narrow(message, criteria, uids, &known);
        }
    }
    coming.sort_by(|a, b| compare(criteria, (&a.keys, a.uid), (&b.keys, b.uid)));
    Ok(Some(coming.into_iter().map(|message| (message.low, message.uid)).collect()))
}

/// Takes the answers of one round.
fn narrow(message: &mut Coming, criteria: &[SortCriterion], uids: &[u32], known: &HashMap<u32, Vec<Value>>) {
    for at in message.probes() {
        let Some((uid, keys)) = uids.get(at).and_then(|uid| Some((*uid, known.get(uid)?))) else { continue };
        match compare(criteria, (keys, uid), (&message.keys, message.uid)) {
            Ordering::Greater => {
                message.high = at;
                return;
            }
            _ => message.low = at + 1,
        }
    }
}

/// RFC 5256 §3: by each key in turn, then by the order of the mailbox. REVERSE turns one key.
fn compare(criteria: &[SortCriterion], a: (&[Value], u32), b: (&[Value], u32)) -> Ordering {
    for (criterion, (a, b)) in criteria.iter().zip(a.0.iter().zip(b.0)) {
        let ordering = if criterion.is_reverse { b.cmp(a) } else { a.cmp(b) };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    a.1.cmp(&b.1)
}

/// The list with messages before the members of their indices.
async fn merged(uids: &[u32], placed: &[(usize, u32)], pace: &mut Pace) -> Vec<u32> {
    let mut merged = Vec::with_capacity(uids.len() + placed.len());
    let mut from = 0;
    for &(at, uid) in placed {
        merged.extend_from_slice(uids.get(from..at).unwrap_or_default());
        merged.push(uid);
        from = at.max(from);
    }
    merged.extend_from_slice(uids.get(from..).unwrap_or_default());
    // A copy of four bytes a member: a million take half a millisecond.
    pace.worked((merged.len() as u64 / 2).min(crate::heavy::SLICE_STEPS)).await;
    merged
}
