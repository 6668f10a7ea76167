//! Which accounts keep values of the messages of a mailbox, and their removal.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 1 | version: 1 |
//! | 16 for each account | its id |
//!
//! An account that has no values any more may still be named.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine};

use super::{Keeping, MessageAnnotationRecords, PAGE, kept_by, scan, unreadable};
use crate::annotation_error::AnnotationError;
use crate::error::{DirectoryError, Result};
use crate::orphans::OwnedMailbox;
use crate::records::TRIES;

/// Accounts that may keep values of one mailbox: as many as its access control list has entries.
pub const ANNOTATING_ACCOUNTS_MAX: usize = 200;

/// The form of a record.
const VERSION: u8 = 1;
const ID_LEN: usize = 16;

pub(super) fn of_owner(owner: AccountId) -> String {
    format!("annotated/{owner}/")
}

pub(super) fn name_of(owner: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}", of_owner(owner))
}

pub(super) fn parse(entry: &DirectoryEntry) -> Result<Vec<AccountId>> {
    let parse = || {
        let (ids, rest) = entry.value.strip_prefix(&[VERSION])?.as_chunks::<ID_LEN>();
        let is_whole = rest.is_empty() && ids.len() <= ANNOTATING_ACCOUNTS_MAX + 1;
        is_whole.then(|| ids.iter().map(|id| AccountId(Id::from_bytes(*id))).collect())
    };
    parse().ok_or_else(|| unreadable(&entry.name))
}

pub(super) fn print(keepers: &[AccountId]) -> Bytes {
    let mut bytes = vec![VERSION];
    keepers.iter().for_each(|keeper| bytes.extend_from_slice(&keeper.0.to_bytes()));
    bytes.into()
}

/// The mailbox of a record.
pub(super) fn mailbox_of(owner: AccountId, name: &str) -> Result<MailboxId> {
    let id = name.strip_prefix(of_owner(owner).as_str()).and_then(Id::parse);
    id.map(MailboxId).ok_or_else(|| unreadable(name))
}

/// Owner and mailbox of a record with values; `None` of a record that another program wrote.
pub(super) fn place_of(keeper: AccountId, name: &str) -> Option<OwnedMailbox> {
    let rest = name.strip_prefix(kept_by(keeper).as_str())?;
    let mut parts = rest.split('/').map(Id::parse);
    Some((AccountId(parts.next()??), MailboxId(parts.next()??)))
}

