//! Accounts that are followed: which of their mailboxes changed, for sessions that requested
//! reports (RFC 5465).
//!
//! All sessions of an account share one record. It holds the newest list, and for each mailbox
//! its last head and the number of its last change. Each session has the number of the last
//! change that it has seen. So a change costs one entry, however many mailboxes and sessions the
//! account has. A session that waits long holds no memory for the changes that it has missed.
//!
//! Invariants: while nobody follows an account, its changes cost one atomic load. No lock is
//! held across I/O. A mailbox has one entry, however often it changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use posthaste_mail_model::{AccountId, MailboxId, ModSeq, Uid};
use tokio::sync::watch;

use crate::counted_in::CountedIn;
use crate::head::{Counts, MailboxHead};
use crate::list::{MailboxEntry, MailboxList};

/// The accounts that are followed.
#[derive(Default)]
pub(crate) struct Followers {
    /// The number of accounts that are followed.
    count: AtomicUsize,
    known: RwLock<FollowedAccounts>,
}

#[derive(Default)]
struct FollowedAccounts {
    accounts: BTreeMap<AccountId, Slot>,
    /// The owners of the mailboxes of followed accounts.
    owners: HashMap<MailboxId, AccountId>,
}

struct Slot {
    followed: Arc<Followed>,
    /// Sessions that follow it.
    watches: usize,
}

/// The known state of one account.
struct Followed {
    account: AccountId,
    state: Mutex<State>,
    news: watch::Sender<()>,
}

struct State {
    /// Counts the changes.
    at: u64,
    mailboxes: HashMap<MailboxId, LastChange>,
    /// The mailboxes by the number of their last change.
    order: BTreeMap<u64, MailboxId>,
    list: Arc<MailboxList>,
    /// Places in `list` by id.
    places: HashMap<MailboxId, usize>,
}

/// What a newer list changes in the state of its account.
struct ListChange {
    /// The list that it replaces.
    before: Arc<MailboxList>,
    list: Arc<MailboxList>,
    /// The places of the mailboxes in it. Once it was applied, those in the list before.
    places: HashMap<MailboxId, usize>,
    /// The mailboxes that only the newer list has.
    added: Vec<MailboxId>,
    /// The mailboxes that only the older list has.
    removed: Vec<MailboxId>,
}

impl ListChange {
    fn of(before: Arc<MailboxList>, list: &Arc<MailboxList>) -> Self {
        let places = places_in(list);
        let were: HashSet<MailboxId> = before.entries.iter().map(|entry| entry.id).collect();
        let ids = list.entries.iter().map(|entry| entry.id);
        let added = ids.filter(|id| !were.contains(id)).collect();
        let removed = were.into_iter().filter(|id| !places.contains_key(id)).collect();
        Self { before, list: Arc::clone(list), places, added, removed }
    }
}

fn places_in(list: &MailboxList) -> HashMap<MailboxId, usize> {
    list.entries.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect()
}

/// The last change of a mailbox.
#[derive(Clone, Copy, Default)]
struct LastChange {
    /// The head after the change; `None` until it is read.
    head: Option<ComparedHead>,
    /// The change's number; 0 before the first change.
    at: u64,
    /// The number of the change before it.
    before: u64,
    /// The number of the last change of the mailbox that added or expunged messages.
    messages_at: u64,
    step: CountChange,
    /// The change before the last one, if its effect is known.
    previous: Option<PreviousChange>,
}

/// A change of a mailbox that another one has followed.
#[derive(Clone, Copy)]
struct PreviousChange {
    modseq: ModSeq,
    /// The number of the change before it.
    before: u64,
    step: CountChange,
}

/// The part of a head that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ComparedHead {
    modseq: ModSeq,
    uid_next: Uid,
    counts: Counts,
}

impl ComparedHead {
    fn of(head: &MailboxHead) -> Self {
        Self { modseq: head.modseq, uid_next: head.uid_next, counts: head.counts }
    }
}

