//! CPU and disk of a control group: version 1 (`cpuacct`, `blkio`) or version 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A limit of memory from which on a group of version 1 has none. The kernel writes the largest
/// number of whole pages, some 9 × 10¹⁸ bytes, and no machine has a tenth of that.
const UNLIMITED_BYTES: u64 = 1 << 60;

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
        let blkio = self.in_hierarchy("blkio")?;
        let read = |name: &str| fs::read_to_string(blkio.join(name)).ok();
        let operations = read("blkio.throttle.io_serviced")?;
        let bytes = read("blkio.throttle.io_service_bytes")?;
        let sum = |text: &str, what: &str| {
            let lines = text.lines().filter(|l| l.contains(what));
            lines.filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        Some([sum(&operations, "Read"), sum(&operations, "Write"), sum(&bytes, "Read"), sum(&bytes, "Write")])
    }

    /// The group of the same name in another hierarchy of version 1.
    fn in_hierarchy(&self, name: &str) -> Option<PathBuf> {
        let (text, other) = (self.path.to_str()?, format!("/{name}/"));
        Some(text.replacen("/cpu,cpuacct/", &other, 1).replacen("/cpuacct/", &other, 1).into())
    }

    /// The folder with the group's pressure stall information. Only version 2 has it. Where both
    /// versions are mounted, the group of the same name below `unified` counts if the server is in
    /// it.
    pub fn pressure(&self) -> Option<PathBuf> {
        let folder = if self.v2 { self.path.clone() } else { self.in_hierarchy("unified")? };
        let members = fs::read_to_string(folder.join("cgroup.procs")).ok()?;
        let is_in_it = self.v2 || !members.trim().is_empty();
        (is_in_it && folder.join("io.pressure").exists()).then_some(folder)
    }

    /// The limit of memory, and how often the group reached it.
    ///
    /// # Errors
    /// It has no limit, or no account of memory.
    pub fn memory_limit(&self) -> Result<[u64; 2], String> {
        let none = || "the control group has no account of memory".to_owned();
        let read = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).map_err(|_| none());
        let (limit, reached) = if self.v2 {
            let reached = word_after(&read(&self.path, "memory.events")?, "max");
            (read(&self.path, "memory.max")?, reached)
        } else {
            let folder = self.in_hierarchy("memory").ok_or_else(none)?;
            let reached = read(&folder, "memory.failcnt")?.trim().parse().ok();
            (read(&folder, "memory.limit_in_bytes")?, reached)
        };
        let unlimited = || "the control group has no limit of memory".to_owned();
        let limit = limit.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED_BYTES);
        Ok([limit.ok_or_else(unlimited)?, reached.ok_or_else(none)?])
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

    #[test]
    fn a_limit_of_memory_is_read_with_how_often_it_was_reached() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("v2/cpu.stat", "user_usec 1\nsystem_usec 1\n");
        let v2 = Group::open(&dir.path().join("v2")).unwrap();
        assert!(v2.memory_limit().unwrap_err().contains("no account"));
        write("v2/memory.events", "low 0\nhigh 0\nmax 17\noom 0\n");
        write("v2/memory.max", "max\n");
        assert!(v2.memory_limit().unwrap_err().contains("no limit"));
        write("v2/memory.max", "64000000\n");
        assert_eq!(v2.memory_limit(), Ok([64_000_000, 17]));
        // Version 1 has a hierarchy for each resource.
        write("cpuacct/it/cpuacct.usage", "1\n");
        write("memory/it/memory.failcnt", "3\n");
        write("memory/it/memory.limit_in_bytes", "9223372036854771712\n");
        let v1 = Group::open(&dir.path().join("cpuacct/it")).unwrap();
        assert!(v1.memory_limit().unwrap_err().contains("no limit"));
        write("memory/it/memory.limit_in_bytes", "32000000\n");
        assert_eq!(v1.memory_limit(), Ok([32_000_000, 3]));
        // Pressure is of a group of version 2 with the same name, if the server is in it.
        assert_eq!(v1.pressure(), None);
        write("unified/it/io.pressure", "");
        write("unified/it/cgroup.procs", "");
        assert_eq!(v1.pressure(), None);
        write("unified/it/cgroup.procs", "42\n");
        assert_eq!(v1.pressure(), Some(dir.path().join("unified/it")));
    }
}
