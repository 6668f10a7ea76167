//! The folders and files of a source. Each is opened by its name in the folder that holds it,
//! which is open already, and no link is followed. So it does not matter what replaces a folder
//! between two steps of the walk: nothing outside of the source is read.
//!
//! The author of the source may be allowed less than the user who imports it: root reads
//! `/etc/shadow`. A second name of a file (a hard link) is no link that could be seen. So root
//! reads a file with several names only if it belongs to the owner of its folder. Programs that
//! deliver one message into several Maildirs make such files. In a folder where only root makes
//! names, root reads every file: backups have hard links.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Why a link is not read. The importing user may read more than the link's author: root reads
/// `/etc/shadow`.
pub(super) const LINK: &str = "it is a symbolic link, and links are not followed, as they may lead out of the mail: replace the link with its target";
const SECOND_NAME: &str = "it has several names (hard links), and another user may have made this one: replace it with a copy if it is mail";
const OF_ROOT: &str = "it is private to root, but its folder belongs to another user, who may have made its name there: give the file to that user (chown) if it is mail";
const NO_FILE: &str = "it is not a file: remove it, or replace it with one";

/// Permissions of group and others to write.
const WRITABLE: u32 = 0o022;
/// Permission of others to read.
const READABLE: u32 = 0o004;

/// A folder of the source, held open.
pub(super) struct SourceFolder {
    /// Without the right to list: a folder may let its files be opened and not be listed.
    handle: File,
    path: PathBuf,
    owner: u32,
    /// Whether others than its owner may make names in it.
    is_shared: bool,
}

/// A name in a folder.
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Folder,
    Link,
    /// Pipes and devices are no mail, and reading one may never end.
    Other,
}

impl SourceFolder {
    /// A folder that the user has named. Links in this path are followed.
    pub(super) fn named(path: &Path) -> io::Result<Self> {
        // The folder of a file that was named without one.
        let opened = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::of(File::from(openat(CWD, opened, flags, Mode::empty())?), path.to_owned())
    }

    /// The folder of a file that the user has named, and the file's name in it.
    pub(super) fn of_file(path: &Path) -> io::Result<(Self, &OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((Self::named(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn of(handle: File, path: PathBuf) -> io::Result<Self> {
        let found = handle.metadata()?;
        Ok(Self { handle, path, owner: found.uid(), is_shared: found.mode() & WRITABLE != 0 })
    }

    /// The path of the folder, for reports.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of what has this name, for reports.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a folder in this one.
    pub(super) fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.handle, name, flags, Mode::empty());
        let opened = opened.map_err(|error| self.refusal(name, error))?;
        Self::of(File::from(opened), self.path_of(name))
    }

    /// Opens a file in this folder for reading. Anything else is an error.
    pub(super) fn file(&self, name: &OsStr) -> io::Result<File> {
        // A pipe or a terminal that has taken its place is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.handle, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|error| self.refusal(name, error))?);
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other(NO_FILE));
        }
        match self.mistrusts(&found) {
            Some(why) if geteuid().is_root() => Err(io::Error::other(why)),
            _ => Ok(file),
        }
    }

    /// Why root does not read this file: somebody else may have made its name here to have it
    /// imported.
    fn mistrusts(&self, found: &Metadata) -> Option<&'static str> {
        if self.owner == 0 && !self.is_shared {
            // Only root makes names here.
            return None;
        }
        let is_own = found.uid() == self.owner && self.owner != 0;
        if found.nlink() > 1 && !is_own {
            return Some(SECOND_NAME);
        }
        // The other name may be removed just before it is counted. A file that everybody may read
        // is no secret.
        (self.owner != 0 && found.uid() == 0 && found.mode() & READABLE == 0).then_some(OF_ROOT)
    }

    /// An error of the system, in our words if a link is the cause.
    fn refusal(&self, name: &OsStr, error: Errno) -> io::Error {
        // open(2): a link that should be a folder is reported as "not a directory".
        let is_link = error == Errno::LOOP
            || (error == Errno::NOTDIR && self.kind(name).is_ok_and(|kind| kind == EntryKind::Link));
        if is_link { io::Error::other(LINK) } else { error.into() }
    }

    /// The kind of what has this name.
    pub(super) fn kind(&self, name: &OsStr) -> io::Result<EntryKind> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(kind_of(FileType::from_raw_mode(found.st_mode)))
    }

    /// The target of a link in this folder. `None` if somebody else than this user may have made
    /// the link.
    pub(super) fn own_link(&self, name: &OsStr, user: u32) -> io::Result<Option<PathBuf>> {
        let found = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.owner != user || self.is_shared || found.st_uid != user {
            return Ok(None);
        }
        let target = readlinkat(&self.handle, name, Vec::new())?;
        Ok(Some(OsString::from_vec(target.into_bytes()).into()))
    }

    /// An error if the folder cannot be listed.
    pub(super) fn require_list(&self) -> io::Result<()> {
        self.list().map(drop)
    }

    /// What is in the folder, in no order.
    pub(super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for found in self.list()? {
            let found = found?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match found.file_type() {
                // Some file systems do not say it here.
                FileType::Unknown => self.kind(name)?,
                known => kind_of(known),
            };
            entries.push(Entry { name: name.to_owned(), kind });
        }
        Ok(entries)
    }

    fn list(&self) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir::new(openat(&self.handle, ".", flags, Mode::empty())?)?)
    }
}

