//! A server that root starts becomes the user of the configuration before it reads anything.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posthaste_testkit::{LineClient, Server, ServerBuilder, skips_cluster};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";

/// Whether this is root. Only root can become somebody else.
fn is_root(dir: &Path) -> bool {
    let root = fs::metadata(dir).unwrap().uid() == 0;
    if !root {
        eprintln!("skipped: dropping privileges (run as root)");
    }
    root
}

/// Somebody whom every system has: the name, the user's id and the group's.
fn nobody() -> (String, u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("nobody:")).unwrap();
    let fields: Vec<&str> = line.split(':').collect();
    (fields[0].to_owned(), fields[2].parse().unwrap(), fields[3].parse().unwrap())
}

/// A directory that everybody may search, with a configuration that names the user.
fn stage() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let config = dir.path().join("posthaste.toml");
    fs::write(&config, format!("user = \"{}\"\n", nobody().0)).unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    (dir, config)
}

fn start(data: &Path, config: &Path, listen: &str) -> Result<Server, String> {
    let server = ServerBuilder::new(BINARY).data(data).arg("--config").arg(config.to_str().unwrap());
    server.listen(listen).try_start()
}

/// A field of each thread's status.
fn of_threads(pid: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap().to_owned();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut found: Vec<String> = status.map(value).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn root_binds_a_low_port_and_nobody_serves_it() {
    let (dir, config) = stage();
    if !is_root(dir.path()) || skips_cluster("the data directory of a cluster has no store") {
        return;
    }
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let (_, uid, gid) = nobody();
    chown(&data, Some(uid), Some(gid)).unwrap();
    let mut free = (600..1024).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let (port, for_metrics) = (free.next().unwrap(), free.next().unwrap());
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}[listen]\nmetrics = [\"127.0.0.1:{for_metrics}\"]\n")).unwrap();
    let server = start(&data, &config, &format!("imap=127.0.0.1:{port}")).unwrap();
    assert_eq!((server.address("imap").port(), server.address("metrics").port()), (port, for_metrics));
    let pid = server.pid();
    assert_eq!(of_threads(pid, "Uid:"), [vec![uid.to_string(); 4].join(" ")]);
    assert_eq!(of_threads(pid, "Gid:"), [vec![gid.to_string(); 4].join(" ")]);
    assert_eq!(of_threads(pid, "Groups:"), [gid.to_string()]);
    assert_eq!(of_threads(pid, "NoNewPrivs:"), ["1"]);
    for field in ["CapEff:", "CapPrm:", "CapAmb:"] {
        assert_eq!(of_threads(pid, field), ["0000000000000000"], "{field}");
    }
    assert_eq!(fs::metadata(data.join("format")).unwrap().uid(), uid);
    // The files of the first start can be read: the certificate is shown again after SIGHUP.
    server.signal("HUP");
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.logged("were read again").is_empty() {
        assert!(server.logged("not reloaded").is_empty() && Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    assert!(client.line().unwrap().starts_with("* OK"));
    let answer = client.imap(&format!("LOGIN {USER} \"{PASSWORD}\"")).unwrap();
    assert!(answer.last().unwrap().starts_with("t NO [AUTHENTICATIONFAILED]"), "{answer:?}");
}

#[test]
fn a_store_of_somebody_else_is_refused_with_the_remedy() {
    let (dir, config) = stage();
    if !is_root(dir.path()) || skips_cluster("the data directory of a cluster has no store") {
        return;
    }
    let refused = |data: &Path| start(data, &config, "imap=127.0.0.1:0").err().unwrap();
    let data = dir.path().join("data");
    let said = refused(&data);
    assert!(said.contains("cannot make it") && said.contains("install -d -o nobody"), "{said}");
    fs::create_dir(&data).unwrap();
    let said = refused(&data);
    assert!(said.contains("belongs to the user with id 0") && said.contains("chown -R nobody"), "{said}");
    // A store that root has run on.
    chown(&data, Some(nobody().1), None).unwrap();
    fs::write(data.join("format"), "x").unwrap();
    assert!(refused(&data).contains("data/format belongs to the user with id 0"));
    fs::write(&config, "user = \"no-such-user\"\n").unwrap();
    assert!(refused(&data).contains("there is no user `no-such-user`"));
    fs::write(&config, "group = \"nogroup\"\n").unwrap();
    assert!(refused(&data).contains("`group` goes with `user`"));
    fs::write(&config, "user = \"root\"\n").unwrap();
    assert!(refused(&data).contains("`user` must not be root"));
}
