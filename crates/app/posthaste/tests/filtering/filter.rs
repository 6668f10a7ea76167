//! Sieve at delivery, seen from the outside: scripts put by command, mail by LMTP, SMTP and
//! submission, and where it is afterwards.

use posthaste_testkit::{LineClient, Server, ServerBuilder};

const PASSWORD: &str = "correct horse";

fn server() -> Server {
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
        .start();
    for account in ["ana@example.org", "bob@example.org", "cyd@example.org"] {
        server.add_account(account, PASSWORD);
    }
    server
}

/// Runs `posthaste sieve ARGS…`; what it printed, or its complaint.
fn sieve(server: &Server, args: &[&str], input: &str) -> Result<String, String> {
    let output = server.command(&[&["sieve"], args].concat(), input);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Makes a script the active one of an account.
fn use_script(server: &Server, account: &str, script: &str) {
    sieve(server, &["put", "--activate", account, "main", "-"], script).unwrap();
}

/// Hands a message in; the replies for the recipients.
fn send(server: &Server, protocol: &str, from: &str, to: &[&str], text: &str) -> Vec<String> {
    server.hand_in(protocol, from, to, text.as_bytes())
}

/// Hands a message in by LMTP, which must take it.
fn lmtp(server: &Server, from: &str, to: &[&str], text: &str) {
    for reply in send(server, "lmtp", from, to, text) {
        assert!(reply.starts_with("250"), "{reply}");
    }
}

/// A message with a subject, to an address.
fn mail(to: &str, subject: &str) -> String {
    format!(
        "From: bo@example.net\r\nTo: {to}\r\nMessage-ID: <{subject}@x>\r\nSubject: {subject}\r\n\r\nhello\r\n"
    )
}

/// The messages in a mailbox, each with the line that holds its flags; none if there is no mailbox.
fn mailbox(server: &Server, user: &str, name: &str) -> Vec<(String, String)> {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    client.send(format!("e EXAMINE \"{name}\"\r\n").as_bytes()).unwrap();
    let mut is_empty = false;
    loop {
        let line = client.line().unwrap();
        is_empty |= line == "* 0 EXISTS";
        if line.starts_with("e NO") {
            return Vec::new();
        }
        if line.starts_with("e ") {
            break;
        }
    }
    if is_empty {
        return Vec::new();
    }
    let (messages, _) = client.literals("FETCH 1:* (FLAGS BODY.PEEK[])").unwrap();
    messages.into_iter().map(|(line, body)| (line, String::from_utf8(body).unwrap())).collect()
}

/// The subjects in a mailbox.
fn subjects(server: &Server, user: &str, name: &str) -> Vec<String> {
    let subject = |(_, body): &(String, String)| {
        body.split("Subject: ").nth(1).unwrap().split("\r\n").next().unwrap().to_owned()
    };
    mailbox(server, user, name).iter().map(subject).collect()
}

#[test]
fn mail_is_filed_flagged_and_discarded() {
    let server = server();
    use_script(
        &server,
        "ana@example.org",
        r#"require ["fileinto", "mailbox", "imap4flags", "envelope", "subaddress", "special-use", "editheader"];
        if envelope :detail "to" "lists" { fileinto :create "Lists/Rust"; stop; }
        if header :contains "subject" "urgent" { addflag ["\\Flagged", "$Work"]; keep; stop; }
        if header :contains "subject" "buy" { fileinto :specialuse "\\Junk" "Spam"; stop; }
        if header :contains "subject" "edit" { addheader "X-Seen-By" "sieve"; }
        if header :contains "subject" "gone" { discard; }
        "#,
    );
    let to = "ana@example.org";
    for subject in ["urgent", "buy", "edit", "gone", "plain"] {
        lmtp(&server, "bo@example.net", &[to, "bob@example.org"], &mail(to, subject));
    }
    lmtp(&server, "bo@example.net", &["ana+lists@example.org", to], &mail(to, "both"));
    assert_eq!(subjects(&server, to, "INBOX"), ["urgent", "edit", "plain", "both"]);
    assert_eq!(subjects(&server, to, "Lists/Rust"), ["both"]);
    assert_eq!(subjects(&server, to, "Junk"), ["buy"]);
    let inbox = mailbox(&server, to, "INBOX");
    assert!(inbox[0].0.contains("\\Flagged") && inbox[0].0.contains("$Work"), "{}", inbox[0].0);
    assert!(
        inbox[1].1.starts_with("Return-Path: <bo@example.net>\r\nX-Seen-By: sieve\r\n"),
        "{}",
        inbox[1].1
    );
    assert!(inbox[1].1.ends_with("\r\n\r\nhello\r\n"));
    // An account without a script gets everything, unchanged.
    let all = mailbox(&server, "bob@example.org", "INBOX");
    assert_eq!(subjects(&server, "bob@example.org", "INBOX"), ["urgent", "buy", "edit", "gone", "plain"]);
    assert!(all.iter().all(|(_, body)| !body.contains("X-Seen-By")));
    assert!(server.command(&["check"], "").status.success());
}

#[test]
fn scripts_are_listed_changed_and_removed_beside_the_server() {
    let server = server();
    let account = "ana@example.org";
    let deliver = |subject| lmtp(&server, "bo@example.net", &[account], &mail(account, subject));
    use_script(&server, account, "discard;");
    deliver("one");
    // The same name with another text: the running server notices.
    sieve(&server, &["put", account, "main", "-"], "keep;").unwrap();
    deliver("two");
    let faulty = sieve(&server, &["put", account, "main", "-"], "keep; fileinto \"x\";").unwrap_err();
    assert!(faulty.contains("line 1, column 7"), "{faulty}");
    deliver("three");
    sieve(&server, &["put", account, "other", "-"], "discard;").unwrap();
    assert_eq!(sieve(&server, &["list", account], "").unwrap(), "main\t5\tactive\nother\t8\n");
    assert_eq!(sieve(&server, &["get", account, "other"], "").unwrap(), "discard;");
    sieve(&server, &["activate", account, "other"], "").unwrap();
    deliver("four");
    let refused = sieve(&server, &["remove", account, "other"], "").unwrap_err();
    assert!(refused.contains("'other' is active"), "{refused}");
    sieve(&server, &["deactivate", account], "").unwrap();
    deliver("five");
    sieve(&server, &["remove", account, "other"], "").unwrap();
    assert!(sieve(&server, &["activate", account, "other"], "").unwrap_err().contains("no script 'other'"));
    assert!(sieve(&server, &["put", account, "a/b", "-"], "keep;").unwrap_err().contains("1 to 128"));
    assert_eq!(subjects(&server, account, "INBOX"), ["two", "three", "five"]);
}

#[test]
fn a_script_that_fails_keeps_the_message() {
    let server = server();
    let account = "ana@example.org";
    let deliver = |subject| lmtp(&server, "bo@example.net", &[account], &mail(account, subject));
    // A mailbox that is not there.
    use_script(&server, account, "require \"fileinto\"; fileinto \"Nowhere\";");
    deliver("nowhere");
    // A fault while it runs.
    use_script(&server, account, "require [\"fileinto\", \"ihave\"]; fileinto \"Junk\"; error \"no\";");
    deliver("fault");
    // A redirect that cannot be queued: this server sends no mail to other domains.
    use_script(&server, account, "redirect \"ana@elsewhere.test\";");
    deliver("elsewhere");
    // A redirect to somebody who is not there.
    use_script(&server, account, "redirect \"nobody@example.org\";");
    deliver("nobody");
    // A redirect to itself.
    use_script(&server, account, "redirect \"ana@example.org\";");
    deliver("itself");
    assert_eq!(subjects(&server, account, "INBOX"), ["nowhere", "fault", "elsewhere", "nobody", "itself"]);
    assert!(subjects(&server, account, "Junk").is_empty());
    assert!(!server.logged("Sieve script failed").is_empty());
}

#[test]
fn mail_is_redirected_to_a_second_account_and_not_in_a_circle() {
    let server = server();
    use_script(&server, "ana@example.org", "redirect \"bob@example.org\";");
    use_script(&server, "bob@example.org", "require \"copy\"; redirect :copy \"cyd@example.org\";");
    lmtp(&server, "bo@example.net", &["ana@example.org"], &mail("ana@example.org", "on"));
    assert!(subjects(&server, "ana@example.org", "INBOX").is_empty());
    assert_eq!(subjects(&server, "bob@example.org", "INBOX"), ["on"]);
    let (_, last) = mailbox(&server, "cyd@example.org", "INBOX").remove(0);
    assert_eq!(last.matches("Return-Path: <bo@example.net>").count(), 1, "{last}");
    let expected = ["bob@example.org", "ana@example.org"];
    let passed: Vec<_> = last.lines().filter_map(|l| l.strip_prefix("X-Sieve-Redirected-From: ")).collect();
    assert_eq!(passed, expected, "{last}");
    // A circle: each sends it on once, and the message is kept by all.
    use_script(&server, "cyd@example.org", "redirect \"ana@example.org\";");
    lmtp(&server, "bo@example.net", &["ana@example.org"], &mail("ana@example.org", "round"));
    assert_eq!(subjects(&server, "ana@example.org", "INBOX"), ["round"]);
    assert!(!server.logged("goes round in a loop").is_empty());
}

/// Scripts that make more and more messages of one, and that hide where it has been.
#[test]
fn scripts_send_only_so_much_because_of_one_message() {
    let server = server();
    server.add_account("dan@example.org", PASSWORD);
    let eight = |to: &str| (0..8).map(|n| format!("redirect \"{to}+{n}@example.org\";")).collect::<String>();
    use_script(&server, "ana@example.org", &eight("bob"));
    use_script(&server, "bob@example.org", &eight("cyd"));
    use_script(&server, "cyd@example.org", &eight("dan"));
    lmtp(&server, "bo@example.net", &["ana@example.org"], &mail("ana@example.org", "many"));
    let count = |user: &str| subjects(&server, user, "INBOX").len();
    let copies: usize =
        ["ana", "bob", "cyd", "dan"].map(|user| count(&format!("{user}@example.org"))).iter().sum();
    assert!((1..=101).contains(&copies), "{copies} messages of one");
    assert!(!server.logged("scripts have sent 100 messages").is_empty());
    // A circle of two who remove the field that would show it.
    let hides = "require \"editheader\"; deleteheader \"X-Sieve-Redirected-From\";";
    use_script(&server, "dan@example.org", &format!("{hides} redirect \"bob@example.org\";"));
    use_script(&server, "bob@example.org", &format!("{hides} redirect \"dan@example.org\";"));
    lmtp(&server, "bo@example.net", &["dan@example.org"], &mail("dan@example.org", "hidden"));
    let (_, last) = mailbox(&server, "dan@example.org", "INBOX").pop().unwrap();
    let passed: Vec<_> = last.lines().filter_map(|l| l.strip_prefix("X-Sieve-Redirected-From: ")).collect();
    assert_eq!(passed, ["bob@example.org", "dan@example.org"], "{last}");
}

#[test]
fn a_redirect_to_another_domain_is_in_the_queue() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings.toml");
    // No program listens at the smarthost: queued items stay there.
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&file, "[relay]\nenabled = true\nsmarthost = \"127.0.0.1:1\"\n")
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .start();
    let account = "ana@example.org";
    server.add_account(account, PASSWORD);
    use_script(&server, account, "redirect \"ana@elsewhere.test\";");
    lmtp(&server, "bo@example.net", &[account], &mail(account, "away"));
    assert!(mailbox(&server, account, "INBOX").is_empty());
    let output = server.command(&["queue", "list"], "");
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(
        list.contains("\tSRS0=") && list.contains("=example.net=bo@example.org\telsewhere.test\t"),
        "{list}"
    );
    assert!(list.contains("\tana@elsewhere.test\t"), "{list}");
    let item = list.split('\t').next().unwrap();
    let shown = String::from_utf8(server.command(&["queue", "show", item], "").stdout).unwrap();
    assert!(shown.contains("X-Sieve-Redirected-From: ana@example.org\r\n"), "{shown}");
    assert!(!shown.contains("Return-Path"), "{shown}");
}

