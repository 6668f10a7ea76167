//! Tails with damage at many places.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_mail_model::Id;
use posthaste_property::properties;
use proptest::prelude::*;

use super::*;
use crate::log::disk::DiskFile;
use crate::log::record::{Batch, Kind, PACK_HEADER, PackFormat, RECORD_HEADER, record_len};

const STORE: Id = Id::new(1, 1);
/// Bytes of a record's content; the record has 64.
const CONTENT: usize = 16;

/// A pack in memory that counts the bytes that are read.
struct Counting {
    bytes: Vec<u8>,
    read: AtomicUsize,
}

impl DiskFile for Counting {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        self.read.fetch_add(read, Ordering::Relaxed);
        Ok(read)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

/// A part of a tail.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Whole,
    /// A record whose content does not match.
    Damaged,
    /// A record whose head is no head any more.
    Headless,
    /// A sector of zeroes in the place of a record.
    Lost,
    /// The next batch begins.
    Batch,
}

fn pack(parts: impl IntoIterator<Item = Part>) -> Counting {
    let mut bytes: Vec<u8> = Vec::new();
    let mut batch = Batch::new(STORE, 1, 0);
    batch.pack_header(STORE);
    let mut changes: Vec<(usize, Part)> = Vec::new();
    for (part, seq) in parts.into_iter().zip(1..) {
        let len = if part == Part::Lost { 512 - RECORD_HEADER } else { CONTENT };
        if part == Part::Batch {
            bytes.extend(batch.pieces().flatten());
            batch = Batch::new(STORE, 1, bytes.len() as u64);
            continue;
        }
        changes.push((bytes.len() + batch.len() as usize, part));
        batch.record(Kind::Mailbox, seq, STORE, vec![1; len]);
    }
    bytes.extend(batch.pieces().flatten());
    for (at, part) in changes {
        match part {
            Part::Whole | Part::Batch => {}
            Part::Damaged => bytes[at + RECORD_HEADER] ^= 1,
            Part::Headless => bytes[at + 20] ^= 1,
            Part::Lost => bytes[at..at + 512].fill(0),
        }
    }
    Counting { bytes, read: AtomicUsize::new(0) }
}

fn search(file: &Counting) -> Search<'_> {
    Search { file, format: PackFormat::bound(STORE, 1), size: file.bytes.len() as u64 }
}

/// What earlier looks ahead found.
#[derive(PartialEq)]
enum Earlier {
    Kept,
    Forgotten,
}

/// Whether the pack was cut off at each record.
fn judged(file: &Counting, earlier: Earlier) -> Vec<bool> {
    let search = search(file);
    let (mut judge, mut at, mut cut) = (TailJudge::new(&search, 1), PACK_HEADER as u64, Vec::new());
    while let Some(found) = search.next(at) {
        if earlier == Earlier::Forgotten {
            judge = TailJudge::new(&search, 1);
        }
        cut.push(judge.is_cut_off(at, &found));
        at = found.end();
    }
    cut
}

/// A look ahead from each damaged record took hours for a forged pack of 100 MB.
#[test]
fn a_tail_of_damaged_records_is_read_a_few_times() {
    use Part::{Batch, Damaged, Whole};
    let damaged = || std::iter::repeat_n(Damaged, 400);
    let later_batch: Vec<Part> = damaged().chain([Batch, Whole]).collect();
    let many_commits: Vec<Part> = damaged().chain(std::iter::repeat_n(Whole, GROUP_MAX + 90)).collect();
    for parts in [later_batch, many_commits] {
        let file = pack(parts.iter().copied());
        let cut = judged(&file, Earlier::Kept);
        assert!(cut.iter().all(|cut| !cut), "it is damage");
        let read = file.read.into_inner();
        assert!(read < 6 * file.bytes.len(), "{read} bytes of {}", file.bytes.len());
        assert_eq!(cut, judged(&pack(parts), Earlier::Forgotten));
    }
}

/// Each gap between records was searched in pieces of 1 MiB.
#[test]
fn small_gaps_cost_small_reads() {
    const RECORDS: usize = 2_000;
    let file = pack(std::iter::repeat_n([Part::Headless, Part::Whole], RECORDS).flatten());
    let (search, mut at, mut found) = (search(&file), PACK_HEADER as u64, 0);
    while let Some(record) = search.next(at) {
        assert_eq!(record.offset, at + record_len(CONTENT));
        (at, found) = (record.end(), found + 1);
    }
    assert_eq!(found, RECORDS);
    let (read, len) = (file.read.load(Ordering::Relaxed), file.bytes.len());
    assert!(read < 64 * len, "{read} bytes of {len}");
}

/// A gap is longer than the first windows, and the record after it begins anywhere.
#[test]
fn a_record_after_a_long_gap_is_found() {
    for sectors in [7, 8, 9, 40, 200, 3_000] {
        for headless in 0..10 {
            let lost = std::iter::repeat_n(Part::Lost, sectors);
            let parts = lost.chain(std::iter::repeat_n(Part::Headless, headless)).chain([Part::Whole]);
            let file = pack(parts);
            let last = file.bytes.len() as u64 - record_len(CONTENT);
            let found = search(&file).next(PACK_HEADER as u64);
            assert_eq!(found.map(|record| record.offset), Some(last), "{sectors} {headless}");
        }
    }
}

fn part() -> impl Strategy<Value = Part> {
    prop::sample::select(vec![Part::Whole, Part::Damaged, Part::Headless, Part::Lost, Part::Batch])
}

properties! {
    /// What was found earlier changes no judgement.
    #[test]
    fn each_record_is_judged_as_if_it_were_the_first(parts in prop::collection::vec(part(), 0..40)) {
        prop_assert_eq!(judged(&pack(parts.clone()), Earlier::Kept), judged(&pack(parts), Earlier::Forgotten));
    }
}
