//! An administrator's work on a running server: accounts, signals, a second server, a full disk.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use posthaste_testkit::{LineClient, Server, ServerBuilder, free_port, message, run_python};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";

fn login(server: &Server, user: &str, password: &str) -> (LineClient, bool) {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {user} \"{password}\"")).unwrap().pop().unwrap();
    (client, answer.starts_with("t OK"))
}

#[test]
fn the_first_start_makes_an_account_and_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = ServerBuilder::new(BINARY).data(dir.path().join("data")).start();
    let (name, password) = first.first_account();
    assert!(first.greeting().iter().all(|line| !line.contains(&password)), "{:?}", first.greeting());
    assert!(login(&first, &name, &password).1, "{name} {password}");
    assert!(first.stop().status.success());
    let second = ServerBuilder::new(BINARY).data(dir.path().join("data")).start();
    assert!(second.greeting().iter().all(|l| !l.contains("password")), "{:?}", second.greeting());
    assert!(login(&second, &name, &password).1);
}

/// An output that is no terminal keeps its text, and others may read it: here a file, elsewhere a
/// journal or the log of a container.
#[test]
fn the_first_password_goes_to_no_log() {
    if posthaste_testkit::skips_cluster(
        "it starts a server by itself, and where its mail is makes no difference",
    ) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, output) = (dir.path().join("data"), dir.path().join("output"));
    let stdout = std::fs::File::create(&output).unwrap();
    let mut server = Command::new(BINARY)
        .args(["serve", "--listen", "imap=127.0.0.1:0", "--data"])
        .arg(&data)
        .stderr(stdout.try_clone().unwrap())
        .stdout(stdout)
        .spawn()
        .unwrap();
    let said = loop {
        let said = std::fs::read_to_string(&output).unwrap();
        if said.contains("ready imap=") {
            break said;
        }
        assert_eq!(server.try_wait().unwrap(), None, "it ended: {said}");
        std::thread::sleep(Duration::from_millis(20));
    };
    server.kill().unwrap();
    server.wait().unwrap();
    let file = data.join("first-password");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let server = ServerBuilder::new(BINARY).data(&data).start();
    let (name, password) = server.first_account();
    assert!(!said.contains(&password), "{said}");
    assert!(login(&server, &name, &password).1);
}

/// As on a full disk: a directory is where the file should be.
#[test]
fn a_first_password_that_cannot_be_written_makes_no_account() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir_all(data.join("first-password")).unwrap();
    let server = ServerBuilder::new(BINARY).data(&data).start();
    let list = server.command(&["account", "list"], "");
    assert!(list.status.success(), "{list:?}");
    assert!(!String::from_utf8_lossy(&list.stdout).contains("postmaster"), "{list:?}");
    assert!(server.stop().status.success());
    std::fs::remove_dir(data.join("first-password")).unwrap();
    let server = ServerBuilder::new(BINARY).data(&data).start();
    let (name, password) = server.first_account();
    assert!(login(&server, &name, &password).1);
}

/// A crash may leave the file of a start that made no account.
#[test]
fn a_first_password_without_an_account_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let left = "  account   postmaster@localhost\n  password  nobody-has-this\n";
    std::fs::write(data.join("first-password"), left).unwrap();
    let server = ServerBuilder::new(BINARY).data(&data).start();
    let (name, password) = server.first_account();
    assert_ne!(password, "nobody-has-this");
    assert_eq!(std::fs::metadata(data.join("first-password")).unwrap().mode() & 0o777, 0o600);
    assert!(login(&server, &name, &password).1);
}

/// Starts a server whose output is a terminal; what that shows up to the line `ready`.
const ON_A_TERMINAL: &str = r#"
import os, pty, subprocess, sys
terminal, own = pty.openpty()
server = subprocess.Popen(
    [sys.argv[1], "serve", "--listen", "imap=127.0.0.1:0", "--data", sys.argv[2]],
    stdin=subprocess.DEVNULL, stdout=own, stderr=subprocess.DEVNULL)
