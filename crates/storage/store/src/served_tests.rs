//! Bodies in other forms, as readers get them.

use futures_util::FutureExt as _;
use posthaste_mail_model::{AccountId, MailboxId, NumSet, Uid};
use tokio::sync::Semaphore;

use super::*;
use crate::offload::AT_ONCE;
use crate::suite::layer::Layer;
use crate::suite::{add_mailbox, new_id};
use crate::{Holders, IncomingMessage, MemoryEngine, Store, StoreOptions};

/// Doubles the stored body, and counts how often. A summary is the length, as a number; they are
/// counted, too.
#[derive(Default)]
struct Doubling(AtomicUsize, bool, AtomicUsize);

#[async_trait]
impl Serve for Doubling {
    async fn serve(&self, _: Place, stored: Bytes) -> Result<Bytes> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let content = FormHeader::content(&stored);
        if content.is_empty() {
            return Err(StoreError::Corrupt("nothing to double".to_owned()));
        }
        Ok([&content[..], &content[..]].concat().into())
    }

    async fn summarize(&self, _: Place, served: Bytes) -> Result<Bytes> {
        self.2.fetch_add(1, Ordering::Relaxed);
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
        Self::on(Arc::new(MemoryEngine::default()), serve, budget).await
    }

    async fn on(engine: Arc<dyn Engine>, serve: Doubling, budget: usize) -> Self {
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

    /// A range of a body, which the server itself reads.
    async fn read(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.store.read_body(Place::Mailbox(self.mailbox), body, range).await
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
async fn concurrent_readers_share_a_reservation_and_the_budget_holds() {
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

/// The search index and the first FETCH get what delivery converted. A burst of mail does not evict
/// what is being read, and stays within its part of the budget.
#[tokio::test]
async fn a_message_that_delivery_converted_is_cached_for_the_first_readers() {
    let world = World::new(80_000).await;
    let (read, read_body) = world.append(&[b'r'; 5_000], 10_000).await;
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    assert_eq!(mailbox.read_body(read, read_body, 0..4).await.unwrap(), "rrrr");
    assert_eq!(world.conversions(), 1);
    let mut arrived = Vec::new();
    for n in 0..20u8 {
        let content = vec![n; 1_000];
        let (uid, body) = world.append(&content, 2_000).await;
        world.store.has_converted(body, &[&content[..], &content[..]].concat());
        arrived.push((uid, body));
    }
    let whole = |n: u8| Bytes::from(vec![n; 2_000]);
    let (uid, last) = arrived[19];
    assert_eq!(world.read(last, 0..u64::MAX).await.unwrap(), whole(19));
    for start in (0..2_000).step_by(300) {
        let piece = mailbox.read_body(uid, last, start..start + 300).await.unwrap();
        assert!(!piece.is_empty() && piece.iter().all(|byte| *byte == 19));
    }
    assert_eq!(mailbox.read_body(read, read_body, 9_990..20_000).await.unwrap().len(), 10);
    assert_eq!(world.conversions(), 1);
    // The first of them had to make room for the others, and is converted.
    let (uid, first) = arrived[0];
    assert_eq!(mailbox.read_body(uid, first, 0..u64::MAX).await.unwrap(), whole(0));
    assert_eq!(world.conversions(), 2);
    // One that would take most of the room is not kept.
    let (uid, large) = world.append(&[1; 6_000], 12_000).await;
    world.store.has_converted(large, &[1; 12_000]);
    assert_eq!(mailbox.read_body(uid, large, 0..u64::MAX).await.unwrap().len(), 12_000);
    assert_eq!(world.conversions(), 3);
    assert_eq!(world.read(last, 0..1).await.unwrap(), whole(19).slice(..1));
    assert_eq!(world.conversions(), 3);
}

/// A message of which `made` octets are served, between two ordinary ones, and how many
/// conversions a size of all took.
#[tokio::test]
async fn items_are_made_for_a_reader_and_kept_or_not() {
    for keeps in [true, false] {
        let world = World::with(Doubling(AtomicUsize::default(), keeps, AtomicUsize::default()), 0).await;
        let (first, _) = world.append(b"plain", 5).await;
        let sent = FormHeader { form: Form::Unconverted, served_len: 6, digest: [0; 8] }.before(b"winter");
        let body = world.store.new_body_id();
        let message =
            IncomingMessage { bytes: sent, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
        let destination = world.store.destination(world.mailbox);
        let bare = destination.append(vec![message]).await.unwrap().uids[0];
        let mailbox = world.store.open(world.mailbox).await.unwrap();
        let view = mailbox.view();
        assert_eq!((view.counts().octets(), view.counts().without_items()), (11, 1));
        let sizes = |view: &crate::View| view.rows(&view.all()).map(|(_, r)| r.size()).collect::<Vec<_>>();
        assert_eq!(sizes(&mailbox.sized(&view, &NumSet::range(1, 1)).await.unwrap()), [5, 6]);
        assert_eq!(world.conversions(), 0);
        for round in 1..=2 {
            let sized = mailbox.sized(&view, &view.all()).await.unwrap();
            assert_eq!((sizes(&sized), sized.counts().octets()), (vec![5, 12], 17));
            assert_eq!(sized.counts().without_items(), 0);
            // Another message was converted meanwhile, and only it is cached.
            let (uid, other) = world.append(b"other", 10).await;
            mailbox.read_body(uid, other, 0..1).await.unwrap();
            assert_eq!(world.conversions(), if keeps { 1 + round } else { 2 * round });
        }
        let mut seen = Vec::new();
        let mut visit = |stored: crate::Stored<'_>| {
            seen.push((stored.uid, stored.body, stored.summary.to_vec()));
            std::ops::ControlFlow::Continue(())
        };
        let (uids, reader) = (NumSet::range(first.value(), bare.value()), Place::Mailbox(world.mailbox));
        let made = world.store.made_summaries(reader, world.mailbox, &uids, &mut visit).await;
        made.unwrap().refuse().unwrap();
        assert_eq!(seen[1], (bare, body, b"12".to_vec()));
        assert_eq!((seen.len(), mailbox.view().row_of_uid(bare)), (2, view.row_of_uid(bare)));
    }
}

/// The rows of a large mailbox are found on another thread, before the first size is made.
#[tokio::test]
async fn the_sizes_of_many_messages_wait_for_a_permit() {
    let world = World::with(Doubling(AtomicUsize::default(), true, AtomicUsize::default()), 0).await;
    let sent = FormHeader { form: Form::Unconverted, served_len: 6, digest: [0; 8] }.before(b"winter");
    let message = |_| {
        let (bytes, summary, body) = (sent.clone(), Bytes::new(), world.store.new_body_id());
        IncomingMessage { bytes, summary, body, flags: vec![], date: 1, saved: None }
    };
    let messages = (0..=AT_ONCE).map(message).collect();
    world.store.destination(world.mailbox).append(messages).await.unwrap();
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    let view = mailbox.view();
    let all = view.all();
    let mut sizing = std::pin::pin!(mailbox.sized(&view, &all));
    let held = world.store.context().large_permits.acquire_all();
    for _ in 0..100 {
        assert!(sizing.as_mut().now_or_never().is_none());
    }
    assert_eq!(world.conversions(), 0);
    drop(held);
    let sized = sizing.await.unwrap();
    assert_eq!((sized.counts().octets(), sized.counts().without_items()), (12 * (AT_ONCE + 1), 0));
}

#[tokio::test]
async fn a_failed_conversion_is_an_error_each_time() {
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
        engine.recode(body, form.clone(), Holders::Any).await.unwrap();
        for range in [400_000..400_100, 0..100, 0..u64::MAX, 100..u64::MAX] {
            let at = |n: u64| (n as usize).min(served.len());
            let read = mailbox.read_body(uid, body, range.clone()).await.unwrap();
            assert!(read == served[at(range.start)..at(range.end)], "{range:?}");
        }
    }
}

/// An engine whose bodies another process changes unseen, as on a cluster.
struct Unseen(MemoryEngine);

#[async_trait]
impl Layer for Unseen {
    type Inner = MemoryEngine;

    fn inner(&self) -> &MemoryEngine {
        &self.0
    }

    fn epoch(&self) -> Epoch {
        None
    }

    fn recodes(&self) -> Recodes {
        Recodes::Short(100_000)
    }
}

#[tokio::test]
async fn a_form_that_changes_unseen_is_read_as_it_is_then() {
    let engine = Arc::new(Unseen(MemoryEngine::default()));
    let world = World::on(engine, Doubling::default(), 1 << 20).await;
    let served = b"the same words ".repeat(4_000);
    let (uid, body) = world.append(&served, served.len()).await;
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    let plain = Bytes::from(served.clone());
    let packed = compressed::compress(&served).unwrap();
    let header = FormHeader { form: Form::Rich, served_len: served.len() as u32, digest: [0; 8] };
    let rich = header.before(&served[..served.len() / 2]);
    for form in [&plain, &packed, &plain, &rich, &packed, &rich, &plain] {
        world.store.engine().recode(body, form.clone(), Holders::Any).await.unwrap();
        for range in [40_000..40_100, 5..9, 0..100, 59_990..70_000] {
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
    world.store.engine().recode(body, stored.into(), Holders::Any).await.unwrap();
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    assert!(mailbox.read_body(uid, body, 0..4096).await.unwrap() == served[..4096]);
    for range in [0..u64::MAX, 499_000..500_000] {
        let error = mailbox.read_body(uid, body, range).await.unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("damaged"), "{error}");
    }
}

/// Two readers by turns: without what they hold, each piece would be a conversion.
#[tokio::test]
async fn readers_who_hold_their_messages_do_not_evict_each_other() {
    let world = World::new(4_000).await;
    let mut bodies = Vec::new();
    for byte in *b"ab" {
        bodies.push(world.append(&[byte; 2_000], 4_000).await);
    }
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    let in_turns = async || {
        for start in (0..4_000).step_by(500) {
            for (uid, body) in &bodies {
                let piece = mailbox.read_body(*uid, *body, start..start + 500).await.unwrap();
                assert_eq!(piece.len(), 500);
            }
        }
    };
    in_turns().await;
    assert_eq!(world.conversions(), 16, "each evicts the other's");
    let mut held = Vec::new();
    for (_, body) in &bodies {
        held.push(mailbox.pin_body(*body).await.unwrap().unwrap());
    }
    in_turns().await;
    assert!(world.conversions() <= 18, "{}", world.conversions());
    // Held messages do not count against the budget of the others.
    let (small, other) = world.append(&[b'c'; 200], 400).await;
    for _ in 0..2 {
        mailbox.read_body(small, other, 5..9).await.unwrap();
    }
    let before = world.conversions();
    assert!(before <= 19);
    drop(held);
    // The budget holds again: the smallest was read last.
    mailbox.read_body(small, other, 5..9).await.unwrap();
    assert_eq!(world.conversions(), before);
    in_turns().await;
    assert_eq!(world.conversions(), before + 16);
    // A message that is stored as clients see it is not held.
    let (_, plain) = world.append(&[b'd'; 100], 100).await;
    assert!(mailbox.pin_body(plain).await.unwrap().is_none());
}

/// With summaries that are not stored, a piece costs neither a conversion nor a summary.
#[tokio::test]
async fn a_summary_that_is_not_stored_is_made_once_for_a_reader() {
    let world = World::new(1 << 20).await;
    let sent = FormHeader { form: Form::Unconverted, served_len: 6, digest: [0; 8] }.before(b"winter");
    let body = world.store.new_body_id();
    let message =
        IncomingMessage { bytes: sent, summary: Bytes::new(), body, flags: vec![], date: 1, saved: None };
    let uid = world.store.destination(world.mailbox).append(vec![message]).await.unwrap().uids[0];
    let mailbox = world.store.open(world.mailbox).await.unwrap();
    for start in 0..4 {
        assert_eq!(mailbox.made_summary(uid, body, crate::Keep::AsSet).await.unwrap(), "12");
        assert_eq!(mailbox.read_body(uid, body, start..start + 1).await.unwrap().len(), 1);
    }
    assert_eq!((world.conversions(), world.serve.2.load(Ordering::Relaxed)), (1, 1));
}

/// Waits before it converts, as for memory.
struct Waiting {
    begun: AtomicUsize,
    go: Semaphore,
}

#[async_trait]
impl Serve for Waiting {
    async fn serve(&self, _: Place, stored: Bytes) -> Result<Bytes> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.go.acquire().await.unwrap().forget();
        Ok(FormHeader::content(&stored))
    }

    async fn summarize(&self, _: Place, served: Bytes) -> Result<Bytes> {
        Ok(served)
    }

    fn octets(&self, _: &[u8]) -> Option<u32> {
        None
    }

    fn keeps_summaries(&self) -> bool {
        false
    }
}

/// Each reader held its body in no budget while it waited for the memory of the conversion. The
/// long bodies of one account had all turns.
#[tokio::test]
async fn few_long_bodies_wait_for_their_conversion_in_memory() {
    const READERS: usize = 10;
    let one = Place::Account(AccountId(new_id()));
    let each = || Place::Account(AccountId(new_id()));
    for (len, of_one, begun) in
        [(1_000, true, READERS), (1_000, false, READERS), (200_000, true, 1), (200_000, false, LONG_AT_ONCE)]
    {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
        let (account, mailbox) = (AccountId(new_id()), MailboxId(new_id()));
        add_mailbox(&*engine, account, mailbox).await;
        let serve = Arc::new(Waiting { begun: AtomicUsize::new(0), go: Semaphore::new(0) });
        let options = StoreOptions { serve: Arc::clone(&serve) as Arc<dyn Serve>, ..StoreOptions::default() };
        let store = Store::new(engine, options);
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let header = FormHeader { form: Form::Rich, served_len: len as u32, digest: [0; 8] };
            let (bytes, body) = (header.before(&vec![b'a'; len]), store.new_body_id());
            let summary = Bytes::from_static(b"summary");
            let message = IncomingMessage { bytes, summary, body, flags: vec![], date: 1, saved: None };
            store.destination(mailbox).append(vec![message]).await.unwrap();
            let (store, reader) = (store.clone(), if of_one { one } else { each() });
            readers.push(tokio::spawn(async move { store.read_body(reader, body, 0..u64::MAX).await }));
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(serve.begun.load(Ordering::Relaxed), begun, "{len} octets, {of_one}");
        serve.go.add_permits(READERS);
        for reader in readers {
            assert_eq!(reader.await.unwrap().unwrap().len(), len);
        }
    }
}

/// Tools and simulations read a store in a runtime without timers.
#[test]
fn a_turn_that_is_free_needs_no_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let world = World::new(1 << 20).await;
        let (_, body) = world.append(&[b'a'; 200_000], 400_000).await;
        assert_eq!(world.read(body, 0..u64::MAX).await.unwrap().len(), 400_000);
    });
}
