//! What clients see of bodies that are stored in another form.
//!
//! A body that is stored as clients see it costs one comparison of 16 bytes more. A body in another
//! form is read and converted whole, once for all who read it at that time. The result is kept
//! within a budget, so a client that reads it in small pieces pays for one conversion.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::BodyId;
use tokio::sync::OnceCell;

use crate::cache::Cache;
use crate::engine::{BodyRange, Engine, Epoch};
use crate::error::{Result, StoreError};
use crate::form::FormHeader;

/// Pieces of a larger message are copied out of it, so that a slow client does not hold all of it.
const SHARED_LEN_MAX: usize = 128 << 10;
/// Bytes for the notes which bodies have a header: 4,096 of them. A note saves a read of the
/// body's beginning for each piece of a large message. So many messages are not read at a time.
const NOTES_BYTES: usize = 4_096 * 128;

/// Times that a range is read again because another process committed meanwhile.
const TRIES_MAX: usize = 4;

/// Makes the message that clients see of a body with a [`FormHeader`], and its items.
#[async_trait]
pub trait Serve: Send + Sync {
    /// The message as clients see it.
    async fn serve(&self, stored: Bytes) -> Result<Bytes>;

    /// The summary of a message as clients see it, if delivery made none.
    async fn summarize(&self, served: Bytes) -> Result<Bytes>;

    /// RFC822.SIZE by a summary.
    fn octets(&self, summary: &[u8]) -> Option<u32>;

    /// Whether summaries that are made for a reader are stored.
    fn keeps_summaries(&self) -> bool;
}

/// For a store without conversions.
pub(crate) struct NoForms;

#[async_trait]
impl Serve for NoForms {
    async fn serve(&self, _: Bytes) -> Result<Bytes> {
        Err(StoreError::Unavailable("a body is in a form that this program does not convert".to_owned()))
    }

    async fn summarize(&self, _: Bytes) -> Result<Bytes> {
        Err(StoreError::Unavailable("this program makes no summaries of stored messages".to_owned()))
    }

    fn octets(&self, _: &[u8]) -> Option<u32> {
        None
    }

    fn keeps_summaries(&self) -> bool {
        false
    }
}

/// The conversions under way and those that are kept.
pub(crate) struct Served {
    pub serve: Arc<dyn Serve>,
    kept: Mutex<Cache<BodyId, Arc<OnceCell<Bytes>>>>,
    /// Which bodies of those read last have a header, and the engine's epoch when that was read.
    /// Another process may change the form of a body.
    notes: Mutex<Cache<BodyId, (bool, Epoch)>>,
}

impl Served {
    pub fn new(serve: Arc<dyn Serve>, budget: usize) -> Self {
        Self { serve, kept: Mutex::new(Cache::new(budget)), notes: Mutex::new(Cache::new(NOTES_BYTES)) }
    }

    /// A range of a body as clients see it, cut at its end.
    pub async fn read(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        if range.start > 0 {
            return self.read_from_middle(engine, body, range).await;
        }
        let bytes = engine.read_body(body, 0..range.end.max(FormHeader::LEN as u64)).await?;
        if FormHeader::of(&bytes).is_some() {
            return self.converted(engine, body, range).await;
        }
        let end = usize::try_from(range.end).unwrap_or(usize::MAX);
        Ok(if bytes.len() > end { bytes.slice(..end) } else { bytes })
    }

    /// A range that does not show whether the body has a header. While the epoch stays the same, so
    /// does the form.
    async fn read_from_middle(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        for _ in 0..TRIES_MAX {
            let epoch = engine.epoch();
            if self.has_header(engine, body, epoch).await? {
                break;
            }
            let bytes = engine.read_body(body, range.clone()).await?;
            if engine.epoch() == epoch {
                return Ok(bytes);
            }
        }
        // It has one, or other processes commit all the time: a body that is read whole is of one
        // form.
        self.converted(engine, body, range).await
    }

    /// Whether clients see other bytes than those that are stored.
    pub async fn is_in_another_form(&self, engine: &dyn Engine, body: BodyId) -> Result<bool> {
        self.has_header(engine, body, engine.epoch()).await
    }

    async fn has_header(&self, engine: &dyn Engine, body: BodyId, epoch: Epoch) -> Result<bool> {
        if let Some((has_header, read_at)) = self.notes.lock().get(&body)
            && *read_at == epoch
        {
            return Ok(*has_header);
        }
        let begin = engine.read_body(body, 0..FormHeader::LEN as u64).await?;
        let has_header = FormHeader::of(&begin).is_some();
        let mut notes = self.notes.lock();
        notes.insert(body, (has_header, epoch), 0);
        notes.evict(|_| false);
        Ok(has_header)
    }

