//! Only the owner may read the files of this program: mail, password hashes, keys.
//!
//! New files get no permissions for others, because [`for_owner_alone`] runs before there are
//! threads. Files of earlier versions lose such permissions when their store is opened. If that is
//! not possible, the store is refused.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// Permissions of group and others.
const OTHERS: u32 = 0o077;
/// Permissions of others. A group may be meant to read a key, as Debian's `ssl-cert` is.
const STRANGERS: u32 = 0o007;
/// Permissions of group and others to write.
const WRITABLE: u32 = 0o022;
/// Permission of others to write.
const WRITABLE_BY_ALL: u32 = 0o002;
/// A directory that everybody may use, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// The open files of this process. A path here leads to the very file of a descriptor.
const DESCRIPTORS: &str = "/proc/self/fd";
/// The one name that may be a link: packs may be on another disk.
const PACKS: &str = "packs";
/// The beginnings of the names of what a store keeps in its directory.
const OURS: [&str; 12] = [
    "format",
    "index",
    "packs",
    "lock",
    "imports",
    "convert.lock",
    "reserve",
    "turn",
    "tls-",
    "audit.log",
    "metrics.sock",
    "first-password",
];

/// Takes all permissions of group and others from the files that this process makes.
///
/// Called at the start of `main`: the mask belongs to the process, so threads that run already
/// would see it change.
pub fn for_owner_alone() {
    // SAFETY: umask takes an integer, always succeeds, and changes only the permissions of files
    // made later.
    unsafe { libc::umask(OTHERS as libc::mode_t) };
}

/// The user whose permissions this process has.
pub fn user() -> u32 {
    // SAFETY: geteuid takes nothing, always succeeds and changes nothing.
    unsafe { libc::geteuid() }
}

/// Makes a data directory and all that a store keeps in it readable by its owner alone. A missing
/// one is not created here. The error names the path and the remedy.
pub fn tighten_store(dir: &Path) -> Result<()> {
    let Some(meta) = present(fs::metadata(dir), dir)? else { return Ok(()) };
    if user() == 0 && meta.uid() != 0 {
        return Err(Failure::Usage(format!(
            "{} belongs to the user with id {}, who could not read what root writes into it; run this command as that \
             user: sudo -u '#{}' posthaste …",
            dir.display(),
            meta.uid(),
            meta.uid()
        )));
    }
    tighten(dir)
}

/// Like [`tighten_store`], for a store that is only read: root may read everybody's.
///
/// The owner of the directory may have put links into it, so that root changes other files. So only
/// packs may be a link, and root changes only what belongs to the owner of the directory. Root
/// refuses the links of another user: the store would be opened through them.
pub fn tighten(dir: &Path) -> Result<()> {
    let Some(whole) = present(fs::metadata(dir), dir)? else { return Ok(()) };
    if whole.mode() & STICKY != 0 {
        return Err(Failure::Usage(format!(
            "{} is shared by all users of this machine; name a directory of the store's own with --data",
            dir.display()
        )));
    }
    let mut alone = true;
    for entry in read(dir)? {
        let is_ours =
            |name: &OsStr| OURS.iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes()));
        if entry.file_name().is_some_and(is_ours) {
            let linked = entry.file_name() == Some(OsStr::new(PACKS));
            let meta = if linked { fs::metadata(&entry) } else { fs::symlink_metadata(&entry) };
            if let Some(found) = present(meta, &entry)?
                && !is_link(&entry, &found, whole.uid())?
            {
                tighten_tree(&entry, &found, whole.uid())?;
            }
        } else {
            alone = false;
        }
    }
    // A directory that also holds other people's things stays open: all of the store in it is
    // closed.
    if alone {
        return take_from_owned(dir, &whole, whole.uid());
    }
    // Root follows its own links in its store. Here they could be of any user.
    if user() == 0 && whole.uid() == 0 && whole.mode() & WRITABLE_BY_ALL != 0 {
        return Err(Failure::Usage(format!(
            "every user of this machine can put files beside the store in {}; run `chmod go-w {}` as root, or name a \
             directory of the store's own with --data",
            dir.display(),
            dir.display()
        )));
    }
    Ok(())
}

