//! The folders of an export. Where others can write, they may have put a link or a folder of their
//! own there before. Root would then write mail to a place of their choice.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Makes a folder with those above it. The target of the export, and each folder below it, is new
/// or one of this user or of root, and no link.
pub(super) fn create(target: &Path, folder: &Path) -> io::Result<()> {
    // The administrator names what is above the target.
    let Ok(below) = folder.strip_prefix(target) else { return fs::create_dir_all(folder) };
    if let Some(above) = target.parent() {
        fs::create_dir_all(above)?;
    }
    // Without a slash at the end, by which the system would follow a link.
    let mut path: PathBuf = target.components().collect();
    create_one(&path)?;
    for level in below.components() {
        path.push(level);
        create_one(&path)?;
    }
    Ok(())
}

/// Makes a folder, or finds one that may be written to.
fn create_one(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        done => return done,
    }
    let found = fs::symlink_metadata(path)?;
    let owner = found.uid();
    let why = if found.is_symlink() {
        "is a symbolic link, and an export follows none: name its target".to_owned()
    } else if !found.is_dir() {
        "is no folder: remove it, or name another target".to_owned()
    } else if owner != 0 && owner != geteuid().as_raw() {
        format!("belongs to the user with id {owner}, who could lead the export elsewhere: name a new folder")
    } else {
        return Ok(());
    };
    Err(io::Error::other(format!("{} {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// Any user but root.
    const OTHER: u32 = 65_534;

    fn refusal(target: &Path, folder: &Path) -> String {
        create(target, folder).unwrap_err().to_string()
    }

    #[test]
    fn folders_are_made_and_found() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/out");
        for _ in 0..2 {
            create(&target, &target.join("b/c")).unwrap();
            assert!(target.join("b/c").is_dir());
        }
        create(&target.join("x.mbox"), &target).unwrap();
        fs::write(target.join("file"), "x").unwrap();
        assert!(refusal(&target, &target.join("file/c")).contains("no folder"));
    }

    #[test]
    fn a_link_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (target, link) = (dir.path().join("out"), dir.path().join("link"));
        create(&target, &target).unwrap();
        for link in [&link, &target.join("INBOX"), &target.join("Archive")] {
            symlink(elsewhere.path(), link).unwrap();
        }
        let slash = dir.path().join("link/");
        for (target, folder) in [
            (&link, link.clone()),
            (&link, link.join("INBOX")),
            (&slash, slash.join("INBOX")),
            (&target, target.join("INBOX")),
            (&target, target.join("Archive/2024")),
        ] {
            let refusal = refusal(target, &folder);
            assert!(refusal.contains("symbolic link") && refusal.contains("name its target"), "{refusal}");
        }
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    /// As root alone, since only root can make a folder of another user.
    #[test]
    fn a_folder_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        create(&target, &target.join("INBOX")).unwrap();
        chown(target.join("INBOX"), Some(OTHER), None).unwrap();
        assert!(refusal(&target, &target.join("INBOX")).contains("the user with id 65534"));
        create(&target, &target.join("Sent")).unwrap();
        chown(&target, Some(OTHER), None).unwrap();
        assert!(refusal(&target, &target.join("Sent")).contains("name a new folder"));
    }
}
