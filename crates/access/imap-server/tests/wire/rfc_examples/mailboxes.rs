//! Examples about mailboxes: their annotations, access control lists, quotas, identifiers and
//! LIST.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_imap_server::ImapOptions;

use crate::harness::{Server, USER};

/// RFC 5464 §4.2: a value of the server, one of a mailbox, and two. §4.3: a value of two lines,
/// its removal, and two values at once. §4.4.1: names without parentheses. §4.4.2: changes by
/// others.
#[test]
fn rfc_5464_metadata() {
    let options = ImapOptions { comment: Some("Shared comment".into()), ..ImapOptions::default() };
    let server = Server::start_with(options);
    let mut wire = server.login();
    wire.run(
        r#"
        C: a GETMETADATA "" /shared/comment
        S: * METADATA "" (/shared/comment "Shared comment")
        S: a OK GETMETADATA completed
        C: a SETMETADATA INBOX (/private/comment {35}
        S: + …
        C: My new comment across
        C: two lines.
        C: )
        S: a OK SETMETADATA completed
        C: a GETMETADATA "INBOX" /private/comment
        S: * METADATA INBOX (/private/comment {35}
        S: My new comment across
        S: two lines.
        S: )
        S: a OK GETMETADATA completed
        C: a SETMETADATA INBOX (/private/comment NIL)
        S: a OK SETMETADATA completed
        C: a SETMETADATA INBOX (/private/comment "My new comment" /shared/comment "This one is for you!")
        S: a OK SETMETADATA completed
        C: a GETMETADATA "INBOX" (/shared/comment /private/comment)
        S: * METADATA INBOX (/shared/comment "This one is for you!" /private/comment "My new comment")
        S: a OK GETMETADATA completed
        C: a GETMETADATA "INBOX" /private/comment /shared/comment
        S: * METADATA INBOX (/private/comment "My new comment" /shared/comment "This one is for you!")
        S: a OK GETMETADATA completed
        C: b ENABLE METADATA
        S: * ENABLED METADATA
        S: b OK …
        "#,
    );
    let other =
        "C: x SETMETADATA INBOX (/shared/comment \"Its sunny outside!\" /private/comment NIL)\nS: x OK …";
    server.login().run(other);
    wire.run("C: a NOOP\nS: * METADATA INBOX /shared/comment /private/comment\nS: a OK …");
}

/// RFC 5464 §4.2.1: MAXSIZE. §4.2.2: DEPTH. §4.3: as many annotations as a mailbox may have.
#[test]
fn rfc_5464_options_and_limits() {
    let server = Server::start();
    let mut wire = server.login();
    wire.send(
        format!("x SETMETADATA INBOX (/shared/comment {{2199+}}\r\n{})\r\n", "c".repeat(2199)).as_bytes(),
    );
    wire.run(
        r#"
        S: x OK …
        C: x SETMETADATA INBOX (/private/comment "My own comment" /private/filters/values/small "SMALLER 5000" /private/filters/values/boss "FROM \"boss@example.com\"")
        S: x OK …
        C: a GETMETADATA "INBOX" (MAXSIZE 1024) (/shared/comment /private/comment)
        S: * METADATA INBOX (/private/comment "My own comment")
        S: a OK [METADATA LONGENTRIES 2199] GETMETADATA completed
        # As the verified errata have it, the options stand before the mailbox.
        C: a GETMETADATA (DEPTH 1) "INBOX" (/private/filters/values)
        S: * METADATA INBOX (/private/filters/values/boss "FROM \"boss@example.com\"" /private/filters/values/small "SMALLER 5000")
        S: a OK GETMETADATA completed
        "#,
    );
    let many: Vec<String> = (0..100).map(|n| format!("/shared/{n} \"\"")).collect();
    wire.run("C: x CREATE Full\nS: x OK …");
    wire.send(format!("x SETMETADATA Full ({})\r\n", many.join(" ")).as_bytes());
    wire.run(
        r#"
        S: x OK …
        C: a SETMETADATA Full (/private/comment "My new comment")
        S: a NO [METADATA TOOMANY] …
        "#,
    );
}