/// The effect of a change on a mailbox.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CountChange {
    /// UIDs that were given.
    given: u32,
    /// The number of messages that were added.
    more: i64,
}

/// A mailbox that changed since a session looked.
#[derive(Debug, Clone)]
pub struct MailboxNews {
    /// The mailbox's entry in the newest list.
    pub entry: MailboxEntry,
    /// The newest counts.
    pub counts: Counts,
    /// The newest UIDNEXT.
    pub uid_next: Uid,
    /// The newest mod-sequence.
    pub modseq: ModSeq,
    /// Whether messages were added or expunged. Otherwise only flags changed.
    pub messages: bool,
}

/// The changes in an account since a session read them.
#[derive(Debug, Clone)]
pub struct AccountNews {
    /// The newest list.
    pub list: Arc<MailboxList>,
    /// The mailboxes that changed, those that changed first before the others.
    pub mailboxes: Vec<MailboxNews>,
    /// Whether there are more of them than were requested. The rest is not returned later either.
    pub overflow: bool,
}

/// Messages that a session has added by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnArrivals {
    /// The mailbox that got them.
    pub mailbox: MailboxId,
    /// The mailbox's mod-sequence after the append.
    pub modseq: ModSeq,
    /// The number of messages.
    pub count: u32,
    /// The mod-sequence of the session's own later change of some of these messages, if there was
    /// one.
    pub touched: Option<ModSeq>,
}

impl OwnArrivals {
    /// Whether a change with this mod-sequence added these messages, and did nothing else.
    fn are(&self, modseq: ModSeq, step: CountChange) -> bool {
        let added = CountChange { given: self.count, more: i64::from(self.count) };
        self.modseq == modseq && step == added
    }
}

/// Follows one account. Made by [`crate::Store::follow`].
pub struct AccountWatch {
    followers: Arc<Followers>,
    followed: Arc<Followed>,
    news: watch::Receiver<()>,
    /// Changes up to this one were seen.
    seen: u64,
    _waiting: CountedIn,
}

impl AccountWatch {
    /// Waits until something may have happened since the last [`AccountWatch::take`]. The future
    /// may be dropped and the method called again.
    pub async fn changed(&mut self) {
        // Cannot fail: the sender lives in the account, which this holds.
        let _ = self.news.changed().await;
        // The mark stays until the changes are taken.
        self.news.mark_changed();
    }

    /// Whether something may have happened since the last [`AccountWatch::take`].
    pub fn has_changed(&self) -> bool {
        self.news.has_changed().unwrap_or(false)
    }

    /// The changes since the last call, of at most `max` mailboxes. The session's own arrivals are
    /// left out where nothing else happened.
    pub fn take(&mut self, max: usize, own: &[OwnArrivals]) -> AccountNews {
        // Marked as seen before the state is read, so that no change in between is missed.
        self.news.mark_unchanged();
        let state = self.followed.state.lock();
        let mut news = AccountNews { list: Arc::clone(&state.list), mailboxes: Vec::new(), overflow: false };
        for (_, id) in state.order.range(self.seen + 1..) {
            let Some((last, entry)) = state.mailboxes.get(id).zip(state.entry(*id)) else { continue };
            let Some(head) = last.head.filter(|head| !last.is_own(*id, self.seen, head, own)) else {
                continue;
            };
            if news.mailboxes.len() == max {
                news.overflow = true;
                break;
            }
            news.mailboxes.push(MailboxNews {
                entry: entry.clone(),
                counts: head.counts,
                uid_next: head.uid_next,
                modseq: head.modseq,
                messages: last.messages_at > self.seen,
            });
        }
        self.seen = state.at;
        news
    }

    /// The present state of a mailbox; `None` if it is not in the list, or was not read yet.
    pub fn mailbox(&self, id: MailboxId) -> Option<MailboxNews> {
        let state = self.followed.state.lock();
        let (last, entry) = state.mailboxes.get(&id).zip(state.entry(id))?;
        let head = last.head?;
        let (counts, uid_next, modseq) = (head.counts, head.uid_next, head.modseq);
        Some(MailboxNews { entry: entry.clone(), counts, uid_next, modseq, messages: true })
    }

