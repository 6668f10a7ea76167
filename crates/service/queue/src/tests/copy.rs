//! The queue in another store.

use posthaste_delivery::verified_summary;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::{Compare, StoreError, Verifier, set_directory_entry};

use super::*;
use crate::error::QueueError;
use crate::item::Item;
use crate::{
    CopiedItems, RestoredQueue, compare_queues, compare_restored_queue, copy_queue, has_other_items,
    restore_queue,
};

fn engine(world: &World) -> Arc<dyn Engine> {
    Arc::clone(world.relay.delivery().store().engine())
}

async fn copy(from: &World, to: &Arc<dyn Engine>, arrive: CopiedItems) -> usize {
    let from = engine(from);
    let count = copy_queue(&*from, &**to, arrive).await.unwrap();
    assert_eq!(compare_queues(&*from, &**to, arrive, Compare::All).await.unwrap(), [""; 0]);
    count
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

#[tokio::test]
async fn a_store_that_was_moved_sends_what_waited() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test", "b@y.test"]).await;
    world.accept("ana@example.org", &["c@x.test"]).await;
    let to = memory();
    assert_eq!(copy(&world, &to, CopiedItems::AsTheyAre).await, 3);
    // The first store's servers continue meanwhile.
    world.script("y.test", [Script::Unreachable(busy())]);
    world.run_at(START, 4).await;
    world.accept("ana@example.org", &["d@z.test"]).await;
    assert_eq!(
        copy(&world, &to, CopiedItems::AsTheyAre).await,
        2,
        "what was sent meanwhile is not sent again"
    );
    let mut moved = World::of(to).await;
    assert_eq!(moved.items().await.len(), 2);
    let mut seen = moved.run_at(START + DAY, 4).await;
    seen.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(
        seen,
        [got("y.test", &["b@y.test"]), got("z.test", &["d@z.test"]), tried("y.test"), tried("z.test")]
    );
    assert!(moved.items().await.is_empty());
}

#[tokio::test]
async fn items_from_a_backup_wait_for_an_administrator() {
    let mut world = World::new().await;
    world.accept("ana@example.org", &["a@x.test"]).await;
    let to = memory();
    for _ in 0..2 {
        assert_eq!(copy(&world, &to, CopiedItems::Held).await, 1);
    }
    let mut backup = World::of(Arc::clone(&to)).await;
    assert_eq!(backup.run_at(START + DAY, 0).await, []);
    let id = backup.items().await[0].id;
    backup.relay.queue().administer(id, |item| item.held = false).await.unwrap();
    let seen = backup.run_at(START + DAY, 2).await;
    assert_eq!(seen, [tried("x.test"), got("x.test", &["a@x.test"])]);
    // The next backup has what waits then: nothing.
    world.run_at(START, 2).await;
    assert_eq!(copy(&world, &to, CopiedItems::Held).await, 0);
}

#[tokio::test]
async fn a_queue_of_its_own_is_noticed() {
    let world = World::new().await;
    world.accept("ana@example.org", &["a@x.test"]).await;
    let (empty, to) = (memory(), memory());
    let others = |to: &Arc<dyn Engine>| {
        let (from, to) = (engine(&world), Arc::clone(to));
        async move { has_other_items(&*from, &*to).await.unwrap() }
    };
    assert!(!others(&empty).await);
    // A queue in which nothing waits, as it is after somebody looked at it.
    let other = World::of(Arc::clone(&to)).await;
    assert!(!others(&to).await);
    other.accept("bo@example.net", &["b@y.test"]).await;
    assert!(others(&to).await);
    other.relay.queue().drop_item(other.items().await[0].id).await.unwrap();
    assert_eq!(copy(&world, &to, CopiedItems::AsTheyAre).await, 1);
    assert!(!others(&to).await, "they are the same items");
    assert_eq!(copy(&world, &to, CopiedItems::AsTheyAre).await, 1);
}

#[tokio::test]
async fn a_store_that_went_back_removes_no_item_from_its_backup() {
    let world = World::new().await;
    let (earlier, to) = (memory(), memory());
    world.accept("ana@example.org", &["a@x.test"]).await;
    copy(&world, &earlier, CopiedItems::Held).await;
    world.accept("ana@example.org", &["b@x.test"]).await;
    copy(&world, &to, CopiedItems::Held).await;
    let outcome = copy_queue(&*earlier, &*to, CopiedItems::Held).await;
    assert!(matches!(outcome, Err(QueueError::Store(StoreError::Refused(_)))), "{outcome:?}");
    assert_eq!(World::of(to).await.items().await.len(), 2);
}

/// An administrator who releases an item must not send the mail that another account has.
#[tokio::test]
async fn an_item_out_of_a_backup_has_the_message_of_its_number() {
    let world = World::new().await;
    world.accept("ana@example.org", &["a@x.test", "b@y.test", "c@z.test", "d@zz.test"]).await;
    let (from, to) = (engine(&world), memory());
    let records = from.directory_scan("queue/", None, 9).await.unwrap();
    let mut forged: Vec<Item> = records.iter().map(|record| Item::read(record).unwrap()).collect();
    let body = forged[0].body;
    forged[0].body = BodyId(Id::new(1, 1));
    forged[1].recipients[0].address = "b@y.test>\r\nRCPT TO:<victim@y.test".into();
    // This is an address.
    forged[2].recipients[0].address = r#""c\">d"@z.test"#.into();
    // A report would print it.
    forged[3].recipients[0].named = Some("d@zz.test\r\nAction: delivered".into());
    for (record, item) in records.iter().zip(&forged) {
        set_directory_entry(&*from, &record.name, Some(item.write().unwrap())).await.unwrap();
    }
    let verifier = Verifier { summarize: verified_summary, new_id: || Ok(Id::new(7, 7)) };
    // The restore names each item that is left out.
    set_directory_entry(&*from, "queue/0000000009", Some("of \u{1b}".into())).await.unwrap();
    for _ in 0..2 {
        let RestoredQueue { held, left_out } = restore_queue(&*from, &*to, verifier).await.unwrap();
        assert_eq!((held, left_out.len()), (2, 3), "{left_out:?}");
        assert!(left_out[..2].iter().all(|why| why.contains("no command of SMTP can name")), "{left_out:?}");
        assert!(left_out[2].contains("queue/0000000009 cannot be read"), "{left_out:?}");
        assert_eq!(compare_restored_queue(&*from, &*to, verifier).await.unwrap(), [""; 0]);
    }
    let there = to.directory_scan("queue/", None, 9).await.unwrap();
    let there: Vec<Item> = there.iter().map(|record| Item::read(record).unwrap()).collect();
    assert_eq!(there.iter().map(|item| item.id).collect::<Vec<_>>(), [forged[0].id, forged[2].id]);
    assert!(there.iter().all(|item| item.held && item.body == body));
}
