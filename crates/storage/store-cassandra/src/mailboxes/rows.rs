//! Heads, rows and changes.
//!
//! One page of one partition is read as of one moment; a mailbox of several pages may be changed
//! between them. Each page carries the mod-sequence at which it was read. Changes since
//! the oldest page are taken from the log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{MailboxId, ModSeq, NumSet};
use posthaste_store::{Changes, MailboxHead, Result, Row, StoreError};
use scylla::value::CqlValue;

use crate::cluster::connection::{AT_ONCE, RESTARTS_MAX, Values};
use crate::cluster::ids::{blob, modseq_column};
use crate::mailboxes::Mailboxes;
use crate::stored::chunk::{Chunk, Chunks, number};
use crate::stored::impossible;
use crate::stored::values::{LogEntry, StoredHead};

/// A fence as stored ([`super::partition`]): 16 octets, or nothing in a partition that was made
/// before there were fences.
pub(crate) type Fence = Option<Vec<u8>>;

/// Rows for which memory is reserved because of a head's count alone: 28 MiB. A wrong count would
/// reserve more than there is, which ends the process.
const RESERVED_MAX: usize = 1 << 20;

/// A row of `mailbox`: mod-sequence and head of the partition, key and value of the row.
type HeadedRow = (Option<i64>, Option<Vec<u8>>, Option<i64>, Option<Vec<u8>>);
/// A row of a chunk, without the head.
pub(crate) type ChunkRow = (Option<i64>, Option<i64>, Option<Vec<u8>>);

/// Chunks of a mailbox, its head, and the mod-sequences at which they were read.
pub(crate) struct Floor {
    pub(crate) modseq: i64,
    pub(crate) head: StoredHead,
    pub(crate) fence: Fence,
    pub(crate) low: u32,
    pub(crate) chunk: Chunk,
}

fn damaged(mailbox: MailboxId, what: &str) -> StoreError {
    StoreError::Corrupt(format!("{what} of mailbox {mailbox}"))
}

/// The head in a column.
pub(crate) fn head_from(mailbox: MailboxId, head: Option<Vec<u8>>) -> Result<StoredHead> {
    head.and_then(|head| StoredHead::decode(mailbox, &head)).ok_or_else(|| damaged(mailbox, "the head"))
}

/// Key and content of a chunk.
pub(crate) fn chunk_from(
    mailbox: MailboxId,
    low: Option<i64>,
    value: Option<Vec<u8>>,
) -> Result<(u32, Chunk)> {
    let low = low.and_then(|low| u32::try_from(low).ok()).ok_or_else(|| damaged(mailbox, "a chunk's key"))?;
    let chunk = value
        .and_then(|value| Chunk::decode(mailbox, low, &value))
        .ok_or_else(|| damaged(mailbox, &format!("the rows from UID {low}")))?;
    Ok((low, chunk))
}

/// Values of a statement that puts a chunk (kind 0) or a log entry (kind 1).
pub(crate) fn put_values(mailbox: MailboxId, kind: i8, low: u64, value: Vec<u8>) -> Values {
    vec![
        Some(CqlValue::Blob(value)),
        Some(blob(mailbox.0)),
        Some(CqlValue::TinyInt(kind)),
        Some(CqlValue::BigInt(low.cast_signed())),
    ]
}

/// The changes after a mod-sequence, oldest first.
struct Logged {
    stored: StoredHead,
    entries: Vec<LogEntry>,
}

impl Mailboxes {
    /// A mailbox's head; `None` if it was removed or never existed.
    pub(crate) async fn head(&self, mailbox: MailboxId) -> Result<Option<StoredHead>> {
        type Columns = (Option<i64>, Option<Vec<u8>>);
        let values = (&mailbox.0.to_bytes()[..],);
        let rows = self.cluster.read::<Columns>(&self.cluster.statements.mailbox.head, values).await?;
        match rows.into_iter().next() {
            Some((Some(modseq), head)) if modseq >= 0 => head_from(mailbox, head).map(Some),
            _ => Ok(None),
        }
    }

    async fn existing_head(&self, mailbox: MailboxId) -> Result<StoredHead> {
        self.head(mailbox).await?.ok_or(StoreError::NoMailbox(mailbox))
    }

