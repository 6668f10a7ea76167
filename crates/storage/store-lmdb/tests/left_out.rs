//! A copy that leaves out what its source cannot read, and is run again.

#![allow(clippy::unwrap_used)]

mod world;

use posthaste_store::{Compare, Engine, Transfer};
use posthaste_store_lmdb::LmdbEngine;

use world::{World, body, flip, records, small};

const BODY: u8 = 1;

#[tokio::test]
async fn a_copy_that_was_cut_off_is_continued_past_what_cannot_be_read() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let engine = LmdbEngine::open(from.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for n in 0..6 {
        world.append(&engine, inbox, &[body(n, 900)]).await.unwrap();
    }
    engine.close();
    let account = world.list.account;
    let bodies = records(from.path(), BODY);
    let damage = || [2, 4].map(|n: usize| flip(&bodies[n].0, bodies[n].1 + 200));
    damage();
    let source = LmdbEngine::open(from.path(), small()).unwrap();
    let target = LmdbEngine::open(to.path(), small()).unwrap();
    let whole = Transfer::new(&source, &target);
    assert!(whole.copy(account, &mut |_| {}).await.unwrap_err().is_damage());
    // The last run finds the messages readable again, and leaves them out all the same.
    for run in 0..3 {
        if run == 2 {
            damage();
        }
        let transfer = Transfer::new(&source, &target).leaving_out_damage();
        transfer.copy(account, &mut |_| {}).await.unwrap();
        assert_eq!(transfer.audit(account, Compare::All, &mut |_| {}).await.unwrap(), [""; 0]);
        let left_out = transfer.left_out(account).await.unwrap();
        assert_eq!(left_out.len(), 1, "{left_out:?}");
        assert_eq!((left_out[0].0.as_str(), left_out[0].1.to_string().as_str()), ("INBOX", "3,5"));
        let heads = target.heads(&[inbox]).await.unwrap();
        let head = heads[0].as_ref().unwrap();
        assert_eq!((head.counts.messages, head.uid_next.value()), (4, 7));
    }
}
