//! Examples about messages: several in one APPEND, CATENATE, URLs and identifiers.

use posthaste_directory::AccountChange;
use posthaste_testkit::Wire;

use super::send_message;
use crate::harness::{Server, fetch_text, literal, search};

/// RFC 3502 §6.3.11: two messages in one APPEND, and a mailbox that does not exist. If the quota
/// has no room for the second message, neither is stored.
#[test]
fn rfc_3502_multi_append() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: x CREATE saved-messages\nS: x OK …");
    let first = "Subject: afternoon meeting\r\n\r\nDo you think we can meet at 3:30 tomorrow?\r\n";
    send_message(&mut wire, "A003 APPEND saved-messages (\\Seen)", first);
    let second = "Subject: Re: afternoon meeting\r\n\r\n3:30 is fine with me.\r\n";
    send_message(&mut wire, " (\\Seen) \" 7-Feb-1994 22:43:04 -0800\"", second);
    wire.run(
        r#"
        C:
        S: A003 OK [APPENDUID … 1:2] …
        C: A004 APPEND bogusname (\Flagged) {3+}
        C: x
        C:
        S: A004 NO [TRYCREATE] …
        "#,
    );
    server.limit(AccountChange { quota_messages: Some(Some(3)), ..AccountChange::default() });
    server.login().run(
        r#"
        C: A005 APPEND saved-messages (\Flagged) {3+}
        C: x
        C:  {3+}
        C: y
        C:
        S: A005 NO [OVERQUOTA] …
        C: A006 STATUS saved-messages (MESSAGES)
        S: * STATUS saved-messages (MESSAGES 2)
        S: A006 OK …
        "#,
    );
}

/// RFC 4467 §8: a URL without its access, one without its owner, and one that is authorised. It is
/// read until the keys are reset.
#[test]
fn rfc_4467_authorised_urls() {
    let server = Server::start();
    let mut wire = server.with_message("Subject: x\n\nSi vis pacem, para bellum.\n");
    let of = |access: &str| format!("imap://ana%40example.org@localhost/INBOX/;UID=1/;SECTION=TEXT{access}");
    wire.run(&format!("C: a775 GENURLAUTH \"{}\" INTERNAL\nS: a775 BAD [BADURL …] …", of("")));
    wire.run(
        r#"
        C: a776 GENURLAUTH "imap://localhost/INBOX/;UID=1/;SECTION=TEXT;URLAUTH=authuser" INTERNAL
        S: a776 BAD [BADURL …] …
        "#,
    );
    let rump = of(";URLAUTH=authuser");
    wire.run(&format!("C: a777 GENURLAUTH \"{rump}\" INTERNAL"));
    let line = wire.expect(&format!("* GENURLAUTH \"{rump}:INTERNAL:…\""));
    let url = line.split('"').nth(1).expect("a URL");
    wire.run(&format!(
        r#"
        S: a777 OK …
        C: a001 URLFETCH "{url}"
        S: * URLFETCH "{url}" {{28}}
        S: Si vis pacem, para bellum.
        S:
        S: a001 OK …
        C: a33 RESETKEY
        S: a33 OK [URLMECH INTERNAL] …
        C: a34 RESETKEY INBOX
        S: a34 OK [URLMECH INTERNAL] …
        C: a002 URLFETCH "{url}"
        S: * URLFETCH "{url}" NIL
        S: a002 OK …
        "#
    ));
}

/// A draft with a text and an attachment, and beside it the message that takes its place.
fn drafts() -> (Server, Wire) {
    let server = Server::start();
    let draft = "Subject: our trip\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\nContent-Type: text/plain\r\n\r\nold text\r\n\
        --b\r\nContent-Type: application/zip\r\n\r\nold zip\r\n--b--\r\n";
    server.put("Drafts", draft.as_bytes());
    server.put("Drafts", b"Content-Type: application/zip\r\n\r\nnew zip");
    let wire = server.select("Drafts");
    (server, wire)
}

/// RFC 4469 Appendix A, example 1: an attachment takes the place of another, and no byte of the
/// draft is sent again.
#[test]
fn rfc_4469_an_attachment_is_replaced() {
    let (_server, mut wire) = drafts();
    wire.run(
        r#"
        C: A003 APPEND Drafts (\Seen \Draft $MDNSent) CATENATE (URL "/Drafts/;UID=1/;section=HEADER" TEXT {7}
        S: + …
        C:
        C: --b
        C:  URL "/Drafts/;UID=1/;section=1.MIME" URL "/Drafts/;UID=1/;section=1" TEXT {7}
        S: + …
        C:
        C: --b
        C:  URL "/Drafts/;UID=2" TEXT {9}
        S: + …
        C:
        C: --b--
        C: )
        S~ A003 OK [APPENDUID … 3] …
        "#,
    );
    let text = "\r\n--b\r\nContent-Type: text/plain\r\n\r\nold text\r\n--b\r\n\
        Content-Type: application/zip\r\n\r\nnew zip\r\n--b--\r\n";
    assert_eq!(fetch_text(&mut wire, 3, "BODY.PEEK[TEXT]"), literal("BODY[TEXT]", text));
    assert_eq!(fetch_text(&mut wire, 3, "BODY.PEEK[2]"), literal("BODY[2]", "new zip"));
    assert_eq!(search(&mut wire, "SEEN DRAFT KEYWORD $MDNSent"), "3");
}