os.close(own)
said = b""
try:
    while b"ready imap=" not in said:
        said += os.read(terminal, 65536)
finally:
    server.kill()
    server.wait()
sys.stdout.write(said.decode())
"#;

#[test]
fn a_terminal_shows_the_first_password() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let said = run_python(ON_A_TERMINAL, &[BINARY, data.to_str().unwrap()]);
    let word = |prefix: &str| said.lines().find_map(|line| line.trim().strip_prefix(prefix)).unwrap().trim();
    let (name, password) = (word("account"), word("password"));
    assert!(!data.join("first-password").exists());
    if posthaste_testkit::skips_cluster("the next server has another store") {
        return;
    }
    let server = ServerBuilder::new(BINARY).data(&data).start();
    assert!(login(&server, name, password).1);
}

/// Output goes to a file on a full disk, as `/dev/full` does: the disk of the mail may be the same.
#[test]
fn a_server_whose_output_cannot_be_written_serves() {
    let dir = tempfile::tempdir().unwrap();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let address = free_port();
    let mut server = Command::new(BINARY)
        .args(["serve", "--data", dir.path().join("data").to_str().unwrap()])
        .args(["--listen", &format!("imap={address}")])
        .stdout(full())
        .stderr(full())
        .spawn()
        .unwrap();
    let greeting = loop {
        assert_eq!(server.try_wait().unwrap(), None, "it ended");
        if let Ok(mut client) = LineClient::connect(address) {
            break client.line().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(greeting.starts_with("* OK"), "{greeting}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_new_password_counts_at_once_and_a_removed_account_cannot_log_in() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "the first one");
    assert!(login(&server, USER, "the first one").1);
    let passwd = server.command(&["account", "passwd", USER, "--password-stdin"], "the second one\n");
    assert!(passwd.status.success(), "{}", String::from_utf8_lossy(&passwd.stderr));
    assert!(login(&server, USER, "the second one").1);
    assert!(!login(&server, USER, "the first one").1);
    assert!(server.command(&["account", "set", USER, "--disable"], "").status.success());
    assert!(!login(&server, USER, "the second one").1);
    assert!(server.command(&["account", "set", USER, "--enable"], "").status.success());
    assert!(login(&server, USER, "the second one").1);
    let list = server.command(&["account", "list"], "");
    assert!(String::from_utf8_lossy(&list.stdout).contains(USER));
    let show = server.command(&["account", "show", USER], "");
    assert!(String::from_utf8_lossy(&show.stdout).contains("INBOX"));
    assert!(server.command(&["account", "remove", USER, "--yes"], "").status.success());
    assert!(!login(&server, USER, "the second one").1);
    let again = server.command(&["account", "show", USER], "");
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is no account"));
}

#[test]
fn logins_are_sent_to_the_server_that_has_the_account() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "correct horse");
    let referral = |args: &[&str]| {
        let done = server.command(&[&["account", "referral", USER], args].concat(), "");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    assert_eq!(referral(&[]), (Some(0), "none\n".to_owned()));
    assert_eq!(referral(&["--to", "mail2.example.org"]).0, Some(2));
    assert_eq!(referral(&["--to", "imap://mail2.example.org"]).0, Some(0));
    let url = "imap://ana%40example.org;AUTH=*@mail2.example.org/";
    assert_eq!(referral(&[]), (Some(0), format!("{url} (logins here are refused)\n")));
    let show = server.command(&["account", "show", USER], "");
    assert!(String::from_utf8_lossy(&show.stdout).contains(&format!("referral {url}")));
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {USER} \"correct horse\"")).unwrap().pop().unwrap();
    assert!(answer.starts_with(&format!("t NO [REFERRAL {url}] ")), "{answer}");
    assert_eq!(referral(&["--remove"]).0, Some(0));
    assert!(login(&server, USER, "correct horse").1);
}

