//! Outcomes that cannot be written or reported at once: no message is sent twice because of them,
//! and no other mail waits.
//!
//! The clock of the runtime moves to the next deadline when nothing can be done: no test waits.

use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Result, StoreError};

use super::*;

/// An engine whose directory can fail.
struct Failing {
    inner: MemoryEngine,
    /// Records whose reading says that they are damaged.
    damaged: Mutex<Option<String>>,
    /// Whether writing fails.
    fails: AtomicBool,
    /// Writes until one that fails alone.
    until_one_fails: AtomicI64,
}

#[async_trait]
impl Layer for Failing {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        if self.damaged.lock().as_deref() == Some(name) {
            return Err(StoreError::Corrupt(name.to_owned()));
        }
        self.inner.directory_entry(name).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let fails = self.until_one_fails.fetch_sub(1, Ordering::SeqCst) == 1;
        match fails || self.fails.load(Ordering::SeqCst) {
            true => Err(StoreError::Full("a test".into())),
            false => self.inner.directory_commit(change).await,
        }
    }
}

async fn world() -> (Arc<Failing>, World) {
    let failing = Failing {
        inner: MemoryEngine::new(),
        damaged: Mutex::default(),
        fails: AtomicBool::new(false),
        until_one_fails: AtomicI64::new(0),
    };
    let engine = Arc::new(failing);
    let world = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
    let directory = world.relay.delivery().directory();
    directory.add("ana@example.org", &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
    (engine, world)
}

/// The account of the sender cannot be read when the report is made.
#[tokio::test(start_paused = true)]
async fn a_report_that_cannot_be_made_sends_nothing_again() {
    for (notify, outcome, action) in
        [("SUCCESS", Ok(()), "relayed"), ("FAILURE", Err(no_such_user()), "failed")]
    {
        let (engine, mut world) = world().await;
        let to = vec![To { notify: Notify::parse(notify), ..To::new("a@x.test") }];
        let envelope = Envelope { to, ..Envelope::new("ana@example.org", &[]) };
        world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
        world.accept("", &["b@x.test"]).await;
        world.script("x.test", [Script::Answers(vec![outcome])]);
        *engine.damaged.lock() = Some("account/ana@example.org".into());
        let seen = world.run_at(START, 3).await;
        assert_eq!(seen, [tried("x.test"), got("x.test", &["a@x.test"]), got("x.test", &["b@x.test"])]);
        let [item] = world.items().await.try_into().unwrap();
        assert!(item.is_done() && item.is_unreported() && item.next == START + 300, "{item:?}");
        assert!(item.reason.contains("a report to its sender has to wait"), "{}", item.reason);
        *engine.damaged.lock() = None;
        assert_eq!(world.run_at(START + 300, 1).await, [tried("x.test")]);
        assert!(world.items().await.is_empty());
        let inbox = world.inbox().await;
        assert!(inbox.len() == 1 && inbox[0].contains(&format!("Action: {action}\r\n")), "{inbox:?}");
    }
}

/// Only reports are left: they need no host, and do not wait for one.
#[tokio::test(start_paused = true)]
async fn a_report_does_not_wait_for_the_host_that_refused() {
    let (engine, mut world) = world().await;
    world.accept("ana@example.org", &["no@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())]), Script::Unreachable(busy())]);
    *engine.damaged.lock() = Some("account/ana@example.org".into());
    world.run_at(START, 2).await;
    *engine.damaged.lock() = None;
    assert_eq!(world.run_at(START + 300, 1).await, [tried("x.test")]);
    assert!(world.items().await.is_empty() && world.inbox().await.len() == 1);
}

/// The host has the message, and the store cannot take that down: the disk is full.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_written_sends_nothing_again() {
    let (engine, mut world) = world().await;
    world.accept("ana@example.org", &["a@x.test", "busy@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![Ok(()), Err(busy())])]);
    let fails = Arc::clone(&engine);
    *world.hosts.meanwhile.lock() = Some(Box::pin(async move {
        fails.fails.store(true, Ordering::SeqCst);
    }));
    world.start();
    let both = ["a@x.test", "busy@x.test"];
    for event in [tried("x.test"), got("x.test", &both)] {
        assert_eq!(world.events.recv().await, Some(event));
    }
    // Each attempt to write it fails, as long as the disk is full.
    for minute in 1..5 {
        tokio::time::sleep(Duration::from_secs(120)).await;
        world.now.store(START + 60 * minute, Ordering::SeqCst);
    }
    assert!(world.items().await[0].waiting().count() == 2);
    engine.fails.store(false, Ordering::SeqCst);
    world.now.store(START + HOUR, Ordering::SeqCst);
    loop {
        match world.events.recv().await.unwrap() {
            Event::Tried(_) => {}
            Event::Got(_, to, _) => break assert_eq!(to, ["busy@x.test"]),
        }
    }
    world.stop().await;
    assert!(world.items().await.is_empty() && world.inbox().await.is_empty());
}

#[tokio::test]
async fn a_message_that_cannot_be_read_keeps_no_other_waiting() {
    let engine = Arc::new(MemoryEngine::new());
    let mut world = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
    let directory = world.relay.delivery().directory();
    directory.add("ana@example.org", &Secret::new("pencil".into()), NewAccount::default()).await.unwrap();
    let damaged = world.accept("ana@example.org", &["a@x.test"]).await[0].body;
    world.accept("ana@example.org", &["b@x.test"]).await;
    engine.lose_body(damaged);
    assert_eq!(world.run_at(START, 2).await, [tried("x.test"), got("x.test", &["b@x.test"])]);
    let [item] = world.items().await.try_into().unwrap();
    assert_eq!((item.attempts, item.reason.as_str()), (1, "the message cannot be read"));
    // Its sender learns that it is late, and that it was given up.
    for (at, action) in [(5 * HOUR, "delayed"), (5 * DAY, "failed")] {
        assert_eq!(world.run_at(START + at, 1).await, [tried("x.test")]);
        assert!(world.inbox().await.last().unwrap().contains(&format!("Action: {action}\r\n")));
    }
    assert!(world.items().await.is_empty());
}

/// A host that can be reached and refuses a recipient for now, time and again.
#[tokio::test]
async fn a_message_that_is_refused_for_now_is_reported_as_late_once() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test", "b@x.test"]).await;
    for (at, answers, reports) in [
        (0, vec![Ok(()), Err(busy())], 0),
        (5 * HOUR, vec![Err(busy())], 1),
        (10 * HOUR, vec![Err(busy())], 1),
        (20 * HOUR, vec![Ok(())], 1),
    ] {
        world.script("x.test", [Script::Answers(answers)]);
        world.run_at(START + at, 2).await;
        assert_eq!(world.inbox().await.len(), reports, "after {at} s");
    }
    let inbox = world.inbox().await;
    assert!(inbox[0].contains("Final-Recipient: rfc822; b@x.test\r\nAction: delayed\r\n"), "{inbox:?}");
    assert!(!inbox[0].contains("a@x.test") && world.items().await.is_empty());
}

/// Two kinds of reports about one message are two messages.
#[tokio::test]
async fn reports_of_two_kinds_have_names_of_their_own() {
    let mut world = World::new().await;
    let to = |address: &str, notify: &str| To { notify: Notify::parse(notify), ..To::new(address) };
    let to = vec![to("a@x.test", "SUCCESS"), to("no@x.test", "FAILURE")];
    let envelope = Envelope { to, ..Envelope::new("ana@example.org", &[]) };
    world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
    world.script("x.test", [Script::Answers(vec![Ok(()), Err(no_such_user())])]);
    world.run_at(START, 2).await;
    let inbox = world.inbox().await;
    let name = |text: &String| text.lines().find(|line| line.starts_with("Message-ID: ")).unwrap().to_owned();
    assert!(inbox.len() == 2 && name(&inbox[0]) != name(&inbox[1]), "{inbox:?}");
}

/// With two connections, an item that is held and released while it is being sent.
#[tokio::test]
async fn an_item_held_and_released_while_it_is_sent_is_sent_once() {
    let mut world = World::new().await;
    world.connections = Connections { each: 2, ..Connections::default() };
    let id = world.accept("ana@example.org", &["a@x.test"]).await[0].id;
    let queue = world.relay.queue().clone();
    let (release, released) = oneshot::channel::<()>();
    *world.hosts.meanwhile.lock() = Some(Box::pin(async move {
        let _ = released.await;
    }));
    world.start();
    assert_eq!(world.events.recv().await, Some(tried("x.test")));
    let runner = Arc::clone(world.runner.as_ref().unwrap());
    let held = || runner.figures().states[3].1 > 0;
    tokio::time::pause();
    for is_held in [true, false] {
        queue.administer(id, |item| (item.held, item.next) = (is_held, Item::AT_ONCE)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!held(), "the visit has it");
    }
    release.send(()).unwrap();
    assert_eq!(world.events.recv().await, Some(got("x.test", &["a@x.test"])));
    world.stop().await;
    assert!(world.events.try_recv().is_err() && world.items().await.is_empty());
}

/// The client is refused and sends the message again, to all its recipients.
#[tokio::test]
async fn a_message_that_cannot_be_added_whole_leaves_nothing() {
    let (engine, mut world) = world().await;
    for failing in 1..=3 {
        engine.until_one_fails.store(failing, Ordering::SeqCst);
        let envelope = Envelope::new("ana@example.org", &["a@x.test", "b@y.test", "c@z.test"]);
        let refused = world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await;
        assert!(matches!(refused, Err(Refusal::Queue(_))), "{refused:?}");
        assert!(world.items().await.is_empty());
        // Nor does it count.
        let mailbox = world.relay.queue().open_mailbox().await.unwrap();
        let rows = mailbox.current().await.unwrap().all().count();
        assert_eq!(rows, 0, "the write {failing} failed");
    }
    assert_eq!(world.run_at(START, 0).await, []);
}
