//! Access control lists of mailboxes: RFC 4314. Who, beside its owner, may do what in a mailbox.
//!
//! | record | content |
//! | --- | --- |
//! | `acl/<account id>/<mailbox id>` | the list of a mailbox: identifiers and their rights |
//! | `grant/<hash of an identifier>/<account id>` | the account's name. Its mailboxes may have lists that name the identifier |
//! | `sharing/changes` | empty: its version counts the changes of all lists |
//!
//! A list is named by the mailbox's id, so it stays with a mailbox that gets another name. A
//! `grant` is written before the list that it leads to, and stays when the list changes: it may
//! lead to nothing, and nothing is found without it. A change is counted last. So whoever sees the
//! count sees the change.
//!
//! The owner has every right, and no list says so.
//!
//! Not in here: which rights a command needs, and names of mailboxes.

mod copy;
mod list;

use std::fmt::Write as _;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id, MailboxId, Rights};
use posthaste_store::{CommitOutcome, DirectoryEntry, Engine};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::account::Account;
use crate::directory::{Directory, TRIES};
use crate::error::{DirectoryError, Result};
use crate::record::{self, Stored};

pub use copy::{copy_acls, same_acls};
pub use list::{Acl, Identifier, Who};

/// Entries of a list at most. It is read for each change of who may see what, and sent in one line.
pub const ACL_ENTRIES_MAX: usize = 200;
/// Accounts whose mailboxes one account is shown at most. Without a limit, many who share a mailbox
/// with everybody would slow down each LIST.
pub const SHARING_ACCOUNTS_MAX: usize = 1_000;

const CHANGES: &str = "sharing/changes";
/// Records per engine call: they have some KiB.
const PAGE: usize = 64;

/// Why a list was not changed.
#[derive(Debug, thiserror::Error)]
pub enum AclError {
    /// Over [`ACL_ENTRIES_MAX`].
    #[error("an access control list has at most {ACL_ENTRIES_MAX} entries: remove some first")]
    TooMany,
    /// The store, or a record.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

impl From<posthaste_store::StoreError> for AclError {
    fn from(error: posthaste_store::StoreError) -> Self {
        Self::Directory(error.into())
    }
}

/// An account that shares mailboxes with another one.
#[derive(Debug, Clone)]
pub struct Sharing {
    /// Whose mailboxes.
    pub owner: Account,
    /// What the other account may do in them. Mailboxes without a right are left out.
    pub mailboxes: Vec<(MailboxId, Rights)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantRecord {
    v: u32,
    owner: String,
}

fn prefix(account: AccountId) -> String {
    format!("acl/{account}/")
}

fn key(account: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}", prefix(account))
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

fn mailbox_of(account: AccountId, name: &str) -> Option<MailboxId> {
    Id::parse(name.strip_prefix(&prefix(account))?).map(MailboxId)
}

/// All records below a prefix, a page at a time.
async fn scan(
    engine: &dyn Engine,
    prefix: &str,
    mut each: impl FnMut(&DirectoryEntry) -> Result<()>,
) -> Result<()> {
    let mut after: Option<String> = None;
    loop {
        let page = engine.directory_scan(prefix, after.as_deref(), PAGE).await?;
        page.iter().try_for_each(&mut each)?;
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
            _ => return Ok(()),
        }
    }
}

impl Directory {
    /// The list of a mailbox; none is an empty list.
    pub async fn acl(&self, owner: AccountId, mailbox: MailboxId) -> Result<Acl> {
        let entry = self.engine.directory_entry(&key(owner, mailbox)).await?;
        entry.as_ref().map_or_else(|| Ok(Acl::default()), Acl::read)
    }

