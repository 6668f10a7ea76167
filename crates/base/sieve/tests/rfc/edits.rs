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
