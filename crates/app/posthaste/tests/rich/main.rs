//! Rich mail (`winmail.dat`) on its way in, for accounts of each format, and the messages that
//! clients see.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calendars;
mod clients;
mod convert;
mod new_uids;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use posthaste_testkit::{LineClient, Server, ServerBuilder, engine_of, on_cluster};
use posthaste_tnef::samples;

const PASSWORD: &str = "correct horse";
const ANA: &str = "ana@example.org";
const BEN: &str = "ben@example.org";
const CYD: &str = "cyd@example.org";

fn builder() -> ServerBuilder {
    ServerBuilder::new(env!("CARGO_BIN_EXE_posthaste"))
        .listen("imap=127.0.0.1:0")
        .listen("pop3=127.0.0.1:0")
        .listen("lmtp=127.0.0.1:0")
        .listen("smtp=127.0.0.1:0")
}

/// A server on which Ana keeps mail as sent, and Ben wants MIME.
fn server() -> Server {
    let server = builder().start();
    server.add_account(ANA, PASSWORD);
    let added = server.command(&["account", "add", BEN, "--format", "mime", "--password-stdin"], PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    server
}

fn send(server: &Server, protocol: &str, to: &[&str], text: &[u8]) {
    for reply in server.hand_in(protocol, "sender@x.example", to, text) {
        assert!(reply.starts_with("250"), "{reply}");
    }
}

fn login(server: &Server, user: &str) -> LineClient {
    let mut client = LineClient::connect(server.address("imap")).unwrap();
    client.line().unwrap();
    client.imap(&format!("LOGIN {user} \"{PASSWORD}\"")).unwrap();
    client.imap("EXAMINE INBOX").unwrap();
    client
}

/// One literal that a FETCH answers with.
fn literal(client: &mut LineClient, message: usize, item: &str) -> Vec<u8> {
    let (mut literals, end) = client.literals(&format!("FETCH {message} ({item})")).unwrap();
    assert!(end.starts_with("t OK") && literals.len() == 1, "{end}");
    literals.remove(0).1
}

fn body(client: &mut LineClient, message: usize) -> Vec<u8> {
    literal(client, message, "BODY.PEEK[]")
}

/// Whether a message is as it was sent, after the fields of its transport.
fn is_as_sent(body: &[u8], sent: &[u8]) -> bool {
    body.ends_with(sent)
}

/// All that IMAP says of the first message agrees: it is the note of the samples. Answers with its
/// bytes.
fn assert_note(server: &Server, user: &str) -> Vec<u8> {
    let mut client = login(server, user);
    let whole = body(&mut client, 1);
    assert!(!whole.windows(7).any(|piece| piece.eq_ignore_ascii_case(b"ms-tnef")));
    let items = client.imap("FETCH 1 (RFC822.SIZE BODYSTRUCTURE)").unwrap().concat();
    assert!(items.contains(&format!("RFC822.SIZE {} ", whole.len())), "{items} {}", whole.len());
    for word in ["\"alternative\"", "\"related\"", "\"png\"", "\"rfc822\"", "<logo@x.example>"] {
        assert!(items.to_ascii_lowercase().contains(word), "{word}: {items}");
    }
    assert_eq!(literal(&mut client, 1, "BINARY.PEEK[1.2.1]"), samples::HTML.as_bytes());
    assert_eq!(literal(&mut client, 1, "BINARY.PEEK[1.2.2]"), samples::IMAGE);
    assert_eq!(literal(&mut client, 1, "BINARY.PEEK[2]"), samples::FILE);
    // In pieces, as clients read large messages, and from the middle.
    let mut pieces = Vec::new();
    for at in (0..whole.len()).step_by(97) {
        pieces.extend(literal(&mut client, 1, &format!("BODY.PEEK[]<{at}.97>")));
    }
    assert!(pieces == whole);
    let text = literal(&mut client, 1, "BODY.PEEK[TEXT]");
    assert!(whole.ends_with(&text) && whole[..whole.len() - text.len()].ends_with(b"\r\n\r\n"));
    let len = whole.len();
    let search = format!("SEARCH SUBJECT Outer BODY bold LARGER {} SMALLER {}", len - 1, len + 1);
    let found = client.imap(&search).unwrap().concat();
    assert!(found.contains("* SEARCH 1"), "{found}");
    whole
}

#[test]
fn one_message_for_two_formats() {
    let server = server();
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[ANA, BEN], &sent);
    // One keeps it as sent, the other as MIME, and both see the same bytes.
    assert!(assert_note(&server, ANA) == assert_note(&server, BEN));
    // The same for mail by SMTP.
    send(&server, "smtp", &[BEN], &sent);
    assert_eq!(literal(&mut login(&server, BEN), 2, "BINARY.PEEK[2]"), samples::FILE);
}

