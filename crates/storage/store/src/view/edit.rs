//! Makes the next view from this one and copies only the chunks that a change touches.

use std::sync::Arc;

use posthaste_mail_model::NumSet;

use super::node::{CHUNK_ROWS, Chunk, GROUP_CHUNKS, Group, Node, SMALL, Totals};
use super::runs::gallop;
use super::{Difference, View, ViewBuilder};
use crate::change::MailboxCommit;
use crate::head::MailboxHead;
use crate::row::Row;

impl View {
    /// The view after a commit that was made against this one.
    #[must_use]
    pub fn apply(&self, commit: &MailboxCommit) -> Self {
        debug_assert_eq!(self.modseq(), commit.expected);
        let expunged =
            NumSet::from_ranges(commit.expunged.iter().flat_map(|(_, uids)| uids.ranges().iter().copied()));
        let appended: Vec<Row> = commit.appended.iter().map(|m| m.row).collect();
        self.edited(commit.head.clone(), &commit.changed, &expunged, &appended)
    }

    /// The view with the rows `changed` replaced, the UIDs `expunged` removed and `appended` added.
    /// All are in UID order; `changed` rows that do not exist are ignored. Counts are those of the
    /// rows.
    #[must_use]
    pub fn edited(&self, head: MailboxHead, changed: &[Row], expunged: &NumSet, appended: &[Row]) -> Self {
        let mut pending = Pending { changed, expunged: expunged.ranges() };
        let mut groups = Vec::with_capacity(self.groups.len() + 1);
        for group in &self.groups {
            if pending.touch(group.last_uid) {
                let chunks = edit_group(group, &mut pending);
                if !chunks.is_empty() {
                    push_joining(&mut groups, Group::of(chunks), GROUP_CHUNKS, joined_group);
                }
            } else {
                push_joining(&mut groups, group.clone(), GROUP_CHUNKS, joined_group);
            }
        }
        if appended.is_empty() {
            return Self::of_groups(head, groups);
        }
        let mut builder = ViewBuilder::after(groups);
        builder.push_rows(appended);
        builder.finish(head)
    }

    /// Gives it another head of the same counts.
    pub(crate) fn set_head(&mut self, head: MailboxHead) {
        debug_assert_eq!(head.counts, self.counts());
        self.head = head;
    }

    /// A view with all changes of `newer` except its expunges: the view of a session while no
    /// EXPUNGE can be sent (RFC 9051 §7.5.1). `difference` is that of `newer` from `self`.
    #[must_use]
    pub fn holding_expunged(self: &Arc<Self>, newer: &Arc<Self>, difference: &Difference) -> Arc<Self> {
        if difference.expunged.is_empty() {
            return Arc::clone(newer);
        }
        let mut changed: Vec<Row> = newer.rows(&difference.changed).map(|(_, row)| *row).collect();
        let (older_names, names) = (&self.head.keywords, &newer.head.keywords);
        let renamed = names.renamed_since(older_names);
        if !renamed.is_empty() {
            // No remaining row has a slot that was renamed; an expunged row may.
            let expunged = self.rows(&difference.expunged).filter(|(_, row)| row.flags().intersects(renamed));
            changed.extend(
                expunged
                    .map(|(_, row)| row.with_flags(names.set_from(older_names, row.flags()), row.modseq())),
            );
            changed.sort_unstable_by_key(Row::uid);
        }
        let appended: Vec<Row> = newer.rows(&difference.arrived).map(|(_, row)| *row).collect();
        Arc::new(self.edited(newer.head.clone(), &changed, &NumSet::new(), &appended))
    }
}

/// The part of a change that is not applied yet.
struct Pending<'a> {
    changed: &'a [Row],
    expunged: &'a [(u32, u32)],
}

