//! Groups, the queue and vacation replies when something is away or over.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_queue::{Body, Channel, Destination, Failure, LeaseEnd, Transport, Unreachable};
use tokio::time::Instant;

use super::*;
use crate::{CurrentFilter, ToMailboxes};

const ALL: &str = "all@example.org";

/// There are no other hosts.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn connect(&self, _: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        Err(Unreachable(Failure::temporary("4.4.1", "no host")))
    }
}

/// The client sends it again, and nobody has it twice.
#[tokio::test]
async fn a_group_gets_nothing_while_its_members_elsewhere_cannot_be_served() {
    let world = World::new().await;
    world.directory.groups().set(ALL, &[ANA, "x@c.test"].map(str::to_owned), None).await.unwrap();
    world.engine.fail_on(Some("queue/"));
    let outcome = world.deliver(MESSAGE, RequiredExtensions::default(), ALL).await;
    assert!(matches!(&outcome, Err(Undelivered::Delivery(error)) if error.is_temporary()), "{outcome:?}");
    assert_eq!((world.inbox().await, world.queued().await.len()), (0, 0));
    world.engine.fail_on(None);
    world.deliver(MESSAGE, RequiredExtensions::default(), ALL).await.unwrap();
    assert_eq!((world.inbox().await, world.queued().await.len()), (1, 1));
}

/// Each group may be small enough, and together they are not.
#[tokio::test]
async fn a_group_that_grew_too_large_is_refused_and_not_put_off() {
    let world = World::new().await;
    let inner = |number: usize| format!("g{number}@example.org");
    let members = |group: usize, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("m{group}.{number}@c.test")).collect()
    };
    for group in 0..11 {
        world.directory.groups().set(&inner(group), &members(group, 1), None).await.unwrap();
    }
    let outer: Vec<String> = (0..11).map(inner).collect();
    world.directory.groups().set(ALL, &outer, None).await.unwrap();
    for group in 0..11 {
        world.directory.groups().set(&inner(group), &members(group, 1_000), None).await.unwrap();
    }
    let outcome = world.deliver(MESSAGE, RequiredExtensions::default(), ALL).await;
    assert!(matches!(&outcome, Err(Undelivered::Rejected(why)) if why.contains("too many")), "{outcome:?}");
}

/// A sender that got no reply gets one for the next message.
#[tokio::test]
async fn a_vacation_reply_that_was_not_sent_is_sent_next_time() {
    let world = World::new().await;
    world.use_script("require \"vacation\"; vacation \"away\";").await;
    let message = b"Received: by a\r\nFrom: bo@b.test\r\nTo: ana@example.org\r\nSubject: hi\r\n\r\nwords\r\n";
    world.engine.fail_on(Some("queue/"));
    world.deliver(message, RequiredExtensions::default(), ANA).await.unwrap();
    assert!(world.queued().await.is_empty());
    world.engine.fail_on(None);
    for replies in [1, 0] {
        world.deliver(message, RequiredExtensions::default(), ANA).await.unwrap();
        let items = world.queued().await;
        assert_eq!(items.len(), replies);
        for item in items {
            world.queue.remove(&item).await.unwrap();
        }
    }
    assert_eq!(world.inbox().await, 3);
}

/// Another server delivers it then.
#[tokio::test]
async fn nothing_is_delivered_for_the_queue_once_the_lease_is_over() {
    for script in [None, Some("keep;")] {
        let world = World::new().await;
        if let Some(script) = script {
            world.use_script(script).await;
        }
        let missed = posthaste_queue::Missed {
            to: posthaste_queue::To::new(ANA),
            failure: Failure::temporary("4.3.1", "452 4.3.1 later"),
        };
        let envelope = posthaste_queue::Envelope::new("bo@b.test", &[]);
        let relay = world.filter.relay().unwrap();
        let here = posthaste_queue::Local::Inbox;
        let taken =
            relay.take_over(Bytes::from_static(MESSAGE), &envelope, vec![missed], here).await.unwrap();
        let item = world.queue.item(taken[0].id).await.unwrap().unwrap();
        let transport = ToMailboxes::beside(Arc::new(Nowhere), CurrentFilter::new(world.filter.clone()));
        let mut channel = transport.connect(&item.destination).await.unwrap();
        for (left, delivered) in [(Duration::ZERO, 0), (Duration::from_secs(3_600), 1)] {
            let lease_end = LeaseEnd::default();
            lease_end.set(Instant::now() + left);
            let message = world.queue.message(&item).await.unwrap();
            let body = Body::new(message, None).until(lease_end);
            let outcome = channel.send(&item, &[0], body).await.outcomes.remove(0);
            assert_eq!(world.inbox().await, delivered, "{script:?}");
            match delivered {
                0 => assert!(!outcome.unwrap_err().permanent),
                _ => assert_eq!(outcome.unwrap(), Some(Success::Delivered)),
            }
        }
    }
}
