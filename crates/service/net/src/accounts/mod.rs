//! The limits of one account: connections at once, and commands, submitted mail and bytes in a
//! time. All its sessions count together, over all protocols. Mail that the server itself sends for
//! the account has separate limits: a flood that an account forwards must not block its submission.
//!
//! A session takes an [`AccountShare`] at its login and gives it to its [`Connection`], which
//! counts the bytes. Over a limit of connections or of submissions, a client is refused. Over one
//! of commands or bytes, it waits. An account's usage outlives its sessions, until its buckets are
//! empty.
//!
//! An account may have limits of its own ([`OwnLimits`]) in place of the server's. They come with
//! its record at each login ([`LimitedAccount`]), and with [`Accounts::renew`] when the record
//! changes.
//!
//! Invariants: counting a command or bytes takes one read of the clock and one atomic
//! operation. No lock is held over I/O. An account without a session and with empty buckets has no
//! entry.
//!
//! [`Connection`]: crate::Connection

mod copies;
mod limit;
pub(crate) mod rate;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::time::{ClockId, clock_gettime};

use self::copies::Copies;
pub use self::copies::{COPIES_BYTES_MAX, Copier};
pub use self::limit::{ACCOUNT_BYTES_LEAST, AccountLimit, AccountLimits, LimitedAccount, OwnLimits};
use self::rate::{Bucket, MINUTE, Rate};

/// Most accounts that are kept before those without use are looked for.
const KEPT_FIRST: usize = 256;

/// The longest time for which a session waits before it checks again: limits may have been raised
/// meanwhile.
const CHECK_PAUSE: Duration = Duration::from_millis(500);

/// The bounds of submissions, in the order in which they are looked at.
const SUBMISSIONS: [AccountLimit; 4] = [
    AccountLimit::MessagesPerHour,
    AccountLimit::RecipientsPerHour,
    AccountLimit::MessagesPerDay,
    AccountLimit::RecipientsPerDay,
];

/// The bounds of what is sent on, in the same way.
const SENT_ON: [AccountLimit; 2] = [AccountLimit::SentOnPerHour, AccountLimit::SentOnPerDay];

/// Why a message is not taken from an account, or not sent because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionRefused {
    /// The bound.
    pub limit: AccountLimit,
    /// The limit.
    pub count: u64,
    /// When it will fit; `None` if never.
    pub again_in: Option<Duration>,
}

/// The usage of accounts, for all listeners of a server. Clones count together.
#[derive(Clone, Default)]
pub struct Accounts(Arc<AccountsState>);

#[derive(Default)]
struct AccountsState {
    limits: ArcSwap<AccountLimits>,
    known: Mutex<AccountUsages>,
    /// Sessions that wait now.
    waiting: AtomicUsize,
    copies: Copies,
}

#[derive(Default)]
struct AccountUsages {
    accounts: HashMap<[u8; 16], Arc<Usage>>,
    /// At this number, accounts without use are looked for and dropped.
    look_at: usize,
}

/// One account's use.
struct Usage {
    inner: Arc<AccountsState>,
    name: String,
    own: Mutex<OfRecord>,
    /// The limits that hold: the server's, with the account's own in place of some.
    limits: ArcSwap<AccountLimits>,
    connections: AtomicUsize,
    commands: Bucket,
    received: Bucket,
    sent: Bucket,
    /// As [`SUBMISSIONS`]: see [`rate`].
    submitted: Mutex<[u64; 4]>,
    /// As [`SENT_ON`].
    sent_on: Mutex<[u64; 2]>,
    /// When each bound may be named in the log again.
    logged: [AtomicU64; AccountLimit::ALL.len()],
}

/// The limits that an account's record names.
#[derive(Default)]
struct OfRecord {
    own: Option<Box<OwnLimits>>,
    version: u64,
}

/// One session's part in its account: a connection, until it is dropped.
pub struct AccountShare(Arc<Usage>);

impl Accounts {
    /// With these bounds.
    pub fn new(limits: AccountLimits) -> Self {
        let accounts = Self::default();
        accounts.set(limits);
        accounts
    }

    /// Other bounds from now on, for sessions that are open too. The use under the old limits is
    /// forgotten.
    pub fn set(&self, limits: AccountLimits) {
        let limits = Arc::new(limits);
        let before = self.0.limits.swap(Arc::clone(&limits));
        if before == limits {
            return;
        }
        for usage in self.known().accounts.values() {
            usage.set_limits(&limits, lock(&usage.own).own.as_deref());
        }
        self.0.copies.clear();
    }

