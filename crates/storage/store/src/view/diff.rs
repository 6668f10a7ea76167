//! The difference of two views of one mailbox: the changes to report to a session that knows one of
//! them.
//!
//! Chunks that both views share are skipped, so that the cost follows the change and not the
//! folder.

use posthaste_mail_model::{NumSet, SeqNum};

use super::node::{Chunk, Group};
use super::value::{View, push_uids};
use crate::row::Row;

/// The changes of a view. Report them in this order: EXPUNGE for
/// [`Difference::expunged_descending`] (or VANISHED for [`Difference::expunged_uids`]), then EXISTS
/// if [`Difference::arrived`] is not empty, then FETCH for [`Difference::changed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Sequence numbers in the **old** view of messages that were expunged.
    pub expunged: NumSet<SeqNum>,
    /// The UIDs of the expunged messages.
    pub expunged_uids: NumSet,
    /// Sequence numbers in the **new** view of messages that existed before and have other flags or
    /// another mod-sequence.
    pub changed: NumSet<SeqNum>,
    /// Sequence numbers in the new view of added messages.
    pub arrived: NumSet<SeqNum>,
    /// Messages in the new view.
    pub exists: u32,
    /// Whether the keyword table changed, so that FLAGS must be sent again (RFC 9051 §7.3.5).
    pub new_keywords: bool,
}

/// A comparison of two views, in pieces: very many rows may have changed at once.
pub struct Comparison<'v> {
    difference: Difference,
    old: Cursor<'v>,
    new: Cursor<'v>,
}

impl<'v> Comparison<'v> {
    pub(super) fn new(old: &'v View, new: &'v View) -> Self {
        let difference = Difference {
            exists: new.exists(),
            new_keywords: old.head.keywords != new.head.keywords,
            ..Difference::default()
        };
        Self { difference, old: Cursor::new(old), new: Cursor::new(new) }
    }

    /// Compares at least this many rows that the views do not share. Returns whether that was
    /// all.
    pub fn compare(&mut self, rows: u64) -> bool {
        let Self { difference, old, new } = self;
        let mut compared = 0;
        while compared < rows {
            if old.skip_same(new) {
                continue;
            }
            let before = old.position() + new.position();
            match (old.rows(), new.rows()) {
                ([], []) => return true,
                (expunged, []) => difference.note_expunged(old, expunged),
                ([], came) => {
                    difference.arrived.push_range(new.index + 1, new.index + came.len() as u32);
                    new.advance(came.len());
                }
                (x, y) => difference.compare(old, new, x, y),
            }
            compared += old.position() + new.position() - before;
        }
        false
    }

    /// The difference, as far as it was compared.
    pub fn difference(self) -> Difference {
        self.difference
    }
}

impl Difference {
    /// The difference of `new` from `old`.
    pub fn between(old: &View, new: &View) -> Self {
        let mut comparison = Comparison::new(old, new);
        while !comparison.compare(u64::from(u32::MAX)) {}
        comparison.difference
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.expunged.is_empty() && self.changed.is_empty() && self.arrived.is_empty() && !self.new_keywords
    }

    /// The numbers for EXPUNGE responses, from the highest down, so that none shifts another
    /// (RFC 9051 §7.5.1).
    pub fn expunged_descending(&self) -> impl Iterator<Item = SeqNum> + '_ {
        self.expunged.iter().rev().filter_map(SeqNum::new)
    }

    /// Walks two slices of rows until one of them ends.
    fn compare(&mut self, a: &mut Cursor<'_>, b: &mut Cursor<'_>, x: &[Row], y: &[Row]) {
        let (mut i, mut j) = (0, 0);
        while let (Some(old), Some(new)) = (x.get(i), y.get(j)) {
            if old.uid() == new.uid() {
                if old != new {
                    self.changed.push(b.index + 1 + j as u32);
                }
                (i, j) = (i + 1, j + 1);
            } else if old.uid() < new.uid() {
                self.expunged.push(a.index + 1 + i as u32);
                self.expunged_uids.push(old.uid().value());
                i += 1;
            } else {
                self.arrived.push(b.index + 1 + j as u32);
                j += 1;
            }
        }
        a.advance(i);
        b.advance(j);
    }

    fn note_expunged(&mut self, a: &mut Cursor<'_>, rows: &[Row]) {
        self.expunged.push_range(a.index + 1, a.index + rows.len() as u32);
        push_uids(&mut self.expunged_uids, rows);
        a.advance(rows.len());
    }
}

/// A place in a view.
struct Cursor<'v> {
    groups: &'v [Group],
    chunks: &'v [Chunk],
    /// Rows of the first of `chunks` that were passed.
    row: usize,
    /// At the start of a group: how many rows it has. 0 anywhere else.
    group_rows: u32,
    /// Position in the view.
    index: u32,
}

impl<'v> Cursor<'v> {
    fn new(view: &'v View) -> Self {
        let mut cursor = Self { groups: &view.groups, chunks: &[], row: 0, group_rows: 0, index: 0 };
        cursor.enter_group();
        cursor
    }

    fn enter_group(&mut self) {
        if self.chunks.is_empty()
            && let Some((first, rest)) = self.groups.split_first()
        {
            (self.chunks, self.groups, self.group_rows) = (&first.item, rest, first.totals.messages);
        }
    }

    /// The number of rows that were passed.
    fn position(&self) -> u64 {
        u64::from(self.index)
    }

    /// The rest of the current chunk; empty at the end of the view.
    fn rows(&self) -> &'v [Row] {
        self.chunks.first().map_or(&[], |chunk| &chunk.item[self.row..])
    }

    fn advance(&mut self, rows: usize) {
        self.row += rows;
        self.group_rows = 0;
        self.index += rows as u32;
        if self.chunks.first().is_some_and(|c| c.item.len() == self.row) {
            self.go_on_at(&self.chunks[1..]);
        }
    }

    /// Continues at the first of `chunks`, or in the next group if there is none.
    fn go_on_at(&mut self, chunks: &'v [Chunk]) {
        (self.chunks, self.row, self.group_rows) = (chunks, 0, 0);
        self.enter_group();
    }

    /// Skips the chunks that both places share. Returns whether anything was skipped.
    fn skip_same(&mut self, other: &mut Self) -> bool {
        if self.row != 0 || other.row != 0 {
            return false;
        }
        if self.group_rows > 0 && other.group_rows > 0 && std::ptr::eq(self.chunks, other.chunks) {
            let rows = self.group_rows;
            for cursor in [self, other] {
                cursor.index += rows;
                cursor.go_on_at(&[]);
            }
            return true;
        }
        match (self.chunks.first(), other.chunks.first()) {
            (Some(a), Some(b)) if a.is_same(b) => {
                self.advance(a.item.len());
                other.advance(b.item.len());
                true
            }
            _ => false,
        }
    }
}
