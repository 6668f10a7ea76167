//! SEARCH=FUZZY: RFC 6203.

use crate::harness::{Server, searches};

/// Four messages: one says the words as they are, one in another order, one with other endings, and
/// one says something else.
fn server() -> Server {
    let server = Server::start();
    for text in ["unpaid invoices today", "invoices: two unpaid", "unpaid invoicing", "nothing to pay"] {
        let message = format!("Subject: {text}\r\nFrom: <a@b.example>\r\n\r\nbody of {text}\r\n");
        server.put("INBOX", message.as_bytes());
    }
    server
}

#[test]
fn a_fuzzy_key_finds_words_in_any_order_and_with_other_endings() {
    let server = server();
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("SUBJECT \"unpaid invoices\"", "1"),
            ("FUZZY SUBJECT \"unpaid invoices\"", "1 2 3"),
            ("FUZZY BODY \"unpaid invoices\"", "1 2 3"),
            ("FUZZY TEXT invoiced", "1 2 3"),
            ("FUZZY (SUBJECT invoices FROM nobody)", ""),
            ("FUZZY (SUBJECT \"unpaid invoices\" NOT SUBJECT two)", "1 3"),
            // FUZZY is for one key alone, and flags are never fuzzy (RFC 6203 §3).
            ("FUZZY SUBJECT \"invoices unpaid\" SUBJECT \"unpaid invoices\"", "1"),
            ("FUZZY SEEN", ""),
            ("NOT FUZZY SUBJECT \"unpaid invoices\"", "4"),
            ("OR FUZZY SUBJECT \"two invoices\" 4", "2 4"),
        ],
    );
    wire.run("C: a SEARCH FUZZY\nS: a BAD …");
}

#[test]
fn another_form_of_a_word_ranks_behind_the_word_itself() {
    let server = Server::start();
    for subject in ["running late", "nothing", "it runs well", "a run"] {
        server.put("INBOX", format!("Subject: {subject}\r\n\r\nx\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SORT RETURN (ALL RELEVANCY) (RELEVANCY) UTF-8 FUZZY SUBJECT runs
        S: * ESEARCH (TAG "a") ALL 3,1,4 RELEVANCY (100 50 50)
        S: a OK …
        C: b SEARCH FUZZY SUBJECT running
        S: * SEARCH 1 3 4
        S: b OK …
        C: c SEARCH SUBJECT runs
        S: * SEARCH 3
        S: c OK …
        "#,
    );
}

#[test]
fn relevancy_shows_how_well_each_message_matches() {
    let server = server();
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SEARCH RETURN (ALL RELEVANCY) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "a") ALL 1:3 RELEVANCY (100 75 62)
        S: a OK …
        C: b UID SEARCH RETURN (RELEVANCY) FUZZY SUBJECT "invoices unpaid"
        S: * ESEARCH (TAG "b") UID ALL 1:3 RELEVANCY (75 75 62)
        S: b OK …
        C: c SEARCH RETURN (PARTIAL 2:3 RELEVANCY) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "c") PARTIAL (2:3 2:3) RELEVANCY (75 62)
        S: c OK …
        C: d SEARCH RETURN (COUNT RELEVANCY) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "d") COUNT 3
        S: d OK …
        C: e SEARCH RETURN (ALL RELEVANCY) FUZZY SUBJECT nowhere
        S: * ESEARCH (TAG "e") RELEVANCY ()
        S: e OK …
        # RFC 6203 §4: there is no relevancy without FUZZY.
        C: f SEARCH RETURN (RELEVANCY) SUBJECT x
        S: f BAD …
        C: g SORT (RELEVANCY) UTF-8 ALL
        S: g BAD …
        # RFC 6203 §5: the best match is the first.
        C: h SORT (RELEVANCY) UTF-8 FUZZY SUBJECT "invoicing unpaid"
        S: * SORT 3 1 2
        S: h OK …
        C: i UID SORT RETURN (ALL RELEVANCY) (REVERSE RELEVANCY REVERSE ARRIVAL) UTF-8 FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "i") UID ALL 3,2,1 RELEVANCY (62 75 100)
        S: i OK …
        C: j SORT RETURN (PARTIAL 1:2 RELEVANCY) (SUBJECT) UTF-8 FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "j") PARTIAL (1:2 2,1) RELEVANCY (75 100)
        S: j OK …
        C: k SORT RETURN (ALL UPDATE) (RELEVANCY) UTF-8 FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "k") ALL 1:3
        S: * NO [NOUPDATE "k"] …
        S: k OK …
        "#,
    );
}

/// A message with more words as they are written comes first, and so does one with the words in
/// its subject.
#[test]
fn words_as_they_are_written_and_subjects_count_more() {
    let server = Server::start();
    for (subject, text) in [
        ("old unpaid invoicing", "x"),
        ("older unpaid invoicing", "x"),
        ("older, unpaying invoicing", "x"),
        ("letter", "old unpaid invoices"),
    ] {
        server.put("INBOX", format!("Subject: {subject}\r\n\r\n{text}\r\n").as_bytes());
    }
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a SORT RETURN (ALL RELEVANCY) (REVERSE RELEVANCY) UTF-8 FUZZY SUBJECT "invoices unpaid"
        S: * ESEARCH (TAG "a") ALL 3,1:2 RELEVANCY (50 62 62)
        S: a OK …
        C: b SORT RETURN (ALL RELEVANCY) (RELEVANCY) UTF-8 FUZZY TEXT "invoices unpaid"
        S: * ESEARCH (TAG "b") ALL 4,1:3 RELEVANCY (65 50 50 50)
        S: b OK …
        C: c SEARCH RETURN (ALL RELEVANCY) FUZZY TEXT unpaid
        S: * ESEARCH (TAG "c") ALL 1:4 RELEVANCY (100 100 50 90)
        S: c OK …
        "#,
    );
}

#[test]
fn a_fuzzy_result_is_kept_up_to_date() {
    let server = server();
    let mut wire = server.select("INBOX");
    wire.run(
        r#"
        C: a UID SEARCH RETURN (ALL UPDATE) FUZZY SUBJECT "unpaid invoices"
        S: * ESEARCH (TAG "a") UID ALL 1:3
        S: a OK …
        "#,
    );
    server.put("INBOX", b"Subject: invoiced and unpaid\r\n\r\nx\r\n");
    wire.run("C: b NOOP\nS~ * ESEARCH (TAG \"a\") UID ADDTO (0 5)\nS~ b OK …");
}

#[test]
fn words_are_counted_as_keys() {
    let server = server();
    let mut wire = server.select("INBOX");
    let text = format!("\"{}\" ", "ab ".repeat(16).trim_end());
    let keys = format!("FUZZY SUBJECT {text}").repeat(300);
    wire.run(&format!("C: a SEARCH {}\nS: a NO [LIMIT] …", keys.trim_end()));
}
