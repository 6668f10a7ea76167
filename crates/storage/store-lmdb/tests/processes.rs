//! Two processes on one data directory: conflicts are seen, both see each other, and one may be
//! killed at any time.
//!
//! The other process is this test binary, started again with `POSTHASTE_TEST_DIR` set to
//! run `the_other_process` only.

#![allow(clippy::unwrap_used)]

mod world;

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use posthaste_mail_model::{AccountId, BodyId, FlagSet, Id, MailboxId, NumSet};
use posthaste_store::{
    CommitOutcome, Content, Engine, MailboxCommit, MailboxHead, NewMessage, Row, StoreError,
};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, LockError};

use world::{World, body, maintain, small, summarize};

const DIR: &str = "POSTHASTE_TEST_DIR";
const MESSAGES: &str = "POSTHASTE_TEST_MESSAGES";
const SERVING: &str = "POSTHASTE_TEST_SERVING";

/// Starts the other process; it appends this many messages to every mailbox's first and says which
/// it knows to be done.
fn start(dir: &Path, messages: u32, serving: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(DIR, dir)
        .env(MESSAGES, messages.to_string())
        .env(SERVING, serving.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lines by which the other process names acknowledged commits.
fn acknowledged(child: &mut Child) -> impl Iterator<Item = u32> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("done ")?.parse().ok())
}

async fn first_mailbox(engine: &LmdbEngine) -> MailboxId {
    let list = engine.load_list(AccountId(Id::new(1, 0))).await.unwrap();
    list.entries[0].id
}

/// Appends message `n` to a mailbox with this head; the head after it, or none if another process
/// was quicker.
async fn append_after(
    engine: &LmdbEngine,
    mailbox: MailboxId,
    old: &MailboxHead,
    id: Id,
    n: u32,
) -> Option<MailboxHead> {
    let bytes = body(n, 1_000);
    let (expected, uid) = (old.modseq, old.uid_next);
    let mut head = MailboxHead { modseq: expected.next(), uid_next: uid.next().unwrap(), ..old.clone() };
    head.counts.messages += 1;
    head.counts.unseen += 1;
    head.counts.bytes += 1_000;
    let content = Content::New { bytes: bytes.clone(), summary: summarize(&bytes).into() };
    let row = Row::new(uid, 1_000, n, FlagSet::EMPTY, head.modseq);
    let appended = vec![NewMessage { row, body: BodyId(id), saved: 1, created: head.modseq, content }];
    let after = head.clone();
    let commit = MailboxCommit { mailbox, expected, head, appended, changed: vec![], expunged: vec![] };
    (engine.commit(commit).await.unwrap() == CommitOutcome::Done).then_some(after)
}

/// Appends message `n`, however often another process is quicker.
async fn append_one(engine: &LmdbEngine, mailbox: MailboxId, id: Id, n: u32) {
    loop {
        let old = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
        if append_after(engine, mailbox, &old, id, n).await.is_some() {
            return;
        }
    }
}

#[tokio::test]
async fn the_other_process() {
    let (Some(dir), Ok(messages)) = (std::env::var_os(DIR), std::env::var(MESSAGES)) else { return };
    let messages: u32 = messages.parse().unwrap();
    let dir = Path::new(&dir);
    let serving = std::env::var(SERVING).is_ok_and(|s| s == "true");
    let engine = if serving { world::serve(dir, small()) } else { LmdbEngine::open(dir, small()).unwrap() };
    let mailbox = first_mailbox(&engine).await;
    let mut head = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
    for n in 0..messages {
        // A server knows the head; only a conflict makes it read, and so wait for its index.
        let id = Id::new(1 << 40, u128::from(n));
        if let Some(next) = append_after(&engine, mailbox, &head, id, n).await {
            head = next;
        } else {
            append_one(&engine, mailbox, id, n).await;
            head = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
        }
        println!("done {n}");
    }
}

