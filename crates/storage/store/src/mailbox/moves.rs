//! MOVE (RFC 6851), REPLACE (RFC 8508), and a COPY that waits in line. Messages leave one mailbox
//! and enter another, in one commit if the engine can commit both.
//!
//! A move leads both mailboxes, so no other change of this process comes in between. It takes the
//! leads in the order of the mailboxes' ids, and no leader waits for another lead: crossing moves
//! cannot deadlock.
//!
//! Where an engine commits pairs, a message is in exactly one of both mailboxes, also after a
//! crash.
//!
//! An engine that spreads mailboxes over a cluster commits twice: the messages enter the target
//! first and leave the source second. A crash in between leaves them in both. If another process
//! expunges or moves some of them in between, their copies are expunged from the target.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{ModSeq, NumSet, Uid};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::base::{Base, Needs};
use super::changes::append;
use super::copy::Sources;
use super::draft::Draft;
use super::leader::{Unstoppable, resign};
use super::requester::Requester;
use super::state::{Role, Unrefused};
use super::{CarriedFlags, Copied, Destination, Expunged, IncomingMessage, Mailbox, MailboxState, Moved};
use crate::backoff::Backoff;
use crate::change::CommitOutcome;
use crate::error::{Result, StoreError};
use crate::view::View;

impl Mailbox {
    /// Moves those of `uids` that exist from this mailbox to `target`, which may be this one: they
    /// get new UIDs then.
    #[boxed]
    pub async fn move_to(&self, uids: &NumSet, target: &Destination) -> Result<Moved> {
        let (request, uids) = (CopyOrMove::new(self, target), uids.clone());
        request.led(move |request| async move { request.run(&uids).await }).await
    }

    /// [`Self::move_to`] for messages that did not change after a mod-sequence.
    #[boxed]
    pub async fn move_unchanged(&self, uids: &NumSet, since: ModSeq, target: &Destination) -> Result<Moved> {
        let request = CopyOrMove { unchanged_since: Some(since), ..CopyOrMove::new(self, target) };
        let uids = uids.clone();
        request.led(move |request| async move { request.run(&uids).await }).await
    }

    /// Removes the message and adds another one to `target`, which may be this mailbox, in one
    /// commit as a move is (RFC 8508). If there is no such message, nothing changes.
    #[boxed]
    pub async fn replace(&self, uid: Uid, target: &Destination, new: IncomingMessage) -> Result<Moved> {
        let now = self.state.context.unix_s();
        let replacement = Replacement { uid, new, now };
        let replacement = Arc::new(replacement);
        CopyOrMove::new(self, target)
            .led(move |request| async move { request.replace(&replacement).await })
            .await
    }
}

impl Destination {
    /// A copy that leads both mailboxes and was requested at `begun`: see
    /// [`Destination::copy_from`].
    pub(super) async fn copy_led(&self, source: &Mailbox, uids: &NumSet, begun: Instant) -> Result<Copied> {
        let (request, uids) = (CopyOrMove { begun, ..CopyOrMove::new(source, self) }, uids.clone());
        request.led(move |request| async move { request.copy(&uids).await }).await
    }
}

/// Resigns as leader, the last one taken first.
async fn give_up(leads: [Option<Role>; 2]) {
    for role in leads.into_iter().rev().flatten() {
        resign(role).await;
    }
}

/// The messages that enter the target.
trait EnteringMessages: Send + Sync + 'static {
    /// Adds the messages to a draft. Each is named with the message that it replaces in the
    /// source.
    fn resolve(&self, draft: &mut Draft) -> Result<Copied>;
    /// The number of messages.
    fn count(&self) -> u64;
}

impl EnteringMessages for Sources {
    fn resolve(&self, draft: &mut Draft) -> Result<Copied> {
        Self::resolve(self, draft)
    }

    fn count(&self) -> u64 {
        Self::count(self)
    }
}

/// A new message in the place of another.
struct Replacement {
    /// The message that is replaced.
    uid: Uid,
    new: IncomingMessage,
    now: i64,
}

impl EnteringMessages for Replacement {
    fn resolve(&self, draft: &mut Draft) -> Result<Copied> {
        let added = append(draft, std::slice::from_ref(&self.new), self.now)?;
        let source = NumSet::range(self.uid.value(), self.uid.value());
        let uids = added.uids.iter().map(|uid| uid.value()).collect();
        Ok(Copied { source, uids, modseq: added.modseq, left_out: added.left_out })
    }

