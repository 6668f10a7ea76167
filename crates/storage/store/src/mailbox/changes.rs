//! The changes that IMAP requests, as intents: append, STORE, EXPUNGE.

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{Flag, FlagSet, ModSeq, NumSet, Uid};

use super::draft::{Arrival, Draft, size_of};
use super::slots::Slots;
use super::state::Unrefused;
use super::{Destination, Expunged, FlagsStored, IncomingMessage, Mailbox};
use crate::change::{Appended, Content, FlagChange};
use crate::error::Result;
use crate::row::Row;
use crate::view::View;

impl Destination {
    /// Adds messages, all or none, with consecutive UIDs. An empty list changes nothing.
    #[boxed]
    pub async fn append(&self, messages: Vec<IncomingMessage>) -> Result<Appended> {
        let now = self.state.context.unix_s();
        let count = messages.len() as u64;
        let resolve = move |draft: &mut Draft| append(draft, &messages, now);
        self.state.submit_arrivals(&self.requester, count, resolve).await
    }
}

impl Mailbox {
    /// As [`Destination::append`].
    #[boxed]
    pub async fn append(&self, messages: Vec<IncomingMessage>) -> Result<Appended> {
        self.destination().append(messages).await
    }

    /// Changes flags of those of `uids` that exist. A message whose flags already are as requested
    /// keeps its mod-sequence. With `unchanged_since`, messages changed after it are left unchanged
    /// and reported (RFC 7162 §3.1.3).
    #[boxed]
    pub async fn store_flags(
        &self,
        uids: &NumSet,
        change: FlagChange,
        flags: &[Flag],
        unchanged_since: Option<ModSeq>,
    ) -> Result<FlagsStored> {
        let order = StoreOrder { uids: uids.clone(), change, flags: flags.to_vec(), unchanged_since };
        let resolve = move |draft: &mut Draft, view: &View| order.resolve(draft, view);
        let stored = self.state.submit(&self.requester, self.at_most(uids), resolve).await?;
        let ((modified, changed, modseq), view) = stored;
        Ok(FlagsStored { modified, changed, modseq, view })
    }

    /// Raises the mod-sequences of those of `uids` that exist, because values of theirs changed
    /// that are stored elsewhere. With `unchanged_since` as in [`Mailbox::store_flags`].
    #[boxed]
    pub async fn touch(&self, uids: &NumSet, unchanged_since: Option<ModSeq>) -> Result<FlagsStored> {
        let (uids, messages) = (uids.clone(), self.at_most(uids));
        let resolve = move |draft: &mut Draft, view: &View| {
            let next = draft.next_modseq();
            let (mut modified, mut changed, mut rows) = (NumSet::new(), NumSet::new(), Vec::new());
            for (_, row) in view.rows_of_uids(&uids) {
                if unchanged_since.is_some_and(|since| row.modseq() > since) {
                    modified.push(row.uid().value());
                } else {
                    changed.push(row.uid().value());
                    rows.push(row.with_flags(row.flags(), next));
                }
            }
            if rows.is_empty() {
                return Ok((modified, changed, view.modseq()));
            }
            draft.change(draft.slots(), rows);
            Ok((modified, changed, next))
        };
        let touched = self.state.submit(&self.requester, messages, resolve).await?;
        let ((modified, changed, modseq), view) = touched;
        Ok(FlagsStored { modified, changed, modseq, view })
    }

    /// The largest number of these UIDs that may exist.
    fn at_most(&self, uids: &NumSet) -> u64 {
        uids.count().min(u64::from(self.view().exists()))
    }

    /// Removes messages that have `\Deleted`: all of them (RFC 9051 §6.4.3), or those among `uids`
    /// (§6.4.9).
    #[boxed]
    pub async fn expunge(&self, uids: Option<&NumSet>) -> Result<Expunged> {
        self.expunge_at_most(uids, u64::MAX).await
    }

    /// [`Self::expunge`] of at most this many messages: those with the lowest UIDs.
    #[boxed]
    pub async fn expunge_at_most(&self, uids: Option<&NumSet>, most: u64) -> Result<Expunged> {
        let (filter, messages) = (uids.cloned(), self.deleted_at_most(uids));
        self.remove_where(messages, move |view| {
            let mut chosen = view.uids_of_seqs(&view.with_flags(FlagSet::DELETED, FlagSet::EMPTY));
            if let Some(filter) = &filter {
                chosen = chosen.intersection(filter);
            }
            if chosen.count() > most {
                let first = chosen.slices(most).next();
                chosen = first.unwrap_or_default();
            }
            chosen
        })
        .await
    }

    /// The largest number of messages that [`Self::expunge`] would remove now.
    pub fn deleted_at_most(&self, uids: Option<&NumSet>) -> u64 {
        let deleted = u64::from(self.view().counts().deleted);
        uids.map_or(deleted, |uids| deleted.min(uids.count()))
    }

    /// Removes messages regardless of their flags: retention and MOVE.
    #[boxed]
    pub async fn remove(&self, uids: &NumSet) -> Result<Expunged> {
        let (uids, messages) = (uids.clone(), self.at_most(uids));
        self.remove_where(messages, move |view| view.existing(&uids)).await
    }

    /// [`Self::remove`] for messages that did not change after a mod-sequence.
    #[boxed]
    pub async fn remove_unchanged(&self, uids: &NumSet, since: ModSeq) -> Result<Expunged> {
        let (uids, messages) = (uids.clone(), self.at_most(uids));
        self.remove_where(messages, move |view| view.unchanged(&uids, since)).await
    }

