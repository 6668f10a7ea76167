//! Several clients at once, whose commands a seed makes. They send whole commands from the
//! grammar, and bursts of changed ones after which they close their side. Clients of IMAP come in
//! the clear, by imaps or with STARTTLS. Clients of POP3, ManageSieve and submission come in the
//! clear or inside TLS, by themselves or through a proxy.
//!
//! ```text
//! a round:  each client sends ──> the model's client asks, its answer is checked ──> each client reads
//! ```
//!
//! One thread sends everything, in an order that follows from the seed alone, so that the same seed
//! sends the same octets again. What must hold:
//! * a whole command has a tagged answer, and a session ends only after BYE or 421;
//! * a session whose client has closed its side ends;
//! * nothing in the server panics. A debug build of it panics as well when a poll does more steps
//!   than it may (`imap-server/src/heavy.rs`);
//! * no poll of a session or background task uses over 100 ms of CPU time each time that the seed
//!   is played. The rule is 10 ms in a release build; a debug build is some ten times as slow;
//! * its memory stays in a bound, also between two rounds: the peak counts;
//! * the model's mailbox is what its own client made of it, and the store is without a fault;
//! * so are the maildrop and the scripts of the clients of POP3 and ManageSieve.
//!
//! With [`Limits`] the server is a release build, and nothing else runs on the machine. Then
//! another neighbour lists its mailbox all the while. Its times are judged as `scripts/hostile`
//! does. The limit of a poll is 10 ms there.

mod extensions;
mod grammar;
mod lines;
mod managesieve;
mod message;
mod model;
mod pop3;
mod readers;
mod response;
mod timed;
mod way;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress};
use posthaste_testkit::{LONG_POLL, LineClient, Poll, Random, Server, ServerBuilder, changed};

use crate::{Gauge, Limits, Times};
use lines::Dialect;
use managesieve::Scripts;
use model::{MODEL, Model, PASSWORD};
use pop3::Maildrop;
use response::response;
use timed::{NEIGHBOUR, Timed};
use way::{PROXY, Way};

/// The account whose sessions send anything.
const FUZZED: &str = "fuzz@example.org";

/// Bytes over its rest that the server may take. Some forty sessions with messages of 64 KiB, and
/// the caches of a store that holds a few thousand of them.
const MEMORY_MAX: u64 = 256 << 20;

/// The counts of the work.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Whole commands, transactions, or sessions of POP3 and ManageSieve.
    pub commands: usize,
    /// IMAP commands that were answered OK.
    pub taken: usize,
    /// Bursts.
    pub bursts: usize,
    /// Connections of IMAP that were made inside TLS.
    pub encrypted: usize,
    /// The most memory over the rest that the server had at any moment, in bytes.
    pub memory: u64,
    /// Polls over 10 ms that a debug build logged. The machine's other work is in them.
    pub slow_polls: usize,
    /// The neighbour's times, if they are judged.
    pub times: Times,
    /// Its times alone.
    pub alone: Times,
}

impl Report {
    /// A way for a client of IMAP, which is counted.
    fn way(&mut self, random: &mut Random) -> Way {
        let way = Way::pick_imap(random);
        self.encrypted += usize::from(way.is_encrypted());
        way
    }
}

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Imap,
    Lmtp,
    Submission,
    Smtp,
    Pop3,
    Sieve,
}

impl Kind {
    /// The protocol of one that sends mail.
    fn dialect(self) -> Dialect {
        if self == Self::Lmtp { Dialect::Lmtp } else { Dialect::Submission }
    }

    const ALL: [Self; 9] = [
        Self::Imap,
        Self::Imap,
        Self::Imap,
        Self::Imap,
        Self::Lmtp,
        Self::Submission,
        Self::Smtp,
        Self::Pop3,
        Self::Sieve,
    ];

    /// Where it listens.
    const fn protocol(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Lmtp => "lmtp",
            Self::Submission => "submission",
            Self::Smtp => "smtp",
            Self::Pop3 => "pop3",
            Self::Sieve => "sieve",
        }
    }

    /// Whether whole sessions of it have a model: the bursts are those of another account.
    const fn has_model(self) -> bool {
        matches!(self, Self::Pop3 | Self::Sieve)
    }
}

/// Accounts that one client each changes, as they must be.
#[derive(Default)]
struct Models {
    maildrop: Maildrop,
    scripts: Scripts,
}

/// One client.
struct Peer {
    kind: Kind,
    client: Option<LineClient>,
    serial: usize,
    /// The unread answers.
    waits: Waits,
}

