//! Enforces account quotas exactly: concurrent appends never exceed the limit together, and none
//! is refused that fits.
//!
//! The usage of an account is the sum of its mailboxes' heads. Appends in progress are
//! counted here, per account:
//!
//! * An append first adds its size to the appends in progress, and then reads the heads.
//!   So of two concurrent appends at least one sees the other, in the heads or here.
//! * A new commit is counted in both, for a moment. So a refusal is final only if no other
//!   append was in progress. Until then an append without room waits in its account's queue.
//! * Far from the limit nothing is read. An append is accepted while half of the limit holds both
//!   the heads that were read last and all that was accepted since.
//!
//! It is exact among the sessions of one process. A concurrent import, or another node,
//! counts on its own, and both together may exceed the limit by their appends in progress.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use foldhash::HashMap;
use posthaste_directory::Account;
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_mime_summary::{SUMMARY_SHARE, summary_len_max};
use posthaste_store::{HeldPermit, Store, StoreError};
use tokio::sync::Notify;

use crate::error::DeliveryError;

/// Octets that each message counts in addition to its own: its row, the heads of its records, and
/// a usual summary, which is some 600 octets. Otherwise a million empty messages would cost their
/// owner nothing.
///
/// A flat rate, as the heads of mailboxes count octets and messages, and an expunge does not read
/// the summaries that it removes. It bounds summaries anyway: the longest summary of any message is
/// 20 times the octets that the message counts ([`SUMMARY_SHARE`]). So an account's mail takes at
/// most 21 times its quota on disk. It takes that much only if all of it is made to have the
/// longest summaries.
pub const MESSAGE_COST: u64 = 1024;
// The constant part of the longest summary is within the flat rate's share, so the whole is.
const _: () = assert!(summary_len_max(0) as u64 <= SUMMARY_SHARE as u64 * MESSAGE_COST);
/// The time for which heads that were read are believed far from the limit, as another process
/// may add mail meanwhile.
const BELIEVED: Duration = Duration::from_secs(60);
/// Times that the usage is read because the list of mailboxes changed meanwhile. A change of a list
/// takes as long as many readings, if the account has few mailboxes. Then changes wait for one more
/// reading.
const READINGS_MAX: usize = 8;
/// Accounts remembered before those are forgotten that nothing is on its way into: some 200 octets
/// each.
const REMEMBERED_MAX: usize = 16_384;
/// Bytes of them.
pub const QUOTAS_BYTES_MAX: u64 = 200 * REMEMBERED_MAX as u64;

/// Limits; `None` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Octets, [`MESSAGE_COST`] for each message included.
    pub bytes: Option<u64>,
    /// Messages.
    pub messages: Option<u64>,
}

impl Quota {
    /// An account's own limits, and these where it has none.
    pub(crate) fn of(self, account: &Account) -> Self {
        Self { bytes: account.quota_bytes.or(self.bytes), messages: account.quota_messages.or(self.messages) }
    }

    const fn is_none(self) -> bool {
        self.bytes.is_none() && self.messages.is_none()
    }

    fn half(self) -> Self {
        Self { bytes: self.bytes.map(|limit| limit / 2), messages: self.messages.map(|limit| limit / 2) }
    }

    /// Why an addition to the used amount is over the limit; `None` if it is not.
    fn objection(self, used: Usage, more: Usage) -> Option<DeliveryError> {
        let (charged, asked) = (used.charged(), more.charged());
        if let Some(limit) = self.bytes
            && charged.saturating_add(asked) > limit
        {
            return Some(DeliveryError::OverQuota { used: charged, limit, more: asked });
        }
        match self.messages {
            Some(limit) if used.messages.saturating_add(more.messages) > limit => {
                Some(DeliveryError::TooManyMessages { used: used.messages, limit, more: more.messages })
            }
            _ => None,
        }
    }
}

/// The usage of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Octets of all messages, a message in two mailboxes counted twice.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

