//! The cost of the engine's calls, in CPU of the whole process and wall time: least of several
//! runs.
//!
//! `cargo bench -p posthaste-store-lmdb` prints a table. `BENCH_DIR` names the disk to work on; the
//! default is the system's temporary directory. `BENCH_ONLY` names one part: reading, appends,
//! changes or large. Figures are of one machine and one moment: compare runs of the same minutes.

#![allow(clippy::unwrap_used)]

mod support;

use std::ops::ControlFlow;

use bytes::Bytes;
use posthaste_mail_model::{FlagSet, NumSet, Uid};
use posthaste_store::{Content, Engine, Row};
use posthaste_store_lmdb::LmdbEngine;

use support::{Bench, Folder, Least, once, options};

async fn reading(bench: &Bench, folder: &Folder) {
    let n = folder.rows.len();
    let (mut load, mut walk, mut every) = (Least::NONE, Least::NONE, Least::NONE);
    for _ in 0..25 {
        let mut rows: Vec<Row> = Vec::with_capacity(n);
        let mut take = |slice: &[Row]| rows.extend_from_slice(slice);
        let (cpu, wall, _) = once(bench.engine.load(folder.id, &mut take)).await;
        load.add(cpu, wall);
        assert_eq!(rows.len(), n);

        let mut bytes = 0;
        let mut visit = |s: posthaste_store::Stored<'_>| {
            bytes += s.summary.len();
            ControlFlow::Continue(())
        };
        let all = NumSet::range(1, u32::MAX);
        let (cpu, wall, done) = once(bench.engine.summaries(folder.id, &all, &mut visit)).await;
        done.unwrap().refuse().unwrap();
        walk.add(cpu, wall);
        let third: NumSet = (1..=n as u32).step_by(3).collect();
        let (cpu, wall, done) = once(bench.engine.summaries(folder.id, &third, &mut visit)).await;
        done.unwrap().refuse().unwrap();
        every.add(cpu, wall);
        assert!(bytes >= n * 600);
    }
    load.print(&format!("load {n} rows"), n as f64, "row");
    walk.print(&format!("walk {n} summaries of 600 bytes"), n as f64, "summary");
    every.print(&format!("walk every third of {n}"), n as f64 / 3.0, "summary");
}

async fn appends(bench: &mut Bench, folder: &mut Folder) {
    let (bytes, summary) = (Bytes::from(vec![b'x'; 4096]), Bytes::from(vec![b's'; 600]));
    let mut least = Least::NONE;
    for _ in 0..25 {
        let (cpu, wall, ()) = once(async {
            for _ in 0..100 {
                let commit = bench.appending(folder, 1, &bytes, &summary);
                bench.done(folder, commit).await;
            }
        })
        .await;
        least.add(cpu / 100.0, wall / 100.0);
    }
    least.print("append 4 KiB, one at a time", 1.0, "append");
}

async fn changes(bench: &mut Bench, folder: &mut Folder) {
    let n = folder.rows.len();
    let (mut copy, mut store, mut expunge) = (Least::NONE, Least::NONE, Least::NONE);
    for round in 0..7 {
        let mut target = bench.folder().await;
        let mut commit = target.commit();
        for (row, body) in &folder.rows[round * 1000..][..1000] {
            let content = Content::CopyOf { mailbox: folder.id, uid: row.uid() };
            target.push(&mut commit, *body, row.size(), content);
        }
        let (cpu, wall, ()) = once(bench.done(&mut target, commit)).await;
        copy.add(cpu, wall);

        let mut commit = folder.commit();
        let from = (n / 2 + round * 137) % (n - 10_000);
        let flags = if round % 2 == 0 { FlagSet::SEEN } else { FlagSet::FLAGGED };
        let modseq = commit.head.modseq;
        commit.changed =
            folder.rows[from..from + 10_000].iter().map(|(r, _)| r.with_flags(flags, modseq)).collect();
        let (cpu, wall, ()) = once(bench.done(folder, commit)).await;
        store.add(cpu, wall);
    }
    for round in 0..7u32 {
        let mut commit = folder.commit();
        let uids: NumSet = (0..1000).map(|i| 1 + round * 5000 + i * 3).collect();
        commit.head.counts.messages -= 1000;
        commit.expunged.push((commit.head.modseq, uids));
        let (cpu, wall, ()) = once(bench.done(folder, commit)).await;
        expunge.add(cpu, wall);
    }
    copy.print("copy 1,000", 1000.0, "message");
    store.print("change flags of 10,000", 10_000.0, "message");
    expunge.print("expunge 1,000, every third", 1000.0, "message");
    let (mut cpu_all, mut rounds) = (0.0, 0);
    loop {
        let (cpu, _, report) = once(bench.engine.maintain()).await;
        let report = report.unwrap();
        if report.examined == 0 {
            break;
        }
        (cpu_all, rounds) = (cpu_all + cpu, rounds + 1);
    }
    println!("| maintenance after all that | {cpu_all:.0} µs in {rounds} rounds | | |");
}

async fn small_reads(bench: &Bench, folder: &Folder) {
    let (mut body, mut head, mut one) = (Least::NONE, Least::NONE, Least::NONE);
    for _ in 0..9 {
        let last = folder.rows.last().unwrap();
        let (cpu, wall, ()) = once(async {
            for _ in 0..1000 {
                bench.engine.read_body(last.1, 0..u64::MAX).await.unwrap();
            }
        })
        .await;
        body.add(cpu / 1e3, wall / 1e3);
        let (cpu, wall, ()) = once(async {
            for _ in 0..1000 {
                bench.engine.heads(&[folder.id]).await.unwrap();
                bench.engine.epoch();
            }
        })
        .await;
        head.add(cpu / 1e3, wall / 1e3);
        let uids = NumSet::range(last.0.uid().value(), Uid::value(last.0.uid()));
        let (cpu, wall, ()) = once(async {
            for _ in 0..1000 {
                bench
                    .engine
                    .summaries(folder.id, &uids, &mut |_| ControlFlow::Continue(()))
                    .await
                    .unwrap()
                    .refuse()
                    .unwrap();
            }
        })
        .await;
        one.add(cpu / 1e3, wall / 1e3);
    }
    body.print("read a body of 4 KiB", 1.0, "body");
    head.print("epoch and head", 1.0, "call");
    one.print("one summary", 1.0, "call");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let dir = match std::env::var_os("BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let mut bench = Bench::new(LmdbEngine::open(dir.path(), options()).unwrap());
    println!("| what | CPU | wall | |\n| --- | --- | --- | --- |");
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let wanted = |part: &str| only.is_empty() || only == part;
    runtime.block_on(async {
        let mut folder = bench.fill(100_000).await;
        if wanted("reading") {
            reading(&bench, &folder).await;
            small_reads(&bench, &folder).await;
        }
        if wanted("appends") {
            let mut small = bench.fill(1_000).await;
            appends(&mut bench, &mut small).await;
            appends(&mut bench, &mut folder).await;
        }
        if wanted("changes") {
            changes(&mut bench, &mut folder).await;
        }
        drop(folder);
        if wanted("large") {
            let large = bench.fill(500_000).await;
            reading(&bench, &large).await;
        }
    });
}
