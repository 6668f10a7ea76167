//! New values of messages.
//!
//! A change has two steps. The first one reads the present values, and checks all limits before
//! anything is written. The second one writes each record on the condition that it is still the one
//! that was read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::NumSet;
use posthaste_store::{CommitOutcome, DirectoryEntry};

use super::keepers::place_of;
use super::record::{MessageAnnotations, Scope};
use super::{
    ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX, AT_ONCE, Keeping, MESSAGE_ANNOTATION_BYTES_MAX,
    MESSAGE_ANNOTATIONS_MAX, MESSAGE_BYTES_MAX, MessageAnnotationRecords, kept_by, read, scan, uid_of,
};
use crate::annotation_error::AnnotationError;
use crate::error::{DirectoryError, Result};
use crate::records::TRIES;

/// Messages whose limits are checked between two pauses: each has at most 100 values.
const CHECKED_AT_ONCE: usize = 16;

/// A new value of a message, or `None` to remove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewValue {
    /// The scope.
    pub scope: Scope,
    /// The entry.
    pub entry: String,
    /// Any octets.
    pub value: Option<Bytes>,
}

/// The treatment of a change if another one of the same message came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// The change is made after that one.
    Follow,
    /// The change is refused: RFC 7162 §3.1.3.
    Refuse,
}

/// The annotations of some messages before a change, and the octets that may be added. Two
/// commands of an account at the same time may exceed its limit, by what each brings.
#[derive(Debug)]
pub struct Before {
    keeping: Keeping,
    room: usize,
    records: BTreeMap<u32, AnnotationRecord>,
}

/// The outcome of a change of some messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The messages that others changed first. They were left unchanged.
    pub left: NumSet,
    /// The messages that had no record before.
    pub made: NumSet,
}

/// The outcome for one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Left,
    Made,
    Changed,
}

#[derive(Debug, Clone, Default)]
struct AnnotationRecord {
    version: u64,
    values: MessageAnnotations,
}

impl AnnotationRecord {
    fn of(entry: Option<&DirectoryEntry>) -> Result<Self> {
        let Some(entry) = entry else { return Ok(Self::default()) };
        Ok(Self { version: entry.version, values: read(entry)? })
    }
}

impl Before {
    /// For messages without annotations, with values that were checked against the limit.
    pub const fn of_new_messages(keeping: Keeping) -> Self {
        Self { keeping, room: usize::MAX, records: BTreeMap::new() }
    }

    /// Octets of names and values.
    pub fn octets(&self) -> usize {
        self.records.values().map(|record| record.values.octets()).sum()
    }

    /// The messages with values.
    pub fn uids(&self) -> NumSet {
        self.records.keys().copied().collect()
    }

    /// Octets of a record with these values, and of its name.
    fn cost(&self, values: &MessageAnnotations) -> usize {
        match values.is_empty() {
            true => 0,
            false => self.keeping.record(0).len() + values.record_octets(),
        }
    }