/// RFC 4314 §3.1: rights are added, and wrong ones refused. §3.2: negative rights stay. §3.4,
/// §3.5: which rights there are. §5.1.1: SELECT and MYRIGHTS in one go.
#[test]
fn rfc_4314_access_control_lists() {
    let server = Server::start();
    server.login().run(
        r#"
        C: A000 CREATE Work
        S: A000 OK …
        C: A000 SETACL Work chris@example.org lrswi
        S: A000 OK …
        C: A001 GETACL Work
        S: * ACL Work ana@example.org lrswipkxteancd chris@example.org lrswi
        S: A001 OK …
        C: A002 SETACL Work chris@example.org +cda
        S: A002 OK …
        C: A003 GETACL Work
        S: * ACL Work ana@example.org lrswipkxteancd chris@example.org lrswikxteacd
        S: A003 OK …
        C: A035 SETACL Work john@example.org lrQswicda
        S: A035 BAD …
        C: A036 SETACL Work john@example.org lrqswicda
        S: A036 BAD …
        C: B001 SETACL Work "-chris@example.org" wetd
        S: B001 OK …
        C: B002 DeleteAcl Work chris@example.org
        S: B002 OK …
        C: B003 getacl Work
        S: * ACL Work ana@example.org lrswipkxteancd -chris@example.org wted
        S: B003 OK …
        C: a001 LISTRIGHTS Work smith@example.org
        S: * LISTRIGHTS Work smith@example.org "" l r s w i p k x t e a n c d
        S: a001 OK …
        C: A142 SELECT INBOX
        C: A143 MYRIGHTS INBOX
        S~ A142 OK [READ-WRITE] …
        S: * MYRIGHTS INBOX lrswipkxteancd
        S: A143 OK …
        "#,
    );
}

/// RFC 4314 §4: which flags a COPY keeps depends on the rights in the mailbox that it goes to.
#[test]
fn rfc_4314_flags_of_copies() {
    const BO: &str = "bo@example.org";
    let cases: [(&str, &[&str], &[&str]); 2] = [
        ("lrwis", &["DRAFT", "ANSWERED", "KEYWORD $Forwarded", "SEEN"], &["DELETED"]),
        ("lrsti", &["DELETED", "SEEN"], &["DRAFT", "ANSWERED", "KEYWORD $Forwarded"]),
    ];
    for (rights, kept, lost) in cases {
        let server = Server::start();
        server.add_account(BO, NewAccount::default());
        server.login().run("C: x CREATE Target\nS: x OK …");
        server.grant(USER, "Target", BO, rights);
        let mut bo = server.login_as(BO);
        for flags in ["\\Draft \\Deleted", "\\Answered", "$Forwarded \\Seen"] {
            bo.run(&format!("C: p APPEND INBOX ({flags}) {{3+}}\nC: x\nC: \nS~ p OK …"));
        }
        bo.run("C: s SELECT INBOX\nS~ s OK …");
        bo.run("C: A005 COPY 1:3 \"Other Users/ana@example.org/Target\"\nS~ A005 OK …");
        bo.run("C: A006 SELECT \"Other Users/ana@example.org/Target\"\nS~ A006 OK …");
        let counts = kept.iter().map(|key| (key, 1)).chain(lost.iter().map(|key| (key, 0)));
        for (key, count) in counts {
            bo.run(&format!(
                "C: A7 SEARCH RETURN (COUNT) {key}\nS: * ESEARCH (TAG \"A7\") COUNT {count}\nS: A7 OK …"
            ));
        }
    }
}

/// RFC 8440 §4: MYRIGHTS of mailboxes. It is not sent for names that are no mailboxes, or that are
/// listed for a mailbox below them. RFC 9590 §4: the same with annotations.
#[test]
fn rfc_8440_and_rfc_9590_list() {
    let server = Server::start();
    server.login().run(
        r##"
        C: x CREATE foo
        S: x OK …
        C: x CREATE bar/x
        S: x OK …
        C: x DELETE bar
        S: x OK …
        C: x SUBSCRIBE foo
        S: x OK …
        C: x SUBSCRIBE bar/x
        S: x OK …
        C: x SETMETADATA INBOX (/shared/vendor/cmu/color "#b71c1c")
        S: x OK …
        C: A01 LIST "" (INBOX bar foo) RETURN (MYRIGHTS)
        S: * LIST (…) "/" INBOX
        S: * MYRIGHTS INBOX lrswipkxteancd
        S: * LIST (\NonExistent …) "/" bar
        S: * LIST (…) "/" foo
        S: * MYRIGHTS foo lrswipkxteancd
        S: A01 OK …
        C: A02 LIST (SUBSCRIBED RECURSIVEMATCH) "" (bar foo) RETURN (MYRIGHTS)
        S: * LIST (…) "/" bar ("CHILDINFO" ("SUBSCRIBED"))
        S: * LIST (…\Subscribed) "/" foo
        S: * MYRIGHTS foo lrswipkxteancd
        S: A02 OK …
        C: A00 LIST "" (INBOX bar foo) RETURN (METADATA ("/shared/vendor/cmu/color"))
        S: * LIST (…) "/" INBOX
        S: * METADATA INBOX (/shared/vendor/cmu/color "#b71c1c")
        S: * LIST (\NonExistent …) "/" bar
        S: * LIST (…) "/" foo
        S: * METADATA foo (/shared/vendor/cmu/color NIL)
        S: A00 OK …
        "##,
    );
}

