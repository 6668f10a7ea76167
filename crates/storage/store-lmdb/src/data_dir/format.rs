//! The file `format`: what this directory is, in which version, and which store.
//!
//! Text, so that a person who finds the directory can identify it:
//!
//! ```text
//! posthaste-store 10
//! id 0123456789abcdefghijklmnop
//! ```
//!
//! It is the last file that the creation of a store writes. If it exists, `index/data.mdb` and
//! `packs/` have existed, too. If one of them is missing, it was lost, and the store is not
//! opened.
//!
//! Every process that has the store open holds a shared lock on this file. A rebuild holds it
//! alone.
//!
//! Version 1 had no links in its index. Version 2 had log records that were not bound to their
//! place, no commits on two mailboxes, and did not log which packs were retired. Version 3 had no
//! packs that were cut. Version 4 had no checkpoints of mailboxes. Version 5 had no checkpoints
//! of ranges. Some programs of version 6 know no bodies in another form and no segments of a
//! search index. Version 7 had no messages without items, and version 8 no compressed bodies.
//! Version 9 did not store the mod-sequences with which messages came. When a store of an earlier
//! version is opened, it becomes version 10. Older programs refuse it then.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};

use crate::log::disk::failed;
use crate::log::number_of;

/// The version of everything below the data directory.
const VERSION: u32 = 10;
/// The first version that this program reads.
const OLDEST: u32 = 1;

/// The remedy for an index that does not fit the packs.
pub(crate) const REMEDY: &str =
    "Nothing was changed. `posthaste check --rebuild` rebuilds the index from the packs";

/// The remedy for a file `format` that is missing or damaged.
const WRITTEN_AGAIN: &str =
    "Nothing was changed. `posthaste check --rebuild` writes the file again, as the packs have it";

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| failed(path.display())(e)
}

fn unreadable(path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{}: {error}. {WRITTEN_AGAIN}", path.display()))
}

/// Whether others may have the store open at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// Every command and the server.
    Shared,
    /// A rebuild.
    Alone,
}

/// A store's id, and the lock that says it is open.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) id: Id,
    /// Held until this is dropped.
    _lock: File,
    /// The directory of the index, locked as well: removing the file `format` gives no other
    /// process access.
    _index: Option<File>,
}

/// Opens the format of the store in `dir`; `None` if there is no store. An old version becomes the
/// newest.
pub(crate) fn open(dir: &Path, access: Access) -> Result<Option<Format>> {
    let path = dir.join("format");
    loop {
        let file = match File::open(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(unavailable(&path))?,
        };
        lock(dir, &file, access)?;
        // Another process may have put a newer version in its place before we had the lock.
        let there = std::fs::metadata(&path).map_err(unavailable(&path))?;
        if file.metadata().map_err(unavailable(&path))?.ino() != there.ino() {
            continue;
        }
        let text = std::fs::read(&path).map_err(|e| unreadable(&path, e))?;
        let (version, id) = parse(&path, &String::from_utf8_lossy(&text))?;
        if version == VERSION {
            return Ok(Some(Format { id, _lock: file, _index: lock_index(dir, access)? }));
        }
        let draft = write_draft(dir, id).map_err(unavailable(&path))?;
        std::fs::rename(draft, &path).and_then(|()| sync_directory(dir)).map_err(unavailable(&path))?;
    }
}

/// Locks the directory of the index, if there is one.
pub(crate) fn lock_index(dir: &Path, access: Access) -> Result<Option<File>> {
    let path = dir.join("index");
    match File::open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        file => {
            let file = file.map_err(unavailable(&path))?;
            lock(dir, &file, access)?;
            Ok(Some(file))
        }
    }
}

