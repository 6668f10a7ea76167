//! The sweep removes records to which no commit refers, in pieces.
//!
//! One round reads all mailboxes. It erases closed ones, and removes summaries without a message.
//! Then it reads all references. It removes those without a message, and bodies without
//! references. Commits write nothing for the sweep. The sweep compares the stored records, so
//! that the remains of a crash are removed.
//!
//! The order is always the same. First the keys are read. Then the fence of each mailbox
//! concerned is replaced ([`crate::mailboxes::partition`]); this is a conditional write, so it
//! completes, or rules out, every proposal in flight. Then the rows are read. A commit that wrote
//! one of those keys read the old fence: either it applied before, and the rows show it, or it
//! never applies. So a key that no row refers to then is permanently dead.
//!
//! Ids that are younger than `sweep_after` are skipped. This only saves fences, and does not
//! disturb commits in progress.
//!
//! A body and its last reference are deleted with a timestamp from before its references were read.
//! A later write has a newer timestamp, and stays. The last reference of a body is never older than
//! the body ([`crate::commits::contents`]), so no body is left without one.
//!
//! Damage does not stop the sweep. Records to which a damaged mailbox or body may refer stay, and
//! the round continues.
//!
//! The summary of a dead reference is deleted before the reference. The first part of the round
//! may not read it: it may be in a mailbox that was erased, or above all its UIDs.

pub(crate) mod lease;
mod listed;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, BodyId, Id, MailboxId};
use posthaste_store::{CommitOutcome, Report, Result, StoreError};
use scylla::response::PagingState;
use tokio::sync::Mutex;

use crate::bodies::{Bodies, StoredBody};
use crate::cluster::connection::AT_ONCE;
use crate::cluster::ids::{age_ms, id_of, now_us, uid_of};
use crate::lists::Lists;
use crate::mailboxes::Mailboxes;
use crate::mailboxes::summaries::{SummaryKey, bucket};
use crate::stored::chunk::{Chunks, refers};
use crate::sweep::lease::Lease;
use crate::sweep::listed::{Judged, Listed};

/// Mailboxes whose rows one piece of a sweep caches: at 10,000 messages 300 KB each.
const MAILBOXES_MAX: usize = 256;

/// Candidates of one fence, summaries: 40 octets each, and one conditional write for all of
/// them.
const CANDIDATES_MAX: usize = 10_000;

/// The sweep of a keyspace.
pub(crate) struct Sweep {
    mailboxes: Arc<Mailboxes>,
    lists: Arc<Lists>,
    bodies: Arc<Bodies>,
    /// [`crate::Options::sweep_after`].
    sweep_after: Duration,
    round: Mutex<Round>,
}

/// The position of the sweep, and its lease.
struct Round {
    stage: Stage,
    lease: Lease,
}

enum Stage {
    Mailboxes(PagingState, Listed),
    References(PagingState),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Mailboxes(PagingState::start(), Listed::default())
    }
}

/// A mailbox that the sweep visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visited {
    Closed(MailboxId),
    /// A mailbox in use, and its owner.
    Open(MailboxId, AccountId),
}

/// The columns of a [`Visited`].
type VisitedColumns = (Vec<u8>, Option<Vec<u8>>, Option<i64>);

impl Visited {
    /// `None` for a mailbox that was erased since, or is being created.
    fn from_columns((mailbox, account, modseq): VisitedColumns) -> Result<Option<Self>> {
        let id = MailboxId(id_of(&mailbox)?);
        match modseq {
            None => Ok(None),
            Some(closed) if closed < 0 => Ok(Some(Self::Closed(id))),
            Some(_) => {
                let unowned = || StoreError::Corrupt(format!("mailbox {id} names no account"));
                let owner = AccountId(id_of(&account.ok_or_else(unowned)?)?);
                Ok(Some(Self::Open(id, owner)))
            }
        }
    }
}

/// A row of `bodyref`: a message that may refer to a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    body: BodyId,
    mailbox: MailboxId,
    uid: u32,
    /// The commit that wrote it.
    commit: Id,
}

/// The columns of a [`Reference`].
type ReferenceColumns = (Vec<u8>, Vec<u8>, i64, Vec<u8>);

impl Reference {
    fn from_columns((body, mailbox, uid, commit): ReferenceColumns) -> Result<Self> {
        Ok(Self {
            body: BodyId(id_of(&body)?),
            mailbox: MailboxId(id_of(&mailbox)?),
            uid: uid_of(uid)?,
            commit: id_of(&commit)?,
        })
    }
}