/// Files may not grow over this; what would be `ENOSPC` on a full disk is `EFBIG` here, which the
/// engine treats in the same way.
fn limit_file_size(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: both calls take plain values, and a pointer to a struct that lives for the call.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

/// Runs in a process of its own: the limit is the whole process's.
#[tokio::test]
async fn the_process_without_room() {
    let Some(dir) = std::env::var_os(DIR).filter(|_| std::env::var_os(MESSAGES).is_none()) else { return };
    let dir = Path::new(&dir);
    let engine = LmdbEngine::open(dir, small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    let packs = || std::fs::read_dir(dir.join("packs")).unwrap().count();
    // The case of a full index, and that of full packs.
    for (limit, len) in [(600_000, 10), (900_000, 10), (1_200_000, 200_000)] {
        limit_file_size(limit);
        let mut refused = 0;
        let mut before = 0;
        for n in 0..20_000 {
            let bodies: Vec<_> = (0..if len < 1_000 { 50 } else { 1 }).map(|i| body(n + i, len)).collect();
            match world.append(&engine, inbox, &bodies).await {
                Ok(_) => {}
                Err(StoreError::Unavailable(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            if refused == 1 && before == 0 {
                before = packs();
            }
            if refused == 30 || packs() > 8 {
                break;
            }
        }
        assert!(refused == 30 || len > 1_000, "the limit of {limit} was never met");
        assert!(
            packs() <= before + 2 || len > 1_000,
            "refused commits leave no packs behind: {before}, then {}",
            packs()
        );
        world.verify(&engine).await;
    }
    limit_file_size(libc::RLIM_INFINITY);
    world.append(&engine, inbox, &[body(1, 300_000)]).await.unwrap();
    world.verify(&engine).await;
}

#[tokio::test]
async fn without_room_commits_are_refused_and_reading_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_without_room", "--nocapture"])
        .env(DIR, dir.path())
        .env_remove(MESSAGES)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

async fn bodies_in(engine: &LmdbEngine, mailbox: MailboxId) -> Vec<BodyId> {
    let mut bodies = Vec::new();
    let mut visit = |s: posthaste_store::Stored<'_>| {
        bodies.push(s.body);
        std::ops::ControlFlow::Continue(())
    };
    engine.summaries(mailbox, &NumSet::range(1, u32::MAX), &mut visit).await.unwrap().refuse().unwrap();
    bodies
}

#[tokio::test]
async fn both_append_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(7, 10)]).await.unwrap();
    let epoch = engine.epoch();
    let mut other = start(dir.path(), 150, false);
    for n in 0..150 {
        append_one(&engine, inbox, Id::new(2 << 40, u128::from(n)), n).await;
    }
    assert_eq!(acknowledged(&mut other).count(), 150);
    assert!(other.wait().unwrap().success());
    assert_ne!(engine.epoch(), epoch, "what the other did shows");
    let quiet = engine.epoch();
    append_one(&engine, inbox, Id::new(3 << 40, 0), 0).await;
    assert_eq!(engine.epoch(), quiet, "what we do does not");
    let mut bodies = bodies_in(&engine, inbox).await;
    assert_eq!(bodies.len(), 302);
    for id in &bodies {
        assert!(!engine.read_body(*id, 0..u64::MAX).await.unwrap().is_empty());
    }
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!(bodies.len(), 302);
    maintain(&engine).await;
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

#[tokio::test]
async fn a_killed_process_loses_nothing_acknowledged() {
    a_killed_process_loses_nothing(false).await;
}

#[tokio::test]
async fn a_killed_server_loses_nothing_acknowledged() {
    a_killed_process_loses_nothing(true).await;
}

async fn a_killed_process_loses_nothing(serving: bool) {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    for round in 1..6 {
        let mut other = start(dir.path(), u32::MAX, serving);
        let mut lines = acknowledged(&mut other);
        // A different moment each time.
        let lines_before = lines.by_ref().take(7 * round).last().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        let last = lines.last().unwrap_or(lines_before);
        if serving {
            // Its tail is redone before anything else is written.
            append_one(&engine, inbox, Id::new(5 << 40, round as u128), 1).await;
        }
        let there = bodies_in(&engine, inbox).await;
        let held = |n: u32| there.iter().filter(|b| b.0 == Id::new(1 << 40, u128::from(n))).count();
        assert!((0..=last).all(|n| held(n) >= 1), "round {round}: message {last} and all before it");
        // The process that is left continues at once, and finds no fault.
        append_one(&engine, inbox, Id::new(4 << 40, round as u128), 1).await;
        assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
    }
    engine.close();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    world::rebuild_whole(dir.path(), &small());
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

#[tokio::test]
async fn the_lock_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let _held = EngineLock::acquire(dir.path()).unwrap();
    let error = EngineLock::acquire(dir.path()).unwrap_err();
    assert!(
        matches!(&error, LockError::Held { pid, .. } if *pid == std::process::id().to_string()),
        "{error}"
    );
}

/// An epoch that counts a commit is not shown before the commit can be read. A reader
/// with the old state and the new epoch would take that state for the newest, and not look again.
#[tokio::test]
async fn a_commit_can_be_read_as_soon_as_the_epoch_counts_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mailbox = World::new().create(&engine, "INBOX").await.unwrap();
    let mut child = start(dir.path(), 300, false);
    let lines = acknowledged(&mut child);
    let reader = std::thread::spawn(move || lines.count());
    let mut seen = None;
    while child.try_wait().unwrap().is_none() {
        let epoch = engine.epoch();
        let head = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
        // Another commit may have come between the two; then the epoch is another one, too.
        if engine.epoch() != epoch {
            continue;
        }
        if let Some((at, known)) = seen.filter(|(at, _)| *at == epoch) {
            assert_eq!(known, head.modseq, "the mailbox changed and the epoch {at:?} did not");
        }
        seen = Some((epoch, head.modseq));
    }
    assert_eq!(reader.join().unwrap(), 300);
    assert!(seen.is_some());
}

/// The server's commits if it starves a command: a transaction of some 30,000 commits (4 MiB) for
/// each commit of the command.
const STARVED: usize = 600_000;

/// The server's thread that writes always has the next commits at hand, and nothing but their
/// number ends a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_makes_progress_beside_a_server_under_constant_load() {
    const COMMITS: u32 = 20;
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(world::serve(dir.path(), small()));
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    world.append(&engine, inbox, &[body(7, 10)]).await.unwrap();
    let mut boxes = Vec::new();
    for n in 0..64 {
        boxes.push(world.create(&engine, &format!("m{n}")).await.unwrap());
    }
    let (mut other, done) = (start(dir.path(), COMMITS, false), Arc::new(AtomicUsize::new(0)));
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = boxes
        .into_iter()
        .map(|mailbox| {
            let (engine, done, is_over) = (Arc::clone(&engine), Arc::clone(&done), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut head = MailboxHead::default();
                while !is_over.load(Ordering::Acquire) {
                    let expected = head.modseq;
                    head.modseq = expected.next();
                    let (appended, changed, expunged) = (vec![], vec![], vec![]);
                    let commit =
                        MailboxCommit { mailbox, expected, head: head.clone(), appended, changed, expunged };
                    assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
                    if done.fetch_add(1, Ordering::AcqRel) > STARVED {
                        return;
                    }
                }
            })
        })
        .collect();
    let count = tokio::task::spawn_blocking(move || {
        let count = acknowledged(&mut other).count();
        assert!(other.wait().unwrap().success());
        count
    });
    let over = Arc::clone(&is_over);
    let count = tokio::spawn(async move {
        let count = count.await.unwrap();
        over.store(true, Ordering::Release);
        count
    });
    for task in load {
        task.await.unwrap();
    }
    let commits = done.load(Ordering::Acquire);
    println!("{commits} commits of the server beside {COMMITS} of the command");
    assert!(commits <= STARVED, "the command is starved");
    assert_eq!(count.await.unwrap(), COMMITS as usize);
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

