//! XLIST: Gmail's LIST with special uses.

use crate::harness::Server;

#[test]
fn mailboxes_are_listed_with_the_words_of_gmail() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE Lists/rust
        S~ a OK …
        C: b XLIST "" "*"
        S: * XLIST (\HasNoChildren \Archive) "/" Archive
        S: * XLIST (\HasNoChildren \Drafts) "/" Drafts
        S: * XLIST (\HasNoChildren \Inbox) "/" INBOX
        S: * XLIST (\HasNoChildren \Spam) "/" Junk
        S: * XLIST (\HasChildren) "/" Lists
        S: * XLIST (\HasNoChildren) "/" Lists/rust
        S: * XLIST (\HasNoChildren \Sent) "/" Sent
        S: * XLIST (\HasNoChildren \Trash) "/" Trash
        S: b OK XLIST completed
        C: c XLIST "" %
        S~ * XLIST (\HasChildren) "/" Lists
        S~ c OK …
        C: d XLIST Lists/ %
        S: * XLIST (\HasNoChildren) "/" Lists/rust
        S: d OK …
        C: e XLIST "" nothing
        S: e OK …
        C: f XLIST ""
        S: f BAD …
        "#,
    );
    server.connect().run("C: a XLIST \"\" *\nS: a BAD …");
}