/// Rows of mailboxes that were read in this piece; `None` for one that was removed.
type ReadRows = HashMap<MailboxId, Option<Chunks>>;

impl Sweep {
    /// `sweep_after` is [`crate::Options::sweep_after`].
    pub(crate) fn new(
        mailboxes: Arc<Mailboxes>,
        lists: Arc<Lists>,
        bodies: Arc<Bodies>,
        lease: Lease,
        sweep_after: Duration,
    ) -> Self {
        let round = Mutex::new(Round { stage: Stage::default(), lease });
        Self { mailboxes, lists, bodies, sweep_after, round }
    }

    /// Does one piece.
    pub(crate) async fn run_piece(&self) -> Result<Report> {
        let mut round = self.round.lock().await;
        let mut report = Report::default();
        if !round.lease.may_sweep().await? {
            // Another node has the lease now, and begins its own round.
            round.stage = Stage::default();
            return Ok(report);
        }
        // A piece that fails is repeated from its start.
        let next = match &mut round.stage {
            Stage::Mailboxes(from, listed) => {
                match self.sweep_mailboxes(from.clone(), listed, &mut report).await? {
                    Some(next) => Stage::Mailboxes(next, std::mem::take(listed)),
                    None => Stage::References(PagingState::start()),
                }
            }
            Stage::References(from) => match self.sweep_references(from.clone(), &mut report).await? {
                Some(next) => Stage::References(next),
                None => {
                    round.stage = Stage::default();
                    round.lease.end().await?;
                    // The round is over: nothing is left to do.
                    report.examined = 0;
                    return Ok(report);
                }
            },
        };
        report.examined = report.examined.max(1);
        round.stage = next;
        Ok(report)
    }

    /// Whether the commit with this id may still be in progress.
    fn is_young(&self, id: &Id) -> bool {
        u128::from(age_ms(*id)) < self.sweep_after.as_millis()
    }

    async fn sweep_mailboxes(
        &self,
        from: PagingState,
        listed: &mut Listed,
        report: &mut Report,
    ) -> Result<Option<PagingState>> {
        let all = &self.mailboxes.cluster.statements.mailbox.all;
        let (page, next) = self.mailboxes.cluster.page::<VisitedColumns>(all, (), from).await?;
        report.examined += page.len() as u64;
        let mut visited = Vec::with_capacity(page.len());
        for columns in page {
            visited.extend(unless_damaged(Visited::from_columns(columns), None)?);
        }
        let judged = self.judge(&visited, listed).await?;
        let judged = &judged;
        let one = |visited| async move { unless_damaged(self.sweep_mailbox(visited, judged).await, ()) };
        let swept = stream::iter(visited).map(Ok);
        swept.try_for_each_concurrent(AT_ONCE / 4, one).await?;
        Ok(next)
    }

    /// Finds out which of these mailboxes the lists of their owners do not name. Young ones may be
    /// on their way into a list.
    ///
    /// Nothing is closed because of this alone, so lists may have changed since. Before a mailbox
    /// is closed, [`Lists::close_unlisted`] reads its fence, fences the list and reads that, in
    /// this order.
    async fn judge(&self, visited: &[Visited], listed: &mut Listed) -> Result<Judged> {
        let mut owned: BTreeMap<AccountId, Vec<MailboxId>> = BTreeMap::new();
        for one in visited {
            if let Visited::Open(mailbox, owner) = *one
                && !self.is_young(&mailbox.0)
            {
                owned.entry(owner).or_default().push(mailbox);
            }
        }
        let read = |owner: AccountId| async move {
            unless_damaged(self.lists.mailboxes_of(owner).await.map(Some), None)
        };
        listed.judge(owned, read).await
    }

    /// Erases a mailbox that is closed or that no list names; removes dead summaries of another.
    async fn sweep_mailbox(&self, visited: Visited, judged: &Judged) -> Result<()> {
        match visited {
            Visited::Closed(id) => self.mailboxes.erase_mailbox(id).await,
            Visited::Open(id, _) if judged.unknown.contains(&id) => Ok(()),
            Visited::Open(id, owner) if judged.unlisted.contains(&id) => {
                if self.lists.close_unlisted(owner, id).await? {
                    self.mailboxes.erase_mailbox(id).await?;
                }
                Ok(())
            }
            Visited::Open(id, _) => self.sweep_summaries(id).await,
        }
    }

