//! Mailboxes that are renamed, copied into themselves, emptied and searched, many at a time.

use posthaste_testkit::LineClient;

use super::commands::pipelined;
use super::extensions::{mailbox, ok, word};
use super::indexed::indexed;
use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, Stage};

/// The answers to many commands, each once and in the order of its first.
fn words(client: &mut LineClient, commands: &[String]) -> Result<String, String> {
    let mut said: Vec<String> = Vec::new();
    for command in commands {
        let word = word(client, command)?;
        if !said.contains(&word) {
            said.push(word);
        }
    }
    Ok(said.join(" "))
}

/// A session in a mailbox of many small messages: some, copied into their own mailbox until there
/// are `wanted`.
fn filled(stage: &Stage, name: &str, wanted: usize) -> Result<LineClient, String> {
    let few: Vec<String> = (0..25).map(|n| format!("Subject: s{n}\r\n\r\nbody {n}\r\n")).collect();
    let mut client = mailbox(stage, name, &few)?;
    let mut there = few.len();
    while there < wanted {
        ok(&mut client, &format!("COPY 1:* {name}"))?;
        there *= 2;
    }
    Ok(client)
}

/// The number of mailboxes that a pattern lists.
fn listed(client: &mut LineClient, pattern: &str) -> Result<usize, String> {
    Ok(ok(client, &format!("LIST \"\" {pattern}"))?.len() - 1)
}

/// A tree that is renamed again and again, into itself, too deep, and by several sessions at once.
pub fn renames(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let children = stage.of(30, 2000);
    let names: Vec<String> = (0..children).map(|n| format!("CREATE Tree/x{n}")).collect();
    pipelined(&mut client, &names)?;
    let mut tree = "Tree".to_owned();
    for n in 0..stage.of(4, 30) {
        let next = format!("Tree{n}");
        ok(&mut client, &format!("RENAME {tree} {next}"))?;
        tree = next;
    }
    let said = words(
        &mut client,
        &[
            format!("RENAME {tree} {tree}/a/b"),
            format!("RENAME {tree} {}", ["q"; 400].join("/")),
            format!("RENAME {tree} {}", "q".repeat(20_000)),
        ],
    )?;
    let there_and_back = |n| {
        let (there, back) = (format!("{tree}/x{n} {tree}/y{n}"), format!("{tree}/y{n} {tree}/x{n}"));
        [format!("RENAME {there}"), format!("RENAME {back}")]
    };
    let commands: Vec<String> = (0..stage.of(10, 80)).flat_map(there_and_back).collect();
    let mut sessions = Vec::new();
    for _ in 0..stage.of(2, 6) {
        sessions.push(stage.login(ATTACKER).map_err(text)?);
    }
    std::thread::scope(|scope| -> Result<(), String> {
        let commands = &commands;
        let attack = |session| scope.spawn(move || pipelined(session, commands));
        let attackers: Vec<_> = sessions.iter_mut().map(attack).collect();
        for attacker in attackers {
            attacker.join().map_err(|_| "an attacker panicked".to_owned())??;
        }
        Ok(())
    })?;
    stage.hold()?;
    let left = listed(&mut client, &format!("{tree}/*"))?;
    let removed = |n| ["x", "y"].map(|letter| format!("DELETE {tree}/{letter}{n}"));
    pipelined(&mut client, &(0..children).flat_map(removed).collect::<Vec<_>>())?;
    client.imap(&format!("DELETE {tree}")).map_err(text)?;
    match left == children {
        true => Ok(format!("{children} mailboxes under each of their names, {said}")),
        false => Err(format!("{children} mailboxes were renamed, and {left} are there")),
    }
}

/// A mailbox that doubles, moves into itself, and gets keywords beyond those that it may have.
pub fn doublings(stage: &Stage) -> Outcome {
    let count = stage.of(200, 100_000);
    let mut client = filled(stage, "Doubled", count)?;
    let moved = word(&mut client, "UID MOVE 1:* Doubled")?;
    client.imap("NOOP").map_err(text)?;
    let keywords = |n: usize| (0..100).map(|m| format!("k{n}-{m}")).collect::<Vec<_>>().join(" ");
    let commands: Vec<String> =
        (0..stage.of(5, 50)).map(|n| format!("STORE 1:* +FLAGS.SILENT ({})", keywords(n))).collect();
    let said = words(&mut client, &commands)?;
    stage.hold()?;
    let indexed = indexed(stage, count)?;
    ok(&mut client, "CLOSE")?;
    ok(&mut client, "DELETE Doubled")?;
    Ok(format!("moved into itself: {moved}; keywords: {said}{indexed}"))
}

