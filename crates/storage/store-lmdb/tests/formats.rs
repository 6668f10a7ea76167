//! Stores that earlier versions of the format wrote are opened, checked, read and rebuilt.
//!
//! `tests/formats/N` has a store of version N, written by a program of that version:
//!
//! - `closed/`: its files as the program left them when it closed the store;
//! - `killed/`: its files as a `kill -9` leaves them: the last commits are in the packs alone;
//! - `contents.txt`: what both hold, as [`describe`] writes it.
//!
//! Each has two accounts, flags, keywords, expunged messages and a removed mailbox. Copies are
//! links from format 2 on. Moves come with format 3, bodies in another form with format 6. From
//! format 10 on, `contents.txt` has the first mod-sequences of messages. Every file is compressed
//! with gzip. The test [`the_present_version_can_be_kept`] makes such a store of
//! the present version in a temporary folder, and with `POSTHASTE_KEEP_FORMAT=yes` in
//! `tests/formats`. Keep a version before the format gets the next one.

#![allow(clippy::unwrap_used)]

mod world;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use posthaste_mail_model::{AccountId, FlagSet, Keyword, KeywordTable, MailboxId, ModSeq, NumSet};
use posthaste_store::form::served_len;
use posthaste_store::{CommitOutcome, Engine, MailboxEntry};
use posthaste_store_lmdb::{LmdbEngine, Options};
use sha2::{Digest, Sha256};

use world::{World, maintain, rebuild_whole, serve, small, summarize};

/// Files of a store: the packs beside them have numbers.
const FILES: [&str; 2] = ["format", "index/data.mdb"];

/// The first version that stores the mod-sequences with which messages came.
const HAS_CREATED: u32 = 10;

/// Options of the tests. Packs are small, so that there are several and the first is retired.
fn options() -> Options {
    Options { pack_bytes: 32 << 10, ..small() }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

/// Unpacks one state of a store: `from` is a folder `closed` or `killed`.
fn unpack(from: &Path, to: &Path) {
    for part in ["", "index", "packs"] {
        std::fs::create_dir_all(to.join(part)).unwrap();
        for entry in std::fs::read_dir(from.join(part)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let mut bytes = Vec::new();
            GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut bytes).unwrap();
            std::fs::write(to.join(part).join(path.file_stem().unwrap()), bytes).unwrap();
        }
    }
}

