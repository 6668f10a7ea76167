//! Listening on a Unix socket: its file, its permissions, and the removal of files that a dead
//! process left.
//!
//! The system checks the permissions of the file when somebody connects. The file gets its owner,
//! group and mode between `bind` and `listen`. Until then every connection is refused, so no
//! connection is accepted under other permissions.
//!
//! Invariants: only a socket on which nobody listens is replaced, and only the file that
//! this process made is removed at the end.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

use crate::{ACCEPT_BACKLOG, NetError};

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

/// A file that [`listen`] made. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let made = fs::symlink_metadata(path)?;
        Ok(Self { path: path.to_owned(), device: made.dev(), inode: made.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Ok(now) = fs::symlink_metadata(&self.path) else { return };
        // Somebody may have put another in its place.
        if (now.dev(), now.ino()) == (self.device, self.inode)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error,
                "cannot remove the socket; let the server's user write to its directory");
        }
    }
}

/// Binds and listens.
pub(crate) fn listen(path: &Path, access: SocketAccess) -> Result<(UnixListener, SocketFile), NetError> {
    let wrong = |why: String| NetError::UnixSocket { path: path.to_owned(), why };
    let failed = |what: &str, error: io::Error| wrong(format!("{what}: {error}"));
    let address = SockAddr::unix(path).map_err(|error| failed("this is not a path for a socket", error))?;
    let _alone = alone(path)?;
    replace_stale(path, &address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|error| failed("socket", error))?;
    socket.set_nonblocking(true).map_err(|error| failed("socket", error))?;
    socket.bind(&address).map_err(|error| {
        failed("the file cannot be made; let the server's user write to its directory", error)
    })?;
    let file = SocketFile::of(path).map_err(|error| failed("the file is not there", error))?;
    chown(path, access.owner, access.group).map_err(|error| {
        failed("its group cannot be set; the server's user must be a member of it", error)
    })?;
    fs::set_permissions(path, Permissions::from_mode(access.mode))
        .map_err(|error| failed("its mode cannot be set", error))?;
    socket.listen(ACCEPT_BACKLOG).map_err(|error| failed("listen", error))?;
    let listener =
        UnixListener::from_std(StdListener::from(socket)).map_err(|error| failed("listen", error))?;
    Ok((listener, file))
}

/// Keeps other servers from binding in the same directory meanwhile: two that find the same stale
/// socket would each remove what the other made.
fn alone(path: &Path) -> Result<File, NetError> {
    let wrong = |why: String| NetError::UnixSocket { path: path.to_owned(), why };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let lock = File::open(directory).map_err(|error| {
        wrong(format!(
            "its directory cannot be opened: {error}; make it and let the server's user read and write it"
        ))
    })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(wrong("another process locks its directory; try again, or stop that one".to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(wrong(format!("its directory cannot be locked: {error}"))),
    }
}

/// Removes a socket on which nobody listens. Everything else at that path is an error.
fn replace_stale(path: &Path, address: &SockAddr) -> Result<(), NetError> {
    let wrong = |why: String| NetError::UnixSocket { path: path.to_owned(), why };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrong(error.to_string())),
        Ok(found) => found,
    };
    if !found.file_type().is_socket() {
        return Err(wrong(
            "a file of another kind has this name; remove it, or choose another path".to_owned(),
        ));
    }
    let live = || wrong("another process listens on it; stop that one, or choose another path".to_owned());
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|error| wrong(error.to_string()))?;
    // A full backlog of a live process would make the call wait.
    probe.set_nonblocking(true).map_err(|error| wrong(error.to_string()))?;
    match probe.connect(address) {
        // unix(7): nobody listens.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(wrong("it belongs to another user; remove it, or choose another path".to_owned()));
        }
        _ => return Err(live()),
    }
    fs::remove_file(path).map_err(|error| {
        wrong(format!("a dead process left it, and it cannot be removed: {error}; remove it as its owner"))
    })
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
}
