//! What a command costs the server: nanoseconds of its CPU per message, taken from outside, on the
//! real binary over loopback.
//!
//! ```text
//! cargo bench -p posthaste --bench cost                      the table of the README, folders of up to 100,000
//! cargo bench -p posthaste --bench cost -- --large           and of 500,000 and 1,000,000 (some minutes and 3 GB)
//! cargo bench -p posthaste --bench cost -- --deliveries      into mailboxes that nobody has open, and nothing else
//! POSTHASTE_BINARY=./posthaste-before cargo bench …          the same of another build
//! ```
//!
//! Wall time on a shared machine varies twofold; CPU time does less, and the least of several
//! interleaved rounds least of all. The kernel's scheduler counts a task's CPU in nanoseconds
//! (`/proc/PID/task/*/schedstat`): both the server's own work and the kernel's work for it. Client
//! and server are separate processes; nothing of the client is counted.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_testkit::{Mbox, Server, ServerBuilder, message, run_python};

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Rounds of everything, one after the other; the least of each row counts.
const ROUNDS: usize = 7;
/// Samples of each listing in a round.
const SAMPLES: usize = 3;

/// An IMAP or LMTP connection that reads answers without looking at them.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    tag: u32,
}

impl Client {
    fn connect(address: SocketAddr, greeting: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = Self { stream, buffer: vec![0; 1 << 20], tag: 0 };
        client.until(greeting.as_bytes());
        client
    }

    fn login(address: SocketAddr) -> Self {
        Self::login_as(address, USER)
    }

    fn login_as(address: SocketAddr, user: &str) -> Self {
        let mut client = Self::connect(address, "* OK");
        client.ask(&format!("LOGIN {user} \"{PASSWORD}\""));
        client
    }

    /// Reads until the last line begins with `start` and is whole.
    fn until(&mut self, start: &[u8]) -> usize {
        let (mut total, mut tail) = (0, Vec::new());
        loop {
            let n = self.stream.read(&mut self.buffer).unwrap();
            assert!(n > 0, "the server hung up");
            total += n;
            // Only the end can hold the last line.
            tail.extend_from_slice(&self.buffer[n.saturating_sub(1024)..n]);
            let from = tail.len().saturating_sub(2048);
            tail.drain(..from);
            if tail.ends_with(b"\r\n") {
                let body = &tail[..tail.len() - 2];
                let last = body.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                if body[last..].starts_with(start) {
                    assert!(
                        !body[last..].windows(4).any(|w| w == b" NO " || w == b" BAD"),
                        "{}",
                        String::from_utf8_lossy(body)
                    );
                    return total;
                }
            }
        }
    }

    /// Reads until the server has said this, whatever else it says.
    fn until_told(&mut self, what: &str) {
        let mut said = Vec::new();
        while !said.windows(what.len()).any(|w| w == what.as_bytes()) {
            let n = self.stream.read(&mut self.buffer).unwrap();
            assert!(n > 0, "the server hung up");
            said.extend_from_slice(&self.buffer[..n]);
        }
    }

    /// Sends bytes and reads up to a line that begins with `answer`.
    fn say(&mut self, bytes: &[u8], answer: &str) {
        self.stream.write_all(bytes).unwrap();
        self.until(answer.as_bytes());
    }

    fn ask(&mut self, command: &str) -> usize {
        self.tag += 1;
        let tag = format!("t{} ", self.tag);
        self.stream.write_all(format!("{tag}{command}\r\n").as_bytes()).unwrap();
        self.until(tag.as_bytes())
    }
}

/// CPU nanoseconds of each of the server's threads so far.
struct Cpu(HashMap<OsString, u64>);

impl Cpu {
    fn of(server: &Server) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let one = |task: std::io::Result<std::fs::DirEntry>| {
            let task = task.ok()?;
            let line = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((task.file_name(), line.split(' ').next()?.parse().ok()?))
        };
        Self(tasks.filter_map(one).collect())
    }

    /// What was used since, by all threads that are there now: one that has ended meanwhile had
    /// nothing to do for a while.
    fn since(&self, before: &Self) -> u64 {
        self.0.iter().map(|(task, ns)| ns - before.0.get(task).copied().unwrap_or(0)).sum()
    }
}

