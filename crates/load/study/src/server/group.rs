//! A control group made for a server under test: its CPU and disk are counted there, and its memory
//! can be limited.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_load_drive::interrupt;

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
        // Where both versions are mounted, `unified` has the group's pressure stall information.
        for controllers in [&["cpuacct", "cpu,cpuacct"][..], &["blkio"], &["memory"], &["unified"]] {
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

    /// The group's directories, one per hierarchy: a process that enters all of them is in the
    /// group.
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

/// A limit of disk operations a second that no disk reaches, and that the kernel accepts.
const LIMIT_OUT_OF_REACH: u32 = 1_000_000_000;

/// Since Linux 6.10 a group of version 1 counts disk operations only on disks for which it has a
/// limit. It is given one that never holds anything up, on every disk that is not made of others
/// (those would count everything twice).
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
