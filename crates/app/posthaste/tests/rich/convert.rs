//! `posthaste convert` while the server runs: the forms of stored mail, kills, and clients
//! meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use posthaste_testkit::{LineClient, Server, on_cluster, skips_cluster};
use posthaste_tnef::{Outcome, convert, samples};
use tempfile::TempDir;

use crate::{
    ANA, BEN, PASSWORD, begin, body, builder, command, is_as_sent, login, rebuild, send, while_it_runs,
};

/// Kills of `convert --items`, and of a conversion that loses nothing, are tried on each engine.
const ONLY_DRY: &str = "`convert --to` changes the form of short messages alone there";

/// Says that a test has nothing to try where the engine changes no form: with bodies in objects.
pub(super) fn skips_objects() -> bool {
    let has_objects = std::env::var("POSTHASTE_BODIES").is_ok_and(|bodies| !bodies.is_empty());
    on_cluster() && has_objects && skips_cluster("`convert --to` changes no form of objects")
}

/// A server with these accounts, and its data, which outlives it.
fn with_accounts(accounts: &[&str]) -> (TempDir, PathBuf, Server) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = builder().data(&data).start();
    accounts.iter().for_each(|account| server.add_account(account, PASSWORD));
    (dir, data, server)
}

/// Each format stores another form; clients see the same, there and back. Commands run while the
/// server does.
#[test]
fn stored_mail_takes_the_form_of_another_format() {
    if skips_objects() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let server = builder().data(dir.path().join("data")).start();
    server.add_account(ANA, PASSWORD);
    let keeping = server.command(&["account", "set", ANA, "--format", "mime", "--keep-original", "true"], "");
    assert!(keeping.status.success(), "{}", String::from_utf8_lossy(&keeping.stderr));
    let plain = format!("Subject: plain\r\n\r\n{}", "a line of text\r\n".repeat(100));
    for message in [samples::mail(&samples::note()), plain.into_bytes()] {
        send(&server, "lmtp", &[ANA], &message);
    }
    let (mut open, copy) = (login(&server, ANA), dir.path().join("backup"));
    let seen = |client: &mut LineClient| (body(client, 1), body(client, 2));
    let before = seen(&mut open);
    for (format, converted) in [("rich", "2"), ("rich", "0"), ("mime", "2"), ("keep", "1"), ("mime", "1")] {
        let did = server.command(&["convert", ANA, "--to", format], "");
        let said = String::from_utf8_lossy(&did.stdout).into_owned() + &String::from_utf8_lossy(&did.stderr);
        assert!(
            did.status.success() && said.contains(&format!("converted   {converted}\n")),
            "{format}: {said}"
        );
        // A session that was open, and one of now.
        assert!(seen(&mut open) == before, "{format}");
        assert!(seen(&mut login(&server, ANA)) == before, "{format}");
        let uids = open.imap("UID SEARCH ALL").unwrap().concat();
        assert!(uids.contains("* SEARCH 1 2"), "{uids}");
        let checked = server.command(&["check"], "");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        // A backup has the form of its first run, and that shows the same.
        let backup = server.command(&["backup", copy.to_str().unwrap()], "");
        assert!(backup.status.success(), "{}", String::from_utf8_lossy(&backup.stderr));
    }
    let wrong = server.command(&["convert", ANA, "--to", "mime", "--mailbox", "None"], "");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("has no mailbox None"));
}

/// How many messages are not in the form of a format.
fn left(data: &Path, to: &str) -> usize {
    let said = command(data, &["convert", ANA, "--to", to, "--dry-run"]).stdout;
    number_of(&String::from_utf8(said).unwrap(), "converted ")
}

/// The number in the line of a report that begins so.
pub(super) fn number_of(report: &str, line: &str) -> usize {
    let count = report.lines().find_map(|found| found.strip_prefix(line));
    count.unwrap_or_else(|| panic!("{report}")).trim().parse().unwrap()
}

