//! Commands on many messages: their memory, their rounds, and the end of those that wait.

#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use posthaste_delivery::Usage;
use posthaste_directory::{Account, NewAccount};
use posthaste_mail_model::{MailboxId, MailboxName, Secret};
use posthaste_net::{Accounts, ByteBudget, Connection, Holder, LoginEnd, Shutdown, ShutdownTrigger, Stream};
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    CommitOutcome, Engine, IncomingMessage, MailboxCommit, MailboxHead, MemoryEngine, StoreError,
};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

use crate::connection;
use crate::endings::REVOKED;
use crate::service::ImapService;
use crate::session::{Next, Session};
use crate::size_tests::service_summarizing_on;

/// Memory of the budget in most tests: one commit may change 2,048 messages.
const BUDGET: usize = 1 << 20;

/// Octets of a message whose summary is made on another thread, in memory of the budget.
const LONG: usize = (64 << 10) + 1;

/// An account with messages in INBOX.
struct World {
    service: Arc<ImapService>,
    ana: Account,
    inbox: MailboxId,
}

/// A session with INBOX selected, and its client.
struct Client {
    session: Box<Session>,
    socket: DuplexStream,
    _trigger: ShutdownTrigger,
}

impl World {
    async fn new(budget: usize, messages: usize) -> Self {
        Self::on(Arc::new(MemoryEngine::new()), budget, messages).await
    }

    async fn on(engine: Arc<dyn Engine>, budget: usize, messages: usize) -> Self {
        let service = Arc::new(service_summarizing_on(engine, ByteBudget::new(budget)));
        let password = Secret::new("correct horse".to_owned());
        let ana = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        service.delivery.mailboxes(&ana).await.unwrap();
        let inbox = service.store.list(ana.id).await.unwrap().find(&MailboxName::inbox()).unwrap().id;
        let message = || IncomingMessage {
            bytes: Bytes::from_static(b"x"),
            summary: Bytes::from_static(b"summary"),
            body: service.store.new_body_id(),
            flags: Vec::new(),
            date: 1,
            saved: None,
        };
        let all = std::iter::repeat_with(message).take(messages).collect();
        service.store.destination(inbox).append(all).await.unwrap();
        Self { service, ana, inbox }
    }

    async fn client(&self) -> Client {
        let (trigger, shutdown) = Shutdown::new();
        let (socket, server) = tokio::io::duplex(1 << 20);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection::new(Stream::over(server, address(40_000), address(143)));
        let mut session = Box::new(Session::on(Arc::clone(&self.service), connection, shutdown));
        session.login = Some(Arc::new(self.ana.clone()));
        let mut client = Client { session, socket, _trigger: trigger };
        client.run("SELECT INBOX").await;
        client
    }

    /// A client whose login ends once this says so.
    async fn client_until(&self) -> (Client, watch::Sender<bool>) {
        let (mut client, (login, ended)) = (self.client().await, watch::channel(false));
        let share = Accounts::default().admit(self.ana.limited(), IpAddr::from([127, 0, 0, 1])).unwrap();
        client.session.wire.belongs_to(share, LoginEnd::new(ended));
        (client, login)
    }

    async fn head(&self) -> MailboxHead {
        self.service.store.status(&[self.inbox]).await.unwrap()[0].clone().unwrap()
    }
}

impl Client {
    async fn run(&mut self, command: &str) {
        let bytes = Bytes::from(format!("a {command}\r\n"));
        connection::one_command(&mut self.session, bytes).await.unwrap();
        self.is_done(command);
    }

    fn is_done(&mut self, command: &str) {
        let said = String::from_utf8_lossy(self.session.wire.out()).into_owned();
        assert!(said.contains("a OK"), "{command}: {said}");
        self.session.wire.out().clear();
    }

    /// The login has ended: the client learns it, and has no other answer.
    fn is_ended(&mut self, next: Next, command: &str) {
        let said = String::from_utf8_lossy(self.session.wire.out()).into_owned();
        assert_eq!((next, said), (Next::Close, format!("* BYE {REVOKED}\r\n")), "{command:.40}");
    }

    /// Runs a command while others hold memory of the budget. Whether it waited for that.
    async fn waits_for<T>(&mut self, held: T, command: &str) -> bool {
        let (mut held, mut polls) = (Some(held), 0);
        {
            let bytes = Bytes::from(format!("a {command}\r\n"));
            let mut running = pin!(connection::one_command(&mut self.session, bytes));
            loop {
                if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await {
                    done.unwrap();
                    break;
                }
                polls += 1;
                // More than it needs.
                if polls == 1000 {
                    held = None;
                }
                tokio::task::yield_now().await;
            }
        }
        self.is_done(command);
        held.is_none()
    }
}

