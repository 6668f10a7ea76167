//! Mail that is stored compressed: clients, kills, rebuilds, backups and `convert` see what was
//! sent.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use posthaste_testkit::{LineClient, Server, ServerBuilder, dot_stuffed, on_cluster, skips_cluster};

const PASSWORD: &str = "correct horse";
const ANA: &str = "ana@example.org";
/// Why a test is for the embedded engine alone.
const PACKS: &str = "it has no packs to rebuild an index from";

fn binary() -> &'static Path {
    env!("CARGO_BIN_EXE_posthaste").as_ref()
}

/// A server that stores new mail like this.
fn builder(dir: &Path, compress: &str) -> ServerBuilder {
    ServerBuilder::new(binary())
        .listen("imap=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .data(dir.join("data"))
        .settings(&dir.join(format!("{compress}.toml")), format!("[store]\ncompress = \"{compress}\"\n"))
}

fn run(dir: &Path, args: &[&str]) -> Output {
    posthaste_testkit::command(binary(), &dir.join("data"), args, "")
}

fn done(output: &Output) -> String {
    let said = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success(), "{said}");
    said
}

/// A message of about this many octets. No two are alike.
fn letter(n: usize, octets: usize) -> String {
    let mut state = n as u64 + 1;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x}{}", state >> 52, if state >> 40 & 7 == 0 { "\r\n" } else { " " })
    };
    let mut text = format!("From: <x@x.example>\r\nSubject: letter {n}\r\n\r\nneedle{n} ");
    while text.len() < octets {
        text.push_str(&word());
    }
    text + "\r\n.a line with a dot\r\n"
}

fn send(client: &mut LineClient, text: &str) -> std::io::Result<bool> {
    client.ask("MAIL FROM:<sender@x.example>")?;
    client.ask(&format!("RCPT TO:<{ANA}>"))?;
    client.ask("DATA")?;
    client.send(&dot_stuffed(text.as_bytes()))?;
    Ok(client.reply()?.starts_with("250"))
}

fn lmtp(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("lmtp")).unwrap();
    client.reply().unwrap();
    client.ask("LHLO test").unwrap();
    client
}

fn login(server: &Server) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {ANA} \"{PASSWORD}\"")).unwrap();
    client.imap("SELECT INBOX").unwrap();
    client
}

/// Bytes of all packs up to their ends: packs are preallocated with zeros.
fn pack_bytes(dir: &Path) -> usize {
    let packs = std::fs::read_dir(dir.join("data/packs")).unwrap();
    let used = |bytes: Vec<u8>| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    packs.map(|pack| used(std::fs::read(pack.unwrap().path()).unwrap())).sum()
}

/// Clients see each message as it was sent, whole and in pieces.
fn assert_seen(server: &Server, sent: &[String]) {
    let mail = server.mail(ANA, PASSWORD, "INBOX", sent.len());
    let mut client = login(server);
    for (n, (seen, sent)) in mail.iter().zip(sent).enumerate() {
        assert!(seen.ends_with(sent.as_bytes()), "message {n}");
        let items = client.imap(&format!("FETCH {} (RFC822.SIZE)", n + 1)).unwrap().concat();
        assert!(items.contains(&format!("RFC822.SIZE {}", seen.len())), "{items}");
        let mut pieces = Vec::new();
        for at in (0..seen.len()).step_by(4096) {
            let fetch = format!("FETCH {} (BODY.PEEK[]<{at}.4096>)", n + 1);
            let (mut literals, end) = client.literals(&fetch).unwrap();
            assert!(end.starts_with("t OK") && literals.len() == 1, "{end}");
            pieces.extend(literals.remove(0).1);
        }
        assert!(pieces == *seen, "message {n} in pieces");
    }
    let last = sent.len();
    let found = client.imap(&format!("SEARCH BODY needle{} LARGER 10", last - 1)).unwrap().concat();
    assert!(found.contains(&format!("* SEARCH {last}")), "{found}");
}

/// Delivery, reads in whole and in pieces, a kill, and the option switched off and on: on each
/// engine.
#[test]
fn each_engine_returns_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = builder(dir.path(), "zstd").start();
    server.add_account(ANA, PASSWORD);
    let sizes = [1_000, 4_000, 100_000, 131_000, 700_000];
    let mut sent: Vec<String> = sizes.iter().enumerate().map(|(n, octets)| letter(n, *octets)).collect();
    let mut client = lmtp(&server);
    for message in &sent {
        assert!(send(&mut client, message).unwrap());
    }
    assert_seen(&server, &sent);
    server.kill();
    let server = builder(dir.path(), "none").start();
    assert_seen(&server, &sent);
    assert_eq!((left(dir.path(), "none"), left(dir.path(), "zstd")), (5, 0));
    sent.push(letter(5, 4_000));
    assert!(send(&mut lmtp(&server), &sent[5]).unwrap());
    assert_seen(&server, &sent);
    assert_eq!((left(dir.path(), "none"), left(dir.path(), "zstd")), (5, 1));
    server.stop();
    assert_seen(&builder(dir.path(), "zstd").start(), &sent);
}

