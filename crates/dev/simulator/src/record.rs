//! Records every change of a watched directory, in order, and lets chosen ones fail.
//!
//! A [`Recorder`] watches one directory tree. Files and directories have numbers of its own
//! (*nodes*); the root is 0. An operation on a file is matched by device and inode, which a
//! duplicated or renamed file keeps. The recorder's lock is held while the system call runs, so
//! that the recorded order is the real one.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libc::{c_int, c_long, c_void, size_t};
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use posthaste_store::octets::{Octets, put_counted};

pub use crate::gate::Failure;
use crate::gate::{At, Gate, Leave};
use crate::op::{Data, FileId, Node, Op};
use crate::syscalls::{self, Called, Change, Name, Watcher};
use crate::unreadable;
use crate::wire;

/// Which operations fail. An operation's number is its place in the log.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// These fail with `EIO`; a write may be done in part.
    pub fail: BTreeMap<usize, Failure>,
    /// From this operation up to that one, files cannot grow and cannot be made: the disk is full.
    pub full: Option<(usize, usize)>,
    /// The process is killed before this operation.
    pub die: Option<usize>,
}

struct Inner {
    ops: Vec<Op>,
    nodes: Node,
    /// Device and inode of each node.
    ids: Vec<FileId>,
    /// The present file of each name in each directory.
    entries: BTreeMap<(Node, String), Node>,
    faults: Faults,
}

/// Watches one directory.
pub struct Recorder {
    root: PathBuf,
    /// Where each operation is written before it is done, for a process that may be killed.
    sink: Option<File>,
    inner: Mutex<Inner>,
    held: Mutex<Hold>,
    changed: Condvar,
}

/// Whether operations have to wait, and how many do.
#[derive(Default)]
struct Hold {
    on: bool,
    waiting: usize,
}

/// How long [`Recorder::wait_until_held`] waits for a request that writes nothing: far longer than
/// any request takes.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Registry {
    files: HashMap<FileId, (Arc<Recorder>, Node)>,
    recorders: Vec<Arc<Recorder>>,
}

/// Recorders that watch: none is the common case, and costs one load.
static WATCHING: AtomicUsize = AtomicUsize::new(0);

/// The gate at which this process waits for permission before each operation, if other processes
/// run.
static GATE: OnceLock<Gate> = OnceLock::new();

/// From now on, this process waits at the gate before each operation and lock.
pub(crate) fn set_gate(gate: Gate) -> &'static Gate {
    GATE.get_or_init(|| gate)
}

fn registry() -> &'static RwLock<Registry> {
    static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(RwLock::default)
}

impl Recorder {
    /// Watches a directory. Its present files get their numbers in the order of names, directories
    /// before their contents.
    pub fn watch(root: &Path) -> std::io::Result<Arc<Self>> {
        Self::watch_into(root, None)
    }

    /// Watches a directory that another process watches, too, and writes each operation to a file
    /// at once: the other reads it with [`Recorder::adopt`].
    pub fn watch_into(root: &Path, sink: Option<File>) -> std::io::Result<Arc<Self>> {
        assert!(syscalls::linked());
        syscalls::set_watcher(&Recorders);
        let inner = Inner {
            ops: Vec::new(),
            nodes: 0,
            ids: Vec::new(),
            entries: BTreeMap::new(),
            faults: Faults::default(),
        };
        let recorder = Arc::new(Self {
            root: root.to_owned(),
            sink,
            inner: Mutex::new(inner),
            held: Mutex::new(Hold::default()),
            changed: Condvar::new(),
        });
        recorder.register_tree(root, None)?;
        registry().write().recorders.push(Arc::clone(&recorder));
        WATCHING.fetch_add(1, Ordering::SeqCst);
        Ok(recorder)
    }

    fn register_tree(self: &Arc<Self>, path: &Path, within: Option<(Node, String)>) -> std::io::Result<()> {
        let meta = std::fs::symlink_metadata(path)?;
        let node = {
            let mut inner = self.inner.lock();
            let node = self.register((meta.dev(), meta.ino()), &mut inner);
            inner.entries.extend(within.map(|name| (name, node)));
            node
        };
        if meta.is_dir() {
            let mut names: Vec<_> =
                std::fs::read_dir(path)?.map(|e| Ok(e?.file_name())).collect::<std::io::Result<_>>()?;
            names.sort();
            for name in names {
                let within = (node, name.to_string_lossy().into_owned());
                self.register_tree(&path.join(&name), Some(within))?;
            }
        }
        Ok(())
    }

