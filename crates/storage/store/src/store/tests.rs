//! Names, lists and the cache, on the oracle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Waker};

use posthaste_mail_model::{MailboxName, NumSet};
use tokio::sync::oneshot;

use super::*;
use crate::error::StoreError;
use crate::list::SpecialUse;
use crate::mailbox::IncomingMessage;
use crate::suite::layer::Layer;
use crate::suite::{erased, new_id};
use crate::{MailboxEntry, MemoryEngine};

fn store_with(options: StoreOptions) -> (Store, AccountId) {
    (Store::new(Arc::new(MemoryEngine::new()), options), AccountId(new_id()))
}

fn store() -> (Store, AccountId) {
    store_with(StoreOptions::default())
}

fn name(text: &str) -> MailboxName {
    MailboxName::new(text).unwrap()
}

async fn names(store: &Store, account: AccountId) -> Vec<String> {
    store.list(account).await.unwrap().entries.iter().map(|e| e.name.to_string()).collect()
}

async fn append(store: &Store, mailbox: MailboxId, messages: usize) -> Arc<Mailbox> {
    let mailbox = store.open(mailbox).await.unwrap();
    let message = |n: usize| IncomingMessage {
        bytes: vec![b'x'; n].into(),
        summary: Bytes::new(),
        body: store.new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: Some(4),
    };
    mailbox.append((0..messages).map(message).collect()).await.unwrap();
    mailbox
}

/// Ten thousand heads with the longest keywords took 100 MB, and a poll of some 70 ms.
#[tokio::test]
async fn many_mailboxes_are_counted_on_another_thread() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let node = || Store::new(Arc::clone(&engine), StoreOptions::default());
    let (filled, fresh, account) = (node(), node(), AccountId(new_id()));
    let mut ids = Vec::new();
    for n in 0..9 {
        ids.push(filled.create(account, &name(&format!("m{n}")), None).await.unwrap().id);
        append(&filled, ids[n], n).await;
    }
    filled.delete(account, &name("m8")).await.unwrap();
    let held = fresh.context().large_permits.acquire_all();
    let mut counting = Box::pin(fresh.counts(account, &ids));
    assert!(counting.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    // Few are read here.
    assert_eq!(fresh.counts(account, &ids[..2]).await.unwrap().len(), 2);
    drop(held);
    for counts in [counting.await.unwrap(), filled.counts(account, &ids).await.unwrap()] {
        let messages: Vec<_> = counts.iter().map(|counts| counts.map(|counts| counts.messages)).collect();
        assert_eq!(messages, [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7), None]);
    }
}

/// An engine whose next reading of heads waits for the test.
struct PausedHeads {
    inner: MemoryEngine,
    pause: Mutex<Option<oneshot::Receiver<()>>>,
}

#[async_trait::async_trait]
impl Layer for PausedHeads {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let pause = self.pause.lock().take();
        if let Some(pause) = pause {
            pause.await.unwrap();
        }
        self.inner.heads(mailboxes).await
    }
}