    /// The record of an account has changed: its own limits hold from now on, for sessions that
    /// are open too. If they are others than before, the use under the old ones is forgotten.
    pub fn renew(&self, account: LimitedAccount<'_>) {
        if let Some(usage) = self.known().accounts.get(&account.id) {
            usage.take_own(account);
        }
    }

    /// A share for a session of this account that logs in from `peer`. `None` if it has reached
    /// its limit of connections, with a line in the log.
    pub fn admit(&self, account: LimitedAccount<'_>, peer: IpAddr) -> Option<AccountShare> {
        let mut known = self.known();
        let usage = known.usage_of(account, &self.0);
        let max = usage.limits.load().connections;
        // Only here the number rises, and the lock is held.
        if max > 0 && usage.connections.load(Ordering::Relaxed) >= max {
            usage.log(AccountLimit::Connections, max as u64, peer, "refused");
            return None;
        }
        usage.connections.fetch_add(1, Ordering::Relaxed);
        Some(AccountShare(Arc::clone(usage)))
    }

    /// Counts a message that the server itself sends to another domain because of this account.
    /// Counts nothing if one of the limits does not allow it.
    pub fn send_on(&self, account: LimitedAccount<'_>) -> Result<(), SubmissionRefused> {
        let server = self.0.limits.load();
        let limits = account.own.map_or(**server, |own| own.over(&server));
        if SENT_ON.iter().all(|limit| limit.rate(&limits).count == 0) {
            return Ok(());
        }
        let usage = Arc::clone(self.known().usage_of(account, &self.0));
        pour_all(&mut lock(&usage.sent_on), &SENT_ON, |limit| (limit.rate(&limits), 1))
    }

    /// Counts a message to one recipient that the user of this account submits without a session
    /// of submission. Counts nothing if one of the limits does not allow it.
    pub fn submit(&self, account: LimitedAccount<'_>) -> Result<(), SubmissionRefused> {
        let usage = Arc::clone(self.known().usage_of(account, &self.0));
        usage.submit(1)
    }

    /// Counts the copies that a group makes of a message of this sender. The error is the limit, if
    /// the sender has used it up.
    pub fn count_copies(&self, sender: &Copier, copies: usize) -> Result<(), u64> {
        let per_hour = self.0.limits.load().group_copies_per_hour;
        self.0.copies.count(per_hour, sender, copies as u64, now()).map_err(|_wait| per_hour)
    }

    /// How many sessions wait just now because their account is over a limit.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, AccountUsages> {
        lock(&self.0.known)
    }
}

impl AccountUsages {
    /// The usage of an account, under the limits that its record names.
    fn usage_of(&mut self, account: LimitedAccount<'_>, inner: &Arc<AccountsState>) -> &Arc<Usage> {
        self.forget_unused();
        let usage = self.accounts.entry(account.id).or_insert_with(|| Usage::new(inner, account.name));
        usage.take_own(account);
        usage
    }

    fn forget_unused(&mut self) {
        if self.accounts.len() < self.look_at.max(KEPT_FIRST) {
            return;
        }
        let now = now();
        self.accounts.retain(|_, usage| usage.is_used(now));
        self.look_at = self.accounts.len() * 2;
    }
}