/// STORE and EXPUNGE took memory from no budget.
#[tokio::test]
async fn flags_and_expunges_of_many_messages_wait_for_memory() {
    let world = World::new(BUDGET, 2000).await;
    let mut client = world.client().await;
    let budget = world.service.delivery.summaries();
    for (command, is_large) in [
        ("STORE 1:1000 +FLAGS.SILENT (\\Seen)", false),
        ("STORE 1:* +FLAGS.SILENT (\\Deleted)", true),
        ("UID EXPUNGE 1:900", false),
        ("EXPUNGE", true),
    ] {
        let others = budget.begin(Holder::Account([0; 16]));
        others.grow_to(BUDGET).unwrap();
        others.complete();
        assert_eq!(client.waits_for(others, command).await, is_large, "{command}");
        assert_eq!(budget.available(), BUDGET, "{command}");
    }
    assert_eq!(world.head().await.counts.messages, 0);
}

#[tokio::test]
async fn more_messages_than_one_commit_may_take_are_changed_in_rounds() {
    let world = World::new(BUDGET, 5000).await;
    assert_eq!(world.service.changed_max(), 2048);
    let mut client = world.client().await;
    let before = world.head().await.modseq.value();
    client.run("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    let stored = world.head().await;
    assert_eq!((stored.counts.deleted, stored.modseq.value()), (5000, before + 3));
    client.run("STORE 1:* (UNCHANGEDSINCE 1) +FLAGS.SILENT (\\Seen)").await;
    assert_eq!(world.head().await.counts.unseen, 5000);
    client.run("EXPUNGE").await;
    let expunged = world.head().await;
    assert_eq!((expunged.counts.messages, expunged.modseq.value()), (0, before + 6));
    assert_eq!(client.session.selected.as_ref().unwrap().announced.exists(), 0);
    assert_eq!(world.service.delivery.summaries().available(), BUDGET);
}

/// They waited 30 s for their turn, whether the client was there or not.
#[tokio::test]
async fn a_command_that_waits_for_its_turn_ends_with_its_client() {
    let world = World::new(8 << 20, 2000).await;
    world.client().await.run("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    let turn = world.service.copies.acquire(world.ana.id).await.unwrap();
    for command in [
        "COPY 1:* INBOX",
        "MOVE 1:* INBOX",
        "RENAME INBOX x",
        "STORE 1:* +FLAGS (\\Seen)",
        "EXPUNGE",
        "UID EXPUNGE 1:*",
        "CLOSE",
    ] {
        let Client { mut session, socket, _trigger } = world.client().await;
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let mut running = Box::pin(connection::one_command(&mut session, bytes));
        for _ in 0..100 {
            let polled = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "{command}");
            tokio::task::yield_now().await;
        }
        drop(socket);
        assert!(running.await.is_err(), "{command}");
    }
    drop(turn);
    let counts = world.head().await.counts;
    assert_eq!((counts.messages, counts.unseen, counts.deleted), (2000, 2000, 2000));
}

/// They were given no answer, and an APPEND or a REPLACE was done.
#[tokio::test]
async fn a_command_that_waits_ends_with_its_login() {
    const BUDGET: usize = 8 << 20;
    let world = World::new(BUDGET, 2000).await;
    world.client().await.run("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    let turn = world.service.copies.acquire(world.ana.id).await.unwrap();
    let others = world.service.delivery.summaries().begin(Holder::Account([0; 16]));
    others.grow_to(BUDGET).unwrap();
    others.complete();
    let message = format!("{{{LONG}+}}\r\n{}", "x".repeat(LONG));
    for command in [
        "COPY 1:* INBOX",
        "RENAME INBOX x",
        "STORE 1:* +FLAGS (\\Seen)",
        "EXPUNGE",
        &format!("APPEND INBOX {message}"),
        &format!("APPEND INBOX CATENATE (TEXT {message})"),
        &format!("REPLACE 1 INBOX {message}"),
    ] {
        let (mut client, login) = world.client_until().await;
        let next = {
            let bytes = Bytes::from(format!("a {command}\r\n"));
            let mut running = Box::pin(connection::one_command(&mut client.session, bytes));
            for _ in 0..100 {
                let polled = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
                assert!(polled.is_pending(), "{command:.40}");
                tokio::task::yield_now().await;
            }
            login.send_replace(true);
            running.await.unwrap()
        };
        client.is_ended(next, command);
    }
    drop((turn, others));
    let counts = world.head().await.counts;
    assert_eq!((counts.messages, counts.unseen, counts.deleted), (2000, 2000, 2000));
}

/// An engine that ends a login with the next commit to a mailbox.
struct Ending {
    inner: MemoryEngine,
    login: Mutex<Option<watch::Sender<bool>>>,
}

#[async_trait::async_trait]
impl Layer for Ending {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome, StoreError> {
        let outcome = self.inner.commit(commit).await;
        if let Some(login) = self.login.lock().unwrap().take() {
            login.send_replace(true);
        }
        outcome
    }
}

/// All further rounds were made, each a commit of its own.
#[tokio::test]
async fn no_round_begins_after_the_end_of_the_login() {
    let engine = Arc::new(Ending { inner: MemoryEngine::new(), login: Mutex::default() });
    let world = World::on(Arc::clone(&engine) as Arc<dyn Engine>, BUDGET, 9000).await;
    let run = async |command: &str| {
        let (mut client, login) = world.client_until().await;
        *engine.login.lock().unwrap() = Some(login);
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let next = connection::one_command(&mut client.session, bytes).await.unwrap();
        client.is_ended(next, command);
        world.head().await.counts
    };
    let round = 2048;
    assert_eq!(run("STORE 1:* +FLAGS.SILENT (\\Seen)").await.unseen, 9000 - round);
    world.client().await.run("STORE 1:* +FLAGS.SILENT (\\Deleted)").await;
    for (rounds, command) in (1..).zip(["EXPUNGE", "UID EXPUNGE 1:*", "CLOSE"]) {
        assert_eq!(run(command).await.messages, 9000 - rounds * round, "{command}");
    }
}

/// One that came with the end of the login was stored.
#[tokio::test]
async fn no_append_begins_after_the_end_of_the_login() {
    let world = World::new(BUDGET, 1).await;
    for command in ["APPEND INBOX {1+}\r\nx", "REPLACE 1 INBOX {1+}\r\nx"] {
        let (mut client, login) = world.client_until().await;
        login.send_replace(true);
        let bytes = Bytes::from(format!("a {command}\r\n"));
        let next = connection::one_command(&mut client.session, bytes).await.unwrap();
        client.is_ended(next, command);
    }
    assert_eq!(world.head().await.uid_next.value(), 2);
}

/// Its memory and its turn were there, but it waited for quota, and was made after that.
#[tokio::test]
async fn no_copy_begins_after_the_end_of_the_login() {
    let world = World::new(BUDGET, 2).await;
    let (mut client, login) = world.client_until().await;
    let mut ana = world.ana.clone();
    ana.quota_messages = Some(3);
    client.session.login = Some(Arc::new(ana.clone()));
    // Another message is on its way, and there is no room beside it.
    let usage = Usage { bytes: 1, messages: 1 };
    let other = world.service.delivery.reserve_quota(&ana, usage).await.unwrap();
    let next = {
        let bytes = Bytes::from_static(b"a COPY 1 INBOX\r\n");
        let mut running = Box::pin(connection::one_command(&mut client.session, bytes));
        for _ in 0..100 {
            let polled = poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
        login.send_replace(true);
        drop(other);
        running.await.unwrap()
    };
    client.is_ended(next, "COPY 1 INBOX");
    assert_eq!(world.head().await.counts.messages, 2);
}

/// A client that has sent all its commands may close its sending side. A long message was dropped,
/// and there was no answer.
#[tokio::test]
async fn a_message_is_stored_for_a_client_that_sends_nothing_more() {
    const BUDGET: usize = 8 << 20;
    let world = World::new(BUDGET, 1).await;
    let message = format!("{{{LONG}+}}\r\n{}", "x".repeat(LONG));
    for command in [format!("APPEND INBOX {message}"), format!("REPLACE 1 INBOX {message}")] {
        let mut client = world.client().await;
        client.socket.shutdown().await.unwrap();
        let others = world.service.delivery.summaries().begin(Holder::Account([0; 16]));
        others.grow_to(BUDGET).unwrap();
        others.complete();
        assert!(client.waits_for(others, &command).await, "{command:.40}");
    }
    assert_eq!(world.head().await.uid_next.value(), 4);
}
