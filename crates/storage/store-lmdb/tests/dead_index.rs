//! LMDB fails to write its meta page: the process says so and ends, and the next one has all that
//! was acknowledged.
//!
//! This executable has its own `pwrite`, which the linker prefers to that of libc for LMDB as well.
//! It fails for the meta pages when it is asked to. The process that ends is this test binary,
//! started again.

#![allow(clippy::unwrap_used)]

mod world;

use std::ffi::{c_int, c_void};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste_mail_model::{AccountId, BodyId, FlagSet, Id};
use posthaste_store::{
    CommitOutcome, Content, Engine, MailboxCommit, MailboxHead, NewMessage, Row, StoreError,
};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options};

use world::{World, body, small, summarize};

const DIR: &str = "POSTHASTE_TEST_DIR";
const SERVING: &str = "POSTHASTE_TEST_SERVING";

static META_FAILS: AtomicBool = AtomicBool::new(false);

/// LMDB writes a page, or several, but of a meta page only what follows its head: a few hundred
/// bytes of the first two pages. Packs are written in the same places, but never so while this is
/// requested: their ends are further on.
fn is_meta(len: usize, at: i64) -> bool {
    len < 1024 && at > 0 && at < 2 * 4096
}

/// libc's function, except for meta pages, whose writes fail when the test wants it.
///
/// # Safety
///
/// As for libc's: `buffer` points to `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, buffer: *const c_void, len: usize, at: i64) -> isize {
    if META_FAILS.load(Ordering::Acquire) && is_meta(len, at) {
        // SAFETY: the address is that of this thread's `errno`.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    // SAFETY: our caller gives what `pwrite` requires, and the system call requires the same.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, buffer, len, at) as isize }
}

/// The same function on 64-bit systems.
///
/// # Safety
///
/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, len: usize, at: i64) -> isize {
    // SAFETY: the same contract.
    unsafe { pwrite(fd, buffer, len, at) }
}

fn end_process(why: &StoreError) {
    eprintln!("{why}");
    std::process::exit(17);
}

fn open(dir: &Path, serving: bool) -> LmdbEngine {
    let options =
        Options { on_dead_index: end_process, checkpoint_within: Duration::from_millis(1), ..small() };
    match serving {
        true => LmdbEngine::serve(Arc::new(EngineLock::acquire(dir).unwrap()), options).unwrap(),
        false => LmdbEngine::open(dir, options).unwrap(),
    }
}

/// Appends message `n`; the head after it.
async fn append(
    engine: &LmdbEngine,
    mailbox: posthaste_mail_model::MailboxId,
    old: &MailboxHead,
    n: u32,
) -> MailboxHead {
    let bytes = body(n, 1_000);
    let (expected, uid) = (old.modseq, old.uid_next);
    let mut head = MailboxHead { modseq: expected.next(), uid_next: uid.next().unwrap(), ..old.clone() };
    head.counts.messages += 1;
    head.counts.unseen += 1;
    head.counts.bytes += 1_000;
    let content = Content::New { bytes: bytes.clone(), summary: summarize(&bytes).into() };
    let row = Row::new(uid, 1_000, n, FlagSet::EMPTY, head.modseq);
    let id = BodyId(Id::new(1 << 40, u128::from(n)));
    let appended = vec![NewMessage { row, body: id, saved: 1, created: head.modseq, content }];
    let after = head.clone();
    let commit = MailboxCommit { mailbox, expected, head, appended, changed: vec![], expunged: vec![] };
    assert_eq!(engine.commit(commit).await.unwrap(), CommitOutcome::Done);
    after
}

/// Runs in a process of its own, which must end before its messages do.
#[tokio::test]
async fn the_process_whose_index_dies() {
    let (Some(dir), Ok(serving)) = (std::env::var_os(DIR), std::env::var(SERVING)) else { return };
    let engine = open(Path::new(&dir), serving == "true");
    let mailbox = engine.load_list(AccountId(Id::new(1, 0))).await.unwrap().entries[0].id;
    let mut head = engine.heads(&[mailbox]).await.unwrap().remove(0).unwrap();
    for n in 0..1_000_000 {
        if n == 50 {
            META_FAILS.store(true, Ordering::Release);
        }
        head = append(&engine, mailbox, &head, n).await;
        println!("done {n}");
    }
}

async fn ends_and_loses_nothing(serving: bool) {
    let dir = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut world = World::new();
    let inbox = world.create(&engine, "INBOX").await.unwrap();
    engine.close();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_whose_index_dies", "--nocapture"])
        .env(DIR, dir.path())
        .env(SERVING, serving.to_string())
        .output()
        .unwrap();
    let (stderr, stdout) = (String::from_utf8_lossy(&child.stderr), String::from_utf8_lossy(&child.stdout));
    assert_eq!(child.status.code(), Some(17), "{stderr}");
    assert!(stderr.contains("repair the disk, then start again"), "{stderr}");
    let last: u32 =
        stdout.lines().filter_map(|line| line.strip_prefix("done ")?.parse().ok()).next_back().unwrap();
    assert!(last >= 49, "{stdout}");
    let engine = LmdbEngine::open(dir.path(), small()).unwrap();
    let mut bodies = Vec::new();
    let mut visit = |found: posthaste_store::Stored<'_>| {
        bodies.push(found.body.0);
        ControlFlow::Continue(())
    };
    let all = posthaste_mail_model::NumSet::range(1, u32::MAX);
    engine.summaries(inbox, &all, &mut visit).await.unwrap().refuse().unwrap();
    for n in 0..=last {
        assert_eq!(bodies.get(n as usize), Some(&Id::new(1 << 40, u128::from(n))), "of {last}");
    }
    assert!(bodies.len() as u32 <= last + 2, "one may have been on its way");
    assert_eq!(engine.check(&mut |_| {}).await.unwrap().faults, [""; 0]);
}

#[tokio::test]
async fn a_server_that_cannot_use_its_index_ends_and_loses_nothing() {
    ends_and_loses_nothing(true).await;
}

#[tokio::test]
async fn a_command_that_cannot_use_its_index_ends_and_loses_nothing() {
    ends_and_loses_nothing(false).await;
}
