//! A file of a data directory that a command appends to or locks. Root may do so in the directory
//! of another user. That user must be able to write the file later, and may have put something
//! else in its place.
//!
//! Invariant: root changes the owner of no file but one that it has just made.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::private;

/// A data directory that is held open. Its owner may put another in its place: files are made in
/// the one whose owner is known.
pub struct DataDirectory {
    handle: File,
    owner: u32,
}

impl DataDirectory {
    /// Opens the directory. Links in its path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let handle = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let owner = handle.metadata()?.uid();
        Ok(Self { handle, owner })
    }

    /// Whether this process is root's, and the directory another user's.
    pub fn is_foreign(&self) -> bool {
        private::user() == 0 && self.owner != 0
    }

    /// Opens a file to append; makes it if it is missing. In a foreign directory, its owner gets
    /// a new file, and must be the owner of an old one.
    ///
    /// Both calls do not follow links. Otherwise root would hand over the file that the owner of
    /// the directory has linked to.
    pub fn file(&self, name: &str) -> io::Result<File> {
        // A named pipe that nobody reads is an error and no wait.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open =
            |how: OFlags| openat(&self.handle, name, flags | how, Mode::RUSR | Mode::WUSR).map(File::from);
        match open(OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => {
                if self.is_foreign() {
                    fchown(&file, Some(self.owner), None)?;
                }
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let file = open(OFlags::empty()).map_err(|error| match error {
            Errno::LOOP => io::Error::other("it is a symbolic link; remove it"),
            // open(2): a socket, or a named pipe that nobody reads.
            Errno::NXIO => io::Error::other("it is not a file; remove it"),
            _ => error.into(),
        })?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is not a file; remove it"));
        }
        if self.is_foreign() && found.uid() != self.owner {
            let (of, owner) = (found.uid(), self.owner);
            let text = format!("it belongs to the user with id {of}, its directory to {owner}; remove it");
            return Err(io::Error::other(text));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_directory_that_became_a_link_is_not_entered() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (data, moved) = (dir.path().join("data"), dir.path().join("moved"));
        std::fs::create_dir(&data).unwrap();
        let opened = DataDirectory::open(&data).unwrap();
        std::fs::rename(&data, &moved).unwrap();
        symlink(elsewhere.path(), &data).unwrap();
        opened.file("file").unwrap();
        assert!(moved.join("file").exists() && !elsewhere.path().join("file").exists());
    }

    #[test]
    fn what_is_no_file_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(dir.path()).unwrap();
        let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
        symlink("none", dir.path().join("link")).unwrap();
        let refusal = |name| directory.file(name).unwrap_err().to_string();
        assert_eq!(refusal("socket"), "it is not a file; remove it");
        assert_eq!(refusal("link"), "it is a symbolic link; remove it");
    }
}
