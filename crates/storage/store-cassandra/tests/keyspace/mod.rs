//! Engines on one keyspace, for the suite.

use std::sync::Arc;

use posthaste_store::Engine;
use posthaste_store::suite::Factory;
use posthaste_store_cassandra::{CassandraEngine, Options};

/// Each engine a connection of its own, as on a node of its own.
pub struct Keyspace(pub Options);

#[async_trait::async_trait]
impl Factory for Keyspace {
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
