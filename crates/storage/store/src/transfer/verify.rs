//! A source that may be forged, as a backup that an administrator was given.
//!
//! Only what the source's messages prove is taken from it.
//!
//! - FETCH sends parts of a summary as they are stored. A forged one could send anything to all
//!   who read the mailbox. So each summary is made again from its message.
//! - All messages with one body id share its bytes, in all accounts. So a body whose id has other
//!   bytes at the target gets an id of its own. Otherwise its message would show somebody else's
//!   mail, or change it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use posthaste_mail_model::{BodyId, Id, MailboxId, ModSeq};
use posthaste_permits::on_compute_thread;

use super::read::BODIES_AT_ONCE;
use super::writer::Contents;
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::row::Row;

/// The mod-sequences that a mailbox of the source may have: others leave no room for changes at
/// the target.
const MODSEQ_MAX: u64 = ModSeq::MAX.value() / 2;

/// The functions that prove what a source says. This crate does not interpret messages.
#[derive(Debug, Clone, Copy)]
pub struct Verifier {
    /// Makes the summary of a stored body, or says that the row does not describe it:
    /// [`StoreError::Corrupt`]. Empty if it is made when the message is read.
    pub summarize: fn(&Bytes, &Row) -> Result<Bytes>,
    /// Makes an id that was never used.
    pub new_id: fn() -> Result<Id>,
}

impl Verifier {
    /// The same messages with the summaries that their bodies have. A message of which neither
    /// delivery nor a reader made the summary has none.
    pub(super) async fn with_own_summaries(
        self,
        mut found: BTreeMap<u32, Contents>,
        rows: &[Row],
    ) -> Result<BTreeMap<u32, Contents>> {
        let rows: BTreeMap<u32, Row> = rows.iter().map(|row| (row.uid().value(), *row)).collect();
        let work = move || -> Result<BTreeMap<u32, Contents>> {
            for (uid, one) in &mut found {
                let no_row = || StoreError::Corrupt(format!("the row of UID {uid} is missing"));
                let row = rows.get(uid).ok_or_else(no_row)?;
                if !(one.summary.is_empty() && row.lacks_items()) {
                    one.summary = (self.summarize)(&one.bytes, row)?;
                }
            }
            Ok(found)
        };
        let made = on_compute_thread(work).await;
        made.map_err(|error| StoreError::Unavailable(format!("summaries were not made: {error}")))?
    }

    /// The same messages, each with a body id that has no other bytes at the target. `new_ids`
    /// are those of the bodies that had others: copies of a message share one (RFC 8474 §5.1).
    pub(super) async fn with_own_bodies(
        self,
        found: BTreeMap<u32, Contents>,
        to: &dyn Engine,
        new_ids: &Mutex<BTreeMap<BodyId, BodyId>>,
    ) -> Result<BTreeMap<u32, Contents>> {
        let own = |(uid, mut one): (u32, Contents)| async move {
            if to.has_body(one.body).await? {
                let is_same = match to.read_body(one.body, 0..u64::MAX).await {
                    Ok(there) => there == one.bytes,
                    Err(error) if error.is_damage() => false,
                    Err(error) => return Err(error),
                };
                if !is_same {
                    one.body = self.new_id_of(one.body, &mut new_ids.lock())?;
                }
            }
            Ok((uid, one))
        };
        stream::iter(found).map(own).buffered(BODIES_AT_ONCE).try_collect().await
    }

    /// The new id of a body: the one that it has already, if it has one.
    fn new_id_of(self, body: BodyId, new_ids: &mut BTreeMap<BodyId, BodyId>) -> Result<BodyId> {
        match new_ids.get(&body) {
            Some(known) => Ok(*known),
            None => {
                let new = BodyId((self.new_id)()?);
                new_ids.insert(body, new);
                Ok(new)
            }
        }
    }
}

/// Refuses rows that no store has: the target's index relies on their order.
pub(super) fn refuse_disorder(id: MailboxId, head: &MailboxHead, rows: &[Row]) -> Result<()> {
    let rises = rows.is_sorted_by(|a, b| a.uid() < b.uid());
    let is_below_next = rows.last().is_none_or(|row| row.uid() < head.uid_next);
    let modseq = rows.iter().map(Row::modseq).fold(head.modseq, ModSeq::max);
    match rises && is_below_next && modseq.value() <= MODSEQ_MAX {
        true => Ok(()),
        false => Err(StoreError::Corrupt(format!("the rows of mailbox {id} are out of order"))),
    }
}
