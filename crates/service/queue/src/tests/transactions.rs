//! A message that goes to its recipients in several transactions, and connections that end.

use super::*;

const THREE: [&str; 3] = ["a@x.test", "b@x.test", "c@x.test"];

/// The server may be killed before the next one.
#[tokio::test]
async fn the_outcome_of_one_message_is_on_disk_before_the_next_begins() {
    let mut world = World::new().await;
    world.hosts.recipients_max.store(1, Ordering::SeqCst);
    world.accept("ana@example.org", &THREE).await;
    world.script("x.test", [Script::Answers(vec![Ok(())]), Script::Mute]);
    world.start();
    for event in [tried("x.test"), got("x.test", &["a@x.test"]), got("x.test", &["b@x.test"])] {
        assert_eq!(world.events.recv().await, Some(event));
    }
    let (_stop, task) = world.running.take().unwrap();
    task.abort();
    let outcomes: Vec<_> = world.items().await[0].recipients.iter().map(|to| to.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Sent, Outcome::Waiting, Outcome::Waiting]);
    let mut next = World::of(Arc::clone(world.relay.delivery().store().engine())).await;
    next.hosts.recipients_max.store(1, Ordering::SeqCst);
    let seen = next.run_at(START, 3).await;
    assert_eq!(seen, [tried("x.test"), got("x.test", &["b@x.test"]), got("x.test", &["c@x.test"])]);
}

/// A host that ends the connection: those who had no transaction wait for the next one.
#[tokio::test]
async fn a_recipient_without_a_transaction_waits() {
    let mut world = World::new().await;
    world.hosts.recipients_max.store(2, Ordering::SeqCst);
    world.accept("ana@example.org", &THREE).await;
    world.script("x.test", [Script::Ends(vec![Ok(()), Err(busy())])]);
    assert_eq!(world.run_at(START, 2).await, [tried("x.test"), got("x.test", &["a@x.test", "b@x.test"])]);
    let waiting: Vec<_> = world.items().await[0].waiting().map(|to| to.address.clone()).collect();
    assert_eq!(waiting, ["b@x.test", "c@x.test"]);
}

/// RFC 9422 §4: what the host takes no more on one connection goes by another one at once.
#[tokio::test]
async fn a_connection_takes_as_many_transactions_as_the_host_says() {
    let mut world = World::new().await;
    world.hosts.recipients_max.store(2, Ordering::SeqCst);
    world.hosts.mails_max.store(1, Ordering::SeqCst);
    world.accept("ana@example.org", &THREE).await;
    let seen = world.run_at(START, 4).await;
    let (first, second) = (got("x.test", &THREE[..2]), got("x.test", &THREE[2..]));
    assert_eq!(seen, [tried("x.test"), first, tried("x.test"), second]);
    assert!(world.items().await.is_empty());
}

/// A host that takes one recipient on a connection and puts it off is no reason to connect again
/// at once. The next attempt begins with another recipient, and the message expires.
#[tokio::test]
async fn a_connection_that_took_nobody_is_followed_by_none() {
    let mut world = World::new().await;
    world.hosts.recipients_max.store(1, Ordering::SeqCst);
    world.hosts.mails_max.store(1, Ordering::SeqCst);
    world.accept("ana@example.org", &THREE).await;
    let busy = || Script::Answers(vec![Err(busy())]);
    world.script("x.test", [busy()]);
    assert_eq!(world.run_at(START, 2).await, [tried("x.test"), got("x.test", &THREE[..1])]);
    let item = world.items().await.remove(0);
    assert_eq!((item.attempts, item.next, item.reason.as_str()), (1, START + 300, "421 4.3.2 busy"));
    world.script("x.test", [Script::Answers(vec![Ok(())]), busy()]);
    let seen = world.run_at(START + 300, 4).await;
    let (second, third) = (got("x.test", &THREE[1..2]), got("x.test", &THREE[2..]));
    assert_eq!(seen, [tried("x.test"), second, tried("x.test"), third]);
    world.script("x.test", [busy()]);
    world.run_at(START + 5 * DAY, 2).await;
    assert!(world.items().await.is_empty() && world.inbox().await[0].contains("Status: 4.4.7\r\n"));
}

