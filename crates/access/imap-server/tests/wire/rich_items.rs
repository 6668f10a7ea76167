//! A folder in which some rich messages have their items and others do not: every command answers
//! as if all had them.

use posthaste_delivery::MESSAGE_COST;
use posthaste_directory::{AccountChange, Precompute};
use posthaste_testkit::Wire;
use posthaste_tnef::{Outcome, convert, samples};

use crate::harness::Server;

/// Plain and rich mail in turn; the last one is rich and signed.
fn mail() -> Vec<Vec<u8>> {
    let note = samples::mail(&samples::note());
    let signed =
        String::from_utf8(note.clone()).expect("ASCII").replace("multipart/mixed", "multipart/signed");
    let html = samples::mail(&samples::with_html("budget", "<p>a &amp; b</p>"));
    let meeting = samples::mail(&samples::meeting("IPM.Schedule.Meeting.Request"));
    let plain = |n: u32| format!("Subject: plain {n}\r\n\r\n{}", "words of text\r\n".repeat(90 * n as usize));
    vec![plain(1).into_bytes(), note.clone(), html, plain(2).into_bytes(), meeting, note, signed.into_bytes()]
}

/// A server whose folder has this mail. With the second and the fourth message, the items of rich
/// mail are made at delivery; with the others as `others` says.
fn server(others: Precompute) -> Server {
    let server = Server::start_converting(others);
    for (n, message) in mail().iter().enumerate() {
        server.deliver_with(message, if n == 5 { Precompute::Delivery } else { others });
    }
    // The first session alone sees `\Recent`.
    drop(server.select("INBOX"));
    server
}

/// The answer to a command, without the tag's line end.
fn ask(wire: &mut Wire, command: &str) -> Vec<String> {
    wire.send(format!("q {command}\r\n").as_bytes());
    wire.skip_to("q …")
}

const COMMANDS: &[&str] = &[
    "FETCH 1:* (UID FLAGS RFC822.SIZE)",
    "FETCH 2:3 RFC822.SIZE",
    "UID FETCH 5 RFC822.SIZE",
    "FETCH 1:* ENVELOPE",
    "FETCH 1:* (RFC822.SIZE BODYSTRUCTURE MODSEQ)",
    "FETCH 1:* (FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)])",
    "FETCH 1:* BODY.PEEK[]",
    "FETCH 2 BODY.PEEK[]<100.2000>",
    "FETCH 1:* (BINARY.SIZE[1] PREVIEW)",
    "FETCH 7,5,3 (BODY.PEEK[TEXT] RFC822.SIZE)",
    "SEARCH LARGER 2000",
    "SEARCH SMALLER 2000",
    "SEARCH UNSEEN LARGER 1000 SMALLER 100000",
    "SEARCH NOT LARGER 2000",
    "SEARCH OR SMALLER 1300 SUBJECT budget",
    "SEARCH SUBJECT budget",
    "SEARCH TEXT \"a & b\"",
    "SEARCH BODY words",
    "SEARCH RETURN (COUNT MAX) LARGER 2000",
    "UID SEARCH RETURN (PARTIAL 1:3) LARGER 100",
    "SORT (SIZE) UTF-8 ALL",
    "SORT (REVERSE SIZE) UTF-8 ALL",
    "SORT (SUBJECT SIZE) UTF-8 ALL",
    "SORT (FROM) UTF-8 LARGER 500",
    "THREAD REFERENCES UTF-8 ALL",
    "THREAD ORDEREDSUBJECT UTF-8 ALL",
    "STATUS INBOX (MESSAGES SIZE UNSEEN)",
    "NOOP",
];

#[test]
fn every_command_answers_as_if_all_had_their_items() {
    let eager = server(Precompute::Delivery);
    let mut expected = Vec::new();
    for command in COMMANDS {
        expected.push(ask(&mut eager.select("INBOX"), command));
    }
    for lazily in [Precompute::FirstFetch, Precompute::Never] {
        for (command, expected) in COMMANDS.iter().zip(&expected) {
            // Each is the first command that needs items, and then one that finds them.
            let lazy = server(lazily);
            for round in 1..=2 {
                let answer = ask(&mut lazy.select("INBOX"), command);
                assert_eq!(&answer, expected, "{command}, {lazily:?}, round {round}");
            }
        }
        // And all of them, one after the other.
        let lazy = server(lazily);
        let mut wire = lazy.select("INBOX");
        for (command, expected) in COMMANDS.iter().zip(&expected) {
            assert_eq!(&ask(&mut wire, command), expected, "{command}, {lazily:?}");
        }
    }
}

