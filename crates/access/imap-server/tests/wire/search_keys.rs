//! Every SEARCH key on flags, numbers, dates and sizes: RFC 9051 §6.4.4, RFC 3501 §6.4.4,
//! RFC 5032, RFC 8514.

use crate::harness::{Server, search, searches};

#[test]
fn flags_and_keywords() {
    let server = Server::start();
    server.put("INBOX (\\Seen \\Answered)", b"a");
    server.put("INBOX (\\Flagged $Work)", b"b");
    server.put("INBOX (\\Deleted \\Seen)", b"c");
    server.put("INBOX (\\Draft $work other)", b"d");
    let mut first = server.select("INBOX");
    server.put("INBOX", b"e");
    first.run("C: n NOOP\nS~ n OK …");
    searches(
        &mut first,
        &[
            ("ANSWERED", "1"),
            ("UNANSWERED", "2 3 4 5"),
            ("DELETED", "3"),
            ("UNDELETED", "1 2 4 5"),
            ("DRAFT", "4"),
            ("UNDRAFT", "1 2 3 5"),
            ("FLAGGED", "2"),
            ("UNFLAGGED", "1 3 4 5"),
            ("SEEN", "1 3"),
            ("UNSEEN", "2 4 5"),
            ("KEYWORD $Work", "2 4"),
            ("KEYWORD $WORK", "2 4"),
            ("UNKEYWORD $work", "1 3 5"),
            ("KEYWORD never-used", ""),
            ("UNKEYWORD never-used", "1 2 3 4 5"),
            ("KEYWORD other KEYWORD $Work", "4"),
            ("NEW", "2 4 5"),
            ("RECENT", "1 2 3 4 5"),
            ("OLD", ""),
            ("NOT SEEN", "2 4 5"),
            ("NOT NOT SEEN", "1 3"),
            ("SEEN UNSEEN", ""),
            ("OR SEEN FLAGGED", "1 2 3"),
            ("OR (SEEN DELETED) (NOT (OR UNFLAGGED SEEN))", "2 3"),
            ("NOT (SEEN DELETED)", "1 2 4 5"),
            ("(((ALL)))", "1 2 3 4 5"),
            ("ALL ALL", "1 2 3 4 5"),
            ("unseen or flagged draft", "2 4"),
        ],
    );
    // Recent is who came first: RFC 3501 §2.3.2.
    let mut second = server.select("INBOX");
    searches(&mut second, &[("RECENT", ""), ("NEW", ""), ("OLD", "1 2 3 4 5"), ("OLD UNSEEN", "2 4 5")]);
}

