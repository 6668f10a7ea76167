//! Scripts and messages by seed. They use what both interpreters have, with ASCII patterns.

use std::fmt::Write;

use posthaste_testkit::Random;

const REQUIRE: &str = "require [\"fileinto\", \"copy\", \"envelope\", \"imap4flags\", \"variables\", \"relational\", \
    \"comparator-i;ascii-numeric\", \"subaddress\", \"body\", \"date\", \"index\", \"regex\", \"vacation\", \
    \"vacation-seconds\", \"reject\", \"enotify\", \"editheader\", \"encoded-character\", \"mime\", \"foreverypart\"];\r\n";

const NAMES: [&str; 10] =
    ["subject", "From", "to", "cc", "x-tag", "x-empty", "x-none", "X-Number", "date", "received"];
const ADDRESSES: [&str; 5] = ["from", "to", "cc", "sender", "reply-to"];

/// A message.
pub fn message(random: &mut Random) -> String {
    let mut made = String::new();
    let subjects = [
        "Hello World",
        "Re: [list] offer *now*",
        "=?utf-8?Q?Gr=C3=BC=C3=9Fe?= x",
        "",
        "a\r\n folded subject",
        "  spaces  ",
    ];
    let people = [
        "ana@example.org",
        "\"Ana B.\" <ana+news@Example.ORG>",
        "Bo (the one) <bo@example.net>, ken+sieve@example.com",
        "friends: x@y.z, \"Q\" <q@y.z>;",
        "ken+@example.com",
        "\"a b\"@example.org",
    ];
    let dates = [
        "Tue, 29 Feb 2000 23:05:09 -0730",
        "1 Jan 2010 00:00:00 +0000",
        "Mon, 31 Dec 2018 23:59:58 +0545",
        "Fri, 21 Nov 1997 09:55:06 -0600",
    ];
    let _ = write!(made, "Received: from a by b; {}\r\n", random.pick(&dates));
    let _ = write!(made, "Received: from c by d; {}\r\n", random.pick(&dates));
    let _ = write!(made, "From: {}\r\nTo: {}\r\n", random.pick(&people[..3]), random.pick(&people));
    if !random.one_in(3) {
        let _ = write!(made, "Cc: {}\r\n", random.pick(&people));
    }
    let _ = write!(made, "Subject: {}\r\nDate: {}\r\n", random.pick(&subjects), random.pick(&dates));
    for _ in 0..random.below(4) {
        let _ = write!(made, "X-Tag: {}\r\n", random.pick(&["one", "TWO", "t*o", "aab", "10 apples", "9"]));
    }
    if random.one_in(2) {
        made.push_str("X-Empty:\r\n");
    }
    let _ = write!(made, "X-Number: {}\r\n", random.pick(&["0", "007", "12", "x", "99999999999"]));
    for extra in ["List-Id: <a.b>", "Precedence: bulk", "Auto-Submitted: auto-replied"] {
        if random.one_in(6) {
            let _ = write!(made, "{extra}\r\n");
        }
    }
    body(random, &mut made);
    made
}

fn body(random: &mut Random, made: &mut String) {
    let texts = ["Hello Ken,\r\nthe price is $10.\r\n", "one\r\n\r\ntwo\r\n", "free offer\r\n"];
    if random.one_in(2) {
        let _ = write!(made, "\r\n{}", random.pick(&texts));
        return;
    }
    made.push_str("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\nbefore\r\n");
    let _ = write!(made, "--b\r\nContent-Type: text/plain\r\n\r\n{}", random.pick(&texts));
    if random.one_in(2) {
        made.push_str("--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nquoted=20printable text\r\n");
    }
    if random.one_in(2) {
        made.push_str("--b\r\nContent-Type: application/pdf; name=\"a.pdf\"\r\nContent-Disposition: attachment; filename=b.exe\r\nContent-Transfer-Encoding: base64\r\n\r\nc2VjcmV0\r\n");
    }
    made.push_str("--b--\r\n");
}

fn matcher(random: &mut Random) -> &'static str {
    random.pick(&[
        "",
        ":is",
        ":contains",
        ":contains",
        ":matches",
        ":matches",
        ":regex",
        ":comparator \"i;octet\" :is",
        ":comparator \"i;octet\" :contains",
        ":comparator \"i;octet\" :matches",
        ":value \"ge\" :comparator \"i;ascii-numeric\"",
        ":value \"lt\"",
        ":value \"ne\"",
        ":count \"gt\" :comparator \"i;ascii-numeric\"",
        ":count \"eq\" :comparator \"i;ascii-numeric\"",
        ":value \"eq\" :comparator \"i;ascii-numeric\"",
    ])
}

fn key(random: &mut Random, matcher: &str) -> String {
    let plain = [
        "hello world",
        "Hello",
        "",
        "one",
        "two",
        "t*o",
        "10",
        "0",
        "2",
        "7",
        "ana",
        "ana@example.org",
        "example.org",
        "sieve",
        "news",
        "o",
        "price",
        "secret",
        "free offer\r\n",
        "a folded subject",
        "spaces",
        "x@y.z",
        "12",
    ];
    let globs = [
        "*",
        "*o*",
        "h*d",
        "?ne",
        "t\\\\*o",
        "*a*b",
        "*a?b*",
        "",
        "??",
        "*@example.*",
        "re: [[]*",
        "*[list]*",
        "a*",
        "*price*10.*",
    ];
    let regexes = [
        "^h",
        "o$",
        "(one|two)",
        "[0-9]+",
        "^a.*b$",
        "^$",
        "[[:alpha:]]{3}",
        "ana(\\\\+news)?@",
        "[^a-z ]",
        "\\\\[list\\\\]",
    ];
    let one = |random: &mut Random| match matcher {
        _ if matcher.contains(":matches") => random.pick(&globs).to_string(),
        _ if matcher.contains(":regex") => random.pick(&regexes).to_string(),
        _ if matcher.contains(":count") => random.pick(&["0", "1", "2", "3"]).to_string(),
        _ => random.pick(&plain).to_string(),
    };
    let first = one(random);
    if random.one_in(3) { format!("[\"{first}\", \"{}\"]", one(random)) } else { format!("\"{first}\"") }
}

