//! Mail to other domains, seen from the outside. Two servers send to each other, and a host fails
//! at each step. There are kills, the administrator's commands, and everybody who may not relay.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, dot_stuffed, free_port, message_by, skips_cluster};

use crate::relaying::{PASSWORD, PLAIN, relaying, route};

mod hosts;

/// How long mail may take before a test gives up: far longer than it needs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The message that ana submits.
fn message(serial: usize) -> Vec<u8> {
    message_by("Ana <ana@a.test>", serial)
}

/// A server for one domain, which sends mail for another to an address.
fn server(data: &Path, domain: &str, smtp: SocketAddr, other: &str, host: SocketAddr) -> Server {
    start(data, domain, smtp, &route(other, host))
}

/// A server for one domain that relays and soon tries again, with more settings of `[relay]`.
fn start(data: &Path, domain: &str, smtp: SocketAddr, relay: &str) -> Server {
    relaying(data, domain, smtp, &format!("retry_longest = \"1 s\"\n{relay}"))
}

/// The server of `a.test`, with ana, that sends mail for `b.test` to an address.
fn a_test(data: &Path, host: SocketAddr) -> Server {
    let server = server(data, "a.test", free_port(), "b.test", host);
    if !server.greeting().is_empty() {
        server.add_account("ana@a.test", PASSWORD);
    }
    server
}

/// The reports that ana has, as text.
fn reports(a: &Server, count: usize) -> Vec<String> {
    inbox(a, "ana@a.test", count).into_iter().map(|report| String::from_utf8(report).unwrap()).collect()
}

fn logged_in(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("submission")).unwrap();
    client.reply().unwrap();
    client.ask("EHLO client.test").unwrap();
    assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
    client
}

/// Hands a message in as ana, for these recipients.
fn submit(client: &mut LineClient, to: &[&str], message: &[u8]) {
    let reply = client.hand_in("ana@a.test", to, message).unwrap();
    assert!(reply.starts_with("250 2.0.0 Queued, id "), "{reply}");
}

/// Waits until a user's INBOX has this many messages, and returns them.
fn inbox(server: &Server, user: &str, count: usize) -> Vec<Vec<u8>> {
    server.mail(user, PASSWORD, "INBOX", count)
}

