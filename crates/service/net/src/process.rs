//! The limit of open files of the process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files this process may open to `wanted`, or as far as the system lets it,
/// and returns what holds now. Never lowers. Each connection is a file; most systems start a
/// process at 1,024.
pub fn raise_file_limit(wanted: u64) -> io::Result<u64> {
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

#[cfg(test)]
mod tests {
    #[test]
    fn never_lowers() {
        let now = super::raise_file_limit(1).unwrap();
        assert!(super::raise_file_limit(now).unwrap() >= now);
    }
}
