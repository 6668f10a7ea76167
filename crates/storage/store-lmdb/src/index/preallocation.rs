//! Preallocation of the index's file: zeroes after the pages that LMDB has written.

use std::os::unix::fs::FileExt;

use posthaste_store::Result;

use super::{Index, Writing};
use crate::log::Preallocation;
use crate::log::disk::failed;

/// Bytes preallocated at least and at most: an eighth of its size, within these.
const PREALLOCATE_MIN: u64 = 256 * 1024;
const PREALLOCATE_MAX: u64 = 8 * 1024 * 1024;

impl Index {
    /// The length of the file that a transaction needs.
    fn need(&self, txn: &Writing) -> u64 {
        // Pages are rewritten whole, and a record may have to be split over two.
        self.used() + txn.demand().saturating_mul(2) + PREALLOCATE_MIN / 2
    }

    /// Bytes up to the last page.
    fn used(&self) -> u64 {
        (self.env.info().last_page_number as u64 + 1) * u64::from(self.env.stat().page_size)
    }

    fn file_len(&self) -> Result<u64> {
        self.file.metadata().map(|found| found.len()).map_err(failed("the index"))
    }

    /// Writes zeroes after the last page, so that a transaction has blocks for all its changes. A
    /// full disk is noticed before anything is written, and a sync does not have to record a new
    /// length. Only inside a write transaction, when no process extends the file. `admit` is
    /// called only if the file must become longer.
    pub(crate) fn preallocate(
        &self,
        txn: &Writing,
        admit: impl FnOnce() -> Result<Preallocation>,
    ) -> Result<()> {
        let page = u64::from(self.env.stat().page_size);
        let (need, mut len) = (self.need(txn).next_multiple_of(page), self.file_len()?);
        if len >= need {
            return Ok(());
        }
        let step = match admit()? {
            Preallocation::Step => (self.used() / 8).clamp(PREALLOCATE_MIN, PREALLOCATE_MAX),
            Preallocation::Needed => 0,
        };
        let to = (need + step).next_multiple_of(page);
        let zeroes = vec![0; PREALLOCATE_MIN as usize];
        while len < to {
            let goal = if len < need { need } else { to };
            let n = (goal - len).min(PREALLOCATE_MIN);
            match self.file.write_all_at(&zeroes[..n as usize], len) {
                Ok(()) => len += n,
                // If the disk has no space for the step, only the needed space is taken.
                Err(_) if len >= need => break,
                Err(e) => return Err(failed("the index")(e)),
            }
        }
        Ok(())
    }
}
