//! POP3 from the outside: other people's clients (poplib, curl, fetchmail, getmail, mpop), and
//! `kill -9` around QUIT.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use posthaste_testkit::{
    LineClient, Server, ServerBuilder, client_tests_wanted, engine_of, message, run_client, run_python,
    script,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

fn server() -> Server {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, PASSWORD);
    server
}

/// A message with what an answer of POP3 could break: dots, 8-bit, trailing blanks, a long line.
fn hard(serial: usize) -> Vec<u8> {
    let mut text = message(serial);
    text.extend_from_slice(b".\r\n..\r\n.dot\r\nFrom here\r\n trailing \t\r\n\r\n");
    text.extend(std::iter::repeat_n(b'x', 900 + serial));
    text.extend_from_slice(b"\r\n");
    text
}

/// Puts messages into the INBOX as they are.
fn append(server: &Server, messages: impl Iterator<Item = Vec<u8>>) {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    for message in messages {
        client.send(format!("t APPEND INBOX {{{}+}}\r\n", message.len()).as_bytes()).unwrap();
        client.send(&message).unwrap();
        client.send(b"\r\n").unwrap();
        loop {
            let line = client.line().unwrap();
            if line.starts_with("t ") {
                assert!(line.starts_with("t OK"), "{line}");
                break;
            }
        }
    }
}

fn certificate(server: &Server) -> PathBuf {
    server.data().join("tls-certificate.pem")
}