/// Compresses the files of a store.
fn pack(from: &Path, to: &Path) {
    let packs = std::fs::read_dir(from.join("packs")).unwrap();
    let packs = packs.map(|e| format!("packs/{}", e.unwrap().file_name().display()));
    for file in packs.chain(FILES.map(String::from)) {
        let target = to.join(format!("{file}.gz"));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut out = GzEncoder::new(File::create(target).unwrap(), Compression::best());
        out.write_all(&std::fs::read(from.join(file)).unwrap()).unwrap();
        out.finish().unwrap();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Everything that a store of this version holds, a line for each thing. The SHA-256 replaces a
/// message's bytes.
async fn describe(engine: &LmdbEngine, version: u32) -> String {
    let mut text = String::new();
    for entry in engine.directory_scan("", None, usize::MAX).await.unwrap() {
        writeln!(text, "directory {} {} {}", entry.name, entry.version, hex(&entry.value)).unwrap();
    }
    for account in accounts() {
        let list = engine.load_list(account).await.unwrap();
        writeln!(text, "account {account} {} {}", list.version, list.uid_validity_last).unwrap();
        for name in &list.subscribed {
            writeln!(text, "subscribed {name}").unwrap();
        }
        for entry in &list.entries {
            describe_mailbox(engine, entry, version, &mut text).await;
        }
    }
    text
}

async fn describe_mailbox(engine: &LmdbEngine, entry: &MailboxEntry, version: u32, text: &mut String) {
    let mut rows = Vec::new();
    let head = engine.load(entry.id, &mut |slice| rows.extend_from_slice(slice)).await.unwrap();
    let (next, modseq) = (head.uid_next, head.modseq);
    writeln!(text, "mailbox {} {} {next} {modseq} {}", entry.id, entry.uid_validity, entry.name).unwrap();
    for keyword in head.keywords.keywords() {
        writeln!(text, "keyword {}", keyword.as_str()).unwrap();
    }
    let mut stored = Vec::new();
    let mut visit = |s: posthaste_store::Stored<'_>| {
        stored.push((s.uid, s.body, s.saved, s.created, s.summary.to_vec()));
        ControlFlow::Continue(())
    };
    let _ = engine.summaries(entry.id, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap();
    assert_eq!(stored.len(), rows.len(), "every message has a summary");
    for (row, (uid, body, saved, created, summary)) in rows.iter().zip(stored) {
        let bytes = engine.read_body(body, 0..u64::MAX).await.unwrap();
        assert_eq!((row.uid(), row.size() as usize), (uid, served_len(&bytes)));
        assert_eq!(summary, summarize(&bytes));
        let (flags, modseq, date) = (row.flags().bits(), row.modseq(), row.date());
        let digest = hex(&Sha256::digest(&bytes));
        write!(text, "message {uid} {modseq} {date} {saved} {flags:x} {body} {digest}").unwrap();
        if version >= HAS_CREATED {
            write!(text, " {created}").unwrap();
        }
        text.push('\n');
    }
    let changes = engine.changes_since(entry.id, ModSeq::ZERO).await.unwrap();
    writeln!(text, "expunged {:?}", changes.expunged.ranges()).unwrap();
}

/// The accounts of [`write`]'s stores.
fn worlds() -> [World; 2] {
    [World::of_account(1), World::of_account(2)]
}

fn accounts() -> [AccountId; 2] {
    worlds().map(|w| w.list.account)
}

/// A message: a header, and lines that no two messages have in common.
fn letter(n: u32) -> Bytes {
    let lines = if n.is_multiple_of(16) { 160 } else { 3 + n % 7 };
    let mut text = format!("From: Ana <ana@example.org>\r\nSubject: letter {n}\r\n\r\n").into_bytes();
    for line in 0..lines {
        let digest = Sha256::digest(format!("{n} {line}"));
        text.extend_from_slice(hex(&digest[..8]).as_bytes());
        text.extend_from_slice(" caf\u{e9} \r\n".as_bytes());
    }
    // Not every message ends with a line break, and not every byte is text.
    text.extend_from_slice(if n.is_multiple_of(5) { &[0, 0xff] } else { b"\r\n" });
    text.into()
}

fn letters(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(letter).collect()
}

/// Gives messages keywords, which are the mailbox's only ones.
async fn mark(world: &mut World, engine: &LmdbEngine, mailbox: MailboxId, uids: &[u32], keywords: &[&str]) {
    let mut commit = world.appending(mailbox, &[]);
    let all = keywords.iter().map(|k| Keyword::new(k).unwrap()).collect();
    commit.head.keywords = KeywordTable::from_keywords(all).unwrap().into();
    for (n, uid) in uids.iter().enumerate() {
        let row = world.boxes[&mailbox].messages[uid].row;
        let flags = row.flags().union(FlagSet::keyword(n % keywords.len()));
        commit.changed.push(row.with_flags(flags, commit.head.modseq));
    }
    world.commit(engine, commit).await.unwrap();
}

/// Gives the bodies of messages a header, or takes it away.
async fn recode(world: &World, engine: &LmdbEngine, mailbox: MailboxId, uids: &[u32]) {
    for uid in uids {
        assert_eq!(world.recode(engine, mailbox, *uid).await.unwrap(), CommitOutcome::Done);
    }
}

fn uids(range: std::ops::RangeInclusive<u32>) -> Vec<u32> {
    range.collect()
}

/// The first part of the store: the index has it.
async fn write_indexed(engine: &LmdbEngine, [first, second]: &mut [World; 2]) -> [MailboxId; 4] {
    first.set_directory(engine, "account/ana@example.org", Some(b"{\"a\":1}")).await.unwrap();
    first.set_directory(engine, "account/bo@example.org", Some(b"{}")).await.unwrap();
    let inbox = first.create(engine, "INBOX").await.unwrap();
    let archive = first.create(engine, "Archive").await.unwrap();
    let lists = first.create(engine, "Lists/Gr\u{fc}\u{df}e").await.unwrap();
    for start in (0..60).step_by(6) {
        first.append(engine, inbox, &letters(start..start + 6)).await.unwrap();
    }
    first.flag(engine, inbox, &uids(1..=25), FlagSet::SEEN).await.unwrap();
    first.flag(engine, inbox, &[7, 30], FlagSet::FLAGGED.union(FlagSet::ANSWERED)).await.unwrap();
    mark(first, engine, inbox, &[2, 3, 31, 32], &["$Forwarded", "Project"]).await;
    // A run of 40 copies: from format 2 on, their summaries are links.
    first.copy(engine, inbox, &uids(1..=40), archive).await.unwrap();
    recode(first, engine, inbox, &[4, 33, 50]).await;
    first.expunge(engine, inbox, &uids(10..=19)).await.unwrap();
    first.expunge(engine, archive, &[5, 6, 15]).await.unwrap();
    let old = first.create(engine, "Old").await.unwrap();
    first.append(engine, old, &letters(60..75)).await.unwrap();
    first.remove(engine, old).await.unwrap();
    let other = second.create(engine, "INBOX").await.unwrap();
    second.append(engine, other, &letters(80..90)).await.unwrap();
    maintain(engine).await;
    [inbox, archive, lists, other]
}

/// The second part: after a kill, the packs alone have it.
async fn write_logged(engine: &LmdbEngine, [first, second]: &mut [World; 2], mailboxes: [MailboxId; 4]) {
    let [inbox, archive, lists, other] = mailboxes;
    first.set_directory(engine, "account/bo@example.org", Some(b"{\"b\":2}")).await.unwrap();
    second.create(engine, "Sent").await.unwrap();
    first.append(engine, inbox, &letters(100..106)).await.unwrap();
    first.flag(engine, inbox, &[61, 62], FlagSet::SEEN).await.unwrap();
    first.copy(engine, archive, &uids(20..=36), lists).await.unwrap();
    first.expunge(engine, archive, &[40]).await.unwrap();
    // Formats 1 and 2 had no commit on two mailboxes.
    first.move_messages(engine, inbox, &[63, 64], archive).await.unwrap();
    // Formats 1 to 5 had no bodies in another form.
    recode(first, engine, inbox, &[50, 61]).await;
    second.append(engine, other, &letters(110..113)).await.unwrap();
}

/// Writes a store as the kept ones were written. Each of those was made by the last program of its
/// version.
#[tokio::test]
async fn the_present_version_can_be_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let is_kept = std::env::var("POSTHASTE_KEEP_FORMAT").is_ok_and(|value| value == "yes");
    let root = if is_kept { fixtures() } else { temporary.path().to_owned() };
    let dir = tempfile::tempdir().unwrap();
    let mut worlds = worlds();
    let engine = LmdbEngine::open(dir.path(), options()).unwrap();
    let mailboxes = write_indexed(&engine, &mut worlds).await;
    engine.close();
    let engine = serve(dir.path(), options());
    write_logged(&engine, &mut worlds, mailboxes).await;
    let format = std::fs::read_to_string(dir.path().join("format")).unwrap();
    let version = format.strip_prefix("posthaste-store ").unwrap().lines().next().unwrap();
    let (to, version) = (root.join(version), version.parse().unwrap());
    let _ = std::fs::remove_dir_all(&to);
    pack(dir.path(), &to.join("killed"));
    worlds[1].directory = worlds[0].directory.clone();
    for world in &worlds {
        world.verify(&engine).await;
    }
    let held = describe(&engine, version).await;
    assert_ne!(held, describe(&engine, HAS_CREATED - 1).await, "first mod-sequences are in it");
    std::fs::write(to.join("contents.txt"), &held).unwrap();
    engine.close();
    pack(dir.path(), &to.join("closed"));
    let index = |state: &str| std::fs::read(to.join(state).join("index/data.mdb.gz")).unwrap();
    assert!(index("killed") != index("closed"), "what was killed had commits that the index lacked");
    for state in ["closed", "killed"] {
        let dir = tempfile::tempdir().unwrap();
        unpack(&to.join(state), dir.path());
        assert_holds(dir.path(), version, &held, state).await;
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        rebuild_whole(dir.path(), &options());
        assert_holds(dir.path(), version, &held, &format!("{state}, rebuilt")).await;
    }
}

/// The versions that have a fixture.
fn versions() -> Vec<u32> {
    let names = std::fs::read_dir(fixtures()).unwrap().map(|e| e.unwrap().file_name());
    let mut versions: Vec<u32> = names.map(|name| name.to_str().unwrap().parse().unwrap()).collect();
    versions.sort_unstable();
    versions
}

/// Every state of every version, in a folder of its own.
fn for_each_store() -> impl Iterator<Item = (String, u32, tempfile::TempDir)> {
    let states = |version| ["closed", "killed"].map(|state| (version, state));
    versions().into_iter().flat_map(states).map(|(version, state)| {
        let dir = tempfile::tempdir().unwrap();
        unpack(&fixtures().join(version.to_string()).join(state), dir.path());
        (format!("format {version}, {state}"), version, dir)
    })
}

fn contents(version: u32) -> String {
    std::fs::read_to_string(fixtures().join(version.to_string()).join("contents.txt")).unwrap()
}

/// The store in `dir` checks clean and has all written mail.
async fn assert_whole(dir: &Path, version: u32, what: &str) {
    assert_holds(dir, version, &contents(version), what).await;
}

/// The store in `dir` checks clean and holds what [`describe`] wrote of it in this version.
async fn assert_holds(dir: &Path, version: u32, held: &str, what: &str) {
    let engine = LmdbEngine::open(dir, options()).unwrap();
    let report = engine.check(&mut |_| {}).await.unwrap();
    assert_eq!(report.faults, [""; 0], "{what}");
    let is = describe(&engine, version).await;
    for (is, was) in is.lines().zip(held.lines()) {
        assert_eq!(is, was, "{what}");
    }
    assert_eq!(is.len(), held.len(), "{what}");
    engine.close();
}

/// The first line of the file `format`.
fn format_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("format")).unwrap().lines().next().unwrap().to_owned()
}