impl Usage {
    /// Octets that count against a quota.
    pub const fn charged(self) -> u64 {
        self.bytes.saturating_add(self.messages.saturating_mul(MESSAGE_COST))
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            messages: self.messages.saturating_add(other.messages),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            messages: self.messages.saturating_sub(other.messages),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reservations for messages on their way, of all accounts.
pub(crate) struct Quotas {
    store: Store,
    accounts: Mutex<HashMap<AccountId, Arc<Traffic>>>,
}

/// The appends in progress of one account.
#[derive(Default)]
struct Traffic {
    state: Mutex<TrafficState>,
    /// Wakes waiting appends when one has ended.
    ended: Notify,
    /// The queue of appends that exceed the quota.
    row: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct TrafficState {
    under_way: Usage,
    /// The sum of all additions.
    let_in: Usage,
    /// The heads at the last reading, and the additions since then or in progress, which may be
    /// in them.
    known: Option<CountedUsage>,
}

impl TrafficState {
    /// Whether the account is known to be so far from its limits that nothing need be read.
    fn is_far_from(&self, limit: Quota, more: Usage) -> bool {
        self.known.filter(|known| known.read.elapsed() < BELIEVED).is_some_and(|known| {
            let used = known.used.plus(self.let_in.minus(known.let_in_before));
            limit.half().objection(used, more).is_none()
        })
    }
}

#[derive(Clone, Copy)]
struct CountedUsage {
    read: Instant,
    used: Usage,
    /// `let_in` when the heads were about to be read, without what was under way then.
    let_in_before: Usage,
}

/// A part of an account's quota, reserved until it is dropped: when the messages are in their
/// mailbox, or will not come.
#[must_use = "dropped at once it reserves nothing"]
pub struct QuotaReservation(Option<(Arc<Traffic>, Usage)>);

impl std::fmt::Debug for QuotaReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("QuotaReservation").field(&self.0.as_ref().map(|(_, usage)| usage)).finish()
    }
}

impl QuotaReservation {
    /// The reservation as a permit of the change that adds the messages. The change may outlast the
    /// future that began it. `None` if nothing is reserved.
    pub fn until_stored(self) -> Option<HeldPermit> {
        self.0.is_some().then(|| Arc::new(self) as HeldPermit)
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        if let Some((traffic, usage)) = self.0.take() {
            let mut state = lock(&traffic.state);
            state.under_way = state.under_way.minus(usage);
            drop(state);
            traffic.ended.notify_waiters();
        }
    }
}

impl Quotas {
    pub fn new(store: Store) -> Self {
        Self { store, accounts: Mutex::default() }
    }

    fn of(&self, account: AccountId) -> Arc<Traffic> {
        let mut all = lock(&self.accounts);
        if all.len() >= REMEMBERED_MAX {
            all.retain(|_, traffic| Arc::strong_count(traffic) > 1);
        }
        Arc::clone(all.entry(account).or_default())
    }
}

impl Traffic {
    /// Lets something in without a check, if the account is far from its limits.
    fn reserve_far_from(self: &Arc<Self>, limit: Quota, more: Usage) -> Option<QuotaReservation> {
        let mut state = lock(&self.state);
        state.is_far_from(limit, more).then(|| self.begin(&mut state, more))
    }

    fn is_far_from(&self, limit: Quota, more: Usage) -> bool {
        lock(&self.state).is_far_from(limit, more)
    }

    /// Takes back what exceeded the quota: it was refused. Wakes nobody.
    fn withdraw(&self, mut reservation: QuotaReservation) {
        if let Some((_, usage)) = reservation.0.take() {
            let mut state = lock(&self.state);
            state.under_way = state.under_way.minus(usage);
            state.let_in = state.let_in.minus(usage);
        }
    }

    fn begin(self: &Arc<Self>, state: &mut TrafficState, more: Usage) -> QuotaReservation {
        state.under_way = state.under_way.plus(more);
        state.let_in = state.let_in.plus(more);
        QuotaReservation(Some((Arc::clone(self), more)))
    }
}

/// Why nothing is reserved.
struct Full {
    objection: DeliveryError,
    /// Something else was on its way, which may have been counted twice.
    perhaps: bool,
}

impl Quotas {
    /// Reserves what [`Self::reserve`] does where it need not read the usage; `None` elsewhere.
    pub fn reserve_at_once(
        &self,
        account: &Account,
        default: Quota,
        more: Usage,
    ) -> Option<QuotaReservation> {
        let limit = default.of(account);
        match limit.is_none() {
            true => Some(QuotaReservation(None)),
            false => self.of(account.id).reserve_far_from(limit, more),
        }
    }

    /// Reserves a part of an account's quota for messages that are about to come. `default` is the
    /// quota where the account has none of its own.
    #[boxed]
    pub async fn reserve(
        &self,
        account: &Account,
        default: Quota,
        more: Usage,
    ) -> Result<QuotaReservation, DeliveryError> {
        if let Some(reservation) = self.reserve_at_once(account, default, more) {
            return Ok(reservation);
        }
        let (limit, traffic) = (default.of(account), self.of(account.id));
        match self.try_reserve(&traffic, account.id, limit, more).await? {
            Ok(reservation) => return Ok(reservation),
            Err(full) if !full.perhaps => {
                traffic.ended.notify_waiters();
                return Err(full.objection);
            }
            // A waiting append may have counted this one.
            Err(_) => traffic.ended.notify_waiters(),
        }
        let _first = traffic.row.lock().await;
        loop {
            // Listens before it reads the usage, so that no end is missed.
            let ended = traffic.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            match self.try_reserve(&traffic, account.id, limit, more).await? {
                Ok(reservation) => return Ok(reservation),
                Err(full) if !full.perhaps => return Err(full.objection),
                Err(_) => ended.await,
            }
        }
    }

