//! Where the path of a source leads.
//!
//! A user who names a link means its target. But root may not be the author of the link. `Maildir`
//! in the home of one user may lead to the mail of another one, and `x.eml` to `/etc/shadow`. So
//! root follows a link, anywhere in the path, only if root made it in a folder where only root
//! makes names. Each part is opened in the folder before it: whatever takes its place then is not
//! followed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::geteuid;

use super::source_folder::{EntryKind, SourceFolder};

/// Links that are followed: as many as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What a path names.
pub(super) enum Named {
    /// A folder.
    Folder(SourceFolder),
    /// A file: its folder, and its name in it.
    File(SourceFolder, OsString),
    /// A pipe or a device.
    Other,
}

/// Finds what a path names, for the user who runs this program.
pub(super) fn find(path: &Path) -> io::Result<Named> {
    let user = geteuid();
    if user.is_root() { find_by_own_links(path, user.as_raw()) } else { find_by_any_links(path) }
}

fn find_by_any_links(path: &Path) -> io::Result<Named> {
    let found = fs::metadata(path)?;
    let real = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
    if found.is_dir() {
        return SourceFolder::named(&real).map(Named::Folder);
    }
    if !found.is_file() {
        return Ok(Named::Other);
    }
    let (folder, name) = SourceFolder::of_file(&real)?;
    Ok(Named::File(folder, name.to_owned()))
}

/// Follows the links that this user has made, and no others.
fn find_by_own_links(path: &Path, user: u32) -> io::Result<Named> {
    let mut folder = SourceFolder::named(Path::new(""))?;
    let (mut todo, mut links) = (backwards(path), 0);
    while let Some(part) = todo.pop() {
        match folder.kind(&part)? {
            EntryKind::Link => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                match folder.own_link(&part, user)? {
                    Some(target) => todo.extend(backwards(&target)),
                    None => return Err(foreign(&folder.path_of(&part), path)),
                }
            }
            EntryKind::Folder => folder = folder.folder(&part)?,
            _ if !todo.is_empty() => return Err(Errno::NOTDIR.into()),
            EntryKind::File => return Ok(Named::File(folder, part)),
            EntryKind::Other => return Ok(Named::Other),
        }
    }
    Ok(Named::Folder(folder))
}

/// The parts of a path, the last one first. `/` is one, and so is `..`.
fn backwards(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// The refusal of a link.
fn foreign(link: &Path, path: &Path) -> io::Error {
    let what = if link == path { "it".to_owned() } else { link.display().to_string() };
    let real =
        fs::canonicalize(path).map_or_else(|_| "its target".to_owned(), |real| real.display().to_string());
    io::Error::other(format!("{what} is a link, which another user may have made: name {real} itself"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    /// Any user but root.
    const OTHER: u32 = 65_534;

    /// Mail, and links to it in `home`.
    fn linked() -> (TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        // The links of the system above it do not matter here.
        let dir = fs::canonicalize(temporary.path()).unwrap();
        fs::create_dir_all(dir.join("real/box/cur")).unwrap();
        fs::create_dir(dir.join("home")).unwrap();
        fs::write(dir.join("real/m.eml"), "S: x\n").unwrap();
        for (name, target) in [("box", "../real/box"), ("way", "../real"), ("a", "b"), ("b", "a")] {
            symlink(target, dir.join("home").join(name)).unwrap();
        }
        symlink(dir.join("real/m.eml"), dir.join("home/m.eml")).unwrap();
        set_mode(&dir.join("home"), 0o700);
        (temporary, dir)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Links in `home`, and what each names.
    const LINKS: [(&str, &str); 5] = [
        ("box", "real/box"),
        ("box/", "real/box"),
        ("m.eml", "real/m.eml"),
        ("way/m.eml", "real/m.eml"),
        ("./way/../home/way/box", "real/box"),
    ];

    /// What a path names, without links.
    fn found(path: &Path, user: u32) -> Result<PathBuf, String> {
        let path = match find_by_own_links(path, user).map_err(|error| error.to_string())? {
            Named::Folder(folder) => folder.path().to_owned(),
            Named::File(folder, name) => folder.path_of(&name),
            Named::Other => return Err("other".to_owned()),
        };
        Ok(fs::canonicalize(path).unwrap())
    }

    fn assert_refused(dir: &Path, user: u32) {
        for (link, target) in LINKS {
            let refusal = found(&dir.join("home").join(link), user).unwrap_err();
            let expected = format!("another user may have made: name {} itself", dir.join(target).display());
            assert!(refusal.ends_with(&expected), "{link}: {refusal}");
        }
        // The target is no link.
        assert!(found(&dir.join("real/m.eml"), user).is_ok());
    }

    #[test]
    fn a_link_of_ones_own_is_followed() {
        let (_temporary, dir) = linked();
        let user = geteuid().as_raw();
        for (link, target) in LINKS {
            assert_eq!(found(&dir.join("home").join(link), user), Ok(dir.join(target)), "{link}");
        }
        let refusal = |name: &str| found(&dir.join("home").join(name), user).unwrap_err();
        assert!(refusal("a").contains("symbolic links"), "{}", refusal("a"));
        assert!(refusal("m.eml/x").contains("Not a directory"), "{}", refusal("m.eml/x"));
        assert!(refusal("nowhere").contains("No such file"), "{}", refusal("nowhere"));
        assert_eq!(found(Path::new("/dev/null"), user), Err("other".to_owned()));
    }

    #[test]
    fn a_link_that_another_user_may_have_made_is_named_and_not_followed() {
        let (_temporary, dir) = linked();
        let user = geteuid().as_raw();
        // Neither the folder nor the link is theirs.
        assert_refused(&dir, user + 1);
        for mode in [0o777, 0o1777, 0o720] {
            set_mode(&dir.join("home"), mode);
            assert_refused(&dir, user);
        }
    }

    #[test]
    fn root_follows_no_link_of_another_user() {
        if !geteuid().is_root() {
            eprintln!("skipped: links of several users (run as root)");
            return;
        }
        let (_temporary, dir) = linked();
        // As in an archive that root unpacked.
        for link in ["box", "way", "m.eml"] {
            lchown(dir.join("home").join(link), Some(OTHER), None).unwrap();
        }
        assert_refused(&dir, 0);
        let (_temporary, dir) = linked();
        chown(dir.join("home"), Some(OTHER), None).unwrap();
        assert_refused(&dir, 0);
        assert!(find(&dir.join("home/m.eml")).is_err() && find(&dir.join("real/m.eml")).is_ok());
    }
}
