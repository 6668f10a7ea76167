//! Isolation. Without rights, each command treats a mailbox of another account as one that does not
//! exist. It treats an account that shares nothing as an unknown account.

use posthaste_directory::{AccountChange, NewAccount};
use posthaste_mail_model::{AccountId, Id, MailboxId};
use posthaste_testkit::Wire;

use crate::harness::{Server, USER};

const BO: &str = "bo@example.org";

/// Commands on a mailbox, `@` for its name.
const COMMANDS: [&str; 33] = [
    "SELECT @",
    "EXAMINE @",
    "SELECT @ (CONDSTORE)",
    "SELECT @ (OBJECTID)",
    "STATUS @ (OBJECTID)",
    "STATUS @ (MESSAGES UNSEEN MAILBOXID)",
    "CREATE @/below",
    "CREATE @",
    "DELETE @",
    "RENAME @ Mine",
    "RENAME @ @2",
    "RENAME Sent @/Sent",
    "RENAME Sent @",
    "SUBSCRIBE @",
    "UNSUBSCRIBE @",
    "LIST \"\" @",
    "LIST \"\" @ RETURN (STATUS (MESSAGES) MYRIGHTS METADATA (/shared/comment))",
    "LIST @ %",
    "LSUB \"\" @",
    "APPEND @ {4+}\r\nx\r\n",
    "COPY 1 @",
    "UID MOVE 1 @",
    "REPLACE 1 @ {4+}\r\nx\r\n",
    "GETACL @",
    "SETACL @ bo@example.org lr",
    "DELETEACL @ bo@example.org",
    "MYRIGHTS @",
    "GETQUOTAROOT @",
    "GETMETADATA @ (/shared/comment /private/comment)",
    "SETMETADATA @ (/private/comment \"x\")",
    "ESEARCH IN (mailboxes @) ALL",
    "ESEARCH IN (subtree @) RETURN (COUNT) ALL",
    "NOTIFY SET STATUS (SUBTREE @ (MessageNew MessageExpunge MailboxName))",
];

fn answer(wire: &mut Wire, command: &str) -> Vec<String> {
    wire.send(format!("q {command}\r\n").as_bytes());
    wire.skip_to("q …")
}

/// The answer to a command on a mailbox, without its name.
fn answer_on(wire: &mut Wire, command: &str, name: &str) -> String {
    let masked = name.replace('@', "\0");
    let quoted = |suffix: &str| format!("\"{masked}{suffix}\"");
    // The identifier of SETACL has an `@`, too.
    let command = command.replace("bo@", "bo\0");
    let command = command.replace("@/below", &quoted("/below")).replace("@/Sent", &quoted("/Sent"));
    let command = command.replace("@2", &quoted("2")).replace('@', &quoted("")).replace('\0', "@");
    answer(wire, &command).join("; ").replace(name, "@")
}

/// ana has `Secret`, in which nobody has rights, `Open`, and a drop box.
fn server() -> Server {
    let server = Server::start();
    server.add_account(BO, NewAccount::default());
    server.add_account("cy@example.org", NewAccount::default());
    server
        .login()
        .run("C: a CREATE Secret/Sub\nS: a OK …\nC: b CREATE Open\nS: b OK …\nC: c CREATE Box\nS: c OK …");
    server.put("Secret", b"Subject: secret\r\n\r\nsecret\r\n");
    server.grant(USER, "Open", BO, "lr");
    server
}

fn bo(server: &Server) -> Wire {
    let mut wire = server.login_as(BO);
    answer(&mut wire, "APPEND INBOX {4+}\r\nx\r\n");
    answer(&mut wire, "SELECT INBOX");
    wire
}

