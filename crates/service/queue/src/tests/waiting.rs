//! Waiting items cost nothing: the test counts calls of the engine over several hours.
//!
//! The clock of the runtime moves to the next deadline when nothing can be done, and the queue's
//! clock with it: no test waits.

use posthaste_store::{CommitOutcome, DirectoryChange};
use posthaste_testkit::FaultyDirectory;

use super::*;

/// A host that is never there.
struct Dead;

#[async_trait]
impl Transport for Dead {
    async fn connect(&self, _: &Destination) -> std::result::Result<Box<dyn Channel>, Unreachable> {
        Err(Unreachable(Failure::temporary("4.4.1", "no answer")))
    }
}

/// Counts the calls of the engine while this many messages wait for a dead destination. A span is
/// from its first to its last hour.
async fn calls(items: u32, spans: &[(u64, u64)]) -> Vec<u64> {
    let memory = Arc::new(MemoryEngine::new());
    let engine = Arc::new(FaultyDirectory::new(Arc::clone(&memory) as Arc<dyn Engine>));
    let world = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
    // Without a sender nobody gets reports.
    let first = world.accept("", &["bo@dead.test"]).await.remove(0);
    let record = memory.directory_entry(&crate::item::name(first.id)).await.unwrap().unwrap();
    for id in 1..items {
        let name = crate::item::name(first.id + id);
        let change = DirectoryChange { name, expected: 0, value: Some(record.value.clone()) };
        assert_eq!(memory.directory_commit(change).await.unwrap(), CommitOutcome::Done);
    }
    let begin = tokio::time::Instant::now();
    let clock: Clock = Arc::new(move || START + i64::try_from(begin.elapsed().as_secs()).unwrap());
    let runner = Runner::new(
        world.relay.clone(),
        Arc::new(Dead),
        clock,
        RunnerOptions {
            times: RetryTimes::default(),
            lease_times: None,
            bodies_bytes: BODIES_BYTES,
            connections: Connections::default(),
        },
    );
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(runner.run(async move {
        let _ = stopped.await;
    }));
    let mut counts = Vec::new();
    let hours = |hours: u64| begin + std::time::Duration::from_secs(hours * 3_600 + 1);
    for (from, to) in spans {
        tokio::time::sleep_until(hours(*from)).await;
        let before = engine.calls();
        tokio::time::sleep_until(hours(*to)).await;
        counts.push(engine.calls() - before);
    }
    let _ = stop.send(());
    task.await.unwrap();
    counts
}

/// Before senders get a report that their messages are late, and after.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_messages_cost_what_one_costs() {
    let spans = [(0, 1), (1, 3), (14, 30)];
    let few = calls(1, &spans).await;
    assert_eq!(calls(100_000, &spans).await, few);
    // A look each two seconds, and some calls for each attempt to connect.
    assert!(few[1] <= 2 * 3_600 / 2 + 40, "{few:?}");
}

/// A decision of an administrator is on disk before the runner has seen it.
#[tokio::test(start_paused = true)]
async fn an_item_that_was_just_held_is_not_given_up_with_its_destination() {
    let takes_none = Failure::permanent("5.1.10", "the domain takes no mail");
    for (failure, at) in [(takes_none, HOUR), (busy(), 6 * DAY)] {
        let mut world = World::new().await;
        world.script("x.test", [Script::Unreachable(busy()), Script::Unreachable(failure)]);
        let id = world.accept("ana@example.org", &["a@x.test"]).await[0].id;
        let queue = world.relay.queue().clone();
        world.start();
        assert_eq!(world.events.recv().await, Some(tried("x.test")));
        while queue.wait_of("x.test").await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        let mut item = queue.item(id).await.unwrap().unwrap();
        item.held = true;
        queue.update(&mut item).await.unwrap();
        world.now.store(START + at, Ordering::SeqCst);
        assert_eq!(world.events.recv().await, Some(tried("x.test")));
        world.stop().await;
        let item = queue.item(id).await.unwrap().expect("it waits for the administrator");
        assert_eq!((item.held, item.waiting().count()), (true, 1));
        assert!(world.inbox().await.is_empty());
    }
}

