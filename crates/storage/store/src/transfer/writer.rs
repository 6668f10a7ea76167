//! The commits that make a target mailbox equal to its source.

use std::collections::BTreeMap;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet, Uid};

use crate::change::{CommitOutcome, Content, MailboxCommit, NewMessage};
use crate::engine::Engine;
use crate::error::{Result, StoreError};
use crate::head::{Counts, MailboxHead};
use crate::row::Row;

/// Changed rows in one commit.
const BATCH_CHANGED: usize = 10_000;

/// The changes that a mailbox lacks at the target.
#[derive(Default)]
pub(super) struct MissingChanges {
    pub(super) changed: Vec<Row>,
    pub(super) expunged: NumSet,
    pub(super) new: Vec<Row>,
}

/// A message without its row.
pub(super) struct Contents {
    pub(super) body: BodyId,
    pub(super) saved: i64,
    pub(super) created: ModSeq,
    pub(super) summary: Bytes,
    pub(super) bytes: Bytes,
}

/// Body, date saved and first mod-sequence.
pub(super) type Arrived = (BodyId, i64, ModSeq);

/// Whether a message came in the same way at both ends. One may not know the first mod-sequence.
pub(super) fn same_arrival(one: Arrived, other: Arrived) -> bool {
    let knows = |(.., created): Arrived| created != ModSeq::ZERO;
    (one.0, one.1) == (other.0, other.1) && (one.2 == other.2 || !knows(one) || !knows(other))
}

impl MissingChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.expunged.is_empty() && self.new.is_empty()
    }
}

/// Writes the commits at the target, one after the other.
pub(super) struct Writer<'w> {
    pub(super) to: &'w dyn Engine,
    pub(super) id: MailboxId,
    /// The source's head.
    pub(super) source: &'w MailboxHead,
    /// The target's head.
    pub(super) now: MailboxHead,
    pub(super) counts: Counts,
}

impl Writer<'_> {
    /// Flags that changed and messages that were expunged since an earlier run.
    pub(super) async fn change(&mut self, lacking: &MissingChanges, rows_there: &[Row]) -> Result<()> {
        let old: BTreeMap<Uid, &Row> = rows_there.iter().map(|row| (row.uid(), row)).collect();
        for row in &lacking.changed {
            if let Some(old) = old.get(&row.uid()) {
                self.counts.remove(old);
                self.counts.add(row);
            }
        }
        for row in lacking.expunged.iter().filter_map(|uid| old.get(&Uid::new(uid)?)) {
            self.counts.remove(row);
        }
        let mut expunged = Some(&lacking.expunged).filter(|expunged| !expunged.is_empty());
        let mut chunks = lacking.changed.chunks(BATCH_CHANGED);
        while let (Some(changed), _) | (None, Some(changed)) = (chunks.next(), expunged.map(|_| &[][..])) {
            let uid_next = self.now.uid_next;
            self.commit(uid_next, Vec::new(), changed.to_vec(), expunged.take().cloned().unwrap_or_default())
                .await?;
        }
        Ok(())
    }

    /// New messages; `rows` are all of the mailbox.
    pub(super) async fn append(
        &mut self,
        batch: &[Row],
        mut contents: BTreeMap<u32, Contents>,
        rows: &[Row],
    ) -> Result<()> {
        let Some(last) = batch.last() else { return Ok(()) };
        let mut appended = Vec::with_capacity(batch.len());
        for row in batch {
            let Contents { body, saved, created, summary, bytes } =
                contents.remove(&row.uid().value()).ok_or(StoreError::Corrupt(format!(
                    "the summary of UID {} in mailbox {} is missing",
                    row.uid(),
                    self.id
                )))?;
            self.counts.add(row);
            let content = Content::New { bytes, summary };
            appended.push(NewMessage { row: *row, body, saved, created, content });
        }
        let uid_next = last.uid().next().ok_or(StoreError::UidsExhausted)?;
        let never = missing(rows, self.now.uid_next, uid_next);
        self.commit(uid_next, appended, Vec::new(), never).await
    }

    /// The source's head: UIDNEXT may be beyond the last message.
    pub(super) async fn finish(&mut self, rows: &[Row]) -> Result<()> {
        let never = missing(rows, self.now.uid_next, self.source.uid_next);
        let done = self.now.uid_next == self.source.uid_next
            && self.now.keywords == self.source.keywords
            && self.now.first_recent == self.source.first_recent
            && self.now.modseq >= self.source.modseq;
        if done && never.is_empty() {
            return Ok(());
        }
        self.commit(self.source.uid_next, Vec::new(), Vec::new(), never).await
    }

    async fn commit(
        &mut self,
        uid_next: Uid,
        appended: Vec<NewMessage>,
        changed: Vec<Row>,
        expunged: NumSet,
    ) -> Result<()> {
        // After all numbers that a client can know, and after all commits at the target.
        let modseq = self.now.modseq.max(self.source.modseq).next();
        let head = MailboxHead {
            modseq,
            uid_next,
            first_recent: self.source.first_recent,
            keywords: self.source.keywords.clone(),
            counts: self.counts,
        };
        let expunged = if expunged.is_empty() { Vec::new() } else { vec![(modseq, expunged)] };
        let commit = MailboxCommit {
            mailbox: self.id,
            expected: self.now.modseq,
            head: head.clone(),
            appended,
            changed,
            expunged,
        };
        done(self.to.commit(commit).await?)?;
        self.now = head;
        Ok(())
    }
}

/// No other process may write to the target.
pub(super) fn done(outcome: CommitOutcome) -> Result<()> {
    match outcome {
        CommitOutcome::Done => Ok(()),
        CommitOutcome::Conflict => Err(StoreError::Refused(
            "something else writes to this account at the target; stop the servers there and start the transfer again",
        )),
    }
}

/// UIDs `from..to` that no row has: of messages added and expunged since.
fn missing(rows: &[Row], from: Uid, to: Uid) -> NumSet {
    let span = NumSet::range(from.value(), to.value() - 1);
    let there: NumSet = rows.iter().map(|row| row.uid().value()).collect();
    if from < to { span.difference(&there) } else { NumSet::new() }
}