#[test]
fn clients_are_sent_to_the_server_that_has_a_mailbox() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "correct horse");
    let referral = |args: &[&str]| {
        let done = server.command(&[&["account", "mailbox-referral", USER], args].concat(), "");
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    assert!(login(&server, USER, "correct horse").1);
    assert_eq!(referral(&[]), (Some(0), "none\n".to_owned()));
    for wrong in [
        &["Team", "--to", "imap://mail2.example.org"][..],
        &["INBOX", "--to", "imap://mail2.example.org/x"],
        &["Drafts", "--to", "imap://mail2.example.org/x"],
        &["--to", "imap://mail2.example.org/x"],
    ] {
        assert_eq!(referral(wrong).0, Some(2), "{wrong:?}");
    }
    assert_eq!(referral(&["Team", "--to", "imap://mail2.example.org/Group"]).0, Some(0));
    let url = "imap://ana%40example.org;AUTH=*@mail2.example.org/Group";
    assert_eq!(referral(&[]), (Some(0), format!("Team {url}\n")));
    let (mut client, _) = login(&server, USER, "correct horse");
    let answer = client.imap("STATUS Team/a (MESSAGES)").unwrap().pop().unwrap();
    assert!(answer.starts_with(&format!("t NO [REFERRAL {url}/a] ")), "{answer}");
    assert_eq!(referral(&["Team", "--remove"]).0, Some(0));
    assert_eq!(referral(&[]), (Some(0), "none\n".to_owned()));
}

/// Reads up to the server's last word; fails if it does not hang up.
fn last_word(client: &mut LineClient) -> String {
    let mut last = String::new();
    loop {
        match client.line() {
            Ok(line) => last = line,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return last,
            Err(error) => panic!("after {last:?}: {error}"),
        }
    }
}