/// A file that only its owner may read, as these clients want their configuration to be.
fn private_file(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// The messages of a Maildir by their serial.
fn maildir(path: &Path) -> BTreeMap<usize, Vec<u8>> {
    let new = fs::read_dir(path.join("new")).unwrap();
    let texts = new.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    texts.map(|text| (serial_of(&text), text)).collect()
}

fn serial_of(text: &[u8]) -> usize {
    let text = String::from_utf8_lossy(text);
    text.split("X-Serial: ").nth(1).unwrap().lines().next().unwrap().trim().parse().unwrap()
}

/// A message as clients on Unix store it.
fn with_lf(message: &[u8]) -> Vec<u8> {
    message.iter().copied().filter(|byte| *byte != b'\r').collect()
}

/// Whether a client stored messages `0..count`, each once and unchanged behind what it put before.
fn assert_all_came(path: &Path, count: usize) {
    let came = maildir(path);
    assert_eq!(came.keys().copied().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    for (serial, text) in came {
        let wanted = with_lf(&hard(serial));
        assert!(text.ends_with(&wanted), "message {serial}: {}", String::from_utf8_lossy(&text));
    }
}

fn make_maildir(path: &Path) {
    for folder in ["cur", "new", "tmp"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
}

fn left(server: &Server) -> usize {
    ids(server).len()
}

/// The unique ids, as the server lists them.
fn ids(server: &Server) -> Vec<String> {
    let mut client = logged_in(server);
    client.send(b"UIDL\r\n").unwrap();
    assert!(client.line().unwrap().starts_with("+OK"));
    let mut ids = Vec::new();
    loop {
        let line = client.line().unwrap();
        if line == "." {
            return ids;
        }
        ids.push(line.split(' ').nth(1).unwrap().to_owned());
    }
}

/// All messages of an account.
fn messages_of(server: &Server, user: &str) -> Vec<Vec<u8>> {
    let mut client = logged_in_as(server, user);
    let mut messages = Vec::new();
    loop {
        client.send(format!("RETR {}\r\n", messages.len() + 1).as_bytes()).unwrap();
        if client.line().unwrap().starts_with("-ERR") {
            return messages;
        }
        let mut message = String::new();
        loop {
            let line = client.line().unwrap();
            if line == "." {
                break;
            }
            message += line.strip_prefix('.').unwrap_or(&line);
            message += "\r\n";
        }
        messages.push(message.into_bytes());
    }
}

fn logged_in(server: &Server) -> LineClient {
    logged_in_as(server, USER)
}

fn logged_in_as(server: &Server, user: &str) -> LineClient {
    let mut client = LineClient::connect(server.address("pop3")).unwrap();
    client.send(format!("USER {user}\r\nPASS {PASSWORD}\r\n").as_bytes()).unwrap();
    for _ in 0..3 {
        let line = client.line().unwrap();
        assert!(line.starts_with("+OK"), "{line}");
    }
    client
}

#[test]
fn poplib_does_a_full_round() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    append(&server, (0..3).map(hard));
    let (plain, tls) =
        (server.address("pop3").port().to_string(), server.address("pop3s").port().to_string());
    let certificate = certificate(&server);
    let args = [plain.as_str(), &tls, certificate.to_str().unwrap(), USER, PASSWORD];
    let said = run_python(include_str!("../clients/poplib_round.py"), &args);
    assert!(said.contains("poplib: done"), "{said}");
}

#[test]
fn curl_lists_reads_and_removes_by_every_way_in() {
    if !client_tests_wanted() {
        return;
    }
    let server = server();
    append(&server, (0..3).map(hard));
    let certificate = certificate(&server);
    let curl = |scheme: &str, path: &str, args: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--cacert"]).arg(&certificate);
        command.args(["--user", &format!("{USER}:{PASSWORD}")]).args(args);
        command.arg(format!("{scheme}://localhost:{}/{path}", server.address(scheme).port()));
        run_client(command)
    };
    let list = curl("pop3", "", &[]);
    let sizes: Vec<String> = (0..3).map(|n| format!("{} {}", n + 1, hard(n).len())).collect();
    assert_eq!(list.lines().collect::<Vec<_>>(), sizes);
    for (scheme, args) in [
        ("pop3", &[][..]),
        ("pop3", &["--ssl-reqd"]),
        ("pop3s", &[]),
        ("pop3", &["--login-options", "AUTH=PLAIN"]),
        ("pop3", &["--login-options", "AUTH=LOGIN"]),
    ] {
        assert_eq!(curl(scheme, "2", args).into_bytes(), hard(1), "{scheme} {args:?}");
    }
    assert_eq!(curl("pop3", "", &["--request", "UIDL"]).lines().count(), 3);
    curl("pop3", "2", &["--request", "DELE", "--head"]);
    assert_eq!(curl("pop3", "", &[]).lines().count(), 2);
}

#[test]
fn fetchmail_brings_all_and_what_is_new() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let (mail, rc) = (dir.path().join("Mail"), dir.path().join("fetchmailrc"));
    make_maildir(&mail);
    let mda = dir.path().join("mda");
    script(&mda, &format!("cat >\"$(mktemp -p '{}/new')\"", mail.display()));
    append(&server, (0..3).map(hard));
    let fetch = |port: u16, user: &str, status: &str| {
        private_file(
            &rc,
            &format!(
                "poll localhost protocol pop3 port {port} uidl\n  username \"{USER}\" password \"{PASSWORD}\"\n  \
                 {user} mda \"{}\"\n",
                mda.display()
            ),
        );
        let mut command = Command::new("sh");
        // It ends with 1 if there is no new mail.
        command.args(["-c", "fetchmail -v -f \"$1\" --nosyslog --nodetach -i \"$2\" --pidfile \"$2.pid\" 2>&1; echo status $?", "sh"]);
        command.arg(&rc).arg(dir.path().join("ids")).env("HOME", dir.path()).env("FETCHMAILHOME", dir.path());
        let said = run_client(command);
        assert!(said.ends_with(&format!("status {status}\n")), "{said}");
    };
    let (plain, tls) = (server.address("pop3").port(), server.address("pop3s").port());
    fetch(plain, "sslproto '' keep", "0");
    assert_all_came(&mail, 3);
    fetch(plain, "sslproto '' keep", "1");
    append(&server, (3..5).map(hard));
    let trusted = format!("sslcertck sslcertfile \"{}\"", certificate(&server).display());
    fetch(tls, &format!("ssl {trusted} keep"), "0");
    assert_all_came(&mail, 5);
    // By STLS; fetched messages are removed.
    fetch(plain, &format!("sslproto 'TLS1.2+' {trusted} fetchall nokeep"), "0");
    assert_eq!(left(&server), 0);
}

