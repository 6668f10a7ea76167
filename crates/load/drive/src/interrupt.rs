//! Ctrl-C, for the whole program: once requests an orderly end, twice (or SIGTERM) ends it at once.
//!
//! The first call of [`wait`], [`happened`] or [`listen`] takes the signal over for good, and no
//! press is lost between two of them. Servers that a study started are stopped before the
//! program ends ([`on_exit_stop`]): they have process groups of their own, so that the terminal
//! does not send them the first Ctrl-C. Then the folders made for them go ([`on_exit_remove`]).

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long servers may take to stop before the program ends without them: long enough for one that
/// has nothing left to do, short enough for a person who waits.
const STOPPING_MAX: Duration = Duration::from_secs(3);

/// Processes to stop when the program ends at once.
static CHILDREN: Mutex<Option<HashSet<u32>>> = Mutex::new(None);
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

/// Returns when it was pressed, be it long ago.
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
        stop_children();
        remove_folders();
        std::process::exit(1);
    });
}

/// Has a child stopped if the program ends at once.
pub fn on_exit_stop(pid: u32) {
    children(|children| children.insert(pid));
}

/// It has ended by itself.
pub fn ended(pid: u32) {
    children(|children| children.remove(&pid));
}

fn children<T>(with: impl FnOnce(&mut HashSet<u32>) -> T) -> T {
    with(CHILDREN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn stop_children() {
    let pids: Vec<i32> = children(|c| c.iter().filter_map(|pid| i32::try_from(*pid).ok()).collect());
    for pid in &pids {
        // SAFETY: a signal to a child that was not waited for (it would have been taken out), so
        // its id is its own.
        unsafe { libc::kill(*pid, libc::SIGTERM) };
    }
    let started = Instant::now();
    for pid in pids {
        // SAFETY: `waitpid` waits for one child and gets no pointer to write to. Should the thread
        // that owns it wait for it at the same time, one of both gets the error that there is no
        // such child.
        while unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } == 0
            && started.elapsed() < STOPPING_MAX
        {
            std::thread::sleep(Duration::from_millis(10));
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
        // A control group is removed as if it were empty, though it shows files; and only when its
        // last process has ended, which may outlive the first for a moment.
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
