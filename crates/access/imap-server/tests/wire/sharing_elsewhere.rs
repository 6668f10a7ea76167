//! Mailboxes of others that are not selected: ESEARCH IN, CATENATE and NOTIFY.

use posthaste_directory::{NewAccount, Reading};
use posthaste_mail_model::{MailboxName, NumSet};
use posthaste_testkit::Wire;

use crate::gate::Gate;
use crate::harness::{USER, fetch_text, literal};
use crate::sharing::{BO, SHARED, server};

/// RFC 7377 §2.2: a search needs `l` and `r`, and `r` alone where the client names the mailbox. A
/// mailbox without them is answered as one that does not exist.
#[test]
fn one_search_goes_through_mailboxes_of_others_where_they_may_be_read() {
    let server = server("lr");
    server.login().run("C: a CREATE P/Closed\nS: a OK …\nC: b CREATE Hidden\nS: b OK …");
    for mailbox in ["P/Closed", "Hidden"] {
        server.put(mailbox, b"Subject: two\r\n\r\nsecret\r\n");
    }
    server.grant(USER, "P/Closed", BO, "l");
    server.put("INBOX", b"Subject: two\r\n\r\nsecret\r\n");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a APPEND INBOX {{15+}}
        C: Subject: two
        C:
        S: a OK …
        C: b ESEARCH IN (mailboxes ({SHARED} INBOX) subtree "Other Users") SUBJECT two
        S: * ESEARCH (TAG "b" MAILBOX INBOX UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "b" MAILBOX {SHARED} UIDVALIDITY …) UID ALL 2
        S: b OK …
        C: c ESEARCH IN (mailboxes ("Other Users/ana@example.org/Hidden" "Other Users/ana@example.org/P/Closed" "Other Users/ana@example.org/INBOX")) ALL
        S: c OK …
        # Personal mailboxes are one's own (RFC 5465 §6.3).
        C: d ESEARCH IN (personal) RETURN (COUNT) ALL
        S: * ESEARCH (TAG "d" MAILBOX INBOX UIDVALIDITY …) UID COUNT 1
        S: d OK …
        C: e SUBSCRIBE {SHARED}
        S: e OK …
        C: f ESEARCH IN (subscribed) RETURN (MAX) ALL
        S: * ESEARCH (TAG "f" MAILBOX INBOX UIDVALIDITY …) UID MAX 1
        S: * ESEARCH (TAG "f" MAILBOX {SHARED} UIDVALIDITY …) UID MAX 2
        S: f OK …
        C: g SELECT {SHARED}
        S~ g OK …
        C: h ESEARCH 1
        S: * ESEARCH (TAG "h" MAILBOX {SHARED} UIDVALIDITY …) UID ALL 1
        S: h OK …
        "#
    ));
    // Without `l` it may be open, or named.
    server.grant(USER, "P", BO, "r");
    bo.run(&format!(
        r#"
        C: i ESEARCH IN (selected) ALL
        S: * ESEARCH (TAG "i" MAILBOX {SHARED} UIDVALIDITY …) UID ALL 1:2
        S: i OK …
        C: j UNSELECT
        S: j OK …
        C: k ESEARCH IN (mailboxes {SHARED} mailboxes (INBOX {SHARED})) ALL
        S: * ESEARCH (TAG "k" MAILBOX INBOX UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "k" MAILBOX {SHARED} UIDVALIDITY …) UID ALL 1:2
        S: k OK …
        C: l ESEARCH IN (subtree {SHARED}) ALL
        S: l OK …
        "#
    ));
    server.grant(USER, "P", BO, "s");
    bo.run(&format!("C: m ESEARCH IN (mailboxes {SHARED}) ALL\nS: m OK …"));
}

