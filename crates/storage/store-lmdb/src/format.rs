//! The file `format`: what this directory is, in which version, and which store.
//!
//! Text, so that a person who finds the directory knows what it is:
//!
//! ```text
//! posthaste-store 3
//! id 0123456789abcdefghijklmnop
//! ```
//!
//! Written under another name first; a directory that has packs or an index but no `format` is not touched. Version 1 had no links in its
//! index, version 2 no commits on two mailboxes in its packs; they are otherwise the same. Such a directory becomes one of version 3 when it
//! is opened, and older programs refuse it from then on.

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of everything below the data directory.
const VERSION: u32 = 3;
/// The ones before: each holds less than the next and is otherwise the same.
const WITHOUT_LINKS: u32 = 1;
const WITHOUT_PAIRS: u32 = 2;

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::Unavailable(format!("{}: {e}", path.display()))
}

/// The id of the store in `dir`, which is made if nothing is there.
pub(crate) fn open(dir: &Path) -> Result<Id> {
    let path = dir.join("format");
    match std::fs::read_to_string(&path) {
        Ok(text) => match parse(&path, &text)? {
            (VERSION, id) => Ok(id),
            (_, id) => {
                let draft = write_draft(dir, id).map_err(unavailable(&path))?;
                let renamed = std::fs::rename(draft, &path).and_then(|()| sync_directory(dir));
                renamed.map(|()| id).map_err(unavailable(&path))
            }
        },
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => create(dir, &path),
        Err(e) => Err(unavailable(&path)(e)),
    }
}

/// Version and id.
fn parse(path: &Path, text: &str) -> Result<(u32, Id)> {
    let mut lines = text.lines();
    let version = lines.next().and_then(|l| l.strip_prefix("posthaste-store ")).and_then(|v| v.parse().ok());
    let version = match version {
        Some(known @ (WITHOUT_LINKS | WITHOUT_PAIRS | VERSION)) => known,
        Some::<u32>(other) => {
            return Err(StoreError::Corrupt(format!(
                "{}: the store has format {other}, this program knows {VERSION}; use a newer program",
                path.display()
            )));
        }
        None => return Err(StoreError::Corrupt(format!("{}: not a format file", path.display()))),
    };
    let id = lines.next().and_then(|l| l.strip_prefix("id ")).and_then(Id::parse);
    let id = id.ok_or_else(|| StoreError::Corrupt(format!("{}: no store id", path.display())))?;
    Ok((version, id))
}

/// The file as it is to be, under another name.
fn write_draft(dir: &Path, id: Id) -> std::io::Result<PathBuf> {
    let draft = dir.join(format!("format.{}", std::process::id()));
    let mut file = std::fs::File::create(&draft)?;
    write!(file, "posthaste-store {VERSION}\nid {id}\n")?;
    file.sync_all()?;
    Ok(draft)
}

fn sync_directory(dir: &Path) -> std::io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

fn create(dir: &Path, path: &Path) -> Result<Id> {
    std::fs::create_dir_all(dir).map_err(unavailable(dir))?;
    for there in ["index", "packs"] {
        if dir.join(there).exists() {
            return Err(StoreError::Corrupt(format!(
                "{}: missing, though {there}/ is there; restore it from a backup",
                path.display()
            )));
        }
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| StoreError::Unavailable(format!("randomness: {e}")))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let id = Id::new(now, u128::from_le_bytes(random));
    let write = || {
        let draft = write_draft(dir, id)?;
        // Another process may have been as quick: a link, unlike a rename, leaves its file alone.
        let linked = std::fs::hard_link(&draft, path);
        std::fs::remove_file(&draft)?;
        match linked {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        sync_directory(dir)
    };
    write().map_err(unavailable(path))?;
    let text = std::fs::read_to_string(path).map_err(unavailable(path))?;
    parse(path, &text).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stays_and_a_newer_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let id = open(dir.path()).unwrap();
        assert_eq!(open(dir.path()).unwrap(), id);
        for before in [WITHOUT_LINKS, WITHOUT_PAIRS] {
            let text = format!("posthaste-store {before}\nid {id}\n");
            std::fs::write(dir.path().join("format"), text).unwrap();
            assert_eq!(open(dir.path()).unwrap(), id, "a version before is made this one");
            let text = std::fs::read_to_string(dir.path().join("format")).unwrap();
            assert!(text.starts_with("posthaste-store 3\n"), "{text}");
        }
        std::fs::write(dir.path().join("format"), "posthaste-store 4\n").unwrap();
        assert!(open(dir.path()).unwrap_err().to_string().contains("format 4"));
        std::fs::remove_file(dir.path().join("format")).unwrap();
        std::fs::create_dir(dir.path().join("packs")).unwrap();
        assert!(open(dir.path()).is_err());
    }
}
