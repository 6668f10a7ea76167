//! Finds what acknowledged commits the index lacks, and has them replayed: after a process ended, or the index refused.

use heed::RwTxn;
use posthaste_store::{Result, StoreError};
use std::sync::Arc;

use super::replay::{has_tail, replay};
use super::transaction::commit;
use super::{Committer, Place};
use crate::apply::Apply;
use crate::packs::record::Batch;
use crate::shared::Shared;
use crate::values::PackState;

impl Committer {
    /// Applies what a process that ended left behind, if anything. To be called once before [`Committer::run`].
    pub(crate) fn recover(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        // Most often there is nothing, and the write lock need not be waited for.
        if self.left_behind(&shared, &*shared.index.read()?)?.is_some() {
            self.begin(&shared, true)?;
        }
        Ok(())
    }

    /// Commits the index with what a pack holds beyond the end the index has of it.
    pub(super) fn bring_up(
        &mut self,
        shared: &Shared,
        mut txn: RwTxn<'_>,
        (pack, limit): Place,
    ) -> Result<()> {
        let index = &shared.index;
        let state = index.pack(&txn, pack)?.unwrap_or_default();
        let mut done = state.end;
        if done < limit {
            let file = shared.reader.file(pack);
            let file = file.map_err(|e| StoreError::Unavailable(format!("pack {pack}: {e}")))?;
            let mut batch = Batch::new(pack, state.end);
            if state.end == 0 {
                batch.pack_header(shared.store);
            }
            let seq = index.seq(&txn)?;
            let (scratch, links_from) = (&mut self.scratch, shared.links_from);
            let mut apply = Apply { index, txn, batch, seq, log_at: None, links_from, scratch };
            done = replay(shared, &mut apply, &*file, limit)?;
            Apply { txn, .. } = apply;
            index.put_seq(&mut txn, apply.seq)?;
            index.put_pack(&mut txn, pack, PackState { end: done, ..state })?;
            index.reserve(done - state.end)?;
            commit(shared, txn)?;
            tracing::info!(pack, from = state.end, to = done, "the index was brought up to its pack");
        }
        if self.redo.take().is_none() {
            if done == state.end {
                self.barren.push(pack);
            }
            return Ok(());
        }
        shared.pending.clear();
        if done < limit {
            let lost = format!("pack {pack}: what was acknowledged from byte {done} to {limit} is damaged");
            return Err(StoreError::Corrupt(lost));
        }
        Ok(())
    }

    /// A pack whose writer went ahead of the index, with records beyond its end that begin with the index's next sequence number. While
    /// its writer lives it holds the index's write transaction as long as there are such: inside one, they are what an ended process
    /// left, or one whose index refuses.
    pub(super) fn left_behind(&self, shared: &Shared, txn: &heed::RoTxn) -> Result<Option<Place>> {
        let index = &shared.index;
        let next = index.seq(txn)?;
        let own = self.writer.current();
        for (pack, state) in index.all_packs(txn)? {
            if !state.ahead || state.sealed || Some(pack) == own || self.barren.contains(&pack) {
                continue;
            }
            let unavailable = |e| StoreError::Unavailable(format!("pack {pack}: {e}"));
            let file = match shared.reader.file(pack) {
                // For the check to report.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.map_err(unavailable)?,
            };
            if has_tail(&*file, state.end, next).map_err(unavailable)? {
                return Ok(Some((pack, file.size().map_err(unavailable)?)));
            }
        }
        Ok(None)
    }
}
