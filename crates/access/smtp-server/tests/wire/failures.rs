//! Bad input, full stores, limits and the end of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_delivery::{Delivery, DeliveryError, ResolveError};
use posthaste_directory::Target;
use posthaste_filter::{Delivered, Envelope, Filter};
use posthaste_net::ByteBudget;
use posthaste_queue::{Envelope as Outgoing, Local, Missed, Queue, Relay};
use posthaste_smtp_server::{MailSink, RelayRefusal, Role};
use posthaste_store::StoreError;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::talk::{ANA, LONG, Server, Setup, Talk};

/// A store whose disk is full, and whose directory is not.
struct FullDisk(Delivery);

#[async_trait]
impl MailSink for FullDisk {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        if address.starts_with("away") {
            return Err(ResolveError::Directory(StoreError::Unavailable("database".into()).into()));
        }
        self.0.resolve(address).await.map(Target::Account)
    }

    async fn deliver(&self, _: Bytes, _: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered> {
        let full = || DeliveryError::from(StoreError::Unavailable("no space left on /secret".into()));
        recipients.iter().map(|_| Err(full().into())).collect()
    }

    fn message_len_max(&self) -> u64 {
        1 << 20
    }
}

#[tokio::test]
async fn a_full_disk_is_for_now() {
    let setup = Setup { sink: Some(|delivery| Arc::new(FullDisk(delivery))), ..Setup::new(Role::Lmtp) };
    let server = setup.start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: LHLO a.example
             S* 250-SIZE 1032192
             S: 250-…
             S: 250 HELP
             C: MAIL FROM:<>
             C: RCPT TO:<away@example.org>
             C: RCPT TO:<ana@example.org>
             C: RCPT TO:<ben@example.org>
             C: DATA
             S: 250 2.1.0 Sender taken
             S: 451 4.3.0 The directory is unavailable; try again later
             S: 250 2.1.5 Recipient taken
             S: 250 2.1.5 Recipient taken
             S: 354 …
             C: hello
             C: .
             S: 452 4.3.1 The mail store cannot take it now; try again later
             S: 452 4.3.1 The mail store cannot take it now; try again later
             C: QUIT
             S: 221 …",
        )
        .await;
}

/// After the message there is one reply for all, so who has no room is named before it.
#[tokio::test]
async fn a_full_mailbox_costs_the_other_recipients_no_second_copy() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: HELO a.example
             S: 250 …
             C: MAIL FROM:<> SIZE=120000
             C: RCPT TO:<ana@example.org>
             C: RCPT TO:<ben@example.org>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 452 4.2.2 The mailbox is full
             S: 354 …
             C: hello
             C: .
             S: 250 2.0.0 …
             C: MAIL FROM:<> SIZE=50000
             C: RCPT TO:<ben@example.org>
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             C: QUIT
             S: 221 …",
        )
        .await;
    assert_eq!(server.inbox("ana@example.org").await.len(), 1);
    assert!(server.inbox("ben@example.org").await.is_empty());
}

/// A script may keep nothing, so the room in its account is checked after the message and not
/// before.
#[tokio::test]
async fn an_account_with_a_script_is_not_full_before_the_message() {
    let sink: fn(Delivery) -> Arc<dyn MailSink> =
        |delivery| Arc::new(Filter::new(delivery, None, "mail.example.org"));
    let server = Setup { sink: Some(sink), ..Setup::new(Role::Smtp) }.start().await;
    let directory = server.delivery.directory();
    let ben = async || directory.account("ben@example.org").await.unwrap().unwrap();
    directory.scripts().put(&ben().await, "none", "discard;").await.unwrap();
    directory.scripts().put(&ben().await, "all", "keep;").await.unwrap();
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: HELO a.example\nS: 250 …").await;
    let rcpt = "C: MAIL FROM:<> SIZE=120000\nC: RCPT TO:<ben@example.org>\nS: 250 2.1.0 …";
    let text = [b"BDAT 120000 LAST\r\n".to_vec(), b"x".repeat(120_000)].concat();
    for (script, before, after) in [
        (None, "452 4.2.2 The mailbox is full", None),
        (Some("none"), "250 2.1.5 …", Some("250 2.0.0 Delivered, id …")),
        (Some("all"), "250 2.1.5 …", Some("452 4.2.2 The mailbox is full")),
        (None, "452 4.2.2 The mailbox is full", None),
    ] {
        directory.scripts().activate(&ben().await, script).await.unwrap();
        client.play(&format!("{rcpt}\nS: {before}")).await;
        if let Some(after) = after {
            client.send(&text).await;
            client.play(&format!("S: {after}")).await;
        }
        client.play("C: RSET\nS: 250 …").await;
    }
    assert!(server.inbox("ben@example.org").await.is_empty());
}

