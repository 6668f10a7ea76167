//! Imports that are cut off at every single write, and run again: every message is there once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_directory::{Account, AccountChange, Directory, NewAccount, Policy};
use posthaste_mail_model::{AccountId, BodyId, MailboxId, MailboxName, ModSeq, NumSet, Secret};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, DirectoryChange, DirectoryEntry, Engine, ListCommit, MailboxCommit,
    MailboxHead, MailboxList, MemoryEngine, Result, Row, Store, StoreError, StoreOptions, Unreadable, Visit,
};
use tokio::sync::Barrier;

use super::{Alone, ImportError, ImportOptions, ImportReport, Repeat};
use crate::tests::{content, open};
use crate::{Delivery, DeliveryOptions};

/// Where a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Before the write reaches the store.
    Before(u64),
    /// After it, and before its answer.
    After(u64),
    Never,
}

/// A process of a store in memory that is killed at one of its writes: from then on nothing works.
struct Killed {
    memory: MemoryEngine,
    cut: Cut,
    writes: AtomicU64,
}

fn dead<T>() -> Result<T> {
    Err(StoreError::Unavailable("the process was killed".into()))
}

impl Killed {
    fn new(memory: &MemoryEngine, cut: Cut) -> Arc<Self> {
        Arc::new(Self { memory: memory.another_process(), cut, writes: AtomicU64::new(0) })
    }

    fn alive(&self) -> Result<()> {
        match self.cut {
            Cut::Before(n) | Cut::After(n) if self.writes.load(Ordering::SeqCst) >= n => dead(),
            _ => Ok(()),
        }
    }

    /// A write that comes from here; whether it reaches the store, and whether its answer comes
    /// back.
    fn write(&self) -> Result<bool> {
        self.alive()?;
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        match self.cut {
            Cut::Before(n) if n == number => dead(),
            Cut::After(n) if n == number => Ok(false),
            _ => Ok(true),
        }
    }
}

#[async_trait]
impl Layer for Killed {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.memory
    }
    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        self.alive()?;
        self.memory.directory_entry(name).await
    }
    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.alive()?;
        self.memory.directory_scan_within(prefix, after, limit, octets).await
    }
    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let answered = self.write()?;
        let outcome = self.memory.directory_commit(change).await;
        if answered { outcome } else { dead() }
    }
    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        self.alive()?;
        self.memory.load_list(account).await
    }
    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        let answered = self.write()?;
        let outcome = self.memory.commit_list(commit).await;
        if answered { outcome } else { dead() }
    }
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        self.alive()?;
        self.memory.heads(mailboxes).await
    }
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.alive()?;
        self.memory.load(mailbox, rows).await
    }
    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.alive()?;
        self.memory.changes_since(mailbox, since).await
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        let answered = self.write()?;
        let outcome = self.memory.commit(commit).await;
        if answered { outcome } else { dead() }
    }
    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.alive()?;
        self.memory.summaries(mailbox, uids, visit).await
    }
    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.alive()?;
        self.memory.read_body(body, range).await
    }
}

/// A process that works on the store.
fn process(engine: Arc<dyn Engine>) -> Delivery {
    let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
    Delivery::new(
        Store::new(engine, StoreOptions::default()),
        Arc::new(directory),
        DeliveryOptions::default(),
    )
}

fn survivor(memory: &MemoryEngine) -> Delivery {
    process(Killed::new(memory, Cut::Never))
}

async fn store() -> (MemoryEngine, Account) {
    let memory = MemoryEngine::new();
    let password = Secret::new("pencil".to_owned());
    let added = survivor(&memory).directory().add("ana@example.org", &password, NewAccount::default()).await;
    (memory, added.unwrap())
}

const LOCKED: ImportOptions = ImportOptions { mailbox: None, repeat: Repeat::Skip, alone: Alone::Locked };

async fn run(delivery: &Delivery, account: &Account, path: &Path) -> Result<ImportReport, ImportError> {
    delivery.import(account, path, &LOCKED, &mut |_| {}).await
}

