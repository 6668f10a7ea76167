//! The directory: small named records, one conditional write each.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::Id;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Result, StoreError};
use scylla::deserialize::row::DeserializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;

use crate::cluster::Cluster;
use crate::cluster::connection::AT_ONCE;
use crate::cluster::ids::{blob, id_of};
use crate::stored::seal::{location, seal, unseal};

/// Buckets of the directory: at 10 million records of 1 KiB a bucket holds 160 MB, which is large
/// for a partition. More buckets make each listing of accounts read more partitions.
const DIRECTORY_BUCKETS: u32 = 64;

/// Values of a page that are read at the same time. Those that do not fit it are dropped.
const VALUES_AT_ONCE: usize = AT_ONCE / 4;

/// The kind of the value, for its checksum.
const KIND: u8 = 7;

fn entry_place(name: &str) -> u32 {
    crc32c::crc32c_append(location(KIND, Id::new(0, 0), 0), name.as_bytes())
}

/// The bucket of a directory record.
fn bucket_of(name: &str) -> i32 {
    (crc32c::crc32c(name.as_bytes()) % DIRECTORY_BUCKETS).cast_signed()
}

/// A directory record as stored.
struct StoredEntry {
    entry: DirectoryEntry,
    /// The commit that wrote it.
    commit: Id,
}

/// The directory of a keyspace.
pub(crate) struct Directory {
    cluster: Arc<Cluster>,
}

impl Directory {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster }
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(self.read_by(&self.cluster.statements.directory.read, name).await?.map(|stored| stored.entry))
    }

    async fn read_by(&self, statement: &PreparedStatement, name: &str) -> Result<Option<StoredEntry>> {
        type Columns = (Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>);
        let rows = self.cluster.read::<Columns>(statement, (bucket_of(name), name)).await?;
        let Some((Some(version), commit, value)) = rows.into_iter().next() else { return Ok(None) };
        let entry = entry_from(name.to_owned(), version, value)?;
        let commit = commit.ok_or_else(|| damaged(name))?;
        Ok(Some(StoredEntry { entry, commit: id_of(&commit)? }))
    }

    pub(crate) async fn scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        type Columns = (String, Option<i64>, Option<Vec<u8>>);
        let scan = &self.cluster.statements.directory.scan;
        let rows = self.rows::<Columns>(scan, prefix, after, limit).await?;
        // A row without a version is the rest of a removal.
        let existing = rows.into_iter().filter_map(|(name, version, value)| {
            let wanted = name.starts_with(prefix) && after.is_none_or(|after| name.as_str() > after);
            Some((name, version?, value)).filter(|_| wanted)
        });
        let mut existing: Vec<(String, i64, Option<Vec<u8>>)> = existing.collect();
        existing.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        existing.truncate(limit);
        let entry = |(name, version, value): (String, i64, Option<Vec<u8>>)| entry_from(name, version, value);
        existing.into_iter().map(entry).collect()
    }

    /// The names of the records that [`Self::scan`] returns, without their content.
    pub(crate) async fn names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let names = &self.cluster.statements.directory.names;
        let rows = self.rows::<(String, Option<i64>)>(names, prefix, after, limit).await?;
        let is_wanted = |name: &str| name.starts_with(prefix) && after.is_none_or(|after| name > after);
        let existing = rows.into_iter().filter(|(name, version)| version.is_some() && is_wanted(name));
        let mut existing: Vec<String> = existing.map(|(name, _)| name).collect();
        existing.sort_unstable();
        existing.truncate(limit);
        Ok(existing)
    }

    /// Rows of all buckets, in no order: those of the prefix after a name, and the name's own.
    async fn rows<R>(
        &self,
        statement: &PreparedStatement,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<R>>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let from = after.map_or(prefix, |after| after.max(prefix));
        // Without an upper bound, a cluster would read on until it has enough records: those of
        // other prefixes, and tombstones.
        let end = end_of(prefix);
        let end = end.as_str();
        // One record more, for `after` itself.
        let most = i32::try_from(limit).unwrap_or(i32::MAX).saturating_add(1);
        let buckets = stream::iter(0..DIRECTORY_BUCKETS.cast_signed())
            .map(|bucket| async move { self.cluster.read::<R>(statement, (bucket, from, end, most)).await });
        let rows: Vec<Vec<R>> = buckets.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Records by prefix, until their values have more than so many octets. They are read one by
    /// one: a scan would get as many of each bucket as are wanted of all, and drop most of them.
    pub(crate) async fn scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let mut after = after.map(str::to_owned);
        loop {
            let names = self.names(prefix, after.as_deref(), limit).await?;
            let Some(last) = names.last().cloned() else { return Ok(Vec::new()) };
            let reads = stream::iter(names).map(|name| async move { self.read(&name).await });
            let mut reads = pin!(reads.buffered(VALUES_AT_ONCE));
            let (mut found, mut left) = (Vec::new(), octets);
            // A record may be removed meanwhile.
            while let Some(entry) = reads.try_next().await? {
                let Some(entry) = entry else { continue };
                if !found.is_empty() && entry.value.len() > left {
                    return Ok(found);
                }
                left = left.saturating_sub(entry.value.len());
                found.push(entry);
            }
            if !found.is_empty() {
                return Ok(found);
            }
            after = Some(last);
        }
    }

    pub(crate) async fn change(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let id = self.cluster.new_id();
        let name = change.name.as_str();
        let (bucket, expected) = (Some(CqlValue::Int(bucket_of(name))), change.expected.cast_signed());
        let key = Some(CqlValue::Text(name.to_owned()));
        let condition = (expected != 0).then_some(CqlValue::BigInt(expected));
        let Some(value) = &change.value else {
            let now = self.read_by(&self.cluster.statements.directory.read_serial, name).await?;
            return match now {
                // There is nothing to remove.
                None if expected == 0 => Ok(CommitOutcome::Done),
                Some(now) if now.entry.version == change.expected => {
                    // Only a removal of this version, ours or another node's, can have come
                    // first. In both cases the record is removed.
                    let removed = || async move {
                        Ok(self
                            .read_by(&self.cluster.statements.directory.read_serial, name)
                            .await?
                            .is_none())
                    };
                    self.cluster
                        .conditionally(
                            vec![(&self.cluster.statements.directory.delete, vec![bucket, key, condition])],
                            removed,
                        )
                        .await
                }
                _ => Ok(CommitOutcome::Conflict),
            };
        };
        let values = vec![
            Some(CqlValue::BigInt(expected + 1)),
            Some(blob(id)),
            Some(CqlValue::Blob(seal(entry_place(name), value))),
            bucket,
            key,
            condition,
        ];
        let applied = || async move {
            let now = self.read_by(&self.cluster.statements.directory.read_serial, name).await?;
            Ok(now.is_some_and(|now| now.commit == id))
        };
        self.cluster.conditionally(vec![(&self.cluster.statements.directory.put, values)], applied).await
    }
}

