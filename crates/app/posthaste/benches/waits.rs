//! How long clients wait for each command, and which waits are suspiciously long.
//!
//! ```text
//! cargo bench -p posthaste --bench waits                     every wait of 40 ms or more
//! cargo bench -p posthaste --bench waits -- --all            every command of every client
//! POSTHASTE_BINARY=./posthaste-before cargo bench …          the same of another build
//! ```
//!
//! Linux delays an acknowledgement by 40 ms at least. A client with Nagle's algorithm that sends
//! one command in several writes waits for it, however fast the server is. `waits.py` drives the
//! real server over loopback: imaplib, smtplib, curl, mbsync, msmtp, and raw sockets that split
//! what they send wherever a client might.
//!
//! The shortest wait of several rounds counts, because a wait in every round is not caused by a
//! busy machine. This is a measurement without assertions about time. `ack_tests` in the servers
//! assert the behaviour that it relies on.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::collections::BTreeMap;

use posthaste_testkit::{Server, ServerBuilder, run_python};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Rounds of everything, the least of which counts: five seconds each, and the least of five hardly
/// changes any more.
const ROUNDS: usize = 5;
/// Waits from here on are named: the least by which Linux delays an acknowledgement, in
/// milliseconds.
const STALL_MS: f64 = 40.0;

/// Client, protocol, command.
type Command = (String, String, String);

/// The least wait of each command in milliseconds; none for a client that is not installed.
#[derive(Default)]
struct Waits(BTreeMap<Command, Option<f64>>);

impl Waits {
    /// Takes a line of `waits.py`.
    fn take(&mut self, line: &str) {
        let fields: Vec<_> = line.split('\t').collect();
        let [client, protocol, command, wait] = fields[..] else { panic!("not a measurement: {line}") };
        let command = (client.to_owned(), protocol.to_owned(), command.to_owned());
        let ms = (wait != "missing").then(|| wait.parse::<f64>().unwrap());
        let least = self.0.entry(command).or_insert(ms);
        *least = least.zip(ms).map(|(one, other)| one.min(other));
    }

    fn print(&self, from_ms: f64) {
        println!("| client | protocol | command | least wait |\n| --- | --- | --- | --- |");
        for ((client, protocol, command), ms) in &self.0 {
            match ms {
                Some(ms) if *ms >= from_ms => {
                    println!("| {client} | {protocol} | {command} | {ms:.1} ms |");
                }
                Some(_) => {}
                None => println!("| {client} | {protocol} | | not installed |"),
            }
        }
        let stalls = self.0.values().flatten().filter(|ms| **ms >= STALL_MS).count();
        println!("\n{stalls} of {} commands waited for {STALL_MS} ms or more in each round.", self.0.len());
    }
}

/// The input of `waits.py`, as JSON.
fn given(server: &Server, dir: &str) -> String {
    let ports = ["imap", "imaps", "lmtp", "submission", "submissions"]
        .map(|protocol| format!("\"{protocol}\": {}", server.address(protocol).port()))
        .join(", ");
    let certificate = server.data().join("tls-certificate.pem");
    format!(
        "{{\"user\": \"{USER}\", \"password\": \"{PASSWORD}\", \"dir\": {dir:?}, \"rounds\": {ROUNDS}, \
         \"certificate\": {:?}, \"ports\": {{{ports}}}}}",
        certificate.to_str().unwrap()
    )
}

fn main() {
    let all = std::env::args().any(|argument| argument == "--all");
    let dir = tempfile::tempdir().unwrap();
    let binary = std::env::var("POSTHASTE_BINARY");
    let binary = binary.as_deref().unwrap_or(env!("CARGO_BIN_EXE_posthaste"));
    let server = ServerBuilder::new(binary).start();
    server.add_account(USER, PASSWORD);
    let said = run_python(include_str!("waits.py"), &[&given(&server, dir.path().to_str().unwrap())]);
    let mut waits = Waits::default();
    said.lines().for_each(|line| waits.take(line));
    waits.print(if all { 0.0 } else { STALL_MS });
}
