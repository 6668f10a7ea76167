//! The store for protocols: accounts' mailbox lists, open mailboxes, ids, one memory budget.
//!
//! Invariants: there is at most one [`Mailbox`] of an id in a store. So a change made
//! through one handle wakes all who watch. A mailbox that a session holds is never evicted.

mod cached;
mod counted;
mod following;
mod foreign;
mod lists;
mod names;
#[cfg(test)]
mod removed_tests;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use posthaste_permits::KeyedSemaphore;

use crate::cache::Cache;
use crate::changed::ChangedMailboxes;
use crate::context::{Context, StoreOptions};
use crate::engine::{BodyRange, Engine, Epoch};
use crate::error::Result;
use crate::head::MailboxHead;
use crate::list::MailboxList;
use crate::mailbox::{Destination, Mailbox, MailboxState, Unrefused};
use crate::offload::Place;
use cached::{CachedMailboxes, is_held};
pub use lists::ListDraft;

/// The store. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    mailboxes: Arc<CachedMailboxes>,
    lists: Mutex<Cache<AccountId, KnownList>>,
    /// The turns of an account's commits of its list.
    list_commits: KeyedSemaphore<AccountId>,
}

/// A store that ends when nobody else uses it: for what the store itself holds.
pub struct WeakStore(Weak<Shared>);

impl WeakStore {
    /// The store, if it has not ended.
    pub fn upgrade(&self) -> Option<Store> {
        self.0.upgrade().map(|shared| Store { shared })
    }
}

/// A list and the engine's epoch when it was read.
#[derive(Clone)]
struct KnownList {
    list: Arc<MailboxList>,
    epoch: Epoch,
}

/// The divisor of the memory that gives the part for mailbox lists.
const LISTS_SHARE: usize = 8;

impl Store {
    /// A store on an engine.
    pub fn new(engine: Arc<dyn Engine>, options: StoreOptions) -> Self {
        let for_lists = options.cache_bytes / LISTS_SHARE;
        let for_mailboxes = options.cache_bytes - for_lists;
        let context = Arc::new(Context::new(engine, options));
        let mailboxes: Arc<CachedMailboxes> = Arc::new(Mutex::new(Cache::new(for_mailboxes)));
        let evictable: Weak<CachedMailboxes> = Arc::downgrade(&mailboxes);
        context.open_views.evict_from(evictable);
        // One at a time for an account, and no bound in all.
        let (lists, list_commits) = (Mutex::new(Cache::new(for_lists)), KeyedSemaphore::new(0, 1));
        Self { shared: Arc::new(Shared { context, mailboxes, lists, list_commits }) }
    }

