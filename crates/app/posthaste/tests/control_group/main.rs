//! The server in a control group of the size that its plan has: it is not killed, whatever its
//! clients do. It takes root and a machine that lets us make such a group.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod filled;
mod group;

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use posthaste_hostile::{ATTACKS, Attack, Scale, Stage};
use posthaste_testkit::{LineClient, Server};

use group::{Group, group};

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");
const USER: &str = "ana@example.org";
const PASSWORD: &str = "correct horse";
const MIB: usize = 1 << 20;

fn login(server: &Server) -> LineClient {
    login_as(server, USER)
}

fn login_as(server: &Server, user: &str) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    let answer = client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    assert!(answer.last().unwrap().starts_with("t OK"), "{answer:?}");
    client
}

/// Lines of text of this many bytes.
fn large(len: usize) -> Vec<u8> {
    let mut message = b"Subject: large\r\n\r\n".to_vec();
    while message.len() < len {
        message.extend_from_slice(format!("{:076}\r\n", message.len()).as_bytes());
    }
    message
}

/// The tagged answer.
fn append(client: &mut LineClient, message: &[u8]) -> String {
    append_many(client, message, 1)
}

/// A message of empty parts: its summary is many times as long.
fn parts(len: usize) -> Vec<u8> {
    let mut message = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n".to_vec();
    while message.len() < len {
        message.extend_from_slice(b"--b\r\n\r\n");
    }
    message
}

/// One APPEND of this many messages. Returns the tagged answer.
fn append_many(client: &mut LineClient, message: &[u8], count: usize) -> String {
    client.send(b"t APPEND INBOX").unwrap();
    for _ in 0..count {
        client.send(format!(" {{{}}}\r\n", message.len()).as_bytes()).unwrap();
        let answer = client.line().unwrap();
        if !answer.starts_with('+') {
            return answer;
        }
        client.send(message).unwrap();
    }
    client.send(b"\r\n").unwrap();
    loop {
        let line = client.line().unwrap();
        if line.starts_with("t ") {
            return line;
        }
    }
}

/// A client of LMTP that sends a chunk, and says nothing more.
fn silent_after_a_chunk(lmtp: SocketAddr, message: &[u8]) -> LineClient {
    let mut client = LineClient::connect(lmtp).unwrap();
    client.line().unwrap();
    for command in ["LHLO a.example", "MAIL FROM:<>", &format!("RCPT TO:<{USER}>")] {
        let reply = client.ask(command).unwrap();
        assert!(reply.starts_with("250"), "{command}: {reply}");
    }
    client.send(format!("BDAT {}\r\n", message.len()).as_bytes()).unwrap();
    client.send(message).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("250") || reply.starts_with("452"), "{reply}");
    client
}

/// The server's lines at its start: the configuration fits, or it would not start.
fn start(group: &Group, dir: &Path, settings: &str) -> Server {
    let server = group.server(dir).settings(&dir.join("posthaste.toml"), settings).start();
    server.add_account(USER, PASSWORD);
    server
}