#[test]
fn a_refusal_is_said_where_the_protocol_can_and_reported_elsewhere() {
    let server = server();
    let (ana, bob) = ("ana@example.org", "bob@example.org");
    use_script(&server, ana, "require \"reject\"; reject \"No mail,\r\nplease\";");
    // LMTP answers for each recipient.
    let replies = send(&server, "lmtp", "cyd@example.org", &[ana, bob], &mail(ana, "one"));
    assert_eq!(replies[0], "550-5.7.1 No mail,\n550 5.7.1 please");
    assert!(replies[1].starts_with("250"), "{replies:?}");
    // SMTP has one answer: for all, if all refuse.
    let replies = send(&server, "smtp", "bo@example.net", &[ana], &mail(ana, "two"));
    assert_eq!(replies, ["550-5.7.1 No mail,\n550 5.7.1 please"]);
    assert!(mailbox(&server, "cyd@example.org", "INBOX").is_empty());
    let replies = send(&server, "smtp", "cyd@example.org", &[ana, bob], &mail(ana, "three"));
    assert!(replies[0].starts_with("250"), "{replies:?}");
    let (_, report) = mailbox(&server, "cyd@example.org", "INBOX").remove(0);
    assert!(report.starts_with("Return-Path: <>\r\n") && report.contains("No mail,\r\nplease"), "{report}");
    assert!(
        report.contains("Final-Recipient: rfc822; ana@example.org\r\nAction: failed\r\nStatus: 5.7.1\r\n")
    );
    // A report is impossible: the message is kept.
    let replies = send(&server, "smtp", "", &[ana, bob], &mail(ana, "four"));
    assert!(replies[0].starts_with("250"), "{replies:?}");
    assert_eq!(subjects(&server, ana, "INBOX"), ["four"]);
    assert_eq!(subjects(&server, bob, "INBOX"), ["one", "three", "four"]);
}

