//! ANNOTATE-EXPERIMENT-1: RFC 5257. Values are set, fetched, searched and sorted by.

use crate::harness::{Server, searches};

fn two_messages() -> Server {
    let server = Server::start();
    server.with_messages(2);
    server
}

/// RFC 5257 §4.1 – §4.5, with its examples.
#[test]
fn values_are_stored_and_fetched() {
    let server = two_messages();
    server.login().run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … RIGHTS=texkn … ANNOTATE-EXPERIMENT-1 …
        S: a OK …
        C: b SELECT INBOX
        S~ * OK [ANNOTATIONS 65536] …
        S: b OK …
        C: c FETCH 1 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv NIL value.shared NIL)))
        S: c OK …
        C: d STORE 1 ANNOTATION (/comment (value.priv "My comment" value.shared "foo's bar") /altsubject (value.priv "Wots On"))
        S: d OK …
        C: e FETCH 1 (ANNOTATION (/comment (value size)))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "My comment" value.shared "foo's bar" size.priv "10" size.shared "9")))
        S: e OK …
        C: f UID FETCH 1:2 (ANNOTATION (/% value.priv))
        S: * 1 FETCH (UID 1 ANNOTATION (/altsubject (value.priv "Wots On") /comment (value.priv "My comment")))
        S: * 2 FETCH (UID 2 ANNOTATION (/comment (value.priv NIL)))
        S: f OK …
        C: g FETCH 1 (FLAGS ANNOTATION ((/comment /none) (value.shared size.shared)) UID)
        S: * 1 FETCH (FLAGS (\Recent) ANNOTATION (/comment (value.shared "foo's bar" size.shared "9") /none (value.shared NIL size.shared "0")) UID 1)
        S: g OK …
        C: h STORE 1 ANNOTATION (/comment (value.shared NIL))
        S: h OK …
        C: i FETCH 1 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "My comment" value.shared NIL)))
        S: i OK …
        # Names are case-sensitive (RFC 5257 §3.2).
        C: j FETCH 1 (ANNOTATION (/Comment value.priv))
        S: * 1 FETCH (ANNOTATION (/Comment (value.priv NIL)))
        S: j OK …
        C: k FETCH 1 (ENVELOPE ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ENVELOPE (…) ANNOTATION (/comment (value.priv "My comment")))
        S: k OK …
        C: l FETCH 1 (BODY.PEEK[]<0.3> ANNOTATION (/comment size.priv))
        S: * 1 FETCH (BODY[]<0> {3}
        S: Sub ANNOTATION (/comment (size.priv "10")))
        S: l OK …
        "#,
    );
    // Another session, another login: they are stored.
    server.select("INBOX").run(
        r#"
        C: a FETCH 1:2 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "My comment")))
        S: * 2 FETCH (ANNOTATION (/comment (value.priv NIL)))
        S: a OK …
        "#,
    );
}

