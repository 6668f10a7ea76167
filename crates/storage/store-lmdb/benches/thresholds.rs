//! The gains of the store's thresholds: a workload for each, on the side where it decides.
//!
//! `scripts/thresholds` builds this program once for each value of a threshold, runs the builds in
//! turn, and prints the table of `docs/storage.md`. By hand:
//! `cargo bench -p posthaste-store-lmdb --bench thresholds -- PART`. A line is a figure, its value
//! and its unit. `BENCH_DIR` names the disk; CPU is of all threads of the process.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_mail_model::{FlagSet, NumSet};
use posthaste_store::{CommitOutcome, Content, DirectoryChange, Engine, Stored};
use posthaste_store_lmdb::{EngineLock, LmdbEngine};

use support::{Bench, Folder, cpu_ns, once, options};

/// Prints one figure.
fn figure(name: &str, value: f64, unit: &str) {
    println!("{name}\t{value:.3}\t{unit}");
}

/// Octets of the index up to its last page, from the newer of LMDB's two meta pages. After the
/// page's header and 24 octets come two trees of 48, the last page's number, and the transaction's.
fn index_len(dir: &Path) -> f64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(dir.join("index/data.mdb")).unwrap();
    let number = |at| {
        let mut octets = [0; 8];
        file.read_exact_at(&mut octets, at).unwrap();
        u64::from_le_bytes(octets)
    };
    let last = |meta: u64| meta * 4096 + 16 + 24 + 2 * 48;
    let newer = (0..2).max_by_key(|meta| number(last(*meta) + 8)).unwrap();
    (number(last(newer)) + 1) as f64 * 4096.0
}

/// Octets that the files of a directory hold.
fn length(dir: &Path) -> f64 {
    std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().metadata().unwrap().len() as f64).sum()
}

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }
}

/// A folder of this many messages of 300 octets with summaries of 600.
async fn filled(bench: &mut Bench, count: usize) -> Folder {
    let mut folder = bench.folder().await;
    let (bytes, summary) = (Bytes::from(vec![b'x'; 300]), Bytes::from(vec![b's'; 600]));
    for _ in 0..count.div_ceil(200) {
        let commit = bench.appending(&mut folder, count.min(200), &bytes, &summary);
        bench.done(&mut folder, commit).await;
    }
    folder
}

/// Copies these messages, given by their places in `source`, into a new folder.
async fn copied(bench: &mut Bench, source: &Folder, places: impl Iterator<Item = usize>) -> Folder {
    let mut target = bench.folder().await;
    let mut commit = target.commit();
    for (row, body) in places.map(|at| &source.rows[at]) {
        let content = Content::CopyOf { mailbox: source.id, uid: row.uid() };
        target.push(&mut commit, *body, row.size(), content);
    }
    bench.done(&mut target, commit).await;
    target
}

/// CPU in nanoseconds of visiting each summary of these folders once, the least of nine times.
async fn listed(bench: &Bench, folders: &[Folder]) -> f64 {
    let (mut least, all) = (f64::INFINITY, NumSet::range(1, u32::MAX));
    for _ in 0..9 {
        let mut seen = 0;
        let (cpu, _, ()) = once(async {
            for folder in folders {
                let mut visit = |stored: Stored<'_>| {
                    seen += usize::from(!stored.summary.is_empty());
                    ControlFlow::Continue(())
                };
                bench.engine.summaries(folder.id, &all, &mut visit).await.unwrap().refuse().unwrap();
            }
        })
        .await;
        assert_eq!(seen, folders.iter().map(|folder| folder.rows.len()).sum::<usize>());
        least = least.min(cpu * 1e3 / seen as f64);
    }
    least
}

