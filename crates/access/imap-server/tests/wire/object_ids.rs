//! OBJECTID+: draft-ietf-mailmaint-imap-objectid-bis-06, with its examples.

use std::time::{Duration, Instant};

use posthaste_directory::NewAccount;
use posthaste_mail_model::MailboxName;
use posthaste_testkit::{READ_WITHIN, Wire};

use crate::gate::Gate;
use crate::harness::{PASSWORD, Server, USER, fetch_text};
use crate::sharing::{BO, SHARED, server as sharing};

/// The ids that the server sends: of an account, and of one of its mailboxes.
fn ids(server: &Server, owner: &str, mailbox: &str) -> (String, String) {
    let (account, mailbox) = server.mailbox(owner, mailbox);
    (format!("u{account}"), mailbox.to_string())
}

/// The lines of the answer to a command.
fn answer(wire: &mut Wire, command: &str) -> Vec<String> {
    wire.send(format!("q {command}\r\n").as_bytes());
    wire.skip_to("q …")
}

/// SELECT by ids alone: there is no mailbox of this name.
fn by_id(wire: &mut Wire, ids: &str) -> Vec<String> {
    answer(wire, &format!("SELECT nowhere (OBJECTID ({ids}))"))
}

/// Draft §2.1: as RFC 8474 has it until the extension is activated.
#[test]
fn clients_of_rfc_8474_see_no_difference() {
    let server = Server::start();
    server.with_messages(1);
    server.login().run(
        r#"
        C: a CREATE foo
        S: a OK [MAILBOXID (…)] …
        C: b SELECT foo
        S~ * OK [MAILBOXID (…)] …
        S~ b OK …
        C: c RENAME foo bar
        S: c OK RENAME completed
        C: d STATUS bar (MAILBOXID)
        S: * STATUS bar (MAILBOXID (…))
        S: d OK …
        C: e EXAMINE INBOX
        S~ * OK [MAILBOXID (…)] …
        S~ e OK …
        C: f FETCH 1 (EMAILID THREADID)
        S: * 1 FETCH (EMAILID (…) THREADID (…))
        S: f OK …
        C: g SEARCH RETURN (COUNT UPDATE (EMAILID)) ALL
        S~ g OK …
        "#,
    );
}

/// Draft §2.2: each use activates it, before any response, and once. So does one that fails.
#[test]
fn every_use_activates_it_once() {
    let server = Server::start();
    server.with_messages(1);
    for command in [
        "SELECT INBOX (OBJECTID)",
        "EXAMINE INBOX (CONDSTORE OBJECTID)",
        "SELECT nowhere (OBJECTID)",
        "STATUS INBOX (MESSAGES OBJECTID)",
        "STATUS nowhere (OBJECTID)",
        "LIST \"\" INBOX RETURN (STATUS (OBJECTID))",
        "LIST \"\" nowhere RETURN (STATUS (OBJECTID))",
        "FETCH 1 OBJECTID",
        "UID FETCH 7 (FLAGS OBJECTID)",
        "SEARCH RETURN (COUNT UPDATE (OBJECTID)) ALL",
        "UID SORT RETURN (COUNT UPDATE (OBJECTID)) (DATE) UTF-8 ALL",
        "NOTIFY SET (SELECTED (MessageNew (OBJECTID) MessageExpunge))",
    ] {
        let mut wire = server.select("INBOX");
        let lines = answer(&mut wire, command);
        assert_eq!(lines[0], "* ENABLED OBJECTID+", "{command}");
        let again = [lines[1..].to_vec(), answer(&mut wire, command)].concat();
        assert!(!again.iter().any(|line| line.contains("ENABLED")), "{command}: {again:?}");
        wire.run("C: z SELECT INBOX\nS~ * OK [OBJECTID (MAILBOXID … ACCOUNTID u…)] Ok\nS~ z OK …");
    }
    server.login().run(
        r#"
        C: a ENABLE OBJECTID+ CONDSTORE
        S: * ENABLED OBJECTID+ CONDSTORE
        S: a OK …
        C: b ENABLE objectid+
        S: * ENABLED
        S: b OK …
        C: c STATUS INBOX (OBJECTID)
        S: * STATUS INBOX (OBJECTID (MAILBOXID … ACCOUNTID u…))
        S: c OK …
        "#,
    );
}

