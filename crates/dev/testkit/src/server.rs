//! The real binary as a child process: started on port 0. Its `ready` line names its addresses.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cluster::{engine_args, share};
use crate::line_client::LineClient;
use crate::log::Log;
use crate::poll::{LONG_POLL, repeatedly_long};

/// How long a start or stop may take before a test gives up on it. Far more than either needs, on a
/// machine that compiles at the same time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The first port that [`free_port`] gives, and how many it has. The system gives connections and
/// listeners on port 0 higher ones (Linux: 32,768 and up).
const FREE_PORTS: (u16, u16) = (12_000, 20_000);

/// The UDP ports that this process holds for [`free_port`].
static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port that is free now, for servers that must know each other's before they start.
///
/// Each call gives another port, also in the test programs that run at the same time. The system
/// gives none of them to a connection. This process holds the UDP port of the same number until it
/// ends: no other process gets both.
pub fn free_port() -> SocketAddr {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let (first, count) = FREE_PORTS;
    // Processes that run at the same time begin at other places.
    let start = std::process::id().wrapping_mul(101);
    loop {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        assert!(call < u32::from(count), "no port is free");
        let offset = start.wrapping_add(call) % u32::from(count);
        let port = first + u16::try_from(offset).expect("below the count");
        let Ok(held) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
            return listener.local_addr().expect("its address");
        }
    }
}

/// How to start the server.
pub struct ServerBuilder {
    binary: PathBuf,
    data: Option<PathBuf>,
    listen: Vec<String>,
    args: Vec<String>,
    engine: Option<String>,
    judges_polls: bool,
}

/// A running server. Dropping it kills it and removes a data directory that it made itself.
///
/// At its end, unless it is [killed](Server::kill), the test fails if polls of one command computed
/// for very long again and again: [`Poll`](crate::Poll).
pub struct Server {
    child: Child,
    binary: PathBuf,
    data: PathBuf,
    addresses: HashMap<String, SocketAddr>,
    greeting: Vec<String>,
    /// Locked, so that threads of a test can share the server.
    output: Mutex<mpsc::Receiver<String>>,
    log: Log,
    /// Whether its long polls have to be judged at its end.
    judges_polls: bool,
    _own: Option<TempDir>,
}

/// How a server ended.
#[derive(Debug)]
pub struct Stopped {
    /// The server's exit status.
    pub status: ExitStatus,
    /// The server's last output.
    pub output: Vec<String>,
}

impl ServerBuilder {
    /// A server from a binary, `env!("CARGO_BIN_EXE_posthaste")` in the application's own tests.
    /// Every protocol on a free port, unless [`ServerBuilder::listen`] says otherwise.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            data: None,
            listen: Vec::new(),
            args: Vec::new(),
            engine: None,
            judges_polls: true,
        }
    }

    /// A data directory that outlives the server.
    #[must_use]
    pub fn data(mut self, data: impl Into<PathBuf>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// The store that it shares with another server, an address of `engine_of`.
    #[must_use]
    pub fn engine(mut self, engine: &str) -> Self {
        self.engine = Some(engine.to_owned());
        self
    }

    /// Listeners instead of all, such as `imap=127.0.0.1:0`.
    #[must_use]
    pub fn listen(mut self, listen: &str) -> Self {
        self.listen.push(listen.to_owned());
        self
    }

    /// A further argument of `serve`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// The test itself judges the server's long polls.
    #[must_use]
    pub fn polls_are_judged_elsewhere(mut self) -> Self {
        self.judges_polls = false;
        self
    }

    /// Writes a configuration to a file and has the server read it.
    #[must_use]
    pub fn settings(self, file: &Path, text: impl AsRef<[u8]>) -> Self {
        std::fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.arg("--config").arg(file.to_str().expect("a path in UTF-8"))
    }

    /// Starts it and waits for `ready`.
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|output| panic!("the server did not start; it said:\n{output}"))
    }

    /// Starts it. If it ends before it is ready, the error is its output on both channels.
    pub fn try_start(self) -> Result<Server, String> {
        let own = self.data.is_none().then(|| TempDir::new().expect("a temporary directory"));
        let data = self.data.or_else(|| own.as_ref().map(|d| d.path().join("data"))).unwrap_or_default();
        let mut listen = self.listen;
        if listen.is_empty() {
            listen = ["imap", "imaps", "pop3", "pop3s", "lmtp", "submission", "submissions"]
                .map(|protocol| format!("{protocol}=127.0.0.1:0"))
                .into();
        }
        let mut command = Command::new(&self.binary);
        if let Some(engine) = self.engine {
            share(&data, &engine);
        }
        command.arg("serve").arg("--data").arg(&data).args(engine_args(&self.binary, &data)).args(&self.args);
        for listener in &listen {
            command.arg("--listen").arg(listener);
        }
        let (log, stderr) = Log::new().expect("a temporary file");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", self.binary.display()));
        // It holds the child's end of the log, which nobody else writes to.
        drop(command);
        let output = lines_of(child.stdout.take().expect("piped"));
        let mut server = Server {
            child,
            binary: self.binary,
            data,
            addresses: HashMap::new(),
            greeting: Vec::new(),
            output: Mutex::new(output),
            log,
            judges_polls: self.judges_polls,
            _own: own,
        };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match server.line(deadline) {
                Ok(line) => {
                    if let Some(addresses) = line.strip_prefix("ready ") {
                        server.addresses = addresses_in(addresses);
                        return Ok(server);
                    }
                    server.greeting.push(line);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("no `ready` within {TIMEOUT:?}"),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let _ = server.child.wait();
                    return Err(server.greeting.join("\n") + &server.log.text());
                }
            }
        }
    }
}

