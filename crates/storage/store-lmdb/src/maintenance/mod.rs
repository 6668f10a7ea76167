//! The work that commits defer, a bounded piece at a time.
//!
//! A later kind is done only when no work of an earlier kind is left:
//!
//! 1. `copies`: bodies of copied messages get their further references.
//! 2. `expunged`: summaries of expunged messages are removed, and their bodies lose a reference.
//!    Copies that link to such a summary get one of their own first. A body without references is
//!    removed from the index and is dead in its pack.
//! 3. `checkpoints`: a mailbox whose records in the log are much larger than its state gets a
//!    checkpoint. Its earlier log records are then dead. `ranges`: mailbox lists, the directory
//!    and packs get checkpoints, too, a range at a time.
//! 4. `packs`: live records of packs that are more than half dead are copied to the current pack.
//!    The pack is then *retired*: it is removed from the index, a log record says so, and its
//!    file is removed. On a full disk a pack is compacted from its end, and cut after each round
//!    (`shrink`).
//!
//! COPY does not count references at once, and still no body is lost. A body is removed only in
//! step 2. Step 2 runs only in a transaction in which step 1 found nothing to do.

mod checkpoints;
mod copies;
mod expunged;
mod fault;
mod holders;
mod packs;
mod ranges;
mod shrink;
mod superseded;

use heed::RoTxn;
use posthaste_mail_model::BodyId;
use posthaste_store::{Report, Result};

use self::copies::count_copies;
use self::expunged::remove_expunged;
pub(crate) use self::packs::COPY_MAX;
pub(crate) use self::packs::accept_loss;
use self::packs::{CopySpace, compact, end_wasteful, next_pack, remove_retired};
use self::shrink::shrink;
use crate::index::{Index, copied, due, expunging};
use crate::shared::Shared;
use crate::writer::{IndexCommit, Writer};

/// The reads for a round, which the writer then need not do.
#[derive(Default)]
pub(crate) struct PreparedRound {
    mailboxes: Vec<checkpoints::PreparedCheckpoint>,
    ranges: Option<ranges::PreparedStep>,
}

/// Whether checkpoints are due.
pub(crate) fn is_any_due(shared: &Shared) -> Result<bool> {
    let txn = shared.index.read()?;
    Ok(!due::is_empty(&shared.index, &txn)? || ranges::is_due(&shared.index, &txn)?)
}

/// Whether references of copied or expunged messages are not counted yet.
fn is_counting(index: &Index, txn: &RoTxn) -> Result<bool> {
    Ok(!copied::is_empty(index, txn)? || !expunging::is_empty(index, txn)?)
}

/// The number of messages with a body; `None` while references of copied or expunged messages are
/// not counted.
pub(crate) fn references(shared: &Shared, body: BodyId) -> Result<Option<u64>> {
    let txn = shared.index.read()?;
    if is_counting(&shared.index, &txn)? {
        return Ok(None);
    }
    Ok(Some(shared.index.body(&txn, body)?.map_or(0, |place| u64::from(place.refs))))
}

/// Prepares the checkpoints of one round.
pub(crate) fn prepare(shared: &Shared) -> Result<PreparedRound> {
    let index = &shared.index;
    let txn = index.read()?;
    // Copies and expunges come first.
    if is_counting(index, &txn)? {
        return Ok(PreparedRound::default());
    }
    Ok(PreparedRound {
        mailboxes: checkpoints::prepare(shared, &txn)?,
        ranges: ranges::prepare(shared, &txn)?,
    })
}

/// Does a round of maintenance. `prepared`: the checkpoints to write.
pub(crate) fn round(writer: &mut Writer<'_>, prepared: &PreparedRound) -> Result<Report> {
    let shared = writer.shared;
    remove_retired(writer)?;
    end_wasteful(writer)?;
    let (busy, pack) = {
        let txn = shared.index.read()?;
        let index = &shared.index;
        (is_counting(index, &txn)?, next_pack(index, &txn, &shared.reserve)?)
    };
    if busy {
        return writer.work(|apply| {
            let mut report = Report::default();
            let limit = shared.round_messages;
            if !count_copies(apply, limit, &mut report)? {
                remove_expunged(apply.index, &mut apply.txn, limit, &mut report)?;
            }
            Ok((report, IndexCommit::Now))
        });
    }
    if !prepared.mailboxes.is_empty() || prepared.ranges.is_some() {
        return writer.work(|apply| {
            let mut report = Report::default();
            checkpoints::write(apply, &prepared.mailboxes, &mut report)?;
            prepared.ranges.iter().try_for_each(|step| ranges::write(apply, step, &mut report))?;
            Ok((report, IndexCommit::Now))
        });
    }
    match pack {
        Some((pack, CopySpace::Enough)) => compact(writer, pack),
        Some((pack, CopySpace::Short(bytes))) => shrink(writer, pack, bytes),
        None => {
            // After a full disk. If there is no space, the reserve stays as it is.
            let packs = shared.index.packs_len(&*shared.index.read()?)?;
            if let Err(error) = shared.reserve.complete(packs) {
                tracing::debug!(%error, "the reserve for deletions is not complete");
            }
            // A process killed while reading would keep LMDB from reusing pages.
            shared.index.forget_ended_readers()?;
            Ok(Report::default())
        }
    }
}
