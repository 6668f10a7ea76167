//! The converted message that a session reads in pieces.
//!
//! Rich mail that is stored as sent is converted for its readers, and the result is kept within the
//! memory for conversions. Two clients that read large messages in turns would evict each other's
//! message, and each piece would need a conversion. So a session holds the large message that it
//! reads, and its memory is reserved in the budget for reading.
//!
//! A session holds one message at most. It releases it when it reads another large one. An IMAP
//! session also does so when it begins IDLE or closes the mailbox, and a POP3 session when it has
//! sent the whole message. The same happens after a minute without a piece, and when memory for
//! reading is short.
//!
//! Invariants: nothing waits for this memory. Others wait because of it for at most the time that
//! the budget lets a slow message keep its bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use posthaste_mail_model::{AccountId, BodyId};
use posthaste_net::{ByteBudget, BytePermit, Holder};
use posthaste_store::{Mailbox, PinnedBody};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Time without a piece after which a message is released: longer than the pauses of a client that
/// continues to read. Twice this time would keep twice the memory of readers that have stopped.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// A message is held only if this many times its bytes are free, so that reading continues
/// without a wait.
const FREE_TIMES: usize = 2;

/// The messages that the sessions of all protocols hold. Cheap to clone.
#[derive(Clone, Default)]
pub struct HeldMessages(Arc<Mutex<HeldBySession>>);

#[derive(Default)]
struct HeldBySession {
    next: u64,
    sessions: HashMap<u64, HeldMessage>,
}

/// The message that a session holds.
struct HeldMessage {
    account: AccountId,
    body: BodyId,
    used: Instant,
    paid: Arc<BytePermit>,
    watcher: AbortHandle,
    _message: PinnedBody,
}

impl Drop for HeldMessage {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// A session's entry. Its message is released when the entry is dropped.
#[derive(Default)]
pub struct Holding(OnceLock<HolderKey>);

struct HolderKey {
    all: HeldMessages,
    key: u64,
}

impl Drop for HolderKey {
    fn drop(&mut self) {
        self.all.release(self.key);
    }
}

impl Holding {
    /// Releases the message that the session holds.
    pub fn release(&self) {
        if let Some(HolderKey { all, key }) = self.0.get() {
            all.release(*key);
        }
    }

    fn key(&self, all: &HeldMessages) -> u64 {
        let place = self.0.get_or_init(|| HolderKey { all: all.clone(), key: all.new_key() });
        place.key
    }
}

/// A large message that is about to be read.
#[derive(Clone, Copy)]
pub struct LargeMessage<'m> {
    /// The mailbox of the message.
    pub mailbox: &'m Mailbox,
    /// The id of the message's body.
    pub body: BodyId,
    /// The octets of the message as clients see them.
    pub bytes: u64,
}

impl HeldMessages {
    /// Holds a message for a session of an account, if it is one that is converted, and if there is
    /// memory for it now.
    pub async fn hold(
        &self,
        holding: &Holding,
        account: AccountId,
        reads: &ByteBudget,
        message: LargeMessage<'_>,
    ) {
        let LargeMessage { mailbox, body, bytes } = message;
        let (key, bytes) = (holding.key(self), usize::try_from(bytes).unwrap_or(usize::MAX));
        if self.is_held(key, body, bytes) {
            return;
        }
        self.release(key);
        // The read that follows reports an error.
        let Ok(Some(held)) = mailbox.pin_body(body).await else { return };
        if reads.available() / FREE_TIMES < bytes {
            return;
        }
        let paid = Arc::new(reads.begin(Holder::Account(account.0.to_bytes())));
        if paid.grow_to(bytes).is_err() {
            return;
        }
        let watcher = posthaste_metrics::current().metered(watch(self.clone(), key, Arc::clone(&paid)));
        let watcher = tokio::spawn(watcher).abort_handle();
        let held = HeldMessage { account, body, used: Instant::now(), paid, watcher, _message: held };
        let before = self.lock().sessions.insert(key, held);
        drop(before);
    }

    /// Releases messages, so that a session of this account need not wait for this many bytes.
    pub fn make_room(&self, account: AccountId, reads: &ByteBudget, bytes: usize) {
        let released: Vec<HeldMessage> = {
            let mut all = self.lock();
            if all.sessions.is_empty() {
                return;
            }
            let of_account = all.sessions.values().filter(|held| held.account == account);
            let held: usize = of_account.map(|held| held.paid.bytes()).sum();
            let (is_full, is_share_full) =
                (reads.available() < bytes, held.saturating_add(bytes) > reads.largest());
            let ends = |held: &HeldMessage| is_full || is_share_full && held.account == account;
            all.sessions.extract_if(|_, held| ends(held)).map(|(_, held)| held).collect()
        };
        drop(released);
    }

    fn new_key(&self) -> u64 {
        let mut all = self.lock();
        all.next += 1;
        all.next
    }

    /// Whether a session holds this message. Counts as a use.
    fn is_held(&self, key: u64, body: BodyId, bytes: usize) -> bool {
        let mut all = self.lock();
        let Some(held) = all.sessions.get_mut(&key) else { return false };
        held.used = Instant::now();
        held.paid.note_arrived(bytes);
        held.body == body
    }

    fn release(&self, key: u64) {
        let released = self.lock().sessions.remove(&key);
        drop(released);
    }

    /// Time until what a session holds counts as unused.
    fn time_left(&self, key: u64) -> Duration {
        let used = self.lock().sessions.get(&key).map(|held| held.used);
        UNUSED_MAX.saturating_sub(used.map_or(UNUSED_MAX, |used| used.elapsed()))
    }

    fn lock(&self) -> MutexGuard<'_, HeldBySession> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the message of a session once it is unused, or others need its memory.
async fn watch(all: HeldMessages, key: u64, paid: Arc<BytePermit>) {
    let mut left = UNUSED_MAX;
    while !left.is_zero() {
        tokio::select! {
            () = paid.revoked() => break,
            () = tokio::time::sleep(left) => left = all.time_left(key),
        }
    }
    // The memory is free: so is its permit.
    drop(paid);
    all.release(key);
}
