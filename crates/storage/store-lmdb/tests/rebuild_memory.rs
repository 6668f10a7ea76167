//! The memory of a rebuild does not follow the store: neither its directory, nor the bodies that
//! have two records, nor those that no message holds.
//!
//! LMDB's own pages are not counted: they are files that are mapped.

#![allow(clippy::unwrap_used)]

mod world;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use posthaste_mail_model::MailboxId;
use posthaste_store::CommitOutcome;
use posthaste_store_lmdb::LmdbEngine;
use posthaste_testkit::CountingAllocator;

use world::{World, body, rebuild_whole, small};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator::new();

const MESSAGES: u32 = 4_000;
const AT_ONCE: u32 = 1_000;
/// The additional memory of a rebuild, for any number of records.
const MORE: usize = 300 << 10;
/// A page of directory records, with one record beyond it.
const PAGE: usize = 2 << 20;

async fn append(world: &mut World, engine: &LmdbEngine, mailbox: MailboxId, count: u32) {
    for at in (0..count).step_by(AT_ONCE as usize) {
        let bodies: Vec<Bytes> = (at..at + AT_ONCE).map(|n| body(n, 60)).collect();
        world.append(engine, mailbox, &bodies).await.unwrap();
    }
}

/// The bytes of a store besides its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Extra {
    Nothing,
    /// 32 MiB of directory records.
    Directory,
    /// A second record for each body.
    OtherForms,
    /// Bodies of messages that were expunged.
    Unheld,
}

/// The most bytes that a rebuild of a store held.
fn most_of(extra: Extra) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let made = async {
        let engine = LmdbEngine::open(dir.path(), small()).unwrap();
        let mut world = World::new();
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        append(&mut world, &engine, inbox, MESSAGES).await;
        match extra {
            Extra::Nothing => {}
            Extra::Directory => {
                for n in 0..512 {
                    let name = format!("imported/{n:04}");
                    world.set_directory(&engine, &name, Some(&[7; 64 << 10])).await.unwrap();
                }
            }
            Extra::OtherForms => {
                let recoded = stream::iter(1..=MESSAGES).map(|uid| world.recode(&engine, inbox, uid));
                let done = recoded.buffer_unordered(256).map(Result::unwrap);
                assert!(done.all(|outcome| async move { outcome == CommitOutcome::Done }).await);
            }
            Extra::Unheld => {
                let other = world.create(&engine, "Other").await.unwrap();
                append(&mut world, &engine, other, 20 * MESSAGES).await;
                let uids: Vec<u32> = (1..=20 * MESSAGES).collect();
                world.expunge(&engine, other, &uids).await.unwrap();
            }
        }
        engine.close();
    };
    runtime.block_on(made);
    let (most, ()) = MEMORY.most_during(|| rebuild_whole(dir.path(), &small()));
    most
}

#[test]
fn the_memory_of_a_rebuild_does_not_follow_the_store() {
    let plain = most_of(Extra::Nothing);
    for (extra, more) in [(Extra::Directory, PAGE), (Extra::OtherForms, MORE), (Extra::Unheld, MORE)] {
        let most = most_of(extra);
        assert!(most < plain + more, "{extra:?}: {most} bytes, and {plain} without");
    }
}
