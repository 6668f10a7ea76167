//! The counts for a report: in memory first, then in a directory record for each period and
//! domain, `PREFIX/START/DOMAIN`.
//!
//! A kill loses the counts since the last [`Tallies::flush`]: some minutes of statistics. On a
//! cluster each node adds to the same records.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use posthaste_directory::registered_domain;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Result, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::round::Spent;

/// Domains that are counted in one period. Further ones are not counted: no untrusted host can
/// fill the memory, or the store, with names.
const DOMAINS_MAX: usize = 10_000;
/// Domains of one registered domain among them: its owner can make names at will, and must not use
/// up those of others. Large senders have some dozens.
const OF_ONE_MAX: usize = 100;
/// Octets of the names of these domains. Usual ones have some 15.
const NAMES_LEN_MAX: usize = 512 * 1024;
/// Octets that are counted between two flushes, by the lengths of names and rows: some 8,000 rows
/// in five minutes.
const LEN_MAX: usize = 2 * 1024 * 1024;
/// Bytes of a domain in the three tables that have it, without its name and its rows.
const DOMAIN_BYTES: usize = 320;
/// Bytes that the counts of one kind of report take at most: the rows, the last of which may
/// exceed the bound, and the names in two tables.
pub(crate) const TALLIES_BYTES_MAX: usize =
    LEN_MAX + TALLY_LEN_MAX + 2 * NAMES_LEN_MAX + DOMAINS_MAX * DOMAIN_BYTES;
/// Octets of one registered domain among them.
const LEN_OF_ONE_MAX: usize = LEN_MAX / 16;
/// Octets of one domain in one period, in memory and in the store: some 500 usual rows. Texts
/// count as [`escaped_len`] does.
pub(crate) const TALLY_LEN_MAX: usize = 128 * 1024;
/// Records that may fail in one flush. The store is then away, and the others wait for the next
/// one.
const FAILURES_MAX: usize = 8;
/// How often a record is merged again after another node changed it.
const TRIES: usize = 16;
/// Records read at a time.
const PAGE: usize = 128;

/// The counts of one domain in one period.
pub(crate) trait Tally: Default + Clone + Serialize + DeserializeOwned + Send {
    /// Adds counts from elsewhere, within [`TALLY_LEN_MAX`].
    fn add(&mut self, other: Self);

    /// Octets that it takes, roughly. Not a walk over all of it, since each message needs the
    /// value.
    fn len(&self) -> usize;
}

/// Octets of a text in a report or in its record, whichever is more: as XML (XML 1.0 §2.4), or
/// as JSON (RFC 8259 §7).
pub(crate) fn escaped_len(text: &str) -> usize {
    let octets = text.chars().map(|c| match c {
        '"' | '\0'..='\u{1f}' => 6,
        '&' => 5,
        '<' | '>' => 4,
        '\\' => 2,
        c => c.len_utf8(),
    });
    octets.sum()
}

/// A period's begin, and a domain.
type Key = (i64, String);

/// The counts in memory.
#[derive(Debug)]
struct Open<T> {
    tallies: HashMap<Key, T>,
    /// Octets of all tallies.
    len: usize,
    /// The newest period, its domains, and by registered domain how many these are, with the octets
    /// of their tallies.
    period: i64,
    domains: HashSet<String>,
    /// Octets of the names of its domains.
    names_len: usize,
    shares: HashMap<String, Share>,
}

#[derive(Debug, Default)]
struct Share {
    domains: usize,
    len: usize,
}

impl<T> Default for Open<T> {
    fn default() -> Self {
        Self {
            tallies: HashMap::new(),
            len: 0,
            period: i64::MIN,
            domains: HashSet::new(),
            names_len: 0,
            shares: HashMap::new(),
        }
    }
}