/// An mbox of messages by their subjects.
fn mbox(path: &Path, subjects: impl IntoIterator<Item = String>) {
    let one = |subject| format!("From x@y Tue Nov 14 22:13:20 2023\nSubject: {subject}\n\nbody\n\n");
    std::fs::write(path, subjects.into_iter().map(one).collect::<String>()).unwrap();
}

/// How often each message is in a mailbox, by its text.
async fn multiset(delivery: &Delivery, account: &Account, name: &str) -> BTreeMap<String, usize> {
    let list = delivery.store().list(account.id).await.unwrap();
    let mut found = BTreeMap::new();
    if list.find(&MailboxName::new(name).unwrap()).is_some() {
        for (_, _, text) in content(delivery, account, name).await {
            *found.entry(text).or_insert(0) += 1;
        }
    }
    found
}

/// 1,100 messages. 50 of them are there twice, and one three times.
fn subjects() -> impl Iterator<Item = String> {
    let twice = (0..50).map(|n| format!("{}", n * 20));
    (0..1050).map(|n| n.to_string()).chain(twice).chain(["7".into(), "7".into()])
}

#[tokio::test]
async fn an_import_cut_off_at_any_write_and_run_again_is_whole_and_single() {
    let dir = tempfile::tempdir().unwrap();
    mbox(&dir.path().join("a.mbox"), subjects());
    mbox(&dir.path().join("b.mbox"), (0..3).map(|n| n.to_string()));
    let (memory, ana) = store().await;
    let whole = survivor(&memory);
    let report = run(&whole, &ana, dir.path()).await.unwrap();
    assert_eq!((report.messages, report.present), (1105, 0));
    let names = ["a", "b"];
    let wanted = [multiset(&whole, &ana, "a").await, multiset(&whole, &ana, "b").await];
    assert_eq!(wanted[0].values().sum::<usize>(), 1102);

    let mut cuts = 0;
    for number in 1.. {
        let mut reached = false;
        for cut in [Cut::Before(number), Cut::After(number)] {
            let (memory, ana) = store().await;
            let outcome = run(&process(Killed::new(&memory, cut)), &ana, dir.path()).await;
            reached |= outcome.is_err();
            let again = survivor(&memory);
            let before: usize = multiset(&again, &ana, "a").await.values().sum::<usize>()
                + multiset(&again, &ana, "b").await.values().sum::<usize>();
            let report = run(&again, &ana, dir.path()).await.unwrap();
            assert_eq!(report.present, before as u64, "{cut:?}");
            assert_eq!(report.messages + report.present, 1105, "{cut:?}");
            for (name, wanted) in names.iter().zip(&wanted) {
                assert!(
                    multiset(&again, &ana, name).await == *wanted,
                    "{cut:?}: {name} is not what it should be"
                );
            }
            let report = run(&again, &ana, dir.path()).await.unwrap();
            assert_eq!((report.messages, report.present), (0, 1105), "{cut:?}");
            cuts += 1;
        }
        if !reached {
            break;
        }
    }
    // Lists, two journals, four batches, each noted before and counted after.
    assert!(cuts > 2 * 12, "only {cuts} cuts");
}

#[tokio::test]
async fn an_import_cut_off_again_and_again_comes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    mbox(&file, subjects());
    let (memory, ana) = store().await;
    // Every run gets one write further than the last one, and does not live to see its answer.
    let mut runs = 0;
    loop {
        runs += 1;
        assert!(runs < 50, "it never ends");
        let process = process(Killed::new(&memory, Cut::After(2 + runs % 3)));
        if run(&process, &ana, &file).await.is_ok() {
            break;
        }
    }
    assert!(runs > 4);
    let found = multiset(&survivor(&memory), &ana, "INBOX").await;
    assert_eq!((found.len(), found.values().sum::<usize>()), (1050, 1102));
}