    fn register(self: &Arc<Self>, id: FileId, inner: &mut Inner) -> Node {
        let node = inner.nodes;
        inner.nodes += 1;
        inner.ids.push(id);
        registry().write().files.insert(id, (Arc::clone(self), node));
        node
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.inner.lock().ops.len()
    }

    /// Bytes in the sink.
    pub fn sunk(&self) -> u64 {
        self.sink.as_ref().and_then(|sink| sink.metadata().ok()).map_or(0, |meta| meta.len())
    }

    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The log so far.
    pub fn ops(&self) -> Vec<Op> {
        self.inner.lock().ops.clone()
    }

    /// Says which operations fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.inner.lock().faults = faults;
    }

    /// Has the next operation, and all after it, wait for [`Recorder::release`].
    pub fn hold(&self) {
        self.held.lock().on = true;
    }

    /// Waits until an operation is held.
    pub fn wait_until_held(&self) {
        let mut held = self.held.lock();
        while held.waiting == 0 {
            if self.changed.wait_for(&mut held, TIMEOUT).timed_out() {
                return;
            }
        }
    }

    /// Lets held operations continue.
    pub fn release(&self) {
        self.held.lock().on = false;
        self.changed.notify_all();
    }

    /// Forgets the directory; what happens in it from now on is not recorded.
    pub fn stop(&self) {
        let mut registry = registry().write();
        registry.files.retain(|_, (recorder, _)| !std::ptr::eq(&**recorder, self));
        registry.recorders.retain(|recorder| !std::ptr::eq(&**recorder, self));
        WATCHING.fetch_sub(1, Ordering::SeqCst);
    }

    /// Has the process killed before its operation of this number from now.
    pub fn die_after(&self, count: usize) {
        let mut inner = self.inner.lock();
        inner.faults.die = Some(inner.ops.len() + count);
    }

    /// Takes over operations that another process wrote to its sink. Returns how many of its bytes
    /// were whole operations.
    pub fn adopt(self: &Arc<Self>, bytes: &[u8]) -> usize {
        let mut inner = self.inner.lock();
        let mut read = Octets(bytes);
        let mut whole = 0;
        while let Some(frame) = read.counted() {
            let node = |id: FileId| match lookup(id) {
                Some((_, node)) => node,
                None => self.register(id, &mut inner),
            };
            if let Some(op) = wire::op_from(frame, node) {
                inner.note(&op);
                inner.ops.push(op);
            }
            whole = bytes.len() - read.0.len();
        }
        whole
    }

    /// Operations and what they say of files, in order: the only place where one is added.
    fn push(&self, inner: &mut Inner, op: Op) {
        if let Some(mut sink) = self.sink.as_ref() {
            let mut frame = Vec::new();
            put_counted(&mut frame, &wire::op_bytes(&op, &inner.ids));
            // A sink that is full or closed would make the log of the other process wrong.
            sink.write_all(&frame).expect("the sink takes every operation");
        }
        inner.note(&op);
        inner.ops.push(op);
    }

    /// Waits while operations are held and until this process may continue, and takes the lock
    /// under which the next operation is done.
    fn enter(&self) -> MutexGuard<'_, Inner> {
        self.wait_while_held();
        let leave = GATE.get().map_or(Leave::Go, |gate| gate.ask(At::Operation));
        let mut inner = self.inner.lock();
        let next = inner.ops.len();
        match leave {
            Leave::Go => {}
            Leave::Fail(how) => drop(inner.faults.fail.insert(next, how)),
            Leave::Full => inner.faults.full = Some((next, next + 1)),
        }
        inner
    }

    fn wait_while_held(&self) {
        let mut held = self.held.lock();
        if !held.on {
            return;
        }
        held.waiting += 1;
        self.changed.notify_all();
        while held.on {
            self.changed.wait(&mut held);
        }
        held.waiting -= 1;
    }
}

/// The fate of an operation.
enum Fate {
    Done,
    Fails(c_int, Failure),
}