/// Sessions that each move all messages of a mailbox into itself, all at once. Each is served, or
/// refused with a code. No message is lost.
pub fn copies(stage: &Stage) -> Outcome {
    let count = stage.of(400, 50_000);
    let mut open = Vec::new();
    for n in 0..stage.of(4, 10) {
        open.push((format!("Moved{n}"), filled(stage, &format!("Moved{n}"), count)?));
    }
    for (name, client) in &mut open {
        client.send(format!("m UID MOVE 1:* {name}\r\n").as_bytes()).map_err(text)?;
    }
    stage.hold()?;
    let (mut moved, mut refused, mut there) = (0, 0, 0);
    for (name, client) in &mut open {
        let answer = loop {
            let line = client.line().map_err(text)?;
            if line.starts_with("m ") {
                break line;
            }
        };
        match answer.as_str() {
            line if line.starts_with("m OK") => moved += 1,
            line if line.starts_with("m NO [UNAVAILABLE]") || line.starts_with("m NO [LIMIT]") => {
                refused += 1
            }
            other => return Err(format!("a MOVE ended in {other}")),
        }
        let status = ok(client, &format!("STATUS {name} (MESSAGES)"))?.concat();
        let messages = status.split_once("(MESSAGES ").and_then(|(_, rest)| rest.split(')').next());
        let messages: usize =
            messages.and_then(|number| number.parse().ok()).ok_or_else(|| status.clone())?;
        if messages < count {
            return Err(format!("{name} has {messages} messages of {count}"));
        }
        there += messages;
    }
    if moved == 0 {
        return Err(format!("all {refused} sessions were refused"));
    }
    let indexed = indexed(stage, there)?;
    for (name, client) in &mut open {
        ok(client, "CLOSE")?;
        ok(client, &format!("DELETE {name}"))?;
    }
    Ok(format!("{moved} moved {count} messages each, {refused} refused{indexed}"))
}

/// Sessions that know every message of a mailbox, and read nothing while it is emptied.
pub fn emptied(stage: &Stage) -> Outcome {
    let mut client = filled(stage, "Emptied", stage.of(200, 50_000))?;
    let mut open = Vec::new();
    for n in 0..stage.of(4, 30) {
        let mut other = stage.login(ATTACKER).map_err(text)?;
        if n % 2 == 0 {
            ok(&mut other, "ENABLE QRESYNC")?;
        }
        ok(&mut other, "SELECT Emptied")?;
        other.send(b"i IDLE\r\n").map_err(text)?;
        open.push(other);
    }
    ok(&mut client, "STORE 1:* +FLAGS.SILENT (\\Deleted)")?;
    ok(&mut client, "EXPUNGE")?;
    stage.hold()?;
    ok(&mut client, "DELETE Emptied")?;
    Ok(format!("{} sessions knew what was expunged", open.len()))
}

/// Sessions that each stop at another version of a mailbox. Half of them are silent. The others
/// do not read the answer to a FETCH.
pub fn versions(stage: &Stage) -> Outcome {
    let mut client = filled(stage, "Versions", stage.of(400, 100_000))?;
    let mut open = Vec::new();
    for n in 0..stage.of(6, 50) {
        let mut other = stage.login(ATTACKER).map_err(text)?;
        ok(&mut other, "SELECT Versions")?;
        if n % 4 < 2 {
            other.send(b"f FETCH 1:* (UID FLAGS ENVELOPE)\r\n").map_err(text)?;
        }
        open.push(other);
        let sign = if n % 2 == 0 { '+' } else { '-' };
        ok(&mut client, &format!("STORE 1:* {sign}FLAGS.SILENT (\\Flagged)"))?;
    }
    stage.hold()?;
    let sessions = open.len();
    drop(open);
    ok(&mut client, "CLOSE")?;
    ok(&mut client, "DELETE Versions")?;
    Ok(format!("{sessions} sessions stopped at a version each"))
}

