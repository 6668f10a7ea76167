//! The memory of newest views has a bound: `open_views`.

use std::sync::Weak;

use super::*;
use crate::engine::Epoch;
use crate::head::MailboxHead;
use crate::mailbox::leader::resign;

/// 100 of them count.
const MESSAGES: u32 = 110;
/// What they count.
const COUNTED: u64 = 2_900;
/// Sessions may have two such mailboxes open, an account one, and the server three.
const BYTES: usize = 9_900;

/// An engine that counts how often rows are read. Without an epoch it is one of a cluster.
struct Loads {
    inner: MemoryEngine,
    has_epoch: bool,
    loads: AtomicU32,
}

#[async_trait::async_trait]
impl Layer for Loads {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    fn epoch(&self) -> Epoch {
        self.inner.epoch().filter(|_| self.has_epoch)
    }
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.inner.load(mailbox, rows).await
    }
}

fn bounded_on(engine: Arc<dyn Engine>) -> Store {
    Store::new(engine, StoreOptions { open_views_bytes: BYTES, ..StoreOptions::default() })
}

fn bounded() -> Store {
    bounded_on(Arc::new(MemoryEngine::new()))
}

/// A mailbox with so many messages that nobody has opened.
async fn closed(store: &Store, messages: u32) -> MailboxId {
    let id = add_mailbox(&**store.engine(), AccountId(new_id()), MailboxId(new_id())).await;
    let new = (0..messages).map(|_| message(1, &[])).collect();
    store.destination(id).append(new).await.unwrap();
    id
}

async fn several(store: &Store) -> [MailboxId; 4] {
    let mut ids = [MailboxId(new_id()); 4];
    for id in &mut ids {
        *id = closed(store, MESSAGES).await;
    }
    ids
}

fn accounts() -> [AccountId; 3] {
    [(); 3].map(|()| AccountId(new_id()))
}

/// Opens a mailbox and closes it. Its state, as long as it is cached.
async fn opened(store: &Store, account: AccountId, id: MailboxId) -> Weak<MailboxState> {
    Arc::downgrade(&store.open_for(account, id).await.unwrap().state)
}

fn counted(store: &Store) -> u64 {
    store.context().open_views.counted()
}

fn is_refused<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(StoreError::TooManyOpen))
}

fn new(messages: u32) -> Vec<IncomingMessage> {
    (0..messages).map(|_| message(1, &[])).collect()
}

#[tokio::test]
async fn an_account_all_sessions_and_the_server_have_bounds() {
    let (store, [ana, bob, eve]) = (bounded(), accounts());
    let ids = several(&store).await;
    let first = store.open_for(ana, ids[0]).await.unwrap();
    assert!(is_refused(store.open_for(ana, ids[1]).await), "an account has half");
    let _second = store.open_for(bob, ids[1]).await.unwrap();
    assert!(is_refused(store.open_for(eve, ids[2]).await), "sessions leave something");
    let third = store.open(ids[2]).await.unwrap();
    assert_eq!(counted(&store), 3 * COUNTED);
    assert!(is_refused(store.open(ids[3]).await), "the server has all of it");
    // The server has read them, and eve could not have.
    assert!(is_refused(store.open_for(eve, ids[2]).await));
    // These rows count for ana.
    drop(store.open_for(eve, ids[0]).await.unwrap());
    drop(first);
    let hers = store.open_for(eve, ids[2]).await.unwrap();
    assert!(hers.shares_state_with(&third));
    drop((hers, third));
    assert_eq!(counted(&store), 2 * COUNTED);
}

/// Rows that the server has read count for the account that opens the mailbox then.
#[tokio::test]
async fn rows_that_are_known_count_for_the_account_that_opens_them() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let ids = several(&store).await;
    let by_server = store.open(ids[0]).await.unwrap();
    let hers = store.open_for(ana, ids[0]).await.unwrap();
    drop(by_server);
    assert!(is_refused(store.open_for(ana, ids[1]).await));
    let _his = store.open_for(bob, ids[1]).await.unwrap();
    drop(hers);
    drop(store.open_for(ana, ids[2]).await.unwrap());
    assert_eq!(counted(&store), 2 * COUNTED);
}

