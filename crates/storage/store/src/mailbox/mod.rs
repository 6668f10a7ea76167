//! Mailboxes as protocols see them: an open one ([`Mailbox`]), and one that receives messages
//! ([`Destination`]).
//!
//! Reading takes no lock: [`Mailbox::view`] is a pointer. A change is an *intent* that waits in a
//! queue. The task that finds no leader becomes the leader. It resolves all waiting intents in
//! order against the newest view, and sends them to the engine as one commit. Then the new view is
//! published, waiters get their results and watchers wake up. While nobody has the mailbox open
//! there is no view. Incoming messages are then resolved against its head.
//!
//! Invariants: a mailbox has one [`MailboxState`], so all its changes wait in one queue.
//! Views are published in the order of their mod-sequences, each only after its commit is on disk.
//! No lock is held while the engine works: leadership is a role, not a lock. Dropping the future of
//! a change neither undoes it nor delays others.

mod base;
mod changes;
mod copy;
mod draft;
mod leader;
mod moves;
mod refresh;
mod requester;
mod slots;
mod state;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, Flag, FlagSet, Keyword, MailboxId, ModSeq, NumSet, Uid};
use posthaste_metrics::Counter;
use tokio::sync::watch;

use crate::context::Context;
use crate::counted_in::CountedIn;
use crate::engine::{BodyRange, SummaryOf, Unreadable, Visit};
use crate::error::{Result, StoreError};
use crate::offload::Place;
use crate::open_views::Admitted;
use crate::pinned::PinnedBody;
use crate::row::Row;
use crate::view::View;
pub use requester::HeldPermit;
use requester::Requester;
use state::Published;
pub(crate) use state::{MailboxState, Unrefused};

/// A message on its way into a mailbox.
#[derive(Debug, Clone)]
pub struct IncomingMessage {
    /// The message as it is stored: byte for byte, or with a [`crate::form::FormHeader`].
    pub bytes: Bytes,
    /// The summary that delivery made. This crate does not read it.
    pub summary: Bytes,
    /// The body's id, the same in every mailbox that receives this message. See
    /// [`crate::Store::new_body_id`].
    pub body: BodyId,
    /// The initial flags.
    pub flags: Vec<Flag>,
    /// INTERNALDATE, unix seconds.
    pub date: u32,
    /// SAVEDATE, unix seconds; `None` for now.
    pub saved: Option<i64>,
}

/// The answer to a STORE.
#[derive(Debug, Clone)]
pub struct FlagsStored {
    /// UIDs left alone because they changed after UNCHANGEDSINCE: MODIFIED of RFC 7162 §3.1.3.
    pub modified: NumSet,
    /// UIDs whose flags changed.
    pub changed: NumSet,
    /// The mailbox's mod-sequence; that of `changed`, if there are any.
    pub modseq: ModSeq,
    /// A view that shows the change.
    pub view: Arc<View>,
}

/// The answer to a COPY: the n-th source UID became the n-th UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// UIDs in the source that were copied; fewer than requested if some were expunged.
    pub source: NumSet,
    /// UIDs of the copies.
    pub uids: NumSet,
    /// The target's mod-sequence after the copy.
    pub modseq: ModSeq,
    /// Keywords that the copies lack: the target's keyword table is full.
    pub left_out: Vec<Keyword>,
}

/// The answer to an EXPUNGE.
#[derive(Debug, Clone)]
pub struct Expunged {
    /// Expunged UIDs.
    pub uids: NumSet,
    /// The mailbox's mod-sequence after the expunge.
    pub modseq: ModSeq,
    /// A view that shows the change.
    pub view: Arc<View>,
}

/// The answer to a MOVE.
#[derive(Debug, Clone)]
pub struct Moved {
    /// The messages added to the target.
    pub copied: Copied,
    /// The messages expunged from the source.
    pub expunged: Expunged,
}

/// An open mailbox. Keep the `Arc` as long as it is selected: that keeps it in memory.
pub struct Mailbox {
    state: Arc<MailboxState>,
    published: Arc<Published>,
    /// Who has it open.
    requester: Requester,
    /// How it counts among the open mailboxes, if a session opened it.
    admitted: Option<Admitted>,
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(admitted) = self.admitted {
            self.published.rows.leave(admitted);
        }
    }
}

/// A mailbox that receives messages, open or not: all that an APPEND, a delivery, a COPY or a MOVE
/// needs. Made by [`crate::Store::destination`]. Nothing of the mailbox is read before the first
/// message.
#[derive(Clone)]
pub struct Destination {
    state: Arc<MailboxState>,
    /// Flags that copies keep.
    carried: CarriedFlags,
    /// Who copies and moves messages into it.
    requester: Requester,
}

