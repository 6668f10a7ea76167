//! Commands that would compute for long.

use std::io::Write;

use posthaste_testkit::LineClient;

use super::indexed::indexed;
use super::outcome::{Outcome, text};
use crate::Scale;
use crate::stage::{ATTACKER, COLLECTOR, LISTER, PASSWORD, Stage, push};

/// Sends commands in batches, and reads an answer for each: how many were OK.
pub(super) fn pipelined(client: &mut LineClient, commands: &[String]) -> Result<usize, String> {
    let mut taken = 0;
    for batch in commands.chunks(100) {
        let lines: String = batch.iter().map(|command| format!("p {command}\r\n")).collect();
        client.send(lines.as_bytes()).map_err(text)?;
        let mut left = batch.len();
        while left > 0 {
            let line = client.line().map_err(text)?;
            if let Some(answer) = line.strip_prefix("p ") {
                left -= 1;
                taken += usize::from(answer.starts_with("OK"));
            }
        }
    }
    Ok(taken)
}

fn answer(client: &mut LineClient, command: &str) -> Result<String, String> {
    let lines = client.imap(command).map_err(text)?;
    let last = lines.last().cloned().unwrap_or_default();
    let word = last.split(' ').nth(1).unwrap_or_default();
    Ok(format!("{word} after {} lines", lines.len() - 1))
}

/// The most levels above subscriptions that LIST and LSUB show (docs/limits.md).
const DERIVED_MAX: usize = 50_000;
/// Levels above a subscription: its name has 32, which is the most.
const LEVELS_ABOVE: usize = 31;

/// The name of a subscription with as many levels as possible, each of about `len` octets.
fn deep(n: usize, len: usize) -> String {
    let (width, level) = (len - 1, format!("/{}", "b".repeat(len)));
    format!("s{n:0width$}{}", level.repeat(LEVELS_ABOVE))
}

/// Subscribes to names, all of which have to be taken.
fn subscribe(client: &mut LineClient, names: &[String]) -> Result<(), String> {
    let commands: Vec<String> = names.iter().map(|name| format!("SUBSCRIBE {name}")).collect();
    match pipelined(client, &commands)? {
        taken if taken == names.len() => Ok(()),
        taken => Err(format!("{taken} of {} subscribed", names.len())),
    }
}

/// At full scale this is the costliest LIST that is permitted: names are as long as possible, and
/// one more is refused.
pub fn list(stage: &Stage) -> Outcome {
    let mut client = stage.login(LISTER).map_err(text)?;
    // A name of 32 levels of 30 octets has 991 of 1,000.
    let (count, len) = (stage.of(300, DERIVED_MAX / LEVELS_ABOVE), stage.of(1, 30));
    let names: Vec<String> = (0..count).map(|n| deep(n, len)).collect();
    subscribe(&mut client, &names)?;
    let patterns: Vec<String> = (0..256).map(|n| format!("\"*{}/%\"", n % 10)).collect();
    let extended = format!("LIST (SUBSCRIBED RECURSIVEMATCH) \"\" ({})", patterns.join(" "));
    let said = answer(&mut client, &extended)?;
    let lsub = answer(&mut client, "LSUB \"\" \"%/%/%/%/%/%/%/%/%/%/%/%/%/%/%/%/%\"")?;
    if !said.starts_with("OK") || !lsub.starts_with("OK") {
        return Err(format!("LIST was answered {said}, and LSUB {lsub}"));
    }
    let mut beyond = String::new();
    if stage.scale == Scale::Full {
        let more = deep(count, len);
        subscribe(&mut client, std::slice::from_ref(&more))?;
        beyond = format!("; beyond that {}", answer(&mut client, &extended)?);
        answer(&mut client, &format!("UNSUBSCRIBE {more}"))?;
        if !beyond.contains("NO") {
            return Err(format!("levels are shown{beyond}"));
        }
    }
    // A client that does not wait for the answer.
    client.send(format!("q {extended}\r\n").as_bytes()).map_err(text)?;
    stage.hold()?;
    Ok(format!("{count} subscribed; {said}; LSUB {lsub}{beyond}"))
}

pub fn wildcards(stage: &Stage) -> Outcome {
    let mut client = stage.login(COLLECTOR).map_err(text)?;
    let names: Vec<String> =
        (0..stage.of(200, 9_990)).map(|n| format!("CREATE {}{n}", "a".repeat(100))).collect();
    pipelined(&mut client, &names)?;
    let pattern = "*%a".repeat(60);
    client.send(format!("w LIST \"\" \"{pattern}*b\"\r\n").repeat(20).as_bytes()).map_err(text)?;
    stage.hold()?;
    answer(&mut client, "LIST \"\" \"*%*%*%*\"")
}

pub fn search(stage: &Stage) -> Outcome {
    // None of them is in it, so that each has to be looked for.
    let keys: String = (0..700).map(|n| format!(" NOT BODY z{n:015}")).collect();
    let mut open = Vec::new();
    for _ in 0..stage.of(2, 8) {
        let mut client = stage.in_large().map_err(text)?;
        // The command is a good one, and its mailbox is there.
        let nowhere = client.imap(&format!("UID SEARCH UID 2{keys}")).map_err(text)?;
        if nowhere.first().is_none_or(|line| line != "* SEARCH") {
            return Err(format!("SEARCH was answered {nowhere:?}"));
        }
        client.send(format!("a UID SEARCH UID 1{keys}\r\n").as_bytes()).map_err(text)?;
        open.push(client);
    }
    stage.hold()?;
    Ok(format!("{} left without an answer", open.len()))
}

