//! LANGUAGE, COMPARATOR and I18NLEVEL: RFC 5255.

use crate::harness::Server;

#[test]
fn texts_are_in_english() {
    let server = Server::start();
    server.connect().run("C: a LANGUAGE\nS: * LANGUAGE (EN i-default)\nS: a OK …");
    server.login().run(
        r#"
        # RFC 5255 §3.3
        C: a LANGUAGE
        S: * LANGUAGE (EN i-default)
        S: a OK LANGUAGE completed
        C: b LANGUAGE DE EN-us
        S: * LANGUAGE (EN)
        S: b OK …
        C: c LANGUAGE default
        S: * LANGUAGE (i-default)
        S: c OK …
        C: d LANGUAGE "FR" x-klingon
        S: d NO …
        C: e CAPABILITY
        S: * CAPABILITY … LANGUAGE … I18NLEVEL=1 I18NLEVEL=2 …
        S: e OK …
        "#,
    );
}

#[test]
fn texts_are_compared_by_unicode_casemap() {
    let server = Server::start();
    server.put("INBOX", "Subject: =?UTF-8?Q?STRASSE_=C3=84RGER?=\r\n\r\nx\r\n".as_bytes());
    server.put("INBOX", "Subject: =?UTF-8?Q?=C3=A4rger?=\r\n\r\nx\r\n".as_bytes());
    server.connect().run("C: a COMPARATOR\nS: a BAD …");
    server.select("INBOX").run(
        r#"
        # RFC 5255 §4.7
        C: a COMPARATOR
        S: * COMPARATOR i;unicode-casemap
        S: a OK COMPARATOR completed
        C: b COMPARATOR "cz;*" "i;*"
        S: * COMPARATOR i;unicode-casemap
        S: b OK …
        C: c COMPARATOR default
        S: * COMPARATOR i;unicode-casemap
        S: c OK …
        C: d COMPARATOR i;octet "i;ascii-*"
        S: d NO [BADCOMPARATOR] …
        C: e SEARCH CHARSET UTF-8 SUBJECT {6}
        S: + …
        C: ärgeR
        S: * SEARCH 1 2
        S: e OK …
        "#,
    );
}
