//! The memory that a view takes in addition to another one of its mailbox.

use super::node::{self, Chunk, Group};
use super::value::View;

impl View {
    /// Bytes of memory of this view that another one does not share. Looks at the groups of both,
    /// and at the chunks of groups that they do not share.
    pub fn bytes_beside(&self, other: &Self) -> usize {
        let (mut groups, mut chunks, mut rows) = (0, 0, 0);
        let mut theirs = other.groups.as_slice();
        let mut their_chunks = Chunks { groups: &other.groups, at: 0 };
        for group in &self.groups {
            while let Some((first, rest)) = theirs.split_first()
                && first.last_uid < group.last_uid
            {
                theirs = rest;
            }
            if theirs.first().is_some_and(|first| first.is_same(group)) {
                continue;
            }
            groups += 1;
            chunks += group.item.len();
            for chunk in group.item.iter() {
                if !their_chunks.have(chunk) {
                    rows += chunk.item.len();
                }
            }
        }
        let shared = (self.groups.len() - groups) * size_of::<Group>();
        size_of::<Self>() + shared + node::memory_bytes(groups, chunks, rows)
    }
}

/// A walk over the chunks of a view. Groups that are not asked for are passed as a whole.
struct Chunks<'v> {
    groups: &'v [Group],
    /// The place in the first of them.
    at: usize,
}

impl Chunks<'_> {
    /// Whether this chunk is among them. Ask for chunks in their order.
    fn have(&mut self, chunk: &Chunk) -> bool {
        while let Some((first, rest)) = self.groups.split_first()
            && first.last_uid < chunk.last_uid
        {
            (self.groups, self.at) = (rest, 0);
        }
        let Some(group) = self.groups.first() else { return false };
        // The last chunk of the group has the last UID of the group: it ends the search.
        while group.item[self.at].last_uid < chunk.last_uid {
            self.at += 1;
        }
        group.item[self.at].is_same(chunk)
    }
}
