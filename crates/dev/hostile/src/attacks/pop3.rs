//! POP3: answers that nobody reads, and floods of commands.

use std::io::Write;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, PASSWORD, Stage, push, words};

/// Leaves one large message in the attacker's INBOX, and takes it away afterwards.
fn with_large(stage: &Stage, attack: impl FnOnce() -> Outcome) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let message = words(stage.of(1 << 20, 20 << 20));
    client.imap("SELECT INBOX").map_err(text)?;
    client.imap("STORE 1:* +FLAGS.SILENT (\\Deleted)").map_err(text)?;
    client.imap("EXPUNGE").map_err(text)?;
    client.send(format!("t APPEND INBOX {{{}}}\r\n", message.len()).as_bytes()).map_err(text)?;
    client.line().map_err(text)?;
    client.send(&message).map_err(text)?;
    client.imap("").map_err(text)?;
    let outcome = attack();
    client.imap("STORE 1:* +FLAGS.SILENT (\\Deleted)").map_err(text)?;
    client.imap("EXPUNGE").map_err(text)?;
    outcome
}

pub fn unread(stage: &Stage) -> Outcome {
    with_large(stage, || {
        let mut open = Vec::new();
        for n in 0..stage.of(10, 200) {
            let mut client = stage.pop3(ATTACKER).map_err(text)?;
            // TOP of more lines than any message has is the message.
            let command: &[u8] = if n % 2 == 0 { b"RETR 1\r\n" } else { b"TOP 1 99999999\r\n" };
            client.send(&command.repeat(20)).map_err(text)?;
            open.push(client);
        }
        stage.hold()?;
        Ok(format!("{} wait for their readers", open.len()))
    })
}

pub fn pipelined(stage: &Stage) -> Outcome {
    with_large(stage, || {
        let login = format!("USER {ATTACKER}\r\nPASS {PASSWORD}\r\n");
        let mut sent = 0;
        for command in ["TOP 1 0\r\n", "LIST\r\n", "UIDL\r\n", "DELE 1\r\nRSET\r\n", "NOOP\r\n"] {
            let mut socket = stage.socket("pop3").map_err(text)?;
            socket.write_all(login.as_bytes()).map_err(text)?;
            let mut left = stage.of(20_000, 300_000) / 1000;
            sent += push(stage, &mut socket, || {
                left = left.checked_sub(1)?;
                Some(command.repeat(1000).into_bytes())
            })?;
        }
        stage.hold()?;
        Ok(format!("{} KiB of commands taken, no answer read", sent >> 10))
    })
}