const HOLDS: &str = "POSTHASTE_TEST_HOLDS";

/// Holds LMDB's lock file as a process does that has the index open, until its input ends.
#[test]
fn the_process_that_holds_the_lock_file() {
    let Some(file) = std::env::var_os(HOLDS) else { return };
    let file = std::fs::File::open(file).unwrap();
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        // LMDB's lock of the file: the bytes behind it are those of readers.
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the pointer leads to a struct that lives for the call.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &lock) }, 0);
    println!("held");
    std::io::stdin().lines().for_each(drop);
}

/// The process that was to set up LMDB's lock file was killed while others waited for it: they find
/// the file as an earlier life left it. When all have closed it, the next one sets it up.
#[tokio::test]
async fn a_lock_file_that_nobody_set_up_keeps_nobody_out_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (index, lock) = (dir.path().join("index"), dir.path().join("index/lock.mdb"));
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    std::fs::copy(&lock, index.join("earlier")).unwrap();
    for n in 0..5 {
        world.append(&engine, inbox, &[body(n, 100)]).await.unwrap();
    }
    engine.close();
    std::fs::rename(index.join("earlier"), &lock).unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_that_holds_the_lock_file", "--nocapture"])
        .env(HOLDS, &lock)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stdout.take().unwrap()).lines();
    said.find(|line| line.as_ref().unwrap().ends_with("held")).unwrap().unwrap();
    let refused = LmdbEngine::open(dir.path(), small());
    assert!(matches!(refused, Err(StoreError::Busy)), "{refused:?}");
    // It ends while the store is being opened, or before.
    let path = dir.path().to_owned();
    let opening = std::thread::spawn(move || LmdbEngine::open(&path, small()));
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    // A machine that stalls lets it give up before the holder has ended.
    let engine = match opening.join().unwrap() {
        Err(StoreError::Busy) => LmdbEngine::open(dir.path(), small()).unwrap(),
        opened => opened.unwrap(),
    };
    world.verify(&engine).await;
    world.append(&engine, inbox, &[body(9, 100)]).await.unwrap();
}