    fn count(&self) -> u64 {
        1
    }
}

/// Source and target; both may be the same mailbox.
#[derive(Clone)]
struct CopyOrMove {
    source: Arc<MailboxState>,
    target: Arc<MailboxState>,
    /// Flags that the messages carry over.
    carried: CarriedFlags,
    /// Messages that changed after it stay in the source.
    unchanged_since: Option<ModSeq>,
    /// The time when the command was requested.
    begun: Instant,
    /// The change may outlast its caller, and its memory with it.
    requester: Requester,
}

impl CopyOrMove {
    fn new(source: &Mailbox, target: &Destination) -> Self {
        Self {
            source: Arc::clone(&source.state),
            target: Arc::clone(&target.state),
            carried: target.carried.clone(),
            unchanged_since: None,
            begun: Instant::now(),
            requester: target.requester.clone(),
        }
    }

    /// Runs `work` with both leads. A dropped caller stops neither it nor the tasks that wait for
    /// one of the leads.
    async fn led<T, F>(self, work: impl FnOnce(Self) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (answer, result) = oneshot::channel();
        Unstoppable::new(async move {
            let outcome = match self.take_leads().await {
                Ok(leads) => {
                    self.source.lead_for(self.requester.account);
                    self.target.lead_for(self.requester.account);
                    let done = work(self).await;
                    give_up(leads).await;
                    done
                }
                Err(error) => Err(error),
            };
            let _ = answer.send(outcome);
        })
        .await;
        result.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the change was cancelled".into())))
    }

    fn are_one(&self) -> bool {
        self.source.id() == self.target.id()
    }

    /// Waits in line for both leads, or the one if both ends are the same mailbox.
    async fn take_leads(&self) -> Result<[Option<Role>; 2]> {
        let mut in_order = [&self.source, &self.target];
        in_order.sort_unstable_by_key(|state| state.id());
        let first = in_order[0].take_lead().await?;
        if self.are_one() {
            return Ok([Some(first), None]);
        }
        match in_order[1].take_lead().await {
            Ok(second) => Ok([Some(first), Some(second)]),
            Err(error) => {
                resign(first).await;
                Err(error)
            }
        }
    }

    /// The messages as they are copied or moved.
    async fn sources(&self, view: &View, uids: &NumSet) -> Result<Sources> {
        let gathered = Sources::gather(&self.source, self.source.place(), view, uids).await?;
        Ok(gathered.carrying(self.carried.clone()))
    }

    /// Copies, and retries until no other process changes either mailbox. The caller must lead
    /// both.
    async fn copy(&self, uids: &NumSet) -> Result<Copied> {
        let mut backoff = Backoff::of_command(self.begun);
        loop {
            let source = self.source.prepare_within(Needs::Rows, &mut backoff).await?;
            let Base::View(view) = &source else { return Err(StoreError::Busy) };
            let sources = self.sources(view, uids).await?;
            let (enters, copied) = self.entering(Arc::new(sources)).await?;
            let Some((commit, target)) = enters.finish() else { return Ok(copied) };
            let _growth = self.target.reserve_growth(&target)?;
            match self.target.context.engine.commit(commit).await {
                Ok(CommitOutcome::Done) => {
                    self.target.publish(target);
                    return Ok(copied);
                }
                Ok(CommitOutcome::Conflict) => {}
                Err(error) => return Err(self.target.failed(error)),
            }
            self.retry(&mut backoff).await?;
        }
    }

    /// Retries until no one else changes either mailbox. The caller must lead both.
    async fn run(&self, uids: &NumSet) -> Result<Moved> {
        let mut backoff = Backoff::of_command(self.begun);
        loop {
            let source = self.source.prepare_within(Needs::Rows, &mut backoff).await?;
            let Base::View(view) = &source else { return Err(StoreError::Busy) };
            let unchanged = self.unchanged_since.map(|since| view.unchanged(uids, since));
            let uids = unchanged.as_ref().unwrap_or(uids);
            let sources = self.sources(view, uids).await?;
            if sources.is_empty() {
                return Ok(nothing(view));
            }
            if let Some(moved) = self.attempt(&source, Arc::new(sources)).await? {
                return Ok(moved);
            }
            self.retry(&mut backoff).await?;
        }
    }