#[test]
fn a_command_that_is_not_done_does_not_activate_it() {
    let server = Server::start();
    server.with_messages(1);
    let mut wire = server.select("INBOX");
    for command in [
        "SELECT INBOX (OBJECTID ())",
        "SELECT INBOX (OBJECTID (MAILBOXID))",
        "SELECT INBOX (OBJECTID (MAILBOXID a.b))",
        "SELECT INBOX (QRESYNC (1 1) OBJECTID)",
        "FETCH 1 (OBJECTID (EMAILID x))",
    ] {
        // An OK in between resets the count of bad commands.
        wire.run(&format!("C: a {command}\nS~ a BAD …\nC: b UID FETCH 9 FLAGS\nS: b OK …"));
    }
    wire.run("C: c SELECT INBOX\nS~ * OK [MAILBOXID (…)] …\nS~ c OK …");
    // RFC 8437: the next login has enabled nothing.
    wire.run(&format!(
        r#"
        C: d ENABLE OBJECTID+
        S: * ENABLED OBJECTID+
        S: d OK …
        C: e UNAUTHENTICATE
        S: e OK …
        C: f LOGIN {USER} "{PASSWORD}"
        S: f OK …
        C: g SELECT INBOX
        S~ * OK [MAILBOXID (…)] …
        S~ g OK …
        "#
    ));
}

/// Draft §7.1: the examples. The name counts if no mailbox has the ids.
#[test]
fn a_mailbox_is_selected_by_its_ids() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: 3 create foo\nS: 3 OK …");
    let (account, foo) = ids(&server, USER, "foo");
    wire.run(&format!(
        r#"
        C: 27 select "foo" (OBJECTID)
        S: * ENABLED OBJECTID+
        S~ * OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] Ok
        S~ 27 OK [READ-WRITE] …
        "#
    ));
    // Another client renames it, and makes another one of that name.
    server.login().run("C: a RENAME foo renamed\nS: a OK …\nC: b CREATE foo\nS: b OK …");
    let (_, other) = ids(&server, USER, "foo");
    wire.run(&format!(
        r#"
        C: 28 select "foo" (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S: * OK [CLOSED] …
        S~ * OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] Ok
        S~ 28 OK [READ-WRITE] …
        C: 28a examine "foo" (CONDSTORE OBJECTID (accountid {account} X-NEW 1 mailboxid {foo}))
        S~ * OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] Ok
        S~ 28a OK [READ-ONLY] …
        # The id of a mailbox suffices here.
        C: 28b select "a//b" (OBJECTID (MAILBOXID {foo}))
        S~ * OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] Ok
        S~ 28b OK [READ-WRITE] …
        C: 29 select "foo" (OBJECTID (MAILBOXID Fno-longer-exists ACCOUNTID {account}))
        S~ * OK [OBJECTID (MAILBOXID {other} ACCOUNTID {account})] Ok
        S~ 29 OK [READ-WRITE] …
        # Ids of accounts that nobody has, or without the id of a mailbox.
        C: 29a select "foo" (OBJECTID (MAILBOXID {foo} ACCOUNTID u1a48e8e3))
        S~ * OK [OBJECTID (MAILBOXID {other} ACCOUNTID {account})] Ok
        S~ 29a OK [READ-WRITE] …
        C: 29b select "foo" (OBJECTID (ACCOUNTID {account}))
        S~ * OK [OBJECTID (MAILBOXID {other} ACCOUNTID {account})] Ok
        S~ 29b OK [READ-WRITE] …
        "#
    ));
}

