//! The table `directory`: records by name.
//!
//! Key: name (1–400). Value: sum (4), version (8), content.

use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;
use posthaste_store::{DirectoryChange, DirectoryEntry, Result};

use super::{Index, Indexed, Writing, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// Bytes of a directory record's name.
pub(crate) const NAME_MAX: usize = 400;

/// A directory record.
pub(crate) fn directory_value(name: &str, version: u64, content: &[u8]) -> Vec<u8> {
    let mut out = open_value();
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(content);
    seal(seed_of_key(name.as_bytes()), out)
}

pub(crate) fn directory_from(name: &str, value: &[u8]) -> Option<DirectoryEntry> {
    let mut read = unseal(seed_of_key(name.as_bytes()), value)?;
    let version = read.u64()?;
    Some(DirectoryEntry { name: name.to_owned(), version, value: Bytes::copy_from_slice(read.0) })
}

/// One directory record.
pub(crate) fn directory_entry(index: &Index, txn: &RoTxn, name: &str) -> Result<Option<DirectoryEntry>> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Ok(None);
    }
    let Some(value) = index.directory.get(txn, name.as_bytes()).indexed()? else { return Ok(None) };
    directory_from(name, value).map(Some).ok_or_else(damaged(format_args!("directory record {name}")))
}

/// Directory records by prefix.
pub(crate) fn directory_scan(
    index: &Index,
    txn: &RoTxn,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<DirectoryEntry>> {
    let low = match after {
        Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
        _ => Bound::Included(prefix.as_bytes()),
    };
    // LMDB has no empty key to start from.
    let low = if matches!(low, Bound::Included([])) { Bound::Unbounded } else { low };
    let mut found = Vec::new();
    for item in index.directory.range(txn, &(low, Bound::Unbounded)).indexed()?.take(limit) {
        let (key, value) = item.indexed()?;
        if !key.starts_with(prefix.as_bytes()) {
            break;
        }
        let entry = std::str::from_utf8(key).ok().and_then(|name| directory_from(name, value));
        found.push(entry.ok_or_else(damaged(format_args!("directory record under {prefix:?}")))?);
    }
    Ok(found)
}

/// Applies a change whose version was checked.
pub(crate) fn apply_directory(index: &Index, txn: &mut Writing, change: &DirectoryChange) -> Result<()> {
    let key = change.name.as_bytes();
    match &change.value {
        Some(content) => {
            let value = directory_value(&change.name, change.expected + 1, content);
            index.directory.put(txn, key, &value).indexed()
        }
        None => index.directory.delete(txn, key).indexed().map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_under_its_name_alone() {
        let value = directory_value("account/ana", 3, b"x");
        let entry = directory_from("account/ana", &value).unwrap();
        assert_eq!((entry.version, &entry.value[..]), (3, &b"x"[..]));
        assert!(directory_from("account/bob", &value).is_none());
    }
}
