//! Summaries: read in UID order, and removed by UID and commit.
//!
//! A summary is written before the commit that refers to it. The chunk names the commit whose
//! summary is valid for a UID.

use std::ops::ControlFlow;

use posthaste_mail_model::{Id, MailboxId, NumSet, Uid};
use posthaste_store::{CommitOutcome, Result, StoreError, Stored, SummaryOf, Unreadable, Visit};
use scylla::response::PagingState;
use scylla::value::CqlValue;

use crate::cluster::ids::{blob, id_of, uid_of};
use crate::mailboxes::Mailboxes;
use crate::mailboxes::matching::{Matching, SummaryRow, Unvisited};
use crate::mailboxes::rows::{ChunkRow, chunk_from};
use crate::stored::chunk::{SummaryOrigin, number};
use crate::stored::impossible;
use crate::stored::values::summary_value;

/// UIDs in one partition of `summary`: about 1 MiB at 1 KiB a summary, so that a page of a listing
/// is one read.
const SUMMARY_BUCKET: u32 = 1024;

/// Deletions in one write.
const DELETE_BATCH_MAX: usize = 128;

/// The key of a summary in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SummaryKey {
    pub(crate) uid: u32,
    /// The commit that wrote it.
    pub(crate) commit: Id,
}

/// The partition of `summary` in which a UID lies.
pub(crate) fn bucket(uid: u32) -> i32 {
    (uid / SUMMARY_BUCKET).cast_signed()
}

