//! Groups, catch-alls and forwards, from the command that makes them to the mailboxes.

use posthaste_testkit::{LineClient, Server, free_port};

use crate::relaying::{PASSWORD, PLAIN, relaying, route};

/// `a.test` with ana, bo and cy; `b.test` with x.
struct World {
    a: Server,
    b: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::with("")
    }

    /// With more settings of the section `relay` at `a.test`.
    fn with(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (smtp_a, smtp_b) = (free_port(), free_port());
        let settings = format!("{}\n{more}", route("b.test", smtp_b));
        let a = relaying(&dir.path().join("a"), "a.test", smtp_a, &settings);
        let b = relaying(&dir.path().join("b"), "b.test", smtp_b, &route("a.test", smtp_a));
        for user in ["ana@a.test", "bo@a.test", "cy@a.test"] {
            a.add_account(user, PASSWORD);
        }
        b.add_account("x@b.test", PASSWORD);
        Self { a, b, _dir: dir }
    }

    /// Runs a command at `a.test`, which must succeed; what it printed.
    fn run(&self, args: &[&str]) -> String {
        let config = self.a.data().join("settings.toml");
        let args = [args, &["--config", config.to_str().unwrap()]].concat();
        let output = self.a.command(&args, "");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same for one that must fail; its error.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.a.command(args, "");
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Hands a message in as ana.
    fn submit(&self, subject: &str, to: &[&str]) {
        let mut client = LineClient::connect(self.a.address("submission")).unwrap();
        client.reply().unwrap();
        client.ask("EHLO client.test").unwrap();
        client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap();
        client.ask("MAIL FROM:<ana@a.test>").unwrap();
        for to in to {
            let reply = client.ask(&format!("RCPT TO:<{to}>")).unwrap();
            assert!(reply.starts_with("250"), "{to}: {reply}");
        }
        client.ask("DATA").unwrap();
        let reply = client.ask(&format!("Subject: {subject}\r\n\r\nwords\r\n.")).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }

    /// The subjects of this many messages in an INBOX, and what each message is.
    fn inbox(&self, user: &str, count: usize) -> Vec<String> {
        let server = if user.ends_with("b.test") { &self.b } else { &self.a };
        let mail = server.mail(user, PASSWORD, "INBOX", count);
        mail.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
    }

    fn subjects(&self, user: &str, count: usize) -> Vec<String> {
        let subject = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned));
            line.unwrap_or_default()
        };
        self.inbox(user, count).into_iter().map(subject).collect()
    }
}

#[test]
fn a_group_reaches_each_member_once_and_reports_to_its_owner() {
    let world = World::new();
    world.run(&["account", "set", "bo@a.test", "--alias", "second@a.test"]);
    world.run(&["group", "set", "inner@a.test", "bo@a.test", "x@b.test", "nobody@a.test"]);
    let members = ["second@a.test", "inner@a.test", "cy@a.test"];
    world.run(&[&["group", "set", "Team@A.test"], &members[..], &["--owner", "ana@a.test"]].concat());
    assert_eq!(
        world.run(&["group", "list"]),
        "inner@a.test\tbo@a.test,x@b.test,nobody@a.test\t-\n\
         team@a.test\tsecond@a.test,inner@a.test,cy@a.test\tana@a.test\n"
    );
    assert_eq!(
        world.run(&["route", "team@a.test"]).lines().collect::<Vec<_>>(),
        [
            "team@a.test is the group of 3; reports go to ana@a.test",
            "  second@a.test is an alias of bo@a.test: INBOX",
            "  inner@a.test is the group of 3",
            "    bo@a.test is bo@a.test, which gets the message already",
            &format!(
                "    x@b.test is in another domain: sent to {} (`relay.routes`)",
                world.b.address("smtp")
            ),
            "    nobody@a.test is refused: no such user here",
            "  cy@a.test is an account: INBOX",
        ]
    );
    world.submit("to all", &["team+now@a.test", "cy@a.test"]);
    assert_eq!(world.subjects("bo@a.test", 1), ["to all"]);
    assert_eq!(world.subjects("cy@a.test", 2), ["to all", "to all"]);
    let far = world.inbox("x@b.test", 1).remove(0);
    assert!(far.starts_with("Return-Path: <ana@a.test>\r\n"), "{far}");
    assert!(far.contains("\r\nX-Sieve-Redirected-From: team@a.test\r\n"), "{far}");
    let report = world.inbox("ana@a.test", 1).remove(0);
    assert!(report.starts_with("Return-Path: <>\r\n") && report.contains("nobody@a.test"), "{report}");
    world.run(&["group", "remove", "team@a.test"]);
    assert!(world.refused(&["route", "team@a.test"]).contains("is refused"));
}