    /// [`Self::run`] for a message that is replaced.
    async fn replace(&self, replacement: &Arc<Replacement>) -> Result<Moved> {
        let mut backoff = Backoff::of_command(self.begun);
        loop {
            let source = self.source.prepare_within(Needs::Rows, &mut backoff).await?;
            let Base::View(view) = &source else { return Err(StoreError::Busy) };
            if view.row_of_uid(replacement.uid).is_none() {
                return Ok(nothing(view));
            }
            let enters: Arc<dyn EnteringMessages> = Arc::<Replacement>::clone(replacement);
            if let Some(moved) = self.attempt(&source, enters).await? {
                return Ok(moved);
            }
            self.retry(&mut backoff).await?;
        }
    }

    /// Tries the replacement once; `None` if another change came first.
    async fn attempt(&self, source: &Base, enters: Arc<dyn EnteringMessages>) -> Result<Option<Moved>> {
        if self.are_one() {
            self.within(source, enters).await
        } else if self.source.context.engine.commits_pairs() {
            self.across(source, enters).await
        } else {
            self.across_apart(enters).await
        }
    }

    /// Reads the changes of others, and waits for them a little.
    async fn retry(&self, backoff: &mut Backoff) -> Result<()> {
        self.source.catch_up_within(backoff).await?;
        self.target.catch_up_within(backoff).await?;
        backoff.pause(&self.source.context).await
    }

    /// Drafts the messages' entry into the target.
    async fn entering(&self, messages: Arc<dyn EnteringMessages>) -> Result<(Draft, Copied)> {
        let (mut needs, mut lacks_rows) = (Needs::Head, false);
        loop {
            let target = match self.target.prepare(needs).await {
                Err(StoreError::TooManyOpen) => {
                    (needs, lacks_rows) = (Needs::Head, true);
                    continue;
                }
                prepared => prepared?,
            };
            let (draft, resolved) = (self.target.draft(&target), Arc::clone(&messages));
            let mut enters = if lacks_rows { draft.without_rows() } else { draft };
            let work = move || {
                let copied = resolved.resolve(&mut enters);
                (enters, copied)
            };
            let (enters, copied) = self.target.run_if_large(messages.count(), work).await?;
            if !enters.wants_rows() || needs == Needs::Rows {
                return Ok((enters, copied?));
            }
            needs = Needs::Rows;
        }
    }

    /// From one mailbox to another, in one commit on both; `None` if another change came first.
    async fn across(&self, source: &Base, messages: Arc<dyn EnteringMessages>) -> Result<Option<Moved>> {
        let count = messages.count();
        let (enters, copied) = self.entering(messages).await?;
        let mut leaves = self.source.draft(source);
        let work = move || {
            leaves.expunge(&copied.source);
            (leaves, copied)
        };
        let (leaves, copied) = self.source.run_if_large(count, work).await?;
        let (Some((enters, target)), Some((leaves, source))) = (enters.finish(), leaves.finish()) else {
            return Ok(None);
        };
        let _growth = self.target.reserve_growth(&target)?;
        match self.source.context.engine.commit_pair([enters, leaves]).await {
            Ok(CommitOutcome::Done) => {}
            Ok(CommitOutcome::Conflict) => return Ok(None),
            Err(error) => return Err(self.source.failed(self.target.failed(error))),
        }
        self.target.publish(target);
        Ok(self.moved(copied, source))
    }

    /// From one mailbox to another, in a commit on each; `None` if others changed the target.
    async fn across_apart(&self, messages: Arc<dyn EnteringMessages>) -> Result<Option<Moved>> {
        let (enters, copied) = self.entering(messages).await?;
        let Some((commit, target)) = enters.finish() else { return Ok(None) };
        let growth = self.target.reserve_growth(&target)?;
        match self.target.context.engine.commit(commit).await {
            Ok(CommitOutcome::Done) => {}
            Ok(CommitOutcome::Conflict) => return Ok(None),
            Err(error) => return Err(self.target.failed(error)),
        }
        self.target.publish(target);
        drop(growth);
        let expunged = self.source.expunge_led(&copied.source, self.unchanged_since, self.begun).await?;
        if expunged.uids == copied.source {
            return Ok(Some(Moved { copied, expunged }));
        }
        // Others expunged or changed the rest during the copy: this move must not keep their
        // copies.
        let (ours, others) = copied.split(&expunged.uids);
        // A lack of room would leave them there.
        let _unrefused = Unrefused::of(&self.target);
        self.target.expunge_led(&others.uids, None, self.begun).await?;
        Ok(Some(Moved { copied: ours, expunged }))
    }

