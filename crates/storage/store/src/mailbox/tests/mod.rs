//! Mailboxes on the oracle, which refuses every commit that does not add up.

mod bounded;
mod foreign;
mod keywords;
mod large;
mod moves;
mod overtaken;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::{Context as TaskContext, Waker};

use parking_lot::Mutex;
use posthaste_mail_model::{FlagSet, Keyword};
use tokio::sync::Semaphore;

use super::*;
use crate::change::{CommitOutcome, FlagChange};
use crate::suite::layer::Layer;
use crate::suite::{Seeded, add_mailbox, erased, new_body_id, new_id};
use crate::{Engine, MailboxCommit, MemoryEngine, Store, StoreOptions};

/// An engine whose commits wait until the test lets them through, and may be made to fail.
struct Gated {
    inner: MemoryEngine,
    gate: Semaphore,
    commits: AtomicU32,
    fail: Mutex<Option<StoreError>>,
    /// Whether it changes two mailboxes at once.
    pairs: bool,
}

impl Gated {
    fn new(open: usize) -> Arc<Self> {
        Arc::new(Self::of(open, false))
    }

    fn with_pairs(open: usize) -> Arc<Self> {
        Arc::new(Self::of(open, true))
    }

    fn of(open: usize, pairs: bool) -> Self {
        let (inner, gate) = (MemoryEngine::new(), Semaphore::new(open));
        Self { inner, gate, commits: AtomicU32::new(0), fail: Mutex::new(None), pairs }
    }

    /// Waits until a commit is let through. The error that it ends with although it is applied:
    /// worse than a failure.
    async fn passed(&self) -> Option<StoreError> {
        self.gate.acquire().await.unwrap().forget();
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.fail.lock().take()
    }
}

#[async_trait::async_trait]
impl Layer for Gated {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        match self.passed().await {
            Some(error) => self.inner.commit(commit).await.and(Err(error)),
            None => self.inner.commit(commit).await,
        }
    }
    fn commits_pairs(&self) -> bool {
        self.pairs
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        match self.passed().await {
            Some(error) => self.inner.commit_pair(pair).await.and(Err(error)),
            None => self.inner.commit_pair(pair).await,
        }
    }
}

async fn mailbox(store: &Store) -> Arc<Mailbox> {
    let id = add_mailbox(&**store.engine(), AccountId(new_id()), MailboxId(new_id())).await;
    store.open(id).await.unwrap()
}

pub(super) fn store() -> Store {
    Store::new(Arc::new(MemoryEngine::new()), StoreOptions::default())
}

pub(super) fn message(size: usize, flags: &[Flag]) -> IncomingMessage {
    IncomingMessage {
        bytes: vec![b'x'; size].into(),
        summary: Bytes::from_static(b"summary"),
        body: new_body_id(),
        flags: flags.to_vec(),
        date: 5,
        saved: None,
    }
}

fn keyword(name: &str) -> Flag {
    Flag::Keyword(Keyword::new(name).unwrap())
}

fn set(text: &[(u32, u32)]) -> NumSet {
    NumSet::from_ranges(text.iter().copied())
}