#[track_caller]
fn cannot_distinguish(server: &Server, hidden: &str, missing: &str) {
    let mut wire = bo(server);
    answer(&mut wire, "ENABLE OBJECTID+");
    let mut differing = Vec::new();
    for command in COMMANDS {
        let hides = answer_on(&mut wire, command, hidden);
        answer(&mut wire, "SELECT INBOX");
        let misses = answer_on(&mut wire, command, missing);
        answer(&mut wire, "SELECT INBOX");
        if hides != misses {
            differing.push(format!("{command}: {hides:?} for {hidden}, {misses:?} for {missing}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn a_mailbox_without_rights_is_one_that_does_not_exist() {
    let ana = "Other Users/ana@example.org";
    cannot_distinguish(&server(), &format!("{ana}/Secret"), &format!("{ana}/Nothng"));
    cannot_distinguish(&server(), &format!("{ana}/Secret/Sub"), &format!("{ana}/Nothng/Sub"));
    // Not even INBOX, which everybody has.
    cannot_distinguish(&server(), &format!("{ana}/INBOX"), &format!("{ana}/INBUX"));
}

#[test]
fn an_account_that_shares_nothing_looks_like_a_missing_one() {
    let (there, not_there) = ("Other Users/cy@example.org", "Other Users/xy@example.org");
    cannot_distinguish(&server(), &format!("{there}/INBOX"), &format!("{not_there}/INBOX"));
    cannot_distinguish(&server(), there, not_there);
    // The user's own account is not one of the others, and another user's is not a shared one.
    cannot_distinguish(&server(), &format!("Other Users/{BO}/INBOX"), &format!("{not_there}/INBOX"));
    cannot_distinguish(&server(), "Shared/ana@example.org/Open", "Shared/xya@example.org/Open");
}

#[test]
fn revoked_rights_act_as_if_never_granted() {
    let server = server();
    let ana = "Other Users/ana@example.org";
    server.grant(USER, "Secret", "anyone", "lr");
    server.grant(USER, "Secret", &format!("-{BO}"), "lrswipkxtea");
    cannot_distinguish(&server, &format!("{ana}/Secret"), &format!("{ana}/Nothng"));
}

#[test]
fn identifiers_reveal_nothing_about_accounts() {
    let server = server();
    let mut wire = server.login();
    for command in ["SETACL INBOX @ lr", "LISTRIGHTS INBOX @", "DELETEACL INBOX @"] {
        let ask = |wire: &mut Wire, name: &str| {
            answer(wire, &command.replace('@', name)).join("; ").replace(name, "@")
        };
        assert_eq!(ask(&mut wire, "cy@example.org"), ask(&mut wire, "xy@example.org"), "{command}");
    }
}

/// OBJECTID+: the ids of a mailbox without rights are ids that nothing has. The name is used.
#[test]
fn ids_reveal_nothing_about_mailboxes() {
    let server = server();
    let mut wire = bo(&server);
    answer(&mut wire, "ENABLE OBJECTID+");
    let nobody = (AccountId(Id::new(7, 7)), MailboxId(Id::new(8, 8)));
    let mut select = |name: &str, ids: &str| {
        answer(&mut wire, "SELECT INBOX");
        answer(&mut wire, &format!("SELECT {name} (OBJECTID ({ids}))"))
    };
    for name in ["Sent", "nowhere"] {
        // The first SELECT has what is recent.
        select(name, "EMAILID x");
        let unknown = select(name, &format!("MAILBOXID {} ACCOUNTID u{}", nobody.1, nobody.0));
        for (owner, mailbox) in
            [(USER, "Secret"), (USER, "Secret/Sub"), (USER, "INBOX"), ("cy@example.org", "INBOX")]
        {
            let (account, id) = server.mailbox(owner, mailbox);
            assert_eq!(select(name, &format!("MAILBOXID {id} ACCOUNTID u{account}")), unknown, "{mailbox}");
            assert_eq!(select(name, &format!("MAILBOXID {id}")), unknown, "{mailbox}");
        }
        // With rights, but of another account.
        let (_, open) = server.mailbox(USER, "Open");
        assert_eq!(select(name, &format!("MAILBOXID {open} ACCOUNTID u{}", nobody.0)), unknown);
        assert_ne!(select(name, &format!("MAILBOXID {open}")), unknown);
    }
}

/// Each command with each single right and `l`: what it needs, as letters.
#[test]
fn each_command_needs_its_right() {
    let rows = [
        ("SELECT @", "r"),
        ("EXAMINE @", "r"),
        ("STATUS @ (MESSAGES)", "r"),
        ("APPEND @ {4+}\r\nx\r\n", "i"),
        ("COPY 1 @", "i"),
        ("GETACL @", "a"),
        ("LISTRIGHTS @ cy@example.org", "a"),
        ("DELETEACL @ xy@example.org", "a"),
        ("SETACL @ xy@example.org lr", "a"),
        // RFC 5464 §3.3: any one of these.
        ("GETMETADATA @ (/shared/comment)", "rswip"),
        ("SETMETADATA @ (/private/comment \"x\")", "rswip"),
        ("SETMETADATA @ (/shared/comment \"x\")", "w"),
        // RFC 6785: the script acts as the owner. It needs `w` and `a`.
        ("SETMETADATA @ (/shared/imapsieve/script \"x\")", ""),
        ("GETQUOTAROOT @", "r"),
        ("CREATE @/below", "k"),
        // Last, since it succeeds once.
        ("DELETE @", "x"),
    ];
    let server = server();
    let mut wire = bo(&server);
    let mut wrong = Vec::new();
    for (command, needed) in rows {
        for right in "rswipkxtea".chars() {
            server.grant(USER, "Box", BO, &format!("l{right}"));
            let answers = answer(&mut wire, &with_names(command));
            let last = answers.last().cloned().unwrap_or_default();
            answer(&mut wire, "SELECT INBOX");
            let expected = if needed.contains(right) { "q OK" } else { "q NO [NOPERM]" };
            if !last.starts_with(expected) {
                wrong.push(format!("{command} with l{right}: {last}"));
            }
            if command.starts_with("DELETE @") && needed.contains(right) {
                server.login().run("C: a CREATE Box\nS: a OK …");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// GETQUOTAROOT needs `r`. A refusal for lack of room has no numbers without it.
#[test]
fn a_full_account_shows_its_usage_only_with_the_right_to_read() {
    let server = server();
    server.limit(AccountChange { quota_messages: Some(Some(1)), ..AccountChange::default() });
    let mut wire = bo(&server);
    let adding = ["APPEND @ {41000}", "APPEND @ {4+}\r\nx\r\n", "COPY 1 @", "REPLACE 1 @ {4+}\r\nx\r\n"];
    let mut with = |rights: &str| {
        server.grant(USER, "Box", BO, rights);
        adding.map(|command| answer(&mut wire, &with_names(command)).join("; "))
    };
    let refusal = "q NO [OVERQUOTA] The account of this mailbox has no room for that";
    assert_eq!(with("i"), [refusal; 4]);
    assert_eq!(with("liswtexk"), [refusal; 4]);
    for answers in with("ir") {
        assert!(answers.contains("1 of its 1 messages"), "{answers}");
    }
}

/// The limit of a full mailbox is the number of its messages. STATUS needs `r`.
#[test]
fn a_full_mailbox_shows_its_limit_only_with_the_right_to_read() {
    let server = server();
    server.put("Box", b"x\r\n");
    server.limit(AccountChange { folder_max: Some(Some(1)), ..AccountChange::default() });
    let mut wire = bo(&server);
    let adding = ["APPEND @ {4+}\r\nx\r\n", "COPY 1 @", "MOVE 1 @", "REPLACE 1 @ {4+}\r\nx\r\n"];
    let mut with = |rights: &str| {
        server.grant(USER, "Box", BO, rights);
        adding.map(|command| answer(&mut wire, &with_names(command)).join("; "))
    };
    let refusal = "q NO [LIMIT] The mailbox has no room for that";
    assert_eq!(with("i"), [refusal; 4]);
    assert_eq!(with("liswtexk"), [refusal; 4]);
    for answers in with("ir") {
        assert!(answers.contains("may hold 1 messages"), "{answers}");
    }
}

/// RFC 4315 §5: UIDs say how many messages have come.
#[test]
fn uids_of_new_messages_are_for_those_who_may_read_the_mailbox() {
    let server = server();
    let mut wire = bo(&server);
    for (rights, shown) in [("i", false), ("liswtexk", false), ("ir", true)] {
        server.grant(USER, "Box", BO, rights);
        for command in ["APPEND @ {4+}\r\nx\r\n", "COPY 1 @", "MOVE 1 @", "REPLACE 1 @ {4+}\r\nx\r\n"] {
            // MOVE and REPLACE take one away.
            answer(&mut wire, "APPEND INBOX {4+}\r\nx\r\n");
            let answers = answer(&mut wire, &with_names(command));
            assert!(answers.last().is_some_and(|last| last.starts_with("q OK")), "{command}: {answers:?}");
            let is_shown = answers.iter().any(|line| line.contains("UID "));
            assert_eq!(is_shown, shown, "{command} with {rights}: {answers:?}");
        }
    }
}

/// LIST shows a bounded number of levels that are not mailboxes.
#[test]
fn deep_names_of_one_user_do_not_fill_the_list_of_another() {
    let server = server();
    let mut ana = server.login();
    for n in 10..40 {
        let name = format!("{n}{}", "/x".repeat(29));
        answer(&mut ana, &format!("CREATE {name}"));
        server.grant(USER, &name, BO, "lr");
    }
    server.grant("cy@example.org", "INBOX", BO, "lr");
    let listed = answer(&mut server.login_as(BO), "LIST \"\" \"Other Users/*\"");
    let deep = listed.iter().filter(|line| line.contains("/x")).count();
    assert!((5..20).contains(&deep), "{deep}");
    assert!(listed.iter().any(|line| line.contains("cy@example.org/INBOX")), "{listed:?}");
}

fn with_names(command: &str) -> String {
    const BOX: &str = "Other Users/ana\0example.org/Box";
    // Identifiers have an `@`, too.
    let command = command.replace("y@", "y\0").replace("@/below", &format!("\"{BOX}/below\""));
    command.replace('@', &format!("\"{BOX}\"")).replace('\0', "@")
}