/// getmail delivers by LMTP here. Its Maildir destination forks, and waits for ever if the child
/// ends before the wait begins.
#[test]
fn getmail_brings_what_is_new_and_removes_it() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.add_account("ben@example.org", PASSWORD);
    append(&server, (0..3).map(hard));
    let fetch = |retriever: &str, protocol: &str, delete: bool| {
        private_file(
            &dir.path().join("getmailrc"),
            &format!(
                "[retriever]\ntype = {retriever}\nserver = localhost\nport = {}\nusername = {USER}\n\
                 password = {PASSWORD}\n[destination]\ntype = MDA_lmtp\nhost = 127.0.0.1\nport = {}\n\
                 override = ben@example.org\n[options]\nread_all = false\ndelete = {delete}\n",
                server.address(protocol).port(),
                server.address("lmtp").port(),
            ),
        );
        let mut command = Command::new("getmail");
        command.arg("--getmaildir").arg(dir.path()).args(["--rcfile", "getmailrc"]);
        run_client(command)
    };
    let said = fetch("SimplePOP3Retriever", "pop3", false);
    assert!(said.contains("3 messages"), "{said}");
    append(&server, (3..5).map(hard));
    let said = fetch("SimplePOP3Retriever", "pop3", false);
    assert!(said.contains("2 messages"), "{said}");
    let mut came: Vec<usize> =
        messages_of(&server, "ben@example.org").iter().map(|text| serial_of(text)).collect();
    came.sort_unstable();
    assert_eq!(came, [0, 1, 2, 3, 4]);
    assert_eq!(left(&server), 5);
    fetch("SimplePOP3Retriever", "pop3", true);
    assert_eq!(left(&server), 0);
    append(&server, (5..7).map(hard));
    fetch("SimplePOP3SSLRetriever", "pop3s", true);
    assert_eq!(left(&server), 0);
}

#[test]
fn mpop_pipelines_and_removes() {
    if !client_tests_wanted() {
        return;
    }
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let (mail, rc) = (dir.path().join("Mail"), dir.path().join("mpoprc"));
    make_maildir(&mail);
    let fetch = |protocol: &str, settings: &str| {
        private_file(
            &rc,
            &format!(
                "account a\nhost localhost\nport {}\nuser {USER}\npassword \"{PASSWORD}\"\n\
                 delivery maildir {}\nuidls_file {}\nreceived_header off\n{settings}\naccount default : a\n",
                server.address(protocol).port(),
                mail.display(),
                dir.path().join("ids").display()
            ),
        );
        let mut command = Command::new("mpop");
        command.arg("--file").arg(&rc).env("HOME", dir.path());
        run_client(command)
    };
    let trust = format!("tls_trust_file {}", certificate(&server).display());
    append(&server, (0..3).map(hard));
    fetch("pop3", "tls off\nauth user\nkeep on\npipelining on");
    assert_all_came(&mail, 3);
    append(&server, (3..5).map(hard));
    fetch("pop3", &format!("tls on\ntls_starttls on\n{trust}\nauth plain\nkeep on\npipelining auto"));
    assert_all_came(&mail, 5);
    append(&server, (5..7).map(hard));
    fetch("pop3s", &format!("tls on\ntls_starttls off\n{trust}\nauth scram-sha-256\nkeep off"));
    assert_all_came(&mail, 7);
    assert_eq!(left(&server), 0);
}