    /// Whether all these messages, and those that are there, may get the values.
    async fn check(&self, uids: &NumSet, values: &[NewValue]) -> Result<(), AnnotationError> {
        let (mut before, mut after) = (0_usize, 0_usize);
        for (at, record) in self.records.values().enumerate() {
            let new = with(&record.values, values);
            check(&record.values, &new)?;
            before += self.cost(&record.values);
            after += self.cost(&new);
            if at % CHECKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        let without = uids.count().saturating_sub(self.records.len() as u64);
        if without > 0 {
            let new = with(&MessageAnnotations::default(), values);
            check(&MessageAnnotations::default(), &new)?;
            let messages = usize::try_from(without).unwrap_or(usize::MAX);
            after = after.saturating_add(self.cost(&new).saturating_mul(messages));
        }
        self.has_room(before, after)
    }

    /// Whether there is room for new messages with these values, each with its own.
    #[boxed]
    pub async fn check_new(&self, messages: &[Vec<NewValue>]) -> Result<(), AnnotationError> {
        let mut after = 0;
        for (at, values) in messages.iter().enumerate() {
            let new = with(&MessageAnnotations::default(), values);
            check(&MessageAnnotations::default(), &new)?;
            after += self.cost(&new);
            if at % CHECKED_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.has_room(0, after)
    }

    /// A change that frees room is taken even over a limit.
    fn has_room(&self, before: usize, after: usize) -> Result<(), AnnotationError> {
        match after.saturating_sub(before) > self.room {
            true => Err(AnnotationError::TooMany),
            false => Ok(()),
        }
    }
}

fn with(old: &MessageAnnotations, changes: &[NewValue]) -> MessageAnnotations {
    let mut new = old.clone();
    changes.iter().for_each(|one| new.set(one.scope, &one.entry, one.value.clone()));
    new
}

/// The limits of one message. A change that frees room is taken even over a limit.
fn check(old: &MessageAnnotations, new: &MessageAnnotations) -> Result<(), AnnotationError> {
    if new.iter().any(|(.., value)| value.len() > MESSAGE_ANNOTATION_BYTES_MAX) {
        return Err(AnnotationError::TooLong);
    }
    let has_more = new.len() > old.len() && new.len() > MESSAGE_ANNOTATIONS_MAX;
    let is_longer = new.octets() > old.octets() && new.octets() > MESSAGE_BYTES_MAX;
    if has_more || is_longer { Err(AnnotationError::TooMany) } else { Ok(()) }
}

impl MessageAnnotationRecords {
    /// Reads what an account keeps, for a change of these messages, and refuses what is over a
    /// limit. Removes its records of messages of this mailbox that were expunged some time ago:
    /// `is_there` says which are there. Records of removed mailboxes are removed, too.
    #[boxed]
    pub async fn before(
        &self,
        keeping: Keeping,
        uids: &NumSet,
        values: &[NewValue],
        is_there: &(dyn Fn(u32) -> bool + Sync),
    ) -> Result<Before, AnnotationError> {
        let (mut used, mut missing, mut records) = (0, Vec::new(), BTreeMap::new());
        let (here, mut places) = (keeping.prefix(), BTreeSet::new());
        scan(self.records.engine(), &kept_by(keeping.keeper), |entry| {
            if entry.name.starts_with(&here) {
                let uid = uid_of(&here, &entry.name)?;
                if !is_there(uid) {
                    missing.push((uid, (entry.name.clone(), entry.version)));
                    return Ok(());
                }
                if uids.contains(uid) {
                    records.insert(uid, AnnotationRecord::of(Some(entry))?);
                }
            } else {
                places.extend(place_of(keeping.keeper, &entry.name));
            }
            used += entry.name.len() + entry.value.len();
            Ok(())
        })
        .await?;
        if !missing.is_empty() {
            let all = missing.iter().map(|(uid, _)| *uid).collect();
            let due = self.orphans.lock().due(
                (keeping.keeper, keeping.owner, keeping.mailbox),
                &all,
                Instant::now(),
            );
            let due = missing.into_iter().filter(|(uid, _)| due.contains(*uid)).map(|(_, record)| record);
            // After a conflict it is removed a later time.
            self.remove_records(due.collect()).await?;
        }
        self.forget_lost_mailboxes(keeping.keeper, &places).await?;
        let room = ACCOUNT_MESSAGE_ANNOTATION_BYTES_MAX.saturating_sub(used);
        let before = Before { keeping, room, records };
        before.check(uids, values).await?;
        Ok(before)
    }

    /// The space that an account has left for annotations of messages that come into a mailbox.
    #[boxed]
    pub async fn before_new(&self, keeping: Keeping) -> Result<Before, AnnotationError> {
        self.before(keeping, &NumSet::new(), &[], &|_| true).await
    }

    /// Gives messages new values, each message all of them.
    ///
    /// Nothing keeps the messages from being expunged or moved meanwhile. The caller looks at the
    /// mailbox afterwards, and reports no success for those that were removed: see
    /// [`MessageAnnotationRecords::withdraw`].
    #[boxed]
    pub async fn set(
        &self,
        before: &Before,
        messages: Vec<(u32, Arc<[NewValue]>)>,
        others: OnConflict,
    ) -> Result<Written, AnnotationError> {
        let (mut left, mut made) = (Vec::new(), Vec::new());
        if messages.iter().any(|(_, values)| values.iter().any(|one| one.value.is_some())) {
            self.note_keeper(before.keeping).await?;
        }
        for batch in messages.chunks(AT_ONCE) {
            let one = |(uid, values): &(u32, Arc<[NewValue]>)| {
                let (uid, values) = (*uid, Arc::clone(values));
                async move {
                    let change = self.set_one(before, (uid, &values), others).await?;
                    Ok::<_, AnnotationError>((uid, change))
                }
            };
            let done: Vec<_> = stream::iter(batch).map(one).buffered(AT_ONCE).try_collect().await?;
            for (uid, change) in done {
                match change {
                    Change::Left => left.push(uid),
                    Change::Made => made.push(uid),
                    Change::Changed => {}
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(Written { left: left.into_iter().collect(), made: made.into_iter().collect() })
    }

    /// Removes the values that a change has given to messages that were removed by then. Records
    /// from before the change are left to those who removed the messages: they may move them.
    #[boxed]
    pub async fn withdraw(&self, before: &Before, written: &Written, missing: &NumSet) -> Result<()> {
        let made = written.made.intersection(missing);
        if made.is_empty() { Ok(()) } else { self.forget_kept(before.keeping, &made).await }
    }

    async fn set_one(
        &self,
        before: &Before,
        (uid, values): (u32, &[NewValue]),
        others: OnConflict,
    ) -> Result<Change, AnnotationError> {
        let name = before.keeping.record(uid);
        let mut old = before.records.get(&uid).cloned().unwrap_or_default();
        for _ in 0..TRIES {
            let new = with(&old.values, values);
            if new == old.values {
                return Ok(Change::Changed);
            }
            check(&old.values, &new)?;
            let value = match new.is_empty() {
                true => None,
                false => Some(new.print().ok_or(AnnotationError::TooLong)?),
            };
            if self.records.put(name.clone(), old.version, value).await? == CommitOutcome::Done {
                return Ok(if old.version == 0 { Change::Made } else { Change::Changed });
            }
            if others == OnConflict::Refuse {
                return Ok(Change::Left);
            }
            old = AnnotationRecord::of(self.records.entry(&name).await?.as_ref())?;
        }
        Err(DirectoryError::Busy(name).into())
    }
}