/// Resident memory that only this process has, in bytes.
fn private_bytes(server: &Server) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.pid())).unwrap();
    let line = rollup.lines().find(|l| l.starts_with("Anonymous:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// One row of the table.
struct Row {
    name: String,
    reach: &'static str,
    unit: &'static str,
    /// What one run is divided by, to be in `unit`.
    per: f64,
    least: f64,
    wall: f64,
}

struct Table(Vec<Row>);

impl Table {
    /// Takes one run of a row; the least counts.
    fn take(
        &mut self,
        name: &str,
        reach: &'static str,
        unit: &'static str,
        per: f64,
        cpu_ns: u64,
        wall_ns: u64,
    ) {
        let at = self.0.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let row = Row { name: name.to_owned(), reach, unit, per, least: f64::MAX, wall: f64::MAX };
            self.0.push(row);
            self.0.len() - 1
        });
        let row = &mut self.0[at];
        row.least = row.least.min(cpu_ns as f64 / row.per);
        row.wall = row.wall.min(wall_ns as f64 / row.per);
    }

    fn print(&self) {
        println!("| operation | server CPU | wall | reach |\n| --- | --- | --- | --- |");
        for row in &self.0 {
            let number = |n: f64| match n {
                0.0..10.0 => format!("{n:.3}"),
                10.0..100.0 => format!("{n:.1}"),
                _ => format!("{n:.0}"),
            };
            println!(
                "| {} | {} {} | {} {} | {} |",
                row.name,
                number(row.least),
                row.unit,
                number(row.wall),
                row.unit,
                row.reach
            );
        }
    }
}

/// Longer than the index takes to follow what was acknowledged.
const INDEX_FOLLOWS: Duration = Duration::from_millis(30);

/// CPU and wall time of a piece of work.
fn measured(server: &Server, work: impl FnOnce()) -> (u64, u64) {
    measured_with(server, work, Duration::ZERO)
}

/// The same of work that changes something: what the index costs that follows is counted, though
/// nobody waits for it.
fn measured_to_the_end(server: &Server, work: impl FnOnce()) -> (u64, u64) {
    std::thread::sleep(INDEX_FOLLOWS);
    measured_with(server, work, INDEX_FOLLOWS)
}

fn measured_with(server: &Server, work: impl FnOnce(), follows: Duration) -> (u64, u64) {
    let (before, started) = (Cpu::of(server), Instant::now());
    work();
    let wall = started.elapsed();
    std::thread::sleep(follows);
    (Cpu::of(server).since(&before), wall.as_nanos() as u64)
}

fn import(server: &Server, account: &str, mailbox: &str, count: usize) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.mbox");
    Mbox::write(&file, count).unwrap();
    let started = Instant::now();
    let output =
        server.command(&["import", file.to_str().unwrap(), "--account", account, "--mailbox", mailbox], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("imported {count} messages in {:.1} s", started.elapsed().as_secs_f64());
}

const MS: f64 = 1e6;

fn main() {
    let asks = |flag: &str| std::env::args().any(|a| a == flag);
    let (large, deliveries_only) = (asks("--large"), asks("--deliveries"));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = builder(&data).start();
    server.add_account(USER, PASSWORD);
    import(&server, USER, "F100", 100);
    let mut closed = vec![100, 100_000];
    if large {
        closed.push(1_000_000);
    }
    for size in &closed {
        server.add_account(&whose_inbox(*size), PASSWORD);
        import(&server, &whose_inbox(*size), "INBOX", *size);
    }
    let mut table = Table(Vec::new());
    let mut told = None;
    if deliveries_only {
        server.stop();
    } else {
        told = Some(folders(server, &data, &mut table, large));
    }
    for _ in 0..ROUNDS {
        deliveries(&data, &mut table, &closed);
    }
    table.print();
    told.iter().flatten().for_each(Told::print);
}