/// A session of each protocol but IMAP, and how its last word begins once the login has ended.
/// `plain` is the response of RFC 4616 §2.
fn sessions_beside_imap(server: &Server, password: &str, plain: &str) -> [(LineClient, &'static str); 3] {
    let connect = |protocol: &str| LineClient::connect(server.address(protocol)).unwrap();
    let mut sender = connect("submission");
    sender.reply().unwrap();
    sender.ask("EHLO test").unwrap();
    assert!(sender.ask(&format!("AUTH PLAIN {plain}")).unwrap().starts_with("235"));
    let mut reader = connect("pop3");
    reader.send(format!("USER {USER}\r\nPASS {password}\r\n").as_bytes()).unwrap();
    let answers = [(); 3].map(|()| reader.line().unwrap());
    assert!(answers[2].starts_with("+OK Logged in"), "{answers:?}");
    let mut filterer = connect("sieve");
    while !filterer.line().unwrap().starts_with("OK") {}
    filterer.send(format!("AUTHENTICATE \"PLAIN\" \"{plain}\"\r\n").as_bytes()).unwrap();
    assert_eq!(filterer.line().unwrap(), "OK \"Logged in\"");
    [
        (sender, "421 4.7.0 Your login has ended"),
        (reader, "-ERR [AUTH] Your login has ended"),
        (filterer, "BYE \"Your login has ended"),
    ]
}

#[test]
fn sessions_end_when_another_process_disables_removes_or_rekeys_the_account() {
    let listen = |server: ServerBuilder, name: &str| server.listen(&format!("{name}=127.0.0.1:0"));
    let protocols = ["imap", "pop3", "submission", "sieve"];
    let server = protocols.into_iter().fold(ServerBuilder::new(BINARY), listen).start();
    let (first, second) = ("correct horse", "battery staple");
    server.add_account(USER, first);
    // With base64 of NUL, name, NUL, password: RFC 4616 §2.
    let (plain_first, plain_second) =
        ("AGFuYUBleGFtcGxlLm9yZwBjb3JyZWN0IGhvcnNl", "AGFuYUBleGFtcGxlLm9yZwBiYXR0ZXJ5IHN0YXBsZQ==");
    let changes: [(&[&str], &str, &str); 3] = [
        (&["account", "passwd", USER, "--password-stdin"], first, plain_first),
        (&["account", "set", USER, "--disable"], second, plain_second),
        (&["account", "remove", USER, "--yes"], second, plain_second),
    ];
    for (change, password, plain) in changes {
        let (mut idle, ok) = login(&server, USER, password);
        assert!(ok, "{change:?}");
        idle.imap("SELECT INBOX").unwrap();
        idle.send(b"i IDLE\r\n").unwrap();
        assert!(idle.line().unwrap().starts_with('+'));
        let (mut silent, _) = login(&server, USER, password);
        let (mut appending, _) = login(&server, USER, password);
        appending.send(b"a APPEND INBOX {5}\r\n").unwrap();
        assert!(appending.line().unwrap().starts_with('+'));
        let others = sessions_beside_imap(&server, password, plain);
        // Another account's session is left alone.
        let (name, password) = server.first_account();
        let (mut neighbour, ok) = login(&server, &name, &password);
        assert!(ok);
        let output = server.command(change, second);
        assert!(output.status.success(), "{output:?}");
        for client in [&mut silent, &mut appending] {
            let last = last_word(client);
            assert!(last.starts_with("* BYE Your login has ended"), "{change:?}: {last}");
        }
        // With an account goes the mailbox that is selected here: either may be seen first.
        let last = last_word(&mut idle);
        let mailbox_went =
            change[1] == "remove" && last.starts_with("* BYE The selected mailbox was deleted");
        assert!(mailbox_went || last.starts_with("* BYE Your login has ended"), "{change:?}: {last}");
        for (mut client, last) in others {
            let said = last_word(&mut client);
            assert!(said.starts_with(last), "{change:?}: {said}");
        }
        assert!(neighbour.imap("NOOP").unwrap()[0].starts_with("t OK"));
        server.command(&["account", "set", USER, "--enable"], "");
    }
}

#[test]
fn a_new_quota_reaches_sessions_that_are_open() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "correct horse");
    let (mut client, ok) = login(&server, USER, "correct horse");
    assert!(ok);
    for limit in [3, 900] {
        let set = ["account", "set", USER, "--messages", &limit.to_string()];
        assert!(server.command(&set, "").status.success());
        let shown = format!("MESSAGE 0 {limit})");
        // The server looks at accounts of open sessions now and then.
        while !client.imap("GETQUOTA \"\"").unwrap().iter().any(|line| line.contains(&shown)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn an_import_takes_what_it_can_and_names_the_rest() {
    let (server, dir) =
        (ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste")).start(), tempfile::tempdir().unwrap());
    server.add_account("ana@example.org", "long enough");
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("a.eml"), "Subject: a\n\nx\n").unwrap();
    std::fs::write(path("b.mbox.gz"), b"\x1f\x8b\x08\0").unwrap();
    std::fs::write(path("c.mbox"), "From x Tue Nov 14 22:13:20 2023\nSubject: c\n\nx\n").unwrap();
    let import = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| path(name)).collect();
        let mut args: Vec<&str> = vec!["import", "--account", "ana@example.org"];
        args.extend(paths.iter().map(String::as_str));
        let output = server.command(&args, "");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, said, faults) = import(&["a.eml", "nowhere", "b.mbox.gz", "c.mbox"]);
    assert_eq!(
        (code, said.trim()),
        (Some(1), "imported 2 messages into ana@example.org, 0 were there already"),
        "{faults}"
    );
    for part in
        ["/nowhere: No such file", "/b.mbox.gz: it is compressed: unpack it first", "2 messages or files"]
    {
        assert!(faults.contains(part), "{part}: {faults}");
    }
    let (code, said, fault) = import(&["b.mbox.gz"]);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(fault.trim_end().ends_with("it is compressed: unpack it first"), "{fault}");
}