/// The output of `posthaste queue list`, a line each.
fn queue(server: &Server) -> Vec<String> {
    let output = server.command(&["queue", "list"], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn wait_until_queue_is_empty(server: &Server) {
    let deadline = Instant::now() + TIMEOUT;
    while queue(server) != ["0 items, 0 B"] {
        assert!(Instant::now() < deadline, "{:?}", queue(server));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_servers_exchange_mail_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    let (smtp_a, smtp_b) = (free_port(), free_port());
    let a = server(&dir.path().join("a"), "a.test", smtp_a, "b.test", smtp_b);
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", smtp_a);
    a.add_account("ana@a.test", PASSWORD);
    b.add_account("bo@b.test", PASSWORD);
    let mut client = logged_in(&a);
    let texts: Vec<Vec<u8>> =
        (0..20).map(message).chain([b"Subject: dots\r\n\r\n.\r\n..x\r\n.".to_vec()]).collect();
    for text in &texts {
        submit(&mut client, &["bo@b.test"], text);
    }
    submit(&mut client, &["bo@B.Test", "nobody@b.test"], &texts[0]);
    let got = inbox(&b, "bo@b.test", texts.len() + 1);
    for text in &texts {
        let ends =
            |body: &&Vec<u8>| body.ends_with(text) || body.ends_with(&[text, b"\r\n".as_slice()].concat());
        let body = got.iter().find(ends).expect("each message came, byte for byte below the trace fields");
        let trace = String::from_utf8_lossy(body);
        assert_eq!(trace.matches("Return-Path: ").count(), 1);
        assert!(trace.starts_with("Return-Path: <ana@a.test>\r\nReceived: from mail.a.test "));
        assert!(trace.contains("by mail.b.test (Posthaste) with ESMTPS\r\n"), "{trace}");
    }
    // The report about the recipient that is not there, made by `a.test`, which was refused.
    let report = String::from_utf8(inbox(&a, "ana@a.test", 1).remove(0)).unwrap();
    assert!(report.contains("Final-Recipient: rfc822; nobody@b.test\r\nAction: failed\r\nStatus: 5.1.1\r\n"));
    wait_until_queue_is_empty(&a);
    assert!(a.command(&["check"], "").status.success());
}

/// The sender's wish for reports travels with the message (RFC 3461), and the server that delivers
/// it answers.
#[test]
fn the_last_server_reports_what_the_sender_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (smtp_a, smtp_b) = (free_port(), free_port());
    let a = server(&dir.path().join("a"), "a.test", smtp_a, "b.test", smtp_b);
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", smtp_a);
    a.add_account("ana@a.test", PASSWORD);
    for user in ["bo@b.test", "cy@b.test"] {
        b.add_account(user, PASSWORD);
    }
    let mut client = logged_in(&a);
    // Binary mail: octets that are no lines, and a dot that is no end.
    let text = b"Subject: binary\r\nContent-Transfer-Encoding: binary\r\n\r\n\0\n\r\r\n.\r\n\xff";
    for (command, code) in [
        ("MAIL FROM:<ana@a.test> BODY=BINARYMIME RET=HDRS ENVID=id+2B1", "250 2.1.0"),
        ("RCPT TO:<bo@b.test> NOTIFY=SUCCESS ORCPT=rfc822;team+2Bbo@b.test", "250 2.1.5"),
        ("RCPT TO:<cy@b.test> NOTIFY=FAILURE", "250 2.1.5"),
        ("RCPT TO:<nobody@b.test> NOTIFY=NEVER", "250 2.1.5"),
    ] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(code), "{command}: {reply}");
    }
    client.send(format!("BDAT {} LAST\r\n", text.len()).as_bytes()).unwrap();
    client.send(text).unwrap();
    assert!(client.reply().unwrap().starts_with("250 2.0.0 Queued, id "));
    for user in ["bo@b.test", "cy@b.test"] {
        let got = inbox(&b, user, 1);
        // A literal of IMAP has no NUL: it comes as 0x80 (RFC 9051 §9, CHAR8).
        assert!(got[0].ends_with(&text.map(|octet| if octet == 0 { 0x80 } else { octet })), "{user}");
    }
    // The refusal of nobody is nobody's concern.
    let reports = inbox(&a, "ana@a.test", 1);
    let report = String::from_utf8_lossy(&reports[0]);
    for line in [
        "Return-Path: <>\r\n",
        "\r\nContent-Type: message/delivery-status\r\n",
        "\r\nOriginal-Envelope-Id: id+1\r\nReporting-MTA: dns; mail.b.test\r\n",
        "\r\n\r\nOriginal-Recipient: rfc822; team+bo@b.test\r\nFinal-Recipient: rfc822; bo@b.test\r\n\
         Action: delivered\r\nStatus: 2.1.5\r\n",
        "\r\nSubject: binary\r\n",
    ] {
        assert!(report.contains(line) || report.starts_with(line), "{line:?} is not in\n{report}");
    }
    assert!(!report.contains("cy@b.test\r\nAction") && !report.contains("nobody@b.test\r\nAction"));
    wait_until_queue_is_empty(&a);
    wait_until_queue_is_empty(&b);
    assert_eq!(inbox(&a, "ana@a.test", 1).len(), 1);
}