/// What is measured in folders of one account.
fn folders(server: Server, data: &Path, table: &mut Table, large: bool) -> [Told; 2] {
    let mut sizes = vec![1_000, 10_000, 100_000];
    if large {
        sizes.extend([500_000, 1_000_000]);
    }
    for size in &sizes {
        import(&server, USER, &format!("F{size}"), *size);
    }
    let imap = server.address("imap");
    opening(&server, table, &sizes);
    for round in 0..ROUNDS {
        listings(&server, imap, table, &sizes);
        sessions(&server, imap, table);
        changes(&server, imap, table, round);
        lmtp_deliveries(&server, table);
    }
    let told = pushes(&server, imap);
    server.stop();
    restarted(data, table, &sizes, large);
    told
}

/// The server to be measured, on a data directory.
fn builder(data: &Path) -> ServerBuilder {
    let binary = std::env::var("POSTHASTE_BINARY");
    ServerBuilder::new(binary.as_deref().unwrap_or(env!("CARGO_BIN_EXE_posthaste"))).data(data)
}

/// A folder nobody has open, its index on disk but in the page cache; then once more.
fn opening(server: &Server, table: &mut Table, sizes: &[usize]) {
    let mut client = Client::login(server.address("imap"));
    for size in sizes {
        let before = private_bytes(server);
        let (cpu, wall) = measured(server, || _ = client.ask(&format!("SELECT F{size}")));
        let grown = private_bytes(server).saturating_sub(before);
        table.take(
            &format!("SELECT of {size}, nobody has it open"),
            match size {
                100_000 => "≤ 5 ms",
                500_000 => "< 40 ms",
                _ => "",
            },
            "ms",
            MS,
            cpu,
            wall,
        );
        eprintln!("opening {size}: {:.1} bytes a message", grown as f64 / *size as f64);
        for _ in 0..ROUNDS {
            let (cpu, wall) = measured(server, || _ = client.ask(&format!("SELECT F{size}")));
            table.take(
                &format!("SELECT of {size}, cached"),
                if *size == 100_000 { "≤ 0.1 ms" } else { "" },
                "ms",
                MS,
                cpu,
                wall,
            );
        }
    }
}

fn listings(server: &Server, imap: SocketAddr, table: &mut Table, sizes: &[usize]) {
    let mut client = Client::login(imap);
    let rows = [
        ("FETCH 1:* (UID FLAGS)", "≤ 75 ns"),
        ("FETCH 1:* (ENVELOPE)", "≤ 300 ns"),
        (
            "FETCH 1:* (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (DATE FROM TO SUBJECT MESSAGE-ID)])",
            "≤ 450 ns",
        ),
        ("SEARCH SUBJECT \"no such words\"", "≤ 200 ns"),
    ];
    for (command, reach) in rows {
        // The sizes in turn, so that they are compared in the same moments.
        for size in (0..SAMPLES).flat_map(|_| sizes) {
            client.ask(&format!("EXAMINE F{size}"));
            // As many messages of a small folder as of a large one: the least of short samples is
            // less than that of long ones.
            let times = (200_000 / size).max(1);
            let (cpu, wall) = measured(server, || {
                for _ in 0..times {
                    client.ask(command);
                }
            });
            let name = format!("{command} at {size}, per message");
            table.take(&name, reach, "ns", (size * times) as f64, cpu, wall);
        }
    }
}

fn sessions(server: &Server, imap: SocketAddr, table: &mut Table) {
    const TIMES: usize = 50;
    let (cpu, wall) = measured(server, || {
        for _ in 0..TIMES {
            let mut client = Client::login(imap);
            client.ask("SELECT F100");
            client.ask("FETCH 1:* (UID FLAGS)");
            client.ask("LOGOUT");
        }
    });
    let name = "connect, LOGIN, SELECT of 100, FETCH 1:* (UID FLAGS), LOGOUT";
    table.take(name, "≤ 0.25 ms", "ms", MS * TIMES as f64, cpu, wall);
}