impl Inner {
    /// Keeps the names up to date.
    fn note(&mut self, op: &Op) {
        match op {
            Op::Create { dir, name, node }
            | Op::MakeDirectory { dir, name, node }
            | Op::Link { dir, name, node } => {
                self.entries.insert((*dir, name.clone()), *node);
            }
            Op::Rename { from, to } => {
                if let Some(node) = self.entries.remove(from) {
                    self.entries.insert(to.clone(), node);
                }
            }
            Op::Exchange { one, other } => {
                if let (Some(a), Some(b)) = (self.entries.remove(one), self.entries.remove(other)) {
                    self.entries.extend([(one.clone(), b), (other.clone(), a)]);
                }
            }
            Op::Remove { dir, name } => {
                self.entries.remove(&(*dir, name.clone()));
            }
            _ => {}
        }
    }

    /// Two directories that changed places since: `renameat2` is called without libc. The directory
    /// that holds them is looked at when it is synced, which is the next thing after such a call. A
    /// file may have two names, so that one cannot know which of them was meant.
    fn exchanged(&self, dir: Node, path: &Path) -> Option<Op> {
        for ((of, name), node) in
            self.entries.range((dir, String::new())..).take_while(|((d, _), _)| *d == dir)
        {
            let Some(there) = describe_name(libc::AT_FDCWD, path.join(name).as_os_str().as_bytes()) else {
                continue;
            };
            if !there.is_directory {
                continue;
            }
            let now = lookup(there.id).map_or(*node, |(_, now)| now);
            if now != *node {
                let (other, _) = self.entries.iter().find(|(_, n)| **n == now)?;
                return Some(Op::Exchange { one: (*of, name.clone()), other: other.clone() });
            }
        }
        None
    }

    fn fate(&self, grows: bool) -> Fate {
        let at = self.ops.len();
        if let Some(how) = self.faults.fail.get(&at) {
            return Fate::Fails(libc::EIO, *how);
        }
        if self.faults.die == Some(at) {
            // SAFETY: a signal to the process itself, with plain values.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        if grows && self.faults.full.is_some_and(|(from, to)| (from..to).contains(&at)) {
            return Fate::Fails(libc::ENOSPC, Failure::Whole);
        }
        Fate::Done
    }
}

/// Device and inode, length and number of names of the file that a call describes.
struct Described {
    id: FileId,
    len: u64,
    names: u64,
    is_directory: bool,
}

fn described(stat: &libc::stat) -> Described {
    Described {
        id: (stat.st_dev, stat.st_ino),
        len: stat.st_size as u64,
        names: stat.st_nlink,
        is_directory: stat.st_mode & libc::S_IFMT == libc::S_IFDIR,
    }
}

fn describe(fd: c_int) -> Option<Described> {
    // SAFETY: all zeroes is a valid `stat`, and `fstat` writes into one that lives for the call.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as before.
    (unsafe { libc::fstat(fd, &mut stat) } == 0).then(|| described(&stat))
}

fn describe_name(dir: c_int, path: &[u8]) -> Option<Described> {
    let path = CString::new(path).ok()?;
    // SAFETY: all zeroes is a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a string and `stat` a valid one, both of which live for the call.
    let found = unsafe { libc::fstatat(dir, path.as_ptr(), &mut stat, libc::AT_SYMLINK_NOFOLLOW) };
    (found == 0).then(|| described(&stat))
}

fn lookup(id: FileId) -> Option<(Arc<Recorder>, Node)> {
    registry().read().files.get(&id).cloned()
}

/// As [`lookup`], but a file that another process made is found by its path.
fn lookup_path(id: FileId, path: impl FnOnce() -> Option<PathBuf>) -> Option<(Arc<Recorder>, Node)> {
    if let Some(known) = lookup(id) {
        return Some(known);
    }
    let path = path()?;
    let of = |recorder: &&Arc<Recorder>| recorder.sink.is_some() && path.starts_with(&recorder.root);
    let recorder = registry().read().recorders.iter().find(of).cloned()?;
    let node = recorder.register(id, &mut recorder.inner.lock());
    Some((recorder, node))
}

/// The recorder and node of an open file, if it is watched, and its length.
fn watched(fd: c_int) -> Option<(Arc<Recorder>, Node, u64)> {
    if WATCHING.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let described = describe(fd)?;
    let path = || std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
    let (recorder, node) = lookup_path(described.id, path)?;
    Some((recorder, node, described.len))
}

