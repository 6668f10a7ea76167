//! A large store: the costs of starting, of commits during maintenance, of a check and of a
//! rebuild.
//!
//! `scripts/scale` runs it. `SCALE_ACCOUNTS` (10,000) and `SCALE_MESSAGES` (1,000 each) set the
//! size; `SCALE_DIR` names the disk. Ten million messages need some 20 GB and some minutes.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_store::suite::{add_mailbox, new_body_id, new_id};
use posthaste_store::{Engine, IncomingMessage, Store, StoreOptions};
use posthaste_store_lmdb::{EngineLock, LmdbEngine, Options, Rebuild, rebuild};

/// Octets of a message and of its summary.
const MESSAGE: usize = 300;
const SUMMARY: usize = 600;
/// Messages of one commit while the store is filled.
const AT_ONCE: usize = 1_000;
/// Commits of one message that are timed.
const COMMITS: usize = 20_000;

fn options() -> Options {
    Options::new(|bytes| bytes.iter().copied().cycle().take(SUMMARY).collect())
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn serve(dir: &Path) -> Arc<LmdbEngine> {
    let lock = Arc::new(EngineLock::acquire(dir).unwrap());
    Arc::new(LmdbEngine::serve(lock, options()).unwrap())
}

fn message() -> IncomingMessage {
    IncomingMessage {
        bytes: Bytes::from(vec![b'x'; MESSAGE]),
        summary: Bytes::from(vec![b's'; SUMMARY]),
        body: new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: None,
    }
}

fn row(what: &str, value: impl std::fmt::Display) {
    println!("| {what} | {value} |");
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

/// Bytes of the index that are allocated on disk.
fn index_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(dir.join("index/data.mdb")).unwrap().blocks() * 512
}

fn pack_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir.join("packs")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Runs `work` and prints its time and the most memory this process had of its own meanwhile.
fn measured<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(own_memory(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let start = Instant::now();
        let value = work();
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        row(what, format!("{took:.1?}, memory {}", megabytes(most.load(Ordering::Relaxed))));
        value
    })
}

/// Anonymous memory of this process: the map of the index is not in it.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

async fn fill(store: &Store, mailboxes: &[MailboxId], messages: usize) {
    for mailbox in mailboxes {
        let destination = store.destination(*mailbox);
        let mut left = messages;
        while left > 0 {
            let n = left.min(AT_ONCE);
            destination.append((0..n).map(|_| message()).collect()).await.unwrap();
            left -= n;
        }
    }
}

/// Times commits of one message each, from four tasks at once, to mailboxes all over the store.
async fn commits(what: &str, store: &Store, mailboxes: &[MailboxId]) {
    const TASKS: usize = 4;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let (store, mailboxes) = (store.clone(), mailboxes.to_vec());
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(COMMITS / TASKS);
            for n in 0..COMMITS / TASKS {
                let at = (n * TASKS + task).wrapping_mul(7_919) % mailboxes.len();
                let start = Instant::now();
                store.destination(mailboxes[at]).append(vec![message()]).await.unwrap();
                times.push(start.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    row(
        what,
        format!("p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, most {:.2?}", at(0.5), at(0.99), at(0.999), at(1.0)),
    );
}

async fn maintain(engine: &LmdbEngine, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) && engine.maintain().await.unwrap().examined > 0 {
        rounds += 1;
    }
    rounds
}

async fn run(dir: &Path, accounts: usize, messages: usize) {
    let engine = serve(dir);
    let mut mailboxes = Vec::with_capacity(accounts);
    for _ in 0..accounts {
        mailboxes.push(add_mailbox(&*engine, AccountId(new_id()), MailboxId(new_id())).await);
    }
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let start = Instant::now();
    fill(&store, &mailboxes, messages).await;
    let total = accounts * messages;
    row("messages, accounts", format!("{total}, {accounts}"));
    row(
        "fill",
        format!("{:.1?}, {:.0} a second", start.elapsed(), total as f64 / start.elapsed().as_secs_f64()),
    );
    row("index, packs", format!("{}, {}", megabytes(index_bytes(dir)), megabytes(pack_bytes(dir))));
    commits("commits of one message", &store, &mailboxes).await;

    let start = Instant::now();
    drop((store, engine));
    row("stop", format!("{:.1?}", start.elapsed()));
    let start = Instant::now();
    let engine = serve(dir);
    row("start", format!("{:.1?}", start.elapsed()));
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());

    mass_deletion(dir, &engine, &store, &mailboxes, messages).await;
    stuck_reader(dir, &store, &mailboxes, messages).await;
    check(dir, &engine, &store, &mailboxes).await;
    drop((store, engine));
    let lock = EngineLock::acquire(dir).unwrap();
    let report =
        measured("rebuild", || rebuild(&lock, &options(), Rebuild::UnlessFaulty, &mut |_| ()).unwrap());
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    row("index after the rebuild", megabytes(index_bytes(dir)));
}