/// The flags that messages keep on their way into another mailbox.
#[derive(Clone)]
struct CarriedFlags {
    flags: FlagSet,
    /// UIDs in the source of messages that also get `\Seen`.
    seen: Option<Arc<NumSet>>,
}

impl CarriedFlags {
    const ALL: Self = Self { flags: FlagSet::ALL, seen: None };

    /// The flags of a message that a copy keeps.
    fn of(&self, row: &Row) -> FlagSet {
        let kept = row.flags().intersection(self.flags);
        match &self.seen {
            Some(seen) if seen.contains(row.uid().value()) => kept.union(FlagSet::SEEN),
            _ => kept,
        }
    }
}

/// Waits for changes of one mailbox: all that an idle session holds. Made by [`Mailbox::watch`].
pub struct Watch {
    mailbox: Arc<Mailbox>,
    news: watch::Receiver<()>,
    _waiting: CountedIn,
}

impl Watch {
    /// The next view that differs from `seen`, at once if there is one already. `NoMailbox` once
    /// the mailbox is deleted. The future may be dropped and the method called again.
    pub async fn changed(&mut self, seen: &View) -> Result<Arc<View>> {
        loop {
            // Marked as seen before the view is read, so that no change in between is missed.
            self.news.mark_unchanged();
            if self.mailbox.is_deleted() {
                return Err(StoreError::NoMailbox(self.mailbox.id()));
            }
            let view = self.mailbox.view();
            if view.modseq() != seen.modseq() {
                return Ok(view);
            }
            // Cannot fail: the sender lives in the mailbox, which this holds.
            let _ = self.news.changed().await;
        }
    }

    /// The mailbox watched.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }
}

impl Mailbox {
    /// The mailbox's id.
    pub fn id(&self) -> MailboxId {
        self.state.id
    }

    pub(crate) fn context(&self) -> &Context {
        &self.state.context
    }

    /// For whom the mailbox is read: the account that has it open.
    pub(crate) fn place(&self) -> Place {
        self.requester.place(self.id())
    }

    /// Counts the bytes of former views that the view after each of them does not share.
    pub(crate) fn replaced(&self) -> &Arc<AtomicU64> {
        &self.state.replaced
    }

    /// The mailbox as a destination for messages.
    pub fn destination(&self) -> Destination {
        let requester = self.requester.clone();
        Destination { requester, ..Destination::of(Arc::clone(&self.state)) }
    }

    /// The mailbox for changes that hold a permit until they have ended.
    #[must_use]
    pub fn with_permit(&self, held: Option<HeldPermit>) -> Self {
        let requester = Requester { held, ..self.requester.clone() };
        let (state, published) = (Arc::clone(&self.state), Arc::clone(&self.published));
        // It does not count beside the one that it is made of.
        Self { state, published, requester, admitted: None }
    }

    #[cfg(test)]
    pub(crate) fn shares_state_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// The newest view this process knows. Takes no lock and does no I/O.
    pub fn view(&self) -> Arc<View> {
        self.published.view.load_full()
    }

    /// Whether it was deleted.
    pub fn is_deleted(&self) -> bool {
        self.state.is_deleted()
    }

    /// A watch that waits for the next change.
    pub fn watch(self: &Arc<Self>) -> Watch {
        // Before the session counts as one that waits: the poll that begins then must find it.
        let news = self.published.news.subscribe();
        let _waiting = self.state.context.waiting();
        Watch { mailbox: Arc::clone(self), news, _waiting }
    }

    /// UIDs of messages reported to no session yet. Claims nothing (EXAMINE, RFC 3501 §6.3.2).
    pub fn recent(&self) -> NumSet {
        let next = self.view().head().uid_next.value();
        NumSet::range(self.state.first_recent.load(Ordering::Acquire), next - 1)
    }

    /// Claims the messages that were reported to no session yet: their UIDs are `\Recent` in the
    /// calling session and in no other (RFC 3501 §2.3.2). Kept in memory; saved with the next
    /// commit.
    pub fn take_recent(&self) -> NumSet {
        let next = self.view().head().uid_next.value();
        let first = self.state.first_recent.fetch_max(next, Ordering::AcqRel);
        NumSet::range(first, next - 1)
    }

    /// Visits the summaries of those UIDs that exist, in UID order, in one call of the engine.
    /// Returns the UIDs that exist and cannot be read.
    pub async fn summaries(&self, uids: &NumSet, visit: &mut Visit<'_>) -> Result<Unreadable> {
        self.state.context.engine.summaries(self.id(), uids, visit).await
    }

