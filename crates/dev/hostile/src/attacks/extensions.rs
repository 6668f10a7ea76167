//! IMAP extensions: results that are kept up to date, sorting and threading of hostile headers,
//! annotations, pages, and a search index of text without repeated words.

use posthaste_testkit::LineClient;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, Stage, push, words};

pub(super) fn ok(client: &mut LineClient, command: &str) -> Result<Vec<String>, String> {
    let lines = client.imap(command).map_err(text)?;
    match lines.last() {
        Some(line) if line.starts_with("t OK") => Ok(lines),
        line => Err(format!("{}: {line:?}", command.chars().take(60).collect::<String>())),
    }
}

pub(super) fn word(client: &mut LineClient, command: &str) -> Result<String, String> {
    let lines = client.imap(command).map_err(text)?;
    Ok(lines.last().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned())
}

/// A session in a mailbox that holds these messages and no others.
pub(super) fn mailbox(stage: &Stage, name: &str, messages: &[String]) -> Result<LineClient, String> {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap(&format!("CREATE {name}")).map_err(text)?;
    ok(&mut client, &format!("SELECT {name}"))?;
    client.imap("STORE 1:* +FLAGS.SILENT (\\Deleted)").map_err(text)?;
    ok(&mut client, "EXPUNGE")?;
    for message in messages {
        ok(&mut client, &format!("APPEND {name} {{{}+}}\r\n{message}", message.len()))?;
    }
    Ok(client)
}

pub fn contexts(stage: &Stage) -> Outcome {
    let messages: Vec<String> =
        (0..stage.of(50, 1000)).map(|n| format!("Subject: s{n}\r\n\r\nbody\r\n")).collect();
    let mut changing = mailbox(stage, "Contexts", &messages)?;
    let (mut open, mut kept) = (Vec::new(), 0);
    for _ in 0..stage.of(3, 40) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        ok(&mut client, "SELECT Contexts")?;
        // Two more contexts than a session may have.
        for n in 0..10 {
            let command = format!("c{n} UID SORT RETURN (ALL UPDATE) (SUBJECT) UTF-8 NOT KEYWORD k{n}\r\n");
            client.send(command.as_bytes()).map_err(text)?;
            let mut is_kept = true;
            loop {
                let line = client.line().map_err(text)?;
                is_kept &= !line.contains("[NOUPDATE");
                if line.starts_with(&format!("c{n} ")) {
                    break;
                }
            }
            kept += usize::from(is_kept);
        }
        // None of them reads its reports.
        client.send(b"i IDLE\r\n").map_err(text)?;
        open.push(client);
    }
    for n in 0..stage.of(10, 200) {
        ok(
            &mut changing,
            &format!("UID STORE 1:* {}FLAGS.SILENT (k{})", if n % 2 == 0 { "+" } else { "-" }, n % 10),
        )?;
    }
    stage.hold()?;
    match kept <= 8 * open.len() {
        true => Ok(format!("{kept} results kept for {} sessions", open.len())),
        false => Err(format!("{kept} results kept for {} sessions", open.len())),
    }
}

