//! Packs: append-only files that hold message bodies and the log of all commits.
//!
//! `record` is the form of a record, `writer` appends whole transactions, `reader` hands out checked ranges of bodies,
//! `scan` walks a pack from its start. What always holds: a byte below a pack's recorded end never changes, and a pack's number is
//! never given twice.

pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod writer;

use std::path::{Path, PathBuf};

/// The file of a pack.
pub(crate) fn path_of(packs: &Path, number: u32) -> PathBuf {
    packs.join(format!("{number:08}.pack"))
}

/// The number of a pack's file name; `None` for any other file.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".pack")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}
