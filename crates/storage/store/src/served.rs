//! What clients see of bodies that are stored in another form.
//!
//! A body that is stored as clients see it costs one comparison of 16 bytes more. A body in another
//! form is read and converted whole, once for all who read it at that time. The result is kept
//! within a budget, so a client that reads it in small pieces pays for one conversion. Of a
//! compressed body, only the frames are read and decompressed in which the range lies. Those that
//! are read in part are kept within the same budget.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::BodyId;
use tokio::sync::OnceCell;

use crate::cache::Cache;
use crate::compressed::{self, FRAME_LEN, Layout};
use crate::engine::{BodyRange, Engine, Epoch};
use crate::error::{Result, StoreError};
use crate::form::{Form, FormHeader};

/// Pieces of a larger message are copied out of it, so that a slow client does not hold all of it.
const SHARED_LEN_MAX: usize = 128 << 10;
/// Bytes for the notes how bodies are stored: 4,096 of them. A note saves a read of the body's
/// beginning for each piece of a large message. So many messages are not read at a time.
const NOTES_BYTES: usize = 4_096 * 128;

/// Frames decompressed between two pauses: about a millisecond of work.
const FRAMES_AT_ONCE: usize = 8;

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

/// What is kept of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    /// All of it, converted.
    Whole(BodyId),
    /// A frame, decompressed.
    Frame(BodyId, usize),
}

/// How a body is stored.
#[derive(Debug, Clone)]
enum StoredAs {
    /// As clients see it.
    Seen,
    /// In a form that is converted whole.
    Converted,
    /// In frames.
    Frames(Arc<Layout>),
}

impl StoredAs {
    fn memory(&self) -> usize {
        if let Self::Frames(layout) = self { layout.memory() } else { 0 }
    }
}

/// The conversions under way and those that are kept.
pub(crate) struct Served {
    pub serve: Arc<dyn Serve>,
    kept: Mutex<Cache<Piece, Arc<OnceCell<Bytes>>>>,
    /// How the bodies read last are stored, and the engine's epoch when that was read. Another
    /// process may change the form of a body.
    notes: Mutex<Cache<BodyId, (StoredAs, Epoch)>>,
    #[cfg(test)]
    decompressed: std::sync::atomic::AtomicUsize,
}

impl Served {
    pub fn new(serve: Arc<dyn Serve>, budget: usize) -> Self {
        Self {
            serve,
            kept: Mutex::new(Cache::new(budget)),
            notes: Mutex::new(Cache::new(NOTES_BYTES)),
            #[cfg(test)]
            decompressed: std::sync::atomic::AtomicUsize::default(),
        }
    }

    /// A range of a body as clients see it, cut at its end.
    pub async fn read(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        if range.start > 0 {
            return self.read_from_middle(engine, body, range).await;
        }
        let bytes = engine.read_body(body, 0..range.end.max(FormHeader::LEN as u64)).await?;
        match FormHeader::of(&bytes) {
            None => {}
            Some(header) if header.form == Form::Compressed => {
                return self.decompressed(engine, body, range, (header, bytes)).await;
            }
            Some(_) => return self.converted(engine, body, range).await,
        }
        let end = usize::try_from(range.end).unwrap_or(usize::MAX);
        Ok(if bytes.len() > end { bytes.slice(..end) } else { bytes })
    }

    /// A range of a compressed body that begins so.
    async fn decompressed(
        &self,
        engine: &dyn Engine,
        body: BodyId,
        range: BodyRange,
        (header, begin): (FormHeader, Bytes),
    ) -> Result<Bytes> {
        let layout = layout_of(engine, body, &header, &begin).await;
        let read = match layout {
            Ok(layout) => self.frames(engine, body, &range, (&layout, &begin)).await,
            Err(error) => Err(error),
        };
        match read {
            // Another process may have changed its form between two reads.
            Err(error) if error.is_damage() => self.converted(engine, body, range).await,
            read => read,
        }
    }

    /// A range that does not show whether the body has a header. While the epoch stays the same, so
    /// does the form.
    async fn read_from_middle(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        for _ in 0..TRIES_MAX {
            let epoch = engine.epoch();
            let bytes = match self.stored_as(engine, body, epoch).await? {
                StoredAs::Seen => engine.read_body(body, range.clone()).await?,
                StoredAs::Converted => break,
                StoredAs::Frames(layout) => {
                    match self.frames(engine, body, &range, (&layout, &Bytes::new())).await {
                        Err(error) if error.is_damage() => break,
                        read => read?,
                    }
                }
            };
            if engine.epoch() == epoch {
                return Ok(bytes);
            }
        }
        // It is converted, or other processes commit all the time: a body that is read whole is of
        // one form.
        self.converted(engine, body, range).await
    }

    /// Whether clients see other bytes than those that are stored, in a form that is converted whole.
    pub async fn is_converted_whole(&self, engine: &dyn Engine, body: BodyId) -> Result<bool> {
        Ok(matches!(self.stored_as(engine, body, engine.epoch()).await?, StoredAs::Converted))
    }