/// A file that holds a secret and is named by the setting `setting`: nobody but its owner and its
/// group may read it.
pub fn tighten_secret(setting: &str, file: &Path) -> Result<()> {
    let Some(meta) = present(fs::metadata(file), file)? else { return Ok(()) };
    take_from(file, &meta, STRANGERS).map_err(|failure| Failure::Usage(format!("`{setting}`: {failure}")))
}

/// Whether a file that was found in the working directory may be trusted: only this user and root
/// may have put it there. Otherwise a user who can write to `/tmp` configures the server that root
/// starts there.
pub fn trusted_here(file: &Path) -> Result<()> {
    for path in [Path::new("."), file] {
        let Some(meta) = present(fs::metadata(path), path)? else { return Ok(()) };
        let why = match meta.uid() {
            uid if uid != user() && uid != 0 => format!("belongs to the user with id {uid}"),
            _ if meta.mode() & WRITABLE != 0 => "can be written by other users".to_owned(),
            _ => continue,
        };
        let what = if path == file { "it" } else { "the working directory" };
        return Err(Failure::Usage(format!(
            "./{} is not read: {what} {why}; if you trust it, name it with --config, or start in another directory",
            file.display()
        )));
    }
    Ok(())
}

fn tighten_tree(path: &Path, meta: &Metadata, owner: u32) -> Result<()> {
    if meta.is_dir() {
        belongs(path, meta, owner)?;
        for entry in read(path)? {
            // The target of a link does not belong to the store.
            if let Some(meta) = present(fs::symlink_metadata(&entry), &entry)?
                && !is_link(&entry, &meta, owner)?
            {
                tighten_tree(&entry, &meta, owner)?;
            }
        }
    }
    take_from_owned(path, meta, owner)
}

/// Whether it is a link. An error if root meets one in the store of another user, or a second name
/// of somebody else's file.
fn is_link(path: &Path, meta: &Metadata, owner: u32) -> Result<bool> {
    if user() != 0 || owner == 0 {
        return Ok(meta.is_symlink());
    }
    if meta.is_symlink() {
        return Err(Failure::Usage(format!(
            "{} is a symbolic link, and root follows none in the store of the user with id {owner}; remove it, or run \
             this command as that user: sudo -u '#{owner}' posthaste …",
            path.display()
        )));
    }
    if meta.is_file() && meta.nlink() > 1 {
        belongs(path, meta, owner)?;
    }
    Ok(false)
}

/// An error if root meets a file of another user than the store's.
fn belongs(path: &Path, meta: &Metadata, owner: u32) -> Result<()> {
    if user() != 0 || meta.uid() == owner {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} belongs to the user with id {}, but the store to the one with id {owner}; move out of the store what is \
         not part of it",
        path.display(),
        meta.uid()
    )))
}

/// Takes the permissions of group and others from a file of this owner. One of another user that
/// others can read is refused.
fn take_from_owned(path: &Path, meta: &Metadata, owner: u32) -> Result<()> {
    if meta.mode() & OTHERS == 0 {
        return Ok(());
    }
    if user() != 0 {
        // Only root can change a file that belongs to another user.
        return take_from(path, meta, OTHERS);
    }
    if !meta.is_file() && !meta.is_dir() {
        // A socket or a pipe holds no mail.
        return Ok(());
    }
    // The owner may replace the file at any time. So the open file is examined and changed. A
    // pipe that has taken its place is not waited for.
    let open = |flags| OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path);
    let opened = match open(libc::O_NOFOLLOW) {
        // The store itself, or its packs.
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => open(0),
        outcome => outcome,
    };
    let Some(file) = present(opened, path)? else { return Ok(()) };
    let meta = file.metadata().map_err(|error| named(path, &error))?;
    belongs(path, &meta, owner)?;
    let closed = Permissions::from_mode(meta.mode() & 0o7777 & !OTHERS);
    file.set_permissions(closed).map_err(|error| named(path, &error))?;
    tracing::warn!(path = %path.display(), "other users could read this; its permissions now allow only its owner");
    Ok(())
}

