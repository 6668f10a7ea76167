//! The effects of ENABLE IMAP4rev2: RFC 9051 Appendix E.

use crate::harness::Server;

#[test]
fn enabled_it_speaks_rev2() {
    let server = Server::start();
    server.with_messages(2);
    server.login().run(
        r#"
        C: a ENABLE IMAP4rev2
        S: * ENABLED IMAP4rev2
        S: a OK …
        C: b ENABLE IMAP4rev2
        S: * ENABLED
        S: b OK …
        # Names are UTF-8, and `&` is a letter.
        C: c CREATE "Entwürfe & mehr"
        S: c OK …
        C: d LIST "" Entw*
        S: * LIST (\HasNoChildren) "/" "Entwürfe & mehr"
        S: d OK …
        # RFC 9051 §6.3.4: names are composed (NFC), in either form of the command.
        C: d0 CREATE "Müll"
        S: * LIST (\HasNoChildren) "/" "Müll" ("OLDNAME" ("Müll"))
        S: d0 OK …
        C: d1 LIST "" "Mü*"
        S: * LIST (\HasNoChildren) "/" "Müll"
        S: d1 OK …
        # A name that is not as asked, and one that was another.
        C: d2 CREATE a/b/
        S: * LIST (\HasNoChildren) "/" a/b ("OLDNAME" (a/b/))
        S: d2 OK …
        C: d3 RENAME a/b a/c
        S: * LIST (\HasNoChildren) "/" a/c ("OLDNAME" (a/b))
        S: d3 OK …
        # No RECENT, no UNSEEN; LIST says what was opened.
        C: e SELECT inbox
        S: * FLAGS (…
        S: * OK [PERMANENTFLAGS …
        S: * 2 EXISTS
        S: * OK [UIDVALIDITY …
        S: * OK [UIDNEXT 3] …
        S: * OK [HIGHESTMODSEQ 2] …
        S: * OK [MAILBOXID …
        S: * OK [ANNOTATIONS …
        S: * LIST (\HasNoChildren…) "/" INBOX ("OLDNAME" (inbox))
        S: e OK …
        C: f FETCH 1 FLAGS
        S: * 1 FETCH (FLAGS ())
        S: f OK …
        # SEARCH is answered by ESEARCH.
        C: g SEARCH ALL
        S: * ESEARCH (TAG "g") ALL 1:2
        S: g OK …
        C: h UID SEARCH RETURN (SAVE) 2
        S~ h OK …
        C: i UID FETCH $ UID
        S: * 2 FETCH (UID 2)
        S: i OK …
        "#,
    );
    // A session of rev1 sees the same name in modified UTF-7, and the messages are recent still.
    server.login().run(
        r#"
        C: a LIST "" Entw*
        S: * LIST (\HasNoChildren) "/" "Entw&APw-rfe &- mehr"
        S: a OK …
        C: b SELECT INBOX
        S~ * 2 RECENT
        S~ b OK …
        "#,
    );
}