/// The target was counted before it had them, and the source when it had them no more. So a quota
/// admitted mail over its limit.
#[tokio::test]
async fn messages_that_move_while_mailboxes_are_counted_are_counted() {
    let engine = Arc::new(PausedHeads { inner: MemoryEngine::new(), pause: Mutex::default() });
    let node = || Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (filled, store, account) = (node(), node(), AccountId(new_id()));
    let from = filled.create(account, &name("from"), None).await.unwrap().id;
    let to = filled.create(account, &name("to"), None).await.unwrap().id;
    append(&filled, from, 3).await;
    let target = store.open(to).await.unwrap();
    let (go, pause) = oneshot::channel();
    *engine.pause.lock() = Some(pause);
    let both = [to, from];
    let mut counting = Box::pin(store.counts(account, &both));
    assert!(counting.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    let source = store.open(from).await.unwrap();
    let view = source.view();
    source.move_to(&view.uids_of_seqs(&view.all()), &target.destination()).await.unwrap();
    go.send(()).unwrap();
    let counts = counting.await.unwrap();
    assert_eq!(counts.into_iter().flatten().map(|counts| counts.messages).sum::<u32>(), 3);
}

/// Ten thousand names of 1,000 octets were made and looked up in one poll.
#[tokio::test]
async fn many_mailboxes_are_renamed_on_another_thread() {
    let (store, account) = store();
    for n in 0..20 {
        store.create(account, &name(&format!("a/{n}")), None).await.unwrap();
    }
    store.create(account, &name("b"), None).await.unwrap();
    let (from, to) = (name("a"), name("b"));
    let held = store.context().large_permits.acquire_all();
    let mut renaming = Box::pin(store.rename(account, &from, &to));
    assert!(renaming.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    drop(held);
    assert!(matches!(renaming.await, Err(StoreError::NameTaken)));
    store.rename(account, &from, &name("c")).await.unwrap();
    let names = names(&store, account).await;
    assert!(names.len() == 22 && names.contains(&"c/7".to_owned()), "{names:?}");
}

/// The names were made for a list that others have changed since.
#[tokio::test]
async fn mailboxes_that_come_meanwhile_are_renamed_with_the_others() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let node = || Store::new(Arc::clone(&engine), StoreOptions::default());
    let (store, other, account) = (node(), node(), AccountId(new_id()));
    for n in 0..20 {
        store.create(account, &name(&format!("a/{n}")), None).await.unwrap();
    }
    let (from, to) = (name("a"), name("b"));
    for round in ["first", "second"] {
        let held = store.context().large_permits.acquire_all();
        let mut renaming = Box::pin(store.rename(account, &from, &to));
        assert!(renaming.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        other.create(account, &name(&format!("a/{round}")), None).await.unwrap();
        drop(held);
        renaming.await.unwrap();
        let names = names(&store, account).await;
        assert!(names.contains(&format!("b/{round}")) && !names.contains(&format!("a/{round}")), "{names:?}");
        store.rename(account, &to, &from).await.unwrap();
    }
}

#[tokio::test]
async fn create_makes_the_levels_above() {
    let (store, account) = store();
    let made = store.create(account, &name("a/b/c"), Some(SpecialUse::Archive)).await.unwrap();
    assert_eq!(names(&store, account).await, ["a", "a/b", "a/b/c"]);
    assert_eq!(store.list(account).await.unwrap().find(&name("a/b/c")), Some(&made));
    assert!(matches!(store.create(account, &name("a/b"), None).await, Err(StoreError::NameTaken)));
    assert!(matches!(store.create(account, &name("inbox/x"), None).await, Ok(MailboxEntry { .. })));
    assert_eq!(names(&store, account).await, ["INBOX", "INBOX/x", "a", "a/b", "a/b/c"]);
    let validities: std::collections::BTreeSet<_> =
        store.list(account).await.unwrap().entries.iter().map(|e| e.uid_validity.value()).collect();
    assert_eq!(validities.len(), 5);
}

#[tokio::test]
async fn an_account_without_uidvalidities_left_refuses_new_mailboxes() {
    // A clock in the year 2106 or later gives the largest UIDVALIDITY at once.
    let clock_unix_ms = Arc::new(|| u64::from(u32::MAX) * 1000);
    let (store, account) = store_with(StoreOptions { clock_unix_ms, ..StoreOptions::default() });
    let last = store.create(account, &name("last"), None).await.unwrap();
    assert_eq!(last.uid_validity.value(), u32::MAX);
    let refused = |outcome| matches!(outcome, Err(StoreError::UidValiditiesExhausted));
    assert!(refused(store.create(account, &name("more"), None).await.map(drop)));
    store.delete(account, &name("last")).await.unwrap();
    assert!(refused(store.create(account, &name("last"), None).await.map(drop)));
    assert!(names(&store, account).await.is_empty());
}

#[tokio::test]
async fn a_name_never_has_the_same_uidvalidity_twice() {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = Arc::clone(&now);
    let clock_unix_ms = Arc::new(move || clock.load(Ordering::SeqCst));
    let (store, account) = store_with(StoreOptions { clock_unix_ms, ..StoreOptions::default() });
    store.create(account, &name("other"), None).await.unwrap();
    let mut last = 0;
    for ms in [1_000_000, 1_000_000, 500_000, 9_000_000, 1_000_000] {
        now.store(ms, Ordering::SeqCst);
        let entry = store.create(account, &name("again"), None).await.unwrap();
        assert!(entry.uid_validity.value() > last && u64::from(entry.uid_validity.value()) >= ms / 1000);
        last = entry.uid_validity.value();
        store.delete(account, &name("again")).await.unwrap();
    }
}

#[tokio::test]
async fn delete_keeps_what_is_below_and_notifies_sessions() {
    let (store, account) = store();
    let entry = store.create(account, &name("a"), None).await.unwrap();
    store.create(account, &name("a/b"), None).await.unwrap();
    store.subscribe(account, &name("a")).await.unwrap();
    let mailbox = append(&store, entry.id, 3).await;
    let mut watch = mailbox.watch();
    let seen = mailbox.view();
    store.delete(account, &name("a")).await.unwrap();
    assert_eq!(names(&store, account).await, ["a/b"]);
    // RFC 9051 §6.3.7: the subscription is the client's.
    assert!(store.list(account).await.unwrap().subscribed.contains(&name("a")));
    let is_deleted = |error: StoreError| matches!(error, StoreError::NoMailbox(id) if id == entry.id);
    assert!(is_deleted(watch.changed(&seen).await.unwrap_err()));
    assert!(is_deleted(mailbox.current().await.unwrap_err()));
    assert!(is_deleted(mailbox.expunge(None).await.unwrap_err()));
    assert!(is_deleted(store.open(entry.id).await.err().unwrap()));
    assert_eq!(mailbox.view().exists(), 3);
    assert_eq!(store.status(&[entry.id]).await.unwrap(), [None]);
    assert!(matches!(store.delete(account, &name("a")).await, Err(StoreError::Refused(_))));
    assert!(matches!(store.delete(account, &name("b")).await, Err(StoreError::NoSuchName)));
    assert!(matches!(store.delete(account, &name("inbox")).await, Err(StoreError::Refused(_))));
}

/// Another store renames mailboxes between the list that was read and the commit.
#[tokio::test]
async fn another_mailbox_that_got_the_name_meanwhile_is_not_deleted() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let other = Store::new(Arc::clone(&engine), StoreOptions::default());
    let (store, account) = (Store::new(engine, StoreOptions::default()), AccountId(new_id()));
    let one = store.create(account, &name("a"), None).await.unwrap().id;
    let two = store.create(account, &name("b"), None).await.unwrap().id;
    // Both have one epoch, so the first list is the cached one.
    other.rename(account, &name("a"), &name("c")).await.unwrap();
    other.rename(account, &name("b"), &name("a")).await.unwrap();
    let mut asked = Vec::new();
    let permit = |mailbox: MailboxId| {
        asked.push(mailbox);
        mailbox == one
    };
    let refused = store.delete_if(account, &name("a"), permit).await;
    assert!(matches!(refused, Err(StoreError::NoSuchName)), "{refused:?}");
    assert_eq!(asked, [one, two]);
    assert_eq!(names(&store, account).await, ["a", "c"]);
    store.delete_if(account, &name("c"), |mailbox| mailbox == one).await.unwrap();
    assert_eq!(names(&store, account).await, ["a"]);
}

#[tokio::test]
async fn a_mailbox_deleted_elsewhere_is_learnt_of() {
    let engine = MemoryEngine::new();
    let other = Store::new(Arc::new(engine.another_process()), StoreOptions::default());
    let (store, account) = (Store::new(Arc::new(engine), StoreOptions::default()), AccountId(new_id()));
    store.create(account, &name("other"), None).await.unwrap();
    let entry = store.create(account, &name("a"), None).await.unwrap();
    let mailbox = append(&store, entry.id, 1).await;
    let (mut watch, seen) = (mailbox.watch(), mailbox.view());
    other.delete(account, &name("a")).await.unwrap();
    store.check_watched().await.unwrap();
    assert!(matches!(watch.changed(&seen).await, Err(StoreError::NoMailbox(_))));
    assert_eq!(names(&store, account).await, ["other"]);
    let another = other.create(account, &name("b"), None).await.unwrap();
    let there = store.open(another.id).await.unwrap();
    other.delete(account, &name("b")).await.unwrap();
    assert!(matches!(there.current().await, Err(StoreError::NoMailbox(_))));
}

#[tokio::test]
async fn rename_takes_all_below_along() {
    let (store, account) = store();
    let entry = store.create(account, &name("a"), None).await.unwrap();
    for text in ["a/b", "a/b/c", "ab", "x/taken"] {
        store.create(account, &name(text), None).await.unwrap();
    }
    append(&store, entry.id, 2).await;
    store.rename(account, &name("a"), &name("n/m")).await.unwrap();
    assert_eq!(names(&store, account).await, ["ab", "n", "n/m", "n/m/b", "n/m/b/c", "x", "x/taken"]);
    let list = store.list(account).await.unwrap();
    assert_eq!(list.find(&name("n/m")).unwrap(), &MailboxEntry { name: name("n/m"), ..entry.clone() });
    assert_eq!(store.open(entry.id).await.unwrap().view().exists(), 2);
    let rename = |from: &str, to: &str| {
        let (store, from, to) = (store.clone(), name(from), name(to));
        async move { store.rename(account, &from, &to).await }
    };
    assert!(matches!(rename("n/m", "x/taken").await, Err(StoreError::NameTaken)));
    assert!(matches!(rename("ab", "inbox").await, Ok(())));
    assert!(matches!(rename("n", "n").await, Err(StoreError::NameTaken)));
    assert!(matches!(rename("n", "n/z").await, Err(StoreError::Refused(_))));
    assert!(matches!(rename("gone", "z").await, Err(StoreError::NoSuchName)));
    // Up the tree: the level it leaves is free again and its name was its own child's parent.
    rename("n/m/b", "q").await.unwrap();
    assert_eq!(names(&store, account).await, ["INBOX", "n", "n/m", "q", "q/c", "x", "x/taken"]);
    // A level that is no mailbox: only what is below it.
    store.delete(account, &name("x")).await.unwrap();
    for taken in ["x", "n", "inbox"] {
        assert!(matches!(rename("x", taken).await, Err(StoreError::NameTaken)), "{taken}");
    }
    assert!(matches!(rename("x", "x/y").await, Err(StoreError::Refused(_))));
    rename("x", "n/x").await.unwrap();
    assert_eq!(names(&store, account).await, ["INBOX", "n", "n/m", "n/x/taken", "q", "q/c"]);
    assert!(matches!(rename("x", "z").await, Err(StoreError::NoSuchName)));
}

// RFC 9051 §6.3.6: "Renaming INBOX is permitted and does not result in a tagged NO, and has
// special behavior".
#[tokio::test]
async fn renaming_inbox_moves_its_messages() {
    let (store, account) = store();
    let list = store.ensure_default_mailboxes(account, &[]).await.unwrap();
    store.create(account, &name("inbox/child"), None).await.unwrap();
    let inbox = append(&store, list.entries[0].id, 5).await;
    store.rename(account, &name("INBOX"), &name("old/mail")).await.unwrap();
    assert_eq!(names(&store, account).await, ["INBOX", "INBOX/child", "old", "old/mail"]);
    assert_eq!(inbox.view().exists(), 0);
    let list = store.list(account).await.unwrap();
    let moved = store.open(list.find(&name("old/mail")).unwrap().id).await.unwrap();
    assert_eq!(moved.view().exists(), 5);
    assert!(matches!(
        store.rename(account, &name("INBOX"), &name("old/mail")).await,
        Err(StoreError::NameTaken)
    ));
}

/// The new mailbox keeps to the owner's limit of messages in a folder, or to the store's.
#[tokio::test]
async fn renaming_inbox_keeps_to_the_limits_of_folders() {
    let (store, account) =
        store_with(StoreOptions { folder_messages_max: Some(2), ..StoreOptions::default() });
    let list = store.ensure_default_mailboxes(account, &[]).await.unwrap();
    store.destination(list.entries[0].id).note_owner_limit(Some(0));
    let inbox = append(&store, list.entries[0].id, 5).await;
    let rename = |own: Option<u32>| {
        let store = store.clone();
        async move {
            let permit = |_: &MailboxList, draft: &mut ListDraft| {
                draft.limit_messages(own);
                Ok(())
            };
            store.rename_if(account, &name("INBOX"), &name("old/mail"), permit).await
        }
    };
    for (own, limit) in [(None, 2), (Some(4), 4)] {
        let refused = rename(own).await;
        assert!(matches!(&refused, Err(StoreError::FolderFull { limit: l }) if *l == limit), "{refused:?}");
        assert_eq!(names(&store, account).await, ["INBOX"], "nothing was made");
    }
    assert_eq!(rename(Some(0)).await.unwrap().unwrap().copied.uids.count(), 5);
    assert_eq!((inbox.view().exists(), names(&store, account).await.len()), (0, 3));
    // The limit counts for what comes into the new mailbox, until another one is noted.
    append(&store, inbox.id(), 1).await;
    let list = store.list(account).await.unwrap();
    let moved = store.open(list.find(&name("old/mail")).unwrap().id).await.unwrap();
    moved.copy_from(&inbox, &NumSet::range(1, 9)).await.unwrap();
    assert_eq!(moved.view().exists(), 6);
}

#[tokio::test]
async fn defaults_are_made_once() {
    let (store, account) = store();
    let defaults = [(name("Sent"), SpecialUse::Sent), (name("Trash"), SpecialUse::Trash)];
    let list = store.ensure_default_mailboxes(account, &defaults).await.unwrap();
    assert_eq!(names(&store, account).await, ["INBOX", "Sent", "Trash"]);
    assert_eq!(list.find(&name("Sent")).unwrap().special_use, Some(SpecialUse::Sent));
    assert_eq!(list.subscribed.len(), 3);
    store.delete(account, &name("Trash")).await.unwrap();
    let again = store.ensure_default_mailboxes(account, &defaults).await.unwrap();
    assert_eq!(names(&store, account).await, ["INBOX", "Sent"]);
    let version = again.version;
    assert_eq!(store.ensure_default_mailboxes(account, &defaults).await.unwrap().version, version);
}

/// An engine of a cluster: without an epoch, each list is read from it. It counts these reads.
struct Lists {
    inner: MemoryEngine,
    reads: AtomicU64,
}

#[async_trait::async_trait]
impl Layer for Lists {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    fn epoch(&self) -> Epoch {
        None
    }
    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.load_list(account).await
    }
}