enum Waits {
    Nothing,
    /// For the tagged answer to this command.
    Answer {
        tag: String,
        command: Vec<u8>,
    },
    /// For the end.
    End {
        sent: Vec<u8>,
    },
}

/// How many times a seed is played until a long poll of the same task counts. A poll that computes
/// too much does so each time. One whose processor was slow for a moment does not.
const TRIES: usize = 3;

/// Plays this many commands of a seed against a server of its own. The error names what went wrong;
/// the same seed does it again. The times of a neighbour are judged if there are limits of them:
/// for a release build.
pub fn play(binary: &str, seed: u64, commands: usize, limits: Option<Limits>) -> Result<Report, String> {
    let (mut report, mut polls) = play_once(binary, seed, commands, limits)?;
    for _ in 1..TRIES {
        if polls.is_empty() {
            break;
        }
        let (next, again) = play_once(binary, seed, commands, limits)?;
        report = next;
        polls.retain(|poll| again.iter().any(|other| other.task == poll.task));
    }
    let limit = if limits.is_some() { "10 ms" } else { "100 ms" };
    if polls.is_empty() { Ok(report) } else { Err(format!("polls of over {limit}: {polls:?}")) }
}

/// The same once, with the long polls that were logged.
fn play_once(
    binary: &str,
    seed: u64,
    commands: usize,
    limits: Option<Limits>,
) -> Result<(Report, Vec<Poll>), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let config = folder.path().join("sessions.toml");
    // Debug builds log polls of over 100 ms anyway.
    let polls = if limits.is_some() { "long_polls = \"10 ms\"\n" } else { "" };
    // Hashing is not tested here.
    let text = format!(
        "[log]\nlevel = \"warn\"\n{polls}[login]\nscram_iterations = 4096\nargon2_memory = \"7 MiB\"\n\
         argon2_passes = 1\nplaintext = \"always\"\n[listen]\nproxy_networks = [\"{PROXY}\"]\n"
    );
    std::fs::write(&config, text).map_err(|e| e.to_string())?;
    let builder = ServerBuilder::new(binary).arg("--config").arg(config.to_string_lossy());
    let builder = builder.polls_are_judged_elsewhere();
    let listen =
        |builder: ServerBuilder, kind: &Kind| builder.listen(&format!("{}=127.0.0.1:0", kind.protocol()));
    let builder = Kind::ALL[3..].iter().fold(builder, listen);
    let inside_tls = ["imaps", "pop3s", "submissions"];
    let builder = inside_tls.iter().fold(builder, |b, name| b.listen(&format!("{name}=127.0.0.1:0")));
    let server = builder.start();
    for name in [FUZZED, MODEL, NEIGHBOUR, pop3::USER, managesieve::USER] {
        let arguments = ["account", "add", name, "--password-stdin", "--config", &config.to_string_lossy()];
        let added = server.command(&arguments, PASSWORD);
        if !added.status.success() {
            return Err(String::from_utf8_lossy(&added.stderr).into_owned());
        }
    }
    let mut random = Random::new(seed);
    // A thread of its own, whose priority may become lower.
    let work = || rounds(&server, &mut random, commands, limits);
    let outcome = match std::thread::scope(|scope| scope.spawn(work).join()) {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let panics = server.logged("panicked");
    match (outcome, panics.is_empty()) {
        (Ok(played), true) => Ok(played),
        (Ok(_), false) => Err(panics.join("\n")),
        (Err(why), _) => Err(format!("{why}\n{}", panics.join("\n"))),
    }
}

