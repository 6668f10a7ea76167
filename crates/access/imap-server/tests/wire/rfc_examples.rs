//! The examples of RFCs, in their order and with their commands. The mailboxes are smaller, so the
//! numbers are others. Texts for people are the server's own.
//!
//! | RFC | transcript |
//! | --- | --- |
//! | 2193, 2221 | `mailbox_referrals.rs`, `referrals.rs` |
//! | 3502, 4467, 4469 | `rfc_examples/messages.rs` |
//! | 4314, 5258, 5464, 8440, 9208, 9590 | `rfc_examples/mailboxes.rs` |
//! | 5255, 5256, 5267, 5465, 5466, 7162 | this file |
//! | 5257 | `annotate.rs` |
//! | 5524 | `urlauth.rs` |
//! | 5957 | it has none: `sort.rs` |
//! | 5182, 6203, 7377, 9738 | `rfc_examples/searches.rs` |
//! | 6855 | it has none: `utf8_accept.rs` |
//! | 8437, 8508, 9394, 9586, 10022 | this file |
//! | 8474 | `rfc_examples/mailboxes.rs`, `rfc_examples/messages.rs` |
//! | OBJECTID+, a draft | `object_ids.rs` |
//! | 9585 | they depend on time: `in_progress.rs` |

mod mailboxes;
mod messages;
mod searches;

use posthaste_testkit::Wire;

use crate::harness::{PASSWORD, Server, USER};

/// Puts messages into INBOX that were sent on the first days of 2024, each with this subject.
fn server_with(subjects: &[&str]) -> Server {
    let server = Server::start();
    for (at, subject) in subjects.iter().enumerate() {
        let text = format!("Date: {} Jan 2024 10:00:00 +0000\r\nSubject: {subject}\r\n\r\nText.\r\n", at + 1);
        server.put("INBOX", text.as_bytes());
    }
    server
}

/// Expunges a message in another session.
fn expunge(server: &Server, uid: u32) {
    server.select("INBOX").run(&format!(
        "C: x UID STORE {uid} +FLAGS.SILENT (\\Deleted)\nS~ x OK …\nC: y UID EXPUNGE {uid}\nS~ y OK …"
    ));
}

/// RFC 9394 §3.1: the last page, a page that spans the end, the first one, and one beyond the end.
/// §3.3: the last and the first messages of a range of UIDs. §3.4: with CHANGEDSINCE.
#[test]
fn rfc_9394_partial() {
    let server = Server::start();
    server.with_messages(8);
    expunge(&server, 3);
    server.select("INBOX").run(
        r#"
        C: A01 UID SEARCH RETURN (PARTIAL -1:-3) UNDELETED UNKEYWORD $Junk
        S: * ESEARCH (TAG "A01") UID PARTIAL (-1:-3 6:8)
        S: A01 OK …
        # Three commands at once.
        C: A02 UID SEARCH RETURN (PARTIAL 6:10) UNDELETED UNKEYWORD $Junk
        C: A03 UID SEARCH RETURN (PARTIAL 1:5) UNDELETED UNKEYWORD $Junk
        C: A04 UID SEARCH RETURN (PARTIAL 10:15) UNDELETED UNKEYWORD $Junk
        S: * ESEARCH (TAG "A02") UID PARTIAL (6:10 7:8)
        S: A02 OK …
        S: * ESEARCH (TAG "A03") UID PARTIAL (1:5 1:2,4:6)
        S: A03 OK …
        S: * ESEARCH (TAG "A04") UID PARTIAL (10:15 NIL)
        S: A04 OK …
        C: 10 UID FETCH 2:8 (UID FLAGS) (PARTIAL -1:-3)
        S: * 5 FETCH (UID 6 FLAGS (…))
        S: * 6 FETCH (UID 7 FLAGS (…))
        S: * 7 FETCH (UID 8 FLAGS (…))
        S: 10 OK …
        C: 11 UID FETCH 2:8 (UID FLAGS) (PARTIAL 1:5)
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: * 3 FETCH (UID 4 FLAGS (…))
        S: * 4 FETCH (UID 5 FLAGS (…))
        S: * 5 FETCH (UID 6 FLAGS (…))
        S: * 6 FETCH (UID 7 FLAGS (…))
        S: 11 OK …
        C: 100 UID STORE 1,6,8 +FLAGS.SILENT (\Flagged)
        S: 100 OK …
        C: 101 UID FETCH 1:8 (UID FLAGS) (PARTIAL -1:-3 CHANGEDSINCE 10)
        S: * OK [HIGHESTMODSEQ …] …
        S: * 5 FETCH (UID 6 FLAGS (…\Flagged) MODSEQ (…))
        S: * 7 FETCH (UID 8 FLAGS (…\Flagged) MODSEQ (…))
        S: 101 OK …
        "#,
    );
}