#[tokio::test]
async fn an_account_that_has_its_mailboxes_costs_one_read() {
    let engine = Arc::new(Lists { inner: MemoryEngine::new(), reads: AtomicU64::new(0) });
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let account = AccountId(new_id());
    store.ensure_default_mailboxes(account, &[]).await.unwrap();
    let before = engine.reads.load(Ordering::SeqCst);
    let list = store.ensure_default_mailboxes(account, &[]).await.unwrap();
    assert!(list.find(&MailboxName::inbox()).is_some());
    assert_eq!(engine.reads.load(Ordering::SeqCst) - before, 1);
}

#[tokio::test]
async fn subscriptions_need_no_mailbox() {
    let (store, account) = store();
    store.subscribe(account, &name("not/there")).await.unwrap();
    let version = store.list(account).await.unwrap().version;
    store.subscribe(account, &name("not/there")).await.unwrap();
    assert_eq!(store.list(account).await.unwrap().version, version);
    store.unsubscribe(account, &name("not/there")).await.unwrap();
    store.unsubscribe(account, &name("not/there")).await.unwrap();
    assert!(store.list(account).await.unwrap().subscribed.is_empty());
}

#[tokio::test]
async fn an_account_has_limits() {
    let (store, account) = store_with(StoreOptions { mailboxes_max: 3, ..StoreOptions::default() });
    store.create(account, &name("a/b"), None).await.unwrap();
    let over = store.create(account, &name("c/d"), None).await;
    assert!(matches!(over, Err(StoreError::TooLarge { limit: 3, .. })));
    store.create(account, &name("c"), None).await.unwrap();
    store.delete(account, &name("c")).await.unwrap();
}

