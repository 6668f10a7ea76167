//! The octets that may wait because of each account.

use super::*;

const ANA: &str = "ana@example.org";
const LEN: u64 = MESSAGE.len() as u64;

impl World {
    /// Takes a message that an account submits, or that is sent on for it.
    async fn take(&self, (account, sent_on_by): (Option<&str>, Option<&str>), to: &[&str]) -> bool {
        let named = |name: Option<&str>| name.map(str::to_owned);
        let envelope =
            Envelope { account: named(account), sent_on_by: named(sent_on_by), ..Envelope::new(ANA, to) };
        let taken = self.relay.accept(Bytes::from_static(MESSAGE), envelope, Origin::Server).await;
        match taken {
            Ok(_) => true,
            Err(Refusal::Queue(QueueError::AccountFull { limit, .. })) => {
                assert_eq!(limit, 2 * LEN);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn submit(&self, to: &[&str]) -> bool {
        self.take((Some(ANA), None), to).await
    }
}

#[tokio::test]
async fn messages_over_the_octets_of_an_account_are_refused_until_others_have_left() {
    let mut world = World::new().await;
    world.relay.set_account_octets_max(2 * LEN);
    // One message, although it goes to three domains.
    assert!(world.submit(&["a@x.test", "b@y.test", "c@z.test"]).await);
    assert!(world.submit(&["d@x.test"]).await && !world.submit(&["e@x.test"]).await);
    // Other accounts, reports, and what is sent on for this account.
    for other in [(Some("bo@example.org"), None), (None, None), (None, Some(ANA)), (None, Some(ANA))] {
        assert!(world.take(other, &["f@held.test"]).await);
    }
    assert!(!world.take((None, Some(ANA)), &["f@held.test"]).await);
    for item in world.items().await.into_iter().filter(|item| item.destination == "held.test") {
        world.relay.queue().administer(item.id, |item| item.held = true).await.unwrap();
    }
    // Two domains have their copies of the first message; the third has not.
    world.script("z.test", [Script::Unreachable(busy())]);
    world.run_at(START, 6).await;
    assert!(world.submit(&["g@x.test"]).await && !world.submit(&["h@x.test"]).await);
    // No bound, and the bound again: all that waits counts.
    world.relay.set_account_octets_max(0);
    assert!(world.submit(&["i@x.test"]).await);
    world.relay.set_account_octets_max(2 * LEN);
    assert!(!world.submit(&["j@x.test"]).await);
}

/// After a restart, and what an administrator drops while the server runs.
#[tokio::test]
async fn waiting_octets_are_counted_again_from_the_queue() {
    let world = World::new().await;
    world.relay.set_account_octets_max(2 * LEN);
    assert!(world.submit(&["a@x.test"]).await && world.submit(&["b@x.test"]).await);
    let delivery = world.relay.delivery().clone();
    let queue = Queue::open(delivery.clone()).await.unwrap();
    let world = World { relay: Relay::new(queue, delivery.clone(), "mail.example.org"), ..world };
    world.relay.set_account_octets_max(2 * LEN);
    assert!(!world.submit(&["c@x.test"]).await);
    let beside = Queue::open(delivery).await.unwrap();
    let first = world.items().await.remove(0);
    beside.drop_item(first.id).await.unwrap();
    // It was read just now.
    assert!(!world.submit(&["d@x.test"]).await);
    world.now.fetch_add(10, Ordering::SeqCst);
    assert!(world.submit(&["e@x.test"]).await && !world.submit(&["f@x.test"]).await);
}
