//! Bounds the memory of newest views: the rows of all mailboxes that this process knows, open or
//! cached.
//!
//! A mailbox counts its messages as soon as its rows are to be read. If they have no room, cached
//! mailboxes that nobody holds are evicted. If that is not enough, the mailbox is not opened, and
//! nothing was read. So a few accounts with very many messages each cannot fill the memory.
//!
//! Sessions may take seven eighths of the bytes. The rest is for the work of the server itself:
//! it opens mailboxes, too, and sessions must not keep it waiting. An account may have half of
//! the bytes. A mailbox counts for the account that opened it first.
//!
//! The first messages of a mailbox do not count, so a small mailbox is always opened. A mailbox
//! that grows while it is open counts its growth, and is not refused: the limits of its account
//! bound it. Nor is a mailbox refused that is open and has to be read again.
//!
//! The cost: a change of the number of messages adds to two numbers. An opening that has no room
//! looks at all mailboxes that count. Nothing is done for each message.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use foldhash::HashMap;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId};

use crate::cache::Cache;
use crate::error::{Result, StoreError};
use crate::mailbox::MailboxState;
use crate::row::Row;

/// Bytes of a message in a view: its row, and its part of a chunk and a group.
const ROW_BYTES: u64 = Row::LEN as u64 + 1;

/// Messages of each mailbox that do not count. They take 29 KB. With ten times as many, those of
/// 16,000 connections would take 4.6 GB.
const UNCOUNTED: u32 = if cfg!(test) { 10 } else { 1000 };

/// The divisor of the bytes that gives the part which sessions leave to the server.
const SERVER_DIVISOR: u64 = 8;

/// The divisor of the bytes that gives an account's share. With half of them, an account may open
/// all messages that `limits.account_messages` lets it have by default.
const SHARE_DIVISOR: u64 = 2;

/// The mailboxes of a store, those that nobody holds among them.
pub(crate) type CachedMailboxes = Mutex<Cache<MailboxId, Arc<MailboxState>>>;

/// For whom rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowsFor {
    /// A session of this account.
    Account(AccountId),
    /// The server itself.
    Server,
    /// Anyone: these rows count, and are never refused.
    Anyone,
}

/// The memory of newest views, and its limits.
pub(crate) struct OpenViews {
    /// The limit of all together.
    most: u64,
    /// The limit of sessions.
    for_sessions: u64,
    /// The limit of an account.
    share: u64,
    counted: Arc<AtomicU64>,
    accounts: Mutex<HashMap<AccountId, Arc<AtomicU64>>>,
    /// Mailboxes that count, each as often as there are states of it.
    large: Mutex<HashMap<MailboxId, u32>>,
    /// Mailboxes that may be evicted.
    cached: OnceLock<Weak<CachedMailboxes>>,
    /// Openings that were refused.
    refused: AtomicU64,
}

/// A number of bytes in a sum, until it is dropped.
struct Part {
    sum: Arc<AtomicU64>,
    bytes: AtomicU64,
}

/// The part of a mailbox in the sum of an account.
struct OwnPart {
    views: Arc<OpenViews>,
    account: AccountId,
    part: Part,
}

/// The rows of one mailbox, as they count. They count until this is dropped.
pub(crate) struct CountedRows {
    views: Arc<OpenViews>,
    mailbox: MailboxId,
    reader: RowsFor,
    all: Part,
    /// Set once it is known for which account they count.
    own: OnceLock<OwnPart>,
}

/// The bytes that an opening lacks.
struct Lacking {
    /// Of all mailboxes together.
    all: u64,
    /// Of those of the account.
    own: u64,
    account: Option<AccountId>,
}

/// A mailbox that nobody holds.
struct IdleMailbox {
    id: MailboxId,
    account: Option<AccountId>,
    bytes: u64,
    /// The time of its last use.
    used: u64,
}