    async fn sweep_summaries(&self, mailbox: MailboxId) -> Result<()> {
        let Some(head) = self.mailboxes.head(mailbox).await? else { return Ok(()) };
        let mut candidates: Vec<SummaryKey> = Vec::new();
        for n in 0..=bucket(head.head.uid_next.value()) {
            candidates.extend(self.unreferred_summaries(mailbox, n).await?);
            if candidates.len() >= CANDIDATES_MAX {
                self.remove_dead_summaries(mailbox, std::mem::take(&mut candidates)).await?;
            }
        }
        self.remove_dead_summaries(mailbox, candidates).await
    }

    /// Summaries of one bucket that no row refers to by a plain read, and that are not young.
    async fn unreferred_summaries(&self, mailbox: MailboxId, n: i32) -> Result<Vec<SummaryKey>> {
        let mut keys: Vec<SummaryKey> = Vec::new();
        let mut from = Some(PagingState::start());
        while let Some(state) = from {
            let (page, next) = self.mailboxes.summary_keys(mailbox, n, state).await?;
            keys.extend(page.into_iter().filter(|key| !self.is_young(&key.commit)));
            from = next;
        }
        self.retain_unreferred(mailbox, &mut keys).await?;
        Ok(keys)
    }

    /// Keeps the keys that no row refers to now, in UID order.
    async fn retain_unreferred(&self, mailbox: MailboxId, keys: &mut Vec<SummaryKey>) -> Result<()> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(()) };
        let (chunks, _) = self.mailboxes.chunks_between(mailbox, (first.uid, last.uid)).await?;
        keys.retain(|key| !refers(&chunks, key.uid, key.commit));
        Ok(())
    }

    /// Replaces the fence, and removes the dead candidates. In a mailbox that was closed
    /// meanwhile, all are dead.
    async fn remove_dead_summaries(&self, mailbox: MailboxId, mut keys: Vec<SummaryKey>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        if self.fence_for_sweep(mailbox).await? {
            self.retain_unreferred(mailbox, &mut keys).await?;
        }
        for group in keys.chunk_by(|a, b| bucket(a.uid) == bucket(b.uid)) {
            if let Some(first) = group.first() {
                self.mailboxes.delete_summaries(mailbox, bucket(first.uid), group).await?;
            }
        }
        Ok(())
    }

    /// Fences a mailbox after this node's own commits on it are written: the fence would make them
    /// fail.
    async fn fence_for_sweep(&self, mailbox: MailboxId) -> Result<bool> {
        let _lane = self.mailboxes.lane(mailbox).await;
        self.mailboxes.fence(mailbox).await
    }

    async fn sweep_references(&self, from: PagingState, report: &mut Report) -> Result<Option<PagingState>> {
        let before_us = now_us() - i64::try_from(self.sweep_after.as_micros() / 2).unwrap_or(i64::MAX);
        let (page, next) = self.page_of_references(from).await?;
        report.examined += page.len() as u64;
        let dead = self.dead_references(page).await?;
        let bodies = self.owners_of(&dead).await?;
        report.reclaimed_bytes += self.release_all(dead, bodies, before_us).await?;
        Ok(next)
    }

    /// A page of all references.
    pub(crate) async fn page_of_references(
        &self,
        from: PagingState,
    ) -> Result<(Vec<Reference>, Option<PagingState>)> {
        let all = &self.mailboxes.cluster.statements.reference.all;
        let (page, next) = self.mailboxes.cluster.page::<ReferenceColumns>(all, (), from).await?;
        let page = page.into_iter().map(Reference::from_columns).collect::<Result<Vec<_>>>()?;
        Ok((page, next))
    }

    /// The bodies of dead references. Call it after those were found. A copy that is not among
    /// the references read here looks for its origin later. It does not find an origin that is
    /// dead. No further reference may be judged after this: a copy of its message would be
    /// missed. Each is judged with its own page.
    pub(crate) async fn owners_of(&self, dead: &BTreeSet<Reference>) -> Result<BTreeMap<BodyId, Owners>> {
        let mut bodies = BTreeMap::new();
        for body in dead.iter().map(|reference| reference.body) {
            if let std::collections::btree_map::Entry::Vacant(entry) = bodies.entry(body)
                && let Some(owners) = unless_damaged(self.owners(body).await.map(Some), None)?
            {
                entry.insert(owners);
            }
        }
        Ok(bodies)
    }

    /// Removes dead references, after their summaries. Returns the bytes freed.
    pub(crate) async fn release_all(
        &self,
        dead: BTreeSet<Reference>,
        mut bodies: BTreeMap<BodyId, Owners>,
        before_us: i64,
    ) -> Result<u64> {
        let mut summaries: BTreeMap<(MailboxId, i32), Vec<SummaryKey>> = BTreeMap::new();
        for &Reference { mailbox, uid, commit, .. } in &dead {
            summaries.entry((mailbox, bucket(uid))).or_default().push(SummaryKey { uid, commit });
        }
        let deleted = stream::iter(summaries).map(|((mailbox, n), keys)| async move {
            self.mailboxes.delete_summaries(mailbox, n, &keys).await
        });
        deleted.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        let mut freed = 0;
        for reference in dead {
            if let Some(owners) = bodies.get_mut(&reference.body) {
                freed += self.release(owners, reference, before_us).await?;
            }
        }
        Ok(freed)
    }

    /// The references that are permanently dead: each was read before the fence of its mailbox
    /// was replaced.
    pub(crate) async fn dead_references(&self, references: Vec<Reference>) -> Result<BTreeSet<Reference>> {
        let (mut known, mut damaged) = (ReadRows::new(), HashSet::new());
        let mut candidates: BTreeMap<MailboxId, Vec<Reference>> = BTreeMap::new();
        for reference in references {
            let mailbox = reference.mailbox;
            if self.is_young(&reference.commit) || damaged.contains(&mailbox) {
                continue;
            }
            match unless_damaged(self.is_alive(&mut known, &reference).await.map(Some), None)? {
                Some(true) => {}
                Some(false) => candidates.entry(mailbox).or_default().push(reference),
                None => drop(damaged.insert(mailbox)),
            }
        }
        drop(known);
        let checked = stream::iter(candidates).map(|(mailbox, candidates)| async move {
            unless_damaged(self.permanently_dead(mailbox, candidates).await, Vec::new())
        });
        let dead: Vec<Vec<Reference>> = checked.buffer_unordered(AT_ONCE / 4).try_collect().await?;
        Ok(dead.into_iter().flatten().collect())
    }

    /// A mailbox's references that are dead after its fence was replaced.
    async fn permanently_dead(
        &self,
        mailbox: MailboxId,
        mut references: Vec<Reference>,
    ) -> Result<Vec<Reference>> {
        if self.fence_for_sweep(mailbox).await? {
            let uids = || references.iter().map(|reference| reference.uid);
            let (Some(first), Some(last)) = (uids().min(), uids().max()) else { return Ok(references) };
            let (chunks, _) = self.mailboxes.chunks_between(mailbox, (first, last)).await?;
            references.retain(|reference| !refers(&chunks, reference.uid, reference.commit));
        }
        Ok(references)
    }

    /// Whether the message that a reference names exists, by a plain read.
    async fn is_alive(&self, known: &mut ReadRows, reference: &Reference) -> Result<bool> {
        let mailbox = reference.mailbox;
        if known.len() >= MAILBOXES_MAX {
            known.clear();
        }
        let chunks = match known.entry(mailbox) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.mailboxes.all_chunks(mailbox).await?),
        };
        Ok(chunks.as_ref().is_some_and(|chunks| refers(chunks, reference.uid, reference.commit)))
    }

    /// Counts the messages with this body, by plain reads.
    pub(crate) async fn references(&self, body: BodyId) -> Result<u64> {
        let (mut known, mut count) = (ReadRows::new(), 0);
        for reference in &self.owners(body).await?.references {
            count += u64::from(self.is_alive(&mut known, reference).await?);
        }
        Ok(count)
    }

    /// Stores a body in another form: see [`posthaste_store::Engine::recode`]. All of it is one
    /// cell, so a reader gets the one form or the other. A commit that brings the body later writes
    /// the form in which it came.
    ///
    /// Like a commit, it writes a reference before the body and one after that. No message has it,
    /// so a sweep removes it. If the sweep of the last message removed the body meanwhile, that of
    /// this reference removes what was written since.
    pub(crate) async fn recode(&self, body: BodyId, bytes: &Bytes) -> Result<CommitOutcome> {
        let Owners { stored, references } = self.owners(body).await?;
        let (Some(stored), Some(one)) = (stored, references.first()) else {
            return Ok(CommitOutcome::Conflict);
        };
        if !self.bodies.recodes().fits(stored.len(), bytes.len() as u64) {
            return Err(StoreError::Refused(
                "this engine changes no form of a body over 256 KiB, or in an object",
            ));
        }
        let by = self.mailboxes.cluster.new_id();
        self.refer(one, by).await?;
        self.bodies.put(by, body, bytes).await?;
        self.refer(one, by).await?;
        Ok(CommitOutcome::Done)
    }

    /// Writes a reference of this id beside another one.
    async fn refer(&self, beside: &Reference, by: Id) -> Result<()> {
        let (body, mailbox, by) = (beside.body.0.to_bytes(), beside.mailbox.0.to_bytes(), by.to_bytes());
        let values = (&body[..], &mailbox[..], i64::from(beside.uid), &by[..]);
        self.mailboxes.cluster.write(&self.mailboxes.cluster.statements.reference.put, values).await
    }

    /// A body and its references, read in this order: a later object belongs to a reference that is
    /// not among them.
    async fn owners(&self, body: BodyId) -> Result<Owners> {
        let stored = self.bodies.stored(body).await?;
        let mut references = BTreeSet::new();
        let take = |page: Vec<(Vec<u8>, i64, Vec<u8>)>| {
            for (mailbox, uid, commit) in page {
                let (mailbox, commit) = (MailboxId(id_of(&mailbox)?), id_of(&commit)?);
                references.insert(Reference { body, mailbox, uid: uid_of(uid)?, commit });
            }
            Ok(ControlFlow::Continue(()))
        };
        self.mailboxes
            .cluster
            .pages(&self.mailboxes.cluster.statements.reference.of_body, (&body.0.to_bytes()[..],), take)
            .await?;
        Ok(Owners { stored, references })
    }

    /// Removes a dead reference, and its body with the last one. Returns the bytes freed.
    async fn release(&self, owners: &mut Owners, dead: Reference, before_us: i64) -> Result<u64> {
        let (id, commit) = (dead.body, dead.commit);
        owners.references.remove(&dead);
        let (cluster, body) = (&self.mailboxes.cluster, id.0.to_bytes());
        let statements = &cluster.statements.reference;
        if owners.references.is_empty() {
            let freed = self.bodies.remove(id, commit, owners.stored.take(), before_us).await?;
            // A scan counts a deleted row as a tombstone, but not a deleted partition.
            cluster.write(&statements.delete_all, (before_us, &body[..])).await?;
            tracing::debug!(body = %id, "swept a body that nothing refers to");
            return Ok(freed);
        }
        self.bodies.remove_leftover(id, commit, owners.stored.as_ref(), before_us).await?;
        let (mailbox, commit) = (dead.mailbox.0.to_bytes(), commit.to_bytes());
        let values = (&body[..], &mailbox[..], i64::from(dead.uid), &commit[..]);
        cluster.write(&statements.delete, values).await?;
        Ok(0)
    }
}

