//! `kill -9` under mixed load, with an exact model. After each restart, every mailbox has all
//! acknowledged commands. It may also have the one command that was not answered.
//!
//! Each worker has two mailboxes to itself and one command under way at a time, so the model knows
//! every UID, flag and place. `POSTHASTE_TEST_KILLS` sets the number of kills; `scripts/kill` runs
//! hundreds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use posthaste_testkit::{Acknowledged, LineClient, Server, ServerBuilder};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
const WORKERS: usize = 4;
/// Kills in the test command.
const KILLS: usize = 20;
/// Messages of a mailbox from which a worker prefers to expunge.
const MESSAGES_MAX: usize = 60;

/// Numbers that a seed determines: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    serial: usize,
    seen: bool,
    deleted: bool,
    flagged: bool,
}

/// One mailbox as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Mailbox {
    messages: BTreeMap<u32, Message>,
    uid_next: u32,
}

impl Mailbox {
    fn add(&mut self, message: Message) {
        self.messages.insert(self.uid_next, message);
        self.uid_next += 1;
    }
}

/// A worker's two mailboxes.
type Model = [Mailbox; 2];

/// One command: on which of the two mailboxes, its text, and the state after it.
struct Step {
    on: usize,
    command: String,
    literal: Option<Vec<u8>>,
    after: Model,
}

struct Worker {
    number: usize,
    random: Random,
    serial: usize,
    model: Model,
    /// The state after the command that was not answered.
    unanswered: Option<Model>,
    uid_validity: [u32; 2],
    modseq: [u64; 2],
}

fn text_of(serial: usize) -> Vec<u8> {
    let body = "abcdefghij\r\n".repeat(serial % 400);
    format!("From: a@example.net\r\nX-Serial: {serial}\r\n\r\n{body}").into_bytes()
}

impl Worker {
    fn new(number: usize) -> Self {
        let empty = Mailbox { uid_next: 1, ..Mailbox::default() };
        Self {
            number,
            random: Random(number as u64),
            serial: 0,
            model: [empty.clone(), empty],
            unanswered: None,
            uid_validity: [0; 2],
            modseq: [0; 2],
        }
    }

    fn name(&self, mailbox: usize) -> String {
        format!("w{}-{mailbox}", self.number)
    }

    /// Up to `most` neighbouring messages of a mailbox.
    fn some(&mut self, mailbox: usize, most: usize) -> Vec<u32> {
        let uids: Vec<u32> = self.model[mailbox].messages.keys().copied().collect();
        let first = self.random.below(uids.len().max(1));
        uids.into_iter().skip(first).take(1 + self.random.below(most)).collect()
    }

    /// A random command and its effect.
    fn step(&mut self) -> Step {
        let on = self.random.below(2);
        let is_full = self.model[on].messages.len() >= MESSAGES_MAX;
        let is_empty = self.model[on].messages.is_empty();
        match self.random.below(8) {
            _ if is_empty => self.append(on),
            _ if is_full && self.random.below(2) == 0 => self.store(on, "\\Deleted"),
            _ if is_full => self.expunge(on),
            0..=2 => self.append(on),
            3 => self.store(on, "\\Seen"),
            4 => self.store(on, "\\Deleted"),
            5 => self.expunge(on),
            6 => self.transfer(on, "COPY"),
            _ => self.transfer(on, "MOVE"),
        }
    }

    fn append(&mut self, on: usize) -> Step {
        self.serial += 1;
        let (serial, flagged) = (self.serial, self.random.below(2) == 0);
        let text = text_of(serial);
        let mut after = self.model.clone();
        after[on].add(Message { serial, seen: false, deleted: false, flagged });
        let flags = if flagged { "\\Flagged" } else { "" };
        let command = format!("APPEND {} ({flags}) {{{}}}", self.name(on), text.len());
        Step { on, command, literal: Some(text), after }
    }

    fn store(&mut self, on: usize, flag: &str) -> Step {
        let uids = self.some(on, 20);
        let value = self.random.below(2) == 0;
        let mut after = self.model.clone();
        for uid in &uids {
            let message = after[on].messages.get_mut(uid).unwrap();
            *(if flag == "\\Seen" { &mut message.seen } else { &mut message.deleted }) = value;
        }
        let sign = if value { '+' } else { '-' };
        Step { on, command: format!("UID STORE {} {sign}FLAGS ({flag})", set(&uids)), literal: None, after }
    }

    fn expunge(&mut self, on: usize) -> Step {
        let mut after = self.model.clone();
        after[on].messages.retain(|_, message| !message.deleted);
        Step { on, command: "EXPUNGE".into(), literal: None, after }
    }

    fn transfer(&mut self, on: usize, how: &str) -> Step {
        // Sometimes enough that copies link to their originals.
        let uids = if self.random.below(3) == 0 { self.some(on, 60) } else { self.some(on, 5) };
        let mut after = self.model.clone();
        for uid in &uids {
            let message = after[on].messages[uid].clone();
            after[1 - on].add(message);
            if how == "MOVE" {
                after[on].messages.remove(uid);
            }
        }
        Step { on, command: format!("UID {how} {} {}", set(&uids), self.name(1 - on)), literal: None, after }
    }

    /// Sends commands until the connection breaks. Each answer is reported.
    fn run(&mut self, imap: SocketAddr, report: &Acknowledged) -> std::io::Result<()> {
        let mut client = login(imap)?;
        let mut selected = None;
        loop {
            let step = self.step();
            if selected != Some(step.on) {
                ask(&mut client, &format!("SELECT {}", self.name(step.on)), None)?;
                selected = Some(step.on);
            }
            self.unanswered = Some(step.after);
            ask(&mut client, &step.command, step.literal.as_deref())?;
            self.model = self.unanswered.take().unwrap();
            report.count();
        }
    }