#[test]
fn octets_of_any_sort_come_back() {
    let server = two_messages();
    let mut client = server.select("INBOX");
    client.send(b"a STORE 1 ANNOTATION (/vendor/x/icon (value.priv ~{4+}\r\na\0b\xff))\r\n");
    client.run(
        r#"
        S: a OK …
        C: b FETCH 1 (ANNOTATION (/vendor/* value.priv))
        S: * 1 FETCH (ANNOTATION (/vendor/x/icon (value.priv ~{4}
        S# 4
        S: )))
        S: b OK …
        C: c STORE 1 ANNOTATION (/comment (value.priv {3+}
        C: a"b))
        S: c OK …
        C: d FETCH 1 (ANNOTATION (/comment value.priv))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "a\"b")))
        S: d OK …
        "#,
    );
}

/// RFC 5257 §5: `value = nstring / literal8`.
#[test]
fn octets_of_any_sort_are_found() {
    let server = two_messages();
    let mut client = server.select("INBOX");
    client.send(b"a STORE 1 ANNOTATION (/vendor/x/icon (value.priv ~{5+}\r\na\0b\xff\xfe))\r\n");
    client.run("S: a OK …");
    for (sought, found) in [(&b"a\0B"[..], " 1"), (b"b\xff", " 1"), (b"\xff\xff", ""), (b"\0\0", "")] {
        client.send(format!("b SEARCH ANNOTATION * value ~{{{}+}}\r\n", sought.len()).as_bytes());
        client.send(&[sought, b"\r\n"].concat());
        client.run(&format!("S: * SEARCH{found}\nS: b OK …"));
    }
}

/// RFC 5257 §3.2, §4.8, §4.9.
#[test]
fn wrong_names_and_attributes_are_refused() {
    let server = two_messages();
    let mut client = server.select("INBOX");
    for command in [
        "STORE 1 ANNOTATION (comment (value.priv \"x\"))",
        "STORE 1 ANNOTATION (/comment/ (value.priv \"x\"))",
        "STORE 1 ANNOTATION (//comment (value.priv \"x\"))",
        "STORE 1 ANNOTATION (/com* (value.priv \"x\"))",
        "STORE 1 ANNOTATION (/comment (value \"x\"))",
        "STORE 1 ANNOTATION (/comment (size.priv \"1\"))",
        "STORE 1 ANNOTATION (/comment ())",
        "STORE 1 ANNOTATION ()",
        "STORE 1 ANNOTATION (/flags/seen (value.priv \"1\"))",
        "STORE 1 ANNOTATION (/1 (value.priv \"1\"))",
        "STORE 1 ANNOTATION (/2/comment (value.priv \"no such part\"))",
        "STORE 1 ANNOTATION (/1.1/comment (value.priv \"no such part\"))",
        "STORE 1 ANNOTATION (/0/comment (value.priv \"x\"))",
        "STORE 1 ANNOTATION (/1/flags/seen (value.priv \"yes\"))",
        "FETCH 1 (ANNOTATION (/comment colour))",
        "FETCH 1 (ANNOTATION (/comment ()))",
        "FETCH 1 ANNOTATION",
        "SEARCH ANNOTATION /comment size \"1\"",
        "SORT (ANNOTATION /comment value) UTF-8 ALL",
        "SORT (ANNOTATION /comm* value.priv) UTF-8 ALL",
    ] {
        // A connection may give 20 bad commands, one after the other.
        client.run(&format!("C: a {command}\nS: a BAD …\nC: o CHECK\nS: o OK …"));
    }
    client.run(
        r#"
        C: b STORE 1 ANNOTATION (/1/comment (value.priv "of the text") /1/flags/seen (value.priv "1"))
        S: b OK …
        C: c FETCH 1 (ANNOTATION (/1/* value.priv))
        S: * 1 FETCH (ANNOTATION (/1/comment (value.priv "of the text") /1/flags/seen (value.priv "1")))
        S: c OK …
        "#,
    );
    let patterns = vec!["/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*"; 40].join(" ");
    client.run(&format!("C: d FETCH 1 (ANNOTATION (({patterns}) value))\nS: d NO [LIMIT] …"));
}

/// RFC 5257 §4.1, §4.5.
#[test]
fn each_limit_has_its_code() {
    let long = |tag: &str, octets: usize| {
        let start = format!("{tag} STORE 1 ANNOTATION (/long (value.priv {{{octets}+}}\r\n");
        format!("{start}{}))\r\n", "x".repeat(octets))
    };
    let server = two_messages();
    let mut client = server.select("INBOX");
    client.send(long("a", 65_537).as_bytes());
    client.expect("a NO [ANNOTATE TOOBIG] …");
    client.send(long("b", 65_536).as_bytes());
    client.expect("b OK …");
    let many: Vec<String> = (0..101).map(|n| format!("/n{n} (value.shared \"\")")).collect();
    client.send(format!("c STORE 2 ANNOTATION ({})\r\n", many.join(" ")).as_bytes());
    client.expect("c NO [ANNOTATE TOOMANY] …");
    client.send(format!("d STORE 2 ANNOTATION ({})\r\n", many[..100].join(" ")).as_bytes());
    client.expect("d OK …");
    client.run(
        r#"
        C: e STORE 2 ANNOTATION (/one-more (value.priv ""))
        S: e NO [ANNOTATE TOOMANY] …
        C: f STORE 2 ANNOTATION (/n7 (value.shared NIL) /one-more (value.priv ""))
        S: f OK …
        C: g EXAMINE INBOX
        S~ * OK [ANNOTATIONS READ-ONLY] …
        S~ g OK …
        C: h STORE 2 ANNOTATION (/n7 (value.shared "x"))
        S: h NO [READ-ONLY] …
        C: i FETCH 2 (ANNOTATION (/n8 value.shared))
        S: * 2 FETCH (ANNOTATION (/n8 (value.shared "")))
        S: i OK …
        "#,
    );
}

/// RFC 5257 §4.8, §4.9.
#[test]
fn messages_are_found_and_sorted_by_values() {
    let server = Server::start();
    server.with_messages(4);
    let mut client = server.select("INBOX");
    client.run(
        r#"
        C: a STORE 1 ANNOTATION (/altsubject (value.shared "beta") /comment (value.priv "Ask IMAP4 people"))
        S: a OK …
        C: b STORE 2 ANNOTATION (/altsubject (value.shared "Alpha"))
        S: b OK …
        C: c STORE 3 ANNOTATION (/altsubject (value.shared "GAMMA") /vendor/x/note (value.shared "imap4"))
        S: c OK …
        "#,
    );
    searches(
        &mut client,
        &[
            ("ANNOTATION /comment value imap4", "1"),
            ("ANNOTATION * value imap4", "1 3"),
            ("ANNOTATION * value.priv imap4", "1"),
            ("ANNOTATION /% value.shared imap4", ""),
            ("NOT ANNOTATION /altsubject value NIL", "4"),
            ("OR ANNOTATION /altsubject value ALP SUBJECT \"number 4\"", "2 4"),
            ("ANNOTATION /Altsubject value a", ""),
        ],
    );
    client.run(
        r#"
        C: d SORT (ANNOTATION /altsubject value.shared) UTF-8 ALL
        S: * SORT 4 2 1 3
        S: d OK …
        C: e UID SORT (REVERSE ANNOTATION /altsubject value.shared) UTF-8 ANNOTATION /altsubject value a
        S: * SORT 3 1 2
        S: e OK …
        C: f THREAD REFERENCES UTF-8 ANNOTATION * value.priv imap4
        S: * THREAD (1)
        S: f OK …
        C: g ESEARCH IN (personal) ANNOTATION * value imap4
        S: * ESEARCH (TAG "g" MAILBOX INBOX UIDVALIDITY …) UID ALL 1,3
        S: g OK …
        C: h SEARCH RETURN (COUNT UPDATE) ANNOTATION * value imap4
        S: * ESEARCH (TAG "h") COUNT 2
        S: * … [NOUPDATE "h"] …
        S: h OK …
        "#,
    );
}

/// RFC 5257 §4.5, RFC 7162 §3.1.3.
#[test]
fn a_change_has_a_mod_sequence() {
    let server = two_messages();
    let mut client = server.login();
    client.run(
        r#"
        C: a ENABLE CONDSTORE
        S~ a OK …
        C: b SELECT INBOX
        S~ * OK [HIGHESTMODSEQ 2] …
        S~ b OK …
        C: c STORE 1 ANNOTATION (/comment (value.priv "x"))
        S: * 1 FETCH (UID 1 MODSEQ (3))
        S: c OK …
        C: d STORE 1:2 (UNCHANGEDSINCE 2) ANNOTATION (/comment (value.priv "y"))
        S: * 2 FETCH (UID 2 MODSEQ (5))
        S: d OK [MODIFIED 1] …
        C: e FETCH 1:2 (ANNOTATION (/comment value.priv)) (CHANGEDSINCE 3)
        S: * 2 FETCH (ANNOTATION (/comment (value.priv "y")) MODSEQ (5))
        S: e OK …
        "#,
    );
}

/// RFC 5257 §4.2, §4.4.
#[test]
fn entries_that_others_changed_are_reported() {
    let server = two_messages();
    let (mut plain, mut following) = (server.select("INBOX"), server.login());
    following.run("C: s SELECT INBOX (ANNOTATE)\nS~ s OK …");
    server.select("INBOX").run(
        r#"
        C: a STORE 1 ANNOTATION (/comment (value.priv "x") /altsubject (value.shared "y"))
        S: a OK …
        "#,
    );
    following.run(
        r#"
        C: a NOOP
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: * 1 FETCH (UID 1 ANNOTATION (/altsubject /comment))
        S: a OK …
        C: b NOOP
        S: b OK …
        # What it changes itself is no news.
        C: c STORE 2 ANNOTATION (/comment (value.priv "mine"))
        S: c OK …
        C: d NOOP
        S: d OK …
        "#,
    );
    plain.run("C: a NOOP\nS: * 1 FETCH (UID 1 FLAGS (…))\nS: * 2 FETCH (UID 2 FLAGS (…))\nS: a OK …");
    plain.run(
        r#"
        C: b STORE 1 ANNOTATION (/comment (value.priv NIL))
        S: b OK …
        C: c STORE 1 +FLAGS.SILENT (\Flagged)
        S: c OK …
        "#,
    );
    following.run(
        r#"
        C: e NOOP
        S: * 1 FETCH (UID 1 FLAGS (…\Flagged…))
        S: * 1 FETCH (UID 1 ANNOTATION (/comment))
        S: e OK …
        # Opened again without the parameter, no entries are reported.
        C: f SELECT INBOX
        S~ f OK …
        "#,
    );
    plain.run("C: d STORE 1 ANNOTATION (/comment (value.priv \"z\"))\nS: d OK …");
    following.run("C: g NOOP\nS: * 1 FETCH (UID 1 FLAGS (…))\nS: g OK …");
}
