//! SEARCH in header and body as a person reads them: encoded words, transfer encodings, charsets.
//! RFC 9051 §6.4.4.

use crate::harness::{Server, search, searches};

#[test]
fn headers() {
    let server = Server::start();
    for message in [
        "From: Ana Alt <ana@x.test>\nTo: \"Bob, B.\" <bob@y.test>, list: carl@z.test;\nCc: =?iso-8859-1?Q?J=FCrgen?= <j@y.test>\n\
         Bcc: dora@y.test\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\n =?utf-8?B?IGF1cyBL?= =?iso-8859-1?Q?=F6ln?=\nX-Empty:\nX-One: 1\n\nbody\n",
        "From: =?koi8-r?B?8NLJ18XU?= <p@x.test>\nSubject: folded\n over\n\tlines\nReceived: from here.test by there.test\n\
         X-One: =?utf-8?Q?=C3=84rger?=\nX-Two: 2\n\nbody\n",
        "Subject: raw \u{fc}mlaut 100% \\ \"quoted\"\nFrom: nobody\n\nbody\n",
        "\nno header\n",
    ] {
        server.put("INBOX", message.replace('\n', "\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("SUBJECT \"Grüße aus Köln\"", "1"),
            ("SUBJECT \"GRÜßE AUS KÖLN\"", "1"),
            ("SUBJECT =?utf-8?Q?", ""),
            ("SUBJECT \"folded over\"", "2"),
            ("SUBJECT \"ümlaut\"", "3"),
            ("SUBJECT \"100%\"", "3"),
            ("SUBJECT \"\\\\ \\\"quoted\"", "3"),
            // With nothing to look for, the field has to be there: RFC 9051 §6.4.4.
            ("SUBJECT \"\"", "1 2 3"),
            ("TO \"\"", "1"),
            ("CC \"\" BCC \"\"", "1"),
            ("NOT FROM \"\"", "4"),
            ("FROM ana", "1"),
            ("FROM \"Ana Alt\"", "1"),
            ("FROM x.test", "1 2"),
            ("FROM ana@x.test", "1"),
            ("FROM \"Привет\"", "2"),
            ("FROM \"привет\"", "2"),
            ("FROM nobody", "3"),
            ("TO \"bob, b.\"", "1"),
            ("TO carl", "1"),
            ("TO ana", ""),
            ("CC \"jürgen\"", "1"),
            ("BCC DORA", "1"),
            ("NOT BCC dora", "2 3 4"),
            ("HEADER Subject \"köln\"", "1"),
            ("HEADER X-ONE \"ärger\"", "2"),
            ("HEADER x-one 1", "1"),
            ("HEADER X-Two 1", ""),
            ("HEADER X-One \"\"", "1 2"),
            ("HEADER X-Empty \"\"", "1"),
            ("HEADER X-Absent \"\"", ""),
            ("NOT HEADER X-One \"\"", "3 4"),
            ("HEADER Received here.test", "2"),
            ("HEADER Received \"\"", "2"),
            ("HEADER Received there.test HEADER X-Two 2", "2"),
            ("HEADER Received nowhere", ""),
            ("HEADER \"Received\" \"by there\"", "2"),
            ("HEADER To bob@y.test", "1"),
            ("TEXT \"ärger\"", "2"),
            ("TEXT here.test", "2"),
            ("TEXT \"X-Two: 2\"", "2"),
            ("BODY \"ärger\"", ""),
            ("OR FROM ana SUBJECT lines", "1 2"),
            ("OR BODY header HEADER Received here", "2 4"),
        ],
    );
}

/// RFC 9051 §6.4.4: FROM, TO, CC and BCC look into the envelope's addresses, not into the field.
#[test]
fn addresses() {
    let server = Server::start();
    for header in [
        "From: Pete(A wonderful \\) chap) <pete(his account)@silly.test(his host)>",
        "From: jdoe@test   . example",
        "From: \"Joe Q. \\\"JQ\\\" Public\"  <john.q.public@example.com>",
        "From: ana@x.test (=?utf-8?Q?J=C3=BCrgen?=)",
        "To: A Group:Ed Jones <joe@where.test>,john@one.test;\nCc: <@a.test,@b.test:carl@c.test>",
        "From: <bare@x.test>",
        "From: =?utf-8?Q?Ana?=\n =?utf-8?Q?_Alt?= <ana@y.test>\nFrom: second@y.test\nBcc: (nobody)",
    ] {
        server.put("INBOX", format!("{header}\n\nx\n").replace('\n', "\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("FROM \"pete <pete@silly.test>\"", "1"),
            ("FROM \"his account\"", ""),
            ("FROM wonderful", ""),
            ("HEADER From wonderful", "1"),
            ("FROM jdoe@test.example", "2"),
            ("FROM \"joe q. \\\"jq\\\" public <john.q\"", "3"),
            ("FROM \"jürgen <ana@x.test>\"", "4"),
            ("TO \"a group: ed jones <joe@where.test>, john@one.test;\"", "5"),
            ("CC carl@c.test", "5"),
            ("FROM <bare", ""),
            ("FROM bare@x.test", "6"),
            ("FROM \"ana alt <ana@y.test>, second@y.test\"", "7"),
            // The field is there, and no address in it.
            ("BCC \"\"", "7"),
            ("BCC nobody", ""),
        ],
    );
}

