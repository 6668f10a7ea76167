//! The store as protocols see it: accounts' mailbox lists, open mailboxes, ids, one memory budget.
//!
//! What always holds: there is at most one [`Mailbox`] of an id in a store, so that a change made through one handle
//! wakes all who watch; what a session holds is never evicted.

mod cache;
mod foreign;
mod lists;
mod names;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{OnceCell, watch};

use crate::engine::{BodyRange, Engine};
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::mailbox::Mailbox;
use cache::Cache;
use lists::KnownList;
pub use lists::ListDraft;

/// What a store is told when it is made. `StoreOptions::default()` is what a server wants.
#[derive(Clone)]
pub struct StoreOptions {
    /// Memory for views and mailbox lists, in bytes. What sessions hold counts and is kept even above it.
    pub cache_bytes: usize,
    /// Mailboxes an account may have, and names it may subscribe.
    pub mailboxes_max: usize,
    /// Milliseconds since 1970.
    pub clock_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// 128 random bits a call.
    pub randomness: Arc<dyn Fn() -> u128 + Send + Sync>,
}

impl Default for StoreOptions {
    /// 256 MiB (nine million messages), 10,000 mailboxes an account, the system's clock and randomness.
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            mailboxes_max: 10_000,
            clock_unix_ms: Arc::new(system_clock),
            randomness: Arc::new(system_randomness),
        }
    }
}

fn system_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

fn system_randomness() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        // The kernel has no randomness only before it has booted. An id must still never be given twice.
        Err(_) => {
            use std::hash::{BuildHasher, RandomState};
            u128::from(RandomState::new().hash_one(system_clock())) << 64
                | u128::from(RandomState::new().hash_one(std::process::id()))
        }
    }
}

/// What mailboxes need of their store.
pub(crate) struct Context {
    pub engine: Arc<dyn Engine>,
    options: StoreOptions,
    underway: watch::Sender<usize>,
}

/// Counts as work under way until dropped.
pub(crate) struct Underway(watch::Sender<usize>);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl Context {
    pub fn underway(&self) -> Underway {
        self.underway.send_modify(|n| *n += 1);
        Underway(self.underway.clone())
    }

    pub fn random(&self) -> u128 {
        (self.options.randomness)()
    }

    pub fn unix_s(&self) -> i64 {
        i64::try_from((self.options.clock_unix_ms)() / 1000).unwrap_or(i64::MAX)
    }
}

/// The store. Cheap to clone: all clones are one store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    mailboxes: Mutex<Cache<MailboxId, Arc<Slot>>>,
    lists: Mutex<Cache<AccountId, KnownList>>,
}

/// A mailbox that is open or being opened: whoever comes second waits for the first.
#[derive(Default)]
struct Slot(OnceCell<Arc<Mailbox>>);

impl Slot {
    /// Whether any session holds the mailbox. Only meaningful under the lock of the cache, where no one else can get it.
    fn is_held(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.0.get().is_some_and(|mailbox| Arc::strong_count(mailbox) > 1)
    }
}

/// One part in this many of the memory is for mailbox lists.
const LISTS_SHARE: usize = 8;

impl Store {
    /// A store on an engine.
    pub fn new(engine: Arc<dyn Engine>, options: StoreOptions) -> Self {
        let for_lists = options.cache_bytes / LISTS_SHARE;
        let for_mailboxes = options.cache_bytes - for_lists;
        let context = Context { engine, options, underway: watch::Sender::new(0) };
        let shared = Shared {
            context: Arc::new(context),
            mailboxes: Mutex::new(Cache::new(for_mailboxes)),
            lists: Mutex::new(Cache::new(for_lists)),
        };
        Self { shared: Arc::new(shared) }
    }

    fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The engine: for the directory, checks and maintenance.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.context.engine
    }

    /// Milliseconds since 1970, by the store's clock.
    pub fn unix_ms(&self) -> u64 {
        (self.context().options.clock_unix_ms)()
    }

    /// A new id: rising with time, unique without asking anyone.
    pub fn new_id(&self) -> Id {
        Id::new(self.unix_ms(), self.context().random())
    }

    /// A new body id: one for each message that comes in, however many mailboxes it goes to.
    pub fn new_body_id(&self) -> BodyId {
        BodyId(self.new_id())
    }

    /// A new account id.
    pub fn new_account_id(&self) -> AccountId {
        AccountId(self.new_id())
    }

    /// A new mailbox id.
    pub fn new_mailbox_id(&self) -> MailboxId {
        MailboxId(self.new_id())
    }

    /// Opens a mailbox with its newest view; all who open it get the same handle.
    pub async fn open(&self, id: MailboxId) -> Result<Arc<Mailbox>> {
        let slot = self.shared.mailboxes.lock().get_or_insert_with(id, Arc::<Slot>::default);
        let load = || Mailbox::load(Arc::clone(&self.shared.context), id);
        let outcome = match slot.0.get() {
            Some(mailbox) => mailbox.current().await.map(|_| Arc::clone(mailbox)),
            None => slot.0.get_or_try_init(load).await.map(Arc::clone),
        };
        match &outcome {
            Ok(mailbox) => self.account_for(mailbox),
            Err(error) => self.drop_slot(id, &slot, matches!(error, StoreError::NoMailbox(_))),
        }
        outcome
    }

    /// Drops a mailbox that is gone, or that could not be read and that no one else is just reading.
    fn drop_slot(&self, id: MailboxId, slot: &Arc<Slot>, is_gone: bool) {
        // One count is the cache's and one the caller's.
        let is_ours = || Arc::strong_count(slot) <= 2 && slot.0.get().is_none();
        let was_read = slot.0.get().is_some();
        let drops = |held: &Arc<Slot>| Arc::ptr_eq(held, slot) && ((is_gone && was_read) || is_ours());
        self.shared.mailboxes.lock().remove_if(&id, drops);
    }

    /// Notes what a mailbox takes by now, and makes room.
    fn account_for(&self, mailbox: &Mailbox) {
        let bytes = mailbox.view().memory_bytes();
        let evicted = {
            let mut mailboxes = self.shared.mailboxes.lock();
            mailboxes.set_bytes(&mailbox.id(), bytes);
            mailboxes.evict(Slot::is_held)
        };
        // A large view takes a while to free: not under the lock.
        drop(evicted);
    }

    /// The mailbox if it is open or cached; reads nothing.
    fn opened(&self, id: MailboxId) -> Option<Arc<Mailbox>> {
        self.shared.mailboxes.lock().peek(&id).and_then(|slot| slot.0.get().cloned())
    }

    /// The heads of mailboxes, in the order asked, without loading any; `None` for one that was removed.
    pub async fn status(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let epoch = self.engine().epoch();
        let mut heads: Vec<Option<MailboxHead>> = mailboxes
            .iter()
            .map(|id| self.opened(*id).filter(|m| m.is_checked(epoch) && !m.is_gone()).map(|m| m.head()))
            .collect();
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

    /// A range of a body, cut at its end.
    pub async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.engine().read_body(body, range).await
    }

    /// Waits until no change is under way: before a shutdown.
    pub async fn settle(&self) {
        let mut underway = self.context().underway.subscribe();
        // Cannot fail: the sender is in `self`.
        let _ = underway.wait_for(|n| *n == 0).await;
    }
}