    async fn converted(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        let cell = self.kept.lock().get_or_insert_with(body, Arc::default);
        let make = || async {
            let stored = engine.read_body(body, 0..u64::MAX).await?;
            match FormHeader::of(&stored) {
                Some(_) => self.serve.serve(stored).await,
                None => Ok(stored),
            }
        };
        let whole = cell.get_or_try_init(make).await;
        let evicted = {
            let mut kept = self.kept.lock();
            match &whole {
                Ok(whole) => kept.set_bytes(&body, whole.len()),
                Err(_) => drop(kept.remove_if(&body, |known| Arc::ptr_eq(known, &cell))),
            }
            kept.evict(|cell| Arc::strong_count(cell) > 1)
        };
        drop(evicted);
        let whole = whole?;
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(whole.len());
        let (start, end) = (at(range.start), at(range.end).max(at(range.start)));
        if whole.len() <= SHARED_LEN_MAX || end - start == whole.len() {
            return Ok(whole.slice(start..end));
        }
        Ok(Bytes::copy_from_slice(&whole[start..end]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use posthaste_mail_model::{AccountId, MailboxId, NumSet, Uid};

    use super::*;
    use crate::form::Form;
    use crate::suite::{add_mailbox, new_id};
    use crate::{IncomingMessage, MemoryEngine, Store, StoreOptions};

    /// Doubles the stored body, and counts how often. A summary is the length, as a number.
    #[derive(Default)]
    struct Doubling(AtomicUsize, bool);

    #[async_trait]
    impl Serve for Doubling {
        async fn serve(&self, stored: Bytes) -> Result<Bytes> {
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let content = FormHeader::content(&stored);
            if content.is_empty() {
                return Err(StoreError::Corrupt("nothing to double".to_owned()));
            }
            Ok([&content[..], &content[..]].concat().into())
        }

        async fn summarize(&self, served: Bytes) -> Result<Bytes> {
            Ok(served.len().to_string().into())
        }

        fn octets(&self, summary: &[u8]) -> Option<u32> {
            std::str::from_utf8(summary).ok()?.parse().ok()
        }

        fn keeps_summaries(&self) -> bool {
            self.1
        }
    }

    struct World {
        store: Store,
        serve: Arc<Doubling>,
        mailbox: MailboxId,
    }

    impl World {
        async fn new(budget: usize) -> Self {
            Self::with(Doubling::default(), budget).await
        }

        async fn with(serve: Doubling, budget: usize) -> Self {
            let engine = Arc::new(MemoryEngine::default());
            let (account, mailbox) = (AccountId(new_id()), MailboxId(new_id()));
            add_mailbox(&*engine, account, mailbox).await;
            let serve = Arc::new(serve);
            let options = StoreOptions {
                serve: Arc::clone(&serve) as Arc<dyn Serve>,
                served_bytes: budget,
                ..StoreOptions::default()
            };
            Self { store: Store::new(engine, options), serve, mailbox }
        }

        async fn append(&self, content: &[u8], served_len: usize) -> (Uid, BodyId) {
            let header = FormHeader { form: Form::Rich, served_len: served_len as u32, digest: [0; 8] };
            let is_served = served_len == content.len();
            let bytes = if is_served { Bytes::copy_from_slice(content) } else { header.before(content) };
            let body = self.store.new_body_id();
            let summary = Bytes::from_static(b"summary");
            let message = IncomingMessage { bytes, summary, body, flags: vec![], date: 1, saved: None };
            let appended = self.store.destination(self.mailbox).append(vec![message]).await.unwrap();
            (appended.uids[0], body)
        }

        fn conversions(&self) -> usize {
            self.serve.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_in_pieces_pays_once() {
        let world = World::new(1 << 20).await;
        let content: Vec<u8> = (0..150_000u32).map(|n| (n % 251) as u8).collect();
        let (rich, body) = world.append(&content, 300_000).await;
        let (plain, plain_body) = world.append(&content, 150_000).await;
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        let sizes: Vec<_> = mailbox.view().rows(&mailbox.view().all()).map(|(_, r)| r.size()).collect();
        assert_eq!(sizes, [300_000, 150_000]);
        let whole = [&content[..], &content[..]].concat();
        for start in (0..300_500).step_by(4096) {
            let read = mailbox.read_body(rich, body, start..start + 4096).await.unwrap();
            let (start, end) = (start as usize, (start as usize + 4096).min(300_000));
            assert_eq!(read, &whole[start..end]);
        }
        assert_eq!(world.conversions(), 1);
        assert_eq!(mailbox.read_body(rich, body, 0..u64::MAX).await.unwrap(), whole);
        assert_eq!(mailbox.read_body(rich, body, 0..4).await.unwrap(), whole[..4]);
        for range in [0..u64::MAX, 0..4, 7..9, 149_990..200_000, 200_000..200_001] {
            let read = mailbox.read_body(plain, plain_body, range.clone()).await.unwrap();
            let at = |n: u64| (n as usize).min(content.len());
            assert_eq!(read, content[at(range.start)..at(range.end)]);
        }
        assert_eq!(world.conversions(), 1);
    }

    #[tokio::test]
    async fn who_reads_at_the_same_time_pays_together_and_the_budget_holds() {
        let world = World::new(1_000).await;
        let (first, body) = world.append(&[b'a'; 400], 800).await;
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        let read = || mailbox.read_body(first, body, 10..20);
        let (one, other) = tokio::join!(read(), read());
        assert_eq!((one.unwrap(), other.unwrap()), (vec![b'a'; 10].into(), vec![b'a'; 10].into()));
        assert_eq!(world.conversions(), 1);
        let (second, other) = world.append(&[b'b'; 300], 600).await;
        assert_eq!(mailbox.read_body(second, other, 0..600).await.unwrap(), vec![b'b'; 600]);
        assert_eq!(world.conversions(), 2);
        // The first had to make room.
        read().await.unwrap();
        assert_eq!(world.conversions(), 3);
    }

    /// A message of which `made` octets are served, between two ordinary ones, and how many
    /// conversions a size of all took.
    #[tokio::test]
    async fn items_are_made_for_a_reader_and_kept_or_not() {
        for keeps in [true, false] {
            let world = World::with(Doubling(AtomicUsize::default(), keeps), 0).await;
            let (first, _) = world.append(b"plain", 5).await;
            let sent =
                FormHeader { form: Form::Unconverted, served_len: 6, digest: [0; 8] }.before(b"winter");
            let body = world.store.new_body_id();
            let message = IncomingMessage {
                bytes: sent,
                summary: Bytes::new(),
                body,
                flags: vec![],
                date: 1,
                saved: None,
            };
            let destination = world.store.destination(world.mailbox);
            let bare = destination.append(vec![message]).await.unwrap().uids[0];
            let mailbox = world.store.open(world.mailbox).await.unwrap();
            let view = mailbox.view();
            assert_eq!((view.counts().octets(), view.counts().without_items()), (11, 1));
            let sizes =
                |view: &crate::View| view.rows(&view.all()).map(|(_, r)| r.size()).collect::<Vec<_>>();
            assert_eq!(sizes(&mailbox.sized(&view, &NumSet::range(1, 1)).await.unwrap()), [5, 6]);
            assert_eq!(world.conversions(), 0);
            for round in 1..=2 {
                let sized = mailbox.sized(&view, &view.all()).await.unwrap();
                assert_eq!((sizes(&sized), sized.counts().octets()), (vec![5, 12], 17));
                assert_eq!(sized.counts().without_items(), 0);
                // Something else was converted meanwhile, and nothing is cached beside it.
                let (uid, other) = world.append(b"other", 10).await;
                mailbox.read_body(uid, other, 0..1).await.unwrap();
                assert_eq!(world.conversions(), if keeps { 1 + round } else { 2 * round });
            }
            let mut seen = Vec::new();
            let mut visit = |stored: crate::Stored<'_>| {
                seen.push((stored.uid, stored.body, stored.summary.to_vec()));
                std::ops::ControlFlow::Continue(())
            };
            let uids = NumSet::range(first.value(), bare.value());
            world.store.made_summaries(world.mailbox, &uids, &mut visit).await.unwrap().refuse().unwrap();
            assert_eq!(seen[1], (bare, body, b"12".to_vec()));
            assert_eq!((seen.len(), mailbox.view().row_of_uid(bare)), (2, view.row_of_uid(bare)));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_converted_is_an_error_each_time() {
        let world = World::new(1_000).await;
        let (uid, body) = world.append(&[], 9).await;
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        for _ in 0..2 {
            let error = mailbox.read_body(uid, body, 0..9).await.unwrap_err();
            assert!(error.is_damage(), "{error}");
        }
        assert_eq!(world.conversions(), 2);
    }
}
