//! Commands of LMTP and submission (RFC 2033, RFC 5321, RFC 3030, RFC 4954).

use posthaste_testkit::{LineClient, Random, dot_stuffed};

use super::message::message;

/// The protocol of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// LHLO, and a reply for each recipient.
    Lmtp,
    /// EHLO, and one reply for all.
    Submission,
}

/// One transaction, or a few commands out of order, each with its reply. Whether the session goes
/// on.
pub fn transaction(client: &mut LineClient, dialect: Dialect, random: &mut Random) -> Result<bool, String> {
    let mut recipients = 0;
    for _ in 0..1 + random.below(4) {
        let line = line(dialect, random);
        // These want more than a line.
        if ["DATA", "BDAT", "AUTH", "STARTTLS"].iter().any(|verb| line.starts_with(verb)) {
            continue;
        }
        if closes(&ask(client, &line)?) {
            return Ok(false);
        }
    }
    ask(client, "RSET")?;
    let reply = ask(client, "MAIL FROM:<fuzz@example.org> BODY=8BITMIME SMTPUTF8")?;
    if closes(&reply) {
        return Ok(false);
    }
    for _ in 0..1 + random.below(3) {
        let reply = ask(
            client,
            random.pick(&[
                "RCPT TO:<fuzz@example.org>",
                "RCPT TO:<fuzz+a@example.org>",
                "RCPT TO:<nobody@example.org>",
            ]),
        )?;
        recipients += usize::from(reply.starts_with("250"));
        if closes(&reply) {
            return Ok(false);
        }
    }
    let text = message(random);
    if recipients == 0 {
        return Ok(!closes(&ask(client, "DATA")?));
    }
    let replies = if dialect == Dialect::Lmtp { recipients } else { 1 };
    let sent = if random.one_in(2) {
        let reply = ask(client, "DATA")?;
        if !reply.starts_with("354") {
            return Err(format!("DATA after {recipients} recipients: {reply}"));
        }
        client.send(&dot_stuffed(&text))
    } else {
        let head = format!("BDAT {} LAST\r\n", text.len());
        client.send(&[head.as_bytes(), &text].concat())
    };
    sent.map_err(|e| format!("a message: {e}"))?;
    for _ in 0..replies {
        let reply = client.reply().map_err(|e| format!("no reply to a message: {e}"))?;
        if !reply.starts_with(['2', '4', '5']) {
            return Err(format!("a message: {reply}"));
        }
    }
    Ok(true)
}

/// A script of several lines, as it would be pipelined.
pub fn script(dialect: Dialect, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + random.below(8) {
        let line = line(dialect, random);
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
        if line == "DATA" {
            out.extend_from_slice(&dot_stuffed(&message(random)));
        }
    }
    out
}

fn line(dialect: Dialect, random: &mut Random) -> String {
    let hello = match dialect {
        Dialect::Lmtp => "LHLO a.example",
        Dialect::Submission => "EHLO a.example",
    };
    let line = match random.below(8) {
        0 => hello,
        1 => random.pick(&["HELO a.example", "EHLO [127.0.0.1]", "LHLO [IPv6:::1]", "EHLO", "LHLO x y"]),
        2 => random.pick(&[
            "MAIL FROM:<fuzz@example.org>",
            "MAIL FROM:<>",
            "MAIL FROM:<a@b> SIZE=99999999999",
            "MAIL FROM:<fuzz@example.org> BODY=8BITMIME SMTPUTF8 AUTH=<>",
            "MAIL FROM:<a@b> X=Y",
        ]),
        3 => random.pick(&[
            "RCPT TO:<fuzz@example.org>",
            "RCPT TO:<fuzz+x@example.org>",
            "RCPT TO:<postmaster>",
            "RCPT TO:<\"f uzz\"@example.org>",
            "RCPT TO:<@a,@b:fuzz@example.org>",
            "RCPT TO:<\u{fc}@example.org>",
        ]),
        4 => random.pick(&[
            "DATA",
            "DATA x",
            "BDAT 4 LAST\r\nabcd",
            "BDAT 2\r\nab",
            "BDAT 18446744073709551615",
            "BDAT -1",
        ]),
        5 => random.pick(&[
            "AUTH PLAIN AGEAYg==",
            "AUTH PLAIN\r\n*",
            "AUTH LOGIN\r\nYQ==\r\nYg==",
            "AUTH X",
            "AUTH SCRAM-SHA-256 biwsbj1hLHI9Yg==\r\nYw==",
        ]),
        6 => random.pick(&["NOOP", "NOOP x", "HELP", "VRFY a", "EXPN a", "RSET", "STARTTLS", "FROB", ""]),
        _ => "NOOP",
    };
    line.to_owned()
}

fn ask(client: &mut LineClient, line: &str) -> Result<String, String> {
    client.ask(line).map_err(|e| format!("no reply to {line:?}: {e}"))
}

/// RFC 5321 §3.8.
fn closes(reply: &str) -> bool {
    reply.starts_with("421") || reply.starts_with("221")
}
