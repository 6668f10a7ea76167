//! Hosts that bring mail: floods of commands, chunks without an end, recipients that do not exist.

use std::io::Write;

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, Stage, last_words, push};

pub fn pipelined(stage: &Stage) -> Outcome {
    let mut said = Vec::new();
    for (name, command) in [
        ("NOOP", "NOOP\r\n".to_owned()),
        ("MAIL, RSET", "MAIL FROM:<a@example.net>\r\nRSET\r\n".to_owned()),
        ("VRFY", format!("VRFY {ATTACKER}\r\n")),
        ("EHLO", "EHLO a.example\r\n".to_owned()),
        ("nonsense", "XYZZY\r\n".to_owned()),
    ] {
        let mut socket = stage.socket("smtp").map_err(text)?;
        socket.write_all(b"EHLO a.example\r\n").map_err(text)?;
        let mut left = stage.of(5_000, 200_000) / 1000;
        let sent = push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(command.repeat(1000).into_bytes())
        })?;
        said.push(format!("{name} {} KiB", sent >> 10));
    }
    stage.hold()?;
    Ok(said.join(", "))
}

pub fn recipients(stage: &Stage) -> Outcome {
    let mut client = stage.client("smtp").map_err(text)?;
    client.ask("EHLO a.example").map_err(text)?;
    client.ask("MAIL FROM:<a@example.net>").map_err(text)?;
    let (mut taken, mut refused, mut last) = (0, 0, String::new());
    for n in 0..stage.of(1500, 10_000) {
        // Every third does not exist.
        let name = if n % 3 == 2 { "nobody" } else { "mallory" };
        let Ok(reply) = client.ask(&format!("RCPT TO:<{name}+{n}@example.org>")) else {
            last = "hung up".into();
            break;
        };
        match reply.starts_with("250") {
            true => taken += 1,
            false => (refused, last) = (refused + 1, reply.chars().take(9).collect()),
        }
    }
    stage.hold()?;
    match taken {
        0..=1000 => Ok(format!("{taken} taken, {refused} refused, at last {last}")),
        _ => Err(format!("{taken} recipients were taken")),
    }
}

pub fn chunks(stage: &Stage) -> Outcome {
    let begin = format!("EHLO a.example\r\nMAIL FROM:<a@example.net>\r\nRCPT TO:<{ATTACKER}>\r\n");
    let (mut open, mut silent) = (Vec::new(), Vec::new());
    for size in
        ["0", "1", "60000000", "4294967296", "18446744073709551615", "18446744073709551616", "-1", "x"]
    {
        for last in ["", " LAST", " last x"] {
            let mut socket = stage.socket("smtp").map_err(text)?;
            socket.write_all(format!("{begin}BDAT {size}{last}\r\nab").as_bytes()).map_err(text)?;
            open.push(socket);
        }
    }
    // Empty chunks without an end, chunks for nobody, and chunks over what a message may have.
    let mut sent = 0;
    for (head, piece) in [
        (begin.as_str(), "BDAT 0\r\n".repeat(10_000)),
        ("EHLO a.example\r\n", format!("BDAT 1000\r\n{}", "x".repeat(1000)).repeat(100)),
        (begin.as_str(), format!("BDAT 1000000\r\n{}", "x".repeat(1_000_000))),
    ] {
        let mut socket = stage.socket("smtp").map_err(text)?;
        socket.write_all(head.as_bytes()).map_err(text)?;
        let mut left = stage.of(2, 100);
        sent += push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(piece.clone().into_bytes())
        })?;
        match piece.starts_with("BDAT 0") {
            // The server makes each wait, and ends the session after a quarter of an hour.
            true => open.push(socket),
            false => _ = last_words(&mut socket),
        }
    }
    // Whole chunks, and silence after them. The next ones take their memory after ten seconds.
    let piece = vec![b'x'; stage.of(1 << 20, 60_000_000)];
    for _ in 0..stage.of(2, 20) {
        let mut client = stage.client("smtp").map_err(text)?;
        client.send(format!("{begin}BDAT {}\r\n", piece.len()).as_bytes()).map_err(text)?;
        // The bytes are in memory once they are acknowledged, or refused.
        for part in piece.chunks(1 << 20) {
            client.send(part).map_err(text)?;
        }
        for _ in 0..4 {
            client.reply().map_err(text)?;
        }
        silent.push(client);
    }
    stage.hold()?;
    let (unfinished, silent) = (open.len(), silent.len());
    Ok(format!(
        "{unfinished} unfinished chunks, {silent} silent after a chunk, {} MiB of others taken",
        sent >> 20
    ))
}