/// Locks the file `format` of a store, or the directory of its index.
pub(crate) fn lock(dir: &Path, file: &File, access: Access) -> Result<()> {
    let locked = match access {
        Access::Shared => file.try_lock_shared(),
        Access::Alone => file.try_lock(),
    };
    match (locked, access) {
        (Ok(()), _) => Ok(()),
        (Err(TryLockError::Error(e)), _) => Err(unavailable(dir)(e)),
        (Err(TryLockError::WouldBlock), Access::Shared) => Err(StoreError::Unavailable(format!(
            "{}: the index is being rebuilt; try again when `posthaste check --rebuild` has ended",
            dir.display()
        ))),
        (Err(TryLockError::WouldBlock), Access::Alone) => Err(StoreError::Unavailable(format!(
            "{}: another process has the store open; stop the server and all commands, then rebuild",
            dir.display()
        ))),
    }
}

/// Refuses a store whose index or packs are missing.
pub(crate) fn require_parts(dir: &Path) -> Result<()> {
    let missing = |what: &str, then: &str| {
        StoreError::Corrupt(format!("{}: {what} is missing though the store was made. {then}", dir.display()))
    };
    if !dir.join("packs").is_dir() {
        return Err(missing("packs/", "Mount its file system, or restore it from a backup"));
    }
    if !dir.join("index/data.mdb").is_file() {
        return Err(missing("index/data.mdb", REMEDY));
    }
    Ok(())
}

fn version(text: &str) -> Option<u32> {
    text.lines().next()?.strip_prefix("posthaste-store ")?.parse().ok()
}

/// Whether this is the file of a newer program.
pub(crate) fn is_newer(text: &str) -> bool {
    version(text).is_some_and(|version| version > VERSION)
}

/// Version and id.
pub(crate) fn parse(path: &Path, text: &str) -> Result<(u32, Id)> {
    let damaged = |what: &str| StoreError::Corrupt(format!("{}: {what}. {WRITTEN_AGAIN}", path.display()));
    let version = match version(text) {
        Some(known @ OLDEST..=VERSION) => known,
        Some(other) if other > VERSION => {
            return Err(StoreError::Corrupt(format!(
                "{}: the store has format {other}, this program knows {VERSION}; use a newer program. If there never was \
                 one, the file is damaged: its first line must be `posthaste-store {VERSION}`",
                path.display()
            )));
        }
        _ => return Err(damaged("not a format file")),
    };
    let id = text.lines().nth(1).and_then(|l| l.strip_prefix("id ")).and_then(Id::parse);
    Ok((version, id.ok_or_else(|| damaged("no store id"))?))
}

/// Writes the file of a store whose packs are of this id.
pub(crate) fn write_again(dir: &Path, id: Id) -> Result<()> {
    let write = || {
        std::fs::rename(write_draft(dir, id)?, dir.join("format"))?;
        sync_directory(dir)
    };
    write().map_err(unavailable(dir))
}

/// The new file, under another name. A file that has this name is removed first: it may be a
/// second name of another file, or a link to one.
fn write_draft(dir: &Path, id: Id) -> std::io::Result<PathBuf> {
    let draft = dir.join(format!("format.{}", std::process::id()));
    match std::fs::remove_file(&draft) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = File::create_new(&draft)?;
    write!(file, "posthaste-store {VERSION}\nid {id}\n")?;
    file.sync_all()?;
    Ok(draft)
}

pub(crate) fn sync_directory(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Refuses to make a store where packs with records are and the format is not.
pub(crate) fn may_be_made(dir: &Path) -> Result<()> {
    let packs = dir.join("packs");
    let entries = match std::fs::read_dir(&packs) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(unavailable(&packs))?,
    };
    for entry in entries {
        let entry = entry.map_err(unavailable(&packs))?;
        let is_pack = number_of(&entry.file_name().to_string_lossy()).is_some();
        if is_pack && entry.metadata().map_err(unavailable(&packs))?.len() > 0 {
            return Err(StoreError::Corrupt(format!(
                "{}: missing, though packs/ holds mail. {WRITTEN_AGAIN}",
                dir.join("format").display()
            )));
        }
    }
    Ok(())
}

