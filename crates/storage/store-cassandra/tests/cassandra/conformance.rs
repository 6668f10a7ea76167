//! The contract every engine keeps, on this one, against a real Cassandra.
//!
//! `scripts/cassandra start` starts one, `eval "$(scripts/cassandra env)"` names it to the test.
//! Without a name the test does nothing, and says so.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::MemoryEngine;
use posthaste_store::suite::{self, Factory};
use posthaste_store_cassandra::{CassandraEngine, Options, init, upgrade};
use scylla::client::session_builder::SessionBuilder;

use crate::keyspace::Keyspace;

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds() {
    let Ok(host) = std::env::var("POSTHASTE_CASSANDRA") else {
        eprintln!(
            "SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; scripts/cassandra env)"
        );
        return;
    };
    // A keyspace of its own: the suite may be run again on a cluster that exists.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut options = Options::new(vec![host.clone()], format!("suite_{now}"));
    // Bodies in a prefix of their own, if there is an object store (scripts/s3 start; scripts/s3
    // env).
    if let Some(bucket) = std::env::var("POSTHASTE_BODIES").ok().filter(|bucket| !bucket.is_empty()) {
        options.bodies = Some(format!("{bucket}/{}", options.keyspace).parse().expect("POSTHASTE_BODIES"));
    }
    // Nothing else runs, and what is swept shall be swept now.
    options.sweep_after = Duration::ZERO;
    options.sweep_every = Duration::ZERO;
    init(&options, 1).await.expect("a keyspace");
    init(&options, 1).await.expect("a keyspace that is there already");
    versions(&host, &options).await;
    let cluster = Keyspace(options);
    suite::run_all(&cluster).await;
    // At the end, every test checks the whole store.
    suite::mail_moves(Arc::new(MemoryEngine::new()), cluster.open().await).await;
    suite::mail_moves(cluster.open().await, Arc::new(MemoryEngine::new())).await;
}

/// An upgrade does nothing to tables of the present version, and converts older ones. Everyone
/// refuses tables of a later version.
async fn versions(host: &str, options: &Options) {
    let (had, has) = upgrade(options).await.expect("an upgrade");
    assert_eq!(had, has);
    let session = SessionBuilder::new().known_node(host).build().await.expect("a session");
    let set = async |version: i32| {
        let note =
            format!("INSERT INTO {}.meta (name, value) VALUES ('version', {version})", options.keyspace);
        session.query_unpaged(note, ()).await.expect("a version set");
    };
    if options.bodies.is_none() {
        // As the first version made them: every body in Cassandra, and nothing said about it.
        for table in ["setting", "lease"] {
            let drop = format!("DROP TABLE {}.{table}", options.keyspace);
            session.query_unpaged(drop, ()).await.expect("dropped");
        }
        for table in ["summary", "body", "bodyref", "list", "meta"] {
            let alter = format!("ALTER TABLE {}.{table} WITH gc_grace_seconds = 86400", options.keyspace);
            session.query_unpaged(alter, ()).await.expect("altered");
        }
        let alter = format!("ALTER TABLE {}.summary DROP created", options.keyspace);
        session.query_unpaged(alter, ()).await.expect("dropped");
        set(1).await;
        let refusal = CassandraEngine::open(options.clone()).await.map(drop);
        let why = refusal.expect_err("tables of an earlier version were accepted").to_string();
        assert!(why.contains("engine upgrade"), "{why}");
        assert_eq!(upgrade(options).await.expect("an upgrade"), (1, has));
        assert_eq!(upgrade(options).await.expect("an upgrade"), (has, has));
        CassandraEngine::open(options.clone()).await.expect("an engine on upgraded tables");
    }
    // In new tables and in upgraded ones, nothing that was removed comes back with a node that was
    // away for days.
    let graces = "SELECT table_name, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ?";
    let graces = session.query_unpaged(graces, (&options.keyspace,)).await.expect("tables");
    let graces = graces.into_rows_result().expect("rows");
    let graces = graces.rows::<(String, i32)>().expect("columns").map(|row| row.expect("a table"));
    let graces: Vec<(String, i32)> = graces.collect();
    assert_eq!(graces.len(), 9, "{graces:?}");
    assert!(graces.iter().all(|(_, seconds)| *seconds == 864_000), "{graces:?}");
    set(has + 1).await;
    let refusals = [
        upgrade(options).await.map(drop),
        init(options, 1).await,
        CassandraEngine::open(options.clone()).await.map(drop),
    ];
    for refusal in refusals {
        let why = refusal.expect_err("tables of a later version were accepted").to_string();
        assert!(why.contains("later Posthaste"), "{why}");
    }
    set(has).await;
    let nowhere = Options { keyspace: "nowhere".into(), ..options.clone() };
    let why = upgrade(&nowhere).await.expect_err("there is nothing to upgrade").to_string();
    assert!(why.contains("engine init"), "{why}");
}