pub fn threads(stage: &Stage) -> Outcome {
    let n = stage.of(60, 1500);
    let mut messages = Vec::new();
    for index in 0..n {
        // A chain, and each names many that are not there; the last closes the circle.
        let references: String =
            (0..stage.of(50, 200)).map(|m| format!(" <{}@x>\r\n", (index * 7 + m) % (n * 3))).collect();
        messages.push(format!(
            "Subject: {}{}s\r\nMessage-ID: <{index}@x>\r\nIn-Reply-To: <{}@x>\r\nReferences:{references}\r\nx\r\n",
            "Re: Fwd: [x] ".repeat(200),
            "re[5]: ".repeat(100),
            (index + n - 1) % n
        ));
    }
    messages.push(format!("Subject: {}\r\n\r\n", "Re: ".repeat(stage.of(10_000, 200_000))));
    messages.push(format!("Subject: {}\r\n\r\n", "[a]".repeat(stage.of(10_000, 200_000))));
    messages.push(format!("Subject: {}\r\n\r\n", "(fwd) ".repeat(stage.of(10_000, 200_000))));
    let mut client = mailbox(stage, "Threads", &messages)?;
    let mut said = Vec::new();
    for command in [
        "UID THREAD REFERENCES UTF-8 ALL",
        "UID THREAD REFS UTF-8 ALL",
        "UID THREAD ORDEREDSUBJECT UTF-8 ALL",
        "UID SORT (SUBJECT REVERSE FROM DISPLAYTO CC SIZE ARRIVAL DATE) UTF-8 ALL",
        "UID SORT RETURN (COUNT MIN MAX ALL) (SUBJECT SUBJECT SUBJECT SUBJECT SUBJECT) UTF-8 ALL",
        "UID SEARCH RETURN (PARTIAL -1:-4294967295) ALL",
        "UID SEARCH RETURN (PARTIAL 4294967294:4294967295 COUNT) ALL",
        "UID SEARCH RETURN (PARTIAL 0:0) ALL",
        "UID FETCH 1:* (UID) (PARTIAL -1:-4294967295)",
        "UIDBATCHES 1",
        "UIDBATCHES 500 1:4294967295",
        "UIDBATCHES 4294967295",
    ] {
        said.push(word(&mut client, command)?);
    }
    // Clients that do not wait for their answer.
    let mut open = Vec::new();
    for _ in 0..stage.of(2, 10) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        ok(&mut client, "SELECT Threads")?;
        client.send(b"a UID THREAD REFS UTF-8 ALL\r\n".repeat(20).as_slice()).map_err(text)?;
        open.push(client);
    }
    stage.hold()?;
    said.dedup();
    Ok(said.join(" "))
}

pub fn metadata(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let value = "v".repeat(1000);
    let (mut taken, mut refused) = (0, String::new());
    for n in 0..stage.of(300, 5000) {
        let depth = "/a".repeat(1 + n % 20);
        let target = if n % 2 == 0 { "\"\"" } else { "INBOX" };
        let command =
            format!("SETMETADATA {target} (/private/vendor/x{n}{depth} {{{}+}}\r\n{value})", value.len());
        let lines = client.imap(&command).map_err(text)?;
        match lines.last() {
            Some(line) if line.starts_with("t OK") => taken += 1,
            Some(line) => refused = line.chars().skip(2).take(30).collect(),
            None => {}
        }
    }
    let entries: String = (0..500).map(|n| format!(" /private/vendor/x{n}")).collect();
    let mut said = Vec::new();
    for command in [
        "GETMETADATA (DEPTH infinity) \"\" /private".to_owned(),
        "GETMETADATA (DEPTH infinity MAXSIZE 10) INBOX (/private /shared)".to_owned(),
        format!("GETMETADATA INBOX ({})", entries.trim()),
        format!("LIST \"\" \"*\" RETURN (METADATA ({}))", entries.trim()),
        "SETMETADATA INBOX (/private/vendor/** \"x\")".to_owned(),
        format!("SETMETADATA INBOX (/private/vendor{} \"x\")", "/a".repeat(500)),
    ] {
        said.push(word(&mut client, &command)?);
    }
    // Floods of listings that nobody reads.
    let mut socket_of_flood = stage.login(ATTACKER).map_err(text)?;
    let flood = "f GETMETADATA (DEPTH infinity) \"\" /private\r\n".repeat(500);
    socket_of_flood.send(flood.as_bytes()).map_err(text)?;
    stage.hold()?;
    for n in 0..taken + 100 {
        let target = if n % 2 == 0 { "\"\"" } else { "INBOX" };
        let depth = "/a".repeat(1 + n % 20);
        client.imap(&format!("SETMETADATA {target} (/private/vendor/x{n}{depth} NIL)")).map_err(text)?;
    }
    Ok(format!("{taken} entries kept, then {refused:?}; {}", said.join(" ")))
}