/// RFC 4469 §3, RFC 4314 §4: a part of a message that may be read.
#[test]
fn messages_are_put_together_from_mailboxes_of_others_where_they_may_be_read() {
    let server = server("lr");
    server.login().run("C: a CREATE Hidden\nS: a OK …\nC: b CREATE Closed\nS: b OK …");
    for mailbox in ["Hidden", "Closed"] {
        server.put(mailbox, b"Subject: secret\r\n\r\nsecret\r\n");
    }
    server.grant(USER, "Closed", BO, "lswipkxtea");
    let mut bo = server.login_as(BO);
    let append = |bo: &mut Wire, mailbox: &str| {
        let url = format!("/Other%20Users/ana%40example.org/{mailbox}/;UID=1/;SECTION=TEXT");
        bo.send(format!("a APPEND INBOX CATENATE (TEXT {{2+}}\r\n:  URL \"{url}\")\r\n").as_bytes());
        let answer = bo.skip_to("a …").pop().unwrap_or_default();
        answer.replace(&format!("/{mailbox}/"), "/@/")
    };
    assert!(append(&mut bo, "P").starts_with("a OK [APPENDUID"));
    bo.run("C: s SELECT INBOX\nS~ s OK …");
    assert_eq!(fetch_text(&mut bo, 1, "BODY.PEEK[]"), literal("BODY[]", ": 1\r\n"));
    let missing = append(&mut bo, "Nowhere");
    assert!(missing.starts_with("a NO [BADURL"), "{missing}");
    for hidden in ["Hidden", "Closed", "INBOX"] {
        assert_eq!(append(&mut bo, hidden), missing, "{hidden}");
    }
    // Mailboxes of an account that shares nothing, and of no account.
    for other in ["cy%40example.org", "no%20one", "bo%40example.org"] {
        let url = format!("/Other%20Users/{other}/INBOX/;UID=1");
        bo.run(&format!(
            "C: b APPEND INBOX CATENATE (URL \"{url}\")\nS: b NO [BADURL …] There is no such mailbox"
        ));
    }
    // A right that is taken.
    server.grant(USER, "P", BO, "l");
    assert_eq!(append(&mut bo, "P"), missing);
}

const MESSAGE: &[u8] = b"Subject: news\r\n\r\nText.\r\n";

