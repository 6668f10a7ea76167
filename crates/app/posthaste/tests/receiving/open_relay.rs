//! No open relay in any configuration: a table of attempts, each by a stranger and by a user, on
//! every listener that takes mail. The configurations: the relay off, routes, a smarthost, a domain
//! whose mail is taken for another server, and a domain that is set up.

use std::path::Path;

use posthaste_testkit::{LineClient, Server, ServerBuilder, command, dot_stuffed};

const PASSWORD: &str = "correct horse";
/// base64 of NUL `ana@a.test` NUL `correct horse`.
const PLAIN: &str = "AGFuYUBhLnRlc3QAY29ycmVjdCBob3JzZQ==";

/// The settings of `[relay]`. No program listens at that port: what is queued by mistake stays
/// there.
const CONFIGURATIONS: [&str; 7] = [
    "enabled = false",
    "enabled = true",
    "enabled = true\nroutes = [{ domain = \"b.test\", host = \"127.0.0.1:9\" }]",
    "enabled = true\nsmarthost = \"127.0.0.1:9\"",
    "routes = [{ domain = \"relayed.test\", host = \"127.0.0.1:9\", accept = \"all\" }]",
    "",
    SET_UP,
];
/// `posthaste domain add` turns relaying on.
const SET_UP: &str = "enabled = \"auto\"";

/// Recipients that are not ours, in every spelling that relays have fallen for. `a.test` is ours.
const ELSEWHERE: [&str; 21] = [
    "bo@b.test",
    "BO@B.TEST",
    "bo@elsewhere.test",
    "bo@sub.a.test",
    "bo@xa.test",
    "bo@a.test.b.test",
    // Source routes (RFC 5321 appendix C).
    "@a.test:bo@elsewhere.test",
    "@a.test,@b.test:bo@elsewhere.test",
    // Quoted local parts that hold an address.
    "\"bo@a.test\"@elsewhere.test",
    "\"ana@a.test\\\" \"@elsewhere.test",
    // Routing marks in the local part.
    "bo%elsewhere.test@b.test",
    "elsewhere.test!bo@b.test",
    "postmaster@elsewhere.test",
    // Address literals.
    "bo@[192.0.2.1]",
    "bo@[127.0.0.1]",
    "bo@[IPv6:2001:db8::1]",
    // Near a domain whose mail is taken from everybody.
    "bo@sub.relayed.test",
    "bo@xrelayed.test",
    "bo@relayed.test.b.test",
    "@relayed.test:bo@elsewhere.test",
    "\"bo@relayed.test\"@elsewhere.test",
];

/// Recipients of the domain whose mail is taken, for a host that would split the local part.
const ROUTED: [&str; 5] = [
    "bo%elsewhere.test@relayed.test",
    "elsewhere.test!bo@relayed.test",
    "\"bo@elsewhere.test\"@relayed.test",
    "@a.test:bo%elsewhere.test@relayed.test",
    "\"bo%elsewhere.test\"@RELAYED.test",
];

/// Recipients of our own domain, or of none, that name another domain within. They are nobody's,
/// for users too: the local part is never split.
const NOBODY: [&str; 17] = [
    "bo%elsewhere.test@a.test",
    "ana%elsewhere.test@a.test",
    "@b.test:bo%elsewhere.test@a.test",
    "elsewhere.test!bo@a.test",
    "a.test!elsewhere.test!bo@a.test",
    "\"bo@elsewhere.test\"@a.test",
    "\"bo%elsewhere.test\"@a.test",
    "\"elsewhere.test!bo\"@a.test",
    "\"bo@elsewhere.test\"",
    "bo%elsewhere.test",
    "elsewhere.test!bo",
    "bo",
    // Texts that are no addresses.
    "bo@elsewhere.test@a.test",
    "ana@a.test@elsewhere.test",
    "ana@a.test,bo@elsewhere.test",
    "ana@a.test> <bo@elsewhere.test",
    "@elsewhere.test",
];

/// A stranger may say to be anybody; it gets him nothing.
const SENDERS: [&str; 6] = [
    "<>",
    "<ana@a.test>",
    "<bo@elsewhere.test>",
    "<postmaster@a.test>",
    "<ana@[127.0.0.1]>",
    "<@a.test:ana@a.test>",
];

fn start(data: &Path, relay: &str) -> Server {
    std::fs::create_dir_all(data).unwrap();
    let file = data.join("settings.toml");
    std::fs::write(&file, format!("domain = \"a.test\"\nhostname = \"mail.a.test\"\n[relay]\n{relay}\n"))
        .unwrap();
    if relay == SET_UP {
        let args = ["domain", "add", "a.test", "--config", file.to_str().unwrap()];
        let output = command(Path::new(env!("CARGO_BIN_EXE_posthaste")), data, &args, "");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .data(data)
        .arg("--config")
        .arg(file.to_str().unwrap());
    for protocol in ["smtp", "lmtp", "submission"] {
        server = server.listen(&format!("{protocol}=127.0.0.1:0"));
    }
    let server = server.start();
    for name in ["ana@a.test", "eve@a.test"] {
        server.add_account(name, PASSWORD);
    }
    server
}

fn connect(server: &Server, protocol: &str) -> LineClient {
    let mut client = LineClient::connect(server.address(protocol)).unwrap();
    client.reply().unwrap();
    let hello = if protocol == "lmtp" { "LHLO client.test" } else { "EHLO client.test" };
    assert!(client.ask(hello).unwrap().starts_with("250"));
    client
}

fn logged_in(server: &Server) -> LineClient {
    let mut client = connect(server, "submission");
    assert!(client.ask(&format!("AUTH PLAIN {PLAIN}")).unwrap().starts_with("235"));
    client
}

/// This command is refused permanently.
fn refused(client: &mut LineClient, what: &str, command: &str) {
    let reply = client.ask(command).unwrap();
    assert!(reply.starts_with('5'), "{what}: {command}: {reply}");
}

/// Nothing waits to be sent.
fn nothing_queued(server: &Server) {
    let output = server.command(&["queue", "list"], "");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "0 items, 0 B");
}

