//! Mailbox lists: cached, and changed by drafting against the newest list until the commit
//! succeeds.

use std::sync::Arc;

use posthaste_mail_model::{AccountId, MailboxId, MailboxName, Uid, UidValidity};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::{KnownList, Store};
use crate::backoff::Backoff;
use crate::change::CommitOutcome;
use crate::engine::Epoch;
use crate::error::{Result, StoreError};
use crate::list::{ListCommit, MailboxEntry, MailboxList};
use crate::mailbox::HeldPermit;
use crate::offload::{Place, is_large};

/// The number of messages of a change that take as long to resolve as one entry of a list takes to
/// read.
const ENTRY_MESSAGES: u64 = 10;

/// A change of a mailbox list in preparation: see [`Store::change_list`].
pub struct ListDraft {
    commit: ListCommit,
    mailboxes_max: Option<u64>,
    /// The owner's own limit of messages in a folder.
    own_messages_max: Option<u32>,
    inbox_move: Option<InboxMove>,
    now_unix_s: u32,
}

/// The move of INBOX's messages when it is renamed.
pub(super) struct InboxMove {
    /// The number of messages to move at most, those with the lowest UIDs.
    pub most: u64,
    /// The permit that the move holds.
    pub held: Option<HeldPermit>,
}

impl ListDraft {
    fn new(list: &MailboxList, now_unix_s: u32) -> Self {
        let commit = ListCommit {
            account: list.account,
            expected: list.version,
            version: list.version.next(),
            upsert: Vec::new(),
            remove: Vec::new(),
            subscribe: Vec::new(),
            unsubscribe: Vec::new(),
            uid_validity_last: list.uid_validity_last,
        };
        Self { commit, mailboxes_max: None, own_messages_max: None, inbox_move: None, now_unix_s }
    }

    /// Adds a mailbox, or gives the one of this id another name or use.
    pub fn upsert(&mut self, entry: MailboxEntry) {
        self.commit.upsert.push(entry);
    }

    /// Refuses the change if it adds mailboxes and the account then has more than these.
    pub fn limit_mailboxes(&mut self, limit: Option<u64>) {
        self.mailboxes_max = limit;
    }

    /// For RENAME of INBOX: the owner's own limit of messages in a folder, as of
    /// [`crate::Destination::note_owner_limit`].
    pub fn limit_messages(&mut self, own: Option<u32>) {
        self.own_messages_max = own;
    }

    /// For RENAME of INBOX: at most this many messages are moved, those with the lowest UIDs. Later
    /// ones stay, as mail that comes meanwhile does. The move holds `held` until it has ended.
    pub fn move_at_most(&mut self, most: u64, held: Option<HeldPermit>) {
        self.inbox_move = Some(InboxMove { most, held });
    }

    pub(super) fn take_inbox_move(&mut self) -> Option<InboxMove> {
        self.inbox_move.take()
    }

    pub(super) fn own_messages_max(&self) -> Option<u32> {
        self.own_messages_max
    }

    /// Removes a mailbox and its messages.
    pub fn remove(&mut self, mailbox: MailboxId) {
        self.commit.remove.push(mailbox);
    }

    /// Subscribes a name.
    pub fn subscribe(&mut self, name: MailboxName) {
        self.commit.subscribe.push(name);
    }

    /// Unsubscribes a name.
    pub fn unsubscribe(&mut self, name: MailboxName) {
        self.commit.unsubscribe.push(name);
    }

    /// A UIDVALIDITY that this account never had: the time in unix seconds, or one more than the
    /// last (RFC 9051 §2.3.1.1). Fails once the account has had the largest one.
    pub fn new_uid_validity(&mut self) -> Result<UidValidity> {
        let next = self.commit.uid_validity_last.checked_add(1);
        let value = next.map(|next| next.max(self.now_unix_s)).and_then(UidValidity::new);
        let value = value.ok_or(StoreError::UidValiditiesExhausted)?;
        self.commit.uid_validity_last = value.value();
        Ok(value)
    }

    /// Whether a name is among the entries drafted so far.
    pub(super) fn has(&self, name: &MailboxName) -> bool {
        self.commit.upsert.iter().any(|entry| entry.name == *name)
    }

    /// Whether a mailbox gets another name or use.
    pub(super) fn renames(&self, mailbox: MailboxId) -> bool {
        self.commit.upsert.iter().any(|entry| entry.id == mailbox)
    }

    fn is_empty(&self) -> bool {
        let ListCommit { upsert, remove, subscribe, unsubscribe, .. } = &self.commit;
        upsert.is_empty() && remove.is_empty() && subscribe.is_empty() && unsubscribe.is_empty()
    }
}

impl Store {
    /// An account's mailbox list as it is now. Cached; reads from the engine if another process or
    /// node may have changed it.
    pub async fn list(&self, account: AccountId) -> Result<Arc<MailboxList>> {
        let epoch = self.engine().epoch();
        if let Some(known) = self.shared.lists.lock().get(&account)
            && epoch.is_some()
            && known.epoch == epoch
        {
            return Ok(Arc::clone(&known.list));
        }
        self.read_list(account).await
    }

