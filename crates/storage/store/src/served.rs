//! The bytes that clients see of bodies that are stored in another form.
//!
//! A body that is stored as clients see it costs one comparison of 16 bytes more. A body in
//! another form is read and converted whole, once for all who read it at that time. The result is
//! kept within a budget, so a client that reads it in small pieces pays for one conversion. Of a
//! compressed body, only the frames that contain the range are read and decompressed. Compressed
//! bodies that are read in part are kept within the same budget.
//!
//! A reader may pin what is converted of one body ([`crate::PinnedBody`]). It is not evicted then,
//! and does not count in this budget: the reader reserves the memory in another one. So two clients
//! that read large messages in turns do not evict each other's.
//!
//! A summary that is made for a reader and not stored is kept like a converted message.
//!
//! Messages that delivery converted are kept for their first readers: the search index and the
//! first FETCH. It has a part of the budget to itself, so that a burst of mail does not evict
//! what is being read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::BodyId;
use posthaste_permits::{KeyedPermit, KeyedSemaphore};
use tokio::sync::OnceCell;

use crate::cache::Cache;
use crate::compressed::{self, FRAME_LEN, Layout};
use crate::engine::{BodyRange, Engine, Epoch, Recodes, SummaryOf};
use crate::error::{Result, StoreError};
use crate::form::{Form, FormHeader};
use crate::offload::Place;

/// Octets of a message above which its pieces are copied, so that a slow client does not hold all
/// of it.
pub(crate) const SHARED_LEN_MAX: usize = 128 << 10;
/// Longer bodies that are converted at once, and messages that are summarised at once. Each is in
/// memory, in no budget, while it waits for a place and the memory of that work. Sessions of one
/// client may read fifty of them. So an account has one turn: its next body would wait for its
/// place, and those of others for the turn.
const LONG_AT_ONCE: usize = 4;
/// The longest wait for a turn at a long body, as for that memory.
const TURN_WITHIN: Duration = Duration::from_secs(60);
/// Bytes for the notes how bodies are stored: 4,096 of them. A note saves a read of the body's
/// beginning for each piece of a large message. So many messages are not read at a time.
const NOTES_BYTES: usize = 4_096 * 128;

/// Frames decompressed between two pauses: about a millisecond of work.
const FRAMES_AT_ONCE: usize = 8;

/// The divisor of the budget that gives the part for messages that delivery converted.
const ARRIVED_SHARE: usize = 4;
/// The divisor of that part that gives the most for one message.
const ARRIVED_MESSAGE_SHARE: usize = 2;

/// Times that a range is read again because another process committed meanwhile.
const TRIES_MAX: usize = 4;

/// Makes the message that clients see of a body with a [`FormHeader`], and its items.
#[async_trait]
pub trait Serve: Send + Sync {
    /// The message as clients see it, for this reader. [`StoreError::Superseded`] if an earlier
    /// version of this program showed other bytes.
    async fn serve(&self, reader: Place, stored: Bytes) -> Result<Bytes>;

    /// Adds a superseded message again, with a new UID, and expunges the old one. Its bytes must
    /// not change (RFC 9051 §2.3.1.1).
    async fn renew(&self, _superseded: SummaryOf) -> Result<()> {
        Err(StoreError::Unavailable("this program gives no message a new UID".to_owned()))
    }

    /// The summary of a message as clients see it, if delivery made none.
    async fn summarize(&self, reader: Place, served: Bytes) -> Result<Bytes>;

    /// RFC822.SIZE by a summary.
    fn octets(&self, summary: &[u8]) -> Option<u32>;

    /// Whether summaries that are made for a reader are stored.
    fn keeps_summaries(&self) -> bool;
}

/// For a store without conversions.
pub(crate) struct NoForms;

#[async_trait]
impl Serve for NoForms {
    async fn serve(&self, _: Place, _: Bytes) -> Result<Bytes> {
        Err(StoreError::Unavailable("a body is in a form that this program does not convert".to_owned()))
    }

    async fn summarize(&self, _: Place, _: Bytes) -> Result<Bytes> {
        Err(StoreError::Unavailable("this program makes no summaries of stored messages".to_owned()))
    }

    fn octets(&self, _: &[u8]) -> Option<u32> {
        None
    }

    fn keeps_summaries(&self) -> bool {
        false
    }
}

/// A cached value of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// The whole body, converted.
    Whole(BodyId),
    /// A frame, decompressed.
    Frame(BodyId, usize),
    /// The summary, which is not stored.
    Summary(BodyId),
}

/// A piece that is made, or is being made.
#[derive(Default)]
pub(crate) struct CachedPiece {
    made: OnceCell<Bytes>,
    /// Readers that have pinned it.
    pins: AtomicUsize,
}

impl CachedPiece {
    /// Bytes that count in the budget of the cache.
    fn cost(&self) -> usize {
        match self.pins.load(Ordering::Acquire) {
            0 => self.made.get().map_or(0, Bytes::len),
            _ => 0,
        }
    }
}