#[test]
fn nobody_but_users_relays() {
    let dir = tempfile::tempdir().unwrap();
    let server = a_test(dir.path(), free_port());
    let attempts = [
        "bo@b.test",
        "bo@elsewhere.test",
        "\"bo@elsewhere.test\"@c.test",
        "bo%elsewhere.test@c.test",
        "@a.test:bo@elsewhere.test",
        "bo@[127.0.0.1]",
        "a.test!bo@elsewhere.test",
    ];
    for protocol in ["smtp", "lmtp", "submission"] {
        let mut client = LineClient::connect(server.address(protocol)).unwrap();
        client.reply().unwrap();
        let hello = if protocol == "lmtp" { "LHLO x.test" } else { "EHLO x.test" };
        client.ask(hello).unwrap();
        let sender = client.ask("MAIL FROM:<ana@a.test>").unwrap();
        assert_eq!(sender.starts_with("250"), protocol != "submission", "{protocol}: {sender}");
        for to in attempts {
            let reply = client.ask(&format!("RCPT TO:<{to}>")).unwrap();
            assert!(reply.starts_with('5'), "{protocol} {to}: {reply}");
        }
        let auth = client.ask("AUTH PLAIN AGFuYQBhbmE=").unwrap();
        assert!(auth.starts_with('5'), "{protocol}: {auth}");
    }
    assert_eq!(queue(&server), ["0 items, 0 B"]);
    // A domain of our own is never relayed for anybody.
    let mut client = logged_in(&server);
    client.ask("MAIL FROM:<ana@a.test>").unwrap();
    assert!(client.ask("RCPT TO:<nobody@a.test>").unwrap().starts_with("550 5.1.1"));
}

/// The steps at which the other host stops, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Connected,
    Hello,
    Mail,
    Rcpt,
    Data,
    /// Half of the message has come.
    Body,
    /// All of it has come, and was not answered.
    End,
    /// It was answered.
    Answered,
}

/// A host for `b.test`.
struct Host {
    address: SocketAddr,
    /// It has come to its step, and waits for the connection to end.
    stopped: mpsc::Receiver<()>,
    got: mpsc::Receiver<Vec<u8>>,
}

/// Serves connections one after the other. The first one that reaches the step stops there.
fn host(step: Step) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((stop, stopped), (give, got)) = (mpsc::channel(), mpsc::channel());
    std::thread::spawn(move || {
        let mut step = Some(step);
        for connection in listener.incoming().map_while(Result::ok) {
            let _ = serve(connection, &mut step, &stop, &give);
        }
    });
    Host { address, stopped, got }
}

fn serve(
    connection: TcpStream,
    step: &mut Option<Step>,
    stop: &mpsc::Sender<()>,
    give: &mpsc::Sender<Vec<u8>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?);
    let mut pass = |here: Step, lines: &mut BufReader<TcpStream>| {
        if *step == Some(here) {
            *step = None;
            let _ = stop.send(());
            // Nothing more is answered: the client is killed now.
            let _ = std::io::copy(lines, &mut std::io::sink());
            return Err(std::io::Error::other("stopped"));
        }
        Ok(())
    };
    let say = |text: &str| (&connection).write_all(text.as_bytes());
    pass(Step::Connected, &mut lines)?;
    say("220 mail.b.test ESMTP\r\n")?;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.split([' ', '\r']).next().unwrap_or_default() {
            "EHLO" => {
                pass(Step::Hello, &mut lines)?;
                say("250-mail.b.test\r\n250 8BITMIME\r\n")?;
            }
            "MAIL" => {
                pass(Step::Mail, &mut lines)?;
                say("250 ok\r\n")?;
            }
            "RCPT" => {
                pass(Step::Rcpt, &mut lines)?;
                say("250 ok\r\n")?;
            }
            "DATA" => {
                pass(Step::Data, &mut lines)?;
                say("354 go on\r\n")?;
                let mut message = Vec::new();
                while !message.ends_with(b"\r\n.\r\n") {
                    lines.read_until(b'\n', &mut message)?;
                    pass(Step::Body, &mut lines)?;
                }
                pass(Step::End, &mut lines)?;
                let _ = give.send(message);
                say("250 ok\r\n")?;
                pass(Step::Answered, &mut lines)?;
            }
            "QUIT" => return say("221 bye\r\n"),
            _ => say("250 ok\r\n")?,
        }
    }
}