impl Mailboxes {
    /// Visits summaries in UID order. Returns the UIDs that have a row and no intact summary.
    pub(crate) async fn visit_summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        let mut unreadable = Unreadable::default();
        let (Some(first), Some(last)) = (uids.first(), uids.last()) else {
            return match self.head(mailbox).await? {
                Some(_) => Ok(unreadable),
                None => Err(StoreError::NoMailbox(mailbox)),
            };
        };
        // The chunk in which the set begins, then the others by pages; each page's summaries before
        // the next page.
        let low = match self.floor(mailbox, first).await? {
            Some(floor) if floor.modseq < 0 => return Err(StoreError::NoMailbox(mailbox)),
            Some(floor) => floor.low,
            None if self.head(mailbox).await?.is_none() => {
                return Err(StoreError::NoMailbox(mailbox));
            }
            None => first,
        };
        let key = mailbox.0.to_bytes();
        let mut from = Some(PagingState::start());
        while let Some(state) = from {
            let values = (&key[..], i64::from(low), i64::from(last));
            let (page, next) =
                self.cluster.page::<ChunkRow>(&self.cluster.statements.mailbox.chunks, values, state).await?;
            let mut wanted: Vec<SummaryOrigin> = Vec::new();
            for (_, low, value) in page {
                let (_, chunk) = chunk_from(mailbox, low, value)?;
                for uid in chunk.rows.iter().map(number).filter(|uid| uids.contains(*uid)) {
                    let no_origin = || impossible(format!("mailbox {mailbox}: UID {uid} has no origin"));
                    wanted.push((uid, chunk.origin(uid).ok_or_else(no_origin)?));
                }
            }
            if self.visit_wanted(mailbox, &wanted, visit, &mut unreadable.0).await?.is_break() {
                return Ok(unreadable);
            }
            from = next;
        }
        Ok(unreadable)
    }

    /// Visits the summaries of these UIDs in ascending order. Each is the one that the named commit
    /// wrote. UIDs without an intact one are added to `unreadable`.
    pub(crate) async fn visit_wanted(
        &self,
        mailbox: MailboxId,
        wanted: &[SummaryOrigin],
        visit: &mut Visit<'_>,
        unreadable: &mut NumSet,
    ) -> Result<ControlFlow<()>> {
        let key = mailbox.0.to_bytes();
        for group in wanted.chunk_by(|a, b| bucket(a.0) == bucket(b.0)) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let values = (&key[..], bucket(first.0), i64::from(first.0), i64::from(last.0));
            let mut matching = Matching::new(mailbox, group);
            let mut from = PagingState::start();
            let flow = loop {
                let read = &self.cluster.statements.summary.read;
                let (page, next) = self.cluster.page::<SummaryRow>(read, values, from).await?;
                let flow = matching.page(page, visit).await;
                match next {
                    Some(next) if flow.is_continue() => from = next,
                    _ => break flow,
                }
            };
            let Unvisited { missing, mut damaged } = matching.unvisited(flow);
            damaged.extend(self.without_summary(mailbox, &missing).await?);
            damaged.sort_unstable();
            damaged.into_iter().for_each(|uid| unreadable.push(uid));
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The messages whose rows still exist. The others were expunged, and swept, since their rows
    /// were read.
    async fn without_summary(&self, mailbox: MailboxId, missing: &[SummaryOrigin]) -> Result<Vec<u32>> {
        let mut without = Vec::new();
        for (uid, origin) in missing {
            if self.has_message(mailbox, *uid, *origin).await? {
                tracing::error!(%mailbox, uid, "a message has no summary");
                without.push(*uid);
            }
        }
        Ok(without)
    }

    /// Adds the summary that a message lacks. Two nodes may write the same one.
    pub(crate) async fn add_summary(&self, message: &SummaryOf, summary: &[u8]) -> Result<CommitOutcome> {
        let SummaryOf { mailbox, uid, body } = *message;
        let uid = uid.value();
        let floor = self.floor(mailbox, uid).await?.filter(|floor| floor.modseq >= 0);
        let Some(commit) = floor.and_then(|floor| floor.chunk.origin(uid)) else {
            return Ok(CommitOutcome::Conflict);
        };
        let mut saved = None;
        let mut visit = |stored: Stored<'_>| {
            saved = Some(stored.saved).filter(|_| stored.body == body && stored.summary.is_empty());
            ControlFlow::Continue(())
        };
        let mut unreadable = NumSet::new();
        let _ = self.visit_wanted(mailbox, &[(uid, commit)], &mut visit, &mut unreadable).await?;
        let Some(saved) = saved else { return Ok(CommitOutcome::Conflict) };
        let values = vec![
            Some(CqlValue::Blob(summary_value(mailbox, uid, body, saved, summary))),
            Some(blob(mailbox.0)),
            Some(CqlValue::Int(bucket(uid))),
            Some(CqlValue::BigInt(i64::from(uid))),
            Some(blob(commit)),
        ];
        self.cluster.write(&self.cluster.statements.summary.replace, values).await?;
        // A sweep that removes the message from here on finds this record. An earlier sweep may
        // have missed it.
        if self.has_message(mailbox, uid, commit).await? {
            return Ok(CommitOutcome::Done);
        }
        self.delete_summaries(mailbox, bucket(uid), &[SummaryKey { uid, commit }]).await?;
        Ok(CommitOutcome::Conflict)
    }

    /// Whether a mailbox has a message of this UID now.
    pub(crate) async fn has_uid(&self, mailbox: MailboxId, uid: Uid) -> Result<bool> {
        let floor = self.floor(mailbox, uid.value()).await?.filter(|floor| floor.modseq >= 0);
        Ok(floor.is_some_and(|floor| floor.chunk.origin(uid.value()).is_some()))
    }

    /// Whether a mailbox has this message of this commit now.
    pub(crate) async fn has_message(&self, mailbox: MailboxId, uid: u32, origin: Id) -> Result<bool> {
        let floor = self.floor(mailbox, uid).await?.filter(|floor| floor.modseq >= 0);
        Ok(floor.is_some_and(|floor| floor.chunk.origin(uid) == Some(origin)))
    }

    /// Reads a page of the keys of a bucket in UID order. Returns also where the next page begins.
    pub(crate) async fn summary_keys(
        &self,
        mailbox: MailboxId,
        bucket: i32,
        from: PagingState,
    ) -> Result<(Vec<SummaryKey>, Option<PagingState>)> {
        let values = (&mailbox.0.to_bytes()[..], bucket);
        let statement = &self.cluster.statements.summary.keys;
        let (page, next) = self.cluster.page::<(i64, Vec<u8>)>(statement, values, from).await?;
        let key =
            |(uid, commit): (i64, Vec<u8>)| Ok(SummaryKey { uid: uid_of(uid)?, commit: id_of(&commit)? });
        Ok((page.into_iter().map(key).collect::<Result<_>>()?, next))
    }

    /// Removes summaries of one bucket by UID and commit.
    pub(crate) async fn delete_summaries(
        &self,
        mailbox: MailboxId,
        bucket: i32,
        keys: &[SummaryKey],
    ) -> Result<()> {
        for dead in keys.chunks(DELETE_BATCH_MAX) {
            let values = dead.iter().map(|key| {
                let (uid, commit) = (CqlValue::BigInt(i64::from(key.uid)), blob(key.commit));
                vec![Some(blob(mailbox.0)), Some(CqlValue::Int(bucket)), Some(uid), Some(commit)]
            });
            let batch: Vec<_> =
                values.map(|values| (&self.cluster.statements.summary.delete, values)).collect();
            self.cluster.write_all(&batch).await?;
        }
        Ok(())
    }
}