/// `kill -9` in the middle of a conversion loses nothing. However far it came, clients see the same
/// messages as before. The store is whole, and the next run continues.
#[test]
fn a_conversion_that_is_killed_loses_nothing() {
    const MESSAGES: usize = 60;
    if skips_objects() {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA]);
    for n in 0..MESSAGES {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(n * 50));
        send(&server, "lmtp", &[ANA], message.as_bytes());
    }
    let before = server.mail(ANA, PASSWORD, "INBOX", MESSAGES);
    for round in 0..6 {
        let to = if round % 2 == 0 { "rich" } else { "mime" };
        let begun_with = left(&data, to);
        let mut run = begin(&data, &["convert", ANA, "--to", to, "--rate", "50"]);
        let _said = after_the_estimate(&mut run);
        // Another moment each time. At the last ones a message was converted.
        std::thread::sleep(std::time::Duration::from_millis(30 + 130 * round));
        if round > 3 && begun_with > 0 {
            while_it_runs(&mut run, || left(&data, to) == begun_with);
        }
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before, "round {round}");
        let checked = command(&data, &["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    // The server is killed, too, and the index is made again from the packs.
    server.kill();
    rebuild(&data);
    let whole = command(&data, &["convert", ANA, "--to", "rich"]);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let server = builder().data(&data).start();
    assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before);
    let again = command(&data, &["convert", ANA, "--to", "rich"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("converted   0\n"));
}

/// SIGINT and SIGTERM end a conversion between two messages. It reports what it did, also in
/// `audit.log`. An account that is named twice is converted once.
#[test]
fn an_interrupted_conversion_says_what_it_did() {
    const MESSAGES: usize = 60;
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA]);
    for n in 0..MESSAGES {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(50));
        send(&server, "lmtp", &[ANA], message.as_bytes());
    }
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let begun_with = left(&data, "rich");
        let mut run = begin_to_print(&data, &["convert", ANA, ANA, "--to", "rich", "--rate", "1"]);
        let (estimate, _said) = after_the_estimate(&mut run);
        assert!(estimate.starts_with("60 messages; all of them examined, about"), "{estimate}");
        while_it_runs(&mut run, || left(&data, "rich") == begun_with);
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        let ended = run.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(status));
        let report = String::from_utf8(ended.stdout).unwrap();
        let done = number_of(&report, "converted ");
        assert_eq!(left(&data, "rich"), begun_with - done, "{report}");
        let audit = std::fs::read_to_string(data.join("audit.log")).unwrap();
        let line = audit.lines().last().unwrap();
        let act = format!("act=\"convert {ANA} {ANA} --to rich --rate 1\"");
        let examined = number_of(&report, "examined ");
        let outcome = format!("outcome=interrupted before=\"examined {examined}, converted {done}, ");
        assert!(line.contains(&act) && line.contains(&outcome), "{line}");
    }
}

/// Messages that need `--lossy` are named, and give a status of their own.
#[test]
fn originals_that_would_be_lost_are_named() {
    const MESSAGES: usize = 22;
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA]);
    for _ in 0..MESSAGES {
        send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    }
    let mime = ["convert", ANA, "--to", "mime"];
    for args in [&mime[..], &[&mime[..], &["--dry-run"]].concat()] {
        let ended = command(&data, args);
        let report = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{report}");
        let named = |uid: usize| report.contains(&format!("            {ANA}  INBOX  UID {uid}\n"));
        assert!((1..=20).all(named) && !named(21), "{report}");
        assert!(report.contains("            and 2 more\n"), "{report}");
    }
    assert_eq!(command(&data, &[&mime[..], &["--lossy"]].concat()).status.code(), Some(0));
}

/// RFC 5293: a message that a script edits keeps its rich original, and so does a copy that the
/// script files before the edit. A field that it deletes does not come back out of the original.
#[test]
fn an_edited_message_has_its_original() {
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA]);
    let keeping = server.command(&["account", "set", ANA, "--format", "mime", "--keep-original", "true"], "");
    assert!(keeping.status.success(), "{}", String::from_utf8_lossy(&keeping.stderr));
    let script = "require [\"copy\", \"editheader\", \"fileinto\", \"mailbox\"];\n\
        fileinto :copy :create \"Originals\";\n\
        addheader \"X-Seen-By\" \"sieve\";\n\
        fileinto :copy :create \"Seen\";\n\
        deleteheader \"Subject\";\n";
    let put = server.command(&["sieve", "put", "--activate", ANA, "main", "-"], script);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    let shown = |mailbox: &str| {
        let text = server.mail(ANA, PASSWORD, mailbox, 1).remove(0);
        String::from_utf8_lossy(&text).into_owned()
    };
    let all = || ["INBOX", "Seen", "Originals"].map(shown);
    let before = all();
    for text in &before[..2] {
        assert!(text.contains("X-Seen-By: sieve\r\n") && !text.contains("ms-tnef"), "{text}");
    }
    let converted = |mailbox: &str| {
        let ended = command(&data, &["convert", ANA, "--mailbox", mailbox, "--to", "keep"]);
        number_of(&String::from_utf8(ended.stdout).unwrap(), "converted ")
    };
    let has_subject = |text: &String| text.split("\r\n\r\n").next().unwrap().contains("\r\nSubject:");
    assert_eq!(before.each_ref().map(has_subject), [false, true, true], "{}", before[0]);
    assert_eq!(["INBOX", "Seen", "Originals"].map(converted), [1, 1, 1]);
    assert!(all() == before);
}