/// RENAME of INBOX, a rebuild of the index, and a copy to another store: to another data directory,
/// or to a cluster where the tests run on one.
#[test]
fn unique_ids_stay_in_whatever_store_the_mail_is() {
    let dir = tempfile::tempdir().unwrap();
    let (data, target) = (dir.path().join("data"), dir.path().join("target"));
    let start = || ServerBuilder::new(BINARY).data(&data).engine("embedded").start();
    let posthaste = |args: &[&str]| {
        let output = Command::new(BINARY).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let server = start();
    server.add_account(USER, PASSWORD);
    append(&server, (0..3).map(message));
    let at_first = ids(&server);
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    let said = client.imap("RENAME INBOX Old").unwrap();
    assert!(said.last().unwrap().starts_with("t OK"), "{said:?}");
    assert_eq!(left(&server), 0);
    append(&server, (3..6).map(message));
    let mut client = logged_in(&server);
    for command in ["DELE 2", "QUIT"] {
        client.send(format!("{command}\r\n").as_bytes()).unwrap();
        assert!(client.line().unwrap().starts_with("+OK"));
    }
    let before = ids(&server);
    assert!(before.len() == 2 && before.iter().all(|id| *id > at_first[2]), "{at_first:?} {before:?}");
    assert!(server.stop().status.success());

    let path = |path: &Path| path.to_str().unwrap().to_owned();
    posthaste(&["check", "--rebuild", "--data", &path(&data)]);
    let server = start();
    assert_eq!(ids(&server), before, "after a rebuild");
    assert!(server.stop().status.success());

    let to = engine_of(Path::new(BINARY), &target).unwrap_or_else(|| path(&target));
    posthaste(&["copy-store", "--from", &path(&data), "--to", &to]);
    let server = ServerBuilder::new(BINARY).data(&target).start();
    assert_eq!(ids(&server), before, "after a copy");
    append(&server, (6..7).map(message));
    let after = ids(&server);
    assert!(after[..2] == before && after[2] > before[1], "{before:?} {after:?}");
}

/// The messages before a kill, and the number of those that DELE names.
const MESSAGES: usize = 40;
const REMOVED: usize = 15;
/// Kills, half of them before the answer to QUIT is read.
const KILLS: usize = 8;

#[test]
fn quit_removes_all_or_nothing_when_the_server_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = || {
        ServerBuilder::new(BINARY).data(&data).listen("imap=127.0.0.1:0").listen("pop3=127.0.0.1:0").start()
    };
    let server = start();
    server.add_account(USER, PASSWORD);
    server.kill();
    for round in 0..KILLS {
        let server = start();
        let there = left(&server);
        append(&server, (there..MESSAGES).map(message));
        let before = ids(&server);
        assert_eq!(before.len(), MESSAGES);
        let mut client = logged_in(&server);
        // Every second message from another place each time, all in one packet.
        let named: Vec<usize> = (0..REMOVED).map(|n| (round + 2 * n) % MESSAGES).collect();
        let commands: String = named.iter().map(|n| format!("DELE {}\r\n", n + 1)).collect();
        client.send(commands.as_bytes()).unwrap();
        for _ in &named {
            assert!(client.line().unwrap().starts_with("+OK"));
        }
        client.send(b"QUIT\r\n").unwrap();
        // The commit has happened, is happening, or has not begun. In odd rounds its answer came.
        let answer = if round % 2 == 1 { Some(client.line().unwrap()) } else { None };
        server.kill();
        assert!(answer.as_ref().is_none_or(|line| line.starts_with("+OK")), "{answer:?}");
        let server = start();
        let after = ids(&server);
        let rest: Vec<&String> = (0..MESSAGES).filter(|n| !named.contains(n)).map(|n| &before[n]).collect();
        let all_removed = after.iter().collect::<Vec<_>>() == rest;
        assert!(all_removed || (answer.is_none() && after == before), "round {round}: {answer:?}, {after:?}");
        let check = server.command(&["check"], "");
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        server.kill();
    }
}
