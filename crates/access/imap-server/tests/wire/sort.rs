//! SORT: RFC 5256, SORT=DISPLAY (RFC 5957), ESORT (RFC 5267 §3).

use posthaste_testkit::Wire;

use crate::harness::Server;
use crate::random::Random;

/// The numbers of a `* SORT` response, or all lines if the command does not end in OK.
fn sort(wire: &mut Wire, arguments: &str) -> String {
    wire.send(format!("q SORT {arguments}\r\n").as_bytes());
    let lines = wire.skip_to("q …");
    match lines.as_slice() {
        [numbers, end] if end.starts_with("q OK ") => match numbers.strip_prefix("* SORT") {
            Some(numbers) => numbers.trim_start().to_owned(),
            None => numbers.clone(),
        },
        lines => lines.join("; "),
    }
}

fn sorts(wire: &mut Wire, rows: &[(&str, &str)]) {
    // Twice: the second time the keys are not read again.
    for round in ["read", "kept"] {
        for (arguments, numbers) in rows {
            assert_eq!(sort(wire, arguments), *numbers, "SORT {arguments}, keys {round}");
        }
    }
}

/// Puts messages into INBOX, each of these header fields, and of a body of its length.
fn server_with(messages: &[&str]) -> Server {
    let server = Server::start();
    for (n, header) in messages.iter().enumerate() {
        let text = format!("{header}\n\nbody {n}\n").replace('\n', "\r\n");
        server.put(&format!("INBOX \"01-Jan-2020 10:{:02}:00 +0000\"", 59 - n), text.as_bytes());
    }
    server
}