/// RFC 6785: the message that takes the place of another one has the original, too.
#[test]
fn a_message_that_the_script_of_a_mailbox_edits_has_its_original() {
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA]);
    let keeping = server.command(&["account", "set", ANA, "--format", "mime", "--keep-original", "true"], "");
    assert!(keeping.status.success(), "{}", String::from_utf8_lossy(&keeping.stderr));
    let script = "require [\"imapsieve\", \"editheader\"];\naddheader \"X-Seen-By\" \"sieve\";\n";
    let put = server.command(&["sieve", "put", ANA, "mark", "-"], script);
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    let mut ana = login(&server, ANA);
    let script_of = "SETMETADATA Marked (/shared/imapsieve/script \"mark\")";
    for command in ["CREATE Marked", script_of, "COPY 1 Marked"] {
        let said = ana.imap(command).unwrap().concat();
        assert!(said.contains("t OK"), "{command}: {said}");
    }
    let before = server.mail(ANA, PASSWORD, "Marked", 2);
    let edited = String::from_utf8_lossy(&before[1]);
    assert!(
        edited.starts_with("X-Seen-By: sieve\r\n") || edited.contains("\r\nX-Seen-By: sieve\r\n"),
        "{edited}"
    );
    let ended = command(&data, &["convert", ANA, "--mailbox", "Marked", "--to", "keep"]);
    let report = String::from_utf8(ended.stdout).unwrap();
    assert_eq!((number_of(&report, "converted "), number_of(&report, "new UIDs ")), (2, 0), "{report}");
    assert!(server.mail(ANA, PASSWORD, "Marked", 2) == before);
}

/// RFC 9051 §5.1: INBOX is there, however it is written, also before the first message.
#[test]
fn the_inbox_of_an_account_without_mail_has_nothing_to_convert() {
    let (_dir, data, _server) = with_accounts(&[BEN]);
    for name in ["inbox", "INBOX", "InBox"] {
        for work in [&["--items"][..], &["--to", "rich"], &["--to", "mime", "--dry-run"]] {
            let ended = command(&data, &[&["convert", BEN, "--mailbox", name][..], work].concat());
            let said = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert_eq!((ended.status.code(), number_of(&said, "examined ")), (Some(0), 0), "{said}");
        }
    }
    let ended = command(&data, &["convert", BEN, "--mailbox", "Other", "--to", "rich"]);
    let why = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(2) && why.contains("has no mailbox Other"), "{why}");
}

/// Copies of many neighbours have the items of the messages that they were made of.
#[test]
fn the_items_of_copies_are_made_once() {
    const MESSAGES: usize = 40;
    if skips_cluster("copies have items of their own there") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("posthaste.toml"));
    let server = builder().data(&data).settings(&file, "[store]\nprecompute = \"never\"\n").start();
    server.add_account(ANA, PASSWORD);
    for _ in 0..MESSAGES {
        send(&server, "lmtp", &[ANA], &samples::mail(&samples::note()));
    }
    assert!(login(&server, ANA).imap("COPY 1:* Archive").unwrap().concat().contains("t OK"));
    for args in [&["convert", ANA, "--items", "--dry-run"][..], &["convert", ANA, "--items"]] {
        let ended = command(&data, args);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("items of about 40 to make"), "{said}");
        let report = String::from_utf8(ended.stdout).unwrap();
        assert!(report.contains("examined    80\n") && report.contains("items made  40, of"), "{report}");
    }
}