fn kind_of(found: FileType) -> EntryKind {
    match found {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// Any user but root.
    const OTHER: u32 = 65_534;

    fn text(folder: &SourceFolder, name: &str) -> Result<String, String> {
        let mut text = String::new();
        let read = folder.file(OsStr::new(name)).and_then(|mut file| file.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_that_became_a_link_is_not_entered() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (place, mail) in [(dir.path(), "own"), (elsewhere.path(), "of root")] {
            fs::create_dir_all(place.join("a/cur")).unwrap();
            fs::write(place.join("a/cur/1"), mail).unwrap();
        }
        let source = SourceFolder::named(dir.path()).unwrap();
        let a = source.folder(OsStr::new("a")).unwrap();
        let cur = a.folder(OsStr::new("cur")).unwrap();
        // In the middle of what was a path.
        fs::rename(dir.path().join("a"), dir.path().join("moved")).unwrap();
        symlink(elsewhere.path().join("a"), dir.path().join("a")).unwrap();
        let refusal = source.folder(OsStr::new("a")).err().unwrap();
        assert_eq!(refusal.to_string(), LINK);
        let again = a.folder(OsStr::new("cur")).unwrap();
        assert_eq!((text(&again, "1"), text(&cur, "1")), (Ok("own".into()), Ok("own".into())));
        // The last part.
        symlink(elsewhere.path().join("a/cur/1"), dir.path().join("moved/cur/2")).unwrap();
        assert_eq!(text(&cur, "2"), Err(LINK.into()));
        assert_eq!(text(&a, "cur"), Err(NO_FILE.into()));
        let kinds: Vec<_> = cur.entries().unwrap().into_iter().map(|entry| entry.kind).collect();
        assert!(kinds.len() == 2 && kinds.contains(&EntryKind::Link) && kinds.contains(&EntryKind::File));
    }

    /// Some delivery agents give one message several names.
    #[test]
    fn a_file_with_two_names_of_its_folders_owner_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        fs::write(&one, "own").unwrap();
        fs::hard_link(&one, &two).unwrap();
        if geteuid().is_root() {
            chown(dir.path(), Some(OTHER), None).unwrap();
            chown(&one, Some(OTHER), None).unwrap();
        }
        let source = SourceFolder::named(dir.path()).unwrap();
        assert_eq!((text(&source, "1"), text(&source, "2")), (Ok("own".into()), Ok("own".into())));
    }

    #[test]
    fn root_reads_no_second_name_of_a_file_of_another_user() {
        if !geteuid().is_root() {
            eprintln!("skipped: files of several users (run as root)");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (mail, shadow, link) =
            (dir.path().join("mail"), dir.path().join("shadow"), dir.path().join("mail/1"));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let read = || text(&SourceFolder::named(&mail).unwrap(), "1");
        fs::create_dir(&mail).unwrap();
        set(&mail, 0o700);
        fs::write(&shadow, "of root").unwrap();
        set(&shadow, 0o644);
        fs::hard_link(&shadow, &link).unwrap();
        // Root's folder: nobody else made this name. A backup has such files.
        assert_eq!(read(), Ok("of root".into()));
        set(&mail, 0o777);
        assert_eq!(read(), Err(SECOND_NAME.into()));
        set(&mail, 0o700);
        chown(&mail, Some(OTHER), None).unwrap();
        assert_eq!(read(), Err(SECOND_NAME.into()));
        // Its owner is neither root nor the folder's.
        chown(&shadow, Some(OTHER - 1), None).unwrap();
        assert_eq!(read(), Err(SECOND_NAME.into()));
        chown(&shadow, Some(0), None).unwrap();
        // One name is left. Root may have put the file there, and everybody may read it.
        fs::remove_file(&shadow).unwrap();
        assert_eq!(read(), Ok("of root".into()));
        set(&link, 0o640);
        assert_eq!(read(), Err(OF_ROOT.into()));
        chown(&link, Some(OTHER), None).unwrap();
        assert_eq!(read(), Ok("of root".into()));
    }
}