fn changes(server: &Server, imap: SocketAddr, table: &mut Table, round: usize) {
    let mut client = Client::login(imap);
    let target = format!("Work{round}");
    client.ask(&format!("CREATE {target}"));
    append(server, &mut client, table, &target);
    client.ask("SELECT F10000");
    let copy = |client: &mut Client, set: &str| _ = client.ask(&format!("COPY {set} {target}"));
    // Commits on so many messages are in the index before they are acknowledged: nothing follows.
    std::thread::sleep(INDEX_FOLLOWS);
    let (cpu, wall) = measured(server, || copy(&mut client, "1:1000"));
    table.take("COPY of 1,000", "≤ 2 ms", "ms", MS, cpu, wall);
    copy(&mut client, "1:9000");
    client.ask(&format!("SELECT {target}"));
    for flag in ["+FLAGS (\\Seen)", "-FLAGS (\\Seen)"] {
        let (cpu, wall) = measured(server, || _ = client.ask(&format!("STORE 1:10000 {flag}")));
        if flag.starts_with('+') {
            table.take("STORE +FLAGS (\\Seen) of 10,000", "≤ 4 ms", "ms", MS, cpu, wall);
        }
    }
    client.ask("STORE 1:1000 +FLAGS.SILENT (\\Deleted)");
    let (cpu, wall) = measured_to_the_end(server, || _ = client.ask("EXPUNGE"));
    table.take("EXPUNGE of 1,000", "≤ 2 ms", "ms", MS, cpu, wall);
    client.ask("CLOSE");
    client.ask(&format!("DELETE {target}"));
}

/// How long a session that idles waits to be told.
struct Told {
    of: &'static str,
    waits: Vec<Duration>,
}

impl Told {
    fn print(&self) {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let ms = |wait: Duration| wait.as_secs_f64() * 1e3;
        let (median, slowest) = (ms(waits[waits.len() / 2]), ms(waits[waits.len() - 1]));
        println!(
            "| IDLE is told of {}, median / slowest of {} | | {median:.1} / {slowest:.1} ms | ≤ 100 ms |",
            self.of,
            waits.len()
        );
    }
}

