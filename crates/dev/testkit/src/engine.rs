//! The engine that tests of protocols run on: in memory, or a real cluster if
//! `POSTHASTE_TEST_ENGINE` names one.
//!
//! `POSTHASTE_TEST_ENGINE=cassandra://HOST:PORT` (without a keyspace: it is made). Each test
//! process has one keyspace, since making one takes seconds. In it, each test has its own part of
//! the directory, and so its own `ana@example.org`. All else is found by ids that are never given
//! twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, MemoryEngine, Result};
use posthaste_store_cassandra::{CassandraEngine, Options, init};
use tokio::sync::OnceCell;

use crate::cluster;

/// The engine of one test.
pub struct TestEngine {
    /// The engine of the server under test.
    pub engine: Arc<dyn Engine>,
    /// The same if it is the one in memory, which a test can make forget things.
    pub memory: Option<Arc<MemoryEngine>>,
}

impl TestEngine {
    /// An empty one. Panics if the cluster that is named cannot be used.
    pub async fn new() -> Self {
        match cluster::host() {
            None => {
                let memory = Arc::new(MemoryEngine::new());
                Self { engine: memory.clone(), memory: Some(memory) }
            }
            Some(host) => Self { engine: Arc::new(Part::new(&host).await), memory: None },
        }
    }
}

/// The keyspace of this process.
static KEYSPACE: OnceCell<Options> = OnceCell::const_new();
static PARTS: AtomicU64 = AtomicU64::new(0);

/// A part of a keyspace: directory names get a prefix of its own.
struct Part {
    whole: CassandraEngine,
    prefix: String,
}

impl Part {
    async fn new(host: &str) -> Self {
        let options = KEYSPACE.get_or_init(|| async {
            let mut options = Options::new(vec![host.to_owned()], cluster::new_keyspace("wire"));
            let bodies = cluster::bodies(&options.keyspace).map(|bodies| bodies.parse());
            options.bodies = bodies.transpose().unwrap_or_else(|why| panic!("POSTHASTE_BODIES: {why}"));
            init(&options, 1).await.unwrap_or_else(|e| panic!("a keyspace at {host}: {e}"));
            options
        });
        let whole = CassandraEngine::open(options.await.clone()).await;
        let whole = whole.unwrap_or_else(|e| panic!("an engine at {host}: {e}"));
        Self { whole, prefix: format!("part{}/", PARTS.fetch_add(1, Ordering::Relaxed)) }
    }

    fn outside(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn inside(&self, entry: DirectoryEntry) -> DirectoryEntry {
        DirectoryEntry { name: self.inside_name(entry.name), ..entry }
    }

    fn inside_name(&self, name: String) -> String {
        name.strip_prefix(&self.prefix).map(str::to_owned).unwrap_or(name)
    }
}

#[async_trait]
impl Layer for Part {
    type Inner = CassandraEngine;

    fn inner(&self) -> &CassandraEngine {
        &self.whole
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(self.whole.directory_entry(&self.outside(name)).await?.map(|entry| self.inside(entry)))
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let (prefix, after) = (self.outside(prefix), after.map(|after| self.outside(after)));
        let found = self.whole.directory_scan_within(&prefix, after.as_deref(), limit, octets).await?;
        Ok(found.into_iter().map(|entry| self.inside(entry)).collect())
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let after = after.map(|after| self.outside(after));
        let found = self.whole.directory_names(&self.outside(prefix), after.as_deref(), limit).await?;
        Ok(found.into_iter().map(|name| self.inside_name(name)).collect())
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let name = self.outside(&change.name);
        self.whole.directory_commit(DirectoryChange { name, ..change }).await
    }
}
