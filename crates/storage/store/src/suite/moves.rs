//! Moves: a message is in exactly one of two mailboxes, even if others change them.

use std::collections::BTreeSet;
use std::sync::Arc;

use posthaste_mail_model::{FlagSet, MailboxId, NumSet};
use tokio::task::JoinSet;

use super::folder::{contents, load};
use super::{Factory, World, erased, new_body_id, new_id};
use crate::change::CommitOutcome;
use crate::context::StoreOptions;
use crate::error::StoreError;
use crate::mailbox::IncomingMessage;
use crate::store::Store;

/// Both commits of a pair are applied, or neither: also when the one or the other was made against
/// a state now past.
pub async fn a_pair_is_applied_whole(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let engine = Arc::clone(&world.engine);
    let (mut a, mut b) = (world.folder().await, world.folder().await);
    a.commit(a.appending(&[10, 20, 30])).await;
    b.commit(b.appending(&[5])).await;
    let uids = NumSet::range(2, 3);
    let pair = [b.copying(&a, &uids), a.expunging(&uids)];
    if !engine.commits_pairs() {
        assert!(matches!(engine.commit_pair(pair).await, Err(StoreError::Refused(_))));
        return;
    }
    assert_eq!(engine.commit_pair(pair.clone()).await.unwrap(), CommitOutcome::Done);
    b.committed(&pair[0], Some(&a));
    a.committed(&pair[1], None);
    let stale = |at: usize| {
        let uids = NumSet::range(1, 1);
        let mut next = [b.copying(&a, &uids), a.expunging(&uids)];
        next[at] = pair[at].clone();
        next
    };
    for pair in [stale(0), stale(1), pair.clone()] {
        assert_eq!(engine.commit_pair(pair).await.unwrap(), CommitOutcome::Conflict);
    }
    // A message to be moved no longer exists.
    let mut conflicting = [b.copying(&a, &NumSet::range(1, 1)), a.expunging(&NumSet::range(1, 1))];
    a.commit(a.expunging(&NumSet::range(1, 1))).await;
    conflicting[1] = a.flagging(&NumSet::new(), FlagSet::EMPTY, None);
    assert_eq!(engine.commit_pair(conflicting).await.unwrap(), CommitOutcome::Conflict);
    // A mailbox that is not there, and one mailbox twice.
    let mut nowhere = [b.appending(&[1]), a.appending(&[2])];
    nowhere[1].mailbox = MailboxId(new_id());
    assert!(matches!(engine.commit_pair(nowhere).await, Err(StoreError::NoMailbox(_))));
    let twice = [b.appending(&[1]), b.appending(&[2])];
    assert!(engine.commit_pair(twice).await.is_err());
    for folder in [&a, &b] {
        folder.verify().await;
        folder.verify_changes().await;
    }
    world.check().await;
    for folder in [&a, &b] {
        folder.verify().await;
    }
}

/// Messages in play, each known by its size.
const MESSAGES: u32 = 40;
/// Moves of each task.
const EACH: u32 = 15;

pub(super) fn message(size: u32) -> IncomingMessage {
    IncomingMessage {
        bytes: contents(u64::from(size), size as usize),
        summary: contents(1, 30),
        body: new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: None,
    }
}

pub(super) async fn sizes(world: &World, id: MailboxId) -> Vec<u32> {
    let view = load(&*world.engine, id).await;
    view.rows(&view.all()).map(|(_, row)| row.size()).collect()
}

/// Moves that cross, into mailboxes that are open and closed: none waits for ever and no message is
/// lost.
///
/// No message is there twice either. That holds with one store (that is, within one process) on
/// every engine, and with two stores on an engine that commits pairs. On others a message may be
/// copied from the target by a third move before the first one finds that it lost the race.
pub async fn moves_that_cross_lose_nothing(factory: &dyn Factory) {
    for stores in [1, 2] {
        let world = World::new(factory).await;
        let found = cross(&world, stores).await;
        let distinct: BTreeSet<u32> = found.iter().copied().collect();
        assert_eq!(distinct, (1..=MESSAGES).collect(), "{stores} stores: a message is lost");
        if stores == 1 || world.engine.commits_pairs() {
            assert_eq!(found.len() as u32, MESSAGES, "{stores} stores: a message is there twice");
        }
        world.check().await;
    }
}

/// Moves messages between three mailboxes in all directions at once; returns the sizes of all that
/// are there then.
async fn cross(world: &World, stores: usize) -> Vec<u32> {
    let ids = [world.mailbox().await, world.mailbox().await, world.mailbox().await];
    let store = |_| Store::new(Arc::clone(&world.engine), StoreOptions::default());
    let stores: Vec<Store> = (0..stores).map(store).collect();
    stores[0].destination(ids[0]).append((1..=MESSAGES).map(message).collect()).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..6usize {
        let store = stores[task % stores.len()].clone();
        let (from, to) = (ids[task % 3], ids[(task + 1 + task / 3) % 3]);
        tasks.spawn(erased(async move {
            for n in 0..EACH {
                let source = loop {
                    match store.open(from).await {
                        Ok(source) => break source,
                        Err(error) => assert!(error.is_temporary(), "{error}"),
                    }
                };
                let view = source.view();
                let some: NumSet =
                    view.uids_of_seqs(&view.all()).iter().skip(n as usize % 3).step_by(2).collect();
                match source.move_to(&some, &store.destination(to)).await {
                    Ok(moved) => assert_eq!(moved.copied.source, moved.expunged.uids),
                    // As a client would, the next round tries again.
                    Err(error) => assert!(error.is_temporary(), "{error}"),
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap();
    }
    for store in &stores {
        store.wait_for_changes().await;
    }
    let mut found = Vec::new();
    for id in ids {
        found.extend(sizes(world, id).await);
    }
    found
}

/// A move to the mailbox the messages are in gives them new UIDs (RFC 6851 §3.3), in one commit.
pub async fn a_move_within_a_mailbox_is_one_commit(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let id = world.mailbox().await;
    let store = Store::new(Arc::clone(&world.engine), StoreOptions::default());
    let mailbox = store.open(id).await.unwrap();
    let appended = mailbox.append((1..=4).map(message).collect()).await.unwrap();
    let moved = mailbox.move_to(&NumSet::range(2, 3), &mailbox.destination()).await.unwrap();
    assert_eq!((moved.copied.uids, moved.expunged.uids), (NumSet::range(5, 6), NumSet::range(2, 3)));
    assert_eq!(sizes(&world, id).await, [1, 4, 2, 3]);
    let changes = world.engine.changes_since(id, appended.modseq).await.unwrap();
    assert_eq!((changes.expunged, changes.rows.len()), (NumSet::range(2, 3), 2));
    world.check().await;
    assert_eq!(sizes(&world, id).await, [1, 4, 2, 3]);
}
