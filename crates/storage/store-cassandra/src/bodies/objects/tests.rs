//! Against the library's own store in memory; `tests/cassandra/conformance.rs` does the same
//! against a real one.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use object_store::memory::InMemory;
use posthaste_property::properties;
use proptest::prelude::*;

use super::*;
use crate::options::s3::S3;

const COMMIT: Id = Id::new(7, 7);

fn body(n: u128) -> BodyId {
    BodyId(Id::new(1, n))
}

fn objects(store: &Arc<InMemory>, owner: u64) -> Objects {
    let storage = "s3://mail/a/b".parse().unwrap();
    Objects::new(Arc::clone(store) as Arc<dyn ObjectStore>, storage, "a/b", Id::new(owner, 0))
}

fn octets(len: usize) -> Bytes {
    (0..len).map(|n| (n / 251) as u8 ^ n as u8).collect::<Vec<_>>().into()
}

async fn names(store: &InMemory) -> Vec<String> {
    use futures_util::TryStreamExt;
    let all: Vec<_> = store.list(None).try_collect().await.unwrap();
    all.into_iter().map(|object| object.location.to_string()).collect()
}

#[tokio::test]
async fn bodies_come_back_whole_and_in_parts() {
    let objects = objects(&Arc::default(), 1);
    for len in [0, 1, 65_535, 65_536, 65_537, 300_000] {
        let bytes = octets(len);
        let description = objects.put(body(9), COMMIT, &bytes).await.unwrap();
        let description = Description::decode(body(9), &description.encode(body(9))).unwrap();
        let len = len as u64;
        for (start, end) in
            [(0, u64::MAX), (0, len), (0, 1), (65_530, 65_540), (len / 2, len / 2 + 9), (len, len), (9, 3)]
        {
            let read = objects.range(body(9), &description, start..end).await.unwrap();
            let (from, to) = (start.min(len), end.min(len).max(start.min(len)));
            assert_eq!(read, bytes.slice(from as usize..to as usize), "{start}..{end} of {len}");
        }
    }
}

#[tokio::test]
async fn names_are_spread_and_name_body_and_commit() {
    let store = Arc::default();
    objects(&store, 1).put(body(0x1ff), COMMIT, &octets(5)).await.unwrap();
    assert_eq!(names(&store).await, [format!("a/b/ff/{}-{COMMIT}", body(0x1ff))]);
}

#[tokio::test]
async fn altered_objects_are_not_served_but_others_are() {
    let store = Arc::default();
    let objects = objects(&store, 1);
    objects.claim().await.unwrap();
    let bytes = octets(200_000);
    let description = objects.put(body(1), COMMIT, &bytes).await.unwrap();
    let name = objects.name(body(1), COMMIT);
    let mut altered = bytes.to_vec();
    altered[100_000] ^= 1;
    store.put(&name, altered.into()).await.unwrap();
    let read = async |range| objects.range(body(1), &description, range).await;
    assert_eq!(read(0..65_536).await.unwrap(), bytes.slice(..65_536));
    assert!(matches!(read(65_536..65_537).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(read(0..u64::MAX).await, Err(StoreError::Corrupt(_))));
    // Another body's octets, of the same length and sound in themselves; then too few.
    let other = objects.put(body(2), COMMIT, &bytes).await.unwrap();
    assert_ne!(other.sums, description.sums);
    for wrong in [octets(200_001).slice(1..), octets(199_999)] {
        store.put(&name, wrong.into()).await.unwrap();
        assert!(matches!(
            read(131_072..u64::MAX).await,
            Err(StoreError::Corrupt(_)) | Err(StoreError::Unavailable(_))
        ));
    }
}

#[tokio::test]
async fn a_lost_object_is_damage_and_a_lost_store_is_not() {
    let store = Arc::default();
    let objects = objects(&store, 1);
    objects.claim().await.unwrap();
    let description = objects.put(body(1), COMMIT, &octets(5)).await.unwrap();
    objects.delete(body(1), COMMIT).await.unwrap();
    objects.delete(body(1), COMMIT).await.unwrap();
    let why = objects.range(body(1), &description, 0..9).await.unwrap_err();
    assert!(matches!(&why, StoreError::Corrupt(why) if why.contains("s3://mail/a/b")), "{why}");
    store.delete(&Path::from("a/b/posthaste")).await.unwrap();
    let why = objects.range(body(1), &description, 0..9).await.unwrap_err();
    assert!(matches!(&why, StoreError::Unavailable(why) if why.contains("endpoint")), "{why}");
}

#[tokio::test]
async fn two_keyspaces_in_one_place_are_noticed() {
    let store = Arc::default();
    let (one, two) = (objects(&store, 1), objects(&store, 2));
    assert!(one.verify_owner().await.is_err(), "nobody claimed it yet");
    one.claim().await.unwrap();
    one.claim().await.unwrap();
    one.verify_owner().await.unwrap();
    for refusal in [two.claim().await, two.verify_owner().await, two.verify_at_start().await] {
        assert!(refusal.unwrap_err().to_string().contains("another keyspace"));
    }
    one.verify_owner().await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_away_is_unavailable_and_soon_said_to_be() {
    // A port that nothing listens on: taken, and let go.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let s3 = S3 {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        access_key: Some(("id".into(), "secret".into())),
        allow_http: true,
        timeout: Duration::from_secs(2),
        ..S3::default()
    };
    let store = s3.open("mail").unwrap();
    let objects = Objects::new(store, "s3://mail".parse().unwrap(), "", Id::new(1, 1));
    let description = Description::new(body(1), COMMIT, &octets(9));
    for outcome in [
        objects.put(body(1), COMMIT, &octets(9)).await.map(drop),
        objects.range(body(1), &description, 0..9).await.map(drop),
        objects.delete(body(1), COMMIT).await,
        objects.verify_owner().await,
    ] {
        let why = outcome.unwrap_err();
        assert!(matches!(&why, StoreError::Unavailable(why) if why.starts_with("s3://mail: ")), "{why}");
        assert!(!why.to_string().contains("secret"), "{why}");
    }
    // A server starts without it, to find it there later.
    objects.verify_at_start().await.unwrap();
}

properties! {
    #[test]
    fn a_description_comes_back_and_damage_is_seen(len in 0usize..400_000, at in any::<prop::sample::Index>()) {
        let description = Description::new(body(1), COMMIT, &octets(len));
        let mut bytes = description.encode(body(1));
        prop_assert_eq!(Description::decode(body(1), &bytes), Some(description));
        prop_assert_eq!(Description::decode(body(2), &bytes), None);
        let at = at.index(bytes.len());
        bytes[at] ^= 0x20;
        prop_assert_eq!(Description::decode(body(1), &bytes), None);
    }
}
