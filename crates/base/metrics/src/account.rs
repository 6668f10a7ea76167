//! The cost of one account.

use crate::counters::{Amounts, Counters};
use crate::folder_size::FolderSize;

/// Accounts whose cost is held one by one. When there are more, the cheaper half of those without a
/// session is added to the others. Where all have sessions, new ones are counted together.
pub const ACCOUNTS_MAX: usize = 10_000;

/// One account's counters, by the size of the folder that was selected.
#[derive(Debug, Default)]
pub(crate) struct AccountCounters {
    by_folder: [Counters; FolderSize::ALL.len()],
}

impl AccountCounters {
    pub(crate) fn add(&self, folder: FolderSize, amounts: &Amounts) {
        self.by_folder[folder as usize].add_all(amounts);
    }

    pub(crate) fn load(&self) -> AccountCost {
        AccountCost { by_folder: std::array::from_fn(|n| self.by_folder[n].load()) }
    }
}

/// The cost of one account since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountCost {
    by_folder: [Amounts; FolderSize::ALL.len()],
}

impl AccountCost {
    /// The account's cost while a folder of this size was selected.
    pub const fn in_folder(&self, folder: FolderSize) -> &Amounts {
        &self.by_folder[folder as usize]
    }

    /// The account's cost in all.
    pub fn total(&self) -> Amounts {
        let mut total = Amounts::default();
        for amounts in self.by_folder {
            total += amounts;
        }
        total
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.by_folder.iter_mut().zip(other.by_folder) {
            *sum += more;
        }
    }
}
