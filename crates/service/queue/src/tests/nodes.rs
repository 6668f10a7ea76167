//! Several nodes on one store: one of them sends, and what others accept is sent as well.
//!
//! The clock of the runtime stops while any task can run, and then moves to the next deadline: no
//! test waits.

use posthaste_testkit::FaultyDirectory;

use super::*;

/// Two nodes on one store.
async fn nodes() -> (World, World) {
    nodes_on(Arc::new(MemoryEngine::new())).await
}

async fn nodes_on(engine: Arc<dyn Engine>) -> (World, World) {
    let (mut one, mut two) = (World::of(Arc::clone(&engine)).await, World::of(engine).await);
    one.lease_times = Some(LeaseTimes::default());
    two.lease_times = Some(LeaseTimes::default());
    (one, two)
}

async fn next_two(world: &mut World) -> [Event; 2] {
    [world.events.recv().await.unwrap(), world.events.recv().await.unwrap()]
}

#[tokio::test(start_paused = true)]
async fn one_node_sends_what_all_accept() {
    let (mut one, mut two) = nodes().await;
    one.accept("a@x.test", &["before@y.test"]).await;
    one.start();
    assert_eq!(next_two(&mut one).await, [tried("y.test"), got("y.test", &["before@y.test"])]);
    two.start();
    two.accept("a@x.test", &["there@y.test"]).await;
    assert_eq!(next_two(&mut one).await, [tried("y.test"), got("y.test", &["there@y.test"])]);
    one.accept("a@x.test", &["here@y.test"]).await;
    assert_eq!(next_two(&mut one).await, [tried("y.test"), got("y.test", &["here@y.test"])]);
    // Long enough for every lease to be over if it were not renewed.
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    one.stop().await;
    two.accept("a@x.test", &["last@y.test"]).await;
    assert_eq!(next_two(&mut two).await, [tried("y.test"), got("y.test", &["last@y.test"])]);
    two.stop().await;
    assert!(one.events.try_recv().is_err() && two.events.try_recv().is_err());
    assert!(one.items().await.is_empty());
}

/// Nodes need no common time: what the clock of one says does not keep its mail waiting at another.
#[tokio::test(start_paused = true)]
async fn mail_of_a_node_whose_clock_is_ahead_does_not_wait() {
    let (mut one, two) = nodes().await;
    two.now.store(START + DAY, Ordering::SeqCst);
    for to in ["before@y.test", "there@y.test"] {
        two.accept("a@x.test", &[to]).await;
        if one.running.is_none() {
            one.start();
        }
        let sent = tokio::time::timeout(Duration::from_secs(600), next_two(&mut one)).await;
        assert_eq!(sent.expect("it is sent"), [tried("y.test"), got("y.test", &[to])]);
    }
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_from_one_that_died() {
    let (mut one, mut two) = nodes().await;
    one.start();
    one.accept("a@x.test", &["one@y.test"]).await;
    next_two(&mut one).await;
    two.start();
    one.running.take().unwrap().1.abort();
    one.accept("a@x.test", &["two@y.test"]).await;
    assert_eq!(next_two(&mut two).await, [tried("y.test"), got("y.test", &["two@y.test"])]);
    two.stop().await;
}

/// A node that loses the lease while it sends a message does not end it, and another one sends it.
#[tokio::test(start_paused = true)]
async fn a_message_under_way_ends_with_the_lease() {
    let (mut one, mut two) = nodes().await;
    let item = one.accept("", &["one@y.test"]).await.remove(0);
    let engine = Arc::clone(two.relay.delivery().store().engine());
    *one.hosts.meanwhile.lock() = Some(Box::pin(async move {
        // As another node does after a minute without a renewal that it could see.
        let entry = engine.directory_entry("queue-lease").await.unwrap().unwrap();
        let value = String::from_utf8(entry.value.to_vec()).unwrap();
        let number = value.find(r#""process":""#).unwrap() + r#""process":""#.len();
        let value = format!("{}x{}", &value[..number], &value[number..]);
        let change = posthaste_store::DirectoryChange {
            name: "queue-lease".into(),
            expected: entry.version,
            value: Some(value.into()),
        };
        engine.directory_commit(change).await.unwrap();
        tokio::time::sleep(LeaseTimes::default().held).await;
    }));
    one.start();
    assert_eq!(one.events.recv().await, Some(tried("y.test")));
    tokio::time::sleep(LeaseTimes::default().held * 2).await;
    let now = one.items().await.remove(0);
    assert_eq!((now.next, now.attempts, now.reason.as_str()), (item.next, 0, ""));
    assert_eq!(one.relay.queue().wait_of("y.test").await.unwrap(), None);
    one.running.take().unwrap().1.abort();
    two.start();
    assert_eq!(next_two(&mut two).await, [tried("y.test"), got("y.test", &["one@y.test"])]);
    two.stop().await;
    assert!(one.events.try_recv().is_err());
}

/// A node begins while another one has put a message into the store and not yet its envelope.
#[tokio::test(start_paused = true)]
async fn a_message_that_another_node_is_adding_stays() {
    let (mut one, two) = nodes().await;
    let store = two.relay.delivery().store();
    let mailbox = store.list(QUEUE_ACCOUNT).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
    let message =
        two.relay.delivery().incoming(Bytes::from_static(b"soon\r\n"), Vec::new(), None).await.unwrap();
    store.destination(mailbox).append(vec![message]).await.unwrap();
    one.start();
    one.accept("a@x.test", &["one@y.test"]).await;
    next_two(&mut one).await;
    one.stop().await;
    let left = store.open(mailbox).await.unwrap().current().await.unwrap();
    assert_eq!(left.exists(), 1);
    one.now.store(START + 2 * HOUR, Ordering::SeqCst);
    one.start();
    one.accept("a@x.test", &["two@y.test"]).await;
    next_two(&mut one).await;
    one.stop().await;
    let mailbox = one.relay.delivery().store().open(mailbox).await.unwrap();
    assert_eq!(mailbox.current().await.unwrap().exists(), 0);
}

/// A long queue in a slow store: the lease is renewed while it is read, at the start and later.
#[tokio::test(start_paused = true)]
async fn a_node_that_reads_for_long_keeps_the_lease() {
    let engine = Arc::new(FaultyDirectory::new(Arc::new(MemoryEngine::new())));
    let (mut one, mut two) = nodes_on(Arc::clone(&engine) as Arc<dyn Engine>).await;
    one.accept("a@x.test", &["one@y.test"]).await;
    // Longer than a lease lasts.
    engine.list_slowly(LeaseTimes::default().taken_over * 2);
    one.start();
    // It has the lease before the other one asks.
    tokio::time::sleep(Duration::from_secs(1)).await;
    two.start();
    let day = Duration::from_secs(86_400);
    let sent = tokio::time::timeout(day, next_two(&mut one)).await;
    assert_eq!(sent.expect("nobody sends"), [tried("y.test"), got("y.test", &["one@y.test"])]);
    // Each look at the queue takes as long.
    two.accept("a@x.test", &["two@y.test"]).await;
    let sent = tokio::time::timeout(day, next_two(&mut one)).await;
    assert_eq!(sent.expect("nobody sends"), [tried("y.test"), got("y.test", &["two@y.test"])]);
    one.stop().await;
    two.stop().await;
    assert!(two.events.try_recv().is_err());
}
