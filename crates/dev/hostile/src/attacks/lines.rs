//! Lines without an end, literals of every size, and lines of other protocols or of none.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, PASSWORD, Stage, last_words, push};

/// The plain ports.
pub const PLAIN: [&str; 6] = ["imap", "lmtp", "submission", "pop3", "sieve", "smtp"];

pub fn endless(stage: &Stage) -> Outcome {
    let mut said = Vec::new();
    for port in PLAIN {
        let mut socket = stage.socket(port).map_err(text)?;
        let mut left = stage.of(8, 256);
        let sent = push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(vec![b'a'; 1 << 20])
        })?;
        stage.hold()?;
        let _ = last_words(&mut socket);
        said.push(format!("{port} read {} MiB", sent >> 20));
    }
    Ok(said.join(", "))
}

pub fn exchange(stage: &Stage) -> Outcome {
    let mut socket = stage.socket("imap").map_err(text)?;
    socket.write_all(b"a AUTHENTICATE PLAIN\r\n").map_err(text)?;
    let mut left = stage.of(4, 64);
    push(stage, &mut socket, || {
        left = left.checked_sub(1)?;
        Some(STANDARD.encode(vec![0; 768 << 10]).into_bytes())
    })?;
    stage.hold()?;
    let said = last_words(&mut socket).unwrap_or_default();
    match said.contains("a OK") {
        true => Err("zeros are a password".into()),
        false => Ok(last_line(&said)),
    }
}

pub fn literal_sizes(stage: &Stage) -> Outcome {
    let powers = (0..=64_u32).flat_map(|bits| {
        let power = 1_u128 << bits;
        [power - 1, power, power + 1].map(|size| size.to_string())
    });
    let odd = ["-1", "+1", "1e9", "0x10", "00000000000000000001", "", " 1", "99999999999999999999999999"];
    let sizes: Vec<String> = powers.chain(odd.map(str::to_owned)).collect();
    let every = stage.of(7, 1);
    let (mut asked, mut answered) = (0, 0);
    for (n, size) in sizes.iter().enumerate().filter(|(n, _)| n % every == 0 || *n > 190) {
        for (command, form) in [("LOGIN", ""), ("LOGIN", "+"), ("APPEND INBOX", ""), ("APPEND INBOX", "+")] {
            let mut socket = stage.socket("imap").map_err(text)?;
            let eight = if n % 2 == 1 && command != "LOGIN" { "~" } else { "" };
            let login = format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\n");
            let login = if command == "LOGIN" { "" } else { &login };
            let lines = format!("{login}a {command} {eight}{{{size}{form}}}\r\n");
            socket.write_all(lines.as_bytes()).map_err(text)?;
            asked += 1;
            if asked == 1 {
                stage.hold()?;
            }
            let said = last_words(&mut socket).map_err(|e| format!("{lines:?}: {e}"))?;
            if said.contains("a OK") {
                return Err(format!("{lines:?} was answered {said:?}"));
            }
            // The greeting alone is no answer, unless the octets follow at once and do not come.
            answered += usize::from(said.lines().count() > 1 + login.len().min(1));
        }
    }
    Ok(format!("{answered} of {asked} answered, the others waited for octets"))
}

pub fn http(stage: &Stage) -> Outcome {
    let mut said = Vec::new();
    for port in PLAIN {
        for verb in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "PRI", "get"] {
            let mut socket = stage.socket(port).map_err(text)?;
            let hello = if port == "lmtp" { "LHLO" } else { "EHLO" };
            // A page chooses the target, too: longer than any line of a command.
            let target = "x".repeat(if verb == "PUT" { 20_000 } else { 0 });
            let request = format!(
                "{verb} /{target} HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{hello} a.example\r\na1 NOOP\r\n"
            );
            let _ = socket.write_all(request.as_bytes());
            if verb == "POST" {
                stage.hold()?;
            }
            let answer = last_words(&mut socket).unwrap_or_default();
            // A web page must not be able to speak SMTP or LMTP through a browser.
            if answer.contains("PIPELINING") {
                return Err(format!("{port} obeyed the body of {verb}"));
            }
            if verb == "POST" {
                said.push(format!("{port}: {}", last_line(&answer)));
            }
        }
    }
    Ok(said.join(", "))
}

