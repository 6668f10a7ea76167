//! What a transfer reads of both ends.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use posthaste_mail_model::{BodyId, MailboxId, ModSeq, NumSet};

use super::writer::Contents;
use crate::engine::Engine;
use crate::error::Result;
use crate::head::{Counts, MailboxHead};
use crate::row::Row;

/// Messages in one commit, and octets of them: the messages that a commit keeps in memory.
const BATCH_MESSAGES: usize = 200;
const BATCH_BYTES: u64 = 8 << 20;
/// Bodies read at the same time: a cluster answers slowly, one after the other.
pub(super) const BODIES_AT_ONCE: usize = 8;

/// Head and rows of a mailbox.
pub(super) async fn loaded(engine: &dyn Engine, id: MailboxId) -> Result<(MailboxHead, Vec<Row>)> {
    let mut rows = Vec::new();
    let head = engine.load(id, &mut |slice| rows.extend_from_slice(slice)).await?;
    Ok((head, rows))
}

/// Rows in pieces of bounded number and size.
pub(super) fn batches(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(at, row): &(usize, &Row)| {
            bytes += u64::from(row.size());
            *at == 0 || (*at < BATCH_MESSAGES && bytes <= BATCH_BYTES)
        };
        let length = rest.iter().enumerate().take_while(fits).count();
        let (batch, after) = rest.split_at(length);
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Body, date saved, first mod-sequence and summary of messages, by UID. One that cannot be read
/// ends the transfer, because a copy must be complete.
pub(super) type Summaries = BTreeMap<u32, StoredSummary>;

/// Body, date saved, first mod-sequence and summary.
pub(super) type StoredSummary = (BodyId, i64, ModSeq, Bytes);

/// Whether the summaries of a message at both ends are the same. One that delivery did not make
/// may have been made at one end alone.
pub(super) fn same_summary(rows: &[Row], uid: u32, (one, other): (&Bytes, &Bytes)) -> bool {
    let lacks_items = || {
        let at = rows.binary_search_by_key(&uid, |row| row.uid().value()).ok();
        at.and_then(|at| rows.get(at)).is_some_and(Row::lacks_items)
    };
    one == other || (one.is_empty() || other.is_empty()) && lacks_items()
}

pub(super) async fn summaries(engine: &dyn Engine, id: MailboxId, rows: &[Row]) -> Result<Summaries> {
    let uids: NumSet = rows.iter().map(|row| row.uid().value()).collect();
    let mut found = Summaries::new();
    let mut visit = |stored: crate::engine::Stored<'_>| {
        let summary = Bytes::copy_from_slice(stored.summary);
        found.insert(stored.uid.value(), (stored.body, stored.saved, stored.created, summary));
        ControlFlow::Continue(())
    };
    engine.summaries(id, &uids, &mut visit).await?.refuse()?;
    Ok(found)
}

pub(super) async fn contents(
    engine: &dyn Engine,
    id: MailboxId,
    rows: &[Row],
) -> Result<BTreeMap<u32, Contents>> {
    let found = summaries(engine, id, rows).await?;
    let read = |(uid, (body, saved, created, summary))| async move {
        let bytes = engine.read_body(body, 0..u64::MAX).await?;
        Ok((uid, Contents { body, saved, created, summary, bytes }))
    };
    stream::iter(found).map(read).buffered(BODIES_AT_ONCE).try_collect().await
}

pub(super) fn counted(rows: &[Row]) -> Counts {
    let mut counts = Counts::default();
    rows.iter().for_each(|row| counts.add(row));
    counts
}