/// Removes all records below a prefix.
pub(super) async fn remove_all(engine: &dyn Engine, prefix: &str) -> Result<()> {
    loop {
        let page = engine.directory_scan(prefix, None, PAGE).await?;
        for entry in &page {
            let (name, expected) = (entry.name.clone(), entry.version);
            // After a conflict with another change, the next page shows the record again.
            engine.directory_commit(DirectoryChange { name, expected, value: None }).await?;
        }
        if page.is_empty() {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

impl MessageAnnotationRecords {
    /// The accounts that may keep values of messages of a mailbox. Where there never were any, it
    /// reads one record that is not there.
    #[boxed]
    pub async fn keepers(&self, owner: AccountId, mailbox: MailboxId) -> Result<Vec<AccountId>> {
        let entry = self.records.entry(&name_of(owner, mailbox)).await?;
        entry.as_ref().map_or_else(|| Ok(Vec::new()), parse)
    }

    /// Makes an account one of them, before it keeps its first value.
    pub(super) async fn note_keeper(&self, keeping: Keeping) -> Result<(), AnnotationError> {
        let name = name_of(keeping.owner, keeping.mailbox);
        for _ in 0..TRIES {
            let entry = self.records.entry(&name).await?;
            let mut keepers = entry.as_ref().map_or_else(|| Ok(Vec::new()), parse)?;
            if keepers.contains(&keeping.keeper) {
                return Ok(());
            }
            // The owner always has room: it keeps the shared values, too.
            let others = keepers.iter().filter(|keeper| **keeper != keeping.owner).count();
            if keeping.keeper != keeping.owner && others >= ANNOTATING_ACCOUNTS_MAX {
                return Err(AnnotationError::TooMany);
            }
            keepers.push(keeping.keeper);
            let expected = entry.map_or(0, |entry| entry.version);
            if self.records.put(name.clone(), expected, Some(print(&keepers))).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name).into())
    }

    /// Forgets the annotations of messages that were expunged, of all accounts that keep some.
    #[boxed]
    pub async fn forget(&self, owner: AccountId, mailbox: MailboxId, uids: &NumSet) -> Result<()> {
        if uids.is_empty() {
            return Ok(());
        }
        for keeper in self.keepers(owner, mailbox).await? {
            self.forget_kept(Keeping { keeper, owner, mailbox }, uids).await?;
        }
        Ok(())
    }

    pub(super) async fn forget_kept(&self, keeping: Keeping, uids: &NumSet) -> Result<()> {
        for _ in 0..TRIES {
            let found = self.records_of(keeping, uids).await?;
            let found = found.into_iter().map(|(_, entry)| (entry.name, entry.version));
            if self.remove_records(found.collect()).await? {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(keeping.record(uids.first().unwrap_or_default())))
    }

    /// Forgets all annotations of the messages of a mailbox that was deleted, of all accounts that
    /// keep some.
    #[boxed]
    pub async fn forget_mailbox(&self, owner: AccountId, mailbox: MailboxId) -> Result<()> {
        self.forget_keepers(owner, mailbox, &[]).await
    }

    /// Forgets all annotations of the messages of a mailbox that was deleted, also of `keepers`,
    /// accounts that have written values of the mailbox. Its deletion may have come before, so that
    /// it did not find them, and nobody names their keepers.
    #[boxed]
    pub async fn forget_keepers(
        &self,
        owner: AccountId,
        mailbox: MailboxId,
        keepers: &[AccountId],
    ) -> Result<()> {
        for keeper in keepers {
            remove_all(self.records.engine(), &Keeping { keeper: *keeper, owner, mailbox }.prefix()).await?;
        }
        let name = name_of(owner, mailbox);
        for _ in 0..TRIES {
            let Some(entry) = self.records.entry(&name).await? else { return Ok(()) };
            for keeper in parse(&entry)? {
                remove_all(self.records.engine(), &Keeping { keeper, owner, mailbox }.prefix()).await?;
            }
            // After a conflict there is another keeper.
            if self.records.put(name.clone(), entry.version, None).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name))
    }

    /// Forgets all annotations of messages in an account's mailboxes, and all that it keeps itself.
    pub(crate) async fn forget_account(&self, account: AccountId) -> Result<()> {
        let mut mailboxes = Vec::new();
        scan(self.records.engine(), &of_owner(account), |entry| {
            mailboxes.push(mailbox_of(account, &entry.name)?);
            Ok(())
        })
        .await?;
        for mailbox in mailboxes {
            self.forget_mailbox(account, mailbox).await?;
        }
        let mut places = BTreeSet::new();
        scan(self.records.engine(), &kept_by(account), |entry| {
            places.extend(place_of(account, &entry.name));
            Ok(())
        })
        .await?;
        // First: a run after a crash finds the places by the records.
        for (owner, mailbox) in places {
            self.strike_keeper(Keeping { keeper: account, owner, mailbox }).await?;
        }
        remove_all(self.records.engine(), &kept_by(account)).await
    }

    /// Makes room for another account.
    async fn strike_keeper(&self, keeping: Keeping) -> Result<()> {
        let name = name_of(keeping.owner, keeping.mailbox);
        for _ in 0..TRIES {
            let Some(entry) = self.records.entry(&name).await? else { return Ok(()) };
            let mut keepers = parse(&entry)?;
            keepers.retain(|keeper| *keeper != keeping.keeper);
            if self.records.put(name.clone(), entry.version, Some(print(&keepers))).await?
                == CommitOutcome::Done
            {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name))
    }
}
