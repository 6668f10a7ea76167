//! The directory's records in the store: reads, and writes that name the version they replace.
//!
//! Each change reads a record, and writes it on the condition that nobody else has written it
//! since. A change that lost the race is made again from the present record.
//!
//! All other modules read and write through this one. This one uses the forms of records only:
//! see `record`.

use std::sync::Arc;

use bytes::Bytes;
use posthaste_metrics::Counter;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine};

use crate::account::Account;
use crate::address::Address;
use crate::error::{DirectoryError, Result};
use crate::parsed::ParsedRecords;
use crate::record::{self, Stored};

/// The attempts at a change that loses races. Each loss means someone else won: sixteen in a row
/// is no accident.
pub(crate) const TRIES: usize = 16;

/// The records of one store.
#[derive(Clone)]
pub(crate) struct Records {
    engine: Arc<dyn Engine>,
    parsed: Arc<ParsedRecords>,
}

impl Records {
    /// The records of a store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, parsed: Arc::new(ParsedRecords::new()) }
    }

    /// The store, for functions that work on any store.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Reads a record by its name.
    pub async fn entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(self.engine.directory_entry(name).await?)
    }

    /// Records whose names start with `prefix` and sort after `after`, at most `limit`.
    pub async fn scan(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<DirectoryEntry>> {
        Ok(self.engine.directory_scan(prefix, after, limit).await?)
    }

    /// The names of the records that [`Self::scan`] returns, without their content.
    pub async fn names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        Ok(self.engine.directory_names(prefix, after, limit).await?)
    }

    /// Writes a record, or removes it (`None`), if its version is `expected`. 0: there is none.
    pub async fn put(&self, name: String, expected: u64, value: Option<Bytes>) -> Result<CommitOutcome> {
        Ok(self.engine.directory_commit(DirectoryChange { name, expected, value }).await?)
    }

    /// An account's record, by its normal name. Its readers share it.
    pub async fn stored(&self, name: &str) -> Result<Option<Arc<Stored>>> {
        posthaste_metrics::count(Counter::DirectoryReads, 1);
        let entry = Stored::entry(self.engine(), name).await?;
        entry.map(|entry| self.parsed.of(entry)).transpose()
    }

    /// The account of a record, by its normal name. Its readers share it.
    pub async fn account(&self, name: &str) -> Result<Option<Arc<Account>>> {
        Ok(self.stored(name).await?.map(|stored| Arc::clone(&stored.account)))
    }

    /// The account an alias belongs to, if the address is one.
    pub async fn alias_target(&self, address: &str) -> Result<Option<String>> {
        posthaste_metrics::count(Counter::DirectoryReads, 1);
        let entry = self.entry(&record::alias_key(address)).await?;
        entry.as_ref().map(record::read_alias).transpose()
    }

    /// The record of an account that must exist, by its normal name, to be changed.
    pub async fn existing(&self, name: &str) -> Result<Stored> {
        let stored = self.stored(name).await?.ok_or_else(|| DirectoryError::NoAccount(name.to_owned()))?;
        Ok(Arc::unwrap_or_clone(stored))
    }

    /// The record of an account that must exist, by its name in any spelling.
    pub async fn existing_stored(&self, name: &str) -> Result<Stored> {
        self.existing(parse_address(name)?.as_str()).await
    }

    /// The normal name of an account that must exist.
    pub async fn existing_name(&self, name: &str) -> Result<String> {
        Ok(self.existing_stored(name).await?.account.name.clone())
    }

    /// Changes an account's record, again from the start if someone else did meanwhile.
    pub async fn update(&self, name: &str, change: impl Fn(&mut Stored)) -> Result<Account> {
        let change = |stored: &mut Stored| {
            change(stored);
            Ok(())
        };
        self.try_update(name, change).await
    }

    /// Changes an account's record as [`Self::update`] does. The change may fail.
    pub async fn try_update(
        &self,
        name: &str,
        change: impl Fn(&mut Stored) -> Result<()>,
    ) -> Result<Account> {
        let address = parse_address(name)?;
        let key = record::account_key(address.as_str());
        for _ in 0..TRIES {
            let mut stored = self.existing(address.as_str()).await?;
            change(&mut stored)?;
            if self.put(key.clone(), stored.account.version, Some(stored.write()?)).await?
                == CommitOutcome::Done
            {
                let mut account = Arc::unwrap_or_clone(stored.account);
                account.version += 1;
                return Ok(account);
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Makes a domain (in normal form) one of this server, also when its last address is removed.
    pub async fn note_domain(&self, domain: &str) -> Result<()> {
        let value = record::write_domain(domain)?;
        // A conflict says that it is there already.
        self.put(record::domain_key(domain), 0, Some(value)).await?;
        Ok(())
    }

    /// Makes the domain of an address one of this server.
    pub async fn note_domain_of(&self, address: &Address) -> Result<()> {
        if let Some(domain) = address.domain() {
            self.note_domain(domain).await?;
        }
        Ok(())
    }
}

/// Parses an address. The error names the text.
pub(crate) fn parse_address(text: &str) -> Result<Address> {
    Address::parse(text).map_err(|why| DirectoryError::Address { text: text.to_owned(), why })
}