/// Writes the file for a store whose index and packs have been made: the last step of making it.
pub(crate) fn make(dir: &Path) -> Result<()> {
    let path = dir.join("format");
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| StoreError::Unavailable(format!("randomness: {e}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let id = Id::new(now, u128::from_le_bytes(random));
    let write = || {
        for part in ["index", "packs"] {
            sync_directory(&dir.join(part))?;
        }
        sync_directory(dir)?;
        let draft = write_draft(dir, id)?;
        // Another process may have been first: a link, unlike a rename, does not replace its file.
        let linked = std::fs::hard_link(&draft, &path);
        std::fs::remove_file(&draft)?;
        match linked {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        sync_directory(dir)?;
        // The entry of the data directory itself.
        dir.canonicalize()?.parent().map_or(Ok(()), sync_directory)
    };
    write().map_err(unavailable(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(dir: &Path) -> Id {
        for part in ["index", "packs"] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        make(dir).unwrap();
        open(dir, Access::Shared).unwrap().unwrap().id
    }

    #[test]
    fn the_id_stays_and_a_newer_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(open(dir, Access::Shared).unwrap().is_none());
        let id = made(dir);
        for old in 1..VERSION {
            std::fs::write(dir.join("format"), format!("posthaste-store {old}\nid {id}\n")).unwrap();
            assert_eq!(open(dir, Access::Shared).unwrap().unwrap().id, id);
            let text = std::fs::read_to_string(dir.join("format")).unwrap();
            assert!(text.starts_with(&format!("posthaste-store {VERSION}\n")), "{text}");
        }
        std::fs::write(dir.join("format"), format!("posthaste-store {}\n", VERSION + 1)).unwrap();
        assert!(open(dir, Access::Shared).unwrap_err().to_string().contains("use a newer program"));
    }

    #[test]
    fn a_link_in_place_of_the_draft_changes_nothing_elsewhere() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (other, id) = (elsewhere.path().join("other"), made(dir.path()));
        let draft = dir.path().join(format!("format.{}", std::process::id()));
        std::fs::write(&other, "x").unwrap();
        std::os::unix::fs::symlink(&other, &draft).unwrap();
        write_again(dir.path(), id).unwrap();
        std::fs::hard_link(&other, &draft).unwrap();
        write_again(dir.path(), id).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "x");
        assert_eq!(open(dir.path(), Access::Shared).unwrap().unwrap().id, id);
    }

    #[test]
    fn a_store_without_its_parts_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        may_be_made(dir).unwrap();
        made(dir);
        assert!(require_parts(dir).unwrap_err().to_string().contains("check --rebuild"));
        std::fs::write(dir.join("index/data.mdb"), "").unwrap();
        require_parts(dir).unwrap();
        std::fs::remove_dir(dir.join("packs")).unwrap();
        assert!(require_parts(dir).unwrap_err().to_string().contains("Mount its file system"));
    }

    #[test]
    fn packs_without_a_format_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("packs")).unwrap();
        std::fs::write(dir.path().join("packs/00000001.pack"), "").unwrap();
        may_be_made(dir.path()).unwrap();
        std::fs::write(dir.path().join("packs/00000001.pack"), "mail").unwrap();
        assert!(may_be_made(dir.path()).unwrap_err().to_string().contains("packs/ holds mail"));
    }

    #[test]
    fn a_rebuild_shuts_others_out_and_the_other_way_round() {
        let dir = tempfile::tempdir().unwrap();
        made(dir.path());
        let shared = open(dir.path(), Access::Shared).unwrap();
        let refusal = open(dir.path(), Access::Alone).unwrap_err().to_string();
        assert!(refusal.contains("stop the server and all commands"), "{refusal}");
        drop(shared);
        let _alone = open(dir.path(), Access::Alone).unwrap();
        let refusal = open(dir.path(), Access::Shared).unwrap_err().to_string();
        assert!(refusal.contains("is being rebuilt"), "{refusal}");
    }
}
