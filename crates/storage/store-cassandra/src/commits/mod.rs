//! Commits: contents first, then one conditional batch on the mailbox's partition.
//!
//! The batch raises the mod-sequence `IF` it is still the expected one and the fence is unchanged.
//! The fence was read before the contents were written ([`crate::mailboxes::partition`]). The batch
//! rewrites the chunks the commit touches and adds a log entry that carries the commit's id.
//!
//! A batch whose answer is lost is sent again unchanged. If the first one was applied, the second
//! is refused. Then the log entry at the new mod-sequence names the commit. If no answer comes
//! for long, or the log was cut there since, the call fails. The answer is `Done` only for a
//! stored commit, and no commit is applied twice.

pub(crate) mod contents;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{Id, MailboxId, ModSeq, NumSet};
use posthaste_store::{CommitOutcome, MailboxCommit, Result, StoreError};
use scylla::value::CqlValue;

use crate::cluster::connection::{AT_ONCE, ATTEMPTS_MAX, Attempt, Batch, RESTARTS_MAX};
use crate::cluster::ids::{blob, modseq_column};
use crate::commits::contents::{CommitId, Contents};
use crate::mailboxes::Mailboxes;
use crate::mailboxes::partition::fence_value;
use crate::mailboxes::rows::{Fence, head_from, put_values};
use crate::stored::chunk::{Chunk, Chunks, ROWS_MAX, number};
use crate::stored::impossible;
use crate::stored::values::{LogEntry, StoredHead};

/// Commits that the log holds at least; it holds at most twice as many. A client or a node that
/// missed more commits reads all rows instead.
const LOG_KEPT: u64 = 4096;

/// Ranges of UIDs that are looked up one by one; beyond, everything from the first to the last is
/// read.
const RANGES_MAX: usize = 64;

/// A mailbox before a commit: the chunks that the commit touches, and the last one.
pub(crate) struct Base {
    pub(crate) chunks: Chunks,
    /// Key of the last chunk.
    pub(crate) tail: u32,
    pub(crate) head: StoredHead,
    pub(crate) fence: Fence,
}

/// A commit whose contents are written.
pub(crate) struct Ready<'s> {
    id: Id,
    batch: Batch<'s>,
}

/// The outcome of a commit's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchOutcome {
    Applied,
    /// The batch was not applied: another commit came first.
    Overtaken,
    /// A sweep replaced the fence, and nothing else changed: this batch will never apply.
    Fenced,
    /// The log was cut since then, so nothing shows whose commit was applied.
    Forgotten,
}

/// Commits on mailboxes.
pub(crate) struct Commits {
    mailboxes: Arc<Mailboxes>,
    pub(crate) contents: Contents,
    bytes_max: usize,
}

impl Commits {
    /// `bytes_max` is [`crate::Options::commit_bytes_max`].
    pub(crate) fn new(mailboxes: Arc<Mailboxes>, contents: Contents, bytes_max: usize) -> Self {
        Self { mailboxes, contents, bytes_max }
    }

