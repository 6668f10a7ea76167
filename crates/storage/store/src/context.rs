//! The context that a store gives its mailboxes: the engine, the settings with clock and
//! randomness, and the count of running changes.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use posthaste_mail_model::BodyId;
use tokio::sync::watch;

use crate::changed::ChangedMailboxes;
use crate::counted_in::CountedIn;
use crate::engine::{BodyRange, Engine, SummaryOf};
use crate::error::{Result, StoreError};
use crate::follow::Followers;
use crate::offload::{LargePermits, Place};
use crate::old_views::OldViews;
use crate::open_views::OpenViews;
use crate::served::{NoForms, Serve, Served};

/// Bytes of a body that are read without a pause: 2 ms at most. Memory that is used for the first
/// time takes most of it.
const PIECE_BYTES: u64 = if cfg!(test) { 1000 } else { 1 << 20 };

/// The most memory that is allocated at once for a body, by the length that the caller expects.
const EXPECTED_MAX: usize = 128 << 20;

/// The settings of a store. `StoreOptions::default()` suits a server.
#[derive(Clone)]
pub struct StoreOptions {
    /// Memory for views and mailbox lists, in bytes. Views that sessions hold count, and stay
    /// even above the limit.
    pub cache_bytes: usize,
    /// Memory for old views, in bytes: those that sessions hold although newer ones exist. An
    /// account may have a quarter of it, in addition to its largest old view.
    pub old_views_bytes: usize,
    /// Memory for the newest views of mailboxes that are open or cached, in bytes. A mailbox that
    /// has no room is not opened ([`crate::StoreError::TooManyOpen`]). An open one that has no room
    /// to grow gets no messages, with the same error. The first thousand messages of a mailbox
    /// do not count. An account may have half of these bytes, or one mailbox that is larger.
    pub open_views_bytes: usize,
    /// Mailboxes an account may have, and names it may subscribe.
    pub mailboxes_max: usize,
    /// Messages a mailbox may have; more are refused ([`crate::StoreError::FolderFull`]).
    pub folder_messages_max: Option<u32>,
    /// Makes the message that clients see of a body in another form ([`crate::form`]).
    pub serve: Arc<dyn Serve>,
    /// Memory for converted messages, in bytes. The last one is kept in any case.
    pub served_bytes: usize,
    /// Milliseconds since 1970.
    pub clock_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// 128 random bits a call.
    pub randomness: Arc<dyn Fn() -> u128 + Send + Sync>,
}

impl Default for StoreOptions {
    /// 256 MiB (nine million messages), 64 MiB for old views, 1 GiB for newest ones, 10,000
    /// mailboxes an account, the system's clock and randomness.
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            old_views_bytes: 64 << 20,
            open_views_bytes: 1 << 30,
            mailboxes_max: 10_000,
            folder_messages_max: None,
            serve: Arc::new(NoForms),
            served_bytes: 16 << 20,
            clock_unix_ms: Arc::new(system_clock),
            randomness: Arc::new(system_randomness),
        }
    }
}

fn system_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

fn system_randomness() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        // The kernel lacks randomness only before it has booted. An id must never be assigned
        // twice.
        Err(_) => {
            use std::hash::{BuildHasher, RandomState};
            u128::from(RandomState::new().hash_one(system_clock())) << 64
                | u128::from(RandomState::new().hash_one(std::process::id()))
        }
    }
}

/// The context that a store gives its mailboxes.
pub(crate) struct Context {
    pub engine: Arc<dyn Engine>,
    pub served: Served,
    /// Accounts that sessions follow.
    pub followers: Arc<Followers>,
    /// Mailboxes whose messages changed, for background work.
    pub changed: Arc<ChangedMailboxes>,
    /// For changes of many messages.
    pub large_permits: LargePermits,
    /// Sessions that hold old views.
    pub old_views: OldViews,
    /// Memory of newest views.
    pub open_views: Arc<OpenViews>,
    options: StoreOptions,
    /// Changes that run.
    underway: watch::Sender<usize>,
    /// Sessions that wait for changes.
    waiting: watch::Sender<usize>,
}

impl Context {
    pub fn new(engine: Arc<dyn Engine>, options: StoreOptions) -> Self {
        let served = Served::new(Arc::clone(&options.serve), options.served_bytes);
        Self {
            engine,
            served,
            followers: Arc::default(),
            changed: Arc::default(),
            large_permits: LargePermits::new(),
            old_views: OldViews::new(options.old_views_bytes),
            open_views: Arc::new(OpenViews::new(options.open_views_bytes)),
            options,
            underway: watch::Sender::new(0),
            waiting: watch::Sender::new(0),
        }
    }

    /// A range of a body as clients see it. A long one is read in pieces, with a pause after each.
    pub async fn read_body(&self, reader: &Place, body: BodyId, range: BodyRange) -> Result<Bytes> {
        let end = range.end.min(range.start.saturating_add(PIECE_BYTES));
        let first = self.served.read(&*self.engine, reader, body, range.start..end).await?;
        if end == range.end || (first.len() as u64) < PIECE_BYTES {
            return Ok(first);
        }
        // Boxed: most bodies are short.
        Box::pin(self.read_long(reader, (body, range), first)).await
    }

