//! Segments are merged as they come, and lose the messages that were expunged.

use std::sync::Arc;

use posthaste_mail_model::{MailboxId, NumSet};
use posthaste_search_index::{MESSAGES_MAX, Segment, merge};
use posthaste_store::{MailboxHead, Result};

use crate::SEGMENT_MESSAGES_MIN;
use crate::blocking::blocking;
use crate::index::SearchIndex;
use crate::memory::StoredSegment;
use crate::outline::{Outline, Small};
use crate::stored;
use crate::work::WorkOutcome;

/// Small segments that are merged at once. So each message is written some four times on its way to
/// a full segment, and a mailbox of 100,000 messages has some 30 segments.
const MERGED: usize = 4;

/// Bytes of segments that are merged at once.
const MERGED_BYTES_MAX: u64 = 32 << 20;

/// Mailboxes that are compared with their records at a time.
const PAGE: usize = 256;

impl SearchIndex {
    /// Does one piece of work on the segments of a mailbox, if there is any.
    pub(crate) async fn tidy(
        &self,
        mailbox: MailboxId,
        head: &MailboxHead,
        outline: Outline,
    ) -> Result<WorkOutcome> {
        let live = u64::from(head.counts.messages);
        // More than half of the messages are expunged: the rest is written again.
        if outline.messages > live * 2 + SEGMENT_MESSAGES_MIN as u64 {
            return self.compact(mailbox, outline).await;
        }
        let Some(group) = to_merge(&outline.small) else { return Ok(WorkOutcome::Done) };
        self.replace(mailbox, outline, group, None).await
    }

    /// Writes segments again without the messages that were expunged. All are looked at for that.
    async fn compact(&self, mailbox: MailboxId, outline: Outline) -> Result<WorkOutcome> {
        let known = self.refresh(mailbox).await?;
        // One mailbox after the other: a large one must not keep its expunged messages here.
        let opened = self.shared.store.open_for_upkeep(mailbox).await?;
        let view = opened.current().await?;
        let live = view.uids_of_seqs(&view.all());
        // The segments with the most expunged messages are first.
        let mut by_left: Vec<(u64, &StoredSegment)> = known
            .stored()
            .iter()
            .map(|kept| (kept.meta.indexed.intersection(&live).count(), kept))
            .filter(|(left, kept)| *left < kept.meta.indexed.count())
            .collect();
        by_left.sort_by_key(|(left, kept)| left * 1000 / kept.meta.indexed.count().max(1));
        let (mut messages, mut group) = (0, Vec::new());
        for (left, kept) in by_left.into_iter().take(MERGED) {
            messages += left;
            if messages > MESSAGES_MAX as u64 {
                break;
            }
            group.push(Small::of(&kept.meta));
        }
        if group.is_empty() {
            return Ok(WorkOutcome::Done);
        }
        self.replace(mailbox, outline, group, Some(live)).await
    }

    /// Stores one segment in place of these. With `live`, it has only messages of these UIDs.
    async fn replace(
        &self,
        mailbox: MailboxId,
        outline: Outline,
        group: Vec<Small>,
        live: Option<NumSet>,
    ) -> Result<WorkOutcome> {
        let mut segments = Vec::with_capacity(group.len());
        for small in &group {
            let kept = self.shared.memory.lock().segments.get(mailbox).find(small.uid);
            let segment = match kept.filter(|kept| kept.meta.body == small.body) {
                Some(kept) => self.load(mailbox, &kept).await?,
                None => self.load_stored(mailbox, small.uid, small.body).await?,
            };
            // A damaged one is removed: the segments are listed again.
            let Some(segment) = segment else { return Ok(WorkOutcome::Again) };
            segments.push(segment);
        }
        let scanned: NumSet = NumSet::from_ranges(segments.iter().flat_map(|segment| segment.scanned()));
        let merged = blocking(move || {
            let segments: Vec<&Segment> = segments.iter().map(Arc::as_ref).collect();
            let kept = |uid| live.as_ref().is_none_or(|live| live.contains(uid));
            merge(&segments, scanned.ranges(), kept)
        });
        // The new one first: a crash in between leaves both, and the old ones are removed later.
        let Some(merged) = merged.await? else {
            debug_assert!(false, "more messages than a segment has were merged");
            return Ok(WorkOutcome::Done);
        };
        let outline = self.store_segment(mailbox, outline, Arc::new(merged)).await?;
        let uids: NumSet = group.iter().map(|small| small.uid.value()).collect();
        let at = stored::remove(&self.shared.store, mailbox, &uids).await?;
        self.set_outline(mailbox, outline.without(&group, at)).await?;
        Ok(WorkOutcome::Again)
    }

    /// Removes the segments of mailboxes that another process deleted.
    pub(crate) async fn sweep(&self) {
        if let Err(error) = self.try_sweep().await {
            tracing::warn!(%error, "segments of deleted mailboxes were not removed");
        }
    }

    async fn try_sweep(&self) -> Result<()> {
        let (store, mut after) = (&self.shared.store, None);
        loop {
            let marked = stored::marked(store, after, PAGE).await?;
            let Some(last) = marked.last() else { return Ok(()) };
            after = Some(*last);
            for (mailbox, head) in marked.iter().zip(store.engine().heads(&marked).await?) {
                if head.is_none() {
                    self.shared.memory.lock().forget(*mailbox);
                    stored::remove_place(store, *mailbox).await?;
                }
            }
        }
    }
}

/// Small segments that fit into one. They come with the smallest first.
fn to_merge(all: &[Small]) -> Option<Vec<Small>> {
    let (mut messages, mut bytes, mut group) = (0, 0_u64, Vec::new());
    for small in all {
        messages += u64::from(small.messages);
        bytes = bytes.saturating_add(small.bytes);
        if messages > MESSAGES_MAX as u64 || bytes > MERGED_BYTES_MAX {
            break;
        }
        group.push(*small);
    }
    (group.len() >= MERGED).then_some(group)
}