    /// Adds a message that replaces another one, which [`Mailbox::remove_replaced`] then removes.
    /// `None`, and nothing is added, unless the other one exists at that moment and `uid_next` is
    /// still the next UID. So a caller that has looked at all messages does not add a message
    /// that another client, process or node has added.
    ///
    /// The limit of messages does not apply: after the removal the number is the same as before.
    #[boxed]
    pub async fn append_replacement(
        &self,
        replaced: Uid,
        uid_next: Uid,
        message: IncomingMessage,
    ) -> Result<Option<Uid>> {
        let (now, message) = (self.state.context.unix_s(), [message]);
        // Nor does the memory for rows.
        let _unrefused = Unrefused::of(&self.state);
        let resolve = move |draft: &mut Draft, view: &View| {
            if view.head().uid_next != uid_next || view.row_of_uid(replaced).is_none() {
                return Ok(None);
            }
            let (slots, arrivals) = arrivals(draft, &message, now)?;
            draft.append_without_limit(slots, arrivals).map(|(uid, ..)| Some(uid))
        };
        self.state.submit(&self.requester, 1, resolve).await.map(|(uid, _)| uid)
    }

    /// Removes a message that did not change after a mod-sequence, if another one, which takes its
    /// place, exists at that moment.
    #[boxed]
    pub async fn remove_replaced(&self, uid: Uid, since: ModSeq, by: Uid) -> Result<Expunged> {
        let one = NumSet::range(uid.value(), uid.value());
        let choose = move |view: &View| match view.row_of_uid(by) {
            Some(_) => view.unchanged(&one, since),
            None => NumSet::new(),
        };
        self.remove_where(1, choose).await
    }

    async fn remove_where(
        &self,
        messages: u64,
        choose: impl Fn(&View) -> NumSet + Send + 'static,
    ) -> Result<Expunged> {
        let resolve = move |draft: &mut Draft, view: &View| {
            let uids = choose(view);
            let modseq = if uids.is_empty() { view.modseq() } else { draft.expunge(&uids) };
            Ok((uids, modseq))
        };
        let ((uids, modseq), view) = self.state.submit(&self.requester, messages, resolve).await?;
        Ok(Expunged { uids, modseq, view })
    }
}

pub(super) fn append(draft: &mut Draft, messages: &[IncomingMessage], now: i64) -> Result<Appended> {
    if messages.is_empty() {
        return Ok(Appended { uids: Vec::new(), modseq: draft.head().modseq, left_out: Vec::new() });
    }
    let (slots, arrivals) = arrivals(draft, messages, now)?;
    let (first, modseq, left_out) = draft.append(slots, arrivals)?;
    let uids = (first.value()..).take(messages.len()).filter_map(Uid::new).collect();
    Ok(Appended { uids, modseq, left_out })
}

/// Messages for a draft, and the keyword table with their keywords.
fn arrivals(draft: &Draft, messages: &[IncomingMessage], now: i64) -> Result<(Slots, Vec<Arrival>)> {
    let mut slots = draft.slots();
    let mut arrivals = Vec::with_capacity(messages.len());
    for message in messages {
        arrivals.push(Arrival {
            size: size_of(&message.bytes)?,
            date: message.date,
            flags: slots.set_of(&message.flags),
            body: message.body,
            saved: message.saved.unwrap_or(now),
            content: Content::New { bytes: message.bytes.clone(), summary: message.summary.clone() },
        });
    }
    Ok((slots, arrivals))
}

/// The request of a STORE.
struct StoreOrder {
    uids: NumSet,
    change: FlagChange,
    flags: Vec<Flag>,
    unchanged_since: Option<ModSeq>,
}

impl StoreOrder {
    /// UIDs not changed, UIDs changed, mod-sequence.
    fn resolve(&self, draft: &mut Draft, view: &View) -> Result<(NumSet, NumSet, ModSeq)> {
        let mut slots = draft.slots();
        let mut set = FlagSet::EMPTY;
        for flag in &self.flags {
            set = set.union(match self.change {
                // A keyword that no message has needs no slot to be removed.
                FlagChange::Remove => view.head().keywords.set_of(flag).unwrap_or_default(),
                // RFC 5530: [LIMIT] if the table is full. The answer must not claim that a
                // keyword is set when it is not.
                FlagChange::Add | FlagChange::Replace => slots.bit_of(flag)?,
            });
        }
        let next = draft.next_modseq();
        let (mut modified, mut changed, mut rows) = (NumSet::new(), NumSet::new(), Vec::new());
        for (_, row) in view.rows_of_uids(&self.uids) {
            if self.unchanged_since.is_some_and(|since| row.modseq() > since) {
                modified.push(row.uid().value());
                continue;
            }
            let flags = self.flags_after(row, set);
            if flags != row.flags() {
                changed.push(row.uid().value());
                rows.push(row.with_flags(flags, next));
            }
        }
        if rows.is_empty() {
            return Ok((modified, changed, view.modseq()));
        }
        draft.change(slots, rows);
        Ok((modified, changed, next))
    }

    fn flags_after(&self, row: &Row, set: FlagSet) -> FlagSet {
        match self.change {
            FlagChange::Replace => set,
            FlagChange::Add => row.flags().union(set),
            FlagChange::Remove => row.flags().difference(set),
        }
    }
}
