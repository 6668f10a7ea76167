//! The parsed records of accounts. A login and each delivery read a record, and parsing it costs
//! three times as much as reading it. A record that is kept is shared by all who read it.
//!
//! Each use compares the octets that were read with those that were parsed. So a change by any
//! process is seen at once.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_store::DirectoryEntry;

use crate::error::Result;
use crate::recent::{AsIs, Recent};
use crate::record::Stored;

/// Records that are kept, and as many that were used before.
const KEPT: usize = 256;
/// Octets of a record that is kept: most have some 600. With what is parsed, all of them take some
/// 1.5 MiB at most, which the memory plan has in the part of the program itself.
const OCTETS_MAX: usize = 1024;

/// A record as it was read, and what it means.
type Parsed = (DirectoryEntry, Arc<Stored>);

/// The records used last.
pub(crate) struct ParsedRecords {
    hasher: RandomState,
    recent: Mutex<Recent<u64, Arc<Parsed>, AsIs>>,
}

impl ParsedRecords {
    pub fn new() -> Self {
        Self { hasher: RandomState::new(), recent: Mutex::new(Recent::of_hashes(KEPT)) }
    }

    /// The account and the credentials of a record that was read. It copies nothing of a record
    /// that is kept.
    pub fn of(&self, entry: DirectoryEntry) -> Result<Arc<Stored>> {
        let key = self.hasher.hash_one(&entry.name);
        let known = self.recent.lock().get(&key);
        if let Some(known) = known
            && known.0 == entry
        {
            return Ok(Arc::clone(&known.1));
        }
        let stored = Arc::new(Stored::read(&entry)?);
        if entry.value.len() <= OCTETS_MAX {
            self.recent.lock().insert(key, Arc::new((entry, Arc::clone(&stored))));
        }
        Ok(stored)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn a_record_is_parsed_again_once_it_differs() {
        let parsed = ParsedRecords::new();
        let entry = |name: &str, version, quota: u32| {
            let id = Id::new(5, 6);
            let value = format!(
                r#"{{"v":1,"id":"{id}","name":"{name}","argon2":"x","quota_bytes":{quota},"format":"keep","disabled":false,"created":0}}"#
            );
            DirectoryEntry { name: format!("account/{name}"), version, value: value.into() }
        };
        for (name, version, quota) in
            [("ana", 1, 7), ("ben", 1, 5), ("ana", 1, 7), ("ana", 1, 8), ("ana", 2, 8), ("ben", 1, 5)]
        {
            let stored = parsed.of(entry(name, version, quota)).unwrap();
            let found = (&*stored.account.name, stored.account.version, stored.account.quota_bytes);
            assert_eq!(found, (name, version, Some(quota.into())));
            let again = parsed.of(entry(name, version, quota)).unwrap();
            assert!(Arc::ptr_eq(&again, &stored), "a record is shared");
        }
        let damaged = DirectoryEntry { value: "{".into(), ..entry("ana", 2, 8) };
        assert!(parsed.of(damaged).is_err());
    }
}