pub fn starttls(stage: &Stage) -> Outcome {
    let scripts = [
        ("imap", "a STARTTLS\r\nb CAPABILITY\r\nc NOOP\r\n", "c OK"),
        ("submission", "EHLO a.example\r\nSTARTTLS\r\nEHLO b.example\r\nNOOP\r\nNOOP\r\n", "Nothing done"),
        ("lmtp", "LHLO a.example\r\nSTARTTLS\r\nLHLO b.example\r\nNOOP\r\nNOOP\r\n", "Nothing done"),
        ("smtp", "EHLO a.example\r\nSTARTTLS\r\nEHLO b.example\r\nNOOP\r\nNOOP\r\n", "Nothing done"),
        ("pop3", "STLS\r\nCAPA\r\nUSER a\r\n", "UIDL"),
        ("sieve", "STARTTLS\r\nNOOP \"obeyed\"\r\n", "obeyed"),
    ];
    for (port, script, obeyed) in scripts {
        let mut socket = stage.socket(port).map_err(text)?;
        socket.write_all(script.as_bytes()).map_err(text)?;
        stage.hold()?;
        let said = last_words(&mut socket).map_err(text)?;
        // RFC 3207 §4.2, RFC 9051 §11.1: nothing from before the handshake counts.
        if said.contains(obeyed) {
            return Err(format!("{port} obeyed what came behind STARTTLS"));
        }
    }
    Ok("nothing behind STARTTLS was obeyed".into())
}

pub fn smuggling(stage: &Stage) -> Outcome {
    let ends = [
        "\n.\n",
        "\n.\r\n",
        "\r.\r",
        "\r\n.\n",
        "\r\n.\r",
        "\r.\r\n",
        "\r\n\0.\r\n",
        "\r\n.\r\r\n",
        "\r\r\n.\r\r\n",
    ];
    let before = messages(stage)?;
    let tries = ["lmtp", "smtp"].iter().flat_map(|port| ends.map(|end| (*port, end)));
    for (port, end) in tries {
        let mut client = stage.client(port).map_err(text)?;
        let hello = if port == "lmtp" { "LHLO" } else { "EHLO" };
        let lines =
            format!("{hello} a.example\r\nMAIL FROM:<a@example.net>\r\nRCPT TO:<{ATTACKER}>\r\nDATA\r\n");
        client.send(lines.as_bytes()).map_err(text)?;
        for _ in 0..4 {
            client.reply().map_err(text)?;
        }
        if end == ends[0] {
            stage.hold()?;
        }
        let second = format!("MAIL FROM:<evil@example.net>\r\nRCPT TO:<{ATTACKER}>\r\nDATA\r\nSubject: two");
        let first = format!("Subject: one\r\n\r\none{end}{second}\r\n.\r\nQUIT\r\n");
        client.send(first.as_bytes()).map_err(text)?;
        let replies = [client.reply().map_err(text)?, client.reply().map_err(text)?];
        if !replies[0].starts_with("250") || !replies[1].starts_with("221") {
            return Err(format!("{port}: {end:?} was answered {replies:?}"));
        }
    }
    match messages(stage)? - before {
        count if count == 2 * ends.len() => Ok(format!("{count} messages of {count}")),
        count => Err(format!("{count} messages of {}", 2 * ends.len())),
    }
}

/// Messages in the attacker's INBOX.
fn messages(stage: &Stage) -> Result<usize, String> {
    let lines = stage.login(ATTACKER).and_then(|mut client| client.imap("STATUS INBOX (MESSAGES)"));
    let lines = lines.map_err(text)?;
    let number = lines.first().and_then(|line| line.split("MESSAGES ").nth(1));
    number
        .and_then(|rest| rest.trim_end_matches(')').parse().ok())
        .ok_or_else(|| format!("STATUS was answered {lines:?}"))
}

/// The last line, so short that it fits a table.
fn last_line(said: &str) -> String {
    let line = said.lines().last().unwrap_or("hung up without a word");
    line.chars().filter(|c| *c != '|').take(60).collect()
}
