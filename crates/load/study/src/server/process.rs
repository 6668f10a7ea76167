//! A child process that does not outlive the study: it gets a signal to stop when dropped, and is
//! killed after a while.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use posthaste_load_drive::interrupt;

use super::group::OwnGroup;

/// The time that a server may take to stop by itself.
const STOP: Duration = Duration::from_secs(15);
/// The time that a server may take to accept its first connection.
const START: Duration = Duration::from_secs(30);

/// A running child.
pub struct Child {
    child: process::Child,
    group: Option<OwnGroup>,
    memory_limited: bool,
}

impl Child {
    /// Starts a server that has no memory budget of its own: with a limit, a control group must
    /// hold it.
    pub fn within(
        name: &str,
        words: &[String],
        log: &std::path::Path,
        memory_mb: Option<u32>,
    ) -> Result<Self, String> {
        let child = Self::spawn(words, log, memory_mb)?;
        if memory_mb.is_some() && !child.is_memory_limited() {
            return Err(format!(
                "{name} has no memory budget of its own, and control groups that limit memory are not offered here"
            ));
        }
        Ok(child)
    }

    /// Starts the words of a command; its standard output can be read from [`Child::stdout`].
    ///
    /// Where this machine lets us make a control group, the child lives in one of its own. Its CPU
    /// and disk are then exact, and its memory can be limited. A shell enters the group before it
    /// becomes the program, so that nothing the program does is left out.
    pub fn spawn(words: &[String], log: &std::path::Path, memory_mb: Option<u32>) -> Result<Self, String> {
        let Some(program) = words.first() else { return Err("no command".into()) };
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let group = OwnGroup::make(&format!("posthaste-load-{}-{unique}", process::id()));
        let memory_limited = match (&group, memory_mb) {
            (Some(group), Some(mb)) => group.limit_memory(u64::from(mb) * 1_000_000),
            _ => false,
        };
        let mut script = String::new();
        for path in group.iter().flat_map(OwnGroup::paths) {
            script.push_str(&format!("echo $$ > '{}/cgroup.procs' && ", path.display()));
        }
        script.push_str("exec \"$@\"");
        let log = std::fs::File::create(log).map_err(|e| format!("{}: {e}", log.display()))?;
        let mut command = Command::new("sh");
        ends_with_the_study(&mut command);
        let child = command
            .args(["-c", &script, "sh"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        interrupt::on_exit_stop(child.id());
        Ok(Self { child, group, memory_limited })
    }

    /// The process's control group, if it has one of its own.
    pub fn cgroup(&self) -> Option<PathBuf> {
        self.group.as_ref().and_then(OwnGroup::accounting).map(Path::to_owned)
    }

    /// Whether the requested limit of memory holds.
    pub fn is_memory_limited(&self) -> bool {
        self.memory_limited
    }

    /// The process's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process's standard output.
    pub fn stdout(&mut self) -> Option<process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the port accepts; an error if the child ends first or it takes too long.
    pub fn wait_for(&mut self, port: u16) -> Result<(), String> {
        let started = Instant::now();
        loop {
            if TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status} before it accepted connections"));
            }
            if started.elapsed() > START {
                return Err(format!(
                    "it does not accept connections on port {port} after {} s",
                    START.as_secs()
                ));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Has a process stopped when the thread that starts it ends, also by `kill -9` of the whole
/// study. Otherwise its servers would run during the next sitting.
fn ends_with_the_study(command: &mut Command) {
    let study = process::id();
    let before_exec = move || {
        // SAFETY: both calls take and give numbers, and may be made between fork and exec
        // (signal-safety(7): they are plain system calls).
        let (set, parent) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong), libc::getppid()) };
        // The study may have ended before the call.
        match set == 0 && u32::try_from(parent) == Ok(study) {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock. It only makes the two calls above.
    unsafe { command.pre_exec(before_exec) };
}

impl Drop for Child {
    fn drop(&mut self) {
        let Ok(pid) = i32::try_from(self.child.id()) else { return };
        // From here on it is waited for: its id may become another's.
        interrupt::ended(self.child.id());
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // SAFETY: the call takes two numbers. The child runs or was not waited for, as was just
        // seen, so its id is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let started = Instant::now();
        while started.elapsed() < STOP {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that was free a moment ago, for servers that cannot choose one themselves.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
    listener.local_addr().map(|a| a.port()).map_err(|e| e.to_string())
}

/// The output of a command; an error with what it complained of if it fails.
pub fn output(words: &[&str]) -> Result<String, String> {
    let [program, arguments @ ..] = words else { return Err("no command".into()) };
    let out = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let out = out.map_err(|e| format!("{program}: {e}"))?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned()),
        false => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&out.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_stopped_when_dropped() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let child = Child::spawn(&["sleep".into(), "600".into()], log.path(), None).unwrap();
        let pid = child.pid();
        drop(child);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_child_that_ends_early_is_not_waited_for() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = Child::spawn(&["true".into()], log.path(), None).unwrap();
        let said = child.wait_for(free_port().unwrap()).unwrap_err();
        assert!(said.contains("before it accepted"), "{said}");
    }
}
