//! URLs: a thousand look-ups in one command, and messages that are put together from much.

use posthaste_testkit::LineClient;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, Stage};

/// The answer to a command, which may have literals: its first two words.
fn said(client: &mut LineClient, command: &[u8]) -> Result<String, String> {
    client.send(&[b"u ", command, b"\r\n"].concat()).map_err(text)?;
    loop {
        let line = client.line().map_err(text)?;
        if let Some(answer) = line.strip_prefix("u ") {
            return Ok(answer.split(' ').take(2).collect::<Vec<_>>().join(" "));
        }
    }
}

/// A message of nothing but parts has the longest summary there is. Each URL makes the server read
/// it.
pub fn storm(stage: &Stage) -> Outcome {
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap("CREATE Urls").map_err(text)?;
    let mut message = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    message.extend(b"--b\r\n\r\nx\r\n".repeat(stage.of(2000, 100_000)));
    said(&mut client, &[format!("APPEND Urls {{{}+}}\r\n", message.len()).as_bytes(), &message].concat())?;
    let owner = ATTACKER.replace('@', "%40");
    let rump = format!("imap://{owner}@example.org/Urls/;UID=1/;SECTION=7;URLAUTH=authuser");
    let lines = client.imap(&format!("GENURLAUTH \"{rump}\" INTERNAL")).map_err(text)?;
    let url = lines[0].split('"').nth(1).ok_or_else(|| format!("no URL was made: {lines:?}"))?.to_owned();
    let many = |item: &str, count: usize| format!("{item} ").repeat(count).trim_end().to_owned();
    let local = "/Urls/;UID=1/;SECTION=7";
    let mut answers = Vec::new();
    for command in [
        format!("GENURLAUTH {}", many(&format!("\"{rump}\" INTERNAL"), 400)),
        format!("URLFETCH {}", many(&format!("\"{url}\""), stage.of(40, 350))),
        format!("URLFETCH {}", many(&format!("(\"{url}\" BODYPARTSTRUCTURE BINARY)"), stage.of(20, 250))),
        format!("URLFETCH {}", many(&format!("\"{rump}:INTERNAL:0\""), 400)),
        format!("APPEND Urls CATENATE ({})", many(&format!("URL \"{local}\""), 1024)),
        format!("APPEND Urls CATENATE ({})", many("URL \"/Urls/;UID=1\"", stage.of(20, 1024))),
    ] {
        answers.push(said(&mut client, command.as_bytes())?);
    }
    // A long text, and the message that was made of it.
    let long = vec![b'x'; stage.of(2 << 20, 60_000_000)];
    let head = format!("APPEND Urls CATENATE (TEXT {{{}+}}\r\n", long.len());
    answers.push(said(&mut client, &[head.as_bytes(), &long, b")"].concat())?);
    let status = client.imap("STATUS Urls (UIDNEXT)").map_err(text)?;
    let next = status[0].rsplit(' ').next().and_then(|word| word.trim_end_matches(')').parse::<u32>().ok());
    let last = next.unwrap_or(2) - 1;
    answers.push(said(&mut client, format!("APPEND Urls CATENATE (URL \"/Urls/;UID={last}\")").as_bytes())?);
    stage.hold()?;
    client.imap("DELETE Urls").map_err(text)?;
    Ok(answers.join(", "))
}
