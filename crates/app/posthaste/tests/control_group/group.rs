//! A control group with a limit of memory, for a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use posthaste_testkit::{ServerBuilder, script};

use crate::BINARY;

/// A control group below the one that this process is in, so that all limits which hold for the
/// test hold for the server, too. Removed when dropped, after all processes in it.
pub struct Group(PathBuf);

impl Group {
    /// With this memory; why not, if it cannot be made.
    fn make(name: &str, bytes: usize) -> Result<Self, String> {
        let (own, limit) = own_group().ok_or("there are no control groups for memory")?;
        let name = format!("posthaste-test-{name}-{}", std::process::id());
        let group = Self(own.join(name));
        fs::create_dir(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        let file = group.0.join(limit);
        fs::write(&file, bytes.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        // Swap must not take what is too much; not every machine has it.
        let _ = fs::write(group.0.join("memory.swap.max"), "0");
        let _ = fs::write(group.0.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        Ok(group)
    }

    /// A program that enters the group and becomes the server.
    pub fn server(&self, dir: &Path) -> ServerBuilder {
        let program = dir.join("in-group");
        let procs = self.0.join("cgroup.procs");
        script(&program, &format!("echo $$ > {} || exit 1\nexec {BINARY} \"$@\"", procs.display()));
        ServerBuilder::new(program)
    }

    /// The most memory that the group had, files included, if the machine says so.
    pub fn most(&self) -> Option<usize> {
        self.number(["memory.max_usage_in_bytes", "memory.peak"])
    }

    /// The memory that the group has now, files included.
    pub fn now(&self) -> Option<usize> {
        self.number(["memory.usage_in_bytes", "memory.current"])
    }

    /// The number in a file of the group, by its names in both versions of control groups.
    fn number(&self, files: [&str; 2]) -> Option<usize> {
        files.iter().find_map(|file| fs::read_to_string(self.0.join(file)).ok()?.trim().parse().ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may take a moment to end.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The group of this process that counts memory, and the name of the file with its limit.
fn own_group() -> Option<(PathBuf, &'static str)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let own = Path::new(root).join(path.trim_start_matches('/'));
        // The first group of the machine has no limit, but groups below it have.
        (own.join("cgroup.procs").exists() && (controllers.is_empty() || own.join(file).exists()))
            .then_some((own, file))
    })
}

/// The group, or a message and `None` where there can be none.
pub fn group(name: &str, bytes: usize) -> Option<Group> {
    match Group::make(name, bytes) {
        Ok(group) => Some(group),
        Err(why) => {
            eprintln!("skipped: no control group with a limit of memory can be made here: {why}");
            None
        }
    }
}
