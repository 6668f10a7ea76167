//! Places new messages in a sorted result.
//!
//! A new message is placed by a search among the members. At each round the keys of a few members
//! are read from their summaries. So a message costs some 60 summaries in a result of a million.
//! [`OrderedMembers`] holds the members.

use std::cmp::Ordering;
use std::collections::HashMap;

use posthaste_imap_codec::command::{SortCriterion, SortKey};
use posthaste_mail_model::NumSet;

use super::ordered::OrderedMembers;
use crate::command::gather::{Source, Value, values};
use crate::heavy::Pace;
use crate::reply::Failure;

/// Messages that are placed at once. Each takes the keys of [`PROBES`] members, of up to 1 KB.
const BATCH: usize = 64;
/// Members that a message is compared with in one round. With twice as many there are four rounds
/// instead of seven in a result of a million, and a third more summaries to read.
const PROBES: usize = 7;

/// Adds members, each in its place. Returns false if somebody expunged a message whose key is
/// needed. Then, and after an error, the order is as it was.
pub(super) async fn add(
    source: Source<'_>,
    criteria: &[SortCriterion],
    order: &mut OrderedMembers,
    more: &NumSet,
    pace: &mut Pace,
) -> Result<bool, Failure> {
    let coming: Vec<u32> = more.iter().collect();
    for batch in coming.chunks(BATCH) {
        let placed = place(source, criteria, order, batch, pace).await;
        if let Ok(Some(placed)) = placed {
            order.insert(&placed, pace).await;
            continue;
        }
        order.remove(more, pace).await;
        return placed.map(|_| false);
    }
    Ok(true)
}

/// A message, and the part of the list in which its place is.
struct Arrival {
    uid: u32,
    keys: Vec<Value>,
    low: usize,
    high: usize,
}

impl Arrival {
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
    order: &OrderedMembers,
    batch: &[u32],
    pace: &mut Pace,
) -> Result<Option<Vec<(usize, u32)>>, Failure> {
    let keys: Vec<SortKey> = criteria.iter().map(|criterion| criterion.key).collect();
    let wanted = batch.iter().copied().collect();
    let Some(mut of_batch) = values(source, &keys, &wanted, pace).await? else { return Ok(None) };
    let mut coming: Vec<Arrival> = batch
        .iter()
        .filter_map(|uid| Some(Arrival { uid: *uid, keys: of_batch.remove(uid)?, low: 0, high: order.len() }))
        .collect();
    loop {
        let probed = coming.iter().flat_map(Arrival::probes).filter_map(|at| order.get(at));
        let mut probed: Vec<u32> = probed.collect();
        if probed.is_empty() {
            break;
        }
        probed.sort_unstable();
        let wanted = probed.into_iter().collect();
        let Some(known) = values(source, &keys, &wanted, pace).await? else { return Ok(None) };
        for message in &mut coming {
            narrow(message, criteria, order, &known);
        }
    }
    coming.sort_by(|a, b| compare(criteria, (&a.keys, a.uid), (&b.keys, b.uid)));
    Ok(Some(coming.into_iter().map(|message| (message.low, message.uid)).collect()))
}

/// Takes the answers of one round.
fn narrow(
    message: &mut Arrival,
    criteria: &[SortCriterion],
    order: &OrderedMembers,
    known: &HashMap<u32, Vec<Value>>,
) {
    for at in message.probes() {
        let Some((uid, keys)) = order.get(at).and_then(|uid| Some((uid, known.get(&uid)?))) else { continue };
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
