//! METADATA (RFC 5464) and LIST-METADATA (RFC 9590).

use posthaste_imap_server::ImapOptions;

use crate::harness::Server;

#[test]
fn values_stay_until_they_are_removed() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … METADATA LIST-METADATA …
        S: a OK …
        C: b GETMETADATA INBOX /private/comment
        S: * METADATA INBOX (/private/comment NIL)
        S: b OK GETMETADATA completed
        C: c SETMETADATA INBOX (/private/comment "My own comment" /shared/comment {12+}
        C: two
        C: lines
        C: )
        S: c OK SETMETADATA completed
        C: d GETMETADATA "INBOX" (/shared/Comment /private/comment)
        S: * METADATA INBOX (/shared/Comment {12}
        S: two
        S: lines
        S:  /private/comment "My own comment")
        S: d OK …
        C: e SETMETADATA INBOX (/PRIVATE/COMMENT NIL /shared/comment "")
        S: e OK …
        "#,
    );
    server.select("INBOX").run(
        r#"
        C: f GETMETADATA INBOX (/private/comment /shared/comment)
        S: * METADATA INBOX (/private/comment NIL /shared/comment "")
        S: f OK …
        "#,
    );
}

#[test]
fn a_value_is_octets() {
    let server = Server::start();
    let mut wire = server.login();
    wire.send(b"a SETMETADATA INBOX (/private/vendor/x/y ~{5+}\r\na\0\r\n\xff)\r\n");
    wire.run("S: a OK …");
    wire.send(b"b GETMETADATA INBOX /private/vendor/x/y\r\n");
    wire.run("S: * METADATA INBOX (/private/vendor/x/y ~{5}");
    assert_eq!(wire.take(5), b"a\0\r\n\xff");
    wire.run("S: )\nS: b OK …");
    // RFC 9051 §9, CHAR8: a literal that is no literal8 holds no NUL.
    wire.send(b"c SETMETADATA INBOX (/private/vendor/x/y {1+}\r\n\0)\r\n");
    wire.run("S: c BAD …");
}

#[test]
fn options() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a SETMETADATA INBOX (/private/f/values/small "12345" /private/f/values/boss "1" /private/f/values/a/b "123")
        S: a OK …
        # RFC 5464 §4.2.2
        C: b GETMETADATA INBOX (DEPTH 1) (/private/f/values)
        S: * METADATA INBOX (/private/f/values/boss "1" /private/f/values/small "12345")
        S: b OK …
        C: c GETMETADATA (DEPTH infinity) INBOX /private
        S: * METADATA INBOX (/private/f/values/a/b "123" /private/f/values/boss "1" /private/f/values/small "12345")
        S: c OK …
        C: d GETMETADATA (DEPTH 0) INBOX /private/f/values
        S: * METADATA INBOX (/private/f/values NIL)
        S: d OK …
        C: e GETMETADATA (DEPTH infinity) INBOX /private/f/value
        S: e OK GETMETADATA completed
        # An entry that is asked for twice is sent once.
        C: f GETMETADATA (DEPTH 1) INBOX (/private/f/values/boss /private/F/values /private/f/VALUES/BOSS)
        S: * METADATA INBOX (/private/f/values/boss "1" /private/f/values/small "12345")
        S: f OK …
        # RFC 5464 §4.2.1
        C: g GETMETADATA INBOX (MAXSIZE 3 DEPTH infinity) (/private)
        S: * METADATA INBOX (/private/f/values/a/b "123" /private/f/values/boss "1")
        S: g OK [METADATA LONGENTRIES 5] GETMETADATA completed
        C: h GETMETADATA (MAXSIZE 0) INBOX (/private/f/values/boss /private/f/values/a/b)
        S: h OK [METADATA LONGENTRIES 3] …
        C: i GETMETADATA (MAXSIZE 5) INBOX /private/f/values/small
        S: * METADATA INBOX (/private/f/values/small "12345")
        S: i OK GETMETADATA completed
        "#,
    );
}

