//! The cost of commands: nanoseconds of server CPU per message, measured from outside, on the real
//! binary over loopback.
//!
//! `cargo bench -p posthaste --bench cost` prints the table of the README for folders of up to
//! 100,000 messages. After `--`:
//!
//! - `--large` adds folders of 500,000 and 1,000,000. It takes some minutes and 3 GB of disk.
//! - `--only listings,changes` measures only these groups of rows ([`GROUPS`]).
//! - `--without-index` switches the search index off, which an older baseline does not have.
//! - `--rounds 21` measures so many rounds in place of 7. Ratios of few rounds vary by a tenth.
//!
//! In the environment:
//!
//! - `POSTHASTE_BINARY` names the build to measure instead of this one.
//! - `POSTHASTE_BASELINE` names a second build. Both are measured in turn, and the table has their
//!   ratio.
//!
//! On a shared machine wall time varies by a factor of two. CPU time varies less, and the minimum
//! of several interleaved rounds varies least. The kernel's scheduler counts a task's CPU in
//! nanoseconds (`/proc/PID/task/*/schedstat`): both the server's own work and the kernel's work for
//! it. Client and server are separate processes; nothing of the client is counted.
//!
//! With a baseline, both servers run at the same time, each on its own data. In each round, every
//! group of rows is measured on one and then on the other. The next round has the other order. Both
//! start again for each round, in its order: two starts of one build differ by a tenth, by where
//! the kernel puts their memory. A server has no work in the background when a group begins.
//!
//! The client has the last processor, and the servers the others, if the machine has several and
//! lets the client choose. On a processor that they share, the client interrupts the server at each
//! write, or does not, by chance. The same build as its own baseline shows how exact ratios are.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Instant;

use posthaste_load_measure::processors::keep_to;
use posthaste_testkit::{Mbox, Server, ServerBuilder, message};
use tempfile::TempDir;

use crate::table::Table;

mod client;
mod measure;
mod notices;
mod restarts;
mod rows;
mod table;

const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
/// Rounds of everything, one after the other; the least of each row counts.
const ROUNDS: usize = 7;
/// Samples of each listing in a round.
const SAMPLES: usize = 3;
/// The groups of rows, in the order in which they are measured.
const GROUPS: [&str; 8] = ["opening", "listings", "sessions", "changes", "lmtp", "idle", "memory", "closed"];
/// Those that need servers of their own.
const RESTARTING: [&str; 2] = ["memory", "closed"];

/// Processors of the machine, before this thread keeps to some of them.
static PROCESSORS: LazyLock<u32> =
    LazyLock::new(|| std::thread::available_parallelism().unwrap().get() as u32);

/// The selected rows.
struct Options {
    groups: Vec<String>,
    large: bool,
    without_index: bool,
    rounds: usize,
}

impl Options {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let only = arguments.iter().position(|a| a == "--only").map(|at| &arguments[at + 1]);
        let groups = match only {
            Some(list) => list.split(',').map(str::to_owned).collect(),
            None => GROUPS.map(str::to_owned).to_vec(),
        };
        let unknown = groups.iter().find(|g| !GROUPS.contains(&g.as_str()));
        assert!(unknown.is_none(), "--only: there is no group {unknown:?}; the groups are {GROUPS:?}");
        let has = |option: &str| arguments.iter().any(|a| a == option);
        let rounds = arguments.iter().position(|a| a == "--rounds").map(|at| arguments[at + 1].parse());
        let rounds = rounds.map_or(ROUNDS, |rounds| rounds.expect("--rounds: a number"));
        Self { groups, large: has("--large"), without_index: has("--without-index"), rounds }
    }

    fn has(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Messages in the folders of one account.
    fn folders(&self) -> Vec<usize> {
        let small = [1_000, 10_000, 100_000];
        small.into_iter().chain([500_000, 1_000_000].into_iter().filter(|_| self.large)).collect()
    }

    /// Messages in the INBOXes that nobody opens.
    fn closed(&self) -> Vec<usize> {
        [100, 100_000].into_iter().chain(self.large.then_some(1_000_000)).collect()
    }
}

/// One build of the server and the data it is measured on.
struct Side {
    binary: PathBuf,
    data: TempDir,
    settings: String,
    table: Table,
}

impl Side {
    fn new(binary: PathBuf, options: &Options) -> Self {
        let keys = std::process::Command::new(&binary).args(["config", "--default"]).output().unwrap();
        let keys = String::from_utf8_lossy(&keys.stdout);
        // A baseline may be older than these settings. One account has all the sessions here.
        let mut settings = String::new();
        if keys.contains("account_connections = ") {
            settings.push_str("[limits]\naccount_connections = 0\n");
        }
        if options.without_index && keys.contains("[search]\n") {
            settings.push_str("[search]\nindex = false\n");
        }
        Self { binary, data: tempfile::tempdir().unwrap(), settings, table: Table::default() }
    }