/// Takes permissions away if any of them is given.
fn take_from(path: &Path, meta: &Metadata, permissions: u32) -> Result<()> {
    let mode = meta.mode() & 0o7777;
    if mode & permissions == 0 {
        return Ok(());
    }
    match take_from_present(path, permissions) {
        Ok(()) => {
            tracing::warn!(path = %path.display(), "other users could read this; its permissions now allow only its \
                                                    owner");
            Ok(())
        }
        // It was removed meanwhile: a running server removes packs.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::Usage(format!(
            "{} can be read by other users (mode {mode:o}) and cannot be closed to them: {error}; run `chmod {} {}` as \
             its owner",
            path.display(),
            if permissions == OTHERS { "go=" } else { "o=" },
            path.display()
        ))),
    }
}

/// Takes permissions from the file that has this path now. The mode that was seen before may be
/// of another file: with it, this one could get permissions that it never had.
fn take_from_present(path: &Path, permissions: u32) -> io::Result<()> {
    // So a pipe is not waited for, and a file that its owner cannot read is opened, too.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let mode = file.metadata()?.mode() & 0o7777 & !permissions;
    set_mode(&file, mode, DESCRIPTORS)
}

/// Sets the mode of an open file. fchmod(2) refuses a descriptor that neither reads nor writes.
fn set_mode(file: &File, mode: u32, descriptors: &str) -> io::Result<()> {
    let path = format!("{descriptors}/{}", file.as_raw_fd());
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|error| match error.kind() {
        // The file is there: it is open.
        io::ErrorKind::NotFound => io::Error::other(format!("there is no {descriptors}; mount /proc")),
        _ => error,
    })
}

fn read(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = present(fs::read_dir(dir), dir)?.into_iter().flatten();
    entries.map(|entry| Ok(entry.map_err(|error| named(dir, &error))?.path())).collect()
}

/// The result of a call; `None` if the path is not there.
fn present<T>(outcome: io::Result<T>, path: &Path) -> Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(path, &error)),
    }
}

