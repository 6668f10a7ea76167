//! The mailboxes that the lists of their owners do not name.
//!
//! A round visits mailboxes in the order of their hashes, so those of one owner are spread over
//! all of it. A list that was read for each of its mailboxes made a round quadratic. So a list is
//! read once for a page of mailboxes, and the ids of a long one are kept for the round.
//!
//! Kept ids count only where they name a mailbox. If the list has lost it since, the server that
//! removed it closes it, or the next round does. If the kept ids do not name it, the list is read
//! again, after the mailbox. So a list to which a transfer adds mailboxes is not fenced for each.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::{Result, StoreError};

use crate::cluster::connection::AT_ONCE;

/// Mailboxes from which on the ids of a list are kept. A shorter list costs no more than the
/// other records that the sweep reads of a mailbox.
const KEPT_FROM: usize = 100;

/// Ids that are kept: 4 MiB, for 26 lists of 10,000 mailboxes. Users may have no longer lists.
const KEPT_MAX: usize = 1 << 18;

/// The ids of long lists that were read in this round.
#[derive(Default)]
pub(super) struct Listed {
    /// The ids of each list in their order.
    lists: HashMap<AccountId, Vec<MailboxId>>,
}

/// What lists show of the mailboxes of a page. The others are in the lists of their owners.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// The list of the owner does not name them.
    pub(super) unlisted: HashSet<MailboxId>,
    /// The list of the owner is damaged.
    pub(super) unknown: HashSet<MailboxId>,
}

impl Listed {
    /// Judges mailboxes, which were read before, by the lists of their owners. `read` reads the
    /// ids of a list; `None` if the list is damaged.
    pub(super) async fn judge<F>(
        &mut self,
        mut owned: BTreeMap<AccountId, Vec<MailboxId>>,
        read: impl Fn(AccountId) -> F,
    ) -> Result<Judged>
    where
        F: Future<Output = Result<Option<Vec<MailboxId>>>>,
    {
        owned.retain(|owner, mailboxes| {
            mailboxes.retain(|mailbox| !self.names(*owner, *mailbox));
            !mailboxes.is_empty()
        });
        let reads = stream::iter(owned).map(|(owner, mailboxes)| {
            let ids = read(owner);
            async move { Ok::<_, StoreError>((owner, mailboxes, ids.await?)) }
        });
        let mut reads = pin!(reads.buffer_unordered(AT_ONCE / 4));
        let mut judged = Judged::default();
        while let Some((owner, mailboxes, ids)) = reads.try_next().await? {
            let Some(mut ids) = ids else {
                judged.unknown.extend(mailboxes);
                continue;
            };
            ids.sort_unstable();
            let is_unlisted = |mailbox: &MailboxId| ids.binary_search(mailbox).is_err();
            judged.unlisted.extend(mailboxes.into_iter().filter(is_unlisted));
            self.keep(owner, ids);
        }
        Ok(judged)
    }

    fn names(&self, owner: AccountId, mailbox: MailboxId) -> bool {
        self.lists.get(&owner).is_some_and(|ids| ids.binary_search(&mailbox).is_ok())
    }