/// RFC 5321 §4.5.3.1.10: those beyond the host's limit are no failure.
#[tokio::test]
async fn recipients_that_are_too_many_get_the_message_at_once() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &THREE).await;
    let too_many = || Err(Failure::temporary("4.5.3", "452 4.5.3 too many recipients"));
    world.script("x.test", [Script::Answers(vec![Ok(()), too_many(), too_many()])]);
    let seen = world.run_at(START, 3).await;
    assert_eq!(seen, [tried("x.test"), got("x.test", &THREE), got("x.test", &THREE[1..])]);
    assert!(world.items().await.is_empty());
    // A host that takes nobody is not asked at once again.
    world.accept("ana@example.org", &["a@x.test"]).await;
    world.script("x.test", [Script::Answers(vec![too_many()])]);
    assert_eq!(world.run_at(START, 2).await.len(), 2);
    assert_eq!(world.items().await[0].attempts, 1);
}

/// A host that takes each connection and no message is one that cannot be reached.
#[tokio::test]
async fn a_host_that_takes_no_message_waits_as_a_whole() {
    let mut world = World::new().await;
    for _ in 0..10 {
        world.accept("ana@example.org", &["a@x.test"]).await;
    }
    for (at, attempts) in [(0, 1), (300, 2), (900, 3)] {
        world.script("x.test", [Script::Ends(vec![Err(busy())])]);
        assert_eq!(world.run_at(START + at, 2).await, [tried("x.test"), got("x.test", &["a@x.test"])]);
        let tried = world.items().await.iter().map(|item| item.attempts).sum::<u32>();
        assert_eq!(tried, attempts);
        assert_eq!(world.relay.queue().wait_of("x.test").await.unwrap().unwrap().reason, "421 4.3.2 busy");
    }
    assert_eq!(world.run_at(START + HOUR, 11).await.len(), 11);
    assert!(world.items().await.is_empty());
}

/// A host that ends a connection after some messages takes the others on the next one, at once.
#[tokio::test]
async fn a_connection_that_ends_after_a_message_is_followed_by_another() {
    let mut world = World::new().await;
    for _ in 0..3 {
        world.accept("ana@example.org", &["a@x.test"]).await;
    }
    let ok = || Script::Answers(vec![Ok(())]);
    world.script("x.test", [ok(), Script::Ends(vec![Err(busy())]), ok()]);
    let one = got("x.test", &["a@x.test"]);
    let seen = world.run_at(START, 5).await;
    assert_eq!(seen, [tried("x.test"), one.clone(), one.clone(), tried("x.test"), one]);
    assert_eq!(world.items().await.len(), 1);
    // The host always ends on this message: others do not wait for it.
    world.now.store(START + HOUR, Ordering::SeqCst);
    world.accept("ana@example.org", &["b@x.test"]).await;
    world.script("x.test", [Script::Ends(vec![Err(busy())])]);
    let seen = world.run_at(START + HOUR, 4).await;
    let of = |to: &str| [tried("x.test"), got("x.test", &[to])];
    assert_eq!(seen, [of("a@x.test"), of("b@x.test")].concat());
    assert_eq!(world.relay.queue().wait_of("x.test").await.unwrap(), None);
}

/// The reason for waiting recipients is the host's answer, whatever came after it.
#[tokio::test]
async fn a_later_transaction_hides_no_failure() {
    let mut world = World::new().await;
    world.hosts.recipients_max.store(1, Ordering::SeqCst);
    world.accept("ana@example.org", &THREE[..2]).await;
    world.script("x.test", [Script::Answers(vec![Err(busy())]), Script::Answers(vec![Ok(())])]);
    world.run_at(START, 3).await;
    assert_eq!(world.items().await[0].reason, "421 4.3.2 busy");
}

/// A report that returns all of a message takes memory for it, while the message has its own.
#[tokio::test(start_paused = true)]
async fn a_report_does_not_wait_for_the_memory_of_its_own_message() {
    let mut world = World::new().await;
    world.bodies_bytes = 1;
    world.hosts.recipients_max.store(1, Ordering::SeqCst);
    let envelope = Envelope { ret: Some(Return::Full), ..Envelope::new("ana@example.org", &THREE) };
    world.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await.unwrap();
    world.script("x.test", [Script::Ends(vec![Err(no_such_user())])]);
    world.start();
    let reported = async {
        while world.inbox().await.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reported).await.expect("reported");
    world.stop().await;
    assert!(world.inbox().await[0].contains("words"));
}
