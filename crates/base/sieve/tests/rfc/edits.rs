//! RFC 5293.

use posthaste_sieve::Effect;

use crate::world::{World, words};

const MESSAGE: &str = "Received: a\r\nX-A: 1\r\nX-A: 2\r\nX-A: 3\r\nSubject: s\r\n\r\nbody";

fn edited(body: &str) -> String {
    let outcome =
        World::default().run(&format!("require [\"editheader\", \"index\", \"variables\"]; {body}"), MESSAGE);
    assert_eq!(outcome.error, None, "{body}");
    match &outcome.effects[0] {
        Effect::Keep { version, .. } => {
            outcome.header(*version).map_or("unchanged".into(), |h| String::from_utf8_lossy(h).into())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn fields_come_and_go() {
    for (body, expected) in [
        (
            "addheader \"X-B\" \"b\";",
            "X-B: b\r\nReceived: a\r\nX-A: 1\r\nX-A: 2\r\nX-A: 3\r\nSubject: s\r\n\r\n",
        ),
        (
            "addheader :last \"X-B\" \"b\r\nc: d\";",
            "Received: a\r\nX-A: 1\r\nX-A: 2\r\nX-A: 3\r\nSubject: s\r\nX-B: b  c: d\r\n\r\n",
        ),
        ("deleteheader \"x-a\";", "Received: a\r\nSubject: s\r\n\r\n"),
        ("deleteheader :index 2 \"x-a\";", "Received: a\r\nX-A: 1\r\nX-A: 3\r\nSubject: s\r\n\r\n"),
        ("deleteheader :index 1 :last \"x-a\";", "Received: a\r\nX-A: 1\r\nX-A: 2\r\nSubject: s\r\n\r\n"),
        ("deleteheader :is \"x-a\" [\"1\", \"3\"];", "Received: a\r\nX-A: 2\r\nSubject: s\r\n\r\n"),
        ("deleteheader :index 1 :is \"x-a\" \"2\";", "unchanged"),
        ("deleteheader \"received\";", "unchanged"),
        ("deleteheader \"x-none\";", "unchanged"),
    ] {
        assert_eq!(edited(body), expected, "{body}");
    }
}

#[test]
fn tests_and_later_actions_see_the_edit() {
    let script = "require [\"editheader\", \"fileinto\", \"copy\"]; fileinto :copy \"A\"; addheader \"X-B\" \"grün\"; if header \"x-b\" \"grün\" { fileinto \"B\"; } deleteheader \"x-b\"; if not exists \"x-b\" { fileinto \"C\"; }";
    let outcome = World::default().run(script, MESSAGE);
    assert_eq!(words(&outcome), ["file A", "file B", "file C"]);
    let versions = outcome.effects.iter().map(|effect| match effect {
        Effect::FileInto { version, .. } => *version,
        other => panic!("{other:?}"),
    });
    let versions: Vec<usize> = versions.collect();
    assert_eq!(versions, [0, 1, 2]);
    assert!(outcome.header(1).unwrap().starts_with(b"X-B: =?UTF-8?B?"));
    assert!(outcome.header(2).unwrap().starts_with(b"Received:"));
}

/// RFC 8601 §5: what a server says of a message is believed further on, so no script says it.
#[test]
fn fields_of_servers_are_not_edited() {
    for body in [
        "addheader \"Authentication-Results\" \"mail.example.org; dmarc=pass\";",
        "addheader :last \"authentication-results\" \"x; spf=pass\";",
        "addheader \"Return-Path\" \"<x@y>\";",
    ] {
        assert_eq!(edited(body), "unchanged", "{body}");
    }
    let message = "Authentication-Results: mail.example.org; dmarc=fail\r\nSubject: s\r\n\r\nbody";
    let script = "require \"editheader\"; deleteheader \"Authentication-Results\";";
    let outcome = World::default().run(script, message);
    assert!(outcome.headers.is_empty() && outcome.error.is_none(), "{outcome:?}");
    assert_eq!(outcome.notes, ["the field Authentication-Results may not be deleted"]);
}

/// RFC 5321 §4.4: who sends the message on takes the first field away.
#[test]
fn a_return_path_stays_in_front() {
    let script = "require \"editheader\"; addheader \"X-B\" \"b\"; addheader \"X-C\" \"c\";";
    for (before, after) in [
        (
            "Return-Path: <a@b>\r\nSubject: s\r\n\r\n",
            "Return-Path: <a@b>\r\nX-C: c\r\nX-B: b\r\nSubject: s\r\n\r\n",
        ),
        (
            "Subject: s\r\nReturn-Path: <a@b>\r\n\r\n",
            "X-C: c\r\nX-B: b\r\nSubject: s\r\nReturn-Path: <a@b>\r\n\r\n",
        ),
    ] {
        let outcome = World::default().run(script, before);
        assert_eq!(String::from_utf8_lossy(outcome.headers.last().unwrap()), after);
    }
}