#[test]
fn a_stranger_s_mail_goes_nowhere_else() {
    for relay in CONFIGURATIONS {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), relay);
        for protocol in ["smtp", "lmtp", "submission"] {
            for (turn, to) in ELSEWHERE.iter().chain(&NOBODY).chain(&ROUTED).enumerate() {
                let from = SENDERS[turn % SENDERS.len()];
                let what = format!("{relay:?}, {protocol}, from {from}");
                let mut client = connect(&server, protocol);
                let reply = client.ask(&format!("MAIL FROM:{from}")).unwrap();
                assert_eq!(reply.starts_with("250"), protocol != "submission", "{what}: {reply}");
                refused(&mut client, &what, &format!("RCPT TO:<{to}>"));
                refused(&mut client, &what, "DATA");
            }
        }
        nothing_queued(&server);
    }
}

#[test]
fn nothing_but_a_login_makes_a_stranger_a_user() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), CONFIGURATIONS[3]);
    for protocol in ["smtp", "lmtp", "submission"] {
        for pretence in [
            // Commands that other servers accept from trusted clients.
            "XCLIENT ADDR=127.0.0.1 LOGIN=ana@a.test",
            "XFORWARD ADDR=127.0.0.1",
            "PROXY TCP4 127.0.0.1 127.0.0.1 1 25",
            "AUTH EXTERNAL YW5hQGEudGVzdA==",
            "AUTH ANONYMOUS YW5h",
            // A wrong password, an empty one, and another's account with it.
            "AUTH PLAIN AGFuYUBhLnRlc3QAd3Jvbmc=",
            "AUTH PLAIN AGFuYUBhLnRlc3QA",
            "ETRN a.test",
            "TURN",
        ] {
            let mut client = connect(&server, protocol);
            refused(&mut client, protocol, pretence);
            if protocol == "submission" {
                refused(&mut client, pretence, "MAIL FROM:<ana@a.test>");
            } else {
                client.ask("MAIL FROM:<ana@a.test>").unwrap();
            }
            refused(&mut client, pretence, "RCPT TO:<bo@b.test>");
        }
        // RFC 4954 §5: the parameter AUTH says who wrote a message, and logs nobody in.
        let mut client = connect(&server, protocol);
        let _ = client.ask("MAIL FROM:<ana@a.test> AUTH=ana@a.test").unwrap();
        refused(&mut client, protocol, "RCPT TO:<bo@b.test>");
    }
    nothing_queued(&server);
}

#[test]
fn header_fields_name_no_recipients() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), CONFIGURATIONS[3]);
    for protocol in ["smtp", "lmtp", "submission"] {
        let mut client =
            if protocol == "submission" { logged_in(&server) } else { connect(&server, protocol) };
        for command in ["MAIL FROM:<ana@a.test>", "RCPT TO:<eve@a.test>"] {
            assert!(client.ask(command).unwrap().starts_with("250"), "{protocol}: {command}");
        }
        assert!(client.ask("DATA").unwrap().starts_with("354"));
        let message = b"From: ana@a.test\r\nTo: bo@b.test\r\nCc: bo@b.test\r\nBcc: bo@b.test\r\nResent-From: \
            ana@a.test\r\nResent-To: bo@b.test\r\nResent-Bcc: bo@b.test\r\nApparently-To: bo@b.test\r\n\r\ntext\r\n";
        client.send(&dot_stuffed(message)).unwrap();
        assert!(client.reply().unwrap().starts_with("250"), "{protocol}");
    }
    nothing_queued(&server);
}

#[test]
fn a_user_sends_as_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), CONFIGURATIONS[3]);
    let alias = server.command(&["account", "set", "eve@a.test", "--alias", "sales@a.test"], "");
    assert!(alias.status.success(), "{}", String::from_utf8_lossy(&alias.stderr));
    let others = [
        "eve@a.test",
        "sales@a.test",
        "EVE@A.TEST",
        "eve+x@a.test",
        "@a.test:eve@a.test",
        "\"eve\"@a.test",
        "postmaster@a.test",
        "postmaster",
        "eve",
        "ana@b.test",
        "bo@elsewhere.test",
        "ana%b.test@a.test",
        "\"ana@a.test\"@b.test",
        "b.test!ana@a.test",
        "ana@[127.0.0.1]",
        "ana@sub.a.test",
        "nobody@a.test",
    ];
    for from in others {
        refused(&mut logged_in(&server), "ana", &format!("MAIL FROM:<{from}>"));
    }
    assert!(logged_in(&server).ask("MAIL FROM:<ana@a.test>").unwrap().starts_with("250"));
    nothing_queued(&server);
}

#[test]
fn a_user_s_recipients_within_our_domain_are_not_taken_apart() {
    for relay in CONFIGURATIONS {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), relay);
        for to in NOBODY {
            let mut client = logged_in(&server);
            assert!(client.ask("MAIL FROM:<ana@a.test>").unwrap().starts_with("250"));
            refused(&mut client, relay, &format!("RCPT TO:<{to}>"));
            refused(&mut client, relay, "DATA");
        }
        nothing_queued(&server);
    }
}
