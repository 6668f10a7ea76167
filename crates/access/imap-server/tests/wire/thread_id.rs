//! THREADID: RFC 8474 §5.2, §5.3.

use crate::harness::{Server, fetch_text, search};

/// A message with a Message-ID and other fields.
fn message(id: &str, fields: &str) -> Vec<u8> {
    format!("Message-ID: <{id}>\r\n{fields}Subject: x\r\n\r\ny\r\n").into_bytes()
}

fn thread_of(wire: &mut posthaste_testkit::Wire, number: u32) -> String {
    let answer = fetch_text(wire, number, "THREADID");
    let id = answer.strip_prefix("THREADID (").and_then(|rest| rest.strip_suffix(')'));
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn a_conversation_has_one_thread() {
    let server = Server::start();
    server.put("INBOX", &message("1@x", ""));
    server.put("INBOX", &message("2@x", "References: <1@x>\r\nIn-Reply-To: <1@x>\r\n"));
    server.put("INBOX", &message("3@x", "References: <1@x>\r\n\t<2@x>\r\n"));
    server.put("INBOX", &message("4@x", "In-Reply-To: <1@x>\r\n"));
    server.put("INBOX", &message("5@x", ""));
    server.put("INBOX", b"Subject: no identifier\r\n\r\ny\r\n");
    server.put("INBOX", b"Subject: no identifier\r\n\r\ny\r\n");
    let mut wire = server.select("INBOX");
    let threads: Vec<String> = (1..=7).map(|number| thread_of(&mut wire, number)).collect();
    assert!(threads[..4].iter().all(|thread| *thread == threads[0]), "{threads:?}");
    for (at, thread) in threads.iter().enumerate().skip(4) {
        assert!(threads.iter().enumerate().all(|(i, other)| i == at || other != thread), "{threads:?}");
    }
    assert_eq!(search(&mut wire, &format!("THREADID {}", threads[0])), "1 2 3 4");
    assert_eq!(search(&mut wire, &format!("NOT THREADID {}", threads[0])), "5 6 7");
    assert_eq!(search(&mut wire, &format!("THREADID {}", threads[5])), "6");
    assert_eq!(search(&mut wire, "THREADID T0000000000000000"), "");
    assert_eq!(search(&mut wire, "THREADID other"), "");
    // A copy is in the same thread, in another mailbox, and after a MOVE.
    wire.run("C: a COPY 3,6 Archive\nS~ a OK …\nC: b MOVE 5 Archive\nS~ b OK …");
    let mut archive = server.select("Archive");
    let copies: Vec<String> = (1..=3).map(|number| thread_of(&mut archive, number)).collect();
    assert_eq!(copies, [&*threads[2], &*threads[5], &*threads[4]]);
}

#[test]
fn threads_by_uid_only_and_with_other_items() {
    let server = Server::start();
    server.put("INBOX", &message("1@x", ""));
    server.login().run(
        r#"
        C: a ENABLE UIDONLY
        S~ a OK …
        C: b SELECT INBOX
        S~ b OK …
        C: c UID FETCH 1 (THREADID EMAILID FLAGS)
        S: * 1 UIDFETCH (THREADID (T…) EMAILID (…) FLAGS (…))
        S: c OK …
        "#,
    );
}
