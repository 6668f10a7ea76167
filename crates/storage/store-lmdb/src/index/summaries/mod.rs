//! Summaries of a set of messages, in UID order: every message that has a row is visited, or named
//! as unreadable.
//!
//! ```text
//! walk  ── good records, one cursor ──────────────────────────> visit
//!   └──── a UID that was asked for and not met ── has it a row? ─┐
//!   └──── a damaged record, a link without its origin ───────────┴─ mend: look again, or make it from the body ──> visit, or unreadable
//! ```
//!
//! The comparison with the rows costs nothing where nothing is wrong. It begins only when the walk
//! finds no record of a requested UID.

mod mend;
pub(crate) mod record;
mod rows_there;
pub(in crate::index) mod table;
mod walk;

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::{Result, Unreadable, Visit};

pub(in crate::index) use self::table::cursor;
pub(crate) use self::table::{count, put, record, records, records_after, remove, remove_range};
use self::walk::SummaryWalk;
use crate::index::expunging::leftovers;
use crate::index::read::head_of;
use crate::shared::Shared;

/// The summary of a message of this body, for a copy of it. One that is damaged is made again from
/// the body, as a reading does it.
pub(crate) fn for_copy(
    shared: &Shared,
    txn: &RoTxn,
    mailbox: MailboxId,
    uid: u32,
    body: BodyId,
) -> Result<Vec<u8>> {
    mend::Mend::new(shared, mailbox).for_copy(txn, uid, body)
}

/// Visits summaries in UID order; see the head of this file.
pub(crate) fn walk(
    shared: &Shared,
    mailbox: MailboxId,
    uids: &NumSet,
    visit: &mut Visit<'_>,
) -> Result<Unreadable> {
    let txn = shared.index.read()?;
    // The head proves that the mailbox is there; what it says is not needed.
    head_of(&shared.index, &txn, mailbox)?;
    if uids.is_empty() {
        return Ok(Unreadable::default());
    }
    let leftovers = leftovers(&shared.index, &txn, mailbox)?;
    let wanted = if leftovers.is_empty() { None } else { Some(uids.difference(&leftovers)) };
    let mut walk = SummaryWalk::new(shared, &txn, mailbox);
    walk.visit_all(wanted.as_ref().unwrap_or(uids).ranges(), visit)?;
    Ok(walk.unreadable())
}
