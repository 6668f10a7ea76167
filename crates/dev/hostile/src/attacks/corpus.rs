//! Messages of hostile form ([`crate::corpus`]), each brought and read in every way. Every octet
//! must come back.

use posthaste_testkit::LineClient;

use super::extensions::{mailbox, ok};
use super::outcome::{Outcome, text};
use crate::corpus::{HostileMessage, hostile_messages};
use crate::stage::{ATTACKER, Stage};

/// Their headers have a CR without LF, which LMTP refuses (RFC 5321 §2.3.8).
const REFUSED: [&str; 2] = ["a CR in the header", "two CR in each line end"];

/// Items that the server makes of a message, and parts that it may not have.
const MADE: &str = "ENVELOPE BODY BODYSTRUCTURE PREVIEW BODY.PEEK[1] BODY.PEEK[1.MIME] BODY.PEEK[1.1.HEADER]";

/// Questions about all of them.
const QUESTIONS: [&str; 5] = [
    "UID SEARCH OR SUBJECT zz OR BODY zz TEXT zz",
    "UID SEARCH CHARSET UTF-8 OR FROM zz OR TO zz OR CC zz OR BCC zz HEADER X-Other \"\"",
    "UID SEARCH OR SENTBEFORE 1-Jan-1980 OR SENTSINCE 1-Jan-2100 SENTON 1-Jan-2024",
    "UID SORT (DATE REVERSE SUBJECT FROM TO CC SIZE ARRIVAL) UTF-8 ALL",
    "UID SORT (DISPLAYFROM REVERSE DISPLAYTO) UTF-8 ALL",
];

pub fn hostile(stage: &Stage) -> Outcome {
    let messages = hostile_messages();
    let all: Vec<&HostileMessage> = messages.iter().collect();
    let mut client = mailbox(stage, "Hostile", &[])?;
    all.iter().try_for_each(|message| append(&mut client, message))?;
    read(&mut client, &all, Sent::Whole)?;

    let mut inbox = mailbox(stage, "INBOX", &[])?;
    let taken = delivered(stage, &all)?;
    ok(&mut inbox, "NOOP")?;
    read(&mut inbox, &taken, Sent::BehindTrace)?;
    let mut pop3 = stage.pop3(ATTACKER).map_err(text)?;
    for (number, message) in (1..).zip(&taken) {
        retrieved(&mut pop3, number, message)?;
    }
    stage.hold()?;
    ok(&mut inbox, "STORE 1:* +FLAGS.SILENT (\\Deleted)")?;
    ok(&mut inbox, "EXPUNGE")?;
    Ok(format!("{} appended, {} delivered, all read as sent", all.len(), taken.len()))
}

fn append(client: &mut LineClient, message: &HostileMessage) -> Result<(), String> {
    let HostileMessage { name, octets } = message;
    // RFC 3516 §4.4: a literal8 may hold NUL.
    let command = format!("t APPEND Hostile ~{{{}+}}\r\n", octets.len());
    client.send(&[command.as_bytes(), octets, b"\r\n"].concat()).map_err(text)?;
    loop {
        match client.line().map_err(text)? {
            line if line.starts_with("t OK") => return Ok(()),
            line if line.starts_with("* ") && !line.starts_with("* BYE") => {}
            line => return Err(format!("APPEND of {name:?}: {line}")),
        }
    }
}

/// Delivers them by LMTP in one session. Returns those that were taken.
fn delivered<'m>(stage: &Stage, messages: &[&'m HostileMessage]) -> Result<Vec<&'m HostileMessage>, String> {
    let mut client = stage.client("lmtp").map_err(text)?;
    client.ask("LHLO hostile.example").map_err(text)?;
    let mut taken = Vec::new();
    for message in messages {
        let HostileMessage { name, octets } = message;
        // RFC 3030 §3: only binary mail may hold any octets.
        for command in ["MAIL FROM:<a@example.net> BODY=BINARYMIME", &format!("RCPT TO:<{ATTACKER}>")] {
            let reply = client.ask(command).map_err(text)?;
            if !reply.starts_with("250") {
                return Err(format!("{command} before {name:?}: {reply}"));
            }
        }
        let command = format!("BDAT {} LAST\r\n", octets.len());
        client.send(&[command.as_bytes(), octets].concat()).map_err(text)?;
        let reply = client.reply().map_err(text)?;
        match (reply.get(..9).unwrap_or_default(), REFUSED.contains(name)) {
            ("250 2.0.0", false) => taken.push(*message),
            ("550 5.6.0", true) => {}
            _ => return Err(format!("delivery of {name:?}: {reply}")),
        }
    }
    Ok(taken)
}

/// What a stored message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// As it was sent.
    Whole,
    /// The same behind the fields of a delivery (RFC 5321 §4.4).
    BehindTrace,
}

impl Sent {
    fn is(self, sent: &[u8], stored: &[u8]) -> bool {
        if self == Self::Whole { stored == sent } else { stored.ends_with(sent) }
    }
}

