//! What is counted for a report: in memory first, then in a directory record for each period and
//! domain, `PREFIX/START/DOMAIN`.
//!
//! A kill loses what was counted since the last [`Tallies::flush`]: some minutes of statistics. On
//! a cluster each node adds to the same records.

use parking_lot::Mutex;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;

/// Domains that are counted in memory between two flushes. What more there are is not counted: no
/// stranger can fill the memory with names.
const DOMAINS_MAX: usize = 10_000;
/// How often a record is merged again after another node changed it.
const TRIES: usize = 16;
/// Records read at a time.
const PAGE: usize = 128;

/// What is counted of one domain in one period.
pub(crate) trait Tally: Default + Serialize + DeserializeOwned + Send {
    /// Adds what was counted elsewhere.
    fn add(&mut self, other: Self);
}

/// Counts by period and domain.
#[derive(Debug)]
pub(crate) struct Tallies<T> {
    prefix: &'static str,
    /// Seconds.
    period: i64,
    open: Mutex<HashMap<(i64, String), T>>,
}

/// What was counted of a domain in a period that is over.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    pub domain: String,
    /// The period, unix seconds.
    pub start: i64,
    pub end: i64,
    pub tally: T,
}

impl<T: Tally> Tallies<T> {
    /// Counts for periods of so many seconds, in records whose names begin with `prefix`.
    pub fn new(prefix: &'static str, period: i64) -> Self {
        Self { prefix, period: period.max(1), open: Mutex::default() }
    }

    /// Counts something of a domain.
    pub fn note(&self, domain: &str, now: i64, change: impl FnOnce(&mut T)) {
        let start = now - now.rem_euclid(self.period);
        let mut open = self.open.lock();
        let key = (start, domain.to_owned());
        if open.len() < DOMAINS_MAX || open.contains_key(&key) {
            change(open.entry(key).or_default());
        }
    }

    /// Adds what was counted to the records.
    pub async fn flush(&self, engine: &dyn Engine) -> Result<()> {
        let counted = std::mem::take(&mut *self.open.lock());
        for ((start, domain), tally) in counted {
            self.merge(engine, &self.name(start, &domain), tally).await?;
        }
        Ok(())
    }

    async fn merge(&self, engine: &dyn Engine, name: &str, mut tally: T) -> Result<()> {
        for _ in 0..TRIES {
            let entry = engine.directory_entry(name).await?;
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            // What is damaged is counted anew.
            if let Some(before) = entry.and_then(|entry| serde_json::from_slice::<T>(&entry.value).ok()) {
                let ours = std::mem::replace(&mut tally, before);
                let ours_again = serde_json::to_vec(&ours).unwrap_or_default();
                tally.add(ours);
                if commit(engine, name, expected, Some(&tally)).await? {
                    return Ok(());
                }
                tally = serde_json::from_slice(&ours_again).unwrap_or_default();
            } else if commit(engine, name, expected, Some(&tally)).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next record of a period that is over, in the order of their names, after `after`. It is
    /// removed: of several nodes one gets it. A crash then loses a report, and sends none twice.
    /// `spread` is how many seconds after its end a period's reports are spread over.
    pub async fn take_ended(
        &self,
        engine: &dyn Engine,
        now: i64,
        spread: i64,
        after: &mut Option<String>,
    ) -> Result<Option<Ended<T>>> {
        loop {
            let page = engine.directory_scan(self.prefix, after.as_deref(), PAGE).await?;
            if page.is_empty() {
                return Ok(None);
            }
            for entry in page {
                *after = Some(entry.name.clone());
                let Some((start, domain)) = self.parts(&entry.name) else { continue };
                let end = start + self.period;
                if end > now {
                    // Those that follow end later still.
                    return Ok(None);
                }
                if end + offset(&domain, spread) > now {
                    continue;
                }
                if let Some(tally) = self.claim(engine, &entry).await? {
                    return Ok(Some(Ended { domain, start, end, tally }));
                }
            }
        }
    }

    async fn claim(&self, engine: &dyn Engine, entry: &DirectoryEntry) -> Result<Option<T>> {
        let is_ours = commit::<T>(engine, &entry.name, entry.version, None).await?;
        Ok(is_ours.then(|| serde_json::from_slice(&entry.value).ok()).flatten())
    }

    fn name(&self, start: i64, domain: &str) -> String {
        format!("{}{start:012}/{domain}", self.prefix)
    }

    fn parts(&self, name: &str) -> Option<(i64, String)> {
        let (start, domain) = name.strip_prefix(self.prefix)?.split_once('/')?;
        Some((start.parse().ok()?, domain.to_owned()))
    }
}

async fn commit<T: Serialize>(
    engine: &dyn Engine,
    name: &str,
    expected: u64,
    value: Option<&T>,
) -> Result<bool> {
    let value = value.map(|value| serde_json::to_vec(value).unwrap_or_default().into());
    let change = DirectoryChange { name: name.to_owned(), expected, value };
    Ok(engine.directory_commit(change).await? == CommitOutcome::Done)
}

/// Some seconds below `spread`, the same for a domain on every node (FNV-1a).
fn offset(domain: &str, spread: i64) -> i64 {
    let hash = domain.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    i64::try_from(hash >> 1).unwrap_or(0) % spread.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_store::MemoryEngine;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Count(u64);

    impl Tally for Count {
        fn add(&mut self, other: Self) {
            self.0 += other.0;
        }
    }

    #[tokio::test]
    async fn counts_of_two_nodes_make_one_report() {
        let engine = MemoryEngine::new();
        let nodes = [Tallies::<Count>::new("t/", 100), Tallies::new("t/", 100)];
        for (node, at) in [(0, 250), (1, 299), (0, 201), (1, 300)] {
            nodes[node].note("x.test", at, |count| count.0 += 1);
            nodes[node].flush(&engine).await.unwrap();
        }
        let mut after = None;
        assert!(nodes[0].take_ended(&engine, 299, 1, &mut after).await.unwrap().is_none());
        let mut after = None;
        let ended = nodes[1].take_ended(&engine, 300, 1, &mut after).await.unwrap().unwrap();
        assert_eq!(
            (ended.domain.as_str(), ended.start, ended.end, ended.tally),
            ("x.test", 200, 300, Count(3))
        );
        for node in &nodes {
            assert!(node.take_ended(&engine, 300, 1, &mut None).await.unwrap().is_none());
        }
        assert_eq!(nodes[0].take_ended(&engine, 400, 1, &mut None).await.unwrap().unwrap().tally, Count(1));
    }

    #[tokio::test]
    async fn names_of_strangers_have_a_bound() {
        let tallies = Tallies::<Count>::new("t/", 100);
        for domain in 0..DOMAINS_MAX + 10 {
            tallies.note(&domain.to_string(), 1, |count| count.0 += 1);
        }
        tallies.note("0", 1, |count| count.0 += 1);
        assert_eq!(tallies.open.lock().len(), DOMAINS_MAX);
        assert_eq!(tallies.open.lock()[&(0, "0".to_owned())], Count(2));
    }
}
