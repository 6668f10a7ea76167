//! Changes of one mailbox while they are being resolved: the next commit, and the state after it.
//!
//! Each intent is resolved against the result of the intents before it, and gets a mod-sequence of
//! its own. An intent that fails leaves the draft unchanged. A draft made against a head alone
//! accepts only new messages.

use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, FlagSet, Keyword, MailboxId, ModSeq, NumSet, Uid};

use super::base::Base;
use super::slots::Slots;
use crate::change::{Content, ExpungedUids, MailboxCommit, NewMessage};
use crate::error::{Result, StoreError};
use crate::form::{lacks_items, served_len};
use crate::head::MailboxHead;
use crate::row::Row;
use crate::view::View;

/// A message to be added, without the UID and mod-sequence that the draft assigns.
pub(super) struct Arrival {
    pub size: u32,
    pub date: u32,
    pub flags: FlagSet,
    pub body: BodyId,
    pub saved: i64,
    pub content: Content,
}

/// The commit in preparation.
pub(super) struct Draft {
    mailbox: MailboxId,
    expected: ModSeq,
    /// UIDs from here on belong to messages added by this draft.
    first_new: Uid,
    /// The mailbox after the intents so far.
    now: Base,
    appended: Vec<NewMessage>,
    changed: Vec<Row>,
    expunged: Vec<ExpungedUids>,
    first_recent: Uid,
    /// Messages that the mailbox may have.
    messages_max: Option<u32>,
    /// An intent cannot be resolved without the rows.
    wants_rows: bool,
    /// The rows cannot be had: what needs them is left out.
    lacks_rows: bool,
}

impl Draft {
    pub fn new(mailbox: MailboxId, base: Base, first_recent: Uid, messages_max: Option<u32>) -> Self {
        Self {
            mailbox,
            expected: base.modseq(),
            first_new: base.head().uid_next,
            now: base,
            appended: Vec::new(),
            changed: Vec::new(),
            expunged: Vec::new(),
            first_recent,
            messages_max,
            wants_rows: false,
            lacks_rows: false,
        }
    }

    /// The draft if there is no room for the rows ([`StoreError::TooManyOpen`]). Mail comes in all
    /// the same. It lacks keywords for which only the rows may show a slot.
    pub fn without_rows(mut self) -> Self {
        self.lacks_rows = true;
        self
    }

    /// The head after the intents so far.
    pub fn head(&self) -> &MailboxHead {
        self.now.head()
    }

    /// The rows after the intents so far. `Busy` if they are not known, which [`Needs::Rows`] rules
    /// out.
    ///
    /// [`Needs::Rows`]: super::base::Needs::Rows
    pub fn view(&self) -> Result<Arc<View>> {
        match &self.now {
            Base::View(view) => Ok(Arc::clone(view)),
            Base::Head(_) => Err(StoreError::Busy),
        }
    }

    /// Moves on to the next head, with these rows changed, expunged and added. Without rows only
    /// added ones count.
    fn step(&mut self, mut head: MailboxHead, changed: &[Row], expunged: &NumSet, new: &[Row]) {
        self.now = match &self.now {
            Base::View(view) => Base::View(Arc::new(view.edited(head, changed, expunged, new))),
            Base::Head(_) => {
                new.iter().for_each(|row| head.counts.add(row));
                Base::Head(head)
            }
        };
    }

    /// The head of the next step: a mod-sequence higher, all else the same.
    fn next_head(&self) -> MailboxHead {
        let mut head = self.head().clone();
        head.modseq = head.modseq.next();
        head
    }

    /// The keyword table after the intents so far, for the next of them.
    pub fn slots(&self) -> Slots {
        Slots::new(&self.now)
    }

    /// Whether the intents must be resolved again, with the rows.
    pub fn wants_rows(&self) -> bool {
        self.wants_rows
    }

    /// Adds messages, whose flags were set with `slots`. Returns the first UID, the mod-sequence
    /// and the keywords that did not fit.
    pub fn append(&mut self, slots: Slots, arrivals: Vec<Arrival>) -> Result<(Uid, ModSeq, Vec<Keyword>)> {
        self.check_room(arrivals.len())?;
        self.append_without_limit(slots, arrivals)
    }

    /// The limit of messages does not apply: in this commit the number of messages stays the
    /// same.
    pub fn lift_limit(&mut self) {
        self.messages_max = None;
    }

