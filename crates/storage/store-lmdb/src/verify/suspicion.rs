//! A process that ends by a fault signal says so, and leaves a file for the next process.
//!
//! LMDB follows the numbers in a page of the index. If the page is damaged, or the disk cannot read
//! it, a signal ends the process. The signal is SIGBUS or SIGSEGV, or SIGABRT where a debug build
//! of LMDB noticed. Without a note of it, the next start ends the same way at the next read. So:
//!
//! - a handler writes one line to standard error and creates the file `index/suspect`. Then the
//!   signal takes its former effect;
//! - a process that opens the index and finds that file checks every page (`pages`) before LMDB
//!   touches one, and refuses a damaged index. If all pages are in order, the file is removed.
//!
//! A rebuild replaces the folder, and the file with it.

use std::ffi::CString;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Signals that reading a damaged page may end in.
const SIGNALS: [libc::c_int; 3] = [libc::SIGBUS, libc::SIGSEGV, libc::SIGABRT];

const IN_INDEX: &[u8] =
    b" while it read the index: a page of it is damaged, or the disk failed. The next start examines every page; \
      `posthaste check --rebuild` rebuilds the index from the packs.\n";
const ELSEWHERE: &[u8] =
    b". If damage in the index caused it, the next start finds it: it examines every page.\n";

/// The data of the signal handler, prepared because a handler may neither allocate nor lock.
struct HandlerData {
    marker: CString,
    before: [libc::sigaction; SIGNALS.len()],
}

static PREPARED: AtomicPtr<HandlerData> = AtomicPtr::new(ptr::null_mut());
/// The place where the index is mapped; both 0 if that is not known.
static MAP: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

fn marker(index: &Path) -> PathBuf {
    index.join("suspect")
}

/// Whether a process ended by a fault signal since the index in this folder was last examined.
pub(crate) fn is_suspect(index: &Path) -> bool {
    marker(index).exists()
}

/// Every page is in order.
pub(crate) fn lift(index: &Path) {
    if let Err(error) = std::fs::remove_file(marker(index)) {
        tracing::warn!(%error, "index/suspect cannot be removed: the next start examines the index again");
    }
}

/// Makes this process report fault signals, for the store in `dir`. Call it once, before the
/// store is opened; later calls do nothing.
pub fn report_fault_signals(dir: &Path) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let path = marker(&std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).join("index"));
        let Ok(marker) = CString::new(path.as_os_str().as_bytes()) else { return };
        install(marker);
    });
}

fn install(marker: CString) {
    // SAFETY: a `sigaction` of zeroes is a valid value: the default action, an empty mask, no
    // flags.
    let zero: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut prepared = Box::new(HandlerData { marker, before: [zero; SIGNALS.len()] });
    for (signal, before) in SIGNALS.iter().zip(&mut prepared.before) {
        // SAFETY: `before` is a valid place for an action, and a null pointer means no change.
        unsafe { libc::sigaction(*signal, ptr::null(), before) };
    }
    // Never freed: a signal may come at any moment.
    PREPARED.store(Box::into_raw(prepared), Ordering::Release);
    let mut action = zero;
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = report;
    action.sa_sigaction = handler as usize;
    // The thread's stack may be full; the standard library gives each thread another stack for
    // signals.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in SIGNALS {
        // SAFETY: `action` is whole, and its handler takes the three arguments that SA_SIGINFO says
        // it gets. The handler only calls functions that POSIX lists as safe in handlers, and reads
        // what `PREPARED` points to, which is never freed.
        unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
    }
}

extern "C" fn report(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the pointer is null or leads to what `install` made, which is never freed or changed.
    let Some(prepared) = (unsafe { PREPARED.load(Ordering::Acquire).as_ref() }) else { return };
    let name: &[u8] = match signal {
        libc::SIGBUS => b"SIGBUS",
        libc::SIGSEGV => b"SIGSEGV",
        _ => b"SIGABRT",
    };
    // SAFETY: with SA_SIGINFO the kernel hands over a valid `info`, all of whose bytes are set.
    // Memory faults fill in the address. For SIGABRT there are other numbers, which nothing uses.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    let map = MAP[0].load(Ordering::Relaxed)..MAP[1].load(Ordering::Relaxed);
    let is_in_index = signal != libc::SIGABRT && map.contains(&address);
    let parts: [&[u8]; 3] = [b"posthaste: ended by ", name, if is_in_index { IN_INDEX } else { ELSEWHERE }];
    // SAFETY: `open`, `write`, `close`, `sigaction` and `raise` are safe in handlers (POSIX,
    // signal-safety). Every pointer leads to as many bytes as the call's length says, and the path
    // ends in zero.
    unsafe {
        for part in parts {
            libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len());
        }
        // A user who can write to the index may have put a link there.
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let file = libc::open(prepared.marker.as_ptr(), flags, 0o600);
        if file >= 0 {
            libc::write(file, name.as_ptr().cast(), name.len());
            libc::close(file);
        }
        for (of, before) in SIGNALS.iter().zip(&prepared.before) {
            libc::sigaction(*of, before, ptr::null_mut());
        }
        // A fault comes again when the handler returns. One that another process sent does not.
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

/// Looks up where this process has mapped the file of the index, for the handler; `None` where the
/// system does not say.
pub(crate) fn note_map(file: &Path) -> Option<Range<usize>> {
    let path = std::fs::canonicalize(file).ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let map = maps.lines().find_map(|line| range_of(line, path.to_str()?))?;
    MAP[0].store(map.start, Ordering::Relaxed);
    MAP[1].store(map.end, Ordering::Relaxed);
    Some(map)
}

/// The addresses of a line of `/proc/self/maps`, if it is about this file.
fn range_of(line: &str, path: &str) -> Option<Range<usize>> {
    let (range, rest) = line.split_once(' ')?;
    let (low, high) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    rest.ends_with(path).then_some(number(low)?..number(high)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_found_by_its_file() {
        let line = "7f00a0000000-7f01a0000000 r--s 00000000 08:01 1234      /data/index/data.mdb";
        assert_eq!(range_of(line, "/data/index/data.mdb"), Some(0x7f00_a000_0000..0x7f01_a000_0000));
        assert_eq!(range_of(line, "/other/index/data.mdb"), None);
        assert_eq!(range_of("nonsense", ""), None);
    }
}