impl<T: Tally> Open<T> {
    /// Makes a change to a tally, if there is room for it.
    fn change(&mut self, key: Key, change: impl FnOnce(&mut T)) {
        if key.0 > self.period {
            (self.period, self.domains, self.shares) = (key.0, HashSet::new(), HashMap::new());
            self.names_len = 0;
        }
        if !self.domains.contains(&key.1) && self.names_len + key.1.len() > NAMES_LEN_MAX {
            return;
        }
        let registered = registered_domain(&key.1);
        if !self.shares.contains_key(registered) {
            if self.domains.len() >= DOMAINS_MAX {
                return;
            }
            self.shares.insert(registered.to_owned(), Share::default());
        }
        let Some(share) = self.shares.get_mut(registered) else { return };
        if !self.domains.contains(&key.1) {
            if self.domains.len() >= DOMAINS_MAX || share.domains >= OF_ONE_MAX {
                return;
            }
            share.domains += 1;
            self.names_len += key.1.len();
            self.domains.insert(key.1.clone());
        }
        if self.len >= LEN_MAX || share.len >= LEN_OF_ONE_MAX {
            return;
        }
        let name_len = key.1.len();
        let (before, tally) = match self.tallies.entry(key) {
            Entry::Occupied(entry) => (entry.get().len(), entry.into_mut()),
            Entry::Vacant(entry) => (0, entry.insert(T::default())),
        };
        change(tally);
        let added = tally.len().saturating_sub(before) + if before == 0 { name_len } else { 0 };
        self.len += added;
        share.len += added;
    }

    /// All tallies, which are counted elsewhere from now on.
    fn take(&mut self) -> HashMap<Key, T> {
        self.len = 0;
        self.shares.values_mut().for_each(|share| share.len = 0);
        std::mem::take(&mut self.tallies)
    }
}

/// Counts by period and domain.
#[derive(Debug)]
pub(crate) struct Tallies<T> {
    prefix: &'static str,
    /// Seconds.
    period: i64,
    open: Mutex<Open<T>>,
}

/// The counts of a domain in a period that is over.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    pub domain: String,
    /// The period, unix seconds.
    pub start: i64,
    pub end: i64,
    pub tally: T,
}

impl<T: Tally> Tallies<T> {
    /// Counts for periods of this many seconds, in records whose names begin with `prefix`.
    pub fn new(prefix: &'static str, period: i64) -> Self {
        Self { prefix, period: period.max(1), open: Mutex::default() }
    }

    /// Counts something of a domain.
    pub fn note(&self, domain: &str, now: i64, change: impl FnOnce(&mut T)) {
        let start = now - now.rem_euclid(self.period);
        self.open.lock().change((start, domain.to_owned()), change);
    }

    /// Adds the counts to the records. Counts that cannot be written wait for the next flush, as
    /// long as its report is not due; the first error says why.
    pub async fn flush(&self, engine: &dyn Engine, now: i64) -> Result<()> {
        let counted = self.open.lock().take();
        let (mut failures, mut first) = (0, Ok(()));
        for ((start, domain), tally) in counted {
            let merged = match failures < FAILURES_MAX {
                true => self.merge(engine, &self.name(start, &domain), &tally).await,
                false => Ok(false),
            };
            if !matches!(merged, Ok(true)) {
                failures += 1;
                if start + 2 * self.period > now {
                    self.open.lock().change((start, domain), |open| open.add(tally));
                }
            }
            first = first.and(merged.map(|_| ()));
        }
        first
    }

    /// Adds a tally to its record; whether that was possible. Other nodes may always be faster.
    async fn merge(&self, engine: &dyn Engine, name: &str, tally: &T) -> Result<bool> {
        for _ in 0..TRIES {
            let entry = engine.directory_entry(name).await?;
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            // A damaged record counts as empty.
            let before = entry.and_then(|entry| serde_json::from_slice::<T>(&entry.value).ok());
            let mut sum = before.unwrap_or_default();
            sum.add(tally.clone());
            if commit(engine, name, expected, Some(&sum)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next record of a period that is over, in the order of their names, after `after`. It is
    /// removed: of several nodes one gets it. A crash then loses a report, and sends none twice.
    /// `spread` is how many seconds after its end a period's reports are spread over. Domains
    /// without time in this round are left out.
    pub async fn take_ended(
        &self,
        engine: &dyn Engine,
        (now, spread): (i64, i64),
        spent: &Spent,
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
                    // The next periods end later still.
                    return Ok(None);
                }
                if end + offset(&domain, spread) > now || !spent.has_time(&domain) {
                    continue;
                }
                if let Some(tally) = self.claim(engine, &entry).await? {
                    return Ok(Some(Ended { domain, start, end, tally }));
                }
            }
        }
    }

