//! Reads the answers of listings as the instrument does. `scripts/instructions` counts the
//! instructions with callgrind.
//!
//! `reading NAME` has a virtual user read an answer twice; the second time is inside [`counted`].
//! `reading` without a name prints all names. The answers are those of 300 messages, as
//! `crates/access/imap-server/benches/instructions.rs` has the server write them.

#![allow(missing_docs, clippy::unwrap_used, reason = "a program of its own, where any failure ends the run")]

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::time::Duration;

use posthaste_imap_client::Client;
use posthaste_imap_client::net::{Dialer, Endpoint, Security, Trust};
use posthaste_load_drive::run::Rehearsal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MESSAGES: u32 = 300;

/// The answers: the items of the command.
const ANSWERS: [(&str, &str); 3] = [
    ("read-flags", "UID FLAGS"),
    ("read-envelope", "UID ENVELOPE"),
    ("read-header-fields", "UID BODY.PEEK[HEADER.FIELDS (DATE FROM SUBJECT)]"),
];

/// Counts the instructions of `work`.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn main() {
    let name = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    match name {
        None => ANSWERS.iter().for_each(|(name, _)| println!("{name}")),
        Some(name) => {
            let (_, items) = ANSWERS.iter().find(|(n, _)| *n == name).expect("a known name");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(read_twice(items));
        }
    }
}

async fn read_twice(items: &str) {
    let (mut client, mut server) = connected().await;
    let mut rehearsal = Rehearsal::new(MESSAGES);
    for turn in 1..=2 {
        client.push(format!("FETCH 1:* ({items})").as_bytes());
        client.flush().await.unwrap();
        server.read_buf(&mut Vec::with_capacity(1024)).await.unwrap();
        server.write_all(&answer(items, turn)).await.unwrap();
        let mut reading = pin!(rehearsal.read(&mut client, items));
        let read = match turn {
            1 => reading.await,
            _ => poll_fn(|cx| counted(|| reading.as_mut().poll(cx))).await,
        };
        assert_eq!(read, Ok(u64::from(MESSAGES)));
    }
}

/// A client and the end of its connection at the server. Both are of this thread.
async fn connected() -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint = Endpoint { host: "127.0.0.1".into(), port, security: Security::Plain };
    let dialer = Dialer::new(Trust::Anyone, Duration::from_secs(60)).unwrap();
    let greeting = async {
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(b"* OK [CAPABILITY IMAP4rev2] ready\r\n").await.unwrap();
        server
    };
    let (client, server) = tokio::join!(Client::connect(&dialer, &endpoint, 0), greeting);
    (client.unwrap(), server)
}

fn answer(items: &str, tag: u32) -> Vec<u8> {
    let mut out = String::new();
    for n in 1..=MESSAGES {
        let data = match items {
            "UID FLAGS" if n % 3 == 1 => "FLAGS ()".to_owned(),
            "UID FLAGS" => "FLAGS (\\Seen)".to_owned(),
            "UID ENVELOPE" => format!("ENVELOPE {}", envelope(n)),
            _ => {
                let fields = format!(
                    "Date: Fri, 20 Nov 2026 11:00:00 +0100\r\nFrom: =?utf-8?q?Bob_M=C3=BCller?= <bob@example.org>\r\n\
                     Subject: Re: letter {n} of many\r\n\r\n"
                );
                format!("BODY[HEADER.FIELDS (DATE FROM SUBJECT)] {{{}}}\r\n{fields}", fields.len())
            }
        };
        out.push_str(&format!("* {n} FETCH (UID {n} {data})\r\n"));
    }
    out.push_str(&format!("a{tag} OK done\r\n"));
    out.into_bytes()
}

fn envelope(n: u32) -> String {
    let bob = "((\"=?utf-8?q?Bob_M=C3=BCller?=\" NIL \"bob\" \"example.org\"))";
    format!(
        "(\"Fri, 20 Nov 2026 11:00:00 +0100\" \"Re: letter {n} of many\" {bob} {bob} {bob} \
         ((\"Ana Example\" NIL \"ana\" \"example.com\")(\"Carol, of sales\" NIL \"carol\" \"example.com\")) \
         NIL NIL NIL \"<{n}@example.org>\")"
    )
}