/// Copies of a few neighbours, and of neighbours with gaps between them.
async fn copies(bench: &mut Bench, dir: &Path) {
    let source = filled(bench, 40_000).await;
    for count in [8, 16, 32, 64, 128] {
        let (before, mut cpu, mut folders) = (index_len(dir), 0.0, Vec::new());
        let each = 12_800 / count;
        for at in 0..each {
            let from = at * (source.rows.len() / each);
            let (spent, _, folder) = once(copied(bench, &source, from..from + count)).await;
            (cpu, folders) = (cpu + spent, folders.into_iter().chain([folder]).collect());
        }
        let messages = (each * count) as f64;
        figure(&format!("copy {count} at a time"), cpu * 1e3 / messages, "ns/message");
        figure(&format!("list copies of {count}"), listed(bench, &folders).await, "ns/message");
        let grown = index_len(dir) - before;
        figure(&format!("index, copies of {count}"), grown / messages, "octets/message");
    }
    for gap in [2, 4, 8, 16, 32] {
        let before = index_len(dir);
        let (cpu, _, target) = once(copied(bench, &source, (0..source.rows.len()).step_by(gap))).await;
        let (grown, messages) = (index_len(dir) - before, target.rows.len() as f64);
        figure(&format!("copy each {gap}th"), cpu * 1e3 / messages, "ns/message");
        figure(&format!("list copies of each {gap}th"), listed(bench, &[target]).await, "ns/message");
        figure(&format!("index, copies of each {gap}th"), grown / messages, "octets/message");
    }
}

/// Messages delivered one by one, many at once, and in hundreds; then a start after a kill.
async fn deliveries(bench: &mut Bench, dir: &Path) {
    let (bytes, summary) = (Bytes::from(vec![b'x'; 4096]), Bytes::from(vec![b's'; 600]));
    let mut folders = Vec::new();
    for _ in 0..64 {
        folders.push(bench.folder().await);
    }
    let mut least = f64::INFINITY;
    for _ in 0..8 {
        let from = cpu_ns();
        for at in 0..512 {
            let folder = &mut folders[at % 64];
            let commit = bench.appending(folder, 1, &bytes, &summary);
            bench.done(folder, commit).await;
        }
        least = least.min((cpu_ns() - from) as f64 / 512.0);
    }
    figure("append, one at a time", least, "ns/message");
    let mut least = f64::INFINITY;
    for _ in 0..8 {
        let from = cpu_ns();
        for _ in 0..16 {
            let commits: Vec<_> =
                folders.iter_mut().map(|folder| bench.appending(folder, 1, &bytes, &summary)).collect();
            let shared = &*bench;
            join_all(folders.iter_mut().zip(commits).map(|(folder, commit)| shared.done(folder, commit)))
                .await;
        }
        least = least.min((cpu_ns() - from) as f64 / 1024.0);
    }
    figure("append, 64 at once", least, "ns/message");
    let mut least = f64::INFINITY;
    for _ in 0..8 {
        let from = cpu_ns();
        for folder in folders.iter_mut().take(20) {
            let commit = bench.appending(folder, 100, &bytes, &summary);
            bench.done(folder, commit).await;
        }
        least = least.min((cpu_ns() - from) as f64 / 2000.0);
    }
    figure("append, 100 a commit", least, "ns/message");
    let commits: Vec<_> = (0..20).map(|at| bench.appending(&mut folders[at], 30, &bytes, &summary)).collect();
    for (folder, commit) in folders.iter_mut().zip(commits) {
        bench.done(folder, commit).await;
    }
    // The files that a process leaves if it is killed now.
    let killed = tempfile::tempdir_in(dir.parent().unwrap()).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").arg(dir).arg(killed.path()).status().unwrap();
    assert!(copied.success());
    let (cpu, _, store) = once(async { serve(&killed.path().join(dir.file_name().unwrap())) }).await;
    figure("start after a kill", cpu, "µs");
    drop(store);
}

/// CPU in microseconds of maintenance until nothing is left to do.
async fn maintained(bench: &Bench) -> f64 {
    let mut sum = 0.0;
    loop {
        let (cpu, _, report) = once(bench.engine.maintain()).await;
        sum += cpu;
        if report.unwrap().examined == 0 {
            return sum;
        }
    }
}