/// RFC 9208 §4.1.1, §4.1.2: a quota root. §4.1.4: what an EXPUNGE would free. §4.3.1: no room
/// for a message. The example of SETQUOTA is in `quota.rs`.
#[test]
fn rfc_9208_quota() {
    let server = Server::start();
    server.limit(AccountChange {
        quota_bytes: Some(Some(64 << 10)),
        quota_messages: Some(Some(1000)),
        ..AccountChange::default()
    });
    server.login().run(
        r#"
        C: G0002 GETQUOTAROOT INBOX
        S: * QUOTAROOT INBOX ""
        S: * QUOTA "" (STORAGE 0 64 MESSAGE 0 1000)
        S: G0002 OK …
        C: G0001 GETQUOTA ""
        S: * QUOTA "" (STORAGE 0 64 MESSAGE 0 1000)
        S: G0001 OK …
        C: x APPEND INBOX (\Deleted) {3+}
        C: x
        C:
        S: x OK …
        C: S0003 STATUS INBOX (MESSAGES DELETED DELETED-STORAGE)
        S: * STATUS INBOX (MESSAGES 1 DELETED 1 DELETED-STORAGE 3)
        S: S0003 OK …
        C: A003 APPEND INBOX (\Seen) {70000}
        S: A003 NO [OVERQUOTA] …
        "#,
    );
}

/// RFC 5258 §5, examples 1 to 3 and 8: the mailboxes, those that are subscribed, which of them
/// have mailboxes below, and a level that is shown for one of them.
#[test]
fn rfc_5258_list() {
    let server = Server::start();
    let mut wire = server.login();
    for name in ["Fruit/Apple", "Fruit/Banana", "Tofu", "Vegetable/Broccoli", "Vegetable/Corn"] {
        wire.run(&format!("C: x CREATE {name}\nS: x OK …"));
    }
    for name in ["Fruit/Banana", "Fruit/Peach", "Vegetable", "Vegetable/Broccoli"] {
        wire.run(&format!("C: x SUBSCRIBE {name}\nS: x OK …"));
    }
    wire.run(
        r#"
        C: A01 LIST "" (Fruit* Tofu Vegetable*)
        S: * LIST (…) "/" Fruit
        S: * LIST (…) "/" Fruit/Apple
        S: * LIST (…) "/" Fruit/Banana
        S: * LIST (…) "/" Tofu
        S: * LIST (…) "/" Vegetable
        S: * LIST (…) "/" Vegetable/Broccoli
        S: * LIST (…) "/" Vegetable/Corn
        S: A01 OK …
        C: A02 LIST (SUBSCRIBED) "" (Fruit* Tofu Vegetable*)
        S: * LIST (\HasNoChildren \Subscribed) "/" Fruit/Banana
        S: * LIST (\NonExistent \HasNoChildren \Subscribed) "/" Fruit/Peach
        S: * LIST (\HasChildren \Subscribed) "/" Vegetable
        S: * LIST (\HasNoChildren \Subscribed) "/" Vegetable/Broccoli
        S: A02 OK …
        C: A03 LIST () "" (Fruit Tofu Vegetable) RETURN (CHILDREN)
        S: * LIST (\HasChildren) "/" Fruit
        S: * LIST (\HasNoChildren) "/" Tofu
        S: * LIST (\HasChildren) "/" Vegetable
        S: A03 OK …
        C: C04 LIST (SUBSCRIBED RECURSIVEMATCH) "" Fruit
        S: * LIST (\HasChildren) "/" Fruit ("CHILDINFO" ("SUBSCRIBED"))
        S: C04 OK …
        "#,
    );
}

/// The identifier in a line, which is in parentheses after its name.
fn identifier(line: &str) -> &str {
    let (_, rest) = line.split_once("MAILBOXID (").expect("an identifier");
    rest.split_once(')').expect("its end").0
}

/// RFC 8474 §4.1 to §4.3: the identifier of a mailbox, which stays with it under another name.
#[test]
fn rfc_8474_mailbox_identifiers() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: 3 create foo");
    let foo = identifier(&wire.expect("3 OK [MAILBOXID (…)] …")).to_owned();
    wire.run("C: 4 create bar");
    let bar = identifier(&wire.expect("4 OK [MAILBOXID (…)] …")).to_owned();
    assert_ne!(foo, bar);
    wire.run(&format!(
        r#"
        C: 5 create foo
        S: 5 NO [ALREADYEXISTS] …
        C: 6 status foo (mailboxid)
        S: * STATUS foo (MAILBOXID ({foo}))
        S: 6 OK …
        C: 7 status bar (mailboxid)
        S: * STATUS bar (MAILBOXID ({bar}))
        S: 7 OK …
        C: 8 rename foo renamed
        S~ 8 OK …
        C: 9 status renamed (mailboxid)
        S: * STATUS renamed (MAILBOXID ({foo}))
        S: 9 OK …
        C: 11 list "" (bar renamed) return (status (mailboxid))
        S: * LIST (…) "/" bar
        S: * STATUS bar (MAILBOXID ({bar}))
        S: * LIST (…) "/" renamed
        S: * STATUS renamed (MAILBOXID ({foo}))
        S: 11 OK …
        C: 27 select "renamed"
        S~ * OK [MAILBOXID ({foo})] …
        S~ 27 OK [READ-WRITE] …
        "#
    ));
}
