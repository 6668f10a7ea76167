//! Ctrl-C, for the whole program: once requests an orderly end, twice (or SIGTERM) ends it at once.
//!
//! The first call of [`wait`], [`happened`] or [`listen`] takes the signal over permanently, and no
//! press is lost between two of them. Servers that a study started are stopped before the program
//! ends ([`on_exit_stop`]). They have process groups of their own, so that the terminal does not
//! send them the first Ctrl-C. Then the folders made for them are removed ([`on_exit_remove`]).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The time that servers may take to stop before the program ends without them. Long enough for
/// one that has nothing left to do, short enough for a person who waits.
const STOPPING_MAX: Duration = Duration::from_secs(3);

/// Processes to stop when the program ends at once.
static CHILDREN: Mutex<Children> = Mutex::new(Children(BTreeMap::new()));
/// Folders to remove then.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static PRESSED: OnceLock<watch::Sender<bool>> = OnceLock::new();

/// Starts listening, if nobody did yet.
pub fn listen() {
    pressed();
}

/// Whether it was pressed.
pub fn happened() -> bool {
    *pressed().borrow()
}

/// Returns when it was pressed, also if that was long ago.
pub async fn wait() {
    let mut seen = pressed().subscribe();
    if seen.wait_for(|pressed| *pressed).await.is_err() {
        std::future::pending().await
    }
}

fn pressed() -> &'static watch::Sender<bool> {
    PRESSED.get_or_init(|| {
        let (pressed, _) = watch::channel(false);
        let (ready, taken) = std::sync::mpsc::channel();
        let sender = pressed.clone();
        // A program that cannot have a thread or the signal is ended by Ctrl-C as any other.
        let _ = std::thread::Builder::new().name("ctrl-c".into()).spawn(move || attend(&sender, &ready));
        let _ = taken.recv();
        pressed
    })
}

/// The listening thread's life.
fn attend(pressed: &watch::Sender<bool>, ready: &std::sync::mpsc::Sender<()>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let (Ok(mut presses), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        let _ = ready.send(());
        let twice = async {
            presses.recv().await;
            pressed.send_replace(true);
            eprintln!("posthaste-load: ending; what was done so far is kept (Ctrl-C again: stop at once)");
            presses.recv().await;
        };
        tokio::select! {
            () = twice => {}
            _ = terminate.recv() => {}
        }
        children(Children::stop);
        remove_folders();
        std::process::exit(1);
    });
}

/// Has a child stopped if the program ends at once. To be called before the child is waited for:
/// its number is its own until then.
pub fn on_exit_stop(pid: u32) {
    children(|children| children.add(pid));
}

/// Records that a child process has ended by itself.
pub fn ended(pid: u32) {
    children(|children| children.0.remove(&pid));
}

fn children<T>(with: impl FnOnce(&mut Children) -> T) -> T {
    with(&mut CHILDREN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Children by number, each with a descriptor of the process itself. The number alone would not do:
/// once another thread has waited for the child, the system may give it to another process.
struct Children(BTreeMap<u32, OwnedFd>);

impl Children {
    fn add(&mut self, pid: u32) {
        let Ok(number) = libc::pid_t::try_from(pid) else { return };
        // SAFETY: pidfd_open takes two numbers. What it returns is a new descriptor or -1.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
        // Linux before 5.3 has no such descriptors. There such a child is not stopped from here.
        let Some(descriptor) = RawFd::try_from(descriptor).ok().filter(|fd| *fd >= 0) else { return };
        // SAFETY: the call above has just opened it, and nothing else knows it.
        self.0.insert(pid, unsafe { OwnedFd::from_raw_fd(descriptor) });
    }

    /// Asks all to end, and waits for them for a while.
    fn stop(&mut self) {
        let children = std::mem::take(&mut self.0);
        for child in children.values() {
            let (child, no_details) = (child.as_raw_fd(), std::ptr::null::<libc::siginfo_t>());
            // SAFETY: the descriptor is open, and no details are handed over. A process that was
            // waited for already gets nothing.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, child, libc::SIGTERM, no_details, 0) };
        }
        let started = Instant::now();
        for child in children.values() {
            let left = STOPPING_MAX.saturating_sub(started.elapsed());
            let mut wait = libc::pollfd { fd: child.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, which outlives the call. The descriptor of a process becomes
            // readable when the process has ended (pidfd_open(2)).
            unsafe { libc::poll(&raw mut wait, 1, i32::try_from(left.as_millis()).unwrap_or(0)) };
        }
    }
}

/// Has a folder removed if the program ends at once.
pub fn on_exit_remove(path: &Path) {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
}

/// The folder is removed already.
pub fn removed(path: &Path) {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
}

fn remove_folders() {
    let started = Instant::now();
    for path in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // A control group is removed as if it were empty, though it shows files. It can be removed
        // only when its last process has ended, which may outlive the first for a moment.
        let is_group = path.starts_with("/sys");
        while path.exists() {
            let _ = if is_group { std::fs::remove_dir(path) } else { std::fs::remove_dir_all(path) };
            if !path.exists() || started.elapsed() > STOPPING_MAX {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if path.exists() {
            eprintln!("posthaste-load: {} stays", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Says `ready`, then `asked to end` if it is, else `left alone` when its input has a line.
    fn listener() -> Child {
        let script = "trap 'echo asked to end; exit' TERM; echo ready; read line; echo left alone";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// The child's output after `ready`. `before` runs once the child can be ended.
    fn said(child: &mut Child, before: impl FnOnce()) -> String {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        before();
        // It may have ended already.
        let _ = writeln!(child.stdin.take().unwrap());
        let said = lines.next().unwrap().unwrap();
        child.wait().unwrap();
        said
    }

    /// A listener with a number that another process had; `None` if the system gives it to nobody.
    fn with_number(pid: u32) -> Option<Child> {
        for _ in 0..200 {
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
            let mut child = listener();
            if child.id() == pid {
                return Some(child);
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        None
    }

    #[test]
    fn a_child_is_asked_to_end() {
        let mut child = listener();
        let mut children = Children(BTreeMap::new());
        children.add(child.id());
        assert_eq!(said(&mut child, || children.stop()), "asked to end");
    }

    /// Needs the right to choose the next process number: root, or a container that lets one.
    #[test]
    fn a_process_that_got_the_number_of_a_child_that_ended_is_left_alone() {
        let mut ended = Command::new("true").spawn().unwrap();
        let mut children = Children(BTreeMap::new());
        children.add(ended.id());
        ended.wait().unwrap();
        let Some(mut other) = with_number(ended.id()) else {
            eprintln!("skipped: the number of a process cannot be chosen here");
            return;
        };
        assert_eq!(said(&mut other, || children.stop()), "left alone");
    }
}
