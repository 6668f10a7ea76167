//! The account, sender or group that the copies of groups count for.

use async_trait::async_trait;
use posthaste_queue::{
    Body, Channel, Destination, Envelope as Outgoing, Failure, Local, Missed, To, Transport, Unreachable,
};

use super::*;
use crate::{Cause, CurrentFilter, Event, ToMailboxes};

const ALL: &str = "all@example.org";
const BO: &str = "bo@example.org";
const USER: RemoteClient<'static> =
    RemoteClient { ip: None, host: None, account: Some(ANA), account_id: None };

/// There are no other hosts.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn connect(&self, _: &Destination) -> Result<Box<dyn Channel>, Unreachable> {
        Err(Unreachable(Failure::temporary("4.4.1", "no host")))
    }
}

impl World {
    /// With a group of two members elsewhere, and without any allowance left for forged mail of
    /// ana.
    async fn with_forger() -> Self {
        let world = Self::new().await.with_copies(1);
        world.directory.groups().set(ALL, &["x@c.test", "y@c.test"].map(str::to_owned), None).await.unwrap();
        world.add(BO).await;
        let forge = async || world.deliver_all(ANA, RemoteClient::default(), &[ALL]).await.remove(0);
        forge().await.unwrap();
        assert!(matches!(forge().await, Err(Undelivered::TooManyCopies(1))));
        world.take_all().await;
        world
    }

    /// Items that wait, which are taken away.
    async fn take_all(&self) -> Vec<Item> {
        let items = self.queued().await;
        for item in &items {
            self.queue.remove(item).await.unwrap();
        }
        items
    }

    /// Has the queue deliver an item to its recipients here.
    async fn send(&self, item: &Item) -> Vec<Result<Option<Success>, Failure>> {
        let transport = ToMailboxes::beside(Arc::new(Nowhere), CurrentFilter::new(self.filter.clone()));
        let mut channel = transport.connect(&item.destination).await.unwrap();
        let places: Vec<usize> = item.waiting_places().collect();
        let message = self.queue.message(item).await.unwrap();
        channel.send(item, &places, Body::new(message, None)).await.outcomes
    }

    /// An item for the group that the server took over, as it is read from the store.
    async fn taken_over(&self, account: Option<&str>) -> Item {
        let failure = Failure::temporary("4.3.1", "452 4.3.1 later");
        let missed = vec![Missed { to: To::new(ALL), failure }];
        let account = account.map(str::to_owned);
        let envelope = Outgoing { account, ..Outgoing::new(ANA, &[]) };
        let relay = self.filter.relay().unwrap();
        let taken = relay.take_over(Bytes::from_static(MESSAGE), &envelope, missed, Local::Inbox).await;
        self.queue.item(taken.unwrap()[0].id).await.unwrap().unwrap()
    }
}

/// A forger who names a user as the sender must not keep that user's mail waiting in the queue.
#[tokio::test]
async fn mail_from_the_queue_counts_for_its_submitter() {
    let world = World::with_forger().await;
    let submitted = world.taken_over(Some(ANA)).await;
    assert_eq!(world.send(&submitted).await, [Ok(Some(Success::Expanded))]);
    // The account has a limit of its own, wherever its mail comes from.
    let outcome = world.deliver_all(ANA, USER, &[ALL]).await.remove(0);
    assert!(matches!(outcome, Err(Undelivered::TooManyCopies(1))), "{outcome:?}");
    let refused = world.send(&submitted).await.remove(0).unwrap_err();
    assert_eq!((refused.permanent, refused.status.as_str()), (false, "4.2.4"));
    // An item whose record has no submitter counts as before.
    let other = world.taken_over(None).await;
    assert!(world.send(&other).await[0].is_err());
}

/// A forward, a script and an IMAP event of others make no stranger of a user.
#[tokio::test]
async fn mail_to_a_group_counts_for_its_submitter() {
    for way in ["forward", "script"] {
        let world = World::with_forger().await;
        match way {
            "forward" => {
                let forward = Forward { to: vec![ALL.to_owned()], keep: false };
                world.directory.set_forward(BO, Some(forward)).await.unwrap();
            }
            _ => {
                let bo = world.directory.account(BO).await.unwrap().unwrap();
                let script = format!("redirect \"{ALL}\";");
                world.directory.scripts().put(&bo, "main", &script).await.unwrap();
                world.directory.scripts().activate(&bo, Some("main")).await.unwrap();
            }
        }
        for copies in [2, 0] {
            world.deliver_all(ANA, USER, &[BO]).await.remove(0).unwrap();
            let items = world.take_all().await;
            assert_eq!(items.iter().map(|item| item.recipients.len()).sum::<usize>(), copies, "{way}");
        }
    }
}

/// Mail that a member gets later may go to a group from there.
#[tokio::test]
async fn a_member_that_gets_it_later_gets_it_from_the_same_account() {
    let world = World::new().await;
    world.add(BO).await;
    world.directory.groups().set(ALL, &[ANA, BO].map(str::to_owned), None).await.unwrap();
    let change = AccountChange { quota_bytes: Some(Some(1)), ..AccountChange::default() };
    world.directory.set(BO, change).await.unwrap();
    for (client, account) in [(USER, Some(ANA)), (RemoteClient::default(), None)] {
        world.deliver_all(ANA, client, &[ALL]).await.remove(0).unwrap();
        let late = world.take_all().await.remove(0);
        assert_eq!((late.recipients[0].address.as_str(), late.account.as_deref()), (BO, account));
    }
}

/// RFC 6785: the user who added the message is known, also if it is not the owner.
#[tokio::test]
async fn a_redirect_of_a_mailbox_script_counts_for_the_user_of_the_command() {
    let world = World::with_forger().await;
    let script = format!("redirect \"{ALL}\";");
    world.use_script(&script).await;
    let delivery = world.filter.delivery();
    let ana = delivery.resolve(ANA).await.unwrap().account;
    let list = delivery.mailboxes(&ana).await.unwrap();
    let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
    let script = [("/shared/imapsieve/script", Some(Bytes::from_static(b"main")))];
    world.directory.metadata().set(ana.id, Annotated::Mailbox(mailbox), &script).await.unwrap();
    let text = Bytes::from_static(b"From: ana@example.org\r\nSubject: hi\r\n\r\nwords\r\n");
    let incoming = delivery.incoming(text, Vec::new(), None).await.unwrap();
    delivery.append(&ana, &delivery.store().destination(mailbox), vec![incoming]).await.unwrap();
    let uids = std::iter::once(world.inbox().await).collect();
    let cause = Cause::Append;
    world.filter.on_event(Event { owner: &ana, user: &ana, mailbox, cause, uids: &uids, flags: &[] }).await;
    assert_eq!(world.take_all().await.len(), 1);
}
