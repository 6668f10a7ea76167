//! SEARCH and SORT by the exact text: which keys distinguish blanks and letters, and what a reader
//! of HTML sees. RFC 9051 §6.4.4, RFC 5051.

use posthaste_testkit::Wire;

use crate::harness::{Server, search, searches};

fn server(messages: &[&str]) -> Server {
    let server = Server::start();
    messages.iter().for_each(|message| server.put("INBOX", message.replace('\n', "\r\n").as_bytes()));
    server
}

/// RFC 9051 §6.4.4: the string is a substring of the text. BODY and TEXT alone may be flexible.
#[test]
fn two_blanks_are_not_one_in_a_header_key() {
    let server = server(&[
        "Subject: one two\nFrom: Ann Other <a@x.test>\nX-Own: one two\n\none  two\n",
        "Subject: one  two\nFrom: \"Ann  Other\" <a@x.test>\nX-Own: one  two\n\none two\n",
        // A fold is the white space after it (RFC 5322 §2.2.3). A tab counts as a blank.
        "Subject: one\n two\nTo: \"Ann\n\tOther\" <a@x.test>\nX-Own: one\n\ttwo\n\none\ntwo\n",
        "Subject: one\n  two\nX-Own: one\n \ttwo\n\none\n\ntwo\n",
        "Subject: =?utf-8?q?one__two?=\nCc: =?utf-8?q?Ann__Other?= <a@x.test>\nX-Own: =?utf-8?q?one_two?=\n\nx\n",
    ]);
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("SUBJECT \"one two\"", "1 3"),
            ("SUBJECT \"one  two\"", "2 4 5"),
            ("SUBJECT \"  \"", "2 4 5"),
            ("SUBJECT \" \"", "1 2 3 4 5"),
            ("SUBJECT two", "1 2 3 4 5"),
            ("FROM \"ann other\"", "1"),
            ("FROM \"ann  other\"", "2"),
            ("TO \"ann other\"", "3"),
            ("CC \"ann other\"", ""),
            ("CC \"ann  other\"", "5"),
            ("HEADER X-Own \"one two\"", "1 3 5"),
            ("HEADER X-Own \"one  two\"", "2 4"),
            ("HEADER Subject \"one  two\"", "2 4 5"),
            ("NOT SUBJECT \"one two\"", "2 4 5"),
            ("BODY \"one two\"", "1 2 3 4"),
            ("BODY \"one  two\"", "1 2 3 4"),
            ("FUZZY SUBJECT \"one  two\"", "1 2 3 4 5"),
        ],
    );
}

/// RFC 9051 §6.4.4: the exact text decides, not the folded one, which begins with no blank.
#[test]
fn a_header_key_may_begin_with_the_blank_of_the_text() {
    let server = server(&[
        "Subject: =?utf-8?q?_one?=\nX-Own: =?utf-8?q?_one?=\n\nx\n",
        "Subject: one\nX-Own: one\n\nx\n",
        "Subject: two one\nX-Own: two one\n\nx\n",
    ]);
    let mut wire = server.select("INBOX");
    let keys = [
        ("SUBJECT \" one\"", "1 3"),
        ("SUBJECT \" \"", "1 3"),
        ("SUBJECT one", "1 2 3"),
        ("SUBJECT \"  one\"", ""),
        ("HEADER X-Own \" one\"", "1 3"),
    ];
    searches(&mut wire, &keys);
    index(&server, &mut wire);
    searches(&mut wire, &keys);
}

/// RFC 5051 §2 has no order of marks. Windows-1258 writes a letter with its mark, then a dot.
#[test]
fn marks_are_compared_in_the_order_of_the_text() {
    let message = |word: &str| {
        format!(
            "Subject: {word}\nFrom: {word} <a@x.test>\nX-Own: {word}\n\
             Content-Type: text/plain; charset=utf-8\n\n{word}\n"
        )
    };
    let server = server(&[&message("Vi\u{ea}\u{323}t"), &message("Vi\u{1ec7}t")]);
    let mut wire = server.select("INBOX");
    let keys = [
        ("SUBJECT \"vi\u{ea}\"", "1"),
        ("FROM \"vi\u{ea}\"", "1"),
        ("HEADER X-Own \"vi\u{ea}\"", "1"),
        ("BODY \"vi\u{ea}\"", "1"),
        ("TEXT \"vi\u{ea}\"", "1"),
        ("HEADER X-Own \"vi\u{1eb9}\"", "2"),
        ("SUBJECT \"vi\u{1ec7}t\"", "2"),
        ("SUBJECT \"vi\u{ea}\u{323}t\"", "1"),
        // BODY and TEXT may be flexible.
        ("BODY \"vi\u{1ec7}t\"", "1 2"),
        ("TEXT \"vi\u{ea}\u{323}t\"", "1 2"),
        ("FUZZY SUBJECT \"vi\u{1ec7}t\"", "1 2"),
    ];
    searches(&mut wire, &keys);
    index(&server, &mut wire);
    searches(&mut wire, &keys);
}

