//! The limit of messages in a folder. It holds for two stores together, and a refused change leaves
//! no trace.

use std::sync::Arc;

use posthaste_mail_model::{NumSet, Uid};
use tokio::task::JoinSet;

use super::moves::{message, sizes};
use super::{Factory, World, erased};
use crate::context::StoreOptions;
use crate::error::StoreError;
use crate::store::Store;

const LIMIT: u32 = 10;

fn is_full(error: &StoreError, limit: u32) -> bool {
    matches!(error, StoreError::FolderFull { limit: found } if *found == limit)
}

/// The only UID of a set.
fn sole(uids: &NumSet) -> Uid {
    assert_eq!(uids.count(), 1);
    uids.first().and_then(Uid::new).unwrap()
}

/// Two stores on one engine, as two processes or nodes have them, take no more together than one
/// of them may.
pub async fn a_folder_takes_as_many_as_it_may(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (full, other) = (world.mailbox().await, world.mailbox().await);
    let options = StoreOptions { folder_messages_max: Some(LIMIT), ..StoreOptions::default() };
    let stores = [(); 2].map(|()| Store::new(Arc::clone(&world.engine), options.clone()));
    let mut tasks = JoinSet::new();
    for n in 0..2 * LIMIT {
        let target = stores[n as usize % stores.len()].destination(full);
        tasks.spawn(erased(async move {
            loop {
                match target.append(vec![message(n + 1)]).await {
                    Err(StoreError::Busy) => tokio::task::yield_now().await,
                    outcome => return outcome.map(drop),
                }
            }
        }));
    }
    let outcomes = tasks.join_all().await;
    assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|error| is_full(error, LIMIT)));
    assert_eq!(sizes(&world, full).await.len() as u32, LIMIT);

    let [store, _] = stores;
    let target = store.open(full).await.unwrap();
    let source = store.open(other).await.unwrap();
    source.append((1..=4).map(message).collect()).await.unwrap();
    let some = |count| NumSet::range(1, count);
    for (removed, refused) in [(0, 1), (3, 4)] {
        let view = target.view();
        let first: NumSet = view.uids_of_seqs(&view.all()).iter().take(removed).collect();
        target.remove(&first).await.unwrap();
        let copied = target.copy_from(&source, &some(refused)).await.map(drop);
        let moved = source.move_to(&some(refused), &target.destination()).await.map(drop);
        assert!(copied.is_err_and(|error| is_full(&error, LIMIT)), "of {refused}: all or none");
        assert!(moved.is_err_and(|error| is_full(&error, LIMIT)), "of {refused}: all or none");
        assert_eq!(sizes(&world, other).await, [1, 2, 3, 4]);
        assert_eq!(sizes(&world, full).await.len(), LIMIT as usize - removed);
    }
    source.move_to(&some(3), &target.destination()).await.unwrap();
    assert_eq!(sizes(&world, full).await[LIMIT as usize - 3..], [1, 2, 3]);
    assert_eq!(sizes(&world, other).await, [4]);

    // A replacement adds no message, so it passes the limit.
    let end = target.destination();
    let first = sole(&target.view().uids_of_seqs(&NumSet::range(1, 1)));
    let moved = target.move_to(&NumSet::range(first.value(), first.value()), &end).await.unwrap();
    target.replace(sole(&moved.copied.uids), &end, message(9)).await.unwrap();
    let there = sizes(&world, full).await;
    assert_eq!((there.len(), there.last()), (LIMIT as usize, Some(&9)));

    // The owner's own limit, and none.
    let target = store.destination(full);
    target.note_owner_limit(Some(LIMIT + 1));
    target.append(vec![message(5)]).await.unwrap();
    let refused = target.append(vec![message(6)]).await.map(drop);
    assert!(refused.is_err_and(|error| is_full(&error, LIMIT + 1)));
    target.note_owner_limit(Some(0));
    target.append(vec![message(6)]).await.unwrap();
    assert_eq!(sizes(&world, full).await.len() as u32, LIMIT + 2);
    world.check().await;
}
