//! Sessions of each protocol in their worst state. `states.py` and `worst.py` bring them there.

use std::path::Path;

use posthaste_testkit::{PYTHON_SESSIONS, Server, ServerBuilder, client_tests_wanted, run_python};

use crate::BINARY;

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// The memory that `memory::plan` counts for a connection.
const CONNECTION_BYTES: u64 = 1120 << 10;
const SESSIONS: usize = 60;
/// One account has all sessions, and their recipients. Mail goes elsewhere, too.
const SETTINGS: &str = "[limits]\naccount_connections = 0\naccount_commands_per_minute = 0\n\
    submitted_recipients_per_hour = 0\nsubmitted_recipients_per_day = 0\n[relay]\nenabled = true\n";

/// A state, its protocol, and the bytes by which a session that has reached it grows at least.
const STATES: [(&str, &str, u64); 8] = [
    ("fetch", "imaps", 32 << 10),
    ("command", "imaps", 32 << 10),
    ("append", "imaps", 32 << 10),
    ("fields", "imaps", 32 << 10),
    ("retr", "pop3s", 32 << 10),
    ("recipients", "submissions", 512 << 10),
    ("smtp", "smtp", 384 << 10),
    ("sieve", "sieve", 384 << 10),
];

fn grown_by(server: &Server, state: &str, protocol: &str) -> u64 {
    let (pid, port) = (server.pid().to_string(), server.address(protocol).port().to_string());
    let output = run_python(
        &[PYTHON_SESSIONS, include_str!("states.py"), include_str!("worst.py")].concat(),
        &[&pid, &port, state, &SESSIONS.to_string(), USER, PASSWORD],
    );
    output.trim().parse().unwrap_or_else(|_| panic!("{output}"))
}

/// Messages of 120 KiB: just not counted against `limits.reading_bytes`. Random, so that
/// compression does not make them small.
fn make_noise(file: &Path) {
    let noise = "import random, sys\n\
        random.seed(1)\n\
        with open(sys.argv[1], 'w') as out:\n\
        \x20for n in range(50):\n\
        \x20 out.write('From a@b.c Fri Mar  1 00:00:00 2024\\nSubject: noise %d\\n\\n' % n)\n\
        \x20 for _ in range(1700): out.write('%070x\\n' % random.getrandbits(280))\n\
        \x20 out.write('\\n')\n\
        \x20out.write('From a@b.c Fri Mar  1 00:00:00 2024\\n')\n\
        \x20for n in range(4): out.write('X-%d: %015800x\\n' % (n, random.getrandbits(63200)))\n\
        \x20out.write('\\nbody\\n')\n";
    run_python(noise, &[file.to_str().expect("a path in UTF-8")]);
}

fn fill_mailbox(server: &Server, noise: &Path, mailbox: &str) {
    let noise = noise.to_str().expect("a path in UTF-8");
    let import = ["import", noise, "--account", USER, "--mailbox", mailbox];
    assert!(server.command(&import, "").status.success());
}

/// Gives the account as many forwards as it may have, each as long as an address may be.
fn fill_record(server: &Server) {
    let domain = [63, 63, 63, 61].map(|len| "d".repeat(len)).join(".");
    let forwards: Vec<String> = (0..100).map(|n| format!("--forward={n:0>128}@{domain}")).collect();
    let set = ["account", "set", USER].into_iter().chain(forwards.iter().map(String::as_str));
    let set = server.command(&set.collect::<Vec<_>>(), "");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
}

#[test]
fn a_session_in_its_worst_state_holds_what_is_counted_for_it() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let noise = dir.path().join("large.mbox");
    make_noise(&noise);
    // A server for each state: none finds memory that another one has left.
    for (state, protocol, least) in STATES {
        let server = ServerBuilder::new(BINARY)
            .listen(&format!("{protocol}=127.0.0.1:0"))
            .settings(&dir.path().join("posthaste.toml"), SETTINGS)
            .start();
        server.add_account(USER, PASSWORD);
        match protocol {
            "imaps" => fill_mailbox(&server, &noise, "Large"),
            // POP3 knows no other mailbox.
            "pop3s" => fill_mailbox(&server, &noise, "INBOX"),
            _ => fill_record(&server),
        }
        let grown = grown_by(&server, state, protocol);
        println!("{state}: {grown} bytes a session");
        assert!(grown >= least, "the state {state} was not reached: {grown} bytes a session");
        assert!(grown <= CONNECTION_BYTES, "{state}: a session holds {grown} bytes");
    }
}
