//! The cost of a delivery: segments and messages that are read for it, counted.

use posthaste_mail_model::{NumSet, Uid};
use posthaste_net::{ByteBudget, Holder};

use crate::index::{Reads, SearchIndex};
use crate::tests::{World, texts};
use crate::work::WorkOutcome;

/// Memory for nothing but the outlines and terms of a few messages.
const LITTLE: usize = 8000;

/// Delivers one message, and does all that the task does for it.
async fn deliver(world: &mut World, index: &SearchIndex, number: u32) {
    let next = world.mailbox.current().await.unwrap().head().uid_next;
    world.add(texts(number..number + 1)).await;
    while index.work(world.id(), next).await.unwrap() == WorkOutcome::Again {}
}

fn since(index: &SearchIndex, before: Reads) -> (u64, u64) {
    let now = index.reads();
    (now.segments - before.segments, now.messages - before.messages)
}

/// After a start, and with a memory that has no place for the segments.
#[tokio::test]
async fn a_delivery_reads_its_message_and_no_segment_whatever_the_size_of_the_mailbox() {
    for messages in [300, 3000] {
        let mut world = World::new().await;
        world.add(texts(0..messages)).await;
        world.index().update(world.id()).await.unwrap();
        for memory in [LITTLE, 64 << 20] {
            let index = SearchIndex::new(world.store.clone(), memory);
            for number in 0..20 {
                let before = index.reads();
                deliver(&mut world, &index, number).await;
                assert_eq!(since(&index, before), (0, 1), "{messages} messages, {memory} bytes");
            }
        }
    }
}

/// With mail for more mailboxes in turn than the memory has places for.
#[tokio::test]
async fn a_delivery_costs_the_same_however_many_mailboxes_get_mail() {
    let first = World::new().await;
    let index = SearchIndex::new(first.store.clone(), LITTLE);
    let mut worlds = vec![first];
    for number in 1..12 {
        let another = worlds[0].another(&format!("m{number}")).await;
        worlds.push(another);
    }
    for number in 0..300 {
        for world in &mut worlds {
            deliver(world, &index, number).await;
        }
    }
    let Reads { segments, messages } = index.reads();
    assert_eq!(segments, 0);
    // Once when it comes, and again for its segment.
    assert!(messages <= 2 * 12 * 300, "{messages} messages read");
    for world in &worlds {
        assert!(world.stored().await.1 >= 256);
    }
    assert!(index.memory_bytes() <= LITTLE);
}

/// A message that comes alone is written some four times until its segment is full.
#[tokio::test]
async fn segments_are_read_to_be_merged_and_for_nothing_else() {
    let mut world = World::new().await;
    let index = SearchIndex::new(world.store.clone(), LITTLE);
    for number in 0..2100 {
        deliver(&mut world, &index, number).await;
    }
    let Reads { segments, messages } = index.reads();
    assert!((4..=2100 / 256 + 2).contains(&segments), "{segments} segments read");
    assert!(messages <= 2 * 2100, "{messages} messages read");
    assert!(world.stored().await.0 <= 5);
    assert_eq!(world.ask(&world.index(), "needle").await, 21 + 2100 % 256);
}

/// Each message is expunged before the next one comes.
#[tokio::test]
async fn messages_that_leave_at_once_are_not_looked_for_again() {
    let mut world = World::new().await;
    let index = SearchIndex::new(world.store.clone(), LITTLE);
    for number in 0..600 {
        deliver(&mut world, &index, number).await;
        world.mailbox.remove(&NumSet::range(1, number + 1)).await.unwrap();
    }
    let before = index.reads();
    deliver(&mut world, &index, 600).await;
    assert_eq!(since(&index, before), (0, 1));
    let outline = index.shared.memory.lock().latest.get(world.id()).outline.unwrap();
    assert_eq!(outline.scanned, NumSet::range(1, 512));
}