/// Why kills are not tried on a cluster. `tests::nodes` of the queue has one.
const LEASE: &str = "each start would wait a minute for the lease of the server that was killed";

#[test]
fn a_kill_at_any_step_loses_nothing() {
    if skips_cluster(LEASE) {
        return;
    }
    for step in [
        Step::Connected,
        Step::Hello,
        Step::Mail,
        Step::Rcpt,
        Step::Data,
        Step::Body,
        Step::End,
        Step::Answered,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let host = host(step);
        let server = a_test(dir.path(), host.address);
        submit(&mut logged_in(&server), &["bo@b.test"], &message(1));
        host.stopped.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("it never came to {step:?}"));
        server.kill();
        let before = usize::from(step == Step::Answered);
        let server = a_test(dir.path(), host.address);
        let mut got: Vec<Vec<u8>> = (0..before).map(|_| host.got.recv_timeout(TIMEOUT).unwrap()).collect();
        if step == Step::Answered {
            // RFC 1047: the answer may have been on its way. Twice is allowed, never is not.
            wait_until_queue_is_empty(&server);
            got.extend(host.got.try_iter());
            assert!((1..=2).contains(&got.len()), "{step:?}: {} times", got.len());
        } else {
            got.push(host.got.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{step:?}: it was lost")));
            wait_until_queue_is_empty(&server);
            assert!(host.got.try_recv().is_err(), "{step:?}: it came twice");
        }
        let sent = dot_stuffed(&message(1));
        assert!(got.iter().all(|got| got.ends_with(&sent)), "{step:?}");
    }
}

#[test]
fn acknowledged_mail_is_sent_after_a_kill() {
    if skips_cluster(LEASE) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens there yet.
    let smtp_b = free_port();
    let server_a = a_test(&dir.path().join("a"), smtp_b);
    let mut client = logged_in(&server_a);
    for n in 0..30 {
        submit(&mut client, &["bo@b.test"], &message(n));
    }
    server_a.kill();
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", free_port());
    b.add_account("bo@b.test", PASSWORD);
    let server_a = a_test(&dir.path().join("a"), smtp_b);
    let got = inbox(&b, "bo@b.test", 30);
    for n in 0..30 {
        assert_eq!(got.iter().filter(|body| body.ends_with(&message(n))).count(), 1, "message {n}");
    }
    wait_until_queue_is_empty(&server_a);
}

/// Mail that was accepted for another domain moves with the store: it is not lost, and not left
/// in the old store.
#[test]
fn waiting_mail_is_moved_and_backed_up() {
    if skips_cluster("a backup is an embedded store, and this test serves it") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    // Nobody listens there yet.
    let smtp_b = free_port();
    let server_a = a_test(&dir.path().join("a"), smtp_b);
    let mut client = logged_in(&server_a);
    (0..3).for_each(|n| submit(&mut client, &["bo@b.test"], &message(n)));
    drop(client);
    let posthaste = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_posthaste")).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    for _ in 0..2 {
        let said = posthaste(&["backup", &path("backup"), "--data", &path("a")]);
        assert!(said.contains("backed up 3 messages that wait to be sent, held"), "{said}");
    }
    assert!(server_a.stop().status.success());
    let said = posthaste(&["copy-store", "--from", &path("a"), "--to", &path("moved")]);
    assert!(said.contains("copied 3 messages that wait to be sent"), "{said}");
    let said = posthaste(&["restore", &path("backup"), "--data", &path("restored")]);
    assert!(said.contains("3 messages that waited to be sent are held"), "{said}");
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", free_port());
    b.add_account("bo@b.test", PASSWORD);
    let moved = a_test(&dir.path().join("moved"), smtp_b);
    let got = inbox(&b, "bo@b.test", 3);
    for n in 0..3 {
        assert_eq!(got.iter().filter(|body| body.ends_with(&message(n))).count(), 1, "message {n}");
    }
    wait_until_queue_is_empty(&moved);
    // In the restored store an administrator releases one.
    let restored = a_test(&dir.path().join("restored"), smtp_b);
    let listed = queue(&restored);
    assert!(listed.len() == 4 && listed[..3].iter().all(|line| line.contains("\theld\t")), "{listed:?}");
    let number = listed[0].split('\t').next().unwrap();
    assert!(restored.command(&["queue", "release", number], "").status.success());
    assert_eq!(inbox(&b, "bo@b.test", 4).len(), 4);
    // The same command again leaves the queue as it is.
    posthaste(&["restore", &path("backup"), "--data", &path("restored")]);
    assert!(queue(&restored).iter().take(2).all(|line| line.contains("\theld\t")));
    assert!(restored.command(&["check"], "").status.success());
}

