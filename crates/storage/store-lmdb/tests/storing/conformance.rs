//! The contract every engine keeps, on this one.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthaste_store::Engine;
use posthaste_store::suite::{self, Factory};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options};
use tempfile::TempDir;

/// A data directory for each engine, found by the engine's address.
#[derive(Default)]
struct Directories {
    dirs: Mutex<HashMap<usize, TempDir>>,
    /// Whether they are opened as a server does.
    serving: bool,
}

impl Directories {
    fn options(&self) -> Options {
        let usual = Options::new(|bytes| bytes.to_vec());
        // One kind links the smallest copies, the other makes the usual difference.
        let links_from = if self.serving { usual.links_from } else { 2 };
        // Packs that fill up within a test.
        Options { map_bytes: 4 << 30, pack_bytes: 256 << 10, links_from, ..usual }
    }

    fn open_in(&self, dir: TempDir) -> Arc<dyn Engine> {
        let engine = if self.serving {
            let lock = EngineLock::acquire(dir.path()).expect("nobody else's directory");
            LmdbEngine::serve(Arc::new(lock), self.options())
        } else {
            LmdbEngine::open(dir.path(), self.options())
        };
        let engine = engine.expect("an engine in an empty directory");
        let engine: Arc<dyn Engine> = Arc::new(engine);
        self.dirs.lock().insert(Arc::as_ptr(&engine).cast::<()>() as usize, dir);
        engine
    }
}

#[async_trait]
impl Factory for Directories {
    async fn open(&self) -> Arc<dyn Engine> {
        self.open_in(tempfile::tempdir().expect("a directory"))
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        let at = Arc::as_ptr(&engine).cast::<()>() as usize;
        let dir = self.dirs.lock().remove(&at).expect("an engine of this factory");
        assert_eq!(Arc::strong_count(&engine), 1, "someone still holds the engine");
        drop(engine);
        self.open_in(dir)
    }

    fn random_steps(&self) -> usize {
        300
    }

    fn seeds(&self) -> Vec<u64> {
        (1..=4).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds() {
    suite::run_all(&Directories::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_for_a_server() {
    suite::run_all(&Directories { serving: true, ..Directories::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_moves_from_one_directory_to_another() {
    let directories = Directories::default();
    suite::mail_moves(directories.open().await, directories.open().await).await;
}