/// Looks at numbers only with keys that are some, so that both agree what is compared.
fn one_test(random: &mut Random) -> String {
    let with = matcher(random);
    let keys = key(random, with);
    let name = random.pick(&NAMES);
    match random.below(16) {
        0..=3 => format!("header {with} \"{name}\" {keys}"),
        4 => format!("header {with} [\"{name}\", \"x-tag\"] {keys}"),
        5 if with.contains(":count") => "true".into(),
        5 => format!(
            "header {} {with} \"{}\" {keys}",
            random.pick(&[":index 1", ":index 2", ":index 1 :last", ":index 9"]),
            random.pick(&["x-tag", "received"])
        ),
        6..=8 if with.contains(":count") => "true".into(),
        6 | 7 => {
            let part = random.pick(&[":all", ":localpart", ":domain", ":user", ":detail", ""]);
            format!("address {part} {with} \"{}\" {keys}", random.pick(&ADDRESSES))
        }
        8 => {
            let part = random.pick(&[":all", ":localpart", ":domain", ":user", ":detail"]);
            format!("envelope {part} {with} \"{}\" {keys}", random.pick(&["from", "to"]))
        }
        9 => format!("exists [\"{name}\", \"{}\"]", random.pick(&NAMES)),
        10 => format!(
            "size {} {}",
            random.pick(&[":over", ":under"]),
            random.pick(&["100", "400", "1K", "600"])
        ),
        11 => {
            let part = random.pick(&[
                "year", "month", "day", "date", "julian", "hour", "minute", "second", "time", "iso8601",
                "std11", "zone", "weekday",
            ]);
            let zone = random.pick(&[":originalzone", ":zone \"+0000\"", ":zone \"-0330\"", ""]);
            let keys = random.pick(&[
                "\"2000\"",
                "\"2010-01-01\"",
                "[\"23\", \"00\", \"01\"]",
                "\"0\"",
                "\"-0730\"",
                "\"06:35:09\"",
            ]);
            format!(
                "date {zone} {} \"{}\" \"{part}\" {keys}",
                random
                    .pick(&["", ":index 2", ":value \"gt\"", ":value \"le\""])
                    .replace(":index 2", ":index 2 :last"),
                random.pick(&["date", "received"])
            )
        }
        12 => {
            let transform = random.pick(&[
                ":raw",
                ":content \"text\"",
                ":content \"text/plain\"",
                ":content \"application\"",
            ]);
            let with = if with.contains(":count") { ":contains" } else { with };
            let keys = key(random, with);
            format!("body {transform} {with} {keys}")
        }
        13 => {
            let keys = keys.to_lowercase();
            format!("string {with} [\"\", \"hello\", \"${{v}}\"] {keys}")
        }
        14 => format!("not anyof ({}, {})", simple(random), simple(random)),
        _ => format!("allof ({}, {})", simple(random), simple(random)),
    }
}

fn simple(random: &mut Random) -> String {
    random
        .pick(&[
            "true",
            "false",
            "exists \"cc\"",
            "header :contains \"subject\" \"o\"",
            "not true",
            "size :over 300",
        ])
        .to_string()
}

/// A script of tests, each with its flag.
pub fn tests(random: &mut Random) -> String {
    let mut made = format!("{REQUIRE}set \"v\" \"one\";\r\n");
    for number in 0..20 {
        let _ = write!(made, "if {} {{ addflag \"t{number}\"; }}\r\n", one_test(random));
        if random.one_in(4) {
            let glob = random.pick(&["*o*", "?*", "* *", "*", "*a*b*", "h?l*"]);
            let (name, take) = (random.pick(&NAMES), random.below(4));
            let _ = write!(
                made,
                "if header :matches \"{name}\" \"{glob}\" {{ set :length \"n\" \"${{{take}}}\"; addflag \"m{number}_${{n}}\"; }}\r\n"
            );
        }
    }
    made.push_str("keep;\r\n");
    made
}

/// A script of actions.
pub fn actions(random: &mut Random) -> String {
    let mut made = String::from(REQUIRE);
    for _ in 0..1 + random.below(6) {
        let action = match random.below(14) {
            0 => "keep;",
            1 => "discard;",
            2 => "fileinto \"Work\";",
            3 => "fileinto :copy \"Copies\";",
            4 => "redirect \"x@example.net\";",
            5 => "redirect :copy \"y@example.net\";",
            6 => "addflag [\"\\\\Seen\", \"$a\"];",
            7 => "fileinto :flags \"$b \\\\Flagged\" \"Flagged\";",
            8 => "vacation :days 3 :handle \"h\" \"away\";",
            9 if random.one_in(3) => "reject \"no\";",
            10 => "notify \"mailto:z@example.net\";",
            11 => "removeflag \"$A\";",
            12 if random.one_in(2) => "stop;",
            13 => {
                "addheader \"X-Tag\" \"new\"; if header \"x-tag\" \"new\" { addflag \"edited\"; } deleteheader :index 1 \"x-tag\"; if header \"x-tag\" \"new\" { addflag \"still\"; }"
            }
            _ => "setflag \"$c\";",
        };
        if random.one_in(3) {
            let _ = write!(made, "if {} {{ {action} }}\r\n", one_test(random));
        } else {
            let _ = write!(made, "{action}\r\n");
        }
    }
    made
}