#[test]
fn a_server_in_a_group_of_its_planned_size_is_not_killed() {
    const SIZE: usize = 736 * MIB;
    let Some(group) = group("planned", SIZE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("[limits]\nmemory = \"{} MiB\"\naccount_connections = 0\n", SIZE / MIB);
    let server = start(&group, dir.path(), &settings);
    let mut client = login(&server);
    let message = &large(50 * MIB);
    let answer = append(&mut client, message);
    assert!(answer.starts_with("t OK"), "{answer}");
    // Sessions that stay, with the mailbox open.
    let mut sessions: Vec<LineClient> = (0..40).map(|_| login(&server)).collect();
    for session in &mut sessions {
        assert!(session.imap("SELECT INBOX").unwrap().last().unwrap().starts_with("t OK"));
    }
    // Beside each other: large messages come in, whole, in chunks and many at once, and the large
    // one is searched and read.
    thread::scope(|scope| {
        let lmtp = server.address("lmtp");
        for _ in 0..8 {
            scope.spawn(move || silent_after_a_chunk(lmtp, &message[..20 * MIB]));
        }
        for mut session in sessions.drain(..4) {
            scope.spawn(move || {
                let tagged = append_many(&mut session, &parts(255 << 10), 80);
                assert!(tagged.starts_with("t OK") || tagged.starts_with("t NO"), "{tagged}");
            });
        }
        for mut session in sessions.drain(..6) {
            let message = large(20 * MIB);
            scope.spawn(move || {
                let tagged = append(&mut session, &message);
                // Without memory it is refused for now: the server lives anyway.
                assert!(tagged.starts_with("t OK") || tagged.starts_with("t NO"), "{tagged}");
            });
        }
        for mut session in sessions.drain(..4) {
            scope.spawn(move || {
                let answer = session.imap("SEARCH 1 BODY \"no such words\"").unwrap();
                assert!(answer.last().unwrap().starts_with("t OK"), "{answer:?}");
            });
        }
        for mut session in sessions.drain(..4) {
            let len = message.len();
            scope.spawn(move || {
                let (literals, tagged) = session.literals("FETCH 1 BODY.PEEK[]").unwrap();
                assert!(tagged.starts_with("t OK"), "{tagged}");
                assert_eq!(literals[0].1.len(), len);
            });
        }
    });
    for session in &mut sessions {
        assert!(session.imap("NOOP").unwrap().last().unwrap().starts_with("t OK"));
    }
    println!("the group had at most {:?} of {SIZE} bytes", group.most());
    drop(server);
}

#[test]
fn the_defaults_start_in_a_group_of_256_mib() {
    let Some(group) = group("small", 256 * MIB) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = start(&group, dir.path(), "");
    let plan = server.logged("memory: at most");
    assert!(plan.iter().any(|line| line.contains("192.0 MiB")), "the group's limit was not seen: {plan:?}");
    let mut client = login(&server);
    let answer = append(&mut client, &large(200 << 10));
    assert!(answer.starts_with("t OK"), "{answer}");
    let answer = append(&mut client, &large(20 * MIB));
    assert!(answer.starts_with("t NO [TOOBIG]") || answer.starts_with("t NO [LIMIT]"), "{answer}");
    drop(server);
}

/// The tagged answer to a command.
fn ask(client: &mut LineClient, command: &str) -> String {
    client.imap(command).unwrap().pop().unwrap()
}

/// Messages of one command: so small a server takes some 9,000 at most.
const AT_ONCE: usize = 8_000;
/// Messages in the INBOX of a full account.
const IN_INBOX: usize = 144_000;

/// Gives an account as many messages as it may have. Its INBOX, which stays open, gets half of
/// them, and then the mailbox Half the rest.
fn fill(client: &mut LineClient) {
    assert!(append_many(client, b"Subject: a\r\n\r\n", 100).starts_with("t OK"));
    assert!(ask(client, "CREATE Half").starts_with("t OK"));
    assert!(ask(client, "SELECT INBOX").starts_with("t OK"));
    let mut messages = 100;
    let refusal = loop {
        let count = AT_ONCE.min(messages);
        let into = if messages < IN_INBOX { "INBOX" } else { "Half" };
        let answer = ask(client, &format!("COPY 1:{count} {into}"));
        if !answer.starts_with("t OK") {
            break answer;
        }
        messages += count;
        assert!(ask(client, "NOOP").starts_with("t OK"));
    };
    assert!(refusal.starts_with("t NO [OVERQUOTA]"), "{refusal}");
    assert!(messages > 280_000, "{messages}");
}

/// Changes rows of the INBOX of a full account, from this message on.
fn change_from(client: &mut LineClient, first: usize) {
    let last = first + AT_ONCE - 1;
    let answer = ask(client, &format!("STORE {first}:{last} +FLAGS.SILENT (\\Seen)"));
    assert!(answer.starts_with("t OK"), "{answer}");
}

/// The defaults. One account has as many messages as it may have, in two mailboxes. Sessions have
/// both open, and hold old views of them while all rows change.
#[test]
fn an_account_with_all_its_messages_kills_no_server_in_a_small_group() {
    const SIZE: usize = 256 * MIB;
    let Some(group) = group("full-account", SIZE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = start(&group, dir.path(), "");
    let mut client = login(&server);
    fill(&mut client);
    let mut watchers: Vec<LineClient> = (0..6).map(|_| login(&server)).collect();
    for (at, watcher) in watchers.iter_mut().enumerate() {
        let mailbox = if at % 2 == 0 { "INBOX" } else { "Half" };
        assert!(ask(watcher, &format!("SELECT {mailbox}")).starts_with("t OK"));
    }
    // The watchers do not read, so their sessions keep the views from before.
    for first in (1..IN_INBOX).step_by(AT_ONCE) {
        change_from(&mut client, first);
    }
    assert!(ask(&mut client, "NOOP").starts_with("t OK"), "the server was killed");
    println!("the group had at most {:?} of {SIZE} bytes", group.most());
    drop(server);
}

/// The same of three accounts at once. There is no room for the views of all their mailboxes. So
/// some are not opened, and the sessions go on.
#[test]
fn three_accounts_with_all_their_messages_kill_no_server_in_a_small_group() {
    const SIZE: usize = 256 * MIB;
    const USERS: [&str; 3] = [USER, "bob@example.org", "eve@example.org"];
    let Some(group) = group("full-accounts", SIZE) else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = start(&group, dir.path(), "");
    for user in &USERS[1..] {
        server.add_account(user, PASSWORD);
    }
    let mut clients = USERS.map(|user| login_as(&server, user));
    clients.iter_mut().for_each(fill);
    let (mut watchers, mut refused) = (Vec::new(), 0);
    for (user, mailbox) in USERS.into_iter().flat_map(|user| [(user, "INBOX"), (user, "Half")]) {
        let mut watcher = login_as(&server, user);
        let answer = ask(&mut watcher, &format!("SELECT {mailbox}"));
        match answer.starts_with("t NO [UNAVAILABLE]") {
            true => refused += 1,
            false => assert!(answer.starts_with("t OK"), "{answer}"),
        }
        assert!(ask(&mut watcher, "NOOP").starts_with("t OK"));
        watchers.push(watcher);
    }
    assert!(refused >= 2, "{refused} mailboxes were refused");
    // The watchers do not read, so their sessions keep the views from before.
    for first in (1..IN_INBOX).step_by(AT_ONCE) {
        clients.iter_mut().for_each(|client| change_from(client, first));
    }
    for client in clients.iter_mut().chain(&mut watchers) {
        // A session that holds too much is ended, and says so.
        let _ = client.imap("NOOP");
    }
    assert!(ask(&mut clients[0], "NOOP").starts_with("t OK"), "the server was killed");
    assert!(ask(&mut login(&server), "SELECT INBOX").starts_with("t OK"), "the server was killed");
    println!("the group had at most {:?} of {SIZE} bytes", group.most());
    drop(server);
}

/// The attacks of `scripts/hostile` that take the most memory, by their names. Where messages are
/// parsed, converted or verified, their memory is freed with the last reply. Such an attack holds
/// nothing at the gate, but has its peak beside the states of those before it. `dns-answers` is
/// one of them: an answer of a name server is freed once it is parsed, and no client can prevent
/// that. Those whose searches take the one place of their account for long come last: other
/// searches would wait.
const WORST: [&str; 21] = [
    "never-read",
    "announced",
    "unfinished",
    "append-behind",
    "append-unread",
    "deflate-bomb",
    "binary",
    "addresses",
    "parts",
    "headers",
    "appends",
    "rich",
    "verification",
    "dns-answers",
    "contexts",
    "annotations",
    "sieve-parts",
    "index",
    "searches",
    "multi-search",
    "search",
];

/// Attacks of one session that needs no memory for messages: a server with 16 connections and
/// messages of 256 KiB has room for them.
const OF_ONE_SESSION: [&str; 6] = ["noops", "deflate-bomb", "list", "wildcards", "search-tree", "sets"];

fn named(names: &'static [&'static str]) -> impl Iterator<Item = &'static Attack> {
    names.iter().map(|name| ATTACKS.iter().find(|attack| attack.name == *name).unwrap())
}

