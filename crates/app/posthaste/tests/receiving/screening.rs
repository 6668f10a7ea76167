//! Other hosts are screened: block lists, greetings, rates and greylisting, seen from the outside.

use posthaste_testkit::{DnsRecord, DnsServer, LineClient, Server, ServerBuilder, dot_stuffed, message};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

struct World {
    server: Server,
    _dns: Option<DnsServer>,
    _dir: tempfile::TempDir,
}

/// A server that trusts nobody, not even this machine, with these settings of `[screening]`. The
/// answers of the lists are in `records`.
fn world(settings: &str, records: &[(&str, DnsRecord)]) -> World {
    let dns = (!records.is_empty()).then(|| DnsServer::start(records.iter().cloned()));
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("posthaste.toml");
    let servers =
        dns.as_ref().map(|dns| format!("[relay]\ndns = [\"{}\"]\n", dns.address())).unwrap_or_default();
    let text = format!(
        "hostname = \"mx.example.org\"\n[authentication]\nenabled = false\ntrusted_networks = []\n\
         {servers}[screening]\n{settings}\n"
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("smtp=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    World { server, _dns: dns, _dir: dir }
}

impl World {
    fn greeted(&self, name: &str) -> LineClient {
        let mut client = LineClient::connect(self.server.address("smtp")).unwrap();
        client.reply().unwrap();
        assert!(client.ask(&format!("EHLO {name}")).unwrap().starts_with("250"));
        client
    }

    /// Messages of a folder; none where there is no such folder.
    fn count(&self, folder: &str) -> usize {
        let mut client = LineClient::connect(self.server.address("imap")).unwrap();
        client.line().unwrap();
        client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
        let lines = client.imap(&format!("STATUS {folder} (MESSAGES)")).unwrap();
        let text = lines.join("");
        let count = text.split("MESSAGES ").nth(1).and_then(|rest| rest.split(')').next());
        count.map_or(0, |count| count.parse().unwrap())
    }
}

/// The reply to a recipient, in a transaction of its own.
fn rcpt(client: &mut LineClient, from: &str, to: &str) -> String {
    client.ask("RSET").unwrap();
    assert!(client.ask(&format!("MAIL FROM:<{from}>")).unwrap().starts_with("250"));
    client.ask(&format!("RCPT TO:<{to}>")).unwrap()
}

/// Sends a message whole and returns the first reply that refuses, or the last.
fn send(client: &mut LineClient, from: &str) -> String {
    let reply = rcpt(client, from, USER);
    if !reply.starts_with("250") {
        return reply;
    }
    let reply = client.ask("DATA").unwrap();
    if !reply.starts_with("354") {
        return reply;
    }
    client.send(&dot_stuffed(&message(1))).unwrap();
    client.reply().unwrap()
}

#[test]
fn a_listed_address_is_refused_but_for_the_postmaster() {
    let listed = "1.0.0.127.bad.test";
    let records = [
        (listed, DnsRecord::A([127, 0, 0, 2])),
        (listed, DnsRecord::Txt("See https://bad.test/?a=127.0.0.1".to_owned())),
    ];
    let world = world("block_lists = [{ zone = \"silent.test\" }, { zone = \"bad.test\" }]", &records);
    let mut client = world.greeted("host.test");
    let reply = rcpt(&mut client, "a@good.test", USER);
    assert_eq!(
        reply.trim_end(),
        "550 5.7.1 127.0.0.1 is on the list bad.test: See https://bad.test/?a=127.0.0.1"
    );
    // The reply does not show which recipients exist.
    assert_eq!(rcpt(&mut client, "a@good.test", "nobody@example.org"), reply);
    // RFC 5321 §4.5.1: a host that is refused can still reach the postmaster.
    assert!(rcpt(&mut client, "a@good.test", "postmaster").starts_with("250"));
    assert_eq!(world.count("INBOX"), 0);
}

#[test]
fn a_list_that_is_set_so_has_mail_put_into_the_junk_folder() {
    let records = [("1.0.0.127.dull.test", DnsRecord::A([127, 0, 0, 11]))];
    let lists = "block_lists = [{ zone = \"dull.test\", answers = [\"127.0.0.11\"], action = \"junk\" }, \
                 { zone = \"1.0.0.127.dull.test\" }]";
    let world = world(lists, &records);
    let mut client = world.greeted("host.test");
    assert!(send(&mut client, "a@good.test").starts_with("250"));
    assert_eq!((world.count("INBOX"), world.count("Junk")), (0, 1));
}

#[test]
fn an_answer_that_does_not_count_and_a_list_without_an_answer_refuse_nothing() {
    let records = [
        ("1.0.0.127.bad.test", DnsRecord::A([127, 0, 0, 10])),
        // The answer of a list that refuses the query.
        ("1.0.0.127.closed.test", DnsRecord::A([127, 255, 255, 254])),
    ];
    let lists =
        "block_lists = [{ zone = \"bad.test\", answers = [\"127.0.0.2\"] }, { zone = \"closed.test\" }]";
    let world = world(lists, &records);
    assert!(send(&mut world.greeted("host.test"), "a@good.test").starts_with("250"));
    assert_eq!(world.count("INBOX"), 1);
}

#[test]
fn a_greeting_that_cannot_be_true_is_refused() {
    let world = world("", &[]);
    let refusal = |name: &str| rcpt(&mut world.greeted(name), "a@good.test", USER);
    assert_eq!(refusal("mx.example.org").trim_end(), "550 5.7.1 The name in your EHLO is this server's own");
    assert_eq!(
        refusal("[192.0.2.1]").trim_end(),
        "550 5.7.1 The address in your EHLO is not the one that you connect from"
    );
    assert!(refusal("[127.0.0.1]").starts_with("250"));
    assert!(refusal("host").starts_with("250"));
    // Another greeting in the same session counts again.
    let mut client = world.greeted("mx.example.org");
    assert!(rcpt(&mut client, "a@good.test", USER).starts_with("550"));
    client.ask("EHLO host.test").unwrap();
    assert!(rcpt(&mut client, "a@good.test", USER).starts_with("250"));
}

#[test]
fn an_address_a_sender_and_a_guesser_have_an_hour_each() {
    let world = world("messages_per_address = 3\nmessages_per_sender = 2\nunknown_recipients = 2", &[]);
    let mut client = world.greeted("host.test");
    for _ in 0..2 {
        assert!(send(&mut client, "a@good.test").starts_with("250"));
    }
    let reply = send(&mut client, "a@good.test");
    assert_eq!(reply.trim_end(), "451 4.7.1 Too many messages from <a@good.test>; try again in 30 min");
    // A new session changes nothing, the address has used up its hour.
    let reply = send(&mut world.greeted("host.test"), "b@good.test");
    assert_eq!(reply.trim_end(), "451 4.7.1 Too many messages from 127.0.0.1; try again in 20 min");
    assert_eq!(world.count("INBOX"), 2);
    for _ in 0..2 {
        assert!(rcpt(&mut client, "", "nobody@example.org").starts_with("550 5.1.1"));
    }
    let reply = rcpt(&mut client, "", USER);
    assert_eq!(reply.trim_end(), "451 4.7.1 Too many unknown recipients from 127.0.0.1; try again in 30 min");
    // LMTP is for known hosts, which are not screened.
    let mut lmtp = LineClient::connect(world.server.address("lmtp")).unwrap();
    lmtp.reply().unwrap();
    lmtp.ask("LHLO mx.example.org").unwrap();
    assert!(send(&mut lmtp, "a@good.test").starts_with("250"));
}

#[test]
fn an_unknown_host_is_put_off_once_for_each_recipient() {
    let world = world("greylist = \"1 h\"", &[]);
    let mut client = world.greeted("host.test");
    let reply = rcpt(&mut client, "a@good.test", USER);
    assert_eq!(reply.trim_end(), "451 4.7.1 Greylisted; try again in 60 min");
    assert!(rcpt(&mut client, "a@good.test", "nobody@example.org").starts_with("550 5.1.1"));
    assert!(rcpt(&mut client, "a@good.test", "postmaster").starts_with("250"));
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let refused = |settings: &str| {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("posthaste.toml");
        std::fs::write(&config, format!("[screening]\n{settings}\n")).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let output = command.arg("--config").arg(&config).arg("config").output().unwrap();
        assert!(!output.status.success(), "{settings}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("block_lists = [{ zone = \"nonsense\" }]").contains("`nonsense` is not a domain"));
    let answers = refused("block_lists = [{ zone = \"bad.test\", answers = [\"192.0.2.1\"] }]");
    assert!(answers.contains("write addresses in 127.0.0.0/8"), "{answers}");
    assert!(refused("greylist = \"2 h\"").contains("`screening.greylist` must be at most 1 h"));
    assert!(refused("greeting = \"loud\"").contains("loud"));
}
