//! POP3 together with IMAP, with other sessions of POP3, and around a crash.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_directory::{Before, Keeping, NewValue, OnConflict, Scope};
use posthaste_mail_model::{AccountId, NumSet};
use posthaste_store::suite::layer::Layer;
use posthaste_store::suite::new_id;
use posthaste_store::{CommitOutcome, Engine, MailboxCommit, MemoryEngine, Result, StoreError};

use crate::talk::{Setup, USER, server};

const ONE: &str = "Subject: 1\r\n\r\none\r\n";
const TWO: &str = "Subject: 2\r\n\r\ntwo\r\n";
const THREE: &str = "Subject: 3\r\n\r\nthree\r\n";

#[tokio::test]
async fn a_message_expunged_meanwhile_keeps_its_number_and_cannot_be_read() {
    let server = server(&[ONE, TWO, THREE]).await;
    let mut client = server.logged_in().await;
    server.expunge(2).await;
    client
        .play(
            "C: STAT
             S: +OK 3 59
             C: LIST 2
             S: +OK 2 19
             C: RETR 2
             S: -ERR The message was removed in another session
             C: TOP 2 0
             S: -ERR The message was removed in another session
             C: RETR 3
             S: +OK 21 octets
             S: Subject: 3
             S: …
             S: three
             S: .
             C: DELE 2
             S: +OK Removed at QUIT
             C: DELE 3
             S: +OK Removed at QUIT
             C: QUIT
             S: +OK Removed. Goodbye",
        )
        .await;
    client.ends().await;
    assert_eq!(server.uids().await, [1]);
}

#[tokio::test]
async fn new_mail_waits_for_the_next_session() {
    let server = server(&[ONE]).await;
    let mut client = server.logged_in().await;
    server.append(&[TWO]).await;
    client
        .play("C: STAT\nS: +OK 1 19\nC: RETR 2\nS: -ERR There is no such message\nC: DELE 1\nS: +OK …")
        .await;
    client.play("C: QUIT\nS: +OK Removed. Goodbye").await;
    assert_eq!(server.uids().await, [2]);
    let mut client = server.logged_in().await;
    client.play("C: LIST\nS: +OK 1 messages (19 octets)\nS: 1 19\nS: .").await;
}

#[tokio::test]
async fn two_sessions_at_once_remove_what_each_named() {
    let server = server(&[ONE, TWO, THREE]).await;
    let (mut ana, mut again) = (server.logged_in().await, server.logged_in().await);
    ana.play("C: DELE 1\nS: +OK …\nC: DELE 2\nS: +OK …").await;
    // The other session knows nothing of these marks.
    again.play("C: STAT\nS: +OK 3 59\nC: DELE 2\nS: +OK …").await;
    ana.play("C: QUIT\nS: +OK Removed. Goodbye").await;
    again.play("C: RETR 1\nS: -ERR The message was removed …\nC: LIST 3\nS: +OK 3 21").await;
    again.play("C: QUIT\nS: +OK Removed. Goodbye").await;
    assert_eq!(server.uids().await, [3]);
}

#[tokio::test]
async fn an_idle_imap_session_learns_of_one_change_at_quit() {
    let server = server(&[ONE, TWO, THREE]).await;
    let inbox = server.inbox().await;
    let (mut watch, before) = (inbox.watch(), inbox.view());
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK …\nC: DELE 3\nS: +OK …").await;
    assert_eq!(inbox.view().modseq(), before.modseq(), "DELE changes nothing");
    client.play("C: QUIT\nS: +OK …").await;
    let after = watch.changed(&before).await.unwrap();
    assert_eq!(after.uids_of_seqs(&after.all()), NumSet::range(2, 2));
    assert_eq!(after.modseq(), before.modseq().next(), "one commit removed both");
}

#[tokio::test]
async fn a_session_without_quit_removes_nothing() {
    let server = server(&[ONE, TWO]).await;
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK Removed at QUIT").await;
    drop(client);
    let mut client = server.logged_in().await;
    client.play("C: STAT\nS: +OK 2 38\nC: DELE 2\nS: +OK …").await;
    server.trigger.request();
    client.play("S: -ERR [SYS/TEMP] The server is shutting down, try again later").await;
    client.ends().await;
    assert_eq!(server.uids().await, [1, 2]);
}

