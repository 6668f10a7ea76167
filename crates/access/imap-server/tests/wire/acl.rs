//! Access control lists: the commands of RFC 4314, by their owner.

use posthaste_directory::{NAMED_MAX, NewAccount};
use posthaste_store::set_directory_entry;

use crate::harness::{Server, USER};

#[test]
fn the_commands_of_a_list() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CAPABILITY
        S: * CAPABILITY … ACL RIGHTS=texkn LIST-MYRIGHTS …
        S: a OK …
        C: b CREATE Projects
        S: b OK …
        # The owner has every right.
        C: c MYRIGHTS Projects
        S: * MYRIGHTS Projects lrswipkxteancd
        S: c OK …
        C: d GETACL Projects
        S: * ACL Projects ana@example.org lrswipkxteancd
        S: d OK …
        # RFC 4314 §3.1: replace, add, remove; old rights; another spelling of the name.
        C: e SETACL Projects Bo@Example.ORG lrsc
        S: e OK …
        C: f SETACL Projects bo@example.org +wd
        S: f OK …
        C: g SETACL Projects bo@example.org -kxs
        S: g OK …
        C: h SETACL Projects "-bo@example.org" e
        S: h OK …
        C: i GETACL Projects
        S: * ACL Projects ana@example.org lrswipkxteancd bo@example.org lrwted -bo@example.org ed
        S: i OK …
        # RFC 4314 §3.1: no rights at all are no entry; §3.2.
        C: j SETACL Projects -bo@example.org ""
        S: j OK …
        C: k DELETEACL Projects bo@example.org
        S: k OK …
        C: l DELETEACL Projects bo@example.org
        S: l OK …
        C: m GETACL Projects
        S: * ACL Projects ana@example.org lrswipkxteancd
        S: m OK …
        # RFC 4314 §3.4
        C: n LISTRIGHTS Projects nobody@example.org
        S: * LISTRIGHTS Projects nobody@example.org "" l r s w i p k x t e a n c d
        S: n OK …
        C: o LISTRIGHTS Projects ana@example.org
        S: * LISTRIGHTS Projects ana@example.org lrswipkxteancd
        S: o OK …
        C: p LISTRIGHTS Projects anyone
        S: * LISTRIGHTS Projects anyone ""
        S: p OK …
        "#,
    );
}

#[test]
fn what_is_refused() {
    let server = Server::start();
    server.connect().run("C: a GETACL INBOX\nS: a BAD …");
    server.login().run(
        r#"
        # RFC 4314 §3.1: what is no right.
        C: a SETACL INBOX bo@example.org lrq
        S: a BAD …
        C: b SETACL INBOX bo@example.org LR
        S: b BAD …
        C: c SETACL INBOX bo@example.org
        S: c BAD …
        C: d GETACL
        S: d BAD …
        C: e SETACL Nowhere bo@example.org lr
        S: e NO [NONEXISTENT] …
        C: f GETACL Nowhere
        S: f NO [NONEXISTENT] …
        C: g MYRIGHTS Nowhere
        S: g NO [NONEXISTENT] …
        C: h LISTRIGHTS Nowhere bo@example.org
        S: h NO [NONEXISTENT] …
        # Nobody locks himself out.
        C: i SETACL INBOX ana@example.org lr
        S: i NO [CANNOT] …
        C: j SETACL INBOX ana@example.org -a
        S: j NO [CANNOT] …
        C: k SETACL INBOX -ana@example.org r
        S: k NO [CANNOT] …
        C: l DELETEACL INBOX ana@example.org
        S: l NO [CANNOT] …
        C: m SETACL INBOX ana@example.org +lr
        S: m OK …
        # A user does not put his folders into everybody's list.
        C: n SETACL INBOX anyone lr
        S: n NO [NOPERM] …
        C: o SETACL INBOX "no one" lr
        S: o NO [CANNOT] …
        # RFC 4314 §3: the empty string, and what SASLprep refuses.
        C: p SETACL INBOX "" lr
        S: p BAD …
        C: q DELETEACL INBOX "-"
        S: q BAD …
        C: r LISTRIGHTS INBOX ""
        S: r BAD …
        C: s GETACL INBOX
        S: * ACL INBOX ana@example.org lrswipkxteancd
        S: s OK …
        "#,
    );
    server.login().run("C: a LISTRIGHTS INBOX \"b\u{7}\"\nS: a BAD …");
}

