//! Finds out whether a batch of an interrupted import is in its mailbox.
//!
//! A batch is one commit: all of its messages were added, with consecutive UIDs, or none. Its
//! journal entry has the UIDNEXT before it and its body ids, so only messages from that UID on are
//! examined.
//!
//! | found | answer |
//! | --- | --- |
//! | a message with one of its body ids | it is there |
//! | no such message, and no gap in the UIDs is as long as the batch | it is not |
//! | no such message, but such a gap: the whole batch was moved or expunged, or as many other messages | a body of the batch that is still in the store decides |
//!
//! In the last case the embedded engine recognizes moved messages: it has a body only if a commit
//! added it. If a batch was expunged whole and maintenance removed its bodies, the engine cannot
//! recognize it. A cluster may have bodies of a batch that was never committed. In both cases the
//! answer is no: a duplicate is a nuisance, a lost message is a loss.

use std::ops::ControlFlow;

use posthaste_mail_model::{BodyId, Id, MailboxId, NumSet};
use posthaste_store::{CommitOutcome, Engine, MailboxCommit, MailboxHead, StoreError};

use super::Alone;

/// The attempts at the check while somebody changes the mailbox. Each time one of their commits
/// succeeded.
const ATTEMPTS_MAX: u32 = 1000;
/// Bodies of a batch have ids in a row: this many low bits count them. More than `BATCH_MESSAGES`
/// needs.
const COUNTER_BITS: u32 = 16;

/// Messages appended by one commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommittedBatch {
    /// The mailbox's UIDNEXT before it, or an earlier one.
    pub uid_next: u32,
    /// Body of its first message.
    pub first: BodyId,
    /// Messages.
    pub len: u32,
}

impl CommittedBatch {
    /// A batch whose bodies get ids that follow one another. `fresh` is an id that was never used.
    pub fn new(uid_next: u32, fresh: BodyId, len: u32) -> Self {
        let counter = (1u128 << COUNTER_BITS) - 1;
        let first = u128::from_be_bytes(fresh.0.to_bytes()) & !counter;
        Self { uid_next, first: BodyId(Id::from_bytes(first.to_be_bytes())), len }
    }

    /// The body id of its n-th message, from 0.
    pub fn body(&self, n: u32) -> BodyId {
        let id = u128::from_be_bytes(self.first.0.to_bytes()).wrapping_add(u128::from(n));
        BodyId(Id::from_bytes(id.to_be_bytes()))
    }

    fn has(&self, body: BodyId) -> bool {
        (self.first..=self.body(self.len.saturating_sub(1))).contains(&body)
    }
}

/// Whether a batch is in its mailbox. If the answer is no, a commit of it that is still running
/// will fail.
pub(super) async fn is_there(
    engine: &dyn Engine,
    mailbox: MailboxId,
    batch: &CommittedBatch,
    alone: Alone,
) -> Result<bool, StoreError> {
    for _ in 0..ATTEMPTS_MAX {
        let head = engine.heads(&[mailbox]).await?.pop().flatten().ok_or(StoreError::NoMailbox(mailbox))?;
        if found(engine, mailbox, batch, &head, alone).await? {
            return Ok(true);
        }
        // A commit of the batch that is still running was made against this mod-sequence or an
        // earlier one. It fails after this commit.
        if fence(engine, mailbox, head).await? == CommitOutcome::Done {
            return Ok(false);
        }
    }
    Err(StoreError::Busy)
}

/// A commit that changes the mod-sequence alone.
async fn fence(
    engine: &dyn Engine,
    mailbox: MailboxId,
    head: MailboxHead,
) -> Result<CommitOutcome, StoreError> {
    let commit = MailboxCommit {
        mailbox,
        expected: head.modseq,
        head: MailboxHead { modseq: head.modseq.next(), ..head },
        appended: Vec::new(),
        changed: Vec::new(),
        expunged: Vec::new(),
    };
    engine.commit(commit).await
}

async fn found(
    engine: &dyn Engine,
    mailbox: MailboxId,
    batch: &CommittedBatch,
    head: &MailboxHead,
    alone: Alone,
) -> Result<bool, StoreError> {
    let (from, to) = (batch.uid_next, head.uid_next.value());
    if from >= to {
        return Ok(false);
    }
    let (mut there, mut expected, mut has_gap) = (false, from, false);
    let mut visit = |stored: posthaste_store::Stored<'_>| {
        there = batch.has(stored.body);
        has_gap |= stored.uid.value() - expected >= batch.len;
        expected = stored.uid.value() + 1;
        if there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let unreadable = engine.summaries(mailbox, &NumSet::range(from, to - 1), &mut visit).await?;
    if !there {
        // A message that cannot be read may belong to the batch.
        unreadable.refuse()?;
    }
    has_gap |= to.saturating_sub(expected) >= batch.len;
    if there || !has_gap || !matches!(alone, Alone::Locked) {
        return Ok(there);
    }
    any_body(engine, batch).await
}

/// Whether the store has one of the bodies.
async fn any_body(engine: &dyn Engine, batch: &CommittedBatch) -> Result<bool, StoreError> {
    for n in 0..batch.len {
        match engine.read_body(batch.body(n), 0..1).await {
            Ok(_) => return Ok(true),
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
