//! The bound on memory (`limits.memory`). The server does not start if its worst case is over it.
//! A session in its worst state holds at most the memory that the plan counts for a connection.

mod worst;

use posthaste_net::raise_file_limit;
use posthaste_testkit::{LineClient, ServerBuilder, script};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");

#[test]
fn a_worst_case_over_the_bound_is_refused_with_the_parts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("posthaste.toml");
    std::fs::write(&file, "[limits]\nmemory = \"1 GiB\"\nconnections = 5000\n").unwrap();
    let start = |file: &std::path::Path| {
        let server = ServerBuilder::new(BINARY).data(dir.path().join("data"));
        server.arg("--config").arg(file.to_str().unwrap()).try_start()
    };
    let Err(refusal) = start(&file) else { panic!("the server started") };
    assert!(refusal.contains("`limits.memory` is 1.0 GiB"), "{refusal}");
    assert!(refusal.contains("5.3 GiB of `limits.connections` (5000 of 1.1 MiB)"), "{refusal}");
    std::fs::write(&file, "[limits]\nmemory = \"1 GiB\"\n").unwrap();
    let server = start(&file).expect("what is not set fits the memory");
    // The plan and its parts are in the log.
    let plan = server.logged("memory: at most");
    assert!(plan.len() == 1 && plan[0].contains(" of 1.0 GiB: "), "{plan:?}");
    assert!(plan[0].contains("of `limits.connections`"), "{plan:?}");
    assert!(server.stop().status.success());
    // A level that hides it does not hide it from standard output.
    std::fs::write(&file, "[limits]\nmemory = \"1 GiB\"\n[log]\nlevel = \"warn\"\n").unwrap();
    let server = start(&file).expect("the level of the log changes no limit");
    let plan = server.greeting().iter().find(|line| line.starts_with("memory: at most"));
    assert!(plan.is_some_and(|line| line.contains(" of 1.0 GiB: ")), "{:?}", server.greeting());
    assert!(server.logged("memory: at most").is_empty());
}

/// Connections that a server with 256 files accepts. It keeps the other half for the store and the
/// listeners: `with_files`.
const CONNECTIONS_OF_256_FILES: usize = 128;

/// Connections take files. The store needs some of its own to read and write mail.
#[test]
fn with_few_files_there_are_fewer_connections_and_mail_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let limited = dir.path().join("limited");
    // This sets the hard limit, too. Only with a capability could root raise it again.
    let without = "if [ \"$(id -u)\" = 0 ]; then set -- setpriv --bounding-set=-sys_resource \"$@\"; fi";
    script(&limited, &format!("ulimit -n 256\nset -- {BINARY} \"$@\"\n{without}\nexec \"$@\""));
    let settings = "[limits]\nconnections = 1000\nmemory = \"4 GiB\"\n";
    let server = ServerBuilder::new(&limited)
        .listen("imap=127.0.0.1:0")
        .settings(&dir.path().join("posthaste.toml"), settings)
        .start();
    let warned = server.logged("open fewer files than `limits.connections` needs");
    let possible = format!(" connections={CONNECTIONS_OF_256_FILES}");
    assert!(
        warned.len() == 1 && warned[0].contains(" limit=256 ") && warned[0].ends_with(&possible),
        "{warned:?}"
    );
    let (name, password) = server.first_account();
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {name} {password}")).unwrap();
    client.imap("APPEND INBOX {14+}\r\nSubject: x\r\n\r\n").unwrap();
    client.imap("SELECT INBOX").unwrap();
    // This process has other files, too.
    let files = usize::try_from(raise_file_limit(1500).unwrap()).unwrap();
    let count = files.saturating_sub(256).min(1000);
    assert!(count > 256, "{files} files are too few for this test");
    let mut silent: Vec<_> =
        (0..count).map(|_| LineClient::connect(server.address("imap")).unwrap()).collect();
    for command in
        ["FETCH 1 BODY.PEEK[]", "APPEND INBOX {14+}\r\nSubject: y\r\n\r\n", "FETCH 1:2 BODY.PEEK[]"]
    {
        let lines = client.imap(command).unwrap();
        assert!(lines.last().unwrap().starts_with("t OK"), "{command}: {lines:?}");
    }
    // Each is answered: the server has a file for those, too, that it refuses. All stay open until
    // then: the place of one that is closed is free for the next.
    let greeted = silent.iter_mut().map(|one| one.line().unwrap());
    let (open, refused): (Vec<_>, Vec<_>) = greeted.partition(|line| line.starts_with("* OK"));
    assert!(refused.iter().all(|line| line.contains("Too many connections")), "{refused:?}");
    // One more is the session whose FETCH was answered.
    assert!((1..CONNECTIONS_OF_256_FILES).contains(&open.len()), "{} were greeted", open.len());
}
