//! FILTERS: RFC 5466.

use crate::harness::Server;

#[test]
fn a_filter_is_set_by_metadata_and_named_in_a_search() {
    let server = Server::start();
    server.put("INBOX (\\Seen)", b"Subject: seen\r\n\r\nx\r\n");
    server.put("INBOX", b"Subject: IMAP\r\n\r\nx\r\n");
    server.put("INBOX (\\Flagged)", b"Subject: IMAP again\r\n\r\nx\r\n");
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SETMETADATA "" (/private/filters/values/unseen-imap "UNSEEN SUBJECT \"imap\"" /private/filters/values/marked "OR FLAGGED FILTER unseen-imap")
        S: a OK …
        C: b SEARCH FILTER unseen-imap
        S: * SEARCH 2 3
        S: b OK …
        C: c SEARCH FILTER UNSEEN-IMAP UNFLAGGED
        S: * SEARCH 2
        S: c OK …
        C: d UID SEARCH RETURN (COUNT) NOT FILTER marked
        S: * ESEARCH (TAG "d") UID COUNT 1
        S: d OK …
        C: e SORT (REVERSE ARRIVAL) UTF-8 FILTER marked
        S: * SORT …
        S: e OK …
        C: f THREAD ORDEREDSUBJECT UTF-8 FILTER marked
        S: * THREAD …
        S: f OK …
        C: g ESEARCH IN (personal) FILTER marked
        S: * ESEARCH (TAG "g" MAILBOX INBOX UIDVALIDITY …) UID ALL 2:3
        S: g OK …
        # RFC 5267: what the filter was when the command came.
        C: h UID SEARCH RETURN (ALL UPDATE) FILTER marked
        S: * ESEARCH (TAG "h") UID ALL 2:3
        S: h OK …
        C: i SETMETADATA "" (/private/filters/values/marked NIL)
        S: i OK …
        C: j STORE 1 +FLAGS.SILENT (\Flagged)
        S: * ESEARCH (TAG "h") UID ADDTO (0 1)
        S: j OK …
        C: k SEARCH FILTER marked
        S: k NO [UNDEFINED-FILTER marked] …
        "#,
    );
}

#[test]
fn filters_that_are_no_search_or_name_themselves() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SETMETADATA "" (/private/filters/values/bad "UNSEEN nonsense" /private/filters/values/loop "NOT FILTER loop")
        S: a OK …
        C: b SEARCH FILTER bad
        S: b NO [UNDEFINED-FILTER bad] …
        C: c SEARCH FILTER loop
        S: c NO [UNDEFINED-FILTER loop] …
        C: d SEARCH FILTER never-set
        S: d NO [UNDEFINED-FILTER never-set] …
        C: e SEARCH FILTER a/b
        S: e BAD …
        C: f SEARCH FILTER
        S: f BAD …
        C: g SEARCH RETURN (SAVE) ALL
        S: g OK …
        C: h CAPABILITY
        S: * CAPABILITY … FILTERS …
        S: h OK …
        "#,
    );
}

/// RFC 5182 §2.1. A client may send STORE right after the search. If the search fails, STORE must
/// not change the messages of an earlier result.
#[test]
fn a_search_that_ends_in_no_saves_no_messages() {
    let server = Server::start();
    server.with_messages(3);
    let mut wire = server.select("INBOX");
    for search in [
        "SEARCH RETURN (SAVE) FILTER none",
        "UID SEARCH RETURN (SAVE COUNT) FILTER none",
        "ESEARCH IN (selected) RETURN (SAVE) FILTER none",
        "SORT RETURN (SAVE) (DATE) UTF-8 FILTER none",
        "SEARCH RETURN (SAVE) X-GM-RAW \"has:drive\"",
    ] {
        wire.run(&format!(
            r#"
            C: a SEARCH RETURN (SAVE) 2:3
            S: a OK …
            C: b {search}
            S: b NO …
            C: c SEARCH $
            S: * SEARCH
            S: c OK …
            "#
        ));
    }
    wire.run(
        r#"
        C: a SEARCH RETURN (SAVE) 2:3
        S: a OK …
        C: b SEARCH FILTER none
        S: b NO …
        C: c SEARCH RETURN (SAVE) NONSENSE
        S: c BAD …
        C: d SEARCH $
        S: * SEARCH 2 3
        S: d OK …
        "#,
    );
}

/// RFC 5466 §3.1, and RFC 5182 §2.1: a BAD leaves the saved result.
#[test]
fn a_search_with_a_filter_has_no_other_charset() {
    let server = Server::start();
    server.with_messages(3);
    server.select("INBOX").run(
        r#"
        C: a SETMETADATA "" (/private/filters/values/first "1")
        S: a OK …
        C: b SEARCH RETURN (SAVE) CHARSET US-ASCII FILTER first
        S: b OK …
        C: c SEARCH RETURN (SAVE) CHARSET ISO-8859-1 FILTER first
        S: c BAD [BADCHARSET (US-ASCII UTF-8)] …
        C: d SORT (DATE) ISO-8859-1 OR SEEN FILTER first
        S: d BAD [BADCHARSET (US-ASCII UTF-8)] …
        C: e SEARCH $
        S: * SEARCH 1
        S: e OK …
        "#,
    );
}

#[test]
fn a_filter_may_name_sequence_numbers_but_not_after_uidonly() {
    let server = Server::start();
    server.with_messages(2);
    let mut other = server.select("INBOX");
    let mut wire = server.select("INBOX");
    wire.run("C: a SETMETADATA \"\" (/private/filters/values/first \"1\")\nS: a OK …");
    other.run("C: a STORE 1 +FLAGS.SILENT (\\Deleted)\nS: a OK …\nC: b EXPUNGE\nS: * 1 EXPUNGE\nS: b OK …");
    // The numbers mean what the session knows: no EXPUNGE before the answer.
    wire.run("C: b UID SEARCH FILTER first\nS: * SEARCH 1\nS~ b OK …\nC: c NOOP\nS: * 1 EXPUNGE\nS: c OK …");
    wire.run("C: d ENABLE UIDONLY\nS~ d OK …\nC: e UID SEARCH FILTER first\nS: e BAD [UIDREQUIRED] …");
}