impl Part {
    fn of(sum: Arc<AtomicU64>) -> Self {
        Self { sum, bytes: AtomicU64::new(0) }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Adds bytes, unless the sum would exceed a limit. Others may add at the same time.
    fn add_within(&self, more: u64, most: u64) -> bool {
        let within = |sum: u64| sum.checked_add(more).filter(|sum| *sum <= most);
        let is_added = self.sum.fetch_update(Ordering::AcqRel, Ordering::Acquire, within).is_ok();
        if is_added {
            self.bytes.fetch_add(more, Ordering::AcqRel);
        }
        is_added
    }

    /// The bytes that [`Self::add_within`] lacks.
    fn lacks(&self, more: u64, most: u64) -> u64 {
        self.sum.load(Ordering::Acquire).saturating_add(more).saturating_sub(most)
    }

    /// Sets the bytes, whatever the sum is then.
    fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::AcqRel);
        if bytes >= before {
            self.sum.fetch_add(bytes - before, Ordering::AcqRel);
        } else {
            self.sum.fetch_sub(before - bytes, Ordering::AcqRel);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for OwnPart {
    fn drop(&mut self) {
        let mut accounts = self.views.accounts.lock();
        // The table has one, and this part. Others are made under the lock only.
        if Arc::strong_count(&self.part.sum) == 2 {
            accounts.remove(&self.account);
        }
    }
}

/// The bytes that a mailbox of this many messages counts.
fn bytes_of(messages: u32) -> u64 {
    u64::from(messages.saturating_sub(UNCOUNTED)) * ROW_BYTES
}

impl OpenViews {
    /// All mailboxes together may take this many bytes.
    pub fn new(bytes: usize) -> Self {
        let most = bytes as u64;
        Self {
            most,
            for_sessions: most - most / SERVER_DIVISOR,
            share: most / SHARE_DIVISOR,
            counted: Arc::default(),
            accounts: Mutex::default(),
            large: Mutex::default(),
            cached: OnceLock::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Lets mailboxes of this cache be evicted.
    pub fn evict_from(&self, mailboxes: &Arc<CachedMailboxes>) {
        // A context has one store.
        let _ = self.cached.set(Arc::downgrade(mailboxes));
    }

    /// The limit of all together for this reader; `None`: there is none.
    fn most_for(&self, reader: RowsFor) -> Option<u64> {
        match reader {
            RowsFor::Account(_) => Some(self.for_sessions),
            RowsFor::Server => Some(self.most),
            RowsFor::Anyone => None,
        }
    }

    fn own_part(self: &Arc<Self>, account: AccountId) -> OwnPart {
        let sum = Arc::clone(self.accounts.lock().entry(account).or_default());
        OwnPart { views: Arc::clone(self), account, part: Part::of(sum) }
    }

    /// Notes that a mailbox begins to count, or does not count any more.
    fn note(&self, mailbox: MailboxId, counts: bool) {
        let mut large = self.large.lock();
        let states = large.entry(mailbox).or_default();
        *states = if counts { *states + 1 } else { states.saturating_sub(1) };
        if *states == 0 {
            large.remove(&mailbox);
        }
    }

    /// Evicts mailboxes that nobody holds, until an opening lacks nothing. If all of them are not
    /// enough, none is evicted, and the result is false.
    fn evict(&self, lacking: &Lacking) -> bool {
        let Some(cached) = self.cached.get().and_then(Weak::upgrade) else { return false };
        let large: Vec<MailboxId> = self.large.lock().keys().copied().collect();
        let mut mailboxes = cached.lock();
        let idle = large.into_iter().filter_map(|id| IdleMailbox::find(&mailboxes, id)).collect();
        let Some(chosen) = lacking.chosen(idle) else { return false };
        let evicted: Vec<_> = chosen.iter().filter_map(|id| mailboxes.remove_if(id, |_| true)).collect();
        drop(mailboxes);
        // Freeing a large view takes a while, so it is not done under the lock.
        drop(evicted);
        true
    }

    /// The error of an opening that has no room.
    fn refuse(&self, mailbox: MailboxId) -> StoreError {
        let times = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        // A client may try again and again: the log gets few lines.
        if times.is_power_of_two() {
            tracing::warn!(%mailbox, times, "a mailbox was not opened: too many messages are in open mailboxes");
        }
        StoreError::TooManyOpen
    }

    /// The bytes that count now.
    #[cfg(test)]
    pub fn counted(&self) -> u64 {
        self.counted.load(Ordering::Acquire)
    }

    /// Whether nothing is kept of any mailbox or account.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.counted() == 0 && self.accounts.lock().is_empty() && self.large.lock().is_empty()
    }
}

impl IdleMailbox {
    /// `None` if somebody holds it, or if it is not cached.
    fn find(mailboxes: &Cache<MailboxId, Arc<MailboxState>>, id: MailboxId) -> Option<Self> {
        let (state, used) = mailboxes.peek_used(&id)?;
        // An open handle, a running change and a leader each hold the state.
        if Arc::strong_count(state) > 1 {
            return None;
        }
        let rows = state.counted_rows()?;
        Some(Self { id, account: rows.account(), bytes: rows.all.bytes(), used })
    }
}

impl Lacking {
    /// The mailboxes to evict, the least recently used first; those of the account before others,
    /// as long as it lacks something. `None` if they are not enough.
    fn chosen(&self, mut idle: Vec<IdleMailbox>) -> Option<Vec<MailboxId>> {
        let (mut all, mut own) = (self.all, self.own);
        let is_own = |idle: &IdleMailbox| idle.account == self.account;
        idle.sort_unstable_by_key(|idle| (self.own == 0 || !is_own(idle), idle.used));
        let mut chosen = Vec::new();
        for one in idle {
            let helps_account = own > 0 && is_own(&one);
            if all == 0 && !helps_account {
                continue;
            }
            if helps_account {
                own = own.saturating_sub(one.bytes);
            }
            all = all.saturating_sub(one.bytes);
            chosen.push(one.id);
        }
        (all == 0 && own == 0).then_some(chosen)
    }
}

impl CountedRows {
    /// The rows of a mailbox, which are not read yet.
    pub fn new(views: &Arc<OpenViews>, mailbox: MailboxId, reader: RowsFor) -> Self {
        let own = match reader {
            RowsFor::Account(account) => OnceLock::from(views.own_part(account)),
            RowsFor::Server | RowsFor::Anyone => OnceLock::new(),
        };
        let all = Part::of(Arc::clone(&views.counted));
        Self { views: Arc::clone(views), mailbox, reader, all, own }
    }

    /// Whether [`Self::reserve`] may refuse them.
    pub fn may_be_refused(&self) -> bool {
        self.views.most_for(self.reader).is_some()
    }

    /// The account for which they count.
    fn account(&self) -> Option<AccountId> {
        self.own.get().map(|own| own.account)
    }

    /// Reserves the memory for the rows of this many messages, before they are read. The caller
    /// must lead.
    pub fn reserve(&self, messages: u32) -> Result<()> {
        let Some(most) = self.views.most_for(self.reader) else { return Ok(()) };
        let before = self.all.bytes();
        let more = bytes_of(messages).saturating_sub(before);
        if more == 0 {
            return Ok(());
        }
        if !self.try_reserve(more, most) {
            let lacking = Lacking {
                all: self.all.lacks(more, most),
                own: self.own.get().map_or(0, |own| own.part.lacks(more, self.views.share)),
                account: self.account(),
            };
            // Another opening may take what was evicted. Then this one is refused.
            if !self.views.evict(&lacking) || !self.try_reserve(more, most) {
                return Err(self.views.refuse(self.mailbox));
            }
        }
        self.note(before);
        Ok(())
    }

    /// Adds bytes to both sums, or to none.
    fn try_reserve(&self, more: u64, most: u64) -> bool {
        let before = self.all.bytes();
        if !self.all.add_within(more, most) {
            return false;
        }
        let is_within = self.own.get().is_none_or(|own| own.part.add_within(more, self.views.share));
        if !is_within {
            self.all.set(before);
        }
        is_within
    }

    /// A session of this account opens the mailbox, whose rows are known. They count for the
    /// account, unless they count for another one. `TooManyOpen` if the server has read them for
    /// itself, and the session could not have read them.
    pub fn admit(&self, account: AccountId) -> Result<()> {
        if self.own.get().is_some() {
            return Ok(());
        }
        let (views, own, bytes) = (&self.views, self.views.own_part(account), self.all.bytes());
        let fits = || {
            let has_room = self.all.lacks(0, views.for_sessions) == 0;
            bytes == 0 || has_room && own.part.add_within(bytes, views.share)
        };
        if !fits() {
            let lacking = Lacking {
                all: self.all.lacks(0, views.for_sessions),
                own: own.part.lacks(bytes, views.share),
                account: Some(account),
            };
            if !views.evict(&lacking) || !fits() {
                return Err(views.refuse(self.mailbox));
            }
        }
        // If another session came first, they count for its account.
        let _ = self.own.set(own);
        Ok(())
    }

    /// Counts this many messages from now on: they are known. The caller must lead.
    pub fn set(&self, messages: u32) {
        let (before, bytes) = (self.all.bytes(), bytes_of(messages));
        let own = self.own.get().filter(|own| own.part.bytes() != bytes);
        if let Some(own) = own {
            own.part.set(bytes);
        }
        if before != bytes {
            self.all.set(bytes);
            self.note(before);
        }
    }

    /// Notes whether the mailbox counts at all, after it counted this many bytes.
    fn note(&self, before: u64) {
        let counts = self.all.bytes() > 0;
        if counts != (before > 0) {
            self.views.note(self.mailbox, counts);
        }
    }
}

impl Drop for CountedRows {
    fn drop(&mut self) {
        if self.all.bytes() > 0 {
            self.views.note(self.mailbox, false);
        }
    }
}
