//! Access control lists of mailboxes: RFC 4314. Who may do what in a mailbox, in addition to its
//! owner.
//!
//! | record | content |
//! | --- | --- |
//! | `acl/<account id>/<mailbox id>` | the list of a mailbox: identifiers and their rights |
//! | `grant/<hash of an identifier>/<account id>` | the account's name. Its mailboxes may have lists that name the identifier |
//! | `sharing/of/<account id>` | how many entries the account's lists have; its version counts their changes |
//! | `sharing/changes` | empty: its version counts the changes of all lists |
//! | `sharing/named/<account id>` | how many `grant` records a user has caused |
//!
//! A list is named by the mailbox's id, so it stays with a mailbox that gets another name. A
//! `grant` is written before the list that it refers to, and stays when the list changes. So it may
//! refer to an account without such a list, but each account with a list has its `grant`. A change
//! is counted last, for its owner and then for all. So a reader that sees the new count sees the
//! change. If counting failed, repeating the change counts it.
//!
//! The owner has every right without an entry in a list.
//!
//! Not in here: which rights a command needs, and names of mailboxes.

mod changes;
mod copy;
mod keys;
mod list;
mod named;
mod read;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id, MailboxId, Rights};
use posthaste_store::CommitOutcome;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::account::Account;
use crate::error::{DirectoryError, Result};
use crate::record::{self, Stored};
use crate::records::{Records, TRIES};

pub use copy::{copy_acls, same_acls};
pub use list::{Acl, Identifier, Who};
pub use named::NAMED_MAX;

use keys::{key, mailbox_of, prefix, scan};

/// Entries of a list at most. It is read after each change of rights, and sent in one line.
pub const ACL_ENTRIES_MAX: usize = 200;
/// Entries at most in all lists of one account. Each account that sees one of its mailboxes reads
/// them all after each change of one of them: some MB, and some ten milliseconds.
pub const ACCOUNT_ENTRIES_MAX: usize = 20_000;
/// Accounts whose mailboxes one account is shown at most. Without a limit, many who share a mailbox
/// with everybody would slow down each LIST.
pub const SHARING_ACCOUNTS_MAX: usize = 1_000;

/// Why a list was not changed.
#[derive(Debug, thiserror::Error)]
pub enum AclError {
    /// Over [`ACL_ENTRIES_MAX`].
    #[error("an access control list has at most {ACL_ENTRIES_MAX} entries: remove some first")]
    TooMany,
    /// Over [`ACCOUNT_ENTRIES_MAX`].
    #[error(
        "the access control lists of an account have at most {ACCOUNT_ENTRIES_MAX} entries in all: remove some first"
    )]
    TooManyInAll,
    /// Over [`NAMED_MAX`].
    #[error("a user gives rights to at most {NAMED_MAX} accounts; those that have lost them count as well")]
    TooManyNamed,
    /// The store, or a record.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl From<posthaste_store::StoreError> for AclError {
    fn from(error: posthaste_store::StoreError) -> Self {
        Self::Directory(error.into())
    }
}

/// An account that may share mailboxes with another one.
#[derive(Debug, Clone)]
pub struct Sharer {
    /// The account whose lists may name the other one.
    pub id: AccountId,
    name: String,
}

/// An account that shares mailboxes with another one.
#[derive(Debug, Clone)]
pub struct Sharing {
    /// The owner of the mailboxes.
    pub owner: Account,
    /// The rights of the other account in them. Mailboxes without a right are left out.
    pub mailboxes: Vec<(MailboxId, Rights)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantRecord {
    v: u32,
    owner: String,
}

/// A name of an account and its domain may have 382 octets, a record's name only 400: the key has
/// the hash.
fn grants_of(who: &Who) -> String {
    let mut key = "grant/".to_owned();
    for byte in &Sha256::digest(who.as_str().as_bytes())[..16] {
        let _ = write!(key, "{byte:02x}");
    }
    key.push('/');
    key
}

fn grant(who: &Who, owner: &Account) -> Result<(String, Bytes)> {
    let key = format!("{}{}", grants_of(who), owner.id);
    let value = record::print(&key, &GrantRecord { v: record::VERSION, owner: owner.name.clone() })?;
    Ok((key, value))
}

/// The access control lists of all mailboxes.
pub struct Acls {
    records: Records,
}

impl Acls {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// The list of a mailbox; none is an empty list.
    #[boxed]
    pub async fn get(&self, owner: AccountId, mailbox: MailboxId) -> Result<Acl> {
        let entry = self.records.entry(&key(owner, mailbox)).await?;
        entry.as_ref().map_or_else(|| Ok(Acl::default()), Acl::read)
    }

