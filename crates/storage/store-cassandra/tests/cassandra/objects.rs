//! Bodies in a real S3-compatible store: `scripts/s3 start`, `eval "$(scripts/s3 env)"`, and a
//! Cassandra beside it. The two together; the engines' whole contract is in `conformance.rs`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use posthaste_mail_model::{BodyId, Id, MailboxId};
use posthaste_store::StoreError;
use posthaste_store::suite::{self, World};
use posthaste_store_cassandra::{CassandraEngine, Options, init};
use scylla::client::session_builder::SessionBuilder;

use crate::keyspace::Keyspace;

/// Host of the database, and the bucket; `None` if one of them is not there.
fn offered() -> Option<(String, String)> {
    let of = |name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        if value.is_none() {
            eprintln!("SKIPPED: {name} is not set (scripts/cassandra and scripts/s3, each: start; env)");
        }
        value
    };
    Some((of("POSTHASTE_CASSANDRA")?, of("POSTHASTE_BODIES")?))
}

/// A new keyspace that keeps its bodies in a prefix of its own; `sweep_after` as given.
async fn keyspace(host: &str, bucket: &str, what: &str, sweep_after: Duration) -> Options {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    let mut options = Options::new(vec![host.to_owned()], format!("{what}_{ms}"));
    options.bodies = Some(format!("{bucket}/{}", options.keyspace).parse().expect("a storage"));
    options.sweep_after = sweep_after;
    options.sweep_every = Duration::ZERO;
    init(&options, 1).await.expect("a keyspace");
    options
}

fn store(bucket: &str) -> impl ObjectStore {
    let name = bucket.strip_prefix("s3://").expect("s3://BUCKET");
    AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_disable_bulk_delete(true)
        .build()
        .expect("a client")
}

async fn names(store: &impl ObjectStore, prefix: &str) -> Vec<String> {
    use futures_util::TryStreamExt;
    let all: Vec<_> = store.list(Some(&Path::from(prefix))).try_collect().await.expect("a list");
    all.into_iter().map(|object| object.location.to_string()).collect()
}

fn id() -> Id {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("randomness");
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
    Id::new(ms as u64, u128::from_le_bytes(random))
}

/// Makes the state of a server that dies between the object and the commit: a reference, an object,
/// no description.
async fn die_before_the_commit(
    host: &str,
    keyspace: &str,
    mailbox: MailboxId,
    store: &impl ObjectStore,
) -> Path {
    let (body, commit) = (BodyId(id()), id());
    let session = SessionBuilder::new().known_node(host).build().await.expect("a session");
    let statement =
        format!("INSERT INTO {keyspace}.bodyref (body, mailbox, uid, commit) VALUES (?, ?, 1, ?)");
    let [of_body, of_mailbox, of_commit] = [body.0, mailbox.0, commit].map(|id| id.to_bytes().to_vec());
    session.query_unpaged(statement, (of_body, of_mailbox, of_commit)).await.expect("a reference");
    let [.., last] = body.0.to_bytes();
    let name = Path::from(format!("{keyspace}/{last:02x}/{body}-{commit}"));
    store.put(&name, vec![b'x'; 1000].into()).await.expect("an object");
    name
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_go_with_the_last_message_that_had_them() {
    let Some((host, bucket)) = offered() else { return };
    let options = keyspace(&host, &bucket, "objects", Duration::ZERO).await;
    let (keyspace, store) = (options.keyspace.clone(), store(&bucket));
    let world = World::new(&Keyspace(options.clone())).await;
    let (mut folder, mut other) = (world.folder().await, world.folder().await);
    folder.commit(folder.appending(&[100, 70_000, 0])).await;
    other.commit_copies(other.copying(&folder, &folder.uids()), &folder).await;
    let left = die_before_the_commit(&host, &keyspace, folder.id, &store).await;
    assert_eq!(names(&store, &keyspace).await.len(), 5, "three bodies, what the dead left, the marker");
    // The dead one's goes, the others stay as long as anybody has them.
    folder.commit(folder.expunging(&folder.uids())).await;
    suite::maintain(&*world.engine).await;
    assert!(!names(&store, &keyspace).await.contains(&left.to_string()));
    other.verify().await;
    world.check().await;
    other.commit(other.expunging(&other.uids())).await;
    suite::maintain(&*world.engine).await;
    assert_eq!(names(&store, &keyspace).await, [format!("{keyspace}/posthaste")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_running_commits_stay() {
    let Some((host, bucket)) = offered() else { return };
    let options = keyspace(&host, &bucket, "young", Duration::from_secs(3600)).await;
    let (keyspace, store) = (options.keyspace.clone(), store(&bucket));
    let world = World::new(&Keyspace(options)).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[100])).await;
    folder.commit(folder.expunging(&folder.uids())).await;
    die_before_the_commit(&host, &keyspace, folder.id, &store).await;
    let before = names(&store, &keyspace).await;
    suite::maintain(&*world.engine).await;
    assert_eq!(names(&store, &keyspace).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_knows_where_its_bodies_are() {
    let Some((host, bucket)) = offered() else { return };
    let options = keyspace(&host, &bucket, "storage", Duration::ZERO).await;
    let storage = options.bodies.clone().expect("a storage");
    let with_bodies = |bodies: Option<&str>| {
        let bodies = bodies.map(|bodies| bodies.parse().expect("a storage"));
        Options { bodies, ..options.clone() }
    };
    CassandraEngine::open(with_bodies(None)).await.expect("as it was made");
    init(&with_bodies(None), 1).await.expect("as it was made");
    let elsewhere = format!("{storage}-2");
    for other in ["cassandra", &elsewhere] {
        for refusal in [
            CassandraEngine::open(with_bodies(Some(other))).await.map(drop),
            init(&with_bodies(Some(other)), 1).await,
        ] {
            let why = refusal.expect_err("another storage was accepted").to_string();
            assert!(why.contains(&storage.to_string()) && why.contains(other), "{why}");
        }
    }
    // The storage of another keyspace cannot be taken.
    let mut second = Options::new(vec![host], format!("{}_b", options.keyspace));
    second.bodies = Some(storage);
    let why = init(&second, 1).await.expect_err("two keyspaces in one storage").to_string();
    assert!(why.contains("another keyspace"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_object_is_found_by_the_check() {
    let Some((host, bucket)) = offered() else { return };
    let options = keyspace(&host, &bucket, "lost", Duration::ZERO).await;
    let (keyspace, store) = (options.keyspace.clone(), store(&bucket));
    let world = World::new(&Keyspace(options)).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[100, 200])).await;
    world.check().await;
    let names = names(&store, &keyspace).await;
    let lost = names.iter().find(|name| !name.ends_with("/posthaste")).expect("a body");
    store.delete(&Path::from(lost.as_str())).await.expect("deleted");
    let report = world.engine.check(&mut |_| {}).await.expect("a report");
    assert!(matches!(&report.faults[..], [fault] if fault.contains(lost)), "{:?}", report.faults);
    let body = folder.kept.values().map(|kept| kept.body).find(|body| lost.contains(&body.to_string()));
    let read = world.engine.read_body(body.expect("its body"), 0..9).await;
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
}