#[test]
fn the_ids_of_a_removed_mailbox_open_nothing() {
    let server = Server::start();
    let mut wire = server.select("INBOX");
    wire.run("C: a CREATE foo\nS: a OK …");
    let (account, foo) = ids(&server, USER, "foo");
    server.login().run("C: a DELETE foo\nS: a OK …");
    wire.run(&format!(
        r#"
        C: b SELECT foo (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S: * ENABLED OBJECTID+
        S: * OK [CLOSED] …
        S: b NO [NONEXISTENT] …
        C: c CHECK
        S: c BAD …
        # A mailbox of that name is another one.
        C: d CREATE foo
        S: d OK [OBJECTID (MAILBOXID … ACCOUNTID {account})] …
        C: e SELECT foo (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S~ e OK [READ-WRITE] …
        "#
    ));
    assert_ne!(ids(&server, USER, "foo").1, foo);
}

/// Draft §7.1: LIST reports the name that the mailbox has, with the one that the client used.
#[test]
fn in_rev2_the_present_name_is_reported() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a CREATE foo\nS: a OK …\nC: b RENAME foo renamed\nS: b OK …");
    let (account, foo) = ids(&server, USER, "renamed");
    wire.run(&format!(
        r#"
        C: c ENABLE IMAP4rev2
        S: * ENABLED IMAP4rev2
        S: c OK …
        C: d SELECT foo (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S: * ENABLED OBJECTID+
        S~ * LIST (…) "/" renamed ("OLDNAME" (foo))
        S: d OK [READ-WRITE] …
        "#
    ));
}

/// Draft §7.2 to §7.4: the examples. §11.4: each id is the one of RFC 8474.
#[test]
fn mailboxes_that_are_created_renamed_and_listed() {
    let server = Server::start();
    server.with_messages(1);
    let mut wire = server.login();
    wire.run("C: 1 enable OBJECTID+\nS: * ENABLED OBJECTID+\nS: 1 OK …");
    wire.run("C: 3 create foo\nS: 3 OK [OBJECTID (MAILBOXID … ACCOUNTID u…)] CREATE completed");
    let (account, foo) = ids(&server, USER, "foo");
    let (_, inbox) = ids(&server, USER, "INBOX");
    wire.run(&format!(
        r#"
        C: 6 status foo (objectid mailboxid)
        S: * STATUS foo (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}) MAILBOXID ({foo}))
        S: 6 OK …
        C: 8 rename foo renamed
        S: 8 OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] RENAME completed
        C: 9 rename nowhere foo
        S: 9 NO [NONEXISTENT] …
        C: 11 list "" (renamed INBOX) return (status (objectid))
        S: * LIST (…) "/" INBOX
        S: * STATUS INBOX (OBJECTID (MAILBOXID {inbox} ACCOUNTID {account}))
        S: * LIST (…) "/" renamed
        S: * STATUS renamed (OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S: 11 OK …
        # A level that is no mailbox has no id.
        C: 12 create a/b
        S: 12 OK [OBJECTID (…)] …
        C: 13 delete a
        S: 13 OK …
        C: 14 rename a c
        S: 14 OK [OBJECTID (ACCOUNTID {account})] …
        "#
    ));
    // RFC 9051 §6.3.6: INBOX stays, and its messages are in a mailbox that is new.
    wire.run("C: 15 rename INBOX old");
    let line = wire.expect("15 OK [OBJECTID (…)] …");
    let (_, old) = ids(&server, USER, "old");
    assert!(line.contains(&format!("(MAILBOXID {old} ACCOUNTID {account})")) && old != inbox, "{line}");
}

/// Another session renames it again before the answer, and makes another one of that name.
#[test]
fn a_rename_returns_the_id_of_the_mailbox_that_it_renamed() {
    let (server, gate) = Gate::server();
    for name in ["foo", "top"] {
        server.make_mailbox(name);
    }
    let (account, foo) = ids(&server, USER, "foo");
    let mut wire = server.login();
    wire.run("C: a ENABLE OBJECTID+\nS~ a OK …");
    let ((store, _), (owner, _)) = (server.behind(), server.mailbox(USER, "foo"));
    let [new, away] = ["top/bar", "away"].map(|name| MailboxName::new(name).expect("a name"));
    // After the change, the command reads the rights that the new name inherits.
    gate.set_directory_open(false);
    wire.send(b"b RENAME foo top/bar\r\n");
    let deadline = Instant::now() + READ_WITHIN;
    while server.wait(store.list(owner)).expect("a list").find(&new).is_none() {
        assert!(Instant::now() < deadline, "nothing was renamed");
        std::thread::sleep(Duration::from_millis(1));
    }
    server.wait(store.rename(owner, &new, &away)).expect("another name");
    server.wait(store.create(owner, &new, None)).expect("another mailbox");
    gate.set_directory_open(true);
    let answer = wire.skip_to("b OK [OBJECTID (…)] …").pop().expect("a line");
    assert!(answer.contains(&format!("(MAILBOXID {foo} ACCOUNTID {account})")), "{answer}");
}

