//! CPU and disk of a control group: version 1 (`cpuacct`, `blkio`) or version 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A control group's accounting.
#[derive(Clone, Debug)]
pub struct Group {
    path: PathBuf,
    v2: bool,
}

impl Group {
    /// Opens a group's directory: one with `cpu.stat` that says `user_usec` is version 2, one with
    /// `cpuacct.*` version 1.
    pub fn open(path: &Path) -> io::Result<Self> {
        let v2 = fs::read_to_string(path.join("cpu.stat")).is_ok_and(|text| text.contains("user_usec"));
        let v1 = path.join("cpuacct.usage").exists() || path.join("cpuacct.stat").exists();
        if v2 || v1 {
            return Ok(Self { path: path.to_owned(), v2 });
        }
        let what = format!("{}: neither cpuacct.* (version 1) nor cpu.stat (version 2)", path.display());
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// CPU seconds, user and kernel.
    pub fn cpu(&self) -> io::Result<(f64, f64)> {
        let read = |name: &str| fs::read_to_string(self.path.join(name));
        let bad = || io::Error::other(format!("{}: not understood", self.path.display()));
        if self.v2 {
            let text = read("cpu.stat")?;
            let user = word_after(&text, "user_usec").ok_or_else(bad)?;
            let system = word_after(&text, "system_usec").ok_or_else(bad)?;
            return Ok((user as f64 / 1e6, system as f64 / 1e6));
        }
        if let Ok(total) = read("cpuacct.usage") {
            let ns = |text: String| text.trim().parse::<f64>().map(|n| n / 1e9).map_err(|_| bad());
            let total = ns(total)?;
            let of = |name: &str| read(name).map_err(|_| bad()).and_then(ns);
            let (user, system) = (of("cpuacct.usage_user")?, of("cpuacct.usage_sys")?);
            // The total is what the scheduler counted, to the nanosecond. Its parts are counted by
            // the clock's ticks, which on a busy machine miss much of what runs briefly. They only
            // say how to split it.
            let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
            return Ok((total * user_share, total * (1.0 - user_share)));
        }
        let text = read("cpuacct.stat")?;
        let ticks = crate::process::ticks_per_second();
        let user = word_after(&text, "user").ok_or_else(bad)?;
        let system = word_after(&text, "system").ok_or_else(bad)?;
        Ok((user as f64 / ticks, system as f64 / ticks))
    }

    /// Disk operations, bytes read, bytes written; `None` where the group has no account of them.
    pub fn disk(&self) -> Option<[u64; 3]> {
        self.disk_by_direction().map(|[reads, writes, read, written]| [reads + writes, read, written])
    }

    /// Operations that read, as above.
    pub fn disk_read_operations(&self) -> Option<u64> {
        self.disk_by_direction().map(|[reads, ..]| reads)
    }

    /// Operations that read and that write, bytes read and written.
    fn disk_by_direction(&self) -> Option<[u64; 4]> {
        if self.v2 {
            let text = fs::read_to_string(self.path.join("io.stat")).ok()?;
            let sum = |key: &str| {
                let values = text.split_ascii_whitespace().filter_map(|w| w.strip_prefix(key));
                values.filter_map(|n| n.parse::<u64>().ok()).sum::<u64>()
            };
            return Some([sum("rios="), sum("wios="), sum("rbytes="), sum("wbytes=")]);
        }
        // The group of the same name in the blkio hierarchy.
        let text = self.path.to_str()?;
        let blkio =
            PathBuf::from(text.replacen("/cpu,cpuacct/", "/blkio/", 1).replacen("/cpuacct/", "/blkio/", 1));
        let read = |name: &str| fs::read_to_string(blkio.join(name)).ok();
        let operations = read("blkio.throttle.io_serviced")?;
        let bytes = read("blkio.throttle.io_service_bytes")?;
        let sum = |text: &str, what: &str| {
            let lines = text.lines().filter(|l| l.contains(what));
            lines.filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        Some([sum(&operations, "Read"), sum(&operations, "Write"), sum(&bytes, "Read"), sum(&bytes, "Write")])
    }

    /// Processes in it.
    pub fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|l| l.parse().ok()).collect()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn word_after(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Group::open(dir.path()).is_err());
        fs::write(dir.path().join("cpu.stat"), "usage_usec 30\nuser_usec 2000000\nsystem_usec 500000\n")
            .unwrap();
        fs::write(dir.path().join("io.stat"), "7:0 rbytes=10 wbytes=20 rios=3 wios=4 dbytes=0 dios=0\n")
            .unwrap();
        let v2 = Group::open(dir.path()).unwrap();
        assert_eq!((v2.cpu().unwrap(), v2.disk().unwrap()), ((2.0, 0.5), [7, 10, 20]));
        assert_eq!(v2.disk_read_operations(), Some(3));
        let dir = tempfile::tempdir().unwrap();
        // Ticks saw only half of what the scheduler counted.
        let files = [("usage", "4000000000\n"), ("usage_user", "1500000000\n"), ("usage_sys", "500000000\n")];
        for (name, text) in files {
            fs::write(dir.path().join(format!("cpuacct.{name}")), text).unwrap();
        }
        assert_eq!(Group::open(dir.path()).unwrap().cpu().unwrap(), (3.0, 1.0));
    }
}
