//! What the generator itself uses.

/// CPU and memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// CPU, user mode.
    pub user_s: f64,
    /// CPU, kernel.
    pub system_s: f64,
    /// Highest resident size.
    pub rss_max_bytes: u64,
}

/// Now.
pub fn now() -> Own {
    // SAFETY: rusage is plain numbers, for which all zeroes is a value; getrusage fills it and keeps no pointer.
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
    }
}

/// Raises the limit of open files to what the system allows: a connection is a file.
pub fn raise_file_limit() -> u64 {
    // SAFETY: rlimit is two numbers; both calls only read or fill the structure given.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 0;
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
        assert!(super::raise_file_limit() > 64);
    }
}
