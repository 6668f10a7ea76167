//! The difference of two views of one mailbox: what a session that knows the one has to be told to
//! know the other.
//!
//! Chunks that both share are passed over unseen, so that the cost follows the change and not the
//! folder.

use posthaste_mail_model::{NumSet, SeqNum};

use super::View;
use super::node::{Chunk, Group};
use crate::row::Row;

/// What became of a view. To announce it: EXPUNGE for [`Difference::expunged_descending`] (or
/// VANISHED for [`Difference::expunged_uids`]), then EXISTS if [`Difference::arrived`] is not
/// empty, then FETCH for [`Difference::changed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// Sequence numbers in the **old** view of messages that are gone.
    pub expunged: NumSet,
    /// Their UIDs.
    pub expunged_uids: NumSet,
    /// Sequence numbers in the **new** view of messages that were there and have other flags or
    /// another mod-sequence.
    pub changed: NumSet,
    /// Sequence numbers in the new view of messages that came.
    pub arrived: NumSet,
    /// Messages in the new view.
    pub exists: u32,
    /// Whether the mailbox has other keywords than it had: FLAGS is to be sent again
    /// (RFC 9051 §7.3.5).
    pub new_keywords: bool,
}

impl Difference {
    /// The difference of `new` from `old`.
    pub fn between(old: &View, new: &View) -> Self {
        let mut diff = Self {
            exists: new.exists(),
            new_keywords: old.head.keywords != new.head.keywords,
            ..Self::default()
        };
        let (mut a, mut b) = (Cursor::new(old), Cursor::new(new));
        loop {
            if a.skip_same(&mut b) {
                continue;
            }
            match (a.rows(), b.rows()) {
                ([], []) => return diff,
                (gone, []) => diff.gone(&mut a, gone),
                ([], came) => {
                    diff.arrived.push_range(b.index + 1, b.index + came.len() as u32);
                    b.advance(came.len());
                }
                (x, y) => diff.compare(&mut a, &mut b, x, y),
            }
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.expunged.is_empty() && self.changed.is_empty() && self.arrived.is_empty() && !self.new_keywords
    }

    /// The numbers to put into EXPUNGE responses, in this order: from the highest down, none shifts
    /// another (RFC 9051 §7.5.1).
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

    fn gone(&mut self, a: &mut Cursor<'_>, rows: &[Row]) {
        self.expunged.push_range(a.index + 1, a.index + rows.len() as u32);
        super::push_uids(&mut self.expunged_uids, rows);
        a.advance(rows.len());
    }
}

/// A place in a view.
struct Cursor<'v> {
    groups: &'v [Group],
    chunks: &'v [Chunk],
    /// Rows of the first of `chunks` that are behind.
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

    /// What is left of the chunk under way; empty at the end of the view.
    fn rows(&self) -> &'v [Row] {
        self.chunks.first().and_then(|c| c.item.get(self.row..)).unwrap_or_default()
    }

    fn advance(&mut self, rows: usize) {
        self.row += rows;
        self.group_rows = 0;
        self.index += rows as u32;
        if self.chunks.first().is_some_and(|c| c.item.len() == self.row) {
            self.skip_chunks(1);
        }
    }

    fn skip_chunks(&mut self, n: usize) {
        (self.chunks, self.row, self.group_rows) = (self.chunks.get(n..).unwrap_or_default(), 0, 0);
        self.enter_group();
    }

    /// Passes over whatever both places share; whether there was anything.
    fn skip_same(&mut self, other: &mut Self) -> bool {
        if self.row != 0 || other.row != 0 {
            return false;
        }
        if self.group_rows > 0 && other.group_rows > 0 && std::ptr::eq(self.chunks, other.chunks) {
            let rows = self.group_rows;
            for cursor in [self, other] {
                cursor.index += rows;
                cursor.skip_chunks(usize::MAX);
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
