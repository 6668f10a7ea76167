//! A server whose index never follows by itself, killed at any moment: its acknowledged commits are
//! there when the store is opened again.

use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, FlagSet, Id, MailboxId, NumSet};
use posthaste_property::{one_of, properties};
use posthaste_store::{CommitOutcome, Engine, Stored};
use posthaste_store_lmdb::{LmdbEngine, Options};
use proptest::prelude::*;

use crate::world::{self, World, body, maintain, serve, small};

/// One request to a server. The numbers choose the mailbox and the messages among the existing
/// ones.
#[derive(Debug, Clone)]
enum Step {
    Append {
        to: usize,
        lens: Vec<usize>,
    },
    /// One body to two mailboxes.
    Deliver {
        len: usize,
    },
    Flag {
        to: usize,
        every: usize,
        flags: u64,
    },
    Copy {
        from: usize,
        to: usize,
        every: usize,
    },
    Expunge {
        to: usize,
        every: usize,
    },
    Create,
    Directory,
    Maintain,
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let (to, every) = (0..4usize, 1..5usize);
    one_of![
        6 => (to.clone(), prop::collection::vec(0..5_000usize, 1..4)).prop_map(|(to, lens)| Step::Append { to, lens }),
        2 => (0..100_000usize).prop_map(|len| Step::Deliver { len }),
        4 => (to.clone(), every.clone(), 0..32u64).prop_map(|(to, every, flags)| Step::Flag { to, every, flags }),
        3 => (to.clone(), to.clone(), every.clone()).prop_map(|(from, to, every)| Step::Copy { from, to, every }),
        3 => (to, every).prop_map(|(to, every)| Step::Expunge { to, every }),
        1 => Just(Step::Create),
        1 => Just(Step::Directory),
        1 => Just(Step::Maintain),
        1 => Just(Step::Read),
    ]
}

fn chosen(world: &World, to: usize) -> MailboxId {
    *world.boxes.keys().cycle().nth(to).unwrap()
}

fn some(world: &World, mailbox: MailboxId, every: usize) -> Vec<u32> {
    world.boxes[&mailbox].messages.keys().copied().step_by(every).collect()
}

async fn take(engine: &LmdbEngine, world: &mut World, step: &Step, n: &mut u32) {
    *n += 1;
    let done = match step {
        Step::Append { to, lens } => {
            let bodies: Vec<Bytes> = lens.iter().map(|len| body(*n, *len)).collect();
            world.append(engine, chosen(world, *to), &bodies).await
        }
        Step::Deliver { len } => {
            let new = [(BodyId(Id::new(1 << 50, u128::from(*n))), body(*n, *len))];
            for to in 0..2 {
                let commit = world.appending(chosen(world, to), &new);
                assert_eq!(world.commit(engine, commit).await.unwrap(), CommitOutcome::Done);
            }
            return;
        }
        Step::Flag { to, every, flags } => {
            let mailbox = chosen(world, *to);
            world.flag(engine, mailbox, &some(world, mailbox, *every), FlagSet::from_bits(*flags)).await
        }
        Step::Copy { from, to, every } => {
            let from = chosen(world, *from);
            world.copy(engine, from, &some(world, from, *every), chosen(world, *to)).await
        }
        Step::Expunge { to, every } => {
            let mailbox = chosen(world, *to);
            world.expunge(engine, mailbox, &some(world, mailbox, *every)).await
        }
        Step::Create => {
            world.create(engine, &format!("box {n}")).await.unwrap();
            return;
        }
        Step::Directory => world.set_directory(engine, "account/ana", Some(&n.to_le_bytes())).await,
        Step::Maintain => return drop(engine.maintain().await.unwrap()),
        Step::Read => return world.verify(engine).await,
    };
    assert_eq!(done.unwrap(), CommitOutcome::Done);
}

/// Lives until it is killed, again and again; then the packs alone must say the same.
async fn lives(dir: &Path, lives: &[Vec<Step>]) {
    let (mut world, mut n) = (World::new(), 0);
    let engine = serve(dir, small());
    world.create(&engine, "INBOX").await.unwrap();
    engine.kill();
    for (life, steps) in lives.iter().enumerate() {
        let engine = serve(dir, small());
        for step in steps {
            take(&engine, &mut world, step, &mut n).await;
        }
        engine.kill();
        // The next process finds it: a server, or a command.
        let engine =
            if life % 2 == 0 { serve(dir, small()) } else { LmdbEngine::open(dir, small()).unwrap() };
        world.verify(&engine).await;
    }
    maintain(&LmdbEngine::open(dir, small()).unwrap()).await;
    std::fs::remove_dir_all(dir.join("index")).unwrap();
    world::rebuild_whole(dir, &small());
    world.verify(&LmdbEngine::open(dir, small()).unwrap()).await;
}

/// The copies of a COPY link to summaries. A redo does not know to which, and made all of them in
/// one transaction: with 10 MiB each, no memory held them.
#[tokio::test]
async fn a_redo_makes_few_summaries_and_leaves_the_rest_to_readers() {
    const LONG: usize = 300 << 10;
    const MESSAGES: u32 = 40;
    let options = || Options { summarize: |_| vec![7; LONG], ..small() };
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new();
    let engine = serve(dir.path(), options());
    let from = world.create(&engine, "from").await.unwrap();
    let to = world.create(&engine, "to").await.unwrap();
    for n in 0..MESSAGES {
        world.append_with(&engine, from, &[body(n, 50)], &[vec![7; LONG]]).await.unwrap();
    }
    engine.close();
    let engine = serve(dir.path(), options());
    let uids: Vec<u32> = (1..=MESSAGES).collect();
    assert_eq!(world.copy(&engine, from, &uids, to).await.unwrap(), CommitOutcome::Done);
    engine.kill();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    assert!(engine.loss().is_none(), "{:?}", engine.loss());
    let (mut made, mut left) = (0, 0);
    let mut visit = |stored: Stored<'_>| {
        match stored.summary.len() {
            0 => left += 1,
            len => made += len,
        }
        ControlFlow::Continue(())
    };
    engine.summaries(to, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    assert!(made > 1 << 20 && made <= 4 << 20, "{made} bytes of summaries");
    assert_eq!(made / LONG + left, MESSAGES as usize);
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
    maintain(&engine).await;
}

properties! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_acknowledged_is_lost(all in prop::collection::vec(prop::collection::vec(step(), 0..30), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        runtime.block_on(lives(dir.path(), &all));
    }
}