/// RFC 9208 §5.3: eight at once, of which three have room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mailboxes_made_side_by_side_stay_within_the_limit_of_the_account() {
    let (store, account) = store();
    store.create(account, &name("a/b"), None).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = store.clone();
        tasks.spawn(erased(async move {
            store.create_within(account, &name(&format!("m{n}")), None, Some(5)).await
        }));
    }
    let outcomes = tasks.join_all().await;
    let refused =
        |made: &Result<MailboxEntry>| matches!(made, Err(StoreError::TooManyMailboxes { limit: 5 }));
    assert_eq!(outcomes.iter().filter(|made| made.is_ok()).count(), 3);
    assert_eq!(outcomes.iter().filter(|made| refused(made)).count(), 5);
    assert_eq!(names(&store, account).await.len(), 5);
    // A command that adds no mailbox passes the limit. Levels above a new mailbox count.
    let limit = |draft: &mut ListDraft, limit| draft.limit_mailboxes(Some(limit));
    let rename = |to: &'static str, most| {
        let store = store.clone();
        async move {
            let permit = |_: &MailboxList, draft: &mut ListDraft| {
                limit(draft, most);
                Ok(())
            };
            store.rename_if(account, &name("a/b"), &name(to), permit).await.map(drop)
        }
    };
    rename("a/c", 2).await.unwrap();
    store.rename(account, &name("a/c"), &name("a/b")).await.unwrap();
    assert!(matches!(rename("x/y/b", 6).await, Err(StoreError::TooManyMailboxes { limit: 6 })));
    rename("x/y/b", 7).await.unwrap();
}

