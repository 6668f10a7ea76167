//! The limit of open files of the process, and the kernel's table of them.

use std::fs::File;
use std::io;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files this process may open to `wanted`, or as far as the system lets it,
/// and returns what holds now. Never lowers. Each connection is a file; most systems start a
/// process at 1,024.
///
/// Also grows the kernel's table of open files to that size, so it should be called before threads
/// are at work.
pub fn raise_file_limit(wanted: u64) -> io::Result<u64> {
    let limit = raise(wanted)?;
    grow_file_table(limit.min(wanted));
    Ok(limit)
}

fn raise(wanted: u64) -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current.unwrap_or(u64::MAX);
    if now >= wanted {
        return Ok(now);
    }
    // The hard limit can be passed with privileges only: try, then take what is available.
    let hard = limit.maximum.map(|hard| hard.max(wanted));
    if limit.maximum.is_some_and(|hard| hard < wanted)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: hard }).is_ok()
    {
        return Ok(wanted);
    }
    let reachable = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum: limit.maximum })?;
    Ok(reachable)
}

/// Makes room for this many open files in the kernel's table, eight bytes each. The table doubles
/// when it is full, and never shrinks. Where a process has several threads, Linux then waits until
/// no processor reads the old table (`expand_fdtable`, `synchronize_rcu`). That is 6 to 15 ms on an
/// idle machine and more on a busy one, in which no thread can open a file.
///
/// If it fails, the table grows later.
fn grow_file_table(files: u64) {
    let last = files.checked_sub(1).and_then(|last| i32::try_from(last).ok());
    if let (Some(last), Ok(any)) = (last, File::open("/dev/null")) {
        // A file with this number needs the table. It is closed again at once.
        drop(fcntl_dupfd_cloexec(&any, last));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_lowers() {
        let now = super::raise_file_limit(1).unwrap();
        assert!(super::raise_file_limit(now).unwrap() >= now);
    }

    /// The size of the table by the kernel (proc_pid_status(5), `FDSize`).
    #[test]
    fn the_table_of_files_grows_at_once() {
        let size = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        let wanted = super::raise_file_limit(0).unwrap().min(4096);
        super::raise_file_limit(wanted).unwrap();
        assert!(size() >= wanted, "{} of {wanted}", size());
    }
}
