//! Changes by another process, and sessions that begin to wait for changes.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;
use crate::engine::Epoch;

/// Counts how often its epoch is read.
struct Polled {
    inner: MemoryEngine,
    polls: AtomicU32,
}

impl Layer for Polled {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    fn epoch(&self) -> Epoch {
        self.polls.fetch_add(1, Ordering::SeqCst);
        self.inner.epoch()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_polled_until_a_session_waits_and_no_change_is_missed() {
    const PAUSE: Duration = Duration::from_millis(75);
    let memory = MemoryEngine::new();
    let elsewhere = Store::new(Arc::new(memory.another_process()), StoreOptions::default());
    let engine = Arc::new(Polled { inner: memory, polls: AtomicU32::new(0) });
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let mailbox = filled(&store, 2).await;
    let polling = store.clone();
    let polling = tokio::spawn(async move { polling.watch_foreign(PAUSE).await });
    sleep(PAUSE).await;
    for uid in [1, 2] {
        let polls = engine.polls.load(Ordering::SeqCst);
        sleep(PAUSE * 100).await;
        assert_eq!(engine.polls.load(Ordering::SeqCst), polls, "nobody waits");
        let seen = mailbox.view();
        // Before the session waits: the next poll reports it.
        elsewhere.open(mailbox.id()).await.unwrap().remove(&set(&[(uid, uid)])).await.unwrap();
        let mut watch = mailbox.watch();
        let view = timeout(PAUSE * 2, watch.changed(&seen)).await.expect("a report").unwrap();
        assert_eq!(view.exists(), 2 - uid);
    }
    polling.abort();
}