/// What one session does is told to another from when it was asked for; what another process does,
/// from when that has ended.
fn pushes(server: &Server, imap: SocketAddr) -> [Told; 2] {
    let mut there = Client::login(imap);
    there.ask("CREATE Told");
    let mut idle = Client::login(imap);
    idle.ask("SELECT Told");
    idle.stream.write_all(b"i IDLE\r\n").unwrap();
    idle.until_told("+ ");
    let mut messages = 0;
    let mut waits = |times: usize, work: &mut dyn FnMut() -> Instant| {
        let mut waited = Vec::with_capacity(times);
        for _ in 0..times {
            messages += 1;
            let since = work();
            idle.until_told(&format!("* {messages} EXISTS"));
            waited.push(since.elapsed());
        }
        waited
    };
    let text = String::from_utf8(message(1)).unwrap();
    let sessions = waits(200, &mut || {
        let since = Instant::now();
        there.ask(&format!("APPEND Told {{{}+}}\r\n{text}", text.len()));
        since
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.mbox");
    Mbox::write(&file, 1).unwrap();
    let processes = waits(20, &mut || {
        let args = ["import", file.to_str().unwrap(), "--account", USER, "--mailbox", "Told"];
        assert!(server.command(&args, "").status.success());
        Instant::now()
    });
    [Told { of: "another session's APPEND", waits: sessions }, Told { of: "an import", waits: processes }]
}

/// A message of 4 KiB.
fn four_kibibytes() -> Vec<u8> {
    let mut text = message(1);
    while text.len() < 4096 {
        text.extend_from_slice(b"Another line of a message of four kibibytes in all, more or less.\r\n");
    }
    text
}

/// One APPEND, until it is on disk.
fn append_one(client: &mut Client, target: &str, text: &[u8]) {
    client.tag += 1;
    let tag = format!("t{} ", client.tag);
    let mut command = format!("{tag}APPEND {target} {{{}+}}\r\n", text.len()).into_bytes();
    command.extend_from_slice(text);
    command.extend_from_slice(b"\r\n");
    client.stream.write_all(&command).unwrap();
    client.until(tag.as_bytes());
}

/// 4 KiB to one recipient, one at a time, each on disk before the next: as an MTA that knows
/// PIPELINING sends it, with an answer awaited behind each command, and on a connection of its own.
fn lmtp_deliveries(server: &Server, table: &mut Table) {
    const TIMES: usize = 100;
    let mut text = four_kibibytes();
    text.extend_from_slice(b".\r\n");
    let connected = || {
        let mut client = Client::connect(server.address("lmtp"), "220 ");
        client.say(b"LHLO client.example\r\n", "250 ");
        client
    };
    let mut client = connected();
    let (mail, rcpt) = ("MAIL FROM:<ben@example.org>\r\n", format!("RCPT TO:<{USER}>\r\n"));
    let together = format!("{mail}{rcpt}DATA\r\n");
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            client.say(together.as_bytes(), "354 ");
            client.say(&text, "250 ");
        }
    });
    let name = "LMTP delivery of 4 KiB, durable";
    table.take(name, "≤ 0.22 ms CPU, as APPEND", "ms", MS * TIMES as f64, cpu, wall);
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            client.say(mail.as_bytes(), "250 ");
            client.say(rcpt.as_bytes(), "250 ");
            client.say(b"DATA\r\n", "354 ");
            client.say(&text, "250 ");
        }
    });
    table.take("LMTP delivery of 4 KiB, an answer to each command", "", "ms", MS * TIMES as f64, cpu, wall);
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            let mut client = connected();
            client.say(together.as_bytes(), "354 ");
            client.say(&text, "250 ");
            client.say(b"QUIT\r\n", "221 ");
        }
    });
    let name = "connect, LHLO, LMTP delivery of 4 KiB, QUIT";
    table.take(name, "", "ms", MS * TIMES as f64, cpu, wall);
}

/// 4 KiB, one at a time, each on disk before the next.
fn append(server: &Server, client: &mut Client, table: &mut Table, target: &str) {
    const TIMES: usize = 100;
    let text = four_kibibytes();
    let (cpu, wall) = measured_to_the_end(server, || {
        for _ in 0..TIMES {
            append_one(client, target, &text);
        }
    });
    table.take(
        "APPEND of 4 KiB, durable",
        "≤ 0.22 ms CPU, ≤ 0.5 ms wall",
        "ms",
        MS * TIMES as f64,
        cpu,
        wall,
    );
}

/// Whose INBOX has this many messages.
fn whose_inbox(size: usize) -> String {
    format!("has{size}@example.org")
}

/// One message into an INBOX that nobody has opened since the server started: by APPEND, and on
/// another start by LMTP. Twenty to a small mailbox come before, so that only what depends on the
/// mailbox differs.
fn deliveries(data: &Path, table: &mut Table, sizes: &[usize]) {
    const WARM: usize = 20;
    let text = four_kibibytes();
    let server = builder(data).start();
    let mut warm = Client::login(server.address("imap"));
    (0..WARM).for_each(|_| append_one(&mut warm, "F100", &text));
    for size in sizes {
        let mut client = Client::login_as(server.address("imap"), &whose_inbox(*size));
        let (cpu, wall) = measured_to_the_end(&server, || append_one(&mut client, "INBOX", &text));
        let name = format!("APPEND of 4 KiB to {size} that nobody has open");
        table.take(&name, "the same for each", "ms", MS, cpu, wall);
    }
    server.stop();
    let server = builder(data).start();
    let mut lmtp = Lmtp::connect(server.address("lmtp"));
    (0..WARM).for_each(|_| lmtp.deliver(USER, &text));
    for size in sizes {
        let (cpu, wall) = measured_to_the_end(&server, || lmtp.deliver(&whose_inbox(*size), &text));
        let name = format!("LMTP delivery of 4 KiB to {size} that nobody has open");
        table.take(&name, "the same for each", "ms", MS, cpu, wall);
    }
    server.stop();
}