/// A store where ben's mailbox fails, and a queue that takes him over, or none.
struct BenFails<const HAS_QUEUE: bool>(Delivery);

#[async_trait]
impl<const HAS_QUEUE: bool> MailSink for BenFails<HAS_QUEUE> {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        self.0.resolve(address).await.map(Target::Account)
    }

    async fn deliver(&self, message: Bytes, envelope: Envelope<'_>, recipients: &[Target]) -> Vec<Delivered> {
        let mut outcomes = MailSink::deliver(&self.0, message, envelope, recipients).await;
        for (to, outcome) in recipients.iter().zip(&mut outcomes) {
            if to.name() == "ben@example.org" {
                *outcome = Err(DeliveryError::Busy.into());
            }
        }
        outcomes
    }

    fn relays(&self) -> bool {
        true
    }

    async fn take_over(
        &self,
        message: Bytes,
        envelope: &Outgoing,
        missed: Vec<Missed>,
        _: Local,
    ) -> Result<(), RelayRefusal> {
        let missed: Vec<_> = missed.iter().map(|one| one.to.address.as_str()).collect();
        assert_eq!(missed, ["ben@example.org"]);
        // Only a client that has logged in has an account.
        let from = envelope.from.as_str();
        let submitter = (from != "x@example.net").then_some("ana@example.org");
        assert_eq!(envelope.account.as_deref(), submitter, "{from}");
        assert!(message.starts_with(b"Received: "));
        match HAS_QUEUE {
            true => Ok(()),
            false => Err(DeliveryError::Busy.into()),
        }
    }

    fn message_len_max(&self) -> u64 {
        1 << 20
    }
}

async fn replies_for_ana_and_ben(sink: fn(Delivery) -> Arc<dyn MailSink>, reply: &str) {
    let server = Setup { sink: Some(sink), ..Setup::new(Role::Smtp) }.start().await;
    let mut client = server.connect().await;
    let to_ben = "C: MAIL FROM:<x@example.net>
         C: RCPT TO:<ben@example.org>
         C: BDAT 0 LAST
         S: 250 2.1.0 …
         S: 250 2.1.5 …
         S: 452 4.3.1 The mail store cannot take it now; try again later";
    let to_both = "C: MAIL FROM:<x@example.net>
         C: RCPT TO:<ben@example.org>
         C: RCPT TO:<ana@example.org>
         C: BDAT 0 LAST
         S: 250 2.1.0 …
         S: 250 2.1.5 …
         S: 250 2.1.5 …";
    client.play(&format!("S: 220 …\nC: HELO a.example\nS: 250 …\n{to_ben}\n{to_both}\nS: {reply}")).await;
    assert_eq!(server.inbox("ana@example.org").await.len(), 1);
}

/// The client must not send the message again to those who have it.
#[tokio::test]
async fn one_delivery_is_enough_if_a_queue_takes_the_other_recipients() {
    replies_for_ana_and_ben(|delivery| Arc::new(BenFails::<true>(delivery)), "250 2.0.0 Delivered, id …")
        .await;
    replies_for_ana_and_ben(|delivery| Arc::new(BenFails::<false>(delivery)), "452 4.3.1 …").await;
}

/// Copies that groups make of it later count for that account.
#[tokio::test]
async fn the_queue_learns_which_account_submitted_what_it_takes_over() {
    let sink = Some((|delivery| Arc::new(BenFails::<true>(delivery))) as fn(Delivery) -> Arc<dyn MailSink>);
    let server = Setup { sink, ..Setup::new(Role::Submission) }.start().await;
    let mut client = server.connect().await;
    let login = format!("S: 220 …\nC: EHLO a.example\nS* 250 HELP\nC: AUTH PLAIN {ANA}\nS: 235 …");
    client.play(&login).await;
    client
        .play(
            "C: MAIL FROM:<info@example.org>
             C: RCPT TO:<ben@example.org>
             C: RCPT TO:<ana@example.org>
             C: BDAT 0 LAST
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 250 2.1.5 …
             S: 250 2.0.0 Delivered, id …",
        )
        .await;
}

