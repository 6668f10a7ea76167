//! The hosts that mail is sent to: by DNS, and by their addresses.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_testkit::{DnsRecord, DnsServer, LineClient, Server, free_port};

use super::{PASSWORD, TIMEOUT, inbox, logged_in, message, queue, reports, server, start, submit};

/// The servers of `a.test`, with ana, and of `b.test`, with bo. The first one finds hosts by DNS,
/// and connects to no private address but those of a network.
fn joined_by_dns(
    dir: &Path,
    dns: &DnsServer,
    smtp: (SocketAddr, SocketAddr),
    private: &str,
) -> (Server, Server) {
    let (smtp_a, smtp_b) = smtp;
    let relay = format!(
        "dns = [\"{}\"]\nport = {}\nprivate_networks = [\"{private}\"]",
        dns.address(),
        smtp_b.port()
    );
    let a = start(&dir.join("a"), "a.test", smtp_a, &relay);
    let b = server(&dir.join("b"), "b.test", smtp_b, "a.test", smtp_a);
    a.add_account("ana@a.test", PASSWORD);
    b.add_account("bo@b.test", PASSWORD);
    (a, b)
}

#[test]
fn hosts_are_found_by_dns() {
    let dir = tempfile::tempdir().unwrap();
    let (smtp_a, smtp_b) = (free_port(), free_port());
    let mx = |preference, host: &str| DnsRecord::Mx(preference, host.into());
    let dns = DnsServer::start([
        // The first host is away, as 127.0.0.9 does not listen on that port.
        ("b.test", mx(10, "away.b.test")),
        ("b.test", mx(20, "mail.b.test")),
        ("away.b.test", DnsRecord::A([127, 0, 0, 9])),
        ("mail.b.test", DnsRecord::A([127, 0, 0, 1])),
        ("null.test", mx(0, "")),
    ]);
    let (a, b) = joined_by_dns(dir.path(), &dns, (smtp_a, smtp_b), "127.0.0.0/8");
    submit(&mut logged_in(&a), &["bo@b.test", "cy@null.test", "dee@missing.test"], &message(1));
    assert!(inbox(&b, "bo@b.test", 1)[0].ends_with(&message(1)));
    let reports = reports(&a, 2);
    for (to, status) in [("cy@null.test", "5.1.10"), ("dee@missing.test", "5.1.2")] {
        let about = format!("Final-Recipient: rfc822; {to}\r\nAction: failed\r\nStatus: {status}\r\n");
        assert!(reports.iter().any(|report| report.contains(&about)), "{reports:?}");
    }
}

/// RFC 5321 §5.1: hosts of a domain from this server on are not for it to send to. The ones before
/// it are waited for.
#[test]
fn this_server_ends_the_list_of_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().port();
    let (smtp_a, smtp_b) =
        (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 9], port)));
    let mx = |preference, host: &str| DnsRecord::Mx(preference, host.into());
    let dns = DnsServer::start([
        ("b.test", mx(10, "first.b.test")),
        ("b.test", mx(20, "mail.a.test")),
        ("first.b.test", DnsRecord::A([127, 0, 0, 9])),
        ("mail.a.test", DnsRecord::A([127, 0, 0, 1])),
        ("round.test", mx(10, "mail.a.test")),
    ]);
    let relay = format!("dns = [\"{}\"]\nport = {port}\nprivate_networks = [\"127.0.0.0/8\"]", dns.address());
    let a = start(&dir.path().join("a"), "a.test", smtp_a, &relay);
    a.add_account("ana@a.test", PASSWORD);
    // The account is there before the host can be reached.
    let data_b = dir.path().join("b");
    server(&data_b, "b.test", free_port(), "a.test", smtp_a).add_account("bo@b.test", PASSWORD);
    submit(&mut logged_in(&a), &["bo@b.test", "cy@round.test"], &message(1));
    let about = "Final-Recipient: rfc822; cy@round.test\r\nAction: failed\r\nStatus: 5.4.6\r\n";
    assert!(reports(&a, 1)[0].contains(about));
    let deadline = Instant::now() + TIMEOUT;
    while !queue(&a).iter().any(|line| line.contains("bo@b.test") && line.contains("first.b.test")) {
        assert!(Instant::now() < deadline, "{:?}", queue(&a));
        std::thread::sleep(Duration::from_millis(20));
    }
    let b = server(&data_b, "b.test", smtp_b, "a.test", smtp_a);
    assert!(inbox(&b, "bo@b.test", 1)[0].ends_with(&message(1)));
    assert_eq!(inbox(&a, "ana@a.test", 1).len(), 1);
}