fn rounds(
    server: &Server,
    random: &mut Random,
    commands: usize,
    limits: Option<Limits>,
) -> Result<(Report, Vec<Poll>), String> {
    let mut peers = Kind::ALL.map(|kind| Peer { kind, client: None, serial: 0, waits: Waits::Nothing });
    let (mut model, gauge) = (Model::start(server)?, Gauge::new(server.pid()));
    let mut models = Models::default();
    // What the grammar names most is there to begin with.
    let mut first = login(server, Way::PLAIN)?;
    for name in ["a", "b", "a/b", "c/d/e"] {
        first.imap(&format!("CREATE {name}")).map_err(|e| e.to_string())?;
    }
    drop(first);
    let timed = limits.map(|limits| Timed::start(server, gauge, limits)).transpose()?;
    let (rest, mut report) = (gauge.memory(), Report::default());
    gauge.forget_peak().map_err(|e| format!("the server's peak of memory cannot be read: {e}"))?;
    while report.commands + report.bursts < commands {
        for peer in &mut peers {
            peer.send(server, random, &mut models, &mut report)?;
        }
        model.step(random)?;
        for peer in &mut peers {
            report.taken += usize::from(peer.read()?);
        }
        report.memory = report.memory.max(gauge.peak().saturating_sub(rest));
        if let Some(fault) = timed.as_ref().and_then(Timed::fault) {
            return Err(fault);
        }
        if gauge.memory() == 0 {
            return Err("the server ended".into());
        }
        if report.memory > MEMORY_MAX {
            return Err(format!("{} MiB over its rest", report.memory >> 20));
        }
        if !server.logged("panicked").is_empty() {
            return Err("a panic".into());
        }
    }
    drop(peers);
    if let Some(timed) = timed {
        (report.times, report.alone) = timed.judge()?;
    }
    model.compare_again(server)?;
    let check = server.command(&["check"], "");
    if !check.status.success() {
        return Err(format!("check: {}", String::from_utf8_lossy(&check.stdout)));
    }
    report.slow_polls = server.logged("blocked its thread for too long").len();
    let lines = server.logged(LONG_POLL).into_iter();
    let polls = lines.map(|line| Poll::read(&line).ok_or(line)).collect::<Result<_, _>>()?;
    Ok((report, polls))
}

impl Peer {
    fn send(
        &mut self,
        server: &Server,
        random: &mut Random,
        models: &mut Models,
        report: &mut Report,
    ) -> Result<(), String> {
        // Two draws whatever the state is, so that what is sent follows from the seed.
        let often = if self.kind.has_model() { 2 } else { 10 };
        let (burst, bare) = (random.one_in(often), random.one_in(4));
        if burst {
            report.bursts += 1;
            return self.burst(server, random, bare, report);
        }
        report.commands += 1;
        match self.kind {
            Kind::Imap => self.command(server, random, report),
            Kind::Pop3 => models.maildrop.session(server, random),
            Kind::Sieve => models.scripts.session(server, random),
            kind => {
                let way = Way::pick(random);
                let mut client = match self.client.take() {
                    Some(client) => client,
                    None if kind == Kind::Submission => open_by(
                        way.connect(server, kind.protocol()).map_err(|e| format!("{way:?}: {e}"))?,
                        kind,
                    )?,
                    None => open_by(connect(server, kind)?, kind)?,
                };
                if lines::transaction(&mut client, kind.dialect(), random)? {
                    self.client = Some(client);
                }
                Ok(())
            }
        }
    }

    /// A whole command of IMAP; its answer is read later.
    fn command(&mut self, server: &Server, random: &mut Random, report: &mut Report) -> Result<(), String> {
        let command = grammar::command(random);
        let mut client = match self.client.take() {
            Some(client) => client,
            // Most commands are of no use without a mailbox.
            None => {
                let mut client = login(server, report.way(random))?;
                client
                    .imap(random.pick(&["SELECT INBOX", "SELECT INBOX (CONDSTORE)", "NOOP"]))
                    .map_err(|e| e.to_string())?;
                client
            }
        };
        self.serial += 1;
        let tag = format!("f{}", self.serial);
        let bytes = [tag.as_bytes(), b" ", &command, b"\r\n"].concat();
        // If it hangs up meanwhile, its earlier octets are read.
        let _ = client.send(&bytes);
        self.client = Some(client);
        self.waits = Waits::Answer { tag, command };
        Ok(())
    }

    /// Changed commands all at once, then the end of our side.
    fn burst(
        &mut self,
        server: &Server,
        random: &mut Random,
        bare: bool,
        report: &mut Report,
    ) -> Result<(), String> {
        let kind = self.kind;
        let inputs: Vec<Vec<u8>> = (0..1 + random.below(12))
            .map(|n| match kind {
                Kind::Imap => [format!("b{n} ").as_bytes(), &grammar::command(random), b"\r\n"].concat(),
                Kind::Pop3 => readers::pop3(random),
                Kind::Sieve => readers::sieve(random),
                _ => lines::script(kind.dialect(), random),
            })
            .collect();
        let mut sent: Vec<u8> = match kind.has_model() && random.one_in(2) {
            true => inputs.concat(),
            false => (0..inputs.len()).flat_map(|_| changed(random, &inputs)).collect(),
        };
        // So much fits the buffers of a socket even if the server reads nothing.
        sent.truncate(48 << 10);
        let compressed = kind == Kind::Imap && random.one_in(4);
        let mut client = match self.client.take().filter(|_| !bare) {
            Some(client) => client,
            None if kind == Kind::Imap && bare => {
                report.way(random).connect(server, "imap").map_err(|e| format!("imap: {e}"))?
            }
            None if kind == Kind::Imap => login(server, report.way(random))?,
            None if bare || kind == Kind::Lmtp => connect(server, kind)?,
            None => open_by(connect(server, kind)?, kind)?,
        };
        if compressed && !bare {
            let _ = client.send(b"z COMPRESS DEFLATE\r\n");
            while response(&mut client).is_ok_and(|line| !line.starts_with("z ")) {}
            sent = deflated(&sent);
            if random.one_in(2) {
                sent = changed(random, std::slice::from_ref(&sent));
            }
        }
        let _ = client.send(&sent);
        self.client = Some(client);
        self.waits = Waits::End { sent };
        Ok(())
    }

