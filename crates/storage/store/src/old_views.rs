//! Bounds the memory of old views: those that sessions hold although their mailboxes have newer
//! ones.
//!
//! A view shares all chunks that did not change with the next one. So an old view takes the bytes
//! that changes have replaced since, and at most the bytes of all its rows. Each mailbox counts
//! the bytes that its changes replaced. A session notes that count when it gets a view
//! ([`Hold`]). The bytes counted since then bound the memory that its view takes in addition to
//! the newest one.
//!
//! A view that several sessions of an account hold counts once. So a session counts only the
//! bytes up to the next newer view that a session holds in the same mailbox. An account may hold
//! its largest old view in any case. A client that reads slowly holds one, and so does a command
//! that changes its mailbox. Besides, an account has a quarter of the bytes. Sessions beyond that
//! are ended, those with the oldest views first. If all accounts together have too much, each has
//! a smaller share.
//!
//! The cost: a change compares the pointers of its groups, and of the chunks in changed groups. A
//! session takes a lock of its own when it gets another view. All sessions are looked at when
//! changes have replaced a 16th of the bytes. Nothing is done for each message, and nothing for a
//! command that changes nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use foldhash::HashMap;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, MailboxId};

/// The part of the bytes after which all sessions are looked at. A look sorts the sessions with
/// old views. With smaller parts, a busy server would look often.
const STEP_PART: u64 = 16;

/// The divisor of the bytes that gives an account's share: four hostile accounts are needed to
/// use them up.
const SHARE_DIVISOR: u64 = 4;

/// The sessions that hold views, and their limits.
pub(crate) struct OldViews {
    /// The limit of all accounts together, at each look.
    most: u64,
    /// The limit of an account.
    share: u64,
    /// Bytes between two looks.
    step: u64,
    /// Bytes since the last look.
    unseen: AtomicU64,
    /// By address.
    holds: Mutex<HashMap<usize, Arc<Hold>>>,
}

/// A session that has a mailbox open.
pub(crate) struct Hold {
    account: AccountId,
    mailbox: MailboxId,
    /// The bytes that changes of the mailbox replaced.
    replaced: Arc<AtomicU64>,
    held: Mutex<HeldSizes>,
    end: Arc<SessionEnd>,
}

/// The sizes of the views that a session holds.
#[derive(Clone, Copy, Default)]
pub(crate) struct HeldSizes {
    /// The bytes that were replaced before it got its views.
    pub at: u64,
    /// Bytes that its views did not share with the newest one even then.
    pub own: u64,
    /// Bytes that its views take if they share nothing.
    pub most: u64,
}

/// Ends a session that holds too much: see [`SessionEnd::unless`].
#[derive(Default)]
pub struct SessionEnd {
    is_requested: AtomicBool,
    waker: AtomicWaker,
}

