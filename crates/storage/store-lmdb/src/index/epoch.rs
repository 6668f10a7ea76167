//! A number that changes when another process commits, and not when this one does.
//!
//! LMDB counts write transactions over all processes; this process counts its own. The difference
//! is the number of foreign transactions. While our own transaction is being committed, LMDB's
//! count may or may not include it. `committing` says which transaction that is. So the
//! difference is the same in both cases, and no reader takes our commit for a foreign one, or a
//! foreign one for ours.

use parking_lot::Mutex;

#[derive(Default)]
struct Own {
    committed: u64,
    /// The id of our transaction that is being committed; 0 if none is.
    committing: u64,
}

/// The count of our own transactions.
#[derive(Default)]
pub(crate) struct OwnTransactions(Mutex<Own>);

/// The step of a failed commit. It is unknown whether LMDB has it, so all readers read again.
const UNKNOWN: u64 = 1 << 32;

impl OwnTransactions {
    /// Our transaction `id` is about to be committed.
    pub(crate) fn begin(&self, id: u64) {
        self.0.lock().committing = id;
    }

    /// Notes that the transaction was committed.
    pub(crate) fn committed(&self) {
        let mut own = self.0.lock();
        own.committed = own.committed.wrapping_add(1);
        own.committing = 0;
    }

    /// The commit failed, or its outcome is unknown.
    pub(crate) fn failed(&self) {
        let mut own = self.0.lock();
        own.committed = own.committed.wrapping_sub(UNKNOWN);
        own.committing = 0;
    }

    /// Transactions of others, up to a constant. `last` reads LMDB's count.
    pub(crate) fn foreign(&self, last: impl FnOnce() -> u64) -> u64 {
        let own = self.0.lock();
        let last = last();
        let ours = own.committed.wrapping_add(u64::from(own.committing != 0 && last >= own.committing));
        last.wrapping_sub(ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_commits_do_not_show_and_foreign_ones_do() {
        let own = OwnTransactions::default();
        assert_eq!(own.foreign(|| 10), 10);
        own.begin(11);
        assert_eq!(own.foreign(|| 10), 10);
        assert_eq!(own.foreign(|| 11), 10);
        // A foreign commit right after ours, before ours was noted as done.
        assert_eq!(own.foreign(|| 12), 11);
        own.committed();
        assert_eq!(own.foreign(|| 12), 11);
        own.begin(13);
        own.failed();
        assert_ne!(own.foreign(|| 12), 11);
    }
}