#[test]
fn every_earlier_version_has_a_store() {
    let dir = tempfile::tempdir().unwrap();
    LmdbEngine::open(dir.path(), options()).unwrap().close();
    let newest: u32 = format_of(dir.path()).strip_prefix("posthaste-store ").unwrap().parse().unwrap();
    let missing: Vec<u32> = (1..newest).filter(|version| !versions().contains(version)).collect();
    assert_eq!(missing, [0; 0], "write them with the last program of that version");
    for (what, version, dir) in for_each_store() {
        assert_eq!(format_of(dir.path()), format!("posthaste-store {version}"), "{what}");
    }
}

#[tokio::test]
async fn a_store_of_any_version_is_opened_checked_and_read() {
    for (what, version, dir) in for_each_store() {
        assert_whole(dir.path(), version, &what).await;
        // It is a store of the newest version now, and stays whole.
        let fresh = tempfile::tempdir().unwrap();
        LmdbEngine::open(fresh.path(), options()).unwrap().close();
        assert_eq!(format_of(dir.path()), format_of(fresh.path()), "{what}");
        assert_whole(dir.path(), version, &what).await;
    }
}

/// The mod-sequences of all messages: the row's, and the first one.
async fn mod_sequences(dir: &Path) -> Vec<(ModSeq, ModSeq)> {
    let engine = LmdbEngine::open(dir, options()).unwrap();
    let mut all = Vec::new();
    for account in accounts() {
        for entry in engine.load_list(account).await.unwrap().entries {
            let (mut rows, mut created) = (Vec::new(), Vec::new());
            engine.load(entry.id, &mut |slice| rows.extend_from_slice(slice)).await.unwrap();
            let mut visit = |s: posthaste_store::Stored<'_>| {
                created.push(s.created);
                ControlFlow::Continue(())
            };
            let whole = NumSet::range(1, u32::MAX);
            engine.summaries(entry.id, &whole, &mut visit).await.unwrap().refuse().unwrap();
            assert_eq!(rows.len(), created.len());
            all.extend(rows.iter().map(|row| row.modseq()).zip(created));
        }
    }
    engine.close();
    all
}

