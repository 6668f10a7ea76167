//! The usage of the generator itself.

/// CPU and memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// CPU, user mode.
    pub user_s: f64,
    /// CPU, kernel.
    pub system_s: f64,
    /// Highest resident size.
    pub rss_max_bytes: u64,
    /// CPU that all programs of this machine used, and CPU that its host took; `None` if the kernel
    /// does not report it.
    pub machine_busy_s: Option<f64>,
}

/// Now.
pub fn now() -> Own {
    // SAFETY: rusage is plain numbers, for which all zeroes is a value; getrusage fills it and
    // keeps no pointer.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Own {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        rss_max_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        machine_busy_s: std::fs::read_to_string("/proc/stat").ok().and_then(|text| busy_s(&text)),
    }
}

/// Seconds not idle of all processors, by the first line of `/proc/stat` (proc(5)): user, nice,
/// system, irq, softirq and steal. Idle and waiting for the disk are left out; guests are in user.
fn busy_s(stat: &str) -> Option<f64> {
    let ticks: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        .map_while(|w| w.parse().ok())
        .collect();
    let busy: Option<u64> = [0, 1, 2, 5, 6, 7].iter().map(|at| ticks.get(*at)).sum();
    Some(busy? as f64 / crate::process::ticks_per_second())
}

/// Files that a generator opens besides its connections: libraries, sampling of processes, the
/// report.
const FILES_BESIDE: u64 = 200;

/// Raises the limit of open files for as many connections at once, since a connection is a file. It
/// goes to what the system allows, and beyond where this process may.
///
/// # Errors
/// The limit that holds is too low: says what is needed and how to get it.
pub fn make_room_for(connections: u32) -> Result<(), String> {
    let needed = u64::from(connections) + FILES_BESIDE;
    enough(connections, needed, raise_file_limit(needed))
}

fn enough(connections: u32, needed: u64, files: u64) -> Result<(), String> {
    if files >= needed {
        return Ok(());
    }
    Err(format!(
        "{connections} clients need {needed} open files, and this process may open {files}: raise the hard limit \
         (`ulimit -Hn {needed}` as root, or nofile in /etc/security/limits.conf, LimitNOFILE= of a service) or give \
         --clients {}",
        files.saturating_sub(FILES_BESIDE)
    ))
}

/// Raises the limit of open files to `wanted`, or to what the system allows if that is more or all
/// there is. Returns the limit that holds now.
pub fn raise_file_limit(wanted: u64) -> u64 {
    // SAFETY: rlimit is two numbers; all calls only read or fill the structure given.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 0;
        }
        if limit.rlim_max < wanted {
            // The hard limit can be passed with privileges only: try, then take what is available.
            let beyond = libc::rlimit { rlim_cur: wanted, rlim_max: wanted };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const beyond) == 0 {
                return wanted;
            }
        }
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_passes() {
        let before = super::now();
        let mut x = 0u64;
        while super::now().user_s + super::now().system_s - before.user_s - before.system_s < 0.01 {
            x = x.wrapping_add(1);
        }
        assert!(super::now().rss_max_bytes > 100_000 && x > 0);
        assert!(super::raise_file_limit(0) > 64);
    }

    #[test]
    fn a_machine_is_as_busy_as_all_that_is_not_idle() {
        let ticks = crate::process::ticks_per_second();
        let text = "cpu  100 20 300 9999 8888 4 50 6000 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(super::busy_s(text), Some(6_474.0 / ticks));
        assert_eq!(super::busy_s("cpu  1 2 3\n"), None);
        assert!(super::now().machine_busy_s.is_some_and(|s| s > 0.0));
    }

    #[test]
    fn a_limit_too_low_is_reported_with_its_remedy() {
        assert_eq!(super::enough(100, 300, 300), Ok(()));
        let said = super::enough(10_000, 10_200, 4_096).unwrap_err();
        for part in
            ["10000 clients need 10200 open files", "may open 4096", "ulimit -Hn 10200", "--clients 3896"]
        {
            assert!(said.contains(part), "{said}");
        }
    }
}
