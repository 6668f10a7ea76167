//! Segments in the store: each is the body of a message, in a mailbox that clients do not see.
//!
//! So segments are kept, checked, rebuilt and removed as all mail is, on every engine. The body
//! begins with a header field, so that what delivery and a redo compute of it is small.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, MailboxId, MailboxName, ModSeq, NumSet, Uid};
use posthaste_net::on_compute_thread;
use posthaste_search_index::{Front, Segment};
use posthaste_store::{
    CommitOutcome, DirectoryChange, IncomingMessage, MailboxEntry, Place, Result, Store, StoreError, Stored,
};

use crate::blocking::blocking;
use crate::meta::Meta;
use crate::outline::Outline;
use crate::places;

/// The header before a segment.
const HEAD: &[u8] = b"Content-Type: application/octet-stream\r\n\r\n";

/// How often a marker is written again after someone else changed it.
const TRIES: usize = 16;

/// The messages that are segments of a mailbox, with their bodies; and those that cannot be read.
pub(crate) async fn list(store: &Store, mailbox: MailboxId) -> Result<(Vec<(Uid, BodyId)>, NumSet)> {
    let opened = store.open_for_upkeep(places::of(mailbox)).await?;
    let view = opened.current().await?;
    let uids = view.uids_of_seqs(&view.all());
    let mut found = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        found.push((stored.uid, stored.body));
        ControlFlow::Continue(())
    };
    let unreadable = opened.summaries(&uids, &mut visit).await?;
    Ok((found, unreadable.0))
}

/// Bytes of a segment that a task verifies itself: some 0.2 ms. One may have over 16 MiB.
const VERIFIED_HERE_MAX: usize = 512 * 1024;