/// A message that came without items counts the octets that were sent, also after its items are
/// made: RFC 9208 §5.1 allows that.
#[test]
fn a_quota_says_the_same_before_and_after_items_are_made() {
    const LIMIT: u64 = 1 << 30;
    for precompute in [Precompute::Delivery, Precompute::FirstFetch, Precompute::Never] {
        let server = server(precompute);
        server.limit(AccountChange { quota_bytes: Some(Some(LIMIT)), ..AccountChange::default() });
        let counted = |(n, sent): (usize, Vec<u8>)| match convert(&sent) {
            Ok(Outcome::Converted(mime)) if n == 5 || precompute == Precompute::Delivery => mime.len() as u64,
            _ => sent.len() as u64,
        };
        let used: u64 = mail().into_iter().enumerate().map(|mail| counted(mail) + MESSAGE_COST).sum();
        let expected = format!("* QUOTA \"\" (STORAGE {} {})", used.div_ceil(1024), LIMIT / 1024);
        let mut wire = server.select("INBOX");
        for command in ["NOOP", "FETCH 1:* (RFC822.SIZE ENVELOPE)", "FETCH 1:* BODY.PEEK[]"] {
            ask(&mut wire, command);
            let said = ask(&mut wire, "GETQUOTAROOT INBOX").concat();
            assert!(said.contains(&expected), "{precompute:?}, {command}: {said}, not {expected}");
        }
    }
}

/// A client's state of the folder stays valid when items are made, also in copies and after
/// changes of flags.
#[test]
fn making_items_changes_nothing_that_a_client_knows() {
    let transcripts = [Precompute::Delivery, Precompute::FirstFetch, Precompute::Never].map(|precompute| {
        let server = server(precompute);
        let mut wire = server.select("INBOX");
        wire.run("C: e ENABLE CONDSTORE\nS~ e OK …");
        let mut said = Vec::new();
        for command in [
            "STORE 2:4 +FLAGS (\\Flagged)",
            "COPY 1:* Archive",
            "FETCH 1:* (MODSEQ RFC822.SIZE)",
            "STORE 3 -FLAGS (\\Flagged)",
            "FETCH 1:* (ENVELOPE MODSEQ) (CHANGEDSINCE 1)",
            "STATUS Archive (MESSAGES SIZE HIGHESTMODSEQ)",
            "STATUS INBOX (MESSAGES SIZE HIGHESTMODSEQ)",
            "EXAMINE Archive",
            "FETCH 1:* (RFC822.SIZE ENVELOPE FLAGS MODSEQ)",
            "SORT (SIZE) UTF-8 ALL",
        ] {
            let uid_validity_differs =
                |line: &String| line.contains("UIDVALIDITY") || line.contains("MAILBOXID");
            let lines = ask(&mut wire, command);
            said.extend(
                lines.into_iter().filter(|line| !uid_validity_differs(line) && !line.contains("COPYUID")),
            );
        }
        said
    });
    assert_eq!(transcripts[1], transcripts[0]);
    assert_eq!(transcripts[2], transcripts[0]);
}

/// A session that knows the folder reads a message that is expunged before its items are made.
#[test]
fn a_message_without_items_is_expunged_by_others() {
    let server = server(Precompute::FirstFetch);
    let mut wire = server.select("INBOX");
    wire.run("C: a NOOP\nS: a OK …");
    let mut other = server.select("INBOX");
    other.run("C: a STORE 2 +FLAGS.SILENT (\\Deleted)\nS~ a OK …\nC: b EXPUNGE\nS~ b OK …");
    wire.run(
        r"
        C: b FETCH 1:3 (ENVELOPE RFC822.SIZE)
        S~ * 1 FETCH (ENVELOPE …
        S~ * 3 FETCH (ENVELOPE …
        S~ b OK [EXPUNGEISSUED] …
        ",
    );
}
