//! Keeping a view in step with what other processes and nodes do: only the difference is read.

use posthaste_mail_model::NumSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Mailbox, load_view};
use crate::engine::{Changes, Epoch};
use crate::error::{Result, StoreError};
use crate::head::MailboxHead;
use crate::view::View;

impl Mailbox {
    /// The newest view there is: asks the engine if another process or node may have changed the mailbox.
    pub async fn current(self: &Arc<Self>) -> Result<Arc<View>> {
        if self.is_gone() {
            return Err(StoreError::NoMailbox(self.id()));
        }
        if self.is_checked(self.context.engine.epoch()) {
            return Ok(self.view());
        }
        self.newest().await
    }

    /// What someone who asked for many heads at once learnt of this one, at an epoch.
    pub(crate) async fn told(self: &Arc<Self>, head: Option<&MailboxHead>, epoch: Epoch) -> Result<()> {
        match head {
            None => self.mark_gone(),
            Some(head) if head.modseq == self.view().modseq() => self.mark_checked(epoch),
            Some(_) => {
                self.newest().await?;
            }
        }
        Ok(())
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// Compares the view with the engine's head and catches up if it is behind. Only whoever leads may call this.
    pub(super) async fn refresh(&self) -> Result<()> {
        let epoch = self.context.engine.epoch();
        let heads = self.context.engine.heads(&[self.id()]).await?;
        match heads.into_iter().next().flatten() {
            None => {
                self.mark_gone();
                return Err(StoreError::NoMailbox(self.id()));
            }
            Some(head) if head.modseq == self.view().modseq() => {}
            Some(_) => self.catch_up().await?,
        }
        self.suspect.store(false, Ordering::Release);
        self.mark_checked(epoch);
        Ok(())
    }

    /// Reads what changed since the view and publishes the view after it. Only whoever leads may call this.
    pub(super) async fn catch_up(&self) -> Result<()> {
        let outcome = self.read_changes().await;
        if matches!(outcome, Err(StoreError::NoMailbox(_))) {
            self.mark_gone();
        }
        outcome
    }

    async fn read_changes(&self) -> Result<()> {
        let view = self.view();
        let changes = self.context.engine.changes_since(self.id(), view.modseq()).await?;
        let next = match after(&view, &changes) {
            Some(next) => next,
            None => load_view(&self.context, self.id()).await?,
        };
        self.publish(next);
        Ok(())
    }
}

/// The view after changes; `None` if they do not add up to the counts that came with them, or are not all.
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
