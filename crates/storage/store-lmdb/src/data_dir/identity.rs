//! The store that packs belong to: `format` names the store, and so does the head of every pack.
//!
//! Every record is bound to the id of its store. One flipped bit would put another id into
//! `format`. Then nothing in the packs could be read any more, and later records would be bound to
//! the wrong id. So a store opens only if a pack has the id of `format`, or none has a whole head.
//! A rebuild writes `format` again if it is lost or damaged and all packs are of one store.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use posthaste_mail_model::Id;
use posthaste_store::{Result, StoreError};

use super::format;
use crate::log::disk::failed;
use crate::log::record::{PACK_HEADER, store_of_head};
use crate::log::{number_of, path_of};

/// The ids in the heads of packs, as far as those are whole, in no order.
fn ids(packs: &Path) -> Result<impl Iterator<Item = Id>> {
    let unavailable = |e| failed(packs.display())(e);
    let mut numbers = Vec::new();
    match std::fs::read_dir(packs) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        entries => {
            for entry in entries.map_err(unavailable)? {
                numbers.extend(number_of(&entry.map_err(unavailable)?.file_name().to_string_lossy()));
            }
        }
    }
    let packs = packs.to_owned();
    Ok(numbers.into_iter().filter_map(move |number| {
        let mut head = [0; PACK_HEADER];
        File::open(path_of(&packs, number)).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        store_of_head(&head, number)
    }))
}

/// Refuses a store if packs are there and none has its id.
pub(crate) fn require(dir: &Path, id: Id) -> Result<()> {
    let mut other = None;
    for found in ids(&dir.join("packs"))? {
        if found == id {
            return Ok(());
        }
        other = Some(found);
    }
    other.map_or(Ok(()), |other| {
        Err(StoreError::Corrupt(format!(
            "{} names store {id}, and the packs beside it are of store {other}: they are those of another store, or the \
             file is damaged. Nothing was changed. If they are the right packs, `posthaste check --rebuild` writes the file \
             again",
            dir.join("format").display()
        )))
    })
}

/// Writes `format` again if it is missing or damaged and the packs show its contents. A command
/// that has the store open holds a lock on a damaged file and on the index: then nothing is
/// written.
pub(crate) fn repair(dir: &Path) -> Result<()> {
    let path = dir.join("format");
    let known = match std::fs::read(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        // The disk cannot read it: its text is lost.
        Err(e) if e.raw_os_error() == Some(libc::EIO) => None,
        read => {
            let text = read.map_err(failed(path.display()))?;
            let text = String::from_utf8_lossy(&text);
            // A newer program wrote it, or may have written it: leave it unchanged.
            if format::is_newer(&text) {
                return Ok(());
            }
            format::parse(&path, &text).ok().map(|(_, id)| id)
        }
    };
    let named: BTreeSet<Id> = ids(&dir.join("packs"))?.collect();
    let mut named_ids = named.iter();
    match (named_ids.next(), named_ids.next()) {
        (Some(id), None) if known != Some(*id) => {
            let present = match File::open(&path) {
                Err(e) if e.kind() == ErrorKind::NotFound => None,
                file => Some(file.map_err(failed(path.display()))?),
            };
            present.as_ref().map_or(Ok(()), |file| format::lock(dir, file, format::Access::Alone))?;
            // A command whose `format` was removed by hand holds the lock of its index.
            let _index = format::lock_index(dir, format::Access::Alone)?;
            tracing::warn!(%id, path = %path.display(), "the file was missing or damaged: it is written again from the packs");
            format::write_again(dir, *id)
        }
        _ => Ok(()),
    }
}
