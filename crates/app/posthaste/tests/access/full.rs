//! A server that is full of silent connections: users log in, mail is delivered, and nobody who has
//! logged in is disconnected. An account has at most so many connections.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::{LineClient, Server, ServerBuilder, Wire};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Sixteen connections. The tests give the address of each client by a PROXY header.
const SETTINGS: &str = "[listen]\nproxy_networks = [\"127.0.0.1\"]\n[login]\nplaintext = \"always\"\n\
                        [limits]\nconnections = 16\n";

/// A connection that begins with this header.
fn behind(server: &Server, protocol: &str, header: &str) -> LineClient {
    let mut client = LineClient::connect(server.address(protocol)).unwrap();
    client.send(header.as_bytes()).unwrap();
    client
}

/// A connection from this address.
fn from(server: &Server, protocol: &str, address: &str) -> LineClient {
    behind(server, protocol, &format!("PROXY TCP4 {address} 198.51.100.1 9 143\r\n"))
}

/// Silent connections from four networks: many more than the server has places.
fn strangers(server: &Server, protocol: &str) -> Vec<LineClient> {
    let connect = |n: u32| {
        let mut client = from(server, protocol, &format!("10.0.{}.{n}", n % 4));
        let greeting = client.line().unwrap();
        assert!(greeting.starts_with(['*', '2', '+']) && !greeting.contains("BYE"), "{n}: {greeting}");
        client
    };
    (1..60).map(connect).collect()
}

fn logged_in(server: &Server, address: &str) -> LineClient {
    let mut client = from(server, "imap", address);
    let greeting = client.line().unwrap();
    assert!(greeting.starts_with("* OK"), "{greeting}");
    let answer = client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap().pop().unwrap();
    assert!(answer.starts_with("t OK"), "{answer}");
    client
}

fn deliver(mut client: LineClient) {
    assert!(client.reply().unwrap().starts_with("220"));
    client.ask("LHLO test").unwrap();
    let reply = client.hand_in("bo@example.net", &[USER], b"Subject: one\r\n\r\ntext\r\n").unwrap();
    assert!(reply.starts_with("250"), "{reply}");
}

#[test]
fn users_log_in_and_mail_comes_to_a_server_full_of_strangers() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lmtp.sock");
    let server = ServerBuilder::new(BINARY)
        .settings(&dir.path().join("mine.toml"), SETTINGS)
        .listen("imap=127.0.0.1:0")
        .listen("pop3=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen(&format!("lmtp=unix:{}", socket.display()))
        .start();
    server.add_account(USER, PASSWORD);
    let mut first = logged_in(&server, "203.0.113.9");
    let _held: Vec<_> = ["imap", "pop3", "lmtp"].map(|protocol| strangers(&server, protocol)).into();
    // One from elsewhere, one from a network of the strangers, one by another protocol.
    let mut second = logged_in(&server, "203.0.113.10");
    let mut third = logged_in(&server, "10.0.1.200");
    let mut pop3 = from(&server, "pop3", "203.0.113.11");
    assert!(pop3.line().unwrap().starts_with("+OK"));
    for command in [format!("USER {USER}"), format!("PASS {PASSWORD}")] {
        pop3.send(format!("{command}\r\n").as_bytes()).unwrap();
        let answer = pop3.line().unwrap();
        assert!(answer.starts_with("+OK"), "{command}: {answer}");
    }
    // Mail by the socket, from this machine, and from another host.
    let unix = UnixStream::connect(&socket).unwrap();
    unix.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Wire::over(unix).deliver(USER, "by the socket");
    deliver(behind(&server, "lmtp", "PROXY UNKNOWN\r\n"));
    deliver(from(&server, "lmtp", "203.0.113.12"));
    let _more = strangers(&server, "imap");
    for client in [&mut first, &mut second, &mut third] {
        let said = client.imap("STATUS INBOX (MESSAGES)").unwrap().join(" ");
        assert!(said.contains("(MESSAGES 3)") && said.contains("t OK"), "{said}");
    }
    pop3.send(b"NOOP\r\n").unwrap();
    assert!(pop3.line().unwrap().starts_with("+OK"));
    let closed = server.logged("the server is full of connections without a login");
    assert!(closed.iter().any(|line| line.contains("network=10.0.")), "{closed:?}");
}