    /// Reads what is due. Whether it is the OK of a command.
    fn read(&mut self) -> Result<bool, String> {
        match std::mem::replace(&mut self.waits, Waits::Nothing) {
            Waits::Nothing => Ok(false),
            Waits::End { sent } => {
                let Some(mut client) = self.client.take() else { return Ok(false) };
                client.finish().map(|_| false).map_err(|error| {
                    format!("{:?} does not end: {error}, after b\"{}\"", self.kind, sent.escape_ascii())
                })
            }
            Waits::Answer { tag, command } => {
                let Some(client) = &mut self.client else { return Ok(false) };
                let tagged = format!("{tag} ");
                let (mut bye, mut taken) = (false, false);
                loop {
                    match response(client) {
                        Ok(line) if line.starts_with(&tagged) => {
                            taken = line[tagged.len()..].starts_with("OK");
                            break;
                        }
                        Ok(line) => bye |= line.starts_with("* BYE"),
                        Err(_) if bye => break,
                        Err(error) => {
                            let command = command.escape_ascii();
                            return Err(format!(
                                "no answer and no BYE: {error}, after b\"{tagged}{command}\""
                            ));
                        }
                    }
                }
                // Behind STARTTLS comes a handshake, which this client does not do.
                if bye || command == b"STARTTLS" {
                    self.client = None;
                }
                Ok(taken)
            }
        }
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let (mut compress, mut out) =
        (Compress::new(Compression::fast(), false), Vec::with_capacity(bytes.len() + 1024));
    let _ = compress.compress_vec(bytes, &mut out, FlushCompress::Sync);
    out
}

fn connect(server: &Server, kind: Kind) -> Result<LineClient, String> {
    let protocol = kind.protocol();
    LineClient::connect(server.address(protocol)).map_err(|e| format!("{protocol}: {e}"))
}

/// A client that may do what its protocol is for, by a connection from which nothing was read.
fn open_by(mut client: LineClient, kind: Kind) -> Result<LineClient, String> {
    if kind.has_model() {
        let plain = STANDARD.encode(format!("\0{FUZZED}\0{PASSWORD}"));
        let login = match kind {
            Kind::Sieve => format!("AUTHENTICATE \"PLAIN\" \"{plain}\"\r\n"),
            _ => format!("USER {FUZZED}\r\nPASS {PASSWORD}\r\n"),
        };
        // The answers are read with those to the burst.
        let _ = client.send(login.as_bytes());
        return Ok(client);
    }
    let mut ask = |line: &str, wanted: &str| match client.ask(line) {
        Ok(reply) if reply.starts_with(wanted) => Ok(()),
        other => Err(format!("{kind:?}: {line}: {other:?}")),
    };
    // The first answer is the greeting.
    ask("NOOP", "220")?;
    let plain = STANDARD.encode(format!("\0{FUZZED}\0{PASSWORD}"));
    ask(if kind == Kind::Lmtp { "LHLO a.example" } else { "EHLO a.example" }, "250")?;
    client.reply().map_err(|e| e.to_string())?;
    if kind == Kind::Submission {
        let reply = client.ask(&format!("AUTH PLAIN {plain}")).map_err(|e| e.to_string())?;
        if !reply.starts_with("235") {
            return Err(format!("AUTH: {reply}"));
        }
    }
    Ok(client)
}

/// A client of IMAP that has logged in.
fn login(server: &Server, way: Way) -> Result<LineClient, String> {
    let mut client = way.imap(server).map_err(|e| format!("IMAP, {way:?}: no greeting: {e}"))?;
    let failed = |e: std::io::Error| format!("IMAP, {way:?}: no login: {e}");
    let lines = client.imap(&format!("LOGIN {FUZZED} \"{PASSWORD}\"")).map_err(failed)?;
    match lines.last() {
        Some(line) if line.starts_with("t OK") => Ok(client),
        last => Err(format!("IMAP, {way:?}: no login: {last:?}")),
    }
}
