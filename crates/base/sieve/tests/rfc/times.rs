//! RFC 5260, RFC 5183, RFC 7352.

use crate::world::{MESSAGE, World, check, holds_in, words};

#[test]
fn dates_in_their_zone() {
    check(
        "\"date\", \"relational\", \"index\"",
        &[
            ("date :originalzone \"date\" \"date\" \"2000-02-29\"", true),
            ("date \"date\" \"date\" \"2000-03-01\"", true),
            ("date :zone \"+0000\" \"date\" \"hour\" \"06\"", true),
            ("date :originalzone \"date\" \"weekday\" \"2\"", true),
            ("date :value \"ge\" :originalzone \"date\" \"year\" \"1999\"", true),
            ("date \"x-tag\" \"year\" \"2000\"", false),
            ("currentdate \"iso8601\" \"2000-03-01T07:45:09+01:00\"", true),
            ("currentdate :zone \"-0500\" \"std11\" \"Wed, 01 Mar 2000 01:45:09 -0500\"", true),
            ("currentdate :matches \"julian\" \"5160?\"", true),
            ("header :index 2 \"x-tag\" \"two\"", true),
            ("header :index 1 :last \"x-tag\" \"three\"", true),
            ("header :index 4 \"x-tag\" [\"one\", \"two\", \"three\"]", false),
            ("header :index 2 :last \"x-tag\" \"two\"", true),
        ],
    );
}

#[test]
fn items_of_the_environment() {
    check(
        "\"environment\"",
        &[
            ("environment \"domain\" \"EXAMPLE.com\"", true),
            ("environment :contains \"vnd.none\" \"\"", false),
        ],
    );
}

#[test]
fn duplicates_are_remembered_when_the_run_ends_well() {
    let script = "require \"duplicate\"; if duplicate { discard; } if duplicate { discard; }";
    let outcome = World::default().run(script, MESSAGE);
    assert_eq!(words(&outcome), ["implicit keep", "remember 0::<1@x>"]);
    let seen =
        World { seen: vec!["0::<1@x>".into(), "1:h:two".into(), "1:h:one".into()], ..World::default() };
    assert_eq!(words(&seen.run(script, MESSAGE)), ["discard"]);
    for (test, expected) in [
        ("duplicate :handle \"h\" :header \"x-tag\"", true),
        ("duplicate :handle \"h\" :uniqueid \"two\"", true),
        ("duplicate :uniqueid \"two\"", false),
        ("duplicate :header \"x-none\"", false),
    ] {
        assert_eq!(holds_in(&seen, "\"duplicate\"", test, MESSAGE), expected, "{test}");
    }
    let outcome = seen.run("require \"duplicate\"; if duplicate :last :seconds 60 { discard; }", MESSAGE);
    assert_eq!(words(&outcome), ["discard", "remember 0::<1@x>"]);
    let outcome =
        World::default().run("require [\"duplicate\", \"ihave\"]; if duplicate {} error \"x\";", MESSAGE);
    assert_eq!(words(&outcome), ["implicit keep"]);
}