    pub(crate) async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        let _lane = self.mailboxes.lane(commit.mailbox).await;
        for attempt in 0..RESTARTS_MAX {
            let Some(ready) = self.prepare(&commit).await? else { return Ok(CommitOutcome::Conflict) };
            match self.apply(&commit, &ready).await? {
                BatchOutcome::Applied => return Ok(CommitOutcome::Done),
                BatchOutcome::Overtaken => return Ok(CommitOutcome::Conflict),
                // After a `Conflict` the caller would repeat the change, which may have been
                // applied.
                BatchOutcome::Forgotten => return Err(forgotten(commit.mailbox)),
                // The contents may have been swept. They are written again, under a new id.
                BatchOutcome::Fenced => {
                    tracing::info!(mailbox = %commit.mailbox, attempt, "a sweep fenced a commit; writing it again");
                }
            }
            self.mailboxes.cluster.pause(attempt).await;
        }
        Err(StoreError::Busy)
    }

    /// Writes the records to which the commit will refer, and makes its batch. `None`: the
    /// mailbox is at another mod-sequence, or a message to be copied does not exist.
    pub(crate) async fn prepare(&self, commit: &MailboxCommit) -> Result<Option<Ready<'_>>> {
        // The fence comes first. A sweep removes records that are written from here on only after
        // it replaced this fence.
        let Some(mut base) = self.base(commit).await? else { return Ok(None) };
        let id = CommitId { id: self.mailboxes.cluster.new_id(), made: Instant::now() };
        let dirty = edit(&mut base, commit, id.id)?;
        let batch = self.batch(&base, commit, id.id, &dirty)?;
        Ok(self.contents.write(id, commit).await?.then_some(Ready { id: id.id, batch }))
    }

    /// The rows that the commit touches; `None` if the mailbox is at another mod-sequence.
    async fn base(&self, commit: &MailboxCommit) -> Result<Option<Base>> {
        let mailbox = commit.mailbox;
        let touched = touched(commit);
        let tail = self.mailboxes.floor(mailbox, u32::MAX);
        let ranges = match touched.ranges() {
            ranges if ranges.len() <= RANGES_MAX => ranges.to_vec(),
            ranges => vec![(ranges[0].0, ranges[ranges.len() - 1].1)],
        };
        let parts = stream::iter(ranges)
            .map(|range| self.mailboxes.chunks_between(mailbox, range))
            .buffer_unordered(AT_ONCE);
        let (tail, parts) = futures_util::future::try_join(tail, parts.try_collect::<Vec<_>>()).await?;
        let Some(tail) = tail.filter(|tail| tail.modseq >= 0) else {
            return Err(StoreError::NoMailbox(mailbox));
        };
        let expected = modseq_column(commit.expected);
        let current = |modseq: &i64| *modseq == expected;
        if !current(&tail.modseq) || !parts.iter().all(|(_, modseqs)| modseqs.iter().all(current)) {
            return Ok(None);
        }
        let mut chunks: Chunks = parts.into_iter().flat_map(|(chunks, _)| chunks).collect();
        chunks.insert(tail.low, tail.chunk);
        Ok(Some(Base { chunks, tail: tail.low, head: tail.head, fence: tail.fence }))
    }

    /// The conditional batch.
    fn batch<'s>(
        &'s self,
        base: &Base,
        commit: &MailboxCommit,
        id: Id,
        dirty: &BTreeSet<u32>,
    ) -> Result<Batch<'s>> {
        let (statements, mailbox) = (&self.mailboxes.cluster.statements.mailbox, commit.mailbox);
        let key = || Some(blob(mailbox.0));
        let number = |n: u64| Some(CqlValue::BigInt(n.cast_signed()));
        let modseq = commit.head.modseq;
        let trim = trim_at(commit.expected, modseq);
        let forgotten = trim.unwrap_or(base.head.forgotten);
        let head = StoredHead { head: commit.head.clone(), forgotten }.encode(mailbox);
        let mut bytes = head.len();
        let mut batch: Batch<'_> = vec![(
            &statements.advance,
            vec![
                number(modseq.value()),
                Some(CqlValue::Blob(head)),
                key(),
                number(commit.expected.value()),
                fence_value(&base.fence),
            ],
        )];
        for low in dirty {
            let value = dirty_chunk(&base.chunks, mailbox, *low)?.encode(mailbox, *low);
            bytes += value.len();
            batch.push((&statements.put, put_values(mailbox, 0, u64::from(*low), value)));
        }
        let entry = LogEntry::new(id, commit).encode(mailbox, modseq);
        bytes += entry.len();
        batch.push((&statements.put, put_values(mailbox, 1, modseq.value(), entry)));
        if let Some(trim) = trim {
            batch.push((&statements.trim, vec![key(), number(trim.value())]));
        }
        if bytes > self.bytes_max {
            return Err(StoreError::TooLarge {
                what: "the size in octets of this change (change fewer messages at a time)",
                limit: self.bytes_max as u64,
            });
        }
        Ok(batch)
    }

    /// Sends the batch until its outcome is known.
    pub(crate) async fn apply(&self, commit: &MailboxCommit, ready: &Ready<'_>) -> Result<BatchOutcome> {
        let mut failure = StoreError::Busy;
        for attempt in 0..ATTEMPTS_MAX {
            match self.mailboxes.cluster.attempt(&ready.batch).await? {
                Attempt::Applied => return Ok(BatchOutcome::Applied),
                Attempt::Refused => match self.outcome(commit, ready.id).await {
                    Ok(fate) => return Ok(fate),
                    Err(error @ StoreError::Unavailable(_)) => failure = error,
                    Err(error) => return Err(error),
                },
                Attempt::Unknown(error) => {
                    tracing::debug!(mailbox = %commit.mailbox, %error, attempt, "the answer to a commit was lost: sending it again");
                    failure = error;
                }
            }
            self.mailboxes.cluster.pause(attempt).await;
        }
        match self.outcome(commit, ready.id).await {
            Ok(BatchOutcome::Applied) => Ok(BatchOutcome::Applied),
            // The batch may still be in progress: neither `Done` nor `Conflict` would be certain.
            _ => Err(failure),
        }
    }

    /// The outcome of a commit whose batch was refused. Both reads are serial: they first complete
    /// what other conditional writes began.
    ///
    /// The log is read before the head. If a commit cut the log before the entry was looked for,
    /// the head shows it.
    async fn outcome(&self, commit: &MailboxCommit, id: Id) -> Result<BatchOutcome> {
        let (mailbox, modseq) = (commit.mailbox, commit.head.modseq);
        let key = mailbox.0.to_bytes();
        let statements = &self.mailboxes.cluster.statements.mailbox;
        let values = (&key[..], modseq.value().cast_signed());
        let logged = self.mailboxes.cluster.read::<(Option<Vec<u8>>,)>(&statements.log_at, values).await?;
        if let Some(value) = logged.into_iter().next().and_then(|(value,)| value) {
            return outcome_by_entry(mailbox, modseq.value(), id, &value);
        }
        type Columns = (Option<i64>, Option<Vec<u8>>, Fence);
        let row = self.mailboxes.cluster.read::<Columns>(&statements.head_serial, (&key[..],)).await?;
        match row.into_iter().next() {
            Some((Some(now), head, _)) if now >= 0 => {
                Ok(outcome_by_head(commit, now, &head_from(mailbox, head)?))
            }
            _ => Err(StoreError::NoMailbox(mailbox)),
        }
    }
}

