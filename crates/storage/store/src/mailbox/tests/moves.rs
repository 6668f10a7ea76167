//! Moves on the oracle, in one commit and in two.

use super::*;
use crate::suite::{Factory, moves_that_cross_lose_nothing};

#[tokio::test]
async fn a_move_leaves_the_source() {
    let store = store();
    let (source, target) = (filled(&store, 5).await, filled(&store, 2).await);
    let moved = source.move_to(&set(&[(2, 3), (5, 9)]), &target.destination()).await.unwrap();
    assert_eq!(moved.copied.source.to_string(), "2:3,5");
    assert_eq!(moved.copied.uids.to_string(), "3:5");
    assert_eq!(moved.expunged.uids.to_string(), "2:3,5");
    assert_eq!((source.view().exists(), target.view().exists()), (2, 5));
    // Within one mailbox a move gives new UIDs (RFC 6851 §3.3).
    let moved = target.move_to(&set(&[(1, 2)]), &target.destination()).await.unwrap();
    assert_eq!(moved.copied.uids.to_string(), "6:7");
    assert_eq!(target.view().uids_of_seqs(&target.view().all()).to_string(), "3:7");
}

/// In one commit and in two.
#[tokio::test]
async fn a_move_of_unchanged_messages_leaves_the_others() {
    for engine in [Gated::new(1000), Gated::with_pairs(1000)] {
        let store = Store::new(engine as Arc<dyn Engine>, StoreOptions::default());
        let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
        let since = source.view().modseq();
        source.store_flags(&set(&[(2, 2)]), FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
        let moved = source.move_unchanged(&set(&[(1, 3)]), since, &target.destination()).await.unwrap();
        assert_eq!(
            (moved.copied.source.to_string(), moved.expunged.uids),
            ("1,3".to_owned(), set(&[(1, 1), (3, 3)]))
        );
        assert_eq!((source.view().exists(), target.view().exists()), (1, 3));
        let none = source.move_unchanged(&set(&[(1, 3)]), since, &target.destination()).await.unwrap();
        assert!(none.copied.uids.is_empty() && none.expunged.uids.is_empty());
    }
}

/// Without a commit on both mailboxes, as on a cluster, the target is changed first.
#[tokio::test]
async fn a_move_in_two_commits_loses_nothing() {
    let engine = Gated::new(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    let moved = source.move_to(&set(&[(2, 3)]), &target.destination()).await.unwrap();
    assert_eq!((moved.copied.uids, moved.expunged.uids), (set(&[(2, 3)]), set(&[(2, 3)])));
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(source.move_to(&set(&[(1, 1)]), &target.destination()).await.is_err());
    let exists = [source.current().await.unwrap().exists(), target.current().await.unwrap().exists()];
    assert_eq!(exists, [1, 4], "it is in both, and not in neither");
}

/// A message that another process expunges between the two commits of a move is not moved: its copy
/// is expunged from the target again.
#[tokio::test]
async fn a_move_in_two_commits_gives_up_what_others_expunged() {
    let engine = Gated::new(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    let elsewhere = Store::new(Arc::new(engine.inner.another_process()), StoreOptions::default());
    let theirs = elsewhere.open(source.id()).await.unwrap();
    engine.gate.forget_permits(1000);
    engine.gate.add_permits(1);
    let moving = tokio::spawn(erased({
        let (source, to) = (Arc::clone(&source), target.destination());
        async move { source.move_to(&set(&[(1, 3)]), &to).await }
    }));
    // One commit is let through: the copies are in the target.
    while target.view().exists() < 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(theirs.remove(&set(&[(2, 2)])).await.unwrap().uids, set(&[(2, 2)]));
    engine.gate.add_permits(1000);
    let moved = moving.await.unwrap().unwrap();
    assert_eq!((moved.copied.source, moved.copied.uids), (set(&[(1, 1), (3, 3)]), set(&[(2, 2), (4, 4)])));
    assert_eq!(moved.expunged.uids, set(&[(1, 1), (3, 3)]));
    assert_eq!((source.view().exists(), target.view().exists()), (0, 3));
}

/// A move of unknown outcome was done on both mailboxes or on neither: here on both.
#[tokio::test]
async fn a_move_of_unknown_outcome_is_looked_up() {
    let engine = Gated::with_pairs(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(source.move_to(&set(&[(1, 2)]), &target.destination()).await.is_err());
    assert_eq!((source.view().exists(), target.view().exists()), (3, 1));
    let moved = source.move_to(&set(&[(1, 3)]), &target.destination()).await.unwrap();
    assert_eq!((moved.copied.source, moved.copied.uids), (set(&[(3, 3)]), set(&[(4, 4)])));
    assert_eq!((source.view().exists(), target.view().exists()), (0, 4));
    // Others go on afterwards: both roles were released.
    assert_eq!(source.append(vec![message(1, &[])]).await.unwrap().uids[0].value(), 4);
    assert_eq!(target.append(vec![message(1, &[])]).await.unwrap().uids[0].value(), 5);
    store.wait_for_changes().await;
}

/// A client that hangs up in the middle of a move holds up no one, and the move is done whole.
#[tokio::test]
async fn a_dropped_move_is_done_whole() {
    let engine = Gated::with_pairs(2);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    {
        let destination = target.destination();
        let uids = set(&[(1, 2)]);
        let mut moving = pin!(source.move_to(&uids, &destination));
        let cx = &mut TaskContext::from_waker(Waker::noop());
        assert!(moving.as_mut().poll(cx).is_pending(), "leads both, and waits for the engine");
    }
    let after = tokio::spawn(erased({
        let target = Arc::clone(&target);
        async move { target.append(vec![message(9, &[])]).await }
    }));
    tokio::task::yield_now().await;
    engine.gate.add_permits(1000);
    assert_eq!(after.await.unwrap().unwrap().uids[0].value(), 4);
    store.wait_for_changes().await;
    assert_eq!((source.view().exists(), target.view().exists()), (1, 4));
}

/// Makes engines that change one mailbox at a time.
struct WithoutPairs;

#[async_trait::async_trait]
impl Factory for WithoutPairs {
    async fn open(&self) -> Arc<dyn Engine> {
        Gated::new(Semaphore::MAX_PERMITS)
    }
    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        engine
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_in_two_commits_may_cross() {
    moves_that_cross_lose_nothing(&WithoutPairs).await;
}

/// An engine in front of which another session expunges a message of the source whenever a copy
/// has looked at its originals.
struct Overtaken {
    inner: MemoryEngine,
    source: Mutex<Option<Arc<Mailbox>>>,
    next: AtomicU32,
}

#[async_trait::async_trait]
impl Layer for Overtaken {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut crate::Visit<'_>,
    ) -> Result<crate::Unreadable> {
        let looked = self.inner.summaries(mailbox, uids, visit).await;
        let source = self.source.lock().clone();
        if let Some(source) = source.filter(|source| source.id() == mailbox) {
            let uid = self.next.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(erased(async move { source.remove(&NumSet::range(uid, uid)).await }));
            // On one thread: enough for the expunge, unless it waits for a lead.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        looked
    }
}

/// Others expunge faster than a copy can look: it waits in line, and then copies the rest.
#[tokio::test]
async fn a_copy_that_is_overtaken_waits_in_line() {
    for within in [false, true] {
        let inner = MemoryEngine::new();
        let engine = Arc::new(Overtaken { inner, source: Mutex::new(None), next: AtomicU32::new(1) });
        let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
        let (source, other) = (filled(&store, 20).await, filled(&store, 1).await);
        *engine.source.lock() = Some(Arc::clone(&source));
        let target = if within { &source } else { &other };
        let copied = target.copy_from(&source, &set(&[(1, 20)])).await.unwrap();
        // The first look was overtaken; during the second one the expunge had to wait.
        assert_eq!(copied.source, set(&[(2, 20)]), "within: {within}");
        assert_eq!(copied.uids.count(), 19);
        engine.source.lock().take();
        while source.view().rows_of_uids(&set(&[(2, 2)])).next().is_some() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_message_is_replaced_in_one_commit() {
    let engine = Gated::with_pairs(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    let uid = |n| posthaste_mail_model::Uid::new(n).unwrap();
    // Within one mailbox, and from one to another.
    let replaced = source.replace(uid(2), &source.destination(), message(9, &[])).await.unwrap();
    assert_eq!((replaced.copied.uids, replaced.expunged.uids), (set(&[(4, 4)]), set(&[(2, 2)])));
    let replaced = source.replace(uid(4), &target.destination(), message(9, &[])).await.unwrap();
    assert_eq!((replaced.copied.uids, replaced.expunged.uids), (set(&[(2, 2)]), set(&[(4, 4)])));
    assert_eq!((source.view().exists(), target.view().exists()), (2, 2));
    // A missing message is not replaced, and none is added.
    let replaced = source.replace(uid(4), &target.destination(), message(9, &[])).await.unwrap();
    assert!(replaced.copied.uids.is_empty() && replaced.expunged.uids.is_empty());
    assert_eq!(target.view().exists(), 2);
    // Of unknown outcome: both or neither.
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(source.replace(uid(1), &target.destination(), message(9, &[])).await.is_err());
    let exists = [source.current().await.unwrap().exists(), target.current().await.unwrap().exists()];
    assert!(exists == [2, 2] || exists == [1, 3], "{exists:?}");
}

/// On a cluster the new message comes first, so no crash leaves neither.
#[tokio::test]
async fn a_message_that_is_replaced_in_two_commits_is_not_lost() {
    let engine = Gated::new(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 2).await, filled(&store, 1).await);
    let uid = posthaste_mail_model::Uid::new(1).unwrap();
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(source.replace(uid, &target.destination(), message(9, &[])).await.is_err());
    let exists = [source.current().await.unwrap().exists(), target.current().await.unwrap().exists()];
    assert_eq!(exists, [2, 2], "both are there, and not neither");
}

/// A client that leaves does not get the memory of its change counted as free.
#[tokio::test]
async fn a_change_holds_its_permit_until_it_has_ended() {
    let engine = Gated::with_pairs(1);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (mailbox(&store).await, mailbox(&store).await);
    source.append(vec![message(1, &[]), message(2, &[])]).await.unwrap();
    let (permit, uids) = (Arc::new(()), set(&[(1, 2)]));
    for (moves, arrived) in [(false, 2), (true, 4)] {
        let held: HeldPermit = Arc::<()>::clone(&permit);
        let holding = target.destination().with_permit(Some(held));
        {
            let mut work = pin!(async {
                match moves {
                    true => drop(source.move_to(&uids, &holding).await),
                    false => drop(holding.copy_from(&source, &uids).await),
                }
            });
            assert!(work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        }
        drop(holding);
        assert_eq!(Arc::strong_count(&permit), 2, "its caller is gone, and its commit waits");
        engine.gate.add_permits(1);
        while Arc::strong_count(&permit) > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(target.view().exists(), arrived);
    }
    assert_eq!(source.view().exists(), 0);
}

/// A session that was ended gave back the memory and the quota of a message that was then stored.
#[tokio::test]
async fn an_append_holds_all_its_permits_until_it_has_ended() {
    let engine = Gated::new(0);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let target = mailbox(&store).await;
    let permits = [Arc::new(()), Arc::new(())];
    let held = |permit: &Arc<()>| -> Option<HeldPermit> { Some(Arc::<()>::clone(permit)) };
    {
        let destination = target.destination().with_permit(held(&permits[0]));
        let holding = destination.holding(held(&permits[1])).holding(None);
        let mut work = pin!(holding.append(vec![message(1, &[])]));
        assert!(work.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    }
    assert!(permits.iter().all(|permit| Arc::strong_count(permit) == 2), "its commit waits");
    engine.gate.add_permits(1);
    while permits.iter().any(|permit| Arc::strong_count(permit) > 1) {
        tokio::task::yield_now().await;
    }
    assert_eq!(target.view().exists(), 1);
}
