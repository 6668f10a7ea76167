//! The bound on memory (`limits.memory`). The server does not start if its worst case is over it.
//! A session in its worst state holds at most the memory that the plan counts for a connection.

use posthaste_net::raise_file_limit;
use posthaste_testkit::{
    LineClient, PYTHON_SESSIONS, Server, ServerBuilder, client_tests_wanted, run_python, script,
};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// The memory that `memory::plan` counts for a connection.
const CONNECTION_BYTES: u64 = 1120 << 10;
const SESSIONS: usize = 60;

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
    let silent: Vec<_> = (0..count).map(|_| LineClient::connect(server.address("imap")).unwrap()).collect();
    for command in
        ["FETCH 1 BODY.PEEK[]", "APPEND INBOX {14+}\r\nSubject: y\r\n\r\n", "FETCH 1:2 BODY.PEEK[]"]
    {
        let lines = client.imap(command).unwrap();
        assert!(lines.last().unwrap().starts_with("t OK"), "{command}: {lines:?}");
    }
    // Each is answered: the server has a file for those, too, that it refuses.
    let greeted = silent.into_iter().map(|mut one| one.line().unwrap());
    let (open, refused): (Vec<_>, Vec<_>) = greeted.partition(|line| line.starts_with("* OK"));
    assert!(refused.iter().all(|line| line.contains("Too many connections")), "{refused:?}");
    // One more is the session whose FETCH was answered.
    assert!((1..CONNECTIONS_OF_256_FILES).contains(&open.len()), "{} were greeted", open.len());
}

/// Opens sessions over TLS, those of IMAP with compression, and brings each into one state. Prints
/// by how many bytes of its own memory the server has grown for each.
const WORST: &str = r#"
import os, sys, time, zlib
pid, port, state, count, user, password = sys.argv[1:]
def open_session():
    if state == "retr":
        stream = connect(port, True, receive_buffer=4096, greeting=b"+OK")
        for text in ["USER " + user, "PASS " + password]:
            stream.sendall(text.encode() + b"\r\n")
            line(stream, b"+OK")
        return stream, None
    stream = connect(port, True, receive_buffer=4096)
    for text in ["LOGIN %s \"%s\"" % (user, password), "SELECT Large", "COMPRESS DEFLATE"]:
        command(stream, text)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    send(stream, packer, b"u NOOP\r\n")
    return stream, packer
def send(stream, packer, bytes):
    stream.sendall(packer.compress(bytes) + packer.flush(zlib.Z_SYNC_FLUSH))
def worsen(stream, packer):
    if state == "retr":
        # POP3. Nothing is read any more: output and a part of a message stay where they are.
        stream.sendall(b"".join(b"RETR %d\r\n" % n for n in range(1, 51)) * 20)
    elif state == "fetch":
        # Nothing is read any more: output, input and a part of a message stay where they are.
        send(stream, packer, b"f FETCH 1:* BODY.PEEK[]\r\n" + b"n NOOP\r\n" * 30000)
    elif state == "fields":
        # A thousand times nearly all of a long header, from its summary.
        items = b" ".join(b"BODY.PEEK[HEADER.FIELDS.NOT (Z%d)]" % n for n in range(1000))
        send(stream, packer, b"f FETCH 51 (" + items + b")\r\n" + b"n NOOP\r\n" * 30000)
    elif state == "append":
        # Cancelled by its empty message (RFC 3502), with an octet behind it in the same packet.
        size = 8000000
        send(stream, packer, b"a APPEND INBOX {%d+}\r\n%s {0+}\r\n\r\nx" % (size, b"x" * size))
    else:
        # A command that never ends, as long as one may be.
        keys = b"s SEARCH " + b"OR SEEN " * 2000
        for _ in range(60):
            keys += b"TEXT {4000+}\r\n" + b"x" * 4000 + b" "
        send(stream, packer, keys)
def all_sleep():
    # Each thread waits for something, and not for a processor: it has read all that it will.
    for thread in os.listdir("/proc/%s/task" % pid):
        try:
            with open("/proc/%s/task/%s/stat" % (pid, thread)) as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] not in "SI":
                    return False
        except FileNotFoundError:
            return False
    return True
def at_rest():
    # Until the server grows no more: it may still be reading.
    last, same = -1, 0
    while same < 5:
        time.sleep(0.2)
        now = anonymous(pid)
        same = same + 1 if abs(now - last) < 65536 and all_sleep() else 0
        last = now
    return last
# The first ones fill the allocator's free lists, open the mailbox and start threads.
warm = [open_session() for _ in range(10)]
for session in warm:
    worsen(*session)
before = at_rest()
sessions = [open_session() for _ in range(int(count))]
for session in sessions:
    worsen(*session)
print((at_rest() - before) // int(count))
"#;

fn grown_by(server: &Server, state: &str) -> u64 {
    let protocol = if state == "retr" { "pop3s" } else { "imaps" };
    let (pid, port) = (server.pid().to_string(), server.address(protocol).port().to_string());
    let output = run_python(
        &[PYTHON_SESSIONS, WORST].concat(),
        &[&pid, &port, state, &SESSIONS.to_string(), USER, PASSWORD],
    );
    output.trim().parse().unwrap_or_else(|_| panic!("{output}"))
}

#[test]
fn a_session_in_its_worst_state_holds_what_is_counted_for_it() {
    if !client_tests_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large.mbox");
    // Messages of 120 KiB: just not counted against `limits.reading_bytes`. Random, so that
    // compression does not make them small.
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
    run_python(noise, &[file.to_str().unwrap()]);
    // A server for each state: none finds memory that another one has left.
    for state in ["fetch", "command", "append", "fields", "retr"] {
        let config = dir.path().join("posthaste.toml");
        let server =
            ServerBuilder::new(BINARY).settings(&config, "[limits]\naccount_connections = 0\n").start();
        server.add_account(USER, PASSWORD);
        // POP3 knows no other mailbox.
        let mailbox = if state == "retr" { "INBOX" } else { "Large" };
        let args = ["import", file.to_str().unwrap(), "--account", USER, "--mailbox", mailbox];
        assert!(server.command(&args, "").status.success());
        let grown = grown_by(&server, state);
        println!("{state}: {grown} bytes a session");
        let least = 32 * 1024;
        assert!(grown >= least, "the state {state} was not reached: {grown} bytes a session");
        assert!(grown <= CONNECTION_BYTES, "{state}: a session holds {grown} bytes");
    }
}