    async fn stored_as(&self, engine: &dyn Engine, body: BodyId, epoch: Epoch) -> Result<StoredAs> {
        if let Some((stored_as, read_at)) = self.notes.lock().get(&body)
            && *read_at == epoch
        {
            return Ok(stored_as.clone());
        }
        let begin = engine.read_body(body, 0..FormHeader::LEN as u64).await?;
        let stored_as = match FormHeader::of(&begin) {
            None => StoredAs::Seen,
            Some(header) if header.form == Form::Compressed => {
                match layout_of(engine, body, &header, &begin).await {
                    Ok(layout) => StoredAs::Frames(Arc::new(layout)),
                    // Reading it whole will say what is wrong.
                    Err(error) if error.is_damage() => StoredAs::Converted,
                    Err(error) => return Err(error),
                }
            }
            Some(_) => StoredAs::Converted,
        };
        let mut notes = self.notes.lock();
        notes.insert(body, (stored_as.clone(), epoch), stored_as.memory());
        notes.evict(|_| false);
        Ok(stored_as)
    }

    /// A range of a body in frames, of which `begin` was read before.
    async fn frames(
        &self,
        engine: &dyn Engine,
        body: BodyId,
        range: &BodyRange,
        (layout, begin): (&Layout, &Bytes),
    ) -> Result<Bytes> {
        let frames = layout.frames_of(range);
        let mut served = Vec::new();
        for (done, n) in frames.clone().enumerate() {
            let at = n as u64 * FRAME_LEN as u64;
            let len = layout.frame_len(n);
            let from = range.start.saturating_sub(at) as usize;
            let to = (range.end.min(layout.served_len()) - at).min(len as u64) as usize;
            // Of a small message the next request wants the same frame.
            let is_kept = layout.frames() == 1 || from > 0 || to < len;
            if is_kept {
                let frame = self.kept_frame(engine, Piece::Frame(body, n), (layout, begin)).await?;
                if frames.len() == 1 {
                    let is_shared = len <= SHARED_LEN_MAX && layout.frames() == 1;
                    return Ok(match is_shared {
                        true => frame.slice(from..to),
                        false => Bytes::copy_from_slice(&frame[from..to]),
                    });
                }
                served.extend_from_slice(&frame[from..to]);
            } else {
                self.add_frame(engine, (body, n), (layout, begin), &mut served).await?;
            }
            if done % FRAMES_AT_ONCE == FRAMES_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        Ok(served.into())
    }

    /// A frame that is kept for the next reader.
    async fn kept_frame(
        &self,
        engine: &dyn Engine,
        piece: Piece,
        (layout, begin): (&Layout, &Bytes),
    ) -> Result<Bytes> {
        let make = || async {
            let Piece::Frame(body, n) = piece else { return Err(damaged_frame("it has no frames")) };
            let mut frame = Vec::with_capacity(layout.frame_len(n));
            self.add_frame(engine, (body, n), (layout, begin), &mut frame).await?;
            Ok(Bytes::from(frame))
        };
        self.keep(piece, make).await
    }

    /// Reads a frame and appends its octets.
    async fn add_frame(
        &self,
        engine: &dyn Engine,
        (body, n): (BodyId, usize),
        (layout, begin): (&Layout, &Bytes),
        served: &mut Vec<u8>,
    ) -> Result<()> {
        let stored = layout.stored(n);
        let frame = match begin.get(stored.start as usize..stored.end as usize) {
            Some(_) => begin.slice(stored.start as usize..stored.end as usize),
            None => engine.read_body(body, stored).await?,
        };
        #[cfg(test)]
        self.decompressed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        compressed::append_frame(&frame, layout.frame_len(n), served).map_err(damaged_frame)
    }

    /// What is kept of a body, or is made now: once for all who want it.
    async fn keep<F: Future<Output = Result<Bytes>>>(
        &self,
        piece: Piece,
        make: impl FnOnce() -> F,
    ) -> Result<Bytes> {
        let cell = self.kept.lock().get_or_insert_with(piece, Arc::default);
        let made = cell.get_or_try_init(make).await;
        let evicted = {
            let mut kept = self.kept.lock();
            match &made {
                Ok(made) => kept.set_bytes(&piece, made.len()),
                Err(_) => drop(kept.remove_if(&piece, |known| Arc::ptr_eq(known, &cell))),
            }
            kept.evict(|cell| Arc::strong_count(cell) > 1)
        };
        drop(evicted);
        made.cloned()
    }

    async fn converted(&self, engine: &dyn Engine, body: BodyId, range: BodyRange) -> Result<Bytes> {
        let make = || async {
            let stored = engine.read_body(body, 0..u64::MAX).await?;
            match FormHeader::of(&stored) {
                Some(header) if header.form == Form::Compressed => {
                    compressed::decompress(&stored).map(Bytes::from).map_err(damaged_frame)
                }
                Some(_) => self.serve.serve(stored).await,
                None => Ok(stored),
            }
        };
        let whole = self.keep(Piece::Whole(body), make).await?;
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(whole.len());
        let (start, end) = (at(range.start), at(range.end).max(at(range.start)));
        if whole.len() <= SHARED_LEN_MAX || end - start == whole.len() {
            return Ok(whole.slice(start..end));
        }
        Ok(Bytes::copy_from_slice(&whole[start..end]))
    }
}

/// The layout of a compressed body that begins so. Its table is read if it is longer.
async fn layout_of(engine: &dyn Engine, body: BodyId, header: &FormHeader, begin: &Bytes) -> Result<Layout> {
    let begin_len =
        Layout::begin_len(header).ok_or_else(|| damaged_frame("it is compressed in an unknown way"))?;
    let layout = match begin.len() >= begin_len {
        true => Layout::of(begin),
        false => Layout::of(&engine.read_body(body, 0..begin_len as u64).await?),
    };
    layout.map_err(damaged_frame)
}

fn damaged_frame(why: &str) -> StoreError {
    StoreError::Corrupt(why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use posthaste_mail_model::{AccountId, MailboxId, NumSet, Uid};

    use super::*;
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

    /// A store with one compressed message among others.
    async fn with_compressed(budget: usize, len: usize) -> (World, Vec<u8>, Uid, BodyId) {
        let world = World::new(budget).await;
        world.append(b"another", 7).await;
        let mut state = 9u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (state >> 24) as u8 % 16
        };
        let served: Vec<u8> = (0..len).map(|_| next()).collect();
        let body = world.store.new_body_id();
        let bytes = compressed::compress(&served).unwrap();
        let summary = Bytes::from_static(b"summary");
        let message = IncomingMessage { bytes, summary, body, flags: vec![], date: 1, saved: None };
        let appended = world.store.destination(world.mailbox).append(vec![message]).await.unwrap();
        (world, served, appended.uids[0], body)
    }

    fn decompressed(world: &World) -> usize {
        world.store.context().served.decompressed.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_compressed_body_is_read_by_its_frames() {
        for len in [700, 100_000, FRAME_LEN, FRAME_LEN + 1, 1_000_000] {
            let (world, served, uid, body) = with_compressed(1 << 20, len).await;
            let mailbox = world.store.open(world.mailbox).await.unwrap();
            let view = mailbox.view();
            assert_eq!(view.row_of_uid(uid).unwrap().1.size() as usize, len);
            let frames = len.div_ceil(FRAME_LEN);
            for start in (0..len + 5_000).step_by(4096) {
                let read = mailbox.read_body(uid, body, start as u64..start as u64 + 4096).await.unwrap();
                assert!(read == served[start.min(len)..(start + 4096).min(len)], "{len} {start}");
            }
            assert_eq!(decompressed(&world), frames, "{len}: a client that reads pieces pays once");
            let max = u64::MAX;
            for range in
                [0..max, 0..len as u64, 1..max, 0..1, 131_000..131_500, 131_072..262_144, 500_000..700_001]
            {
                let at = |n: u64| (n as usize).min(len);
                let read = mailbox.read_body(uid, body, range.clone()).await.unwrap();
                assert!(read == served[at(range.start)..at(range.end)], "{len} {range:?}");
            }
            assert_eq!(world.conversions(), 0);
        }
    }

    #[tokio::test]
    async fn a_range_costs_its_frames_alone() {
        let (world, served, uid, body) = with_compressed(1 << 20, 1_000_000).await;
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        assert!(mailbox.read_body(uid, body, 0..4096).await.unwrap() == served[..4096]);
        assert!(mailbox.read_body(uid, body, 700_000..700_010).await.unwrap() == served[700_000..700_010]);
        assert_eq!(decompressed(&world), 2);
    }

    #[tokio::test]
    async fn a_body_that_takes_another_form_is_read_as_it_is_then() {
        let (world, served, uid, body) = with_compressed(1 << 20, 500_000).await;
        let engine = world.store.engine().clone();
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        let plain = Bytes::from(served.clone());
        let packed = compressed::compress(&served).unwrap();
        for form in [&packed, &plain, &packed, &plain] {
            engine.recode(body, form.clone()).await.unwrap();
            for range in [400_000..400_100, 0..100, 0..u64::MAX, 100..u64::MAX] {
                let at = |n: u64| (n as usize).min(served.len());
                let read = mailbox.read_body(uid, body, range.clone()).await.unwrap();
                assert!(read == served[at(range.start)..at(range.end)], "{range:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_damaged_frame_is_an_error_and_the_others_are_read() {
        let (world, served, uid, body) = with_compressed(1 << 20, 500_000).await;
        let mut stored = compressed::compress(&served).unwrap().to_vec();
        let last = stored.len() - 10;
        stored[last] ^= 1;
        world.store.engine().recode(body, stored.into()).await.unwrap();
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        assert!(mailbox.read_body(uid, body, 0..4096).await.unwrap() == served[..4096]);
        for range in [0..u64::MAX, 499_000..500_000] {
            let error = mailbox.read_body(uid, body, range).await.unwrap_err();
            assert!(error.is_damage() && error.to_string().contains("damaged"), "{error}");
        }
    }
}