/// By POP3: the size that STAT has, and the message of RETR.
fn by_pop3(server: &Server, user: &str) -> (usize, Vec<u8>) {
    let mut client = LineClient::connect(server.address("pop3")).unwrap();
    client.line().unwrap();
    let mut ask = |command: &str| {
        client.send(format!("{command}\r\n").as_bytes()).unwrap();
        client.line().unwrap()
    };
    ask(&format!("USER {user}"));
    ask(&format!("PASS {PASSWORD}"));
    let size = ask("STAT").rsplit(' ').next().unwrap().trim().parse().unwrap();
    ask("RETR 1");
    let mut message = Vec::new();
    loop {
        let line = client.line().unwrap();
        let line = line.trim_end_matches(['\r', '\n']);
        if line == "." {
            return (size, message);
        }
        message.extend(line.strip_prefix('.').unwrap_or(line).as_bytes());
        message.extend(b"\r\n");
    }
}

/// IMAP, POP3 and export say the same of a message that is kept as sent and of a copy of it. This
/// holds after `kill -9`, after a rebuild of the index, and in another process.
#[test]
fn every_protocol_and_process_sees_one_message() {
    sees_one_message("delivery");
}

/// The same, where the items of the message are made at the first request, and at each.
#[test]
fn every_protocol_and_process_sees_a_message_without_items() {
    sees_one_message("first-fetch");
    sees_one_message("never");
}

/// A server whose items of rich mail are made then.
fn precomputing(dir: &Path, precompute: &str) -> ServerBuilder {
    let settings = format!("[store]\nprecompute = \"{precompute}\"\n");
    builder().data(dir.join("data")).settings(&dir.join("posthaste.toml"), settings)
}

