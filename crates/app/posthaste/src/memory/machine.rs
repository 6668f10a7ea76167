//! How much memory there is: the machine's, or less if a control group limits it.

use std::path::{Path, PathBuf};

/// The assumed memory where the system does not report it.
const UNKNOWN: u64 = 2 << 30;

/// Bytes of memory that this process can have, or an assumption.
pub fn memory_there_is() -> u64 {
    known_memory().unwrap_or(UNKNOWN)
}

/// Bytes of memory that this process can have, if the system reports them.
pub fn known_memory() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| total_of(&text));
    let groups = read("/proc/self/cgroup").map(|text| group_limit(&text, Path::new("/sys/fs/cgroup")));
    [machine, groups.flatten()].into_iter().flatten().min()
}

fn read(file: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// `MemTotal:  24689512 kB`
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The least limit of a process's control group and all above it. Lines of `/proc/self/cgroup`:
/// `0::/system.slice/posthaste.service` in version 2, `4:memory:/docker/…` in version 1.
fn group_limit(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        least_upwards(&root, path, file)
    });
    limits.min()
}

fn least_upwards(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group: PathBuf = root.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|above| above.starts_with(root));
    // `max` is no number, and means that there is no limit.
    groups.filter_map(|group| read(group.join(file))?.trim().parse::<u64>().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("mail.slice/memory.max", "268435456\n");
        write("mail.slice/posthaste.service/memory.max", "max\n");
        let limit = |groups: &str| group_limit(groups, dir.path());
        assert_eq!(limit("0::/mail.slice/posthaste.service\n"), Some(256 << 20));
        assert_eq!(limit("0::/\n"), None);
        write("memory/docker/a/memory.limit_in_bytes", "1000\n");
        assert_eq!(limit("5:cpu:/x\n4:memory,pids:/docker/a\n0::/mail.slice\n"), Some(1000));
    }

    #[test]
    fn the_machines_memory_is_read() {
        assert_eq!(total_of("MemFree: 1 kB\nMemTotal:       24689512 kB\n"), Some(24_689_512 * 1024));
        assert!(memory_there_is() > 1 << 20);
    }
}