/// With a second connection a host that says nothing on one of them keeps no mail waiting.
#[tokio::test]
async fn several_connections_send_to_one_domain() {
    let mut world = World::new().await;
    world.connections = Connections { each: 1, domains: [("y.test".to_owned(), 2)].into() };
    for _ in 0..3 {
        world.accept("ana@example.org", &["a@y.test"]).await;
    }
    world.script("y.test", [Script::Silent]);
    world.start();
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(world.events.recv().await.unwrap());
    }
    assert_eq!(seen.iter().filter(|event| matches!(event, Event::Got(..))).count(), 3);
    while !world.items().await.is_empty() {
        tokio::task::yield_now().await;
    }
    let figures = world.runner.as_ref().unwrap().figures();
    assert_eq!(figures.done.recipients, [3, 0, 0, 0]);
    assert_eq!(figures.done.connections, [("host", Attempts { made: 1, ..Attempts::default() })]);
    assert_eq!(figures.done.waits[0], (1.0, 3));
    world.running.take().unwrap().1.abort();
}

/// Waiting items are counted by reason and age.
#[tokio::test]
async fn waiting_octets_are_counted() {
    let mut world = World::new().await;
    let held = world.accept("ana@example.org", &["a@held.test"]).await[0].id;
    world.relay.queue().administer(held, |item| item.held = true).await.unwrap();
    world.script("away.test", [Script::Unreachable(busy())]);
    world.accept("ana@example.org", &["a@away.test", "a@busy.test"]).await;
    world.script("busy.test", [Script::Answers(vec![Err(busy())])]);
    assert_eq!(world.run_at(START + 2 * HOUR, 3).await.len(), 3);
    let figures = world.runner.as_ref().unwrap().figures();
    let states =
        [(ItemState::Waiting, 1), (ItemState::Sending, 0), (ItemState::Unreachable, 1), (ItemState::Held, 1)];
    assert_eq!(figures.states, states);
    let ages = [("5m", 0), ("1h", 0), ("4h", 3), ("1d", 0), ("5d", 0), ("older", 0)];
    assert_eq!(figures.ages, ages);
    assert_eq!(figures.done.recipients, [0, 1, 0, 0]);
    let attempts = Attempts { made: 1, failed: 1, refused: 0 };
    assert_eq!(figures.done.connections, [("host", attempts)]);
}

/// A host that has a message and does not answer takes no memory from others.
#[tokio::test]
async fn a_mute_host_keeps_no_message_of_others_waiting() {
    let mut world = World::new().await;
    world.bodies_bytes = 1024;
    world.accept("ana@example.org", &["a@mute.test"]).await;
    world.script("mute.test", [Script::Mute]);
    world.start();
    assert_eq!(world.events.recv().await.unwrap(), tried("mute.test"));
    assert_eq!(world.events.recv().await.unwrap(), got("mute.test", &["a@mute.test"]));
    world.accept("ana@example.org", &["b@y.test"]).await;
    assert_eq!(world.events.recv().await.unwrap(), tried("y.test"));
    assert_eq!(world.events.recv().await.unwrap(), got("y.test", &["b@y.test"]));
    world.running.take().unwrap().1.abort();
}

/// Nothing is left of a destination whose last message was given up: strangers name destinations.
#[tokio::test(start_paused = true)]
async fn a_destination_without_messages_is_forgotten() {
    let mut world = World::new().await;
    let wait_of = |world: &World| {
        let queue = world.relay.queue().clone();
        async move { queue.wait_of("dead.test").await.unwrap() }
    };
    world.relay.queue().note_unreachable("past.test", "no answer", START).await.unwrap();
    world.script("dead.test", vec![Script::Unreachable(busy()); 3]);
    world.accept("", &["a@dead.test"]).await;
    world.run_at(START, 1).await;
    assert!(wait_of(&world).await.is_some());
    world.now.store(START + 6 * DAY, Ordering::SeqCst);
    world.start();
    assert_eq!(world.events.recv().await, Some(tried("dead.test")));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.items().await.is_empty());
    assert_eq!(wait_of(&world).await, None);
    assert_eq!(world.relay.queue().wait_of("past.test").await.unwrap(), None);
    // It begins with the first wait.
    world.accept("", &["b@dead.test"]).await;
    assert_eq!(world.events.recv().await, Some(tried("dead.test")));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(wait_of(&world).await.unwrap().until, START + 6 * DAY + RetryTimes::default().first);
    world.stop().await;
}
