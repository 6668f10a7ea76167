//! CREATE, DELETE, RENAME, SUBSCRIBE, LIST, LSUB, STATUS, NAMESPACE: RFC 3501 §6.3, RFC 5258,
//! RFC 5819, RFC 6154.

use posthaste_directory::NewAccount;
use posthaste_mail_model::MailboxName;

use crate::gate::Gate;
use crate::harness::{Server, USER};
use crate::sharing::{BO, SHARED};

#[test]
fn the_usual_mailboxes_are_there() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a LIST "" *
        S: * LIST (\HasNoChildren \Archive) "/" Archive
        S: * LIST (\HasNoChildren \Drafts) "/" Drafts
        S: * LIST (\HasNoChildren) "/" INBOX
        S: * LIST (\HasNoChildren \Junk) "/" Junk
        S: * LIST (\HasNoChildren \Sent) "/" Sent
        S: * LIST (\HasNoChildren \Trash) "/" Trash
        S: a OK LIST completed
        C: b LIST "" ""
        S: * LIST (\Noselect) "/" ""
        S: b OK …
        C: c NAMESPACE
        S: * NAMESPACE (("" "/")) (("Other Users/" "/")) (("Shared/" "/"))
        S: c OK …
        C: d LIST "" inb%
        S: * LIST (\HasNoChildren) "/" INBOX
        S: d OK …
        C: e LIST (SPECIAL-USE) "" (S% T%)
        S: * LIST (\HasNoChildren \Sent) "/" Sent
        S: * LIST (\HasNoChildren \Trash) "/" Trash
        S: e OK …
        "#,
    );
}

#[test]
fn create_delete_rename() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE work/2024/tax/
        S: a OK [MAILBOXID (…)] CREATE completed
        C: b LIST "" work*
        S: * LIST (\HasChildren) "/" work
        S: * LIST (\HasChildren) "/" work/2024
        S: * LIST (\HasNoChildren) "/" work/2024/tax
        S: b OK …
        C: c CREATE work
        S: c NO [ALREADYEXISTS] …
        C: d CREATE inbox
        S: d NO [ALREADYEXISTS] …
        C: e DELETE work/2024
        S: e OK …
        C: f LIST work/ %
        S: * LIST (\Noselect \HasChildren) "/" work/2024
        S: f OK …
        C: g SELECT work/2024
        S: g NO [NONEXISTENT] …
        C: h RENAME work play
        S: h OK …
        C: i LIST "" (work* play*)
        S: * LIST (\HasChildren) "/" play
        S: * LIST (\HasNoChildren) "/" play/2024/tax
        S: i OK …
        # A level that is no mailbox goes with what is below it, not before.
        C: i2 DELETE play/2024
        S: i2 NO [HASCHILDREN] …
        C: j DELETE INBOX
        S: j NO [CANNOT] …
        C: k DELETE nowhere
        S: k NO [NONEXISTENT] …
        C: l RENAME nowhere x
        S: l NO [NONEXISTENT] …
        C: m RENAME play INBOX
        S: m NO [ALREADYEXISTS] …
        C: n CREATE "a/../b"
        S: n NO [CANNOT] …
        C: o CREATE {3+}
        C: a	b
        S: o NO [CANNOT] …
        C: p CREATE "&Jjo-!"
        S: p OK …
        C: q CREATE "&Jjo!"
        S: q NO [CANNOT] the mailbox name is not valid modified UTF-7: &...- is not closed …
        C: r CREATE "wild*"
        S: r NO [CANNOT] …
        C: s CREATE boxes (USE (\Archive))
        S: s OK …
        C: t CREATE important (USE (\Important))
        S: t NO [USEATTR] …
        "#,
    );
}

/// RFC 9051 §6.3.6
#[test]
fn a_level_that_is_no_mailbox_is_renamed_with_what_is_below_it() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE work/2024/tax
        S: a OK …
        C: b DELETE work/2024
        S: b OK …
        C: c RENAME work/2024 work
        S: c NO [ALREADYEXISTS] …
        C: d RENAME work/2024 work/2024
        S: d NO [ALREADYEXISTS] …
        C: e RENAME work/2024 games/2025
        S: e OK …
        C: f LIST "" (work* games*)
        S: * LIST (\HasChildren) "/" games
        S: * LIST (\HasNoChildren) "/" games/2025/tax
        S: * LIST (\HasNoChildren) "/" work
        S: f OK …
        C: g RENAME work/2024 x
        S: g NO [NONEXISTENT] …
        "#,
    );
}

