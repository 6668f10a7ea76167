//! The view itself: its head, its groups of rows, and what needs no walk over a set.

use posthaste_mail_model::{FlagSet, ModSeq, NumSet, SeqNum, Uid};

use super::node::{self, Group, Totals, number};
use crate::head::{Counts, MailboxHead};
use crate::row::Row;

/// A state of a mailbox. Sequence numbers are positions in it: 1 … [`View::exists`].
#[derive(Clone)]
pub struct View {
    pub(super) head: MailboxHead,
    pub(super) groups: Vec<Group>,
    pub(super) totals: Totals,
}

/// The rows of a chunk that match, judged by its totals alone: see [`View::select`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkMatch {
    /// No row can match.
    None,
    /// Some rows may match: each row must be examined.
    Some,
    /// Every row matches.
    All,
}

impl Default for View {
    /// A mailbox that never changed.
    fn default() -> Self {
        Self::of_groups(MailboxHead::default(), Vec::new())
    }
}

impl View {
    pub(super) fn of_groups(mut head: MailboxHead, mut groups: Vec<Group>) -> Self {
        let totals = number(&mut groups);
        head.counts = totals.counts();
        groups.shrink_to_fit();
        Self { head, groups, totals }
    }

    /// The head: mod-sequence, UIDNEXT, keywords.
    pub fn head(&self) -> &MailboxHead {
        &self.head
    }

    /// HIGHESTMODSEQ.
    pub fn modseq(&self) -> ModSeq {
        self.head.modseq
    }

    /// Messages in this view, by its rows.
    pub fn exists(&self) -> u32 {
        self.totals.messages
    }

    /// Counts, by the rows.
    pub fn counts(&self) -> Counts {
        self.totals.counts()
    }

    /// Totals of all rows.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The sequence numbers of all messages.
    pub fn all(&self) -> NumSet<SeqNum> {
        NumSet::range(1, self.exists())
    }

    /// The row of a sequence number.
    pub fn row(&self, seq: SeqNum) -> Option<&Row> {
        let index = seq.value() - 1;
        let (g, c) = self.locate(index)?;
        let group = self.groups.get(g)?;
        let chunk = group.item.get(c)?;
        chunk.item.get((index - group.start - chunk.start) as usize)
    }

    /// The UID of a sequence number.
    pub fn uid_of(&self, seq: SeqNum) -> Option<Uid> {
        self.row(seq).map(Row::uid)
    }

    /// The row of a UID and its sequence number.
    pub fn row_of_uid(&self, uid: Uid) -> Option<(SeqNum, &Row)> {
        let seq = SeqNum::new(self.rank(uid).checked_add(1)?)?;
        self.row(seq).filter(|row| row.uid() == uid).map(|row| (seq, row))
    }

    /// The sequence number of a UID.
    pub fn seq_of(&self, uid: Uid) -> Option<SeqNum> {
        self.row_of_uid(uid).map(|(seq, _)| seq)
    }

    /// The highest UID in the view: what `*` means in UID commands (RFC 9051 §9, seq-number).
    pub fn last_uid(&self) -> Option<Uid> {
        self.groups.last().and_then(|g| Uid::new(g.last_uid))
    }

    /// The number of messages with a UID below this one.
    pub fn rank(&self, uid: Uid) -> u32 {
        self.rank_of(uid.value())
    }

    /// The first message without `\Seen`: UNSEEN of RFC 3501 §6.3.1.
    pub fn first_unseen(&self) -> Option<SeqNum> {
        let group = self.groups.iter().find(|g| g.totals.unseen > 0)?;
        let chunk = group.item.iter().find(|c| c.totals.unseen > 0)?;
        let row = chunk.item.iter().position(|r| !r.flags().contains(FlagSet::SEEN))?;
        SeqNum::new(group.start + chunk.start + row as u32 + 1)
    }

    /// Messages reported to no session, as of this view's head: RECENT of RFC 3501 §2.3.2.
    pub fn recent(&self) -> u32 {
        self.exists() - self.rank(self.head.first_recent)
    }

