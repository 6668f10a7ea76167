//! Items of rich messages that delivery did not convert. They are computed for the first reader
//! who needs them and stored, or computed for each reader.
//!
//! Such a message has an empty summary, and its row says that it lacks its items
//! ([`Row::lacks_items`]). The row stays the same when they are computed. So clients see no
//! change of the mailbox, and no mod-sequence rises. From then on the summary has its
//! RFC822.SIZE.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, NumSet, SeqNum, Uid};

use crate::context::Context;
use crate::engine::{Stored, SummaryOf, Unreadable, Visit};
use crate::error::{Result, StoreError};
use crate::mailbox::Mailbox;
use crate::offload::Place;
use crate::row::Row;
use crate::served::SHARED_LEN_MAX;
use crate::store::Store;
use crate::view::View;

/// Messages whose sizes are looked up at a time.
const AT_ONCE: usize = 128;
/// Times that all sizes of a mailbox are looked up because messages were added or expunged
/// meanwhile.
const TRIES_MAX: usize = 3;

/// Whether a computed summary is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The summary is stored, or the call fails.
    Always,
    /// By the store's setting for readers. A reader gets it even if it cannot be stored.
    AsSet,
    /// The summary is not stored.
    Never,
}

impl Context {
    /// The summary of a message whose stored one is empty, made of its body for a reader.
    async fn made_summary(&self, reader: Place, message: SummaryOf, keep: Keep) -> Result<Bytes> {
        let SummaryOf { mailbox, uid, body } = message;
        let serve = &self.served.serve;
        // A client that reads in pieces needs the summary for each piece.
        let make = || async {
            let begin = self.read_body(&reader, body, 0..SHARED_LEN_MAX as u64).await?;
            if begin.len() < SHARED_LEN_MAX {
                return serve.summarize(reader, begin).await;
            }
            drop(begin);
            let _turn = self.served.summary_turn(reader).await?;
            serve.summarize(reader, self.read_body(&reader, body, 0..u64::MAX).await?).await
        };
        let summary = match self.served.summary(body, make).await {
            Ok(summary) => summary,
            // Nothing is stored, so a superseded message keeps its UID.
            Err(error) if keep == Keep::Never => return Err(error.of_body(uid, body)),
            Err(error) => return Err(self.unread(message, error).await),
        };
        if keep == Keep::Never || keep == Keep::AsSet && !serve.keeps_summaries() {
            return Ok(summary);
        }
        match self.engine.add_summary(message, summary.clone()).await {
            Ok(_) => {}
            Err(error) if keep == Keep::Always => return Err(error),
            Err(error) => {
                tracing::warn!(%mailbox, %uid, %error, "the items of a message were made, but cannot be stored");
            }
        }
        Ok(summary)
    }

    /// As [`crate::Engine::summaries`], with summaries that are made where the stored ones are
    /// empty.
    async fn made_summaries(
        &self,
        reader: Place,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        let (mut unreadable, mut rest) = (NumSet::new(), uids.clone());
        loop {
            let mut unmade = None;
            let mut each = |stored: Stored<'_>| {
                if !stored.summary.is_empty() {
                    return visit(stored);
                }
                let Stored { uid, body, saved, created, is_shared, .. } = stored;
                unmade = Some(Stored { uid, body, saved, created, summary: &[], is_shared });
                ControlFlow::Break(())
            };
            let Unreadable(some) = self.engine.summaries(mailbox, &rest, &mut each).await?;
            unreadable = unreadable.union(&some);
            let Some(stored) = unmade else { return Ok(Unreadable(unreadable)) };
            let Stored { uid, body, .. } = stored;
            match self.made_summary(reader, SummaryOf { mailbox, uid, body }, Keep::AsSet).await {
                Ok(summary) => {
                    if visit(Stored { summary: &summary, ..stored }).is_break() {
                        return Ok(Unreadable(unreadable));
                    }
                }
                // The message was expunged, and a new one was added.
                Err(StoreError::Superseded(_)) => {}
                Err(error) if error.is_damage() => {
                    tracing::error!(%mailbox, %uid, %error, "the items of a message cannot be made");
                    unreadable = unreadable.union(&NumSet::range(uid.value(), uid.value()));
                }
                Err(error) => return Err(error),
            }
            rest = rest.difference(&NumSet::range(1, uid.value()));
        }
    }
}

impl Store {
    /// Visits the summaries of a mailbox as [`Mailbox::summaries`] does. Summaries that delivery
    /// did not make are made, for this reader.
    #[boxed]
    pub async fn made_summaries(
        &self,
        reader: Place,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.context().made_summaries(reader, mailbox, uids, visit).await
    }
}

impl Mailbox {
    /// The summary of a message whose stored one is empty, made of its body.
    #[boxed]
    pub async fn made_summary(&self, uid: Uid, body: BodyId, keep: Keep) -> Result<Bytes> {
        let message = SummaryOf { mailbox: self.id(), uid, body };
        self.context().made_summary(self.place(), message, keep).await
    }

    /// The newest view with RFC822.SIZE in all rows. Messages whose sizes cannot be made of what is
    /// stored may get new UIDs for it.
    #[boxed]
    pub async fn all_sized(&self) -> Result<Arc<View>> {
        let mut view = self.view();
        for _ in 1..TRIES_MAX {
            let sized = self.sized(&view, &view.all()).await?;
            let newest = self.view();
            if sized.counts().without_items() == 0 || newest.modseq() == view.modseq() {
                return Ok(sized);
            }
            view = newest;
        }
        self.sized(&view, &view.all()).await
    }

    /// The view with the RFC822.SIZE of these messages in all rows. Most views have it already.
    ///
    /// A message that cannot be converted keeps the octets that were sent.
    #[boxed]
    pub async fn sized(&self, view: &Arc<View>, seqs: &NumSet<SeqNum>) -> Result<Arc<View>> {
        if view.counts().without_items() == 0 {
            return Ok(Arc::clone(view));
        }
        let (permits, place) = (&self.context().large_permits, self.place());
        let (all, named) = (Arc::clone(view), seqs.clone());
        let find =
            move || -> Vec<Row> { all.rows(&named).map(|(_, row)| *row).filter(Row::lacks_items).collect() };
        let bare = permits.run_if_large(place, seqs.count(), find).await?;
        let mut sized = Vec::with_capacity(bare.len());
        for some in bare.chunks(AT_ONCE) {
            let uids: NumSet = some.iter().map(|row| row.uid().value()).collect();
            let mut rows = some.iter();
            let serve = &self.context().served.serve;
            let mut visit = |stored: Stored<'_>| {
                let row = rows.by_ref().find(|row| row.uid() >= stored.uid);
                let row = row.filter(|row| row.uid() == stored.uid);
                sized.extend(row.zip(serve.octets(stored.summary)).map(|(row, size)| row.with_size(size)));
                ControlFlow::Continue(())
            };
            let Unreadable(left) = self.context().made_summaries(place, self.id(), &uids, &mut visit).await?;
            if !left.is_empty() {
                tracing::error!(mailbox = %self.id(), uids = %left, "the sizes of messages cannot be computed");
            }
            // An engine that answers at once would never let another task in.
            tokio::task::yield_now().await;
        }
        let (all, count) = (Arc::clone(view), sized.len() as u64);
        let edit = move || Arc::new(all.edited(all.head().clone(), &sized, &NumSet::new(), &[]));
        permits.run_if_large(place, count, edit).await
    }
}
