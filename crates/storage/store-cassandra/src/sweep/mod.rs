//! The sweep removes what no commit refers to, in pieces.
//!
//! One round goes over all mailboxes (closed ones are erased, summaries of no message removed),
//! then over all references (those of no message removed, and bodies without any). Nothing is noted
//! by commits; all is judged by what is there, so that no crash leaves anything for ever.
//!
//! Every judgement has the same order. First the keys are read. Then the fence of each mailbox
//! concerned is replaced ([`crate::mailboxes::partition`]); this is a conditional write, so it
//! completes, or rules out, every proposal in flight. Then the rows are read. A commit that wrote
//! one of those keys read the old fence: either it applied before, and the rows show it, or it
//! never will. So a key that no row answers for is dead for good.
//!
//! Ids that are younger than `sweep_after` are passed over. This only saves fences: no commit under
//! way is disturbed.
//!
//! A body goes with a timestamp from before its references were read: a write that came since is
//! newer, and stays.

pub(crate) mod lease;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{AccountId, BodyId, MailboxId};
use posthaste_store::{Report, Result, StoreError};
use scylla::response::PagingState;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

use crate::bodies::{Bodies, Kept};
use crate::cluster::connection::AT_ONCE;
use crate::cluster::ids::{age_ms, id_of, now_us};
use crate::lists::Lists;
use crate::mailboxes::Mailboxes;
use crate::mailboxes::summaries::bucket;
use crate::stored::chunk::{Chunks, refers};
use crate::sweep::lease::Lease;

/// Mailboxes whose rows one piece of a sweep keeps at hand: at 10,000 messages 300 KB each.
const MAILBOXES_MAX: usize = 256;

/// Summaries that are judged under one fence: 40 octets each, and one conditional write for all of
/// them.
const JUDGED_MAX: usize = 10_000;

/// The sweep of a keyspace.
pub(crate) struct Sweep {
    mailboxes: Arc<Mailboxes>,
    lists: Arc<Lists>,
    bodies: Arc<Bodies>,
    /// [`crate::Options::sweep_after`].
    patience: Duration,
    round: Mutex<Round>,
}

/// Where the sweep is, and the right to go on.
struct Round {
    stage: Stage,
    lease: Lease,
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

/// Rows of mailboxes that were read in this piece; `None` for one that was removed.
type Known = HashMap<MailboxId, Option<Chunks>>;

impl Sweep {
    /// `patience` is [`crate::Options::sweep_after`].
    pub(crate) fn new(
        mailboxes: Arc<Mailboxes>,
        lists: Arc<Lists>,
        bodies: Arc<Bodies>,
        lease: Lease,
        patience: Duration,
    ) -> Self {
        let round = Mutex::new(Round { stage: Stage::default(), lease });
        Self { mailboxes, lists, bodies, patience, round }
    }

