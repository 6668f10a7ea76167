//! Bodies and summaries: written before the commit that refers to them, found by ids.
//!
//! For each message first a reference (body, mailbox, UID, commit) is written, then the body ([`crate::bodies`]): so everything that
//! is there can be found from `bodyref` by the sweep, whatever became of the commit. A body is written whole each time a
//! message brings it, unless this engine just did: the bytes are the same, and a newer write outlives a sweep that had begun.

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{BodyId, Id, MailboxId, NumSet, Uid};
use posthaste_store::{Content, MailboxCommit, NewMessage, Result, StoreError, Stored, Visit};
use scylla::value::CqlValue;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::time::Duration;

use crate::chunk::number;
use crate::commit::CommitId;
use crate::engine::CassandraEngine;
use crate::read::{AT_ONCE, ChunkRow, chunk_from};
use crate::schema::SUMMARY_BUCKET;
use crate::session::{Values, age_ms, blob};
use crate::values::{summary_from, summary_value};

/// Summaries in one write: bytes and number. ScyllaDB warns of batches above 128 KiB.
const SUMMARY_BATCH_BYTES: usize = 64 << 10;
const SUMMARY_BATCH_MAX: usize = 128;

/// Bodies remembered as just written.
const RECENT_MAX: usize = 4096;

/// Ids of bodies that this engine wrote a moment ago: a message for a hundred recipients is written once.
///
/// A body is remembered by the commit that brought it, for a quarter of the sweep's patience after that commit got its id. The
/// sweep looks at the reference of that commit, and takes no body while that reference is young.
pub(crate) struct RecentBodies {
    fresh: Duration,
    written: Mutex<HashMap<BodyId, CommitId>>,
}

impl RecentBodies {
    pub(crate) fn new(fresh: Duration) -> Self {
        Self { fresh: fresh.min(Duration::from_secs(600)), written: Mutex::default() }
    }

    fn has(&self, body: BodyId) -> bool {
        let written = self.written.lock().unwrap_or_else(|e| e.into_inner());
        // By both clocks: one stands still while the machine is suspended, the other may be set back.
        let passed = |by: &CommitId| by.made.elapsed().max(Duration::from_millis(age_ms(&by.id.to_bytes())));
        written.get(&body).is_some_and(|by| passed(by) < self.fresh)
    }

    fn note(&self, body: BodyId, by: CommitId) {
        let mut written = self.written.lock().unwrap_or_else(|e| e.into_inner());
        if written.len() >= RECENT_MAX {
            written.clear();
        }
        written.insert(body, by);
    }
}

/// What a copy takes from its original.
struct Original {
    body: BodyId,
    summary: Vec<u8>,
}

pub(crate) fn bucket(uid: u32) -> i32 {
    (uid / SUMMARY_BUCKET).cast_signed()
}

impl CassandraEngine {
    /// Writes what a commit will refer to; `false` if a message to be copied is gone.
    pub(crate) async fn write_contents(&self, id: CommitId, commit: &MailboxCommit) -> Result<bool> {
        let Some(originals) = self.originals(commit).await? else { return Ok(false) };
        let mut summaries: Vec<(u32, Vec<u8>)> = Vec::with_capacity(commit.appended.len());
        for message in &commit.appended {
            let uid = number(&message.row);
            let summary = match &message.content {
                Content::New { summary, .. } => &summary[..],
                Content::CopyOf { mailbox, uid: of } => match originals.get(&(*mailbox, of.value())) {
                    Some(original) if original.body == message.body => &original.summary,
                    Some(_) => {
                        return Err(StoreError::Corrupt("a copy has another body than its original".into()));
                    }
                    None => return Ok(false),
                },
            };
            summaries.push((uid, summary_value(commit.mailbox, uid, message.body, message.saved, summary)));
        }
        let mut writes: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(commit.appended.len());
        for message in &commit.appended {
            writes.push(self.write_body(id, commit.mailbox, message).boxed());
        }
        for batch in self.summary_batches(id.id, commit.mailbox, summaries) {
            let write = async move {
                let put = &self.statements.summary_put;
                let statements: Vec<_> = batch.into_iter().map(|values| (put, values)).collect();
                self.database.write_all(&statements).await
            };
            writes.push(write.boxed());
        }
        stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        self.originals_remain(commit).await
    }