/// Such a reference is above no name. It is not the empty one, which is above every name.
#[test]
fn a_reference_that_does_not_decode_lists_nothing() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a LIST "" IN*
        S: * LIST (\HasNoChildren) "/" INBOX
        S: a OK …
        C: b LIST "&Jjo!" IN*
        S: b OK …
        C: c LIST "" ("&Jjo!*")
        S: c OK …
        C: d LSUB "&Jjo!" *
        S: d NO …
        "#,
    );
}

#[test]
fn renaming_inbox_moves_its_messages() {
    let server = Server::start();
    server.with_messages(2);
    server.login().run(
        r#"
        C: a CREATE INBOX/child
        S: a OK …
        C: b RENAME INBOX old
        S: b OK …
        C: c STATUS INBOX (MESSAGES)
        S: * STATUS INBOX (MESSAGES 0)
        S: c OK …
        C: d STATUS old (MESSAGES UIDNEXT)
        S: * STATUS old (MESSAGES 2 UIDNEXT 3)
        S: d OK …
        C: e LIST "" (INBOX* old*)
        S: * LIST (\HasChildren) "/" INBOX
        S: * LIST (\HasNoChildren) "/" INBOX/child
        S: * LIST (\HasNoChildren) "/" old
        S: e OK …
        "#,
    );
}

#[test]
fn deleting_the_selected_mailbox() {
    let server = Server::start();
    server.login().run("C: a CREATE x\nS: a OK …");
    let (mut one, mut two) = (server.select("x"), server.select("x"));
    one.run("C: a DELETE x\nS: * OK [CLOSED] …\nS: a OK …\nC: b CHECK\nS: b BAD …");
    two.run("C: a NOOP\nS: a OK …\nS: * BYE …").expect_end();
}

/// The right is checked in the mailbox that has the name at first. Then another process renames it.
#[test]
fn a_delete_takes_no_mailbox_that_got_its_name_meanwhile() {
    for (who, mailbox) in [(USER, "P"), (BO, SHARED)] {
        let (server, gate) = Gate::server();
        server.add_account(BO, NewAccount::default());
        for name in ["P", "Q"] {
            server.make_mailbox(name);
            server.put(name, b"x\r\n");
        }
        server.grant(USER, "P", BO, "lx");
        let (owner, _) = server.mailbox(USER, "P");
        let mut wire = server.login_as(who);
        gate.set_open(false);
        wire.send(format!("a DELETE {mailbox}\r\n").as_bytes());
        wire.skip_to("* OK [INPROGRESS (\"a\" NIL NIL)] Working");
        let elsewhere = gate.store_beside();
        for names in [["P", "Old"], ["Q", "P"]] {
            let [from, to] = names.map(|name| MailboxName::new(name).expect("a name"));
            server.wait(elsewhere.rename(owner, &from, &to)).expect("another name");
        }
        gate.set_open(true);
        wire.skip_to("a NO [NONEXISTENT] …");
        // Both mailboxes stay, and the first one keeps its list.
        server.login().run(
            "C: a STATUS P (MESSAGES)\nS~ * STATUS P (MESSAGES 1)\nS~ a OK …\n\
             C: b STATUS Old (MESSAGES)\nS~ * STATUS Old (MESSAGES 1)\nS~ b OK …",
        );
        server.login_as(BO).run(
            r#"
            C: a MYRIGHTS "Other Users/ana@example.org/Old"
            S~ * MYRIGHTS "Other Users/ana@example.org/Old" lx…
            S~ a OK …
            "#,
        );
    }
}

#[test]
fn subscriptions() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE foo/bar
        S: a OK …
        C: b SUBSCRIBE foo/bar
        S: b OK …
        C: c SUBSCRIBE gone/away
        S: c OK …
        C: d UNSUBSCRIBE Trash
        S: d OK …
        C: e UNSUBSCRIBE never
        S: e OK …
        C: f LSUB "" *
        S~ * LSUB () "/" foo/bar
        S: * LSUB () "/" gone/away
        S~ f OK …
        C: g LSUB "" foo%
        S: * LSUB (\Noselect) "/" foo
        S: g OK …
        C: h LIST (SUBSCRIBED) "" (foo* gone* Trash)
        S: * LIST (\HasNoChildren \Subscribed) "/" foo/bar
        S: * LIST (\NonExistent \HasNoChildren \Subscribed) "/" gone/away
        S: h OK …
        C: i LIST (SUBSCRIBED RECURSIVEMATCH) "" (foo gone)
        S: * LIST (\HasChildren) "/" foo ("CHILDINFO" ("SUBSCRIBED"))
        S: * LIST (\NonExistent \HasNoChildren) "/" gone ("CHILDINFO" ("SUBSCRIBED"))
        S: i OK …
        C: j LIST () "" foo* RETURN (SUBSCRIBED CHILDREN)
        S: * LIST (\HasChildren) "/" foo
        S: * LIST (\HasNoChildren \Subscribed) "/" foo/bar
        S: j OK …
        C: k LIST (RECURSIVEMATCH) "" *
        S: k BAD …
        "#,
    );
}