/// Open or not, by new messages and by copies, one after the other and side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_takes_as_many_as_it_may_and_no_more() {
    let options = StoreOptions { folder_messages_max: Some(10), ..StoreOptions::default() };
    let (store, account) = store_with(options);
    let full = store.create(account, &name("full"), None).await.unwrap();
    let other = append(&store, store.create(account, &name("other"), None).await.unwrap().id, 4).await;
    let message = |n: u8| IncomingMessage {
        bytes: vec![n].into(),
        summary: Bytes::new(),
        body: store.new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: None,
    };
    // No session has it open.
    let closed = store.destination(full.id);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (closed, messages) = (closed.clone(), vec![message(n)]);
        tasks.spawn(erased(async move { closed.append(messages).await }));
    }
    let outcomes = tasks.join_all().await;
    let refused = |outcome: &StoreError| matches!(outcome, StoreError::FolderFull { limit: 10 });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 10);
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().err().is_none_or(refused)));
    let open = store.open(full.id).await.unwrap();
    assert!(open.append(vec![message(0)]).await.is_err_and(|error| refused(&error)));
    open.remove(&NumSet::range(1, 3)).await.unwrap();
    let four = NumSet::range(1, 4);
    assert!(open.copy_from(&other, &four).await.is_err_and(|error| refused(&error)));
    assert_eq!(open.view().exists(), 7, "all or none");
    open.copy_from(&other, &NumSet::range(1, 3)).await.unwrap();
    assert_eq!(open.view().exists(), 10);
    // A mailbox that is nobody's folder, such as the queue's.
    store.destination(full.id).without_limit().append(vec![message(0)]).await.unwrap();
    assert_eq!(open.view().exists(), 11);
}

