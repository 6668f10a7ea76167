//! COPY, and the parts it shares with MOVE: bodies are shared, the engine copies summaries, and
//! flags are mapped by name.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{BodyId, Flag, FlagSet, KeywordTable, MailboxId, NumSet};
use posthaste_metrics::Counter;
use tokio::time::Instant;

use super::draft::{Arrival, Draft};
use super::slots::Slots;
use super::{CarriedFlags, Copied, Destination, Mailbox, MailboxState};
use crate::change::Content;
use crate::engine::Stored;
use crate::error::{Result, StoreError};
use crate::offload::{LOOKED_UP, Place, are_many, is_large};
use crate::row::Row;
use crate::view::View;

impl Destination {
    /// Copies those of `uids` that exist in `source` (which may be this mailbox) into this mailbox,
    /// all or none, with their flags and internal dates (RFC 9051 §6.4.7).
    ///
    /// Other sessions may expunge messages between the look at them and the commit. Then the copy
    /// waits for the leads of both mailboxes, as a move does. While it has them, no other session
    /// of this process changes either mailbox. `Busy` if other processes change them first, again
    /// and again for half a minute.
    #[boxed]
    pub async fn copy_from(&self, source: &Mailbox, uids: &NumSet) -> Result<Copied> {
        let begun = Instant::now();
        let place = self.requester.place(source.id());
        let gathered = Sources::gather(&source.state, place, &source.view(), uids).await?;
        let (count, sources) = (gathered.count(), gathered.carrying(self.carried.clone()));
        let resolve = move |draft: &mut Draft| sources.resolve(draft);
        match self.state.submit_arrivals(&self.requester, count, resolve).await {
            Err(StoreError::Busy) => self.copy_led(source, uids, begun).await,
            outcome => outcome,
        }
    }
}

impl Mailbox {
    /// As [`Destination::copy_from`].
    #[boxed]
    pub async fn copy_from(&self, source: &Self, uids: &NumSet) -> Result<Copied> {
        self.destination().copy_from(source, uids).await
    }
}

/// Messages to be copied, with their rows in the source mailbox.
pub(super) struct Sources {
    mailbox: MailboxId,
    keywords: Arc<KeywordTable>,
    messages: Vec<(Row, BodyId)>,
    now: i64,
    /// Flags that the copies keep.
    carried: CarriedFlags,
}

impl Sources {
    /// Looks up the messages that exist both in the view and in the engine. A message whose body
    /// is unknown is an error. Large work waits in the queue of `place`.
    #[boxed]
    pub async fn gather(source: &MailboxState, place: Place, view: &View, uids: &NumSet) -> Result<Self> {
        let uids = existing(source, place, view, uids).await?;
        let mut messages = Vec::with_capacity(usize::try_from(uids.count()).unwrap_or(0));
        let mut rows = view.rows_of_uids(&uids);
        let mut visit = |stored: Stored<'_>| {
            // Both rise by UID, so messages that the engine no longer has are skipped.
            if let Some((_, row)) = rows.by_ref().find(|(_, row)| row.uid() >= stored.uid)
                && row.uid() == stored.uid
            {
                messages.push((*row, stored.body));
            }
            ControlFlow::Continue(())
        };
        let (engine, id) = (&source.context.engine, source.id());
        // RFC 9051 §6.4.7: all or none. The commit finds that a message is missing which was
        // expunged between two slices.
        if are_many(uids.count()) {
            for slice in uids.slices(LOOKED_UP) {
                // Also before the first: the caller has looked at all rows already.
                tokio::task::yield_now().await;
                engine.summaries(id, &slice, &mut visit).await?.refuse()?;
            }
            tokio::task::yield_now().await;
        } else {
            engine.summaries(id, &uids, &mut visit).await?.refuse()?;
        }
        posthaste_metrics::count(Counter::RecordReads, messages.len() as u64);
        let now = source.context.unix_s();
        Ok(Self {
            mailbox: source.id(),
            keywords: Arc::clone(&view.head().keywords),
            messages,
            now,
            carried: CarriedFlags::ALL,
        })
    }

    /// Lets copies keep only these flags.
    pub fn carrying(mut self, carried: CarriedFlags) -> Self {
        self.carried = carried;
        self
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }

    pub fn resolve(&self, draft: &mut Draft) -> Result<Copied> {
        if self.messages.is_empty() {
            let (none, modseq) = (NumSet::new(), draft.head().modseq);
            return Ok(Copied { source: none.clone(), uids: none, modseq, left_out: Vec::new() });
        }
        let mut slots = draft.slots();
        let mut map = FlagMap::new(&self.keywords);
        let mut source = NumSet::new();
        let mut arrivals = Vec::with_capacity(self.messages.len());
        for (row, body) in &self.messages {
            source.push(row.uid().value());
            arrivals.push(Arrival {
                size: row.stored_size(),
                date: row.date(),
                flags: map.map(self.carried.of(row), &mut slots),
                body: *body,
                // SAVEDATE is when the message came into this mailbox: RFC 8514 §1.
                saved: self.now,
                content: Content::CopyOf { mailbox: self.mailbox, uid: row.uid() },
            });
        }
        // RFC 9051 §6.4.7 recommends that flags are preserved. If the keyword table is full, the
        // copy is made without the keyword.
        let (first, modseq, left_out) = draft.append(slots, arrivals)?;
        let last = first.value() + (self.messages.len() as u32 - 1);
        Ok(Copied { source, uids: NumSet::range(first.value(), last), modseq, left_out })
    }
}

/// The UIDs that exist. A set of many ranges is looked up on another thread.
async fn existing(source: &MailboxState, place: Place, view: &View, uids: &NumSet) -> Result<NumSet> {
    if !is_large(uids.ranges().len() as u64) {
        return Ok(view.existing(uids));
    }
    let (view, uids) = (view.clone(), uids.clone());
    source.run_large_in(place, move || view.existing(&uids)).await
}

/// Maps flags from one mailbox's keyword table to another's.
struct FlagMap<'t> {
    from: &'t KeywordTable,
    /// The last set and its mapping: neighbours mostly have the same flags.
    last: (FlagSet, FlagSet),
}

/// The five system flags mean the same everywhere.
const SYSTEM: FlagSet = FlagSet::ANSWERED
    .union(FlagSet::FLAGGED)
    .union(FlagSet::DELETED)
    .union(FlagSet::SEEN)
    .union(FlagSet::DRAFT);

impl<'t> FlagMap<'t> {
    fn new(from: &'t KeywordTable) -> Self {
        Self { from, last: (FlagSet::EMPTY, FlagSet::EMPTY) }
    }

    fn map(&mut self, flags: FlagSet, slots: &mut Slots) -> FlagSet {
        if flags != self.last.0 {
            let own: Vec<Flag> = self.from.flags_of(flags.difference(SYSTEM)).collect();
            self.last = (flags, flags.intersection(SYSTEM).union(slots.set_of(&own)));
        }
        self.last.1
    }
}
