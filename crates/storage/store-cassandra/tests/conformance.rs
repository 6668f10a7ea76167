//! The contract every engine keeps, on this one, against a real Cassandra.
//!
//! `scripts/cassandra start` starts one, `eval "$(scripts/cassandra env)"` names it to the test. Without a name the test does nothing,
//! and says so.

use async_trait::async_trait;
use posthaste_store::suite::{self, Factory};
use posthaste_store::{Engine, MemoryEngine};
use posthaste_store_cassandra::{CassandraEngine, Options, init};
use std::sync::Arc;
use std::time::Duration;

/// Engines on one keyspace; each a connection of its own, as on a node of its own.
struct Cluster(Options);

#[async_trait]
impl Factory for Cluster {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(CassandraEngine::open(self.0.clone()).await.expect("an engine on the keyspace"))
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        drop(engine);
        self.open().await
    }

    fn random_steps(&self) -> usize {
        60
    }

    fn seeds(&self) -> Vec<u64> {
        vec![1, 2]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds() {
    let Ok(host) = std::env::var("POSTHASTE_CASSANDRA") else {
        eprintln!(
            "SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; scripts/cassandra env)"
        );
        return;
    };
    // A keyspace of its own: the suite may be run again on a cluster that stands.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut options = Options::new(vec![host], format!("suite_{now}"));
    // Nothing else runs, and what is swept shall be swept now.
    options.sweep_after = Duration::ZERO;
    options.sweep_every = Duration::ZERO;
    init(&options, 1).await.expect("a keyspace");
    init(&options, 1).await.expect("a keyspace that is there already");
    let cluster = Cluster(options);
    suite::run_all(&cluster).await;
    // Last: every test ends with a check of all there is.
    suite::mail_moves(Arc::new(MemoryEngine::new()), cluster.open().await).await;
    suite::mail_moves(cluster.open().await, Arc::new(MemoryEngine::new())).await;
}