/// A way to other domains, where one message may wait.
fn with_a_queue_of_one(delivery: Delivery) -> Arc<dyn MailSink> {
    let host = "mail.example.org";
    let queue = block_in_place(|| Handle::current().block_on(Queue::open(delivery.clone()))).unwrap();
    let relay = Relay::new(queue, delivery.clone(), host);
    relay.set_items_max(1);
    Arc::new(Filter::new(delivery, Some(relay), host))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_for_now() {
    if posthaste_testkit::skips_cluster("all tests of a keyspace have one queue") {
        return;
    }
    let server = Setup { sink: Some(with_a_queue_of_one), ..Setup::new(Role::Submission) }.start().await;
    let mut client = server.connect().await;
    let login = format!("S: 220 …\nC: EHLO a.example\nS* 250 HELP\nC: AUTH PLAIN {ANA}\nS: 235 …");
    client.play(&login).await;
    for reply in ["250 2.0.0 Queued, id …", "452 4.3.1 Too many messages wait here; try again later"] {
        client
            .play(&format!(
                "C: MAIL FROM:<ana@example.org>
                 S: 250 2.1.0 …
                 C: RCPT TO:<bo@far.test>
                 S: 250 2.1.5 …
                 C: BDAT 0 LAST
                 S: {reply}"
            ))
            .await;
    }
}

#[tokio::test]
async fn sizes_are_bounded() {
    let mut setup = Setup::new(Role::Smtp);
    setup.options.message_size_max = 1000;
    let server = setup.start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: HELO a.example
             S: 250 …
             C: MAIL FROM:<> SIZE=1001
             S: 552 5.3.4 Message size exceeds the limit of 1000 octets
             C: MAIL FROM:<> SIZE=1000
             C: RCPT TO:<ana@example.org>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 354 …",
        )
        .await;
    client.send(&[b"x".repeat(999), b"\r\n.\r\n".to_vec()].concat()).await;
    client
        .play(
            "S: 552 5.3.4 Message size exceeds the limit
             C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             S: 250 2.1.0 …
             S: 250 2.1.5 …",
        )
        .await;
    client.send(&[b"BDAT 1001\r\n".to_vec(), b"x".repeat(1001), b"BDAT 1 LAST\r\ny".to_vec()].concat()).await;
    client
        .play(
            "S: 552 5.3.4 Message size exceeds the limit
             S: 552 5.3.4 Message size exceeds the limit
             C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 354 …",
        )
        .await;
    // The very limit is within it.
    client.send(&[b"x".repeat(998), b"\r\n.\r\nNOOP\r\n".to_vec()].concat()).await;
    client.play("S: 250 2.0.0 Delivered, id …\nS: 250 2.0.0 Nothing done").await;
    assert_eq!(server.only_message("ana@example.org").await.1.len(), 1000);
}

#[tokio::test]
async fn memory_is_bounded() {
    let setup = Setup { budget: Some(ByteBudget::new(100 * 1024)), ..Setup::new(Role::Smtp) };
    let server = setup.start().await;
    let mut client = server.connect().await;
    client
        .play(
            "S: 220 …
             C: HELO a.example
             S: 250 …
             C: MAIL FROM:<> SIZE=200000
             S: 452 4.3.1 …
             C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             C: DATA
             S: 250 2.1.0 …
             S: 250 2.1.5 …
             S: 354 …",
        )
        .await;
    client.send(&[b"x".repeat(300_000), b"\r\n.\r\n".to_vec()].concat()).await;
    client
        .play(
            "S: 452 4.3.1 Too many messages are arriving; try again later
             C: NOOP
             S: 250 2.0.0 Nothing done",
        )
        .await;
}

