//! Which records of the log are dead.

use std::collections::BTreeMap;

use heed::RoTxn;
use posthaste_mail_model::MailboxId;
use posthaste_store::Result;

use super::fault::Moving;
use crate::index::{Index, directory, removed};
use crate::log::reader::ReadFault;
use crate::log::record::{Header, Kind};
use crate::log::scan::{LocatedRecord, Scan};
use crate::log::{entry, pair};
use crate::writer::apply::Apply;

/// The mailboxes for which a log record is live, each with the bytes that are counted for it.
pub(super) type Counted = Vec<(MailboxId, u64)>;

/// Whether a log record is live.
pub(super) enum Liveness {
    /// The record is live, and counted for these mailboxes.
    Live(Counted),
    /// A later record, or the removal of its mailbox, supersedes it.
    Superseded,
}

/// Whether a log record is live. It is dead if its mailbox was removed, or if there is a newer
/// version of its directory record. It is also dead if a checkpoint of its mailbox or two passes
/// over its table contain it.
pub(super) fn liveness(
    index: &Index,
    txn: &RoTxn,
    scan: &Scan<'_>,
    found: &LocatedRecord,
) -> std::result::Result<Liveness, Moving> {
    let (header, len) = (found.header, found.header.record_len());
    if header.kind.is_in_ranges() && header.seq < index.passes(txn)?.superseded {
        return Ok(Liveness::Superseded);
    }
    let live = match header.kind {
        Kind::Mailbox => mailbox(index, txn, MailboxId(header.id), header.seq, len)?.into_iter().collect(),
        Kind::Checkpoint => return checkpoint(index, txn, MailboxId(header.id), header.seq, len),
        Kind::Pair => {
            let content = scan.content(found)?;
            let parts = pair::parts(&content).ok_or(ReadFault::Damaged("a commit on two mailboxes"))?;
            let mut live = Vec::new();
            for (id, _) in parts {
                live.extend(mailbox(index, txn, id, header.seq, pair::share(len))?);
            }
            live
        }
        Kind::Directory => {
            let content = scan.content(found)?;
            let change = entry::directory_from(&content).ok_or(ReadFault::Damaged("a directory change"))?;
            let now = directory::directory_entry(index, txn, &change.name)?;
            let is_old = now.is_some_and(|entry| entry.version > change.expected + 1);
            return Ok(if is_old { Liveness::Superseded } else { Liveness::Live(Vec::new()) });
        }
        _ => return Ok(Liveness::Live(Vec::new())),
    };
    Ok(if live.is_empty() { Liveness::Superseded } else { Liveness::Live(live) })
}

/// The mailbox of a commit, if the commit is live.
fn mailbox(
    index: &Index,
    txn: &RoTxn,
    mailbox: MailboxId,
    seq: u64,
    len: u64,
) -> Result<Option<(MailboxId, u64)>> {
    if removed::has(index, txn, mailbox)? {
        return Ok(None);
    }
    // A head that is missing or cannot be read supersedes nothing.
    let upto = index.head(txn, mailbox).ok().flatten().map_or(0, |stored| stored.logged.upto);
    Ok((seq >= upto).then_some((mailbox, len)))
}

/// A checkpoint later than the one that the index names is kept. An index that was restored from a
/// backup names an earlier one.
fn checkpoint(
    index: &Index,
    txn: &RoTxn,
    mailbox: MailboxId,
    seq: u64,
    len: u64,
) -> std::result::Result<Liveness, Moving> {
    let is_removed = removed::has(index, txn, mailbox)?;
    let named = index.head(txn, mailbox).ok().flatten().map_or(0, |stored| stored.logged.checkpoint);
    Ok(match seq.cmp(&named) {
        _ if is_removed => Liveness::Superseded,
        std::cmp::Ordering::Less => Liveness::Superseded,
        std::cmp::Ordering::Equal => Liveness::Live(vec![(mailbox, len)]),
        std::cmp::Ordering::Greater => Liveness::Live(Vec::new()),
    })
}

/// Records that were copied from one pack to the current one.
#[derive(Default)]
pub(super) struct Moved {
    /// Bytes that are counted for mailboxes.
    mailboxes: BTreeMap<MailboxId, u64>,
    /// Sequence numbers and bytes of the records that ranges supersede.
    in_ranges: Vec<(u64, u64)>,
}

impl Moved {
    /// Notes a record.
    pub(super) fn add(&mut self, header: &Header, counted: Counted) {
        for (mailbox, bytes) in counted {
            *self.mailboxes.entry(mailbox).or_default() += bytes;
        }
        if header.kind.is_in_ranges() {
            self.in_ranges.push((header.seq, header.record_len()));
        }
    }

    /// Counts the records at their new locations.
    pub(super) fn count(self, apply: &mut Apply<'_, '_>, from: u32) -> Result<()> {
        let to = apply.batch.pack;
        for (mailbox, bytes) in self.mailboxes {
            if let Ok(Some(mut stored)) = apply.index.head(&apply.txn, mailbox) {
                stored.logged.moved(from, to, bytes);
                apply.index.put_head(&mut apply.txn, mailbox, &stored)?;
            }
        }
        if self.in_ranges.is_empty() {
            return Ok(());
        }
        let mut passes = apply.index.passes(&apply.txn)?;
        for (seq, bytes) in self.in_ranges {
            passes.moved(seq, (from, to), bytes);
        }
        apply.index.put_passes(&mut apply.txn, &passes)
    }
}
