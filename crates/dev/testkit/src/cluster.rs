//! The one switch by which tests run on a cluster: `POSTHASTE_TEST_ENGINE=cassandra://HOST:PORT`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// `HOST:PORT` of the cluster that tests shall run on; `None`: in memory, or the embedded engine.
/// Panics if it is another kind of address, so that nobody believes tests ran where they did not.
pub fn host() -> Option<String> {
    let url = std::env::var("POSTHASTE_TEST_ENGINE").ok().filter(|url| !url.is_empty())?;
    match url.strip_prefix("cassandra://") {
        Some(host) if !host.is_empty() && !host.contains('/') => Some(host.to_owned()),
        _ => {
            panic!("POSTHASTE_TEST_ENGINE is {url}; it should read cassandra://HOST:PORT, without a keyspace")
        }
    }
}

/// Where the keyspaces of tests keep their bodies, if `POSTHASTE_BODIES=s3://BUCKET` says so: a
/// prefix of its own for each.
pub fn bodies(keyspace: &str) -> Option<String> {
    let bucket = std::env::var("POSTHASTE_BODIES").ok().filter(|bucket| !bucket.is_empty())?;
    Some(format!("{bucket}/{keyspace}"))
}

/// Whether the tests run on a cluster.
pub fn on_cluster() -> bool {
    host().is_some()
}

/// Says that a test has nothing to try on a cluster, and why.
pub fn skips_cluster(why: &str) -> bool {
    let skips = on_cluster();
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

/// The address of the keyspace that keeps the mail of this data directory; `None` for the embedded
/// engine.
pub fn engine_of(binary: &Path, data: &Path) -> Option<String> {
    engine_args(binary, data).pop().and_then(|url| url.into_string().ok())
}

/// Data directories and the keyspaces that keep their mail.
static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// Lets a data directory have the keyspace of another's address.
pub(crate) fn share(data: &Path, engine: &str) {
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.insert(data.to_owned(), engine.to_owned());
}

/// Arguments by which the real binary keeps the mail of this data directory in a keyspace of its
/// own. The first call makes the keyspace. `None` for the embedded engine.
pub(crate) fn engine_args(binary: &Path, data: &Path) -> Vec<OsString> {
    let Some(host) = host() else { return Vec::new() };
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let url = known.entry(data.to_owned()).or_insert_with(|| {
        let keyspace = new_keyspace("app");
        let url = format!("cassandra://{host}/{keyspace}");
        let bodies = bodies(&keyspace).unwrap_or_else(|| "cassandra".to_owned());
        let made = Command::new(binary)
            .args(["engine", "init", "--replicas", "1", "--engine", &url, "--bodies", &bodies])
            .output()
            .unwrap_or_else(|e| panic!("{}: {e}", binary.display()));
        assert!(made.status.success(), "engine init: {}", String::from_utf8_lossy(&made.stderr));
        url
    });
    vec!["--engine".into(), url.clone().into()]
}