/// A mailbox of others that an account has looked at takes nothing of its share.
#[tokio::test]
async fn rows_count_for_an_account_as_long_as_it_has_the_mailbox_open() {
    let (store, [ana, bob, eve]) = (bounded(), accounts());
    let ids = several(&store).await;
    let hers = store.open_for(ana, ids[0]).await.unwrap();
    let again = store.open_for(ana, ids[0]).await.unwrap();
    let his = store.open_for(bob, ids[0]).await.unwrap();
    drop(hers);
    assert!(is_refused(store.open_for(ana, ids[1]).await), "she has it open twice");
    drop(again);
    drop(store.open_for(ana, ids[1]).await.unwrap());
    // It counts for the next account that opens it.
    let third = store.open_for(eve, ids[0]).await.unwrap();
    drop(his);
    assert!(is_refused(store.open_for(eve, ids[2]).await));
    drop(third);
    drop(store.open_for(eve, ids[2]).await.unwrap());
    assert_eq!(counted(&store), 2 * COUNTED);
}

/// A change that holds a permit has a handle of its own.
#[tokio::test]
async fn a_handle_made_of_another_does_not_close_the_mailbox() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let ids = several(&store).await;
    let hers = store.open_for(ana, ids[0]).await.unwrap();
    let _his = store.open_for(bob, ids[0]).await.unwrap();
    drop(hers.with_permit(None));
    assert!(is_refused(store.open_for(ana, ids[1]).await));
}

/// A share is for several mailboxes. A user must get at the mail of a single one.
#[tokio::test]
async fn a_mailbox_larger_than_a_share_is_opened_while_there_is_room() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let (id, large) = (closed(&store, MESSAGES).await, closed(&store, 250).await);
    let his = store.open_for(bob, id).await.unwrap();
    assert!(is_refused(store.open_for(ana, large).await), "others need the memory");
    drop(his);
    let hers = store.open_for(ana, large).await.unwrap();
    // The small one of the account is opened all the same.
    drop(store.open_for(ana, closed(&store, 5).await).await.unwrap());
    assert!(is_refused(store.open_for(bob, id).await));
    // As it shrinks, it counts for its account.
    hers.remove(&set(&[(1, 140)])).await.unwrap();
    drop(store.open_for(bob, id).await.unwrap());
    assert!(is_refused(store.open_for(ana, id).await));
}

#[tokio::test]
async fn cached_mailboxes_make_room_the_least_recently_used_first() {
    let (store, [ana, bob, eve]) = (bounded(), accounts());
    let ids = several(&store).await;
    let (older, newer) = (opened(&store, ana, ids[0]).await, opened(&store, bob, ids[1]).await);
    // Too large for what all of them would free: none is evicted.
    let large = closed(&store, 1000).await;
    assert!(is_refused(store.open_for(eve, large).await));
    assert!(older.upgrade().is_some() && newer.upgrade().is_some());
    let latest = opened(&store, eve, ids[2]).await;
    assert!(older.upgrade().is_none() && newer.upgrade().is_some());
    // An account over its share evicts its own ones.
    opened(&store, eve, ids[3]).await;
    assert!(newer.upgrade().is_some() && latest.upgrade().is_none());
    assert_eq!(counted(&store), 2 * COUNTED);
}

#[tokio::test]
async fn all_is_given_back() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let ids = several(&store).await;
    let open = store.open_for(ana, ids[0]).await.unwrap();
    assert!(is_refused(store.open_for(ana, ids[1]).await));
    assert_eq!(counted(&store), COUNTED, "a refused opening counts nothing");
    let shared = store.open_for(bob, ids[0]).await.unwrap();
    assert_eq!(counted(&store), COUNTED, "a mailbox counts once");
    let views = Arc::clone(&store.context().open_views);
    drop((open, shared));
    assert!(!views.is_empty(), "it is cached");
    drop(store);
    assert!(views.is_empty());
}

