//! Copies that share the summaries of their originals. Each keeps its summary when the other is
//! expunged.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;

use bytes::Bytes;
use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_property::{one_of, properties};
use posthaste_store::{CommitOutcome, Engine, Stored};
use posthaste_store_lmdb::{LmdbEngine, Options};
use proptest::prelude::*;

use crate::world::{World, body, maintain, small};

/// Some messages of a mailbox: the first one, how many at most, and the step from one to the next.
type Some = (usize, usize, usize);

#[derive(Debug, Clone)]
enum Step {
    Append {
        to: usize,
        count: u32,
    },
    Copy {
        from: usize,
        to: usize,
        some: Some,
    },
    Expunge {
        from: usize,
        some: Some,
    },
    Replace {
        at: usize,
    },
    /// One round: the rest stays for the next.
    Maintain,
    Verify,
}

fn step() -> impl Strategy<Value = Step> {
    let some = || (0..150_usize, 1..150_usize, one_of![3 => Just(1_usize), 1 => 2..15_usize]);
    one_of![
        3 => (0..3_usize, 1..100_u32).prop_map(|(to, count)| Step::Append { to, count }),
        6 => (0..3_usize, 0..3_usize, some()).prop_map(|(from, to, some)| Step::Copy { from, to, some }),
        4 => (0..3_usize, some()).prop_map(|(from, some)| Step::Expunge { from, some }),
        1 => (0..3_usize).prop_map(|at| Step::Replace { at }),
        2 => Just(Step::Maintain),
        1 => Just(Step::Verify),
    ]
}

fn chosen(world: &World, mailbox: MailboxId, (from, count, every): Some) -> Vec<u32> {
    world.boxes[&mailbox].messages.keys().skip(from).step_by(every).take(count).copied().collect()
}

async fn live(options: Options, steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), options).unwrap();
    let mut world = World::new();
    let mut boxes = Vec::new();
    for n in 0..3 {
        boxes.push(world.create(&engine, &format!("box {n}")).await.unwrap());
    }
    for (n, step) in (0..).zip(steps) {
        let outcome = match step {
            Step::Append { to, count } => {
                let bodies: Vec<Bytes> = (0..*count).map(|i| body(n * 100 + i, 30)).collect();
                world.append(&engine, boxes[*to], &bodies).await
            }
            Step::Copy { from, to, some } => {
                let uids = chosen(&world, boxes[*from], *some);
                world.copy(&engine, boxes[*from], &uids, boxes[*to]).await
            }
            Step::Expunge { from, some } => {
                let uids = chosen(&world, boxes[*from], *some);
                world.expunge(&engine, boxes[*from], &uids).await
            }
            Step::Replace { at } => {
                world.remove(&engine, boxes[*at]).await.unwrap();
                boxes[*at] = world.create(&engine, &format!("new {n}")).await.unwrap();
                Ok(CommitOutcome::Done)
            }
            Step::Maintain => engine.maintain().await.map(|_| CommitOutcome::Done),
            Step::Verify => {
                world.verify(&engine).await;
                Ok(CommitOutcome::Done)
            }
        };
        assert_eq!(outcome.unwrap(), CommitOutcome::Done);
    }
    world.verify(&engine).await;
    maintain(&engine).await;
    world.verify(&engine).await;
    for mailbox in boxes {
        world.remove(&engine, mailbox).await.unwrap();
        maintain(&engine).await;
        world.verify(&engine).await;
    }
}

/// LMDB keeps what a transaction writes in memory. So a copy writes no long summary, and a round
/// of maintenance writes few.
#[tokio::test]
async fn long_summaries_are_linked_and_given_to_copies_in_pieces() {
    const COPIES: usize = 12;
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), Options { links_from: 32, ..small() }).unwrap();
    let mut world = World::new();
    let from = world.create(&engine, "from").await.unwrap();
    let to = world.create(&engine, "to").await.unwrap();
    let long = vec![7_u8; 512 << 10];
    world.append_with(&engine, from, &[body(1, 30)], std::slice::from_ref(&long)).await.unwrap();
    let index_len = || std::fs::metadata(dir.path().join("index/data.mdb")).unwrap().len();
    let before = index_len();
    for _ in 0..COPIES {
        assert_eq!(world.copy(&engine, from, &[1], to).await.unwrap(), CommitOutcome::Done);
    }
    let grown = index_len() - before;
    assert!(grown < (COPIES * long.len() / 2) as u64, "{grown} bytes for {COPIES} copies");
    world.expunge(&engine, from, &[1]).await.unwrap();
    let mut rounds = 0;
    loop {
        let report = engine.maintain().await.unwrap();
        assert_eq!(report.faults, [""; 0]);
        assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
        if report.examined == 0 {
            break;
        }
        rounds += 1;
    }
    assert!(rounds >= COPIES, "{COPIES} long summaries in {rounds} rounds");
    let mut seen = 0;
    let mut visit = |stored: Stored<'_>| {
        assert!(stored.summary == long);
        seen += 1;
        ControlFlow::Continue(())
    };
    engine.summaries(to, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    assert_eq!(seen, COPIES);
}

