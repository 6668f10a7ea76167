//! Examples of searches: in several mailboxes, in part, and for words that are nearly right.

use posthaste_imap_server::ImapOptions;

use crate::harness::Server;

/// RFC 7377 §3: two searches that are sent together. One goes into all mailboxes below another,
/// and one into those directly below it. §2: windows of a mailbox, which may reach beyond its end.
#[test]
fn rfc_7377_multi_search() {
    let server = Server::start();
    let mut wire = server.login();
    for name in ["folder1", "folder2/banana", "folder2/peach/stone", "folder2/salmon"] {
        wire.run(&format!("C: x CREATE {name}\nS: x OK …"));
    }
    for (arguments, subject) in [
        ("folder1", "one"),
        ("folder1 (\\Seen)", "chad"),
        ("folder1", "Chad again"),
        ("folder2/banana", "two"),
        ("folder2/peach/stone", "chad, two levels below"),
        ("folder2/salmon (\\Seen)", "chad"),
        ("folder2/salmon (\\Seen)", "three"),
    ] {
        server.put(arguments, format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    wire.run(
        r#"
        C: tag1 ESEARCH IN (mailboxes "folder1" subtree "folder2") unseen
        C: tag2 ESEARCH IN (mailboxes "folder1" subtree-one "folder2") subject "chad"
        S: * ESEARCH (TAG "tag1" MAILBOX folder1 UIDVALIDITY …) UID ALL 1,3
        S: * ESEARCH (TAG "tag1" MAILBOX folder2/banana UIDVALIDITY …) UID ALL 1
        S: * ESEARCH (TAG "tag1" MAILBOX folder2/peach/stone UIDVALIDITY …) UID ALL 1
        S: tag1 OK …
        S: * ESEARCH (TAG "tag2" MAILBOX folder1 UIDVALIDITY …) UID ALL 2:3
        S: * ESEARCH (TAG "tag2" MAILBOX folder2/salmon UIDVALIDITY …) UID ALL 1
        S: tag2 OK …
        C: tag3 SELECT folder1
        S~ tag3 OK …
        C: tag1 UID ESEARCH SUBJECT "chad" 1:2
        S: * ESEARCH (TAG "tag1" MAILBOX folder1 UIDVALIDITY …) UID ALL 2
        S: tag1 OK …
        C: tag1 UID ESEARCH SUBJECT "chad" 3:4
        S: * ESEARCH (TAG "tag1" MAILBOX folder1 UIDVALIDITY …) UID ALL 3
        S: tag1 OK …
        C: tag1 UID ESEARCH SUBJECT "chad" 5:6
        S: tag1 OK …
        "#,
    );
}

/// RFC 9738 §3.1: a command stops at the limit and names the lowest UID that it has processed,
/// and the client continues below. COPY is refused as a whole. §3.2: UIDBEFORE and UIDAFTER.
#[test]
fn rfc_9738_message_limit() {
    let server = Server::start_with(ImapOptions { message_limit: 3, ..ImapOptions::default() });
    server.with_messages(7);
    server.select("INBOX").run(
        r#"
        C: 03 FETCH 1:6 (UID FLAGS)
        S: * 4 FETCH (UID 4 FLAGS (…))
        S: * 5 FETCH (UID 5 FLAGS (…))
        S: * 6 FETCH (UID 6 FLAGS (…))
        S: 03 OK [MESSAGELIMIT 3 4] …
        C: 04 UID FETCH 1:3 (UID FLAGS)
        S: * 1 FETCH (UID 1 FLAGS (…))
        S: * 2 FETCH (UID 2 FLAGS (…))
        S: * 3 FETCH (UID 3 FLAGS (…))
        S: 04 OK UID FETCH completed
        C: 05 UID SEARCH UNSEEN
        S: * SEARCH 5 6 7
        S: 05 OK [MESSAGELIMIT 3 5] …
        C: 06 UID SEARCH UIDBEFORE 4 UNSEEN
        S: * SEARCH 1 2 3
        S: 06 OK … completed
        C: 07 UID SEARCH UIDAFTER 4 UNSEEN
        S: * SEARCH 5 6 7
        S: 07 OK … completed
        C: 08 UID STORE 1:* +FLAGS.SILENT (\Deleted)
        S: 08 OK [MESSAGELIMIT 3 5] …
        C: 09 UID STORE 4 +FLAGS.SILENT (\Deleted)
        S: 09 OK UID STORE completed
        C: 10 UID EXPUNGE 1:*
        S: * 7 EXPUNGE
        S: * 6 EXPUNGE
        S: * 5 EXPUNGE
        S: 10 OK [MESSAGELIMIT 3 5] …
        C: 11 COPY 1:4 Archive
        S: 11 NO [MESSAGELIMIT 3 2] …
        C: 12 MOVE 1:4 Archive
        S: * OK [COPYUID … 2:4 1:3] …
        S: * 4 EXPUNGE
        S: * 3 EXPUNGE
        S: * 2 EXPUNGE
        S: 12 OK [MESSAGELIMIT 3 2] …
        "#,
    );
}

/// RFC 6203 §3: words in another order and with other endings, together with an exact key. §4:
/// how well each message matches. §6: the best first, and only the best.
#[test]
fn rfc_6203_fuzzy_search() {
    let server = Server::start();
    for (subject, from) in [
        ("unpaid invoices today", "user@example.com"),
        ("invoices: two unpaid", "user@example.com"),
        ("unpaid invoicing", "other@example.com"),
        ("nothing to pay", "user@example.com"),
    ] {
        let message = format!("Subject: {subject}\r\nFrom: <{from}>\r\n\r\nx\r\n");
        server.put("INBOX", message.as_bytes());
    }
    server.select("INBOX").run(
        r#"
        C: A1 SEARCH FUZZY (SUBJECT "unpaid invoices")
        S: * SEARCH 1 2 3
        S: A1 OK …
        C: A2 SEARCH FUZZY SUBJECT "unpaid invoices" FROM user@example.com
        S: * SEARCH 1 2
        S: A2 OK …
        C: B1 SEARCH RETURN (RELEVANCY ALL) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "B1") ALL 1:3 RELEVANCY (100 75 62)
        S: B1 OK …
        C: C1 SORT (RELEVANCY) UTF-8 FUZZY SUBJECT "invoicing unpaid"
        S: * SORT 3 1 2
        S: C1 OK …
        C: C2 SORT RETURN (RELEVANCY ALL) (RELEVANCY) UTF-8 FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "C2") ALL 1:3 RELEVANCY (100 75 62)
        S: C2 OK …
        C: C3 SORT RETURN (PARTIAL 1:2) (RELEVANCY) UTF-8 FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "C3") PARTIAL (1:2 1:2)
        S: C3 OK …
        "#,
    );
}