#[tokio::test]
async fn small_mailboxes_are_opened_in_any_case() {
    let (store, [ana, bob, eve]) = (bounded(), accounts());
    let ids = several(&store).await;
    let _one = store.open_for(ana, ids[0]).await.unwrap();
    let _two = store.open_for(bob, ids[1]).await.unwrap();
    let (small, larger) = (closed(&store, 10).await, closed(&store, 200).await);
    for account in [ana, bob, eve] {
        assert_eq!(store.open_for(account, small).await.unwrap().view().exists(), 10);
        assert!(is_refused(store.open_for(account, larger).await));
    }
}

/// New messages of sessions have the room that sessions have, and deliveries all of it.
#[tokio::test]
async fn an_open_mailbox_grows_as_long_as_there_is_room() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let (id, other) = (closed(&store, 200).await, closed(&store, MESSAGES).await);
    let open = store.open_for(ana, id).await.unwrap();
    assert!(is_refused(open.append(new(110)).await));
    assert_eq!((open.view().exists(), counted(&store)), (200, 190 * 29));
    store.destination(id).append(new(110)).await.unwrap();
    assert_eq!((open.view().exists(), counted(&store)), (310, 300 * 29));
    assert!(is_refused(store.destination(id).append(new(50)).await), "all of it is used");
    assert!(is_refused(store.open_for(bob, other).await));
    // Neither a change of flags nor mail for a closed mailbox takes anything.
    open.store_flags(&set(&[(1, 9)]), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
    store.destination_for(ana, other).append(new(50)).await.unwrap();
    assert_eq!(counted(&store), 300 * 29);
    open.remove(&set(&[(1, 250)])).await.unwrap();
    open.append(new(10)).await.unwrap();
    assert_eq!(counted(&store), 60 * 29);
}

/// Its rows are evicted when others need the memory.
#[tokio::test]
async fn a_mailbox_that_no_session_has_open_grows_in_any_case() {
    let (store, [ana, ..]) = (bounded(), accounts());
    let id = closed(&store, MESSAGES).await;
    let state = opened(&store, ana, id).await;
    store.destination_for(ana, id).append(new(300)).await.unwrap();
    assert_eq!(counted(&store), 400 * 29);
    drop(store.open_for(ana, closed(&store, MESSAGES).await).await.unwrap());
    assert!(state.upgrade().is_none());
    assert_eq!(counted(&store), COUNTED);
}

#[tokio::test]
async fn growth_evicts_cached_mailboxes_and_stays_within_the_share_of_its_account() {
    let (store, [ana, bob, _]) = (bounded(), accounts());
    let _large = store.open_for(ana, closed(&store, MESSAGES).await).await.unwrap();
    let cached = opened(&store, bob, closed(&store, MESSAGES).await).await;
    let id = closed(&store, 0).await;
    let small = store.open_for(ana, id).await.unwrap();
    small.append(new(80)).await.unwrap();
    assert_eq!(counted(&store), 2 * COUNTED + 70 * 29);
    assert!(is_refused(small.append(new(1)).await), "an account has half");
    assert!(cached.upgrade().is_some(), "it would not help");
    store.destination(id).append(new(75)).await.unwrap();
    assert!(cached.upgrade().is_none(), "it has made room");
    assert_eq!(counted(&store), COUNTED + 145 * 29);
}