#[test]
fn a_sender_is_answered_once_and_lists_never() {
    let data = tempfile::tempdir().unwrap();
    let start = || {
        ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
            .data(data.path().join("data"))
            .listen("imap=127.0.0.1:0")
            .listen("lmtp=127.0.0.1:0")
            .start()
    };
    let server = start();
    let (ana, bob) = ("ana@example.org", "bob@example.org");
    for account in [ana, bob] {
        server.add_account(account, PASSWORD);
    }
    use_script(
        &server,
        ana,
        "require [\"vacation\", \"fcc\"]; vacation :subject \"Fort\" :fcc \"Sent\" \"Bin in Urlaub, Grüße\";",
    );
    let list = format!("List-Id: <x>\r\n{}", mail(ana, "list"));
    lmtp(&server, bob, &[ana], &list);
    lmtp(&server, bob, &[ana], &format!("Auto-Submitted: auto-replied\r\n{}", mail(ana, "robot")));
    lmtp(&server, bob, &[ana], &mail("somebody@else", "bcc"));
    lmtp(&server, "", &[ana], &mail(ana, "null"));
    assert!(mailbox(&server, bob, "INBOX").is_empty());
    for subject in ["one", "two"] {
        lmtp(&server, bob, &[ana], &mail(ana, subject));
    }
    // The record of answers outlives the server.
    assert!(server.stop().status.success());
    let server = start();
    lmtp(&server, bob, &[ana], &mail(ana, "three"));
    let answers = mailbox(&server, bob, "INBOX");
    assert_eq!(answers.len(), 1, "{answers:?}");
    let answer = &answers[0].1;
    assert!(answer.starts_with("Return-Path: <>\r\n"), "{answer}");
    for field in ["From: ana@example.org", "To: <bob@example.org>", "Subject: Fort", "In-Reply-To: <one@x>"] {
        assert!(answer.contains(&format!("\r\n{field}\r\n")), "{field}: {answer}");
    }
    assert!(answer.contains("\r\nAuto-Submitted: auto-replied\r\n"), "{answer}");
    assert_eq!(subjects(&server, ana, "Sent"), ["Fort"]);
    assert_eq!(subjects(&server, ana, "INBOX").len(), 7);
}

