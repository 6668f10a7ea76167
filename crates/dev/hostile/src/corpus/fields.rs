//! Fields of a message: addresses, dates, encoded words, identifiers.

use super::{Named, with};

pub(super) fn all() -> Vec<Named> {
    [addresses(), dates(), words(), characters(), identifiers()].concat()
}

/// RFC 5322 §3.4, §4.4.
fn addresses() -> Vec<Named> {
    let (open, close) = ("(".repeat(10_000), ")".repeat(10_000));
    vec![
        ("nested groups", with("To: a: b: c: d@example.net;, e@example.net;;, :;, f:;;;")),
        ("1,000 open groups", with("To: ".to_owned() + &"g:".repeat(1_000))),
        ("comments 10,000 deep", with(format!("To: {open}a{close} b@example.net"))),
        ("10,000 open comments", with(format!("To: b@example.net {open}"))),
        ("10,000 closed comments", with(format!("To: b@example.net {close} c@example.net"))),
        ("routes", with("Cc: <@a,@b.example,@[127.0.0.1]:c@d.example>, <@:@>, <@,,@x:y@z>, <@a")),
        ("quoted pairs at the end", with("To: \"a\\\r\nCc: (b\\\r\nBcc: \"c\" <d@[\\\r\nSender: \\")),
        ("quotes that stay open", with("To: \"a <b@example.net>\r\nCc: \"\"\"@\"\"\r\nBcc: \"")),
        ("addresses without parts", with("To: <<<>>>, @, @@, a@, @b, \"\"@, <a@b, a@b>, ,,;;::, <>, a")),
        ("addresses of 8 bits", with(b"To: \xff\xfe@\xfc.example, \"\xc3\xbc\" <\xc3@\xbc>, <\x80>")),
        ("10,000 commas", with("To: ".to_owned() + &",".repeat(10_000))),
        ("an endless local part", with(format!("To: {}@{}", "a.".repeat(20_000), "b.".repeat(20_000)))),
        (
            "fields given more than once",
            with(
                "From: b@example.net\r\nfrom: c@example.net\r\nDate: Mon, 1 Jan 2024 00:00:00 +0000\r\nDate: a\r\n\
                 Message-ID: <1@a>\r\nMessage-ID: <2@a>\r\nSubject: a\r\nSUBJECT: b\r\nContent-Type: text/html\r\n\
                 Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: base64\r\n\
                 Content-Transfer-Encoding: 8bit\r\nMIME-Version: 1.0\r\nMIME-Version: 9.9",
            ),
        ),
    ]
}

/// RFC 5322 §3.3, §4.3.
fn dates() -> Vec<Named> {
    let nested = format!(
        "Date: Mon{0}a{1}, 1 {0}b{1} Jan 2024 {0}00{1} 00:00:00 +0000",
        "(".repeat(2_000),
        ")".repeat(2_000)
    );
    vec![
        ("a date without a value", with("Date:")),
        ("a date that is none", with("Date: Fri, 99 Foo 99999 99:99:99 +9999")),
        ("a date before all others", with("Date: Sat, 1 Jan 0000 00:00:00 -2359")),
        ("a date after all others", with("Date: Fri, 31 Dec 9999 23:59:60 -9959")),
        ("a year of 32 digits", with("Date: 1 Jan 99999999999999999999999999999999 00:00:00 +0000")),
        ("a negative date", with("Date: -1 Jan -2024 -1:-1:-1 +-100")),
        ("29 February of no leap year", with("Date: Wed, 29 Feb 2023 24:00:00 (a)(b")),
        ("a date with nested comments", with(nested)),
    ]
}

/// RFC 2047.
fn words() -> Vec<Named> {
    vec![
        (
            "words within words",
            with("Subject: =?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3F=3D?= =?utf-8?b?PT91dGYtOD9xP2E/PQ==?="),
        ),
        ("words without an end", with("Subject: =?utf-8?q?abc\r\nTo: =?utf-8?b?=?=?= <b@c>\r\nCc: =?utf-8?")),
        (
            "words of unknown kinds",
            with(
                "Subject: =?no-such?q?=FF=FE?= =?utf-8?z?abc?= =?utf-8*xx?q?a?= =?*?q?a?= =?utf-7?q?+AGE-?=",
            ),
        ),
        ("empty words", with("Subject: =?utf-8?q??= =?utf-8?b??= =??q?a?= =????= =?=?=")),
        (
            "characters across words",
            with(
                "Subject: =?utf-8?q?=C3?= =?utf-8?q?=BC?= =?utf-8?b?w?= =?utf-8?b?7w=?=\r\n =?utf-8?q?=E2=82?=",
            ),
        ),
        ("5,000 words", with("Subject: ".to_owned() + &"=?utf-8?q?a?=\r\n ".repeat(5_000) + "b")),
        ("base64 that is none in a word", with("Subject: =?utf-8?b?====?= =?utf-8?b?a?= =?utf-8?b?!!!!?=")),
        ("line ends in words", with("Subject: =?utf-8?q?a=0D=0AX-Other:_b=00?= =?utf-8?b?DQoNCg==?=")),
        ("500 prefixes of answers", with("Subject: ".to_owned() + &"Re: Fwd[2]: [a] (fwd) ".repeat(500))),
    ]
}

/// Text that is no UTF-8 (RFC 3629 §3), or that shows otherwise than it reads.
fn characters() -> Vec<Named> {
    let marks = format!("Subject: a{}", "\u{301}".repeat(5_000));
    let turned = "\u{202e}gpj.exe\u{2066}\u{202d}\u{200f}\u{feff}\u{0}";
    vec![
        (
            "UTF-8 that is too long",
            with(b"Subject: \xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf =?utf-8?q?=C0=AF=E0=80=AF=F8=88=80=80=AF?="),
        ),
        (
            "surrogates",
            with(b"Subject: \xed\xa0\x80\xed\xb0\x80\xf4\x90\x80\x80 =?utf-16?b?2ADYAA==?= =?utf-8?q?=ED=A0=80?="),
        ),
        ("text that turns its direction", with(format!("Subject: {turned}\r\nTo: {turned} <b@example.net>"))),
        ("5,000 combining marks", with(marks)),
        ("letters that grow in another case", with(format!("Subject: {}", "\u{130}\u{df}\u{390}".repeat(2_000)))),
    ]
}

/// RFC 5322 §3.6.4.
fn identifiers() -> Vec<Named> {
    let references: String = (0..2_000).map(|n| format!(" <{n}@a>\r\n")).collect();
    vec![
        (
            "identifiers without parts",
            with("Message-ID: <<>>@ <a b@c>\r\nIn-Reply-To: <>\r\nReferences: <a@b"),
        ),
        (
            "a message that answers itself",
            with("Message-ID: <s@a>\r\nIn-Reply-To: <s@a>\r\nReferences: <s@a>"),
        ),
        ("answers in a circle", with("Message-ID: <c@a>\r\nReferences: <d@a> <c@a> <d@a>\r\nSubject: Re: a")),
        ("2,000 references", with(format!("Message-ID: <r@a>\r\nReferences:{references} <end@a>"))),
    ]
}