/// Expunges a fifth of the store, commits while maintenance removes it, and fills the freed pages
/// again.
async fn mass_deletion(
    dir: &Path,
    engine: &Arc<LmdbEngine>,
    store: &Store,
    mailboxes: &[MailboxId],
    messages: usize,
) {
    let fifth = &mailboxes[..mailboxes.len() / 5];
    let start = Instant::now();
    for mailbox in fifth {
        store.open(*mailbox).await.unwrap().remove(&NumSet::range(1, u32::MAX)).await.unwrap();
    }
    row("expunge of a fifth", format!("{:.1?}", start.elapsed()));
    let stop = Arc::new(AtomicBool::new(false));
    let maintenance = tokio::spawn({
        let (engine, stop) = (Arc::clone(engine), Arc::clone(&stop));
        async move { maintain(&engine, &stop).await }
    });
    commits("commits during maintenance", store, mailboxes).await;
    stop.store(true, Ordering::Relaxed);
    let rounds = maintenance.await.unwrap();
    let start = Instant::now();
    let rest = maintain(engine, &AtomicBool::new(false)).await;
    row(
        "rounds of maintenance: during the commits, after them",
        format!("{rounds}, {rest} in {:.1?}", start.elapsed()),
    );
    row("index, packs after it", format!("{}, {}", megabytes(index_bytes(dir)), megabytes(pack_bytes(dir))));
    let before = index_bytes(dir);
    fill(store, fifth, messages).await;
    row("index grows by as many new messages", megabytes(index_bytes(dir) - before));
}

/// Commits while another process holds a snapshot.
async fn stuck_reader(dir: &Path, store: &Store, mailboxes: &[MailboxId], messages: usize) {
    let before = index_bytes(dir);
    let mut reader = Command::new(std::env::current_exe().unwrap())
        .arg("--hold")
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(reader.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    commits("commits while a reader is stuck", store, mailboxes).await;
    row("index grows meanwhile", megabytes(index_bytes(dir) - before));
    drop(reader.stdin.take());
    assert!(reader.wait().unwrap().success());
    let before = index_bytes(dir);
    fill(store, &mailboxes[..1], messages).await;
    commits("commits after the reader has ended", store, mailboxes).await;
    row("index grows meanwhile", megabytes(index_bytes(dir) - before));
}

/// A check alone, and one during commits: no reading transaction of it may keep pages for long.
async fn check(dir: &Path, engine: &Arc<LmdbEngine>, store: &Store, mailboxes: &[MailboxId]) {
    let report = measured("check", || {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(engine.check(&mut |_| ())).unwrap()
        })
    });
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let before = index_bytes(dir);
    let checking = tokio::spawn({
        let engine = Arc::clone(engine);
        async move { engine.check(&mut |_| ()).await.unwrap() }
    });
    commits("commits during a check", store, mailboxes).await;
    let goes_on = !checking.is_finished();
    let report = checking.await.unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    let when = if goes_on { "the check went on after the commits" } else { "the check ended before" };
    row("index grows meanwhile", format!("{}; {when}", megabytes(index_bytes(dir) - before)));
}

/// The other process: holds a snapshot until its input ends.
fn hold(dir: &Path) {
    let _snapshot = LmdbEngine::snapshot(dir, options()).unwrap();
    println!("held");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--hold") {
        return hold(Path::new(&args.next().unwrap()));
    }
    let dir = match std::env::var_os("SCALE_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    println!("| what | |\n| --- | --- |");
    let (accounts, messages) = (number("SCALE_ACCOUNTS", 10_000), number("SCALE_MESSAGES", 1_000));
    runtime.block_on(run(dir.path(), accounts, messages));
}