    async fn read_long(
        &self,
        reader: &Place,
        (body, range): (BodyId, BodyRange),
        first: Bytes,
    ) -> Result<Bytes> {
        if self.served.is_converted_whole(&*self.engine, body).await? {
            // It is converted as a whole and kept meanwhile. Otherwise each piece might convert
            // it again. Its form is known, so it is not read for that.
            return self.served.converted(&*self.engine, reader, body, range).await;
        }
        let expected = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut whole = Vec::with_capacity(if expected <= EXPECTED_MAX { expected } else { 2 * first.len() });
        whole.extend_from_slice(&first);
        drop(first);
        loop {
            tokio::task::yield_now().await;
            let from = range.start + whole.len() as u64;
            let end = range.end.min(from.saturating_add(PIECE_BYTES));
            let piece = self.served.read(&*self.engine, reader, body, from..end).await?;
            whole.extend_from_slice(&piece);
            if end == range.end || (piece.len() as u64) < PIECE_BYTES {
                return Ok(Bytes::from(whole));
            }
        }
    }

    /// The error of a reader who cannot read a message's body. A superseded message has a new UID
    /// by then, and its old UID was expunged.
    pub async fn unread(&self, message: SummaryOf, error: StoreError) -> StoreError {
        if !matches!(error, StoreError::Superseded(_)) {
            return error.of_body(message.uid, message.body);
        }
        match self.served.serve.renew(message).await {
            Ok(()) => error,
            Err(failed) => {
                let SummaryOf { mailbox, uid, .. } = message;
                tracing::error!(%mailbox, %uid, %error, why = %failed, "a message did not get a new UID");
                failed
            }
        }
    }

    /// A change runs until the result is dropped.
    pub fn underway(&self) -> CountedIn {
        CountedIn::of(&self.underway)
    }

    /// A session waits for changes until the result is dropped.
    pub fn waiting(&self) -> CountedIn {
        CountedIn::of(&self.waiting)
    }

    /// How many sessions wait for changes.
    pub fn waiting_sessions(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    pub fn random(&self) -> u128 {
        (self.options.randomness)()
    }

    pub fn unix_ms(&self) -> u64 {
        (self.options.clock_unix_ms)()
    }

    pub fn unix_s(&self) -> i64 {
        i64::try_from(self.unix_ms() / 1000).unwrap_or(i64::MAX)
    }

    /// Mailboxes an account may have, and names it may subscribe.
    pub fn mailboxes_max(&self) -> usize {
        self.options.mailboxes_max
    }

    /// Messages a mailbox may have.
    pub fn folder_messages_max(&self) -> Option<u32> {
        self.options.folder_messages_max
    }

    /// Waits until no change is running.
    pub async fn wait_for_changes(&self) {
        let mut underway = self.underway.subscribe();
        // Cannot fail: the sender is in `self`.
        let _ = underway.wait_for(|n| *n == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use posthaste_mail_model::MailboxId;

    use super::*;
    use crate::oracle::MemoryEngine;
    use crate::suite::layer::Layer;
    use crate::suite::{new_body_id, new_id};

    /// An engine that has one body, and notes the ranges that are read of it.
    struct ReadRecorder {
        inner: MemoryEngine,
        bytes: Bytes,
        read: Mutex<Vec<BodyRange>>,
    }

    #[async_trait::async_trait]
    impl Layer for ReadRecorder {
        type Inner = MemoryEngine;
        fn inner(&self) -> &MemoryEngine {
            &self.inner
        }
        async fn read_body(&self, _: BodyId, range: BodyRange) -> Result<Bytes> {
            self.read.lock().push(range.clone());
            let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(self.bytes.len());
            Ok(self.bytes.slice(at(range.start)..at(range.end)))
        }
    }

    #[tokio::test]
    async fn a_long_body_is_read_in_pieces() {
        for len in [0, 10, 999, 1000, 1001, 2000, 4321] {
            let bytes: Bytes = (0..len).map(|n| (n % 251) as u8).collect();
            let engine =
                ReadRecorder { inner: MemoryEngine::new(), bytes: bytes.clone(), read: Mutex::default() };
            let engine = Arc::new(engine);
            let context = Context::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
            let (body, reader) = (new_body_id(), Place::Mailbox(MailboxId(new_id())));
            for (start, end) in [(0, u64::MAX), (0, len as u64), (7, u64::MAX), (500, 1700), (3, 5)] {
                let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(len);
                let wanted = bytes.slice(at(start).min(at(end))..at(end));
                let read = context.read_body(&reader, body, start..end).await.unwrap();
                assert_eq!(read, wanted, "{start}..{end}");
            }
            let longest = engine.read.lock().iter().map(|range| range.end - range.start).max();
            assert_eq!(longest, Some(PIECE_BYTES), "of {len}");
        }
    }
}
