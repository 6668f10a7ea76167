//! A copy that leaves out what its source cannot read, and is run again.

use std::path::Path;

use posthaste_store::{Compare, Engine, LeftOut, Transfer};
use posthaste_store_lmdb::LmdbEngine;

use crate::world::{World, body, flip, records, small};

const BODY: u8 = 1;

fn words(left_out: &[LeftOut]) -> Vec<(String, String, String)> {
    let of = |one: &LeftOut| (one.mailbox.clone(), one.unreadable.to_string(), one.passed.to_string());
    left_out.iter().map(of).collect()
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_files(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

/// A source that was set back to an earlier state has new mail under UIDs that the copy has come
/// past. It can be read, and nobody may say that it cannot.
#[tokio::test]
async fn new_mail_of_a_source_that_was_set_back_is_not_called_unreadable() {
    let (from, back, to) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = LmdbEngine::open(to.path(), small()).unwrap();
    let mut world = World::new();
    let account = world.list.account;
    let source = LmdbEngine::open(from.path(), small()).unwrap();
    let inbox = world.create(&source, "INBOX").await.unwrap();
    world.append(&source, inbox, &[body(0, 900)]).await.unwrap();
    source.close();
    copy_files(from.path(), back.path());
    let source = LmdbEngine::open(from.path(), small()).unwrap();
    let mut later = world.clone();
    later.append(&source, inbox, &[body(1, 900)]).await.unwrap();
    later.expunge(&source, inbox, &[2]).await.unwrap();
    Transfer::new(&source, &target).leaving_out_damage().copy(account, &mut |_| {}).await.unwrap();
    source.close();
    let earlier = LmdbEngine::open(back.path(), small()).unwrap();
    world.append(&earlier, inbox, &[body(2, 900)]).await.unwrap();
    let transfer = Transfer::new(&earlier, &target).leaving_out_damage();
    transfer.copy(account, &mut |_| {}).await.unwrap();
    let left_out = transfer.left_out(account).await.unwrap();
    assert_eq!(words(&left_out), [("INBOX".to_owned(), String::new(), "2".to_owned())]);
}

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
    // The last run finds the messages readable again, and leaves them out anyway.
    for run in 0..3 {
        if run == 2 {
            damage();
        }
        let transfer = Transfer::new(&source, &target).leaving_out_damage();
        transfer.copy(account, &mut |_| {}).await.unwrap();
        assert_eq!(transfer.audit(account, Compare::All, &mut |_| {}).await.unwrap(), [""; 0]);
        let left_out = transfer.left_out(account).await.unwrap();
        let (unreadable, passed) = if run == 2 { ("", "3,5") } else { ("3,5", "") };
        assert_eq!(words(&left_out), [("INBOX".to_owned(), unreadable.to_owned(), passed.to_owned())]);
        let heads = target.heads(&[inbox]).await.unwrap();
        let head = heads[0].as_ref().unwrap();
        assert_eq!((head.counts.messages, head.uid_next.value()), (4, 7));
    }
}