    /// A reference to the store that does not keep it open, for objects that the store holds.
    pub fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.shared))
    }

    /// The account in whose list a mailbox is, by the lists in memory.
    pub fn known_owner(&self, mailbox: MailboxId) -> Option<AccountId> {
        self.shared.lists.lock().find(|known| known.list.entries.iter().any(|entry| entry.id == mailbox))
    }

    pub(crate) fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The engine: for the directory, checks and maintenance.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.context.engine
    }

    /// The mailboxes whose messages changed.
    pub fn changed(&self) -> &Arc<ChangedMailboxes> {
        &self.context().changed
    }

    /// The limit of messages of a folder, by its owner's limit; 0 is no limit. With `None` the
    /// store's limit applies.
    pub fn folder_messages_max(&self, own: Option<u32>) -> Option<u32> {
        own.map_or_else(|| self.shared.context.folder_messages_max(), |own| Some(own).filter(|own| *own > 0))
    }

    /// Milliseconds since 1970, by the store's clock.
    pub fn unix_ms(&self) -> u64 {
        self.context().unix_ms()
    }

    /// A new id. Ids increase with time, and are unique without coordination.
    pub fn new_id(&self) -> Id {
        Id::new(self.unix_ms(), self.context().random())
    }

    /// A new body id: one for each incoming message, however many mailboxes receive it.
    pub fn new_body_id(&self) -> BodyId {
        BodyId(self.new_id())
    }

    /// A new mailbox id.
    pub fn new_mailbox_id(&self) -> MailboxId {
        MailboxId(self.new_id())
    }

    /// Opens a mailbox with its newest view; all sessions that open it share its state. A large
    /// mailbox may have no room: [`crate::StoreError::TooManyOpen`].
    pub async fn open(&self, id: MailboxId) -> Result<Arc<Mailbox>> {
        self.open_state(self.state(id), None).await
    }

    /// [`Store::open`] for a session of this account. Large changes of one account run one after
    /// the other, so that they do not keep those of others waiting. A change counts for the
    /// account that makes it, also in a mailbox of another account.
    pub async fn open_for(&self, account: AccountId, id: MailboxId) -> Result<Arc<Mailbox>> {
        self.open_state(self.state(id), Some(account)).await
    }

    /// [`Store::open`] for work of the server that has one mailbox open at a time, as retention,
    /// and for mailboxes that no user has. It is not refused for lack of room.
    pub async fn open_for_upkeep(&self, id: MailboxId) -> Result<Arc<Mailbox>> {
        let state = self.state(id);
        let _unrefused = Unrefused::of(&state);
        self.open_state(state, None).await
    }

    async fn open_state(&self, state: Arc<MailboxState>, account: Option<AccountId>) -> Result<Arc<Mailbox>> {
        let outcome = Mailbox::open(Arc::clone(&state), account).await;
        self.account_for(&state);
        outcome
    }

    /// A mailbox as a destination for messages. Reads nothing: the first message shows whether it
    /// exists.
    pub fn destination(&self, id: MailboxId) -> Destination {
        let state = self.state(id);
        self.account_for(&state);
        Destination::of(state)
    }

    /// [`Store::destination`] for a session of this account, as for [`Store::open_for`].
    pub fn destination_for(&self, account: AccountId, id: MailboxId) -> Destination {
        self.destination(id).for_account(account)
    }

    /// The one state of a mailbox.
    fn state(&self, id: MailboxId) -> Arc<MailboxState> {
        let new = || Arc::new(MailboxState::new(Arc::clone(&self.shared.context), id));
        let mut mailboxes = self.shared.mailboxes.lock();
        let state = mailboxes.get_or_insert_with(id, new);
        if !state.is_deleted() {
            return state;
        }
        // An id is never assigned twice, but a node may have looked up a mailbox before its
        // database showed it.
        mailboxes.remove_if(&id, |_| true);
        mailboxes.get_or_insert_with(id, new)
    }

    /// Records the memory a mailbox uses now, and evicts others if the budget is exceeded. A
    /// deleted mailbox uses no memory.
    fn account_for(&self, state: &Arc<MailboxState>) {
        let bytes = state.memory_bytes();
        let evicted = {
            let mut mailboxes = self.shared.mailboxes.lock();
            if state.is_deleted() {
                mailboxes.remove_if(&state.id(), |known| Arc::ptr_eq(known, state));
            }
            mailboxes.set_bytes(&state.id(), bytes);
            mailboxes.evict(is_held)
        };
        // Freeing a large view takes a while, so it is not done under the lock.
        drop(evicted);
    }

    /// The mailbox's state if it is cached; reads nothing.
    fn cached(&self, id: MailboxId) -> Option<Arc<MailboxState>> {
        self.shared.mailboxes.lock().peek(&id).cloned()
    }

    /// The state of a mailbox, if it is cached and known to be the newest.
    fn known(&self, id: MailboxId, epoch: Epoch) -> Option<Arc<MailboxState>> {
        self.cached(id).filter(|mailbox| mailbox.is_checked(epoch) && !mailbox.is_deleted())
    }

    /// The head of a mailbox, if it is cached and known to be the newest.
    fn known_head(&self, id: MailboxId, epoch: Epoch) -> Option<MailboxHead> {
        self.known(id, epoch)?.head()
    }

    /// The heads of mailboxes, in the order of the ids, without loading any; `None` for one that
    /// was removed.
    pub async fn status(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let epoch = self.engine().epoch();
        let mut heads: Vec<Option<MailboxHead>> =
            mailboxes.iter().map(|id| self.known_head(*id, epoch)).collect();
        let unknown: Vec<MailboxId> =
            mailboxes.iter().zip(&heads).filter(|(_, head)| head.is_none()).map(|(id, _)| *id).collect();
        if unknown.is_empty() {
            return Ok(heads);
        }
        let mut found = self.engine().heads(&unknown).await?.into_iter();
        for slot in heads.iter_mut().filter(|head| head.is_none()) {
            *slot = found.next().flatten();
        }
        Ok(heads)
    }

    /// A range of a body as clients see it, cut at its end. A conversion counts for this reader.
    pub async fn read_body(&self, reader: Place, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.context().read_body(&reader, body, range).await
    }

    /// Keeps what clients see of a body in another form, for its first readers, within a part of
    /// the memory for conversions. Delivery, which has converted it, calls this before it stores
    /// the body.
    pub fn has_converted(&self, body: BodyId, served: &[u8]) {
        self.context().served.arrived(body, served);
    }

    /// Waits until no change is running. Called before a shutdown.
    pub async fn wait_for_changes(&self) {
        self.context().wait_for_changes().await;
    }
}