/// The checksum of 10 MiB takes milliseconds, and a listing verified 128 of them in one poll.
#[tokio::test]
async fn summaries_of_many_octets_are_read_with_pauses() {
    const MESSAGES: u32 = 8;
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    for (len, pauses_expected) in [(1 << 10, 0..=0), (1 << 20, MESSAGES / 2 - 1..=MESSAGES / 2)] {
        let mailbox = world.create(&engine, &format!("of {len}")).await.unwrap();
        let summary = vec![7_u8; len];
        for n in 1..=MESSAGES {
            let summary = std::slice::from_ref(&summary);
            world.append_with(&engine, mailbox, &[body(n, 30)], summary).await.unwrap();
        }
        // The first look waits for the index. From then on it has them.
        let mut visit = |_: Stored<'_>| ControlFlow::Continue(());
        engine.summaries(mailbox, &NumSet::range(1, 1), &mut visit).await.unwrap().refuse().unwrap();
        let (mut seen, mut pauses) = (Vec::new(), 0);
        let mut visit = |stored: Stored<'_>| {
            assert!(stored.summary == summary);
            seen.push(stored.uid.value());
            ControlFlow::Continue(())
        };
        let all = NumSet::range(1, u32::MAX);
        let mut reading = engine.summaries(mailbox, &all, &mut visit);
        let unreadable = loop {
            match poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await {
                Poll::Ready(done) => break done.unwrap(),
                Poll::Pending => pauses += 1,
            }
        };
        drop(reading);
        unreadable.refuse().unwrap();
        assert_eq!(seen, (1..=MESSAGES).collect::<Vec<_>>());
        assert!(pauses_expected.contains(&pauses), "{pauses} pauses");
    }
}

/// A round gave one copy a summary of 10 MiB. On a full disk the reserve did not hold it.
#[tokio::test]
async fn copies_get_no_summary_that_is_very_long() {
    const COPIES: usize = 12;
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), Options { links_from: 32, ..small() }).unwrap();
    let mut world = World::new();
    let from = world.create(&engine, "from").await.unwrap();
    let to = world.create(&engine, "to").await.unwrap();
    let long = vec![7_u8; (1 << 20) + 1];
    world.append_with(&engine, from, &[body(1, 30)], std::slice::from_ref(&long)).await.unwrap();
    for _ in 0..COPIES {
        assert_eq!(world.copy(&engine, from, &[1], to).await.unwrap(), CommitOutcome::Done);
    }
    world.expunge(&engine, from, &[1]).await.unwrap();
    let index_len = || std::fs::metadata(dir.path().join("index/data.mdb")).unwrap().len();
    let before = index_len();
    maintain(&engine).await;
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
    let grown = index_len() - before;
    assert!(grown < (COPIES * long.len() / 2) as u64, "{grown} bytes for {COPIES} copies");
    // Their readers make them.
    let (mut seen, copied) = (0, world.boxes[&to].messages[&1].body);
    let mut visit = |stored: Stored<'_>| {
        assert!(stored.summary.is_empty() && stored.body == copied);
        seen += 1;
        ControlFlow::Continue(())
    };
    engine.summaries(to, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    assert_eq!(seen, COPIES);
}

/// Each of the copies got a summary, and was removed in a later round: 50,000 took 0.5 s.
#[tokio::test]
async fn copies_that_are_removed_with_their_origin_get_no_summaries() {
    const COPIES: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), Options { links_from: 32, ..small() }).unwrap();
    let mut world = World::new();
    let mailbox = world.create(&engine, "one").await.unwrap();
    // As much as a round may write, so that it gives a summary to one copy.
    let long = vec![7_u8; 64 << 10];
    world.append_with(&engine, mailbox, &[body(1, 30)], std::slice::from_ref(&long)).await.unwrap();
    for _ in 0..COPIES {
        assert_eq!(world.copy(&engine, mailbox, &[1], mailbox).await.unwrap(), CommitOutcome::Done);
    }
    let all: Vec<u32> = world.boxes[&mailbox].messages.keys().copied().collect();
    assert_eq!(all.len(), 1 + COPIES);
    world.expunge(&engine, mailbox, &all).await.unwrap();
    let mut rounds = 0;
    loop {
        let report = engine.maintain().await.unwrap();
        assert_eq!(report.faults, [""; 0]);
        if report.examined == 0 {
            break;
        }
        assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
        rounds += 1;
    }
    // 20 messages are counted, or removed, in a round.
    assert!(rounds < COPIES / 2, "{rounds} rounds");
    world.verify(&engine).await;
}

properties! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn copies_outlive_what_they_were_copied_from(
        links_from in one_of![Just(1_usize), Just(8)],
        steps in prop::collection::vec(step(), 0..25),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(live(Options { links_from, ..small() }, &steps));
    }
}
