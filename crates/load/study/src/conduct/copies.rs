//! The filled store of a server, and copies of it.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::server::output;

/// The folder in which the filled store of a server's folder is kept.
pub(super) fn filled_beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".filled");
    folder.with_file_name(name)
}

/// Makes a folder a copy of another one, with owners, times and holes, and waits until it is on
/// the disk. So no server is measured while the copy is written.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    let [source, target] = [from, to].map(|path| path.display().to_string());
    output(&["cp", "-a", "--reflink=auto", "--", &source, &target])?;
    let folder = fs::File::open(to).map_err(|e| format!("{target}: {e}"))?;
    // SAFETY: a descriptor that is open; nothing in memory is touched.
    match unsafe { libc::syncfs(folder.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(format!("{target}: {}", std::io::Error::last_os_error())),
    }
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
        fs::create_dir_all(filled.join("mail")).unwrap();
        fs::write(filled.join("mail/1"), "one").unwrap();
        copy(&filled, &folder).unwrap();
        fs::write(folder.join("mail/1"), "changed").unwrap();
        fs::write(folder.join("mail/2"), "more").unwrap();
        copy(&filled, &folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("mail/1")).unwrap(), "one");
        assert!(!folder.join("mail/2").exists());
        assert!(copy(&work.path().join("missing"), &folder).is_err());
    }

    #[test]
    fn a_file_with_two_names_takes_its_bytes_once_also_in_a_copy() {
        let work = tempfile::tempdir().unwrap();
        let (filled, folder) = (work.path().join("a.filled"), work.path().join("a"));
        fs::create_dir_all(&filled).unwrap();
        fs::write(filled.join("1"), vec![7; 1 << 20]).unwrap();
        let one = allocated(&filled);
        fs::hard_link(filled.join("1"), filled.join("2")).unwrap();
        copy(&filled, &folder).unwrap();
        assert!(one >= 1 << 20);
        for both in [allocated(&filled), allocated(&folder)] {
            assert!(both < one + (1 << 19), "{both} after {one}");
        }
    }
}