/// Many short commands: each computes for less than a slice.
pub fn searches(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    // What an earlier round left behind.
    client.imap("DELETE Many").map_err(text)?;
    client.imap("CREATE Many").map_err(text)?;
    client.imap("APPEND Many {10+}\r\nA: b\r\n\r\nc\r").map_err(text)?;
    let (wanted, mut there) = (stage.of(2000, 100_000), 1);
    client.imap("SELECT Many").map_err(text)?;
    while there < wanted {
        answer(&mut client, "COPY 1:* Many")?;
        client.imap("NOOP").map_err(text)?;
        there *= 2;
    }
    let mut socket = stage.socket("imap").map_err(text)?;
    let begin = format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\nl SELECT Many\r\n");
    socket.write_all(begin.as_bytes()).map_err(text)?;
    let mut left = stage.of(5, 100);
    let sent = push(stage, &mut socket, || {
        left = left.checked_sub(1)?;
        Some("s SEARCH LARGER 4000000000\r\n".repeat(2000).into_bytes())
    })?;
    stage.hold()?;
    // Else the searches that are left would count as the index's work: they take minutes.
    drop(socket);
    let indexed = indexed(stage, there)?;
    Ok(format!("{} KiB of searches in {there} messages taken{indexed}", sent >> 10))
}

/// One APPEND of many messages whose summaries are larger than they are.
pub fn appends(stage: &Stage) -> Outcome {
    let mut message = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    while message.len() < stage.of(64 << 10, 255 << 10) {
        message.extend_from_slice(b"--b\r\n\r\n");
    }
    let mut said = Vec::new();
    let mut sessions = Vec::new();
    for _ in 0..stage.of(1, 2) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        client.send(b"a APPEND INBOX").map_err(text)?;
        for _ in 0..stage.of(40, 500) {
            client.send(format!(" {{{}}}\r\n", message.len()).as_bytes()).map_err(text)?;
            let line = client.line().map_err(text)?;
            if !line.starts_with('+') {
                return Err(format!("a message of an APPEND was answered {line}"));
            }
            client.send(&message).map_err(text)?;
        }
        sessions.push(client);
    }
    for client in &mut sessions {
        client.send(b"\r\n").map_err(text)?;
    }
    stage.hold()?;
    for client in &mut sessions {
        let line = client.line().map_err(text)?;
        said.push(line.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" "));
    }
    Ok(said.join(", "))
}

pub fn search_tree(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap("SELECT INBOX").map_err(text)?;
    let (n, mut said) = (stage.of(2000, 20_000), Vec::new());
    for keys in [
        format!("{}ALL", "NOT ".repeat(n)),
        format!("{}ALL{}", "(".repeat(n), ")".repeat(n)),
        format!("{}ALL ALL", "OR ALL ".repeat(n / 2)),
    ] {
        // The literal keeps it under the limit of a line, whatever that is.
        let answer = answer(&mut client, &format!("SEARCH {keys}"))?;
        if answer.starts_with("OK") && n > 10_000 {
            return Err(format!("a depth of {n} was taken"));
        }
        said.push(answer.split(' ').next().unwrap_or_default().to_owned());
    }
    stage.hold()?;
    Ok(said.join(" "))
}

pub fn sets(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap("SELECT INBOX").map_err(text)?;
    let sets = ["1,".repeat(8000) + "1", "1:4294967295,".repeat(1500) + "*", "*:1,".repeat(8000) + "2"];
    let mut said = Vec::new();
    for set in sets {
        for command in [
            format!("UID FETCH {set} UID"),
            format!("UID SEARCH UID {set}"),
            format!("UID STORE {set} +FLAGS.SILENT (\\Seen)"),
        ] {
            said.push(answer(&mut client, &command)?.split(' ').next().unwrap_or_default().to_owned());
        }
    }
    stage.hold()?;
    Ok(said.join(" "))
}

pub fn recipients(stage: &Stage) -> Outcome {
    let mut client = stage.client("lmtp").map_err(text)?;
    client.ask("LHLO a.example").map_err(text)?;
    client.ask("MAIL FROM:<a@example.net>").map_err(text)?;
    let (mut taken, mut refused, mut first_refusal) = (0, 0, None);
    // Each refusal comes later than the one before it.
    while refused < 20 && taken + refused < stage.of(1500, 10_000) {
        let name = ATTACKER.split('@').next().unwrap_or_default();
        let reply = client.ask(&format!("RCPT TO:<{name}+{taken}@example.org>")).map_err(text)?;
        if reply.starts_with("250") {
            taken += 1;
        } else {
            refused += 1;
            first_refusal.get_or_insert(reply);
        }
    }
    stage.hold()?;
    match first_refusal {
        Some(reply) if taken <= 1000 => {
            Ok(format!("{taken} taken, then {}", reply.chars().take(9).collect::<String>()))
        }
        _ => Err(format!("{taken} recipients were taken")),
    }
}