#[test]
fn bodies() {
    let server = Server::start();
    let mixed = "Subject: mixed\nContent-Type: multipart/mixed; boundary=b\n\npreamble\n--b\nContent-Type: text/plain; charset=utf-8\n\
        Content-Transfer-Encoding: base64\nX-Part: inpart\n\nR3LDvMOfZSBhdXMgS8O2bG4=\n--b\nContent-Type: text/html; charset=iso-8859-1\n\
        Content-Transfer-Encoding: quoted-printable\n\n<p>M=FCn=\nchen</p>\n--b\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\n\
        aGlkZGVu\n--b\nContent-Type: message/rfc822\n\nSubject: =?utf-8?Q?verschachtelt_=C3=A4?=\n\nnested text\n--b--\nepilogue\n";
    let plain = |head: &str, body: &[u8]| [head.as_bytes(), b"\r\n\r\n", body].concat();
    for message in [
        plain("Subject: simple", b"Hello World\r\nsecond line\r\n"),
        mixed.replace('\n', "\r\n").into_bytes(),
        plain("Content-Type: text/plain; charset=koi8-r", b"\xd0\xd2\xc9\xd7\xc5\xd4"),
        plain("Content-Type: text/plain; charset=shift_jis", b"\x93\xfa\x96\x7b\x8c\xea"),
        plain("Content-Type: text/plain; charset=iso-2022-jp", b"\x1b$BF|K\\8l\x1b(B"),
        plain(
            "Content-Type: text/plain; charset=utf-16le\r\nContent-Transfer-Encoding: base64",
            b"SABpACAA/AA=",
        ),
        plain("Content-Type: text/plain; charset=x-unknown", b"some ascii \xff"),
        plain("Content-Type: text/plain; charset=windows-1252", b"price \x80 5"),
        plain(
            "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: x-none",
            b"cannot be read",
        ),
    ] {
        server.put("INBOX", &message);
    }
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("BODY hello", "1"),
            ("BODY \"HELLO WORLD\"", "1"),
            // The header of a message within is body.
            ("BODY subject", "2"),
            ("TEXT simple", "1"),
            ("BODY \"grüße aus köln\"", "2"),
            ("BODY \"münchen\"", "2"),
            ("BODY hidden", ""),
            ("BODY aGlkZGVu", ""),
            ("BODY \"nested text\"", "2"),
            ("BODY \"verschachtelt ä\"", "2"),
            ("TEXT \"verschachtelt ä\"", "2"),
            ("SUBJECT verschachtelt", ""),
            ("TEXT inpart", "2"),
            ("BODY inpart", ""),
            ("BODY \"привет\"", "3"),
            ("TEXT \"ПРИВЕТ\"", "3"),
            ("BODY \"日本\"", "4 5"),
            ("BODY \"hi ü\"", "6"),
            ("BODY \"some ascii\"", "7"),
            ("BODY \"€\"", "8"),
            ("BODY \"cannot be read\"", ""),
            ("BODY \"\"", "1 2 3 4 5 6 7 8 9"),
            ("TEXT \"\"", "1 2 3 4 5 6 7 8 9"),
            ("NOT BODY e", "3 4 5 6 9"),
            ("BODY hello TEXT second SUBJECT simple", "1"),
        ],
    );
}

/// RFC 3501 §6.4.4: only parts of other types than TEXT and MESSAGE may be skipped.
#[test]
fn reports_are_searched() {
    let server = Server::start();
    for (number, sub) in [
        "delivery-status",
        "disposition-notification",
        "feedback-report",
        "partial; id=a; number=1",
        "external-body; access-type=url",
        "global-delivery-status",
    ]
    .into_iter()
    .enumerate()
    {
        let message = format!(
            "Subject: report\nContent-Type: multipart/report; boundary=b\n\n--b\n\nwords\n--b\n\
             Content-Type: Message/{sub}\nContent-Transfer-Encoding: quoted-printable\n\n\
             Diagnostic-Code: smtp; 550 mail=62ox-{number} full\n--b\nContent-Type: application/x-notes\n\n\
             Diagnostic-Code: elsewhere\n--b--\n"
        );
        server.put("INBOX", message.replace('\n', "\r\n").as_bytes());
    }
    server.put("INBOX", b"Content-Type: message/feedback-report\r\n\r\nUser-Agent: Abuse/1\r\n");
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("BODY diagnostic-code", "1 2 3 4 5 6"),
            ("TEXT \"550 mailbox-4 full\"", "5"),
            ("BODY elsewhere", ""),
            ("BODY abuse/1", "7"),
            ("BODY content-type", ""),
        ],
    );
}

/// A match may lie across the pieces in which a long body is decoded.
#[test]
fn long_bodies() {
    let server = Server::start();
    for offset in [32_760, 65_530, 200_000] {
        for n in 0..12 {
            let mut body = "Subject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n".to_owned();
            body.push_str(&"ä ".repeat(offset / 3));
            body.push_str(&"x".repeat(n));
            body.push_str(&format!("Nadel-{offset}-{n}-Größe"));
            body.push_str(&" heu".repeat(9000));
            server.put("INBOX", body.as_bytes());
        }
    }
    let mut wire = server.select("INBOX");
    for (place, offset) in [32_760, 65_530, 200_000].into_iter().enumerate() {
        for n in 0..12 {
            let number = place * 12 + n + 1;
            assert_eq!(search(&mut wire, &format!("BODY \"nadel-{offset}-{n}-grö\"")), number.to_string());
        }
    }
}