/// RFC 5267 §3.3: equal to a UID SORT, in a shorter form. §4.2: the hint CONTEXT.
/// §4.3: updates, and a tag that is in use. §4.3.1: one result too many.
/// §4.3.3 to §4.3.5: what enters and leaves a result, and its end.
#[test]
fn rfc_5267_contexts() {
    let server = server_with(&["a", "b", "c", "d"]);
    let mut one = server.select("INBOX");
    one.run(
        r#"
        C: E01 UID SORT RETURN () (REVERSE DATE) UTF-8 UNDELETED UNKEYWORD $Junk
        S: * ESEARCH (TAG "E01") UID ALL 4,3,2,1
        S: E01 OK …
        C: A01 SEARCH RETURN (CONTEXT COUNT) UNDELETED UNKEYWORD $Junk
        S: * ESEARCH (TAG "A01") COUNT 4
        S: A01 OK …
        C: A02 STORE 1 +FLAGS.SILENT (\Deleted $Junk)
        S~ A02 OK …
        C: B01 UID SEARCH RETURN (UPDATE COUNT) DELETED KEYWORD $Junk
        S: * ESEARCH (TAG "B01") UID COUNT 1
        S: B01 OK …
        C: B01 SORT RETURN (UPDATE) (DATE) UTF-8 FLAGGED
        S: B01 BAD …
        "#,
    );
    for more in 2..=8 {
        one.run(&format!(
            "C: C0{more} SEARCH RETURN (UPDATE COUNT) DRAFT\nS: * ESEARCH (TAG \"C0{more}\") COUNT 0\nS: C0{more} OK …"
        ));
    }
    one.run(
        r#"
        C: B02 UID SORT RETURN (UPDATE COUNT) (DATE) UTF-8 KEYWORD $Junk
        S: * ESEARCH (TAG "B02") UID COUNT 1
        S: * NO [NOUPDATE "B02"] …
        S: B02 OK …
        "#,
    );
    // Another session changes two messages. Only the difference of the result is sent.
    server.select("INBOX").run("C: x STORE 3:4 +FLAGS.SILENT (\\Deleted $Junk)\nS: x OK …");
    one.run(
        r#"
        C: B03 NOOP
        S: * 3 FETCH (UID 3 FLAGS (…\Deleted…$Junk…))
        S: * 4 FETCH (UID 4 FLAGS (…\Deleted…$Junk…))
        S: * ESEARCH (TAG "B01") UID ADDTO (0 3:4)
        S: B03 OK …
        "#,
    );
    server.select("INBOX").run("C: x UID EXPUNGE 3\nS~ x OK …");
    one.run(
        r#"
        C: B04 NOOP
        S: * ESEARCH (TAG "B01") UID REMOVEFROM (0 3)
        S: * 3 EXPUNGE
        S: B04 OK …
        C: B05 CANCELUPDATE "B01"
        S: B05 OK …
        C: B06 STORE 1 -FLAGS.SILENT (\Deleted)
        S: B06 OK …
        "#,
    );
}