#[test]
fn a_short_password_is_refused_and_the_setting_named() {
    let server = ServerBuilder::new(BINARY).start();
    let add = server.command(&["account", "add", USER, "--password-stdin"], "7 chars\n");
    let said = String::from_utf8_lossy(&add.stderr).into_owned();
    assert_eq!(add.status.code(), Some(2));
    assert!(
        said.contains("it has 7 characters") && said.contains("`login.password_length_min` requires 8"),
        "{said}"
    );
    assert_eq!(server.command(&["account", "show", USER], "").status.code(), Some(2));
    server.add_account(USER, "8 chars!");
    let passwd = server.command(&["account", "passwd", USER, "--password-stdin"], "short\n");
    assert_eq!(passwd.status.code(), Some(2));
    assert!(login(&server, USER, "8 chars!").1);
}

#[test]
fn a_second_server_on_the_same_data_names_the_first() {
    let first = ServerBuilder::new(BINARY).start();
    let Err(said) = ServerBuilder::new(BINARY).data(first.data()).try_start() else {
        panic!("a second server started on the same data");
    };
    assert!(said.contains(&first.pid().to_string()), "{said}");
    // Not even if somebody takes the lock's file for a leftover: it was the first start that made
    // the store.
    std::fs::remove_file(first.data().join("lock")).unwrap();
    let Err(said) = ServerBuilder::new(BINARY).data(first.data()).try_start() else {
        panic!("a second server started when the lock's file was removed");
    };
    assert!(said.contains("is being served"), "{said}");
}

#[test]
fn sigterm_says_bye_and_ends_well() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "long enough");
    let (mut client, ok) = login(&server, USER, "long enough");
    assert!(ok);
    let (mut idler, _) = login(&server, USER, "long enough");
    idler.imap("SELECT INBOX").unwrap();
    idler.send(b"i IDLE\r\n").unwrap();
    assert!(idler.line().unwrap().starts_with('+'));
    let stopped = server.stop();
    assert!(stopped.status.success(), "{stopped:?}");
    let line = client.line().unwrap();
    assert!(line.starts_with("* BYE"), "{line}");
    // IDLE is a command in flight: it is finished first.
    assert!(idler.line().unwrap().starts_with("i OK"));
    assert!(idler.line().unwrap().starts_with("* BYE"));
}

#[test]
fn a_start_that_fails_shows_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("imap={}", busy.local_addr().unwrap());
    let Err(said) = ServerBuilder::new(BINARY).data(&data).listen(&listen).try_start() else {
        panic!("it started on a busy port");
    };
    assert!(said.contains("another program uses it") && !said.contains("password"), "{said}");
    // The password is not lost, either: the start that succeeds shows it.
    let server = ServerBuilder::new(BINARY).data(&data).start();
    let (name, password) = server.first_account();
    assert!(login(&server, &name, &password).1);
}

#[test]
fn each_administrative_act_leaves_a_line_and_no_secret() {
    let server = ServerBuilder::new(BINARY).start();
    server.add_account(USER, "correct horse");
    let acts: [(&[&str], &str); 7] = [
        (&["account", "set", USER, "--disable", "--messages", "9"], ""),
        (&["account", "passwd", USER, "--password-stdin"], "battery staple"),
        (&["account", "set", "no\nbody@example.org", "--enable"], ""),
        (&["account", "list"], ""),
        (&["account", "referral", USER], ""),
        (&["account", "referral", USER, "--to", "imap://two.example.org/", "--admit"], ""),
        (&["account", "set", USER, "--sets-quotas", "true"], ""),
    ];
    for (act, input) in acts {
        server.command(act, input);
    }
    let log = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let expected = [
        ("act=\"serve: first account postmaster@", "outcome=done"),
        ("act=\"account add ana@example.org --password-stdin\" user=", "outcome=done"),
        ("act=\"account set ana@example.org --disable --messages 9\" user=", "outcome=done"),
        ("act=\"account passwd ana@example.org --password-stdin\" user=", "outcome=done"),
        ("act=\"account set 'no\\nbody@example.org' --enable\" user=", "outcome=failed"),
        (
            "act=\"account referral ana@example.org --to imap://two.example.org/ --admit\" user=",
            "outcome=done",
        ),
        ("act=\"account set ana@example.org --sets-quotas true\" user=", "outcome=done"),
    ];
    assert_eq!(lines.len(), expected.len(), "{log}");
    for (line, (act, outcome)) in lines.into_iter().zip(expected) {
        assert!(line.contains(act) && line.ends_with(outcome), "{line}");
    }
    assert!(!log.contains("horse") && !log.contains("staple"), "{log}");
}