    /// Whether what is copied from other mailboxes is still there, now that the copies' references are written. A sweep looks at
    /// references after it saw that the original is gone: one that is there now cannot have been overlooked. (In the
    /// same mailbox the commit's own condition sees to it.)
    async fn originals_remain(&self, commit: &MailboxCommit) -> Result<bool> {
        for (mailbox, uids) in originals_of(commit).filter(|(mailbox, _)| *mailbox != commit.mailbox) {
            let (Some(first), Some(last)) = (uids.first(), uids.last()) else { continue };
            let (chunks, modseqs) = self.chunks_between(mailbox, (first, last)).await?;
            let there = chunks.values().flat_map(|chunk| &chunk.rows).map(number);
            let there = there.filter(|uid| uids.contains(*uid)).count() as u64;
            if there != uids.count() || modseqs.iter().any(|modseq| *modseq < 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Cuts summaries into writes of one partition and bounded size.
    fn summary_batches(
        &self,
        id: Id,
        mailbox: MailboxId,
        summaries: Vec<(u32, Vec<u8>)>,
    ) -> Vec<Vec<Values>> {
        let mut batches: Vec<Vec<Values>> = Vec::new();
        let (mut current, mut bytes) = (None, 0);
        for (uid, value) in summaries {
            let fits = batches.last().is_some_and(|batch| batch.len() < SUMMARY_BATCH_MAX)
                && bytes + value.len() <= SUMMARY_BATCH_BYTES
                && current == Some(bucket(uid));
            if !fits {
                batches.push(Vec::new());
                (current, bytes) = (Some(bucket(uid)), 0);
            }
            bytes += value.len();
            let values = vec![
                Some(CqlValue::Blob(value)),
                Some(blob(mailbox.0)),
                Some(CqlValue::Int(bucket(uid))),
                Some(CqlValue::BigInt(i64::from(uid))),
                Some(blob(id)),
            ];
            if let Some(batch) = batches.last_mut() {
                batch.push(values);
            }
        }
        batches
    }

    async fn write_body(&self, id: CommitId, mailbox: MailboxId, message: &NewMessage) -> Result<()> {
        let (body, commit) = (message.body.0.to_bytes(), id.id.to_bytes());
        let reference = (&body[..], &mailbox.0.to_bytes()[..], i64::from(number(&message.row)), &commit[..]);
        self.database.write(&self.statements.ref_put, reference).await?;
        let Content::New { bytes, .. } = &message.content else { return Ok(()) };
        if self.recent.has(message.body) {
            return Ok(());
        }
        self.put_body(id.id, message.body, bytes).await?;
        self.recent.note(message.body, id);
        Ok(())
    }

    /// What the commit's copies are copies of; `None` if a mailbox is gone. Messages that are gone are missing.
    async fn originals(&self, commit: &MailboxCommit) -> Result<Option<HashMap<(MailboxId, u32), Original>>> {
        let mut originals = HashMap::new();
        for (mailbox, uids) in originals_of(commit) {
            let mut take = |stored: Stored<'_>| {
                let original = Original { body: stored.body, summary: stored.summary.to_vec() };
                originals.insert((mailbox, stored.uid.value()), original);
                ControlFlow::Continue(())
            };
            match self.visit_summaries(mailbox, &uids, &mut take).await {
                Ok(unreadable) => unreadable.refuse()?,
                Err(StoreError::NoMailbox(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(originals))
    }

    /// Visits summaries in UID order; answers with the UIDs that have a row and no good summary.
    pub(crate) async fn visit_summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        let mut unreadable = Unreadable::default();
        let (Some(first), Some(last)) = (uids.first(), uids.last()) else {
            return match self.head(mailbox).await? {
                Some(_) => Ok(()),
                None => Err(StoreError::NoMailbox(mailbox)),
            };
        };
        // The chunk in which the set begins, then the others by pages; each page's summaries before the next page.
        let low = match self.floor(mailbox, first).await? {
            Some(floor) if floor.modseq < 0 => return Err(StoreError::NoMailbox(mailbox)),
            Some(floor) => floor.low,
            None if self.head(mailbox).await?.is_none() => {
                return Err(StoreError::NoMailbox(mailbox));
            }
            None => first,
        };
        let key = mailbox.0.to_bytes();
        let mut from = Some(scylla::response::PagingState::start());
        while let Some(state) = from {
            let values = (&key[..], i64::from(low), i64::from(last));
            let (page, next) = self.database.page::<ChunkRow>(&self.statements.chunks, values, state).await?;
            let mut wanted: Vec<(u32, Id)> = Vec::new();
            for (_, low, value) in page {
                let (_, chunk) = chunk_from(mailbox, low, value)?;
                let there = chunk.rows.iter().map(number).filter(|uid| uids.contains(*uid));
                wanted.extend(there.filter_map(|uid| Some((uid, chunk.origin(uid)?))));
            }
            if self.visit_wanted(mailbox, &wanted, visit, &mut unreadable.0).await?.is_break() {
                return Ok(unreadable);
            }
            from = next;
        }
        Ok(unreadable)
    }

    /// Visits the summaries of these UIDs, rising, each of its commit.
    pub(crate) async fn visit_wanted(
        &self,
        mailbox: MailboxId,
        wanted: &[(u32, Id)],
        visit: &mut Visit<'_>,
        unreadable: &mut NumSet,
    ) -> Result<ControlFlow<()>> {
        let key = mailbox.0.to_bytes();
        for group in wanted.chunk_by(|a, b| bucket(a.0) == bucket(b.0)) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let values = (&key[..], bucket(first.0), i64::from(first.0), i64::from(last.0));
            let mut left = group.iter().copied().peekable();
            let mut flow = ControlFlow::Continue(());
            let mut missing: Vec<(u32, Id)> = Vec::new();
            let take = |page: Vec<(i64, Vec<u8>, Option<Vec<u8>>)>| {
                for (uid, commit, value) in page {
                    while let Some(passed) = left.next_if(|(next, _)| i64::from(*next) < uid) {
                        missing.push(passed);
                    }
                    let Some((next, origin)) = left.peek() else { break };
                    if i64::from(*next) != uid || commit != origin.to_bytes() {
                        continue;
                    }
                    match visit_one(mailbox, *next, &value.unwrap_or_default(), visit) {
                        Some(visited) => flow = visited,
                        None => {
                            tracing::error!(%mailbox, uid = next, "a summary is damaged");
                            unreadable.push(*next);
                        }
                    }
                    left.next();
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
                Ok(ControlFlow::Continue(()))
            };
            self.database.pages(&self.statements.summaries, values, take).await?;
            if flow.is_continue() {
                missing.extend(left);
            }
            self.verify_expunged(mailbox, &missing).await?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Messages whose summaries are missing must have been expunged, and swept, since their rows were read. One whose row is
    /// still there is damaged.
    async fn verify_expunged(&self, mailbox: MailboxId, missing: &[(u32, Id)]) -> Result<()> {
        for (uid, origin) in missing {
            if self.has_message(mailbox, *uid, *origin).await? {
                return Err(StoreError::Corrupt(format!("mailbox {mailbox} has no summary of UID {uid}")));
            }
        }
        Ok(())
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
}

/// The messages that a commit copies, by their mailboxes.
fn originals_of(commit: &MailboxCommit) -> impl Iterator<Item = (MailboxId, NumSet)> + use<> {
    let mut wanted: BTreeMap<MailboxId, Vec<(u32, u32)>> = BTreeMap::new();
    for message in &commit.appended {
        if let Content::CopyOf { mailbox, uid } = &message.content {
            wanted.entry(*mailbox).or_default().push((uid.value(), uid.value()));
        }
    }
    wanted.into_iter().map(|(mailbox, uids)| (mailbox, NumSet::from_ranges(uids)))
}

/// A message that has a row and no summary.
fn has_none(mailbox: MailboxId, uid: u32, unreadable: &mut NumSet) {
    tracing::error!(%mailbox, uid, "a message has no summary");
    unreadable.push(uid);
}

/// Visits a summary; `None` if it is damaged.
fn visit_one(mailbox: MailboxId, uid: u32, value: &[u8], visit: &mut Visit<'_>) -> Option<ControlFlow<()>> {
    let stored = summary_from(mailbox, uid, value)?;
    let uid = posthaste_mail_model::Uid::new(uid)?;
    Some(visit(Stored { uid, body: stored.body, saved: stored.saved, summary: stored.summary }))
}
