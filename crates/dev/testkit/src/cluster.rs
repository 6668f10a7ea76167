//! The one switch by which tests run on a cluster: `POSTHASTE_TEST_ENGINE=cassandra://HOST:PORT`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// `HOST:PORT` of the cluster that tests shall run on; `None`: in memory, or the embedded engine. Panics if it is another kind of
/// address, so that nobody believes tests ran where they did not.
pub fn host() -> Option<String> {
    let url = std::env::var("POSTHASTE_TEST_ENGINE").ok().filter(|url| !url.is_empty())?;
    match url.strip_prefix("cassandra://") {
        Some(host) if !host.is_empty() && !host.contains('/') => Some(host.to_owned()),
        _ => {
            panic!("POSTHASTE_TEST_ENGINE is {url}; it should read cassandra://HOST:PORT, without a keyspace")
        }
    }
}

/// Says that a test has nothing to try on a cluster, and why.
pub fn skips_cluster(why: &str) -> bool {
    let skips = host().is_some();
    if skips {
        eprintln!("SKIPPED on a cluster: {why}");
    }
    skips
}

/// A name for a keyspace that no other process and no other call gets.
pub fn new_keyspace(what: &str) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    format!("{what}_{ms}_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed))
}

/// Arguments by which the real binary keeps the mail of this data directory in a keyspace of its own, made when it is first
/// asked for. None for the embedded engine.
pub(crate) fn engine_args(binary: &Path, data: &Path) -> Vec<OsString> {
    static KNOWN: Mutex<Option<HashSet<(PathBuf, String)>>> = Mutex::new(None);
    let Some(host) = host() else { return Vec::new() };
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let keyspace = match known.iter().find(|(path, _)| path == data) {
        Some((_, keyspace)) => keyspace.clone(),
        None => {
            let keyspace = new_keyspace("app");
            let url = format!("cassandra://{host}/{keyspace}");
            let made = Command::new(binary)
                .args(["engine", "init", "--replicas", "1", "--engine", &url])
                .output()
                .unwrap_or_else(|e| panic!("{}: {e}", binary.display()));
            assert!(made.status.success(), "engine init: {}", String::from_utf8_lossy(&made.stderr));
            known.insert((data.to_owned(), keyspace.clone()));
            keyspace
        }
    };
    vec!["--engine".into(), format!("cassandra://{host}/{keyspace}").into()]
}
