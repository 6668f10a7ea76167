//! LMTP on a Unix socket: mail comes in, others cannot connect, and the file exists as long as the
//! server.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder, Wire, run_python, skips_cluster};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// A machine under load takes its time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The path of the socket.
fn stage() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lmtp.sock");
    (dir, socket)
}

fn builder(socket: &Path) -> ServerBuilder {
    let lmtp = format!("lmtp=unix:{}", socket.display());
    ServerBuilder::new(BINARY).listen(&lmtp).listen("imap=127.0.0.1:0")
}

/// A connection that waits a minute for each answer.
fn wire(socket: &Path) -> Wire<UnixStream> {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    Wire::over(stream)
}

/// How many messages are in INBOX.
fn messages(server: &Server) -> usize {
    let mut imap = LineClient::connect(server.address("imap")).unwrap();
    imap.line().unwrap();
    imap.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    let said = imap.imap("STATUS INBOX (MESSAGES)").unwrap().join(" ");
    let count = said.split("(MESSAGES ").nth(1).unwrap().split(')').next().unwrap();
    count.parse().unwrap()
}

#[test]
fn mail_comes_in_by_a_unix_socket_that_is_removed_at_the_end() {
    let (_dir, socket) = stage();
    let server = builder(&socket).start();
    server.add_account(USER, PASSWORD);
    let file = fs::symlink_metadata(&socket).unwrap();
    assert!(file.file_type().is_socket());
    assert_eq!(file.mode() & 0o7777, 0o660);
    wire(&socket).deliver(USER, "one");
    assert_eq!(messages(&server), 1);
    assert!(server.stop().status.success());
    assert!(!socket.exists());
}

#[test]
fn a_dead_server_s_socket_is_replaced_and_a_live_one_s_is_an_error() {
    let (_dir, socket) = stage();
    builder(&socket).start().kill();
    assert!(socket.exists(), "a killed server removes nothing");
    let server = builder(&socket).start();
    server.add_account(USER, PASSWORD);
    let Err(said) = builder(&socket).try_start() else { panic!("two servers listen on one socket") };
    assert!(said.contains(&format!("unix:{}", socket.display())), "{said}");
    assert!(said.contains("another process listens on it; stop that one"), "{said}");
    wire(&socket).deliver(USER, "still here");
    assert_eq!(messages(&server), 1);
    assert!(server.stop().status.success());
    // Another file of that name is kept.
    fs::write(&socket, "mine").unwrap();
    let Err(said) = builder(&socket).try_start() else { panic!("a file was replaced") };
    assert!(said.contains("another kind"), "{said}");
    assert_eq!(fs::read(&socket).unwrap(), b"mine");
}

/// LMTP has no login. A server that other machines can reach by it says so.
#[test]
fn lmtp_for_other_machines_is_warned_of() {
    const WARNING: &str = "LMTP has no login and does not require TLS";
    let (_dir, socket) = stage();
    let warned = |lmtp: &str| {
        let server = ServerBuilder::new(BINARY).listen(&format!("lmtp={lmtp}")).start();
        server.logged(WARNING)
    };
    assert_eq!(warned("127.0.0.1:0"), [""; 0]);
    assert_eq!(warned(&format!("unix:{}", socket.display())), [""; 0]);
    let lines = warned("0.0.0.0:0");
    assert!(lines.len() == 1 && lines[0].contains("address=0.0.0.0:"), "{lines:?}");
}

#[test]
fn only_lmtp_listens_on_a_socket() {
    let (_dir, socket) = stage();
    let imap = format!("imap=unix:{}", socket.display());
    let Err(said) = ServerBuilder::new(BINARY).listen(&imap).try_start() else { panic!("imap on a socket") };
    assert!(said.contains("only lmtp listens on a Unix socket"), "{said}");
}