    /// Reads the lists of an account's mailboxes.
    #[boxed]
    pub async fn all(&self, owner: AccountId) -> Result<Vec<(MailboxId, Acl)>> {
        let mut found = Vec::new();
        scan(self.records.engine(), &prefix(owner), |entry| {
            if let Some(mailbox) = mailbox_of(owner, &entry.name) {
                found.push((mailbox, Acl::read(entry)?));
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// A number that grows with each change of a list of anyone.
    #[boxed]
    pub async fn changes(&self) -> Result<u64> {
        changes::all(self.records.engine()).await
    }

    /// A number that grows with each change of a list of this account.
    #[boxed]
    pub async fn changes_of(&self, owner: AccountId) -> Result<u64> {
        changes::of_owner(self.records.engine(), owner).await
    }

    /// Gives an identifier other rights in a mailbox. No right at all removes its entry. The caller
    /// checks that the mailbox exists.
    pub async fn set_rights(
        &self,
        owner: &Account,
        mailbox: MailboxId,
        identifier: &Identifier,
        rights: impl Fn(Rights) -> Rights,
    ) -> Result<(), AclError> {
        self.change(owner, mailbox, None, |acl| acl.set(identifier, rights(acl.get(identifier)))).await
    }

    /// [`Self::set_rights`] by a user, who need not be the owner, within [`NAMED_MAX`].
    pub async fn set_rights_by(
        &self,
        (by, owner): (AccountId, &Account),
        mailbox: MailboxId,
        identifier: &Identifier,
        rights: impl Fn(Rights) -> Rights,
    ) -> Result<(), AclError> {
        self.change(owner, mailbox, Some(by), |acl| acl.set(identifier, rights(acl.get(identifier)))).await
    }

    /// Gives a mailbox the list of another one of its account, if there is room for it.
    #[boxed]
    pub async fn inherit(&self, owner: &Account, mailbox: MailboxId, acl: &Acl) -> Result<()> {
        match self.change(owner, mailbox, None, |own| *own = acl.clone()).await {
            Ok(()) | Err(AclError::TooMany | AclError::TooManyInAll | AclError::TooManyNamed) => Ok(()),
            Err(AclError::Directory(error)) => Err(error),
        }
    }

    /// Changes a list. Accounts that it did not name count for this user.
    async fn change(
        &self,
        owner: &Account,
        mailbox: MailboxId,
        by: Option<AccountId>,
        change: impl Fn(&mut Acl),
    ) -> Result<(), AclError> {
        let key = key(owner.id, mailbox);
        for _ in 0..TRIES {
            let entry = self.records.entry(&key).await?;
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            let old = entry.as_ref().map_or_else(|| Ok(Acl::default()), Acl::read)?;
            let mut new = old.clone();
            change(&mut new);
            let entries = changes::Entries::FromTo(old.len(), new.len());
            if new == old {
                // An earlier attempt may have changed it and failed before it was counted.
                return Ok(changes::note(self.records.engine(), owner.id, entries).await?);
            }
            self.check_entries(owner, &old, &new).await?;
            for who in new.named_beside(&old) {
                self.ensure(grant(who, owner)?, by).await?;
            }
            // A list without entries is kept, too: removed and made again, it would have a version
            // that someone else has read before.
            let value = Some(new.print(&key)?);
            if self.records.put(key.clone(), expected, value).await? == CommitOutcome::Done {
                return Ok(changes::note(self.records.engine(), owner.id, entries).await?);
            }
        }
        Err(DirectoryError::Busy(key).into())
    }

    async fn check_entries(&self, owner: &Account, old: &Acl, new: &Acl) -> Result<(), AclError> {
        let more = new.len().saturating_sub(old.len());
        if more == 0 {
            return Ok(());
        }
        if new.len() > ACL_ENTRIES_MAX {
            return Err(AclError::TooMany);
        }
        match changes::has_room(self.records.engine(), owner.id, more, ACCOUNT_ENTRIES_MAX).await? {
            true => Ok(()),
            false => Err(AclError::TooManyInAll),
        }
    }

    /// Writes a record unless it has this value already. A new one counts for the user.
    async fn ensure(&self, (key, value): (String, Bytes), by: Option<AccountId>) -> Result<(), AclError> {
        for _ in 0..TRIES {
            let entry = self.records.entry(&key).await?;
            if entry.as_ref().is_some_and(|entry| entry.value == value) {
                return Ok(());
            }
            if entry.is_none()
                && let Some(by) = by
                && !named::count_one(self.records.engine(), by).await?
            {
                return Err(AclError::TooManyNamed);
            }
            let expected = entry.map_or(0, |entry| entry.version);
            if self.records.put(key.clone(), expected, Some(value.clone())).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key).into())
    }

    /// Removes the list of a mailbox that was deleted.
    #[boxed]
    pub async fn remove(&self, owner: AccountId, mailbox: MailboxId) -> Result<()> {
        let engine = self.records.engine();
        match self.remove_record(owner, mailbox).await? {
            Some(entries) => changes::note(engine, owner, changes::Entries::FromTo(entries, 0)).await,
            // An earlier attempt may have failed before it was counted. An account that never
            // shared anything has nothing to count.
            None if changes::of_owner(engine, owner).await? == 0 => Ok(()),
            None => changes::note(engine, owner, changes::Entries::FromTo(0, 0)).await,
        }
    }

    /// Removes the record of a list, and returns the number of its entries. The caller must count
    /// the change.
    async fn remove_record(&self, owner: AccountId, mailbox: MailboxId) -> Result<Option<usize>> {
        let key = key(owner, mailbox);
        for _ in 0..TRIES {
            let Some(entry) = self.records.entry(&key).await? else { return Ok(None) };
            if self.records.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return read::count_in(&entry).map(Some);
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// The accounts whose lists may name an account, or everybody. At most
    /// [`SHARING_ACCOUNTS_MAX`], those who name the account before those who name everybody.
    #[boxed]
    pub async fn sharers(&self, reader: &Account) -> Result<Vec<Sharer>> {
        let mut found: Vec<Sharer> = Vec::new();
        let mut known = HashSet::from([reader.id]);
        for who in [&Who::User(reader.name.clone()), &Who::Anyone] {
            let prefix = grants_of(who);
            scan(self.records.engine(), &prefix, |entry| {
                let id = entry.name.strip_prefix(&prefix).and_then(Id::parse).map(AccountId);
                if let Some(id) = id
                    && found.len() < SHARING_ACCOUNTS_MAX
                    && known.insert(id)
                {
                    found.push(Sharer { id, name: record::parse::<GrantRecord>(entry)?.owner });
                }
                Ok(())
            })
            .await?;
        }
        Ok(found)
    }

    /// The mailboxes that an account shares with another one; `None` if it shares nothing.
    #[boxed]
    pub async fn shared_by(&self, sharer: &Sharer, reader: &Account) -> Result<Option<Sharing>> {
        // Another account may have got the name since.
        let owner = Stored::find(self.records.engine(), &sharer.name).await?.map(|stored| stored.account);
        let Some(owner) = owner.filter(|owner| owner.id == sharer.id) else { return Ok(None) };
        let mut mailboxes = Vec::new();
        scan(self.records.engine(), &prefix(owner.id), |entry| {
            let rights = read::rights_in(entry, &reader.name)?;
            let mailbox = mailbox_of(owner.id, &entry.name).filter(|_| !rights.is_empty());
            mailboxes.extend(mailbox.map(|mailbox| (mailbox, rights)));
            Ok(())
        })
        .await?;
        let owner = Arc::unwrap_or_clone(owner);
        Ok(Some(Sharing { owner, mailboxes }).filter(|sharing| !sharing.mailboxes.is_empty()))
    }

    /// Removes an account from all lists, and its mailboxes' own lists: a later account of that
    /// name gets none of its rights.
    #[boxed]
    pub async fn forget(&self, account: &Account) -> Result<()> {
        let who = Who::User(account.name.clone());
        let mut owners = Vec::new();
        scan(self.records.engine(), &grants_of(&who), |entry| {
            owners.push((entry.name.clone(), record::parse::<GrantRecord>(entry)?.owner));
            Ok(())
        })
        .await?;
        for (_, name) in &owners {
            let Some(owner) = Stored::find(self.records.engine(), name).await? else { continue };
            for (mailbox, acl) in self.all(owner.account.id).await? {
                if acl.named().any(|named| *named == who) {
                    let outcome = self.change(&owner.account, mailbox, None, |acl| acl.forget(&who)).await;
                    outcome.or_else(|error| match error {
                        AclError::TooMany | AclError::TooManyInAll | AclError::TooManyNamed => Ok(()),
                        AclError::Directory(error) => Err(error),
                    })?;
                }
            }
        }
        named::forget(self.records.engine(), account.id).await?;
        self.remove_all(account.id).await
    }

    /// Removes the lists of all mailboxes of an account.
    #[boxed]
    pub async fn remove_all(&self, owner: AccountId) -> Result<()> {
        let mut mailboxes = Vec::new();
        scan(self.records.engine(), &prefix(owner), |entry| {
            mailboxes.extend(mailbox_of(owner, &entry.name));
            Ok(())
        })
        .await?;
        for mailbox in &mailboxes {
            self.remove_record(owner, *mailbox).await?;
        }
        match mailboxes.is_empty() && changes::of_owner(self.records.engine(), owner).await? == 0 {
            true => Ok(()),
            false => changes::note(self.records.engine(), owner, changes::Entries::Unknown).await,
        }
    }
}

#[cfg(test)]
mod tests;
