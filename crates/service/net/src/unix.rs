//! Listening on a Unix socket: its file, its permissions, and the removal of files that a dead
//! process left.
//!
//! The system checks the permissions of the file when somebody connects. The file gets its owner,
//! group and mode between `bind` and `listen`. Until then every connection is refused, so no
//! connection is accepted under other permissions.
//!
//! Root makes the file, mostly in a directory that the server's user may write. That user can
//! put a link to another file in its place at any time. So nothing is changed by a path. The
//! directory is held open, and owner and mode are set through a descriptor of the socket itself.
//!
//! Invariants: only a socket on which nobody listens is replaced, and only the file that
//! this process made is changed, and removed at the end.

use std::ffi::OsString;
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, openat, unlinkat};
use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

use crate::{ACCEPT_BACKLOG, NetError};

/// Network file systems may give each file to a user of their own.
const IN_ITS_PLACE: &str = "somebody has put another file in its place, or its file system gives it another owner; choose a directory on a local file system in which only root and the server's user can write";

/// The access to a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// Permissions of the file. Connecting needs the permission to write.
    pub mode: u32,
    /// Id of the user who owns the file; `None` leaves it to the system.
    pub owner: Option<u32>,
    /// Id of its group; `None` leaves it to the system.
    pub group: Option<u32>,
}

impl Default for SocketAccess {
    /// The owner and its group.
    fn default() -> Self {
        Self { mode: 0o660, owner: None, group: None }
    }
}

/// A name in a directory that is held open. A path may lead elsewhere at the next call.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    directory: File,
    name: OsString,
}

impl Place {
    fn of(path: &Path) -> Result<Self, NetError> {
        let wrong = |why: String| NetError::UnixSocket { path: path.to_owned(), why };
        let name = path.file_name().ok_or_else(|| wrong("this is not a path for a socket".to_owned()))?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = File::open(directory).map_err(|error| {
            wrong(format!(
                "its directory cannot be opened: {error}; make it and let the server's user read and write it"
            ))
        })?;
        Ok(Self { path: path.to_owned(), directory, name: name.to_owned() })
    }

    fn wrong(&self, why: String) -> NetError {
        NetError::UnixSocket { path: self.path.clone(), why }
    }

    /// Keeps other servers from binding in the same directory until [`unlock`](Self::unlock): two
    /// that find the same stale socket would each remove what the other made.
    fn lock(&self) -> Result<(), NetError> {
        match self.directory.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(self.wrong("another process locks its directory; try again, or stop that one".to_owned()))
            }
            Err(TryLockError::Error(error)) => {
                Err(self.wrong(format!("its directory cannot be locked: {error}")))
            }
        }
    }

    fn unlock(&self) {
        // It fails only for a descriptor that is not open.
        let _ = self.directory.unlock();
    }

    /// A descriptor of what has the name now. It neither reads nor writes, and follows no link.
    fn open(&self) -> io::Result<File> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, &self.name, flags, Mode::empty())?))
    }

    fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }

    /// Removes a socket on which nobody listens. Everything else with that name is an error.
    fn replace_stale(&self) -> Result<(), NetError> {
        let failed = |error: io::Error| self.wrong(error.to_string());
        let found = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            outcome => outcome.map_err(failed)?,
        };
        if !found.metadata().map_err(failed)?.file_type().is_socket() {
            return Err(self.wrong(
                "a file of another kind has this name; remove it, or choose another path".to_owned(),
            ));
        }
        let address = SockAddr::unix(path_of(&found)).map_err(failed)?;
        let probe = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
        // A full backlog of a live process would make the call wait.
        probe.set_nonblocking(true).map_err(failed)?;
        let why = match probe.connect(&address).map_err(|error| (error.kind(), error)) {
            // unix(7): nobody listens.
            Err((io::ErrorKind::ConnectionRefused, _)) => {
                return self.remove().map_err(|error| {
                    self.wrong(format!(
                        "a dead process left it, and it cannot be removed: {error}; remove it as its owner"
                    ))
                });
            }
            Err((io::ErrorKind::PermissionDenied, _)) => {
                "it belongs to another user; remove it, or choose another path".to_owned()
            }
            Err((io::ErrorKind::NotFound, error)) => format!("{}: {error}; mount /proc", path_of(&found)),
            _ => "another process listens on it; stop that one, or choose another path".to_owned(),
        };
        Err(self.wrong(why))
    }
}

/// A path that leads to the very file of a descriptor, whatever its name leads to.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A file that [`listen`] made. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    place: Place,
    /// The file itself. As long as it is open, no other file has its number.
    socket: File,
}

impl SocketFile {
    /// The file of a socket that this process has just bound. Another file in its place is an
    /// error, also if it is a second name of a socket of this user.
    fn of(place: Place) -> io::Result<Self> {
        let socket = place.open()?;
        let found = socket.metadata()?;
        let is_new = found.nlink() == 1 && found.uid() == geteuid().as_raw();
        if !found.file_type().is_socket() || !is_new {
            return Err(io::Error::other(IN_ITS_PLACE));
        }
        Ok(Self { place, socket })
    }

    /// Sets owner, group and mode of this very file.
    fn give(&self, access: SocketAccess) -> Result<(), NetError> {
        let failed = |what: &str, error: io::Error| self.place.wrong(format!("{what}: {error}"));
        let (owner, group) = (access.owner.map(Uid::from_raw), access.group.map(Gid::from_raw));
        chownat(&self.socket, "", owner, group, AtFlags::EMPTY_PATH).map_err(|error| {
            failed("its group cannot be set; the server's user must be a member of it", error.into())
        })?;
        // fchmod(2) refuses a descriptor that neither reads nor writes.
        fs::set_permissions(path_of(&self.socket), Permissions::from_mode(access.mode))
            .map_err(|error| failed("its mode cannot be set; /proc must be mounted", error))
    }