/// The memory is full of segments that searches use.
#[tokio::test]
async fn new_mail_is_indexed_with_a_full_memory() {
    let mut world = World::new().await;
    world.add(texts(0..1200)).await;
    let index = SearchIndex::new(world.store.clone(), 60_000);
    index.update(world.id()).await.unwrap();
    world.ask(&index, "needle").await;
    for number in 0..3 {
        deliver(&mut world, &index, number).await;
        assert_eq!(world.ask(&index, "needle").await, 12, "the new message is not read");
    }
}

/// Mail from before a start is left to searches; the task reads it after the first one.
#[tokio::test]
async fn after_a_start_a_search_makes_the_task_read_older_mail() {
    let mut world = World::new().await;
    world.add(texts(0..100)).await;
    let index = world.index();
    deliver(&mut world, &index, 100).await;
    assert_eq!(index.reads().messages, 1);
    assert_eq!(world.ask(&index, "needle").await, 1 + 99);
    world.store.changed().begin();
    world.ask(&index, "needle").await;
    assert_eq!(world.store.changed().take(), [(world.id(), Uid::MIN)]);
    assert_eq!(index.work(world.id(), Uid::MIN).await.unwrap(), WorkOutcome::Done);
    assert_eq!(world.ask(&index, "needle").await, 1);
}

/// An outline of another process, or none, is made again from the segments.
#[tokio::test]
async fn an_outline_that_is_not_right_is_made_again() {
    let mut world = World::new().await;
    world.add(texts(0..300)).await;
    let (one, two) = (world.index(), world.index());
    one.update(world.id()).await.unwrap();
    deliver(&mut world, &two, 300).await;
    assert_eq!(two.reads().segments, 0, "the record of the other is right");
    world.add(texts(301..700)).await;
    two.update(world.id()).await.unwrap();
    let before = one.reads();
    deliver(&mut world, &one, 700).await;
    assert_eq!(since(&one, before), (0, 1));
    assert_eq!(world.stored().await, (2, 700));
}

/// Other work has the memory for large messages.
#[tokio::test]
async fn a_message_that_finds_no_memory_keeps_no_other_waiting() {
    let mut world = World::new().await;
    let large = format!("needle {}", "x ".repeat(100_000));
    let with_large = |n: u32| if n == 10 || n == 20 { large.clone() } else { format!("hay{n}") };
    world.add((0..40).map(with_large)).await;
    let reads = ByteBudget::new(1 << 20).with_share_of_at_least(1 << 20);
    let index = SearchIndex::with_reads(world.store.clone(), 64 << 20, reads.clone());
    let other = reads.begin(Holder::Account([9; 16]));
    other.grow_to(1 << 20).unwrap();
    other.complete();
    let left = Uid::new(11).unwrap();
    assert_eq!(index.work(world.id(), Uid::MIN).await.unwrap(), WorkOutcome::Later(left));
    assert_eq!(world.ask(&index, "needle").await, 2, "all others are indexed");
    let before = index.reads();
    drop(other);
    assert_eq!(index.work(world.id(), left).await.unwrap(), WorkOutcome::Done);
    assert_eq!(since(&index, before), (0, 2), "only those are read");
    assert_eq!(world.ask(&index, "absent").await, 0);
}

/// It would wait for ever.
#[tokio::test]
async fn a_message_larger_than_all_memory_is_left_to_searches() {
    let mut world = World::new().await;
    world.add(["hay".to_owned(), "needle ".repeat(100_000)]).await;
    let reads = ByteBudget::new(300_000).with_share_of_at_least(300_000);
    let index = SearchIndex::with_reads(world.store.clone(), 64 << 20, reads);
    assert_eq!(index.work(world.id(), Uid::MIN).await.unwrap(), WorkOutcome::Done);
    assert_eq!(index.reads().messages, 1);
    assert_eq!(world.ask(&index, "needle").await, 1);
}