/// RFC 5465 §3.1: NOTIFY SET STATUS, new messages in another mailbox and in the selected one, and
/// one more mailbox. Verified errata put the events in parentheses. §5: both of MessageNew and
/// MessageExpunge are needed.
#[test]
fn rfc_5465_notify() {
    let server = server_with(&["a", "b"]);
    let mut others = server.login();
    for name in ["Lists/Lemonade", "Lists/Im2000", "misc"] {
        others.run(&format!("C: x CREATE {name}\nS: x OK …"));
    }
    let mut wire = server.login();
    wire.run(
        r#"
        C: b notify set status (selected (MessageNew (uid body.peek[header.fields (from to subject)]) MessageExpunge)) (subtree Lists (MessageNew MessageExpunge))
        S: * STATUS Lists (UIDVALIDITY … UIDNEXT 1 MESSAGES 0)
        S: * STATUS Lists/Im2000 (UIDVALIDITY … UIDNEXT 1 MESSAGES 0)
        S: * STATUS Lists/Lemonade (UIDVALIDITY … UIDNEXT 1 MESSAGES 0)
        S: b OK …
        C: c select inbox
        S~ * 2 EXISTS
        S~ c OK [READ-WRITE] …
        "#,
    );
    server.put("Lists/Lemonade", b"Subject: x\r\n\r\nx\r\n");
    wire.expect("* STATUS Lists/Lemonade (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
    let message = "Subject: Re: good morning\r\nFrom: alice@example.org\r\nTo: bob@example.org\r\n\r\nx\r\n";
    server.put("INBOX", message.as_bytes());
    wire.run(
        r#"
        S: * 3 EXISTS
        S: * … RECENT
        S: * 3 FETCH (UID 3 BODY[HEADER.FIELDS (…)] {75}
        S: Subject: Re: good morning
        S: From: alice@example.org
        S: To: bob@example.org
        S:
        S: )
        C: d STATUS misc (UIDVALIDITY UIDNEXT MESSAGES)
        S: * STATUS misc (…UIDNEXT 1…)
        S: d OK …
        C: e notify set (selected (MessageNew (uid body.peek[header.fields (from to subject)]) MessageExpunge)) (subtree Lists (MessageNew MessageExpunge)) (mailboxes misc (MessageNew MessageExpunge))
        S: e OK …
        "#,
    );
    server.put("misc", b"Subject: x\r\n\r\nx\r\n");
    wire.expect("* STATUS misc (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
}

/// RFC 5465 §6: two groups that name INBOX. Then FlagChange in all mailboxes but the selected one.
#[test]
fn rfc_5465_mailbox_specification() {
    let server = server_with(&["a"]);
    let (mut wire, mut others) = (server.login(), server.select("INBOX"));
    others.run("C: a UNSUBSCRIBE INBOX\nS: a OK …");
    wire.run("C: a notify set (mailboxes INBOX (Messagenew messageExpunge)) (personal (SubscriptionChange))\nS: a OK …");
    others.run("C: b SUBSCRIBE INBOX\nS: b OK …");
    wire.expect("* LIST (…\\Subscribed…) \"/\" INBOX");
    server.put("INBOX", b"Subject: b\r\n\r\nx\r\n");
    wire.expect("* STATUS INBOX (UIDVALIDITY … UIDNEXT 3 MESSAGES 2)");
    wire.run(
        r#"
        C: b SELECT INBOX
        S~ b OK …
        C: a notify set (selected (Messagenew (uid flags) messageExpunge)) (personal (MessageNew FlagChange MessageExpunge))
        S: a OK …
        "#,
    );
    others.run("C: c STORE 1 +FLAGS.SILENT (\\Flagged)\nS~ c OK …\nC: d COPY 1 Archive\nS~ d OK …");
    wire.expect("* STATUS Archive (UIDVALIDITY … UIDNEXT 2 MESSAGES 1 UNSEEN 1 HIGHESTMODSEQ 1)");
    others.run("C: e SELECT Archive\nS~ e OK …\nC: f STORE 1 +FLAGS.SILENT (\\Seen)\nS: f OK …");
    wire.expect("* STATUS Archive (UIDVALIDITY … UNSEEN 0 HIGHESTMODSEQ 2)");
    server.put("INBOX (\\Flagged)", b"Subject: c\r\n\r\nx\r\n");
    wire.run("S: * 3 EXISTS\nS: * … RECENT\nS: * 3 FETCH (UID 3 FLAGS (…\\Flagged))");
}

/// RFC 5466 §3.2: a filter is set. §3.1: a search names it, and means the same as its text.
#[test]
fn rfc_5466_filters() {
    let server = Server::start();
    let boss = format!("From: boss@example.com\r\nSubject: long\r\n\r\n{}\r\n", "x ".repeat(3000));
    let other = format!("From: ben@example.com\r\nSubject: long\r\n\r\n{}\r\n", "x ".repeat(3000));
    for message in [&boss, &other, "From: ben@example.com\r\nSubject: short\r\n\r\nx\r\n"] {
        server.put("INBOX", message.as_bytes());
    }
    server.select("INBOX").run(
        r#"
        C: a007 SETMETADATA "" ("/private/filters/values/on-the-road" "OR SMALLER 5000 FROM \"boss@example.com\"")
        S: a007 OK …
        C: a SEARCH UID 1:900 FILTER on-the-road SINCE "3-Dec-2002"
        S: * SEARCH 1 3
        S: a OK …
        C: b SEARCH UID 1:900 OR SMALLER 5000 FROM "boss@example.com" SINCE "3-Dec-2002"
        S: * SEARCH 1 3
        S: b OK …
        C: c SEARCH FILTER at-home
        S: c NO [UNDEFINED-FILTER at-home] …
        "#,
    );
}

/// RFC 5255 §3.2: the languages that there are, one that no server has, and a choice of two.
/// §4.7: comparators.
#[test]
fn rfc_5255_languages() {
    let server = Server::start();
    // §3.1: clients must see it before they log in.
    server.connect().run(&format!(
        r#"
        C: A000 CAPABILITY
        S: * CAPABILITY … LANGUAGE …
        S: A000 OK …
        C: A001 LOGIN {USER} "{PASSWORD}"
        S: A001 OK …
        C: A002 LANGUAGE MUL
        S: A002 NO …
        C: A003 LANGUAGE
        S: * LANGUAGE (EN i-default)
        S: A003 OK …
        C: D001 LANGUAGE FR
        S: D001 NO …
        C: D003 LANGUAGE "default"
        S: * LANGUAGE (i-default)
        S: D003 OK …
        C: E001 LANGUAGE FR-CA EN-CA
        S: * LANGUAGE (EN)
        S: E001 OK …
        C: F001 COMPARATOR
        S: * COMPARATOR i;unicode-casemap
        S: F001 OK …
        C: F002 COMPARATOR "cz;*" i;basic
        S: F002 NO [BADCOMPARATOR] …
        "#,
    ));
}

/// RFC 5256 §3, SORT and THREAD: with a key, with two, and with no result. §4: a thread with two
/// branches, and one without its first message.
#[test]
fn rfc_5256_sort_and_thread() {
    let server = server_with(&["c", "a", "b", "b"]);
    server.select("INBOX").run(
        r#"
        C: A282 SORT (SUBJECT) UTF-8 SINCE 1-Feb-1994
        S: * SORT 2 3 4 1
        S: A282 OK …
        C: A283 SORT (SUBJECT REVERSE DATE) UTF-8 ALL
        S: * SORT 2 4 3 1
        S: A283 OK …
        C: A284 SORT (SUBJECT) US-ASCII TEXT "not in mailbox"
        S: * SORT
        S: A284 OK …
        C: A283 THREAD ORDEREDSUBJECT UTF-8 SINCE 5-MAR-2000
        S: * THREAD (1)(2)(3 4)
        S: A283 OK …
        C: A284 THREAD ORDEREDSUBJECT US-ASCII TEXT "gewp"
        S: * THREAD
        S: A284 OK …
        "#,
    );
    let server = Server::start();
    // Number, and the messages that it refers to.
    let messages: [(u32, &[u32]); 8] = [
        (1, &[]),
        (2, &[]),
        (3, &[2]),
        (4, &[2, 3]),
        (5, &[2, 3, 4]),
        (6, &[2, 3]),
        (7, &[2, 3, 6]),
        (8, &[2, 3, 6, 7]),
    ];
    for (number, references) in messages {
        let references: String = references.iter().map(|id| format!(" <{id}@x>")).collect();
        let references =
            if references.is_empty() { String::new() } else { format!("References:{references}\r\n") };
        let text = format!(
            "Date: {number} Jan 2024 10:00:00 +0000\r\nSubject: s{number}\r\nMessage-ID: <{number}@x>\r\n{references}\r\nx\r\n"
        );
        server.put("INBOX", text.as_bytes());
    }
    server.select("INBOX").run(
        r#"
        C: A285 THREAD REFERENCES UTF-8 SINCE 5-MAR-2000
        S: * THREAD (1)(2 3 (4 5)(6 7 8))
        S: A285 OK …
        # §4: siblings whose parent is not among the messages.
        C: A286 THREAD REFERENCES UTF-8 4,6
        S: * THREAD ((4)(6))
        S: A286 OK …
        "#,
    );
}

/// RFC 7162, examples 1, 3, 5 to 8 and 12: the highest mod-sequence of a mailbox, STORE on a
/// condition, and what has changed since.
#[test]
fn rfc_7162_condstore() {
    let server = Server::start();
    server.with_messages(9);
    let mut wire = server.login();
    wire.run(
        r#"
        C: A142 SELECT INBOX
        S: * FLAGS (\Answered \Flagged \Deleted \Seen \Draft)
        S: * OK [PERMANENTFLAGS (…)] …
        S: * 9 EXISTS
        S: * 9 RECENT
        S: * OK [UNSEEN 1] …
        S: * OK [UIDVALIDITY …] …
        S: * OK [UIDNEXT 10] …
        S: * OK [HIGHESTMODSEQ 9] …
        S~ A142 OK [READ-WRITE] …
        # Example 5: the first command of CONDSTORE.
        C: c101 STORE 9 (UNCHANGEDSINCE 9) -FLAGS.SILENT (\Deleted)
        S: * OK [HIGHESTMODSEQ 9] …
        S: * 9 FETCH (UID 9 MODSEQ (9))
        S: c101 OK …
        # Example 3
        C: a103 UID STORE 6,4,8 (UNCHANGEDSINCE 9) +FLAGS.SILENT (\Deleted)
        S: * 4 FETCH (UID 4 MODSEQ (10))
        S: * 6 FETCH (UID 6 MODSEQ (10))
        S: * 8 FETCH (UID 8 MODSEQ (10))
        S: a103 OK …
        "#,
    );
    server.select("INBOX").run(
        "C: x STORE 7 +FLAGS.SILENT (\\Seen \\Deleted)\nS: x OK …\nC: y STORE 9 +FLAGS.SILENT (\\Answered)\nS: y OK …",
    );
    wire.run(
        r#"
        # Examples 6 and 7: the messages that others have changed are reported, too.
        C: d105 STORE 7,5,9 (UNCHANGEDSINCE 10) +FLAGS.SILENT (\Deleted)
        S: * 5 FETCH (UID 5 MODSEQ (…))
        S: * 7 FETCH (UID 7 FLAGS (…\Deleted…\Seen…) MODSEQ (11))
        S: * 9 FETCH (UID 9 FLAGS (…\Answered…) MODSEQ (12))
        S: d105 OK [MODIFIED 7,9] …
        # Example 8: a test that always fails.
        C: a102 STORE 2 (UNCHANGEDSINCE 0) +FLAGS.SILENT ($MDNSent)
        S: a102 OK [MODIFIED 2] …
        # Example 12
        C: s100 UID FETCH 1:* (FLAGS) (CHANGEDSINCE 10)
        S: * 5 FETCH (UID 5 FLAGS (…\Deleted…) MODSEQ (13))
        S: * 7 FETCH (UID 7 FLAGS (…\Deleted…\Seen…) MODSEQ (11))
        S: * 9 FETCH (UID 9 FLAGS (…\Answered…) MODSEQ (12))
        S: s100 OK …
        "#,
    );
}

/// RFC 7162, example 11: of the messages, others have expunged some and changed one. The RFC lets
/// the server answer NO or OK.
#[test]
fn rfc_7162_condstore_during_an_expunge() {
    let server = Server::start();
    server.with_messages(7);
    let (mut wire, mut other) = (server.login(), server.select("INBOX"));
    wire.run("C: B000 SELECT INBOX (CONDSTORE)\nS~ B000 OK …");
    other.run("C: x STORE 4:7 +FLAGS.SILENT (\\Deleted)\nS: x OK …\nC: y EXPUNGE\nS~ y OK …");
    other.run("C: z STORE 2 +FLAGS.SILENT (\\Answered)\nS: z OK …");
    wire.run(
        r#"
        C: B001 STORE 1:7 (UNCHANGEDSINCE 8) +FLAGS (\Seen)
        S: * 1 FETCH (UID 1 FLAGS (…\Seen…) MODSEQ (…))
        S: * 2 FETCH (UID 2 FLAGS (…\Answered…) MODSEQ (…))
        S: * 3 FETCH (UID 3 FLAGS (…\Seen…) MODSEQ (…))
        # EXPUNGE is held back, and with it what was reported completely (§3.2).
        S: * OK [HIGHESTMODSEQ 7] …
        S: B001 OK [MODIFIED 2] Some of the messages were expunged
        C: B002 NOOP
        S: * 7 EXPUNGE
        S: * 6 EXPUNGE
        S: * 5 EXPUNGE
        S: * 4 EXPUNGE
        S: * OK [HIGHESTMODSEQ …] …
        S: B002 OK …
        "#,
    );
}

/// RFC 8437 §3 has no example. It allows a client to send the next login together with
/// UNAUTHENTICATE.
#[test]
fn rfc_8437_unauthenticate() {
    let server = Server::start();
    server.with_messages(1);
    server.select("INBOX").run(&format!(
        r#"
        C: A001 UNAUTHENTICATE
        C: A002 LOGIN {USER} "{PASSWORD}"
        S: A001 OK [CAPABILITY …] …
        S: A002 OK [CAPABILITY … UNAUTHENTICATE …] …
        C: A003 FETCH 1 FLAGS
        S: A003 BAD …
        C: A004 SELECT INBOX
        S~ A004 OK [READ-WRITE] …
        "#,
    ));
}

/// Sends a message as a literal that the server has accepted.
fn send_message(wire: &mut Wire, command: &str, text: &str) {
    wire.run(&format!("C: {command} {{{}}}\nS: + …", text.len()));
    wire.send(text.as_bytes());
}

/// RFC 8508 §3.2: by number. §3.3: by UID. §4.2: with CATENATE.
#[test]
fn rfc_8508_replace() {
    let server = Server::start();
    for number in 1..=4 {
        server.put("Drafts", format!("Subject: {number}\r\n\r\nx\r\n").as_bytes());
    }
    let mut wire = server.select("Drafts");
    let text = |minute: u32, end: &str| {
        format!(
            "Date: Thu, 1 Jan 2015 00:0{minute}:00 -0500 (EST)\r\nFrom: Fritz Schmidt <fritz.ze@example.org>\r\n\
             Subject: happy new year !!\r\nTo: miss.mitzy@example.org\r\n\
             Message-Id: <B23882238{minute}-0100000@example.org>\r\n\r\nThe fireworks were the best.\r\n{end}"
        )
    };
    send_message(&mut wire, "A003 REPLACE 4 Drafts (\\Seen \\Draft)", &text(5, ""));
    wire.send(b"\r\n");
    wire.run("S: * OK [APPENDUID … 5] …\nS: * 4 EXPUNGE\nS: * 4 EXISTS\nS~ A003 OK …");
    send_message(&mut wire, "A004 UID REPLACE 5 Drafts (\\Seen \\Draft)", &text(6, "Come next year.\r\n"));
    wire.send(b"\r\n");
    wire.run("S: * OK [APPENDUID … 6] …\nS: * 4 EXPUNGE\nS: * 4 EXISTS\nS~ A004 OK …");
    let head = "To: Mitzy <miss.mitzy@example.org>\r\nSubject: My view of the fireworks\r\n";
    send_message(&mut wire, "A011 UID REPLACE 6 Drafts CATENATE (TEXT", head);
    wire.run(
        r#"
        C:  URL "/Drafts/;UID=6")
        S: * OK [APPENDUID … 7] …
        S: * 4 EXPUNGE
        S: * 4 EXISTS
        S~ A011 OK …
        C: A012 FETCH 4 (UID BODY.PEEK[HEADER.FIELDS (TO)])
        S: * 4 FETCH (UID 7 BODY[HEADER.FIELDS (TO)] {66}
        S: To: Mitzy <miss.mitzy@example.org>
        S: To: miss.mitzy@example.org
        S:
        S: )
        S: A012 OK …
        "#,
    );
}

/// RFC 9586 §3: the messages have UIDs alone, and sequence numbers are refused.
#[test]
fn rfc_9586_uid_only() {
    let server = Server::start();
    server.with_messages(5);
    expunge(&server, 3);
    server.login().run(
        r#"
        C: 07 ENABLE UIDONLY
        S: * ENABLED UIDONLY
        S: 07 OK …
        C: 08 SELECT INBOX
        S~ 08 OK [READ-WRITE] …
        C: 09 FETCH 1:4 (FLAGS)
        S: 09 BAD [UIDREQUIRED] …
        C: 10 UID FETCH 4:5 (FLAGS)
        S: * 4 UIDFETCH (FLAGS (…))
        S: * 5 UIDFETCH (FLAGS (…))
        S: 10 OK …
        C: 11 UID STORE 5 +FLAGS (\Flagged \Deleted)
        S: * 5 UIDFETCH (FLAGS (…\Flagged \Deleted))
        S: 11 OK …
        C: 12 UID SEARCH 1:2
        S: 12 BAD [UIDREQUIRED] …
        C: 13 EXPUNGE
        S: * VANISHED 5
        S: 13 OK …
        "#,
    );
}

/// RFC 10022 §3.1: batches from the highest UID down, and some of them. The smallest size is 500.
#[test]
fn rfc_10022_uid_batches() {
    let server = Server::start();
    server.with_messages(10);
    let mut wire = server.select("INBOX");
    for _ in 0..7 {
        wire.run("C: c COPY 1:* INBOX\nS~ c OK …");
    }
    wire.run(
        r#"
        C: A143 UIDBATCHES 500
        S: * UIDBATCHES (TAG "A143") 1280:781,780:281,280:1
        S: A143 OK …
        C: A302 UIDBATCHES 500 2:3
        S: * UIDBATCHES (TAG "A302") 780:281,280:1
        S: A302 OK …
        C: A303 UIDBATCHES 500 4:5
        S: * UIDBATCHES (TAG "A303")
        S: A303 OK …
        C: A304 UIDBATCHES 10
        S: A304 NO [TOOFEW] …
        "#,
    );
}
