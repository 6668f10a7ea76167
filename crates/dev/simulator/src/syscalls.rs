//! Stands between the program and libc, so that every change of a watched directory is seen.
//!
//! The functions here have the names of libc's. The linker resolves a name to the executable's own
//! definition before it looks into shared libraries. So LMDB's C code and Rust's standard library
//! call these functions. Each passes the system call as a closure to the [`Watcher`], which makes
//! it. Changes through a shared map are not seen: LMDB makes such changes only to its lock file,
//! which it makes again at the first open.
//!
//! Linux on x86-64 and aarch64 only: `open` and `openat` take their mode as an ordinary argument
//! here. Both calling conventions pass a variable argument of that size as they pass an ordinary
//! one.

#![allow(clippy::missing_safety_doc, missing_docs)]

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_long, c_void, iovec, mode_t, off_t, size_t, ssize_t};

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the simulator needs Linux on x86-64 or aarch64");

/// The outcome of a system call: its result, or `errno`.
pub(crate) type Called = Result<c_long, c_int>;

/// A path as libc gets it: relative to a directory, or not.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    pub(crate) dir: c_int,
    pub(crate) path: &'a [u8],
}

/// A change of names.
pub(crate) enum Change<'a> {
    Rename(Name<'a>, Name<'a>),
    Link(Name<'a>, Name<'a>),
    Remove(Name<'a>),
    MakeDirectory(Name<'a>),
}

/// Sees each call, and makes it or has it fail. A method that is left out makes the call.
pub(crate) trait Watcher: Sync {
    fn open(&self, _name: Name<'_>, _flags: c_int, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    /// `call` writes this many of the bytes.
    fn write(&self, _fd: c_int, parts: &[&[u8]], _at: Option<u64>, call: &dyn Fn(usize) -> Called) -> Called {
        call(parts.iter().map(|p| p.len()).sum())
    }
    fn read(&self, _fd: c_int, _at: u64, _len: u64, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    /// Reads from the file's position.
    fn read_next(&self, _fd: c_int, _len: u64, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    /// Maps a file; `call` answers the address.
    fn map(&self, _fd: c_int, _len: size_t, _offset: u64, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    fn resize(&self, _fd: c_int, _len: u64, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    /// Room for a file up to `end`.
    fn grow(&self, _fd: c_int, _end: u64, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    fn sync(&self, _fd: c_int, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    fn change(&self, _change: Change<'_>, call: &dyn Fn() -> Called) -> Called {
        call()
    }
    /// A lock. `attempt` takes it without waiting, or answers `None` if somebody has it.
    fn lock(&self, _attempt: &dyn Fn() -> Option<Called>, wait: &dyn Fn() -> Called) -> Called {
        wait()
    }
}

/// Sees nothing.
struct Nobody;

impl Watcher for Nobody {}

static WATCHER: OnceLock<&dyn Watcher> = OnceLock::new();

/// Has calls seen from now on. The first watcher stays.
pub(crate) fn set_watcher(watcher: &'static dyn Watcher) {
    WATCHER.get_or_init(|| watcher);
}

fn watcher() -> &'static dyn Watcher {
    WATCHER.get().copied().unwrap_or(&Nobody)
}

/// Keeps this module linked: the linker leaves out an unused module of a library, and libc's
/// functions would be used.
pub(crate) fn linked() -> bool {
    let ours: unsafe extern "C" fn(c_int) -> c_int = fdatasync;
    ours as usize != 0
}

/// The result of a system call as libc gives it: -1 and `errno`.
fn answer(result: Called) -> c_long {
    result.unwrap_or_else(|errno| {
        // SAFETY: libc gives a valid pointer to this thread's `errno`.
        unsafe { *libc::__errno_location() = errno };
        -1
    })
}

/// The result from libc's `syscall`.
fn result(value: c_long) -> Called {
    // SAFETY: libc gives a valid pointer to this thread's `errno`.
    if value == -1 { Err(unsafe { *libc::__errno_location() }) } else { Ok(value) }
}

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {
        // SAFETY: the arguments are those that our caller meant for libc's function of the same
        // name, which has the same contract. Two may differ. A watcher chooses how many bytes are
        // written, but never more than our caller has. A vector is written from its joined bytes,
        // which live for the call.
        result(unsafe { libc::syscall($number $(, $argument)*) })
    };
}

/// A path that a caller of libc gave.
///
/// # Safety
/// `path` is a string that ends with a zero byte and lives for the call.
unsafe fn text<'a>(path: *const c_char) -> &'a [u8] {
    if path.is_null() {
        return b"";
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(path) }.to_bytes()
}

/// The bytes that a caller of libc wants written.
///
/// # Safety
/// `buffer` points to `len` bytes that are all set, live for the call, and do not change meanwhile.
unsafe fn bytes<'a>(buffer: *const c_void, len: size_t) -> &'a [u8] {
    if len == 0 {
        return b"";
    }
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts(buffer.cast(), len) }
}

unsafe fn open_at(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let open = || call!(libc::SYS_openat, dir, path, flags, mode);
    // SAFETY: our caller gives what libc's `openat` requires: a string.
    let name = Name { dir, path: unsafe { text(path) } };
    answer(watcher().open(name, flags, &open)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the contract of libc's `open` is that of `openat` with the current directory.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as in `open`; the two are the same on 64-bit systems.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { open_at(dir, path, flags, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { open_at(dir, path, flags, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: our caller gives what libc's `write` requires: `len` bytes. It waits for the call, so
    // they do not change, and nobody writes bytes that were never set.
    let data = unsafe { bytes(buffer, len) };
    let write = |n: usize| call!(libc::SYS_write, fd, buffer, n.min(len));
    answer(watcher().write(fd, &[data], None, &write)) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: our caller gives what libc's `pwrite` requires, as in `write`.
    let data = unsafe { bytes(buffer, len) };
    let write = |n: usize| call!(libc::SYS_pwrite64, fd, buffer, n.min(len), at);
    answer(watcher().write(fd, &[data], Some(at as u64), &write)) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, buffer: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { pwrite(fd, buffer, len, at) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    let read = || call!(libc::SYS_pread64, fd, buffer, len, at);
    answer(watcher().read(fd, at as u64, len as u64, &read)) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(fd: c_int, buffer: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { pread(fd, buffer, len, at) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t {
    let read = || call!(libc::SYS_read, fd, buffer, len);
    answer(watcher().read_next(fd, len as u64, &read)) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let map = || call!(libc::SYS_mmap, address, len, protection, flags, fd, offset);
    // An allocator's maps have no file: they are made without a look at them.
    let mapped = if fd < 0 { map() } else { watcher().map(fd, len, offset as u64, &map) };
    // A failure is -1, which is `MAP_FAILED`.
    answer(mapped) as *mut c_void
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the same contract; the two are the same on 64-bit systems.
    unsafe { mmap(address, len, protection, flags, fd, offset) }
}

unsafe fn write_vector(fd: c_int, parts: *const iovec, count: c_int, at: Option<u64>) -> ssize_t {
    let parts = match usize::try_from(count) {
        // SAFETY: our caller gives what libc's `writev` requires: `count` parts, each of which
        // names bytes that live for the call.
        Ok(count) if count > 0 => unsafe { std::slice::from_raw_parts(parts, count) },
        // The pointer may be null.
        _ => &[],
    };
    // SAFETY: each part is bytes as those of `write`.
    let data: Vec<&[u8]> = parts.iter().map(|p| unsafe { bytes(p.iov_base, p.iov_len) }).collect();
    let whole: Vec<u8> = data.concat();
    // To the file, a vector is one write of the joined bytes, and that write can be cut short
    // anywhere.
    let write = |n: usize| match at {
        Some(at) => call!(libc::SYS_pwrite64, fd, whole.as_ptr(), n.min(whole.len()), at),
        None => call!(libc::SYS_write, fd, whole.as_ptr(), n.min(whole.len())),
    };
    answer(watcher().write(fd, &data, at, &write)) as ssize_t
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { write_vector(fd, parts, count, None) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { write_vector(fd, parts, count, Some(at as u64)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: the same contract.
    unsafe { write_vector(fd, parts, count, Some(at as u64)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(fd: c_int, len: off_t) -> c_int {
    answer(watcher().resize(fd, len as u64, &|| call!(libc::SYS_ftruncate, fd, len))) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { ftruncate(fd, len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    let grow = || call!(libc::SYS_fallocate, fd, mode, at, len);
    // Only growth changes what a file says; the modes that punch holes are not used by anything
    // here.
    answer(watcher().grow(fd, (at + len) as u64, &grow)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { fallocate(fd, mode, at, len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int {
    let grow = || call!(libc::SYS_fallocate, fd, 0, at, len);
    // This one returns its error instead of setting `errno`.
    watcher().grow(fd, (at + len) as u64, &grow).map_or_else(|errno| errno, |_| 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { posix_fallocate(fd, at, len) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    answer(watcher().sync(fd, &|| call!(libc::SYS_fsync, fd))) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    answer(watcher().sync(fd, &|| call!(libc::SYS_fdatasync, fd))) as c_int
}

unsafe fn rename_at(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int {
    let rename = || call!(libc::SYS_renameat2, from_dir, from, to_dir, to, 0);
    // SAFETY: our caller gives what libc's `renameat` requires: strings.
    let names = unsafe { (text(from), text(to)) };
    let (from, to) = (Name { dir: from_dir, path: names.0 }, Name { dir: to_dir, path: names.1 });
    answer(watcher().change(Change::Rename(from, to), &rename)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the contract of `renameat` with the current directory.
    unsafe { rename_at(libc::AT_FDCWD, from, libc::AT_FDCWD, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { rename_at(from_dir, from, to_dir, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let link = || call!(libc::SYS_linkat, from_dir, from, to_dir, to, flags);
    // SAFETY: our caller gives what libc's `linkat` requires: strings.
    let names = unsafe { (text(from), text(to)) };
    let (from, to) = (Name { dir: from_dir, path: names.0 }, Name { dir: to_dir, path: names.1 });
    answer(watcher().change(Change::Link(from, to), &link)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the contract of `linkat` with the current directory.
    unsafe { linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    let remove = || call!(libc::SYS_unlinkat, dir, path, flags);
    // SAFETY: our caller gives what libc's `unlinkat` requires: a string.
    let name = Name { dir, path: unsafe { text(path) } };
    answer(watcher().change(Change::Remove(name), &remove)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the contract of `unlinkat` with the current directory.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the contract of `unlinkat` with the current directory.
    unsafe { unlinkat(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let make = || call!(libc::SYS_mkdirat, dir, path, mode);
    // SAFETY: our caller gives what libc's `mkdirat` requires: a string.
    let name = Name { dir, path: unsafe { text(path) } };
    answer(watcher().change(Change::MakeDirectory(name), &make)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the contract of `mkdirat` with the current directory.
    unsafe { mkdirat(libc::AT_FDCWD, path, mode) }
}

/// Taking a lock without waiting for it: `None` if somebody has it.
fn attempted(attempt: Called) -> Option<Called> {
    match attempt {
        Err(libc::EAGAIN | libc::EACCES) => None,
        done => Some(done),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn flock(fd: c_int, operation: c_int) -> c_int {
    let wait = || call!(libc::SYS_flock, fd, operation);
    if operation & (libc::LOCK_NB | libc::LOCK_UN) != 0 {
        return answer(wait()) as c_int;
    }
    let attempt = || attempted(call!(libc::SYS_flock, fd, operation | libc::LOCK_NB));
    answer(watcher().lock(&attempt, &wait)) as c_int
}

/// Its last argument is a number, a pointer, or left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: size_t) -> c_int {
    let wait = || call!(libc::SYS_fcntl, fd, command, argument);
    if command != libc::F_SETLKW {
        return answer(wait()) as c_int;
    }
    let attempt = || attempted(call!(libc::SYS_fcntl, fd, libc::F_SETLK, argument));
    answer(watcher().lock(&attempt, &wait)) as c_int
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: size_t) -> c_int {
    // SAFETY: the same contract.
    unsafe { fcntl(fd, command, argument) }
}

/// Time as the program sees it: [`crate::clock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, into: *mut libc::timespec) -> c_int {
    let called = answer(call!(libc::SYS_clock_gettime, clock, into)) as c_int;
    if called == 0 {
        // SAFETY: the call has written the time to where our caller wants it.
        crate::clock::shift(clock, unsafe { &mut *into });
    }
    called
}

/// LMDB's locks: a mutex in its lock file, which processes share. The mutexes of Rust's standard
/// library are others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> c_int {
    let done = |errno: c_int| if errno == 0 { Ok(0) } else { Err(errno) };
    let attempt = || {
        // SAFETY: our caller gives what libc's function requires.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            libc::EBUSY => None,
            errno => Some(done(errno)),
        }
    };
    let wait = || match libc_mutex_lock() {
        // SAFETY: the same contract.
        Some(lock) => done(unsafe { lock(mutex) }),
        None => loop {
            if let Some(done) = attempt() {
                return done;
            }
            std::thread::yield_now();
        },
    };
    // This one returns its error instead of setting `errno`.
    watcher().lock(&attempt, &wait).map_or_else(|errno| errno, |_| 0)
}

type MutexLock = unsafe extern "C" fn(*mut libc::pthread_mutex_t) -> c_int;

/// libc's own `pthread_mutex_lock`.
fn libc_mutex_lock() -> Option<MutexLock> {
    static LOCK: OnceLock<Option<MutexLock>> = OnceLock::new();
    *LOCK.get_or_init(|| {
        // SAFETY: the name is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_mutex_lock".as_ptr()) };
        // SAFETY: libc's function of that name has this type.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, MutexLock>(found) })
    })
}