/// A scanner never answers, as name servers that strangers choose might not. Each connection
/// without a login has a message that waits for it.
#[test]
fn messages_that_are_verified_keep_nobody_out() {
    let (dir, scanner) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let scanning = format!(
        "[authentication]\nenabled = false\n[screening]\nrspamd = \"http://{}\"\nrspamd_timeout = \"60 s\"\n",
        scanner.local_addr().unwrap()
    );
    let server = ServerBuilder::new(BINARY)
        .settings(&dir.path().join("mine.toml"), &(SETTINGS.to_owned() + &scanning))
        .listen("imap=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    let mut waiting = Vec::new();
    for n in 1..=12 {
        let mut client = from(&server, "smtp", &format!("198.18.{}.{n}", n % 4));
        assert!(client.reply().unwrap().starts_with("220"));
        let to = format!("RCPT TO:<{USER}>");
        for command in ["EHLO test.example", "MAIL FROM:<bo@example.net>", to.as_str(), "DATA"] {
            let reply = client.ask(command).unwrap();
            assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
        }
        client.send(b"Subject: one\r\n\r\ntext\r\n.\r\n").unwrap();
        // The message waits for the scanner from here on.
        waiting.push((client, scanner.accept().unwrap()));
    }
    drop(logged_in(&server, "203.0.113.9"));
}

#[test]
fn one_account_leaves_half_of_the_connections_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerBuilder::new(BINARY)
        .settings(&dir.path().join("mine.toml"), SETTINGS)
        .listen("imap=127.0.0.1:0")
        .start();
    for name in [USER, "bo@example.org"] {
        server.add_account(name, PASSWORD);
    }
    let _held: Vec<_> = (0..8).map(|n| logged_in(&server, &format!("203.0.{n}.9"))).collect();
    let log_in = |name: &str| {
        let mut client = from(&server, "imap", "203.0.113.9");
        client.line().unwrap();
        client.imap(&format!("LOGIN {name} \"{PASSWORD}\"")).unwrap().pop().unwrap()
    };
    let answer = log_in(USER);
    assert!(answer.contains("Your account has too many connections"), "{answer}");
    let answer = log_in("bo@example.org");
    assert!(answer.starts_with("t OK"), "{answer}");
}

/// Logs in to an account by this protocol. The connection, and the answer to the login.
fn log_in_by(server: &Server, protocol: &str, name: &str) -> (LineClient, String) {
    let mut client = LineClient::connect(server.address(protocol)).unwrap();
    let plain = STANDARD.encode(format!("\0{name}\0{PASSWORD}"));
    let greeting_end = if protocol == "sieve" { "OK" } else { "" };
    while !client.line().unwrap().starts_with(greeting_end) {}
    let command = match protocol {
        "imap" => format!("t LOGIN {name} \"{PASSWORD}\"\r\n"),
        "sieve" => format!("AUTHENTICATE \"PLAIN\" \"{plain}\"\r\n"),
        _ => format!("AUTH PLAIN {plain}\r\n"),
    };
    if protocol == "submission" {
        client.ask("EHLO test").unwrap();
    }
    client.send(command.as_bytes()).unwrap();
    let answer = client.line().unwrap();
    (client, answer)
}

#[test]
fn connections_of_an_account_count_together_over_all_protocols() {
    /// Each with the beginning of its answer to a login that is taken.
    const BY: [(&str, &str); 4] = [("imap", "t OK"), ("pop3", "+OK"), ("submission", "235"), ("sieve", "OK")];
    let dir = tempfile::tempdir().unwrap();
    let settings = "[limits]\naccount_connections = 4\n";
    let builder = ServerBuilder::new(BINARY).settings(&dir.path().join("mine.toml"), settings);
    let listen = |builder: ServerBuilder, (protocol, _): &(&str, &str)| {
        builder.listen(&format!("{protocol}=127.0.0.1:0"))
    };
    let server = BY.iter().fold(builder, listen).start();
    for name in [USER, "bo@example.org"] {
        server.add_account(name, PASSWORD);
    }
    let log_in = |(protocol, taken): (&str, &str), name: &str| {
        let (client, answer) = log_in_by(&server, protocol, name);
        assert!(answer.starts_with(taken), "{protocol}: {answer}");
        client
    };
    let is_refused = |protocol: &str| {
        let (_, answer) = log_in_by(&server, protocol, USER);
        assert!(answer.contains("Your account has too many connections"), "{protocol}: {answer}");
    };
    let [mut imap, _pop3, _submission, _sieve] = BY.map(|by| log_in(by, USER));
    for (protocol, _) in BY {
        is_refused(protocol);
    }
    let _others = BY.map(|by| log_in(by, "bo@example.org"));
    // Its place is for any protocol. The server gives it back before it ends the connection.
    imap.imap("LOGOUT").unwrap();
    imap.finish().unwrap();
    let _second = log_in(BY[3], USER);
    is_refused("imap");
}