fn sees_one_message(precompute: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = precomputing(dir.path(), precompute).start();
    server.add_account(ANA, PASSWORD);
    send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    let mut first = None;
    let mut server = Some(server);
    for round in 0..3 {
        let running = server.take().unwrap();
        let whole = assert_note(&running, ANA);
        assert!(*first.get_or_insert_with(|| whole.clone()) == whole, "round {round}");
        assert_eq!(by_pop3(&running, ANA), (whole.len(), whole.clone()));
        let mut ana = login(&running, ANA);
        let copied = ana.imap("COPY 1 Archive").unwrap().concat();
        assert!(copied.contains("OK"), "{copied}");
        ana.imap("EXAMINE Archive").unwrap();
        assert!(body(&mut ana, round + 1) == whole);
        let out = dir.path().join(round.to_string());
        let out = out.to_str().unwrap();
        let form = ["--account", ANA, "--format", "maildir", "--mailbox", "INBOX"];
        let export = running.command(&[&["export", out], &form[..]].concat(), "");
        assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
        let exported = std::fs::read_dir(format!("{out}/cur")).unwrap().next();
        let exported = std::fs::read(exported.unwrap().unwrap().path()).unwrap();
        assert!(exported == String::from_utf8(whole).unwrap().replace("\r\n", "\n").into_bytes());
        running.kill();
        if round == 1 {
            rebuild(&data);
        }
        let checked = command(&data, &["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        server = Some(precomputing(dir.path(), precompute).start());
    }
}

/// `convert --items` makes each item once while the server runs. `kill -9` in the middle of it,
/// and of the server, loses nothing: clients see the same, the store is whole, and the next run
/// continues.
#[test]
fn missing_items_are_made_beside_a_server_and_after_kills() {
    const MESSAGES: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = precomputing(dir.path(), "never").start();
    server.add_account(ANA, PASSWORD);
    for n in 0..MESSAGES {
        let note = String::from_utf8(samples::mail(&samples::note())).unwrap();
        send(&server, "lmtp", &[ANA], format!("X-Number: {n}\r\n{note}").as_bytes());
    }
    let items = |args: &[&str]| {
        let run = command(&data, &[&["convert", ANA, "--items"], args].concat());
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(run.status.success(), "{said} {}", String::from_utf8_lossy(&run.stderr));
        let made = said.lines().find_map(|line| line.strip_prefix("items made  ")).unwrap().to_owned();
        made.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    assert_eq!(items(&["--dry-run"]), MESSAGES);
    assert_eq!(items(&["--dry-run", "--mailbox", "Archive"]), 0);
    let before = server.mail(ANA, PASSWORD, "INBOX", MESSAGES);
    let modseq = login(&server, ANA).imap("STATUS INBOX (HIGHESTMODSEQ SIZE UIDNEXT)").unwrap().concat();
    let mut run = begin(&data, &["convert", ANA, "--items", "--rate", "20"]);
    while_it_runs(&mut run, || items(&["--dry-run"]) == MESSAGES);
    run.kill().unwrap();
    run.wait().unwrap();
    server.kill();
    let checked = command(&data, &["check"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let server = precomputing(dir.path(), "never").start();
    let left = items(&["--dry-run"]);
    assert!(left < MESSAGES, "what was made is kept");
    assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before);
    assert_eq!((items(&[]), items(&[])), (left, 0));
    assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before);
    let status = login(&server, ANA).imap("STATUS INBOX (HIGHESTMODSEQ SIZE UIDNEXT)").unwrap().concat();
    assert_eq!(status, modseq);
    server.kill();
    if !on_cluster() {
        // They are not in the log: a rebuild makes the index without them.
        rebuild(&data);
        assert_eq!(items(&["--to", "keep"]), MESSAGES);
    }
    let server = precomputing(dir.path(), "never").start();
    assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before);
    let copy = dir.path().join("backup");
    let backup = server.command(&["backup", copy.to_str().unwrap()], "");
    assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
}

/// An import in a hurry leaves the items of rich mail to `convert --items`, whatever the server
/// does at delivery. Another one makes them, where the server would not.
#[test]
fn an_import_says_when_items_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = builder().data(&data).start();
    server.add_account(ANA, PASSWORD);
    let (file, settings) = (dir.path().join("rich.eml"), dir.path().join("never.toml"));
    std::fs::write(&file, samples::mail(&samples::note())).unwrap();
    std::fs::write(&settings, "[store]\nprecompute = \"never\"\n").unwrap();
    let run = |args: &[&str]| {
        let output = command(&data, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (file, settings) = (file.to_str().unwrap(), settings.to_str().unwrap());
    for (mailbox, options, missing) in [
        ("INBOX", &["--precompute", "never"][..], "1,"),
        ("Hurry", &["--precompute", "first-fetch"], "2,"),
        ("Sent", &[], "2,"),
        ("Drafts", &["--precompute", "delivery", "--config", settings], "2,"),
        ("Archive", &["--config", settings], "3,"),
    ] {
        run(&[&["import", file, "--account", ANA, "--mailbox", mailbox], options].concat());
        let said = run(&["convert", ANA, "--items", "--dry-run"]);
        assert!(said.contains(&format!("items made  {missing}")), "{mailbox}: {said}");
    }
    assert!(run(&["convert", ANA, "--items"]).contains("items made  3,"));
    assert!(run(&["convert", ANA, "--items", "--dry-run"]).contains("items made  0,"));
    assert_note(&server, ANA);
}

fn command(data: &Path, args: &[&str]) -> std::process::Output {
    posthaste_testkit::command(env!("CARGO_BIN_EXE_posthaste").as_ref(), data, args, "")
}

/// Makes the index from the packs. A cluster has neither.
fn rebuild(data: &Path) {
    if !on_cluster() {
        let rebuilt = command(data, &["check", "--rebuild"]);
        assert!(rebuilt.status.success(), "{}", String::from_utf8_lossy(&rebuilt.stderr));
    }
}

/// Starts a command that runs at the same time as the test.
fn begin(data: &Path, args: &[&str]) -> Child {
    let binary = env!("CARGO_BIN_EXE_posthaste");
    let mut command = Command::new(binary);
    command.args(args).arg("--data").arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(engine) = engine_of(binary.as_ref(), data) {
        command.args(["--engine", &engine]);
    }
    command.spawn().unwrap()
}

/// Waits while this is so. A command that ends must have changed it.
fn while_it_runs(run: &mut Child, is_so: impl Fn() -> bool) {
    while is_so() {
        let ended = run.try_wait().unwrap();
        assert!(ended.is_none() || !is_so(), "it ended and changed nothing: {ended:?}");
    }
}

#[test]
fn mail_that_is_stored_as_sent_in_every_format() {
    let server = server();
    let added = server.command(&["account", "add", CYD, "--format", "rich", "--password-stdin"], PASSWORD);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let rich = samples::mail(&samples::note());
    let mut damaged = rich.clone();
    let at = damaged.windows(4).position(|piece| piece == b"eJ8+").unwrap();
    damaged[at] = b'X';
    let signed = String::from_utf8(rich.clone()).unwrap();
    let signed =
        signed.replace("multipart/mixed", "multipart/signed; protocol=\"application/pgp-signature\"");
    let plain = b"Subject: x\r\n\r\nsee winmail.dat, application/ms-tnef\r\n".to_vec();
    let all = [damaged, signed.into_bytes(), plain];
    let users = [ANA, BEN, CYD];
    for sent in &all {
        users.iter().for_each(|user| send(&server, "lmtp", &[*user], sent));
    }
    for user in users {
        let mut client = login(&server, user);
        for (place, sent) in all.iter().enumerate() {
            assert!(is_as_sent(&body(&mut client, place + 1), sent), "{user} {place}");
        }
    }
    let said = server.logged("rich mail is stored as sent");
    assert_eq!(said.len(), users.len(), "{said:?}");
    for (line, user) in said.iter().zip(users) {
        assert!(line.contains("damaged") && line.contains("signature of TNEF") && line.contains(user));
    }
    // In the format `rich`, the plain message alone has another form.
    if !on_cluster() {
        let would = server.command(&["convert", CYD, "--to", "keep", "--dry-run"], "");
        let said = String::from_utf8(would.stdout).unwrap();
        assert!(said.contains("converted   1\n"), "{said}");
    }
    // APPEND stores the message as the client sent it: RFC 9051 §6.3.12.
    let mut client = login(&server, BEN);
    client.send(format!("a APPEND INBOX {{{}+}}\r\n", rich.len()).as_bytes()).unwrap();
    client.send(&rich).unwrap();
    client.send(b"\r\n").unwrap();
    while !client.line().unwrap().starts_with("a OK") {}
    assert_eq!(body(&mut client, 4), rich);
}

#[test]
fn clients_see_the_same_whatever_the_format() {
    let server = server();
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[ANA], &sent);
    let first = body(&mut login(&server, ANA), 1);
    for format in ["mime", "rich", "mime", "keep"] {
        let set = server.command(&["account", "set", ANA, "--format", format], "");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        send(&server, "lmtp", &[ANA], &sent);
        let mut ana = login(&server, ANA);
        let status = ana.imap("STATUS INBOX (MESSAGES)").unwrap().concat();
        let count = status.split("MESSAGES ").nth(1).unwrap().split(')').next().unwrap().parse().unwrap();
        assert_eq!(literal(&mut ana, count, "BINARY.PEEK[2]"), samples::FILE, "{format}");
        assert!(body(&mut ana, 1) == first, "earlier mail stays");
    }
}

/// An original is kept beside MIME alone, so `account show` names it in no other format.
#[test]
fn the_original_is_shown_with_the_format_that_keeps_it() {
    let server = server();
    for (format, expected) in
        [("rich", "format   rich\n"), ("mime", "format   mime, with the rich original\n")]
    {
        let set = server.command(&["account", "set", ANA, "--format", format, "--keep-original", "true"], "");
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        let shown = server.command(&["account", "show", ANA], "");
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(expected), "{shown}");
    }
}

/// A message that arrives is converted once: at delivery, for its items. The first FETCH, its
/// pieces, and a search use that.
#[test]
fn a_message_that_is_read_soon_is_converted_once() {
    let server = builder().start();
    server.add_account(ANA, PASSWORD);
    send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    assert_note(&server, ANA);
    let report = server.command(&["report", "cost", "--json", "--top", "1000"], "");
    assert!(report.status.success(), "{report:?}");
    let text = String::from_utf8(report.stdout).unwrap();
    let figures = text.split("\"conversions\":").skip(1);
    let number = |rest: &str| rest.split([',', '}']).next().unwrap().trim().parse::<u64>().unwrap();
    assert_eq!(figures.map(number).sum::<u64>(), 1, "{text}");
}

/// A script sees the message as the account keeps it. It sends the message on as it came.
#[test]
fn scripts_see_mime_and_redirect_what_came() {
    let server = server();
    let script = "require [\"copy\", \"fileinto\", \"mime\"];\n\
        if header :mime :anychild :contains \"content-type\" \"text/html\" { fileinto \"Drafts\"; }\n\
        redirect :copy \"ana@example.org\";\n";
    let put = server.command(&["sieve", "put", "--activate", BEN, "main", "-"], script);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let sent = samples::mail(&samples::note());
    send(&server, "lmtp", &[BEN], &sent);
    let mut ben = login(&server, BEN);
    ben.imap("EXAMINE Drafts").unwrap();
    assert_eq!(literal(&mut ben, 1, "BINARY.PEEK[2]"), samples::FILE);
    assert_eq!(literal(&mut login(&server, ANA), 1, "BINARY.PEEK[2]"), samples::FILE);
}

/// A script of an account that keeps mail as sent sees the same message as clients.
#[test]
fn scripts_see_what_clients_see() {
    let server = server();
    let script = "require [\"fileinto\", \"mime\"];\n\
        if header :mime :anychild :contains \"content-type\" \"text/html\" { fileinto \"Drafts\"; }\n";
    let put = server.command(&["sieve", "put", "--activate", ANA, "main", "-"], script);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    let mut ana = login(&server, ANA);
    ana.imap("EXAMINE Drafts").unwrap();
    assert_eq!(literal(&mut ana, 1, "BINARY.PEEK[2]"), samples::FILE);
}