/// Formats 1 to 9 did not store the mod-sequences with which messages came. Their commits have
/// them, and so does an index that is rebuilt from commits. No store here has a checkpoint.
#[tokio::test]
async fn an_earlier_version_has_first_mod_sequences_in_its_log_alone() {
    for (what, version, dir) in for_each_store() {
        let before = mod_sequences(dir.path()).await;
        if version < HAS_CREATED && what.ends_with("closed") {
            assert!(before.iter().all(|(_, created)| *created == ModSeq::ZERO), "{what}");
        }
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        rebuild_whole(dir.path(), &options());
        let after = mod_sequences(dir.path()).await;
        assert!(after.iter().all(|(now, created)| *created > ModSeq::ZERO && created <= now), "{what}");
        assert!(after.iter().any(|(now, created)| created < now), "{what}");
    }
}

#[tokio::test]
async fn a_store_of_any_version_is_rebuilt_from_its_packs() {
    for (what, version, dir) in for_each_store() {
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        rebuild_whole(dir.path(), &options());
        assert_whole(dir.path(), version, &format!("{what}, rebuilt")).await;
    }
}

#[tokio::test]
async fn a_store_of_any_version_is_written_to() {
    for (what, version, dir) in for_each_store() {
        let engine = LmdbEngine::open(dir.path(), options()).unwrap();
        let mut world = World::of_account(3);
        let inbox = world.create(&engine, "INBOX").await.unwrap();
        let copies = world.create(&engine, "Copies").await.unwrap();
        world.append(&engine, inbox, &letters(0..40)).await.unwrap();
        world.copy(&engine, inbox, &uids(1..=40), copies).await.unwrap();
        world.move_messages(&engine, inbox, &uids(1..=5), copies).await.unwrap();
        maintain(&engine).await;
        engine.close();
        assert_whole(dir.path(), version, &what).await;
        let engine = LmdbEngine::open(dir.path(), options()).unwrap();
        world.directory.clear();
        assert_eq!(engine.load_list(world.list.account).await.unwrap(), world.list, "{what}");
        let report = engine.check(&mut |_| {}).await.unwrap();
        assert_eq!(report.faults, [""; 0], "{what}");
        engine.close();
    }
}