#[tokio::test]
async fn messages_that_their_owner_moved_or_expunged_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    mbox(&file, (0..1200).map(|n| n.to_string()));
    // Cut off right after the second batch of 500 was appended (writes: list, journal, then note
    // and batch twice).
    for number in 1.. {
        let (memory, ana) = store().await;
        let killed = process(Killed::new(&memory, Cut::After(number)));
        assert!(run(&killed, &ana, &file).await.is_err(), "no cut after the second batch");
        let delivery = survivor(&memory);
        if multiset(&delivery, &ana, "INBOX").await.len() < 1000 {
            continue;
        }
        let (inbox, archive) = (open(&delivery, &ana, "INBOX").await, open(&delivery, &ana, "Archive").await);
        // All of the batch in doubt moves, and later messages come after it.
        inbox.remove(&NumSet::range(1, 100)).await.unwrap();
        inbox.move_to(&NumSet::range(501, 1000), &delivery.store().destination(archive.id())).await.unwrap();
        let incoming =
            delivery.incoming(Bytes::from_static(b"Subject: 3\r\n\r\nnew\r\n"), vec![], None).await;
        delivery
            .append(&ana, &delivery.store().destination(inbox.id()), vec![incoming.unwrap()])
            .await
            .unwrap();
        let report = run(&survivor(&memory), &ana, &file).await.unwrap();
        assert_eq!((report.messages, report.present), (200, 1000));
        let inbox = multiset(&survivor(&memory), &ana, "INBOX").await;
        assert_eq!((inbox.len(), inbox.values().sum::<usize>()), (400 + 1 + 200, 601));
        let archive = multiset(&survivor(&memory), &ana, "Archive").await;
        assert_eq!((archive.len(), archive.values().sum::<usize>()), (500, 500));
        return;
    }
}

#[tokio::test]
async fn a_source_that_grew_brings_what_is_new_and_repeating_is_a_choice() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    let (memory, ana) = store().await;
    let delivery = survivor(&memory);
    mbox(&file, ["1", "2", "2"].map(String::from));
    assert_eq!(run(&delivery, &ana, &file).await.unwrap().messages, 3);
    // The same messages in another order and another file, one more of them, and one that is new.
    let file = dir.path().join("b.mbox");
    mbox(&file, ["2", "3", "1", "2", "2"].map(String::from));
    let report = run(&delivery, &ana, &file).await.unwrap();
    assert_eq!((report.messages, report.present), (2, 3));
    // Two sources of one run count together.
    let mut importer = delivery.importer(&ana, &LOCKED).await.unwrap();
    let (first, second) = (
        importer.import(&file, &mut |_| {}).await.unwrap(),
        importer.import(&file, &mut |_| {}).await.unwrap(),
    );
    assert_eq!((first.messages, first.present, second.messages, second.present), (0, 5, 5, 0));
    let again = ImportOptions { repeat: Repeat::Import, ..LOCKED };
    let report = delivery.import(&ana, &file, &again, &mut |_| {}).await.unwrap();
    assert_eq!((report.messages, report.present), (5, 0));
    let found = multiset(&delivery, &ana, "INBOX").await;
    assert_eq!(found.values().sum::<usize>(), 15);
    // Repeated messages are recorded, too.
    let report = run(&delivery, &ana, &file).await.unwrap();
    assert_eq!((report.messages, report.present), (0, 5));
    // Another mailbox knows nothing of it, and neither does a mailbox of the same name after this
    // one was deleted.
    let name = MailboxName::new("New").unwrap();
    for _ in 0..2 {
        let options = ImportOptions { mailbox: Some(name.clone()), ..LOCKED };
        let report = delivery.import(&ana, &file, &options, &mut |_| {}).await.unwrap();
        assert_eq!((report.messages, report.present), (5, 0));
        delivery.store().delete(ana.id, &name).await.unwrap();
    }
    // The journals of deleted mailboxes are removed, and in the end all journals.
    run(&delivery, &ana, &file).await.unwrap();
    let records = |prefix: &'static str| {
        let memory = memory.another_process();
        async move { memory.directory_scan(prefix, None, 100).await.unwrap().len() }
    };
    assert_eq!(records("import/").await, 1);
    assert!(records("imported/").await > 0);
    delivery.forget_imports(&ana).await.unwrap();
    assert_eq!((records("import/").await, records("imported/").await), (0, 0));
}