impl Pending<'_> {
    /// Whether a change applies at or below this UID. Everything below was applied already.
    fn touch(&self, last_uid: u32) -> bool {
        self.changed.first().is_some_and(|row| row.uid().value() <= last_uid)
            || self.expunged.first().is_some_and(|range| range.0 <= last_uid)
    }

    /// The row after the change; call it with ascending UIDs.
    fn edit(&mut self, row: &Row) -> Option<Row> {
        let uid = row.uid();
        let row = match self.changed.first() {
            Some(new) if new.uid() == uid => new,
            _ => row,
        };
        let expunged = self.expunged.first().is_some_and(|range| range.0 <= uid.value());
        self.done_to(uid.value());
        if expunged { None } else { Some(*row) }
    }

    /// Drops the expunges and changes up to this UID.
    fn done_to(&mut self, uid: u32) {
        while let Some((range, rest)) = self.expunged.split_first()
            && range.1 <= uid
        {
            self.expunged = rest;
        }
        while let Some((row, rest)) = self.changed.split_first()
            && row.uid().value() <= uid
        {
            self.changed = rest;
        }
    }

    /// Drops the changes below this UID, where no message exists.
    fn skip_to(&mut self, uid: u32) {
        if uid > 0 {
            self.done_to(uid - 1);
        }
    }
}

fn edit_group(group: &Group, pending: &mut Pending<'_>) -> Vec<Chunk> {
    let mut chunks = Vec::with_capacity(group.item.len());
    for chunk in group.item.iter() {
        if !pending.touch(chunk.last_uid) {
            push_joining(&mut chunks, chunk.clone(), CHUNK_ROWS, joined_chunk);
            continue;
        }
        if let Some(chunk) = edit_chunk(chunk, pending) {
            push_joining(&mut chunks, chunk, CHUNK_ROWS, joined_chunk);
        }
    }
    chunks
}

/// The chunk after its part of the change: the same `Arc` if no row differs, `None` if no row is
/// left.
fn edit_chunk(chunk: &Chunk, pending: &mut Pending<'_>) -> Option<Chunk> {
    if pending.expunged.first().is_none_or(|range| range.0 > chunk.last_uid) {
        return Some(replace_rows(chunk, pending));
    }
    let mut rows = Vec::with_capacity(chunk.item.len());
    for row in chunk.item.iter() {
        pending.skip_to(row.uid().value());
        if pending.touch(row.uid().value()) {
            rows.extend(pending.edit(row));
        } else {
            rows.push(*row);
        }
    }
    match rows.as_slice() {
        [] => None,
        rows if *rows == *chunk.item => Some(chunk.clone()),
        rows => Some(Chunk::of(rows)),
    }
}

/// A chunk that keeps all its rows: copied once, and searched for each changed row.
fn replace_rows(chunk: &Chunk, pending: &mut Pending<'_>) -> Chunk {
    let here = pending.changed.partition_point(|row| row.uid().value() <= chunk.last_uid);
    let (changed, later) = pending.changed.split_at(here);
    pending.changed = later;
    let mut item: Arc<[Row]> = Arc::from(&*chunk.item);
    // No one else holds it yet, so this copies nothing.
    let rows = Arc::make_mut(&mut item);
    let mut from = 0;
    for new in changed {
        // Mostly the very next row.
        from += gallop(&rows[from..], new.uid().value());
        if let Some(row) = rows.get_mut(from).filter(|row| row.uid() == new.uid()) {
            *row = *new;
        }
    }
    Chunk { totals: Totals::of(&item), item, ..*chunk }
}

/// Adds a node after others, joined to the last one if either is small and both fit into one.
fn push_joining<T: Clone>(
    nodes: &mut Vec<Node<T>>,
    node: Node<T>,
    fullest: usize,
    make: impl Fn(Vec<T>) -> Node<T>,
) {
    let joins = |last: &mut Node<T>| {
        let (a, b) = (last.item.len(), node.item.len());
        a.min(b) <= fullest / SMALL && a + b <= fullest
    };
    match nodes.pop_if(joins) {
        Some(last) => nodes.push(make([&*last.item, &*node.item].concat())),
        None => nodes.push(node),
    }
}

fn joined_chunk(rows: Vec<Row>) -> Chunk {
    Chunk::of(&rows)
}

/// A group of chunks from two groups: those that meet may be small, too.
fn joined_group(chunks: Vec<Chunk>) -> Group {
    let mut joined = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        push_joining(&mut joined, chunk, CHUNK_ROWS, joined_chunk);
    }
    Group::of(joined)
}
