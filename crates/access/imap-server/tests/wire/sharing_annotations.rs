//! Annotations of mailboxes of others: the user's own, and those that all users share.

use crate::harness::USER;
use crate::sharing::{BO, SHARED, server};

#[test]
fn each_user_has_private_annotations_and_all_share_the_others() {
    let server = server("lr");
    server.login().run(
        r#"
        C: a SETMETADATA P (/private/comment "ana's own" /shared/comment "for all")
        S: a OK …
        "#,
    );
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a GETMETADATA (DEPTH infinity) {SHARED} (/private /shared)
        S: * METADATA {SHARED} (/shared/comment "for all")
        S: a OK …
        C: b SETMETADATA {SHARED} (/private/comment "bo's own")
        S: b OK …
        C: c GETMETADATA {SHARED} (/private/comment /shared/comment)
        S: * METADATA {SHARED} (/private/comment "bo's own" /shared/comment "for all")
        S: c OK …
        C: d SETMETADATA {SHARED} (/shared/comment "mine")
        S: d NO [NOPERM] …
        C: e SETMETADATA {SHARED} (/private/specialuse "\\Junk")
        S: e NO [USEATTR] …
        C: f LIST "" "O*" RETURN (METADATA (/private/comment /shared/comment))
        S: * LIST (\HasNoChildren) "/" {SHARED}
        S: * METADATA {SHARED} (/private/comment "bo's own" /shared/comment "for all")
        S: f OK …
        "#
    ));
    server.login().run(
        "C: a GETMETADATA P (/private/comment)\nS: * METADATA P (/private/comment \"ana's own\")\nS: a OK …",
    );
}

/// RFC 5464 §3.3: `l`, and one of `r`, `s`, `w`, `i` and `p`.
#[test]
fn annotations_need_l_and_one_right_more() {
    let server = server("rw");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a STATUS {SHARED} (MESSAGES)
        S: * STATUS {SHARED} (MESSAGES 2)
        S: a OK …
        C: b GETMETADATA {SHARED} (/private/comment)
        S: b NO [NONEXISTENT] …
        C: c SETMETADATA {SHARED} (/private/comment "x")
        S: c NO [NONEXISTENT] …
        C: d SETMETADATA {SHARED} (/shared/comment "x")
        S: d NO [NONEXISTENT] …
        "#
    ));
    server.grant(USER, "P", BO, "l");
    bo.run(&format!(
        r#"
        C: e GETMETADATA {SHARED} (/private/comment)
        S: e NO [NOPERM] You need one of the rights rswip in this mailbox
        C: f SETMETADATA {SHARED} (/private/comment "x")
        S: f NO [NOPERM] …
        "#
    ));
    server.grant(USER, "P", BO, "lp");
    bo.run(&format!(
        r#"
        C: g STATUS {SHARED} (MESSAGES)
        S: g NO [NOPERM] …
        C: h SETMETADATA {SHARED} (/private/comment "bo's own")
        S: h OK …
        C: i SETMETADATA {SHARED} (/shared/comment "for all")
        S: i NO [NOPERM] You lack the right w in this mailbox
        "#
    ));
    server.grant(USER, "P", BO, "lw");
    bo.run(&format!(
        r#"
        C: j SETMETADATA {SHARED} (/shared/comment "for all")
        S: j OK …
        C: k GETMETADATA {SHARED} (/private/comment /shared/comment)
        S: * METADATA {SHARED} (/private/comment "bo's own" /shared/comment "for all")
        S: k OK …
        "#
    ));
}

/// RFC 6785: the script acts as the owner, and not within the rights of those who set flags.
#[test]
fn the_script_of_a_mailbox_is_set_by_those_who_administer_it() {
    let server = server("lrswiptexn");
    let mut bo = server.login_as(BO);
    bo.run(&format!(
        r#"
        C: a SETMETADATA {SHARED} (/shared/imapsieve/script "forward")
        S: a NO [NOPERM] You lack the right a in this mailbox
        C: b SETMETADATA {SHARED} (/shared/comment "x" /SHARED/ImapSieve/Script NIL)
        S: b NO [NOPERM] …
        C: c GETMETADATA {SHARED} (/shared/comment /shared/imapsieve/script)
        S: * METADATA {SHARED} (/shared/comment NIL /shared/imapsieve/script NIL)
        S: c OK …
        "#
    ));
    server.grant(USER, "P", BO, "lwa");
    bo.run(&format!("C: d SETMETADATA {SHARED} (/shared/imapsieve/script \"mark\")\nS: d OK …"));
}

/// RFC 5464 §4.3: all of it or nothing, also where the two scopes are two accounts' records.
#[test]
fn a_value_for_both_scopes_is_set_in_both_or_in_neither() {
    let server = server("lrw");
    let full = |scope: &str| {
        let many: Vec<String> = (0..100).map(|n| format!("/{scope}/{n} \"\"")).collect();
        format!("SETMETADATA {SHARED} ({})", many.join(" "))
    };
    let mut bo = server.login_as(BO);
    for (scope, other) in [("shared", "private"), ("private", "shared")] {
        bo.send(format!("a {}\r\n", full(scope)).as_bytes());
        bo.run(&format!(
            r#"
            S: a OK …
            C: b SETMETADATA {SHARED} (/{other}/comment "half" /{scope}/comment "half")
            S: b NO [METADATA TOOMANY] …
            C: c SETMETADATA {SHARED} (/{scope}/comment "half" /{other}/comment "half")
            S: c NO [METADATA TOOMANY] …
            C: d GETMETADATA {SHARED} (/private/comment /shared/comment)
            S: * METADATA {SHARED} (/private/comment NIL /shared/comment NIL)
            S: d OK …
            "#
        ));
        let empty = full(scope).replace("\"\"", "NIL");
        bo.send(format!("e {empty}\r\n").as_bytes());
        bo.expect("e OK …");
    }
    // The earlier annotations are there again.
    bo.run(&format!(
        r#"
        C: f SETMETADATA {SHARED} (/private/comment "mine" /shared/comment "ours")
        S: f OK …
        "#
    ));
    let more: Vec<String> = (0..99).map(|n| format!("/shared/{n} \"\"")).collect();
    bo.send(format!("g SETMETADATA {SHARED} ({})\r\n", more.join(" ")).as_bytes());
    bo.run(&format!(
        r#"
        S: g OK …
        C: h SETMETADATA {SHARED} (/private/comment "other" /shared/more "x")
        S: h NO [METADATA TOOMANY] …
        C: i GETMETADATA {SHARED} (/private/comment /shared/comment)
        S: * METADATA {SHARED} (/private/comment "mine" /shared/comment "ours")
        S: i OK …
        "#
    ));
}
