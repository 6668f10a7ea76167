//! Bounds the memory of newest views: the rows of all mailboxes that this process knows, open or
//! cached.
//!
//! A mailbox counts its messages before its rows are read. If they have no room, cached mailboxes
//! that nobody holds are evicted. If that is not enough, the mailbox is not opened, and nothing
//! was read. So a few accounts with very many messages each cannot fill the memory.
//!
//! Sessions may take seven eighths of the bytes. The rest is for the work of the server itself:
//! it opens mailboxes, too, and sessions must not keep it waiting. An account may have half of
//! the bytes. A mailbox counts for the account that opened it first, as long as that account has
//! it open. A mailbox that alone is larger than such a share counts for no account. It has to be
//! opened while there is room: its mail could not be read in any other way.
//!
//! A mailbox that sessions have open grows within the same limits: new messages count before they
//! are stored. Without room, a session's APPEND, COPY or MOVE fails for now. A delivery may take
//! the part that sessions leave. Beyond that it is deferred, and its sender tries again. Once the
//! sessions have closed the mailbox, its mail needs no room.
//!
//! What is never refused:
//! - The first messages of a mailbox do not count, so a small mailbox is always opened.
//! - A mailbox that no session has open counts its growth. It can be evicted.
//! - Rows that another process or node has added count.
//! - A mailbox that is open and has to be read again counts as it did.
//! - A mailbox that no user has, and work of the server with one mailbox at a time: the rows
//!   count, and may exceed the bytes ([`RowsFor::Anyone`]).
//!
//! The cost: an opening and a change of the number of messages take a lock of the mailbox alone,
//! and add to a few numbers. What has no room looks at all mailboxes that count. Then it
//! evicts some more than it needs, so that the next one finds room. Nothing is done for each
//! message.

mod rows;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use foldhash::HashMap;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId};

use crate::error::{Result, StoreError};
pub(crate) use rows::{Admitted, CountedRows};

/// Messages of each mailbox that do not count. They take 29 KB. With ten times as many, those of
/// 16,000 connections would take 4.6 GB.
pub(crate) const UNCOUNTED: u32 = if cfg!(test) { 10 } else { 1000 };

/// The divisor of the bytes that gives the part which sessions leave to the server.
const SERVER_DIVISOR: u64 = 8;

/// The divisor of the bytes that gives an account's share. With half of them, an account may open
/// all messages that `limits.account_messages` lets it have by default.
const SHARE_DIVISOR: u64 = 2;

/// The divisor of the bytes that gives what an eviction frees in addition.
const SPARE_DIVISOR: u64 = 64;

/// Mailboxes that are looked at or evicted under one lock of the cache: some 50 µs.
const AT_ONCE: usize = 256;

/// How often an opening tries to get room. Others may take what was evicted for it.
const ATTEMPTS: u32 = 4;

/// The mailboxes of a cache. It has those that nobody holds, too.
pub(crate) trait EvictableMailboxes: Send + Sync {
    /// Those of these mailboxes that nobody holds.
    fn idle(&self, of: &[MailboxId]) -> Vec<IdleMailbox>;
    /// Evicts those of these mailboxes that nobody holds.
    fn evict(&self, chosen: &[MailboxId]);
}

/// A mailbox that nobody holds.
pub(crate) struct IdleMailbox {
    id: MailboxId,
    account: Option<AccountId>,
    /// What it counts.
    bytes: u64,
    /// What it counts for its account.
    own_bytes: u64,
    /// The time of its last use.
    used: u64,
}

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
    /// Bytes that an eviction frees in addition to those that an opening lacks.
    spare: u64,
    counted: Arc<AtomicU64>,
    accounts: Mutex<HashMap<AccountId, Arc<AtomicU64>>>,
    /// Mailboxes that count, each as often as there are states of it.
    large: Mutex<HashMap<MailboxId, u32>>,
    /// Mailboxes that may be evicted.
    cached: OnceLock<Weak<dyn EvictableMailboxes>>,
    /// Openings and new messages that were refused.
    refused: AtomicU64,
}

/// The bytes that an opening, or the growth of an open mailbox, lacks.
struct Lacking {
    /// Of all mailboxes together.
    all: u64,
    /// Of those of the account.
    own: u64,
    account: Option<AccountId>,
}

