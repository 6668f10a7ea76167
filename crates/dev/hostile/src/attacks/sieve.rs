//! ManageSieve, and scripts that are made to take much.

use posthaste_testkit::LineClient;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, COLLECTOR, Stage, push};

/// Octets of the largest script that is taken.
const SCRIPT_BYTES: usize = 256 * 1024;

/// The answer to a command: its last line.
fn answer(client: &mut LineClient) -> Result<String, String> {
    loop {
        let line = client.line().map_err(text)?;
        if ["OK", "NO", "BYE"].iter().any(|word| line.starts_with(word)) {
            return Ok(line);
        }
    }
}

fn with_script(client: &mut LineClient, command: &str, script: &str) -> Result<String, String> {
    let head = format!("{command} {{{}+}}\r\n", script.len());
    client.send(&[head.as_bytes(), script.as_bytes(), b"\r\n"].concat()).map_err(text)?;
    answer(client)
}

fn remove_all(stage: &Stage) -> Result<(), String> {
    let mut client = stage.sieve(ATTACKER).map_err(text)?;
    client.send(b"SETACTIVE \"\"\r\n").map_err(text)?;
    answer(&mut client)?;
    for n in 0..32 {
        client.send(format!("DELETESCRIPT \"s{n}\"\r\n").as_bytes()).map_err(text)?;
        answer(&mut client)?;
    }
    Ok(())
}

pub fn unread(stage: &Stage) -> Outcome {
    let mut client = stage.sieve(ATTACKER).map_err(text)?;
    let script = "#".repeat(SCRIPT_BYTES - 2) + "\r\n";
    let scripts = stage.of(4, 32);
    for n in 0..scripts {
        let stored = with_script(&mut client, &format!("PUTSCRIPT \"s{n}\""), &script)?;
        if !stored.starts_with("OK") {
            return Err(format!("a script of {SCRIPT_BYTES} octets: {stored}"));
        }
    }
    // Each command of 17 octets requests all the scripts, or one of them.
    let mut open = Vec::new();
    for commands in ["GETSCRIPT \"s0\"\r\n", "LISTSCRIPTS\r\n", "HAVESPACE \"x\" 1\r\n"] {
        for _ in 0..stage.of(1, 10) {
            let mut client = stage.sieve(ATTACKER).map_err(text)?;
            client.send(commands.repeat(15_000).as_bytes()).map_err(text)?;
            open.push(client);
        }
    }
    stage.hold()?;
    let count = open.len();
    drop(open);
    remove_all(stage)?;
    Ok(format!("{scripts} scripts stored, {count} sessions that ask for them and read nothing"))
}

pub fn scripts(stage: &Stage) -> Outcome {
    let mut hostile = vec![
        ("tests in tests", format!("if {}true {{ keep; }}", "not ".repeat(60_000))),
        ("blocks in blocks", "if true { ".repeat(20_000)),
        ("lists", format!("if header \"a\" [{}\"b\"] {{ keep; }}", "\"b\",".repeat(50_000))),
        ("comments", "/**/".repeat(65_000)),
        ("commands", "keep;".repeat(52_000)),
        ("texts without an end", "if header text:\r\n".repeat(15_000)),
        ("errors", "x;".repeat(130_000)),
    ];
    let repeated = "(((((a{1,30}){1,30}){1,30}){1,30}){1,30})".replace('"', "");
    hostile.push((
        "expressions",
        "require \"regex\";".to_owned()
            + &format!("if header :regex \"a\" \"{repeated}\" {{ keep; }}").repeat(3000),
    ));
    let mut said = Vec::new();
    let mut open = Vec::new();
    for (name, script) in &hostile {
        for _ in 0..stage.of(1, 4) {
            let mut client = stage.sieve(ATTACKER).map_err(text)?;
            let head = format!("CHECKSCRIPT {{{}+}}\r\n", script.len().min(SCRIPT_BYTES));
            let script = &script.as_bytes()[..script.len().min(SCRIPT_BYTES)];
            client.send(&[head.as_bytes(), script, b"\r\n"].concat()).map_err(text)?;
            open.push((name, client));
        }
    }
    stage.hold()?;
    for (name, client) in &mut open {
        let answer = answer(client)?;
        said.push(format!("{name} {}", answer.split(' ').next().unwrap_or_default()));
    }
    said.dedup();
    Ok(said.join(", "))
}

/// Stores a script of an account, which is then its active one.
fn activate(stage: &Stage, user: &str, script: &str) -> Result<(), String> {
    let mut client = stage.sieve(user).map_err(text)?;
    let stored = with_script(&mut client, "PUTSCRIPT \"s0\"", script)?;
    client.send(b"SETACTIVE \"s0\"\r\n").map_err(text)?;
    let active = answer(&mut client)?;
    match stored.starts_with("OK") && active.starts_with("OK") {
        true => Ok(()),
        false => Err(format!("the script: {stored}, {active}")),
    }
}

/// Delivers a message several times to the attacker, whose script takes long, and removes the
/// script.
fn run_over(stage: &Stage, times: usize, message: &str) -> Outcome {
    for _ in 0..times {
        let reply = stage.deliver(ATTACKER, message.as_bytes()).map_err(text)?;
        if !reply.starts_with("250") {
            return Err(format!("a message whose script takes long: {reply}"));
        }
    }
    stage.hold()?;
    remove_all(stage)?;
    Ok("each message kept".into())
}

