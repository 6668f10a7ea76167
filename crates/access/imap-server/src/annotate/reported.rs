//! The annotations that a session has seen, if it selected with (ANNOTATE): RFC 5257 §4.4.
//!
//! It keeps a hash of each value. When a message changes, its values are read and compared: so a
//! session sees changes of any process or server. It reports the names of the entries that changed,
//! without their values.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use posthaste_directory::Scope;
use posthaste_mail_model::NumSet;

use super::reader::{AnnotationReader, ByUid, ReadValues, VALUE_STEPS};
use crate::heavy::Pace;
use crate::kept_memory::KeptMemory;
use crate::reply::Failure;

/// Values that a session keeps hashes of: some 1 MB. In a mailbox with more, changes of annotations
/// show by MODSEQ alone.
const HASHES_MAX: usize = 10_000;

/// Octets of a hash in a tree of few, and of the allocation of its name.
const HASH_BYTES: usize = 160;

type ValueHashes = BTreeMap<(Scope, Box<str>), u64>;

/// The values that were reported to the client, or that it has set.
pub(crate) struct ReportedAnnotations {
    hashing: RandomState,
    by_uid: BTreeMap<u32, ValueHashes>,
    count: usize,
    octets: usize,
    memory: KeptMemory,
}

/// What hashes take.
fn octets_of(hashes: &ValueHashes) -> usize {
    hashes.keys().map(|(_, entry)| HASH_BYTES + entry.len()).sum()
}

impl ReportedAnnotations {
    /// The present values; `None` if there are too many.
    pub(crate) async fn read(reader: AnnotationReader<'_>) -> Result<Option<Box<Self>>, Failure> {
        // The memory is held as long as the values are.
        let ReadValues { by_uid: all, paid: _paid } = reader.read_all().await?;
        let (hashing, memory) = (RandomState::new(), KeptMemory::new(reader.service, reader.login));
        let mut known = Self { hashing, by_uid: BTreeMap::new(), count: 0, octets: 0, memory };
        let uids = all.keys().copied().collect();
        known.adopt(&uids, &all).await;
        Ok((!known.is_full()).then(|| Box::new(known)))
    }

    /// Takes over the values of these messages, and returns the entries that have changed. Messages
    /// without values cost nothing.
    pub(super) async fn adopt(&mut self, uids: &NumSet, all: &ByUid) -> Vec<(u32, Vec<String>)> {
        let (mut changed, mut pace) = (Vec::new(), Pace::default());
        if uids.is_empty() {
            return changed;
        }
        let mut concerned = BTreeSet::new();
        for uid in self.by_uid.keys().chain(all.keys()) {
            if uids.contains(*uid) {
                concerned.insert(*uid);
            }
            pace.worked(VALUE_STEPS).await;
        }
        for uid in concerned {
            let mut new = ValueHashes::new();
            if let Some(annotations) = all.get(&uid) {
                for (scope, entry, value) in annotations.iter() {
                    new.insert((scope, entry.into()), self.hashing.hash_one(value));
                    pace.worked(value.len() as u64 + VALUE_STEPS).await;
                }
            }
            let old = self.by_uid.remove(&uid).unwrap_or_default();
            self.count = self.count.saturating_sub(old.len()) + new.len();
            self.octets = self.octets.saturating_sub(octets_of(&old)) + octets_of(&new);
            let differs = |key: &&(Scope, Box<str>)| old.get(*key) != new.get(*key);
            let keys = old.keys().chain(new.keys()).filter(differs);
            let mut names: Vec<String> = keys.map(|(_, entry)| entry.to_string()).collect();
            names.sort_unstable();
            names.dedup();
            pace.worked(VALUE_STEPS * (old.len() + new.len()) as u64).await;
            if !names.is_empty() {
                changed.push((uid, names));
            }
            if !new.is_empty() {
                self.by_uid.insert(uid, new);
            }
        }
        changed
    }

    /// Whether there are more values than a session keeps hashes of.
    pub(super) fn is_full(&mut self) -> bool {
        self.count > HASHES_MAX || self.memory.resize(self.octets).is_err()
    }

    /// Takes over what the session itself has changed.
    pub(crate) async fn note_own(
        &mut self,
        reader: AnnotationReader<'_>,
        uids: &NumSet,
    ) -> Result<(), Failure> {
        let ReadValues { by_uid: all, paid: _paid } = reader.read(uids).await?;
        self.adopt(uids, &all).await;
        Ok(())
    }
}
