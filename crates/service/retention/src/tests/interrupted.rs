//! Work that ends early: the store fails, or the target is full.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Runs one rule on an INBOX; the messages moved or the error, in the order of the reports.
async fn reports(world: &World, rule: Rule) -> Vec<Result<u64, String>> {
    let mut reports = Vec::new();
    let mut report = |outcome: Result<Outcome, RetentionError>| {
        reports.push(outcome.map(|outcome| outcome.messages).map_err(|error| error.to_string()));
    };
    world.retention.run(&[rule], Mode::Apply, &mut report).await.unwrap();
    reports
}

/// More messages than one commit takes, and a store that fails in the second one.
#[tokio::test]
async fn what_was_moved_before_an_error_is_reported() {
    for action in [Action::Trash, Action::Archive, Action::Delete] {
        let failing = Arc::new(Failing { inner: Arc::default(), left: AtomicUsize::new(usize::MAX) });
        let world = world_on(Arc::clone(&failing) as Arc<dyn Engine>, None).await;
        let inbox = world.folder("INBOX", None).await;
        world.folder("Trash", Some(SpecialUse::Trash)).await;
        for _ in 0..1_203 {
            world.add(&inbox, 9, vec![]).await;
        }
        failing.left.store(1, Ordering::Relaxed);
        let found = reports(&world, older_than(1, rule("INBOX", action))).await;
        let [Ok(500), Err(error)] = &found[..] else { panic!("{action:?}: {found:?}") };
        assert!(error.starts_with("ana@example.org, INBOX: ") && error.contains("no disk"), "{error}");
        failing.left.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(of(&world.content().await, "INBOX").split(' ').count(), 703);
    }
}

/// The owner's limit is not the server's. The target takes what it has room for.
#[tokio::test]
async fn a_target_takes_as_many_as_its_owner_may_have_there() {
    for (server, own, moved) in
        [(None, 300, 300), (Some(2), 800, 800), (Some(2), 1_203, 1_203), (Some(2), 0, 1_203)]
    {
        let world = world_with(server).await;
        let max = AccountChange { folder_max: Some(Some(own)), ..AccountChange::default() };
        world.directory.set(&world.ana.name, max).await.unwrap();
        let inbox = world.folder("INBOX", None).await;
        inbox.destination().note_owner_limit(Some(0));
        for _ in 0..1_203 {
            world.add(&inbox, 9, vec![]).await;
        }
        let trash = older_than(1, rule("INBOX", Action::Trash));
        let found = reports(&world, trash.clone()).await;
        assert_eq!(found[0], Ok(moved), "{own}: {found:?}");
        assert_eq!(world.content().await["Trash"].len() as u64, moved);
        assert_eq!(world.content().await["INBOX"].len() as u64, 1_203 - moved);
        if moved == 1_203 {
            assert_eq!(found.len(), 1, "{found:?}");
            continue;
        }
        let is_full = |said: &Result<u64, String>| {
            let wanted = format!("ana@example.org, INBOX: Trash may hold {own} messages, so the rest stays");
            said.as_ref().is_err_and(|error| error.starts_with(&wanted))
        };
        assert!(found.len() == 2 && is_full(&found[1]), "{found:?}");
        // The next run moves nothing.
        let again = reports(&world, trash).await;
        assert!(again.len() == 1 && is_full(&again[0]), "{again:?}");
    }
}

/// Each month has a folder of its own.
#[tokio::test]
async fn a_month_that_is_full_stops_no_other() {
    let world = world_with(Some(2)).await;
    let inbox = world.folder("INBOX", None).await;
    inbox.destination().note_owner_limit(Some(0));
    for days in [400, 400, 400, 100] {
        world.add(&inbox, days, vec![]).await;
    }
    let found = reports(&world, older_than(90, rule("INBOX", Action::Archive))).await;
    let [Ok(2), Err(error), Ok(1)] = &found[..] else { panic!("{found:?}") };
    assert!(error.contains("Archive/2025-10 may hold 2 messages"), "{error}");
}

/// An engine that fails once this many changes of messages are made.
struct Failing {
    inner: Arc<MemoryEngine>,
    left: AtomicUsize,
}

impl Failing {
    fn goes_on(&self) -> Result<(), StoreError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| StoreError::Unavailable("no disk".to_owned()))
    }
}

#[async_trait]
impl Layer for Failing {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome, StoreError> {
        self.goes_on()?;
        self.inner.commit(commit).await
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome, StoreError> {
        self.goes_on()?;
        self.inner.commit_pair(pair).await
    }
}

/// Of each folder, a thousand messages do not count.
#[tokio::test]
async fn a_folder_that_sessions_cannot_open_is_worked_on() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let world = world_on(Arc::clone(&engine), None).await;
    let inbox = world.folder("INBOX", None).await;
    for _ in 0..1_001 {
        world.add(&inbox, 9, vec![]).await;
    }
    let clock_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync> = Arc::new(|| NOW * 1000);
    let options = StoreOptions { clock_unix_ms, open_views_bytes: 0, ..StoreOptions::default() };
    let store = Store::new(engine, options);
    assert!(matches!(store.open(inbox.id()).await, Err(StoreError::TooManyOpen)));
    let retention = Retention::new(store, Arc::clone(&world.directory));
    let (rules, mut removed) = ([older_than(1, rule("INBOX", Action::Delete))], 0);
    retention.run(&rules, Mode::Apply, &mut |outcome| removed += outcome.unwrap().messages).await.unwrap();
    assert_eq!(removed, 1_001);
}