/// A start with the socket in the configuration, then without it and with it again (SIGHUP).
/// Loopback is a network of proxies here, and the socket does not belong to it.
#[test]
fn the_configuration_names_it_and_sighup_takes_it_away() {
    let (dir, socket) = stage();
    let file = dir.path().join("posthaste.toml");
    let configure = |lmtp: &str| {
        let listen = format!(
            "[listen]\nlmtp = [{lmtp}]\nlmtp_socket_mode = \"0600\"\nimap = [\"127.0.0.1:0\"]\nimaps = []\npop3 = \
             []\npop3s = []\nsubmission = []\nsubmissions = []\nsmtp = []\nsieve = []\nproxy_networks = \
             [\"127.0.0.1\"]\n"
        );
        fs::write(&file, listen).unwrap();
    };
    let named = format!("\"unix:{}\"", socket.display());
    configure(&named);
    let data = dir.path().join("data");
    let mut server = Command::new(BINARY)
        .args(["serve", "--config", file.to_str().unwrap(), "--data", data.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = io::BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("ready ") {
        line.clear();
        assert!(io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "the server ended");
    }
    assert!(line.contains(&format!("lmtp=unix:{}", socket.display())), "{line}");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o7777, 0o600);
    wire(&socket).run("S: 220 …\nC: QUIT\nS: 221 …");
    let signal = |name: &str| {
        let pid = server.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    let until = |wanted: bool| {
        let deadline = Instant::now() + TIMEOUT;
        while socket.exists() != wanted {
            assert!(Instant::now() < deadline, "the socket is there: {}", !wanted);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    configure("");
    signal("-HUP");
    until(false);
    configure(&named);
    signal("-HUP");
    until(true);
    signal("-TERM");
    assert!(server.wait().unwrap().success());
    assert!(!socket.exists());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
}

/// Root binds it and gives it to the user that the server becomes; the group is the one named.
#[test]
fn root_gives_the_socket_to_the_server_s_user_and_group() {
    let (dir, _) = stage();
    if fs::metadata(dir.path()).unwrap().uid() != 0 || skips_cluster("the data directory has no store") {
        eprintln!("skipped: dropping privileges (run as root)");
        return;
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<&str> =
        users.lines().find(|line| line.starts_with("nobody:")).unwrap().split(':').collect();
    let (uid, gid): (u32, u32) = (nobody[2].parse().unwrap(), nobody[3].parse().unwrap());
    let groups = fs::read_to_string("/etc/group").unwrap();
    let mail: u32 = groups
        .lines()
        .find(|line| line.starts_with("mail:"))
        .unwrap()
        .split(':')
        .nth(2)
        .unwrap()
        .parse()
        .unwrap();
    let (data, run) = (dir.path().join("data"), dir.path().join("run"));
    for made in [&data, &run] {
        fs::create_dir(made).unwrap();
        chown(made, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(made, Permissions::from_mode(0o755)).unwrap();
    }
    let socket = run.join("lmtp.sock");
    let config = dir.path().join("posthaste.toml");
    fs::write(&config, "user = \"nobody\"\n[listen]\nlmtp_socket_group = \"mail\"\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    let server = builder(&socket).data(&data).arg("--config").arg(config.to_str().unwrap()).start();
    let made = fs::metadata(&socket).unwrap();
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (uid, mail, 0o660));
    assert!(server.stop().status.success());
    assert!(!socket.exists(), "the user removes what root made");
    fs::write(&config, "[listen]\nlmtp_socket_group = \"nobody-has-this\"\n").unwrap();
    let start = builder(&socket).arg("--config").arg(config.to_str().unwrap()).try_start();
    let Err(said) = start else { panic!("a group that is not there") };
    assert!(said.contains("`listen.lmtp_socket_group`: there is no group"), "{said}");
}

/// Python's LMTP client takes a path for a host.
#[test]
fn python_delivers_over_the_socket() {
    let (_dir, socket) = stage();
    let server = builder(&socket).start();
    server.add_account(USER, PASSWORD);
    run_python(
        "import smtplib, sys\n\
         with smtplib.LMTP(sys.argv[1]) as lmtp:\n    \
             refused = lmtp.sendmail('bo@example.net', [sys.argv[2]], 'Subject: two\\r\\n\\r\\ntext\\r\\n')\n    \
             assert refused == {}, refused\n",
        &[socket.to_str().unwrap(), USER],
    );
    assert_eq!(messages(&server), 1);
}
