//! INPROGRESS: RFC 9585.

use std::time::Duration;

use posthaste_imap_server::{ImapOptions, ProgressTimes};

use crate::harness::{Server, searches};

/// A server that reports progress once, as soon as a command waits for something.
fn talkative() -> Server {
    let times = ProgressTimes { first: Duration::ZERO, every: Duration::from_secs(3600) };
    Server::start_with(ImapOptions { progress: times, ..ImapOptions::default() })
}

#[test]
fn a_search_that_takes_long_says_how_far_it_is() {
    let server = talkative();
    // Texts of this size are searched on another thread, so that the session waits.
    let large = format!("Subject: large\r\n\r\n{}\r\n", "All work and no play.\r\n".repeat(200_000));
    for _ in 0..2 {
        server.put("INBOX", large.as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: c CAPABILITY\nS: * CAPABILITY … INPROGRESS …\nS: c OK …");
    wire.send(b"a1 SEARCH BODY \"a word that is nowhere\"\r\n");
    let lines = wire.skip_to("a1 OK …");
    let [report, found, _] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(found, "* SEARCH");
    // Nothing is known before the messages to read were counted.
    let known = ["NIL NIL", "0 2", "1 2"].map(|known| format!("* OK [INPROGRESS (\"a1\" {known})] Working"));
    assert!(known.contains(report), "{report}");
    // RFC 9585 §4: such a tag would end the response code. A page may need any number of messages.
    wire.send(b"a]2 SEARCH BODY nowhere\r\nb SEARCH RETURN (PARTIAL 1:2) BODY nowhere\r\n");
    let lines = wire.skip_to("a]2 OK …");
    assert!(lines[0].starts_with("* OK [INPROGRESS (NIL "), "{lines:?}");
    let lines = wire.skip_to("b OK …");
    assert!(lines[0].ends_with(" NIL)] Working"), "{lines:?}");
}

#[test]
fn a_command_that_is_quick_says_nothing() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    searches(&mut wire, &[("BODY nothing", ""), ("ALL", "1 2 3")]);
    wire.run("C: b SORT (SUBJECT) UTF-8 ALL\nS: * SORT 1 2 3\nS: b OK …");
}