/// Logs damage, and continues with `otherwise`, which must remove nothing.
fn unless_damaged<T>(found: Result<T>, otherwise: T) -> Result<T> {
    match found {
        Err(StoreError::Corrupt(why)) => {
            tracing::error!(%why, "damage: the sweep keeps the records that it may refer to; run `posthaste check`");
            Ok(otherwise)
        }
        found => found,
    }
}

/// A body, and all references to it that are not yet removed.
pub(crate) struct Owners {
    stored: Option<StoredBody>,
    references: BTreeSet<Reference>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A key that is no id ended each round.
    #[test]
    fn a_damaged_mailbox_is_left_out() {
        let (mailbox, owner) = (Id::new(1, 1), Id::new(2, 2));
        let columns = |account: Option<&[u8]>, modseq| {
            (mailbox.to_bytes().to_vec(), account.map(<[u8]>::to_vec), modseq)
        };
        let of_owner = owner.to_bytes();
        let open = Visited::Open(MailboxId(mailbox), AccountId(owner));
        for (account, modseq, visited) in [
            (Some(&of_owner[..]), Some(7), Some(open)),
            (Some(&of_owner[..]), Some(-1), Some(Visited::Closed(MailboxId(mailbox)))),
            (None, None, None),
        ] {
            assert_eq!(Visited::from_columns(columns(account, modseq)).unwrap(), visited);
        }
        let no_id = (vec![0; 15], Some(of_owner.to_vec()), Some(7));
        for damaged in [no_id, columns(None, Some(7)), columns(Some(&[0; 3][..]), Some(7))] {
            let found = Visited::from_columns(damaged);
            assert!(matches!(found, Err(StoreError::Corrupt(_))), "{found:?}");
            assert_eq!(unless_damaged(found, None).unwrap(), None);
        }
    }
}