/// A connection that delivers: RFC 2033.
struct Lmtp(Client);

impl Lmtp {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut lmtp = Self(Client { stream, buffer: vec![0; 1 << 16], tag: 0 });
        lmtp.0.until(b"220 ");
        lmtp.say(b"LHLO bench.example\r\n", b"250 ");
        lmtp
    }

    fn say(&mut self, text: &[u8], answer: &[u8]) {
        self.0.stream.write_all(text).unwrap();
        self.0.until(answer);
    }

    fn deliver(&mut self, to: &str, text: &[u8]) {
        self.say(b"MAIL FROM:<sender@example.net>\r\n", b"250 ");
        self.say(format!("RCPT TO:<{to}>\r\n").as_bytes(), b"250 ");
        self.say(b"DATA\r\n", b"354 ");
        // No line of it begins with a dot.
        self.say(&[text, b".\r\n"].concat(), b"250 ");
    }
}

/// Opens sessions that idle, and prints how many bytes of its own the server has grown by for each.
const IDLE_SESSIONS: &str = r#"
import socket, ssl, sys
pid, port, tls, mailbox, count, user, password = sys.argv[1:]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def line(stream, start):
    text = b""
    while not any(l.startswith(start) for l in text.split(b"\r\n")[:-1]):
        got = stream.recv(65536)
        assert got, text
        text += got
def open_session():
    stream = socket.create_connection(("127.0.0.1", int(port)))
    if tls == "tls":
        stream = context.wrap_socket(stream)
    line(stream, b"* OK")
    for command in ["LOGIN %s \"%s\"" % (user, password), "SELECT " + mailbox]:
        stream.sendall(b"t " + command.encode() + b"\r\n")
        line(stream, b"t OK")
    stream.sendall(b"t IDLE\r\n")
    line(stream, b"+")
    return stream
def anonymous():
    with open("/proc/%s/smaps_rollup" % pid) as rollup:
        return next(int(l.split()[1]) * 1024 for l in rollup if l.startswith("Anonymous:"))
# The first ones open the folder and fill the allocator's free lists.
warm = [open_session() for _ in range(100)]
before = anonymous()
idle = [open_session() for _ in range(int(count))]
print((anonymous() - before) // int(count))
"#;

/// What is measured on servers that have done nothing yet: opening folders, and then what an idle
/// session keeps in memory, each row on a server of its own.
fn restarted(data: &Path, table: &mut Table, sizes: &[usize], large: bool) {
    let mut rows = vec![("imap", "F1000", 2_000, "≤ 24 KiB"), ("imaps", "F1000", 2_000, "≤ 48 KiB")];
    rows.push(("imaps", "F100000", 2_000, "< 64 KiB"));
    if large {
        rows.push(("imaps", "F1000", 10_000, "< 1 GiB in all"));
    }
    for (protocol, mailbox, count, reach) in rows {
        let server = builder(data).start();
        opening(&server, table, sizes);
        let tls = if protocol == "imaps" { "tls" } else { "plain" };
        let (pid, port) = (server.pid().to_string(), server.address(protocol).port().to_string());
        let args = [&pid, &port, tls, mailbox, &count.to_string(), USER, PASSWORD];
        let said = run_python(IDLE_SESSIONS, &args);
        let each = said.trim().parse().unwrap_or_else(|_| panic!("{said}"));
        let name = format!("an idle session in {mailbox}, {tls}, of {count}");
        table.take(&name, reach, "KiB", 1024.0, each, each);
    }
}
