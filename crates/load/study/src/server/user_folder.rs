//! Folders of another user in the folder of a server. Processes of some servers run as that user.
//!
//! Such a process may replace a folder by a link, and root would give away the link's target. So
//! each folder is opened by its name in the one that holds it, which is open already. No link is
//! followed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::folder::{is_ours, require_own};

/// The permissions of a new folder: its owner's, and everybody may list it.
const NEW: u32 = 0o755;

/// A folder that is held open.
pub struct OpenFolder {
    handle: File,
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder of this user's own.
    ///
    /// # Errors
    /// It is not one.
    pub fn own(path: &Path) -> Result<Self, String> {
        require_own(path)?;
        Self::open(CWD, path, path.to_owned())
    }

    /// Makes a folder in this one, or finds it. It belongs to this user and group afterwards.
    ///
    /// # Errors
    /// It cannot be made, or what has its name is a link or belongs to a third user.
    pub fn folder_of(&self, name: &str, (user, group): (u32, u32)) -> Result<Self, String> {
        let path = self.path.join(name);
        match mkdirat(&self.handle, name, Mode::from_raw_mode(NEW)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(fault(&path, &error.into())),
        }
        let folder = Self::open(&self.handle, Path::new(name), path)?;
        let found = folder.handle.metadata().map_err(|e| fault(&folder.path, &e))?;
        if !is_ours(&found) && found.uid() != user {
            return Err(refusal(&folder.path));
        }
        fchown(&folder.handle, Some(user), Some(group)).map_err(|e| fault(&folder.path, &e))?;
        Ok(folder)
    }

    fn open(above: impl AsFd, name: &Path, path: PathBuf) -> Result<Self, String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(above, name, flags, Mode::empty()) {
            Ok(handle) => Ok(Self { handle: handle.into(), path }),
            // open(2): a link that should be a folder is reported as "not a directory".
            Err(Errno::LOOP | Errno::NOTDIR) => Err(refusal(&path)),
            Err(error) => Err(fault(&path, &error.into())),
        }
    }
}

fn fault(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn refusal(path: &Path) -> String {
    format!(
        "{}: not a folder of this user or of the server's user; remove it, or name another place by --work",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// The user of servers, and another one.
    const NOBODY: u32 = 65_534;
    const OTHER: u32 = 65_533;

    /// As root alone, since only root can give a folder to another user.
    #[test]
    fn a_folder_is_given_away_and_the_target_of_a_link_is_not() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let third = work.path().join("third");
        fs::create_dir(&third).unwrap();
        if chown(&third, Some(OTHER), None).is_err() {
            eprintln!("skipped: folders of several users (run as root)");
            return;
        }
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        let make = |names: [&str; 2]| {
            let home = OpenFolder::own(work.path())?.folder_of(names[0], (NOBODY, NOBODY))?;
            home.folder_of(names[1], (NOBODY, NOBODY)).map(drop)
        };
        for _ in 0..2 {
            make(["home", "mail"]).unwrap();
            assert_eq!(owner(&work.path().join("home")), NOBODY);
            assert_eq!(owner(&work.path().join("home/mail")), NOBODY);
        }
        symlink(other.path(), work.path().join("home/linked")).unwrap();
        assert!(make(["home", "linked"]).unwrap_err().contains("home/linked: not a folder of this user"));
        assert_eq!(owner(other.path()), 0);
        fs::rename(&third, work.path().join("home/third")).unwrap();
        assert!(make(["home", "third"]).unwrap_err().contains("home/third: not a folder of this user"));
        assert_eq!(owner(&work.path().join("home/third")), OTHER);
        fs::write(work.path().join("home/file"), "").unwrap();
        assert!(make(["home", "file"]).is_err());
    }
}