/// A process that waits with its first change of the directory until another one has come as far.
struct Together {
    memory: MemoryEngine,
    first: AtomicBool,
    both: Arc<Barrier>,
}

impl Together {
    fn new(memory: &MemoryEngine, both: &Arc<Barrier>) -> Arc<Self> {
        let first = AtomicBool::new(true);
        Arc::new(Self { memory: memory.another_process(), first, both: Arc::clone(both) })
    }
}

#[async_trait]
impl Layer for Together {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.memory
    }
    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        if self.first.swap(false, Ordering::SeqCst) {
            self.both.wait().await;
        }
        self.memory.directory_commit(change).await
    }
}

#[tokio::test]
async fn two_imports_into_one_mailbox_do_not_both_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    mbox(&file, (0..600).map(|n| n.to_string()));
    let (memory, ana) = store().await;
    // Both have read that there is no journal before either makes one.
    let both = Arc::new(Barrier::new(2));
    let (one, other) = (process(Together::new(&memory, &both)), process(Together::new(&memory, &both)));
    let (one, other) = tokio::join!(run(&one, &ana, &file), run(&other, &ana, &file));
    let outcomes = [one, other];
    let refused = |outcome: &Result<_, _>| matches!(outcome, Err(ImportError::Another { .. }));
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| refused(outcome)).count(), 1, "{outcomes:?}");
    let found = multiset(&survivor(&memory), &ana, "INBOX").await;
    assert_eq!((found.len(), found.values().sum::<usize>()), (600, 600));
}

#[tokio::test]
async fn without_a_lock_a_journal_in_doubt_is_watched_first() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.mbox");
    mbox(&file, (0..600).map(|n| n.to_string()));
    let pause = Duration::from_millis(20);
    let watched = ImportOptions { alone: Alone::Watched(pause), ..LOCKED };
    for number in 1.. {
        let (memory, ana) = store().await;
        let killed = process(Killed::new(&memory, Cut::After(number)));
        if run(&killed, &ana, &file).await.is_ok() {
            break;
        }
        let delivery = survivor(&memory);
        let some = multiset(&delivery, &ana, "INBOX").await.values().sum::<usize>();
        let began = Instant::now();
        let report = delivery.import(&ana, &file, &watched, &mut |_| {}).await.unwrap();
        assert_eq!((report.present, report.messages), (some as u64, 600 - some as u64));
        if some > 0 && some < 600 {
            assert!(began.elapsed() >= pause);
        }
    }
}

/// RFC 9208 §5.3. Imported messages stay, and the import continues once there is room.
#[tokio::test]
async fn an_import_makes_no_more_mailboxes_than_the_account_may_have() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        mbox(&dir.path().join(format!("{name}.mbox")), [name.to_owned()]);
    }
    let (memory, ana) = store().await;
    let delivery = survivor(&memory);
    let there = delivery.mailboxes(&ana).await.unwrap().entries.len() as u64;
    let set = async |limit| {
        let quota = AccountChange { quota_mailboxes: Some(Some(limit)), ..AccountChange::default() };
        delivery.directory().set(&ana.name, quota).await.unwrap()
    };
    let account = set(there + 1).await;
    let text = run(&delivery, &account, dir.path()).await.unwrap_err().to_string();
    assert!(text.contains(&format!("may have {} mailboxes at most: delete some", there + 1)), "{text}");
    let list = delivery.mailboxes(&ana).await.unwrap();
    assert_eq!(list.entries.len() as u64, there + 1);
    assert!(!list.subscribed.contains(&MailboxName::new("b").unwrap()), "it does not exist");
    let account = set(there + 2).await;
    let report = run(&delivery, &account, dir.path()).await.unwrap();
    assert_eq!((report.messages, report.present), (1, 1));
    for name in ["a", "b"] {
        assert_eq!(multiset(&delivery, &ana, name).await.values().sum::<usize>(), 1, "{name}");
    }
}