#[tokio::test]
async fn changes_count_what_old_views_take_and_deletion_counts_all() {
    let store = store();
    let mailbox = filled(&store, 100).await;
    let replaced = || mailbox.replaced().load(Ordering::Acquire);
    let (old, before) = (mailbox.view(), replaced());
    mailbox.store_flags(&set(&[(1, 1)]), FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
    let newer = mailbox.view();
    let of_one = replaced() - before;
    assert_eq!(of_one, old.bytes_beside(&newer) as u64);
    assert!(of_one < old.memory_bytes() as u64);
    // Nothing changes.
    mailbox.store_flags(&set(&[(1, 1)]), FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
    assert_eq!(replaced() - before, of_one);
    for _ in 0..2 {
        mailbox.state.mark_deleted();
        assert_eq!(replaced() - before, of_one + newer.memory_bytes() as u64);
    }
}

pub(super) async fn filled(store: &Store, messages: usize) -> Arc<Mailbox> {
    let mailbox = mailbox(store).await;
    mailbox.append((0..messages).map(|n| message(n, &[])).collect()).await.unwrap();
    mailbox
}

#[tokio::test]
async fn appends_get_uids_in_order_and_one_modseq() {
    let store = store();
    let mailbox = mailbox(&store).await;
    let appended =
        mailbox.append(vec![message(1, &[Flag::Seen]), message(2, &[keyword("$a")])]).await.unwrap();
    assert_eq!(appended.uids, [Uid::new(1).unwrap(), Uid::new(2).unwrap()]);
    assert_eq!(appended.modseq.value(), 1);
    let view = mailbox.view();
    assert_eq!((view.exists(), view.first_unseen().unwrap().value()), (2, 2));
    assert_eq!(view.counts(), view.head().counts);
    let body = mailbox.body_of(Uid::new(2).unwrap()).await.unwrap().unwrap();
    assert_eq!(mailbox.read_body(Uid::MIN, body, 1..9).await.unwrap(), "x");
    assert_eq!(mailbox.body_of(Uid::new(3).unwrap()).await.unwrap(), None);
    let missing = mailbox.read_body(Uid::MIN, new_body_id(), 0..1).await;
    assert!(matches!(missing, Err(StoreError::Body { uid: Uid::MIN, .. })));
}

#[tokio::test]
async fn flags_change_only_where_they_differ() {
    let store = store();
    let mailbox = filled(&store, 10).await;
    let first = mailbox.store_flags(&set(&[(2, 4)]), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
    assert_eq!((first.changed.to_string(), first.modseq.value()), ("2:4".into(), 2));
    let again =
        mailbox.store_flags(&set(&[(1, 5), (90, 99)]), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
    assert_eq!((again.changed.to_string(), again.modseq.value()), ("1,5".into(), 3));
    let nothing = mailbox.store_flags(&set(&[(1, 5)]), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
    assert_eq!((nothing.changed.to_string(), nothing.modseq.value()), (String::new(), 3));
    // Removing a keyword that the mailbox never had adds none.
    let unknown =
        mailbox.store_flags(&set(&[(1, 5)]), FlagChange::Remove, &[keyword("x")], None).await.unwrap();
    assert!(unknown.changed.is_empty() && unknown.view.head().keywords.keywords().is_empty());
    let replaced = mailbox
        .store_flags(&set(&[(5, 6)]), FlagChange::Replace, &[keyword("x"), Flag::Draft], None)
        .await
        .unwrap();
    assert_eq!(replaced.changed.to_string(), "5:6");
    let row = replaced.view.row_of_uid(Uid::new(5).unwrap()).unwrap().1;
    let flags: Vec<String> =
        replaced.view.head().keywords.flags_of(row.flags()).map(|f| f.to_string()).collect();
    assert_eq!(flags, ["\\Draft", "x"]);
}

// RFC 7162 §3.1.3, example 8 and after.
#[tokio::test]
async fn unchangedsince_leaves_the_later_changed_alone() {
    let store = store();
    let mailbox = filled(&store, 6).await;
    let since = mailbox.view().modseq();
    mailbox.store_flags(&set(&[(3, 3)]), FlagChange::Add, &[Flag::Flagged], None).await.unwrap();
    let stored =
        mailbox.store_flags(&set(&[(1, 4)]), FlagChange::Add, &[Flag::Seen], Some(since)).await.unwrap();
    assert_eq!((stored.modified.to_string(), stored.changed.to_string()), ("3".into(), "1:2,4".into()));
    let all_failed = mailbox
        .store_flags(&set(&[(1, 4)]), FlagChange::Remove, &[Flag::Seen], Some(ModSeq::ZERO))
        .await
        .unwrap();
    assert_eq!(
        (all_failed.modified.to_string(), all_failed.changed.to_string()),
        ("1:4".into(), String::new())
    );
}

#[tokio::test]
async fn expunge_takes_the_deleted_and_uids_never_return() {
    let store = store();
    let mailbox = filled(&store, 10).await;
    mailbox.store_flags(&set(&[(2, 9)]), FlagChange::Add, &[Flag::Deleted], None).await.unwrap();
    let some = mailbox.expunge(Some(&set(&[(1, 3), (10, 10)]))).await.unwrap();
    assert_eq!(some.uids.to_string(), "2:3");
    let before = mailbox.view().modseq();
    let rest = mailbox.expunge(None).await.unwrap();
    assert_eq!(rest.uids.to_string(), "4:9");
    assert_eq!(mailbox.expunge(None).await.unwrap().modseq, rest.modseq);
    mailbox.remove(&set(&[(10, 10)])).await.unwrap();
    assert_eq!(mailbox.append(vec![message(1, &[])]).await.unwrap().uids[0].value(), 11);
    assert_eq!(mailbox.vanished_since(before).await.unwrap(), (set(&[(4, 10)]), true));
    assert_eq!(mailbox.view().missing(&set(&[(1, 20)])).to_string(), "2:10");
}

#[tokio::test]
async fn copies_carry_flags_by_name() {
    let store = store();
    let (source, target) = (mailbox(&store).await, mailbox(&store).await);
    let messages = [vec![keyword("a"), keyword("b")], vec![Flag::Seen], vec![keyword("b"), Flag::Flagged]];
    source.append(messages.iter().map(|flags| message(9, flags)).collect()).await.unwrap();
    target.append(vec![message(1, &[keyword("z"), keyword("B")])]).await.unwrap();
    let copied = target.copy_from(&source, &set(&[(1, 100)])).await.unwrap();
    assert_eq!((copied.source.to_string(), copied.uids.to_string()), ("1:3".into(), "2:4".into()));
    let view = target.view();
    let names: Vec<String> = view
        .rows(&view.all())
        .map(|(_, r)| {
            view.head().keywords.flags_of(r.flags()).map(|f| f.to_string()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(names, ["z B", "B a", "\\Seen", "\\Flagged B"]);
    let none = target.copy_from(&source, &set(&[(50, 60)])).await.unwrap();
    assert!(none.source.is_empty() && none.uids.is_empty());
    // Into the very mailbox they are in.
    let own = source.copy_from(&source, &set(&[(2, 3)])).await.unwrap();
    assert_eq!(own.uids.to_string(), "4:5");
}

#[tokio::test]
async fn copying_skips_expunged_messages() {
    let engine = MemoryEngine::new();
    let other = engine.another_process();
    let store = Store::new(Arc::new(engine), StoreOptions::default());
    let elsewhere = Store::new(Arc::new(other), StoreOptions::default());
    let (source, target) = (filled(&store, 4).await, mailbox(&store).await);
    let foreign = elsewhere.open(source.id()).await.unwrap();
    foreign.remove(&set(&[(2, 2)])).await.unwrap();
    assert_eq!(source.view().exists(), 4);
    let copied = target.copy_from(&source, &set(&[(1, 4)])).await.unwrap();
    assert_eq!((copied.source.to_string(), copied.uids.to_string()), ("1,3:4".into(), "1:3".into()));
}

#[tokio::test]
async fn recent_is_claimed_once() {
    let store = store();
    let mailbox = filled(&store, 3).await;
    assert_eq!(mailbox.recent().to_string(), "1:3");
    assert_eq!(mailbox.take_recent().to_string(), "1:3");
    assert!(mailbox.take_recent().is_empty());
    mailbox.append(vec![message(1, &[])]).await.unwrap();
    assert_eq!(mailbox.view().recent(), 1);
    assert_eq!(mailbox.take_recent().to_string(), "4");
    // It was saved with the append, by another's look.
    let heads = store.engine().heads(&[mailbox.id()]).await.unwrap();
    assert_eq!(heads[0].as_ref().unwrap().first_recent.value(), 4);
}

#[tokio::test]
async fn waiting_changes_share_a_commit() {
    let engine = Gated::new(1);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 1).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let mailbox = Arc::clone(&mailbox);
        tasks.spawn(erased(async move { mailbox.append(vec![message(n, &[])]).await.unwrap() }));
    }
    // All are in line (or the first of them in the engine) once each task has run up to its wait.
    while mailbox.state.queue.lock().len() < 19 {
        tokio::task::yield_now().await;
    }
    engine.gate.add_permits(1000);
    let mut answers = tasks.join_all().await;
    assert_eq!(engine.commits.load(Ordering::SeqCst), 3, "one before, one alone, one for all the rest");
    answers.sort_by_key(|a| a.uids[0]);
    for (n, answer) in (2..).zip(&answers) {
        assert_eq!((answer.uids[0].value(), answer.modseq.value()), (n, u64::from(n)));
    }
    store.wait_for_changes().await;
}

#[tokio::test]
async fn a_dropped_client_stops_no_one() {
    let engine = Gated::new(1);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 1).await;
    {
        let mut first = pin!(mailbox.append(vec![message(7, &[])]));
        let mut second = pin!(mailbox.append(vec![message(8, &[])]));
        let cx = &mut TaskContext::from_waker(Waker::noop());
        assert!(first.as_mut().poll(cx).is_pending(), "leads, and waits for the engine");
        assert!(second.as_mut().poll(cx).is_pending(), "waits in line");
        // Both hang up.
    }
    let third = tokio::spawn(erased({
        let mailbox = Arc::clone(&mailbox);
        async move { mailbox.append(vec![message(9, &[])]).await }
    }));
    tokio::task::yield_now().await;
    engine.gate.add_permits(1000);
    assert_eq!(third.await.unwrap().unwrap().uids[0].value(), 4);
    store.wait_for_changes().await;
    assert_eq!(mailbox.view().exists(), 4);
    let sizes: Vec<u32> = mailbox.view().rows_of_uids(&set(&[(2, 4)])).map(|(_, r)| r.size()).collect();
    assert_eq!(sizes, [7, 8, 9]);
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_is_looked_up_before_the_next() {
    let engine = Gated::new(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 1).await;
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(mailbox.append(vec![message(1, &[])]).await.is_err());
    assert_eq!(mailbox.view().exists(), 1);
    assert_eq!(mailbox.current().await.unwrap().exists(), 2);
    assert_eq!(mailbox.append(vec![message(1, &[])]).await.unwrap().uids[0].value(), 3);
}

/// Another process delivers too, so the heads known here are often out of date, and nobody opens
/// the mailbox.
#[tokio::test]
async fn two_processes_deliver_into_a_closed_mailbox() {
    let engine = MemoryEngine::new();
    let other = engine.another_process();
    let id = add_mailbox(&engine, AccountId(new_id()), MailboxId(new_id())).await;
    let stores = [engine, other].map(|engine| Store::new(Arc::new(engine), StoreOptions::default()));
    for n in 0..30 {
        let flags = [Flag::Seen, keyword(&format!("k{}", n % 7))];
        let store = &stores[usize::from(n % 3 == 0)];
        let appended = store.destination(id).append(vec![message(n as usize, &flags)]).await.unwrap();
        assert_eq!((appended.uids[0].value(), appended.modseq.value()), (n + 1, u64::from(n + 1)));
        let here = stores[0].status(&[id]).await.unwrap().remove(0).unwrap();
        assert_eq!((here.counts.messages, here.counts.unseen, here.uid_next.value()), (n + 1, 0, n + 2));
    }
    let views = [stores[0].open(id).await.unwrap().view(), stores[1].open(id).await.unwrap().view()];
    assert!(views[0].difference_from(&views[1]).is_empty());
    assert_eq!((views[0].exists(), views[0].head()), (30, views[1].head()));
}

/// The effect of a failed commit is not known: the next delivery reads the head again.
#[tokio::test]
async fn a_delivery_of_unknown_outcome_is_looked_up_before_the_next() {
    let engine = Gated::new(1000);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let id = add_mailbox(&*engine, AccountId(new_id()), MailboxId(new_id())).await;
    let closed = store.destination(id);
    closed.append(vec![message(1, &[])]).await.unwrap();
    *engine.fail.lock() = Some(StoreError::Unavailable("the line broke".into()));
    assert!(closed.append(vec![message(2, &[])]).await.is_err());
    assert_eq!(closed.append(vec![message(3, &[])]).await.unwrap().uids[0].value(), 3);
    let nowhere = store.destination(MailboxId(new_id()));
    assert!(matches!(nowhere.append(vec![message(1, &[])]).await, Err(StoreError::NoMailbox(_))));
    assert_eq!(store.open(id).await.unwrap().view().exists(), 3);
}

#[tokio::test]
async fn watchers_are_woken_here_and_from_elsewhere() {
    let engine = MemoryEngine::new();
    let other = engine.another_process();
    let store = Store::new(Arc::new(engine), StoreOptions::default());
    let elsewhere = Store::new(Arc::new(other), StoreOptions::default());
    let mailbox = filled(&store, 1).await;
    let mut watch = mailbox.watch();
    let seen = mailbox.view();
    let ((), view) = tokio::join!(
        async {
            mailbox.append(vec![message(1, &[])]).await.unwrap();
        },
        async { watch.changed(&seen).await.unwrap() }
    );
    assert_eq!(view.exists(), 2);
    // A change before the call is reported at once.
    assert_eq!(watch.changed(&seen).await.unwrap().exists(), 2);
    elsewhere.open(mailbox.id()).await.unwrap().remove(&set(&[(1, 1)])).await.unwrap();
    assert_eq!(mailbox.view().exists(), 2);
    store.check_watched().await.unwrap();
    assert_eq!(watch.changed(&view).await.unwrap().exists(), 1);
    assert_eq!(mailbox.current().await.unwrap().exists(), 1);
}

#[tokio::test]
async fn forgotten_expunges_lead_to_a_full_load() {
    let memory = Arc::new(MemoryEngine::new());
    let elsewhere = Store::new(Arc::new(memory.another_process()), StoreOptions::default());
    let store = Store::new(Arc::clone(&memory) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 300).await;
    let since = mailbox.view().modseq();
    elsewhere.open(mailbox.id()).await.unwrap().remove(&set(&[(5, 200)])).await.unwrap();
    memory.forget_expunged(mailbox.id());
    assert_eq!(mailbox.current().await.unwrap().exists(), 104);
    let (_, complete) = mailbox.vanished_since(since).await.unwrap();
    assert!(!complete);
    assert_eq!(mailbox.view().missing(&set(&[(1, 300)])).to_string(), "5:200");
}

/// Random changes through two stores that see each other only through the engine. The oracle
/// refuses commits that do not add up. In the end both stores have the same view.
#[tokio::test]
async fn two_processes_agree() {
    for seed in 0..20 {
        let engine = MemoryEngine::new();
        let other = engine.another_process();
        let stores = [engine, other].map(|engine| Store::new(Arc::new(engine), StoreOptions::default()));
        let first = mailbox(&stores[0]).await;
        let boxes = [Arc::clone(&first), stores[1].open(first.id()).await.unwrap()];
        let mut random = Seeded::new(seed);
        for _ in 0..60 {
            let mailbox = &boxes[random.below(2) as usize];
            let low = random.below(100) as u32 + 1;
            let uids = NumSet::range(low, low + random.below(30) as u32);
            match random.below(5) {
                0 | 1 => {
                    let messages = (0..random.below(20)).map(|n| message(n as usize, &[])).collect();
                    mailbox.append(messages).await.unwrap();
                }
                2 => {
                    let flag = keyword(&format!("k{}", random.below(9)));
                    mailbox.store_flags(&uids, FlagChange::Add, &[flag], None).await.unwrap();
                }
                3 => {
                    mailbox.store_flags(&uids, FlagChange::Replace, &[Flag::Deleted], None).await.unwrap();
                }
                _ => {
                    mailbox.expunge(Some(&uids)).await.unwrap();
                }
            }
        }
        let (a, b) = (boxes[0].current().await.unwrap(), boxes[1].current().await.unwrap());
        assert!(a.difference_from(&b).is_empty(), "seed {seed}");
        assert_eq!(a.head(), b.head(), "seed {seed}");
    }
}

/// All changes at once through one mailbox: whatever the order, each is resolved against those
/// before it.
#[tokio::test]
async fn mixed_changes_in_one_batch_add_up() {
    let engine = Gated::new(1);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 50).await;
    let mut tasks = tokio::task::JoinSet::new();
    // The first leads and waits for the engine; all that come after wait in line.
    let first = Arc::clone(&mailbox);
    tasks.spawn(erased(async move { drop(first.append(vec![message(1, &[])]).await.unwrap()) }));
    while !mailbox.state.queue.lock().is_led() {
        tokio::task::yield_now().await;
    }
    for n in 0..40u32 {
        let mailbox = Arc::clone(&mailbox);
        tasks.spawn(erased(async move {
            let uids = NumSet::range(n, n + 30);
            match n % 4 {
                0 => drop(mailbox.append(vec![message(n as usize, &[Flag::Deleted])]).await.unwrap()),
                1 => drop(mailbox.store_flags(&uids, FlagChange::Add, &[Flag::Deleted], None).await.unwrap()),
                2 => {
                    drop(mailbox.store_flags(&uids, FlagChange::Replace, &[Flag::Seen], None).await.unwrap())
                }
                _ => drop(mailbox.expunge(None).await.unwrap()),
            }
        }));
    }
    while mailbox.state.queue.lock().len() < 40 {
        tokio::task::yield_now().await;
    }
    engine.gate.add_permits(1000);
    tasks.join_all().await;
    store.wait_for_changes().await;
    let view = mailbox.view();
    let loaded = mailbox.state.load_view(&mailbox.state.rows_to_read()).await.unwrap();
    assert!(loaded.difference_from(&view).is_empty());
    assert_eq!(loaded.head(), view.head());
    assert_eq!(view.head().uid_next.value(), 62);
    assert_eq!(engine.commits.load(Ordering::SeqCst), 3);
}
