//! Domains whose mail this server takes for another one: all of a domain, or unknown addresses
//! only.

use std::net::SocketAddr;
use std::path::Path;

use posthaste_testkit::{LineClient, Server, free_port};

use crate::relaying::{PASSWORD, serving};

fn server(data: &Path, host: &str, smtp: SocketAddr, relay: &str) -> Server {
    serving(data, smtp, &format!("hostname = \"{host}\"\n[relay]\nretry_first = \"1 s\"\n{relay}\n"))
}

/// Two servers. `first` has ana@shared.test, and sends what is for others of that domain, and all
/// of relayed.test, to `second`, which has bo@shared.test and cy@relayed.test.
struct World {
    first: Server,
    second: Server,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (smtp, other) = (free_port(), free_port());
        let route = |domain: &str, accept: &str| {
            format!("{{ domain = \"{domain}\", host = \"{other}\", tls = \"never\"{accept} }}")
        };
        let (all, users) = (", accept = \"all\"", "");
        let routes =
            [route("Shared.test", all), route("relayed.test", all), route("users.test", users)].join(", ");
        let settings = format!("routes = [{routes}]");
        let first = server(&dir.path().join("first"), "first.test", smtp, &settings);
        let second = server(&dir.path().join("second"), "second.test", other, "enabled = false");
        first.add_account("ana@shared.test", PASSWORD);
        second.add_account("bo@shared.test", PASSWORD);
        second.add_account("cy@relayed.test", PASSWORD);
        Self { first, second, _dir: dir }
    }

    fn greeted(&self, listener: &str) -> LineClient {
        let mut client = LineClient::connect(self.first.address(listener)).unwrap();
        client.reply().unwrap();
        client.ask(if listener == "lmtp" { "LHLO host.test" } else { "EHLO host.test" }).unwrap();
        client
    }

    fn route(&self, address: &str) -> String {
        let config = self.first.data().join("settings.toml");
        let output = self.first.command(&["route", address, "--config", config.to_str().unwrap()], "");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

fn rcpt(client: &mut LineClient, to: &str) -> String {
    client.ask(&format!("RCPT TO:<{to}>")).unwrap()
}

#[test]
fn mail_of_a_relayed_domain_and_for_others_of_a_shared_one_is_sent_on() {
    let world = World::new();
    let mut client = world.greeted("smtp");
    client.ask("MAIL FROM:<far@away.test>").unwrap();
    for to in ["ana@shared.test", "bo@SHARED.test", "bo+detail@shared.test", "cy@relayed.test"] {
        let reply = rcpt(&mut client, to);
        assert!(reply.starts_with("250"), "{to}: {reply}");
    }
    // Nothing else is relayed for strangers, also not where users have a route.
    for to in ["x@users.test", "x@other.test", "x@sub.shared.test", "x%other.test@first.test"] {
        let reply = rcpt(&mut client, to);
        assert!(reply.starts_with("550"), "{to}: {reply}");
    }
    client.ask("DATA").unwrap();
    let reply = client.ask("From: far@away.test\r\nSubject: to all\r\n\r\nwords\r\n.").unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    assert_eq!(world.first.mail("ana@shared.test", PASSWORD, "INBOX", 1).len(), 1);
    // Once for the address, once for its detail: the second server has one copy of it.
    for user in ["bo@shared.test", "cy@relayed.test"] {
        let mail = world.second.mail(user, PASSWORD, "INBOX", 1);
        let text = String::from_utf8(mail.into_iter().next().unwrap()).unwrap();
        // The sender stays: this is no forward.
        assert!(text.contains("Return-Path: <far@away.test>"), "{text}");
        assert!(text.contains("by first.test") && text.contains("by second.test"), "{text}");
    }
}

#[test]
fn an_unknown_recipient_is_reported_to_the_sender() {
    let world = World::new();
    let mut client = world.greeted("smtp");
    client.ask("MAIL FROM:<ana@shared.test> RET=FULL").unwrap();
    assert!(rcpt(&mut client, "nobody@shared.test").starts_with("250"));
    client.ask("DATA").unwrap();
    assert!(client.ask("Subject: lost\r\n\r\nlong spam\r\n.").unwrap().starts_with("250"));
    let report = world.first.mail("ana@shared.test", PASSWORD, "INBOX", 1).remove(0);
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("nobody@shared.test") && report.contains("Status: 5.1.1"), "{report}");
    // There was no login, so the sender may be forged.
    assert!(report.contains("Subject: lost") && !report.contains("long spam"), "{report}");
}

#[test]
fn forwards_and_groups_reach_the_other_server_too() {
    let world = World::new();
    let run = |args: &[&str]| {
        let output = world.first.command(args, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["group", "set", "team@shared.test", "ana@shared.test", "bo@shared.test"]);
    run(&["account", "set", "ana@shared.test", "--forward", "cy@relayed.test"]);
    let mut client = world.greeted("lmtp");
    client.ask("MAIL FROM:<far@away.test>").unwrap();
    // The agent next door knows its routes itself.
    assert!(rcpt(&mut client, "bo@shared.test").starts_with("550"));
    assert!(rcpt(&mut client, "team@shared.test").starts_with("250"));
    client.ask("DATA").unwrap();
    assert!(client.ask("Subject: team\r\n\r\nwords\r\n.").unwrap().starts_with("250"));
    for (server, user) in [
        (&world.first, "ana@shared.test"),
        (&world.second, "bo@shared.test"),
        (&world.second, "cy@relayed.test"),
    ] {
        assert_eq!(server.mail(user, PASSWORD, "INBOX", 1).len(), 1, "{user}");
    }
}

#[test]
fn route_says_where_such_mail_goes() {
    let world = World::new();
    let at = "is on another server: sent to 127.0.0.1:";
    assert!(world.route("bo@shared.test").starts_with(&format!("bo@shared.test {at}")));
    assert!(world.route("x@relayed.test").starts_with(&format!("x@relayed.test {at}")));
    assert!(world.route("ana@shared.test").starts_with("ana@shared.test is an account"));
    assert!(world.route("x@users.test").contains("is in another domain: sent to 127.0.0.1:"));
}
