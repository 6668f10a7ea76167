//! Mail from other hosts is shown to milters: Debian's opendkim, and programs that Debian's
//! python3-milter runs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_testkit::{
    LineClient, Server, ServerBuilder, client_tests_wanted, dot_stuffed, free_port, run_client,
};

const USER: &str = "ana@example.org";
const OTHER: &str = "bo@example.org";
const PASSWORD: &str = "correct horse";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn started(mut command: Command, is_up: impl Fn() -> bool) -> Program {
    let mut program = Program(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + TIMEOUT;
    while !is_up() {
        assert!(program.0.try_wait().unwrap().is_none(), "{command:?} ended");
        assert!(Instant::now() < deadline, "{command:?} does not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    program
}

/// A server that believes no host, with these milters.
fn server(dir: &Path, milters: &str) -> Server {
    let config = dir.join("posthaste.toml");
    let text = format!(
        "hostname = \"mx.example.org\"\n[authentication]\nenabled = false\ntrusted_networks = []\n\
         [screening]\nmilters = [{milters}]\n"
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .settings(&config, text)
        .listen("smtp=127.0.0.1:0")
        .listen("imap=127.0.0.1:0")
        .start();
    server.add_account(USER, PASSWORD);
    server.add_account(OTHER, PASSWORD);
    server
}

/// Sends a message to ana, and returns the last reply.
fn send(server: &Server, message: &str) -> String {
    let mut client = LineClient::connect(server.address("smtp")).unwrap();
    client.reply().unwrap();
    for command in ["EHLO host.test", "MAIL FROM:<cy@good.test>", &format!("RCPT TO:<{USER}>"), "DATA"] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with(['2', '3']), "{command}: {reply}");
    }
    client.send(&dot_stuffed(message.as_bytes())).unwrap();
    client.reply().unwrap()
}

fn letter(subject: &str) -> String {
    format!(
        "From: Cy <cy@good.test>\r\nTo: <{USER}>\r\nSubject: {subject}\r\nX-Twice: one\r\nX-Twice: two\r\n\
         Message-ID: <1@good.test>\r\n\r\nHi.\r\n\r\n  Two  blanks.\r\n"
    )
}

const FILTER: &str = r#"
import sys, Milter

class Filter(Milter.Base):
    def connect(self, name, family, address):
        self.seen = [str(address[0])]
        return Milter.CONTINUE

    def hello(self, name):
        self.seen.append(name)
        return Milter.CONTINUE

    def envfrom(self, path, *parameters):
        self.seen.append(path)
        return Milter.CONTINUE

    def envrcpt(self, path, *parameters):
        self.seen.append(path)
        return Milter.CONTINUE

    def header(self, name, value):
        if name == "Subject":
            self.subject = value
        return Milter.CONTINUE

    def eoh(self):
        self.octets = 0
        return Milter.CONTINUE

    def body(self, chunk):
        self.octets += len(chunk)
        return Milter.CONTINUE

    def eom(self):
        if self.subject == "refuse":
            self.setreply("554", "5.7.9", "Not today")
            return Milter.REJECT
        if self.subject == "refuse without words":
            return Milter.REJECT
        if self.subject == "later":
            return Milter.TEMPFAIL
        if self.subject == "vanish":
            return Milter.DISCARD
        self.addheader("X-Seen", " ".join(self.seen + [str(self.octets)]))
        self.addheader("X-First", "inserted", 0)
        self.chgheader("X-Twice", 2, "changed")
        self.chgheader("X-Twice", 1, "")
        if self.subject == "rewrite":
            self.replacebody("Another body.\r\n")
            self.addrcpt("<bo@example.org>")
            self.delrcpt("<ana@example.org>")
        if self.subject == "apart":
            self.quarantine("looks odd")
        return Milter.CONTINUE

Milter.factory = Filter
Milter.set_flags(Milter.ADDHDRS | Milter.CHGHDRS | Milter.CHGBODY | Milter.ADDRCPT | Milter.DELRCPT | Milter.QUARANTINE)
Milter.runmilter("test", sys.argv[1], 30)
"#;

#[test]
fn a_program_of_python_sees_and_changes_mail() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("milter.sock");
    // Debian's own interpreter, which has its packages.
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", FILTER]).arg(format!("unix:{}", socket.display()));
    let program = started(python, || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let server = server(dir.path(), &format!("{{ at = \"unix:{}\" }}", socket.display()));
    assert!(send(&server, &letter("plain")).starts_with("250 2.0.0 Delivered"));
    let got = String::from_utf8(server.mail(USER, PASSWORD, "INBOX", 1).remove(0)).unwrap();
    for line in [
        "\r\nX-First: inserted\r\nFrom: Cy",
        "\r\nX-Twice: changed\r\nMessage-ID",
        "\r\nX-Seen: 127.0.0.1 host.test <cy@good.test> <ana@example.org> 23\r\n\r\nHi.\r\n\r\n  Two  blanks.\r\n",
    ] {
        assert!(got.contains(line), "{line:?} is not in {got}");
    }
    assert!(!got.contains("X-Twice: one"), "{got}");
    assert_eq!(send(&server, &letter("refuse")).trim_end(), "554 5.7.9 Not today");
    assert!(send(&server, &letter("refuse without words")).starts_with("550 5.7.1 "));
    assert!(send(&server, &letter("later")).starts_with("451 4.7.1 "));
    assert!(send(&server, &letter("vanish")).starts_with("250 2.0.0 "));
    assert!(send(&server, &letter("apart")).starts_with("250 2.0.0 "));
    assert_eq!(server.mail(USER, PASSWORD, "Junk", 1).len(), 1);
    assert!(send(&server, &letter("rewrite")).starts_with("250 2.0.0 "));
    let got = String::from_utf8(server.mail(OTHER, PASSWORD, "INBOX", 1).remove(0)).unwrap();
    assert!(got.ends_with("\r\n\r\nAnother body.\r\n"), "{got}");
    assert_eq!(server.mail(USER, PASSWORD, "INBOX", 1).len(), 1);
    // Without the program mail waits.
    drop(program);
    assert!(send(&server, &letter("plain")).starts_with("451 4.7.1 "));
}

/// A milter that is down stops mail or not, as the administrator wants.
#[test]
fn a_milter_that_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let away = free_port();
    let lenient = server(dir.path(), &format!("{{ at = \"{away}\", failure = \"accept\" }}"));
    assert!(send(&lenient, &letter("plain")).starts_with("250 2.0.0 "));
    let strict = server(dir.path(), &format!("{{ at = \"{away}\" }}"));
    assert!(send(&strict, &letter("plain")).starts_with("451 4.7.1 "));
    // One that takes the connection and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    let hasty = server(dir.path(), &format!("{{ at = \"{at}\", timeout = \"1 s\", failure = \"accept\" }}"));
    assert!(send(&hasty, &letter("plain")).starts_with("250 2.0.0 "));
}

/// A signature over header and body in their simple forms holds only if each octet is as it was
/// shown.
#[test]
fn what_opendkim_signs_is_what_is_delivered() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (key, config, port) = (dir.path().join("key.pem"), dir.path().join("opendkim.conf"), free_port());
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let path = key.to_str().unwrap();
    openssl(&["genrsa", "-traditional", "-out", path, "2048"]);
    let public = openssl(&["rsa", "-in", path, "-pubout"]);
    let text = format!(
        "Mode s\nDomain good.test\nSelector s1\nKeyFile {path}\nCanonicalization simple/simple\n\
         Socket inet:{}@127.0.0.1\nInternalHosts 127.0.0.1\nRequireSafeKeys no\nSyslog no\nUMask 077\n",
        port.port()
    );
    std::fs::write(&config, text).unwrap();
    let mut opendkim = Command::new("/usr/sbin/opendkim");
    opendkim.arg("-f").arg("-x").arg(&config);
    let _program = started(opendkim, || std::net::TcpStream::connect(port).is_ok());
    let server = server(dir.path(), &format!("{{ at = \"{port}\" }}"));
    let message = format!("X-Folded: a\r\n\t b\r\n  c\r\n{}", letter("signed"));
    let reply = send(&server, &message);
    assert!(reply.starts_with("250 2.0.0 "), "{reply}");
    let got = server.mail(USER, PASSWORD, "INBOX", 1).remove(0);
    let text = String::from_utf8_lossy(&got);
    assert!(
        text.contains("DKIM-Signature: v=1; a=rsa-sha256; c=simple/simple; d=good.test; s=s1;"),
        "{text}"
    );
    let (file, pem) = (dir.path().join("got.eml"), dir.path().join("public.pem"));
    std::fs::write(&file, &got).unwrap();
    std::fs::write(&pem, public).unwrap();
    const SCRIPT: &str = r#"
import sys, dkim
pem = open(sys.argv[2]).read()
key = "".join(line for line in pem.splitlines() if not line.startswith("-"))
record = ("v=DKIM1; k=rsa; p=" + key).encode()
print(dkim.verify(open(sys.argv[1], "rb").read(), dnsfunc=lambda name, **more: record))
"#;
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", SCRIPT]).arg(&file).arg(&pem);
    assert_eq!(run_client(python), "True\n");
}