/// A folder that is deleted, and a message that is expunged, while they are converted.
#[test]
fn a_mailbox_deleted_during_a_conversion_is_skipped() {
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA, BEN]);
    for n in 0..4 {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(50));
        send(&server, "lmtp", &[ANA, BEN], message.as_bytes());
    }
    let mut ana = login(&server, ANA);
    for folder in ["A", "B"] {
        ana.imap(&format!("CREATE {folder}")).unwrap();
        assert!(ana.imap(&format!("COPY 1:* {folder}")).unwrap().concat().contains("t OK"));
    }
    // Slow enough that the folder is deleted before its turn, or in it.
    let mut run = begin_to_print(&data, &["convert", ANA, BEN, "--to", "rich", "--rate", "4"]);
    let _said = after_the_estimate(&mut run);
    assert!(ana.imap("DELETE B").unwrap().concat().contains("t OK"));
    let ended = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("\nconverted   "), "{said}");
    assert_eq!(left(&data, "rich"), 0);
    assert_eq!(server.mail(BEN, PASSWORD, "INBOX", 4).len(), 4);
}

/// Rich mail of Ana that becomes new messages: half of it was appended, and half is shared with
/// Ben, who keeps the original. Answers with what clients see of each then, by its number.
fn rich_to_be_new(server: &Server, messages: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let note = String::from_utf8(samples::mail(&samples::note())).unwrap();
    let mut ana = login(server, ANA);
    let mut all = Vec::new();
    for n in 0..messages {
        let sent = format!("X-Number: {n}\r\n{note}").into_bytes();
        if n % 2 == 0 {
            ana.send(format!("a APPEND INBOX (\\Flagged) {{{}+}}\r\n", sent.len()).as_bytes()).unwrap();
            ana.send(&sent).unwrap();
            ana.send(b"\r\n").unwrap();
            while !ana.line().unwrap().starts_with("a OK") {}
            let Ok(Outcome::Converted(mime)) = convert(&sent) else { panic!("it is rich") };
            all.push((sent, mime));
        } else {
            send(server, "lmtp", &[ANA, BEN], &sent);
            let seen = body(&mut login(server, ANA), n + 1);
            all.push((seen.clone(), seen));
        }
    }
    all
}

/// The messages of INBOX.
fn inbox(server: &Server) -> Vec<Vec<u8>> {
    login(server, ANA).bodies().unwrap()
}