/// Example 2: the header and the text are new, the attachment is the old one. Example 3: a text
/// takes the place of an attachment.
#[test]
fn rfc_4469_a_text_is_replaced() {
    let (_server, mut wire) = drafts();
    let head = "Subject: About our holiday trip\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\nContent-Type: text/plain\r\n\r\nThe updated schedule.\r\n--b\r\n";
    send_message(&mut wire, "A003 APPEND Drafts (\\Seen \\Draft $MDNSent) CATENATE (TEXT", head);
    wire.run(
        r#"
        C:  URL "/Drafts/;UID=1/;Section=2.MIME" URL "/Drafts/;UID=1/;Section=2" TEXT {9}
        S: + …
        C:
        C: --b--
        C: )
        S~ A003 OK [APPENDUID … 3] …
        C: A004 UID STORE 1 +FLAGS.SILENT (\Deleted)
        S: A004 OK …
        "#,
    );
    assert_eq!(fetch_text(&mut wire, 3, "BODY.PEEK[1]"), literal("BODY[1]", "The updated schedule."));
    assert_eq!(fetch_text(&mut wire, 3, "BODY.PEEK[2]"), literal("BODY[2]", "old zip"));
    let note = "\r\n--b\r\nContent-Type: text/plain\r\n\r\nDeleted upon your request.\r\n--b--\r\n";
    wire.run(
        r#"
        C: A003 APPEND Drafts CATENATE (URL "/Drafts/;UID=1/;section=HEADER" TEXT {7}
        S: + …
        C:
        C: --b
        "#,
    );
    let urls = " URL \"/Drafts/;UID=1/;section=1.MIME\" URL \"/Drafts/;UID=1/;section=1\" TEXT";
    send_message(&mut wire, urls, note);
    wire.run("C: )\nS~ A003 OK [APPENDUID … 4] …");
    assert_eq!(fetch_text(&mut wire, 4, "BODY.PEEK[1]"), literal("BODY[1]", "old text"));
    assert_eq!(fetch_text(&mut wire, 4, "BODY.PEEK[2]"), literal("BODY[2]", "Deleted upon your request."));
}

/// Example 4: a digest of messages, one of which is not there. As the erratum has it, the URL in
/// the answer has no quotes.
#[test]
fn rfc_4469_a_wrong_url_is_named() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.login();
    let head = "Subject: Digest\r\nContent-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\n";
    send_message(&mut wire, "A003 APPEND Sent (\\Seen $MDNSent) CATENATE (TEXT", head);
    wire.run(
        r#"
        C:  URL "/INBOX/;UID=1" TEXT {9}
        S: + …
        C:
        C: --b
        C:
        C:  URL "/INBOX/;UID=113330/;section=1.5.9" TEXT {9}
        S: + …
        C:
        C: --b--
        C: )
        S: A003 NO [BADURL /INBOX/;UID=113330/;section=1.5.9] …
        C: A004 STATUS Sent (MESSAGES)
        S: * STATUS Sent (MESSAGES 0)
        S: A004 OK …
        "#,
    );
}

/// RFC 8474 §5.3: a message and its answer have one thread, and a message keeps its identifiers
/// in another mailbox. §6: SEARCH for them.
#[test]
fn rfc_8474_message_identifiers() {
    let server = Server::start();
    for (subject, id, references) in [
        ("Message A", "54797@example.com", ""),
        ("Re: Message A", "21213@example.org", "References: <54797@example.com>\r\n"),
        ("Message C", "60280@example.com", ""),
    ] {
        let message = format!("Subject: {subject}\r\nMessage-ID: <{id}>\r\n{references}\r\nx\r\n");
        server.put("INBOX \"20-Mar-2018 03:07:37 +1100\"", message.as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: 3 CREATE foo\nS: 3 OK …");
    let emails: Vec<String> = (1..=3).map(|number| fetch_text(&mut wire, number, "EMAILID")).collect();
    let threads: Vec<String> = (1..=3).map(|number| fetch_text(&mut wire, number, "THREADID")).collect();
    assert!(emails[0] != emails[1] && emails[1] != emails[2] && emails[0] != emails[2], "{emails:?}");
    assert!(threads[0] == threads[1] && threads[1] != threads[2], "{threads:?}");
    let key = |item: &str| item.replace(['(', ')'], "");
    assert_eq!(search(&mut wire, &key(&emails[0])), "1");
    assert_eq!(search(&mut wire, &key(&threads[0])), "1 2");
    wire.run("C: 23 MOVE 2 foo\nS: * OK [COPYUID … 2 1] …\nS: * 2 EXPUNGE\nS: 23 OK …");
    assert_eq!(fetch_text(&mut wire, 2, "EMAILID"), emails[2]);
    let mut foo = server.select("foo");
    assert_eq!(fetch_text(&mut foo, 1, "EMAILID"), emails[1]);
    assert_eq!(fetch_text(&mut foo, 1, "THREADID"), threads[1]);
}
