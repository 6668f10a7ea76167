//! Messages of random structure (RFC 5322, RFC 2045): whole ones, and ones that lack something.

use posthaste_testkit::Random;

/// A message, 64 KiB at most.
pub fn message(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    entity(random, &mut out, 0);
    out.truncate(64 << 10);
    out
}

fn entity(random: &mut Random, out: &mut Vec<u8>, depth: usize) {
    const FIELDS: [&str; 12] = [
        "From: Ana <ana@example.net>, \"a, b\" <c@[127.0.0.1]>",
        "To: group: a@b, c@d;, undisclosed-recipients:;",
        "Cc: =?utf-8?B?w7w=?= <x@y> (comment (nested))",
        "Subject: =?iso-8859-1?Q?=FC?= =?utf-8?q?_x?=",
        "Date: Mon, 1 Jan 2024 00:00:00 +0000",
        "Message-ID: <1@example.net>",
        "References: <1@a> <2@b>\r\n <3@c>",
        "Content-Transfer-Encoding: base64",
        "Content-Transfer-Encoding: quoted-printable",
        "Content-Disposition: attachment; filename*0*=utf-8''%41; filename*1=b",
        "Subject: \u{fc} bare",
        "no field at all",
    ];
    for _ in 0..random.below(6) {
        let field = random.pick(&FIELDS);
        let times = if random.one_in(20) { 300 } else { 1 };
        for _ in 0..times {
            out.extend_from_slice(field.as_bytes());
            out.extend_from_slice(if random.one_in(20) { b"\n" } else { b"\r\n" });
        }
    }
    match random.below(5) {
        0 | 1 if depth < 12 => multipart(random, out, depth),
        2 if depth < 12 => {
            out.extend_from_slice(b"Content-Type: message/rfc822\r\n\r\n");
            entity(random, out, depth + 1);
        }
        _ => text(random, out),
    }
}

fn multipart(random: &mut Random, out: &mut Vec<u8>, depth: usize) {
    let boundary = format!("b{depth}");
    let kind = random.pick(&["mixed", "alternative", "digest", "x"]);
    out.extend_from_slice(
        format!("Content-Type: multipart/{kind}; boundary=\"{boundary}\"\r\n\r\n").as_bytes(),
    );
    for _ in 0..random.below(4) {
        out.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
        entity(random, out, depth + 1);
    }
    // Sometimes it does not end.
    if !random.one_in(4) {
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    }
}

fn text(random: &mut Random, out: &mut Vec<u8>) {
    let kind = random.pick(&[
        "text/plain; charset=utf-8",
        "text/html",
        "application/octet-stream",
        "x",
        "text/plain; charset=\"x",
    ]);
    out.extend_from_slice(format!("Content-Type: {kind}\r\n\r\n").as_bytes());
    for _ in 0..random.below(20) {
        let line = random.pick(&[
            "a word or two",
            "w7w=",
            "=C3=BC=",
            "..",
            ".",
            "--b1",
            "From here",
            "\u{fc}",
            "\0\0",
        ]);
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}