    /// From a mailbox to its end, in one commit; `None` if another change came first.
    async fn within(&self, source: &Base, messages: Arc<dyn EnteringMessages>) -> Result<Option<Moved>> {
        let (mut draft, count) = (self.source.draft(source), messages.count());
        // The number of messages stays the same.
        draft.lift_limit();
        let work = move || -> Result<_> {
            let copied = messages.resolve(&mut draft)?;
            draft.expunge(&copied.source);
            Ok((draft, copied))
        };
        let (draft, copied) = self.source.run_if_large(count, work).await??;
        let Some((commit, next)) = draft.finish() else { return Ok(None) };
        match self.source.context.engine.commit(commit).await {
            Ok(CommitOutcome::Done) => Ok(self.moved(copied, next)),
            Ok(CommitOutcome::Conflict) => Ok(None),
            Err(error) => Err(self.source.failed(error)),
        }
    }

    /// The result after the commit that leads to `source`, which becomes the newest view.
    fn moved(&self, copied: Copied, source: Base) -> Option<Moved> {
        let modseq = source.modseq();
        let Base::View(view) = self.source.publish(source) else { return None };
        let expunged = Expunged { uids: copied.source.clone(), modseq, view };
        Some(Moved { copied, expunged })
    }
}

/// The result if none of the messages exists.
fn nothing(view: &Arc<View>) -> Moved {
    let (none, modseq) = (NumSet::new(), view.modseq());
    Moved {
        copied: Copied { source: none.clone(), uids: none.clone(), modseq, left_out: Vec::new() },
        expunged: Expunged { uids: none, modseq, view: Arc::clone(view) },
    }
}

impl Copied {
    /// Splits messages by whether their sources are in `sources`.
    fn split(self, sources: &NumSet) -> (Self, Self) {
        let (modseq, left_out) = (self.modseq, self.left_out);
        let empty =
            || Self { source: NumSet::new(), uids: NumSet::new(), modseq, left_out: left_out.clone() };
        let (mut within, mut without) = (empty(), empty());
        for (source, uid) in self.source.iter().zip(self.uids.iter()) {
            let part = if sources.contains(source) { &mut within } else { &mut without };
            part.source.push(source);
            part.uids.push(uid);
        }
        (within, without)
    }
}

impl MailboxState {
    /// Expunges those of `uids` that exist, and did not change after a mod-sequence, until no one
    /// else changes the mailbox. The caller must lead it.
    ///
    /// The messages have entered the target already. So this step has time of its own, however
    /// long ago the command was requested.
    async fn expunge_led(
        &self,
        uids: &NumSet,
        unchanged_since: Option<ModSeq>,
        begun: Instant,
    ) -> Result<Expunged> {
        let mut backoff = Backoff::of_step(begun);
        let mut base = self.prepare_within(Needs::Rows, &mut backoff).await?;
        loop {
            let (mut draft, now, chosen) = (self.draft(&base), base.modseq(), uids.clone());
            let work = move || -> Result<_> {
                let uids = match unchanged_since {
                    Some(since) => draft.view()?.unchanged(&chosen, since),
                    None => draft.view()?.existing(&chosen),
                };
                let modseq = if uids.is_empty() { now } else { draft.expunge(&uids) };
                Ok((draft, uids, modseq))
            };
            let (draft, uids, modseq) = self.run_if_large(uids.count(), work).await??;
            let next = match draft.finish() {
                None => base,
                Some((commit, next)) => match self.context.engine.commit(commit).await {
                    Ok(CommitOutcome::Done) => self.publish(next),
                    Ok(CommitOutcome::Conflict) => {
                        base = self.catch_up_within(&mut backoff).await?;
                        backoff.pause(&self.context).await?;
                        continue;
                    }
                    Err(error) => return Err(self.failed(error)),
                },
            };
            let Base::View(view) = next else { return Err(StoreError::Busy) };
            return Ok(Expunged { uids, modseq, view });
        }
    }

    /// A draft against the known state.
    pub(super) fn draft(&self, base: &Base) -> Draft {
        let watermark = self.recent_watermark(base.head().first_recent);
        Draft::new(self.id, base.clone(), watermark, self.messages_max())
    }

    /// The limit of messages: the owner's, or the store's if the owner has no limit of its own.
    fn messages_max(&self) -> Option<u32> {
        if self.unlimited.load(Ordering::Relaxed) {
            return None;
        }
        match self.own_limit.load(Ordering::Relaxed).checked_sub(1) {
            None => self.context.folder_messages_max(),
            Some(limit) => u32::try_from(limit).ok().filter(|limit| *limit > 0),
        }
    }
}
