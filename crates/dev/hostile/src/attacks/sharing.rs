//! Mailboxes that are shared with as many as possible, and rights that change all the while.

use posthaste_testkit::LineClient;

use super::commands::pipelined;
use super::outcome::{Outcome, text};
use crate::stage::{BYSTANDER, SHARER, Stage};

/// Sessions at full scale that list everything and read no answer. Each has a list of its own.
const UNREAD: usize = 8;

fn last(client: &mut LineClient, command: &str) -> Result<String, String> {
    let lines = client.imap(command).map_err(text)?;
    Ok(lines.last().cloned().unwrap_or_default())
}

fn ok(client: &mut LineClient, command: &str) -> Result<(), String> {
    let line = last(client, command)?;
    if line.starts_with("t OK") { Ok(()) } else { Err(format!("{command}: {line}")) }
}

/// A list of one entry, inherited by thousands of mailboxes. Another one of 200 entries is
/// inherited until the account is full. Those who see the mailboxes list them, while one right
/// changes. Some read no answer. The others list the level above: one line, and as much work.
pub fn lists(stage: &Stage) -> Outcome {
    let mut owner = stage.login(SHARER).map_err(text)?;
    // What an earlier round left behind.
    owner.imap("CREATE Broad").map_err(text)?;
    ok(&mut owner, &format!("SETACL Broad {BYSTANDER} lr"))?;
    // With their parent, they leave room for whole lists of 200 entries.
    let broad = 0..stage.of(29, 9_399);
    pipelined(&mut owner, &broad.map(|n| format!("CREATE Broad/{n}")).collect::<Vec<_>>())?;
    owner.imap("CREATE Wide").map_err(text)?;
    ok(&mut owner, &format!("SETACL Wide {BYSTANDER} lr"))?;
    for n in 1..stage.of(30, 200) {
        ok(&mut owner, &format!("SETACL Wide u{n}@example.org lr"))?;
    }
    for n in 0..stage.of(30, 200) {
        ok(&mut owner, &format!("CREATE Wide/{n}"))?;
    }
    let more = last(&mut owner, "SETACL INBOX one-more@example.org l")?;
    let limited = more.starts_with("t NO [LIMIT]");
    if stage.of(0, 1) == 1 && !limited {
        return Err(format!("49,600 entries were asked for, and one more is {more}"));
    }
    let mut readers = Vec::new();
    for n in 0..stage.of(3, 40) {
        let mut reader = stage.login(BYSTANDER).map_err(text)?;
        let flood = match n < stage.of(2, UNREAD) {
            true => "f LIST \"\" \"Other Users/*\" RETURN (MYRIGHTS STATUS (MESSAGES))\r\n".repeat(20),
            false => "f LIST \"\" \"Other Users/%\"\r\n".repeat(5),
        };
        reader.send(flood.as_bytes()).map_err(text)?;
        readers.push(reader);
    }
    for n in 0..stage.of(20, 500) {
        let rights = if n % 2 == 0 { "l" } else { "lr" };
        ok(&mut owner, &format!("SETACL Wide {BYSTANDER} {rights}"))?;
    }
    stage.hold()?;
    drop(readers);
    // The others stay: nobody else uses this account.
    for n in 0..stage.of(30, 200) {
        owner.imap(&format!("DELETE Wide/{n}")).map_err(text)?;
    }
    owner.imap("DELETE Wide").map_err(text)?;
    owner.imap("DELETEACL INBOX one-more@example.org").map_err(text)?;
    Ok(if limited { "entries are refused with LIMIT" } else { "fewer entries than the limit" }.into())
}