    pub(super) async fn read_list(&self, account: AccountId) -> Result<Arc<MailboxList>> {
        let epoch = self.engine().epoch();
        let known = self.shared.lists.lock().get(&account).map_or(0, |known| known.list.entries.len());
        let list = match is_long(known) && epoch.is_some() {
            true => {
                let (engine, runtime) = (Arc::clone(self.engine()), Handle::current());
                let work = move || runtime.block_on(engine.load_list(account));
                // Boxed: nearly no list is long.
                Box::pin(self.context().large_permits.run(Place::Account(account), work)).await??
            }
            // An engine on other machines waits for them.
            false => self.engine().load_list(account).await?,
        };
        Ok(self.remember(Arc::new(list), epoch))
    }

    /// The list after a commit. A long one is computed on another thread.
    async fn applied(&self, list: &Arc<MailboxList>, commit: &ListCommit) -> Result<MailboxList> {
        if !is_long(list.entries.len()) {
            return Ok(list.apply(commit));
        }
        let (list, commit) = (Arc::clone(list), commit.clone());
        let place = Place::Account(list.account);
        Box::pin(self.context().large_permits.run(place, move || list.apply(&commit))).await
    }

    /// Caches a list, unless a newer one is cached already; returns the cached one.
    fn remember(&self, list: Arc<MailboxList>, epoch: Epoch) -> Arc<MailboxList> {
        let mut lists = self.shared.lists.lock();
        if let Some(known) = lists.get(&list.account)
            && known.list.version > list.version
        {
            return Arc::clone(&known.list);
        }
        let bytes = memory_bytes(&list);
        lists.insert(list.account, KnownList { list: Arc::clone(&list), epoch }, bytes);
        let evicted = lists.evict(|_| false);
        drop(lists);
        drop(evicted);
        self.context().followers.note_list(&list);
        list
    }

    /// Changes a mailbox list. `change` sees the list and drafts the change; it runs again if
    /// someone else changed the list meanwhile. An empty draft commits nothing.
    pub async fn change_list<T, F>(&self, account: AccountId, mut change: F) -> Result<T>
    where
        F: FnMut(&MailboxList, &mut ListDraft) -> Result<T> + Send,
        T: Send,
    {
        let mut backoff = Backoff::of_command(Instant::now());
        let mut list = self.list(account).await?;
        loop {
            let epoch = self.engine().epoch();
            let now = u32::try_from(self.unix_ms() / 1000).unwrap_or(u32::MAX);
            let mut draft = ListDraft::new(&list, now);
            let result = change(&list, &mut draft)?;
            if draft.is_empty() {
                return Ok(result);
            }
            let next = self.applied(&list, &draft.commit).await?;
            self.within_limits(&list, &next, draft.mailboxes_max)?;
            let removed = draft.commit.remove.clone();
            let turn = self.shared.list_commits.acquire_own(account).await;
            match self.engine().commit_list(draft.commit).await {
                Ok(CommitOutcome::Done) => {
                    self.remember(Arc::new(next), epoch);
                    self.forget(&removed);
                    return Ok(result);
                }
                Ok(CommitOutcome::Conflict) => {
                    drop(turn);
                    backoff.pause(self.context()).await?;
                    list = self.read_list(account).await?;
                }
                Err(error) => {
                    // The commit may have been applied, so the cached list is no longer valid.
                    self.shared.lists.lock().remove_if(&account, |_| true);
                    return Err(error);
                }
            }
        }
    }

    /// Does work during which this process does not change the mailbox list of an account. The work
    /// must not change it either.
    pub async fn while_list_stays<T>(&self, account: AccountId, work: impl Future<Output = T>) -> T {
        let _turn = self.shared.list_commits.acquire_own(account).await;
        work.await
    }

    /// Checks the limits of a list: the server's, and the account's own limit of mailboxes.
    fn within_limits(&self, old: &MailboxList, new: &MailboxList, own: Option<u64>) -> Result<()> {
        let (before, after) = (old.entries.len(), new.entries.len());
        if let Some(limit) = own.filter(|limit| after > before && after as u64 > *limit) {
            return Err(StoreError::TooManyMailboxes { limit });
        }
        let limit = self.context().mailboxes_max();
        let over = |old: usize, new: usize| new > old && new > limit;
        let too_large = |what| Err(StoreError::TooLarge { what, limit: limit as u64 });
        if over(before, after) {
            return too_large("number of mailboxes");
        }
        if over(old.subscribed.len(), new.subscribed.len()) {
            return too_large("number of subscriptions");
        }
        Ok(())
    }

    /// Notifies sessions that have these mailboxes selected that they were deleted.
    fn forget(&self, removed: &[MailboxId]) {
        for id in removed {
            self.changed().note(*id, Uid::MIN);
            let state = self.shared.mailboxes.lock().remove_if(id, |_| true);
            if let Some(state) = state {
                state.mark_deleted();
            }
        }
    }
}

/// Whether the list is read and copied on another thread: 1,000 entries take some 2 ms.
pub(super) fn is_long(entries: usize) -> bool {
    is_large(entries as u64 * ENTRY_MESSAGES)
}

/// The approximate memory of a list: an entry and its name, and twice that for names in a tree.
fn memory_bytes(list: &MailboxList) -> usize {
    let entries: usize =
        list.entries.iter().map(|e| std::mem::size_of::<MailboxEntry>() + 16 + e.name.as_str().len()).sum();
    let subscribed: usize = list.subscribed.iter().map(|name| 48 + name.as_str().len()).sum();
    std::mem::size_of::<MailboxList>() + entries + subscribed
}