impl OpenViews {
    /// All mailboxes together may take this many bytes.
    pub fn new(bytes: usize) -> Self {
        let most = bytes as u64;
        Self {
            most,
            for_sessions: most - most / SERVER_DIVISOR,
            share: most / SHARE_DIVISOR,
            spare: most / SPARE_DIVISOR,
            counted: Arc::default(),
            accounts: Mutex::default(),
            large: Mutex::default(),
            cached: OnceLock::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Lets mailboxes of this cache be evicted.
    pub fn evict_from(&self, mailboxes: Weak<dyn EvictableMailboxes>) {
        // A context has one store.
        let _ = self.cached.set(mailboxes);
    }

    /// The limit of all together for this reader; `None`: there is none.
    fn most_for(&self, reader: RowsFor) -> Option<u64> {
        match reader {
            RowsFor::Account(_) => Some(self.for_sessions),
            RowsFor::Server => Some(self.most),
            RowsFor::Anyone => None,
        }
    }

    /// What a mailbox of this many bytes counts for its account.
    fn in_share(&self, bytes: u64) -> u64 {
        if bytes > self.share { 0 } else { bytes }
    }

    /// Notes that a mailbox begins to count.
    fn begin(&self, mailbox: MailboxId) {
        *self.large.lock().entry(mailbox).or_default() += 1;
    }

    /// Notes that it does not count any more.
    fn end(&self, mailbox: MailboxId) {
        let mut large = self.large.lock();
        let states = large.entry(mailbox).or_default();
        *states = states.saturating_sub(1);
        if *states == 0 {
            large.remove(&mailbox);
        }
    }

    /// Attempts to reserve memory. As long as something lacks, mailboxes are evicted for it.
    fn with_room<T>(&self, mailbox: MailboxId, mut attempt: impl FnMut() -> Result<T, Lacking>) -> Result<T> {
        for left in (0..ATTEMPTS).rev() {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(lacking) if left > 0 && self.evict(&lacking) => {}
                Err(_) => break,
            }
        }
        Err(self.refusal(mailbox))
    }

    /// Evicts mailboxes that nobody holds, until an opening lacks nothing. If all of them are not
    /// enough, none is evicted, and the result is false.
    fn evict(&self, lacking: &Lacking) -> bool {
        let Some(cached) = self.cached.get().and_then(Weak::upgrade) else { return false };
        let large: Vec<MailboxId> = self.large.lock().keys().copied().collect();
        let idle = large.chunks(AT_ONCE).flat_map(|some| cached.idle(some)).collect();
        let Some(chosen) = lacking.chosen(idle, self.spare) else { return false };
        chosen.chunks(AT_ONCE).for_each(|some| cached.evict(some));
        true
    }

    /// The error of an opening, or of new messages, that have no room.
    fn refusal(&self, mailbox: MailboxId) -> StoreError {
        let times = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        // A client may try again and again: the log gets few lines.
        if times.is_power_of_two() {
            tracing::warn!(%mailbox, times, "a mailbox was not opened, or an open one got no messages: too many messages are in open mailboxes");
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

impl Lacking {
    /// The mailboxes to evict, the least recently used first; those of the account before others,
    /// as long as it lacks something. `None` if they are not enough. If all together lack
    /// something, the mailboxes have this many bytes more, as far as there are any.
    fn chosen(&self, mut idle: Vec<IdleMailbox>, spare: u64) -> Option<Vec<MailboxId>> {
        let wanted = if self.all > 0 { self.all.saturating_add(spare) } else { 0 };
        let (mut freed, mut own_freed) = (0u64, 0u64);
        let helps_account =
            |idle: &IdleMailbox| self.own > 0 && idle.own_bytes > 0 && idle.account == self.account;
        idle.sort_unstable_by_key(|idle| (!helps_account(idle), idle.used));
        let mut chosen = Vec::new();
        for one in idle {
            let helps_account = own_freed < self.own && helps_account(&one);
            if freed >= wanted && !helps_account {
                continue;
            }
            if helps_account {
                own_freed = own_freed.saturating_add(one.own_bytes);
            }
            freed = freed.saturating_add(one.bytes);
            chosen.push(one.id);
        }
        (freed >= self.all && own_freed >= self.own).then_some(chosen)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    fn id(number: u64) -> MailboxId {
        MailboxId(Id::new(number, 0))
    }

    /// Those with higher numbers were used later.
    fn idle(number: u64, bytes: u64) -> IdleMailbox {
        IdleMailbox { id: id(number), account: None, bytes, own_bytes: 0, used: number }
    }

    fn ids<const N: usize>(numbers: [u64; N]) -> Option<Vec<MailboxId>> {
        Some(numbers.map(id).to_vec())
    }

    #[test]
    fn some_more_are_evicted_than_an_opening_needs() {
        let chosen = |all, spare| {
            let lacking = Lacking { all, own: 0, account: None };
            lacking.chosen((0..6).map(|number| idle(5 - number, 10)).collect(), spare)
        };
        assert_eq!(chosen(15, 0), ids([0, 1]));
        assert_eq!(chosen(15, 20), ids([0, 1, 2, 3]));
        // The spare ones need not be there.
        assert_eq!(chosen(60, 20), ids([0, 1, 2, 3, 4, 5]));
        assert_eq!(chosen(61, 20), None);
        assert_eq!(chosen(0, 20), ids([]));
    }

    #[test]
    fn an_account_over_its_share_gives_up_its_own() {
        let account = Some(AccountId(Id::new(1, 1)));
        let own = |number, own_bytes| IdleMailbox { account, own_bytes, ..idle(number, 10) };
        let chosen = |all, own_lacks| {
            let lacking = Lacking { all, own: own_lacks, account };
            lacking.chosen(vec![idle(0, 10), own(1, 0), own(2, 10), own(3, 10)], 0)
        };
        assert_eq!(chosen(0, 5), ids([2]));
        assert_eq!(chosen(15, 5), ids([2, 3]));
        assert_eq!(chosen(25, 5), ids([2, 3, 0]));
        // The first of its own counts for no account.
        assert_eq!(chosen(0, 25), None);
        assert_eq!(chosen(15, 0), ids([0, 1]));
    }
}
