//! Other people's clients, run from a test with a deadline and shown in full when they fail.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest run of a client. The slowest client fetches 100,000 messages in well under a minute
/// on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Whether tests with other people's clients run: `scripts/test --quick` turns them off.
pub fn client_tests_wanted() -> bool {
    let wanted = std::env::var("POSTHASTE_TEST_CLIENTS").map_or(true, |v| v != "no");
    if !wanted {
        eprintln!("skipped: POSTHASTE_TEST_CLIENTS=no");
    }
    wanted
}

/// The folder that `scripts/client-libraries` fills, or `None` without the program that would run
/// it.
pub fn client_library(name: &str, program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
        println!("SKIPPED: there is no {program} for {name}");
        return None;
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let folder = cache.unwrap_or_else(home).join("posthaste/client-libraries").join(name);
    assert!(folder.is_dir(), "there is no {}: scripts/client-libraries fetches it", folder.display());
    Some(folder)
}

/// Runs a client to its end and returns its stdout and stderr. Panics with both if it fails.
pub fn run_client(mut command: Command) -> String {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().expect("a pipe"))
        .stderr(writer)
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}; scripts/test installs the clients that tests drive"));
    let name = format!("{command:?}");
    // The command holds the pipe's other end: reading ends only once the command is dropped.
    drop(command);
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait().expect("a child to wait for") {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let said = said.join().unwrap_or_default();
    match status {
        Some(status) if status.success() => said,
        Some(status) => panic!("{name}: {status}\n{said}"),
        None => panic!("{name}: not done after {TIMEOUT:?}\n{said}"),
    }
}

/// Python that scripts about many sessions begin with. `connect(port, is_tls)` opens a connection
/// and reads the greeting. `command(stream, text)` sends a command and reads up to its OK.
/// `line(stream, start)` reads up to a line that begins so. `anonymous(pid)` is how many bytes of
/// memory a process has of its own.
pub const PYTHON_SESSIONS: &str = r#"
import socket, ssl
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def line(stream, start):
    text = b""
    while not any(l.startswith(start) for l in text.split(b"\r\n")[:-1]):
        got = stream.recv(65536)
        assert got, text
        text += got
def connect(port, is_tls, receive_buffer=None, greeting=b"* OK"):
    stream = socket.socket()
    if receive_buffer:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    stream.connect(("127.0.0.1", int(port)))
    if is_tls:
        stream = context.wrap_socket(stream)
    line(stream, greeting)
    return stream
def command(stream, text):
    stream.sendall(b"t " + text.encode() + b"\r\n")
    line(stream, b"t OK")
def anonymous(pid):
    with open("/proc/%s/smaps_rollup" % pid) as rollup:
        return next(int(l.split()[1]) * 1024 for l in rollup if l.startswith("Anonymous:"))
"#;

/// Runs a Python script (given as text) with arguments.
pub fn run_python(script: &str, args: &[&str]) -> String {
    let mut command = Command::new("python3");
    command.arg("-c").arg(script).args(args);
    run_client(command)
}