/// Large annotations of every message, and all of them requested at once (RFC 5257).
pub fn annotations(stage: &Stage) -> Outcome {
    let messages: Vec<String> =
        (0..stage.of(10, 300)).map(|n| format!("Subject: s{n}\r\n\r\nx\r\n")).collect();
    let mut client = mailbox(stage, "Annotated", &messages)?;
    let value = "v".repeat(stage.of(5000, 60_000));
    let mut said = Vec::new();
    for n in 0..stage.of(3, 30) {
        let (part, len) = (&value[n..], value.len() - n);
        let values = format!("(value.priv {{{len}+}}\r\n{part} value.shared {{{len}+}}\r\n{part})");
        said.push(word(&mut client, &format!("STORE 1:* ANNOTATION (/comment {values})"))?);
    }
    for command in [
        "FETCH 1:* (ANNOTATION (/* (value size)))".to_owned(),
        format!("SEARCH {}ALL", "ANNOTATION /comment value.priv \"vx\" ".repeat(16)),
        format!("SEARCH {}ALL", "ANNOTATION /comment value.priv \"vx\" ".repeat(100)),
    ] {
        said.push(word(&mut client, &command)?);
    }
    // Sessions that want all of them, and read nothing.
    let mut open = Vec::new();
    for _ in 0..stage.of(2, 20) {
        let mut other = stage.login(ATTACKER).map_err(text)?;
        ok(&mut other, "SELECT Annotated")?;
        other.send("a FETCH 1:* (ANNOTATION (/* (value size)))\r\n".repeat(20).as_bytes()).map_err(text)?;
        open.push(other);
    }
    stage.hold()?;
    drop(open);
    ok(&mut client, "CLOSE")?;
    ok(&mut client, "DELETE Annotated")?;
    said.dedup();
    Ok(said.join(" "))
}

pub fn index(stage: &Stage) -> Outcome {
    // Each message is made of words that no other has.
    let text_of = |n: usize| {
        let words = String::from_utf8(words(stage.of(20_000, 400_000))).expect("words are ASCII");
        words.replace('0', &format!("{n}q"))
    };
    let messages: Vec<String> = (0..stage.of(10, 100)).map(text_of).collect();
    let mut client = mailbox(stage, "Poisoned", &messages)?;
    let mut open = Vec::new();
    for n in 0..stage.of(3, 20) {
        ok(&mut client, &format!("UID SEARCH BODY zz{n}zz"))?;
        let mut other = stage.login(ATTACKER).map_err(text)?;
        ok(&mut other, "SELECT Poisoned")?;
        let keys: String = (0..200).map(|m| format!(" NOT TEXT y{n}{m:06}")).collect();
        other.send(format!("a UID SEARCH{keys}\r\n").as_bytes()).map_err(text)?;
        open.push(other);
    }
    stage.hold()?;
    Ok(format!("{} searches left without an answer", open.len()))
}

pub fn replace(stage: &Stage) -> Outcome {
    let mut client = mailbox(stage, "Drafts", &["Subject: draft\r\n\r\nx\r\n".into()])?;
    let draft = "Subject: draft\r\n\r\nagain\r\n";
    for _ in 0..stage.of(50, 1000) {
        ok(&mut client, &format!("REPLACE 1 Drafts {{{}+}}\r\n{draft}", draft.len()))?;
    }
    let mut said = Vec::new();
    for command in [
        "REPLACE 4294967295 Drafts {5+}\r\nhello",
        "REPLACE 1:* Drafts {5+}\r\nhello",
        "UID REPLACE 1 Nowhere {5+}\r\nhello",
    ] {
        said.push(word(&mut client, command)?);
    }
    // Announced and never sent.
    let mut open = Vec::new();
    for _ in 0..stage.of(10, 100) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        ok(&mut client, "SELECT Drafts")?;
        client.send(b"a REPLACE 1 Drafts {60000000}\r\n").map_err(text)?;
        open.push(client);
    }
    stage.hold()?;
    Ok(format!("{} replaced, {}", stage.of(50, 1000), said.join(" ")))
}

pub fn exchanges(stage: &Stage) -> Outcome {
    // Exchanges that are begun and cancelled, again and again, until the server hangs up.
    let mut said = Vec::new();
    for (port, line) in [
        ("imap", "a AUTHENTICATE SCRAM-SHA-256\r\n*\r\n"),
        ("pop3", "AUTH SCRAM-SHA-256\r\n*\r\n"),
        ("sieve", "AUTHENTICATE \"SCRAM-SHA-256\"\r\n\"*\"\r\n"),
        ("submission", "EHLO a.example\r\nAUTH SCRAM-SHA-256\r\n*\r\n"),
    ] {
        let mut socket = stage.socket(port).map_err(text)?;
        let mut left = stage.of(200, 2000);
        let sent = push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(line.repeat(20).into_bytes())
        })?;
        stage.hold()?;
        let words = crate::stage::last_words(&mut socket).unwrap_or_default();
        let lines = words.lines().count();
        if lines > 3000 {
            return Err(format!("{port} answered {lines} lines of exchanges that were cancelled"));
        }
        said.push(format!("{port} hung up after {lines} lines, {} KiB", sent >> 10));
    }
    Ok(said.join(", "))
}
