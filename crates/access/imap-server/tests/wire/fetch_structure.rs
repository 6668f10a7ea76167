//! ENVELOPE, BODY and BODYSTRUCTURE on mail as it should be, and as it is: RFC 9051 §7.5.2.

use bytes::Bytes;
use posthaste_imap_codec::response::{BodyStructure, FetchValue, PartKind, Response, Untagged};
use posthaste_imap_codec::{NameEncoding, parse_response};
use posthaste_testkit::Wire;

use crate::harness::{Server, fetch, fetch_text, literal, response};

#[test]
fn envelopes() {
    let server = Server::start();
    let mut wire = server.with_message(
        "Date: Mon, 7 Feb 1994 21:52:25 -0800 (PST)\n\
         From: =?iso-8859-1?Q?Andr=E9?= Pirard <PIRARD@vm1.test>\n\
         Sender: \"Terry \\\"T\\\" Gray\" <gray@cac.test>\n\
         To: undisclosed-recipients:;\n\
         Cc: A Group:Ed Jones <joe@where.test>,john@one.test;, solo@x.test\n\
         Subject: =?utf-8?B?w7xiZXI=?= plain\n folded\n\
         In-Reply-To: <b@c>\n\
         Message-ID: <a@b>\n\nx\n",
    );
    assert_eq!(
        fetch_text(&mut wire, 1, "ENVELOPE"),
        "ENVELOPE (\"Mon, 7 Feb 1994 21:52:25 -0800 (PST)\" \"=?utf-8?B?w7xiZXI=?= plain folded\" \
         ((\"=?iso-8859-1?Q?Andr=E9?= Pirard\" NIL \"PIRARD\" \"vm1.test\")) \
         ((\"Terry \\\"T\\\" Gray\" NIL \"gray\" \"cac.test\")) \
         ((\"=?iso-8859-1?Q?Andr=E9?= Pirard\" NIL \"PIRARD\" \"vm1.test\")) \
         ((NIL NIL \"undisclosed-recipients\" NIL)(NIL NIL NIL NIL)) \
         ((NIL NIL \"A Group\" NIL)(\"Ed Jones\" NIL \"joe\" \"where.test\")(NIL NIL \"john\" \"one.test\")(NIL NIL NIL NIL)\
         (NIL NIL \"solo\" \"x.test\")) NIL \"<b@c>\" \"<a@b>\")"
    );
}

#[test]
fn structures() {
    let server = Server::start();
    let mut wire = server.with_message(
        "Subject: outer\n\
         Content-Type: multipart/mixed; boundary=\"o\"; x=y\n\
         Content-Language: de, en\n\
         \n\
         --o\n\
         Content-Type: text/plain; charset=UTF-8\n\
         Content-ID: <id@x>\n\
         Content-Description: of it\n\
         Content-MD5: Q2hlY2s=\n\
         Content-Disposition: attachment; filename*=utf-8''na%C3%AFve.txt; size=3\n\
         Content-Location: here\n\
         \n\
         one\n\
         two\n\
         --o\n\
         Content-Type: message/rfc822\n\
         \n\
         Subject: inner\n\
         From: a@b\n\
         \n\
         text\n\
         --o\n\
         Content-Type: image/png; name=\"=?utf-8?Q?=C3=BC.png?=\"\n\
         Content-Transfer-Encoding: BASE64\n\
         \n\
         AAAA\n\
         --o--\n",
    );
    let inner = "(NIL \"inner\" ((NIL NIL \"a\" \"b\")) ((NIL NIL \"a\" \"b\")) ((NIL NIL \"a\" \"b\")) NIL NIL NIL NIL NIL)";
    assert_eq!(
        fetch_text(&mut wire, 1, "BODY"),
        format!(
            "BODY ((\"text\" \"plain\" (\"charset\" \"UTF-8\") \"<id@x>\" \"of it\" \"7bit\" 8 1)\
             (\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 33 {inner} (\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 4 0) 3)\
             (\"image\" \"png\" (\"name\" \"=?utf-8?Q?=C3=BC.png?=\") NIL NIL \"BASE64\" 4) \"mixed\")"
        )
    );
    let structure = fetch_text(&mut wire, 1, "BODYSTRUCTURE");
    for piece in [
        "\"7bit\" 8 1 \"Q2hlY2s=\" (\"attachment\" (\"filename*\" \"utf-8''na%C3%AFve.txt\" \"size\" \"3\")) NIL \"here\")",
        "\"BASE64\" 4 NIL NIL NIL NIL) \"mixed\" (\"boundary\" \"o\" \"x\" \"y\") NIL (\"de\" \"en\") NIL)",
    ] {
        assert!(structure.contains(piece), "{piece}\n{structure}");
    }
}

