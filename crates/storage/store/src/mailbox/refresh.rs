//! Reading what is known of a mailbox, and keeping it in step with what other processes and nodes
//! do: where rows are known, only the difference is read.

use posthaste_mail_model::NumSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::state::Base;
use super::{Mailbox, MailboxState};
use crate::engine::{Changes, Epoch};
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::view::{View, ViewBuilder};

/// What a change needs to know of its mailbox. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needs {
    /// The head: messages come in.
    Head,
    /// The rows: flags change, messages go.
    Rows,
    /// Rows that were compared with the engine's.
    NewestRows,
}

impl Mailbox {
    /// The mailbox with its newest view. Its rows are read if nobody has had it open.
    pub(crate) async fn open(state: Arc<MailboxState>) -> Result<Arc<Self>> {
        if let Some(mailbox) = Self::opened(&state) {
            mailbox.current().await?;
            return Ok(mailbox);
        }
        state.enqueue(|_| Ok(()), Needs::Rows).await?;
        // Rows that were read stay, so this is never `None`.
        Self::opened(&state).ok_or(StoreError::Busy)
    }

    /// The mailbox, if its rows are known.
    fn opened(state: &Arc<MailboxState>) -> Option<Arc<Self>> {
        let published = Arc::clone(state.published()?);
        Some(Arc::new(Self { state: Arc::clone(state), published }))
    }

    /// The newest view there is: asks the engine if another process or node may have changed the
    /// mailbox.
    pub async fn current(&self) -> Result<Arc<View>> {
        if self.is_gone() {
            return Err(StoreError::NoMailbox(self.id()));
        }
        if self.state.is_checked(self.state.context.engine.epoch()) {
            return Ok(self.view());
        }
        self.state.newest().await
    }
}

impl MailboxState {
    /// What someone who asked for many heads at once learnt of this one, at an epoch.
    pub(crate) async fn told(self: &Arc<Self>, head: Option<&MailboxHead>, epoch: Epoch) -> Result<()> {
        let known = self.base().map(|base| base.modseq());
        match head {
            None => self.mark_gone(),
            Some(head) if Some(head.modseq) == known => self.mark_checked(epoch),
            Some(_) => {
                self.newest().await?;
            }
        }
        Ok(())
    }

    /// What the next changes are made against: read as far as they need it and it is not known.
    /// Only whoever leads may call this.
    pub(super) async fn prepare(&self, needs: Needs) -> Result<Base> {
        match (self.base(), needs) {
            (Some(base @ Base::View(_)), Needs::Head | Needs::Rows) if !self.is_suspect() => Ok(base),
            (Some(Base::View(view)), _) => self.refresh(view).await,
            (Some(base), Needs::Head) if !self.is_suspect() => Ok(base),
            (_, Needs::Head) => self.read_head().await,
            (_, Needs::Rows | Needs::NewestRows) => self.read_rows().await,
        }
    }

    /// Compares the view with the engine's head and catches up if it is behind.
    async fn refresh(&self, view: Arc<View>) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let head = self.engine_head().await?;
        let newest =
            if head.modseq == view.modseq() { Base::View(view) } else { self.read_changes(&view).await? };
        self.seen(epoch);
        Ok(newest)
    }

    /// Brings what is known up to what the engine has. Only whoever leads may call this.
    pub(super) async fn catch_up(&self) -> Result<Base> {
        match self.base() {
            Some(Base::View(view)) => self.read_changes(&view).await,
            _ => self.read_head().await,
        }
    }

    async fn read_head(&self) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let head = self.engine_head().await?;
        let base = self.publish(Base::Head(head));
        self.seen(epoch);
        Ok(base)
    }

    async fn read_rows(&self) -> Result<Base> {
        let epoch = self.context.engine.epoch();
        let view = self.or_gone(self.load_view().await)?;
        let base = self.publish(Base::View(Arc::new(view)));
        self.seen(epoch);
        Ok(base)
    }

    async fn read_changes(&self, view: &View) -> Result<Base> {
        let changes = self.or_gone(self.context.engine.changes_since(self.id, view.modseq()).await)?;
        let next = match after(view, &changes) {
            Some(next) => next,
            None => self.or_gone(self.load_view().await)?,
        };
        Ok(self.publish(Base::View(Arc::new(next))))
    }

    async fn engine_head(&self) -> Result<MailboxHead> {
        let heads = self.context.engine.heads(&[self.id]).await?;
        self.or_gone(heads.into_iter().next().flatten().ok_or(StoreError::NoMailbox(self.id)))
    }

    /// Notes a mailbox that is no more.
    fn or_gone<T>(&self, outcome: Result<T>) -> Result<T> {
        if matches!(outcome, Err(StoreError::NoMailbox(_))) {
            self.mark_gone();
        }
        outcome
    }

    /// What is known is what the engine had at this epoch.
    fn seen(&self, epoch: Epoch) {
        self.suspect.store(false, Ordering::Release);
        self.mark_checked(epoch);
    }

    /// Reads all rows of the mailbox.
    pub(super) async fn load_view(&self) -> Result<View> {
        let mut builder = ViewBuilder::new();
        let head = self.context.engine.load(self.id, &mut |rows| builder.push_rows(rows)).await?;
        let counts = head.counts;
        let view = builder.finish(head);
        if view.counts() != counts {
            tracing::error!(mailbox = %self.id, stored = ?counts, rows = ?view.counts(), "counts of a mailbox are wrong");
        }
        Ok(view)
    }
}

/// The view after changes; `None` if they do not add up to the counts that came with them, or are
/// not all.
fn after(view: &View, changes: &Changes) -> Option<View> {
    if !changes.complete || changes.head.modseq < view.modseq() {
        return None;
    }
    let first_new = view.head().uid_next;
    let (old, new) = changes.rows.split_at(changes.rows.partition_point(|row| row.uid() < first_new));
    // A message may have come and gone since; the engine then need not have it among the rows.
    let gone = changes.expunged.intersection(&NumSet::range(1, first_new.value() - 1));
    let next = view.edited(changes.head.clone(), old, &gone, new);
    (next.counts() == changes.head.counts).then_some(next)
}