/// The directory and last part of a name, if the directory is watched.
fn watched_name(name: Name<'_>) -> Option<(Arc<Recorder>, Node, String)> {
    if WATCHING.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(name.path));
    let last = path.file_name()?.to_string_lossy().into_owned();
    let parent = path.parent().map(|p| p.as_os_str().as_bytes()).unwrap_or_default();
    let parent = if parent.is_empty() { b"." } else { parent };
    let absolute = || path.parent().filter(|p| p.is_absolute()).map(Path::to_owned);
    let (recorder, node) = lookup_path(describe_name(name.dir, parent)?.id, absolute)?;
    Some((recorder, node, last))
}

fn copied(parts: &[&[u8]], len: usize) -> Data {
    if parts.iter().all(|part| part.iter().all(|b| *b == 0)) {
        return Data::Zeroes(len);
    }
    let mut bytes = parts.concat();
    bytes.truncate(len);
    Data::Bytes(bytes.into())
}

/// All recorders, as watcher of the system calls.
struct Recorders;

impl Watcher for Recorders {
    fn open(&self, name: Name<'_>, flags: c_int, open: &dyn Fn() -> Called) -> Called {
        if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 {
            return open();
        }
        let Some((recorder, dir, last)) = watched_name(name) else { return open() };
        let mut inner = recorder.enter();
        let before = describe_name(name.dir, name.path);
        let changes = before.as_ref().is_none_or(|d| flags & libc::O_TRUNC != 0 && d.len > 0);
        if !changes {
            return open();
        }
        if let Fate::Fails(errno, _) = inner.fate(before.is_none()) {
            recorder.push(&mut inner, Op::Failed("open"));
            return Err(errno);
        }
        let fd = open()?;
        match before {
            Some(before) => {
                if let Some((_, node)) = lookup(before.id) {
                    recorder.push(&mut inner, Op::Resize { node, len: 0 });
                }
            }
            None => {
                let id = describe(fd as c_int).ok_or(libc::EIO)?.id;
                let node = recorder.register(id, &mut inner);
                recorder.push(&mut inner, Op::Create { dir, name: last, node });
            }
        }
        Ok(fd)
    }

    /// `call` writes this many of the bytes.
    fn write(&self, fd: c_int, parts: &[&[u8]], at: Option<u64>, call: &dyn Fn(usize) -> Called) -> Called {
        let len = parts.iter().map(|p| p.len()).sum();
        let Some((recorder, node, size)) = watched(fd) else { return call(len) };
        let mut inner = recorder.enter();
        // SAFETY: the call takes and gives plain values.
        let position = || unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
        // SAFETY: as before.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let at = at.unwrap_or_else(|| position() as u64);
        let fate = inner.fate(at + len as u64 > size);
        let allowed = match fate {
            Fate::Done => len,
            Fate::Fails(_, Failure::Half) => len / 2,
            Fate::Fails(_, Failure::Whole) => 0,
        };
        let written = if allowed > 0 { call(allowed)? as usize } else { 0 };
        let durable = flags & (libc::O_DSYNC | libc::O_SYNC) != 0 && matches!(fate, Fate::Done);
        if written > 0 {
            let data = copied(parts, written);
            recorder.push(&mut inner, Op::Write { node, at, data, durable });
        } else if len > 0 {
            recorder.push(&mut inner, Op::Failed("write"));
        }
        match fate {
            Fate::Done => Ok(written as c_long),
            Fate::Fails(errno, _) => Err(errno),
        }
    }