/// Mail as it is in the wild.
fn hard() -> Vec<Vec<u8>> {
    let crlf = |text: &str| text.replace('\n', "\r\n").into_bytes();
    let mut all = vec![
        b"".to_vec(),
        b"\r\n".to_vec(),
        b"x".to_vec(),
        b"Subject: no final newline\r\n\r\nbody".to_vec(),
        // 8 bits and NULs in header and body.
        b"From: J\xfcrgen \xff <j\xfc@x.test>\r\nSubject: gr\xfc\xdf\0e \xf0\x9f\x98\x80\r\n\r\nb\0dy\xff\r\n".to_vec(),
        b"Subject: \0\r\nFrom: \0\r\nTo: a\0b@c\0d\r\nMessage-ID: <\0>\r\nContent-Type: te\0xt/pl\0ain; ch\0=\"\0\"\r\n\r\n".to_vec(),
        // Boundaries: none, empty, never met, not closed, one that begins with another, met in a
        // header, in the wrong order.
        crlf("Content-Type: multipart/mixed\n\nx\n"),
        crlf("Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\nnever\n"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\n--b\n\nopen"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--bb\ny\n--b\n--b--\n"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=bb\n\n--bb\n\nx\n--b\n\ny\n--bb\n\nz\n--b--\n"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain;\n--b\n\nx\n--b--\n--b\n\nafter the end\n"),
        crlf("Content-Type: multipart/mixed; boundary=b\n\n--b--\n"),
        crlf("Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: in a digest\n\nx\n--b\n\n--b--\n"),
        // Names as RFC 2047 and RFC 2231 have them, and as they do not.
        crlf("Content-Type: application/x; name*0*=utf-8''%e2%82; name*1*=%ac; name*2=\" rest\"\n\nx\n"),
        crlf("Content-Type: application/x; name=\"=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=\"; name*=bad''%zz; =; ;;\n\nx\n"),
        crlf("Content-Type: text/plain; charset=\"unclosed\nContent-Disposition: ; filename=\n\nx\n"),
        crlf("Content-Type: nonsense\nContent-Transfer-Encoding:\nContent-Language: ,,\n\nx\n"),
        crlf("From: <>, <@>, @, \"\"@, (only a comment), a@b@c, <a b@c>, :;, x:, ;\nTo: \"unclosed\nDate: never\nSubject:\n\nx\n"),
        // Encoded against the rules.
        crlf("Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeA==\n"),
        crlf("Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nSubject: fourth\n\nx"),
        crlf("Content-Type: message/rfc822\n\n"),
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nbare\n--b\n\nlf\n--b--\n".to_vec(),
    ];
    let mut bomb = String::new();
    for depth in 0..300 {
        bomb.push_str(&format!(
            "Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\nContent-Type: message/rfc822\n\n"
        ));
    }
    all.push(crlf(&bomb));
    all
}

/// The value of a FETCH, as the client's parser reads it.
fn value(wire: &mut Wire, number: u32, item: &str) -> FetchValue {
    wire.send(format!("v FETCH {number} {item}\r\n").as_bytes());
    let bytes = Bytes::from(response(wire));
    wire.expect("v OK …");
    assert!(!bytes.contains(&0), "a NUL in {item} of message {number}");
    match parse_response(&bytes, NameEncoding::Utf7) {
        Ok(Response::Data(Untagged::Fetch { mut items, .. })) => items.pop().expect("a value"),
        other => panic!("{item} of {number}: {other:?}\n{}", String::from_utf8_lossy(&bytes)),
    }
}