#[test]
fn names_that_cannot_be() {
    let server = Server::start();
    server.connect().run("C: a GETMETADATA INBOX /private/a\nS: a BAD …");
    let mut wire = server.login();
    for name in [
        "comment",
        "/",
        "/private/",
        "/private//a",
        "/private/a*",
        "/private/%",
        "/private/\"a",
        "/other/a",
        "/privatea/b",
        "\"/private/\u{e4}\"",
    ] {
        wire.run(&format!("C: a GETMETADATA INBOX ({name})\nS: a BAD …\nC: n ENABLE X\nS~ n OK …"));
        wire.run(&format!("C: b SETMETADATA INBOX ({name} x)\nS: b BAD …\nC: n ENABLE X\nS~ n OK …"));
        wire.run(&format!("C: b SETMETADATA INBOX ({name} \"x\")\nS: b BAD …\nC: n ENABLE X\nS~ n OK …"));
    }
    // RFC 5464 §3.2: two components, and four of a vendor's.
    for name in ["/private", "/shared", "/shared/vendor", "/private/vendor/x"] {
        wire.run(&format!(
            "C: b SETMETADATA INBOX ({name} \"x\")\nS: b BAD …\nC: c GETMETADATA (DEPTH 1) INBOX {name}\nS: c OK …"
        ));
    }
    wire.run(
        r#"
        C: d GETMETADATA INBOX ()
        S: d BAD …
        C: e SETMETADATA INBOX ()
        S: e BAD …
        C: f GETMETADATA (DEPTH 2) INBOX /private/a
        S: f BAD …
        C: g SETMETADATA Nowhere (/private/a "x")
        S: g NO [NONEXISTENT] …
        C: h GETMETADATA Nowhere /private/a
        S: h NO [NONEXISTENT] …
        "#,
    );
}

#[test]
fn limits() {
    let server = Server::start();
    let mut wire = server.login();
    // RFC 5464 §4.3: nothing of a command that fails is done.
    let longest = "x".repeat(65_536);
    wire.send(
        format!("a SETMETADATA INBOX (/private/a {{65536+}}\r\n{longest} /private/b \"b\")\r\n").as_bytes(),
    );
    wire.run("S: a OK …");
    wire.run(
        "C: b SETMETADATA INBOX (/private/c \"c\" /private/d {65537}\nS: b NO [METADATA MAXSIZE 65536] …",
    );
    wire.send(
        format!("c SETMETADATA INBOX (/private/c \"c\" /private/d {{65537+}}\r\n{longest}x)\r\n").as_bytes(),
    );
    wire.run(
        r#"
        S: c NO [METADATA MAXSIZE 65536] …
        C: d GETMETADATA (MAXSIZE 65535) INBOX (/private/a /private/b /private/c)
        S: * METADATA INBOX (/private/b "b" /private/c NIL)
        S: d OK [METADATA LONGENTRIES 65536] …
        "#,
    );
    // 100 in a mailbox.
    let many: Vec<String> = (0..98).map(|n| format!("/shared/{n} \"\"")).collect();
    wire.send(format!("e SETMETADATA INBOX ({})\r\n", many.join(" ")).as_bytes());
    wire.run(
        r#"
        S: e OK …
        C: f SETMETADATA INBOX (/private/b "changed" /private/more "x")
        S: f NO [METADATA TOOMANY] …
        C: g GETMETADATA INBOX (/private/b /private/more)
        S: * METADATA INBOX (/private/b "b" /private/more NIL)
        S: g OK …
        C: h SETMETADATA INBOX (/private/b NIL /private/more "x")
        S: h OK …
        C: i GETMETADATA INBOX (/private/b /private/more)
        S: * METADATA INBOX (/private/b NIL /private/more "x")
        S: i OK …
        "#,
    );
    // A value that is too long is no bad command: a client may try any number.
    for _ in 0..30 {
        wire.run("C: j SETMETADATA INBOX (/private/d {65537}\nS: j NO [METADATA MAXSIZE 65536] …");
    }
    server.connect().run("C: k SETMETADATA INBOX (/private/d {65537}\nS: k BAD …");
}

#[test]
fn annotations_follow_their_mailbox() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE One
        S: a OK …
        C: b SETMETADATA One (/private/comment "one")
        S: b OK …
        C: c RENAME One Two
        S~ c OK …
        C: d GETMETADATA Two /private/comment
        S: * METADATA Two (/private/comment "one")
        S: d OK …
        C: e DELETE Two
        S: e OK …
        C: f CREATE Two
        S: f OK …
        C: g GETMETADATA Two /private/comment
        S: * METADATA Two (/private/comment NIL)
        S: g OK …
        # RFC 5464 §4.1: INBOX keeps its own.
        C: h SETMETADATA INBOX (/private/comment "in")
        S: h OK …
        C: i RENAME INBOX Old
        S~ i OK …
        C: j LIST "" (INBOX Old) RETURN (METADATA (/private/comment))
        S: * LIST (…) "/" INBOX
        S: * METADATA INBOX (/private/comment "in")
        S: * LIST (…) "/" Old
        S: * METADATA Old (/private/comment "in")
        S: j OK …
        "#,
    );
}