    /// Beside other processes, no process waits for a lock in the kernel: the scheduler sees which
    /// ones wait.
    fn lock(&self, attempt: &dyn Fn() -> Option<Called>, wait: &dyn Fn() -> Called) -> Called {
        let Some(gate) = GATE.get() else { return wait() };
        let held = registry().read().recorders.first().cloned();
        held.iter().for_each(|recorder| recorder.wait_while_held());
        gate.ask(At::Lock);
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            gate.ask(At::TakenLock);
        }
    }

    /// A read changes nothing, and fails only if a fault is set for it. Beside other processes it
    /// is a point at which they may continue.
    fn read(&self, fd: c_int, at: u64, len: u64, call: &dyn Fn() -> Called) -> Called {
        if let Some(gate) = GATE.get()
            && gate.is_read_asked()
            && watched(fd).is_some()
        {
            gate.ask(At::Read);
        }
        if unreadable::is_hit(fd, || at, len) { Err(libc::EIO) } else { call() }
    }

    /// The store reads what is small in this way, and no process waits here for another one.
    fn read_next(&self, fd: c_int, len: u64, call: &dyn Fn() -> Called) -> Called {
        // SAFETY: the call takes and gives plain values.
        let at = || unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) } as u64;
        if unreadable::is_hit(fd, at, len) { Err(libc::EIO) } else { call() }
    }

    fn map(&self, fd: c_int, len: size_t, offset: u64, call: &dyn Fn() -> Called) -> Called {
        let address = call()?;
        let taken = unreadable::mapped(address as *mut c_void, len, fd, offset);
        taken.map(|()| address).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    fn resize(&self, fd: c_int, len: u64, call: &dyn Fn() -> Called) -> Called {
        let Some((recorder, node, size)) = watched(fd) else { return call() };
        let mut inner = recorder.enter();
        if let Fate::Fails(errno, _) = inner.fate(false) {
            recorder.push(&mut inner, Op::Failed("truncate"));
            return Err(errno);
        }
        let done = call()?;
        if len != size {
            recorder.push(&mut inner, Op::Resize { node, len });
        }
        Ok(done)
    }

    /// Room for a file up to `end`.
    fn grow(&self, fd: c_int, end: u64, call: &dyn Fn() -> Called) -> Called {
        let Some((recorder, node, size)) = watched(fd) else { return call() };
        let mut inner = recorder.enter();
        if let Fate::Fails(errno, _) = inner.fate(end > size) {
            recorder.push(&mut inner, Op::Failed("fallocate"));
            return Err(errno);
        }
        let done = call()?;
        if end > size {
            recorder.push(&mut inner, Op::Resize { node, len: end });
        }
        Ok(done)
    }

    fn sync(&self, fd: c_int, call: &dyn Fn() -> Called) -> Called {
        let Some((recorder, node, _)) = watched(fd) else { return call() };
        let mut inner = recorder.enter();
        // Files are synced far more often than directories, and their names are not of interest.
        if describe(fd).is_some_and(|file| file.is_directory)
            && let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            && let Some(exchange) = inner.exchanged(node, &path)
        {
            recorder.push(&mut inner, exchange);
        }
        if let Fate::Fails(errno, _) = inner.fate(false) {
            recorder.push(&mut inner, Op::SyncFailed { node });
            return Err(errno);
        }
        // Only the record counts: the directory under test lives in memory.
        recorder.push(&mut inner, Op::Sync { node });
        Ok(0)
    }

    fn change(&self, change: Change<'_>, call: &dyn Fn() -> Called) -> Called {
        let (Change::Rename(_, name)
        | Change::Link(_, name)
        | Change::Remove(name)
        | Change::MakeDirectory(name)) = &change;
        let Some((recorder, dir, last)) = watched_name(*name) else { return call() };
        let source = match &change {
            Change::Rename(from, _) | Change::Link(from, _) => watched_name(*from),
            _ => None,
        };
        let mut inner = recorder.enter();
        let grows = matches!(change, Change::Link(..) | Change::MakeDirectory(_));
        if let Fate::Fails(errno, _) = inner.fate(grows) {
            recorder.push(&mut inner, Op::Failed("change of a name"));
            return Err(errno);
        }
        let target = describe_name(name.dir, name.path);
        let source_id = match &change {
            Change::Rename(from, _) | Change::Link(from, _) => describe_name(from.dir, from.path),
            _ => None,
        };
        let done = call()?;
        let unwatch = |id: &Described| {
            // An inode without a name may be given to another file.
            if id.names <= 1 {
                registry().write().files.remove(&id.id);
            }
        };
        match change {
            Change::Rename(..) => {
                if let Some((_, from_dir, from)) = source {
                    target.iter().for_each(unwatch);
                    recorder.push(&mut inner, Op::Rename { from: (from_dir, from), to: (dir, last) });
                }
            }
            Change::Link(..) => {
                if let Some((_, node)) = source_id.and_then(|d| lookup(d.id)) {
                    recorder.push(&mut inner, Op::Link { dir, name: last, node });
                }
            }
            Change::Remove(_) => {
                target.iter().for_each(unwatch);
                recorder.push(&mut inner, Op::Remove { dir, name: last });
            }
            Change::MakeDirectory(_) => {
                if let Some(made) = describe_name(name.dir, name.path) {
                    let node = recorder.register(made.id, &mut inner);
                    recorder.push(&mut inner, Op::MakeDirectory { dir, name: last, node });
                }
            }
        }
        Ok(done)
    }
}