/// An engine in whose commits something happens once a test says so.
struct Failing {
    inner: Arc<MemoryEngine>,
    /// Commits and never answers, as a process that is killed between the two.
    dies_after_commit: AtomicBool,
    refuses: AtomicBool,
    committed: tokio::sync::Notify,
}

#[async_trait]
impl Layer for Failing {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("/secret/path failed".to_owned()));
        }
        let outcome = self.inner.commit(commit).await;
        if self.dies_after_commit.load(Ordering::Relaxed) {
            self.committed.notify_one();
            std::future::pending::<()>().await;
        }
        outcome
    }
}

async fn failing() -> (Arc<Failing>, crate::talk::Server) {
    let inner = Arc::new(MemoryEngine::new());
    let server = Setup { new_on: Some(inner.clone()), ..Setup::default() }.start().await;
    server.append(&[ONE, TWO, THREE]).await;
    let engine = Arc::new(Failing {
        inner,
        dies_after_commit: AtomicBool::new(false),
        refuses: AtomicBool::new(false),
        committed: tokio::sync::Notify::new(),
    });
    let server = Setup { engine: Some(engine.clone() as Arc<dyn Engine>), ..Setup::default() }.start().await;
    (engine, server)
}

#[tokio::test]
async fn a_message_that_cannot_be_removed_is_reported_and_stays() {
    let (engine, server) = failing().await;
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK …\nC: DELE 2\nS: +OK …").await;
    engine.refuses.store(true, Ordering::Relaxed);
    client.play("C: QUIT\nS: -ERR [SYS/TEMP] Storage is unavailable, try again later").await;
    client.ends().await;
    assert_eq!(server.uids().await, [1, 2, 3]);
}

/// The process ends between the commit of QUIT and its answer: all messages are deleted, and the
/// next process gives the rest the same ids.
#[tokio::test]
async fn a_crash_between_the_commit_and_its_answer() {
    let (engine, server) = failing().await;
    let mut client = server.logged_in().await;
    client.play("C: UIDL 2\nS: +OK …\nC: DELE 1\nS: +OK …\nC: DELE 3\nS: +OK …").await;
    engine.dies_after_commit.store(true, Ordering::Relaxed);
    client.send(b"QUIT\r\n").await;
    crate::talk::within(engine.committed.notified()).await;
    let next =
        Setup { engine: Some(engine.inner.clone() as Arc<dyn Engine>), ..Setup::default() }.start().await;
    assert_eq!(next.uids().await, [2]);
    let mut client = next.logged_in().await;
    client.play("C: LIST\nS: +OK 1 messages (19 octets)\nS: 1 19\nS: .").await;
    let mut found = 0;
    let inbox = next.inbox().await;
    let mut visit = |_: posthaste_store::Stored<'_>| {
        found += 1;
        ControlFlow::Continue(())
    };
    let _ = inbox.summaries(&NumSet::range(1, 3), &mut visit).await.unwrap();
    assert_eq!(found, 1);
}

/// Annotations (RFC 5257) of a message that is removed at QUIT are removed with it, also those of a
/// user who reads the INBOX.
#[tokio::test]
async fn annotations_of_removed_messages_are_forgotten() {
    let server = server(&[ONE, TWO]).await;
    let (directory, mailbox) = (server.delivery.directory(), server.inbox().await.id());
    let owner = directory.account(USER).await.unwrap().unwrap().id;
    let reader = AccountId(new_id());
    let of = |keeper| Keeping { keeper, owner, mailbox };
    for keeper in [owner, reader] {
        let new = |value: &'static [u8]| NewValue {
            scope: Scope::Private,
            entry: "/comment".to_owned(),
            value: Some(Bytes::from_static(value)),
        };
        let values = vec![(1, [new(b"one")].into()), (2, [new(b"two")].into())];
        let before = Before::of_new_messages(of(keeper));
        directory.message_annotations().set(&before, values, OnConflict::Follow).await.unwrap();
    }
    let mut client = server.logged_in().await;
    client.play("C: DELE 1\nS: +OK …\nC: QUIT\nS: +OK Removed. Goodbye").await;
    client.ends().await;
    for keeper in [owner, reader] {
        let all = directory.message_annotations().all(of(keeper)).await.unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [2]);
    }
}
