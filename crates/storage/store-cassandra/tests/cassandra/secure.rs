//! Encrypted connections and logins, against a real Cassandra.
//!
//! `scripts/cassandra start` offers encryption, `scripts/cassandra start --login` also requires a
//! login. These tests learn it from the environment that `scripts/cassandra env` prints. A test
//! whose server is not offered prints that it is skipped.

use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_store::{Engine, StoreError};
use posthaste_store_cassandra::{CassandraEngine, Options, init};

fn offered(name: &str) -> Option<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        eprintln!("SKIPPED: {name} is not set (scripts/cassandra start; scripts/cassandra env)");
    }
    value
}

/// Host and the login before it, if the cluster requires one.
fn host() -> Option<String> {
    let host = offered("POSTHASTE_CASSANDRA")?;
    let login = std::env::var("POSTHASTE_CASSANDRA_LOGIN").ok().filter(|login| !login.is_empty());
    Some(login.map_or(host.clone(), |login| format!("{login}@{host}")))
}

fn options(host: &str, rest: &str) -> Options {
    let url = format!("cassandra://{host}/{rest}");
    Options::from_url(&url).unwrap_or_else(|why| panic!("{why}"))
}

fn keyspace(what: &str) -> String {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    format!("{what}_{ms}")
}

async fn refusal(options: Options) -> String {
    match CassandraEngine::open(options).await {
        Err(StoreError::Unavailable(why)) => why,
        Err(other) => panic!("another kind of error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_encrypted_and_nodes_known() {
    let (Some(host), Some(ca)) = (host(), offered("POSTHASTE_CASSANDRA_CA")) else { return };
    let keyspace = keyspace("tls");
    let encrypted = options(&host, &format!("{keyspace}?tls=yes&ca={ca}"));
    init(&encrypted, 1).await.expect("a keyspace made over TLS");
    let engine = CassandraEngine::open(encrypted).await.expect("an engine over TLS");
    assert_eq!(engine.directory_entry("nobody").await.expect("an answer"), None);
    // Another authority: not this node's.
    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), stranger.cert.pem()).expect("written");
    let why = refusal(options(&host, &format!("{keyspace}?tls=yes&ca={}", file.path().display()))).await;
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_login_is_refused_and_a_right_one_let_in() {
    let (Some(host), Some(login)) = (offered("POSTHASTE_CASSANDRA"), offered("POSTHASTE_CASSANDRA_LOGIN"))
    else {
        return;
    };
    let keyspace = keyspace("login");
    let right = options(&format!("{login}@{host}"), &keyspace);
    init(&right, 1).await.expect("a keyspace made with a login");
    CassandraEngine::open(right).await.expect("an engine with a login");
    for (who, word) in [("cassandra:wrong@", "user"), ("", "user")] {
        let why = refusal(options(&format!("{who}{host}"), &keyspace)).await;
        assert!(why.to_lowercase().contains(word) && !why.contains("wrong@"), "{why}");
    }
}
