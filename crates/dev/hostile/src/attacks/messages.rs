//! Messages that are made to take much: delivered, listed and searched.

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, Stage};

pub fn addresses(stage: &Stage) -> Outcome {
    let header = format!("From: {}", "a,".repeat(10_000));
    let part = format!("--b\r\nContent-Type: message/rfc822\r\n\r\n{header}\r\n\r\n");
    let count = stage.of(1 << 20, 10 << 20) / part.len();
    let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", part.repeat(count));
    delivered(stage, &[message])
}

pub fn nesting(stage: &Stage) -> Outcome {
    let parts = (0..3000).map(|n| format!("Content-Type: multipart/mixed; boundary={n}\r\n\r\n--{n}\r\n"));
    let messages = "Content-Type: message/rfc822\r\nSubject: x\r\n\r\n".repeat(3000);
    delivered(stage, &[parts.collect(), messages])
}

pub fn parts(stage: &Stage) -> Outcome {
    let count = stage.of(30_000, 300_000);
    let head = "Content-Type: multipart/digest; boundary=b\r\n\r\n";
    delivered(stage, &[format!("{head}{}", "--b\r\n\r\n".repeat(count))])
}

pub fn headers(stage: &Stage) -> Outcome {
    let (fields, len) = (stage.of(100_000, 1_000_000), stage.of(1 << 20, 10 << 20));
    let folded = format!("Subject: {}\r\n\r\n", "=?utf-8?q?a?=\r\n ".repeat(len / 16));
    delivered(
        stage,
        &["To: a\r\n".repeat(fields) + "\r\n", format!("To: {}\r\n\r\n", "a".repeat(len)), folded],
    )
}

/// Delivers them, lists and searches them.
fn delivered(stage: &Stage, messages: &[String]) -> Outcome {
    let mut said = Vec::new();
    for message in messages {
        let reply = stage.deliver(ATTACKER, message.as_bytes()).map_err(text)?;
        match reply.get(..9).unwrap_or_default() {
            "250 2.0.0" => said.push(format!("{} KiB taken", message.len() >> 10)),
            // Its header is over the bounds of mail that comes in. An APPEND has none.
            "552 5.3.4" => {
                append(stage, message)?;
                said.push(format!("{} KiB refused and appended", message.len() >> 10));
            }
            _ => return Err(format!("a message of {} octets: {reply}", message.len())),
        }
    }
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap("SELECT INBOX").map_err(text)?;
    for command in [
        "FETCH * (ENVELOPE BODYSTRUCTURE BODY)",
        "SEARCH SUBJECT zz TEXT zz",
        "FETCH * BODY.PEEK[1.1.1.HEADER]",
    ] {
        let lines = client.imap(command).map_err(text)?;
        if !lines.last().is_some_and(|line| line.starts_with("t OK")) {
            return Err(format!("{command}: {:?}", lines.last()));
        }
    }
    client.imap("STORE 1:* +FLAGS.SILENT (\\Deleted)").map_err(text)?;
    client.imap("EXPUNGE").map_err(text)?;
    stage.hold()?;
    Ok(said.join(", "))
}

fn append(stage: &Stage, message: &str) -> Result<(), String> {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let lines = client.imap(&format!("APPEND INBOX {{{}+}}\r\n{message}", message.len())).map_err(text)?;
    match lines.last() {
        Some(line) if line.starts_with("t OK") => Ok(()),
        last => Err(format!("APPEND of {} octets: {last:?}", message.len())),
    }
}
