//! The file `format`: what this directory is, in which version, and which store.
//!
//! Text, so that a person who finds the directory knows what it is:
//!
//! ```text
//! posthaste-store 1
//! id 0123456789abcdefghijklmnop
//! ```
//!
//! Written once, under another name first; a directory that has packs or an index but no `format` is not touched.

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of everything below the data directory.
const VERSION: u32 = 1;

fn unavailable(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::Unavailable(format!("{}: {e}", path.display()))
}

/// The id of the store in `dir`, which is made if nothing is there.
pub(crate) fn open(dir: &Path) -> Result<Id> {
    let path = dir.join("format");
    match std::fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => create(dir, &path),
        Err(e) => Err(unavailable(&path)(e)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Id> {
    let mut lines = text.lines();
    let version = lines.next().and_then(|l| l.strip_prefix("posthaste-store ")).and_then(|v| v.parse().ok());
    match version {
        Some(VERSION) => {}
        Some::<u32>(other) => {
            return Err(StoreError::Corrupt(format!(
                "{}: the store has format {other}, this program knows {VERSION}; use a newer program",
                path.display()
            )));
        }
        None => return Err(StoreError::Corrupt(format!("{}: not a format file", path.display()))),
    }
    let id = lines.next().and_then(|l| l.strip_prefix("id ")).and_then(Id::parse);
    id.ok_or_else(|| StoreError::Corrupt(format!("{}: no store id", path.display())))
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
    let draft = dir.join(format!("format.{}", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&draft)?;
        write!(file, "posthaste-store {VERSION}\nid {id}\n")?;
        file.sync_all()?;
        // Another process may have been as quick: a link, unlike a rename, leaves its file alone.
        let linked = std::fs::hard_link(&draft, path);
        std::fs::remove_file(&draft)?;
        match linked {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        std::fs::File::open(dir)?.sync_all()
    };
    write().map_err(unavailable(path))?;
    let text = std::fs::read_to_string(path).map_err(unavailable(path))?;
    parse(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stays_and_a_newer_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let id = open(dir.path()).unwrap();
        assert_eq!(open(dir.path()).unwrap(), id);
        std::fs::write(dir.path().join("format"), "posthaste-store 2\n").unwrap();
        assert!(open(dir.path()).unwrap_err().to_string().contains("format 2"));
        std::fs::remove_file(dir.path().join("format")).unwrap();
        std::fs::create_dir(dir.path().join("packs")).unwrap();
        assert!(open(dir.path()).is_err());
    }
}