/// Adds messages, and lets a search make a segment of all.
fn index(server: &Server, wire: &mut Wire) {
    for message in 0..300 {
        server.put("INBOX", format!("Subject: {message}\r\n\r\nnothing\r\n").as_bytes());
    }
    wire.run("C: n NOOP\nS~ n OK …");
    assert!(search(wire, "BODY nothing").contains("301 302"));
}

/// RFC 5051 §2: the simple title case of each character, then its decomposition.
#[test]
fn header_keys_compare_by_unicode_casemap() {
    let server = server(&[
        "Subject: Hauptstra\u{df}e\nFrom: Stra\u{df}er <a@x.test>\nX-Own: Stra\u{df}e\n\nx\n",
        "Subject: HAUPTSTRASSE\nFrom: Strasser <b@x.test>\nX-Own: STRASSE\n\nx\n",
        "Subject: \u{fb01}ne\nX-Own: \u{fb01}ne\n\nx\n",
        "Subject: FINE \u{39f}\u{394}\u{39f}\u{3a3}\nX-Own: Fine\n\nx\n",
    ]);
    let mut wire = server.select("INBOX");
    searches(
        &mut wire,
        &[
            ("SUBJECT strasse", "2"),
            ("SUBJECT \"STRAße\"", "1"),
            ("FROM strasser", "2"),
            ("FROM \"straßer\"", "1"),
            ("HEADER X-Own strasse", "2"),
            ("HEADER X-Own \"straße\"", "1"),
            ("SUBJECT fine", "4"),
            ("SUBJECT \"ﬁNE\"", "3"),
            ("SUBJECT \"οδος\"", "4"),
            ("FUZZY SUBJECT strasse", "1 2"),
            ("FUZZY SUBJECT \"straße\"", "1 2"),
        ],
    );
    // `ß` sorts after all letters of ASCII, and a ligature begins with a small letter.
    wire.run("C: a SORT (SUBJECT) UTF-8 ALL\nS: * SORT 4 2 1 3\nS: a OK …");
    wire.run("C: b SORT (DISPLAYFROM) UTF-8 1:2\nS: * SORT 2 1\nS: b OK …");
    wire.run("C: c THREAD ORDEREDSUBJECT UTF-8 1:2\nS: * THREAD (1)(2)\nS: c OK …");
}

#[test]
fn html_is_found_as_a_reader_sees_it() {
    let part = "Content-Type: text/html; charset=utf-8\n";
    let plain = format!("{part}\n<p>Danke f&uuml;r H<b>e</b>llo</p><p>next</p><style>.hidden {{}}</style>\n");
    let coded = format!(
        "{part}Content-Transfer-Encoding: quoted-printable\n\n<div>un=\nbe<!-- no -->k=61nnt &amp; Co</div>\n"
    );
    let nested = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\n{part}\n{}<i>na</i>del\n--b--\n",
        "<p>Heu &ouml;</p>\n".repeat(6000)
    );
    let server = server(&[&plain, &coded, &nested]);
    let mut wire = server.select("INBOX");
    let keys = [
        ("BODY \"für\"", "1"),
        ("BODY hello", "1"),
        ("TEXT \"danke für hello\"", "1"),
        ("BODY hellonext", ""),
        ("BODY \"hello next\"", "1"),
        // The markup itself is found as before.
        ("BODY \"f&uuml;r\"", "1"),
        ("BODY \"<b>e</b>\"", "1"),
        ("BODY \".hidden\"", "1"),
        ("BODY \"unbekannt & co\"", "2"),
        ("BODY nadel", "3"),
        ("BODY \"heu ö heu ö nadel\"", "3"),
    ];
    searches(&mut wire, &keys);
    // The words are in the index, too.
    for message in 0..300 {
        server.put("INBOX", format!("Subject: {message}\r\n\r\nnothing\r\n").as_bytes());
    }
    wire.run("C: n NOOP\nS~ n OK …");
    assert!(search(&mut wire, "BODY nothing").starts_with("4 5 6"));
    let before = server.service().messages_searched();
    searches(&mut wire, &keys);
    let read = server.service().messages_searched() - before;
    assert!(read < 300, "{read} messages were read");
}