/// Clients that come back with a false memory of the mailbox (RFC 7162 §3.2.5).
pub fn resyncs(stage: &Stage) -> Outcome {
    let mut client = filled(stage, "Resynced", stage.of(200, 50_000))?;
    ok(&mut client, "STORE 1:* +FLAGS.SILENT (\\Deleted)")?;
    ok(&mut client, "EXPUNGE")?;
    ok(&mut client, "ENABLE QRESYNC")?;
    let status = client.imap("STATUS Resynced (UIDVALIDITY)").map_err(text)?;
    let validity: String = status[0].chars().filter(char::is_ascii_digit).collect();
    let list = |step: u32| (0..4000).map(|n| (n * step + 1).to_string()).collect::<Vec<_>>().join(",");
    let (odd, third) = (list(2), list(3));
    let memories = [
        "1 1:*".to_owned(),
        "1 1:4294967295 (1:4294967295 1:4294967295)".to_owned(),
        format!("1 {third}"),
        format!("1 1:* ({odd} {odd})"),
        format!("18446744073709551615 {odd}"),
    ];
    let mut said = Vec::new();
    for memory in memories {
        for _ in 0..stage.of(1, 10) {
            ok(&mut client, "UNSELECT")?;
            said.push(word(&mut client, &format!("SELECT Resynced (QRESYNC ({validity} {memory}))"))?);
            // One that was refused leaves nothing selected.
            client.imap("SELECT Resynced").map_err(text)?;
        }
    }
    stage.hold()?;
    ok(&mut client, "UNSELECT")?;
    ok(&mut client, "DELETE Resynced")?;
    said.dedup();
    Ok(said.join(" "))
}

/// Searches of all mailboxes at once, by sessions that read nothing.
pub fn searches(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let count = stage.of(30, 1500);
    let numbers = || 0..count;
    pipelined(&mut client, &numbers().map(|n| format!("CREATE Many{n}")).collect::<Vec<_>>())?;
    let message = "Subject: hello\r\n\r\nhi\r\n";
    for n in numbers().step_by(3) {
        ok(&mut client, &format!("APPEND Many{n} {{{}+}}\r\n{message}", message.len()))?;
    }
    let all: String = numbers().map(|n| format!(" Many{n}")).collect();
    let said = words(
        &mut client,
        &[
            "ESEARCH IN (personal) RETURN (COUNT MIN MAX ALL) TEXT hello".to_owned(),
            format!("ESEARCH IN (mailboxes ({})) RETURN (COUNT) NOT TEXT zz", all.trim()),
            format!("ESEARCH IN ({}) RETURN (COUNT) ALL", "subtree-one Many1 ".repeat(2000).trim()),
            format!("ESEARCH IN ({}) RETURN (COUNT) ALL", "personal subscribed ".repeat(800).trim()),
        ],
    )?;
    let mut open = Vec::new();
    for _ in 0..stage.of(2, 10) {
        let mut other = stage.login(ATTACKER).map_err(text)?;
        let flood = "x ESEARCH IN (personal) RETURN (COUNT ALL) OR TEXT hello NOT BODY zz\r\n".repeat(100);
        other.send(flood.as_bytes()).map_err(text)?;
        open.push(other);
    }
    stage.hold()?;
    drop(open);
    pipelined(&mut client, &numbers().map(|n| format!("DELETE Many{n}")).collect::<Vec<_>>())?;
    Ok(said)
}

/// Sessions that want to know of everything in every mailbox (RFC 5465), and read nothing.
pub fn notified(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    let count = stage.of(20, 500);
    let numbers = || 0..count;
    pipelined(&mut client, &numbers().map(|n| format!("CREATE News{n}")).collect::<Vec<_>>())?;
    let mut open = Vec::new();
    for _ in 0..stage.of(4, 60) {
        let mut other = stage.login(ATTACKER).map_err(text)?;
        ok(
            &mut other,
            "NOTIFY SET STATUS (PERSONAL (MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange))",
        )?;
        open.push(other);
    }
    let message = "Subject: news\r\n\r\nx\r\n";
    for n in 0..stage.of(40, 1000) {
        ok(&mut client, &format!("APPEND News{} {{{}+}}\r\n{message}", n % count, message.len()))?;
    }
    let renamed = |n| [format!("RENAME News{n} Old{n}"), format!("SUBSCRIBE Old{n}")];
    pipelined(&mut client, &numbers().flat_map(renamed).collect::<Vec<_>>())?;
    stage.hold()?;
    let sessions = open.len();
    drop(open);
    let removed = |n| [format!("UNSUBSCRIBE Old{n}"), format!("DELETE Old{n}")];
    pipelined(&mut client, &numbers().flat_map(removed).collect::<Vec<_>>())?;
    Ok(format!("{sessions} sessions, {count} mailboxes"))
}