/// Every part that a structure lists can be fetched, and has the length that it lists.
fn check(wire: &mut Wire, number: u32, body: &BodyStructure<'_>, path: &str) {
    let sub = |n: usize| if path.is_empty() { n.to_string() } else { format!("{path}.{n}") };
    match body {
        BodyStructure::Multi(multi) => {
            for (part, n) in multi.parts.iter().zip(1..) {
                check(wire, number, part, &sub(n));
            }
        }
        BodyStructure::Single(single) => {
            // A message that is no multipart has its body as part 1.
            let own = if path.is_empty() { "1" } else { path };
            check_single(wire, number, own, single.basic.size);
            if let PartKind::Message { body, .. } = &single.kind {
                let inner =
                    if matches!(body, BodyStructure::Multi(_)) { own.to_owned() } else { format!("{own}.1") };
                check(wire, number, body, &inner);
            }
        }
    }
}

fn check_single(wire: &mut Wire, number: u32, path: &str, size: u64) {
    let head = format!("BODY[{path}] {{{size}}}\r\n");
    let answer = fetch(wire, number, &format!("BODY.PEEK[{path}]"));
    assert!(answer.starts_with(head.as_bytes()), "message {number}: {}", String::from_utf8_lossy(&answer));
}

#[test]
fn hard_mail() {
    let server = Server::start();
    let all = hard();
    // RFC 3502 §3: an empty message cannot be appended.
    let all: Vec<_> = all.into_iter().filter(|message| !message.is_empty()).collect();
    for message in &all {
        server.put("INBOX", message);
    }
    let mut wire = server.select("INBOX");
    for (message, number) in all.iter().zip(1..) {
        assert!(matches!(value(&mut wire, number, "ENVELOPE"), FetchValue::Envelope(_)));
        let FetchValue::BodyStructure(structure) = value(&mut wire, number, "BODYSTRUCTURE") else {
            panic!("no structure")
        };
        check(&mut wire, number, &structure, "");
        let FetchValue::Body(body) = value(&mut wire, number, "BODY") else { panic!("no structure") };
        check(&mut wire, number, &body, "");
        assert!(matches!(value(&mut wire, number, "PREVIEW"), FetchValue::Preview(Some(_))));
        let whole = fetch(&mut wire, number, "BODY.PEEK[]");
        // A NUL goes out as 0x80 (see `fetch_binary`).
        let sent: Vec<u8> = message.iter().map(|&b| if b == 0 { 0x80 } else { b }).collect();
        assert!(whole.ends_with(&sent), "message {number}");
        assert!(whole.starts_with(format!("BODY[] {{{}}}\r\n", message.len()).as_bytes()));
        // Header and text are the whole.
        let header = fetch(&mut wire, number, "RFC822.HEADER");
        let text = fetch(&mut wire, number, "BODY.PEEK[TEXT]");
        let content = |answer: &[u8]| answer.split(|b| *b == b'\n').next().map_or(0, |line| line.len() + 1);
        let (header, text) = (&header[content(&header)..], &text[content(&text)..]);
        assert_eq!([header, text].concat(), sent, "message {number}");
    }
}

#[test]
fn ten_thousand_parts() {
    let server = Server::start();
    let mut message = String::from("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    for number in 1..=10_000 {
        message.push_str(&format!("--b\r\nX: {number}\r\n\r\npart {number}\r\n"));
    }
    message.push_str("--b--\r\n");
    server.put("INBOX", message.as_bytes());
    let mut wire = server.select("INBOX");
    let FetchValue::BodyStructure(BodyStructure::Multi(multi)) = value(&mut wire, 1, "BODYSTRUCTURE") else {
        panic!("no structure")
    };
    assert_eq!(multi.parts.len(), 10_000);
    for n in [1, 4_999, 10_000] {
        let content = format!("part {n}");
        assert_eq!(
            fetch_text(&mut wire, 1, &format!("BODY.PEEK[{n}]")),
            literal(&format!("BODY[{n}]"), &content)
        );
        let mime = fetch_text(&mut wire, 1, &format!("BODY.PEEK[{n}.MIME]"));
        assert_eq!(mime, literal(&format!("BODY[{n}.MIME]"), &format!("X: {n}\r\n\r\n")));
    }
    assert_eq!(fetch_text(&mut wire, 1, "BODY.PEEK[10001]"), "BODY[10001] NIL");
    wire.run("C: a SEARCH BODY \"part 9999\"\nS: * SEARCH 1\nS: a OK …\nC: b SEARCH BODY \"part 10001\"\nS: * SEARCH\nS: b OK …");
}
