//! The waits of a server besides the CPU: the disk of its mail, and memory.
//!
//! The disk's busy time is `io_ticks` of `/proc/diskstats`: milliseconds with I/O in flight. The
//! waits of tasks are the kernel's pressure stall information (PSI), of the server's control group
//! if it has one and otherwise of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use posthaste_load_results::{MemoryLimit, Network, Offered, Pressure, PressureOf, Waits};
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;

/// Totals at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitTotals {
    /// Milliseconds in which the disk had I/O in flight.
    disk_busy_ms: Offered<u64>,
    /// Waits for a disk.
    disk: Offered<PressureTotals>,
    /// Waits for memory.
    memory: Offered<PressureTotals>,
    /// The limit of memory, and how often it was reached.
    memory_limit: Offered<[u64; 2]>,
    /// The way to the server.
    pub network: Offered<Network>,
    /// Names this start of this machine: an agent and an instrument with the same are on one.
    pub boot: String,
}

/// Microseconds in which tasks waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct PressureTotals {
    some_us: u64,
    full_us: u64,
    of: PressureOf,
}

/// The files from which the totals of a server are read.
pub struct WaitSources {
    disk: Result<MailDisk, String>,
    pressure: Result<(PathBuf, PressureOf), String>,
    group: Option<Group>,
}

impl WaitSources {
    /// The sources of a server with this folder of mail and this control group.
    pub fn of(data: Option<&Path>, group: Option<&Group>) -> Self {
        let unnamed =
            || "the folder of the server's mail is not known: name it by --server-data DIR".to_owned();
        let disk = data.ok_or_else(unnamed).and_then(|data| MailDisk::of(data, "/proc/self/mountinfo"));
        let own = group.and_then(Group::pressure).map(|folder| (folder, PressureOf::Server));
        let machine = Path::new("/proc/pressure");
        let machine = machine.is_dir().then(|| (machine.to_owned(), PressureOf::Machine));
        let none = "the kernel gives no pressure stall information: boot it with psi=1";
        Self { disk, pressure: own.or(machine).ok_or_else(|| none.to_owned()), group: group.cloned() }
    }

    /// Reads the totals.
    pub fn read_totals(&self) -> WaitTotals {
        let limit = self.group.as_ref().map(Group::memory_limit);
        let limit = limit.unwrap_or_else(|| Err("the server is in no control group of its own".into()));
        WaitTotals {
            disk_busy_ms: offered(self.disk.as_ref().map_err(Clone::clone).and_then(MailDisk::busy_ms)),
            disk: self.pressure("io"),
            memory: self.pressure("memory"),
            memory_limit: offered(limit),
            network: Offered::Value(Network::Loopback),
            boot: boot(),
        }
    }

    fn pressure(&self, resource: &str) -> Offered<PressureTotals> {
        let (folder, of) = match &self.pressure {
            Ok(found) => found,
            Err(why) => return Offered::NotOffered(why.clone()),
        };
        let file = match of {
            PressureOf::Server => folder.join(format!("{resource}.pressure")),
            PressureOf::Machine => folder.join(resource),
        };
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
        offered(text.and_then(|text| {
            let parsed = pressure(&text, *of);
            parsed.ok_or_else(|| format!("{}: not understood", file.display()))
        }))
    }
}

/// The kernel's name for this start of the machine; empty if it has none.
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The waits between two moments.
pub fn waits(before: &WaitTotals, after: &WaitTotals, seconds: f64) -> Waits {
    Waits {
        disk_busy_percent: both(&before.disk_busy_ms, &after.disk_busy_ms, |then, now| {
            share((*then, *now), seconds * 1e3)
        }),
        disk_pressure: both(&before.disk, &after.disk, |then, now| between(then, now, seconds)),
        memory_pressure: both(&before.memory, &after.memory, |then, now| between(then, now, seconds)),
        memory_limit: both(&before.memory_limit, &after.memory_limit, |[_, then], [bytes, now]| {
            MemoryLimit { bytes: *bytes, reached: now.saturating_sub(*then) }
        }),
        network: after.network.clone(),
    }
}

