//! Octets, line ends, and where a header begins and ends.

use super::{Named, with};

pub(super) fn all() -> Vec<Named> {
    [headers(), lengths(), octets(), ends()].concat()
}

/// RFC 5322 §2.1, §2.2.3.
fn headers() -> Vec<Named> {
    vec![
        ("no header", b"a text without a header\r\nand its second line\r\n".to_vec()),
        ("an empty line first", b"\r\nbody\r\n".to_vec()),
        ("a line end alone", b"\r\n".to_vec()),
        ("a LF alone", b"\n".to_vec()),
        ("one octet", b"x".to_vec()),
        ("empty lines alone", b"\r\n\r\n\r\n\r\n".to_vec()),
        ("no body", b"Subject: a\r\n".to_vec()),
        ("a header that is cut", b"Subject: a".to_vec()),
        (
            "a line without a colon",
            b"Subject: a\r\nno colon here\r\nTo: b@example.net\r\n\r\nbody\r\n".to_vec(),
        ),
        ("colons without names", b": a\r\n:\r\n: :\r\nSubject: b\r\n\r\nbody\r\n".to_vec()),
        ("blanks before colons", b"Subject : a\r\nTo\t : b@example.net\r\n\r\nbody\r\n".to_vec()),
        ("folding before any field", b" a\r\n\tb\r\nSubject: c\r\n\r\nbody\r\n".to_vec()),
        ("folded lines of blanks", b"Subject: a\r\n \t \r\nTo: b@example.net\r\n \r\n\r\nbody\r\n".to_vec()),
        ("folding at each place", folded()),
        (
            "a line of mbox first",
            b"From a@example.net Mon Jan  1 00:00:00 2024\r\nSubject: a\r\n\r\nFrom b\r\n>From c\r\n"
                .to_vec(),
        ),
        ("lengths that lie", with("Content-Length: 99999999999999999999\r\nLines: -1\r\nSize: 0")),
    ]
}

/// Each token on a line of its own.
fn folded() -> Vec<u8> {
    let fields = [
        "From:;\"a\";<;b;@;example.net;>",
        "Subject:;;=?utf-8?q?a?=;;=?utf-8?q?b?=;",
        "Date:;Mon;,;1;Jan;2024;00;:;00;:;00;+0000",
        "Message-ID:;<;1;@;example.net;>",
        "Content-Type:;text;/;plain;;charset;=;utf-8",
        "Content-Transfer-Encoding:;7bit",
    ];
    let folded = fields.map(|field| field.replace(';', "\r\n ")).join("\r\n");
    format!("{folded}\r\n\r\nbody\r\n").into_bytes()
}

/// RFC 5322 §2.1.1: a line has at most 998 octets.
fn lengths() -> Vec<Named> {
    let lines = [998, 999, 1000, 4096, 65_536, 100_000].map(|len| "x".repeat(len)).join("\r\n");
    vec![
        ("an endless line of a header", with("Subject: ".to_owned() + &"x".repeat(200_000))),
        ("an endless name", with("X-".to_owned() + &"n".repeat(20_000) + ": a")),
        ("9,000 empty fields", with("X:\r\n".repeat(8_999) + "X:")),
        ("lines of 998 octets and more", format!("Subject: a\r\n\r\n{lines}").into_bytes()),
    ]
}

fn octets() -> Vec<Named> {
    // Without the line ends, and with them.
    let controls: Vec<u8> = (1..32).chain([127]).filter(|octet| !b"\r\n".contains(octet)).collect();
    let each: Vec<u8> = (0..=255).collect();
    vec![
        (
            "NUL in each place",
            b"Sub\0ject: a\0b\r\nFrom: \0@\0\r\nContent-Type: text/plain; name=\"\0\"\r\n\r\n\0\0c\0\r\n"
                .to_vec(),
        ),
        ("control octets", with([b"Subject: ".as_slice(), &controls].concat())),
        ("names of 8 bits", b"S\xfcbject: a\r\n\xff\xfe: b\r\n\xc3\xbc: c\r\n\r\n\xff\r\n".to_vec()),
        ("each octet in the body", [b"Subject: a\r\n\r\n".as_slice(), &each, &each].concat()),
        (
            "answers of servers",
            b"Subject: a\r\n\r\n)\r\nt OK\r\n* BYE\r\n{5}\r\n~{9999999999}\r\n+OK\r\n-ERR\r\n250 a\r\n"
                .to_vec(),
        ),
        (
            "commands behind an end",
            b"Subject: a\r\n\r\nbody\r\n.\r\nMAIL FROM:<b@example.net>\r\nQUIT\r\n".to_vec(),
        ),
    ]
}

/// RFC 5322 §2.3: CR and LF occur together only.
fn ends() -> Vec<Named> {
    vec![
        ("a CR in the header", b"Subject: a\rX-Other: b\r\n\r\nbody\r\n".to_vec()),
        ("two CR in each line end", b"Subject: a\r\r\n\r\r\nbody\r\r\n".to_vec()),
        ("CR in the body", b"Subject: a\r\n\r\none\rtwo\r\r\nthree\r".to_vec()),
        ("LF as line end", b"Subject: a\nFrom: b@example.net\n\nbody\n.\nmore\n".to_vec()),
        (
            "line ends of each kind",
            b"Subject: a\nFrom: b@example.net\r\nTo: c@example.net\n\r\nbody\n\r\n\r\r\n\n\rlast".to_vec(),
        ),
        ("dots", b"Subject: a\r\n\r\n.\r\n..\r\n...\r\n.\n.\r\n.a\r\n\n.\n..\n.".to_vec()),
    ]
}