#[tokio::test]
async fn a_copy_or_move_into_an_open_mailbox_without_room_changes_nothing() {
    for engine in [Gated::new(1000), Gated::with_pairs(1000)] {
        let store = bounded_on(engine as Arc<dyn Engine>);
        let ana = AccountId(new_id());
        let (source, id) = (filled(&store, 5).await, closed(&store, 308).await);
        let open = store.open_for(ana, id).await.unwrap();
        let (one, to) = (set(&[(1, 1)]), store.destination_for(ana, id));
        assert!(is_refused(to.copy_from(&source, &one).await));
        assert!(is_refused(source.move_to(&one, &to).await));
        assert!(is_refused(source.replace(Uid::MIN, &to, message(1, &[])).await));
        assert_eq!((source.view().exists(), open.view().exists(), counted(&store)), (5, 308, 298 * 29));
        source.move_to(&one, &store.destination(id)).await.unwrap();
        assert_eq!((source.view().exists(), open.view().exists(), counted(&store)), (4, 309, 299 * 29));
    }
}

/// What was not stored counts nothing.
#[tokio::test]
async fn growth_that_fails_is_given_back() {
    let engine = Gated::new(1000);
    let store = bounded_on(Arc::clone(&engine) as Arc<dyn Engine>);
    let open = store.open_for(AccountId(new_id()), closed(&store, MESSAGES).await).await.unwrap();
    *engine.fail.lock() = Some(StoreError::Full("no space".into()));
    assert!(open.append(new(10)).await.is_err());
    assert_eq!(counted(&store), COUNTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mailboxes_that_grow_side_by_side_stay_within_the_bound() {
    let store = bounded();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let open = store.open_for(AccountId(new_id()), closed(&store, 10).await).await.unwrap();
        tasks.spawn(erased(async move { open.append(new(100)).await.map(|_| open) }));
    }
    // All are held until the last one has ended.
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    assert_eq!(counted(&store), 2 * COUNTED);
    assert!(outcomes.into_iter().all(|outcome| outcome.is_ok() || is_refused(outcome)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openings_side_by_side_stay_within_the_bound() {
    let store = bounded();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, id) = (store.clone(), closed(&store, MESSAGES).await);
        tasks.spawn(erased(async move { store.open_for(AccountId(new_id()), id).await }));
    }
    // All are held until the last one has ended.
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    assert_eq!(counted(&store), 2 * COUNTED);
    assert!(outcomes.into_iter().all(|outcome| outcome.is_ok() || is_refused(outcome)));
}

/// Of a mailbox that is too large, nothing is read but its head.
#[tokio::test]
async fn a_refused_mailbox_is_not_read() {
    for has_epoch in [true, false] {
        let engine = Arc::new(Loads { inner: MemoryEngine::new(), has_epoch, loads: AtomicU32::new(0) });
        let store = bounded_on(Arc::clone(&engine) as Arc<dyn Engine>);
        let (fits, large) = (closed(&store, MESSAGES).await, closed(&store, 1000).await);
        let account = AccountId(new_id());
        assert!(is_refused(store.open_for(account, large).await));
        assert_eq!(engine.loads.load(Ordering::SeqCst), 0, "epoch: {has_epoch}");
        store.open_for(account, fits).await.unwrap();
        assert_eq!(engine.loads.load(Ordering::SeqCst), 1, "epoch: {has_epoch}");
    }
}

/// They were changes of one batch.
#[tokio::test]
async fn a_refused_opening_takes_no_delivery_with_it() {
    let store = bounded();
    let large = closed(&store, 1000).await;
    let destination = store.destination(large);
    let state = Arc::clone(&destination.state);
    let lead = state.take_lead().await.unwrap();
    let opening = store.clone();
    let opens =
        tokio::spawn(erased(async move { opening.open_for(AccountId(new_id()), large).await.map(drop) }));
    let arrives =
        tokio::spawn(erased(async move { destination.append(vec![message(1, &[])]).await.map(drop) }));
    while state.queue.lock().len() < 2 {
        tokio::task::yield_now().await;
    }
    resign(lead).await;
    assert!(matches!(opens.await.unwrap(), Err(StoreError::TooManyOpen)));
    arrives.await.unwrap().unwrap();
    assert_eq!(state.head().unwrap().counts.messages, 1001);
}

/// The mailbox of the queue, and those of the search index.
#[tokio::test]
async fn a_mailbox_that_no_user_has_is_not_refused() {
    let store = bounded();
    let large = closed(&store, 1000).await;
    let _destination = store.destination(large).without_limit();
    assert_eq!(store.open(large).await.unwrap().view().exists(), 1000);
    assert!(counted(&store) > BYTES as u64);
}

/// Retention must get at the largest mailboxes.
#[tokio::test]
async fn upkeep_is_not_refused() {
    let (store, [ana, ..]) = (bounded(), accounts());
    let large = closed(&store, 1000).await;
    let upkeep = store.open_for_upkeep(large).await.unwrap();
    assert_eq!(upkeep.view().exists(), 1000);
    assert!(counted(&store) > BYTES as u64);
    assert!(is_refused(store.open_for(ana, large).await), "a session is");
    drop(upkeep);
    // It makes room, as any cached mailbox.
    drop(store.open_for(ana, closed(&store, MESSAGES).await).await.unwrap());
    assert_eq!(counted(&store), COUNTED);
    assert!(is_refused(store.open(large).await));
}

/// A full table shows only with the rows whether any message has a keyword.
#[tokio::test]
async fn mail_comes_in_without_keywords_if_there_is_no_room_for_the_rows() {
    let store = bounded();
    let (large, source) = (closed(&store, 1000).await, filled(&store, 0).await);
    let full: Vec<Flag> = (0..51).map(|n| keyword(&format!("k{n}"))).collect();
    let new = [keyword("new"), Flag::Seen];
    source.append(vec![message(1, &new); 2]).await.unwrap();
    let target = store.destination(large);
    target.append(vec![message(1, &full)]).await.unwrap();
    let left_out = [Keyword::new("new").unwrap()];
    assert_eq!(target.append(vec![message(1, &new)]).await.unwrap().left_out, left_out);
    assert_eq!(target.copy_from(&source, &set(&[(1, 1)])).await.unwrap().left_out, left_out);
    assert_eq!(source.move_to(&set(&[(2, 2)]), &target).await.unwrap().copied.left_out, left_out);
    let head = store.status(&[large]).await.unwrap().remove(0).unwrap();
    assert_eq!((head.counts.messages, head.counts.unseen), (1004, 1001));
    assert_eq!(source.view().exists(), 1);
}

/// On a cluster. Copies of what others expunged meanwhile do not stay in a target without room.
#[tokio::test]
async fn a_move_in_two_commits_finds_room_to_give_up_what_others_expunged() {
    let engine = Gated::new(1000);
    let options = StoreOptions { open_views_bytes: 0, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, options);
    let (source, target) = (filled(&store, 3).await, closed(&store, 20).await);
    assert!(is_refused(store.open(target).await));
    let elsewhere = Store::new(Arc::new(engine.inner.another_process()), StoreOptions::default());
    let theirs = elsewhere.open(source.id()).await.unwrap();
    engine.gate.forget_permits(1000);
    engine.gate.add_permits(1);
    let moving = tokio::spawn(erased({
        let (source, to) = (Arc::clone(&source), store.destination(target));
        async move { source.move_to(&set(&[(1, 3)]), &to).await }
    }));
    let messages = async || elsewhere.status(&[target]).await.unwrap()[0].as_ref().unwrap().counts.messages;
    // One commit is let through: the copies are in the target.
    while messages().await < 23 {
        tokio::task::yield_now().await;
    }
    theirs.remove(&set(&[(2, 2)])).await.unwrap();
    engine.gate.add_permits(1000);
    assert_eq!(moving.await.unwrap().unwrap().copied.source, set(&[(1, 1), (3, 3)]));
    assert_eq!(messages().await, 22);
}
