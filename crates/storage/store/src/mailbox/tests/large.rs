//! Changes of very many messages: on another thread, or in slices.

use std::time::Duration;

use super::*;
use crate::engine::{Unreadable, Visit};
use crate::offload::{AT_ONCE, LOOKED_UP, Place};

/// Enough to be large.
const MANY: u32 = AT_ONCE as u32 * 3 / 2;

/// An engine that notes how many summaries each call is for.
struct Counting {
    inner: MemoryEngine,
    pairs: bool,
    asked: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl Layer for Counting {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    fn commits_pairs(&self) -> bool {
        self.pairs
    }
    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.asked.lock().push(uids.count());
        self.inner.summaries(mailbox, uids, visit).await
    }
}

/// Whether work waits until there is a place for large changes. It is done then.
async fn waits_for_a_permit(store: &Store, work: impl Future<Output = ()>) -> bool {
    let held = store.context().large_permits.acquire_all();
    let mut work = pin!(work);
    let mut waits = true;
    // More polls than a small change takes, and fewer than would be needed without a pause.
    for _ in 0..1000 {
        waits = work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending();
        if !waits {
            break;
        }
    }
    drop(held);
    if waits {
        work.await;
    }
    waits
}

fn stores() -> impl Iterator<Item = (Store, Arc<Counting>)> {
    [false, true].into_iter().map(|pairs| {
        let engine = Counting { inner: MemoryEngine::new(), pairs, asked: Mutex::default() };
        let engine = Arc::new(engine);
        (Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default()), engine)
    })
}

/// A million rows take 33 ms.
#[tokio::test]
async fn a_large_mailbox_is_opened_on_another_thread() {
    for (messages, is_large) in [(10, false), (MANY * 6, true)] {
        let (store, engine) = stores().next().unwrap();
        let id = mailbox(&store).await.id();
        let new = (0..messages).map(|n| message(n as usize, &[])).collect();
        store.open(id).await.unwrap().append(new).await.unwrap();
        let fresh = Store::new(engine as Arc<dyn Engine>, StoreOptions::default());
        let opens = async { assert_eq!(fresh.open(id).await.unwrap().view().exists(), messages) };
        assert_eq!(waits_for_a_permit(&fresh, opens).await, is_large, "{messages}");
    }
}

#[tokio::test]
async fn large_changes_have_permits_of_their_own_and_small_ones_need_none() {
    for (store, _) in stores() {
        for (messages, is_large) in [(10, false), (MANY, true)] {
            let all = set(&[(1, messages)]);
            let source = mailbox(&store).await;
            let new = (0..messages).map(|n| message(n as usize, &[Flag::Deleted])).collect();
            let appends = async { drop(source.append(new).await.unwrap()) };
            assert_eq!(waits_for_a_permit(&store, appends).await, is_large, "APPEND of {messages}");
            let stores = async {
                let stored = source.store_flags(&all, FlagChange::Add, &[Flag::Seen], None).await.unwrap();
                assert_eq!(stored.changed, all);
            };
            assert_eq!(waits_for_a_permit(&store, stores).await, is_large, "STORE of {messages}");
            let target = mailbox(&store).await;
            let copies = async {
                let copied = target.copy_from(&source, &all).await.unwrap();
                assert_eq!((copied.source, copied.uids), (all.clone(), all.clone()));
            };
            assert_eq!(waits_for_a_permit(&store, copies).await, is_large, "COPY of {messages}");
            let moves = async {
                let moved = source.move_to(&all, &target.destination()).await.unwrap();
                assert_eq!(
                    (moved.copied.uids.count(), moved.expunged.uids),
                    (u64::from(messages), all.clone())
                );
            };
            assert_eq!(waits_for_a_permit(&store, moves).await, is_large, "MOVE of {messages}");
            let moves = async {
                let uids = set(&[(1, messages)]);
                let moved = target.move_to(&uids, &target.destination()).await.unwrap();
                assert_eq!(moved.copied.uids, set(&[(2 * messages + 1, 3 * messages)]));
            };
            assert_eq!(waits_for_a_permit(&store, moves).await, is_large, "MOVE within of {messages}");
            let expunges = async {
                assert_eq!(target.expunge(None).await.unwrap().uids.count(), 2 * u64::from(messages));
            };
            assert_eq!(waits_for_a_permit(&store, expunges).await, is_large, "EXPUNGE of {messages}");
            assert_eq!((source.view().exists(), target.view().exists()), (0, 0));
        }
    }
}

