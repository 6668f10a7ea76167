//! Summaries of a set of messages, in UID order: every message that has a row is visited, or named
//! as unreadable.
//!
//! ```text
//! walk  ── good records, one cursor ──────────────────────────> visit
//!   └──── a requested UID without a record ── has it a row? ──┐
//!   └──── a damaged record, a link without its origin ────────┴─ repair: read again, or rebuild ──> visit, or unreadable
//! ```
//!
//! A listing has several slices. The walk ends a slice after many octets, and at a message that has
//! to be repaired. The caller lets other tasks run, has that message repaired, and continues.
//!
//! The walk compares with the rows only where it finds no record of a requested UID. So an intact
//! index costs no comparison.

mod progress;
pub(crate) mod record;
mod repair;
mod row_cache;
pub(in crate::index) mod table;
mod walk;

use heed::RoTxn;
use posthaste_mail_model::{BodyId, MailboxId, NumSet};
use posthaste_store::{Result, Visit};

pub(crate) use self::progress::Progress;
use self::repair::Examined;
pub(in crate::index) use self::table::cursor;
pub(crate) use self::table::{
    count, put, record, records, records_after, records_back, remove, remove_range,
};
use self::walk::SummaryWalk;
pub(crate) use self::walk::Walked;
use crate::index::expunging::leftovers;
use crate::index::read::head_of;
use crate::shared::Shared;

/// The summary of a message of this body, for a copy of it. A damaged summary is rebuilt from the
/// body, as when it is read.
pub(crate) fn for_copy(
    shared: &Shared,
    txn: &RoTxn,
    mailbox: MailboxId,
    uid: u32,
    body: BodyId,
) -> Result<Vec<u8>> {
    repair::Repair::new(shared, mailbox).for_copy(txn, uid, body)
}

/// Reads again messages that a walk found damaged: as many as fit into memory, at least the first.
pub(crate) fn read_again(shared: &Shared, mailbox: MailboxId, uids: &[u32]) -> Result<Vec<(u32, Examined)>> {
    repair::Repair::new(shared, mailbox).read_again(uids)
}

/// Visits summaries in UID order, from where an earlier slice ended; see the head of this file.
pub(crate) fn walk(
    shared: &Shared,
    uids: &NumSet,
    progress: &mut Progress,
    visit: &mut Visit<'_>,
) -> Result<Walked> {
    let mailbox = progress.mailbox;
    let txn = shared.index.read()?;
    // Only to check that the mailbox exists.
    head_of(&shared.index, &txn, mailbox)?;
    if uids.is_empty() {
        return Ok(Walked::Whole);
    }
    let leftovers = leftovers(&shared.index, &txn, mailbox)?;
    let wanted = if leftovers.is_empty() { None } else { Some(uids.difference(&leftovers)) };
    let mut walk = SummaryWalk::new(shared, &txn, progress);
    walk.visit_all(wanted.as_ref().unwrap_or(uids).ranges(), visit)?;
    Ok(walk.end())
}