/// RFC 5182 §2.2: a saved result is fetched, searched, combined with numbers, and may be empty.
/// §2.3: several commands at once. KOI8-R of example 5 is known here.
#[test]
fn rfc_5182_saved_results() {
    let server = Server::start();
    let long = "four ".repeat(1000);
    for (flags, from, text) in [
        ("\\Flagged $Junk", "Smith", "one"),
        ("\\Flagged", "Fred", "two"),
        ("$Junk", "Fred", "Grüße"),
        ("\\Flagged", "Eric", long.as_str()),
    ] {
        let message = format!("From: {from} <x@example.org>\r\n\r\n{text}\r\n");
        server.put(&format!("INBOX ({flags})"), message.as_bytes());
    }
    server.login().run("C: a CREATE \"Other Messages\"\nS: a OK …");
    server.select("INBOX").run(
        r#"
        C: A282 SEARCH RETURN (SAVE) FLAGGED SINCE 1-Feb-1994 NOT FROM "Smith"
        C: A283 FETCH $ (UID INTERNALDATE FLAGS)
        S: A282 OK …
        S: * 2 FETCH (UID 2 INTERNALDATE "…" FLAGS (…))
        S: * 4 FETCH (UID 4 INTERNALDATE "…" FLAGS (…))
        S: A283 OK …
        C: A300 SEARCH RETURN (SAVE) SINCE 1-Jan-2004 NOT FROM "Smith"
        S: A300 OK …
        C: A301 UID SEARCH UID $ SMALLER 4096
        S: * SEARCH 2 3
        S: A301 OK …
        C: A301 UID SEARCH $ SMALLER 4096
        S: * SEARCH 2 3
        S: A301 OK …
        C: P283 SEARCH CHARSET UTF-8 (OR $ 1,3000:3021) TEXT {7}
        S: + …
        C: Grüße
        S: * SEARCH 3
        S: P283 OK …
        C: E282 SEARCH RETURN (SAVE) SINCE 28-Oct-2006 FROM "Nobody"
        C: E283 COPY $ "Other Messages"
        S: E282 OK …
        S: E283 OK …
        C: F282 SEARCH RETURN (SAVE) KEYWORD $Junk
        C: F283 COPY $ "Junk"
        C: F284 STORE $ +FLAGS.Silent (\Deleted)
        S: F282 OK …
        S: F283 OK [COPYUID … 1,3 1:2] …
        S: F284 OK …
        C: G282 SEARCH RETURN (SAVE) KEYWORD $Junk
        C: G283 SEARCH RETURN (ALL) SINCE 28-Oct-2006 FROM "Eric"
        S: G282 OK …
        S: * ESEARCH (TAG "G283") ALL 4
        S: G283 OK …
        # The second result replaces the first.
        C: H282 SEARCH RETURN (SAVE) KEYWORD $Junk
        C: H283 SEARCH RETURN (SAVE) SINCE 28-Oct-2006 FROM "Eric"
        C: H284 SEARCH $
        S: H282 OK …
        S: H283 OK …
        S: * SEARCH 4
        S: H284 OK …
        "#,
    );
}
