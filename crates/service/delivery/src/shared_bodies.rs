//! The messages of an account that share a body.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_mail_model::{AccountId, BodyId, MailboxId, NumSet, Uid};
use posthaste_store::{Store, StoreError, Stored};
use tokio::sync::OnceCell;

/// The messages of an account whose bodies it has more than once. They are looked up when they are
/// first needed, 40 bytes for each message of the account while that lasts.
#[derive(Debug, Default)]
pub struct SharedBodies {
    shared: OnceCell<Vec<(BodyId, MailboxId, Uid)>>,
    /// The bodies that a dry run has counted so far, over all accounts.
    counted: Arc<Mutex<HashSet<BodyId>>>,
    /// The bodies for which a dry run would have made items.
    itemized: Arc<Mutex<HashMap<BodyId, ItemsBy>>>,
}

impl SharedBodies {
    /// The state for the next account of the same run.
    #[must_use]
    pub fn of_another_account(&self) -> Self {
        Self {
            shared: OnceCell::new(),
            counted: Arc::clone(&self.counted),
            itemized: Arc::clone(&self.itemized),
        }
    }

    /// Whether a dry run would make items for a message that has its own; noted for the next
    /// ones. A copy of the first message may have counted its items.
    pub(crate) fn makes_items(&self, body: BodyId) -> bool {
        self.itemized().insert(body, ItemsBy::Message) != Some(ItemsBy::Copy)
    }

    /// Whether a dry run would make items for a copy that shares them with another message.
    pub(crate) fn makes_items_by_copy(&self, body: BodyId) -> bool {
        let mut itemized = self.itemized();
        let is_first = !itemized.contains_key(&body);
        if is_first {
            itemized.insert(body, ItemsBy::Copy);
        }
        is_first
    }

    fn itemized(&self) -> MutexGuard<'_, HashMap<BodyId, ItemsBy>> {
        self.itemized.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_counted(&self, body: BodyId) -> bool {
        self.counted().contains(&body)
    }

    pub(crate) fn count_converted(&self, body: BodyId) {
        self.counted().insert(body);
    }

    fn counted(&self) -> MutexGuard<'_, HashSet<BodyId>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the messages of the account with a body. Messages that came after the first call
    /// may be missing.
    pub(crate) async fn count(
        &self,
        store: &Store,
        account: AccountId,
        body: BodyId,
    ) -> Result<u64, StoreError> {
        let all = self.shared.get_or_try_init(|| shared_bodies(store, account)).await?;
        let from = all.partition_point(|(other, ..)| *other < body);
        let mut count = 0;
        for (_, mailbox, uid) in all[from..].iter().take_while(|(other, ..)| *other == body) {
            let mut visit = |stored: Stored<'_>| {
                count += u64::from(stored.body == body);
                ControlFlow::Continue(())
            };
            let uids = NumSet::range(uid.value(), uid.value());
            match store.engine().summaries(*mailbox, &uids, &mut visit).await {
                // An unreadable message does not count.
                Ok(_) | Err(StoreError::NoMailbox(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }
}

/// The message for which items of a body were counted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemsBy {
    Message,
    /// A message that shares the items of another message.
    Copy,
}

/// In the order of their bodies.
async fn shared_bodies(
    store: &Store,
    account: AccountId,
) -> Result<Vec<(BodyId, MailboxId, Uid)>, StoreError> {
    let mut all = Vec::new();
    for entry in &store.list(account).await?.entries {
        let mut visit = |stored: Stored<'_>| {
            all.push((stored.body, entry.id, stored.uid));
            ControlFlow::Continue(())
        };
        match store.engine().summaries(entry.id, &NumSet::range(1, u32::MAX), &mut visit).await {
            Ok(_) | Err(StoreError::NoMailbox(_)) => {}
            Err(error) => return Err(error),
        }
    }
    all.sort_unstable();
    let same = |a: &(BodyId, MailboxId, Uid), b: &(BodyId, MailboxId, Uid)| a.0 == b.0;
    let shared: Vec<_> = all.chunk_by(same).filter(|these| these.len() > 1).flatten().copied().collect();
    Ok(shared)
}
