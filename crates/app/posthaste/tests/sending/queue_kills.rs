//! `kill -9` while the queue works for senders: refusals and the reports about them, redirects,
//! forwards. Every acknowledged message arrives, and a report is made once.
//!
//! Where a kill is to fall inside the server, each round waits a little longer before it. Whatever
//! it meets there, the outcome is the same.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const PASSWORD: &str = "correct horse";
const TIMEOUT: Duration = Duration::from_secs(60);

fn start(data: &Path, host: SocketAddr) -> Server {
    std::fs::create_dir_all(data).unwrap();
    let text = format!(
        "hostname = \"mail.a.test\"\ndomain = \"a.test\"\n[relay]\nenabled = true\nretry_first = \"1 s\"\n\
         retry_longest = \"1 s\"\nsrs = false\nroutes = [{{ domain = \"b.test\", host = \"{host}\" }}]\n"
    );
    ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .data(data)
        .settings(&data.join("settings.toml"), text)
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .start()
}

fn run(server: &Server, args: &[&str]) {
    let output = server.command(args, "");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn wait_until_queue_is_empty(server: &Server) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let listed = server.command(&["queue", "list"], "").stdout;
        if listed == b"0 items, 0 B\n" {
            return;
        }
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&listed));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Delivers a message, which the server acknowledges.
fn lmtp(server: &Server, from: &str, to: &str, subject: &str) {
    let mut client = LineClient::connect(server.address("lmtp")).unwrap();
    client.reply().unwrap();
    let text = format!("Subject: {subject}\r\n\r\nwords\r\n.");
    let commands = [&format!("MAIL FROM:<{from}>"), &format!("RCPT TO:<{to}>"), "DATA", text.as_str()];
    client.ask("LHLO test").unwrap();
    for command in commands {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
    }
}

/// Where a host stops and lets the other side be killed: what it was sent last.
const STEPS: [&str; 7] = ["connection", "EHLO", "MAIL", "RCPT", "DATA", "end", "answer"];

/// A host for `b.test` that refuses recipients whose name begins with `no`.
struct Host {
    address: SocketAddr,
    /// It has refused a recipient.
    refused: Receiver<()>,
    /// It has stopped.
    stopped: Receiver<()>,
    /// Messages that it has, with their senders.
    got: Receiver<(String, String)>,
}

impl Host {
    /// It stops once, at this step of a message without a sender.
    fn start(stop_at: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((refuse, refused), (stop, stopped), (give, got)) = (channel(), channel(), channel());
        std::thread::spawn(move || {
            let mut interruption = Interruption { stop_at, has_refused: false, refuse, stop, give };
            for connection in listener.incoming().map_while(Result::ok) {
                let _ = interruption.serve(connection);
            }
        });
        Self { address, refused, stopped, got }
    }
}

struct Interruption {
    stop_at: Option<&'static str>,
    /// From then on a connection may be the one that brings the report.
    has_refused: bool,
    refuse: Sender<()>,
    stop: Sender<()>,
    give: Sender<(String, String)>,
}

impl Interruption {
    fn pass(&mut self, here: &str, lines: &mut BufReader<TcpStream>) -> std::io::Result<()> {
        if self.has_refused && self.stop_at.is_some_and(|step| step == here) {
            self.stop_at = None;
            let _ = self.stop.send(());
            // Nothing more is answered: the client is killed now.
            let _ = std::io::copy(lines, &mut std::io::sink());
            return Err(std::io::Error::other("stopped"));
        }
        Ok(())
    }

    fn serve(&mut self, connection: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(connection.try_clone()?);
        let say = |text: &str| (&connection).write_all(text.as_bytes());
        self.pass("connection", &mut lines)?;
        say("220 mail.b.test ESMTP\r\n")?;
        let mut from = String::new();
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let verb = line.split([' ', '\r']).next().unwrap_or_default();
            self.pass(verb, &mut lines)?;
            match verb {
                "EHLO" => say("250-mail.b.test\r\n250 8BITMIME\r\n")?,
                "MAIL" => {
                    from = line;
                    say("250 ok\r\n")?;
                }
                "RCPT" if line.contains(":<no") => {
                    say("550 5.1.1 no such user\r\n")?;
                    self.has_refused = true;
                    let _ = self.refuse.send(());
                    // The report comes by a connection of its own.
                    return Ok(());
                }
                "DATA" => {
                    say("354 go on\r\n")?;
                    let mut message = Vec::new();
                    while !message.ends_with(b"\r\n.\r\n") {
                        lines.read_until(b'\n', &mut message)?;
                    }
                    self.pass("end", &mut lines)?;
                    let _ = self.give.send((from.clone(), String::from_utf8_lossy(&message).into_owned()));
                    say("250 ok\r\n")?;
                    self.pass("answer", &mut lines)?;
                }
                "QUIT" => return say("221 bye\r\n"),
                _ => say("250 ok\r\n")?,
            }
        }
    }
}