impl Usage {
    fn new(inner: &Arc<AccountsState>, name: &str) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            name: name.to_owned(),
            own: Mutex::default(),
            limits: ArcSwap::new(inner.limits.load_full()),
            connections: AtomicUsize::new(0),
            commands: Bucket::default(),
            received: Bucket::default(),
            sent: Bucket::default(),
            submitted: Mutex::default(),
            sent_on: Mutex::default(),
            logged: Default::default(),
        })
    }

    /// Takes the limits that the account's record names, unless the record is older than the one
    /// known. Without a session an older one may be newer: that of an account which was restored.
    fn take_own(&self, account: LimitedAccount<'_>) {
        let mut known = lock(&self.own);
        if account.version < known.version && self.connections.load(Ordering::Relaxed) > 0 {
            return;
        }
        known.version = account.version;
        if known.own.as_deref() != account.own {
            known.own = account.own.map(|own| Box::new(*own));
            self.set_limits(&self.inner.limits.load_full(), account.own);
        }
    }

    /// Has these limits from now on. The use under the old ones is forgotten.
    fn set_limits(&self, server: &Arc<AccountLimits>, own: Option<&OwnLimits>) {
        self.limits.store(own.map_or_else(|| Arc::clone(server), |own| Arc::new(own.over(server))));
        for bucket in [&self.commands, &self.received, &self.sent] {
            bucket.clear();
        }
        *lock(&self.submitted) = [0; 4];
        *lock(&self.sent_on) = [0; 2];
    }

    fn is_used(&self, now: u64) -> bool {
        let mut buckets = [&self.commands, &self.received, &self.sent].into_iter();
        self.connections.load(Ordering::Relaxed) > 0
            || buckets.any(|bucket| !bucket.is_empty(now))
            || lock(&self.submitted).iter().any(|empty_at| *empty_at > now)
            || lock(&self.sent_on).iter().any(|empty_at| *empty_at > now)
    }

    /// Counts a message that is submitted to this many recipients: against all limits, or none.
    fn submit(&self, recipients: usize) -> Result<(), SubmissionRefused> {
        let limits = **self.limits.load();
        let of = |limit: AccountLimit| (limit.rate(&limits), amount(limit, recipients));
        pour_all(&mut lock(&self.submitted), &SUBMISSIONS, of)
    }

    fn bucket(&self, limit: AccountLimit) -> &Bucket {
        match limit {
            AccountLimit::Received => &self.received,
            AccountLimit::Sent => &self.sent,
            _ => &self.commands,
        }
    }

    /// Names a bound in the log, once a minute.
    fn log(&self, limit: AccountLimit, allowed: u64, peer: IpAddr, outcome: &'static str) {
        let (now, due) = (now(), &self.logged[limit as usize]);
        if due
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |due| (due <= now).then_some(now + MINUTE))
            .is_err()
        {
            return;
        }
        let (account, address) = (&self.name, peer.to_canonical());
        let is_own = lock(&self.own).own.as_ref().is_some_and(|own| own.get(limit).is_some());
        let (limit, remedy) = match is_own {
            true => (limit.name(), "raise its own limit (`posthaste account set`)"),
            false => (limit.setting(), "raise the setting and send SIGHUP"),
        };
        tracing::warn!(account, %address, limit, allowed, outcome,
            "an account is over a limit: check what its clients do, or {remedy}");
    }
}

impl AccountShare {
    /// The account's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Counts one command. Whether the session must [`wait`](Self::wait) before it runs it.
    pub fn count_command(&self, peer: IpAddr) -> bool {
        self.pour(AccountLimit::Commands, 1, peer)
    }

    /// Counts bytes, [`AccountLimit::Received`] or [`AccountLimit::Sent`]. Whether the session must
    /// wait before it continues.
    pub(crate) fn count_bytes(&self, limit: AccountLimit, bytes: usize, peer: IpAddr) -> bool {
        self.pour(limit, bytes as u64, peer)
    }

    fn pour(&self, limit: AccountLimit, amount: u64, peer: IpAddr) -> bool {
        let rate = limit.rate(&self.0.limits.load());
        if rate.count == 0 {
            return false;
        }
        let over = self.0.bucket(limit).pour(rate, amount, now()).is_some();
        if over {
            self.0.log(limit, rate.count, peer, "slowed down");
        }
        over
    }

    /// Waits until the account is within the limit again. May be dropped at any time.
    pub async fn wait(&self, limit: AccountLimit) {
        let _waits = Waits::new(&self.0.inner.waiting);
        loop {
            let rate = limit.rate(&self.0.limits.load());
            let Some(left) = self.0.bucket(limit).wait(rate, now()) else { return };
            tokio::time::sleep(left.min(CHECK_PAUSE)).await;
        }
    }

    /// Counts a message that the account submits to this many recipients: all of it, or nothing if
    /// one of the limits does not allow it. The log then says so.
    pub fn submit(&self, recipients: usize, peer: IpAddr) -> Result<(), SubmissionRefused> {
        let counted = self.0.submit(recipients);
        if let Err(refused) = &counted {
            self.0.log(refused.limit, refused.count, peer, "refused");
        }
        counted
    }
}

