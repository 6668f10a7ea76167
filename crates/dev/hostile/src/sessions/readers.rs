//! Commands of POP3 (RFC 1939) and ManageSieve (RFC 5804), many of them at once.

use posthaste_testkit::Random;

/// Commands of POP3 after a login, and before one.
pub fn pop3(random: &mut Random) -> Vec<u8> {
    let mut out = String::new();
    for _ in 0..1 + random.below(8) {
        let line = match random.below(6) {
            0 => random
                .pick(&["STAT", "LIST", "UIDL", "CAPA", "NOOP", "RSET", "QUIT", "LAST", "UTF8", "LANG *"]),
            1 => random.pick(&[
                "USER fuzz@example.org",
                "PASS x",
                "APOP a b",
                "AUTH",
                "AUTH PLAIN AGEAYg==",
                "STLS",
            ]),
            _ => {
                let verb = random.pick(&["RETR", "DELE", "LIST", "UIDL", "TOP"]);
                let number = random.pick(&["1", "2", "3", "0", "-1", "4294967296", "01", "x"]);
                out.push_str(&format!("{verb} {number} "));
                random.pick(&["", "0", "5", "99999999999"])
            }
        };
        out.push_str(line);
        out.push_str("\r\n");
    }
    out.into_bytes()
}

/// Commands of ManageSieve.
pub fn sieve(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..1 + random.below(8) {
        let name = random.pick(&["\"a\"", "\"b\"", "\"\"", "\"\u{fc}\"", "{1+}\r\nc", "a", "\"a/b\""]);
        let script = random.pick(&[
            "keep;",
            "require [\"fileinto\", \"mailbox\"]; fileinto :create \"a\";",
            "if header :contains \"subject\" \"x\" { discard; } else { stop; }",
            "if not allof (true, anyof (false)) {",
            "require \"variables\"; set \"a\" \"${a}${a}\";",
            "redirect \"a@b",
        ]);
        let literal = format!("{{{}+}}\r\n{script}", script.len());
        let line = match random.below(8) {
            0 => random
                .pick(&["LISTSCRIPTS", "CAPABILITY", "NOOP", "NOOP \"x\"", "UNAUTHENTICATE", "X"])
                .to_owned(),
            1 | 2 => format!("PUTSCRIPT {name} {literal}"),
            3 => format!("CHECKSCRIPT {literal}"),
            4 => format!("GETSCRIPT {name}"),
            5 => format!("SETACTIVE {name}"),
            6 => format!("DELETESCRIPT {name}"),
            _ => format!(
                "{} {name} {}",
                random.pick(&["RENAMESCRIPT", "HAVESPACE"]),
                random.pick(&["\"d\"", "9", "99999999999"])
            ),
        };
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out
}