/// The command follows the same rules as a delivery.
#[test]
fn a_route_names_all_that_a_delivery_does() {
    let scripts = tempfile::tempdir().unwrap();
    for (name, text) in [("before/spam", "keep;"), ("after/late", "keep;")] {
        let file = scripts.path().join(format!("{name}.sieve"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let folder = |name: &str| scripts.path().join(name).display().to_string();
    let world = World::with(&format!(
        "to_addresses = true\n[sieve]\nbefore = {:?}\nafter = {:?}",
        folder("before"),
        folder("after")
    ));
    assert_eq!(
        world.run(&["route", "bo@a.test"]),
        "bo@a.test is an account: filed by the Sieve scripts 'before/spam', 'after/late'\n"
    );
    let postmaster = world.run(&["route", "postmaster@mail.a.test"]);
    assert!(postmaster.contains(" means postmaster@"), "{postmaster}");
    let literal = world.run(&["route", "bo@[192.0.2.1]"]);
    assert!(literal.contains("is at an address: sent to 192.0.2.1 for users"), "{literal}");
    assert!(literal.contains("it is bo@a.test"), "{literal}");
    assert!(world.refused(&["route", "bo@[x:y]"]).contains("is refused"));
}

/// A bounce that says little still names the member (VERP).
#[test]
fn the_sender_names_the_member() {
    let world = World::with("verp = true");
    world.run(&["group", "set", "list@a.test", "x@b.test", "bo@a.test", "--owner", "ana@a.test"]);
    world.submit("to the list", &["list@a.test"]);
    let far = world.inbox("x@b.test", 1).remove(0);
    assert!(far.starts_with("Return-Path: <ana+x=b.test@a.test>\r\n"), "{far}");
    let here = world.inbox("bo@a.test", 1).remove(0);
    assert!(here.starts_with("Return-Path: <ana@a.test>\r\n"), "{here}");
    let mut client = LineClient::connect(world.a.address("smtp")).unwrap();
    client.reply().unwrap();
    for (command, code) in [
        ("EHLO mail.b.test", "250"),
        ("MAIL FROM:<>", "250"),
        ("RCPT TO:<ana+x=b.test@a.test>", "250"),
        ("DATA", "354"),
        ("Subject: Something failed\r\n\r\nSomewhere.\r\n.", "250"),
    ] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(code), "{command}: {reply}");
    }
    assert_eq!(world.subjects("ana@a.test", 1), ["Something failed"]);
}

#[test]
fn the_group_of_a_domain_takes_the_rest_by_lmtp_too() {
    let world = World::new();
    world.run(&["group", "set", "@a.test", "cy@a.test"]);
    let mut lmtp = LineClient::connect(world.a.address("lmtp")).unwrap();
    lmtp.reply().unwrap();
    lmtp.ask("LHLO mta.test").unwrap();
    lmtp.ask("MAIL FROM:<far@c.test>").unwrap();
    for to in ["anything@a.test", "bo@a.test", "other@c.test", "else@a.test"] {
        let reply = lmtp.ask(&format!("RCPT TO:<{to}>")).unwrap();
        assert_eq!(reply.starts_with("250"), to != "other@c.test", "{to}: {reply}");
    }
    lmtp.ask("DATA").unwrap();
    // A reply for each recipient (RFC 2033 §4.2).
    lmtp.send(b"Subject: rest\r\n\r\nwords\r\n.\r\n").unwrap();
    for _ in 0..3 {
        let reply = lmtp.reply().unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    assert_eq!(world.subjects("bo@a.test", 1), ["rest"]);
    // Two addresses led to the group, which got it once.
    assert_eq!(world.subjects("cy@a.test", 1), ["rest"]);
    // An alias and an account come first, also if they are made later.
    world.run(&["account", "set", "bo@a.test", "--alias", "anything@a.test"]);
    assert!(world.run(&["route", "anything@a.test"]).contains("is an alias of bo@a.test"));
    assert!(world.run(&["route", "else@a.test"]).starts_with("else@a.test is the group @a.test of 1\n"));
}

/// A catch-all whose only member was removed: mail for the member comes to the catch-all, which is
/// for the member.
#[test]
fn mail_for_a_group_without_anybody_is_refused_and_not_lost() {
    let world = World::new();
    world.run(&["group", "set", "@a.test", "cy@a.test"]);
    world.run(&["account", "remove", "cy@a.test", "--yes"]);
    assert!(world.refused(&["route", "any@a.test"]).contains("is refused"));
    let by_lmtp = |from: &str, to: &[&str]| {
        let mut lmtp = LineClient::connect(world.a.address("lmtp")).unwrap();
        lmtp.reply().unwrap();
        lmtp.ask("LHLO mta.test").unwrap();
        lmtp.ask(&format!("MAIL FROM:<{from}>")).unwrap();
        for to in to {
            lmtp.ask(&format!("RCPT TO:<{to}>")).unwrap();
        }
        lmtp.ask("DATA").unwrap();
        lmtp.send(b"Subject: for whom\r\n\r\nwords\r\n.\r\n").unwrap();
        to.iter().map(|_| lmtp.reply().unwrap()).collect::<Vec<_>>()
    };
    // With a sender and without one, who would get no report.
    for from in ["far@c.test", ""] {
        let replies = by_lmtp(from, &["any@a.test", "bo@a.test"]);
        assert!(replies[0].starts_with("550") && replies[0].contains("leads back"), "{replies:?}");
        assert!(replies[1].starts_with("250"), "{replies:?}");
    }
    // One member is left.
    world.run(&["group", "set", "team@a.test", "gone@a.test", "ana@a.test"]);
    let replies = by_lmtp("", &["team@a.test"]);
    assert!(replies[0].starts_with("250"), "{replies:?}");
    assert_eq!(world.subjects("ana@a.test", 1), ["for whom"]);
    // Submitted mail to nobody is reported to its sender.
    world.run(&["group", "remove", "@a.test"]);
    world.run(&["group", "set", "list@a.test", "gone@a.test"]);
    let mut client = LineClient::connect(world.a.address("submission")).unwrap();
    client.reply().unwrap();
    client.ask("EHLO client.test").unwrap();
    client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap();
    client.ask("MAIL FROM:<ana@a.test>").unwrap();
    client.ask("RCPT TO:<list@a.test>").unwrap();
    client.ask("DATA").unwrap();
    let reply = client.ask("Subject: to nobody\r\n\r\nwords\r\n.").unwrap();
    assert!(reply.starts_with("550"), "{reply}");
}

#[test]
fn accounts_forward_with_and_without_a_copy() {
    let world = World::new();
    world.run(&["account", "set", "bo@a.test", "--forward", "x@b.test", "--forward", "cy"]);
    world.run(&["account", "set", "cy@a.test", "--forward", "x@b.test", "--no-copy"]);
    assert_eq!(
        world
            .run(&["route", "bo@a.test"])
            .lines()
            .map(|line| line.split(" sent").next().unwrap())
            .collect::<Vec<_>>(),
        [
            "bo@a.test is an account: mail is forwarded, a copy stays: INBOX",
            "  x@b.test is in another domain:",
            "  cy@a.test is an account: mail is forwarded, no copy stays",
            "    x@b.test is in another domain:",
        ]
    );
    world.submit("on and on", &["bo@a.test"]);
    assert_eq!(world.subjects("bo@a.test", 1), ["on and on"]);
    assert_eq!(world.subjects("x@b.test", 2), ["on and on", "on and on"]);
    assert!(world.run(&["account", "show", "cy@a.test"]).contains("forward  x@b.test (no copy stays)"));
    world.run(&["account", "set", "cy@a.test", "--no-forward"]);
    world.submit("stays", &["cy@a.test"]);
    assert_eq!(world.subjects("cy@a.test", 1), ["stays"]);
}

/// Two accounts that forward to each other and keep nothing: the message must stay somewhere.
#[test]
fn a_circle_of_forwards_loses_nothing() {
    let world = World::new();
    world.run(&["account", "set", "bo@a.test", "--forward", "cy@a.test", "--no-copy"]);
    world.run(&["account", "set", "cy@a.test", "--forward", "ring@a.test", "--no-copy"]);
    world.run(&["group", "set", "ring@a.test", "bo@a.test"]);
    world.submit("round", &["bo@a.test"]);
    assert_eq!(world.subjects("bo@a.test", 1), ["round"]);
    // An address that takes no mail sends none on.
    world.run(&["account", "set", "bo@a.test", "--forward", "nobody@a.test", "--no-copy"]);
    world.submit("kept", &["bo@a.test"]);
    assert_eq!(world.subjects("bo@a.test", 2), ["round", "kept"]);
    assert!(
        world
            .run(&["route", "bo@a.test"])
            .contains("nobody@a.test is refused: no such user here; bo@a.test keeps")
    );
}

fn return_path(message: &str) -> &str {
    let path = message.lines().find_map(|line| line.strip_prefix("Return-Path: <"));
    path.and_then(|path| path.strip_suffix('>')).unwrap()
}

/// Mail of another domain leaves with a sender of ours, by a forward, a group and a Sieve script.
#[test]
fn mail_that_is_sent_on_has_a_sender_of_ours_and_its_bounce_comes_home() {
    let world = World::new();
    world.b.add_account("y@b.test", PASSWORD);
    world.run(&["account", "set", "bo@a.test", "--forward", "y@b.test", "--no-copy"]);
    world.run(&["group", "set", "team@a.test", "y@b.test", "cy@a.test"]);
    // A catch-all must not take what looks like a sender of ours.
    world.run(&["group", "set", "@a.test", "cy@a.test"]);
    let lmtp = |from: &str, to: &str| {
        let mut lmtp = LineClient::connect(world.a.address("lmtp")).unwrap();
        lmtp.reply().unwrap();
        lmtp.ask("LHLO mta.test").unwrap();
        lmtp.ask(&format!("MAIL FROM:<{from}>")).unwrap();
        let reply = lmtp.ask(&format!("RCPT TO:<{to}>")).unwrap();
        if reply.starts_with("250") {
            lmtp.ask("DATA").unwrap();
            lmtp.send(b"Subject: on its way\r\n\r\nwords\r\n.\r\n").unwrap();
            return lmtp.reply().unwrap();
        }
        reply
    };
    for to in ["bo@a.test", "team@a.test"] {
        let reply = lmtp("x@b.test", to);
        assert!(reply.starts_with("250"), "{reply}");
    }
    let far = world.inbox("y@b.test", 2);
    for message in &far {
        let sender = return_path(message);
        assert!(sender.starts_with("SRS0=") && sender.ends_with("=b.test=x@a.test"), "{message}");
    }
    // Here it is as it came.
    assert_eq!(return_path(&world.inbox("cy@a.test", 1)[0]), "x@b.test");
    // A sender of ours stays.
    world.submit("our own", &["bo@a.test"]);
    assert!(world.inbox("y@b.test", 3).iter().any(|message| return_path(message) == "ana@a.test"));
    // The next host's bounce, with the case of the address changed.
    let sender = return_path(&far[0]).to_owned();
    let reply = lmtp("", &sender.to_lowercase());
    assert!(reply.starts_with("250"), "{reply}");
    let bounce = world.inbox("x@b.test", 1).remove(0);
    assert_eq!(return_path(&bounce), "");
    let route = world.run(&["route", &sender]);
    assert!(
        route.contains(" in place of x@b.test: reports") && route.contains("\n  x@b.test is in another"),
        "{route}"
    );
    assert!(world.refused(&["route", &sender.replace("=x@", "=y@")]).contains("is refused"));
    // Only mail without a sender comes back by it.
    let reply = lmtp("far@c.test", &sender);
    assert!(reply.starts_with("550") && reply.contains("only reports"), "{reply}");
    for forged in [sender.replace("=x@", "=y@"), sender.replace("SRS0", "SRS1")] {
        let reply = lmtp("", &forged);
        assert!(reply.starts_with("550"), "{forged}: {reply}");
    }
    // The next host refuses the recipient: the report of our own queue goes home as well.
    world.run(&["account", "set", "bo@a.test", "--forward", "nobody@b.test", "--no-copy"]);
    let reply = lmtp("x@b.test", "bo@a.test");
    assert!(reply.starts_with("250"), "{reply}");
    let reports = world.inbox("x@b.test", 2);
    assert!(
        reports.iter().any(|report| report.contains("Final-Recipient: rfc822; nobody@b.test")),
        "{reports:?}"
    );
}

#[test]
fn wrong_commands_say_what_to_do() {
    let world = World::new();
    for (args, why) in [
        (&["group", "set", "bo@a.test", "cy@a.test"][..], "exists already"),
        (&["group", "set", "g@a.test", "g@a.test"], "contains itself"),
        (&["group", "set", "g@new.test", "g@new.test"], "contains itself"),
        (&["group", "set", "@new.test", "x@new.test"], "contains itself"),
        (&["group", "remove", "g@a.test"], "group list"),
        (&["account", "set", "bo@a.test", "--no-copy"], "--forward"),
        (&["account", "set", "bo@a.test", "--forward", "@b.test"], "no local part"),
        (&["route", "far@c.test"], "is refused"),
    ] {
        let said = world.refused(args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let audit = std::fs::read_to_string(world.a.data().join("audit.log")).unwrap();
    assert!(
        audit.contains("act=\"group set g@a.test g@a.test\"") && audit.contains("outcome=failed"),
        "{audit}"
    );
}
