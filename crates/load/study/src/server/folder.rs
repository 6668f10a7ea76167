//! The folder of a server: a folder of this user's own. The place that --work names may be `/tmp`,
//! where another user can have made a folder of the same name, with links in it. Root would write
//! to their targets.
//!
//! Processes of some servers change users. They must be able to reach the folder.

use std::fs::{self, Metadata, Permissions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The permissions of a folder that is open to all: list it and pass through it.
const OPEN: u32 = 0o755;
/// Permission of everybody to pass through a folder.
const PASS: u32 = 0o001;

/// Makes a folder with those above it, or finds one that this user made.
///
/// # Errors
/// The folder is not a folder of this user's own, or cannot be made.
pub fn make_own(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    require_own(folder)
}

/// Makes an empty folder. What an earlier study left in its place is removed.
///
/// # Errors
/// What is in its place is not a folder of this user's own, or the folder cannot be made.
pub fn make_empty(folder: &Path) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above).map_err(fail)?;
    }
    if fs::symlink_metadata(folder).is_ok() {
        require_own(folder)?;
        fs::remove_dir_all(folder).map_err(fail)?;
    }
    // An error if another user has made one meanwhile.
    fs::create_dir(folder).map_err(fail)
}

/// Accepts a folder that is there.
///
/// # Errors
/// It is not a folder of this user's own.
pub fn require_own(folder: &Path) -> Result<(), String> {
    let own = fs::symlink_metadata(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    match own.is_dir() && is_ours(&own) {
        true => Ok(()),
        false => Err(format!(
            "{}: not a folder of this user's own; remove it, or name another place by --work",
            folder.display()
        )),
    }
}

/// Lets everybody into a server's own folder. Folders above it are not changed: they are the
/// system's or the user's (`--work /tmp`).
///
/// # Errors
/// The folder is not a folder of this user's own, or a folder above it keeps others out.
pub fn open_to_all(folder: &Path) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    require_own(folder)?;
    for above in fs::canonicalize(folder).map_err(fail)?.ancestors().skip(1) {
        let mode = fs::metadata(above).map_err(|e| format!("{}: {e}", above.display()))?.mode();
        if mode & PASS == 0 {
            return Err(format!(
                "{}: the server's processes run as another user and cannot pass through this folder; allow it by \
                 chmod o+x, or name another place by --work",
                above.display()
            ));
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(OPEN)).map_err(fail)
}

/// Empties the system's cache of a server's files, so that what it reads next comes from the disk
/// and is its own. Files that are not synced are synced first. Files that cannot be opened stay.
pub fn forget(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            forget(&entry.path());
        } else if kind.is_file()
            && let Ok(file) = fs::File::open(entry.path())
        {
            let _ = file.sync_data();
            // SAFETY: a descriptor that is open; this is advice about it, and touches no memory.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
}

/// Whether this user owns it.
pub fn is_ours(metadata: &Metadata) -> bool {
    // SAFETY: returns a number and cannot fail.
    metadata.uid() == unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_servers_folder_is_opened_and_none_above_it() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("dovecot");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        // As /tmp is.
        fs::set_permissions(work.path(), Permissions::from_mode(0o1777)).unwrap();
        open_to_all(&folder).unwrap();
        assert_eq!((mode(&folder), mode(work.path())), (0o755, 0o1777));
        fs::set_permissions(work.path(), Permissions::from_mode(0o700)).unwrap();
        let said = open_to_all(&folder).unwrap_err();
        assert!(said.contains("chmod o+x") && said.contains("--work"), "{said}");
        assert_eq!(mode(work.path()), 0o700);
    }

    #[test]
    fn files_stay_whole_when_their_cache_is_emptied() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join("below")).unwrap();
        let file = work.path().join("below/mail");
        fs::write(&file, vec![7; 100_000]).unwrap();
        std::os::unix::fs::symlink(work.path(), work.path().join("round")).unwrap();
        forget(work.path());
        forget(&work.path().join("missing"));
        assert_eq!(fs::read(&file).unwrap(), vec![7; 100_000]);
    }

    #[test]
    fn a_link_in_the_folders_place_is_not_followed() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::set_permissions(work.path(), Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(other.path(), Permissions::from_mode(0o700)).unwrap();
        let folder = work.path().join("dovecot");
        std::os::unix::fs::symlink(other.path(), &folder).unwrap();
        let said = open_to_all(&folder).unwrap_err();
        assert!(said.contains("not a folder of this user's own"), "{said}");
        assert_eq!(mode(other.path()), 0o700);
        fs::write(other.path().join("mail"), "kept").unwrap();
        for refused in [make_own(&folder), make_empty(&folder)] {
            assert!(refused.unwrap_err().contains("not a folder of this user's own"));
        }
        assert_eq!(fs::read_to_string(other.path().join("mail")).unwrap(), "kept");
    }

    #[test]
    fn a_folder_is_made_and_found_and_emptied() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("not yet/import");
        make_own(&folder).unwrap();
        fs::write(folder.join("left"), "").unwrap();
        make_own(&folder).unwrap();
        assert!(folder.join("left").exists());
        make_empty(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        make_empty(&work.path().join("neither/this")).unwrap();
    }

    /// As root alone, since only root can make a folder of another user.
    #[test]
    fn a_folder_of_another_user_is_refused() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = work.path().join("import");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(other.path(), folder.join("cur")).unwrap();
        if std::os::unix::fs::chown(&folder, Some(65_534), None).is_err() {
            eprintln!("skipped: folders of several users (run as root)");
            return;
        }
        for refused in [make_own(&folder), make_empty(&folder)] {
            assert!(refused.unwrap_err().contains("not a folder of this user's own"));
        }
    }
}
