//! The sweep: what no commit refers to, in pieces.
//!
//! One round goes over all mailboxes (closed ones are emptied, summaries of no message removed), then over all references
//! (those of no message removed, and bodies without any). Nothing is noted by commits; all is judged by what is there, so that
//! no crash leaves anything for ever. What is younger than `sweep_after` is left alone: its commit may be under way.
//!
//! A body goes with a timestamp from before its references were read: a write that came since is newer, and stays.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use posthaste_store::{Report, Result, StoreError};
use scylla::response::PagingState;
use scylla::value::CqlValue;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

use crate::chunk::Chunks;
use crate::contents::bucket;
use crate::engine::CassandraEngine;
use crate::lease::Lease;
use crate::read::{AT_ONCE, ChunkRow, chunk_from};
use crate::session::{blob, now_us};

/// Mailboxes whose rows one piece of a sweep keeps at hand: at 10,000 messages 300 KB each.
const MAILBOXES_MAX: usize = 256;

/// Deletions in one write.
const DELETE_BATCH_MAX: usize = 128;

/// Where the sweep is.
pub(crate) struct Sweep {
    stage: Stage,
    lease: Lease,
}

impl Sweep {
    pub(crate) fn new(node: Id) -> Self {
        Self { stage: Stage::default(), lease: Lease::new(node) }
    }
}

enum Stage {
    Mailboxes(PagingState),
    References(PagingState),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Mailboxes(PagingState::start())
    }
}

/// A reference: body, mailbox, UID, commit.
type Reference = (Vec<u8>, Vec<u8>, i64, Vec<u8>);

/// Rows of mailboxes that were read in this piece; `None` for one that is gone.
type Known = HashMap<MailboxId, Option<Chunks>>;

pub(crate) fn id_of(bytes: &[u8]) -> Result<Id> {
    let bytes = bytes.try_into().map_err(|_| StoreError::Corrupt("a key that is no id".into()))?;
    Ok(Id::from_bytes(bytes))
}

/// Unix milliseconds at which an id was made.
fn made_ms(id: &[u8]) -> u64 {
    id.iter().take(6).fold(0, |ms, byte| ms << 8 | u64::from(*byte))
}

impl CassandraEngine {
    /// Does one piece.
    pub(crate) async fn sweep_on(&self) -> Result<Report> {
        let mut sweep = self.sweep.lock().await;
        let mut report = Report::default();
        if !self.may_sweep(&mut sweep.lease).await? {
            // Whoever has it now begins at the beginning.
            sweep.stage = Stage::default();
            return Ok(report);
        }
        // A failed piece begins again where it began.
        let next = match &sweep.stage {
            Stage::Mailboxes(from) => match self.sweep_mailboxes(from.clone(), &mut report).await? {
                Some(next) => Stage::Mailboxes(next),
                None => Stage::References(PagingState::start()),
            },
            Stage::References(from) => match self.sweep_references(from.clone(), &mut report).await? {
                Some(next) => Stage::References(next),
                None => {
                    sweep.stage = Stage::default();
                    self.end_lease(&mut sweep.lease).await?;
                    // The round is over: nothing is left to do.
                    report.examined = 0;
                    return Ok(report);
                }
            },
        };
        report.examined = report.examined.max(1);
        sweep.stage = next;
        Ok(report)
    }

    /// Whether what was made under this id may still be under way.
    fn is_young(&self, id: &[u8]) -> bool {
        let now_ms = u64::try_from(now_us() / 1000).unwrap_or(0);
        u128::from(now_ms.saturating_sub(made_ms(id))) < self.options.sweep_after.as_millis()
    }

    async fn sweep_mailboxes(&self, from: PagingState, report: &mut Report) -> Result<Option<PagingState>> {
        type Found = (Vec<u8>, Option<Vec<u8>>, Option<i64>);
        let (page, next) = self.database.page::<Found>(&self.statements.mailboxes, (), from).await?;
        report.examined += page.len() as u64;
        let one = |(mailbox, account, modseq): Found| async move {
            let id = MailboxId(id_of(&mailbox)?);
            if modseq.unwrap_or(-1) >= 0 {
                let account = AccountId(id_of(&account.unwrap_or_default())?);
                if self.is_young(&mailbox)
                    || self.stored_list(account).await?.list.entries.iter().any(|e| e.id == id)
                {
                    return self.sweep_summaries(id).await;
                }
                self.close_mailbox(id).await?;
            }
            self.erase_mailbox(id).await
        };
        let swept = stream::iter(page).map(Ok);
        swept.try_for_each_concurrent(AT_ONCE / 4, one).await?;
        Ok(next)
    }

    /// Removes a closed mailbox's summaries, then its rows; references to bodies find out by themselves.
    async fn erase_mailbox(&self, mailbox: MailboxId) -> Result<()> {
        let last = self.floor(mailbox, u32::MAX).await?.map_or(0, |floor| floor.head.head.uid_next.value());
        for n in 0..=bucket(last) {
            let values = (&mailbox.0.to_bytes()[..], n);
            self.database.write(&self.statements.summary_bucket_delete, values).await?;
        }
        self.database.write(&self.statements.erase, (&mailbox.0.to_bytes()[..],)).await
    }