/// Combines two figures. If one is missing, the reason.
fn both<T, U>(before: &Offered<T>, after: &Offered<T>, of: impl Fn(&T, &T) -> U) -> Offered<U> {
    match (before, after) {
        (Offered::Value(then), Offered::Value(now)) => Offered::Value(of(then, now)),
        (_, Offered::NotOffered(why)) | (Offered::NotOffered(why), _) => Offered::NotOffered(why.clone()),
    }
}

fn between(then: &PressureTotals, now: &PressureTotals, seconds: f64) -> Pressure {
    Pressure {
        some_percent: share((then.some_us, now.some_us), seconds * 1e6),
        full_percent: share((then.full_us, now.full_us), seconds * 1e6),
        of: now.of,
    }
}

/// The difference of two totals in percent of `of`, at most 100. The kernel counts in steps, so the
/// difference may be a little larger than `of`.
fn share((then, now): (u64, u64), of: f64) -> f64 {
    (now.saturating_sub(then) as f64 / of * 100.0).clamp(0.0, 100.0)
}

fn offered<T>(found: Result<T, String>) -> Offered<T> {
    found.map_or_else(Offered::NotOffered, Offered::Value)
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, and the same for `full`.
fn pressure(text: &str, of: PressureOf) -> Option<PressureTotals> {
    let total = |kind: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(kind))?;
        line.rsplit_once("total=")?.1.trim().parse().ok()
    };
    Some(PressureTotals { some_us: total("some ")?, full_us: total("full ")?, of })
}

/// The disk that a folder is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MailDisk {
    /// A block device, by its major and minor number.
    Device(u32, u32),
    /// The files are in memory, on no disk.
    Memory,
}

impl MailDisk {
    /// The disk of a folder, by the number of its file system's device. Some file systems have
    /// numbers of their own: then the mount names the device.
    fn of(folder: &Path, mounts: &str) -> Result<Self, String> {
        let number = |dev: u64| (libc::major(dev), libc::minor(dev));
        let found = fs::metadata(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let (major, minor) = number(found.dev());
        if major != 0 {
            return Ok(Self::Device(major, minor));
        }
        let mounts = fs::read_to_string(mounts).map_err(|e| format!("{mounts}: {e}"))?;
        match mounted(&mounts, (major, minor)) {
            Some(("tmpfs" | "ramfs", _)) => Ok(Self::Memory),
            Some((kind, source)) => match fs::metadata(source).map(|m| number(m.rdev())) {
                Ok((major, minor)) if source.starts_with("/dev/") => Ok(Self::Device(major, minor)),
                _ => Err(format!("{} is on {kind}, which is on no disk of its own", folder.display())),
            },
            None => Err(format!("{}: no mount has its device", folder.display())),
        }
    }

    fn busy_ms(&self) -> Result<u64, String> {
        match self {
            Self::Memory => Ok(0),
            Self::Device(major, minor) => {
                let text =
                    fs::read_to_string("/proc/diskstats").map_err(|e| format!("/proc/diskstats: {e}"))?;
                let none = || format!("/proc/diskstats has no device {major}:{minor}");
                io_ticks(&text, (*major, *minor)).ok_or_else(none)
            }
        }
    }
}

/// Type and source of the mount with this device. A line of proc_pid_mountinfo(5) is
/// `36 35 0:45 / /mnt rw … - btrfs /dev/sda1 rw`.
fn mounted(mounts: &str, (major, minor): (u32, u32)) -> Option<(&str, &str)> {
    let device = format!("{major}:{minor}");
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device.as_str()))?;
    let (_, of_system) = line.split_once(" - ")?;
    let mut words = of_system.split(' ');
    Some((words.next()?, words.next()?))
}

