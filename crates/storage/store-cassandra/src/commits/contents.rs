//! Bodies and summaries: written before the commit that refers to them, found by ids.
//!
//! For each message a reference (body, mailbox, UID, commit) is written first, then the body
//! ([`crate::bodies`]) and the summary. So the sweep finds everything from `bodyref`, whether or
//! not the commit was applied. If the writes took long, as when the machine was suspended, the
//! references are written again at the end. A sweep may have removed them meanwhile, and left the
//! body or the summary that was written after that.
//!
//! A body is written whole each time a message brings it, unless this engine wrote it a moment ago.
//! Clients see the same of it in each form, and a newer write survives a sweep that had begun.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{BodyId, Id, MailboxId, NumSet, Uid};
use posthaste_store::{Content, MailboxCommit, NewMessage, Result, StoreError, Stored};
use scylla::value::CqlValue;

use crate::bodies::Bodies;
use crate::cluster::connection::{AT_ONCE, Values};
use crate::cluster::ids::{age_ms, blob};
use crate::mailboxes::Mailboxes;
use crate::mailboxes::summaries::bucket;
use crate::stored::chunk::number;
use crate::stored::values::{created_value, summary_value};

/// Summaries in one write: bytes and number. ScyllaDB warns of batches above 128 KiB.
const SUMMARY_BATCH_BYTES: usize = 64 << 10;
const SUMMARY_BATCH_MAX: usize = 128;

/// Bodies remembered as just written.
const RECENT_MAX: usize = 4096;

/// Ids of bodies that this engine wrote a moment ago: a message for a hundred recipients is written
/// once.
///
/// A body is remembered by the commit that brought it, for a quarter of `sweep_after` from the time
/// of that commit's id. The sweep reads the reference of that commit, and removes no body while the
/// reference is younger than `sweep_after`.
struct RecentBodies {
    fresh: Duration,
    written: Mutex<HashMap<BodyId, CommitId>>,
}

impl RecentBodies {
    fn new(fresh: Duration) -> Self {
        Self { fresh: fresh.min(Duration::from_secs(600)), written: Mutex::default() }
    }

    /// Whether a commit got its id a moment ago, by both clocks. One stops while the machine is
    /// suspended, the other may be set back.
    fn is_fresh(&self, by: CommitId) -> bool {
        by.made.elapsed().max(Duration::from_millis(age_ms(by.id))) < self.fresh
    }

    fn has(&self, body: BodyId) -> bool {
        let written = self.written.lock().unwrap_or_else(|e| e.into_inner());
        written.get(&body).is_some_and(|by| self.is_fresh(*by))
    }

    fn note(&self, body: BodyId, by: CommitId) {
        let mut written = self.written.lock().unwrap_or_else(|e| e.into_inner());
        if written.len() >= RECENT_MAX {
            written.clear();
        }
        written.insert(body, by);
    }
}

/// The values that a copy has from its origin, the copied message.
struct Origin {
    body: BodyId,
    summary: Vec<u8>,
}

/// The values of the record of a new message in the table `summary`.
pub(crate) struct NewSummary {
    pub(crate) uid: u32,
    pub(crate) value: Vec<u8>,
    pub(crate) created: Vec<u8>,
}

/// Names the origin of a copy.
#[derive(PartialEq, Eq, Hash)]
struct OriginKey {
    mailbox: MailboxId,
    uid: Uid,
}

/// The origins of a commit's copies.
type Origins = HashMap<OriginKey, Origin>;

/// Writes the bodies and summaries to which commits refer.
pub(crate) struct Contents {
    mailboxes: Arc<Mailboxes>,
    bodies: Arc<Bodies>,
    recent: RecentBodies,
}

/// The id of a commit, and when it was made, by the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct CommitId {
    pub(crate) id: Id,
    pub(crate) made: Instant,
}

impl Contents {
    /// `fresh` is a quarter of [`crate::Options::sweep_after`].
    pub(crate) fn new(mailboxes: Arc<Mailboxes>, bodies: Arc<Bodies>, fresh: Duration) -> Self {
        Self { mailboxes, bodies, recent: RecentBodies::new(fresh) }
    }

    /// Writes the records to which a commit will refer; `false` if a message to be copied is not
    /// there.
    pub(crate) async fn write(&self, id: CommitId, commit: &MailboxCommit) -> Result<bool> {
        let Some(origins) = self.origins(commit).await? else { return Ok(false) };
        let mut summaries: Vec<NewSummary> = Vec::with_capacity(commit.appended.len());
        for message in &commit.appended {
            let uid = number(&message.row);
            let summary = match &message.content {
                Content::New { summary, .. } => &summary[..],
                &Content::CopyOf { mailbox, uid } => match origins.get(&OriginKey { mailbox, uid }) {
                    Some(origin) if origin.body == message.body => &origin.summary,
                    Some(_) => {
                        return Err(StoreError::Corrupt("a copy has another body than its origin".into()));
                    }
                    None => return Ok(false),
                },
            };
            let value = summary_value(commit.mailbox, uid, message.body, message.saved, summary);
            let created = created_value(commit.mailbox, uid, message.created);
            summaries.push(NewSummary { uid, value, created });
        }
        self.write_references(id, commit).await?;
        self.write_records(id, commit, summaries).await?;
        self.origins_remain(commit).await
    }

