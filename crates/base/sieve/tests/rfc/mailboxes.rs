//! RFC 5490, RFC 9042, RFC 8579.

use posthaste_sieve::Effect;

use crate::world::{MESSAGE, World, check};

#[test]
fn tests_of_mailboxes() {
    check(
        "\"mailbox\", \"mailboxid\", \"special-use\", \"mboxmetadata\", \"servermetadata\"",
        &[
            ("mailboxexists [\"INBOX\", \"Work\"]", true),
            ("mailboxexists [\"INBOX\", \"None\"]", false),
            ("mailboxidexists \"F1\"", true),
            ("mailboxidexists [\"F1\", \"F2\"]", false),
            ("specialuse_exists \"\\\\Junk\"", true),
            ("specialuse_exists \"Work\" \"\\\\Junk\"", false),
            ("specialuse_exists \"Spam\" [\"\\\\Junk\"]", true),
            ("metadata :contains \"INBOX\" \"/private/a\" \"mailbox\"", true),
            ("servermetadata \"/private/a\" \"of server\"", true),
            ("metadataexists \"INBOX\" [\"/private/a\", \"/private/b\"]", false),
            ("servermetadataexists \"/private/a\"", true),
        ],
    );
}

/// RFC 5228 §2.10.3: the same action is done once. These are three, since three mailboxes may be
/// meant.
#[test]
fn a_name_beside_an_id_or_a_use_is_another_mailbox() {
    let script = "require [\"fileinto\", \"mailboxid\", \"special-use\", \"copy\"]; \
        fileinto :copy :specialuse \"\\\\Junk\" \"A\"; fileinto :copy :mailboxid \"F1\" \"A\"; \
        fileinto :copy \"A\"; fileinto :copy \"A\"; fileinto :copy :specialuse \"\\\\Junk\" \"A\"; discard;";
    assert_eq!(World::default().run(script, MESSAGE).effects.len(), 3);
}

#[test]
fn how_to_find_a_mailbox() {
    let script = "require [\"fileinto\", \"mailbox\", \"mailboxid\", \"special-use\"]; fileinto :create :mailboxid \"F1\" \"A\"; fileinto :specialuse \"\\\\Junk\" \"B\";";
    let outcome = World::default().run(script, MESSAGE);
    let targets: Vec<_> = outcome
        .effects
        .iter()
        .map(|effect| match effect {
            Effect::FileInto { target, .. } => (
                target.mailbox.as_str(),
                target.create,
                target.mailbox_id.as_deref(),
                target.special_use.as_deref(),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(targets, [("A", true, Some("F1"), None), ("B", false, None, Some("\\Junk"))]);
}