/// Changes of one flag in a hundred folders, of 10, of 100 and of 1,000 messages.
async fn flags(bench: &mut Bench, dir: &Path) {
    for (size, count) in [(10, 100), (100, 100), (1000, 30)] {
        let mut folders = Vec::new();
        for _ in 0..count {
            folders.push(filled(bench, size).await);
        }
        maintained(bench).await;
        let (before, from) = (length(&dir.join("packs")), cpu_ns());
        let mut numbers = Numbers(size as u64);
        for change in 0..20_000 {
            let at = numbers.below(folders.len());
            let folder = &mut folders[at];
            let mut commit = folder.commit();
            let (row, _) = folder.rows[numbers.below(folder.rows.len())];
            let flags = if change % 2 == 0 { FlagSet::SEEN } else { FlagSet::FLAGGED };
            commit.changed.push(row.with_flags(flags, commit.head.modseq));
            bench.done(folder, commit).await;
            if change % 500 == 499 {
                maintained(bench).await;
            }
        }
        let cpu = (cpu_ns() - from) as f64 / 20_000.0;
        figure(&format!("change a flag of {size}, maintenance included"), cpu, "ns/change");
        let grown = (length(&dir.join("packs")) - before) / 1024.0;
        figure(&format!("log of 20,000 changes of {size}"), grown, "KiB");
    }
}

/// Three of four messages expunged, of bodies of 4 KiB, and the space freed.
async fn expunges(bench: &mut Bench, dir: &Path) {
    let (bytes, summary) = (Bytes::from(vec![b'x'; 4096]), Bytes::from(vec![b's'; 600]));
    let mut folder = bench.folder().await;
    for _ in 0..200 {
        let commit = bench.appending(&mut folder, 100, &bytes, &summary);
        bench.done(&mut folder, commit).await;
    }
    let (mut cpu, mut longest) = (0.0, 0.0f64);
    for part in 0..20u32 {
        let mut commit = folder.commit();
        let uids: NumSet = (0..1000).filter(|at| at % 4 != 0).map(|at| 1 + part * 1000 + at).collect();
        commit.head.counts.messages -= 750;
        commit.expunged.push((commit.head.modseq, uids));
        bench.done(&mut folder, commit).await;
        loop {
            let (spent, _, report) = once(bench.engine.maintain()).await;
            (cpu, longest) = (cpu + spent, longest.max(spent));
            if report.unwrap().examined == 0 {
                break;
            }
        }
    }
    figure("maintenance for an expunged message", cpu / 15_000.0, "µs/message");
    figure("longest round", longest / 1e3, "ms");
    figure("packs of 5,000 messages of 4 KiB left", length(&dir.join("packs")) / 1024.0, "KiB");
    figure("files", std::fs::read_dir(dir.join("packs")).unwrap().count() as f64, "packs");
}

/// Records of the directory that are created and removed, besides 5,000 that stay.
async fn directory(bench: &mut Bench, dir: &Path) {
    let value = |len| Some(Bytes::from(vec![b'x'; len]));
    let put = |name: String, expected, value| DirectoryChange { name, expected, value };
    for n in 0..5_000 {
        let change = put(format!("account/{n:05}@example.org"), 0, value(200));
        assert_eq!(bench.engine.directory_commit(change).await.unwrap(), CommitOutcome::Done);
    }
    let from = cpu_ns();
    for n in 0..40_000 {
        for (expected, value) in [(0, value(100)), (1, None)] {
            let outcome =
                bench.engine.directory_commit(put(format!("queue/{n}"), expected, value)).await.unwrap();
            assert_eq!(outcome, CommitOutcome::Done);
        }
        if n % 250 == 249 {
            maintained(bench).await;
        }
    }
    let cpu = (cpu_ns() - from) as f64 / 80_000.0;
    figure("change of the directory, maintenance included", cpu, "ns/change");
    figure("log of 5,000 records", length(&dir.join("packs")) / 1024.0, "KiB");
}

