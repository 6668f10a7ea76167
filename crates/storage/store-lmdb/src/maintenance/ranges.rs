//! Writes checkpoints of ranges, in passes over mailbox lists, the directory and packs. Without
//! them the log of created and removed records would grow for ever.
//!
//! A pass goes over all tables, a few ranges in each round. A range is *prepared* from a reading
//! transaction, as checkpoints of mailboxes are: it contains all records before the transaction's
//! next sequence number. When the last range is in the index, records from before the previous
//! pass are dead. See [`Passes`](crate::index::passes::Passes).

use bytes::Bytes;
use heed::RoTxn;
use posthaste_store::{Report, Result, StoreError};

use crate::index::passes::Passes;
use crate::index::{Index, damaged, directory, lists, removed};
use crate::log::PackOffset;
use crate::log::range::{self, KeyPosition, Packs, Table};
use crate::shared::Shared;
use crate::writer::apply::Apply;

/// Bytes at which a range ends. If its record is damaged, its rows are read from the previous
/// pass and the log.
const RANGE: usize = 16 << 10;
/// Bytes of one round: some milliseconds of the writer's time.
const ROUND: u64 = 1 << 20;

/// The next step of the passes, prepared for the writer.
pub(super) struct PreparedStep {
    /// The passes when the step was prepared.
    before: Passes,
    step: PassStep,
}

enum PassStep {
    /// A pass begins.
    Begin,
    /// The pass continues with these ranges: the table, the end of each, and its content.
    Ranges(Vec<(Table, KeyPosition, Bytes)>),
    /// The pass is cancelled because of a damaged row.
    Cancel,
}

/// Whether there is a step to take.
pub(super) fn is_due(index: &Index, txn: &RoTxn) -> Result<bool> {
    Ok(index.passes(txn)?.is_due(index.checkpoint_from))
}

/// Prepares the next step, if there is one.
pub(super) fn prepare(shared: &Shared, txn: &RoTxn) -> Result<Option<PreparedStep>> {
    let index = &shared.index;
    let before = index.passes(txn)?;
    if !before.is_due(index.checkpoint_from) {
        return Ok(None);
    }
    let Some(mut place) = before.next.clone() else {
        return Ok(Some(PreparedStep { before, step: PassStep::Begin }));
    };
    let upto = index.seq(txn)?;
    // Superseded records are dropped only when their packs are compacted, which needs space, too.
    let room = ROUND.min(shared.reserve.writable() / 4);
    let (mut ranges, mut bytes) = (Vec::new(), 0);
    while let Some(table) = place.table() {
        let mut range = RangeBuilder { rows: Vec::new(), to: KeyPosition::end_of(table) };
        match range.fill(index, txn, &place) {
            Err(StoreError::Corrupt(why)) => {
                tracing::warn!(
                    why,
                    "the log keeps all changes of lists and the directory; run `posthaste check`"
                );
                return Ok(Some(PreparedStep { before, step: PassStep::Cancel }));
            }
            filled => filled?,
        }
        bytes += range.rows.len() as u64;
        if bytes > room && !(ranges.is_empty() && bytes <= shared.reserve.writable() / 4) {
            break;
        }
        let content = range::content(upto, &place, &range.to, &range.rows);
        place = range.to.clone();
        ranges.push((table, range.to, content.into()));
    }
    let is_any = !ranges.is_empty();
    Ok(is_any.then_some(PreparedStep { before, step: PassStep::Ranges(ranges) }))
}

/// Takes a prepared step.
pub(super) fn write(apply: &mut Apply<'_, '_>, prepared: &PreparedStep, report: &mut Report) -> Result<()> {
    let mut passes = apply.index.passes(&apply.txn)?;
    // Another process took a step since this one was prepared.
    if (passes.begun, &passes.next) != (prepared.before.begun, &prepared.before.next) {
        report.examined += 1;
        return Ok(());
    }
    match &prepared.step {
        PassStep::Begin => passes.begin(apply.seq),
        PassStep::Cancel => passes.cancel(),
        PassStep::Ranges(ranges) => {
            for (table, to, content) in ranges {
                report.examined += 1;
                apply.range_checkpoint(*table, to.clone(), content.clone())?;
            }
            return Ok(());
        }
    }
    report.examined += 1;
    apply.index.put_passes(&mut apply.txn, &passes)
}

/// A range that is being prepared.
struct RangeBuilder {
    rows: Vec<u8>,
    /// The first position after the range.
    to: KeyPosition,
}

impl RangeBuilder {
    /// Adds the rows of one table from a position on, until the range is full.
    fn fill(&mut self, index: &Index, txn: &RoTxn, from: &KeyPosition) -> Result<()> {
        match from.table() {
            Some(Table::Packs) => self.packs(index, txn),
            Some(Table::Removed) => self.removed(index, txn, from.key()),
            Some(Table::Lists) => self.lists(index, txn, from.key()),
            Some(Table::Directory) => self.directory(index, txn, from.key()),
            None => Ok(()),
        }
    }

    /// Whether the range ends before a row with this key.
    fn ends_before(&mut self, table: Table, key: &[u8]) -> bool {
        let is_full = self.rows.len() >= RANGE;
        if is_full {
            self.to = KeyPosition::of(table, key);
        }
        is_full
    }

    fn packs(&mut self, index: &Index, txn: &RoTxn) -> Result<()> {
        let sealed = index.all_packs(txn)?.into_iter().filter(|(_, state)| state.sealed);
        let sealed = sealed.map(|(pack, state)| PackOffset { pack, offset: state.end }).collect();
        range::put_packs(&mut self.rows, &Packs { retired: index.ever_retired(txn)?, sealed });
        Ok(())
    }

    fn removed(&mut self, index: &Index, txn: &RoTxn, from: &[u8]) -> Result<()> {
        for key in removed::keys_from(index, txn, from)? {
            let key = key?;
            if self.ends_before(Table::Removed, key) {
                break;
            }
            self.rows.extend_from_slice(key);
        }
        Ok(())
    }

    fn lists(&mut self, index: &Index, txn: &RoTxn, from: &[u8]) -> Result<()> {
        let mut from = from.to_vec();
        loop {
            let Some(account) = lists::account_from(index, txn, &from)? else { return Ok(()) };
            let key = account.0.to_bytes();
            if self.ends_before(Table::Lists, &key) {
                return Ok(());
            }
            let list = lists::load(index, txn, account)?;
            range::put_list(&mut self.rows, &list);
            // After every key of the account.
            from = [&key, &[0xff][..]].concat();
        }
    }

    fn directory(&mut self, index: &Index, txn: &RoTxn, from: &[u8]) -> Result<()> {
        for record in directory::records_from(index, txn, from)? {
            let record = record?;
            if self.ends_before(Table::Directory, record.key) {
                break;
            }
            let entry = record.entry().ok_or_else(damaged("a directory record"))?;
            range::put_record(&mut self.rows, record.key, entry.version, &entry.value);
        }
        Ok(())
    }
}
