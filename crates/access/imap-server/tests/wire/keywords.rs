//! Keywords at the limit of a mailbox: RFC 9051 §2.3.2, §7.1 (PERMANENTFLAGS), RFC 5530 (LIMIT).

use crate::harness::Server;

/// `own0 own1 …`
fn own(range: std::ops::Range<usize>) -> String {
    range.map(|n| format!("own{n}")).collect::<Vec<_>>().join(" ")
}

/// A mailbox whose first message has all keywords that fit.
fn full() -> Server {
    let server = Server::start();
    server.put(&format!("INBOX ({})", own(0..51)), b"Subject: a\r\n\r\na\r\n");
    server.put("INBOX", b"Subject: b\r\n\r\nb\r\n");
    server
}

#[test]
fn common_keywords_are_never_refused() {
    let server = full();
    let mut wire = server.login();
    wire.run("C: s SELECT INBOX\nS~ * OK [PERMANENTFLAGS (\\Answered … $Forwarded … $Junk … $Submitted)] …\nS~ s OK …");
    wire.run("C: a STORE 2 +FLAGS (more)\nS: a NO [LIMIT] …");
    wire.run("C: b STORE 2 +FLAGS ($Forwarded)\nS: * FLAGS (…)\nS: * OK [PERMANENTFLAGS (…)] …\nS: * 2 FETCH (UID 2 FLAGS (\\Recent $Forwarded))\nS: b OK …");
    server.put("INBOX ($Junk $MDNSent $NotJunk)", b"Subject: c\r\n\r\nc\r\n");
    server.put("INBOX ($Phishing $Important $SubmitPending $Submitted)", b"Subject: d\r\n\r\nd\r\n");
    let mut other = server.select("INBOX");
    other.run("C: a FETCH 3 FLAGS\nS: * 3 FETCH (FLAGS (\\Recent $Junk $MDNSent $NotJunk))\nS: a OK …");
    other.run("C: b SEARCH KEYWORD $submitpending\nS: * SEARCH 4\nS: b OK …");
    other.run("C: c STORE 1 +FLAGS (more)\nS: c NO [LIMIT] …");
}

#[test]
fn a_message_comes_in_without_the_keyword_there_is_no_room_for() {
    let server = full();
    let mut wire = server.login();
    wire.run("C: a APPEND INBOX (more \\Flagged own3 $Junk) {3}\nS: + …");
    wire.send(b"abc\r\n");
    wire.expect("a OK [APPENDUID …] …without some keywords…");
    let mut wire = server.select("INBOX");
    wire.run("C: b FETCH 3 FLAGS\nS: * 3 FETCH (FLAGS (\\Recent \\Flagged own3 $Junk))\nS: b OK …");
}

/// A keyword that no message has any more makes room, and no session takes the new keyword for the
/// old one.
#[test]
fn an_unused_keyword_makes_room_for_another() {
    let server = full();
    server.put("INBOX (own7)", b"Subject: c\r\n\r\nc\r\n");
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    // A third message has it still.
    two.run("C: a STORE 1 -FLAGS.SILENT (own7)\nS: a OK …");
    two.run("C: b STORE 2 +FLAGS.SILENT (new)\nS: b NO [LIMIT] …");
    two.run("C: c STORE 3 +FLAGS.SILENT (\\Deleted)\nS: c OK …\nC: d EXPUNGE\nS: * 3 EXPUNGE\nS: d OK …");
    two.run("C: e STORE 1:2 +FLAGS.SILENT (new)\nS: * FLAGS (… new …)\nS: * OK [PERMANENTFLAGS (… new …)] …\nS: e OK …");
    // The session whose EXPUNGE is held back sees neither keyword on the expunged message.
    one.run(
        r"
        C: a FETCH 3 (UID FLAGS)
        S~ a OK …
        C: b FETCH 3 (UID FLAGS)
        S: * 3 FETCH (UID 3 FLAGS (\Recent))
        S: b OK …
        C: c SEARCH KEYWORD new
        S: * SEARCH 1 2
        S: c OK …
        C: d SEARCH KEYWORD own7
        S: * SEARCH
        S: d OK …
        C: e NOOP
        S: * 3 EXPUNGE
        S: e OK …
        C: f FETCH 2 FLAGS
        S: * 2 FETCH (FLAGS (\Recent new))
        S: f OK …
        ",
    );
}

/// The same bit before and after, but another keyword: a silent change of one's own does not hide
/// it.
#[test]
fn a_silent_change_does_not_hide_that_a_keyword_became_another() {
    let server = full();
    let (mut one, mut two) = (server.select("INBOX"), server.select("INBOX"));
    one.run("C: a STORE 1 -FLAGS.SILENT (own9)\nS: a OK …\nC: b STORE 2 +FLAGS.SILENT (own9)\nS: b OK …");
    two.run("C: a NOOP\nS~ a OK …");
    // The slot goes from one keyword to the other while the first session looks away.
    two.run("C: b STORE 2 -FLAGS.SILENT (own9)\nS: b OK …\nC: c STORE 2 +FLAGS.SILENT (other)\nS~ c OK …");
    one.run(
        r"
        C: c STORE 2 +FLAGS.SILENT (\Seen)
        S: * FLAGS (…)
        S: * OK [PERMANENTFLAGS (…)] …
        S: * 2 FETCH (UID 2 FLAGS (\Recent \Seen other))
        S: c OK …
        ",
    );
}

/// A mailbox nobody has open: the common case of mail that comes in.
#[test]
fn a_closed_mailbox_makes_room_too() {
    let server = full();
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 1 -FLAGS.SILENT (own0 own1)\nS: a OK …\nC: b LOGOUT\nS~ b OK …");
    server.put("INBOX (first second $Junk)", b"Subject: c\r\n\r\nc\r\n");
    let mut wire = server.select("INBOX");
    wire.run("C: c FETCH 3 FLAGS\nS: * 3 FETCH (FLAGS (\\Recent first second $Junk))\nS: c OK …");
    wire.run("C: d SEARCH KEYWORD own0\nS: * SEARCH\nS: d OK …");
}