    /// The newest list.
    pub fn list(&self) -> Arc<MailboxList> {
        Arc::clone(&self.followed.state.lock().list)
    }
}

impl Drop for AccountWatch {
    fn drop(&mut self) {
        self.followers.leave(self.followed.account);
    }
}

impl LastChange {
    /// Whether the session's own messages are the only change since `seen`.
    fn is_own(&self, id: MailboxId, seen: u64, head: &ComparedHead, own: &[OwnArrivals]) -> bool {
        own.iter().filter(|own| own.mailbox == id).any(|own| {
            if self.before <= seen {
                return own.are(head.modseq, self.step);
            }
            // Each change has a mod-sequence of its own. So nothing happened between both.
            own.touched == Some(head.modseq)
                && own.modseq.next() == head.modseq
                && self.previous.is_some_and(|last| last.before <= seen && own.are(last.modseq, last.step))
        })
    }
}

impl State {
    fn of(list: Arc<MailboxList>) -> Self {
        let places = places_in(&list);
        let mailboxes = places.keys().map(|id| (*id, LastChange::default())).collect();
        Self { at: 0, mailboxes, order: BTreeMap::new(), list, places }
    }

    fn entry(&self, id: MailboxId) -> Option<&MailboxEntry> {
        self.places.get(&id).and_then(|place| self.list.entries.get(*place))
    }

    /// Takes over a newer list.
    fn apply(&mut self, change: &mut ListChange) {
        self.list = Arc::clone(&change.list);
        std::mem::swap(&mut self.places, &mut change.places);
        for id in &change.removed {
            if let Some(last) = self.mailboxes.remove(id) {
                self.order.remove(&last.at);
            }
        }
        // A new mailbox begins empty: its first message is a change to report.
        let empty = ComparedHead::of(&MailboxHead::default());
        for id in &change.added {
            self.mailboxes.insert(*id, LastChange { head: Some(empty), ..LastChange::default() });
        }
    }

    /// Notes a head. Returns whether it is new.
    fn note(&mut self, id: MailboxId, head: &MailboxHead) -> bool {
        let Some(last) = self.mailboxes.get_mut(&id) else { return false };
        let now = ComparedHead::of(head);
        let was = last.head;
        if was.is_some_and(|was| was.modseq >= now.modseq) {
            return false;
        }
        last.head = Some(now);
        last.previous =
            was.map(|was| PreviousChange { modseq: was.modseq, before: last.before, step: last.step });
        // A mailbox whose head was not read yet: anything may have happened.
        let zero = ComparedHead { modseq: ModSeq::ZERO, uid_next: Uid::MIN, counts: Counts::default() };
        let was = was.unwrap_or(zero);
        self.at += 1;
        self.order.remove(&last.at);
        self.order.insert(self.at, id);
        (last.before, last.at) = (last.at, self.at);
        last.step = CountChange {
            given: now.uid_next.value().saturating_sub(was.uid_next.value()),
            more: i64::from(now.counts.messages) - i64::from(was.counts.messages),
        };
        if last.step != CountChange::default() {
            last.messages_at = self.at;
        }
        true
    }
}

impl Followers {
    /// The account's record; made if nobody follows it yet. Then the caller gives the heads of its
    /// mailboxes to [`Followers::begin`].
    pub fn follow(self: &Arc<Self>, list: &Arc<MailboxList>, waiting: CountedIn) -> (AccountWatch, bool) {
        let mut known = self.known.write();
        let account = list.account;
        let mut is_new = false;
        let slot = known.accounts.entry(account).or_insert_with(|| {
            is_new = true;
            let state = Mutex::new(State::of(Arc::clone(list)));
            let followed = Followed { account, state, news: watch::Sender::new(()) };
            Slot { followed: Arc::new(followed), watches: 0 }
        });
        slot.watches += 1;
        let followed = Arc::clone(&slot.followed);
        if is_new {
            known.owners.extend(list.entries.iter().map(|entry| (entry.id, account)));
            self.count.store(known.accounts.len(), Ordering::Release);
        }
        let news = followed.news.subscribe();
        let seen = followed.state.lock().at;
        let followers = Arc::clone(self);
        (AccountWatch { followers, followed, news, seen, _waiting: waiting }, is_new)
    }