    /// Does one piece.
    pub(crate) async fn go_on(&self) -> Result<Report> {
        let mut round = self.round.lock().await;
        let mut report = Report::default();
        if !round.lease.may_sweep().await? {
            // Another node has the lease now, and begins its own round.
            round.stage = Stage::default();
            return Ok(report);
        }
        // A piece that fails is repeated from its start.
        let next = match &round.stage {
            Stage::Mailboxes(from) => match self.sweep_mailboxes(from.clone(), &mut report).await? {
                Some(next) => Stage::Mailboxes(next),
                None => Stage::References(PagingState::start()),
            },
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

    /// Whether what was made under this id may still be under way.
    fn is_young(&self, id: &[u8]) -> bool {
        u128::from(age_ms(id)) < self.patience.as_millis()
    }

    async fn sweep_mailboxes(&self, from: PagingState, report: &mut Report) -> Result<Option<PagingState>> {
        type Found = (Vec<u8>, Option<Vec<u8>>, Option<i64>);
        let (page, next) = self
            .mailboxes
            .cluster
            .page::<Found>(&self.mailboxes.cluster.statements.mailbox.all, (), from)
            .await?;
        report.examined += page.len() as u64;
        let one = |(mailbox, account, modseq): Found| async move {
            let id = MailboxId(id_of(&mailbox)?);
            match modseq {
                // Erased since, or being made.
                None => Ok(()),
                Some(closed) if closed < 0 => self.mailboxes.erase_mailbox(id).await,
                Some(_) => {
                    let account = AccountId(id_of(&account.unwrap_or_default())?);
                    if !self.is_young(&mailbox) && !self.is_listed(account, id).await? {
                        if self.lists.close_unlisted(account, id).await? {
                            self.mailboxes.erase_mailbox(id).await?;
                        }
                        return Ok(());
                    }
                    self.sweep_summaries(id).await
                }
            }
        };
        let swept = stream::iter(page).map(Ok);
        swept.try_for_each_concurrent(AT_ONCE / 4, one).await?;
        Ok(next)
    }

    /// Whether an account's list names a mailbox, at first sight.
    async fn is_listed(&self, account: AccountId, mailbox: MailboxId) -> Result<bool> {
        let stored = self.lists.read(account).await?;
        Ok(stored.list.entries.iter().any(|entry| entry.id == mailbox))
    }

    async fn sweep_summaries(&self, mailbox: MailboxId) -> Result<()> {
        let Some(head) = self.mailboxes.head(mailbox).await? else { return Ok(()) };
        let mut candidates: Vec<SummaryKey> = Vec::new();
        for n in 0..=bucket(head.head.uid_next.value()) {
            candidates.extend(self.unreferred_summaries(mailbox, n).await?);
            if candidates.len() >= JUDGED_MAX {
                self.remove_dead_summaries(mailbox, std::mem::take(&mut candidates)).await?;
            }
        }
        self.remove_dead_summaries(mailbox, candidates).await
    }

    /// Summaries of one bucket that no row answers for at first sight, and that are not young.
    async fn unreferred_summaries(&self, mailbox: MailboxId, n: i32) -> Result<Vec<SummaryKey>> {
        let mut keys: Vec<SummaryKey> = Vec::new();
        let take = |page: Vec<SummaryKey>| {
            keys.extend(page.into_iter().filter(|(_, commit)| !self.is_young(commit)));
            Ok(ControlFlow::Continue(()))
        };
        self.mailboxes
            .cluster
            .pages(&self.mailboxes.cluster.statements.summary.keys, (&mailbox.0.to_bytes()[..], n), take)
            .await?;
        self.retain_unreferred(mailbox, &mut keys).await?;
        Ok(keys)
    }

    /// Keeps the keys, UIDs rising, that no row answers for now.
    async fn retain_unreferred(&self, mailbox: MailboxId, keys: &mut Vec<SummaryKey>) -> Result<()> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return Ok(()) };
        let uids = (u32::try_from(first.0).unwrap_or(0), u32::try_from(last.0).unwrap_or(u32::MAX));
        let (chunks, _) = self.mailboxes.chunks_between(mailbox, uids).await?;
        keys.retain(|(uid, commit)| !refers(&chunks, *uid, commit));
        Ok(())
    }

    /// Judges candidates under a new fence, and removes those that are dead. Of a mailbox that was
    /// closed meanwhile all are.
    async fn remove_dead_summaries(&self, mailbox: MailboxId, mut keys: Vec<SummaryKey>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        if self.fence_for_sweep(mailbox).await? {
            self.retain_unreferred(mailbox, &mut keys).await?;
        }
        for group in keys.chunk_by(|a, b| bucket_of(a) == bucket_of(b)) {
            if let Some(first) = group.first() {
                self.mailboxes.delete_summaries(mailbox, bucket_of(first), group).await?;
            }
        }
        Ok(())
    }

    /// Fences a mailbox after this node's own commits on it are through, which would only have to
    /// be written again.
    async fn fence_for_sweep(&self, mailbox: MailboxId) -> Result<bool> {
        let _lane = self.mailboxes.lane(mailbox).await;
        self.mailboxes.fence(mailbox).await
    }

    async fn sweep_references(&self, from: PagingState, report: &mut Report) -> Result<Option<PagingState>> {
        let before_us = now_us() - i64::try_from(self.patience.as_micros() / 2).unwrap_or(0);
        let (page, next) = self
            .mailboxes
            .cluster
            .page::<Reference>(&self.mailboxes.cluster.statements.reference.all, (), from)
            .await?;
        report.examined += page.len() as u64;
        let mut dead = self.dead_references(page).await?;
        // Read after those were judged. A copy that is not among them looks for its original later
        // still, and does not find it.
        let mut bodies: BTreeMap<Vec<u8>, Owners> = BTreeMap::new();
        for body in dead.iter().map(|reference| &reference.0) {
            if !bodies.contains_key(body) {
                bodies.insert(body.clone(), self.owners(body).await?);
            }
        }
        let others: Vec<Reference> = bodies.values().flat_map(|owners| &owners.references).cloned().collect();
        let others: Vec<Reference> = others.into_iter().filter(|other| !dead.contains(other)).collect();
        dead.extend(self.dead_references(others).await?);
        for reference in dead {
            let Some(owners) = bodies.get_mut(&reference.0) else { continue };
            report.reclaimed_bytes += self.release(owners, reference, before_us).await?;
        }
        Ok(next)
    }