    /// Counts what [`Self::take_ended`] returned again, because its report was not sent.
    pub fn keep(&self, Ended { domain, start, tally, .. }: Ended<T>) {
        self.open.lock().change((start, domain), |open| open.add(tally));
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
    let bytes = value.map(serde_json::to_vec).transpose();
    let bytes = bytes.map_err(|error| StoreError::Unavailable(format!("the record {name}: {error}")))?;
    let change = DirectoryChange { name: name.to_owned(), expected, value: bytes.map(Into::into) };
    Ok(engine.directory_commit(change).await? == CommitOutcome::Done)
}

/// Some seconds below `spread`, the same for a domain on every node (FNV-1a).
fn offset(domain: &str, spread: i64) -> i64 {
    let hash = domain.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 1).cast_signed() % spread.max(1)
}

#[cfg(test)]
mod tests {
    use posthaste_store::MemoryEngine;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
    struct Count(u64);

    impl Tally for Count {
        fn add(&mut self, other: Self) {
            self.0 += other.0;
        }

        fn len(&self) -> usize {
            usize::try_from(self.0).unwrap()
        }
    }

    fn note(tallies: &Tallies<Count>, domain: &str, count: u64) {
        tallies.note(domain, 1, |tally| tally.0 += count);
    }

    async fn next_ended(
        tallies: &Tallies<Count>,
        engine: &dyn Engine,
        now: i64,
        after: &mut Option<String>,
    ) -> Option<Ended<Count>> {
        tallies.take_ended(engine, (now, 1), &Spent::default(), after).await.unwrap()
    }

    #[tokio::test]
    async fn counts_of_two_nodes_make_one_report() {
        let engine = MemoryEngine::new();
        let nodes = [Tallies::<Count>::new("t/", 100), Tallies::new("t/", 100)];
        for (node, at) in [(0, 250), (1, 299), (0, 201), (1, 300)] {
            nodes[node].note("x.test", at, |count| count.0 += 1);
            nodes[node].flush(&engine, at).await.unwrap();
        }
        assert!(next_ended(&nodes[0], &engine, 299, &mut None).await.is_none());
        let ended = next_ended(&nodes[1], &engine, 300, &mut None).await.unwrap();
        assert_eq!(
            (ended.domain.as_str(), ended.start, ended.end, ended.tally),
            ("x.test", 200, 300, Count(3))
        );
        for node in &nodes {
            assert!(next_ended(node, &engine, 300, &mut None).await.is_none());
        }
        let ended = next_ended(&nodes[0], &engine, 400, &mut None).await.unwrap();
        assert_eq!(ended.tally, Count(1));
        // One that was not sent is counted again.
        nodes[1].keep(ended);
        nodes[1].flush(&engine, 400).await.unwrap();
        let again = next_ended(&nodes[0], &engine, 400, &mut None).await.unwrap();
        assert_eq!((again.domain.as_str(), again.start, again.tally), ("x.test", 300, Count(1)));
    }

    #[tokio::test]
    async fn names_of_strangers_have_a_bound() {
        let tallies = Tallies::<Count>::new("t/", 100);
        for domain in 0..DOMAINS_MAX + 10 {
            note(&tallies, &domain.to_string(), 1);
        }
        note(&tallies, "0", 1);
        assert_eq!(tallies.open.lock().tallies.len(), DOMAINS_MAX);
        assert_eq!(tallies.open.lock().tallies[&(0, "0".to_owned())], Count(2));
        // A flush makes no room for more names in this period. The next period has room again.
        tallies.flush(&MemoryEngine::new(), 1).await.unwrap();
        note(&tallies, "other", 1);
        assert!(tallies.open.lock().tallies.is_empty());
        tallies.note("other", 101, |count| count.0 += 1);
        assert_eq!(tallies.open.lock().tallies.len(), 1);
    }

