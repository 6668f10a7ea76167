//! A change that is too large for one commit: refused whole, and nothing is left of it. Against a
//! real Cassandra (`scripts/cassandra env`), with a limit low enough to be met soon.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste_mail_model::FlagSet;
use posthaste_store::suite::World;
use posthaste_store::{MailboxCommit, StoreError};
use posthaste_store_cassandra::{Options, init};

use crate::keyspace::Keyspace;

async fn refused(world: &World, commit: MailboxCommit) {
    match world.engine.commit(commit).await {
        Err(error @ StoreError::TooLarge { limit: 20_000, .. }) => {
            assert!(!error.is_temporary() && error.to_string().contains("fewer messages"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_beyond_the_limit_is_refused_whole() {
    let Ok(host) = std::env::var("POSTHASTE_CASSANDRA") else {
        eprintln!("SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; env)");
        return;
    };
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut options = Options::new(vec![host], format!("limits_{ms}"));
    // The rows of some 700 messages that came a hundred at a time.
    options.commit_bytes_max = 20_000;
    options.sweep_after = Duration::ZERO;
    options.sweep_every = Duration::ZERO;
    init(&options, 1).await.expect("a keyspace");
    let world = World::new(&Keyspace(options)).await;
    let (mut folder, mut other) = (world.folder().await, world.folder().await);
    for _ in 0..10 {
        folder.commit(folder.appending(&[10; 100])).await;
    }
    let all = folder.uids();
    let half = all.iter().take(500).collect();
    refused(&world, folder.flagging(&all, FlagSet::SEEN, None)).await;
    refused(&world, other.copying(&folder, &all)).await;
    folder.verify().await;
    other.verify().await;
    // In portions it goes, and copies, too.
    folder.commit(folder.flagging(&half, FlagSet::SEEN, None)).await;
    folder.commit(folder.flagging(&all.difference(&half), FlagSet::SEEN, None)).await;
    other.commit_copies(other.copying(&folder, &half), &folder).await;
    folder.verify().await;
    other.verify().await;
    world.check().await;
}