/// Draft §7.5. §11.4: the ids are those of RFC 8474. §11.9: also of UIDFETCH.
#[test]
fn messages_have_their_ids_in_one_list() {
    let server = Server::start();
    server.with_messages(2);
    let mut wire = server.select("INBOX");
    let alone: Vec<String> = ["EMAILID", "THREADID"].map(|item| fetch_text(&mut wire, 1, item)).to_vec();
    let listed = alone.join(" ").replace(['(', ')'], "");
    let (account, inbox) = ids(&server, USER, "INBOX");
    wire.run(&format!(
        r#"
        C: 30 fetch 1:* (objectid)
        S: * ENABLED OBJECTID+
        S: * 1 FETCH (OBJECTID ({listed}))
        S: * 2 FETCH (OBJECTID (EMAILID … THREADID …))
        S: 30 OK …
        C: 31 uid fetch 1 (flags objectid body.peek[text]<0.1> emailid)
        S: * 1 FETCH (UID 1 FLAGS (…) OBJECTID ({listed}) BODY[TEXT]<0> {{1}}
        S: B {}
        S: 31 OK …
        "#,
        alone[0].clone() + ")"
    ));
    server.login().run(&format!(
        r#"
        C: a ENABLE UIDONLY
        S: * ENABLED UIDONLY
        S: a OK …
        C: b SELECT INBOX
        S~ * OK [MAILBOXID (…)] …
        S~ b OK …
        # It is refused, and so it is no use of the extension.
        C: c FETCH 1 (OBJECTID)
        S: c BAD [UIDREQUIRED] …
        C: d UID FETCH 1:2 (OBJECTID)
        S: * ENABLED OBJECTID+
        S: * 1 UIDFETCH (OBJECTID ({listed}))
        S: * 2 UIDFETCH (OBJECTID (EMAILID … THREADID …))
        S: d OK …
        C: e SELECT nowhere (OBJECTID (MAILBOXID {inbox} ACCOUNTID {account}))
        S~ * 2 EXISTS
        S~ * OK [OBJECTID (MAILBOXID {inbox} ACCOUNTID {account})] Ok
        S~ e OK …
        "#
    ));
}

/// RFC 7162 §3.2.5: what a client remembers of a mailbox stays valid under another name.
#[test]
fn a_renamed_mailbox_is_resynchronised() {
    let server = Server::start();
    let mut wire = server.login();
    wire.run("C: a CREATE foo\nS: a OK …");
    server.put("foo", b"Subject: x\r\n\r\ny\r\n");
    server.put("foo", b"Subject: y\r\n\r\ny\r\n");
    let (account, foo) = ids(&server, USER, "foo");
    wire.run("C: b ENABLE QRESYNC OBJECTID+\nS: * ENABLED QRESYNC OBJECTID+\nS: b OK …");
    let lines = answer(&mut wire, "SELECT foo");
    let value = |code: &str| {
        let rest = lines.iter().find_map(|line| line.strip_prefix(&format!("* OK [{code} ")));
        rest.and_then(|rest| rest.split(']').next()).expect("a value").to_owned()
    };
    let (validity, modseq) = (value("UIDVALIDITY"), value("HIGHESTMODSEQ"));
    wire.run("C: c UNSELECT\nS: c OK …");
    server.login().run(
        r#"
        C: a RENAME foo bar
        S: a OK …
        C: b SELECT bar
        S~ b OK …
        C: c STORE 1 +FLAGS.SILENT (\Flagged)
        S: c OK …
        C: d STORE 2 +FLAGS.SILENT (\Deleted)
        S: d OK …
        C: e EXPUNGE
        S~ e OK …
        "#,
    );
    wire.run(&format!(
        r#"
        C: d SELECT foo (QRESYNC ({validity} {modseq}) OBJECTID (MAILBOXID {foo} ACCOUNTID {account}))
        S~ * OK [OBJECTID (MAILBOXID {foo} ACCOUNTID {account})] Ok
        S~ * VANISHED (EARLIER) 2
        S: * 1 FETCH (…\Flagged…)
        S: d OK …
        "#
    ));
}

/// New messages of NOTIFY (RFC 5465 §5.2), and those that enter a result (§7).
#[test]
fn new_messages_have_their_ids() {
    let server = Server::start();
    let mut one = server.select("INBOX");
    one.run("C: a NOTIFY SET (SELECTED (MessageNew (OBJECTID) MessageExpunge))\nS~ a OK …");
    let mut two = server.select("INBOX");
    two.run("C: a UID SEARCH RETURN (COUNT UPDATE (OBJECTID)) ALL\nS~ a OK …");
    server.put("INBOX", b"Subject: x\r\n\r\ny\r\n");
    for wire in [&mut one, &mut two] {
        wire.run("C: n NOOP\nS~ * 1 FETCH (…OBJECTID (EMAILID … THREADID …)…)\nS~ n OK …");
    }
}

/// Draft §11.8: the account of a shared mailbox is its owner's. The ids find it under any name.
#[test]
fn mailboxes_of_others_have_the_id_of_their_owner() {
    let server = sharing("lrk");
    server.add_account("sales@example.org", NewAccount { shared: true, ..NewAccount::default() });
    server.grant("sales@example.org", "INBOX", "anyone", "lr");
    let ((ana, p), (bo, inbox)) = (ids(&server, USER, "P"), ids(&server, BO, "INBOX"));
    let (sales, shared) = ids(&server, "sales@example.org", "INBOX");
    assert!(ana != bo && bo != sales && sales != ana);
    let mut wire = server.login_as(BO);
    wire.run(&format!(
        r#"
        C: a STATUS INBOX (OBJECTID)
        S: * ENABLED OBJECTID+
        S: * STATUS INBOX (OBJECTID (MAILBOXID {inbox} ACCOUNTID {bo}))
        S: a OK …
        C: b STATUS Shared/sales@example.org/INBOX (OBJECTID)
        S: * STATUS Shared/sales@example.org/INBOX (OBJECTID (MAILBOXID {shared} ACCOUNTID {sales}))
        S: b OK …
        C: c LIST "" "Other Users/*" RETURN (STATUS (OBJECTID))
        S: * LIST (…) "/" {SHARED}
        S: * STATUS {SHARED} (OBJECTID (MAILBOXID {p} ACCOUNTID {ana}))
        S: c OK …
        C: d SELECT {SHARED}
        S~ * OK [OBJECTID (MAILBOXID {p} ACCOUNTID {ana})] Ok
        S~ d OK …
        C: e CREATE "Other Users/ana@example.org/P/Q"
        S: e OK [OBJECTID (MAILBOXID … ACCOUNTID {ana})] …
        "#
    ));
    // Its owner renames it.
    server.login().run("C: a RENAME P Projects\nS: a OK …");
    wire.run(&format!(
        r#"
        C: f SELECT {SHARED} (OBJECTID (MAILBOXID {p} ACCOUNTID {ana}))
        S: * OK [CLOSED] …
        S~ * 2 EXISTS
        S~ * OK [OBJECTID (MAILBOXID {p} ACCOUNTID {ana})] Ok
        S~ f OK [READ-ONLY] …
        C: g EXAMINE {SHARED} (OBJECTID (MAILBOXID {p}))
        S~ * OK [OBJECTID (MAILBOXID {p} ACCOUNTID {ana})] Ok
        S~ g OK [READ-ONLY] …
        C: h FETCH 1 (FLAGS OBJECTID)
        S: * 1 FETCH (FLAGS (…) OBJECTID (EMAILID … THREADID …))
        S: h OK …
        # It is not in an account of another id.
        C: i SELECT {SHARED} (OBJECTID (MAILBOXID {p} ACCOUNTID {sales}))
        S: * OK [CLOSED] …
        S: i NO [NONEXISTENT] …
        "#
    ));
}

/// RFC 4314 §6: without `l` no answer shows that a mailbox exists. SELECT needs `r`.
#[test]
fn ids_give_no_rights() {
    let server = sharing("l");
    let (account, p) = ids(&server, USER, "P");
    let mut wire = server.login_as(BO);
    let pairs = format!("MAILBOXID {p} ACCOUNTID {account}");
    let mut last = |rights: &str| {
        answer(&mut wire, "SELECT INBOX");
        server.grant(USER, "P", BO, rights);
        by_id(&mut wire, &pairs).pop().expect("a last line")
    };
    assert!(last("l").starts_with("q NO [NOPERM] "), "{}", last("l"));
    assert!(last("r").starts_with("q OK [READ-ONLY] "), "{}", last("r"));
    assert!(last("rw").starts_with("q OK [READ-WRITE] "), "{}", last("rw"));
    for rights in ["", "i", "swipkxtea"] {
        assert!(last(rights).starts_with("q NO [NONEXISTENT] "), "{rights}: {}", last(rights));
    }
}

/// A user's own mailbox below `Other Users/bo@example.org` hides those that bo shares, as in
/// `sharing.rs`.
#[test]
fn a_mailbox_without_a_name_is_not_found() {
    let server = sharing("lr");
    server.grant(BO, "INBOX", USER, "lr");
    let (account, inbox) = ids(&server, BO, "INBOX");
    let pairs = format!("MAILBOXID {inbox} ACCOUNTID {account}");
    let mut wire = server.login();
    let lines = by_id(&mut wire, &pairs);
    assert!(lines.iter().any(|line| line.contains(&pairs)), "{lines:?}");
    answer(&mut wire, "SELECT INBOX");
    server.make_mailbox("Other Users/bo@example.org/recipes");
    let lines = by_id(&mut wire, &pairs);
    assert!(lines.iter().any(|line| line.starts_with("q NO [NONEXISTENT] ")), "{lines:?}");
}