/// The thirteenth field of a line of `/proc/diskstats` (kernel: admin-guide/iostats, field 10).
fn io_ticks(text: &str, (major, minor): (u32, u32)) -> Option<u64> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        (number(0)? == u64::from(major) && number(1)? == u64::from(minor)).then(|| number(12))?
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: &str = "   7       0 loop0 455 0 7436 93 44035 2705 2232760 29979 0 23828 49894 0 0 0 0 1 2\n\
                          254       0 vda 1375185 60180 47879450 3246926 5555001 347126 346309808 2169985 3 991556 6079026\n";
    const MOUNTS: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                          30 22 0:27 / /dev/shm rw - tmpfs tmpfs rw\n\
                          31 22 0:45 /sub /data rw shared:1 - btrfs /dev/sdb1 rw,subvol=/sub\n";

    #[test]
    fn the_busy_time_is_that_of_the_devices_line() {
        assert_eq!(io_ticks(DISKS, (254, 0)), Some(991_556));
        assert_eq!(io_ticks(DISKS, (7, 0)), Some(23_828));
        assert_eq!(io_ticks(DISKS, (8, 0)), None);
        assert_eq!(mounted(MOUNTS, (0, 27)), Some(("tmpfs", "tmpfs")));
        assert_eq!(mounted(MOUNTS, (0, 45)), Some(("btrfs", "/dev/sdb1")));
        assert_eq!(mounted(MOUNTS, (0, 99)), None);
    }

    #[test]
    fn a_folder_has_a_disk_or_it_is_said_why_not() {
        let folder = tempfile::tempdir().unwrap();
        match WaitSources::of(Some(folder.path()), None).read_totals().disk_busy_ms {
            Offered::Value(_) => {}
            Offered::NotOffered(why) => assert!(why.contains("disk") || why.contains("device"), "{why}"),
        }
        let missing = folder.path().join("missing");
        assert!(WaitSources::of(Some(&missing), None).read_totals().disk_busy_ms.value().is_none());
        let Offered::NotOffered(why) = WaitSources::of(None, None).read_totals().disk_busy_ms else {
            panic!()
        };
        assert!(why.contains("--server-data"), "{why}");
    }

    #[test]
    fn pressure_is_read_from_its_totals() {
        let text = "some avg10=0.04 avg60=3.38 avg300=11.21 total=542237656\n\
                    full avg10=0.00 avg60=1.95 avg300=6.56 total=162920450\n";
        let read = pressure(text, PressureOf::Machine).unwrap();
        assert_eq!((read.some_us, read.full_us), (542_237_656, 162_920_450));
        assert_eq!(pressure("some avg10=0.04 total=x\n", PressureOf::Machine), None);
    }

    #[test]
    fn the_window_is_what_lies_between() {
        let totals = |busy_ms: u64, some_us: u64, reached: u64| WaitTotals {
            disk_busy_ms: Offered::Value(busy_ms),
            disk: Offered::Value(PressureTotals { some_us, full_us: some_us / 2, of: PressureOf::Server }),
            memory: Offered::NotOffered("no psi".into()),
            memory_limit: Offered::Value([64_000_000, reached]),
            network: Offered::Value(Network::Loopback),
            boot: String::new(),
        };
        let found = waits(&totals(1_000, 500_000, 7), &totals(2_500, 2_500_000, 12), 10.0);
        assert_eq!(found.disk_busy_percent, Offered::Value(15.0));
        let waited = Pressure { some_percent: 20.0, full_percent: 10.0, of: PressureOf::Server };
        assert_eq!(found.disk_pressure, Offered::Value(waited));
        assert_eq!(found.memory_pressure, Offered::NotOffered("no psi".into()));
        assert_eq!(found.memory_limit, Offered::Value(MemoryLimit { bytes: 64_000_000, reached: 5 }));
        // Steps of the kernel's clock.
        let more = waits(&totals(0, 0, 0), &totals(1_004, 0, 0), 1.0);
        assert_eq!(more.disk_busy_percent, Offered::Value(100.0));
    }
}