/// A server with these settings in a group of this size, and the stage around it.
fn stage(group: &Group, dir: &Path, settings: &str) -> Stage {
    let server = group.server(dir).settings(&dir.join("posthaste.toml"), settings);
    Stage::new(Stage::listen(server).start(), Scale::Quick).unwrap()
}

/// Other clients notice nothing after the attacks.
fn others_are_served(stage: &Stage) {
    assert!(stage.is_alive(), "the server was killed");
    stage.neighbour.wait_for(2).unwrap();
    stage.bystander_gets_mail().unwrap();
}

/// The defaults, except the connections of one account. First come attacks that have room in so
/// small a server. Then all come at once, twice, and most of them are refused.
#[test]
fn attacks_at_the_same_time_kill_no_server_in_a_small_group() {
    const SIZE: usize = 256 * MIB;
    let Some(group) = group("attacked", SIZE) else { return };
    let (dns, dir) = (Stage::name_server(), tempfile::tempdir().unwrap());
    let settings = Stage::settings(&dns) + "[limits]\naccount_connections = 0\n";
    let stage = &stage(&group, dir.path(), &settings);
    for attack in named(&OF_ONE_SESSION) {
        println!(
            "{}: {}",
            attack.name,
            (attack.run)(stage).unwrap_or_else(|why| panic!("{}: {why}", attack.name))
        );
    }
    assert_eq!(stage.gate.came(), OF_ONE_SESSION.len(), "each attack reaches its state once");
    for _ in 0..2 {
        thread::scope(|scope| {
            for attack in named(&WORST) {
                // Its answers may differ: others have the memory and the connections.
                scope.spawn(move || println!("{}: {:?}", attack.name, (attack.run)(stage)));
            }
        });
        assert!(stage.is_alive(), "the server was killed");
        println!("the group had at most {:?} of {SIZE} bytes", group.most());
    }
    others_are_served(stage);
}

