//! Mail from other hosts is scanned by Debian's rspamd.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use posthaste_testkit::{DnsServer, LineClient, Server, ServerBuilder, dot_stuffed, free_port};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
const RSPAMD: &str = "/usr/bin/rspamd";
/// A text that rspamd always answers with "reject".
const REJECTED: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
/// A rule for the answer "add header".
const RULE: &str = "rspamd_config.LOOKS_BAD = { score = 8, callback = function(task)\n\
    return task:get_header('X-Looks') == 'bad' end }\n";

/// An rspamd with Debian's rules and no network.
struct Rspamd(Child);

impl Drop for Rspamd {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns once it answers.
fn rspamd(dir: &Path, port: u16) -> Rspamd {
    let at = dir.display();
    let config = format!(
        "options {{ pidfile = \"{at}/pid\"; tempdir = \"{at}\"; dbdir = \"{at}\"; rundir = \"{at}\";\n\
           filters = \"chartable,regexp\"; hs_cache_dir = \"{at}\";\n\
           dns {{ nameserver = [\"127.0.0.1:1\"]; timeout = 0.1s; retransmits = 1; }}\n\
           control_socket = \"{at}/control\"; }}\n\
         logging {{ type = \"file\"; filename = \"{at}/log\"; level = \"error\"; }}\n\
         worker \"normal\" {{ bind_socket = \"127.0.0.1:{port}\"; count = 1; }}\n\
         .include \"/etc/rspamd/metrics.conf\"\n.include \"/etc/rspamd/actions.conf\"\n\
         modules {{ path = \"/usr/share/rspamd/plugins/\"; }}\nlua = \"{at}/rules.lua\";\n\
         milter_headers {{ use = [\"x-spam-status\", \"authentication-results\"]; skip_local = false; }}\n"
    );
    let rules = format!("dofile('/usr/share/rspamd/rules/rspamd.lua')\n{RULE}");
    std::fs::write(dir.join("rules.lua"), rules).unwrap();
    let file = dir.join("rspamd.conf");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(RSPAMD);
    command.arg("-c").arg(&file).args(["-f", "-i"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Rspamd(command.spawn().unwrap());
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(child.0.try_wait().unwrap().is_none(), "rspamd ended: {log}");
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

/// A server that believes no host, not even this machine.
fn server(dir: &Path, dns: &DnsServer, settings: &str) -> Server {
    let config = dir.join("posthaste.toml");
    let text = format!(
        "hostname = \"mx.example.org\"\n[authentication]\ntrusted_networks = []\n\
         [relay]\ndns = [\"{}\"]\n[screening]\n{settings}\n",
        dns.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("smtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    server
}

/// Sends a message, and returns the last reply.
fn send(server: &Server, fields: &str, text: &str) -> String {
    let mut client = LineClient::connect(server.address("smtp")).unwrap();
    client.reply().unwrap();
    client.ask("EHLO host.test").unwrap();
    assert!(client.ask("MAIL FROM:<bo@good.test>").unwrap().starts_with("250"));
    assert!(client.ask(&format!("RCPT TO:<{USER}>")).unwrap().starts_with("250"));
    assert!(client.ask("DATA").unwrap().starts_with("354"));
    let message = format!(
        "{fields}From: Bo <bo@good.test>\r\nTo: {USER}\r\nSubject: A letter\r\nMessage-ID: <1@good.test>\r\n\
         Date: Mon, 23 Nov 2026 10:00:00 +0000\r\n\r\n{text}\r\n"
    );
    client.send(&dot_stuffed(message.as_bytes())).unwrap();
    client.reply().unwrap()
}

/// The lines of the headers of all messages of a folder.
fn headers(server: &Server, folder: &str) -> Vec<String> {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    client.imap(&format!("EXAMINE {folder}")).unwrap();
    client.imap("FETCH 1:* BODY.PEEK[HEADER]").unwrap()
}

fn count(lines: &[String], field: &str) -> usize {
    lines.iter().filter(|line| line.to_ascii_lowercase().starts_with(&field.to_ascii_lowercase())).count()
}

#[test]
fn rspamd_decides_what_becomes_of_a_message() {
    if !Path::new(RSPAMD).exists() {
        println!("SKIPPED: needs {RSPAMD} (Debian: apt-get install rspamd)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = free_port().port();
    let _rspamd = rspamd(dir.path(), port);
    let dns = DnsServer::start([]);
    // Its first answer comes when it has its rules.
    let settings = format!("rspamd = \"http://127.0.0.1:{port}\"\nrspamd_timeout = \"60 s\"");
    let server = server(dir.path(), &dns, &settings);

    let reply = send(&server, "", REJECTED);
    assert_eq!(reply.trim_end(), "550 5.7.1 Gtube pattern");
    let reply = send(&server, "X-Spam: No\r\n", "Good day.");
    assert!(reply.starts_with("250"), "{reply}");
    let good = headers(&server, "INBOX");
    assert_eq!((count(&good, "X-Spam-Status: No"), count(&good, "X-Spam:")), (1, 0), "{good:?}");
    // Results in rspamd's name would not be ours.
    assert_eq!(count(&good, "Authentication-Results: "), 1, "{good:?}");
    assert_eq!(count(&good, "Authentication-Results: mx.example.org"), 1, "{good:?}");

    assert!(send(&server, "X-Looks: bad\r\n", "Good day.").starts_with("250"));
    let junk = headers(&server, "Junk");
    assert_eq!(count(&junk, "X-Spam: Yes"), 1, "{junk:?}");
    assert_eq!(count(&headers(&server, "INBOX"), "Subject:"), 1);
}

#[test]
fn without_rspamd_mail_comes_or_is_put_off_as_is_set() {
    let (dir, dns) = (tempfile::tempdir().unwrap(), DnsServer::start([]));
    let nobody = format!("rspamd = \"http://127.0.0.1:{}\"", free_port().port());
    let accepting = server(dir.path(), &dns, &nobody);
    assert!(send(&accepting, "", REJECTED).starts_with("250"));
    assert_eq!(count(&headers(&accepting, "INBOX"), "Subject:"), 1);
    let deferring = server(dir.path(), &dns, &format!("{nobody}\nrspamd_failure = \"defer\""));
    let reply = send(&deferring, "", "Good day.");
    assert_eq!(reply.trim_end(), "451 4.7.1 The message could not be checked; try again later");
}