/// Counts a message against several leaky buckets: against all, or against none if one is full.
/// `of` returns the rate of a limit, and what the message counts for it.
fn pour_all<const N: usize>(
    buckets: &mut [u64; N],
    bounds: &[AccountLimit; N],
    of: impl Fn(AccountLimit) -> (Rate, u64),
) -> Result<(), SubmissionRefused> {
    let now = now();
    let mut after = *buckets;
    for (bucket, limit) in after.iter_mut().zip(bounds) {
        let (rate, amount) = of(*limit);
        *bucket = rate.pour(*bucket, amount, now);
        if let Some(wait) = rate.wait(*bucket, now) {
            let again_in = (!rate.is_beyond(amount)).then_some(wait);
            return Err(SubmissionRefused { limit: *limit, count: rate.count, again_in });
        }
    }
    *buckets = after;
    Ok(())
}

/// The amount of a message for a limit.
fn amount(limit: AccountLimit, recipients: usize) -> u64 {
    match limit {
        AccountLimit::RecipientsPerHour | AccountLimit::RecipientsPerDay => recipients as u64,
        _ => 1,
    }
}

impl Drop for AccountShare {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for AccountShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountShare").field("account", &self.0.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("limits", &self.0.limits.load()).finish_non_exhaustive()
    }
}