fn named(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("{}: {error}; check that this user may use it", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_what_is_the_stores_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("packs")).unwrap();
        let ours = ["format", "packs/00000001.pack", "metrics.sock", "first-password", "convert.lock"];
        for name in ours.into_iter().chain(["other"]) {
            fs::write(path(name), "x").unwrap();
            set(&path(name), 0o644);
        }
        std::os::unix::fs::symlink(path("other"), path("packs/link")).unwrap();
        set(&path("packs"), 0o755);
        set(dir.path(), 0o755);
        tighten(dir.path()).unwrap();
        assert_eq!((mode(&path("format")), mode(&path("packs"))), (0o600, 0o700));
        assert_eq!(mode(&path("packs/00000001.pack")), 0o600);
        assert_eq!((mode(&path("other")), mode(dir.path())), (0o644, 0o755));
        fs::remove_file(path("other")).unwrap();
        fs::remove_file(path("packs/link")).unwrap();
        tighten(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
        set(dir.path(), 0o1777);
        assert!(tighten(dir.path()).unwrap_err().to_string().contains("shared by all users"));
        assert_eq!(mode(dir.path()), 0o1777);
    }

    #[test]
    fn a_link_among_the_stores_files_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| dir.path().join(name);
        let other = elsewhere.path().join("other");
        fs::write(&other, "x").unwrap();
        set(&other, 0o644);
        set(elsewhere.path(), 0o755);
        for name in ["index-x", "index", "tls-links", "reserve"] {
            std::os::unix::fs::symlink(elsewhere.path(), path(name)).unwrap();
        }
        tighten(dir.path()).unwrap();
        assert_eq!((mode(&other), mode(elsewhere.path())), (0o644, 0o755));
        // Packs on another disk.
        std::os::unix::fs::symlink(elsewhere.path(), path("packs")).unwrap();
        tighten(dir.path()).unwrap();
        assert_eq!((mode(&other), mode(elsewhere.path())), (0o600, 0o700));
    }

    /// Root reads the store of another user, who made the links.
    #[test]
    fn root_changes_only_what_belongs_to_the_stores_owner() {
        if user() != 0 {
            eprintln!("skipped: files of several users (run as root)");
            return;
        }
        let give = |path: &Path| std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| dir.path().join(name);
        let other = elsewhere.path().join("other");
        fs::write(&other, "x").unwrap();
        set(&other, 0o644);
        set(elsewhere.path(), 0o755);
        give(dir.path());
        std::os::unix::fs::symlink(elsewhere.path(), path("packs")).unwrap();
        assert!(tighten(dir.path()).unwrap_err().to_string().contains("user with id 0"));
        assert_eq!((mode(&other), mode(elsewhere.path())), (0o644, 0o755));
        fs::remove_file(path("packs")).unwrap();
        // A second name of a file of root.
        fs::hard_link(&other, path("format")).unwrap();
        assert!(tighten(dir.path()).is_err());
        assert_eq!(mode(&other), 0o644);
        // A file that only its owner can read is refused, too.
        set(&other, 0o600);
        assert!(tighten(dir.path()).is_err());
        fs::remove_file(path("format")).unwrap();
        // The store would be opened through these.
        fs::create_dir(path("index")).unwrap();
        give(&path("index"));
        for name in ["index/lock.mdb", "turn", "format.1", "lock"] {
            std::os::unix::fs::symlink(elsewhere.path().join("new"), path(name)).unwrap();
            let refusal = tighten(dir.path()).unwrap_err().to_string();
            assert!(refusal.contains("is a symbolic link") && refusal.contains(name), "{refusal}");
            fs::remove_file(path(name)).unwrap();
        }
        fs::write(path("format"), "x").unwrap();
        set(&path("format"), 0o644);
        give(&path("format"));
        tighten(dir.path()).unwrap();
        assert_eq!(mode(&path("format")), 0o600);
    }

    /// Every user could put a link to a file of root's into such a directory.
    #[test]
    fn root_refuses_its_store_where_all_users_can_write() {
        if user() != 0 {
            eprintln!("skipped: files of several users (run as root)");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), 0o777);
        fs::write(dir.path().join("other"), "x").unwrap();
        let refusal = tighten_store(dir.path()).unwrap_err().to_string();
        assert!(
            refusal.contains("every user of this machine") && refusal.contains("chmod go-w"),
            "{refusal}"
        );
        assert_eq!(mode(dir.path()), 0o777);
        // A directory of the store's own is closed.
        fs::remove_file(dir.path().join("other")).unwrap();
        tighten_store(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn a_file_that_replaced_another_gets_no_permissions_of_that_one() {
        let dir = tempfile::tempdir().unwrap();
        let (seen, present) = (dir.path().join("seen"), dir.path().join("present"));
        for file in [&seen, &present] {
            fs::write(file, "x").unwrap();
        }
        set(&seen, 0o4777);
        set(&present, 0o644);
        take_from(&present, &fs::metadata(&seen).unwrap(), STRANGERS).unwrap();
        assert_eq!((mode(&seen), mode(&present)), (0o4777, 0o640));
    }

    /// A file that was removed meanwhile counts as closed. One that is there must not.
    #[test]
    fn a_file_that_stays_open_to_others_is_an_error_without_proc() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "x").unwrap();
        set(&path, 0o644);
        let unmounted = dir.path().join("proc/self/fd");
        let error = set_mode(&File::open(&path).unwrap(), 0o600, unmounted.to_str().unwrap()).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().ends_with("mount /proc"), "{error}");
        set_mode(&File::open(&path).unwrap(), 0o600, DESCRIPTORS).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_secret_is_closed_to_strangers_and_open_to_its_group() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key.pem");
        fs::write(&key, "x").unwrap();
        set(&key, 0o644);
        tighten_secret("tls.key", &key).unwrap();
        assert_eq!(mode(&key), 0o640);
        tighten_secret("tls.key", &dir.path().join("missing")).unwrap();
    }
}