#[test]
fn an_administrator_sees_holds_and_drops() {
    let dir = tempfile::tempdir().unwrap();
    let smtp_b = free_port();
    let server_a = a_test(&dir.path().join("a"), smtp_b);
    let mut client = logged_in(&server_a);
    submit(&mut client, &["bo@b.test"], &message(1));
    submit(&mut client, &["cy@b.test"], &message(2));
    let run = |args: &[&str]| {
        let output = server_a.command(args, "");
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let listed = queue(&server_a);
    assert_eq!(listed.len(), 3, "{listed:?}");
    let number = |line: &String| line.split('\t').next().unwrap().to_owned();
    let (bo, cy) = (number(&listed[0]), number(&listed[1]));
    assert!(listed[0].contains("ana@a.test\tb.test\tbo@b.test"), "{listed:?}");
    assert_eq!(run(&["queue", "hold", &bo]).0, Some(0));
    assert!(queue(&server_a)[0].contains("\theld\t"));
    assert_eq!(run(&["queue", "drop", &cy]).0, Some(0));
    let missing = run(&["queue", "drop", &cy]);
    assert_eq!(missing.0, Some(1));
    assert!(missing.2.contains("queue list"), "{}", missing.2);
    let (_, shown, _) = run(&["queue", "show", &bo]);
    assert!(shown.contains("bo@b.test waits\n") && shown.contains("\r\nSubject: "), "{shown}");
    let json: Vec<_> = run(&["queue", "list", "--json"]).1.lines().map(str::to_owned).collect();
    assert!(json.len() == 1 && json[0].contains("\"held\":true"), "{json:?}");
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", free_port());
    b.add_account("bo@b.test", PASSWORD);
    b.add_account("cy@b.test", PASSWORD);
    // All of a domain, or of the queue.
    let (code, said, _) = run(&["queue", "hold", "--domain", "B.test"]);
    assert_eq!((code, said), (Some(0), format!("item {bo} is held\n")));
    for (args, why) in [
        (&["--domain", "c.test"][..], "nothing waits for c.test"),
        (&["--domain", "b.test", "--all"], "cannot be used with"),
        (&[], "<NUMBER|--domain <DOMAIN>|--all>"),
    ] {
        let (code, _, said) = run(&[&["queue", "release"], args].concat());
        assert!(code == Some(2) && said.contains(why), "{args:?}: {code:?} {said}");
    }
    assert_eq!(run(&["queue", "release", "--all"]).1, format!("item {bo} is released\n"));
    assert!(inbox(&b, "bo@b.test", 1)[0].ends_with(&message(1)));
    wait_until_queue_is_empty(&server_a);
    assert!(inbox(&b, "cy@b.test", 0).is_empty());
    let audit = std::fs::read_to_string(dir.path().join("a/audit.log")).unwrap();
    assert!(audit.contains(&format!("queue drop {cy}")), "{audit}");
}