/// The least part of the group, in percent, by which its peak exceeds what it had before the
/// attacks. It was 7.5 % at the small scale. If the states were not held, it would stay below.
const HELD_PERCENT_MIN: usize = 5;

/// One attack after the other reaches its state and stays in it, until all of them have. During
/// each, somebody else logs in and gets mail.
#[test]
fn attacks_whose_states_add_up_kill_no_server_in_a_group_of_its_planned_size() {
    // Room for 200 connections (the attacks have some 130), and for the largest messages.
    const SIZE: usize = 1024 * MIB;
    let Some(group) = group("added", SIZE) else { return };
    let (dns, dir) = (Stage::name_server(), tempfile::tempdir().unwrap());
    // The settings of the stage end in the section `login`.
    let limits = format!(
        "argon2_memory = \"7 MiB\"\n[limits]\nmemory = \"{} MiB\"\nconnections = 200\naccount_connections = 0\n",
        SIZE / MIB
    );
    let stage = &stage(&group, dir.path(), &(Stage::settings(&dns) + &limits));
    let before = group.now();
    let outcomes = thread::scope(|scope| {
        let closed = stage.gate.close();
        let mut running = Vec::new();
        for attack in named(&WORST) {
            let run = scope.spawn(move || (attack.run)(stage));
            while stage.gate.came() <= running.len() && !run.is_finished() {
                thread::sleep(Duration::from_millis(10));
            }
            running.push((attack.name, run));
            if stage.gate.came() < running.len() {
                // It ended before its state was reached: its outcome says why.
                break;
            }
        }
        drop(closed);
        running.into_iter().map(|(name, run)| (name, run.join().unwrap())).collect::<Vec<_>>()
    });
    let most = group.most();
    println!("the group had {before:?} before, and at most {most:?} of {SIZE} bytes");
    for (name, outcome) in &outcomes {
        println!("{name}: {outcome:?}");
    }
    let failed: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!((outcomes.len(), stage.gate.came()), (WORST.len(), WORST.len()));
    match (before, most) {
        (Some(before), Some(most)) => {
            let (held, least) = (most.saturating_sub(before), SIZE / 100 * HELD_PERCENT_MIN);
            assert!(held >= least, "all states took {held} bytes, under {least}: they were not held");
        }
        // Linux before 5.19 has no peak of a group of version 2.
        _ => eprintln!("skipped: the peak of a control group cannot be read here"),
    }
    others_are_served(stage);
}
