//! Annotations of messages that got a new UID or mailbox within one account: by a move, or by a
//! conversion.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, DirectoryEntry};

use super::record::{MessageAnnotations, Scope};
use super::{AT_ONCE, Keeping, MessageAnnotationRecords, read, unreadable};
use crate::annotation_error::AnnotationError;
use crate::error::{DirectoryError, Result};
use crate::records::TRIES;

/// UIDs that are looked at between two pauses.
const LOOKED_AT_ONCE: usize = 10_000;

/// The message whose values stay where both messages have some.
#[derive(Clone, Copy)]
enum Winner {
    Old,
    New,
}

/// Messages of an account, and those that they became.
#[derive(Debug, Clone, Copy)]
pub struct Relocated<'u> {
    /// The owner of both mailboxes.
    pub owner: AccountId,
    /// The mailbox of the original messages.
    pub from: MailboxId,
    /// The mailbox of the new messages.
    pub to: MailboxId,
    /// The UIDs of the original messages.
    pub old: &'u NumSet,
    /// The UIDs of the new messages, in the same order.
    pub new: &'u NumSet,
    /// The scopes of the values that are copied.
    pub scopes: &'static [Scope],
}

/// The values that new messages were given. Copied again, these are known to be no user's own.
#[derive(Debug, Default)]
pub struct Copies(BTreeMap<(AccountId, u32), Bytes>);

/// New messages that have values, and the accounts that keep them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WithAnnotations {
    /// The messages.
    pub uids: NumSet,
    /// The accounts that keep values of the mailbox they were in.
    pub keepers: Vec<AccountId>,
}

/// The values of one message for another one.
struct Copy {
    to: u32,
    value: Bytes,
    /// The value before the copy.
    last: Option<Bytes>,
}

impl MessageAnnotationRecords {
    /// Gives the new messages what all accounts keep of the old ones, which keep it as well.
    /// `copies` has what an earlier call for the same messages gave them. Returns the new messages
    /// that have values then.
    pub async fn copy(
        &self,
        relocated: Relocated<'_>,
        copies: &mut Copies,
    ) -> Result<WithAnnotations, AnnotationError> {
        let keepers = self.keepers(relocated.owner, relocated.from).await?;
        self.copy_of(relocated, keepers, Some(copies)).await
    }

    async fn copy_of(
        &self,
        relocated: Relocated<'_>,
        keepers: Vec<AccountId>,
        mut copies: Option<&mut Copies>,
    ) -> Result<WithAnnotations, AnnotationError> {
        let Relocated { owner, from, to, .. } = relocated;
        let wins = if from == to { Winner::Old } else { Winner::New };
        let mut annotated = NumSet::new();
        for &keeper in &keepers {
            let here = Keeping { keeper, owner, mailbox: from };
            let found = self.records_of(here, relocated.old).await?;
            if found.is_empty() {
                continue;
            }
            let there = Keeping { keeper, owner, mailbox: to };
            self.note_keeper(there).await?;
            let (mut all, mut written) = (Vec::with_capacity(found.len()), Vec::new());
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
                let mut last = None;
                if let Some(copies) = &copies {
                    last = copies.0.get(&(keeper, new)).cloned();
                    written.push(((keeper, new), value.clone()));
                }
                all.push(Copy { to: new, value, last });
                if at % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            annotated = annotated.union(&all.iter().map(|copy| copy.to).collect());
            stream::iter(all)
                .map(|copy| self.write_copy(there, copy, wins))
                .buffered(AT_ONCE)
                .try_for_each(|()| async {
                    tokio::task::yield_now().await;
                    Ok(())
                })
                .await?;
            if let Some(copies) = &mut copies {
                copies.0.extend(written);
            }
        }
        Ok(WithAnnotations { uids: annotated, keepers })
    }

    /// Gives the new message values of the old one. Values that a user has set meanwhile stay. A
    /// conversion copies within one mailbox, perhaps again after it was cut off: there the old
    /// message's win, unless it is known what the copies were.
    async fn write_copy(&self, there: Keeping, copy: Copy, wins: Winner) -> Result<()> {
        let name = there.record(copy.to);
        let of = |value: &Bytes| MessageAnnotations::parse(value).ok_or_else(|| unreadable(&name));
        let (old, last) = (of(&copy.value)?, copy.last.as_ref().map(of).transpose()?);
        for _ in 0..TRIES {
            let entry = self.records.entry(&name).await?;
            let there = entry.as_ref().map(read).transpose()?.unwrap_or_default();
            let new = merged(&there, &old, (last.as_ref(), wins));
            if new == there {
                return Ok(());
            }
            let value = match new.is_empty() {
                true => None,
                false => Some(new.print().ok_or_else(|| unreadable(&name))?),
            };
            let expected = entry.map_or(0, |entry: DirectoryEntry| entry.version);
            if self.records.put(name.clone(), expected, value).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name))
    }

    /// Gives new messages the values of old ones that were expunged, and forgets the old records
    /// afterwards. Call it after the expunge. Values that were acknowledged are there by then.
    pub async fn relocate(
        &self,
        relocated: Relocated<'_>,
        expunged: &NumSet,
    ) -> Result<WithAnnotations, AnnotationError> {
        let Relocated { owner, from, .. } = relocated;
        let keepers = self.keepers(owner, from).await?;
        let annotated = self.copy_of(relocated, keepers, None).await?;
        for &keeper in &annotated.keepers {
            let here = Keeping { keeper, owner, mailbox: from };
            if let Err(error) = self.forget_kept(here, expunged).await {
                // The new messages have theirs. These are removed with a later change.
                tracing::warn!(%error, "annotations of moved messages were not removed from the source mailbox");
            }
        }
        Ok(annotated)
    }
}

/// The values of the new message. Where the last copy is known, a value that differs from it was
/// set by a user, and stays.
fn merged(
    there: &MessageAnnotations,
    copy: &MessageAnnotations,
    (last, wins): (Option<&MessageAnnotations>, Winner),
) -> MessageAnnotations {
    let mut all = there.clone();
    let known = last.into_iter().flat_map(MessageAnnotations::iter);
    for (scope, entry, _) in copy.iter().chain(known) {
        let (is, copied) = (there.get(scope, entry), copy.get(scope, entry));
        let value = match (last, wins) {
            (Some(last), _) if is == last.get(scope, entry) => copied,
            (Some(_), _) => is,
            (None, Winner::Old) => copied.or(is),
            (None, Winner::New) => is.or(copied),
        };
        all.set(scope, entry, value.cloned());
    }
    all
}

/// The new UID of a message. `pairs` rise, and so do the UIDs of successive calls.
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
