//! The log: packs and their records.
//!
//! A pack is an append-only file of records. A record holds the body of a message, or the changes
//! of one commit. Two things always hold. A byte below a pack's recorded end never changes. A
//! pack's number is never used twice.

pub(crate) mod appender;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod disk;
pub(crate) mod entry;
pub(crate) mod pair;
pub(crate) mod range;
pub(crate) mod reader;
pub(crate) mod readers;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod tail;

use std::path::{Path, PathBuf};

/// Commits in one batch. 512 appends of 4 KiB take 5 ms; a larger batch would delay its first
/// client more.
pub(crate) const GROUP_MAX: usize = 512;

/// The highest number of a pack. The index has other values under the keys of higher numbers.
pub(crate) const PACK_MAX: u32 = u32::MAX - 3;

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackOffset {
    pub(crate) pack: u32,
    pub(crate) offset: u64,
}

/// A count of bytes in a pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PackBytes {
    pub(crate) pack: u32,
    pub(crate) bytes: u64,
}

/// The end of a pack in an index that may lack its tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexedEnd {
    /// The end of the pack.
    pub(crate) end: u64,
    /// The next sequence number of the index.
    pub(crate) next_seq: u64,
}

/// The extent of the zeroes that are written after the end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preallocation {
    /// A step beyond the needed length, for the next transactions.
    Step,
    /// Only as far as needed: the disk is full.
    Needed,
}

/// The file of a pack.
pub(crate) fn path_of(packs: &Path, number: u32) -> PathBuf {
    packs.join(format!("{number:08}.pack"))
}

/// The number of a pack's file name; `None` for any other file.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".pack")?;
    // Another spelling of a number would be a second file of that pack.
    let is_padded = digits.len() == 8 || (digits.len() > 8 && !digits.starts_with('0'));
    let is_number = is_padded && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number: u32 = digits.parse().ok()?;
    (is_number && number <= PACK_MAX).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_name() {
        for number in [0, 1, 99_999_999, 100_000_000, PACK_MAX] {
            let path = path_of(Path::new(""), number);
            assert_eq!(number_of(path.to_str().unwrap()), Some(number));
        }
        let others = [
            "0000001.pack",
            "000000001.pack",
            "+0000001.pack",
            "00000001",
            "4294967295.pack",
            "9999999999.pack",
        ];
        assert!(others.into_iter().all(|name| number_of(name).is_none()));
        // Their keys are those of numbers in the index.
        assert!((PACK_MAX + 1..=u32::MAX).all(|n| number_of(&format!("{n}.pack")).is_none()));
    }
}