    /// Whether nothing is held.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        let known = self.known.read();
        known.accounts.is_empty() && known.owners.is_empty() && self.count.load(Ordering::Acquire) == 0
    }

    fn leave(&self, account: AccountId) {
        let mut known = self.known.write();
        let Some(slot) = known.accounts.get_mut(&account) else { return };
        slot.watches -= 1;
        if slot.watches > 0 {
            return;
        }
        let removed = known.accounts.remove(&account);
        for id in removed.iter().flat_map(|slot| slot.followed.state.lock().places.clone().into_keys()) {
            known.owners.remove(&id);
        }
        self.count.store(known.accounts.len(), Ordering::Release);
    }

    /// Notes the heads that mailboxes had when an account began to be followed. They are not
    /// reported.
    pub fn begin(&self, account: AccountId, heads: impl Iterator<Item = (MailboxId, MailboxHead)>) {
        let known = self.known.read();
        let Some(slot) = known.accounts.get(&account) else { return };
        let mut state = slot.followed.state.lock();
        for (id, head) in heads {
            if let Some(last) = state.mailboxes.get_mut(&id)
                && last.head.is_none()
            {
                last.head = Some(ComparedHead::of(&head));
            }
        }
    }

    /// Notes the newest head of a mailbox, after a change by anybody.
    pub fn note(&self, id: MailboxId, head: &MailboxHead) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let known = self.known.read();
        let slot = known.owners.get(&id).and_then(|account| known.accounts.get(account));
        if let Some(slot) = slot
            && slot.followed.state.lock().note(id, head)
        {
            slot.followed.news.send_replace(());
        }
    }

    /// Notes the newest list of an account, after a change by anybody.
    pub fn note_list(&self, list: &Arc<MailboxList>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        while let Some(before) = self.older_list(list) {
            // Computed and dropped without the lock: the changes of all accounts need it.
            let mut change = ListChange::of(before, list);
            if self.apply(&mut change) {
                return;
            }
        }
    }

    /// The list of a followed account, if this one is newer.
    fn older_list(&self, list: &MailboxList) -> Option<Arc<MailboxList>> {
        let known = self.known.read();
        let state = known.accounts.get(&list.account)?.followed.state.lock();
        (state.list.version < list.version).then(|| Arc::clone(&state.list))
    }

    /// Applies a change of a list; false if another one was applied meanwhile.
    fn apply(&self, change: &mut ListChange) -> bool {
        let mut known = self.known.write();
        let FollowedAccounts { accounts, owners } = &mut *known;
        let account = change.list.account;
        let Some(slot) = accounts.get(&account) else { return true };
        let mut state = slot.followed.state.lock();
        if !Arc::ptr_eq(&state.list, &change.before) {
            return false;
        }
        for id in &change.removed {
            owners.remove(id);
        }
        owners.extend(change.added.iter().map(|id| (*id, account)));
        state.apply(change);
        drop(state);
        slot.followed.news.send_replace(());
        true
    }

    /// The accounts followed after this one, in order, at most this many.
    pub fn accounts_after(&self, after: Option<AccountId>, max: usize) -> Vec<(AccountId, Vec<MailboxId>)> {
        let known = self.known.read();
        let range = known.accounts.iter().filter(|(account, _)| after.is_none_or(|after| **account > after));
        range
            .take(max)
            .map(|(account, slot)| (*account, slot.followed.state.lock().places.keys().copied().collect()))
            .collect()
    }
}