/// Message-IDs of the reports among some messages.
fn reports<'m>(messages: impl IntoIterator<Item = &'m String>) -> BTreeSet<&'m str> {
    let is_report = |message: &&String| message.contains("\r\nAction: failed\r\n");
    let id =
        |message: &'m String| message.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap();
    messages.into_iter().filter(is_report).map(id).collect()
}

#[test]
fn a_refusal_is_reported_once_to_a_sender_here() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(None);
    let mut server = start(dir.path(), host.address);
    server.add_account("ana@a.test", PASSWORD);
    server.add_account("cy@a.test", PASSWORD);
    run(&server, &["account", "set", "cy@a.test", "--forward", "no@b.test", "--no-copy"]);
    for round in 0..8 {
        lmtp(&server, "ana@a.test", "cy@a.test", "for nobody");
        host.refused.recv_timeout(TIMEOUT).unwrap();
        std::thread::sleep(Duration::from_millis(2 * round));
        server.kill();
        server = start(dir.path(), host.address);
        wait_until_queue_is_empty(&server);
        while host.refused.try_recv().is_ok() {}
        let count = usize::try_from(round).unwrap() + 1;
        let mail = server.mail("ana@a.test", PASSWORD, "INBOX", count);
        assert_eq!(mail.len(), count, "round {round}");
    }
    assert!(server.command(&["check"], "").status.success());
}

/// The report leaves as a message of its own, and the host stops at each step of it.
#[test]
fn a_report_is_made_once_and_arrives_wherever_the_kill_comes() {
    for step in STEPS {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::start(Some(step));
        let server = start(dir.path(), host.address);
        server.add_account("cy@a.test", PASSWORD);
        run(&server, &["account", "set", "cy@a.test", "--forward", "no@b.test", "--no-copy"]);
        lmtp(&server, "x@b.test", "cy@a.test", "for nobody");
        host.stopped.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("it never came to {step}"));
        server.kill();
        let server = start(dir.path(), host.address);
        wait_until_queue_is_empty(&server);
        let got: Vec<(String, String)> = host.got.try_iter().collect();
        assert!(got.iter().all(|(from, _)| from.starts_with("MAIL FROM:<>")), "{step}: {got:?}");
        assert_eq!(reports(got.iter().map(|(_, text)| text)).len(), 1, "{step}: {got:?}");
        // RFC 1047: the answer may have been on its way.
        assert!(got.len() == 1 || step == "answer" && got.len() == 2, "{step}: {got:?}");
    }
}

/// Every acknowledged message is in the mailbox once, and is sent on.
#[test]
fn redirects_and_forwards_survive_a_kill() {
    const ROUNDS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let host = Host::start(None);
    let mut server = start(dir.path(), host.address);
    for user in ["bo@a.test", "cy@a.test"] {
        server.add_account(user, PASSWORD);
    }
    run(&server, &["account", "set", "bo@a.test", "--forward", "forward@b.test"]);
    let script = "require \"copy\"; redirect :copy \"redirect@b.test\";";
    let put = server.command(&["sieve", "put", "--activate", "cy@a.test", "main", "-"], script);
    assert!(put.status.success());
    for round in 0..ROUNDS {
        for user in ["bo@a.test", "cy@a.test"] {
            lmtp(&server, "x@b.test", user, &format!("{user} {round}"));
        }
        std::thread::sleep(Duration::from_millis(3 * round as u64));
        server.kill();
        server = start(dir.path(), host.address);
    }
    wait_until_queue_is_empty(&server);
    let got: Vec<(String, String)> = host.got.try_iter().collect();
    for user in ["bo@a.test", "cy@a.test"] {
        let mail = server.mail(user, PASSWORD, "INBOX", ROUNDS);
        assert_eq!(mail.len(), ROUNDS, "{user}");
        for round in 0..ROUNDS {
            let subject = format!("\r\nSubject: {user} {round}\r\n");
            let here = mail.iter().filter(|text| String::from_utf8_lossy(text).contains(&subject)).count();
            let there = got.iter().filter(|(_, text)| text.contains(&subject)).count();
            // RFC 1047: only a kill after the host's answer sends it again. A message that waits
            // may meet each of the later kills.
            let most = 1 + ROUNDS - round;
            assert!(here == 1 && (1..=most).contains(&there), "{user} {round}: {here} here, {there} there");
        }
    }
    assert!(server.command(&["check"], "").status.success());
}
