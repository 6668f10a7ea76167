//! One of all nodes sweeps. If it ends, another one does. Against a real Cassandra
//! (`scripts/cassandra env`).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste_store::Engine;
use posthaste_store_cassandra::{CassandraEngine, Options, init};

/// A new keyspace; `None` without a Cassandra.
async fn keyspace(what: &str) -> Option<Options> {
    let Ok(host) = std::env::var("POSTHASTE_CASSANDRA") else {
        eprintln!("SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; env)");
        return None;
    };
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut options = Options::new(vec![host], format!("{what}_{ms}"));
    options.sweep_after = Duration::ZERO;
    init(&options, 1).await.expect("a keyspace");
    Some(options)
}

async fn node(options: &Options) -> CassandraEngine {
    CassandraEngine::open(options.clone()).await.expect("an engine")
}

/// Whether a node did a piece of the sweep.
async fn sweeps(node: &CassandraEngine) -> bool {
    node.maintain().await.expect("maintenance").examined > 0
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_sweeps_for_all() {
    let Some(mut options) = keyspace("lease").await else { return };
    let (one, two) = (node(&options).await, node(&options).await);
    assert!(sweeps(&one).await);
    assert!(!sweeps(&two).await, "both sweep");
    // To the round's end, at which the other one has nothing to do either: the round was for all.
    while sweeps(&one).await {}
    assert!(!sweeps(&one).await && !sweeps(&two).await, "a week has not passed");
    assert!(!sweeps(&node(&options).await).await, "a node that was started later does not know it");
    // Where rounds follow each other at once, the next is anybody's.
    options.sweep_every = Duration::ZERO;
    let (three, four) = (node(&options).await, node(&options).await);
    assert!(sweeps(&three).await && !sweeps(&four).await);
    while sweeps(&three).await {}
    assert!(sweeps(&four).await && !sweeps(&three).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_while_it_sweeps_is_followed_by_another() {
    let Some(mut options) = keyspace("heir").await else { return };
    options.sweep_lease = Duration::from_secs(3);
    let (one, two) = (node(&options).await, node(&options).await);
    assert!(sweeps(&one).await && !sweeps(&two).await);
    drop(one);
    let began = Instant::now();
    while !sweeps(&two).await {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody took over");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    while sweeps(&two).await {}
}
