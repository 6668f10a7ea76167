//! Annotations of messages that got a new UID or mailbox within one account: by a move, or by a
//! conversion.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, DirectoryEntry};

use super::record::Scope;
use super::{AT_ONCE, Keeping, read, unreadable};
use crate::annotations::AnnotationError;
use crate::directory::{Directory, TRIES};
use crate::error::{DirectoryError, Result};

/// UIDs that are looked at between two pauses.
const LOOKED_AT_ONCE: usize = 10_000;

/// Which message's values stay where both have some.
#[derive(Clone, Copy)]
enum Winner {
    Old,
    New,
}

/// Messages of an account, and those that they became.
#[derive(Debug, Clone, Copy)]
pub struct Relocated<'u> {
    /// Whose mailboxes both are.
    pub owner: AccountId,
    /// Where they were.
    pub from: MailboxId,
    /// Where they are.
    pub to: MailboxId,
    /// Their UIDs there.
    pub old: &'u NumSet,
    /// Their new UIDs, in the same order.
    pub new: &'u NumSet,
    /// Which values they take along.
    pub scopes: &'static [Scope],
}

impl Directory {
    /// Gives the new messages what all accounts keep of the old ones, which keep it as well.
    /// Returns
    /// the new messages that have values then.
    pub async fn copy_message_annotations(
        &self,
        relocated: Relocated<'_>,
    ) -> Result<NumSet, AnnotationError> {
        let keepers = self.annotation_keepers(relocated.owner, relocated.from).await?;
        self.copy_of(relocated, &keepers).await
    }

    async fn copy_of(
        &self,
        relocated: Relocated<'_>,
        keepers: &[AccountId],
    ) -> Result<NumSet, AnnotationError> {
        let Relocated { owner, from, to, .. } = relocated;
        let mut annotated = NumSet::new();
        for &keeper in keepers {
            let here = Keeping { keeper, owner, mailbox: from };
            let found = self.records_of(here, relocated.old).await?;
            if found.is_empty() {
                continue;
            }
            let there = Keeping { keeper, owner, mailbox: to };
            self.note_keeper(there).await?;
            let mut copies: Vec<(u32, Bytes)> = Vec::with_capacity(found.len());
            let mut pairs = relocated.old.iter().zip(relocated.new.iter());
            for (at, (uid, entry)) in found.into_iter().enumerate() {
                let Some(new) = find(&mut pairs, uid).await else { break };
                let mut value = entry.value.clone();
                if relocated.scopes != Scope::ALL {
                    let mut values = read(&entry)?;
                    values.retain(relocated.scopes);
                    if values.is_empty() {
                        continue;
                    }
                    value = values.print().ok_or(AnnotationError::TooLong)?;
                }
                copies.push((new, value));
                if at % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            annotated = annotated.union(&copies.iter().map(|(uid, _)| *uid).collect());
            let wins = if from == to { Winner::Old } else { Winner::New };
            let write = |(uid, value): (u32, Bytes)| self.write_copy(there.record(uid), value, wins);
            stream::iter(copies)
                .map(write)
                .buffered(AT_ONCE)
                .try_for_each(|()| async {
                    tokio::task::yield_now().await;
                    Ok(())
                })
                .await?;
        }
        Ok(annotated)
    }

    /// Gives the new message values of the old one. Values that a user has set meanwhile stay. A
    /// conversion copies within one mailbox, perhaps once more after it was cut off: there the old
    /// message wins.
    async fn write_copy(&self, name: String, value: Bytes, wins: Winner) -> Result<()> {
        for _ in 0..TRIES {
            let entry = self.engine.directory_entry(&name).await?;
            let merged = match (&entry, wins) {
                (Some(there), Winner::New) => merged(there, &value)?,
                _ => value.clone(),
            };
            let expected = entry.map_or(0, |entry| entry.version);
            if self.put(name.clone(), expected, Some(merged)).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name))
    }

    /// The same for messages whose old ones were expunged: these are forgotten once the others are
    /// written.
    pub async fn move_message_annotations(
        &self,
        relocated: Relocated<'_>,
        expunged: &NumSet,
    ) -> Result<NumSet, AnnotationError> {
        let Relocated { owner, from, .. } = relocated;
        let keepers = self.annotation_keepers(owner, from).await?;
        let annotated = self.copy_of(relocated, &keepers).await?;
        for keeper in keepers {
            let here = Keeping { keeper, owner, mailbox: from };
            if let Err(error) = self.forget_kept(here, expunged).await {
                // The new messages have theirs. These are removed with a later change.
                tracing::warn!(%error, "annotations of moved messages were not removed from the source mailbox");
            }
        }
        Ok(annotated)
    }
}

/// The values that a record has, and those that it lacks out of a copy.
fn merged(there: &DirectoryEntry, copy: &Bytes) -> Result<Bytes> {
    let DirectoryEntry { name, version, .. } = there;
    let mut all = read(&DirectoryEntry { name: name.clone(), version: *version, value: copy.clone() })?;
    for (scope, entry, value) in read(there)?.iter() {
        all.set(scope, entry, Some(value.clone()));
    }
    all.print().ok_or_else(|| unreadable(name))
}

/// What a message became. `pairs` rise, and so do the messages that are asked for.
async fn find(pairs: &mut impl Iterator<Item = (u32, u32)>, uid: u32) -> Option<u32> {
    for (at, (old, new)) in pairs.by_ref().enumerate() {
        if old >= uid {
            return (old == uid).then_some(new);
        }
        if at % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    None
}
