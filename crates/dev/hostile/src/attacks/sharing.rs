//! Mailboxes that are shared with as many as possible, and rights that change all the while.

use posthaste_testkit::LineClient;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, BYSTANDER, Stage};

fn last(client: &mut LineClient, command: &str) -> Result<String, String> {
    let lines = client.imap(command).map_err(text)?;
    Ok(lines.last().cloned().unwrap_or_default())
}

fn ok(client: &mut LineClient, command: &str) -> Result<(), String> {
    let line = last(client, command)?;
    if line.starts_with("t OK") { Ok(()) } else { Err(format!("{command}: {line}")) }
}

/// A list of 200 entries, inherited by thousands of mailboxes. Those who see them list them, and
/// read no answer, while one right changes.
pub fn lists(stage: &Stage) -> Outcome {
    let mut owner = stage.login(ATTACKER).map_err(text)?;
    // What an earlier round left behind.
    owner.imap("CREATE Wide").map_err(text)?;
    ok(&mut owner, &format!("SETACL Wide {BYSTANDER} lr"))?;
    for n in 1..stage.of(30, 200) {
        ok(&mut owner, &format!("SETACL Wide u{n}@example.org lr"))?;
    }
    for n in 0..stage.of(30, 2000) {
        ok(&mut owner, &format!("CREATE Wide/{n}"))?;
    }
    let more = last(&mut owner, "SETACL INBOX one-more@example.org l")?;
    let limited = more.starts_with("t NO [LIMIT]");
    if stage.of(0, 1) == 1 && !limited {
        return Err(format!("400,000 entries were asked for, and one more is {more}"));
    }
    let mut readers = Vec::new();
    for _ in 0..stage.of(3, 40) {
        let mut reader = stage.login(BYSTANDER).map_err(text)?;
        let flood = "f LIST \"\" \"Other Users/*\" RETURN (MYRIGHTS STATUS (MESSAGES))\r\n".repeat(20);
        reader.send(flood.as_bytes()).map_err(text)?;
        readers.push(reader);
    }
    for n in 0..stage.of(20, 500) {
        let rights = if n % 2 == 0 { "l" } else { "lr" };
        ok(&mut owner, &format!("SETACL Wide {BYSTANDER} {rights}"))?;
    }
    stage.hold()?;
    drop(readers);
    for n in 0..stage.of(30, 2000) {
        owner.imap(&format!("DELETE Wide/{n}")).map_err(text)?;
    }
    owner.imap("DELETE Wide").map_err(text)?;
    owner.imap("DELETEACL INBOX one-more@example.org").map_err(text)?;
    Ok(if limited { "entries are refused with LIMIT" } else { "fewer entries than the limit" }.into())
}