/// Whether the log entry at a commit's mod-sequence is that commit's. An entry that cannot be read
/// is an error: it does not show whose commit was applied.
fn outcome_by_entry(mailbox: MailboxId, modseq: u64, id: Id, entry: &[u8]) -> Result<BatchOutcome> {
    let damaged =
        || StoreError::Corrupt(format!("mailbox {mailbox}: the log entry at mod-sequence {modseq}"));
    let entry = LogEntry::decode(mailbox, modseq, entry).ok_or_else(damaged)?;
    Ok(if entry.commit == id { BatchOutcome::Applied } else { BatchOutcome::Overtaken })
}

/// The outcome of a refused commit that the log does not show, by the mod-sequence `now` and the
/// head.
fn outcome_by_head(commit: &MailboxCommit, now: i64, head: &StoredHead) -> BatchOutcome {
    if now == modseq_column(commit.expected) {
        BatchOutcome::Fenced
    } else if commit.head.modseq <= head.forgotten {
        BatchOutcome::Forgotten
    } else {
        BatchOutcome::Overtaken
    }
}

fn forgotten(mailbox: MailboxId) -> StoreError {
    StoreError::Unavailable(format!(
        "a change of mailbox {mailbox} may have been made: its answer was lost, and the log was trimmed since"
    ))
}

/// A chunk that was edited. A batch without it would lose rows, so a missing one is an error.
fn dirty_chunk(chunks: &Chunks, mailbox: MailboxId, low: u32) -> Result<&Chunk> {
    let missing = || impossible(format!("mailbox {mailbox}: an edited chunk (key {low}) is missing"));
    chunks.get(&low).ok_or_else(missing)
}

/// UIDs whose rows a commit changes or removes.
fn touched(commit: &MailboxCommit) -> NumSet {
    let changed = commit.changed.iter().map(|row| (number(row), number(row)));
    let expunged = commit.expunged.iter().flat_map(|(_, uids)| uids.ranges().iter().copied());
    NumSet::from_ranges(changed.chain(expunged))
}

/// The mod-sequence at which a commit cuts the log, when it passes a multiple of [`LOG_KEPT`].
/// One range tombstone covers 4,096 entries, below everything that is read later.
fn trim_at(expected: ModSeq, next: ModSeq) -> Option<ModSeq> {
    let crossed = expected.value() / LOG_KEPT != next.value() / LOG_KEPT;
    crossed.then(|| next.value().checked_sub(LOG_KEPT).and_then(ModSeq::new)).flatten()
}