/// The record of each account that a user has named stays.
#[test]
fn a_user_gives_rights_to_a_bounded_number_of_accounts() {
    let server = Server::start();
    let (store, directory) = server.behind();
    let ana = server.wait(directory.account(USER)).expect("the directory").expect("an account");
    let name = format!("sharing/named/{}", ana.id);
    let value = format!(r#"{{"v":1,"grants":{}}}"#, NAMED_MAX - 1);
    let writing = set_directory_entry(&**store.engine(), &name, Some(value.into()));
    server.wait(writing).expect("a record");
    server.login().run(
        r#"
        C: z CREATE Box
        S: z OK …
        C: a SETACL Box bo@example.org lr
        S: a OK …
        C: b SETACL Box cy@example.org lr
        S: b NO [LIMIT] …
        # One who was named before.
        C: c SETACL Box bo@example.org r
        S: c OK …
        "#,
    );
}

#[test]
fn a_list_stays_with_its_mailbox() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE Projects
        S: a OK …
        C: b SETACL Projects bo@example.org lrk
        S: b OK …
        # RFC 4314 §4: a new mailbox has the list of the one above it.
        C: c CREATE Projects/2026/May
        S: c OK …
        C: d GETACL Projects/2026/May
        S: * ACL Projects/2026/May ana@example.org lrswipkxteancd bo@example.org lrkc
        S: d OK …
        C: e RENAME Projects Work
        S: e OK …
        C: f GETACL Work/2026
        S: * ACL Work/2026 ana@example.org lrswipkxteancd bo@example.org lrkc
        S: f OK …
        # RFC 4314 §4: DELETE deletes the list.
        C: g DELETE Work/2026
        S: g OK …
        C: h CREATE Plain
        S: h OK …
        C: i RENAME Plain Work/2026
        S: i OK …
        C: j GETACL Work/2026
        S: * ACL Work/2026 ana@example.org lrswipkxteancd
        S: j OK …
        # INBOX keeps its list, and what it became has none.
        C: k SETACL INBOX bo@example.org lr
        S: k OK …
        C: l RENAME INBOX Old
        S: l OK …
        C: m GETACL INBOX
        S: * ACL INBOX ana@example.org lrswipkxteancd bo@example.org lr
        S: m OK …
        C: n GETACL Old
        S: * ACL Old ana@example.org lrswipkxteancd
        S: n OK …
        "#,
    );
}

#[test]
fn list_with_myrights() {
    let server = Server::start();
    server.add_account("bo@example.org", NewAccount::default());
    server.login().run(
        "C: a CREATE P\nS: a OK …\nC: b CREATE P/Sub\nS: b OK …\nC: c SETACL P bo@example.org lr\nS: c OK …",
    );
    // RFC 8440 §4
    server.login_as("bo@example.org").run(
        r#"
        C: a LIST "" (INBOX "Other Users/%") RETURN (MYRIGHTS)
        S: * LIST (\HasNoChildren) "/" INBOX
        S: * MYRIGHTS INBOX lrswipkxteancd
        S: * LIST (\NonExistent \HasChildren) "/" "Other Users/ana@example.org"
        S: a OK …
        C: b LIST "" "Other Users/*" RETURN (MYRIGHTS STATUS (MESSAGES))
        S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P"
        S: * MYRIGHTS "Other Users/ana@example.org/P" lr
        S: * STATUS "Other Users/ana@example.org/P" (MESSAGES 0)
        S: b OK …
        "#,
    );
    // Without `r` there is no STATUS. RFC 5464 §3.3: METADATA needs `r`, `s`, `w`, `i` or `p`.
    for (rights, is_annotated) in [("li", true), ("la", false)] {
        server.grant(USER, "P", "bo@example.org", rights);
        let metadata = "S: * METADATA \"Other Users/ana@example.org/P\" (/shared/comment NIL)";
        server.login_as("bo@example.org").run(&format!(
            r#"
            C: a LIST "" "Other Users/*" RETURN (MYRIGHTS STATUS (MESSAGES) METADATA (/shared/comment))
            S: * LIST (\HasNoChildren) "/" "Other Users/ana@example.org/P"
            S: * MYRIGHTS "Other Users/ana@example.org/P" {rights}
            {}
            S: a OK …
            "#,
            if is_annotated { metadata } else { "" }
        ));
    }
}
