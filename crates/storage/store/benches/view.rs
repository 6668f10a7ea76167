//! The cost of views, in nanoseconds of CPU time: `cargo bench -p posthaste-store`.
//!
//! Least of several rounds, since other work on the machine only ever adds. A change may cost a few
//! microseconds, in a folder of a thousand messages and in one of a million. A listing must cost
//! the same per message in both.

use std::hint::black_box;
use std::sync::Arc;

use posthaste_mail_model::{FlagSet, ModSeq, NumSet, Uid};
use posthaste_store::{MailboxHead, Row, View, ViewBuilder};

/// Rounds of each measurement.
const ROUNDS: usize = 15;

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one value the call writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The least CPU time of a round, in nanoseconds.
fn least<T>(mut work: impl FnMut() -> T) -> f64 {
    let round = |_| {
        let start = cpu_ns();
        let result = black_box(work());
        let taken = cpu_ns() - start;
        drop(result);
        taken
    };
    (0..ROUNDS).map(round).min().unwrap_or(0) as f64
}

fn uid(n: u32) -> Uid {
    Uid::new(n).unwrap_or(Uid::MIN)
}

fn modseq(n: u64) -> ModSeq {
    ModSeq::new(n).unwrap_or(ModSeq::MAX)
}

fn rows(count: u32) -> Vec<Row> {
    let row = |n| Row::new(uid(n), 4096, n, FlagSet::SEEN, modseq(u64::from(n % 1000) + 1));
    (1..=count).map(row).collect()
}

fn head(modseq: ModSeq, next: u32) -> MailboxHead {
    MailboxHead { modseq, uid_next: uid(next), ..MailboxHead::default() }
}

fn build(rows: &[Row]) -> View {
    let mut builder = ViewBuilder::new();
    rows.chunks(4096).for_each(|rows| builder.push_rows(rows));
    builder.finish(head(modseq(1000), rows.len() as u32 + 1))
}

/// Views after changes spread over the folder, each of one row, one made from the other.
fn flag_changes(view: &View, changes: u32) -> View {
    let mut view = view.clone();
    let step = view.exists() / changes;
    for n in 0..changes {
        let next = head(view.modseq().next(), view.head().uid_next.value());
        let flags = FlagSet::FLAGGED;
        let row = Row::new(uid(1 + n * step), 4096, 1, flags, next.modseq);
        view = view.edited(next, &[row], &NumSet::new(), &[]);
    }
    view
}

fn appends(view: &View, count: u32) -> View {
    let mut view = view.clone();
    for _ in 0..count {
        let new = view.head().uid_next;
        let next = head(view.modseq().next(), new.value() + 1);
        let row = Row::new(new, 4096, 1, FlagSet::EMPTY, next.modseq);
        view = view.edited(next, &[], &NumSet::new(), &[row]);
    }
    view
}

fn main() {
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "messages", "build", "bytes", "flag", "append", "runs", "rows", "uid rows", "diff 1", "seq of"
    );
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "ns/msg", "/msg", "ns", "ns", "ns/msg", "ns/msg", "ns/msg", "ns", "ns"
    );
    for count in [1000, 10_000, 100_000, 500_000, 1_000_000] {
        measure(count);
    }
}

fn measure(count: u32) {
    let rows = rows(count);
    let per = f64::from(count);
    let building = least(|| build(&rows)) / per;
    let view = Arc::new(build(&rows));
    let bytes = view.memory_bytes() as f64 / per;
    let changing = least(|| flag_changes(&view, 500)) / 500.0;
    let appending = least(|| appends(&view, 500)) / 500.0;
    let all = view.all();
    let sum = |acc: u64, row: &Row| acc.wrapping_add(row.flags().bits() ^ u64::from(row.uid().value()));
    let in_runs = least(|| {
        let mut total = 0;
        view.for_each_run(&all, |_, rows| total = rows.iter().fold(total, sum));
        total
    }) / per;
    let in_rows = least(|| view.rows(&all).fold(0, |acc, (_, row)| sum(acc, row))) / per;
    let odd: NumSet = (1..=count).step_by(2).collect();
    let by_uid = least(|| view.rows_of_uids(&odd).fold(0, |acc, (_, row)| sum(acc, row))) / (per / 2.0);
    let changed = flag_changes(&view, 1);
    let difference =
        least(|| (0..100).map(|_| changed.difference_from(&view).changed.count()).sum::<u64>()) / 100.0;
    let seqs =
        least(|| (0..10_000u32).filter_map(|n| view.seq_of(uid(1 + n.wrapping_mul(7919) % count))).count())
            / 10_000.0;
    println!(
        "{count:>9} {building:>9.2} {bytes:>9.2} {changing:>9.0} {appending:>9.0} {in_runs:>9.2} {in_rows:>9.2} {by_uid:>9.2} {difference:>9.0} {seqs:>9.0}"
    );
}