    pub(crate) async fn heads_of(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let heads = stream::iter(mailboxes.to_vec())
            .map(|mailbox| async move { Ok(self.head(mailbox).await?.map(|stored| stored.head)) });
        heads.buffered(AT_ONCE).try_collect().await
    }

    /// The chunk that has a UID if the UID exists.
    pub(crate) async fn floor(&self, mailbox: MailboxId, uid: u32) -> Result<Option<Floor>> {
        let values = (&mailbox.0.to_bytes()[..], i64::from(uid));
        type Columns = (Option<i64>, Option<Vec<u8>>, Fence, Option<i64>, Option<Vec<u8>>);
        let rows = self.cluster.read::<Columns>(&self.cluster.statements.mailbox.floor, values).await?;
        let Some((Some(modseq), head, fence, low, value)) = rows.into_iter().next() else { return Ok(None) };
        let (low, chunk) = chunk_from(mailbox, low, value)?;
        Ok(Some(Floor { modseq, head: head_from(mailbox, head)?, fence, low, chunk }))
    }

    /// Reads the rows in UID order, and the head that they belong to.
    pub(crate) async fn rows_of(&self, mailbox: MailboxId) -> Result<(StoredHead, Vec<Row>)> {
        for attempt in 0..RESTARTS_MAX {
            let stored = self.existing_head(mailbox).await?;
            let mut rows = with_room(stored.head.counts.messages);
            let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
            let values = (&mailbox.0.to_bytes()[..], 0i64, i64::MAX);
            let take = |page: Vec<ChunkRow>| {
                for (modseq, low, value) in page {
                    let modseq = modseq.unwrap_or(-1);
                    (oldest, newest) = (oldest.min(modseq), newest.max(modseq));
                    rows.extend_from_slice(&chunk_from(mailbox, low, value)?.1.rows);
                }
                Ok(ControlFlow::Continue(()))
            };
            self.cluster.pages(&self.cluster.statements.mailbox.chunks, values, take).await?;
            if oldest < 0 || newest == i64::MIN {
                return Err(StoreError::NoMailbox(mailbox));
            }
            let expected = modseq_column(stored.head.modseq);
            if oldest == expected && newest == expected {
                return Ok((stored, rows));
            }
            let since = ModSeq::new(oldest.cast_unsigned())
                .ok_or_else(|| impossible(format!("mailbox {mailbox}: mod-sequence {oldest}")))?;
            let logged = self.logged_since(mailbox, since).await?;
            if logged.stored.forgotten <= since && logged.entries.iter().all(|entry| entry.rows.is_some()) {
                return Ok((logged.stored, overlay(rows, &logged.entries)));
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Reads the chunks of a mailbox; `None` if it was removed.
    pub(crate) async fn all_chunks(&self, mailbox: MailboxId) -> Result<Option<Chunks>> {
        let (mut chunks, mut removed) = (Chunks::new(), true);
        let values = (&mailbox.0.to_bytes()[..], 0i64, i64::MAX);
        let take = |page: Vec<ChunkRow>| {
            for (modseq, low, value) in page {
                removed = modseq.unwrap_or(-1) < 0;
                let (low, chunk) = chunk_from(mailbox, low, value)?;
                chunks.insert(low, chunk);
            }
            Ok(ControlFlow::Continue(()))
        };
        self.cluster.pages(&self.cluster.statements.mailbox.chunks, values, take).await?;
        Ok((!removed).then_some(chunks))
    }

    /// The log after a mod-sequence.
    async fn logged_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Logged> {
        let bound = modseq_column(since);
        for attempt in 0..RESTARTS_MAX {
            let (mut entries, mut head) = (Vec::new(), None);
            // Mod-sequence of the mailbox, and of the last entry read.
            let mut modseqs: Option<(Option<i64>, i64)> = None;
            let mut moved = false;
            let take = |page: Vec<HeadedRow>| {
                for (modseq, value, low, entry) in page {
                    moved |= modseqs.is_some_and(|(first, _)| first != modseq);
                    let low = low.ok_or_else(|| damaged(mailbox, "a log entry's key"))?;
                    modseqs = Some((modseq, low));
                    head = value;
                    let entry =
                        entry.and_then(|entry| LogEntry::decode(mailbox, low.cast_unsigned(), &entry));
                    entries.push(entry.ok_or_else(|| damaged(mailbox, "the log"))?);
                }
                Ok(ControlFlow::Continue(()))
            };
            self.cluster
                .pages(&self.cluster.statements.mailbox.log, (&mailbox.0.to_bytes()[..], bound), take)
                .await?;
            let stored = match modseqs {
                Some((Some(modseq), _)) if modseq >= 0 => head_from(mailbox, head)?,
                Some(_) => return Err(StoreError::NoMailbox(mailbox)),
                None => self.existing_head(mailbox).await?,
            };
            // Without an entry the head must not be newer. Else the last entry must be the head's.
            let last = modseqs.map_or(bound, |(_, low)| low);
            let reached = last.cast_unsigned() >= stored.head.modseq.value();
            if !moved && reached {
                return Ok(Logged { stored, entries });
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    pub(crate) async fn changes_of(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        for attempt in 0..RESTARTS_MAX {
            let Logged { stored, entries } = self.logged_since(mailbox, since).await?;
            let complete = since >= stored.forgotten;
            let expunged = entries.iter().flat_map(|e| &e.expunged).filter(|(modseq, _)| *modseq > since);
            let expunged = NumSet::from_ranges(expunged.flat_map(|(_, uids)| uids.ranges().iter().copied()));
            if complete && entries.iter().all(|entry| entry.rows.is_some()) {
                let mut rows = overlay(Vec::new(), &entries);
                rows.retain(|row| row.modseq() > since);
                return Ok(Changes { head: stored.head, rows, expunged, complete });
            }
            let (now, mut rows) = self.rows_of(mailbox).await?;
            if now.head.modseq == stored.head.modseq {
                rows.retain(|row| row.modseq() > since);
                return Ok(Changes { head: now.head, rows, expunged, complete });
            }
            self.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// The chunks that hold UIDs `first..=last`, if those exist. The mod-sequences at which they
    /// were read go into `modseqs`.
    pub(crate) async fn chunks_between(
        &self,
        mailbox: MailboxId,
        (first, last): (u32, u32),
    ) -> Result<(Chunks, Vec<i64>)> {
        let (mut chunks, mut modseqs) = (Chunks::new(), Vec::new());
        if let Some(floor) = self.floor(mailbox, first).await? {
            modseqs.push(floor.modseq);
            chunks.insert(floor.low, floor.chunk);
        }
        if last > first {
            let values = (&mailbox.0.to_bytes()[..], i64::from(first) + 1, i64::from(last));
            let take = |page: Vec<ChunkRow>| {
                for (modseq, low, value) in page {
                    let (low, chunk) = chunk_from(mailbox, low, value)?;
                    modseqs.push(modseq.unwrap_or(-1));
                    chunks.insert(low, chunk);
                }
                Ok(ControlFlow::Continue(()))
            };
            self.cluster.pages(&self.cluster.statements.mailbox.chunks, values, take).await?;
        }
        Ok((chunks, modseqs))
    }
}

/// No rows yet, of a mailbox whose head counts so many.
fn with_room(messages: u32) -> Vec<Row> {
    Vec::with_capacity((messages as usize).min(RESERVED_MAX))
}

/// Applies log entries to rows. Every entry must name its rows.
fn overlay(rows: Vec<Row>, entries: &[LogEntry]) -> Vec<Row> {
    let expunged = entries.iter().flat_map(|entry| &entry.expunged);
    let expunged: NumSet = NumSet::from_ranges(expunged.flat_map(|(_, uids)| uids.ranges().iter().copied()));
    let newer = entries.iter().flat_map(|entry| entry.rows.iter().flatten());
    let newer: BTreeMap<u32, Row> = newer.map(|row| (number(row), *row)).collect();
    let mut all: Vec<Row> = rows.into_iter().filter(|row| !newer.contains_key(&number(row))).collect();
    all.extend(newer.into_values());
    all.retain(|row| !expunged.contains(number(row)));
    all.sort_unstable_by_key(number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count of 4 billion messages reserved 120 GB.
    #[test]
    fn a_wrong_count_reserves_little() {
        assert!(with_room(500_000).capacity() >= 500_000);
        assert!(with_room(u32::MAX).capacity() < 2 * RESERVED_MAX);
    }
}