/// Reads all of a mailbox by IMAP.
fn read(client: &mut LineClient, messages: &[&HostileMessage], sent: Sent) -> Result<(), String> {
    for (number, message) in (1..).zip(messages) {
        fetched(client, number, message, sent)?;
    }
    for question in QUESTIONS {
        let lines = ok(client, question)?;
        // Each message has a place in an order, also without a date or a subject.
        let sorted = lines.iter().find_map(|line| line.strip_prefix("* SORT"));
        let found = sorted.map_or(messages.len(), |found| found.split_whitespace().count());
        if found != messages.len() {
            return Err(format!("{question}: {found} of {} messages", messages.len()));
        }
    }
    for algorithm in ["REFERENCES", "REFS", "ORDEREDSUBJECT"] {
        ok(client, &format!("UID THREAD {algorithm} UTF-8 ALL"))?;
    }
    Ok(())
}

fn fetched(
    client: &mut LineClient,
    number: usize,
    message: &HostileMessage,
    sent: Sent,
) -> Result<(), String> {
    let fault = |what: &str| format!("{:?} by IMAP: {what}", message.name);
    let (_, end) = client.literals(&format!("FETCH {number} ({MADE})")).map_err(text)?;
    if !end.starts_with("t OK") {
        return Err(fault(&end));
    }
    let whole = "BODY.PEEK[] BODY.PEEK[HEADER] BODY.PEEK[TEXT]";
    let (literals, end) = client.literals(&format!("FETCH {number} ({whole})")).map_err(text)?;
    if !end.starts_with("t OK") {
        return Err(fault(&end));
    }
    let section = |name: &str| {
        let announced = format!("BODY[{name}] {{");
        let found = literals.iter().find(|(line, _)| line.contains(&announced));
        found.map(|(_, octets)| octets.as_slice()).unwrap_or_default()
    };
    // RFC 9051 §9, CHAR8: a plain literal has no NUL. The server sends 0x80 in its place.
    let printed: Vec<u8> =
        message.octets.iter().map(|&octet| if octet == 0 { 0x80 } else { octet }).collect();
    let stored = section("");
    if !sent.is(&printed, stored) {
        return Err(fault("it has other octets"));
    }
    if [section("HEADER"), section("TEXT")].concat() != stored {
        return Err(fault("header and text are not the whole"));
    }
    let lines = ok(client, &format!("FETCH {number} (RFC822.SIZE)"))?;
    if !lines.iter().any(|line| line.ends_with(&format!("RFC822.SIZE {})", stored.len()))) {
        return Err(fault(&format!("it has {} octets, and {lines:?}", stored.len())));
    }
    // RFC 3516 §4.3: a part whose encoding is unknown has no decoded octets.
    let decoded = format!("FETCH {number} (BINARY.PEEK[1] BINARY.SIZE[1])");
    let (_, end) = client.literals(&decoded).map_err(text)?;
    match end.starts_with("t OK") || end.starts_with("t NO [UNKNOWN-CTE]") {
        true => Ok(()),
        false => Err(fault(&end)),
    }
}

/// Reads one by POP3, whole and in part.
fn retrieved(client: &mut LineClient, number: usize, message: &HostileMessage) -> Result<(), String> {
    let fault = |what: &str| format!("{:?} by POP3: {what}", message.name);
    let whole = answer(client, &format!("RETR {number}")).map_err(|why| fault(&why))?;
    if !whole.ends_with(&as_lines(&message.octets)) {
        return Err(fault("it has other octets"));
    }
    for lines in [0, 2] {
        let top = answer(client, &format!("TOP {number} {lines}")).map_err(|why| fault(&why))?;
        if !whole.starts_with(&top) {
            return Err(fault("its top is another one"));
        }
    }
    Ok(())
}

/// The lines of an answer, without the dots that were stuffed (RFC 1939 §3).
fn answer(client: &mut LineClient, command: &str) -> Result<Vec<u8>, String> {
    client.send(format!("{command}\r\n").as_bytes()).map_err(text)?;
    let first = client.line().map_err(text)?;
    if !first.starts_with("+OK") {
        return Err(first);
    }
    let mut lines = Vec::new();
    loop {
        let line = client.raw_line().map_err(text)?;
        if line == b".\r\n" {
            return Ok(lines);
        }
        lines.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
    }
}

/// A message as POP3 has it: each LF has its CR, and the last line an end.
fn as_lines(message: &[u8]) -> Vec<u8> {
    let (mut lines, mut before) = (Vec::with_capacity(message.len() + 2), None);
    for &octet in message {
        if octet == b'\n' && before != Some(b'\r') {
            lines.push(b'\r');
        }
        lines.push(octet);
        before = Some(octet);
    }
    if before != Some(b'\n') {
        lines.extend_from_slice(b"\r\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_ends() {
        for (message, lines) in [
            ("\n", "\r\n"),
            ("a\r\nb", "a\r\nb\r\n"),
            ("a\n\n\r\n", "a\r\n\r\n\r\n"),
            ("a\rb\r\r\n\r", "a\rb\r\r\n\r\r\n"),
        ] {
            assert_eq!(String::from_utf8(as_lines(message.as_bytes())).unwrap(), lines, "{message:?}");
        }
    }

    #[test]
    fn messages_that_are_refused_are_known() {
        let messages = hostile_messages();
        assert!(REFUSED.iter().all(|name| messages.iter().any(|message| message.name == *name)));
    }
}