    /// All lists of an account's mailboxes.
    pub async fn acls(&self, owner: AccountId) -> Result<Vec<(MailboxId, Acl)>> {
        let mut found = Vec::new();
        scan(&*self.engine, &prefix(owner), |entry| {
            if let Some(mailbox) = mailbox_of(owner, &entry.name) {
                found.push((mailbox, Acl::read(entry)?));
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// A number that is another one after each change of a list of anyone.
    pub async fn sharing_changes(&self) -> Result<u64> {
        Ok(self.engine.directory_entry(CHANGES).await?.map_or(0, |entry| entry.version))
    }

    /// Gives an identifier other rights in a mailbox. No right at all removes its entry. Whether
    /// the mailbox exists is the caller's to know.
    pub async fn set_rights(
        &self,
        owner: &Account,
        mailbox: MailboxId,
        identifier: &Identifier,
        rights: impl Fn(Rights) -> Rights,
    ) -> Result<(), AclError> {
        self.change_acl(owner, mailbox, |acl| acl.set(identifier, rights(acl.get(identifier)))).await
    }

    /// Gives a mailbox the list of another one of its account.
    pub async fn inherit_acl(&self, owner: &Account, mailbox: MailboxId, acl: &Acl) -> Result<()> {
        match self.change_acl(owner, mailbox, |own| *own = acl.clone()).await {
            Ok(()) | Err(AclError::TooMany) => Ok(()),
            Err(AclError::Directory(error)) => Err(error),
        }
    }

    async fn change_acl(
        &self,
        owner: &Account,
        mailbox: MailboxId,
        change: impl Fn(&mut Acl),
    ) -> Result<(), AclError> {
        let key = key(owner.id, mailbox);
        for _ in 0..TRIES {
            let entry = self.engine.directory_entry(&key).await?;
            let expected = entry.as_ref().map_or(0, |entry| entry.version);
            let old = entry.as_ref().map_or_else(|| Ok(Acl::default()), Acl::read)?;
            let mut new = old.clone();
            change(&mut new);
            if new == old {
                return Ok(());
            }
            if new.len() > old.len() && new.len() > ACL_ENTRIES_MAX {
                return Err(AclError::TooMany);
            }
            for who in new.named() {
                self.make_sure(grant(who, owner)?).await?;
            }
            // A list without entries is kept, too: removed and made again, it would have a version
            // that someone else has read before.
            let value = Some(new.print(&key)?);
            if self.put(key.clone(), expected, value).await? == CommitOutcome::Done {
                self.note_sharing_change().await?;
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key).into())
    }

    /// Writes a record unless it says the same already.
    async fn make_sure(&self, (key, value): (String, Bytes)) -> Result<()> {
        for _ in 0..TRIES {
            let entry = self.engine.directory_entry(&key).await?;
            if entry.as_ref().is_some_and(|entry| entry.value == value) {
                return Ok(());
            }
            let expected = entry.map_or(0, |entry| entry.version);
            if self.put(key.clone(), expected, Some(value.clone())).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Removes the list of a mailbox that was deleted.
    pub async fn remove_acl(&self, owner: AccountId, mailbox: MailboxId) -> Result<()> {
        let key = key(owner, mailbox);
        for _ in 0..TRIES {
            let Some(entry) = self.engine.directory_entry(&key).await? else { return Ok(()) };
            if self.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return self.note_sharing_change().await;
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// What others share with an account. At most [`SHARING_ACCOUNTS_MAX`] of them, those who name
    /// the account before those who name everybody.
    pub async fn shared_with(&self, reader: &Account) -> Result<Vec<Sharing>> {
        let reader_name = Who::User(reader.name.clone());
        let mut owners: Vec<(AccountId, String)> = Vec::new();
        for who in [&reader_name, &Who::Anyone] {
            let prefix = grants_of(who);
            scan(&*self.engine, &prefix, |entry| {
                let id = entry.name.strip_prefix(&prefix).and_then(Id::parse).map(AccountId);
                if let Some(id) = id
                    && id != reader.id
                    && owners.len() < SHARING_ACCOUNTS_MAX
                    && !owners.iter().any(|(known, _)| *known == id)
                {
                    owners.push((id, record::parse::<GrantRecord>(entry)?.owner));
                }
                Ok(())
            })
            .await?;
        }
        let mut found = Vec::new();
        for (id, name) in owners {
            // Another account may have got the name since.
            let Some(owner) = Stored::find(&*self.engine, &name).await? else { continue };
            if owner.account.id != id {
                continue;
            }
            let lists = self.acls(id).await?;
            let rights = lists.into_iter().map(|(mailbox, acl)| (mailbox, acl.rights_of(&reader.name)));
            let mailboxes: Vec<_> = rights.filter(|(_, rights)| !rights.is_empty()).collect();
            if !mailboxes.is_empty() {
                found.push(Sharing { owner: owner.account, mailboxes });
            }
        }
        Ok(found)
    }

    /// Removes an account from all lists, and its mailboxes' own lists: whoever gets its name later
    /// gets none of its rights.
    pub async fn forget_sharing(&self, account: &Account) -> Result<()> {
        let who = Who::User(account.name.clone());
        let mut owners = Vec::new();
        scan(&*self.engine, &grants_of(&who), |entry| {
            owners.push((entry.name.clone(), record::parse::<GrantRecord>(entry)?.owner));
            Ok(())
        })
        .await?;
        for (_, name) in &owners {
            let Some(owner) = Stored::find(&*self.engine, name).await? else { continue };
            for (mailbox, acl) in self.acls(owner.account.id).await? {
                if acl.named().any(|named| *named == who) {
                    let outcome = self.change_acl(&owner.account, mailbox, |acl| acl.forget(&who)).await;
                    outcome.or_else(|error| match error {
                        AclError::TooMany => Ok(()),
                        AclError::Directory(error) => Err(error),
                    })?;
                }
            }
        }
        self.remove_acls(account.id).await
    }

    /// Removes the lists of all mailboxes of an account.
    pub async fn remove_acls(&self, owner: AccountId) -> Result<()> {
        for (mailbox, _) in self.acls(owner).await? {
            self.remove_acl(owner, mailbox).await?;
        }
        Ok(())
    }

    async fn note_sharing_change(&self) -> Result<()> {
        note_change(&*self.engine).await
    }
}

/// Counts a change. After [`TRIES`] conflicts others have counted since the change was made:
/// whoever looks sees it.
async fn note_change(engine: &dyn Engine) -> Result<()> {
    for _ in 0..TRIES {
        let expected = engine.directory_entry(CHANGES).await?.map_or(0, |entry| entry.version);
        let (name, value) = (CHANGES.to_owned(), Some(Bytes::new()));
        let change = posthaste_store::DirectoryChange { name, expected, value };
        if engine.directory_commit(change).await? == CommitOutcome::Done {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