/// A stranger's domain cannot have the server connect to this machine, or behind it.
#[test]
fn hosts_that_dns_names_are_public() {
    let dir = tempfile::tempdir().unwrap();
    let (smtp_a, smtp_b) = (free_port(), free_port());
    let mx = |preference, host: &str| DnsRecord::Mx(preference, host.into());
    let dns = DnsServer::start([
        ("b.test", mx(10, "inner.b.test")),
        ("b.test", mx(20, "mail.b.test")),
        ("inner.b.test", DnsRecord::A([127, 0, 0, 9])),
        ("mail.b.test", DnsRecord::A([127, 0, 0, 1])),
        ("c.test", mx(10, "inner.b.test")),
        // Without MX records the domain is the host.
        ("d.test", DnsRecord::A([127, 0, 0, 9])),
    ]);
    let inner = TcpListener::bind(("127.0.0.9", smtp_b.port())).unwrap();
    let (a, b) = joined_by_dns(dir.path(), &dns, (smtp_a, smtp_b), "127.0.0.1");
    submit(&mut logged_in(&a), &["bo@b.test", "cy@c.test", "dee@d.test"], &message(1));
    assert!(inbox(&b, "bo@b.test", 1)[0].ends_with(&message(1)));
    let reports = reports(&a, 2);
    for (to, host) in [("cy@c.test", "inner.b.test"), ("dee@d.test", "d.test")] {
        let about = format!("Final-Recipient: rfc822; {to}\r\nAction: failed\r\nStatus: 5.4.4\r\n");
        assert!(reports.iter().any(|report| report.contains(&about)), "{reports:?}");
        assert!(reports.iter().any(|report| report.contains(&format!("{host} has no public address"))));
    }
    inner.set_nonblocking(true).unwrap();
    assert_eq!(inner.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

/// RFC 5321 §4.1.3, §5.1: an address literal is a host, where a setting has it.
#[test]
fn users_reach_hosts_by_their_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let smtp_b = SocketAddr::from(([127, 0, 0, 2], free_port().port()));
    let b = server(&dir.path().join("b"), "b.test", smtp_b, "a.test", free_port());
    b.add_account("bo@b.test", PASSWORD);
    let settings =
        format!("to_addresses = true\nport = {}\nprivate_networks = [\"127.0.0.2\"]", smtp_b.port());
    let a = start(&dir.path().join("a"), "a.test", free_port(), &settings);
    a.add_account("ana@a.test", PASSWORD);
    submit(&mut logged_in(&a), &["bo@[127.0.0.2]", "cy@[127.0.0.3]"], &message(1));
    assert!(inbox(&b, "bo@b.test", 1)[0].ends_with(&message(1)));
    let about = "Final-Recipient: rfc822; cy@[127.0.0.3]\r\nAction: failed\r\nStatus: 5.4.4\r\n";
    assert!(reports(&a, 1)[0].contains(about));
    // Strangers do not, and nobody does without the setting.
    for (server, protocol) in [(&a, "smtp"), (&a, "lmtp"), (&b, "smtp")] {
        let mut client = LineClient::connect(server.address(protocol)).unwrap();
        client.reply().unwrap();
        client.ask(if protocol == "lmtp" { "LHLO x.test" } else { "EHLO x.test" }).unwrap();
        client.ask("MAIL FROM:<x@x.test>").unwrap();
        let reply = client.ask("RCPT TO:<bo@[127.0.0.3]>").unwrap();
        assert!(reply.starts_with("550 5.1.2 "), "{protocol}: {reply}");
    }
}