/// RFC 5465 §5: STATUS with `l` and `r`, LIST with `l`. §3.1: `\NoAccess` without `r`.
#[test]
fn notifications_come_from_mailboxes_of_others_where_the_rights_are() {
    let server = server("lr");
    server.login().run("C: a CREATE P/Listed\nS: a OK …\nC: b CREATE P/Hidden\nS: b OK …");
    server.grant(USER, "P/Listed", BO, "l");
    server.grant(USER, "P/Hidden", BO, "");
    let mut bo = server.login_as(BO);
    bo.run(
        r#"
        C: a NOTIFY SET STATUS (SUBTREE "Other Users/ana@example.org" (MessageNew MessageExpunge MailboxName))
        S: * LIST (\NoAccess \HasNoChildren) "/" "Other Users/ana@example.org/P/Listed"
        S: * STATUS "Other Users/ana@example.org/P" (UIDVALIDITY … UIDNEXT 3 MESSAGES 2)
        S: a OK …
        "#,
    );
    // Without `r`, and without any right: silence.
    for mailbox in ["P/Listed", "P/Hidden", "INBOX", "P"] {
        server.put(mailbox, MESSAGE);
    }
    bo.expect(r#"* STATUS "Other Users/ana@example.org/P" (UIDVALIDITY … UIDNEXT 4 MESSAGES 3)"#);
    // A mailbox below has the list of the one above it.
    server.login().run("C: a CREATE P/New\nS: a OK …");
    bo.expect(r#"* LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/New""#);
    server.put("P/New", MESSAGE);
    bo.expect(r#"* STATUS "Other Users/ana@example.org/P/New" (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)"#);
    // One more right, and one that is taken: a mailbox comes, and one goes.
    server.login().run("C: a SETACL P/Hidden bo@example.org lr\nS: a OK …");
    bo.expect(r#"* LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/Hidden""#);
    server.login().run("C: a DELETEACL P/New bo@example.org\nS: a OK …");
    bo.expect(r#"* LIST (\NonExistent) "/" "Other Users/ana@example.org/P/New""#);
    server.login().run("C: a RENAME P/Hidden P/Seen\nS: a OK …");
    bo.expect(
        r#"* LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P/Seen" ("OLDNAME" ("Other Users/ana@example.org/P/Hidden"))"#,
    );
    // bo's own changes there are not reported to him.
    server.grant(USER, "P", BO, "lrik");
    bo.run(&format!("C: b APPEND {SHARED} {{3+}}\nC: xy\nS: b OK [APPENDUID …] …\nC: c NOOP\nS: c OK …"));
}

/// Nothing wakes the session, and nothing more is reported.
#[test]
fn nothing_is_reported_of_a_mailbox_elsewhere_after_another_process_took_the_right() {
    let server = server("lr");
    let mut bo = server.login_as(BO);
    bo.run(&format!("C: a NOTIFY SET (MAILBOXES ({SHARED} INBOX) (MessageNew MessageExpunge))\nS: a OK …"));
    server.put("P", MESSAGE);
    bo.expect(r#"* STATUS "Other Users/ana@example.org/P" (UIDVALIDITY … UIDNEXT 4 MESSAGES 3)"#);
    server.grant(USER, "P", BO, "l");
    server.put("P", MESSAGE);
    server.login_as(BO).run("C: a APPEND INBOX {3+}\nC: xy\nS: a OK …");
    // The one after it is what comes.
    bo.expect("* STATUS INBOX (UIDVALIDITY … UIDNEXT 2 MESSAGES 1)");
    bo.run("C: b NOOP\nS: b OK …");
    server.grant(USER, "P", BO, "lr");
    server.put("P", MESSAGE);
    bo.expect(r#"* STATUS "Other Users/ana@example.org/P" (UIDVALIDITY … UIDNEXT 6 MESSAGES 5)"#);
}

/// RFC 5465 §6.3, §6.4: PERSONAL is one's own mailboxes, SUBSCRIBED the mailboxes subscribed now.
#[test]
fn personal_are_ones_own_mailboxes_and_subscribed_those_of_others_too() {
    let server = server("lr");
    let (mut personal, mut subscribed) = (server.login_as(BO), server.login_as(BO));
    personal.run("C: a NOTIFY SET (PERSONAL (MessageNew MessageExpunge MailboxName))\nS: a OK …");
    subscribed.run("C: a NOTIFY SET (SUBSCRIBED (MessageNew MessageExpunge))\nS: a OK …");
    server.put("P", MESSAGE);
    for wire in [&mut personal, &mut subscribed] {
        wire.run("C: b NOOP\nS: b OK …");
    }
    subscribed.run(&format!("C: c SUBSCRIBE {SHARED}\nS: c OK …\nC: d NOOP\nS: d OK …"));
    server.put("P", MESSAGE);
    subscribed.expect(r#"* STATUS "Other Users/ana@example.org/P" (UIDVALIDITY … UIDNEXT 5 MESSAGES 4)"#);
    personal.run("C: c NOOP\nS: c OK …");
}

/// An owner may delete a mailbox while its messages are counted for another user.
#[test]
fn a_mailbox_of_others_that_is_deleted_meanwhile_ends_no_list_and_no_session() {
    let (server, gate) = Gate::server();
    server.add_account(BO, NewAccount::default());
    let ((store, directory), (reader, _)) = (server.behind(), server.mailbox(BO, "INBOX"));
    for name in ["P", "Q"] {
        server.make_mailbox(name);
        server.put(name, MESSAGE);
        server.grant(USER, name, BO, "lr");
        let (owner, mailbox) = server.mailbox(USER, name);
        let reading = Reading { owner, mailbox, reader };
        server.wait(directory.seen().set(reading, &NumSet::range(1, 1), true)).expect("a flag that is set");
    }
    let delete = |name: &str| {
        let (owner, _) = server.mailbox(USER, name);
        let name = MailboxName::new(name).expect("a name");
        server.wait(store.delete(owner, &name)).expect("a mailbox that is deleted");
    };
    let mut bo = server.login_as(BO);
    gate.set_seen_open(false);
    bo.send(b"a LIST \"\" \"Other Users/*\" RETURN (STATUS (UNSEEN))\r\n");
    bo.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
    delete("P");
    gate.set_seen_open(true);
    bo.skip_to("* STATUS \"Other Users/ana@example.org/Q\" (UNSEEN 0)");
    bo.skip_to("a OK …");
    let mailboxes = "\"Other Users/ana@example.org/Q\" INBOX";
    bo.send(
        format!("b NOTIFY SET (MAILBOXES ({mailboxes}) (MessageNew MessageExpunge FlagChange))\r\n")
            .as_bytes(),
    );
    bo.skip_to("b OK …");
    bo.send(b"c IDLE\r\n");
    bo.skip_to("+ idling");
    gate.set_seen_open(false);
    server.put("Q", MESSAGE);
    bo.skip_to("* OK [INPROGRESS (\"c\" NIL NIL)] Working");
    delete("Q");
    gate.set_seen_open(true);
    server.login_as(BO).run("C: a APPEND INBOX {3+}\nC: xy\nS~ a OK …");
    bo.skip_to("* STATUS INBOX (UIDVALIDITY … UIDNEXT 2 MESSAGES 1 …)");
    bo.send(b"DONE\r\n");
    bo.skip_to("c OK …");
}
