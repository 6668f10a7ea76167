//! Facts of the machine a figure belongs to.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_load_results::{Machine, Offered};
use serde::{Deserialize, Serialize};

/// A machine's facts about its clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClockFacts {
    /// Seconds since 1970.
    pub unix_s: f64,
    /// The machine's boot id.
    pub machine: String,
    /// The largest error of the clock against UTC.
    pub utc_bound_s: Offered<f64>,
}

/// Processors of the machine, counted once: those that this process may use become fewer when it
/// leaves some to the server.
static CPUS: OnceLock<u32> = OnceLock::new();

/// The facts of this machine. `mhz` overrides the clock.
pub fn facts(mhz: Option<f64>) -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let values = |name: &str| -> Vec<String> {
        let lines = cpuinfo.lines().filter(|l| l.split(':').next().is_some_and(|k| k.trim() == name));
        lines.filter_map(|l| l.split_once(':').map(|(_, v)| v.trim().to_owned())).collect()
    };
    let clocks: Vec<f64> = values("cpu MHz").iter().filter_map(|v| v.parse().ok()).collect();
    let (mhz, mhz_source) = match mhz {
        Some(mhz) => (mhz, "given by --mhz".to_owned()),
        None if !clocks.is_empty() => {
            let mean = clocks.iter().sum::<f64>() / clocks.len() as f64;
            (mean, "mean of `cpu MHz` in /proc/cpuinfo at the start of the run".to_owned())
        }
        None => (1000.0, "unknown: megacycles are CPU milliseconds; give --mhz".to_owned()),
    };
    let kernel = ["ostype", "osrelease"].map(|f| read(&format!("/proc/sys/kernel/{f}"))).join(" ");
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib: u64 = memory.and_then(|l| l.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0);
    Machine {
        cpu_model: values("model name").into_iter().next().unwrap_or_else(|| "unknown".into()),
        cpus: *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u32)),
        mhz,
        mhz_source,
        memory_bytes: kib * 1024,
        kernel,
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    }
}

/// The clock of this machine now.
pub fn clock() -> ClockFacts {
    let machine = read("/proc/sys/kernel/random/boot_id");
    let utc_bound_s = utc_bound_s();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ClockFacts { unix_s: now.as_secs_f64(), machine, utc_bound_s }
}

/// The largest error of this machine's clock against UTC, by its kernel.
fn utc_bound_s() -> Offered<f64> {
    // SAFETY: timex is plain numbers, for which all zeroes is a value. With `modes` zero the call
    // changes nothing; it fills the structure and keeps no pointer.
    let (state, found) = unsafe {
        let mut found: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut found), found)
    };
    if state < 0 {
        return Offered::NotOffered("the kernel does not say how far its clock is from UTC".into());
    }
    if state == libc::TIME_ERROR || found.status & libc::STA_UNSYNC != 0 {
        return Offered::NotOffered("its clock is not synchronised (adjtimex: STA_UNSYNC)".into());
    }
    Offered::Value(found.maxerror as f64 / 1e6)
}

/// Bytes that may still be written below a folder; `None` if nobody says.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is plain numbers, for which all zeroes is a value. The call reads a string
    // that ends in zero, fills the structure and keeps neither.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut found) == 0).then(|| found.f_bavail * found.f_frsize)
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|t| t.trim().to_owned()).unwrap_or_else(|_| "unknown".into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_machine() {
        let machine = super::facts(None);
        assert!(machine.cpus > 0 && machine.mhz > 0.0 && machine.memory_bytes > 0);
        assert_eq!(super::facts(Some(2270.0)).mhz, 2270.0);
    }

    #[test]
    fn a_folder_has_room_and_a_missing_one_has_nothing_to_say() {
        let folder = tempfile::tempdir().unwrap();
        assert!(super::free_bytes(folder.path()).is_some_and(|bytes| bytes > 0));
        assert_eq!(super::free_bytes(&folder.path().join("not there")), None);
    }
}
