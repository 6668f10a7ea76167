//! Processor counters of a process tree by `perf_event_open`, where the kernel offers them.

use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// Cycles, instructions, cache misses: `PERF_COUNT_HW_*` of perf_event_open(2).
const EVENTS: [u64; 3] = [0, 1, 3];
/// `PERF_TYPE_HARDWARE`.
const TYPE_HARDWARE: u32 = 0;
/// `inherit`, the second bit of the flags: threads and children started later count too.
const FLAG_INHERIT: u64 = 1 << 1;

/// The first 64 bytes of `struct perf_event_attr` (its first published size), which is all that is
/// used of it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// Counters running on a set of processes.
pub struct Counters(Vec<[File; 3]>);

impl Counters {
    /// Starts counting on all threads of these processes; the reason if the kernel does not offer
    /// it.
    pub fn start(pids: &[u32]) -> Result<Self, String> {
        let mut open = Vec::new();
        for pid in pids {
            for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let Some(tid) = task.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
                    continue;
                };
                let [a, b, c] = EVENTS.map(|event| open_counter(event, tid));
                match (a, b, c) {
                    (Ok(a), Ok(b), Ok(c)) => open.push([a, b, c]),
                    (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                        if error.raw_os_error() == Some(libc::ESRCH) {
                            continue;
                        }
                        return Err(format!("perf_event_open: {error}"));
                    }
                }
            }
        }
        if open.is_empty() { Err("no process to count".into()) } else { Ok(Self(open)) }
    }

    /// Totals since the start.
    pub fn read(&mut self) -> io::Result<[u64; 3]> {
        let mut totals = [0u64; 3];
        for counters in &mut self.0 {
            for (total, counter) in totals.iter_mut().zip(counters) {
                let mut value = [0u8; 8];
                counter.read_exact(&mut value)?;
                *total += u64::from_ne_bytes(value);
            }
        }
        Ok(totals)
    }
}

fn open_counter(event: u64, tid: i32) -> io::Result<File> {
    let attributes = Attributes {
        kind: TYPE_HARDWARE,
        size: size_of::<Attributes>() as u32,
        config: event,
        flags: FLAG_INHERIT,
        ..Attributes::default()
    };
    let any_cpu: libc::c_int = -1;
    let no_group: libc::c_int = -1;
    // SAFETY: `attributes` outlives the call, and is laid out as the kernel's structure of the size
    // that it states. That is the size of the first version, which every kernel takes. So the
    // kernel only reads it: it would write a size there if it refused this one. The result is a new
    // descriptor that nothing else owns, or -1.
    unsafe {
        let pointer = &raw const attributes;
        let fd =
            libc::syscall(libc::SYS_perf_event_open, pointer, tid, any_cpu, no_group, 0 as libc::c_ulong);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(fd as i32)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_or_says_why_not() {
        assert_eq!(size_of::<Attributes>(), 64);
        match Counters::start(&[std::process::id()]) {
            Ok(mut counters) => assert!(counters.read().unwrap()[1] < u64::MAX),
            Err(reason) => assert!(reason.contains("perf_event_open"), "{reason}"),
        }
    }
}