/// MODSEQ and UID: sort keys of Cyrus.
#[test]
fn by_uid_and_by_mod_sequence() {
    let server = Server::start();
    for subject in ["b", "a", "b"] {
        server.put("INBOX", format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 1 +FLAGS.SILENT (\\Seen)\nS~ a OK …");
    sorts(
        &mut wire,
        &[
            ("(UID) UTF-8 ALL", "1 2 3"),
            ("(REVERSE UID) UTF-8 ALL", "3 2 1"),
            ("(SUBJECT REVERSE UID) UTF-8 ALL", "2 3 1"),
            ("(MODSEQ) UTF-8 ALL", "2 3 1"),
            ("(SUBJECT REVERSE MODSEQ) UTF-8 ALL", "2 1 3"),
        ],
    );
    wire.run("C: b STORE 2 +FLAGS.SILENT (\\Seen)\nS~ b OK …");
    assert_eq!(sort(&mut wire, "(MODSEQ) UTF-8 ALL"), "3 1 2");
    wire.run(
        r#"
        C: c SORT RETURN (UPDATE COUNT) (REVERSE UID) UTF-8 ALL
        S: * ESEARCH (TAG "c") COUNT 3
        S: c OK …
        C: d SORT RETURN (UPDATE COUNT) (SUBJECT MODSEQ) UTF-8 ALL
        S: * ESEARCH (TAG "d") COUNT 3
        S: * NO [NOUPDATE "d"] …
        S: d OK …
        "#,
    );
    server.put("INBOX", b"Subject: c\r\n\r\nx\r\n");
    wire.run("C: e NOOP\nS~ * ESEARCH (TAG \"c\") ADDTO (1 4)\nS~ e OK …");
}

#[test]
fn every_key() {
    let server = server_with(&[
        "From: zoe@a.test\nTo: Bob <yak@x.test>\nCc: c3@x.test\nSubject: Re: apples\nDate: 3 Jan 2024 00:00:00 +0000",
        "From: \"Adam\" <Mia@b.test>\nTo: amy@x.test\nCc: c1@x.test\nSubject: [list] Zebra\nDate: 2 Jan 2024 23:30:00 -0100",
        "From: =?utf-8?q?=C3=89va?= <bob@c.test>\nTo: Team: x@x.test;\nSubject: APPLES\nDate: 1 Jan 2024 00:00:00 +0000",
        "From: eve@d.test\nSubject: _under\nDate: nonsense\nX: a longer header than the others have, so that this message is the larger one",
        "Subject: (no sender) =?iso-8859-1?q?=C4pfel?=",
    ]);
    let mut wire = server.select("INBOX");
    sorts(
        &mut wire,
        &[
            ("(ARRIVAL) UTF-8 ALL", "5 4 3 2 1"),
            ("(REVERSE ARRIVAL) US-ASCII ALL", "1 2 3 4 5"),
            // In UTC; without a date that can be read INTERNALDATE (RFC 5256 §2.2).
            ("(DATE) UTF-8 ALL", "5 4 3 1 2"),
            ("(REVERSE DATE) UTF-8 ALL", "2 1 3 4 5"),
            // The mailbox of the first address, in any case; none is the empty text.
            ("(FROM) UTF-8 ALL", "5 3 4 2 1"),
            ("(TO) UTF-8 ALL", "4 5 2 3 1"),
            ("(CC) UTF-8 ALL", "3 4 5 2 1"),
            // i;unicode-casemap: "_" sorts after the letters.
            ("(SUBJECT) UTF-8 ALL", "5 1 3 2 4"),
            ("(REVERSE SUBJECT) UTF-8 ALL", "4 2 1 3 5"),
            ("(SUBJECT DATE) UTF-8 ALL", "5 3 1 2 4"),
            ("(SUBJECT REVERSE DATE) UTF-8 ALL", "5 1 3 2 4"),
            ("(SUBJECT REVERSE SUBJECT DATE) UTF-8 ALL", "5 3 1 2 4"),
            ("(SIZE) UTF-8 1:2,4", "1 2 4"),
            ("(REVERSE SIZE) UTF-8 1:2,4", "4 2 1"),
            // RFC 5957 §3: Adam, bob…, E + acute (behind eve), eve@d.test, zoe@a.test.
            ("(DISPLAYFROM) UTF-8 ALL", "5 2 4 3 1"),
            ("(DISPLAYTO) UTF-8 ALL", "4 5 2 1 3"),
            ("(DATE) UTF-8 SUBJECT apples", "3 1"),
            ("(DATE) UTF-8 NOT SUBJECT apples UNSEEN", "5 4 2"),
            ("(DATE) UTF-8 SEEN", ""),
            ("(DATE) UTF-8 9", ""),
            ("(DATE) UTF-8 BODY \"body 2\"", "3"),
        ],
    );
}

/// RFC 5256 §2.1, and what mail programs write.
#[test]
fn base_subjects() {
    let same = [
        "hello",
        "HELLO",
        "Re: hello",
        "re:hello",
        "RE : hello",
        "Fw: hello",
        "Fwd: hello",
        "FWD[2]: hello",
        "Re: Re: Fwd: hello",
        "Re [blob]: hello",
        "[blob] hello",
        "[blob] [blob] Re: hello",
        "Re: [blob] hello",
        "[blob] Re: [blob] Re: hello",
        "hello (fwd)",
        "hello (fwd) (FWD)  ",
        "Re: hello (fwd)",
        "[fwd: hello]",
        "[Fwd: Re: hello (fwd)]",
        "Re: [Fwd: [fwd: hello]]",
        "\t hello",
        "=?utf-8?q?Re=3A_hel?= =?utf-8?q?lo?=",
        "=?us-ascii?b?UmU6IGhlbGxv?=",
    ];
    let others = ["[hello]", "hello re:", "hello world", "rehello", "refwd: hello", "", "hellp"];
    let messages: Vec<String> =
        same.iter().chain(&others).map(|subject| format!("Subject: {subject}")).collect();
    let server = server_with(&messages.iter().map(String::as_str).collect::<Vec<_>>());
    let mut wire = server.select("INBOX");
    let equal: Vec<String> = (1..=same.len()).map(|n| n.to_string()).collect();
    let n = |at: usize| (same.len() + at).to_string();
    let order = [&[n(6)], equal.as_slice(), &[n(2), n(3), n(7), n(5), n(4), n(1)]].concat().join(" ");
    sorts(&mut wire, &[("(SUBJECT) UTF-8 ALL", &order)]);
}

#[test]
fn numbers_of_both_kinds_and_errors() {
    let server = server_with(&["Subject: b", "Subject: c", "Subject: a", "Subject: b"]);
    let mut wire = server.login();
    wire.send(b"c CAPABILITY\r\n");
    let capability = wire.expect("* CAPABILITY …");
    wire.expect("c OK …");
    for name in ["SORT", "SORT=DISPLAY", "ESORT"] {
        assert!(capability.split(' ').any(|word| word == name), "{name}: {capability}");
    }
    wire.run(
        r#"
        C: a SORT (SUBJECT) UTF-8 ALL
        S: a BAD …
        C: s SELECT INBOX
        S~ s OK [READ-WRITE] …
        C: b STORE 2 +FLAGS.SILENT \Deleted
        S: b OK …
        C: c EXPUNGE
        S: * 2 EXPUNGE
        S: c OK …
        C: d SORT (SUBJECT) UTF-8 ALL
        S: * SORT 2 1 3
        S: d OK SORT completed
        C: e UID SORT (SUBJECT) UTF-8 ALL
        S: * SORT 3 1 4
        S: e OK UID SORT completed
        C: f UID SORT (REVERSE SUBJECT) US-ASCII UID 3:4
        S: * SORT 4 3
        S: f OK …
        C: g SORT (SUBJECT) UTF-8 FLAGGED
        S: * SORT
        S: g OK …
        C: h SORT (SUBJECT) X-NONE ALL
        S: h NO [BADCHARSET (US-ASCII UTF-8 Big5 …)] …
        C: i SORT (SUBJECT) UTF-8
        S: i BAD …
        C: j SORT () UTF-8 ALL
        S: j BAD …
        C: k SORT (SUBJECT NONSENSE) UTF-8 ALL
        S: k BAD …
        C: l SORT (REVERSE) UTF-8 ALL
        S: l BAD …
        C: m SORT (SUBJECT) UTF-8 NONSENSE
        S: m BAD …
        # RFC 7162 §3.1.5
        C: n SORT (SUBJECT) UTF-8 MODSEQ 1
        S: * OK [HIGHESTMODSEQ …] …
        S: * SORT 2 1 3 (MODSEQ 4)
        S: n OK …
        C: o UNSELECT
        S: o OK …
        C: p UID SORT (SUBJECT) UTF-8 ALL
        S: p BAD …
        "#,
    );
}

/// RFC 5267 §3.1 – §3.3, RFC 5182 §2.4, RFC 9394 §3.1.
#[test]
fn return_options() {
    // Sorted by subject: 5 3 4 1 2 6.
    let server =
        server_with(&["Subject: c", "Subject: d", "Subject: b", "Subject: b", "Subject: a", "Subject: e"]);
    server.select("INBOX").run(
        r#"
        C: a SORT RETURN () (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "a") ALL 5,3:4,1:2,6
        S: a OK …
        C: b UID SORT RETURN (ALL COUNT) (REVERSE SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "b") UID COUNT 6 ALL 6,2,1,3:5
        S: b OK …
        C: c SORT RETURN (MIN MAX) (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "c") MIN 5 MAX 6
        S: c OK …
        C: d UID SORT RETURN (MIN MAX COUNT ALL) (SUBJECT) UTF-8 SEEN
        S: * ESEARCH (TAG "d") UID COUNT 0
        S: d OK …
        C: e SORT RETURN (PARTIAL 2:4) (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "e") PARTIAL (2:4 3:4,1)
        S: e OK …
        C: f UID SORT RETURN (PARTIAL -1:-2 COUNT) (REVERSE SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "f") UID COUNT 6 PARTIAL (-1:-2 4:5)
        S: f OK …
        C: g SORT RETURN (PARTIAL 7:9) (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "g") PARTIAL (7:9 NIL)
        S: g OK …
        C: h SORT RETURN (ALL PARTIAL 1:2) (SUBJECT) UTF-8 ALL
        S: h BAD …
        # What is saved has no order.
        C: i SORT RETURN (SAVE) (SUBJECT) UTF-8 2:4
        S: i OK …
        C: j SORT (REVERSE SUBJECT) UTF-8 $
        S: * SORT 2 3 4
        S: j OK …
        C: k UID SORT RETURN (SAVE MIN) (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "k") UID MIN 5
        S: k OK …
        C: l SEARCH $
        S: * SEARCH 5
        S: l OK …
        C: m SORT RETURN (SAVE PARTIAL 1:2 MAX) (SUBJECT) UTF-8 ALL
        S: * ESEARCH (TAG "m") MAX 6 PARTIAL (1:2 5,3)
        S: m OK …
        C: n SEARCH $
        S: * SEARCH 3 5 6
        S: n OK …
        # RFC 5182 §2.1: NO empties it, BAD does not.
        C: o SORT RETURN (SAVE) (NONSENSE) UTF-8 ALL
        S: o BAD …
        C: p SEARCH $
        S: * SEARCH 3 5 6
        S: p OK …
        C: q SORT RETURN (SAVE) (SUBJECT) X-NONE ALL
        S: q NO [BADCHARSET …] …
        C: r SEARCH $
        S: * SEARCH
        S: r OK …
        C: s SORT RETURN (MIN COUNT) (SUBJECT) UTF-8 MODSEQ 1
        S: * OK [HIGHESTMODSEQ …] …
        S: * ESEARCH (TAG "s") MIN 5 COUNT 6 MODSEQ 6
        S: s OK …
        "#,
    );
}

/// RFC 5256 §3: no EXPUNGE during SORT, but during UID SORT.
#[test]
fn others_expunge_and_deliver_meanwhile() {
    let server = server_with(&["Subject: b", "Subject: c", "Subject: a"]);
    let mut first = server.select("INBOX");
    let mut second = server.select("INBOX");
    assert_eq!(sort(&mut first, "(SUBJECT) UTF-8 ALL"), "3 1 2");
    second.run("C: a STORE 1 +FLAGS.SILENT \\Deleted\nS: a OK …\nC: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    // Its keys are kept, so it still has a place.
    assert_eq!(sort(&mut first, "(SUBJECT) UTF-8 ALL"), "3 1 2");
    // These were not read before it was expunged.
    first.run(
        "C: a SORT (FROM) UTF-8 ALL\nS: * SORT 2 3\nS: a OK [EXPUNGEISSUED] …\n\
         C: b UID SORT (SUBJECT) UTF-8 ALL\nS: * SORT 3 1 2\nS: * 1 EXPUNGE\nS: b OK …",
    );
    server.put("INBOX", b"Subject: aa\r\n\r\n");
    first.run(
        "C: c SORT (SUBJECT) UTF-8 ALL\nS: * SORT 2 1\nS: * 3 EXISTS\nS: * 3 RECENT\nS: c OK …\n\
         C: d SORT (SUBJECT) UTF-8 ALL\nS: * SORT 2 3 1\nS: d OK …",
    );
    assert_eq!(
        sort(&mut second, "(SUBJECT) UTF-8 1:2"),
        "* SORT 2 1; * 3 EXISTS; * 0 RECENT; q OK SORT completed"
    );
}

/// RFC 5530 §3: no answer names messages whose place is not known.
#[test]
fn a_damaged_summary_is_named() {
    let server = server_with(&["Subject: b", "Subject: c", "Subject: a"]);
    if !server.damage_summaries(&[2]) {
        return;
    }
    let mut wire = server.select("INBOX");
    wire.run(
        "C: a SORT (SUBJECT) UTF-8 ALL\nS: a NO [CORRUPTION] …UID 2…\n\
         C: b SORT (ARRIVAL) UTF-8 ALL\nS: * SORT 3 2 1\nS: b OK …\n\
         C: c SORT (SUBJECT) UTF-8 NOT UID 2\nS: * SORT 3 1\nS: c OK …",
    );
}

/// Compares random messages in random orders with a stable sort of the written messages. New mail
/// comes and old mail leaves, so kept keys have gaps at both ends and in between.
#[test]
fn as_a_stable_sort_says() {
    /// The keys of a message in the order of `KEYS`, as text that sorts in the same order.
    type Message = (u32, [String; 6]);
    const KEYS: [&str; 6] = ["SUBJECT", "FROM", "TO", "CC", "DATE", "ARRIVAL"];
    const WORDS: [&str; 5] = ["", "alpha", "Beta", "_x", "gamma"];
    let server = Server::start();
    let mut random = Random(42);
    let mut messages: Vec<Message> = Vec::new();
    let mut wire = server.select("INBOX");
    for round in 0..6 {
        for _ in 0..12 {
            let uid = messages.last().map_or(1, |(uid, _)| uid + 1);
            let words: Vec<&str> = (0..4).map(|_| WORDS[random.below(5) as usize]).collect();
            let (sent, arrived) = (1 + random.below(9), 1 + random.below(9));
            let header = format!(
                "Subject: {}\r\nFrom: x <{}@z>\r\nTo: {}@y\r\nCc: {}@x\r\nDate: {sent} Jan 2024 00:00:00 +0000\r\n\r\n",
                words[0], words[1], words[2], words[3]
            );
            server.put(&format!("INBOX \"0{arrived}-Feb-2024 00:00:00 +0000\""), header.as_bytes());
            let mut keys =
                [&words[0], &words[1], &words[2], &words[3]].map(|word| word.to_uppercase()).to_vec();
            keys.extend([sent.to_string(), arrived.to_string()]);
            messages.push((uid, keys.try_into().unwrap()));
        }
        for _ in 0..8 {
            let from = 1 + random.below(messages.len() as u32);
            let mut order: Vec<usize> = (from as usize - 1..messages.len()).collect();
            let mut criteria = Vec::new();
            for _ in 0..1 + random.below(3) {
                criteria.push((random.below(6) as usize, random.below(2) == 1));
            }
            order.sort_by(|a, b| {
                let compared = criteria.iter().map(|(key, is_reverse)| {
                    let order = messages[*a].1[*key].cmp(&messages[*b].1[*key]);
                    if *is_reverse { order.reverse() } else { order }
                });
                compared.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            });
            let names: Vec<String> = criteria
                .iter()
                .map(|(key, is_reverse)| {
                    format!("{}{}", if *is_reverse { "REVERSE " } else { "" }, KEYS[*key])
                })
                .collect();
            let arguments = format!("({}) UTF-8 {from}:*", names.join(" "));
            wire.run("C: n NOOP\nS~ n OK …");
            let expected: Vec<String> = order.iter().map(|at| (at + 1).to_string()).collect();
            // Twice: the second time the result is remembered.
            for result in ["made", "remembered"] {
                assert_eq!(sort(&mut wire, &arguments), expected.join(" "), "{round}, {result}: {arguments}");
            }
            let uids: Vec<String> = order.iter().map(|at| messages[*at].0.to_string()).collect();
            let answer = format!("* SORT {}", uids.join(" "));
            wire.run(&format!("C: u UID SORT {arguments}\nS: {answer}\nS: u OK …"));
        }
        let gone = 1 + random.below(messages.len() as u32 - 1);
        wire.run(&format!(
            "C: s STORE {gone} +FLAGS.SILENT \\Deleted\nS: s OK …\nC: e EXPUNGE\nS: * {gone} EXPUNGE\nS: e OK …"
        ));
        messages.remove(gone as usize - 1);
    }
}
