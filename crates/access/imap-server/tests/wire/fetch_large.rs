//! Large messages, many messages, slow readers: bytes arrive as they were sent, whatever the pace.

use std::io::{Read, Write};
use std::time::Duration;

use crate::harness::{Server, fetch};

/// Bytes that repeat nowhere soon: a piece in the wrong place shows.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = b"Subject: large\r\nContent-Type: application/octet-stream\r\n\r\n".to_vec();
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(format!("{state:016x}").as_bytes());
        bytes.extend_from_slice(if state.is_multiple_of(5) { b"\r\n" } else { b" " });
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn twenty_megabytes_byte_by_byte() {
    const LEN: usize = 20 << 20;
    let server = Server::start();
    let message = noise(LEN);
    server.put("INBOX", &message);
    let mut wire = server.select("INBOX");
    let head = format!("BODY[] {{{LEN}}}\r\n");
    let answer = fetch(&mut wire, 1, "BODY.PEEK[]");
    assert!(answer.strip_prefix(head.as_bytes()) == Some(&message), "not as it was sent");
    // Ranges across the borders of pieces and of what is read whole.
    for (from, count) in
        [(0, 1), (LEN - 1, 9), (262_143, 2), (131_072, 262_144), (1, 262_145), (999_999, 5_000_000)]
    {
        let until = (from + count).min(LEN);
        let head = format!("BODY[]<{from}> {{{}}}\r\n", until - from);
        let answer = fetch(&mut wire, 1, &format!("BODY.PEEK[]<{from}.{count}>"));
        assert!(answer.strip_prefix(head.as_bytes()) == Some(&message[from..until]), "<{from}.{count}>");
    }
    let text = message.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let head = format!("BODY[1] {{{}}}\r\n", LEN - text);
    let answer = fetch(&mut wire, 1, "BODY.PEEK[1]");
    assert!(answer.strip_prefix(head.as_bytes()) == Some(&message[text..]));
    let answer = fetch(&mut wire, 1, "BINARY.PEEK[1]<7.5000000>");
    assert!(answer.ends_with(&message[text + 7..text + 5_000_007]));
}

#[test]
fn a_reader_that_takes_its_time() {
    const LEN: usize = 3 << 20;
    let server = Server::start();
    let message = noise(LEN);
    server.put("INBOX", &message);
    let wire = server.select("INBOX");
    let mut socket = wire.socket();
    // Twice in one packet, followed by another command: nothing of it is lost while the first
    // answer waits to be read.
    socket.write_all(b"a FETCH 1 (BODY.PEEK[] UID)\r\nb FETCH 1 (UID BODY.PEEK[])\r\nc NOOP\r\n").unwrap();
    let mut expected = format!("* 1 FETCH (BODY[] {{{LEN}}}\r\n").into_bytes();
    expected.extend_from_slice(&message);
    expected.extend_from_slice(b" UID 1)\r\na OK FETCH completed\r\n* 1 FETCH (UID 1 BODY[] {");
    expected.extend_from_slice(format!("{LEN}}}\r\n").as_bytes());
    expected.extend_from_slice(&message);
    expected.extend_from_slice(b")\r\nb OK FETCH completed\r\nc OK NOOP completed\r\n");
    let mut heard = Vec::with_capacity(expected.len());
    let mut piece = vec![0; 300_000];
    while heard.len() < expected.len() {
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "hung up after {} bytes", heard.len());
        heard.extend_from_slice(&piece[..count]);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(heard == expected);
}

/// More messages than a batch, than a chunk of the view and than the buffer holds, with gaps and
/// with bodies in between.
#[test]
fn many_messages_in_order() {
    let server = Server::start();
    let mut wire = server.login();
    let count = 1500;
    let mut command = String::from("a APPEND INBOX");
    for n in 0..count {
        // Each seventh has a field that no summary keeps.
        let trace = if n % 7 == 0 { "Received: yes\r\n" } else { "" };
        let text = format!("{trace}Subject: number {n}\r\n\r\n{}\r\n", "x".repeat(n % 300));
        command.push_str(&format!(" {{{}+}}\r\n{text}", text.len()));
    }
    wire.send(format!("{command}\r\n").as_bytes());
    wire.expect("a OK [APPENDUID … 1:1500] …");
    wire.run("C: b SELECT INBOX\nS~ b OK …\nC: c STORE 3,100:140,900,1499 +FLAGS.SILENT (\\Deleted)\nS: c OK …\nC: d EXPUNGE\nS~ d OK …");
    let left: Vec<usize> = (1..=count).filter(|n| !matches!(n, 3 | 100..=140 | 900 | 1499)).collect();
    for (items, with_body) in [
        ("UID", 0),
        ("UID ENVELOPE", 0),
        ("UID BODY.PEEK[HEADER.FIELDS (Subject)]", 1),
        ("UID BODY.PEEK[HEADER.FIELDS (Received)]", 1),
        ("UID BODY.PEEK[]", 1),
    ] {
        wire.send(format!("e FETCH 1:* ({items})\r\n").as_bytes());
        for (number, uid) in (1..).zip(&left) {
            let answer = crate::harness::response(&mut wire);
            let start = format!("* {number} FETCH (UID {uid}");
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with(&start), "{items}: {answer} is not {start}");
            let has_trace = (uid - 1) % 7 == 0;
            assert_eq!(
                answer.contains("Received: yes"),
                with_body > 0 && has_trace && !items.contains("(Subject")
            );
        }
        wire.expect("e OK …");
    }
}
