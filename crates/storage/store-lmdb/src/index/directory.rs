//! The table `directory`: records by name.
//!
//! Key: name (1–400). Value: sum (4), version (8), content.

use std::ops::Bound;

use bytes::Bytes;
use heed::RoTxn;
use posthaste_store::{DirectoryChange, DirectoryEntry, Result};

use super::{Index, Indexed, Writing, beginning_with, damaged};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};

/// Bytes of a directory record's name.
pub(crate) const NAME_MAX: usize = 400;

/// A directory record.
fn directory_value(name: &str, version: u64, content: &[u8]) -> Vec<u8> {
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

/// Reads a directory record by its name.
pub(crate) fn directory_entry(index: &Index, txn: &RoTxn, name: &str) -> Result<Option<DirectoryEntry>> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Ok(None);
    }
    let Some(value) = index.directory.get(txn, name.as_bytes()).indexed()? else { return Ok(None) };
    directory_from(name, value).map(Some).ok_or_else(damaged(format_args!("directory record {name}")))
}

/// Directory records by prefix, until their values have more than so many octets. The first one
/// is read however long it is.
pub(crate) fn directory_scan(
    index: &Index,
    txn: &RoTxn,
    (prefix, after): (&str, Option<&str>),
    limit: usize,
    octets: usize,
) -> Result<Vec<DirectoryEntry>> {
    let range = range_of(prefix, after);
    let (mut found, mut left) = (Vec::new(), octets);
    for item in index.directory.range(txn, &range).indexed()?.take(limit) {
        let (key, value) = item.indexed()?;
        // A value that does not fit is not touched: it has pages of its own.
        if !key.starts_with(prefix.as_bytes()) || !found.is_empty() && value.len() > left {
            break;
        }
        left = left.saturating_sub(value.len());
        let entry = std::str::from_utf8(key).ok().and_then(|name| directory_from(name, value));
        found.push(entry.ok_or_else(damaged(format_args!("directory record under {prefix:?}")))?);
    }
    Ok(found)
}

/// The names of directory records by prefix. Their values are not touched.
pub(crate) fn directory_names(
    index: &Index,
    txn: &RoTxn,
    (prefix, after): (&str, Option<&str>),
    limit: usize,
) -> Result<Vec<String>> {
    let range = range_of(prefix, after);
    let mut found = Vec::new();
    for item in index.directory.range(txn, &range).indexed()?.take(limit) {
        let (key, _) = item.indexed()?;
        if !key.starts_with(prefix.as_bytes()) {
            break;
        }
        let name = std::str::from_utf8(key).ok().map(str::to_owned);
        found.push(name.ok_or_else(damaged(format_args!("directory record under {prefix:?}")))?);
    }
    Ok(found)
}

/// The keys after a name, from a prefix on.
fn range_of<'k>(prefix: &'k str, after: Option<&'k str>) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    match after {
        Some(after) if after >= prefix => (Bound::Excluded(after.as_bytes()), Bound::Unbounded),
        _ => beginning_with(prefix.as_bytes()),
    }
}

/// A record, borrowed from the map.
pub(crate) struct Record<'t> {
    pub(crate) key: &'t [u8],
    value: &'t [u8],
}

impl Record<'_> {
    /// The record under its name; `None` if it is damaged.
    pub(crate) fn entry(&self) -> Option<DirectoryEntry> {
        directory_from(std::str::from_utf8(self.key).ok()?, self.value)
    }
}

/// The records from a key on, by name.
pub(crate) fn records_from<'t>(
    index: &Index,
    txn: &'t RoTxn,
    key: &[u8],
) -> Result<impl Iterator<Item = Result<Record<'t>>> + use<'t>> {
    let records = index.directory.range(txn, &beginning_with(key)).indexed()?;
    Ok(records.map(|item| item.indexed().map(|(key, value)| Record { key, value })))
}

/// Applies a change whose version was checked.
pub(crate) fn apply_directory(index: &Index, txn: &mut Writing, change: &DirectoryChange) -> Result<()> {
    match &change.value {
        Some(content) => {
            let version = change.expected.checked_add(1);
            let version = version.ok_or_else(damaged(format_args!("version of record {}", change.name)))?;
            put_record(index, txn, &change.name, version, content)
        }
        None => index.directory.delete(txn, change.name.as_bytes()).indexed().map(drop),
    }
}

/// Puts a record of this version.
pub(crate) fn put_record(
    index: &Index,
    txn: &mut Writing,
    name: &str,
    version: u64,
    content: &[u8],
) -> Result<()> {
    index.directory.put(txn, name.as_bytes(), &directory_value(name, version, content)).indexed()
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
