//! What waits costs nothing: calls of the engine are counted while hours go by.
//!
//! The clock of the runtime moves to the next deadline when nothing can be done, and the queue's
//! clock with it: no test waits.

use super::*;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Result};
use std::sync::atomic::AtomicU64;

/// Counts what the queue reads and writes.
struct Counting {
    inner: MemoryEngine,
    calls: AtomicU64,
}

#[async_trait]
impl Layer for Counting {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.directory_entry(name).await
    }

    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.directory_scan(prefix, after, limit).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.directory_commit(change).await
    }
}

/// A host that is never there.
struct Dead;

#[async_trait]
impl Transport for Dead {
    async fn connect(&self, _: &Destination) -> std::result::Result<Box<dyn Channel>, Unreachable> {
        Err(Unreachable(Failure::temporary("4.4.1", "no answer")))
    }
}

/// Calls of the engine in the hours that are given, each from its first to its last one, while so
/// many messages wait for a dead destination.
async fn calls(items: u32, spans: &[(u64, u64)]) -> Vec<u64> {
    let engine = Arc::new(Counting { inner: MemoryEngine::new(), calls: AtomicU64::new(0) });
    let world = World::of(Arc::clone(&engine) as Arc<dyn Engine>).await;
    // Without a sender nobody gets reports.
    let first = world.accept("", &["bo@dead.test"]).await.remove(0);
    let record = engine.inner.directory_entry(&crate::item::name(first.id)).await.unwrap().unwrap();
    for id in 1..items {
        let name = crate::item::name(first.id + id);
        let change = DirectoryChange { name, expected: 0, value: Some(record.value.clone()) };
        assert_eq!(engine.inner.directory_commit(change).await.unwrap(), CommitOutcome::Done);
    }
    let begin = tokio::time::Instant::now();
    let clock: Clock = Arc::new(move || START + i64::try_from(begin.elapsed().as_secs()).unwrap());
    let runner =
        Runner::new(world.relay.clone(), Arc::new(Dead), RetryTimes::default(), clock, None, BODIES_BYTES);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(runner.run(async move {
        let _ = stopped.await;
    }));
    let mut counts = Vec::new();
    let hours = |hours: u64| begin + std::time::Duration::from_secs(hours * 3_600 + 1);
    for (from, to) in spans {
        tokio::time::sleep_until(hours(*from)).await;
        let before = engine.calls.load(Ordering::SeqCst);
        tokio::time::sleep_until(hours(*to)).await;
        counts.push(engine.calls.load(Ordering::SeqCst) - before);
    }
    let _ = stop.send(());
    task.await.unwrap();
    counts
}

/// Before senders get a report that their messages are late, and after.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_messages_cost_what_one_costs() {
    let spans = [(0, 1), (1, 3), (14, 30)];
    let few = calls(1, &spans).await;
    assert_eq!(calls(100_000, &spans).await, few);
    // A look each two seconds, and some calls for each attempt to connect.
    assert!(few[1] <= 2 * 3_600 / 2 + 40, "{few:?}");
}