    /// Compares what the server has with the model, and takes the unanswered command over if it was
    /// done.
    fn verify(&mut self, imap: SocketAddr) {
        let mut client = login(imap).unwrap();
        let mut found = Model::default();
        for (mailbox, state) in found.iter_mut().enumerate() {
            *state = self.fetch(&mut client, mailbox);
        }
        if let Some(after) = self.unanswered.take().filter(|after| *after == found) {
            self.model = after;
        }
        assert_eq!(found, self.model, "worker {}", self.number);
    }

    fn fetch(&mut self, client: &mut LineClient, mailbox: usize) -> Mailbox {
        let mut state = Mailbox::default();
        for line in client.imap(&format!("EXAMINE {} (CONDSTORE)", self.name(mailbox))).unwrap() {
            let number = |what: &str| -> Option<u64> {
                line.split(what).nth(1)?.split([']', ' ']).next()?.parse().ok()
            };
            state.uid_next = number("[UIDNEXT ").map_or(state.uid_next, |n| n as u32);
            if let Some(validity) = number("[UIDVALIDITY ") {
                let before = std::mem::replace(&mut self.uid_validity[mailbox], validity as u32);
                assert!(before == 0 || u64::from(before) == validity, "UIDVALIDITY changed: {line}");
            }
            if let Some(modseq) = number("[HIGHESTMODSEQ ") {
                assert!(modseq >= self.modseq[mailbox], "HIGHESTMODSEQ went back: {line}");
                self.modseq[mailbox] = modseq;
            }
        }
        client.send(b"f UID FETCH 1:* (FLAGS BODY.PEEK[])\r\n").unwrap();
        loop {
            let line = client.line().unwrap();
            if line.starts_with("f ") {
                assert!(line.starts_with("f OK"), "{line}");
                return state;
            }
            let size = line.strip_suffix('}').and_then(|l| l.rsplit('{').next()).unwrap();
            let bytes = client.bytes(size.parse().unwrap()).unwrap();
            client.line().unwrap();
            let uid = line.split("UID ").nth(1).unwrap().split([' ', ')']).next().unwrap();
            let text = String::from_utf8_lossy(&bytes);
            let serial = text.split("X-Serial: ").nth(1).unwrap().split("\r\n").next().unwrap();
            let serial = serial.parse().unwrap();
            assert_eq!(bytes, text_of(serial), "message {serial} was altered");
            let has = |flag: &str| line.contains(flag);
            let message =
                Message { serial, seen: has("\\Seen"), deleted: has("\\Deleted"), flagged: has("\\Flagged") };
            let twice = state.messages.insert(uid.parse().unwrap(), message);
            assert!(twice.is_none(), "UID {uid} was sent twice");
        }
    }
}

fn set(uids: &[u32]) -> String {
    uids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Sends a command and waits for its OK. Panics on any other answer.
fn ask(client: &mut LineClient, command: &str, literal: Option<&[u8]>) -> std::io::Result<()> {
    let answer = match literal {
        None => client.imap(command)?.pop().unwrap_or_default(),
        Some(literal) => send_literal(client, command, literal)?,
    };
    assert!(answer.starts_with("t OK"), "{command}: {answer}");
    Ok(())
}

fn send_literal(client: &mut LineClient, command: &str, literal: &[u8]) -> std::io::Result<String> {
    client.send(format!("t {command}\r\n").as_bytes())?;
    let mut line = client.line()?;
    while line.starts_with('*') {
        line = client.line()?;
    }
    assert!(line.starts_with('+'), "{command}: {line}");
    client.send(literal)?;
    client.send(b"\r\n")?;
    loop {
        let line = client.line()?;
        if line.starts_with("t ") {
            return Ok(line);
        }
    }
}

fn login(imap: SocketAddr) -> std::io::Result<LineClient> {
    let mut client = LineClient::connect(imap)?;
    client.line()?;
    ask(&mut client, &format!("LOGIN {USER} \"{PASSWORD}\""), None)?;
    Ok(client)
}

fn start(data: &Path) -> Server {
    ServerBuilder::new(BINARY).data(data).listen("imap=127.0.0.1:0").start()
}

#[test]
fn every_mailbox_is_what_was_acknowledged_after_each_kill() {
    let kills = std::env::var("POSTHASTE_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = start(&data);
    server.add_account(USER, PASSWORD);
    let mut workers: Vec<Worker> = (0..WORKERS).map(Worker::new).collect();
    let mut client = login(server.address("imap")).unwrap();
    for worker in &workers {
        for mailbox in 0..2 {
            ask(&mut client, &format!("CREATE {}", worker.name(mailbox)), None).unwrap();
        }
    }
    drop(client);
    let (mut acknowledged, mut random) = (0, Random(99));
    let mut server = Some(server);
    for kill in 1..=kills {
        let running = server.take().unwrap_or_else(|| start(&data));
        let imap = running.address("imap");
        let enough = 1 + random.below(200);
        acknowledged += enough;
        let work = |worker| move |report: &Acknowledged| Worker::run(worker, imap, report);
        running.kill_at_work(enough, workers.iter_mut().map(work));
        let again = start(&data);
        workers.iter_mut().for_each(|worker| worker.verify(again.address("imap")));
        if kill % 10 == 0 {
            println!("{kill} kills, {acknowledged} commands acknowledged");
        }
        // Every other server is killed as it was started and looked at, the rest continue.
        if kill % 2 == 0 {
            again.kill();
        } else {
            server = Some(again);
        }
    }
    let server = server.unwrap_or_else(|| start(&data));
    let check = server.command(&["check"], "");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
