//! A server whose bodies are in an S3-compatible store that goes away and comes back.
//!
//! Only where there is one, and a cluster (`scripts/s3 env`, `POSTHASTE_TEST_ENGINE`). The server
//! reaches the store through this test's own relay, which can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use posthaste_testkit::{LineClient, ServerBuilder, dot_stuffed, message};

const USER: &str = "ana@example.org";

/// Passes connections on while it is not cut.
struct Relay {
    address: SocketAddr,
    cut: Arc<AtomicBool>,
    through: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, through) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (is_cut, open, target) = (Arc::clone(&cut), Arc::clone(&through), target.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&target).unwrap();
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let ways = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
                for (from, to) in ways {
                    thread::spawn(move || pass(from, to));
                }
            }
        });
        Self { address, cut, through }
    }

    fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in self.through.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn restore(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The tagged answer to an APPEND.
fn append(client: &mut LineClient, serial: usize) -> String {
    let text = message(serial);
    client.send(format!("a APPEND INBOX {{{}+}}\r\n", text.len()).as_bytes()).unwrap();
    client.send(&text).unwrap();
    client.send(b"\r\n").unwrap();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("a ") {
            return line;
        }
    }
}

/// The answer to a delivery to [`USER`].
fn deliver(lmtp: SocketAddr, serial: usize) -> String {
    let mut client = LineClient::connect(lmtp).unwrap();
    client.reply().unwrap();
    client.ask("LHLO test").unwrap();
    client.ask("MAIL FROM:<x@example.net>").unwrap();
    client.ask(&format!("RCPT TO:<{USER}>")).unwrap();
    client.ask("DATA").unwrap();
    client.send(&dot_stuffed(&message(serial))).unwrap();
    client.reply().unwrap()
}

/// The tagged answer to a FETCH of a whole body, and the body.
fn fetch(client: &mut LineClient, uid: u32) -> (String, Vec<u8>) {
    let (mut literals, end) = client.literals(&format!("UID FETCH {uid} (BODY.PEEK[])")).unwrap();
    (end, literals.pop().map(|(_, body)| body).unwrap_or_default())
}

#[test]
fn while_the_store_of_bodies_is_away_mail_waits_and_all_else_goes_on() {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (Some(endpoint), Some(_), Some(_)) =
        (variable("AWS_ENDPOINT_URL"), variable("POSTHASTE_BODIES"), variable("POSTHASTE_TEST_ENGINE"))
    else {
        eprintln!(
            "SKIPPED: there is no object store beside a cluster (scripts/s3 env, POSTHASTE_TEST_ENGINE)"
        );
        return;
    };
    let relay = Relay::to(endpoint.strip_prefix("http://").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    // The file overrides the environment. The tests themselves reach the store by the
    // environment.
    let text = format!(
        "[log]\nlevel = \"trace\"\n[s3]\nendpoint = \"http://{}\"\nallow_http = true\ntimeout = \"5 s\"\n",
        relay.address
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).settings(&config, text).start();
    server.add_account(USER, "password4tests");
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} password4tests")).unwrap();
    assert!(append(&mut client, 0).starts_with("a OK"));
    client.imap("SELECT INBOX").unwrap();
    assert_eq!(fetch(&mut client, 1).1, message(0));

    relay.cut();
    let refused = append(&mut client, 1);
    assert!(refused.starts_with("a NO [UNAVAILABLE]"), "{refused}");
    let refused = deliver(server.address("lmtp"), 2);
    assert!(refused.starts_with("45"), "{refused}");
    let (refused, body) = fetch(&mut client, 1);
    assert!(refused.starts_with("t NO [UNAVAILABLE]") && body.is_empty(), "{refused}");
    // Answers that need no body work as before.
    let lines = client.imap("FETCH 1 (FLAGS ENVELOPE)").unwrap();
    assert!(lines[0].contains("ENVELOPE (") && lines[1].starts_with("t OK"), "{lines:?}");
    let lines = client.imap("STORE 1 +FLAGS (\\Seen)").unwrap();
    assert!(lines.last().unwrap().starts_with("t OK"), "{lines:?}");

    relay.restore();
    assert!(append(&mut client, 3).starts_with("a OK"));
    assert!(deliver(server.address("lmtp"), 4).starts_with("250"));
    assert_eq!(fetch(&mut client, 1).1, message(0));
    let lines = client.imap("STATUS INBOX (MESSAGES)").unwrap();
    assert!(lines[0].contains("MESSAGES 3"), "nothing that was refused is there: {lines:?}");
    let checked = server.command(&["check"], "");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    // All of it was logged, except the key of the store.
    let secret = variable("AWS_SECRET_ACCESS_KEY").unwrap();
    assert!(!server.logged("").is_empty());
    assert_eq!(server.logged(&secret), [""; 0]);
}
