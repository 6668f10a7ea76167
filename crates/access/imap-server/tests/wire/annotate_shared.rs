//! ANNOTATE-EXPERIMENT-1 in mailboxes of others: RFC 5257 §3.3, §3.4, §4.6.

use crate::sharing::{BO, SHARED, server};

#[test]
fn private_values_are_each_users_own_and_shared_ones_need_a_right() {
    let server = server("lri");
    let mut ana = server.login();
    ana.run(
        r#"
        C: b SELECT P
        S~ b OK …
        C: c STORE 1 ANNOTATION (/comment (value.priv "ana's own" value.shared "for all"))
        S: c OK …
        "#,
    );
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a SELECT {SHARED}
        S~ * OK [ANNOTATIONS 65536] …
        S~ a OK …
        C: b FETCH 1 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv NIL value.shared "for all")))
        S: b OK …
        C: c STORE 1 ANNOTATION (/comment (value.priv "bo's own"))
        S: c OK …
        C: d STORE 1 ANNOTATION (/comment (value.shared "mine"))
        S: d NO [NOPERM] You lack the right n …
        C: e FETCH 1 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "bo's own" value.shared "for all")))
        S: e OK …
        C: f APPEND {SHARED} ANNOTATION (/comment (value.shared "no")) {{3+}}
        C: abc
        S: f NO [NOPERM] …
        C: g SEARCH ANNOTATION * value ana
        S: * SEARCH
        S: g OK …
        C: h COPY 1 INBOX
        S: h OK …
        C: i SELECT INBOX
        S~ i OK …
        C: j FETCH 1 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "bo's own" value.shared "for all")))
        S: j OK …
        C: k STORE 1 ANNOTATION (/comment (value.shared "bo's INBOX"))
        S: k OK …
        C: l COPY 1 {SHARED}
        S: l OK …
        "#
    ));
    // RFC 5257 §4.6: without the right, a copy has no shared values; private ones are the user's.
    ana.run(
        r#"
        C: d NOOP
        S~ d OK …
        C: e FETCH 1,3 (ANNOTATION (/comment value))
        S: * 1 FETCH (ANNOTATION (/comment (value.priv "ana's own" value.shared "for all")))
        S: * 3 FETCH (ANNOTATION (/comment (value.priv NIL value.shared NIL)))
        S: e OK …
        C: f SETACL P bo@example.org +n
        S: f OK …
        "#,
    );
    bo.run(&format!(
        r#"
        C: m SELECT {SHARED}
        S~ m OK …
        C: n FETCH 3 (ANNOTATION (/comment value))
        S: * 3 FETCH (ANNOTATION (/comment (value.priv "bo's own" value.shared NIL)))
        S: n OK …
        C: o STORE 3 ANNOTATION (/comment (value.shared "by bo"))
        S: o OK …
        "#
    ));
    ana.run(
        r#"
        C: g NOOP
        S~ g OK …
        C: h FETCH 3 (ANNOTATION (/comment value.shared))
        S: * 3 FETCH (ANNOTATION (/comment (value.shared "by bo")))
        S: h OK …
        "#,
    );
}