/// The form in which a body is stored.
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
    kept: Mutex<Cache<Piece, Arc<CachedPiece>>>,
    /// Messages that delivery converted, for their first readers.
    arrived: Mutex<Cache<BodyId, Bytes>>,
    arrived_len_max: usize,
    /// The forms of the bodies read last, and the engine's epoch when each was read. Another
    /// process may change the form of a body.
    notes: Mutex<Cache<BodyId, (StoredAs, Epoch)>>,
    /// The turns at long bodies that are converted, and at those whose summaries are made.
    conversions: KeyedSemaphore<Place>,
    summaries: KeyedSemaphore<Place>,
    #[cfg(test)]
    decompressed: AtomicUsize,
}

/// Waits for a turn of a reader.
async fn turn_of(turns: &KeyedSemaphore<Place>, reader: Place) -> Result<KeyedPermit<Place>> {
    turns.acquire_within(reader, TURN_WITHIN).await.ok_or(StoreError::Busy)
}

impl Served {
    pub fn new(serve: Arc<dyn Serve>, budget: usize) -> Self {
        let for_arrived = budget / ARRIVED_SHARE;
        Self {
            serve,
            kept: Mutex::new(Cache::new(budget - for_arrived)),
            arrived: Mutex::new(Cache::new(for_arrived)),
            arrived_len_max: for_arrived / ARRIVED_MESSAGE_SHARE,
            notes: Mutex::new(Cache::new(NOTES_BYTES)),
            conversions: KeyedSemaphore::new(LONG_AT_ONCE, 1),
            summaries: KeyedSemaphore::new(LONG_AT_ONCE, 1),
            #[cfg(test)]
            decompressed: AtomicUsize::default(),
        }
    }

    /// Keeps what clients see of a body that delivery converted. A body never shows other bytes.
    pub fn arrived(&self, body: BodyId, served: &[u8]) {
        if served.len() > self.arrived_len_max {
            return;
        }
        // A copy: the caller's bytes may be part of a larger buffer.
        let served = Bytes::copy_from_slice(served);
        let evicted = {
            let mut arrived = self.arrived.lock();
            let len = served.len();
            arrived.insert(body, served, len);
            arrived.evict(|_| false)
        };
        drop(evicted);
    }

    /// A range of a body as clients see it, cut at its end. `reader` is a reference: nearly no
    /// body is converted.
    pub async fn read(
        &self,
        engine: &dyn Engine,
        reader: &Place,
        body: BodyId,
        range: BodyRange,
    ) -> Result<Bytes> {
        match range.start {
            0 => self.read_with_begin(engine, reader, body, range).await,
            _ => self.read_from_middle(engine, reader, body, range).await,
        }
    }

    /// A range of a body that is read from its beginning, which shows its form.
    async fn read_with_begin(
        &self,
        engine: &dyn Engine,
        reader: &Place,
        body: BodyId,
        range: BodyRange,
    ) -> Result<Bytes> {
        let bytes = engine.read_body(body, 0..range.end.max(FormHeader::LEN as u64)).await?;
        match FormHeader::of(&bytes) {
            None => {}
            Some(header) if header.form == Form::Compressed => {
                return self.decompressed(engine, reader, (body, range), (header, bytes)).await;
            }
            Some(_) => {
                // It may have to wait for its turn.
                drop(bytes);
                return self.converted(engine, reader, body, range).await;
            }
        }
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
        let (start, end) = (at(range.start), at(range.end));
        Ok(match start {
            0 => bytes.slice(..end),
            // A slow client does not hold what is before its piece.
            _ => Bytes::copy_from_slice(bytes.get(start..end).unwrap_or_default()),
        })
    }

    /// A range of a compressed body that begins so.
    async fn decompressed(
        &self,
        engine: &dyn Engine,
        reader: &Place,
        (body, range): (BodyId, BodyRange),
        (header, begin): (FormHeader, Bytes),
    ) -> Result<Bytes> {
        let layout = layout_of(engine, body, &header, &begin).await;
        let read = match layout {
            Ok(layout) => self.frames(engine, body, &range, (&layout, &begin)).await,
            Err(error) => Err(error),
        };
        match read {
            // Another process may have changed its form between two reads.
            Err(error) if error.is_damage() => self.converted(engine, reader, body, range).await,
            read => read,
        }
    }

