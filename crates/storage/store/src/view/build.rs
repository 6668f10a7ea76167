//! Building a view from rows in UID order: when a mailbox is loaded, and for rows that are appended
//! to one.

use super::node::{CHUNK_ROWS, Chunk, GROUP_CHUNKS, Group};
use super::value::View;
use crate::head::MailboxHead;
use crate::row::Row;

/// Takes rows in slices of any length and makes a view of them.
#[derive(Default)]
pub struct ViewBuilder {
    groups: Vec<Group>,
    chunks: Vec<Chunk>,
    rows: Vec<Row>,
}

impl ViewBuilder {
    /// With no rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues after the rows of these groups: the last chunk is filled up first.
    pub(super) fn after(mut groups: Vec<Group>) -> Self {
        let Some(last) = groups.pop() else { return Self::new() };
        let mut chunks = last.item.to_vec();
        let mut rows = Vec::new();
        if let Some(chunk) = chunks.pop_if(|c| c.item.len() < CHUNK_ROWS) {
            rows.extend_from_slice(&chunk.item);
        }
        let mut builder = Self { groups, chunks, rows };
        builder.close_full_group();
        builder
    }

    /// Adds rows, whose UIDs are above all before.
    pub fn push_rows(&mut self, mut rows: &[Row]) {
        while !rows.is_empty() {
            // A whole chunk goes in without a stop in between.
            if self.rows.is_empty() && rows.len() >= CHUNK_ROWS {
                let (chunk, rest) = rows.split_at(CHUNK_ROWS);
                self.push_chunk(Chunk::of(chunk));
                rows = rest;
                continue;
            }
            let (part, rest) = rows.split_at(rows.len().min(CHUNK_ROWS - self.rows.len()));
            self.rows.extend_from_slice(part);
            rows = rest;
            if self.rows.len() == CHUNK_ROWS {
                self.close_chunk();
            }
        }
    }

    /// Adds one row.
    pub fn push(&mut self, row: Row) {
        self.push_rows(&[row]);
    }

    /// The view, under this head. Its counts are those of the rows.
    pub fn finish(mut self, head: MailboxHead) -> View {
        self.close_chunk();
        if !self.chunks.is_empty() {
            // The last one: room for more would be given back at once.
            self.groups.reserve_exact(1);
            self.groups.push(Group::of(std::mem::take(&mut self.chunks)));
        }
        View::of_groups(head, self.groups)
    }

    fn close_chunk(&mut self) {
        if !self.rows.is_empty() {
            let chunk = Chunk::of(&self.rows);
            self.rows.clear();
            self.push_chunk(chunk);
        }
    }

    fn push_chunk(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
        self.close_full_group();
    }

    fn close_full_group(&mut self) {
        if self.chunks.len() >= GROUP_CHUNKS {
            self.groups.push(Group::of(std::mem::take(&mut self.chunks)));
        }
    }
}