    /// All chunks of a mailbox; `None` if it is gone.
    pub(crate) async fn all_chunks(&self, mailbox: MailboxId) -> Result<Option<Chunks>> {
        let (mut chunks, mut gone) = (Chunks::new(), true);
        let values = (&mailbox.0.to_bytes()[..], 0i64, i64::MAX);
        let take = |page: Vec<ChunkRow>| {
            for (modseq, low, value) in page {
                gone = modseq.unwrap_or(-1) < 0;
                let (low, chunk) = chunk_from(mailbox, low, value)?;
                chunks.insert(low, chunk);
            }
            Ok(ControlFlow::Continue(()))
        };
        self.database.pages(&self.statements.chunks, values, take).await?;
        Ok((!gone).then_some(chunks))
    }

    async fn sweep_summaries(&self, mailbox: MailboxId) -> Result<()> {
        let key = mailbox.0.to_bytes();
        let Some(head) = self.head(&self.statements.head, mailbox).await? else { return Ok(()) };
        for n in 0..=bucket(head.head.uid_next.value()) {
            let mut keys: Vec<(i64, Vec<u8>)> = Vec::new();
            let take = |page: Vec<(i64, Vec<u8>)>| {
                keys.extend(page.into_iter().filter(|(_, commit)| !self.is_young(commit)));
                Ok(ControlFlow::Continue(()))
            };
            self.database.pages(&self.statements.summary_keys, (&key[..], n), take).await?;
            let (Some(first), Some(last)) = (keys.first(), keys.last()) else { continue };
            let uids = (u32::try_from(first.0).unwrap_or(0), u32::try_from(last.0).unwrap_or(u32::MAX));
            // Read after the keys: what is not there now, and is not young, never will be.
            let (chunks, _) = self.chunks_between(mailbox, uids).await?;
            keys.retain(|(uid, commit)| !refers(&chunks, *uid, commit));
            for dead in keys.chunks(DELETE_BATCH_MAX) {
                let values = dead.iter().map(|(uid, commit)| {
                    let (uid, commit) = (CqlValue::BigInt(*uid), CqlValue::Blob(commit.clone()));
                    vec![Some(blob(mailbox.0)), Some(CqlValue::Int(n)), Some(uid), Some(commit)]
                });
                let batch: Vec<_> = values.map(|values| (&self.statements.summary_delete, values)).collect();
                self.database.write_all(&batch).await?;
            }
        }
        Ok(())
    }

    async fn sweep_references(&self, from: PagingState, report: &mut Report) -> Result<Option<PagingState>> {
        let before_us = now_us() - i64::try_from(self.options.sweep_after.as_micros() / 2).unwrap_or(0);
        let (page, next) = self.database.page::<Reference>(&self.statements.refs_all, (), from).await?;
        report.examined += page.len() as u64;
        let mut known = Known::new();
        for reference in page {
            if self.is_alive(&mut known, &reference).await? {
                continue;
            }
            report.reclaimed_bytes += self.release(&mut known, reference, before_us).await?;
        }
        Ok(next)
    }

    /// Whether the message that a reference speaks of is there, or may yet come.
    async fn is_alive(&self, known: &mut Known, (_, mailbox, uid, commit): &Reference) -> Result<bool> {
        if self.is_young(commit) {
            return Ok(true);
        }
        let mailbox = MailboxId(id_of(mailbox)?);
        if known.len() >= MAILBOXES_MAX {
            known.clear();
        }
        let chunks = match known.entry(mailbox) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.all_chunks(mailbox).await?),
        };
        Ok(chunks.as_ref().is_some_and(|chunks| refers(chunks, *uid, commit)))
    }

    /// Removes a dead reference, and its body if no other is alive; answers with the bytes given back.
    async fn release(&self, known: &mut Known, dead: Reference, before_us: i64) -> Result<u64> {
        let body = dead.0.clone();
        let (id, commit) = (BodyId(id_of(&dead.0)?), id_of(&dead.3)?);
        // Before the references: whatever is written later belongs to a reference that is not among them.
        let kept = self.kept_body(id).await?;
        let mut others: Vec<(Vec<u8>, i64, Vec<u8>)> = Vec::new();
        let take = |page: Vec<(Vec<u8>, i64, Vec<u8>)>| {
            others.extend(page);
            Ok(ControlFlow::Continue(()))
        };
        self.database.pages(&self.statements.refs, (&body[..],), take).await?;
        let mut alive = false;
        for (mailbox, uid, commit) in others {
            alive |= self.is_alive(known, &(body.clone(), mailbox, uid, commit)).await?;
        }
        let mut freed = 0;
        if alive {
            self.drop_leftover(id, commit, kept.as_ref()).await?;
        } else {
            freed = self.drop_body(id, commit, kept, before_us).await?;
            tracing::debug!(body = %id, "swept a body that nothing refers to");
        }
        let (_, mailbox, uid, commit) = dead;
        self.database.write(&self.statements.ref_delete, (body, mailbox, uid, commit)).await?;
        Ok(freed)
    }
}

/// Whether a mailbox has a message of this UID from this commit.
fn refers(chunks: &Chunks, uid: i64, commit: &[u8]) -> bool {
    let Ok(uid) = u32::try_from(uid) else { return false };
    let chunk = chunks.range(..=uid).next_back().map(|(_, chunk)| chunk);
    chunk.and_then(|chunk| chunk.origin(uid)).is_some_and(|origin| origin.to_bytes() == commit)
}
