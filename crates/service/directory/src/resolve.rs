//! Resolves an address: to an account, then an alias, then the same without its detail.

use std::collections::HashSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use parking_lot::RwLock;

use crate::account::Account;
use crate::address::{Address, AddressError};
use crate::error::DirectoryError;
use crate::record;
use crate::records::Records;

/// The account that gets mail for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The account of the address. Shared: an untrusted host may name a thousand addresses of it.
    pub account: Arc<Account>,
    /// The address as it was given, in normal form.
    pub address: Address,
    /// The part after the `+`, if that was not part of a name: RFC 5233 §1.
    pub detail: Option<Arc<str>>,
}

/// Why mail for an address is not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    /// No address at all: 501 5.1.3.
    #[error("not a valid address: {0}")]
    Invalid(#[from] AddressError),
    /// A domain that is not ours: 550 5.1.2.
    #[error("this server does not receive mail for that domain")]
    NotLocal,
    /// An address of this server that nobody has: 550 5.1.1.
    #[error("no such user here")]
    NoSuchUser,
    /// An account that takes no mail: 550 5.2.1.
    #[error("that mailbox is disabled")]
    Disabled,
    /// An address that cannot be resolved at present: 451 4.3.0.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// The addresses of accounts and aliases, and the domains of this server.
pub(crate) struct Addresses {
    records: Records,
    /// Domains, in normal form, whose unknown recipients another server has.
    shared_domains: RwLock<HashSet<String>>,
}

impl Addresses {
    pub fn new(records: Records) -> Self {
        Self { records, shared_domains: RwLock::default() }
    }

    /// Names the domains that are shared with another server, in place of those named before.
    pub fn share_domains(&self, domains: HashSet<String>) {
        *self.shared_domains.write() = domains;
    }

    /// The domains that are shared.
    pub fn shared_domains(&self) -> HashSet<String> {
        self.shared_domains.read().clone()
    }

    /// Finds the account that gets mail for an address. One to four reads of a record.
    #[boxed]
    pub async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        let address = Address::parse(address)?;
        if let Some(account) = self.owner(address.as_str()).await? {
            return accepting(account, address, None);
        }
        if let Some((base, detail)) = address.split_detail()
            && let Some(account) = self.owner(base.as_str()).await?
        {
            let detail = Some(Arc::clone(detail));
            return accepting(account, address, detail);
        }
        match address.domain() {
            Some(domain) if !self.is_local_domain(domain).await? => Err(ResolveError::NotLocal),
            _ => Err(ResolveError::NoSuchUser),
        }
    }

    /// Whether mail for some address of this domain (in normal form) is or was taken here.
    #[boxed]
    pub async fn is_local_domain(&self, domain: &str) -> Result<bool, DirectoryError> {
        Ok(self.records.entry(&record::domain_key(domain)).await?.is_some())
    }

    /// The answer for an address that no account and no group has.
    pub fn unknown(&self, address: &Address) -> ResolveError {
        let is_shared = address.domain().is_some_and(|domain| self.shared_domains.read().contains(domain));
        if is_shared { ResolveError::NotLocal } else { ResolveError::NoSuchUser }
    }

    /// The account that has exactly this address. An alias of an alias leads nowhere, so there are
    /// no loops.
    async fn owner(&self, address: &str) -> Result<Option<Arc<Account>>, DirectoryError> {
        if let Some(account) = self.records.account(address).await? {
            return Ok(Some(account));
        }
        match self.records.alias_target(address).await? {
            Some(name) => self.records.account(&name).await,
            None => Ok(None),
        }
    }
}

fn accepting(
    account: Arc<Account>,
    address: Address,
    detail: Option<Arc<str>>,
) -> Result<Recipient, ResolveError> {
    if account.disabled { Err(ResolveError::Disabled) } else { Ok(Recipient { account, address, detail }) }
}