impl Server {
    /// Where a protocol listens.
    pub fn address(&self, protocol: &str) -> SocketAddr {
        *self.addresses.get(protocol).unwrap_or_else(|| panic!("the server does not listen for {protocol}"))
    }

    /// Lines printed before `ready`: at a first start one about the account that was made.
    pub fn greeting(&self) -> &[String] {
        &self.greeting
    }

    /// The name and the password of the account that the first start made. They are in a file,
    /// because the server's output is no terminal.
    pub fn first_account(&self) -> (String, String) {
        let file = self.data.join("first-password");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let word = |prefix: &str| text.lines().find_map(|line| line.trim().strip_prefix(prefix));
        let [name, password] = ["account", "password"].map(|prefix| match word(prefix) {
            Some(word) => word.trim().to_owned(),
            None => panic!("no `{prefix}` in {}", file.display()),
        });
        (name, password)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines on its standard error that hold a text: all that it wrote before this call. Those
    /// of logins and messages come some milliseconds late ([`Server::logged_times`]).
    pub fn logged(&self, what: &str) -> Vec<String> {
        self.log.lines_with(what)
    }

    /// The same as soon as there are this many lines: the server writes those of logins and
    /// messages in batches.
    pub fn logged_times(&self, what: &str, count: usize) -> Vec<String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let lines = self.logged(what);
            if lines.len() >= count {
                return lines;
            }
            assert!(Instant::now() < deadline, "{} lines with {what:?} in place of {count}", lines.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The server's data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Runs an administrative command on the server's data directory while it runs.
    pub fn command(&self, args: &[&str], input: &str) -> Output {
        command(&self.binary, &self.data, args, input)
    }

    /// Adds an account; panics if that fails.
    pub fn add_account(&self, name: &str, password: &str) {
        let output = self.command(&["account", "add", name, "--password-stdin"], password);
        assert!(output.status.success(), "account add: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Hands a message in by `smtp` or `lmtp`, which must accept its sender and recipients. Returns
    /// the replies to the message: by LMTP one for each recipient.
    pub fn hand_in(&self, protocol: &str, from: &str, to: &[&str], message: &[u8]) -> Vec<String> {
        let mut client = LineClient::connect(self.address(protocol)).expect("the server listens");
        client.reply().expect("a greeting");
        client.ask(if protocol == "lmtp" { "LHLO test" } else { "EHLO test" }).expect("an answer");
        let mut replies = vec![client.hand_in(from, to, message).expect("an answer")];
        while protocol == "lmtp" && replies.len() < to.len() {
            replies.push(client.reply().expect("an answer"));
        }
        replies
    }

    /// Waits until a user's mailbox has this many messages, and returns them whole.
    pub fn mail(&self, user: &str, password: &str, mailbox: &str, count: usize) -> Vec<Vec<u8>> {
        let mut client = LineClient::connect(self.address("imap")).expect("the server listens");
        client.line().expect("a greeting");
        let mut say = |command: &str| client.imap(command).expect("an answer");
        say(&format!("LOGIN {user} \"{password}\""));
        let deadline = Instant::now() + TIMEOUT;
        while !say(&format!("EXAMINE \"{mailbox}\"")).contains(&format!("* {count} EXISTS")) {
            assert!(Instant::now() < deadline, "{user} does not get {count} messages in {mailbox}");
            std::thread::sleep(Duration::from_millis(20));
        }
        client.bodies().expect("an answer")
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.pid().to_string()).status();
        assert!(status.is_ok_and(|s| s.success()), "kill -{signal}");
    }

    /// The next line of its output.
    fn line(&self, deadline: Instant) -> Result<String, RecvTimeoutError> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(mut self) -> Stopped {
        self.signal("TERM");
        let deadline = Instant::now() + TIMEOUT;
        let mut output = Vec::new();
        while let Ok(line) = self.line(deadline) {
            output.push(line);
        }
        let status = self.child.wait().expect("a child to wait for");
        self.judge_polls();
        Stopped { status, output }
    }

    /// SIGKILL: nothing in the process gets to run again.
    pub fn kill(mut self) {
        self.judges_polls = false;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Fails if the server broke its rule about polls again and again. Judges once.
    fn judge_polls(&mut self) {
        if std::mem::replace(&mut self.judges_polls, false) {
            let tasks = repeatedly_long(&self.log.lines_with(LONG_POLL));
            assert!(tasks.is_empty(), "polls of {tasks:?} used over a second of CPU time, again and again");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A second panic would end the whole test program.
        if !std::thread::panicking() {
            self.judge_polls();
        }
    }
}

/// Runs `posthaste ARGS… --data DATA` with something on its standard input.
pub fn command(binary: &Path, data: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary)
        .args(args)
        .arg("--data")
        .arg(data)
        .args(engine_args(binary, data))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", binary.display()));
    // A command that does not read its input is free not to.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("a child to wait for")
}

fn lines_of(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

/// `imap=127.0.0.1:1143 imaps=…`
fn addresses_in(text: &str) -> HashMap<String, SocketAddr> {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        // A test that configured a Unix socket knows its path.
        .filter(|(_, address)| !address.starts_with("unix:"))
        .map(|(protocol, address)| (protocol.to_owned(), address.parse().expect("an address after `=`")))
        .collect()
}
