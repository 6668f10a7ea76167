//! The counters.

use std::array;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thing that is counted for a command, an account, a client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// CPU time of the tasks and threads that worked for the session, in nanoseconds.
    Cpu,
    /// Commands that ended.
    Commands,
    /// Octets from the client, before compression.
    Received,
    /// Octets to the client, before compression.
    Sent,
    /// Changes of mailboxes that the session waited for.
    Commits,
    /// Reads of messages' bytes from the store, whole or in part.
    BodyReads,
    /// Records of messages that were read from the store: rows of mailboxes, and summaries.
    RecordReads,
    /// Accounts and addresses that were looked up in the directory.
    DirectoryReads,
    /// Folders opened that have more messages than `limits.folder_messages_warn`.
    LargeFolders,
    /// Messages of rich mail that were converted.
    Conversions,
    /// Messages of the folders that were selected when commands ended, a sum over the commands.
    FolderMessages,
}

impl Counter {
    /// The counters, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Cpu,
        Self::Commands,
        Self::Received,
        Self::Sent,
        Self::Commits,
        Self::BodyReads,
        Self::RecordReads,
        Self::DirectoryReads,
        Self::LargeFolders,
        Self::Conversions,
        Self::FolderMessages,
    ];
}

/// Values of all counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Counter::ALL.len()]);

impl Amounts {
    /// The value of one counter.
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// The amounts with another value of one counter.
    #[must_use]
    pub const fn with(mut self, counter: Counter, value: u64) -> Self {
        self.0[counter as usize] = value;
        self
    }
}

impl AddAssign for Amounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Counters that several threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; Counter::ALL.len()]);

impl Counters {
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        self.0[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn add_all(&self, amounts: &Amounts) {
        for (sum, more) in self.0.iter().zip(amounts.0) {
            if more > 0 {
                sum.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn load(&self) -> Amounts {
        Amounts(array::from_fn(|n| self.0[n].load(Ordering::Relaxed)))
    }

    /// The values, which are zero from now on. Amounts that are added meanwhile are in one of the
    /// two.
    pub(crate) fn take(&self) -> Amounts {
        Amounts(array::from_fn(|n| self.0[n].swap(0, Ordering::Relaxed)))
    }
}
