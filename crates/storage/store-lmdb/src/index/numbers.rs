//! Single numbers in the main database: the next sequence number, and the version of the index.

use heed::RoTxn;
use posthaste_mail_model::NumSet;
use posthaste_store::Result;

use super::{Index, Indexed, SEQ_KEY, VERSION_KEY, Writing, damaged, lists};
use crate::index::sealed::{open_value, seal, seed_of_key, unseal};
use crate::log::record::SEQ_NEXT_MAX;

/// The version of the index: 5 in format 5, 6 in formats 6 and 7. An index without one is older.
const VERSION: u32 = 6;

impl Index {
    /// Brings the index of an older format up to this one: lists get their counts, and retired
    /// packs their set.
    pub(crate) fn upgrade(&self) -> Result<()> {
        if self.is_of_this_form(&*self.read()?)? {
            return Ok(());
        }
        let mut txn = self.write()?;
        if !self.is_of_this_form(&txn)? {
            lists::count_all(self, &mut txn)?;
            self.add_retired(&mut txn, &NumSet::new())?;
            let mut value = open_value();
            value.extend_from_slice(&VERSION.to_le_bytes());
            self.main.put(&mut txn, &VERSION_KEY, &seal(seed_of_key(&VERSION_KEY), value)).indexed()?;
        }
        txn.commit()
    }

    /// Whether the index is of this version, and not of an older one.
    pub(crate) fn is_of_this_form(&self, txn: &RoTxn) -> Result<bool> {
        let Some(value) = self.main.get(txn, &VERSION_KEY).indexed()? else { return Ok(false) };
        let version = unseal(seed_of_key(&VERSION_KEY), value).and_then(|mut read| read.u32());
        version.map(|version| version >= VERSION).ok_or_else(damaged("the version of the index"))
    }

    /// The next sequence number.
    pub(crate) fn seq(&self, txn: &RoTxn) -> Result<u64> {
        let Some(value) = self.main.get(txn, &SEQ_KEY).indexed()? else { return Ok(1) };
        // No reader would take records with higher numbers for records.
        unseal(seed_of_key(&SEQ_KEY), value)
            .and_then(|mut read| read.u64())
            .filter(|seq| *seq <= SEQ_NEXT_MAX)
            .ok_or_else(damaged("the sequence number"))
    }

    /// Sets the next sequence number.
    pub(crate) fn put_seq(&self, txn: &mut Writing, seq: u64) -> Result<()> {
        let mut value = open_value();
        value.extend_from_slice(&seq.to_le_bytes());
        self.main.put(txn, &SEQ_KEY, &seal(seed_of_key(&SEQ_KEY), value)).indexed()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_store::StoreError;

    use super::*;

    /// The author of a backup may write any number into its index.
    #[test]
    fn no_transaction_begins_with_a_number_that_no_store_reaches() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), 1 << 20, 8).unwrap();
        let mut txn = index.write().unwrap();
        for (seq, is_known) in [(SEQ_NEXT_MAX, true), (SEQ_NEXT_MAX + 1, false), (u64::MAX, false)] {
            index.put_seq(&mut txn, seq).unwrap();
            let read = index.seq(&txn);
            assert_eq!(read.is_ok(), is_known, "{seq}: {read:?}");
            assert!(is_known || matches!(read, Err(StoreError::Corrupt(_))));
        }
    }
}
