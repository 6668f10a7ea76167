//! The bounds of the queue: mail that strangers cause leaves room for users.

use super::*;

/// Requests a report of success to a sender elsewhere.
async fn report_to(world: &World, sender: &str) {
    let to = vec![To { notify: Notify::parse("SUCCESS"), ..To::new("ana@example.org") }];
    let envelope = Envelope { to, ..Envelope::new(sender, &[]) };
    world.relay.report_success(&Bytes::from_static(MESSAGE), &envelope, Success::Delivered).await.unwrap();
}

/// Whether there is room for a message that ana submits, or that another host brings.
async fn has_room(world: &World, account: Option<&str>) -> bool {
    let account = account.map(str::to_owned);
    let envelope = Envelope { account, ..Envelope::new("ana@example.org", &["bo@far.test"]) };
    match world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await {
        Ok(_) => true,
        Err(Refusal::Queue(QueueError::Full { .. })) => false,
        Err(error) => panic!("{error}"),
    }
}

const ANA: Option<&str> = Some("ana@example.org");

#[tokio::test]
async fn reports_that_strangers_request_leave_room_for_users() {
    const SENDERS: u64 = 2_000;
    let world = World::new().await;
    world.relay.set_items_max(400);
    for n in 0..SENDERS {
        report_to(&world, &format!("x@d{n}.test")).await;
    }
    let items = world.items().await;
    // An eighth.
    assert_eq!(items.len(), 50);
    assert_eq!(world.relay.queue().dropped_reports(), SENDERS - 50);
    assert!(has_room(&world, ANA).await);
    // One leaves, and another has its room.
    world.relay.queue().drop_item(items[0].id).await.unwrap();
    report_to(&world, "x@late.test").await;
    report_to(&world, "x@later.test").await;
    let items = world.items().await;
    assert!(items.len() == 51 && items[50].destination == "late.test");
}

/// Names below a domain can be made at will.
#[tokio::test]
async fn reports_to_one_registered_domain_leave_room_for_others() {
    let world = World::new().await;
    world.relay.set_items_max(400);
    for n in 0..100 {
        report_to(&world, &format!("x@h{n}.evil.test")).await;
    }
    assert_eq!(world.items().await.len(), 3);
    report_to(&world, "x@good.test").await;
    assert_eq!(world.items().await.len(), 4);
}

#[tokio::test]
async fn the_queue_has_a_bound_and_its_last_quarter_is_for_users() {
    let world = World::new().await;
    world.relay.set_items_max(8);
    for _ in 0..6 {
        assert!(has_room(&world, None).await);
    }
    assert!(!has_room(&world, None).await);
    report_to(&world, "x@good.test").await;
    assert_eq!(world.items().await.len(), 6);
    assert!(has_room(&world, ANA).await && has_room(&world, ANA).await);
    assert!(!has_room(&world, ANA).await);
}

#[tokio::test]
async fn one_account_leaves_room_for_others() {
    let world = World::new().await;
    world.relay.set_items_max(8);
    for _ in 0..4 {
        assert!(has_room(&world, ANA).await);
    }
    assert!(!has_room(&world, ANA).await);
    assert!(has_room(&world, Some("bo@example.org")).await);
    let first = world.items().await.remove(0);
    world.relay.queue().drop_item(first.id).await.unwrap();
    assert!(has_room(&world, ANA).await && !has_room(&world, ANA).await);
}

#[tokio::test]
async fn reports_of_failures_are_not_dropped() {
    let mut world = World::new().await;
    world.relay.set_items_max(16);
    for sender in ["x@d0.test", "x@d1.test", "x@d2.test"] {
        report_to(&world, sender).await;
    }
    world.accept("bo@y.test", &["no@x.test"]).await;
    let to = vec![To { notify: Notify::parse("SUCCESS"), ..To::new("a@w.test") }];
    let envelope = Envelope { to, ..Envelope::new("cy@z.test", &[]) };
    world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
    world.script("x.test", [Script::Answers(vec![Err(no_such_user())])]);
    for away in ["d0.test", "d1.test", "y.test"] {
        world.script(away, [Script::Unreachable(busy())]);
    }
    // One attempt at each of five destinations, of which two get a message.
    world.run_at(START, 7).await;
    let mut left: Vec<_> = world.items().await.into_iter().map(|item| item.destination).collect();
    left.sort();
    assert_eq!(left, ["d0.test", "d1.test", "y.test"]);
    assert_eq!(world.relay.queue().dropped_reports(), 2);
}

/// Each message that waits may cause one, to a sender of a stranger's choice.
#[tokio::test]
async fn reports_of_delays_leave_room_for_users() {
    let mut world = World::new().await;
    world.relay.set_items_max(16);
    for sender in ["x@d0.test", "x@d1.test"] {
        report_to(&world, sender).await;
    }
    world.accept("bo@y.test", &["a@x.test"]).await;
    for away in ["d0.test", "d1.test", "x.test", "y.test"] {
        world.script(away, [Script::Unreachable(busy())]);
    }
    world.run_at(START + 5 * HOUR, 3).await;
    let mut left: Vec<_> = world.items().await.into_iter().map(|item| item.destination).collect();
    left.sort();
    assert_eq!(left, ["d0.test", "d1.test", "x.test"]);
    assert_eq!(world.relay.queue().dropped_reports(), 1);
}

/// Bounces of other hosts look like reports of this one, before a restart and after it.
#[tokio::test]
async fn a_restart_changes_no_count() {
    let world = World::new().await;
    world.relay.set_items_max(16);
    report_to(&world, "x@d0.test").await;
    let bounce = world.accept("", &["a@x.test"]).await;
    report_to(&world, "x@d1.test").await;
    assert_eq!((world.items().await.len(), world.relay.queue().dropped_reports()), (2, 1));
    let delivery = world.relay.delivery().clone();
    let queue = Queue::open(delivery.clone()).await.unwrap();
    let world = World { relay: Relay::new(queue, delivery, "mail.example.org"), ..world };
    world.relay.set_items_max(16);
    report_to(&world, "x@d1.test").await;
    assert_eq!((world.items().await.len(), world.relay.queue().dropped_reports()), (2, 1));
    world.relay.queue().remove(&bounce[0]).await.unwrap();
    report_to(&world, "x@d1.test").await;
    let left: Vec<_> = world.items().await.into_iter().map(|item| item.destination).collect();
    assert_eq!(left, ["d0.test", "d1.test"]);
}

/// Of each mailbox, a thousand messages do not count.
#[tokio::test]
async fn a_long_queue_is_opened_however_little_room_open_mailboxes_have() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let before = World::of(Arc::clone(&engine)).await;
    let (bytes, delivery) = (Bytes::from_static(MESSAGE), before.relay.delivery());
    let message = delivery.incoming(bytes, Vec::new(), None).await.unwrap();
    before.relay.queue().destination().append(vec![message; 1_001]).await.unwrap();
    // The next start.
    let options = StoreOptions { open_views_bytes: 0, ..StoreOptions::default() };
    let after = World::with_options(engine, options).await;
    assert_eq!(after.relay.queue().open_mailbox().await.unwrap().view().exists(), 1_001);
}