#[tokio::test]
async fn an_owner_has_another_limit_of_messages_in_a_folder() {
    let options = StoreOptions { folder_messages_max: Some(2), ..StoreOptions::default() };
    let (store, account) = store_with(options);
    let folder = store.create(account, &name("folder"), None).await.unwrap();
    let target = store.destination(folder.id);
    let take = |limit: Option<u32>| {
        let (store, target) = (store.clone(), target.clone());
        async move {
            target.note_owner_limit(limit);
            let body = store.new_body_id();
            let (bytes, summary) = (vec![1].into(), Bytes::new());
            let message = IncomingMessage { bytes, summary, body, flags: Vec::new(), date: 1, saved: None };
            target.append(vec![message]).await
        }
    };
    take(None).await.unwrap();
    assert!(matches!(take(Some(1)).await, Err(StoreError::FolderFull { limit: 1 })));
    take(None).await.unwrap();
    assert!(matches!(take(None).await, Err(StoreError::FolderFull { limit: 2 })));
    take(Some(3)).await.unwrap();
    assert!(matches!(take(Some(3)).await, Err(StoreError::FolderFull { limit: 3 })));
    take(Some(0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_changes_at_once_all_take_effect() {
    let (store, account) = store();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = store.clone();
        tasks.spawn(erased(async move {
            let made = store.create(account, &name(&format!("shared/m{n}")), None).await;
            made.unwrap();
        }));
    }
    tasks.join_all().await;
    assert_eq!(names(&store, account).await.len(), 9);
}

#[tokio::test]
async fn unused_entries_are_evicted_and_held_ones_stay() {
    // Room for one view of 1,000 messages, and not for two.
    let (store, account) = store_with(StoreOptions { cache_bytes: 50_000, ..StoreOptions::default() });
    let mut ids = Vec::new();
    for n in 0..4 {
        let entry = store.create(account, &name(&format!("m{n}")), None).await.unwrap();
        append(&store, entry.id, 1000).await;
        ids.push(entry.id);
    }
    let held = store.open(ids[0]).await.unwrap();
    for id in ids.iter().chain(&ids).chain(&ids) {
        store.open(*id).await.unwrap();
    }
    assert!(store.shared.mailboxes.lock().values().count() <= 3);
    assert!(store.open(ids[0]).await.unwrap().shares_state_with(&held));
    assert_eq!(held.view().exists(), 1000);
    let heads = store.status(&ids).await.unwrap();
    assert!(heads.iter().all(|head| head.as_ref().unwrap().counts.messages == 1000));
}

#[tokio::test]
async fn all_sessions_share_one_state() {
    let (store, account) = store();
    let entry = store.create(account, &name("a"), None).await.unwrap();
    let (a, b) = tokio::join!(store.open(entry.id), store.open(entry.id));
    assert!(a.unwrap().shares_state_with(&b.unwrap()));
    let nowhere = MailboxId(new_id());
    assert!(matches!(store.open(nowhere).await, Err(StoreError::NoMailbox(id)) if id == nowhere));
    assert_eq!(store.shared.mailboxes.lock().values().count(), 1);
}

#[tokio::test]
async fn status_asks_the_engine_only_for_what_is_not_open() {
    let engine = MemoryEngine::new();
    let other = Store::new(Arc::new(engine.another_process()), StoreOptions::default());
    let (store, account) = (Store::new(Arc::new(engine), StoreOptions::default()), AccountId(new_id()));
    let (a, b) = (
        store.create(account, &name("a"), None).await.unwrap().id,
        store.create(account, &name("b"), None).await.unwrap().id,
    );
    let open = append(&store, a, 2).await;
    append(&other, a, 3).await;
    append(&other, b, 4).await;
    open.take_recent();
    let messages = |heads: Vec<Option<MailboxHead>>| -> Vec<Option<u32>> {
        heads.into_iter().map(|h| h.map(|h| h.counts.messages)).collect()
    };
    let nowhere = MailboxId(new_id());
    assert_eq!(messages(store.status(&[b, nowhere, a]).await.unwrap()), [Some(4), None, Some(5)]);
    assert_eq!(open.current().await.unwrap().exists(), 5);
    assert_eq!(open.take_recent(), NumSet::range(3, 5));
    assert_eq!(store.status(&[a]).await.unwrap()[0].as_ref().unwrap().first_recent.value(), 6);
}