#[test]
fn annotations_of_the_server() {
    let options = ImapOptions {
        comment: Some("Maintenance on Sunday".into()),
        admin: Some("mailto:postmaster@example.org".into()),
        ..ImapOptions::default()
    };
    Server::start_with(options).login().run(
        r#"
        C: a GETMETADATA "" (/shared/comment /shared/admin)
        S: * METADATA "" (/shared/comment "Maintenance on Sunday" /shared/admin "mailto:postmaster@example.org")
        S: a OK …
        # RFC 5464 §3.2.1.1: it is read-only.
        C: b SETMETADATA "" (/private/vendor/x/y "1" /shared/admin "mailto:me@example.org")
        S: b NO [NOPERM] …
        C: c SETMETADATA "" (/private/vendor/x/y "1")
        S: c OK …
        C: d GETMETADATA "" (DEPTH infinity) (/private /shared)
        S: * METADATA "" (/private/vendor/x/y "1" /shared/admin "mailto:postmaster@example.org" /shared/comment "Maintenance on Sunday")
        S: d OK …
        C: e GETMETADATA INBOX (/private/vendor/x/y /shared/admin)
        S: * METADATA INBOX (/private/vendor/x/y NIL /shared/admin NIL)
        S: e OK …
        "#,
    );
    Server::start().login().run(
        r#"
        C: a GETMETADATA "" (/shared/comment /shared/admin)
        S: * METADATA "" (/shared/comment NIL /shared/admin NIL)
        S: a OK …
        "#,
    );
}

#[test]
fn a_special_use_is_an_annotation() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE Gone (USE (\Trash))
        S: a OK …
        C: b GETMETADATA Gone /private/specialuse
        S: * METADATA Gone (/private/specialuse "\\Trash")
        S: b OK …
        # RFC 6154 §5.4
        C: c SETMETADATA Gone (/private/specialuse "\\junk" /private/comment "x")
        S: c OK …
        C: d LIST "" Gone RETURN (SPECIAL-USE METADATA (/private/specialuse))
        S: * LIST (… \Junk) "/" Gone
        S: * METADATA Gone (/private/specialuse "\\Junk")
        S: d OK …
        C: e SETMETADATA Gone (/private/comment "y" /private/specialuse "\\Junk \\Sent")
        S: e NO [USEATTR] …
        C: f SETMETADATA Gone (/private/comment "y" /private/specialuse "\\All")
        S: f NO [USEATTR] …
        C: g SETMETADATA INBOX (/private/specialuse "\\Sent")
        S: g NO [USEATTR] …
        C: h SETMETADATA Gone (/PRIVATE/SPECIALUSE NIL)
        S: h OK …
        C: i GETMETADATA (DEPTH 1) Gone /private
        S: * METADATA Gone (/private/comment "x")
        S: i OK …
        C: j LIST (SPECIAL-USE) "" Gone
        S: j OK …
        "#,
    );
}

