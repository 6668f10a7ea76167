//! Refuses to open a store whose index does not fit its packs.
//!
//! A pack enters the index before its first record is written. A file with records that the index
//! does not know means that the index was lost, or is older than the packs. Writing with such an
//! index would lose what only the packs have.

use posthaste_store::{Result, StoreError};

use crate::data_dir::format::REMEDY;
use crate::log::{number_of, path_of};
use crate::shared::Shared;

/// Refuses packs that the index does not know, and an index without any of its packs.
pub(crate) fn refuse_foreign_packs(shared: &Shared) -> Result<()> {
    let unavailable = |e| StoreError::Unavailable(format!("{}: {e}", shared.packs.display()));
    // The files first: one that is seen here with records was in the index before.
    let names = shared.disk.list(&shared.packs).map_err(unavailable)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    let txn = shared.index.read()?;
    let known = shared.index.all_packs(&txn)?;
    let retired = shared.index.retired_packs(&txn)?;
    for &number in &numbers {
        let is_known = known.binary_search_by_key(&number, |(n, _)| *n).is_ok();
        if !is_known && retired.binary_search(&number).is_err() && size_of(shared, number) > 0 {
            return Err(StoreError::Corrupt(format!(
                "{} holds mail that the index does not know: the index is not this store's, or older than its packs. {REMEDY}",
                path_of(&shared.packs, number).display()
            )));
        }
    }
    let with_records = || known.iter().filter(|(_, state)| state.end > 0).map(|(n, _)| *n);
    // A pack may have been made since the files were listed.
    let is_lost = |n: &u32| numbers.binary_search(n).is_err() && size_of(shared, *n) == 0;
    let lost: Vec<u32> = with_records().filter(is_lost).collect();
    if lost.is_empty() {
        return Ok(());
    }
    if lost.len() == with_records().count() {
        return Err(StoreError::Corrupt(format!(
            "{}: none of the {} packs that the index names is there. Mount their file system, or restore them",
            shared.packs.display(),
            lost.len()
        )));
    }
    tracing::error!(packs = ?lost, "packs are missing; the mail in them cannot be read until they are back");
    Ok(())
}

/// Bytes of a pack; 0 if it cannot be opened.
fn size_of(shared: &Shared, number: u32) -> u64 {
    let file = shared.disk.open(&path_of(&shared.packs, number));
    file.and_then(|file| file.size()).unwrap_or(0)
}