impl SessionEnd {
    /// Requests the end.
    fn request(&self) {
        self.is_requested.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Runs the work of a session. `None` once the end is requested, wherever the work waits: the
    /// caller then drops it. Only one task may run work with the same end.
    pub async fn unless<W: Future>(&self, mut work: Pin<&mut W>) -> Option<W::Output> {
        let mut known: Option<Waker> = None;
        std::future::poll_fn(move |cx| {
            if !known.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                self.waker.register(cx.waker());
                known = Some(cx.waker().clone());
            }
            // After the waker is known: a request in between wakes it.
            if self.is_requested.load(Ordering::Acquire) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

impl Hold {
    /// A session of an account in a mailbox. It holds nothing old yet.
    pub fn new(
        account: AccountId,
        mailbox: MailboxId,
        replaced: Arc<AtomicU64>,
        end: Arc<SessionEnd>,
    ) -> Self {
        let held = HeldSizes { at: replaced.load(Ordering::Acquire), ..HeldSizes::default() };
        Self { account, mailbox, replaced, held: Mutex::new(held), end }
    }

    /// Notes what it holds from now on. Returns by how many bytes its own part has grown.
    pub fn set(&self, held: HeldSizes) -> u64 {
        let before = std::mem::replace(&mut *self.held.lock(), held);
        held.own.saturating_sub(before.own)
    }
}

/// A session that holds something old.
struct OldHolder {
    hold: Arc<Hold>,
    held: HeldSizes,
    /// The bytes that were replaced since it got its views.
    behind: u64,
    /// The bytes that no session with a newer view holds.
    bytes: u64,
}

impl OldHolder {
    /// `None` if all that it holds is new.
    fn of(hold: Arc<Hold>) -> Option<Self> {
        let held = *hold.held.lock();
        let behind = hold.replaced.load(Ordering::Acquire).saturating_sub(held.at);
        let is_old = behind > 0 || held.own > 0;
        is_old.then_some(Self { hold, held, behind, bytes: 0 })
    }

    fn place(&self) -> (AccountId, MailboxId) {
        (self.hold.account, self.hold.mailbox)
    }
}

impl OldViews {
    /// Sessions may hold this many bytes of old views, in addition to the largest one of each
    /// account.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes as u64;
        // So much may come between two looks.
        let step = (bytes / STEP_PART).max(1);
        let most = bytes.saturating_sub(step);
        let (share, unseen) = (most / SHARE_DIVISOR, AtomicU64::new(0));
        Self { most, share, step, unseen, holds: Mutex::default() }
    }

    /// Counts a session until it is removed.
    pub fn add(&self, hold: &Arc<Hold>) {
        self.holds.lock().insert(key(hold), Arc::clone(hold));
    }

    /// Counts it no longer.
    pub fn remove(&self, hold: &Arc<Hold>) {
        self.holds.lock().remove(&key(hold));
    }

    /// Counts bytes that only old views have from now on. Now and then it looks at all sessions,
    /// and ends those that hold too much.
    pub fn grew(&self, bytes: u64) {
        if bytes > 0 && self.unseen.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes) >= self.step {
            self.unseen.store(0, Ordering::Release);
            self.end_sessions_over_share();
        }
    }

    fn end_sessions_over_share(&self) {
        let holds: Vec<Arc<Hold>> = self.holds.lock().values().cloned().collect();
        let mut counted: Vec<OldHolder> = holds.into_iter().filter_map(OldHolder::of).collect();
        count(&mut counted);
        let mut sums = Vec::new();
        for of_account in counted.chunk_by_mut(|one, other| one.hold.account == other.hold.account) {
            // Stable: what counts once stays with the session that counts it.
            of_account.sort_by_key(|counted| counted.behind);
            sums.push(beside_the_largest(of_account));
        }
        let share = self.share_of_each(sums);
        for of_account in counted.chunk_by(|one, other| one.hold.account == other.hold.account) {
            let stay = within(of_account, share);
            for counted in &of_account[stay..] {
                counted.hold.end.request();
            }
        }
    }

    /// The bytes that each account may have: its share, or less if there is not enough for all.
    fn share_of_each(&self, mut sums: Vec<u64>) -> u64 {
        sums.sort_unstable();
        let (mut left, mut others) = (self.most, sums.len() as u64);
        for sum in sums {
            let fair = left / others;
            if sum.min(self.share) > fair {
                return fair;
            }
            left -= sum.min(self.share);
            others -= 1;
        }
        self.share
    }
}

fn key(hold: &Arc<Hold>) -> usize {
    Arc::as_ptr(hold) as usize
}

/// Counts the bytes that each session holds, and sorts the sessions by account.
fn count(counted: &mut [OldHolder]) {
    counted.sort_unstable_by_key(|counted| (counted.place(), counted.behind));
    let mut nearer: Option<((AccountId, MailboxId), u64)> = None;
    for one in counted {
        let place = one.place();
        let shared = nearer.filter(|(other, _)| *other == place).map_or(0, |(_, behind)| behind);
        one.bytes = one.held.own.saturating_add(one.behind - shared).min(one.held.most);
        nearer = Some((place, one.behind));
    }
}

fn beside_the_largest(of_account: &[OldHolder]) -> u64 {
    let largest = of_account.iter().map(|counted| counted.bytes).max().unwrap_or(0);
    of_account.iter().map(|counted| counted.bytes).fold(0, u64::saturating_add) - largest
}

/// The number of sessions of an account that may stay, from the one with the newest view on.
fn within(of_account: &[OldHolder], share: u64) -> usize {
    let (mut sum, mut largest) = (0u64, 0u64);
    let fits = |counted: &&OldHolder| {
        sum = sum.saturating_add(counted.bytes);
        largest = largest.max(counted.bytes);
        sum - largest <= share
    };
    of_account.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake};

    use posthaste_mail_model::Id;

    use super::*;

    /// 15 bytes may be held at a look, three by one account. Each byte causes a look.
    const BYTES: usize = 16;

    /// A mailbox, and the bytes that its changes replaced.
    struct Changing {
        id: MailboxId,
        replaced: Arc<AtomicU64>,
    }

    impl Changing {
        fn new(id: u128) -> Self {
            Self { id: MailboxId(Id::new(id as u64, id)), replaced: Arc::default() }
        }

        fn change(&self, views: &OldViews, bytes: u64) {
            self.replaced.fetch_add(bytes, Ordering::AcqRel);
            views.grew(bytes);
        }

        /// A session that gets the newest view, of at most 100 bytes.
        fn opened(&self, views: &OldViews, account: u64) -> Arc<Hold> {
            let account = AccountId(Id::new(account, u128::from(account)));
            let hold = Hold::new(account, self.id, Arc::clone(&self.replaced), Arc::default());
            let hold = Arc::new(hold);
            views.add(&hold);
            self.advance(views, &hold, 0);
            hold
        }

        /// The session gets the newest view. This many bytes of it are its own.
        fn advance(&self, views: &OldViews, hold: &Hold, own: u64) {
            let at = self.replaced.load(Ordering::Acquire);
            views.grew(hold.set(HeldSizes { at, own, most: 100 }));
        }
    }

    fn ended(holds: &[Arc<Hold>]) -> Vec<bool> {
        holds.iter().map(|hold| hold.end.is_requested.load(Ordering::Acquire)).collect()
    }

    #[test]
    fn the_sessions_furthest_behind_end_and_others_stay() {
        let (views, mailbox) = (OldViews::new(BYTES), Changing::new(1));
        let neighbour = Changing::new(2).opened(&views, 2);
        let mut holds = Vec::new();
        for _ in 0..4 {
            holds.push(mailbox.opened(&views, 1));
            mailbox.change(&views, 2);
        }
        // Two bytes in any case, and two of three: two sessions.
        assert_eq!(ended(&holds), [true, true, false, false]);
        assert_eq!(ended(&[neighbour]), [false]);
    }

    #[test]
    fn what_sessions_share_counts_once() {
        let (views, mailbox) = (OldViews::new(BYTES), Changing::new(1));
        let holds: Vec<_> = (0..20).map(|_| mailbox.opened(&views, 1)).collect();
        mailbox.change(&views, 50);
        let newer = mailbox.opened(&views, 1);
        mailbox.change(&views, 3);
        // The 50 bytes are the largest view, and the account has three bytes in addition.
        assert_eq!(ended(&holds), [false; 20]);
        let newest = mailbox.opened(&views, 1);
        mailbox.change(&views, 3);
        // All of them hold the oldest view, so all of them end.
        assert_eq!(ended(&holds), [true; 20]);
        assert_eq!(ended(&[newer, newest]), [false; 2]);
    }

    #[test]
    fn a_session_that_gets_the_newest_view_counts_no_longer() {
        let (views, mailbox) = (OldViews::new(BYTES), Changing::new(1));
        let holds: Vec<_> = (0..2).map(|_| mailbox.opened(&views, 1)).collect();
        for _ in 0..90 {
            mailbox.change(&views, 3);
            mailbox.advance(&views, &holds[0], 0);
        }
        // The other one holds one view, however much was replaced since: it is the largest.
        assert_eq!(ended(&holds), [false; 2]);
        views.remove(&holds[1]);
        mailbox.change(&views, 90);
        assert_eq!(ended(&holds), [false; 2]);
    }

    #[test]
    fn what_a_session_alone_has_counts_at_once() {
        let (views, mailbox) = (OldViews::new(BYTES), Changing::new(1));
        let holds: Vec<_> = (0..3).map(|_| mailbox.opened(&views, 1)).collect();
        mailbox.advance(&views, &holds[0], 9);
        mailbox.advance(&views, &holds[1], 3);
        assert_eq!(ended(&holds), [false; 3]);
        mailbox.advance(&views, &holds[2], 1);
        assert_eq!(ended(&holds).into_iter().filter(|ended| *ended).count(), 1);
    }

    #[test]
    fn many_accounts_share_what_there_is() {
        let views = OldViews::new(BYTES);
        let mailboxes: Vec<_> = (0..10).map(Changing::new).collect();
        let mut holds = Vec::new();
        for round in 0..3 {
            for (account, mailbox) in (1..).zip(&mailboxes) {
                holds.push(mailbox.opened(&views, account));
                mailbox.change(&views, 1 + round);
            }
        }
        // 15 bytes for ten accounts: one each in addition to the largest.
        let by_round: Vec<_> = holds.chunks(10).map(ended).collect();
        assert_eq!(by_round, [vec![true; 10], vec![true; 10], vec![false; 10]]);
    }

    #[test]
    fn work_that_waits_is_woken_for_its_end() {
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Release);
            }
        }
        let (end, woken) = (SessionEnd::default(), Arc::new(Woken(AtomicBool::new(false))));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let done = pin!(std::future::ready(7));
        assert_eq!(pin!(end.unless(done)).poll(&mut cx), Poll::Ready(Some(7)));
        let waiting = pin!(std::future::pending::<()>());
        let mut work = pin!(end.unless(waiting));
        assert!(work.as_mut().poll(&mut cx).is_pending());
        assert!(!woken.0.load(Ordering::Acquire));
        end.request();
        assert!(woken.0.load(Ordering::Acquire));
        assert_eq!(work.as_mut().poll(&mut cx), Poll::Ready(None));
        // A request that came before is seen at once.
        let late = pin!(std::future::pending::<()>());
        assert_eq!(pin!(end.unless(late)).poll(&mut cx), Poll::Ready(None));
    }
}
