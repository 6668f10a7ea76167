//! The filled store of a server, and copies of it.

use std::collections::HashSet;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::server::{output, require_own};

/// The folder in which the filled store of a server's folder is kept.
pub(super) fn filled_beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".filled");
    folder.with_file_name(name)
}

/// Makes a folder a copy of the filled one again, with owners, times and holes, and waits until it
/// is on the disk. So no server is measured while the copy is written.
///
/// Only files that a server changed are copied. Some servers have a file for each message: copying
/// 11,500 of them takes longer than a quick point, and most of them stay as they were.
pub(super) fn put_back(filled: &Path, folder: &Path) -> Result<(), String> {
    let [source, target] = [filled, folder].map(|path| path.display().to_string());
    if fs::symlink_metadata(folder).is_ok() {
        // Behind a link of another user there are other files, which would be removed.
        require_own(folder)?;
        remove_changed(filled, folder).map_err(|e| format!("{target}: {e}"))?;
    }
    // What is there was found to be the same. So this copies what is missing.
    output(&["cp", "-a", "--update", "--no-target-directory", "--reflink=auto", "--", &source, &target])?;
    let folder = fs::File::open(folder).map_err(|e| format!("{target}: {e}"))?;
    // SAFETY: a descriptor that is open; nothing in memory is touched.
    match unsafe { libc::syncfs(folder.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(format!("{target}: {}", std::io::Error::last_os_error())),
    }
}

/// Removes what a filled folder does not have, or has otherwise.
fn remove_changed(filled: &Path, folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, now) = (entry.path(), entry.metadata()?);
        let before = filled.join(entry.file_name());
        match fs::symlink_metadata(&before) {
            Ok(then) if now.is_dir() && then.is_dir() => remove_changed(&before, &path)?,
            Ok(then) if !now.is_dir() && is_unchanged(&then, &now) => {}
            _ if now.is_dir() => fs::remove_dir_all(&path)?,
            _ => fs::remove_file(&path)?,
        }
    }
    Ok(())
}

/// Whether a file is as it was copied. A copy has the time of its original, and every write sets
/// another one, also a write through a mapping.
fn is_unchanged(then: &fs::Metadata, now: &fs::Metadata) -> bool {
    let facts = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid(), of.size(), of.mtime(), of.mtime_nsec());
    facts(then) == facts(now)
}

/// Bytes that the files of a folder take on the disk, without holes. A file with several names
/// counts once, and one that cannot be read as none.
pub(super) fn allocated(path: &Path) -> u64 {
    allocated_besides(path, &mut HashSet::new())
}

fn allocated_besides(path: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let Ok(found) = fs::symlink_metadata(path) else { return 0 };
    if !seen.insert((found.dev(), found.ino())) {
        return 0;
    }
    let within = fs::read_dir(path).into_iter().flatten().flatten();
    found.blocks() * 512 + within.map(|entry| allocated_besides(&entry.path(), seen)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_filled_one_again() {
        let work = tempfile::tempdir().unwrap();
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        let texts = || {
            let read = |path: &str| fs::read_to_string(folder.join("mail").join(path)).ok();
            ["1", "2", "3", "in/4", "5"].map(read)
        };
        fs::create_dir_all(filled.join("mail/in")).unwrap();
        for path in ["1", "2", "3", "in/4"] {
            fs::write(filled.join("mail").join(path), format!("text {path}")).unwrap();
        }
        put_back(&filled, &folder).unwrap();
        let first = texts();
        assert_eq!(first[..4].iter().flatten().count(), 4);
        let file = |path: &str| fs::metadata(folder.join("mail").join(path)).unwrap().ino();
        let unchanged = file("3");
        // Changed in place with as many octets, lost, in a folder that is lost, new, and a folder
        // in place of a file.
        fs::write(folder.join("mail/1"), "TEXT 1").unwrap();
        fs::remove_file(folder.join("mail/2")).unwrap();
        fs::create_dir_all(folder.join("mail/2/new")).unwrap();
        fs::remove_dir_all(folder.join("mail/in")).unwrap();
        fs::write(folder.join("mail/5"), "new").unwrap();
        assert_ne!(texts(), first);
        put_back(&filled, &folder).unwrap();
        assert_eq!(texts(), first);
        assert_eq!(file("3"), unchanged, "it is not copied again");
        assert!(put_back(&work.path().join("missing"), &folder).is_err());
    }

    #[test]
    fn a_link_in_the_folders_place_is_not_followed() {
        let (work, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        fs::create_dir(&filled).unwrap();
        fs::write(other.path().join("mail"), "kept").unwrap();
        std::os::unix::fs::symlink(other.path(), &folder).unwrap();
        let said = put_back(&filled, &folder).unwrap_err();
        assert!(said.contains("not a folder of this user's own"), "{said}");
        assert_eq!(fs::read_to_string(other.path().join("mail")).unwrap(), "kept");
    }

    #[test]
    fn a_file_with_two_names_takes_its_bytes_once_also_in_a_copy() {
        let work = tempfile::tempdir().unwrap();
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        fs::create_dir_all(&filled).unwrap();
        fs::write(filled.join("1"), vec![7; 1 << 20]).unwrap();
        let one = allocated(&filled);
        fs::hard_link(filled.join("1"), filled.join("2")).unwrap();
        put_back(&filled, &folder).unwrap();
        assert!(one >= 1 << 20);
        for both in [allocated(&filled), allocated(&folder)] {
            assert!(both < one + (1 << 19), "{both} after {one}");
        }
    }
}