/// Twenty messages that nobody continues with hold nearly all the memory there is.
#[tokio::test]
async fn unfinished_messages_do_not_shut_others_out() {
    let budget = ByteBudget::new(22 << 20).with_pause_max(Duration::ZERO);
    let setup = Setup { budget: Some(budget.clone()), ..Setup::new(Role::Lmtp) };
    let server = setup.start().await;
    let mut unfinished = Vec::new();
    for _ in 0..20 {
        let before = budget.available();
        let mut client = at_data(&server).await;
        client.send(&b"x".repeat(700_000)).await;
        let deadline = Instant::now() + LONG;
        while before - budget.available() < 700_000 {
            assert!(Instant::now() < deadline, "{} bytes are free", budget.available());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        unfinished.push(client);
    }
    let mut client = at_data(&server).await;
    client.send(&[b"\r\n".to_vec(), b"x".repeat(3_000_000), b"\r\n.\r\n".to_vec()].concat()).await;
    client.play("S: 250 2.0.0 Delivered, id …").await;
    // A client whose memory was taken gets the error at the end of its message, and may continue.
    let mut refused = 0;
    for mut client in unfinished {
        client.send(b"\r\n.\r\nNOOP\r\n").await;
        refused += usize::from(client.line().await.starts_with("452 4.3.1 "));
        client.play("S: 250 2.0.0 Nothing done").await;
    }
    assert!(refused >= 1);
}

/// Between two chunks the server waits for no byte, and the message can still be evicted.
#[tokio::test]
async fn a_message_is_evicted_between_its_chunks() {
    let budget = ByteBudget::new(200_000).with_share_of_at_least(200_000).with_pause_max(Duration::ZERO);
    let mut setup = Setup { budget: Some(budget), ..Setup::new(Role::Lmtp) };
    setup.options.message_size_max = 180_000;
    let server = setup.start().await;
    let begun = "S: 220 …
             C: LHLO a.example
             C: MAIL FROM:<>
             C: RCPT TO:<ana@example.org>
             S* 250 HELP
             S: 250 2.1.0 …
             S: 250 2.1.5 …";
    let (mut silent, mut other) = (server.connect().await, server.connect().await);
    silent.play(begun).await;
    silent.send(&[b"BDAT 150000\r\n".to_vec(), b"x".repeat(150_000)].concat()).await;
    silent.play("S: 250 2.0.0 150000 octets received").await;
    other.play(begun).await;
    other.send(&[b"BDAT 150000 LAST\r\n".to_vec(), b"y".repeat(150_000)].concat()).await;
    other.play("S: 250 2.0.0 Delivered, id …").await;
    // The session has dropped its bytes. Otherwise it would deliver what no budget counts.
    silent.play("C: BDAT 0 LAST\nS: 452 4.3.1 Too many messages are arriving; try again later").await;
    let inbox = server.inbox("ana@example.org").await;
    assert!(inbox.len() == 1 && inbox[0].ends_with("yyy"));
}

/// A client that has said DATA and may continue.
async fn at_data(server: &Server) -> Talk<TcpStream> {
    let mut client = server.connect().await;
    client
        .play(
            "C: LHLO a.example
             C: MAIL FROM:<> SIZE=700000
             C: RCPT TO:<ana@example.org>
             C: DATA
             S: 220 …",
        )
        .await;
    while !client.line().await.starts_with("354 ") {}
    client
}

#[tokio::test]
async fn lines_that_are_invalid() {
    let mut setup = Setup::new(Role::Smtp);
    setup.options.errors_max = 5;
    let server = setup.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    client.send(b"NOOP\nNOOP\r\n").await;
    client.play("S: 500 5.5.2 …\nS: 250 2.0.0 Nothing done").await;
    client.send(b"NO\rOP\r\nNO\0OP\r\n\xff\r\n").await;
    client.play("S: 500 5.5.2 …\nS: 500 5.5.2 …\nS: 500 5.5.2 …").await;
    client.send(&[b"NOOP ".to_vec(), b"x".repeat(20_000), b"\r\nNOOP\r\n".to_vec()].concat()).await;
    client.play("S: 501 5.5.4 Syntax: the line is too long\nS: 250 2.0.0 Nothing done").await;
    client.play("C: FROB\nS: 421 4.7.0 Too many errors").await;
    client.ends().await;
}

/// A web page can make a browser request a target that is longer than any line of a command, with
/// commands in the body.
#[tokio::test]
async fn a_browser_with_a_long_target_is_not_obeyed() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    let target = b"x".repeat(20_000);
    let body = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\nLHLO a.example\r\n";
    client.send(&[&b"POST /"[..], &target, body].concat()).await;
    client.play("S: 421 4.7.0 This is a mail server").await;
    client.ends().await;
}

#[tokio::test]
async fn a_line_without_end_is_not_read_for_ever() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …").await;
    client.send(&b"x".repeat(200_000)).await;
    client.ends().await;
}

#[tokio::test]
async fn silence_ends_the_session() {
    let mut setup = Setup::new(Role::Smtp);
    setup.options.command_within = Duration::from_millis(10);
    let server = setup.start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nS: 421 4.4.2 Idle for too long").await;
    client.ends().await;
}

#[tokio::test]
async fn a_chunk_beyond_all_measure_ends_the_session() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: BDAT 99999999999999999999 LAST\nS: 503 5.5.1 …\nS: 421 4.7.0 …").await;
    client.ends().await;
}

#[tokio::test]
async fn the_server_says_goodbye() {
    let server = Setup::new(Role::Smtp).start().await;
    let mut client = server.connect().await;
    client.play("S: 220 …\nC: HELO a.example\nS: 250 …").await;
    server.trigger.request();
    client.play("S: 421 4.3.2 The server is shutting down; try again later").await;
    client.ends().await;
}

#[tokio::test]
async fn a_message_in_flight_is_finished_first() {
    let server = Setup::new(Role::Lmtp).start().await;
    let mut client = server.connect().await;
    client.send(b"LHLO a.example\r\nMAIL FROM:<>\r\nRCPT TO:<ana@example.org>\r\nDATA\r\n").await;
    while !client.line().await.starts_with("354 ") {}
    server.trigger.request();
    client
        .play(
            "C: hello
             C: .
             S: 250 2.0.0 Delivered, id …
             S: 421 4.3.2 The server is shutting down; try again later",
        )
        .await;
    assert_eq!(server.only_message("ana@example.org").await.1, "hello\r\n");
}