    /// [`Self::append`] without the limit of messages.
    pub fn append_without_limit(
        &mut self,
        slots: Slots,
        arrivals: Vec<Arrival>,
    ) -> Result<(Uid, ModSeq, Vec<Keyword>)> {
        if slots.lacks_room() && matches!(self.now, Base::Head(_)) && !self.lacks_rows {
            // The rows may contain a slot that no message needs.
            self.wants_rows = true;
            return Err(StoreError::Busy);
        }
        let (keywords, left_out) = slots.into_parts();
        let mut head = self.next_head();
        let first = head.uid_next;
        let mut rows = Vec::with_capacity(arrivals.len());
        let mut messages = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let uid = head.uid_next;
            // The last UID is never assigned, so that UIDNEXT can always be reported.
            head.uid_next = uid.next().ok_or(StoreError::UidsExhausted)?;
            let row = Row::new(uid, arrival.size, arrival.date, arrival.flags, head.modseq);
            rows.push(row);
            let Arrival { body, saved, content, .. } = arrival;
            messages.push(NewMessage { row, body, saved, created: head.modseq, content });
        }
        head.keywords = keywords;
        let modseq = head.modseq;
        self.step(head, &[], &NumSet::new(), &rows);
        self.appended.append(&mut messages);
        Ok((first, modseq, left_out))
    }

    /// Whether this many more messages may be added: all of them, or none.
    fn check_room(&self, more: usize) -> Result<()> {
        let Some(limit) = self.messages_max else { return Ok(()) };
        let there = match &self.now {
            Base::Head(head) => head.counts.messages,
            Base::View(view) => view.exists(),
        };
        if there as usize + more > limit as usize { Err(StoreError::FolderFull { limit }) } else { Ok(()) }
    }

    /// Gives messages other flags, set with `slots`: rows of [`Draft::view`], in UID order, with
    /// [`Draft::next_modseq`].
    pub fn change(&mut self, slots: Slots, rows: Vec<Row>) {
        let mut head = self.next_head();
        (head.keywords, _) = slots.into_parts();
        self.step(head, &rows, &NumSet::new(), &[]);
        let old = rows.partition_point(|row| row.uid() < self.first_new);
        for row in &rows[old..] {
            if let Ok(at) = self.appended.binary_search_by_key(&row.uid(), |m| m.row.uid()) {
                self.appended[at].row = *row;
            }
        }
        if self.changed.is_empty() && old == rows.len() {
            self.changed = rows;
        } else {
            self.changed = merged(&self.changed, &rows[..old]);
        }
    }

    /// Removes messages of [`Draft::view`].
    pub fn expunge(&mut self, uids: &NumSet) -> ModSeq {
        let head = self.next_head();
        let modseq = head.modseq;
        self.step(head, &[], uids, &[]);
        self.appended.retain(|m| !uids.contains(m.row.uid().value()));
        self.changed.retain(|row| !uids.contains(row.uid().value()));
        // A message added and removed within this draft was never on disk.
        let old = uids.intersection(&NumSet::range(1, self.first_new.value() - 1));
        if !old.is_empty() {
            self.expunged.push((modseq, old));
        }
        modseq
    }

    /// The mod-sequence the next intent will have.
    pub fn next_modseq(&self) -> ModSeq {
        self.now.modseq().next()
    }

    /// The commit and the state after it; `None` if nothing changes.
    pub fn finish(self) -> Option<(MailboxCommit, Base)> {
        if self.now.modseq() == self.expected {
            return None;
        }
        let mut head = self.head().clone();
        head.first_recent = head.first_recent.max(self.first_recent).min(head.uid_next);
        let next = match self.now {
            Base::View(view) => {
                let mut view = Arc::unwrap_or_clone(view);
                view.set_head(head.clone());
                Base::View(Arc::new(view))
            }
            Base::Head(_) => Base::Head(head.clone()),
        };
        let commit = MailboxCommit {
            mailbox: self.mailbox,
            expected: self.expected,
            head,
            appended: self.appended,
            changed: self.changed,
            expunged: self.expunged,
        };
        Some((commit, next))
    }
}

/// Two lists of rows in UID order as one; `newer` wins.
fn merged(older: &[Row], newer: &[Row]) -> Vec<Row> {
    let mut out = Vec::with_capacity(older.len() + newer.len());
    let mut old = older.iter().peekable();
    for row in newer {
        while let Some(before) = old.next_if(|o| o.uid() < row.uid()) {
            out.push(*before);
        }
        old.next_if(|o| o.uid() == row.uid());
        out.push(*row);
    }
    out.extend(old);
    out
}

/// The size of a message as a row stores it ([`Row::stored_size`]).
pub(super) fn size_of(bytes: &Bytes) -> Result<u32> {
    let (from, limit) = match lacks_items(bytes) {
        true => (Row::WITHOUT_ITEMS, u32::MAX - Row::WITHOUT_ITEMS),
        false => (0, Row::WITHOUT_ITEMS - 1),
    };
    let len = u32::try_from(served_len(bytes)).ok().filter(|len| *len <= limit);
    len.map(|len| from + len)
        .ok_or(StoreError::TooLarge { what: "message in bytes", limit: u64::from(limit) })
}
