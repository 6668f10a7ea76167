//! The memory and work of one FETCH, however many items it has. Parts are decoded once. Memory
//! comes from a budget. A part that cannot be read shows before the response begins.

use posthaste_net::ByteBudget;

use crate::harness::{Server, response};

/// As many items as a command may have.
const ITEMS: usize = 1024;

/// A message of two parts in base64, each of which decodes to this many bytes of a letter.
fn encoded(len: usize) -> Vec<u8> {
    // Three times the letter in base64, and its NULs at the end of the second part.
    let part = |group: &str| {
        let line = group.repeat(19);
        let lines = format!("{line}\r\n").repeat(len / 57);
        format!("--b\r\nContent-Transfer-Encoding: base64\r\n\r\n{lines}")
    };
    let (xs, ys) = (part("eHh4"), part("eXl5"));
    format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{xs}{ys}AAAA\r\n--b--\r\n").into_bytes()
}

/// 1,024 items that all are of a large part: once each decoded it, and all of them were held.
#[test]
fn a_part_is_decoded_once_for_all_items() {
    const LEN: usize = 570_000;
    let message = encoded(LEN);
    let reads = ByteBudget::new(message.len());
    let server = Server::start_reading(reads.clone(), message.len() as u64);
    server.put("INBOX", &message);
    let mut wire = server.select("INBOX");
    let items: Vec<String> = (0..ITEMS - 3).map(|k| format!("BINARY.PEEK[1]<{k}.1>")).collect();
    let items = format!("BINARY.SIZE[1] BINARY.SIZE[2] {} BINARY.PEEK[2]<569999.9>", items.join(" "));
    wire.send(format!("a FETCH 1 ({items})\r\n").as_bytes());
    let answer = response(&mut wire);
    wire.expect("a OK …");
    let expected: Vec<String> = (0..ITEMS - 3).map(|k| format!("BINARY[1]<{k}> {{1}}\r\nx")).collect();
    let end = "BINARY[2]<569999> ~{4}\r\ny\0\0\0";
    let expected = format!(
        "* 1 FETCH (BINARY.SIZE[1] {LEN} BINARY.SIZE[2] {} {} {end})\r\n",
        LEN + 3,
        expected.join(" ")
    );
    assert!(answer == expected.as_bytes(), "not what was asked for");
    assert_eq!(server.service().parts_decoded(), 2, "each of two parts once");
    assert_eq!(reads.available(), message.len(), "all is given back");
}

/// A part that is not encoded is never held: each item reads only the octets that it prints.
#[test]
fn many_pieces_of_a_part_as_it_stands() {
    let text: String = (0..100_000).map(|n| format!("{n:07}\r\n")).collect();
    let message =
        format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n{text}\0\r\n--b--\r\n");
    // Nothing at all may be held.
    let server = Server::start_reading(ByteBudget::new(1), 1);
    server.deliver(message.as_bytes());
    let mut wire = server.select("INBOX");
    let items: Vec<String> = (0..500).map(|k| format!("BODY.PEEK[1]<{}.2000>", k * 900)).collect();
    wire.send(format!("a FETCH 1 ({})\r\n", items.join(" ")).as_bytes());
    let answer = String::from_utf8(response(&mut wire)).unwrap();
    wire.expect("a OK …");
    let pieces: Vec<String> = (0..500)
        .map(|k| format!("BODY[1]<{0}> {{2000}}\r\n{1}", k * 900, &text[k * 900..k * 900 + 2000]))
        .collect();
    assert!(answer == format!("* 1 FETCH ({})\r\n", pieces.join(" ")), "not what was asked for");
    // The NUL is at the very end, far after the first piece that is read.
    wire.send(b"b FETCH 1 (BINARY.SIZE[1] BINARY.PEEK[1])\r\n");
    let start = wire.line().unwrap();
    assert!(start.starts_with("* 1 FETCH (BINARY.SIZE[1] 900001 BINARY[1] ~{900001}"), "{start}");
    assert!(wire.take(900_001).starts_with(text.as_bytes()));
    wire.expect(")");
    wire.expect("b OK …");
}

/// More than the budget holds is refused before the response begins, and the session continues.
#[test]
fn no_more_is_decoded_than_the_budget_allows() {
    let message = encoded(570_000);
    let server = Server::start_reading(ByteBudget::new(800_000), 800_000);
    // APPEND would not take it: the store has it from somewhere else.
    server.deliver(&message);
    server.select("INBOX").run(
        r"
        C: a FETCH 1 (UID BINARY.SIZE[1] BINARY.SIZE[2])
        S: a NO [UNAVAILABLE] Too much is being read at the moment, try again later
        C: b FETCH 1 (UID BINARY.SIZE[2])
        S: * 1 FETCH (UID 1 BINARY.SIZE[2] 570003)
        S: b OK …
        ",
    );
}

/// A thousand lists of names on a header of ten thousand fields, kept in the summary or not.
#[test]
fn many_lists_of_fields() {
    for (fields, at_hand) in [(10_000, true), (60_000, false)] {
        let header = "a:\r\n".repeat(fields);
        let server = Server::start();
        server.put("INBOX", format!("{header}X-Last: yes\r\n\r\nbody").as_bytes());
        let mut wire = server.select("INBOX");
        let items: Vec<String> =
            (0..ITEMS - 1).map(|k| format!("BODY.PEEK[HEADER.FIELDS (B{k} Received)]")).collect();
        wire.send(format!("a FETCH 1 ({} UID)\r\n", items.join(" ")).as_bytes());
        let answer = String::from_utf8(response(&mut wire)).unwrap();
        wire.expect("a OK …");
        assert_eq!(answer.matches("] {2}\r\n\r\n").count(), ITEMS - 1, "{at_hand}");
        assert!(answer.ends_with(" UID 1)\r\n"));
    }
}