    /// A range that does not show whether the body has a header. While the epoch stays the same, so
    /// does the form.
    async fn read_from_middle(
        &self,
        engine: &dyn Engine,
        reader: &Place,
        body: BodyId,
        range: BodyRange,
    ) -> Result<Bytes> {
        for _ in 0..TRIES_MAX {
            let epoch = engine.epoch();
            let bytes = match self.stored_as(engine, body, epoch).await? {
                StoredAs::Seen if changes_unseen(engine, &range) => {
                    return self.read_with_begin(engine, reader, body, range).await;
                }
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
        // The body is converted, or other processes commit all the time. A body that is read
        // whole has one form.
        self.converted(engine, reader, body, range).await
    }

    /// Whether a body is in a form that is converted whole for its readers.
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

    /// A range of a body in frames. `begin` was read before. Boxed: most bodies are read as they
    /// are stored, and each crate that reads bodies would have this code.
    #[boxed]
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
            // The next request for a small message needs the same frame.
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
        self.decompressed.fetch_add(1, Ordering::Relaxed);
        compressed::append_frame(&frame, layout.frame_len(n), served).map_err(damaged_frame)
    }

    /// The cached value of a body. If there is none, it is computed, once for all who wait for
    /// it.
    async fn keep<F: Future<Output = Result<Bytes>>>(
        &self,
        piece: Piece,
        make: impl FnOnce() -> F,
    ) -> Result<Bytes> {
        let cell = self.kept.lock().get_or_insert_with(piece, Arc::default);
        let made = cell.made.get_or_try_init(make).await;
        let evicted = {
            let mut kept = self.kept.lock();
            match &made {
                Ok(_) => kept.set_bytes(&piece, cell.cost()),
                Err(_) => drop(kept.remove_if(&piece, |known| Arc::ptr_eq(known, &cell))),
            }
            kept.evict(|cell| Arc::strong_count(cell) > 1)
        };
        drop(evicted);
        made.cloned()
    }

    /// The summary of a body that is not stored.
    pub async fn summary<F: Future<Output = Result<Bytes>>>(
        &self,
        body: BodyId,
        make: impl FnOnce() -> F,
    ) -> Result<Bytes> {
        self.keep(Piece::Summary(body), make).await
    }

    /// Waits for the turn to make the summary of a long message for a reader.
    pub async fn summary_turn(&self, reader: Place) -> Result<KeyedPermit<Place>> {
        turn_of(&self.summaries, reader).await
    }

    /// A piece that is not evicted until [`Served::unpin`].
    pub fn pin(&self, piece: Piece) -> Arc<CachedPiece> {
        let mut all = self.kept.lock();
        let kept = all.get_or_insert_with(piece, Arc::default);
        kept.pins.fetch_add(1, Ordering::AcqRel);
        all.set_bytes(&piece, 0);
        kept
    }

    /// Ends what [`Served::pin`] began.
    pub fn unpin(&self, piece: Piece, held: Arc<CachedPiece>) {
        let mut all = self.kept.lock();
        held.pins.fetch_sub(1, Ordering::AcqRel);
        if all.peek(&piece).is_some_and(|kept| Arc::ptr_eq(kept, &held)) {
            all.set_bytes(&piece, held.cost());
        }
        drop(held);
        let evicted = all.evict(|kept| Arc::strong_count(kept) > 1);
        drop(all);
        drop(evicted);
    }

    /// A range of a body that is converted whole. Boxed as [`Self::frames`] is.
    #[boxed]
    pub async fn converted(
        &self,
        engine: &dyn Engine,
        reader: &Place,
        body: BodyId,
        range: BodyRange,
    ) -> Result<Bytes> {
        let make = || async {
            let begin = engine.read_body(body, 0..SHARED_LEN_MAX as u64).await?;
            let (stored, _turn) = match begin.len() {
                SHARED_LEN_MAX => {
                    drop(begin);
                    let turn = turn_of(&self.conversions, *reader).await?;
                    (engine.read_body(body, 0..u64::MAX).await?, Some(turn))
                }
                _ => (begin, None),
            };
            match FormHeader::of(&stored) {
                Some(header) if header.form == Form::Compressed => {
                    compressed::decompress(&stored).map(Bytes::from).map_err(damaged_frame)
                }
                Some(_) => self.serve.serve(*reader, stored).await,
                None => Ok(stored),
            }
        };
        let arrived = self.arrived.lock().get(&body).cloned();
        let whole = match arrived {
            Some(whole) => whole,
            None => self.keep(Piece::Whole(body), make).await?,
        };
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(whole.len());
        let (start, end) = (at(range.start), at(range.end).max(at(range.start)));
        if whole.len() <= SHARED_LEN_MAX || end - start == whole.len() {
            return Ok(whole.slice(start..end));
        }
        Ok(Bytes::copy_from_slice(&whole[start..end]))
    }
}

/// Whether another process may change the form of a body that has this range, and the engine does
/// not say so. Then a body is read as clients see it only together with its beginning. Such an
/// engine reads a short body whole in any case. A body that was converted is, in each form.
fn changes_unseen(engine: &dyn Engine, range: &BodyRange) -> bool {
    engine.epoch().is_none() && matches!(engine.recodes(), Recodes::Short(most) if range.start < most)
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
#[path = "served_tests.rs"]
mod tests;