    /// Keeps the ids of a list if it is long. The longest lists stay: they save most.
    fn keep(&mut self, owner: AccountId, ids: Vec<MailboxId>) {
        self.lists.remove(&owner);
        if ids.len() < KEPT_FROM {
            return;
        }
        self.lists.insert(owner, ids);
        while self.lists.values().map(Vec::len).sum::<usize>() > KEPT_MAX {
            let shortest = self.lists.iter().min_by_key(|(_, ids)| ids.len());
            let Some((&shortest, _)) = shortest else { return };
            self.lists.remove(&shortest);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use posthaste_mail_model::Id;

    use super::*;

    /// The lists of a keyspace; `None` for a damaged one.
    struct Keyspace {
        lists: HashMap<AccountId, Option<Vec<MailboxId>>>,
        reads: Cell<usize>,
    }

    impl Keyspace {
        fn with(owner: AccountId, mailboxes: std::ops::Range<u64>) -> Self {
            let lists = HashMap::from([(owner, Some(mailboxes.map(mailbox).collect()))]);
            Self { lists, reads: Cell::default() }
        }

        async fn judge(&self, listed: &mut Listed, page: &[(AccountId, MailboxId)]) -> Judged {
            let mut owned: BTreeMap<AccountId, Vec<MailboxId>> = BTreeMap::new();
            for (owner, mailbox) in page {
                owned.entry(*owner).or_default().push(*mailbox);
            }
            let read = |owner: AccountId| {
                self.reads.set(self.reads.get() + 1);
                ready(Ok(self.lists.get(&owner).cloned().unwrap_or_else(|| Some(Vec::new()))))
            };
            listed.judge(owned, read).await.unwrap()
        }
    }

    fn owner(n: u64) -> AccountId {
        AccountId(Id::new(1, u128::from(n)))
    }

    fn mailbox(n: u64) -> MailboxId {
        MailboxId(Id::new(2, u128::from(n)))
    }

    /// It was read for each of its mailboxes.
    #[tokio::test]
    async fn a_long_list_is_read_once_in_a_round() {
        let keyspace = Keyspace::with(owner(1), 0..10_000);
        let mut listed = Listed::default();
        let mailboxes: Vec<_> = (0..10_000).map(|n| (owner(1), mailbox(n))).collect();
        for page in mailboxes.chunks(100) {
            assert_eq!(keyspace.judge(&mut listed, page).await, Judged::default());
        }
        assert_eq!(keyspace.reads.get(), 1);
    }

    #[tokio::test]
    async fn a_short_list_is_read_once_for_a_page() {
        let keyspace = Keyspace::with(owner(1), 0..50);
        let mut listed = Listed::default();
        let page: Vec<_> = (0..60).map(|n| (owner(1), mailbox(n))).collect();
        let beyond: HashSet<MailboxId> = (50..60).map(mailbox).collect();
        for reads in [1, 2] {
            let judged = keyspace.judge(&mut listed, &page).await;
            assert_eq!(judged, Judged { unlisted: beyond.clone(), unknown: HashSet::new() });
            assert_eq!(keyspace.reads.get(), reads);
        }
        assert!(listed.lists.is_empty());
    }

    #[tokio::test]
    async fn a_mailbox_that_kept_ids_lack_is_judged_by_the_list_of_now() {
        let mut keyspace = Keyspace::with(owner(1), 0..200);
        let mut listed = Listed::default();
        assert_eq!(keyspace.judge(&mut listed, &[(owner(1), mailbox(7))]).await, Judged::default());
        // One comes into the list, and another leaves it.
        keyspace.lists.insert(owner(1), Some((8..201).map(mailbox).collect()));
        let page = [(owner(1), mailbox(200)), (owner(1), mailbox(300)), (owner(1), mailbox(7))];
        let judged = keyspace.judge(&mut listed, &page).await;
        assert_eq!((judged.unlisted, keyspace.reads.get()), (HashSet::from([mailbox(300)]), 2));
        // The kept ids are those of the last read, also for one that has left.
        let judged = keyspace.judge(&mut listed, &page).await;
        assert_eq!((judged.unlisted, keyspace.reads.get()), (HashSet::from([300, 7].map(mailbox)), 3));
        // The list of another owner does not count.
        let judged = keyspace.judge(&mut listed, &[(owner(2), mailbox(9))]).await;
        assert_eq!(judged.unlisted, HashSet::from([mailbox(9)]));
    }

    #[tokio::test]
    async fn the_mailboxes_of_a_damaged_list_are_unknown() {
        let mut keyspace = Keyspace::with(owner(1), 0..200);
        keyspace.lists.insert(owner(2), None);
        let mut listed = Listed::default();
        let page = [(owner(1), mailbox(7)), (owner(2), mailbox(8))];
        for _ in 0..2 {
            let judged = keyspace.judge(&mut listed, &page).await;
            assert_eq!((judged.unlisted.len(), judged.unknown), (0, HashSet::from([mailbox(8)])));
        }
    }

    #[test]
    fn the_longest_lists_are_kept_within_a_bound() {
        let mut listed = Listed::default();
        listed.keep(owner(0), (0..KEPT_FROM as u64).map(mailbox).collect());
        for n in 1..30 {
            listed.keep(owner(n), (0..10_000).map(mailbox).collect());
        }
        assert_eq!(listed.lists.len(), KEPT_MAX / 10_000);
        assert!(!listed.names(owner(0), mailbox(7)));
        listed.keep(owner(30), (0..20_000).map(mailbox).collect());
        assert!(listed.names(owner(30), mailbox(19_999)));
        assert!(listed.lists.values().map(Vec::len).sum::<usize>() <= KEPT_MAX);
    }
}