/// Reads a segment of a mailbox. `None` if it is damaged or lost. A long one is read with pauses.
pub(crate) async fn read(store: &Store, mailbox: MailboxId, body: BodyId) -> Result<Option<Segment>> {
    match store.read_body(Place::Mailbox(mailbox), body, 0..u64::MAX).await {
        Ok(bytes) => verified(bytes).await,
        Err(StoreError::Corrupt(_) | StoreError::Body { .. } | StoreError::Unreadable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The segment of a body; `None` if it is damaged. A long one is verified on another thread.
async fn verified(bytes: Bytes) -> Result<Option<Segment>> {
    let is_long = bytes.len() > VERIFIED_HERE_MAX;
    let work = move || Segment::read(bytes.strip_prefix(HEAD)?.to_vec()).ok();
    if is_long { blocking(work).await } else { Ok(work()) }
}

/// Bytes that are read first for the front of a segment: all of it in a small segment.
const FRONT_BYTES: u64 = 64 * 1024;

/// Reads the front of a segment, and verifies it. `None` if it is damaged or lost.
pub(crate) async fn read_front(store: &Store, body: BodyId) -> Result<Option<Bytes>> {
    match try_read_front(store, body).await {
        Ok(front) => Ok(front.filter(|bytes| Front::read(bytes).is_ok())),
        Err(StoreError::Corrupt(_) | StoreError::Body { .. } | StoreError::Unreadable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn try_read_front(store: &Store, body: BodyId) -> Result<Option<Bytes>> {
    let head = HEAD.len() as u64;
    let first = store.engine().read_body(body, 0..FRONT_BYTES).await?;
    let Some(len) = first.strip_prefix(HEAD).and_then(Front::len_of) else { return Ok(None) };
    if first.len() >= HEAD.len() + len {
        return Ok(Some(first.slice(HEAD.len()..HEAD.len() + len)));
    }
    Ok(Some(store.engine().read_body(body, head..head + len as u64).await?))
}

/// Writes a segment. The first one of a mailbox makes the place for it. Returns the facts about it,
/// and the mod-sequence of the place after it.
pub(crate) async fn add(
    store: &Store,
    mailbox: MailboxId,
    segment: &Arc<Segment>,
) -> Result<Option<(Meta, ModSeq)>> {
    let place = places::of(mailbox);
    if store.status(&[place]).await?.into_iter().flatten().next().is_none() {
        make_place(store, mailbox).await?;
    }
    let shared = Arc::clone(segment);
    let work = move || {
        let message = Bytes::from([HEAD, shared.as_bytes()].concat());
        let summary = Bytes::from(posthaste_delivery::summarize(&message));
        (message, summary)
    };
    let (bytes, summary) = on_compute_thread(work).await.map_err(|_| StoreError::Busy)?;
    let body = store.new_body_id();
    let message = IncomingMessage {
        bytes,
        summary,
        body,
        flags: Vec::new(),
        date: u32::try_from(store.unix_ms() / 1000).unwrap_or(u32::MAX),
        saved: None,
    };
    let appended = store.destination(place).without_limit().append(vec![message]).await?;
    let meta = appended.uids.first().map(|uid| Meta::of(*uid, body, segment));
    Ok(meta.map(|meta| (meta, appended.modseq)))
}

/// Removes segments of a mailbox. Returns the mod-sequence of the place after it.
pub(crate) async fn remove(store: &Store, mailbox: MailboxId, uids: &NumSet) -> Result<ModSeq> {
    // No user has this folder, so nothing needs to see its changes.
    let _ = store.destination(places::of(mailbox)).without_limit();
    Ok(store.open_for_upkeep(places::of(mailbox)).await?.remove(uids).await?.modseq)
}

/// Removes all that is stored for a mailbox.
pub(crate) async fn remove_place(store: &Store, mailbox: MailboxId) -> Result<()> {
    let place = places::of(mailbox);
    store
        .change_list(places::account(mailbox), |list, draft| {
            if list.entries.iter().any(|entry| entry.id == place) {
                draft.remove(place);
            }
            Ok(())
        })
        .await?;
    // Last: as long as there is a place, the record leads to it.
    set_marker(store, mailbox, None).await
}

async fn make_place(store: &Store, mailbox: MailboxId) -> Result<()> {
    set_marker(store, mailbox, Some(Bytes::new())).await?;
    let place = places::of(mailbox);
    let name = MailboxName::inbox();
    store
        .change_list(places::account(mailbox), |list, draft| {
            if !list.entries.iter().any(|entry| entry.id == place) {
                let uid_validity = draft.new_uid_validity()?;
                let name = name.clone();
                draft.upsert(MailboxEntry { id: place, name, uid_validity, special_use: None });
            }
            Ok(())
        })
        .await
}

/// The outline in the record of a mailbox. It may be an old one.
pub(crate) async fn outline(store: &Store, mailbox: MailboxId) -> Result<Option<Outline>> {
    let entry = store.engine().directory_entry(&places::marker(mailbox)).await?;
    Ok(entry.and_then(|entry| Outline::read(&entry.value)))
}

/// Writes the outline into the record of a mailbox that has segments. Where others change the
/// record at the same time, theirs may stay: it is looked at by its mod-sequence.
pub(crate) async fn set_outline(store: &Store, mailbox: MailboxId, outline: &Outline) -> Result<()> {
    let Some(value) = outline.to_bytes() else { return Ok(()) };
    let name = places::marker(mailbox);
    if let Some(entry) = store.engine().directory_entry(&name).await?
        && entry.value != value
    {
        let change = DirectoryChange { name, expected: entry.version, value: Some(value) };
        store.engine().directory_commit(change).await?;
    }
    Ok(())
}

/// Writes or removes the record that says that a mailbox has segments.
async fn set_marker(store: &Store, mailbox: MailboxId, value: Option<Bytes>) -> Result<()> {
    let name = places::marker(mailbox);
    for _ in 0..TRIES {
        let entry = store.engine().directory_entry(&name).await?;
        if entry.as_ref().map(|entry| &entry.value) == value.as_ref() {
            return Ok(());
        }
        let expected = entry.map_or(0, |entry| entry.version);
        let change = DirectoryChange { name: name.clone(), expected, value: value.clone() };
        if store.engine().directory_commit(change).await? == CommitOutcome::Done {
            return Ok(());
        }
    }
    Err(StoreError::Busy)
}

/// Mailboxes that have segments, after this one, in order; at most `limit`.
pub(crate) async fn marked(store: &Store, after: Option<MailboxId>, limit: usize) -> Result<Vec<MailboxId>> {
    let after = after.map(places::marker);
    let entries = store.engine().directory_scan(places::MARKERS, after.as_deref(), limit).await?;
    Ok(entries.iter().filter_map(|entry| places::marked(&entry.name)).collect())
}

#[cfg(test)]
mod tests {
    use posthaste_net::given_to_compute_threads;

    use super::*;

    /// 16 MiB took a poll of over 20 ms.
    #[tokio::test]
    async fn a_long_segment_is_verified_on_another_thread() {
        for (len, is_long) in [(1000, false), (VERIFIED_HERE_MAX, true)] {
            let given = given_to_compute_threads();
            let read = verified(Bytes::from([HEAD, &vec![0; len][..]].concat())).await.unwrap();
            assert!(read.is_none(), "zeros are no segment");
            assert_eq!(given_to_compute_threads() - given, usize::from(is_long), "{len} bytes");
        }
    }
}
