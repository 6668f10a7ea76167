//! CPU and disk of a control group: version 1 (`cpuacct`, `blkio`) or version 2.

use crate::interrupt;
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
            // the clock's ticks, which on a busy machine miss much of what runs briefly: they only
            // say how to split it.
            let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
            return Ok((total * user_share, total * (1.0 - user_share)));
        }
        let text = read("cpuacct.stat")?;
        let ticks = super::process::ticks_per_second();
        let user = word_after(&text, "user").ok_or_else(bad)?;
        let system = word_after(&text, "system").ok_or_else(bad)?;
        Ok((user as f64 / ticks, system as f64 / ticks))
    }

    /// Disk operations, bytes read, bytes written; `None` where the group has no account of them.
    pub fn disk(&self) -> Option<[u64; 3]> {
        if self.v2 {
            let text = fs::read_to_string(self.path.join("io.stat")).ok()?;
            let sum = |key: &str| {
                let values = text.split_ascii_whitespace().filter_map(|w| w.strip_prefix(key));
                values.filter_map(|n| n.parse::<u64>().ok()).sum::<u64>()
            };
            return Some([sum("rios=") + sum("wios="), sum("rbytes="), sum("wbytes=")]);
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
        Some([
            sum(&operations, "Read") + sum(&operations, "Write"),
            sum(&bytes, "Read"),
            sum(&bytes, "Write"),
        ])
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

/// A group made for a server under test and removed with it.
pub struct OwnGroup(Vec<PathBuf>);

impl OwnGroup {
    /// Makes a group where this machine lets us; `None` where it does not.
    pub fn make(name: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        if root.join("cgroup.controllers").exists() {
            let path = root.join(name);
            fs::create_dir(&path).ok()?;
            interrupt::on_exit_remove(&path);
            return Some(Self(vec![path]));
        }
        let mut made = Vec::new();
        for controllers in [&["cpuacct", "cpu,cpuacct"][..], &["blkio"], &["memory"]] {
            let existing = controllers.iter().map(|c| root.join(c)).find(|p| p.is_dir());
            let path = existing.map(|p| p.join(name));
            match path.filter(|p| fs::create_dir(p).is_ok()) {
                Some(path) => {
                    interrupt::on_exit_remove(&path);
                    if controllers.contains(&"blkio") {
                        have_disks_counted(&path);
                    }
                    made.push(path);
                }
                None if made.is_empty() => return None,
                None => {}
            }
        }
        Some(Self(made))
    }

    /// The directory whose accounting is read.
    pub fn accounting(&self) -> Option<&Path> {
        self.0.first().map(PathBuf::as_path)
    }

    /// Its directories, one per hierarchy: a process that enters all of them is in the group.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Limits its memory, page cache included; false where this machine does not offer it.
    pub fn limit_memory(&self, bytes: u64) -> bool {
        self.0.iter().any(|path| {
            let v1 = fs::write(path.join("memory.limit_in_bytes"), bytes.to_string()).is_ok();
            v1 || fs::write(path.join("memory.max"), bytes.to_string()).is_ok()
        })
    }
}

/// A limit of disk operations a second that no disk reaches and the kernel still takes for one.
const LIMIT_OUT_OF_REACH: u32 = 1_000_000_000;

/// Since Linux 6.10 a group of version 1 counts disk operations only on disks for which it has a
/// limit. It is given one that never holds anything up, on every disk that is not made of others
/// (those would count everything once more).
fn have_disks_counted(blkio: &Path) {
    for disk in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let disk = disk.path();
        let made_of_others =
            fs::read_dir(disk.join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some());
        let is_there = fs::read_to_string(disk.join("size")).is_ok_and(|sectors| sectors.trim() != "0");
        if let (false, true, Ok(number)) = (made_of_others, is_there, fs::read_to_string(disk.join("dev"))) {
            // A disk that cannot be limited is not counted, and the report will say so.
            let limit = format!("{} {LIMIT_OUT_OF_REACH}", number.trim());
            let _ = fs::write(blkio.join("blkio.throttle.read_iops_device"), limit);
        }
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        for path in &self.0 {
            // The last processes may take a moment to end.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() || !path.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            interrupt::removed(path);
        }
    }
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
        let dir = tempfile::tempdir().unwrap();
        // Ticks saw only half of what the scheduler counted.
        let files = [("usage", "4000000000\n"), ("usage_user", "1500000000\n"), ("usage_sys", "500000000\n")];
        for (name, text) in files {
            fs::write(dir.path().join(format!("cpuacct.{name}")), text).unwrap();
        }
        assert_eq!(Group::open(dir.path()).unwrap().cpu().unwrap(), (3.0, 1.0));
    }
}
