//! Messages with very many recipients, whose addresses are long.

use posthaste_store::DirectoryChange;

use super::*;
use crate::queue::PAGE_LEN_MAX;

const ANA: &str = "ana@example.org";

impl World {
    /// Writes or removes the record of an item, as another process does.
    async fn overwrite(&self, item: &Item, expected: u64, value: Option<&'static [u8]>) {
        let value = value.map(Bytes::from_static);
        let change = DirectoryChange { name: crate::item::name(item.id), expected, value };
        self.relay.delivery().store().engine().directory_commit(change).await.unwrap();
    }
}

/// The longest addresses that a client can name.
fn long(recipients: usize) -> Envelope {
    let orcpt = OriginalRecipient::parse(&format!("rfc822;{}", "x".repeat(490)));
    let to = |n: usize| To { orcpt: orcpt.clone(), ..To::new(&format!("{n:0370}@x.test")) };
    Envelope { to: (0..recipients).map(to).collect(), ..Envelope::new(ANA, &[]) }
}

/// Octets of the records of a page.
fn octets(page: &Page) -> usize {
    page.items.iter().map(|item| item.write().unwrap().len()).sum()
}

#[tokio::test]
async fn a_page_of_the_queue_has_a_bound_of_octets() {
    let world = World::new().await;
    let queue = world.relay.queue();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let message = Bytes::from_static(MESSAGE);
        let items = world.relay.accept(message, long(1_000), Origin::Server).await.unwrap();
        assert_eq!(items.iter().map(|item| item.recipients.len()).sum::<usize>(), 1_000);
        ids.extend(items.iter().map(|item| item.id));
    }
    let (mut found, mut after) = (Vec::new(), None);
    while let Some(page) = queue.page(after).await.unwrap() {
        assert!(octets(&page) <= PAGE_LEN_MAX && page.damaged.is_empty(), "{}", octets(&page));
        after = Some(page.last);
        found.extend(page.items.iter().map(|item| item.id));
    }
    assert_eq!(found, ids);
    // A record of an earlier version of this server may be longer than a page. It comes alone.
    let mut first = queue.item(ids[0]).await.unwrap().unwrap();
    first.recipients = std::iter::repeat_n(&first.recipients, 12).flatten().cloned().collect();
    queue.update(&mut first).await.unwrap();
    let page = queue.page(None).await.unwrap().unwrap();
    assert!(octets(&page) > PAGE_LEN_MAX);
    assert_eq!((page.items.len(), page.last), (1, ids[0]));
    let page = queue.page(Some(page.last)).await.unwrap().unwrap();
    assert_eq!(page.items[0].id, ids[1]);
}

/// A client that is over its limit causes the queue to be read again and again.
#[tokio::test]
async fn a_record_that_was_counted_is_not_read_again() {
    let world = World::new().await;
    world.relay.set_account_octets_max(2 * MESSAGE.len() as u64);
    let submit = async || {
        let envelope = Envelope { account: Some(ANA.into()), ..Envelope::new(ANA, &["a@x.test"]) };
        world.relay.accept(Bytes::from_static(MESSAGE), envelope.clone(), Origin::Server).await
    };
    let first = submit().await.unwrap().remove(0);
    submit().await.unwrap();
    // It counts for nobody, once it is read.
    world.overwrite(&first, 1, Some(b"{")).await;
    for _ in 0..3 {
        world.now.fetch_add(10, Ordering::SeqCst);
        let refused = submit().await;
        assert!(matches!(refused, Err(Refusal::Queue(QueueError::AccountFull { .. }))), "{refused:?}");
    }
    world.overwrite(&first, 2, None).await;
    world.now.fetch_add(10, Ordering::SeqCst);
    submit().await.unwrap();
}

/// The recipients of a message count for the account that submits it, if they take much.
#[tokio::test]
async fn long_lists_of_recipients_count_for_the_account() {
    let world = World::new().await;
    world.relay.set_account_octets_max(1 << 20);
    let submit = async |recipients| {
        let envelope = Envelope { account: Some(ANA.into()), ..long(recipients) };
        world.relay.accept(Bytes::from_static(MESSAGE), envelope.clone(), Origin::Server).await
    };
    submit(1_000).await.unwrap();
    let refused = submit(1_000).await;
    assert!(matches!(refused, Err(Refusal::Queue(QueueError::AccountFull { .. }))), "{refused:?}");
    // One recipient takes no more than any item may.
    submit(1).await.unwrap();
}

/// Nothing but an item names the row of a report that is not on its way yet.
#[tokio::test]
async fn the_row_of_a_pending_report_is_kept() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let world = World::of(Arc::clone(&engine)).await;
    let mut item = world.accept(ANA, &["a@x.test"]).await.remove(0);
    let queue = world.relay.queue();
    let delivery = world.relay.delivery();
    let report = delivery.incoming(Bytes::from_static(b"report\r\n"), Vec::new(), None).await.unwrap();
    let list = delivery.store().list(QUEUE_ACCOUNT).await.unwrap();
    let mailbox = list.find(&MailboxName::inbox()).unwrap().id;
    let appended = delivery.store().destination(mailbox).append(vec![report]).await.unwrap();
    let row = appended.uids.first().unwrap().value();
    item.pending = vec![crate::item::PendingReport { row, ..crate::item::PendingReport::sample("x.test") }];
    queue.update(&mut item).await.unwrap();
    let next = World::of(engine).await;
    assert_eq!(next.relay.queue().remove_unfinished(None).await.unwrap(), 0);
    item.pending.clear();
    queue.update(&mut item).await.unwrap();
    assert_eq!(next.relay.queue().remove_unfinished(None).await.unwrap(), 1);
    assert_eq!(next.items().await, [item]);
}