    /// Whether the name still belongs to this file.
    fn is_in_place(&self) -> io::Result<bool> {
        let (made, now) = (self.socket.metadata()?, self.place.open()?.metadata()?);
        Ok((made.dev(), made.ino()) == (now.dev(), now.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put another in its place.
        if let Ok(true) = self.is_in_place()
            && let Err(error) = self.place.remove()
        {
            tracing::warn!(path = %self.place.path.display(), %error,
                "cannot remove the socket; let the server's user write to its directory");
        }
    }
}

/// Binds and listens.
pub(crate) fn listen(path: &Path, access: SocketAccess) -> Result<(UnixListener, SocketFile), NetError> {
    let wrong = |why: String| NetError::UnixSocket { path: path.to_owned(), why };
    let failed = |what: &str, error: io::Error| wrong(format!("{what}: {error}"));
    let address = SockAddr::unix(path).map_err(|error| failed("this is not a path for a socket", error))?;
    let place = Place::of(path)?;
    place.lock()?;
    place.replace_stale()?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|error| failed("socket", error))?;
    socket.set_nonblocking(true).map_err(|error| failed("socket", error))?;
    socket.bind(&address).map_err(|error| {
        failed("the file cannot be made; let the server's user write to its directory", error)
    })?;
    let file = SocketFile::of(place).map_err(|error| failed("the new socket cannot be used", error))?;
    file.give(access)?;
    socket.listen(ACCEPT_BACKLOG).map_err(|error| failed("listen", error))?;
    file.place.unlock();
    let listener =
        UnixListener::from_std(StdListener::from(socket)).map_err(|error| failed("listen", error))?;
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(outcome: Result<(UnixListener, SocketFile), NetError>) -> String {
        outcome.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // The standard library leaves the file of a listener that ended, as a killed process does.
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists());
        let (listener, file) = listen(&path, SocketAccess::default()).unwrap();
        let said = error(listen(&path, SocketAccess::default()));
        assert!(said.contains("another process listens"), "{said}");
        assert!(path.exists(), "the live socket is as it was");
        drop((listener, file));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        fs::write(&path, "mail").unwrap();
        let said = error(listen(&path, SocketAccess::default()));
        assert!(said.contains("another kind") && said.contains("remove it"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), b"mail");
        let said = error(listen(&dir.path().join("none/s"), SocketAccess::default()));
        assert!(said.contains("its directory cannot be opened"), "{said}");
        let said = error(listen(&dir.path().join("n".repeat(200)), SocketAccess::default()));
        assert!(said.contains("not a path for a socket"), "{said}");
    }

    #[tokio::test]
    async fn the_file_has_its_mode_and_another_in_its_place_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        for mode in [0o600, 0o660, 0o666] {
            let (_listener, file) = listen(&path, SocketAccess { mode, ..Default::default() }).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode);
            drop(file);
        }
        let (_listener, file) = listen(&path, SocketAccess::default()).unwrap();
        // Both files exist at once, so they have two inodes.
        let other = dir.path().join("other");
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        drop(file);
        assert!(path.exists());
    }

    /// Root has bound the socket. The server's user has put another file in its place.
    #[test]
    fn another_file_in_its_place_is_not_given_away() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other, live) = (dir.path().join("s"), dir.path().join("other"), dir.path().join("live"));
        fs::write(&other, "root").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        let _live = StdListener::bind(&live).unwrap();
        fs::set_permissions(&live, Permissions::from_mode(0o600)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let swaps: [&dyn Fn() -> io::Result<()>; 4] = [
            &|| std::os::unix::fs::symlink(&other, &path),
            &|| fs::hard_link(&other, &path),
            &|| std::os::unix::fs::symlink(&live, &path),
            &|| fs::hard_link(&live, &path),
        ];
        for swap in swaps {
            // Before the file is found.
            let bound = StdListener::bind(&path).unwrap();
            fs::remove_file(&path).unwrap();
            swap().unwrap();
            let said = SocketFile::of(Place::of(&path).unwrap()).unwrap_err().to_string();
            assert!(said.contains("put another file in its place") && said.contains("choose"), "{said}");
            fs::remove_file(&path).unwrap();
            drop(bound);
            // After that, and before it gets its owner and mode.
            let bound = StdListener::bind(&path).unwrap();
            let file = SocketFile::of(Place::of(&path).unwrap()).unwrap();
            fs::rename(&path, dir.path().join("moved")).unwrap();
            swap().unwrap();
            file.give(SocketAccess { mode: 0o666, ..Default::default() }).unwrap();
            assert_eq!(mode(&dir.path().join("moved")), 0o666);
            drop((file, bound));
            assert!(path.symlink_metadata().is_ok(), "only the socket itself is removed");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!((mode(&other), mode(&live)), (0o600, 0o600));
    }

    /// A directory above becomes a link to another directory, which has a file of the same name.
    #[test]
    fn a_directory_that_became_a_link_is_not_entered() {
        let dir = tempfile::tempdir().unwrap();
        let (run, moved, elsewhere) =
            (dir.path().join("run"), dir.path().join("moved"), dir.path().join("elsewhere"));
        for made in [&run, &elsewhere] {
            fs::create_dir(made).unwrap();
            // A socket of a dead process.
            drop(StdListener::bind(made.join("s")).unwrap());
        }
        let place = Place::of(&run.join("s")).unwrap();
        fs::rename(&run, &moved).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &run).unwrap();
        place.replace_stale().unwrap();
        assert!(!moved.join("s").exists() && elsewhere.join("s").exists());
        let said = SocketFile::of(place).unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::NotFound);
    }
}