/// One message that is expunged of very many is a small change.
#[tokio::test]
async fn a_small_change_of_a_large_mailbox_waits_for_nobody() {
    let store = store();
    let mailbox = filled(&store, MANY as usize).await;
    let one = set(&[(5, 5)]);
    let small = async {
        mailbox.store_flags(&one, FlagChange::Add, &[Flag::Deleted], None).await.unwrap();
        assert_eq!(mailbox.expunge(None).await.unwrap().uids, one);
    };
    assert!(!waits_for_a_permit(&store, small).await);
}

/// 10,000 at a time took 3 ms, and 12 ms on a slow processor. A change that is small enough for the
/// task itself was looked up in one go.
#[tokio::test]
async fn originals_are_looked_up_in_slices() {
    for (store, engine) in stores() {
        let (source, target) = (filled(&store, MANY as usize).await, mailbox(&store).await);
        for many in [MANY, AT_ONCE as u32] {
            let all = set(&[(1, many)]);
            let slices: Vec<u64> = all.slices(LOOKED_UP).map(|slice| slice.count()).collect();
            assert!(slices.len() >= 5, "{slices:?}");
            for _ in 0..2 {
                target.copy_from(&source, &all).await.unwrap();
                assert_eq!(std::mem::take(&mut *engine.asked.lock()), slices);
            }
        }
        target.copy_from(&source, &set(&[(3, 9)])).await.unwrap();
        assert_eq!(std::mem::take(&mut *engine.asked.lock()), [7]);
    }
}

/// Changes of a shared mailbox waited in the queue of the account that had used it first.
#[tokio::test]
async fn a_large_change_counts_for_the_account_that_makes_it() {
    let (store, _) = stores().next().unwrap();
    let [owner, other] = [(); 2].map(|()| AccountId(new_id()));
    let id = mailbox(&store).await.id();
    let own = store.open_for(owner, id).await.unwrap();
    own.append((0..MANY).map(|n| message(n as usize, &[])).collect()).await.unwrap();
    let theirs = store.open_for(other, id).await.unwrap();
    let (all, seen) = (set(&[(1, MANY)]), [Flag::Seen]);
    let held = store.context().large_permits.acquire_of(Place::Account(owner)).await.unwrap();
    let change = theirs.store_flags(&all, FlagChange::Add, &seen, None);
    let stored = tokio::time::timeout(Duration::from_secs(60), change).await;
    assert_eq!(stored.expect("it waits in the owner's queue").unwrap().changed, all);
    let mut change = pin!(own.store_flags(&all, FlagChange::Remove, &seen, None));
    for _ in 0..100 {
        assert!(change.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    }
    drop(held);
    assert_eq!(change.await.unwrap().changed, all);
}

/// As for a copy: a client that leaves does not get the memory of its change counted as free.
#[tokio::test]
async fn changes_of_flags_and_expunges_hold_their_permit_until_they_have_ended() {
    let engine = Gated::new(1);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 3).await;
    let (permit, uids) = (Arc::new(()), set(&[(1, 3)]));
    for expunges in [false, true] {
        let held: HeldPermit = Arc::<()>::clone(&permit);
        let holding = mailbox.with_permit(Some(held));
        {
            let mut work = pin!(async {
                match expunges {
                    true => drop(holding.expunge_at_most(None, 2).await),
                    false => {
                        drop(holding.store_flags(&uids, FlagChange::Add, &[Flag::Deleted], None).await);
                    }
                }
            });
            assert!(work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        }
        drop(holding);
        assert_eq!(Arc::strong_count(&permit), 2, "its caller was dropped, and its commit waits");
        engine.gate.add_permits(1);
        while Arc::strong_count(&permit) > 1 {
            tokio::task::yield_now().await;
        }
    }
    // Those with the lowest UIDs were expunged.
    assert_eq!(mailbox.view().existing(&uids), set(&[(3, 3)]));
}

/// RENAME of a mailbox with 2,000 others below it took 34 ms in one poll.
#[tokio::test]
async fn a_long_list_of_mailboxes_is_changed_on_another_thread() {
    let name = |text: &str| posthaste_mail_model::MailboxName::new(text).unwrap();
    for (mailboxes, is_long) in [(5, false), (20, true)] {
        let (store, _) = stores().next().unwrap();
        let account = posthaste_mail_model::AccountId(crate::suite::new_id());
        for n in 0..mailboxes {
            store.create(account, &name(&format!("a/{n}")), None).await.unwrap();
        }
        let work = async { store.rename(account, &name("a"), &name("b")).await.unwrap() };
        assert_eq!(waits_for_a_permit(&store, work).await, is_long, "{mailboxes} mailboxes");
        assert!(store.list(account).await.unwrap().find(&name("b/4")).is_some());
    }
}