    /// The body of a message; `None` if there is no such message. `Unreadable` if the message
    /// exists and its body is unknown.
    pub async fn body_of(&self, uid: Uid) -> Result<Option<BodyId>> {
        let mut body = None;
        let uids = NumSet::range(uid.value(), uid.value());
        let mut visit = |stored: crate::Stored<'_>| {
            body = Some(stored.body);
            ControlFlow::Break(())
        };
        self.summaries(&uids, &mut visit).await?.refuse()?;
        posthaste_metrics::count(Counter::RecordReads, 1);
        Ok(body)
    }

    /// A range of a message's bytes as clients see them, cut at its end. A caller that reads in
    /// pieces first calls [`Mailbox::body_of`] and then this. After [`StoreError::Superseded`] the
    /// message is expunged, and there is a new one.
    pub async fn read_body(&self, uid: Uid, body: BodyId, range: BodyRange) -> Result<Bytes> {
        posthaste_metrics::count(Counter::BodyReads, 1);
        let (context, reader) = (&self.state.context, self.place());
        match context.read_body(&reader, body, range).await {
            Ok(bytes) => Ok(bytes),
            // Boxed: nearly every body can be read.
            Err(error) => {
                let message = SummaryOf { mailbox: self.id(), uid, body };
                Err(Box::pin(context.unread(message, error)).await)
            }
        }
    }

    /// Pins the conversion of a body in the cache until the value is dropped, for a reader's next
    /// read. The reader reserves the memory. `None` if the body is not converted whole.
    pub async fn pin_body(&self, body: BodyId) -> Result<Option<PinnedBody>> {
        let context = &self.state.context;
        let is_converted = context.served.is_converted_whole(&*context.engine, body).await?;
        Ok(is_converted.then(|| PinnedBody::new(Arc::clone(context), body)))
    }

    /// UIDs expunged after a mod-sequence, and whether the list is complete. If not,
    /// [`View::missing`] computes which of a client's UIDs were expunged (RFC 7162 §3.2.5).
    pub async fn vanished_since(&self, since: ModSeq) -> Result<(NumSet, bool)> {
        if since >= self.view().modseq() {
            return Ok((NumSet::new(), true));
        }
        let place = self.place();
        let changes = self.state.changes_since(place, since, self.view().exists()).await?;
        Ok((changes.expunged, changes.complete))
    }
}

impl Destination {
    /// Copies carry only these flags. Either all keywords are carried or no keyword: the slots
    /// are those of the source mailbox.
    #[must_use]
    pub fn carrying(mut self, flags: FlagSet) -> Self {
        self.carried.flags = flags;
        self
    }

    /// Lets the copies of these UIDs of the source get `\Seen`.
    #[must_use]
    pub fn seeing(mut self, uids: NumSet) -> Self {
        self.carried.seen = Some(Arc::new(uids));
        self
    }

    /// Lets each copy or move hold a permit until it has ended.
    #[must_use]
    pub fn with_permit(mut self, held: Option<HeldPermit>) -> Self {
        self.requester.held = held;
        self
    }

    /// Lets each change hold another permit until it has ended, beside the one that it holds.
    #[must_use]
    pub fn holding(mut self, more: Option<HeldPermit>) -> Self {
        if let Some(more) = more {
            let held: HeldPermit = match self.requester.held.take() {
                Some(held) => Arc::new((held, more)),
                None => more,
            };
            self.requester.held = Some(held);
        }
        self
    }

    pub(crate) fn of(state: Arc<MailboxState>) -> Self {
        Self { state, carried: CarriedFlags::ALL, requester: Requester::default() }
    }

    /// For a mailbox that no user has: the store's `folder_messages_max` does not apply from now
    /// on, and changes are not noted.
    #[must_use]
    pub fn without_limit(self) -> Self {
        self.state.unlimited.store(true, Ordering::Relaxed);
        self
    }

    /// Lets large changes count for this account.
    pub(crate) fn for_account(mut self, account: AccountId) -> Self {
        self.requester.account = Some(account);
        self
    }

    /// Notes the owner's limit of messages in a folder; 0 is no limit. It applies to all who
    /// write to the mailbox in this process, until another limit is noted. With `None` the
    /// store's `folder_messages_max` applies.
    pub fn note_owner_limit(&self, own: Option<u32>) {
        self.state.own_limit.store(own.map_or(0, |limit| u64::from(limit) + 1), Ordering::Relaxed);
    }

    /// The mailbox's id.
    pub fn id(&self) -> MailboxId {
        self.state.id
    }
}