    /// The sequence numbers of rows that match. `of_totals` can decide for a whole chunk or group;
    /// where it returns [`ChunkMatch::Some`], `of_row` decides.
    pub fn select(
        &self,
        mut of_totals: impl FnMut(&Totals) -> ChunkMatch,
        mut of_row: impl FnMut(&Row) -> bool,
    ) -> NumSet<SeqNum> {
        let mut out = NumSet::new();
        for group in &self.groups {
            match of_totals(&group.totals) {
                ChunkMatch::None => continue,
                ChunkMatch::All => {
                    out.push_range(group.start + 1, group.start + group.totals.messages);
                    continue;
                }
                ChunkMatch::Some => {}
            }
            for chunk in group.item.iter() {
                let first = group.start + chunk.start + 1;
                match of_totals(&chunk.totals) {
                    ChunkMatch::None => {}
                    ChunkMatch::All => out.push_range(first, first + chunk.totals.messages - 1),
                    ChunkMatch::Some => {
                        for (seq, row) in (first..).zip(chunk.item.iter()) {
                            if of_row(row) {
                                out.push(seq);
                            }
                        }
                    }
                }
            }
        }
        out
    }

    /// Sequence numbers of messages that have all of `with` and none of `without`.
    pub fn with_flags(&self, with: FlagSet, without: FlagSet) -> NumSet<SeqNum> {
        let none = |flags: FlagSet| flags.bits() & without.bits() == 0;
        self.select(
            |t| {
                if !t.flags_any.contains(with) || !none(t.flags_all) {
                    ChunkMatch::None
                } else if t.flags_all.contains(with) && none(t.flags_any) {
                    ChunkMatch::All
                } else {
                    ChunkMatch::Some
                }
            },
            |row| row.flags().contains(with) && none(row.flags()),
        )
    }

    /// Sequence numbers of messages with a mod-sequence above `since`: CHANGEDSINCE of
    /// RFC 7162 §3.1.4.1.
    pub fn changed_since(&self, since: ModSeq) -> NumSet<SeqNum> {
        self.select(
            |t| if t.modseq_max > since { ChunkMatch::Some } else { ChunkMatch::None },
            |row| row.modseq() > since,
        )
    }

    /// Bytes of memory this view would take if it shared nothing. Looks at the list of groups only.
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.groups.iter().map(|g| g.item.len()).sum();
        std::mem::size_of::<Self>() + node::memory_bytes(self.groups.len(), chunks, self.exists() as usize)
    }

    /// Group and chunk of a position.
    pub(super) fn locate(&self, index: u32) -> Option<(usize, usize)> {
        if index >= self.exists() {
            return None;
        }
        let g = self.groups.partition_point(|g| g.start <= index).checked_sub(1)?;
        let group = self.groups.get(g)?;
        let within = index - group.start;
        let c = group.item.partition_point(|c| c.start <= within).checked_sub(1)?;
        Some((g, c))
    }

    /// The rows of the chunk that has this UID, or would have it. Empty above the last UID.
    pub(super) fn chunk_of(&self, uid: u32) -> &[Row] {
        let group = self.groups.get(self.groups.partition_point(|g| g.last_uid < uid));
        let chunk = group.and_then(|g| g.item.get(g.item.partition_point(|c| c.last_uid < uid)));
        chunk.map_or(&[], |chunk| &chunk.item[..])
    }

    pub(super) fn rank_of(&self, uid: u32) -> u32 {
        let g = self.groups.partition_point(|g| g.last_uid < uid);
        let Some(group) = self.groups.get(g) else { return self.exists() };
        let c = group.item.partition_point(|c| c.last_uid < uid);
        let Some(chunk) = group.item.get(c) else { return group.start + group.totals.messages };
        group.start + chunk.start + chunk.item.partition_point(|r| r.uid().value() < uid) as u32
    }
}

/// Adds the UIDs of rows that follow each other; a run without holes is one range.
pub(super) fn push_uids(uids: &mut NumSet, rows: &[Row]) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return };
    let (first, last) = (first.uid().value(), last.uid().value());
    if (last - first) as usize == rows.len() - 1 {
        uids.push_range(first, last);
    } else {
        for row in rows {
            uids.push(row.uid().value());
        }
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("head", &self.head)
            .field("exists", &self.exists())
            .finish_non_exhaustive()
    }
}