    /// Writes bodies and summaries, whose references have been written. If this took long, it
    /// writes the references again.
    pub(crate) async fn write_records(
        &self,
        id: CommitId,
        commit: &MailboxCommit,
        summaries: Vec<NewSummary>,
    ) -> Result<()> {
        let mut writes: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(commit.appended.len());
        for message in &commit.appended {
            writes.push(self.write_body(id, message).boxed());
        }
        for batch in self.summary_batches(id.id, commit.mailbox, summaries) {
            let write = async move {
                let put = &self.mailboxes.cluster.statements.summary.put;
                let statements: Vec<_> = batch.into_iter().map(|values| (put, values)).collect();
                self.mailboxes.cluster.write_all(&statements).await
            };
            writes.push(write.boxed());
        }
        stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        if self.recent.is_fresh(id) { Ok(()) } else { self.write_references(id, commit).await }
    }

    /// Records for the sweep which bodies and summaries the commit brings.
    pub(crate) async fn write_references(&self, id: CommitId, commit: &MailboxCommit) -> Result<()> {
        let (mailbox, by) = (commit.mailbox.0.to_bytes(), id.id.to_bytes());
        let (mailbox, by) = (&mailbox[..], &by[..]);
        let references = commit.appended.iter().map(|m| (m.body.0.to_bytes(), i64::from(number(&m.row))));
        let references: Vec<([u8; 16], i64)> = references.collect();
        let writes = stream::iter(references).map(|(body, uid)| async move {
            let put = &self.mailboxes.cluster.statements.reference.put;
            self.mailboxes.cluster.write(put, (&body[..], mailbox, uid, by)).await
        });
        writes.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Whether the origins in other mailboxes still exist, now that the copies' references are
    /// written. A sweep reads references after it found the origin expunged. If the origin exists
    /// now, a later sweep finds the references. (In the same mailbox, the commit's own condition
    /// ensures it.)
    async fn origins_remain(&self, commit: &MailboxCommit) -> Result<bool> {
        for (mailbox, uids) in origins_of(commit).filter(|(mailbox, _)| *mailbox != commit.mailbox) {
            let (Some(first), Some(last)) = (uids.first(), uids.last()) else { continue };
            let (chunks, modseqs) = self.mailboxes.chunks_between(mailbox, (first, last)).await?;
            let there = chunks.values().flat_map(|chunk| &chunk.rows).map(number);
            let there = there.filter(|uid| uids.contains(*uid)).count() as u64;
            if there != uids.count() || modseqs.iter().any(|modseq| *modseq < 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Divides summaries into writes of one partition and bounded size.
    fn summary_batches(&self, id: Id, mailbox: MailboxId, summaries: Vec<NewSummary>) -> Vec<Vec<Values>> {
        let mut batches: Vec<Vec<Values>> = Vec::new();
        let (mut current, mut bytes) = (None, 0);
        for NewSummary { uid, value, created } in summaries {
            let fits = batches.last().is_some_and(|batch| batch.len() < SUMMARY_BATCH_MAX)
                && bytes + value.len() <= SUMMARY_BATCH_BYTES
                && current == Some(bucket(uid));
            if !fits {
                (current, bytes) = (Some(bucket(uid)), 0);
            }
            bytes += value.len();
            let values = vec![
                Some(CqlValue::Blob(value)),
                Some(CqlValue::Blob(created)),
                Some(blob(mailbox.0)),
                Some(CqlValue::Int(bucket(uid))),
                Some(CqlValue::BigInt(i64::from(uid))),
                Some(blob(id)),
            ];
            match batches.last_mut() {
                Some(batch) if fits => batch.push(values),
                _ => batches.push(vec![values]),
            }
        }
        batches
    }

    /// Writes the body of a new message. Its reference has been written before.
    async fn write_body(&self, id: CommitId, message: &NewMessage) -> Result<()> {
        let Content::New { bytes, .. } = &message.content else { return Ok(()) };
        if self.recent.has(message.body) {
            return Ok(());
        }
        self.bodies.put(id.id, message.body, bytes).await?;
        self.recent.note(message.body, id);
        Ok(())
    }

    /// The origins of the commit's copies, without expunged messages; `None` if a mailbox was
    /// removed.
    async fn origins(&self, commit: &MailboxCommit) -> Result<Option<Origins>> {
        let mut origins = Origins::new();
        for (mailbox, uids) in origins_of(commit) {
            let mut take = |stored: Stored<'_>| {
                let origin = Origin { body: stored.body, summary: stored.summary.to_vec() };
                origins.insert(OriginKey { mailbox, uid: stored.uid }, origin);
                ControlFlow::Continue(())
            };
            match self.mailboxes.visit_summaries(mailbox, &uids, &mut take).await {
                Ok(unreadable) => unreadable.refuse()?,
                Err(StoreError::NoMailbox(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(origins))
    }
}

/// The messages that a commit copies, by their mailboxes.
fn origins_of(commit: &MailboxCommit) -> impl Iterator<Item = (MailboxId, NumSet)> + use<> {
    let mut wanted: BTreeMap<MailboxId, Vec<(u32, u32)>> = BTreeMap::new();
    for message in &commit.appended {
        if let Content::CopyOf { mailbox, uid } = &message.content {
            wanted.entry(*mailbox).or_default().push((uid.value(), uid.value()));
        }
    }
    wanted.into_iter().map(|(mailbox, uids)| (mailbox, NumSet::from_ranges(uids)))
}