#[test]
fn list_reports_annotations() {
    let server = Server::start();
    server.login().run(
        r##"
        C: a CREATE foo/bar
        S: a OK …
        C: b DELETE foo
        S: b OK …
        C: c SETMETADATA INBOX (/shared/vendor/x/color "#b71c1c")
        S: c OK …
        # RFC 9590 §4: NIL where there is none, and nothing for what is no mailbox.
        C: d LIST "" (INBOX foo) RETURN (METADATA ("/shared/vendor/x/color"))
        S: * LIST (…) "/" INBOX
        S: * METADATA INBOX (/shared/vendor/x/color "#b71c1c")
        S: * LIST (\NonExistent …) "/" foo
        S: d OK …
        C: e LIST "" foo/* RETURN (METADATA (/shared/vendor/x/color /private/comment) STATUS (MESSAGES))
        S: * LIST (…) "/" foo/bar
        S: * STATUS foo/bar (MESSAGES 0)
        S: * METADATA foo/bar (/shared/vendor/x/color NIL /private/comment NIL)
        S: e OK …
        C: f SUBSCRIBE foo/bar
        S: f OK …
        C: g LIST (SUBSCRIBED RECURSIVEMATCH) "" foo RETURN (METADATA (/shared/vendor/x/color))
        S: * LIST (…) "/" foo ("CHILDINFO" ("SUBSCRIBED"))
        S: g OK …
        C: h LIST "" * RETURN (METADATA (/other/color))
        S: h BAD …
        C: i LIST "" * RETURN (METADATA)
        S: i BAD …
        "##,
    );
}

/// Those of each mailbox are read when they are sent, if they are long together.
#[test]
fn list_reports_long_annotations() {
    let server = Server::start();
    let mut wire = server.login();
    let longest = "x".repeat(65_536);
    let names = ["Drafts", "INBOX", "Sent"];
    for name in names {
        wire.send(format!("a SETMETADATA {name} (/private/a {{65536+}}\r\n{longest})\r\n").as_bytes());
        wire.run("S: a OK …");
    }
    wire.send(b"b LIST \"\" (INBOX Drafts Sent Trash) RETURN (METADATA (/private/a))\r\n");
    for name in names {
        wire.run(&format!("S: * LIST (…) \"/\" {name}\nS: * METADATA {name} (/private/a {{65536}}"));
        assert_eq!(wire.take(65_536), longest.as_bytes());
        wire.run("S: )");
    }
    wire.run("S: * LIST (…) \"/\" Trash\nS: * METADATA Trash (/private/a NIL)\nS: b OK …");
}

#[test]
fn a_client_that_enables_it_gets_changes_by_others() {
    let server = Server::start();
    let (mut watching, mut other, mut silent) = (server.login(), server.login(), server.login());
    other.run("C: a SETMETADATA INBOX (/private/old \"1\" /private/kept \"1\")\nS: a OK …");
    watching.run(
        r#"
        C: a ENABLE METADATA METADATA-SERVER
        S: * ENABLED METADATA
        S: a OK …
        C: b ENABLE METADATA
        S: * ENABLED
        S: b OK …
        # RFC 5464 §4.1: what this session does itself is no news.
        C: c SETMETADATA INBOX (/private/mine "1")
        S: c OK …
        C: d NOOP
        S: d OK …
        "#,
    );
    other.run(
        r#"
        C: b SETMETADATA "" (/private/vendor/x/y "1")
        S: b OK …
        C: c SETMETADATA INBOX (/private/new "1" /private/old NIL /private/kept "1" /private/mine "2")
        S: c OK …
        C: d CREATE Gone
        S: d OK …
        C: e SETMETADATA Gone (/private/specialuse "\\Junk")
        S: e OK …
        C: f CREATE Short
        S: f OK …
        C: g SETMETADATA Short (/private/comment "x")
        S: g OK …
        C: h DELETE Short
        S: h OK …
        "#,
    );
    // RFC 5464 §4.4: names without values.
    watching.run(
        r#"
        C: e NOOP
        S: * METADATA "" /private/vendor/x/y
        S: * METADATA Gone /private/specialuse
        S: * METADATA INBOX /private/mine /private/new /private/old
        S: e OK …
        C: f NOOP
        S: f OK …
        C: g IDLE
        S: + idling
        "#,
    );
    other.run("C: i SETMETADATA INBOX (/private/comment \"x\")\nS: i OK …");
    watching.run("S: * METADATA INBOX /private/comment\nC: DONE\nS: g OK …");
    silent.run("C: a NOOP\nS: a OK …");
    watching.run(&format!(
        "C: h UNAUTHENTICATE\nS: h OK …\nC: i LOGIN {} \"{}\"\nS: i OK …",
        crate::harness::USER,
        crate::harness::PASSWORD
    ));
    other.run("C: j SETMETADATA INBOX (/private/comment NIL)\nS: j OK …");
    watching.run("C: j NOOP\nS: j OK …");
}

/// RFC 5161 §3.2: ENABLED names what is enabled. A client that gets none sends sequence numbers.
#[test]
fn an_enable_that_fails_enables_nothing() {
    let (server, faulty) = Server::start_faulty();
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    faulty.fail_to_list(Some(""));
    wire.run("C: a ENABLE UIDONLY METADATA\nS: a NO [UNAVAILABLE] …");
    faulty.fail_to_list(None);
    wire.run(
        "C: b FETCH 1 (UID)
         S: * 1 FETCH (UID 1)
         S: b OK …
         C: c ENABLE UIDONLY METADATA
         S: * ENABLED UIDONLY METADATA
         S: c OK …",
    );
}
