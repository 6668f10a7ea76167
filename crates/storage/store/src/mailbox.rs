//! Mailboxes as protocols see them: an open one ([`Mailbox`]), and one that messages go to
//! ([`Destination`]).
//!
//! Reading takes no lock: [`Mailbox::view`] is a pointer. A change is an *intent* that waits in
//! line; whoever finds no one leading becomes the leader, resolves all waiting intents in order
//! against the newest view, and sends them to the engine as one commit. Then the new view is
//! published, waiters get their results and watchers are woken. While nobody has the mailbox open
//! there is no view: messages that come in are then resolved against its head.
//!
//! What always holds: there is one [`MailboxState`] of a mailbox, so all its changes wait in one
//! line; views are published in the order of their mod-sequences, each only after its commit is on
//! disk; no lock is held while the engine works (to lead is a role, not a lock); dropping the
//! future of a change neither undoes it nor holds up others.

mod changes;
mod copy;
mod draft;
mod leader;
mod moves;
mod refresh;
mod slots;
mod state;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Flag, MailboxId, ModSeq, NumSet, Uid};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

use crate::engine::{BodyRange, Unreadable, Visit};
use crate::error::{Result, StoreError};
use crate::view::View;
pub(crate) use state::MailboxState;
use state::Published;

/// A message on its way into a mailbox.
#[derive(Debug, Clone)]
pub struct IncomingMessage {
    /// The message, byte for byte.
    pub bytes: Bytes,
    /// What delivery made of it; opaque here.
    pub summary: Bytes,
    /// Its id: the same for every mailbox this very message goes to. See
    /// [`crate::Store::new_body_id`].
    pub body: BodyId,
    /// Flags it comes with.
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
    /// UIDs whose flags are now other than before.
    pub changed: NumSet,
    /// The mailbox's mod-sequence; that of `changed`, if there are any.
    pub modseq: ModSeq,
    /// A view that shows the change.
    pub view: Arc<View>,
}

/// The answer to a COPY: the n-th source UID became the n-th UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// UIDs in the source that were copied; fewer than asked for if some had gone.
    pub source: NumSet,
    /// UIDs of the copies.
    pub uids: NumSet,
    /// The target's mod-sequence after it.
    pub modseq: ModSeq,
}

/// The answer to an EXPUNGE.
#[derive(Debug, Clone)]
pub struct Expunged {
    /// UIDs that went.
    pub uids: NumSet,
    /// The mailbox's mod-sequence after it.
    pub modseq: ModSeq,
    /// A view that shows the change.
    pub view: Arc<View>,
}

/// The answer to a MOVE.
#[derive(Debug, Clone)]
pub struct Moved {
    /// What came into the target.
    pub copied: Copied,
    /// What left the source.
    pub expunged: Expunged,
}

/// An open mailbox. Keep the `Arc` as long as it is selected: that keeps it in memory.
pub struct Mailbox {
    state: Arc<MailboxState>,
    published: Arc<Published>,
}

/// A mailbox that messages go to, open or not: what an APPEND, a delivery, a COPY or a MOVE needs
/// of it. Made by [`crate::Store::destination`]; nothing of the mailbox is read before the first
/// message.
#[derive(Clone)]
pub struct Destination {
    state: Arc<MailboxState>,
}

/// Waits for news of one mailbox: what an idle session holds. Made by [`Mailbox::watch`].
pub struct Watch {
    mailbox: Arc<Mailbox>,
    news: watch::Receiver<()>,
}

impl Watch {
    /// The next view that is another than `seen`: at once if there is one already. `NoMailbox` once
    /// it is deleted. May be dropped and called again.
    pub async fn changed(&mut self, seen: &View) -> Result<Arc<View>> {
        loop {
            // Marked as seen before the view is read, so that what comes in between is not missed.
            self.news.mark_unchanged();
            if self.mailbox.is_gone() {
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
    /// Its id.
    pub fn id(&self) -> MailboxId {
        self.state.id
    }

    /// The same mailbox as one that messages go to.
    pub fn destination(&self) -> Destination {
        Destination { state: Arc::clone(&self.state) }
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
    pub fn is_gone(&self) -> bool {
        self.state.is_gone()
    }

    /// Something to await the next change with.
    pub fn watch(self: &Arc<Self>) -> Watch {
        Watch { mailbox: Arc::clone(self), news: self.published.news.subscribe() }
    }

    /// UIDs of messages no session has been told of; claims nothing (EXAMINE, RFC 3501 §6.3.2).
    pub fn recent(&self) -> NumSet {
        let next = self.view().head().uid_next.value();
        NumSet::range(self.state.first_recent.load(Ordering::Acquire), next - 1)
    }

    /// Claims the messages no session has been told of: their UIDs are `\Recent` in the calling
    /// session and in no other (RFC 3501 §2.3.2). Kept in memory; saved with the next commit.
    pub fn take_recent(&self) -> NumSet {
        let next = self.view().head().uid_next.value();
        let first = self.state.first_recent.fetch_max(next, Ordering::AcqRel);
        NumSet::range(first, next - 1)
    }

    /// Visits the summaries of those UIDs that exist, in UID order, in one call of the engine.
    /// Answers with those that exist and cannot be read.
    pub async fn summaries(&self, uids: &NumSet, visit: &mut Visit<'_>) -> Result<Unreadable> {
        self.state.context.engine.summaries(self.id(), uids, visit).await
    }

    /// The body of a message; `None` if there is no such message. `Unreadable` if there is one and
    /// its body is not known.
    pub async fn body_of(&self, uid: Uid) -> Result<Option<BodyId>> {
        let mut body = None;
        let uids = NumSet::range(uid.value(), uid.value());
        let mut visit = |stored: crate::Stored<'_>| {
            body = Some(stored.body);
            ControlFlow::Break(())
        };
        self.summaries(&uids, &mut visit).await?.refuse()?;
        Ok(body)
    }

    /// A range of a message's bytes, cut at its end. Whoever reads in pieces asks
    /// [`Mailbox::body_of`] first and then this.
    pub async fn read_body(&self, uid: Uid, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.state.context.engine.read_body(body, range).await.map_err(|error| match error {
            StoreError::Corrupt(why) => StoreError::Body { uid, body, why },
            other => other,
        })
    }

    /// UIDs that went after a mod-sequence, and whether that is all of them: if not,
    /// [`View::missing`] tells which of the UIDs a client knows are gone (RFC 7162 §3.2.5).
    pub async fn vanished_since(&self, since: ModSeq) -> Result<(NumSet, bool)> {
        if since >= self.view().modseq() {
            return Ok((NumSet::new(), true));
        }
        let changes = self.state.context.engine.changes_since(self.id(), since).await?;
        Ok((changes.expunged, changes.complete))
    }
}

impl Destination {
    pub(crate) fn of(state: Arc<MailboxState>) -> Self {
        Self { state }
    }

    /// Its id.
    pub fn id(&self) -> MailboxId {
        self.state.id
    }
}