    /// Why a message that has not come yet would exceed the quota. Reserves nothing.
    #[boxed]
    pub async fn objection(
        &self,
        account: &Account,
        default: Quota,
        more: Usage,
    ) -> Result<(), DeliveryError> {
        let limit = default.of(account);
        if limit.is_none() || self.of(account.id).is_far_from(limit, more) {
            return Ok(());
        }
        limit.objection(self.usage(account.id).await?, more).map_or(Ok(()), Err)
    }

    /// Reads the account's usage, and reserves if the quota allows it.
    async fn try_reserve(
        &self,
        traffic: &Arc<Traffic>,
        account: AccountId,
        limit: Quota,
        more: Usage,
    ) -> Result<Result<QuotaReservation, Full>, DeliveryError> {
        let (reservation, others, let_in_before) = {
            let mut state = lock(&traffic.state);
            let (others, let_in) = (state.under_way, state.let_in);
            (traffic.begin(&mut state, more), others, let_in.minus(others))
        };
        let used = self.usage(account).await?;
        if let Some(objection) = limit.objection(used.plus(others), more) {
            traffic.withdraw(reservation);
            return Ok(Err(Full { objection, perhaps: others.messages > 0 }));
        }
        lock(&traffic.state).known = Some(CountedUsage { read: Instant::now(), used, let_in_before });
        Ok(Ok(reservation))
    }

    /// The usage of an account, from the counts of its mailboxes. It loads none of them.
    #[boxed]
    pub async fn usage(&self, account: AccountId) -> Result<Usage, DeliveryError> {
        for _ in 0..READINGS_MAX {
            if let Some(usage) = self.usage_unless_changed(account).await? {
                return Ok(usage);
            }
        }
        // A client that creates many mailboxes must not keep the account's mail out.
        let reading = self.store.while_list_stays(account, self.usage_unless_changed(account));
        // Another process or node may still change the list.
        reading.await?.ok_or_else(|| StoreError::Busy.into())
    }

