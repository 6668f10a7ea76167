//! RFC 5228, RFC 3894, RFC 5429.

use crate::world::{MESSAGE, World, check, effects, holds_in, words};

#[test]
fn without_actions_the_message_is_kept() {
    assert_eq!(effects(""), ["implicit keep"]);
    assert_eq!(effects("stop; discard;"), ["implicit keep"]);
    assert_eq!(effects("keep; keep;"), ["keep"]);
    assert_eq!(effects("discard;"), ["discard"]);
    assert_eq!(effects("discard; keep;"), ["keep"]);
    assert_eq!(effects("keep; discard;"), ["keep"]);
}

#[test]
fn if_elsif_else() {
    for (a, b, expected) in
        [("true", "true", "file A"), ("false", "true", "file B"), ("false", "false", "file C")]
    {
        let script = format!(
            "require \"fileinto\"; if {a} {{ fileinto \"A\"; }} elsif {b} {{ fileinto \"B\"; }} else {{ fileinto \"C\"; }}"
        );
        assert_eq!(effects(&script), [expected]);
    }
}

#[test]
fn a_message_is_stored_and_sent_once() {
    let script = "require [\"fileinto\", \"copy\"]; fileinto \"A\"; fileinto \"A\"; fileinto :copy \"B\"; redirect \"x@y.z\"; redirect :copy \"x@y.z\";";
    assert_eq!(effects(script), ["file A", "file B", "redirect x@y.z"]);
    // RFC 3894: with :copy the implicit keep stands.
    let script = "require [\"fileinto\", \"copy\"]; fileinto :copy \"B\"; redirect :copy \"x@y.z\";";
    assert_eq!(effects(script), ["file B", "redirect x@y.z", "implicit keep"]);
    assert_eq!(effects("require \"fileinto\"; fileinto \"inbox\"; keep;"), ["keep"]);
}

#[test]
fn header_and_exists() {
    check(
        "",
        &[
            ("header \"subject\" \"GRÜSSE FROM ana\"", false),
            ("header \"subject\" \"Grüße FROM ana\"", true),
            ("header :is :comparator \"i;octet\" \"Subject\" \"Grüße from ana\"", false),
            ("header :contains \"SUBJECT\" \"from\"", true),
            ("header :matches \"subject\" \"Gr*e from ?na\"", true),
            ("header [\"x\", \"x-tag\"] [\"four\", \"two\"]", true),
            ("header :is \"x-empty\" \"\"", true),
            ("header :contains \"x-empty\" \"\"", true),
            ("header :contains \"x-none\" \"\"", false),
            ("header \"subject\" []", false),
            ("exists \"x-empty\"", true),
            ("exists [\"x-empty\", \"from\"]", true),
            ("exists [\"x-empty\", \"x-none\"]", false),
            ("not exists \"x-none\"", true),
            ("allof (exists \"from\", not false, anyof (false, true))", true),
            ("anyof (false, not true)", false),
        ],
    );
}

#[test]
fn addresses_by_part() {
    check(
        "",
        &[
            ("address \"from\" \"ANA@example.org\"", true),
            ("address :localpart \"from\" \"ana\"", true),
            ("address :domain [\"from\", \"to\"] \"example.net\"", true),
            ("address :all :contains \"to\" \"bo\"", true),
            ("address :is \"to\" \"Bo\"", false),
            ("address :comparator \"i;octet\" :domain \"from\" \"EXAMPLE.org\"", false),
        ],
    );
    let group = "To: friends: a@b.c, D <d@e.f>;\r\nCc: undisclosed-recipients:;\r\nFrom: nobody\r\n\r\n";
    for (test, expected) in [
        ("address \"to\" \"d@e.f\"", true),
        ("address :contains \"cc\" \"\"", false),
        ("address :contains \"from\" \"nobody\"", false),
    ] {
        assert_eq!(holds_in(&World::default(), "", test, group), expected, "{test}");
    }
}

#[test]
fn envelope_and_subaddress() {
    check(
        "\"envelope\", \"subaddress\"",
        &[
            ("envelope \"from\" \"ana@EXAMPLE.org\"", true),
            ("envelope :domain [\"to\", \"From\"] \"example.com\"", true),
            ("address :user \"to\" \"ken\"", true),
            ("address :detail \"to\" \"sieve\"", true),
            ("address :detail :contains \"from\" \"\"", false),
            ("address :user \"from\" \"ana\"", true),
        ],
    );
    // RFC 5228 §5.4: the null path is the empty string for each part.
    let world = World { from: String::new(), ..World::default() };
    for part in [":all", ":localpart", ":domain"] {
        assert!(
            holds_in(&world, "\"envelope\"", &format!("envelope {part} \"from\" \"\""), MESSAGE),
            "{part}"
        );
    }
}

#[test]
fn size_counts_octets() {
    let len = MESSAGE.len();
    check(
        "",
        &[
            (&format!("size :over {len}"), false),
            (&format!("size :under {len}"), false),
            (&format!("size :over {}", len - 1), true),
            (&format!("size :under {}", len + 1), true),
            ("size :under 1K", true),
        ],
    );
}

#[test]
fn rejected_mail_is_not_delivered() {
    assert_eq!(effects("require \"reject\"; reject \"no\";"), ["reject no"]);
    assert_eq!(effects("require \"ereject\"; discard; ereject \"no\";"), ["ereject no"]);
    for script in [
        "require [\"reject\", \"fileinto\"]; fileinto \"A\"; reject \"no\";",
        "require \"reject\"; reject \"no\"; keep;",
        "require \"reject\"; redirect \"a@b.c\"; reject \"no\";",
        "require [\"reject\", \"ereject\"]; reject \"no\"; ereject \"no\";",
        "require [\"reject\", \"vacation\"]; vacation \"away\"; reject \"no\";",
        "require [\"reject\", \"vacation\"]; reject \"no\"; vacation \"away\";",
    ] {
        let outcome = World::default().run(script, MESSAGE);
        assert!(outcome.error.is_some(), "{script}");
        assert_eq!(words(&outcome), ["implicit keep"], "{script}");
    }
}

#[test]
fn encoded_characters() {
    assert_eq!(
        effects("require [\"fileinto\", \"encoded-character\"]; fileinto \"a${hex: 24 20}${unicode:fc}\";"),
        ["file a$ ü"]
    );
    // Without require they mean themselves.
    assert_eq!(effects("require \"fileinto\"; fileinto \"${hex:24}\";"), ["file ${hex:24}"]);
}

#[test]
fn effects_in_plain_words() {
    let script = "require [\"fileinto\", \"imap4flags\", \"mailbox\"]; fileinto :create :flags \"\\\\Seen\" \"A\"; redirect \"x@y.z\";";
    assert_eq!(
        World::default().run(script, MESSAGE).to_string(),
        "store the message in mailbox \"A\", made if it does not exist, with flags \\Seen\nsend the message on to x@y.z\n"
    );
    let failed = World::default().run("require \"ihave\"; error \"oh\";", MESSAGE);
    assert!(failed.to_string().ends_with("error: line 1, column 18: oh; the message is kept\n"), "{failed}");
}
