//! Decodes and changes mailbox lists, long ones on threads for computations.
//!
//! A list has up to 8 MiB, and each octet of its names is checked. By estimate an octet takes some
//! 4 ns in a name with a separator, and ten times as long in one of combining characters: Unicode
//! composes these to compare them. So a list takes 30 to 300 ms, and no poll of a task may take
//! over 10 ms (`docs/limits.md`).
//!
//! One account uses one thread at a time: its sessions do not keep those of others waiting.

use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id};
use posthaste_permits::{
    ErasedResult, ErasedWork, KeyedSemaphore, compute_threads, erased, on_compute_thread_with, result_of,
};
use posthaste_store::{ListCommit, Result, StoreError};

use crate::stored::values::StoredList;

/// Octets of a list that a task works on itself: some 1,000 mailboxes. By the estimate above they
/// take at most 3 ms, and usual names take a tenth of that.
const HERE_MAX: usize = 64 << 10;

/// Octets of an entry besides its name.
const ENTRY_OCTETS: usize = 23;

/// Permits for work on long lists: one for each thread that may compute, and one for each account.
pub(crate) struct ListWork(KeyedSemaphore<AccountId>);

impl ListWork {
    pub(crate) fn new() -> Self {
        Self(KeyedSemaphore::new(compute_threads(), 1))
    }

    /// The list in a value; `None` if it is damaged.
    pub(crate) async fn decoded(&self, account: AccountId, value: Bytes) -> Result<Option<StoredList>> {
        self.run(account, value.len(), move || StoredList::decode(account, &value)).await
    }

    /// The value of a list, which had so many octets, after a change of this id.
    pub(crate) async fn changed(
        &self,
        before: StoredList,
        octets: usize,
        commit: &ListCommit,
        id: Id,
    ) -> Result<Vec<u8>> {
        let octets = octets + added_octets(commit);
        let commit = commit.clone();
        self.run(commit.account, octets, move || before.after(&commit, id).encode()).await
    }

    async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        octets: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if octets <= HERE_MAX {
            return Ok(work());
        }
        // Boxed: nearly no list is long.
        Box::pin(self.run_elsewhere(account, erased(work))).await.map(result_of)
    }

    /// The work waits for nothing. So a caller may hold anything while it waits for a thread.
    async fn run_elsewhere(&self, account: AccountId, work: ErasedWork) -> Result<ErasedResult> {
        let failed = || StoreError::Unavailable("the work on a mailbox list was cancelled".into());
        let permit = self.0.acquire(account).await.ok_or_else(failed)?;
        on_compute_thread_with(permit, work).await.map_err(|error| {
            tracing::error!(%account, %error, "a long mailbox list was not read or changed: if this panicked, please report this bug");
            failed()
        })
    }
}

/// The octets that a change adds to a list at most.
fn added_octets(commit: &ListCommit) -> usize {
    let names = commit.upsert.iter().map(|entry| &entry.name).chain(&commit.subscribe);
    names.map(|name| ENTRY_OCTETS + name.as_str().len()).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::ops::Range;
    use std::pin::pin;
    use std::task::Poll;

    use posthaste_mail_model::{MailboxId, MailboxName, ModSeq, UidValidity};
    use posthaste_permits::given_to_compute_threads;
    use posthaste_store::{MailboxEntry, MailboxList};

    use super::*;

    const ACCOUNT: AccountId = AccountId(Id::from_bytes([3; 16]));
    const CHANGE: Id = Id::from_bytes([4; 16]);

    /// Entries of 97 octets: 660 of them are a short list, and 680 are a long one.
    fn entries(numbers: Range<u32>) -> Vec<MailboxEntry> {
        let entry = |n: u32| MailboxEntry {
            id: MailboxId(Id::new(1, u128::from(n))),
            name: MailboxName::new(&format!("{n:05}/{}", "x".repeat(69))).unwrap(),
            uid_validity: UidValidity::MIN,
            special_use: None,
        };
        numbers.map(entry).collect()
    }

    fn list(mailboxes: u32) -> StoredList {
        let list = MailboxList {
            version: ModSeq::new(4).unwrap(),
            uid_validity_last: 7,
            entries: entries(0..mailboxes),
            ..MailboxList::empty(ACCOUNT)
        };
        StoredList { list, commits: vec![Id::new(1, 9)] }
    }

    fn adding(numbers: Range<u32>) -> ListCommit {
        ListCommit {
            account: ACCOUNT,
            expected: ModSeq::new(4).unwrap(),
            version: ModSeq::new(5).unwrap(),
            upsert: entries(numbers),
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: 8,
        }
    }

    /// The result of work, and how often it was given to another thread.
    async fn counted<T>(work: impl Future<Output = Result<T>>) -> (T, usize) {
        let before = given_to_compute_threads();
        let done = work.await.unwrap();
        (done, given_to_compute_threads() - before)
    }

    /// Each command that reads the list decoded up to 8 MiB in one poll.
    #[tokio::test]
    async fn a_long_list_is_decoded_and_changed_on_another_thread() {
        let work = ListWork::new();
        for (mailboxes, times) in [(660, 0), (680, 1)] {
            let (stored, commit) = (list(mailboxes), adding(900..901));
            let value = Bytes::from(stored.encode());
            let octets = value.len();
            assert_eq!(counted(work.decoded(ACCOUNT, value)).await, (Some(stored.clone()), times));
            let (value, given) = counted(work.changed(stored.clone(), octets, &commit, CHANGE)).await;
            assert_eq!(StoredList::decode(ACCOUNT, &value), Some(stored.after(&commit, CHANGE)));
            assert_eq!(given, times, "{mailboxes} mailboxes");
        }
        assert_eq!(work.0.keys(), 0, "accounts without work are forgotten");
    }

    #[tokio::test]
    async fn a_change_that_makes_a_list_long_is_made_on_another_thread() {
        let work = ListWork::new();
        for (mailboxes, times) in [(660, 0), (680, 1)] {
            let (empty, commit) = (list(0), adding(0..mailboxes));
            let (_, given) = counted(work.changed(empty, 0, &commit, CHANGE)).await;
            assert_eq!(given, times, "{mailboxes} mailboxes");
        }
    }

    #[tokio::test]
    async fn a_damaged_list_is_none() {
        let work = ListWork::new();
        for (mailboxes, times) in [(1, 0), (680, 1)] {
            let mut damaged = list(mailboxes).encode();
            damaged[40] ^= 1;
            assert_eq!(counted(work.decoded(ACCOUNT, damaged.into())).await, (None, times));
        }
        assert_eq!(counted(work.decoded(ACCOUNT, Bytes::new())).await, (None, 0));
    }

    #[tokio::test]
    async fn an_account_has_one_long_list_decoded_at_a_time() {
        let work = ListWork::new();
        let stored = list(680);
        let held = work.0.acquire_own(ACCOUNT).await.unwrap();
        let given = given_to_compute_threads();
        let mut decoding = pin!(work.decoded(ACCOUNT, stored.encode().into()));
        let waits = poll_fn(|cx| Poll::Ready(decoding.as_mut().poll(cx).is_pending())).await;
        assert_eq!((waits, given_to_compute_threads()), (true, given));
        drop(held);
        assert_eq!(decoding.await.unwrap(), Some(stored));
    }
}