#[test]
fn compressed_mail_is_seen_as_it_was_sent() {
    if skips_cluster(PACKS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = builder(dir.path(), "zstd").start();
    server.add_account(ANA, PASSWORD);
    let sizes = [100, 700, 4_000, 100_000, 131_000, 700_000];
    let sent: Vec<String> = sizes.iter().enumerate().map(|(n, octets)| letter(n, *octets)).collect();
    let mut client = lmtp(&server);
    for message in &sent[..5] {
        assert!(send(&mut client, message).unwrap());
    }
    let mut ana = login(&server);
    ana.send(format!("t APPEND INBOX {{{}}}\r\n", sent[5].len()).as_bytes()).unwrap();
    assert!(ana.line().unwrap().starts_with('+'));
    ana.send(format!("{}\r\n", sent[5]).as_bytes()).unwrap();
    while !ana.line().unwrap().starts_with("t OK") {}
    ana.imap("COPY 1:* Archive").unwrap();
    let octets: usize = sent.iter().map(String::len).sum();
    let mut server = Some(server);
    for (round, compress) in ["none", "zstd", "none"].into_iter().enumerate() {
        let running = server.take().unwrap();
        assert_seen(&running, &sent);
        assert!(pack_bytes(dir.path()) < octets * 6 / 10, "{} of {octets}", pack_bytes(dir.path()));
        running.kill();
        if round == 1 {
            done(&run(dir.path(), &["check", "--rebuild"]));
        }
        done(&run(dir.path(), &["check"]));
        server = Some(builder(dir.path(), compress).start());
    }
    // A backup, and a store that is made of it.
    let running = server.unwrap();
    let (backup, other) = (dir.path().join("backup"), tempfile::tempdir().unwrap());
    done(&running.command(&["backup", backup.to_str().unwrap()], ""));
    running.stop();
    done(&run(other.path(), &["restore", backup.to_str().unwrap()]));
    done(&run(other.path(), &["check"]));
    assert_seen(&builder(other.path(), "none").start(), &sent);
}

/// All that was acknowledged is there after each `kill -9`, byte for byte.
#[test]
fn kills_lose_nothing_that_was_acknowledged() {
    if skips_cluster(PACKS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..6 {
        let server = builder(dir.path(), "zstd").start();
        if round == 0 {
            server.add_account(ANA, PASSWORD);
        }
        let pid = server.pid();
        let mut client = lmtp(&server);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(150 + 40 * round));
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        });
        for n in round as usize * 10_000.. {
            let message = letter(n, 2_000 + n % 7 * 30_000);
            match send(&mut client, &message) {
                Ok(true) => acknowledged.push(message),
                Ok(false) | Err(_) => break,
            }
        }
        killer.join().unwrap();
        server.kill();
        if round % 2 == 1 {
            done(&run(dir.path(), &["check", "--rebuild"]));
        }
        done(&run(dir.path(), &["check"]));
    }
    let server = builder(dir.path(), "zstd").start();
    let mut client = login(&server);
    let mail = client.bodies().unwrap();
    // The last message before a kill may be there, too.
    assert!(mail.len() <= acknowledged.len() + 6, "{} {}", mail.len(), acknowledged.len());
    let mut seen = mail.iter();
    for message in &acknowledged {
        assert!(seen.any(|seen| seen.ends_with(message.as_bytes())), "a message was lost");
    }
}

/// Messages that a conversion to `keep` would change. A cluster refuses the long ones, and counts
/// them.
fn left(dir: &Path, compress: &str) -> usize {
    let config = dir.join(format!("{compress}.toml"));
    let config = config.to_str().unwrap();
    let output = run(dir, &["convert", ANA, "--to", "keep", "--dry-run", "--config", config]);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = why.split_once("form of stored mail: ").filter(|_| on_cluster());
    let refused: usize = refused.map_or(0, |(_, count)| count.split(' ').next().unwrap().parse().unwrap());
    let said = match refused {
        0 => done(&output),
        _ => String::from_utf8(output.stdout).unwrap(),
    };
    let count = said.lines().find_map(|line| line.strip_prefix("converted ")).unwrap();
    refused + count.trim().parse::<usize>().unwrap()
}

/// `convert` compresses what is stored, and takes the compression away. `kill -9` in the middle of
/// it loses nothing.
#[test]
fn stored_mail_is_compressed_later() {
    const MESSAGES: usize = 40;
    if skips_cluster("`convert --to` changes the form of short messages alone there") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    drop(builder(dir.path(), "zstd"));
    let server = builder(dir.path(), "none").start();
    server.add_account(ANA, PASSWORD);
    let sent: Vec<String> = (0..MESSAGES).map(|n| letter(n, 1_000 + n * 2_000)).collect();
    let mut client = lmtp(&server);
    for message in &sent {
        assert!(send(&mut client, message).unwrap());
    }
    assert_seen(&server, &sent);
    assert_eq!((left(dir.path(), "none"), left(dir.path(), "zstd")), (0, MESSAGES));
    for (round, compress) in ["zstd", "none", "zstd"].into_iter().enumerate() {
        let mut convert = Command::new(binary())
            .args(["convert", ANA, "--to", "keep", "--rate", "1", "--config"])
            .arg(dir.path().join(format!("{compress}.toml")))
            .arg("--data")
            .arg(dir.path().join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It takes 40 s for all of them: far longer than it takes to see the first one.
        while left(dir.path(), compress) == MESSAGES {
            assert!(convert.try_wait().unwrap().is_none(), "it ended without a change");
        }
        convert.kill().unwrap();
        convert.wait().unwrap();
        assert!(left(dir.path(), compress) > 0, "it ended before it was killed");
        assert_seen(&server, &sent);
        done(&run(dir.path(), &["check"]));
        if round < 2 {
            let config = dir.path().join(format!("{compress}.toml"));
            let args = ["convert", ANA, "--to", "keep", "--config", config.to_str().unwrap()];
            done(&run(dir.path(), &args));
            assert_eq!(left(dir.path(), compress), 0);
            assert_seen(&server, &sent);
        }
    }
    server.kill();
    done(&run(dir.path(), &["check", "--rebuild"]));
    done(&run(dir.path(), &["check"]));
    assert_seen(&builder(dir.path(), "none").start(), &sent);
}