#[test]
fn numbers_and_sizes() {
    let server = Server::start();
    for n in 1..=6 {
        server.put("INBOX", "x".repeat(n * 10).as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run("C: a STORE 2 +FLAGS.SILENT \\Deleted\nS: a OK …\nC: b EXPUNGE\nS: * 2 EXPUNGE\nS: b OK …");
    searches(
        &mut wire,
        &[
            ("1", "1"),
            ("2:3", "2 3"),
            ("3:2,5", "2 3 5"),
            ("*", "5"),
            ("4:*", "4 5"),
            ("*:4", "4 5"),
            ("UID 3", "2"),
            ("UID 1:3,99", "1 2"),
            ("UID *", "5"),
            ("UID 99:*", "5"),
            ("UID 2", ""),
            ("NOT UID 3:4", "1 4 5"),
            ("NOT 2", "1 3 4 5"),
            ("OR 1 UID 6", "1 5"),
            ("2:4 UID 4:6", "3 4"),
            ("LARGER 30", "3 4 5"),
            ("SMALLER 30", "1"),
            ("NOT LARGER 30", "1 2"),
            ("LARGER 10 SMALLER 60", "2 3 4"),
            ("LARGER 0", "1 2 3 4 5"),
            ("SMALLER 9223372036854775807", "1 2 3 4 5"),
        ],
    );
    wire.run(
        r#"
        C: a UID SEARCH 2:3
        S: * SEARCH 3 4
        S: a OK …
        C: b UID SEARCH UID 3:4 NOT LARGER 30
        S: * SEARCH 3
        S: b OK …
        C: c SEARCH 9
        S: * SEARCH
        S: c OK …
        C: d SEARCH LARGER
        S: d BAD …
        C: e SEARCH
        S: e BAD …
        C: f SEARCH NONSENSE
        S: f BAD …
        C: g SEARCH ()
        S: g BAD …
        C: h SEARCH (SEEN
        S: h BAD …
        C: i SEARCH OR SEEN
        S: i BAD …
        C: j SEARCH BEFORE yesterday
        S: j BAD …
        C: k SEARCH OLDER 0
        S: k BAD …
        "#,
    );
}

#[test]
fn dates() {
    let server = Server::start();
    let message = |date: &str| format!("Date: {date}\r\nSubject: x\r\n\r\ny").into_bytes();
    // 1: sent late on the 1st where the sender was, the 2nd by Greenwich; kept on the 2nd.
    server.put("INBOX \"02-Jan-2024 08:00:00 +0000\"", &message("Mon, 1 Jan 2024 23:30:00 -0800"));
    // 2: sent early on the 3rd there, the 2nd by Greenwich; kept on the 3rd as the client's zone
    // had it.
    server.put("INBOX \"03-Jan-2024 00:30:00 +0200\"", &message("3 Jan 2024 01:00 +1400"));
    // 3: the last second of a day, and the first of the next.
    server.put("INBOX \"04-Jan-2024 23:59:59 +0000\"", &message("Thu, 4 Jan 2024 23:59:59 GMT (a comment)"));
    server.put("INBOX \"05-Jan-2024 00:00:00 +0000\"", &message("Fri, 05 Jan 24 00:00:00 UT"));
    // 5: no date that can be read; 6: a leap day.
    server.put("INBOX \"06-Jan-2024 12:00:00 +0000\"", &message("some day"));
    server.put("INBOX \"29-Feb-2024 12:00:00 +0000\"", &message("Thu, 29 Feb 2024 12:00:00 +0000"));
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("BEFORE 2-Jan-2024", ""),
            ("BEFORE 3-Jan-2024", "1 2"),
            ("ON 2-Jan-2024", "1 2"),
            ("ON 4-Jan-2024", "3"),
            ("ON \"05-Jan-2024\"", "4"),
            ("SINCE 5-Jan-2024", "4 5 6"),
            ("SINCE 4-Jan-2024 BEFORE 5-Jan-2024", "3"),
            ("ON 29-feb-2024", "6"),
            ("NOT SINCE 1-Mar-2024", "1 2 3 4 5 6"),
            ("SENTON 1-Jan-2024", "1"),
            ("SENTON 2-Jan-2024", ""),
            ("SENTON 3-Jan-2024", "2"),
            ("SENTON 4-Jan-2024", "3"),
            ("SENTON 5-Jan-2024", "4"),
            ("SENTBEFORE 3-Jan-2024", "1"),
            ("SENTSINCE 4-Jan-2024 4:6", "4 5 6"),
            ("SENTON 29-Feb-2024", "6"),
            // Without a Date, the day it came is the best that is known.
            ("SENTON 6-Jan-2024", "5"),
            ("OLDER 86400", "1 2 3 4 5 6"),
            ("YOUNGER 86400", ""),
            ("SAVEDBEFORE 1-Jan-2020", ""),
            ("SAVEDSINCE 1-Jan-2020", "1 2 3 4 5 6"),
            ("SAVEDON 1-Jan-2020", ""),
            ("SAVEDATESUPPORTED", "1 2 3 4 5 6"),
            ("NOT SAVEDATESUPPORTED", ""),
        ],
    );
    server.put("INBOX", b"now");
    wire.run("C: n NOOP\nS~ n OK …");
    searches(&mut wire, &[("YOUNGER 3600", "7"), ("OLDER 3600 SINCE 1-Jan-2024", "1 2 3 4 5 6")]);
    for bad in ["30-Feb-2024", "1-Jan-24", "32-Jan-2024", "1-Foo-2024", "0-Jan-2024"] {
        wire.run(&format!("C: b SEARCH ON {bad}\nS: b BAD …"));
    }
}

#[test]
fn an_empty_mailbox() {
    let server = Server::start();
    let mut wire = server.select("Drafts");
    wire.run("C: c ENABLE CONDSTORE\nS~ c OK …");
    for keys in
        ["ALL", "NOT ALL", "1:*", "*", "UID 1:*", "TEXT x", "OR SEEN SUBJECT x", "MODSEQ 1", "HEADER X \"\""]
    {
        assert_eq!(search(&mut wire, keys), "", "SEARCH {keys}");
    }
    wire.run(
        r#"
        C: a SEARCH RETURN (MIN MAX COUNT ALL) ALL
        S: * ESEARCH (TAG "a") COUNT 0
        S: a OK …
        C: b SEARCH 1
        S: * SEARCH
        S: b OK …
        "#,
    );
}

#[test]
fn mod_sequences() {
    let server = Server::start();
    server.with_messages(3);
    server.select("INBOX").run(
        r#"
        C: a STORE 1 +FLAGS.SILENT (\Seen)
        S: a OK …
        C: b SEARCH MODSEQ 3
        S: * OK [HIGHESTMODSEQ 4] …
        S: * SEARCH 1 3 (MODSEQ 4)
        S: b OK …
        C: c SEARCH MODSEQ 99
        S: * SEARCH
        S: c OK …
        C: d SEARCH MODSEQ "/flags/\\draft" all 4
        S: * SEARCH 1 (MODSEQ 4)
        S: d OK …
        C: e UID SEARCH NOT MODSEQ 3
        S: * SEARCH 2 (MODSEQ 2)
        S: e OK …
        C: f SEARCH OR MODSEQ 4 2
        S: * SEARCH 1 2 (MODSEQ 4)
        S: f OK …
        # RFC 4731 §3.2: of the messages returned.
        C: g SEARCH RETURN (MAX) MODSEQ 2
        S: * ESEARCH (TAG "g") MAX 3 MODSEQ 3
        S: g OK …
        C: h SEARCH RETURN (MIN MAX) MODSEQ 1
        S: * ESEARCH (TAG "h") MIN 1 MAX 3 MODSEQ 4
        S: h OK …
        C: i SEARCH RETURN (COUNT) MODSEQ 2
        S: * ESEARCH (TAG "i") COUNT 3 MODSEQ 4
        S: i OK …
        "#,
    );
}