    fn start(&self) -> Server {
        let mut server = ServerBuilder::new(&self.binary).data(self.data.path().join("data"));
        // A baseline may be older than the other protocols.
        for protocol in ["imap", "imaps", "lmtp"] {
            server = server.listen(&format!("{protocol}=127.0.0.1:0"));
        }
        if !self.settings.is_empty() {
            let config = self.data.path().join("posthaste.toml");
            std::fs::write(&config, &self.settings).unwrap();
            server = server.arg("--config").arg(config.to_str().unwrap());
        }
        // A server starts with the processors of the thread that starts it.
        let (all, of_client) = (*PROCESSORS, *PROCESSORS - 1);
        let kept = keep_to(0..of_client.max(1));
        let server = server.start();
        if let Err(error) = kept.and_then(|()| keep_to(of_client..all)) {
            eprintln!("client and server share their processors: {error}");
        }
        measure::wait_for_background(&server);
        server
    }

    /// Imports the mail that the groups need.
    fn fill(&self, options: &Options) {
        let server = self.start();
        server.add_account(USER, PASSWORD);
        import(&server, USER, "F100", 100);
        for size in options.folders() {
            rows::folders_of(size).for_each(|folder| import(&server, USER, &folder, size));
        }
        for size in options.closed().into_iter().filter(|_| options.has("closed")) {
            for account in rows::accounts_with(size) {
                server.add_account(&account, PASSWORD);
                import(&server, &account, "INBOX", size);
            }
        }
        server.stop();
    }
}

fn main() {
    let options = Options::from_arguments();
    let binary = std::env::var_os("POSTHASTE_BINARY");
    let baseline = std::env::var_os("POSTHASTE_BASELINE");
    let binary = binary.map_or_else(|| env!("CARGO_BIN_EXE_posthaste").into(), PathBuf::from);
    let mut sides = vec![Side::new(binary, &options)];
    sides.extend(baseline.map(|path| Side::new(path.into(), &options)));
    sides.iter().for_each(|side| side.fill(&options));

    if options.groups.iter().any(|group| !RESTARTING.contains(&group.as_str())) {
        (0..options.rounds).for_each(|round| running(&mut sides, &options, round));
    }
    if options.has("memory") {
        for side in &mut sides {
            restarts::memory(side, &options);
        }
    }
    for round in (0..options.rounds).filter(|_| options.has("closed")) {
        for side in in_turn(&mut sides, round) {
            side.table.begin_round(round);
            restarts::deliveries(side, &options.closed());
            restarts::copies(side, &options.closed());
        }
    }
    let now = &sides[0].table;
    match sides.get(1) {
        None => now.print(),
        Some(side) => now.print_beside(&side.table),
    }
}

/// The builds in the order of a round: each is the first of every second round.
fn in_turn<T>(builds: &mut [T], round: usize) -> impl Iterator<Item = &mut T> {
    let (first, second) = builds.split_at_mut(round % builds.len());
    second.iter_mut().chain(first)
}

/// A round of the rows of servers that run.
fn running(sides: &mut [Side], options: &Options, round: usize) {
    // The first to start has waited longest, and the start of the other takes the caches from it.
    // So it must not be the same build in each round.
    let start = |side: &mut Side| {
        side.table.begin_round(round);
        side.start()
    };
    let mut running: Vec<(Server, &mut Side)> =
        in_turn(sides, round).map(|side| (start(side), side)).collect();
    let mut each = |group: &str, measure: &dyn Fn(&Server, &mut Table)| {
        if options.has(group) {
            running.iter_mut().for_each(|(server, side)| measure(server, &mut side.table));
        }
    };
    let folders = options.folders();
    each("opening", &|server, table| rows::opening(server, table, &folders));
    each("listings", &|server, table| rows::listings(server, table, &folders));
    each("sessions", &|server, table| rows::sessions(server, table));
    each("changes", &|server, table| rows::changes(server, table, round));
    each("lmtp", &|server, table| rows::lmtp_deliveries(server, table));
    if round == 0 {
        each("idle", &|server, table| notices::notices(server, table));
    }
    for (server, _) in running {
        server.stop();
    }
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

/// A message of 4 KiB.
fn four_kibibytes() -> Vec<u8> {
    let mut text = message(1);
    while text.len() < 4096 {
        text.extend_from_slice(b"Another line of a message of four kibibytes in all, more or less.\r\n");
    }
    text
}