/// The first name after all that begin with a prefix. A cluster compares names by their octets, as
/// text is compared here.
fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // The range leaves surrogates out.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return end;
        }
    }
    // No name begins with the last character of Unicode.
    char::MAX.to_string()
}

fn damaged(name: &str) -> StoreError {
    StoreError::Corrupt(format!("the directory record {name}"))
}

fn entry_from(name: String, version: i64, value: Option<Vec<u8>>) -> Result<DirectoryEntry> {
    let value = value.ok_or_else(|| damaged(&name))?;
    let content = unseal(entry_place(&name), &value).ok_or_else(|| damaged(&name))?;
    let version = u64::try_from(version).map_err(|_| damaged(&name))?;
    Ok(DirectoryEntry { value: Bytes::copy_from_slice(content), name, version })
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::end_of;

    #[test]
    fn a_prefix_has_an_end() {
        for (prefix, end) in [
            ("annotate/1/", "annotate/10"),
            ("a", "b"),
            ("a\u{d7ff}", "a\u{e000}"),
            ("a\u{10ffff}", "b"),
            ("", "\u{10ffff}"),
        ] {
            assert_eq!(end_of(prefix), end);
        }
    }

    properties! {
        #[test]
        fn names_below_a_prefix_and_no_others_are_between(prefix in "[a-c/]{1,3}", name in "[a-d/0]{0,5}") {
            let is_between = name.as_str() >= prefix.as_str() && name < end_of(&prefix);
            prop_assert_eq!(is_between, name.starts_with(&prefix));
        }
    }
}