/// One session that waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // The kernel counts from its start, and a second has at most 10⁹ nanoseconds.
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// An account without limits of its own.
    fn plain(id: [u8; 16]) -> LimitedAccount<'static> {
        LimitedAccount { id, name: "ana", own: None, version: 1 }
    }

    fn admit(accounts: &Accounts, account: u8) -> Option<AccountShare> {
        accounts.admit(plain([account; 16]), PEER)
    }

    fn own(limits: &[(AccountLimit, u64)]) -> OwnLimits {
        let mut own = OwnLimits::NONE;
        limits.iter().for_each(|(limit, count)| own.set(*limit, Some(*count)));
        own
    }

    #[test]
    fn connections_are_given_back() {
        let accounts = Accounts::new(AccountLimits { connections: 2, ..AccountLimits::default() });
        let (one, _two) = (admit(&accounts, 1).unwrap(), admit(&accounts, 1).unwrap());
        assert!(admit(&accounts, 1).is_none() && admit(&accounts, 2).is_some());
        drop(one);
        let _three = admit(&accounts, 1).unwrap();
        assert!(admit(&accounts, 1).is_none());
        accounts.set(AccountLimits::default());
        assert!(admit(&accounts, 1).is_some());
    }

    #[test]
    fn a_message_counts_in_full_or_not_at_all() {
        let limits =
            AccountLimits { messages_per_day: 3, recipients_per_hour: 10, ..AccountLimits::default() };
        let accounts = Accounts::new(limits);
        let share = admit(&accounts, 1).unwrap();
        share.submit(6, PEER).unwrap();
        let refused = share.submit(5, PEER).unwrap_err();
        assert_eq!((refused.limit, refused.count), (AccountLimit::RecipientsPerHour, 10));
        assert!(refused.again_in.is_some_and(|again| again <= Duration::from_secs(360)));
        assert_eq!(share.submit(11, PEER).unwrap_err().again_in, None, "it never fits");
        // Another session of the same account.
        let other = admit(&accounts, 1).unwrap();
        other.submit(1, PEER).unwrap();
        drop((share, other));
        let later = admit(&accounts, 1).unwrap();
        later.submit(1, PEER).unwrap();
        assert_eq!(later.submit(1, PEER).unwrap_err().limit, AccountLimit::MessagesPerDay);
    }

    #[test]
    fn what_is_submitted_without_a_session_counts_with_the_rest() {
        let own = own(&[(AccountLimit::RecipientsPerDay, 3)]);
        let ana = LimitedAccount { own: Some(&own), ..plain([1; 16]) };
        let limits = AccountLimits { recipients_per_day: 1, ..AccountLimits::default() };
        let accounts = Accounts::new(limits);
        accounts.submit(ana).unwrap();
        let share = accounts.admit(ana, PEER).unwrap();
        share.submit(2, PEER).unwrap();
        let refused = accounts.submit(ana).unwrap_err();
        assert_eq!((refused.limit, refused.count), (AccountLimit::RecipientsPerDay, 3));
        accounts.submit(plain([2; 16])).unwrap();
        accounts.submit(plain([2; 16])).unwrap_err();
        // It is kept without a session.
        drop(share);
        accounts.submit(ana).unwrap_err();
    }

    #[test]
    fn forwarded_mail_does_not_count_as_submitted() {
        let limits = AccountLimits { messages_per_hour: 1, sent_on_per_day: 2, ..AccountLimits::default() };
        let accounts = Accounts::new(limits);
        for _ in 0..2 {
            accounts.send_on(plain([1; 16])).unwrap();
        }
        let refused = accounts.send_on(plain([1; 16])).unwrap_err();
        assert_eq!((refused.limit, refused.count), (AccountLimit::SentOnPerDay, 2));
        assert_eq!(refused.limit.setting(), "limits.sent_on_messages_per_day");
        accounts.send_on(plain([2; 16])).unwrap();
        admit(&accounts, 1).unwrap().submit(1, PEER).unwrap();
        // It is kept without a session, and forgotten with other limits.
        let raised = AccountLimits { sent_on_per_day: 3, ..limits };
        accounts.set(raised);
        accounts.send_on(plain([1; 16])).unwrap();
    }

    #[test]
    fn an_account_with_limits_of_its_own_has_those() {
        let limits = AccountLimits { connections: 1, messages_per_day: 1, ..AccountLimits::default() };
        let accounts = Accounts::new(limits);
        let own = own(&[(AccountLimit::Connections, 2), (AccountLimit::SentOnPerHour, 1)]);
        let ana = LimitedAccount { own: Some(&own), ..plain([1; 16]) };
        let (one, _two) = (accounts.admit(ana, PEER).unwrap(), accounts.admit(ana, PEER).unwrap());
        assert!(accounts.admit(ana, PEER).is_none());
        let _other = admit(&accounts, 2).unwrap();
        assert!(admit(&accounts, 2).is_none());
        // Her other limits are the server's, and stay hers when those change.
        one.submit(1, PEER).unwrap();
        one.submit(1, PEER).unwrap_err();
        accounts.set(AccountLimits { messages_per_day: 2, ..limits });
        one.submit(1, PEER).unwrap();
        one.submit(1, PEER).unwrap();
        one.submit(1, PEER).unwrap_err();
        assert!(accounts.admit(ana, PEER).is_none());
        // The server has no limit for what it sends on for others.
        accounts.send_on(ana).unwrap();
        accounts.send_on(ana).unwrap_err();
        for _ in 0..9 {
            accounts.send_on(plain([2; 16])).unwrap();
        }
    }

    #[test]
    fn other_limits_of_an_account_hold_for_sessions_that_are_open() {
        let accounts = Accounts::new(AccountLimits::default());
        let share = admit(&accounts, 1).unwrap();
        assert!((0..9).all(|_| !share.count_command(PEER)));
        let own = own(&[(AccountLimit::Commands, 1)]);
        let changed = LimitedAccount { own: Some(&own), version: 2, ..plain([1; 16]) };
        accounts.renew(changed);
        assert!(!share.count_command(PEER) && share.count_command(PEER));
        // A login that read the record before the change.
        let _late = admit(&accounts, 1).unwrap();
        assert!(share.count_command(PEER));
        accounts.renew(LimitedAccount { own: None, version: 3, ..changed });
        assert!((0..9).all(|_| !share.count_command(PEER)));
        // An account without a use is not noted for this.
        accounts.renew(LimitedAccount { id: [2; 16], ..changed });
        assert_eq!(accounts.known().accounts.len(), 1);
    }

    #[test]
    fn accounts_without_use_are_forgotten() {
        let limits = AccountLimits { messages_per_day: 3, ..AccountLimits::default() };
        let accounts = Accounts::new(limits);
        let name = |n: u64| [n.to_le_bytes(), [0; 8]].concat().try_into().unwrap();
        let held = accounts.admit(plain(name(0)), PEER).unwrap();
        accounts.admit(plain(name(1)), PEER).unwrap().submit(1, PEER).unwrap();
        for n in 2..5000 {
            accounts.admit(plain(name(n)), PEER).unwrap();
        }
        let known = accounts.known();
        assert!(known.accounts.len() <= KEPT_FIRST, "{}", known.accounts.len());
        assert!(known.accounts.contains_key(&name(0)) && known.accounts.contains_key(&name(1)));
        drop((known, held));
    }
}