    /// Names below a domain can be made at will.
    #[tokio::test]
    async fn one_registered_domain_leaves_room_for_others() {
        let tallies = Tallies::<Count>::new("t/", 100);
        for n in 0..DOMAINS_MAX {
            note(&tallies, &format!("{n}.evil.test"), 1);
        }
        note(&tallies, "x.test", 1);
        let open = tallies.open.lock();
        assert_eq!((open.tallies.len(), open.tallies[&(0, "x.test".to_owned())].0), (OF_ONE_MAX + 1, 1));
    }

    #[test]
    fn long_names_have_a_bound_of_their_own() {
        let tallies = Tallies::<Count>::new("t/", 100);
        let label = "x".repeat(60);
        for n in 0..DOMAINS_MAX {
            note(&tallies, &format!("{label}.{label}.{n}.test"), 1);
        }
        let open = tallies.open.lock();
        let names: usize = open.domains.iter().map(String::len).sum();
        assert!(names <= NAMES_LEN_MAX && names == open.names_len && open.domains.len() < DOMAINS_MAX);
    }

    #[tokio::test]
    async fn octets_have_a_bound() {
        let tallies = Tallies::<Count>::new("t/", 100);
        let big = TALLY_LEN_MAX as u64;
        for n in 0..LEN_OF_ONE_MAX / TALLY_LEN_MAX * 2 {
            note(&tallies, &format!("{n}.evil.test"), big);
        }
        let len = tallies.open.lock().len;
        assert!((LEN_OF_ONE_MAX..LEN_OF_ONE_MAX + 2 * TALLY_LEN_MAX).contains(&len), "{len}");
        for n in 0..LEN_MAX / TALLY_LEN_MAX * 2 {
            note(&tallies, &format!("x{n}.test"), big);
        }
        let len = tallies.open.lock().len;
        assert!((LEN_MAX..LEN_MAX + 2 * TALLY_LEN_MAX).contains(&len), "{len}");
        // After a flush there is room.
        tallies.flush(&MemoryEngine::new(), 1).await.unwrap();
        note(&tallies, "0.evil.test", 1);
        assert_eq!(tallies.open.lock().tallies[&(0, "0.evil.test".to_owned())], Count(1));
    }

    /// Fails to write some records.
    struct Failing(MemoryEngine, std::sync::atomic::AtomicBool);

    #[async_trait::async_trait]
    impl posthaste_store::suite::layer::Layer for Failing {
        type Inner = MemoryEngine;

        fn inner(&self) -> &MemoryEngine {
            &self.0
        }

        async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
            if change.name.contains("bad") && self.1.load(std::sync::atomic::Ordering::SeqCst) {
                return Err(posthaste_store::StoreError::Refused("away"));
            }
            self.0.directory_commit(change).await
        }
    }

    #[tokio::test]
    async fn unwritten_tallies_wait_and_the_others_are_written() {
        let engine = Failing(MemoryEngine::new(), true.into());
        let tallies = Tallies::<Count>::new("t/", 100);
        for n in 0..6 {
            note(&tallies, &format!("good{n}.test"), 1);
        }
        for n in 0..3 {
            note(&tallies, &format!("bad{n}.test"), 1);
        }
        tallies.flush(&engine, 1).await.unwrap_err();
        assert_eq!(tallies.open.lock().tallies.len(), 3);
        note(&tallies, "bad0.test", 1);
        engine.1.store(false, std::sync::atomic::Ordering::SeqCst);
        tallies.flush(&engine, 2).await.unwrap();
        assert!(tallies.open.lock().tallies.is_empty());
        let (mut after, mut all) = (None, Vec::new());
        while let Some(ended) = next_ended(&tallies, &engine, 100, &mut after).await {
            all.push(ended.tally.0);
        }
        assert_eq!(all, [2, 1, 1, 1, 1, 1, 1, 1, 1]);
        // Counts that are too late for their report are dropped.
        engine.1.store(true, std::sync::atomic::Ordering::SeqCst);
        note(&tallies, "bad.test", 1);
        tallies.flush(&engine, 200).await.unwrap_err();
        assert!(tallies.open.lock().tallies.is_empty());
    }
}
