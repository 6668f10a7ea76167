//! A part of a file that the disk cannot read.
//!
//! A call that reads there fails with `EIO`. In a map, the first access to such a page ends in
//! SIGBUS, as when the kernel cannot read a page. To cause this, the pages are mapped from an empty
//! file. One part at a time is unreadable in a process.

use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, size_t};
use parking_lot::RwLock;

use crate::op::FileId;

/// Bytes of a page of memory on the systems that the simulator runs on.
pub(crate) const PAGE: usize = 4096;

/// Whether there is such a part. Most calls are reads. Without such a part, they are not looked up.
static ANY: AtomicBool = AtomicBool::new(false);
static PART: RwLock<Option<Part>> = RwLock::new(None);

#[derive(Clone)]
struct Part {
    file: FileId,
    range: Range<u64>,
}

/// Has reading these bytes of a file fail from now on, also through maps that are there already.
pub(crate) fn set(path: &Path, at: u64, len: u64) -> std::io::Result<()> {
    let meta = std::fs::metadata(path)?;
    let part = Part { file: (meta.dev(), meta.ino()), range: at..at + len };
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let path = std::fs::canonicalize(path)?;
    for map in maps.lines().filter_map(|line| Map::of(line, &path.to_string_lossy())) {
        map.take_pages(&part.range)?;
    }
    *PART.write() = Some(part);
    ANY.store(true, Ordering::Release);
    Ok(())
}

/// Everything can be read again.
pub(crate) fn clear() {
    *PART.write() = None;
    ANY.store(false, Ordering::Release);
}

/// Whether reading these bytes fails; `at` is asked for only if there may be such bytes.
pub(crate) fn is_hit(fd: c_int, at: impl FnOnce() -> u64, len: u64) -> bool {
    let Some(part) = part_of(fd) else { return false };
    let at = at();
    at < part.range.end && part.range.start < at + len
}

/// A file was mapped: its unreadable pages are taken from the map. Maps without a file are not
/// looked at: an allocator may have made them.
pub(crate) fn mapped(address: *mut c_void, len: size_t, fd: c_int, offset: u64) -> std::io::Result<()> {
    let Some(part) = part_of(fd) else { return Ok(()) };
    Map { start: address as usize, end: address as usize + len, offset }.take_pages(&part.range)
}

fn part_of(fd: c_int) -> Option<Part> {
    if fd < 0 || !ANY.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: a `stat` of zeroes is a valid value, and the call fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is a valid place for the answer.
    if unsafe { libc::fstat(fd, &mut stat) } != 0 {
        return None;
    }
    PART.read().as_ref().filter(|part| part.file == (stat.st_dev, stat.st_ino)).cloned()
}

/// Where a file is mapped.
struct Map {
    start: usize,
    end: usize,
    /// Place in the file of the first byte.
    offset: u64,
}

impl Map {
    /// A line of `/proc/self/maps` that is about this file.
    fn of(line: &str, path: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)? as usize, number(end)? as usize);
        (words.next_back()? == path).then_some(Self { start, end, offset: number(offset)? })
    }

    /// Puts pages that cannot be read in the place of those that hold these bytes of the file.
    fn take_pages(&self, range: &Range<u64>) -> std::io::Result<()> {
        let page = PAGE as u64;
        let first = (range.start / page * page).max(self.offset);
        let end = range.end.next_multiple_of(page).min(self.offset + (self.end - self.start) as u64);
        if first >= end {
            return Ok(());
        }
        let address = self.start + (first - self.offset) as usize;
        // SAFETY: the name is a string.
        let empty = unsafe { libc::memfd_create(c"unreadable".as_ptr(), libc::MFD_CLOEXEC) };
        if empty < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        let len = (end - first) as usize;
        // SAFETY: the pages replaced are those of a map of a watched file. Nothing unmaps it
        // meanwhile: it was just made, or the thread that calls `set` holds the store open. An
        // access to a page after the end of a file raises SIGBUS, as intended: nothing continues
        // with other contents.
        let done = unsafe { libc::mmap(address as *mut c_void, len, access, flags, empty, 0) };
        let error = std::io::Error::last_os_error();
        // SAFETY: the descriptor is ours; the map keeps the file.
        unsafe { libc::close(empty) };
        if done == libc::MAP_FAILED { Err(error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_found_by_its_file() {
        let line = "7f00a0000000-7f00a0003000 r--s 00002000 08:01 1234      /data/index/data.mdb";
        let map = Map::of(line, "/data/index/data.mdb").unwrap();
        assert_eq!((map.start, map.end, map.offset), (0x7f00_a000_0000, 0x7f00_a000_3000, 0x2000));
        assert!(Map::of(line, "/data/index").is_none());
        assert!(Map::of("7f00a0000000-7f00a0003000 rw-p 00000000 00:00 0", "/data").is_none());
    }
}