/// A file system of 24 MiB, unmounted when dropped. Needs root.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "posthaste-test"])
            .arg(dir.path())
            .output();
        mounted.is_ok_and(|o| o.status.success()).then(|| Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_mail_and_goes_on_reading() {
    if posthaste_testkit::skips_cluster("its mail is not on the disk of the data directory") {
        return;
    }
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let server = ServerBuilder::new(BINARY).data(disk.0.path().join("data")).start();
    server.add_account(USER, "long enough");
    let (mut client, _) = login(&server, USER, "long enough");
    let mut text = message(1);
    text.extend(std::iter::repeat_n(*b"0123456789abcdef\r\n", 60_000).flatten());
    let mut stored = 0;
    let refusal = loop {
        client.send(format!("a APPEND INBOX {{{}+}}\r\n", text.len()).as_bytes()).unwrap();
        client.send(&text).unwrap();
        client.send(b"\r\n").unwrap();
        let answer = loop {
            let line = client.line().unwrap();
            if line.starts_with("a ") {
                break line;
            }
        };
        if !answer.starts_with("a OK") {
            break answer;
        }
        stored += 1;
        assert!(stored < 100, "24 MiB took 100 MiB");
    };
    assert!(stored > 0 && refusal.starts_with("a NO [UNAVAILABLE]"), "{stored} {refusal}");
    let mut lmtp = LineClient::connect(server.address("lmtp")).unwrap();
    lmtp.reply().unwrap();
    lmtp.ask("LHLO test").unwrap();
    // The space that the refused APPEND did not take may hold one more message, but not many.
    let replies: Vec<String> = (0..10)
        .map(|_| {
            lmtp.ask("MAIL FROM:<>").unwrap();
            lmtp.ask(&format!("RCPT TO:<{USER}>")).unwrap();
            lmtp.ask("DATA").unwrap();
            lmtp.send(&text).unwrap();
            lmtp.ask("\r\n.").unwrap()
        })
        .collect();
    assert!(replies.iter().all(|r| r.starts_with("250") || r.starts_with("452")), "{replies:?}");
    assert!(replies.last().is_some_and(|r| r.starts_with("452")), "{replies:?}");
    // Reading continues.
    client.imap("SELECT INBOX").unwrap();
    client.send(format!("f FETCH {stored} (BODY.PEEK[])\r\n").as_bytes()).unwrap();
    let line = client.line().unwrap();
    assert!(line.ends_with(&format!("{{{}}}", text.len())), "{line}");
    assert_eq!(client.bytes(text.len()).unwrap(), text);
}

/// The unit is judged by systemd itself, where it is installed.
#[test]
fn the_unit_is_what_systemd_understands_and_exposes_little() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../contrib/systemd/posthaste.service");
    let text = std::fs::read_to_string(shipped).unwrap();
    // What an administrator relies on most. It is looked at where there is no systemd as well.
    for wanted in ["UMask=0077", "ProtectSystem=strict", "MemoryMax=3G", "NoNewPrivileges=yes"] {
        assert!(text.lines().any(|line| line == wanted), "the unit has no line {wanted}");
    }
    let present = Command::new("systemd-analyze").arg("--version").output();
    if !present.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: systemd-analyze (Debian: apt-get install systemd)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("posthaste.service");
    // It must name a program that is there.
    std::fs::write(&unit, text.replace("/usr/local/bin/posthaste", BINARY)).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&unit).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (good, said) = analyze(&["verify"]);
    assert!(good && !said.contains("posthaste.service"), "{said}");
    // In tenths: an exposure of at most 1.8, as SECURITY.md says.
    let (good, said) = analyze(&["security", "--offline=yes", "--no-pager", "--threshold=18"]);
    assert!(good, "{said}");
}