/// The server signs what leaves: no script writes mail in another user's name.
#[test]
fn replies_and_notifications_name_their_account() {
    let server = server();
    let (ana, bob) = ("ana@example.org", "bob@example.org");
    for (script, from) in [
        ("require \"vacation\"; vacation :from \"Bob <bob@example.org>\" \"away\";", Some(ana)),
        (
            "require \"vacation\"; vacation :from \"Ana <ana@example.org>\" \"away\";",
            Some("Ana <ana@example.org>"),
        ),
        ("require \"vacation\"; vacation :mime \"From: cyd@example.org\r\n\r\naway\";", None),
        ("require \"vacation\"; vacation :mime \"Sender: cyd@example.org\r\n\r\naway\";", None),
        ("require \"vacation\"; vacation :mime \"X: y\rFrom: cyd@example.org\r\n\r\naway\";", None),
        ("require \"enotify\"; notify :from \"cyd@example.org\" \"mailto:bob@example.org\";", Some(ana)),
    ] {
        let before = mailbox(&server, bob, "INBOX").len();
        use_script(&server, ana, script);
        lmtp(&server, bob, &[ana], &mail(ana, "question"));
        let got = mailbox(&server, bob, "INBOX").split_off(before);
        let wanted = from.map(|from| format!("\r\nFrom: {from}\r\n"));
        match (&got[..], wanted) {
            ([], None) => {}
            ([(_, text)], Some(wanted)) => assert!(text.contains(&wanted), "{script}: {text}"),
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
fn duplicates_are_known_and_notifications_sent() {
    let server = server();
    let (ana, bob) = ("ana@example.org", "bob@example.org");
    use_script(
        &server,
        ana,
        "require [\"duplicate\", \"enotify\"]; if duplicate { discard; stop; } \
         notify :message \"Post für dich\" \"mailto:bob@example.org\";",
    );
    for _ in 0..3 {
        lmtp(&server, "bo@example.net", &[ana], &mail(ana, "again"));
    }
    assert_eq!(subjects(&server, ana, "INBOX"), ["again"]);
    let (_, notice) = mailbox(&server, bob, "INBOX").remove(0);
    assert!(
        notice.contains("\r\nAuto-Submitted: auto-notified; owner-email=\"ana@example.org\"\r\n"),
        "{notice}"
    );
    assert!(notice.contains("\r\nSubject: =?UTF-8?B?"), "{notice}");
    assert_eq!(mailbox(&server, bob, "INBOX").len(), 1);
}

#[test]
fn a_script_files_into_mailboxes_of_others_with_the_right_to() {
    let server = server();
    let grant = |owner, who, rights| {
        let output = server.command(&["acl", "set", owner, "INBOX", who, rights], "");
        assert!(output.status.success(), "{output:?}");
    };
    let output = server.command(&["account", "add", "--shared", "sales@example.org"], "");
    assert!(output.status.success(), "{output:?}");
    grant("sales@example.org", "ana@example.org", "liw");
    grant("sales@example.org", "bob@example.org", "lr");
    let script = "require [\"fileinto\", \"imap4flags\", \"mailbox\"];\n\
                  fileinto :flags [\"\\\\Seen\", \"\\\\Flagged\"] \"Shared/sales@example.org/INBOX\";";
    for account in ["ana@example.org", "bob@example.org", "cyd@example.org"] {
        use_script(&server, account, script);
        lmtp(&server, "x@example.net", &[account], &mail(account, &account[..3]));
    }
    let filed = mailbox(&server, "bob@example.org", "Shared/sales@example.org/INBOX");
    assert_eq!(filed.len(), 1, "{filed:?}");
    assert!(filed[0].0.contains("\\Flagged") && !filed[0].0.contains("\\Seen"), "{filed:?}");
    assert!(mailbox(&server, "ana@example.org", "INBOX").is_empty());
    // Without the right it is as if the mailbox were not there: the message is in INBOX.
    assert_eq!(mailbox(&server, "bob@example.org", "INBOX").len(), 1);
    assert_eq!(mailbox(&server, "cyd@example.org", "INBOX").len(), 1);
}

/// Scripts of the administrator run before and after that of an account, and without one.
#[test]
fn scripts_of_the_administrator_run_around_those_of_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let file = dir.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write(
        "before/10-spam.sieve",
        "require \"fileinto\";\nif header :is \"subject\" \"spam\" { fileinto \"Junk\"; stop; }\n",
    );
    write("before/20-mark.sieve", "require \"imap4flags\";\naddflag \"before\";\n");
    write(
        "after/copy.sieve",
        "require [\"fileinto\", \"copy\", \"mailbox\"];\nfileinto :copy :create \"All\";\n",
    );
    write("global/lists.sieve", "require [\"fileinto\", \"mailbox\"];\nfileinto :create \"Lists\";\n");
    write("before/note.txt", "no script");
    let folder = |name: &str| dir.path().join(name).display().to_string();
    let config = dir.path().join("posthaste.toml");
    let text = format!(
        "[sieve]\nbefore = \"{}\"\nafter = \"{}\"\nglobal = \"{}\"\n",
        folder("before"),
        folder("after"),
        folder("global")
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .start();
    for account in ["ana@example.org", "bob@example.org"] {
        server.add_account(account, PASSWORD);
    }
    use_script(
        &server,
        "ana@example.org",
        "require \"include\";\nif header :is \"subject\" \"list\" { include :global \"lists\"; }\n",
    );
    for (to, subject) in
        [("ana", "spam"), ("ana", "list"), ("ana", "plain"), ("bob", "spam"), ("bob", "plain")]
    {
        let to = format!("{to}@example.org");
        lmtp(&server, "bo@example.net", &[&to], &mail(&to, subject));
    }
    let all = |user: &str, name: &str| subjects(&server, user, name);
    assert_eq!(all("ana@example.org", "Junk"), ["spam"]);
    assert_eq!(all("ana@example.org", "Lists"), ["list"]);
    assert_eq!(all("ana@example.org", "INBOX"), ["plain"]);
    assert_eq!(all("ana@example.org", "All"), ["list", "plain"]);
    assert_eq!(
        (all("bob@example.org", "Junk"), all("bob@example.org", "All")),
        (vec!["spam".to_owned()], vec!["plain".to_owned()])
    );
    assert!(mailbox(&server, "bob@example.org", "INBOX")[0].0.contains("before"));
    // A script of an account that fails does not stop those of the administrator.
    use_script(&server, "ana@example.org", "require \"include\";\ninclude \"nowhere\";\n");
    lmtp(&server, "bo@example.net", &["ana@example.org"], &mail("ana@example.org", "again"));
    assert_eq!(all("ana@example.org", "All"), ["list", "plain", "again"]);
    // One of the administrator that does not compile is named, and the server goes on as it was.
    write("before/30-wrong.sieve", "keep keep;\n");
    let complaint = command(&config, &dir.path().join("other"));
    assert!(complaint.contains("30-wrong.sieve") && complaint.contains("sieve.before"), "{complaint}");
}

/// The error of a server that does not start.
fn command(config: &std::path::Path, data: &std::path::Path) -> String {
    let args = ["serve", "--config", config.to_str().unwrap(), "--listen", "imap=127.0.0.1:0"];
    let output =
        posthaste_testkit::command(std::path::Path::new(env!("CARGO_BIN_EXE_posthaste")), data, &args, "");
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}
