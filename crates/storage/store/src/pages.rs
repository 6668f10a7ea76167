//! Reads all records of the directory below a prefix, a page at a time.

use crate::engine::{DirectoryEntry, Engine};
use crate::error::Result;

/// The pages of one scan, in order of the records' names.
pub struct DirectoryPages<'e> {
    engine: &'e dyn Engine,
    prefix: String,
    /// Records of a page.
    len: usize,
    /// The last record of the page before.
    after: Option<String>,
    /// Whether the last page was read: it had fewer records than requested.
    is_done: bool,
}

impl<'e> DirectoryPages<'e> {
    /// A scan in pages of at most `len` records.
    pub fn new(engine: &'e dyn Engine, prefix: impl Into<String>, len: usize) -> Self {
        Self { engine, prefix: prefix.into(), len, after: None, is_done: false }
    }

    /// The next page; `None` after the last. A record that is removed meanwhile does not end the
    /// scan: the next page begins after the name of the last record.
    pub async fn next(&mut self) -> Result<Option<Vec<DirectoryEntry>>> {
        if self.is_done {
            return Ok(None);
        }
        let page = self.engine.directory_scan(&self.prefix, self.after.as_deref(), self.len).await?;
        self.is_done = page.len() < self.len;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.name.clone());
        Ok(Some(page))
    }
}

/// A page of these records, which come in order, for an engine that has all of them in memory:
/// [`Engine::directory_scan_within`].
pub fn page_within(records: impl Iterator<Item = DirectoryEntry>, octets: usize) -> Vec<DirectoryEntry> {
    let (mut page, mut left) = (Vec::new(), octets);
    for record in records {
        if !page.is_empty() && record.value.len() > left {
            break;
        }
        left = left.saturating_sub(record.value.len());
        page.push(record);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DirectoryChange, MemoryEngine};

    #[tokio::test]
    async fn every_record_below_the_prefix_comes_once() {
        let engine = MemoryEngine::new();
        let names: Vec<String> = (0..7).map(|number| format!("a/{number}")).collect();
        for name in names.iter().chain(&["b/0".to_owned()]) {
            let change =
                DirectoryChange { name: name.clone(), expected: 0, value: Some(b"x".as_slice().into()) };
            engine.directory_commit(change).await.unwrap();
        }
        // The last page is full, short, or the only one.
        for len in [1, 3, 7, 100] {
            let (mut found, mut pages) = (Vec::new(), DirectoryPages::new(&engine, "a/", len));
            while let Some(page) = pages.next().await.unwrap() {
                assert!(!page.is_empty() && page.len() <= len);
                found.extend(page.into_iter().map(|entry| entry.name));
            }
            assert_eq!(found, names, "pages of {len}");
        }
        assert!(DirectoryPages::new(&engine, "c/", 3).next().await.unwrap().is_none());
    }
}