pub fn runs(stage: &Stage) -> Outcome {
    // As many steps as a run may have, in a script that keeps the message.
    let test = "if anyof (header :contains [\"a\",\"b\",\"c\"] \"zzzz\", body :text :matches \"*a*b*c*d*e*\") { stop; }\r\n";
    let script = format!("require \"body\";\r\n{}keep;\r\n", test.repeat(2000));
    activate(stage, ATTACKER, &script)?;
    let message = format!("Subject: x\r\n\r\n{}", "abcd ".repeat(stage.of(2000, 200_000)));
    run_over(stage, stage.of(3, 20), &message)
}

/// Loops over the parts of a message within loops over them (RFC 5703 §3).
pub fn parts(stage: &Stage) -> Outcome {
    let test =
        "if header :mime :anychild :matches \"*\" \"*a*b*c*d*e*f*g*h*\" { addheader \"X-A\" \"${a}\"; }";
    let script = format!(
        "require [\"foreverypart\", \"mime\", \"variables\", \"editheader\"];\r\nset \"a\" \"x\";\r\n{}{}{test}{}",
        "set \"a\" \"${a}${a}${a}${a}\";\r\n".repeat(300),
        "foreverypart { ".repeat(4),
        " }".repeat(4)
    );
    activate(stage, ATTACKER, &script)?;
    let part = "--b\r\nX-H: aabcdefg\r\n\r\n".repeat(stage.of(200, 15_000));
    let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{part}");
    run_over(stage, stage.of(2, 10), &message)
}

/// Messages in the INBOX of an account.
fn messages(stage: &Stage, user: &str) -> Result<u64, String> {
    let lines = stage.login(user).map_err(text)?.imap("STATUS INBOX (MESSAGES)").map_err(text)?;
    let number = lines[0].rsplit(' ').next().map(|word| word.trim_end_matches(')'));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| format!("STATUS: {lines:?}"))
}

/// Two accounts whose scripts redirect each message to the other, at four of its addresses.
pub fn redirects(stage: &Stage) -> Outcome {
    let accounts = [ATTACKER, COLLECTOR];
    let mut before = 0;
    for (own, other) in [(ATTACKER, COLLECTOR), (COLLECTOR, ATTACKER)] {
        before += messages(stage, own)?;
        let (name, domain) = other.split_once('@').unwrap_or_default();
        let script: String =
            ["", "+a", "+b", "+c"].map(|tag| format!("redirect \"{name}{tag}@{domain}\";\r\n")).concat();
        activate(stage, own, &script)?;
    }
    let sent = stage.of(3, 50);
    for n in 0..sent {
        let reply = stage.deliver(ATTACKER, format!("Subject: {n}\r\n\r\nx\r\n").as_bytes());
        let reply = reply.map_err(text)?;
        if !reply.starts_with("250") {
            return Err(format!("a message that is redirected: {reply}"));
        }
    }
    stage.hold()?;
    for own in accounts {
        let mut client = stage.sieve(own).map_err(text)?;
        client.send(b"SETACTIVE \"\"\r\nDELETESCRIPT \"s0\"\r\n").map_err(text)?;
        answer(&mut client)?;
        answer(&mut client)?;
    }
    let mut after = 0;
    for own in accounts {
        after += messages(stage, own)?;
    }
    // Once there, and back from each address there. The addresses of an account get one copy.
    let (came, most) = (after - before, 4 * sent as u64);
    match came <= most {
        true => Ok(format!("{sent} messages became {came}")),
        false => Err(format!("{sent} messages became {came}, over {most}")),
    }
}

pub fn literals(stage: &Stage) -> Outcome {
    let sizes =
        ["0", "1", "262144", "262145", "4194304", "4294967295", "4294967296", "99999999999", "-1", "1e3", ""];
    let (mut asked, mut open) = (0, Vec::new());
    for size in sizes {
        for command in ["PUTSCRIPT \"s0\" ", "NOOP ", "AUTHENTICATE "] {
            for form in ["+}", "}"] {
                // Half of them log in: an account has a bounded number of sessions.
                let mut client = match asked % 2 {
                    0 => stage.sieve(ATTACKER),
                    _ => LineClient::connect(stage.address("sieve")),
                }
                .map_err(text)?;
                client.send(format!("{command}{{{size}{form}\r\n").as_bytes()).map_err(text)?;
                asked += 1;
                // Unfinished: it is left waiting for its octets.
                open.push(client);
            }
        }
    }
    // Octets that follow without an end, before and after a login.
    let mut sent = 0;
    for is_user in [false, true] {
        let mut socket = stage.socket("sieve").map_err(text)?;
        if is_user {
            use base64::Engine;
            let response = base64::engine::general_purpose::STANDARD
                .encode(format!("\0{ATTACKER}\0{}", crate::stage::PASSWORD));
            std::io::Write::write_all(
                &mut socket,
                format!("AUTHENTICATE \"PLAIN\" \"{response}\"\r\n").as_bytes(),
            )
            .map_err(text)?;
        }
        let mut left = stage.of(8, 256);
        let mut first = Some(b"PUTSCRIPT \"s0\" {4294967295+}\r\n".to_vec());
        sent += push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(first.take().unwrap_or_else(|| vec![b'#'; 1 << 20]))
        })?;
    }
    stage.hold()?;
    Ok(format!("{asked} left unfinished, {} MiB of endless literals read", sent >> 20))
}