/// Applies a commit to the chunks; the keys of those that changed.
fn edit(base: &mut Base, commit: &MailboxCommit, id: Id) -> Result<BTreeSet<u32>> {
    let mut dirty = BTreeSet::new();
    let expunged = commit.expunged.iter().flat_map(|(_, uids)| uids.ranges().iter().copied());
    let expunged = NumSet::from_ranges(expunged);
    if !expunged.is_empty() {
        for (low, chunk) in &mut base.chunks {
            let before = chunk.rows.len();
            chunk.remove(&expunged);
            if chunk.rows.len() != before {
                dirty.insert(*low);
            }
        }
    }
    for row in &commit.changed {
        let missing = || {
            StoreError::Corrupt(format!(
                "UID {} of mailbox {} does not exist and cannot be changed",
                row.uid(),
                commit.mailbox
            ))
        };
        let (low, chunk) = base.chunks.range_mut(..=number(row)).next_back().ok_or_else(missing)?;
        let at = chunk.rows.binary_search_by_key(&number(row), number).map_err(|_| missing())?;
        chunk.rows[at] = *row;
        dirty.insert(*low);
    }
    let mut last = base.tail;
    for message in &commit.appended {
        if base.chunks.get(&last).is_none_or(|chunk| chunk.rows.len() >= ROWS_MAX) {
            last = number(&message.row);
        }
        base.chunks.entry(last).or_default().push(message.row, id);
        dirty.insert(last);
    }
    Ok(dirty)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use posthaste_store::MailboxHead;

    use super::*;

    #[test]
    fn the_log_entry_shows_whose_commit_was_applied() {
        let (mailbox, ours, other) = (MailboxId(Id::new(1, 1)), Id::new(2, 1), Id::new(2, 2));
        let entry = LogEntry { commit: ours, rows: None, expunged: Vec::new() };
        let value = entry.encode(mailbox, ModSeq::new(9).unwrap());
        assert_eq!(outcome_by_entry(mailbox, 9, ours, &value).unwrap(), BatchOutcome::Applied);
        assert_eq!(outcome_by_entry(mailbox, 9, other, &value).unwrap(), BatchOutcome::Overtaken);
        let mut damaged = value;
        damaged[5] ^= 1;
        assert!(matches!(outcome_by_entry(mailbox, 9, ours, &damaged), Err(StoreError::Corrupt(_))));
    }

    #[test]
    fn a_log_that_was_cut_shows_nothing() {
        let head =
            |modseq: u64| MailboxHead { modseq: ModSeq::new(modseq).unwrap(), ..MailboxHead::default() };
        let commit = MailboxCommit {
            mailbox: MailboxId(Id::new(1, 1)),
            expected: ModSeq::new(8).unwrap(),
            head: head(9),
            appended: Vec::new(),
            changed: Vec::new(),
            expunged: Vec::new(),
        };
        for (now, forgotten, outcome) in [
            (8, 0, BatchOutcome::Fenced),
            (9, 0, BatchOutcome::Overtaken),
            (9_000, 8, BatchOutcome::Overtaken),
            (9_000, 9, BatchOutcome::Forgotten),
            (9_000, 4_904, BatchOutcome::Forgotten),
        ] {
            let stored = StoredHead { head: head(9_000), forgotten: ModSeq::new(forgotten).unwrap() };
            assert_eq!(outcome_by_head(&commit, now, &stored), outcome, "{now}, cut at {forgotten}");
        }
    }

    #[test]
    fn an_edited_chunk_that_is_missing_is_an_error() {
        let (mailbox, mut chunks) = (MailboxId(Id::new(1, 1)), Chunks::new());
        assert!(matches!(dirty_chunk(&chunks, mailbox, 3), Err(StoreError::Corrupt(_))));
        chunks.insert(3, Chunk::default());
        assert_eq!(dirty_chunk(&chunks, mailbox, 3).unwrap(), &Chunk::default());
    }

    #[test]
    fn the_log_is_cut_now_and_then() {
        let cut =
            |a: u64, b: u64| trim_at(ModSeq::new(a).unwrap(), ModSeq::new(b).unwrap()).map(ModSeq::value);
        assert_eq!(cut(0, 1), None);
        assert_eq!(cut(4095, 4096), Some(0));
        assert_eq!(cut(8191, 8192), Some(4096));
        assert_eq!(cut(8192, 8193), None);
        assert_eq!(cut(8000, 30_000), Some(30_000 - 4096));
        assert_eq!(cut(10, 20), None);
    }
}