/// `kill -9` while rich mail becomes new messages: each message is there, once or twice, and is
/// what it was or what it becomes. The next run continues. Ben's mail stays.
#[test]
fn new_messages_survive_kills() {
    const MESSAGES: usize = 30;
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA, BEN]);
    let all = rich_to_be_new(&server, MESSAGES);
    let of_ben = server.mail(BEN, PASSWORD, "INBOX", MESSAGES / 2);
    let is_each_there = |round: usize| {
        let now = inbox(&server);
        for (n, (before, after)) in all.iter().enumerate() {
            let count = now.iter().filter(|text| *text == before || *text == after).count();
            assert!((1..=2).contains(&count), "round {round}: message {n} is there {count} times");
        }
        // At most one was added and not removed yet.
        assert!((MESSAGES..=MESSAGES + 1).contains(&now.len()), "round {round}: {} messages", now.len());
    };
    let lossy = ["convert", ANA, "--to", "mime", "--lossy"];
    let watching = RefCell::new(login(&server, ANA));
    watching.borrow_mut().imap("EXAMINE Archive").unwrap();
    let new = || watching.borrow_mut().imap("STATUS INBOX (UIDNEXT)").unwrap();
    for round in 0..4 {
        let before = new();
        // Slow enough that it is not over before its first change is seen.
        let mut run = begin(&data, &[&lossy[..], &["--rate", "1"]].concat());
        while_it_runs(&mut run, || new() == before);
        run.kill().unwrap();
        run.wait().unwrap();
        is_each_there(round);
        let checked = command(&data, &["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    let whole = command(&data, &lossy);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let (mut now, mut expected): (Vec<_>, Vec<_>) =
        (inbox(&server), all.into_iter().map(|(_, after)| after).collect());
    now.sort_unstable();
    expected.sort_unstable();
    assert!(now == expected, "{} messages", now.len());
    assert_eq!(search(&mut login(&server, ANA), "FLAGGED").len(), MESSAGES / 2);
    assert!(server.mail(BEN, PASSWORD, "INBOX", MESSAGES / 2) == of_ben);
    // His originals are stored after the MIME.
    let ben = command(&data, &["convert", BEN, "--to", "keep", "--dry-run"]);
    let said = String::from_utf8_lossy(&ben.stdout).into_owned();
    assert_eq!(number_of(&said, "converted "), MESSAGES / 2, "Ben's originals: {said}");
}

/// `kill -9` while rich originals are given up. Clients see the same all the time, with the same
/// UIDs. A message for whose conversion there is no memory stays as it was sent, in each run.
#[test]
fn originals_that_are_given_up_survive_kills() {
    const MESSAGES: usize = 30;
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("posthaste.toml"));
    // A conversion may take 90 MiB and six times a message. The limit is enough for a note, and
    // not for a message with this file.
    let server = builder().data(&data).settings(&file, "[limits]\nsummary_bytes = \"100 MiB\"\n").start();
    server.add_account(ANA, PASSWORD);
    let mut large = samples::note();
    large.attachments.push(samples::file("large.bin", &[7; 2 << 20]));
    let large = samples::mail(&large);
    send(&server, "lmtp", &[ANA], &large);
    let note = String::from_utf8(samples::mail(&samples::note())).unwrap();
    for n in 1..MESSAGES {
        send(&server, "lmtp", &[ANA], format!("X-Number: {n}\r\n{note}").as_bytes());
    }
    let before = server.mail(ANA, PASSWORD, "INBOX", MESSAGES);
    assert!(is_as_sent(&before[0], &large));
    let lossy = ["convert", ANA, "--to", "mime", "--lossy", "--config", file.to_str().unwrap()];
    let left = || {
        let said = command(&data, &[&lossy[..], &["--dry-run"]].concat()).stdout;
        number_of(&String::from_utf8(said).unwrap(), "converted ")
    };
    assert_eq!(left(), MESSAGES - 1);
    for round in 0..4 {
        let begun_with = left();
        // Slow enough that it is not over before its first change is seen.
        let mut run = begin(&data, &[&lossy[..], &["--rate", "1"]].concat());
        while_it_runs(&mut run, || left() == begun_with);
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before, "round {round}");
        let checked = command(&data, &["check"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
    let whole = command(&data, &lossy);
    let said = String::from_utf8_lossy(&whole.stdout).into_owned();
    let kept = "kept        1: their conversion may take more memory than `limits.summary_bytes` allows\n";
    let kept = format!("{kept}            {ANA}  INBOX  UID 1\n");
    assert!(whole.status.success() && said.contains(&kept), "{said}");
    assert_eq!(left(), 0);
    assert_eq!(search(&mut login(&server, ANA), "ALL").len(), MESSAGES);
    server.kill();
    rebuild(&data);
    let server = builder().data(&data).start();
    assert!(server.mail(ANA, PASSWORD, "INBOX", MESSAGES) == before);
    assert_eq!(search(&mut login(&server, ANA), "ALL"), (1..=MESSAGES as u32).collect::<Vec<_>>());
}

/// A client that reads in pieces, again and again, during conversions: the bytes of a UID never
/// change, and no piece is of another form. Sizes and structures agree with them, also over POP3.
#[test]
fn a_reader_in_pieces_sees_one_message_for_each_uid() {
    const MESSAGES: usize = 12;
    if skips_cluster(ONLY_DRY) {
        return;
    }
    let (_dir, data, server) = with_accounts(&[ANA, BEN]);
    let all = rich_to_be_new(&server, MESSAGES);
    for n in 0..MESSAGES {
        let message = format!("Subject: message {n}\r\n\r\n{}", "text\r\n".repeat(n * 80));
        send(&server, "lmtp", &[ANA], message.as_bytes());
    }
    let (mut seen, mut structures) = (BTreeMap::new(), BTreeMap::new());
    let (mut reads, mut retrieved) = (0, 0);
    for args in [&["rich"][..], &["mime", "--lossy"], &["keep"]] {
        let args = [&["convert", ANA, "--rate", "20", "--to"], args].concat();
        let mut run = begin(&data, &args);
        loop {
            let ended = run.try_wait().unwrap();
            let mut client = login(&server, ANA);
            for uid in search(&mut client, "ALL") {
                let Some(text) = in_pieces(&mut client, uid) else { continue };
                let first = seen.entry(uid).or_insert_with(|| text.clone());
                assert!(*first == text, "UID {uid} has other bytes: {args:?}");
                reads += 1;
                let Some(structure) = structure(&mut client, uid, text.len()) else { continue };
                let first = structures.entry(uid).or_insert_with(|| structure.clone());
                assert!(*first == structure, "UID {uid} has another structure: {args:?}");
            }
            if let Some((size, octets)) = listed_and_retrieved(&server, retrieved) {
                assert_eq!(size, octets, "{args:?}");
                retrieved += 1;
            }
            if let Some(status) = ended {
                assert!(status.success(), "{args:?}: {status}");
                break;
            }
        }
    }
    assert!(reads > MESSAGES * 6 && retrieved > 0, "{reads} {retrieved}");
    let now = inbox(&server);
    assert_eq!(now.len(), 2 * MESSAGES);
    assert!(all.iter().all(|(_, after)| now.contains(after)));
}

fn search(client: &mut LineClient, keys: &str) -> Vec<u32> {
    let lines = client.imap(&format!("UID SEARCH {keys}")).unwrap();
    let list = lines.iter().find_map(|line| line.strip_prefix("* SEARCH")).unwrap();
    list.split_whitespace().map(|uid| uid.parse().unwrap()).collect()
}

/// A message in pieces; `None` if it was expunged meanwhile.
fn in_pieces(client: &mut LineClient, uid: u32) -> Option<Vec<u8>> {
    const PIECE: usize = 700;
    let mut whole = Vec::new();
    loop {
        let item = format!("UID FETCH {uid} (BODY.PEEK[]<{}.{PIECE}>)", whole.len());
        let piece = client.literals(&item).unwrap().0.pop()?.1;
        whole.extend(&piece);
        if piece.len() < PIECE {
            return Some(whole);
        }
    }
}

/// The BODYSTRUCTURE of a message that has so many octets; `None` if it was expunged meanwhile.
fn structure(client: &mut LineClient, uid: u32, len: usize) -> Option<String> {
    let lines = client.imap(&format!("UID FETCH {uid} (RFC822.SIZE BODYSTRUCTURE)")).unwrap();
    let items = lines.iter().find(|line| line.contains("RFC822.SIZE "))?;
    assert!(items.contains(&format!("RFC822.SIZE {len} ")), "UID {uid} has {len} octets: {items}");
    Some(items.split_once("BODYSTRUCTURE ").unwrap().1.to_owned())
}

/// Over POP3: the size of a message in LIST, and the octets that RETR sends. `None` if it was
/// expunged meanwhile. Each call takes the next message.
fn listed_and_retrieved(server: &Server, calls: usize) -> Option<(usize, usize)> {
    let mut client = LineClient::connect(server.address("pop3")).unwrap();
    client.line().unwrap();
    let mut ask = |command: &str| {
        client.send(format!("{command}\r\n").as_bytes()).unwrap();
        client.line().unwrap().starts_with("+OK")
    };
    assert!(ask(&format!("USER {ANA}")) && ask(&format!("PASS {PASSWORD}")) && ask("LIST"));
    let list = lines_to_dot(&mut client);
    let (number, size) = list.get(calls % list.len())?.split_once(' ')?;
    client.send(format!("RETR {number}\r\n").as_bytes()).unwrap();
    if !client.line().unwrap().starts_with("+OK") {
        return None;
    }
    let lines = lines_to_dot(&mut client);
    // RFC 1939 §3: a line that begins with a dot gets another one.
    let octets = lines.iter().map(|line| line.strip_prefix('.').unwrap_or(line).len() + 2);
    Some((size.parse().unwrap(), octets.sum()))
}

/// The lines of an answer, up to the dot that ends it.
fn lines_to_dot(client: &mut LineClient) -> Vec<String> {
    let lines = std::iter::from_fn(|| Some(client.line().unwrap()).filter(|line| line != "."));
    lines.collect()
}

/// Starts a command whose output is read at its end.
fn begin_to_print(data: &Path, args: &[&str]) -> Child {
    let binary = env!("CARGO_BIN_EXE_posthaste");
    let mut command = Command::new(binary);
    command.args(args).arg("--data").arg(data).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The estimate is the last line before the work begins.
fn after_the_estimate(run: &mut Child) -> (String, BufReader<ChildStderr>) {
    let (mut estimate, mut said) = (String::new(), BufReader::new(run.stderr.take().unwrap()));
    said.read_line(&mut estimate).unwrap();
    (estimate, said)
}