    /// Those of the references that are dead for good: each was read before the fence of its
    /// mailbox was replaced.
    async fn dead_references(&self, references: Vec<Reference>) -> Result<BTreeSet<Reference>> {
        let mut known = Known::new();
        let mut candidates: BTreeMap<MailboxId, Vec<Reference>> = BTreeMap::new();
        for reference in references {
            let mailbox = MailboxId(id_of(&reference.1)?);
            if !self.is_young(&reference.3) && !self.is_alive(&mut known, &reference).await? {
                candidates.entry(mailbox).or_default().push(reference);
            }
        }
        drop(known);
        let judged = stream::iter(candidates).map(|(mailbox, mut candidates)| async move {
            if self.fence_for_sweep(mailbox).await? {
                let uids = || candidates.iter().map(|(_, _, uid, _)| u32::try_from(*uid).unwrap_or(u32::MAX));
                let range = (uids().min().unwrap_or(0), uids().max().unwrap_or(u32::MAX));
                let (chunks, _) = self.mailboxes.chunks_between(mailbox, range).await?;
                candidates.retain(|(_, _, uid, commit)| !refers(&chunks, *uid, commit));
            }
            Ok::<_, StoreError>(candidates)
        });
        let dead: Vec<Vec<Reference>> = judged.buffer_unordered(AT_ONCE / 4).try_collect().await?;
        Ok(dead.into_iter().flatten().collect())
    }

    /// Whether the message that a reference speaks of is there, at first sight.
    async fn is_alive(&self, known: &mut Known, (_, mailbox, uid, commit): &Reference) -> Result<bool> {
        let mailbox = MailboxId(id_of(mailbox)?);
        if known.len() >= MAILBOXES_MAX {
            known.clear();
        }
        let chunks = match known.entry(mailbox) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.mailboxes.all_chunks(mailbox).await?),
        };
        Ok(chunks.as_ref().is_some_and(|chunks| refers(chunks, *uid, commit)))
    }

    /// What there is of a body, and who refers to it, in this order: what is written later belongs
    /// to a reference that is not among them.
    async fn owners(&self, body: &[u8]) -> Result<Owners> {
        let kept = self.bodies.kept(BodyId(id_of(body)?)).await?;
        let mut references = BTreeSet::new();
        let take = |page: Vec<(Vec<u8>, i64, Vec<u8>)>| {
            let whole = |(mailbox, uid, commit)| (body.to_vec(), mailbox, uid, commit);
            references.extend(page.into_iter().map(whole));
            Ok(ControlFlow::Continue(()))
        };
        self.mailboxes
            .cluster
            .pages(&self.mailboxes.cluster.statements.reference.of_body, (body,), take)
            .await?;
        Ok(Owners { kept, references })
    }

    /// Removes a dead reference, and its body with the last one; answers with the bytes given back.
    async fn release(&self, owners: &mut Owners, dead: Reference, before_us: i64) -> Result<u64> {
        let (id, commit) = (BodyId(id_of(&dead.0)?), id_of(&dead.3)?);
        owners.references.remove(&dead);
        let mut freed = 0;
        if owners.references.is_empty() {
            freed = self.bodies.remove(id, commit, owners.kept.take(), before_us).await?;
            tracing::debug!(body = %id, "swept a body that nothing refers to");
        } else {
            self.bodies.remove_leftover(id, commit, owners.kept.as_ref()).await?;
        }
        self.mailboxes.cluster.write(&self.mailboxes.cluster.statements.reference.delete, dead).await?;
        Ok(freed)
    }
}

/// UID and commit of a summary.
type SummaryKey = (i64, Vec<u8>);

fn bucket_of((uid, _): &SummaryKey) -> i32 {
    bucket(u32::try_from(*uid).unwrap_or(u32::MAX))
}

/// A body, and all references to it that are not yet removed.
struct Owners {
    kept: Option<Kept>,
    references: BTreeSet<Reference>,
}
