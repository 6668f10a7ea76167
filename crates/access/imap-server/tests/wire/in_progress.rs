//! INPROGRESS: RFC 9585.

use std::sync::Arc;
use std::time::Duration;

use posthaste_imap_server::{ImapOptions, ImapService, ProgressTimes};
use posthaste_mail_model::{BodyId, MailboxId};
use posthaste_net::ByteBudget;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    BodyRange, CommitOutcome, Engine, ListCommit, MailboxCommit, MailboxHead, Result, Row,
};
use tokio::sync::watch;

use crate::harness::{Server, searches};

/// Reports progress once, as soon as a command waits for something.
fn talkative_options() -> ImapOptions {
    let times = ProgressTimes { first: Duration::ZERO, every: Duration::from_secs(3600) };
    ImapOptions { progress: times, ..ImapOptions::default() }
}

fn talkative() -> Server {
    Server::start_with(talkative_options())
}

/// An engine that reads and changes mailboxes only while it is open.
struct Gate {
    engine: Arc<dyn Engine>,
    is_open: watch::Sender<bool>,
}

impl Gate {
    /// A server that reports progress once, on an engine with a gate that is open.
    fn server() -> (Server, Arc<Self>) {
        let mut gate = None;
        let wrap = |engine| {
            let made = Arc::new(Self { engine, is_open: watch::Sender::new(true) });
            gate = Some(Arc::clone(&made));
            made as Arc<dyn Engine>
        };
        let service =
            |delivery| ImapService::new(talkative_options(), delivery, None, ByteBudget::new(256 << 20));
        let server = Server::start_on(wrap, service);
        (server, gate.expect("a gate"))
    }

    fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    async fn pass(&self) {
        let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
    }
}

#[async_trait::async_trait]
impl Layer for Gate {
    type Inner = dyn Engine;

    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.pass().await;
        self.engine.commit_list(commit).await
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.pass().await;
        self.engine.load(mailbox, rows).await
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.pass().await;
        self.engine.commit(commit).await
    }

    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.pass().await;
        self.engine.commit_pair(pair).await
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<bytes::Bytes> {
        self.pass().await;
        self.engine.read_body(body, range).await
    }
}

/// RFC 9585 §3: "SHOULD NOT be quiet for too long". Each command here waits for the store.
#[test]
fn commands_that_take_long_say_that_they_are_going_on() {
    let (server, gate) = Gate::server();
    server.with_messages(3);
    for name in ["One", "Two", "Three", "Four"] {
        server.login().run(&format!("C: a CREATE {name}\nS: a OK …"));
        server.put(name, b"x");
    }
    let mut wire = server.select("INBOX");
    wire.send(
        b"g GENURLAUTH \"imap://ana%40example.org@localhost/INBOX/;UID=3;URLAUTH=authuser\" INTERNAL\r\n",
    );
    let url = wire.expect("* GENURLAUTH …").split_off("* GENURLAUTH ".len());
    wire.run("S: g OK …");
    for command in [
        "STATUS One (RECENT)",
        "LIST \"\" Two RETURN (STATUS (RECENT))",
        "FETCH 1 BODY[]",
        "STORE 1 ANNOTATION (/comment (value.priv \"x\"))",
        "APPEND INBOX {1+}\r\nx",
        "REPLACE 1 INBOX {1+}\r\nx",
        &format!("URLFETCH {url}"),
        "STORE 1 +FLAGS.SILENT (\\Deleted)",
        "CLOSE",
        "SELECT Three",
        "DELETE Four",
    ] {
        gate.set_open(false);
        wire.send(format!("a {command}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        gate.set_open(true);
        wire.skip_to("a OK …");
    }
}

#[test]
fn a_search_that_takes_long_says_how_far_it_is() {
    let server = talkative();
    // Texts of this size are searched on another thread, so that the session waits.
    let large = format!("Subject: large\r\n\r\n{}\r\n", "All work and no play.\r\n".repeat(200_000));
    for _ in 0..2 {
        server.put("INBOX", large.as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: c CAPABILITY\nS: * CAPABILITY … INPROGRESS …\nS: c OK …");
    wire.send(b"a1 SEARCH BODY \"a word that is nowhere\"\r\n");
    let lines = wire.skip_to("a1 OK …");
    let [report, found, _] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(found, "* SEARCH");
    // Nothing is known before the messages to read were counted.
    let known = ["NIL NIL", "0 2", "1 2"].map(|known| format!("* OK [INPROGRESS (\"a1\" {known})] Working"));
    assert!(known.contains(report), "{report}");
    // RFC 9585 §4: such a tag would end the response code. A page may need any number of messages.
    wire.send(b"a]2 SEARCH BODY nowhere\r\nb SEARCH RETURN (PARTIAL 1:2) BODY nowhere\r\n");
    let lines = wire.skip_to("a]2 OK …");
    assert!(lines[0].starts_with("* OK [INPROGRESS (NIL "), "{lines:?}");
    let lines = wire.skip_to("b OK …");
    assert!(lines[0].ends_with(" NIL)] Working"), "{lines:?}");
}

#[test]
fn a_command_that_is_quick_says_nothing() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    searches(&mut wire, &[("BODY nothing", ""), ("ALL", "1 2 3")]);
    wire.run("C: b SORT (SUBJECT) UTF-8 ALL\nS: * SORT 1 2 3\nS: b OK …");
}
