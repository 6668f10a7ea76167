//! Aliases made, listed and removed: further addresses of accounts.

use async_recursion::async_recursion as boxed;
use posthaste_store::CommitOutcome;

use crate::error::{DirectoryError, Result};
use crate::group::refuse_group;
use crate::record;
use crate::records::{Records, TRIES, parse_address};

/// An address that belongs to an account of another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The address, in normal form.
    pub address: String,
    /// The account's name.
    pub account: String,
}

/// The aliases of all accounts.
pub struct Aliases {
    records: Records,
}

impl Aliases {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// Makes an address belong to an account.
    #[boxed]
    pub async fn add(&self, alias: &str, account: &str) -> Result<Alias> {
        let (address, account) = (parse_address(alias)?, parse_address(account)?);
        self.records.existing(account.as_str()).await?;
        if self.records.stored(address.as_str()).await?.is_some() {
            return Err(DirectoryError::AccountExists(address.to_string()));
        }
        refuse_group(&self.records, &address).await?;
        self.records.note_domain_of(&address).await?;
        let value = record::write_alias(address.as_str(), account.as_str())?;
        match self.records.put(record::alias_key(address.as_str()), 0, Some(value)).await? {
            CommitOutcome::Done => Ok(Alias { address: address.to_string(), account: account.to_string() }),
            CommitOutcome::Conflict => {
                // Another process made it, and may have removed it since.
                match self.records.alias_target(address.as_str()).await? {
                    Some(account) => Err(DirectoryError::AliasExists { alias: address.to_string(), account }),
                    None => Err(DirectoryError::Busy(address.to_string())),
                }
            }
        }
    }

    /// The account that an alias belongs to; `None` if there is no such alias.
    #[boxed]
    pub async fn owner(&self, alias: &str) -> Result<Option<String>> {
        self.records.alias_target(parse_address(alias)?.as_str()).await
    }

    /// Ends an alias.
    #[boxed]
    pub async fn remove(&self, alias: &str) -> Result<()> {
        let address = parse_address(alias)?;
        let key = record::alias_key(address.as_str());
        for _ in 0..TRIES {
            let entry = self.records.entry(&key).await?;
            let entry = entry.ok_or_else(|| DirectoryError::NoAlias(address.to_string()))?;
            if self.records.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Aliases by address, those after `after`, at most `limit`.
    #[boxed]
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Alias>> {
        let after = after.map(record::alias_key);
        let entries = self.records.scan(record::ALIAS_PREFIX, after.as_deref(), limit).await?;
        let alias = |entry| {
            let account = record::read_alias(entry)?;
            let address = entry.name.strip_prefix(record::ALIAS_PREFIX).unwrap_or(&entry.name).to_owned();
            Ok(Alias { address, account })
        };
        entries.iter().map(alias).collect()
    }
}