/// Summaries of a half or a third of a page of the index, then lists of them.
async fn pages(bench: &mut Bench, dir: &Path) {
    for len in [500, 700, 1_000, 1_400, 1_900] {
        let (bytes, summary) = (Bytes::from(vec![b'x'; 300]), Bytes::from(vec![b's'; len]));
        let (before, mut folder, from) = (index_len(dir), bench.folder().await, cpu_ns());
        for _ in 0..100 {
            let commit = bench.appending(&mut folder, 200, &bytes, &summary);
            bench.done(&mut folder, commit).await;
        }
        figure(&format!("append, summaries of {len}"), (cpu_ns() - from) as f64 / 20_000.0, "ns/message");
        let grown = (index_len(dir) - before) / 20_000.0;
        figure(&format!("index, summaries of {len}"), grown, "octets/message");
        figure(&format!("list, summaries of {len}"), listed(bench, &[folder]).await, "ns/message");
    }
}

/// Rows of a large folder: changes, expunges in random order, and reading the rest.
async fn rows(bench: &mut Bench, dir: &Path) {
    let before = index_len(dir);
    let mut folder = filled(bench, 100_000).await;
    figure("index of 100,000 messages", (index_len(dir) - before) / 1024.0, "KiB");
    let (mut numbers, from) = (Numbers(1), cpu_ns());
    for _ in 0..5_000 {
        let mut commit = folder.commit();
        let (row, _) = folder.rows[numbers.below(100_000)];
        commit.changed.push(row.with_flags(FlagSet::SEEN, commit.head.modseq));
        bench.done(&mut folder, commit).await;
    }
    figure("change a flag of 100,000", (cpu_ns() - from) as f64 / 5_000.0, "ns/change");
    figure("load rows", loaded(bench, &folder, 100_000).await, "ns/row");
    let from = cpu_ns();
    for part in 0..9 {
        let mut commit = folder.commit();
        let uids: NumSet = (0..10_000u32).map(|at| 1 + at * 10 + part).collect();
        commit.head.counts.messages -= 10_000;
        commit.expunged.push((commit.head.modseq, uids));
        bench.done(&mut folder, commit).await;
    }
    figure("expunge nine of ten", (cpu_ns() - from) as f64 / 90_000.0, "ns/message");
    figure("load the rows left", loaded(bench, &folder, 10_000).await, "ns/row");
}

/// CPU in nanoseconds of loading a row, the least of nine times.
async fn loaded(bench: &Bench, folder: &Folder, count: usize) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..9 {
        let mut seen = 0;
        let (cpu, _, head) = once(bench.engine.load(folder.id, &mut |slice| seen += slice.len())).await;
        head.unwrap();
        assert_eq!(seen, count);
        least = least.min(cpu * 1e3 / count as f64);
    }
    least
}

/// Summaries of a folder larger than the processor's cache, in order.
async fn listing(bench: &mut Bench, _dir: &Path) {
    let folder = filled(bench, 200_000).await;
    figure("list 200,000 summaries", listed(bench, &[folder]).await, "ns/message");
}

fn serve(dir: &Path) -> LmdbEngine {
    let lock = Arc::new(EngineLock::acquire(dir).unwrap());
    LmdbEngine::serve(lock, options()).unwrap()
}

fn main() {
    // `cargo bench` adds a flag of its own.
    let Some(part) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        println!("thresholds: name a part: copies deliveries flags expunges directory pages rows listing");
        return;
    };
    let home = match std::env::var_os("BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let dir = home.path().join("store");
    let mut bench = Bench::new(serve(&dir));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match part.as_str() {
            "copies" => copies(&mut bench, &dir).await,
            "deliveries" => deliveries(&mut bench, &dir).await,
            "flags" => flags(&mut bench, &dir).await,
            "expunges" => expunges(&mut bench, &dir).await,
            "directory" => directory(&mut bench, &dir).await,
            "pages" => pages(&mut bench, &dir).await,
            "rows" => rows(&mut bench, &dir).await,
            "listing" => listing(&mut bench, &dir).await,
            other => panic!("there is no part {other}"),
        }
    });
}