#[test]
fn status() {
    let server = Server::start();
    server.with_messages(3);
    server.login().run(
        r#"
        C: a STATUS INBOX (MESSAGES RECENT UIDNEXT UIDVALIDITY UNSEEN)
        S: * STATUS INBOX (MESSAGES 3 RECENT 3 UIDNEXT 4 UIDVALIDITY … UNSEEN 3)
        S: a OK STATUS completed
        C: b STATUS Sent (HIGHESTMODSEQ DELETED SIZE APPENDLIMIT MAILBOXID)
        S: * STATUS Sent (HIGHESTMODSEQ 1 DELETED 0 SIZE 0 APPENDLIMIT 67108864 MAILBOXID (…))
        S: b OK …
        C: c STATUS nowhere (MESSAGES)
        S: c NO [NONEXISTENT] …
        C: d LIST "" (INBOX Sent nowhere) RETURN (STATUS (MESSAGES SIZE))
        S: * LIST (\HasNoChildren) "/" INBOX
        S: * STATUS INBOX (MESSAGES 3 SIZE 90)
        S: * LIST (\HasNoChildren \Sent) "/" Sent
        S: * STATUS Sent (MESSAGES 0 SIZE 0)
        S: d OK …
        # Of the selected mailbox too, whatever was reported so far.
        C: e SELECT INBOX
        S~ e OK …
        # (The item HIGHESTMODSEQ enabled CONDSTORE.)
        C: f STORE 1 +FLAGS.SILENT (\Seen \Deleted)
        S: * 1 FETCH (UID 1 MODSEQ (4))
        S: f OK …
        C: g STATUS INBOX (UNSEEN DELETED)
        S: * STATUS INBOX (UNSEEN 2 DELETED 1)
        S: g OK …
        "#,
    );
}

#[test]
fn levels_are_listed_for_hidden_names_below_them() {
    let server = Server::start();
    server.login().run(
        r#"
        C: a CREATE music/rock
        S~ a OK …
        C: b DELETE music
        S: b OK …
        C: c CREATE news/today
        S~ c OK …
        # RFC 5258 §5, example 11; RFC 3501 §6.3.4.
        C: d LIST () "" (m% n%)
        S: * LIST (\NonExistent \HasChildren) "/" music
        S: * LIST (\HasChildren) "/" news
        S: d OK …
        C: e LIST "" (m* n*)
        S: * LIST (\HasNoChildren) "/" music/rock
        S: * LIST (\HasChildren) "/" news
        S: * LIST (\HasNoChildren) "/" news/today
        S: e OK …
        C: e2 LIST INBOX ("")
        S: e2 OK …
        C: e3 LIST "" ("" INBOX)
        S: * LIST (\HasNoChildren) "/" INBOX
        S: e3 OK …
        C: f LIST "" (m% music/rock)
        S: * LIST (\HasNoChildren) "/" music/rock
        S: f OK …
        C: g SUBSCRIBE music/rock
        S: g OK …
        C: h SUBSCRIBE news/today
        S: h OK …
        # RFC 5258 §3.5: no CHILDINFO for names that are shown themselves; RFC 5819 §2, §3: no STATUS of a parent that
        # is not subscribed itself.
        C: i LIST (SUBSCRIBED RECURSIVEMATCH) "" (m* n%) RETURN (STATUS (MESSAGES))
        S: * LIST (\HasNoChildren \Subscribed) "/" music/rock
        S: * STATUS music/rock (MESSAGES 0)
        S: * LIST (\HasChildren) "/" news ("CHILDINFO" ("SUBSCRIBED"))
        S: i OK …
        # Both options have to hold of the same mailbox.
        C: j CREATE news/old (USE (\Archive))
        S~ j OK …
        C: k LIST (SUBSCRIBED SPECIAL-USE RECURSIVEMATCH) "" news
        S: k OK …
        C: l SUBSCRIBE news/old
        S: l OK …
        C: m LIST (SUBSCRIBED SPECIAL-USE RECURSIVEMATCH) "" news
        S: * LIST (\HasChildren) "/" news ("CHILDINFO" ("SUBSCRIBED" "SPECIAL-USE"))
        S: m OK …
        # RFC 3501 §6.3.9: LSUB shows a level for what is below it where `%` asks for levels.
        C: n LSUB "" m%
        S: * LSUB (\Noselect) "/" music
        S: n OK …
        C: o LSUB "" music
        S: o OK …
        "#,
    );
}