    /// The usage of an account; `None` if its list of mailboxes changed meanwhile.
    async fn usage_unless_changed(&self, account: AccountId) -> Result<Option<Usage>, DeliveryError> {
        let list = self.store.list(account).await?;
        let ids: Vec<MailboxId> = list.entries.iter().map(|entry| entry.id).collect();
        let counts = self.store.counts(account, &ids).await?;
        // Messages may have moved meanwhile into a mailbox that the list lacks: a RENAME of INBOX
        // does that.
        if self.store.list(account).await?.version != list.version {
            return Ok(None);
        }
        let usage = counts.iter().flatten().fold(Usage::default(), |sum, counts| Usage {
            bytes: sum.bytes.saturating_add(counts.octets()),
            messages: sum.messages + u64::from(counts.messages),
        });
        Ok(Some(usage))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use posthaste_mail_model::MailboxName;
    use posthaste_store::suite::layer::Layer;
    use posthaste_store::{
        CommitOutcome, Engine, MailboxCommit, MailboxHead, MemoryEngine, Result as StoreResult,
    };
    use tokio::sync::oneshot;

    use super::*;
    use crate::tests::{delivery_on, message};
    use crate::{Delivery, DeliveryOptions};

    type Pause = Mutex<Option<oneshot::Receiver<()>>>;

    /// An engine whose next reading of heads, or next commit, waits for the test.
    struct Paused {
        inner: MemoryEngine,
        heads: Pause,
        commits: Pause,
    }

    impl Paused {
        fn new() -> Arc<Self> {
            let inner = MemoryEngine::new();
            Arc::new(Self { inner, heads: Mutex::default(), commits: Mutex::default() })
        }
    }

    /// Lets the next call wait until the sender is used.
    fn pause(pause: &Pause) -> oneshot::Sender<()> {
        let (go, wait) = oneshot::channel();
        *lock(pause) = Some(wait);
        go
    }

    async fn passed(pause: &Pause) {
        let wait = lock(pause).take();
        if let Some(wait) = wait {
            wait.await.unwrap();
        }
    }

    #[async_trait::async_trait]
    impl Layer for Paused {
        type Inner = MemoryEngine;
        fn inner(&self) -> &MemoryEngine {
            &self.inner
        }
        async fn heads(&self, mailboxes: &[MailboxId]) -> StoreResult<Vec<Option<MailboxHead>>> {
            passed(&self.heads).await;
            self.inner.heads(mailboxes).await
        }
        async fn commit(&self, commit: MailboxCommit) -> StoreResult<CommitOutcome> {
            passed(&self.commits).await;
            self.inner.commit(commit).await
        }
    }

    /// An engine beside which a client creates a mailbox during each reading of heads.
    struct Growing {
        inner: MemoryEngine,
        account: OnceLock<(Store, AccountId)>,
        readings: AtomicUsize,
    }

    #[async_trait::async_trait]
    impl Layer for Growing {
        type Inner = MemoryEngine;
        fn inner(&self) -> &MemoryEngine {
            &self.inner
        }
        async fn heads(&self, mailboxes: &[MailboxId]) -> StoreResult<Vec<Option<MailboxHead>>> {
            if let Some((store, account)) = self.account.get() {
                let (store, account) = (store.clone(), *account);
                let number = self.readings.fetch_add(1, Ordering::Relaxed);
                let name = MailboxName::new(&format!("m{number}")).unwrap();
                let creating = tokio::spawn(async move { store.create(account, &name, None).await });
                // More than enough: nothing of it takes time, unless it waits for this reading.
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                drop(creating);
            }
            self.inner.heads(mailboxes).await
        }
    }

    async fn waits(work: Pin<&mut impl Future>) -> bool {
        let mut work = work;
        poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await
    }

    /// A server where an account may have this many messages, and the account.
    async fn with_limit(engine: &Arc<Paused>, messages: u64) -> (Delivery, Account) {
        let quota = Quota { bytes: None, messages: Some(messages) };
        let engine = Arc::clone(engine) as Arc<dyn Engine>;
        delivery_on(engine, DeliveryOptions { quota, ..DeliveryOptions::default() }).await
    }

    /// The messages of a renamed INBOX were in no mailbox of the list that was read before.
    #[tokio::test]
    async fn messages_that_move_into_a_new_mailbox_meanwhile_are_counted() {
        let engine = Paused::new();
        let (delivery, ana) = with_limit(&engine, 10).await;
        let to = [delivery.resolve(&ana.name).await.unwrap()];
        delivery.deliver(message("one"), &to).await.remove(0).unwrap();
        let before = delivery.usage(ana.id).await.unwrap();
        assert_eq!(before.messages, 1);
        let go = pause(&engine.heads);
        let mut counting = pin!(delivery.usage(ana.id));
        assert!(waits(counting.as_mut()).await);
        let old = MailboxName::new("Old").unwrap();
        delivery.store().rename(ana.id, &MailboxName::inbox(), &old).await.unwrap();
        go.send(()).unwrap();
        assert_eq!(counting.await.unwrap(), before);
    }

    /// Mail was deferred while a client created one mailbox after the other.
    #[tokio::test]
    async fn mailboxes_that_are_created_all_the_time_keep_no_mail_out() {
        let (account, readings) = (OnceLock::new(), AtomicUsize::new(0));
        let engine = Arc::new(Growing { inner: MemoryEngine::new(), account, readings });
        let shared = Arc::clone(&engine) as Arc<dyn Engine>;
        let (delivery, ana) = delivery_on(shared, DeliveryOptions::default()).await;
        let to = [delivery.resolve(&ana.name).await.unwrap()];
        delivery.deliver(message("one"), &to).await.remove(0).unwrap();
        assert!(engine.account.set((delivery.store().clone(), ana.id)).is_ok());
        assert_eq!(delivery.usage(ana.id).await.unwrap().messages, 1);
        assert!(engine.readings.load(Ordering::Relaxed) > READINGS_MAX);
        // The mailboxes were created, and the last one after the reading.
        while delivery.mailboxes(&ana).await.unwrap().find(&MailboxName::new("m8").unwrap()).is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// The session was ended, and its commit went on. A second message had the same room.
    #[tokio::test]
    async fn a_dropped_append_keeps_its_reservation_until_it_is_stored() {
        let engine = Paused::new();
        let (delivery, ana) = with_limit(&engine, 1).await;
        let list = delivery.mailboxes(&ana).await.unwrap();
        let inbox = delivery.store().destination(list.find(&MailboxName::inbox()).unwrap().id);
        let mut incoming = Vec::new();
        for text in ["one", "two"] {
            incoming.push(vec![delivery.incoming(message(text), Vec::new(), None).await.unwrap()]);
        }
        let second = incoming.pop().unwrap();
        let go = pause(&engine.commits);
        let mut first = Box::pin(delivery.append(&ana, &inbox, incoming.pop().unwrap()));
        assert!(waits(first.as_mut()).await);
        assert!(lock(&engine.commits).is_none(), "it commits");
        drop(first);
        let mut second = pin!(delivery.append(&ana, &inbox, second));
        assert!(waits(second.as_mut()).await);
        go.send(()).unwrap();
        let refused = second.await.unwrap_err();
        let is_full = matches!(refused, DeliveryError::TooManyMessages { used: 1, limit: 1, more: 1 });
        assert!(is_full, "{refused}");
    }
}
