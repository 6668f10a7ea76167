//! The index against a naive scan, over additions, expunges, crashes and damage.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id, MailboxId, MailboxName, NumSet, Uid};
use posthaste_net::given_to_compute_threads;
use posthaste_property::{one_of, properties};
use posthaste_store::{IncomingMessage, Mailbox, MemoryEngine, Place, Store, StoreError, StoreOptions};
use proptest::prelude::*;

use super::*;
use crate::index::SearchIndex;
use crate::outline::Outline;
use crate::{places, stored};

const MEMORY: usize = 64 << 20;

/// A mailbox whose messages have these texts, by UID.
pub(crate) struct World {
    pub(crate) store: Store,
    account: AccountId,
    pub(crate) mailbox: Arc<Mailbox>,
    texts: Vec<String>,
}

impl World {
    /// Another mailbox in the same store.
    pub(crate) async fn another(&self, name: &str) -> Self {
        let (store, account) = (self.store.clone(), self.account);
        let entry = store.create(account, &MailboxName::new(name).unwrap(), None).await.unwrap();
        let mailbox = store.open(entry.id).await.unwrap();
        Self { store, account, mailbox, texts: Vec::new() }
    }

    pub(crate) async fn new() -> Self {
        let store = Store::new(Arc::new(MemoryEngine::new()), StoreOptions::default());
        let account = AccountId(Id::new(1_700_000_000_000, 7));
        let entry = store.create(account, &MailboxName::new("a").unwrap(), None).await.unwrap();
        let mailbox = store.open(entry.id).await.unwrap();
        Self { store, account, mailbox, texts: Vec::new() }
    }

    pub(crate) fn id(&self) -> MailboxId {
        self.mailbox.id()
    }

    pub(crate) async fn add(&mut self, texts: impl IntoIterator<Item = String>) {
        let mut messages = Vec::new();
        for text in texts {
            messages.push(format!("Subject: s\r\nX-Own: field\r\n\r\n{text}\r\n"));
            self.texts.push(text);
        }
        self.append(messages).await;
    }

    pub(crate) async fn append(&self, messages: Vec<String>) {
        let incoming = messages.into_iter().map(|message| {
            let bytes = Bytes::from(message);
            let summary = Bytes::from(posthaste_delivery::summarize(&bytes));
            let body = self.store.new_body_id();
            IncomingMessage { bytes, summary, body, flags: Vec::new(), date: 1, saved: None }
        });
        self.mailbox.append(incoming.collect()).await.unwrap();
    }

    /// Another process or the next start: nothing is in memory.
    pub(crate) fn index(&self) -> SearchIndex {
        SearchIndex::new(self.store.clone(), MEMORY)
    }

    /// The index's proposals are compared with a scan of the texts. Returns how many messages the
    /// search would read.
    pub(crate) async fn ask(&self, index: &SearchIndex, word: &str) -> u64 {
        let view = self.mailbox.current().await.unwrap();
        let live = view.uids_of_seqs(&view.all());
        let query = Query::new(Scope::Texts, word.as_bytes()).unwrap();
        let answer = index.query(self.id(), &[query]).await;
        let answer =
            answer.unwrap_or_else(|| Answer { covered: Arc::default(), proposed: vec![NumSet::new()] });
        let proposed = &answer.proposed[0];
        let read = live.difference(&answer.covered.difference(proposed));
        for (text, uid) in self.texts.iter().zip(1..) {
            let holds = text.contains(word) && live.contains(uid);
            assert!(!holds || read.contains(uid), "{word} in UID {uid}");
        }
        read.count()
    }

    /// Segments in the store, and their messages.
    pub(crate) async fn stored(&self) -> (usize, u64) {
        let known = self.index().refresh(self.id()).await.unwrap();
        let messages = known.stored().iter().map(|kept| kept.meta.indexed.count()).sum();
        (known.stored().len(), messages)
    }
}

pub(crate) fn texts(numbers: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    numbers.map(|n| format!("common word{n}x {}", if n % 100 == 7 { "needle" } else { "hay" }))
}

#[tokio::test]
async fn messages_are_known_at_once_and_stored_once_they_are_enough() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..200)).await;
    assert_eq!(world.ask(&index, "needle").await, 200, "nothing is indexed yet");
    index.update(world.id()).await.unwrap();
    assert_eq!(world.ask(&index, "needle").await, 2);
    assert_eq!(world.stored().await, (0, 0));
    assert_eq!(world.ask(&world.index(), "needle").await, 200);
    world.add(texts(200..300)).await;
    index.update(world.id()).await.unwrap();
    assert_eq!(world.stored().await, (1, 300));
    assert_eq!(world.ask(&world.index(), "needle").await, 3, "as after a start");
    assert_eq!(world.ask(&index, "word2").await, 100 + 10 + 1);
    assert_eq!(world.ask(&index, "absent").await, 0);
    world.mailbox.remove(&NumSet::range(8, 8)).await.unwrap();
    world.add(texts(300..310)).await;
    assert_eq!(world.ask(&index, "needle").await, 2 + 10);
    index.update(world.id()).await.unwrap();
    assert_eq!(world.ask(&index, "needle").await, 3);
}

/// A client may double a mailbox by each COPY.
#[tokio::test]
async fn the_body_of_copies_is_read_once() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..100)).await;
    for _ in 0..2 {
        let mailbox = Arc::clone(&world.mailbox);
        let all = NumSet::range(1, world.texts.len() as u32);
        mailbox.copy_from(&mailbox, &all).await.unwrap();
        world.texts.extend_from_within(..);
    }
    index.update(world.id()).await.unwrap();
    assert_eq!(index.reads().messages, 100);
    assert_eq!(world.stored().await, (1, 400));
    assert_eq!(world.ask(&index, "needle").await, 4);
    assert_eq!(world.ask(&world.index(), "word5x").await, 4);
}

#[tokio::test]
async fn segments_are_merged_and_lose_expunged_messages() {
    let mut world = World::new().await;
    let index = world.index();
    for n in 0..9 {
        world.add(texts(n * 300..n * 300 + 300)).await;
        index.update(world.id()).await.unwrap();
    }
    let (segments, messages) = world.stored().await;
    assert!(segments <= 4, "{segments} segments");
    assert_eq!(messages, 2700);
    assert_eq!(world.ask(&index, "needle").await, 27);
    world.mailbox.remove(&NumSet::range(1, 2400)).await.unwrap();
    index.update(world.id()).await.unwrap();
    let (_, messages) = world.stored().await;
    assert!(messages <= 600 + SEGMENT_MESSAGES_MIN as u64, "{messages} messages");
    assert_eq!(world.ask(&index, "needle").await, 3);
    // Expunged messages are not read again.
    let latest = index.shared.memory.lock().latest.get(world.id());
    assert_eq!(latest.outline.unwrap().scanned, NumSet::range(1, 2700));
}

/// Of each mailbox, a thousand messages do not count.
#[tokio::test]
async fn segments_lose_the_expunged_messages_of_a_mailbox_that_sessions_cannot_open() {
    let mut world = World::new().await;
    world.add(texts(0..2700)).await;
    world.index().update(world.id()).await.unwrap();
    world.mailbox.remove(&NumSet::range(1, 1600)).await.unwrap();
    let options = StoreOptions { open_views_bytes: 0, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(world.store.engine()), options);
    assert!(matches!(store.open(world.id()).await, Err(StoreError::TooManyOpen)));
    let index = SearchIndex::new(store, MEMORY);
    index.update(world.id()).await.unwrap();
    let known = index.refresh(world.id()).await.unwrap();
    let messages: u64 = known.stored().iter().map(|kept| kept.meta.indexed.count()).sum();
    assert!(messages <= 1100 + SEGMENT_MESSAGES_MIN as u64, "{messages} messages");
}

#[tokio::test]
async fn a_deleted_mailbox_leaves_nothing() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..300)).await;
    index.update(world.id()).await.unwrap();
    let place = places::of(world.id());
    assert!(world.store.status(&[place]).await.unwrap()[0].is_some());
    let sizes = index.sizes(None).await.unwrap();
    assert_eq!(sizes.len(), 1);
    let totals = index.totals(Duration::ZERO).await.unwrap();
    assert_eq!((totals.mailboxes, totals.segments), (1, sizes[0].1.segments));
    let counted = sizes[0].1.bytes + sizes[0].1.sort_key_bytes;
    assert!((1..100).contains(&(totals.bytes - counted)), "{totals:?} {sizes:?}");
    world.store.delete(world.account, &MailboxName::new("a").unwrap()).await.unwrap();
    index.update(world.id()).await.unwrap();
    assert!(world.store.status(&[place]).await.unwrap()[0].is_none());
    assert!(index.sizes(None).await.unwrap().is_empty());
    // Sizes are counted again when they are old.
    assert_eq!(index.totals(Duration::MAX).await.unwrap(), totals);
    assert_eq!(index.totals(Duration::ZERO).await.unwrap(), Totals::default());
    assert_eq!(index.memory_bytes(), 0);
}

#[tokio::test]
async fn segments_of_mailboxes_deleted_elsewhere_are_swept() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..300)).await;
    index.update(world.id()).await.unwrap();
    world.store.delete(world.account, &MailboxName::new("a").unwrap()).await.unwrap();
    index.sweep().await;
    assert!(world.store.status(&[places::of(world.id())]).await.unwrap()[0].is_none());
    assert!(index.sizes(None).await.unwrap().is_empty());
}

/// A segment with other bytes takes the place of the right one.
pub(crate) async fn replace_the_segment(world: &World, change: impl Fn(&mut Vec<u8>)) {
    let (segments, _) = stored::list(&world.store, world.id()).await.unwrap();
    let (uid, body) = segments[0];
    let reader = Place::Mailbox(world.id());
    let mut bytes = world.store.read_body(reader, body, 0..u64::MAX).await.unwrap().to_vec();
    change(&mut bytes);
    let bytes = Bytes::from(bytes);
    let summary = Bytes::from(posthaste_delivery::summarize(&bytes));
    let body = world.store.new_body_id();
    let damaged = IncomingMessage { bytes, summary, body, flags: Vec::new(), date: 1, saved: None };
    world.store.destination(places::of(world.id())).append(vec![damaged]).await.unwrap();
    stored::remove(&world.store, world.id(), &NumSet::range(uid.value(), uid.value())).await.unwrap();
}

/// A flipped bit, and the version of segments that had no sort keys.
#[tokio::test]
async fn a_damaged_or_old_segment_is_removed_and_made_again() {
    let flipped = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    };
    let old = |bytes: &mut Vec<u8>| {
        let at = bytes.windows(8).position(|eight| eight == b"PHSEARC\x07").unwrap();
        bytes[at + 7] = 3;
    };
    for change in [&flipped as &dyn Fn(&mut Vec<u8>), &old] {
        let mut world = World::new().await;
        let index = world.index();
        world.add(texts(0..300)).await;
        index.update(world.id()).await.unwrap();
        replace_the_segment(&world, change).await;
        let next = world.index();
        assert_eq!(world.ask(&next, "needle").await, 300, "all are read");
        next.update(world.id()).await.unwrap();
        assert_eq!(world.ask(&next, "needle").await, 3);
        assert_eq!(world.stored().await, (1, 300));
    }
}

#[tokio::test]
async fn a_segment_that_a_crash_left_twice_is_removed() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..300)).await;
    index.update(world.id()).await.unwrap();
    let known = index.refresh(world.id()).await.unwrap();
    let segment = index.load(world.id(), &known.stored()[0]).await.unwrap().unwrap();
    index.store_segment(world.id(), Outline::empty(), segment).await.unwrap();
    assert_eq!(world.stored().await, (2, 600));
    // Many segments of many ranges are long work.
    let given = given_to_compute_threads();
    index.outline(world.id()).await.unwrap();
    assert!(given_to_compute_threads() > given);
    assert_eq!(world.stored().await, (1, 300));
    index.update(world.id()).await.unwrap();
    assert_eq!(world.stored().await, (1, 300));
    assert_eq!(world.ask(&index, "needle").await, 3);
}

#[tokio::test]
async fn a_rebuild_replaces_all_segments() {
    let mut world = World::new().await;
    let index = world.index();
    world.add(texts(0..300)).await;
    index.update(world.id()).await.unwrap();
    let (before, _) = stored::list(&world.store, world.id()).await.unwrap();
    world.index().rebuild(world.id()).await.unwrap();
    let (after, _) = stored::list(&world.store, world.id()).await.unwrap();
    assert!(after.len() == 1 && after[0].1 != before[0].1);
    assert_eq!(world.ask(&index, "needle").await, 3);
}

#[tokio::test]
async fn the_task_indexes_what_comes_and_removes_what_is_deleted() {
    let mut world = World::new().await;
    let index = world.index();
    let task = tokio::spawn(index.clone().run());
    // Until the task has begun, nothing is noted.
    while !world.store.changed().is_wanted() {
        tokio::task::yield_now().await;
    }
    world.add(texts(0..300)).await;
    while world.stored().await != (1, 300) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    world.store.delete(world.account, &MailboxName::new("a").unwrap()).await.unwrap();
    while world.store.status(&[places::of(world.id())]).await.unwrap()[0].is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    task.abort();
}

#[tokio::test]
async fn with_little_memory_searches_read_segments_from_the_store() {
    let mut world = World::new().await;
    let index = SearchIndex::new(world.store.clone(), 4000);
    world.add(texts(0..300)).await;
    index.update(world.id()).await.unwrap();
    assert_eq!(world.ask(&index, "needle").await, 3);
    assert!(index.memory_bytes() <= 4000);
    // There is room for recent messages, whatever searches have in memory.
    world.add(texts(300..301)).await;
    index.update(world.id()).await.unwrap();
    assert_eq!(world.ask(&index, "needle").await, 3);
    assert!(index.memory_bytes() <= 4000);
}

#[derive(Debug, Clone)]
enum Step {
    Add(u32, u32),
    Expunge(u32, u32),
    Update,
    /// A delivery is looked at, with messages from this UID on.
    Look(u32),
    /// With this many bytes of memory.
    Restart(usize),
    Ask(String),
}

fn step() -> impl Strategy<Value = Step> {
    one_of![
        3 => (1_u32..400, 0_u32..50).prop_map(|(count, seed)| Step::Add(count, seed)),
        2 => (1_u32..2000, 1_u32..900).prop_map(|(first, count)| Step::Expunge(first, count)),
        3 => Just(Step::Update),
        3 => (1_u32..1500).prop_map(Step::Look),
        1 => one_of![Just(MEMORY), Just(6000)].prop_map(Step::Restart),
        4 => "[abc]{3,5}".prop_map(Step::Ask),
    ]
}

properties! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happened before: every message that holds the word is read by the search.
    #[test]
    fn the_index_never_leaves_out_a_message_that_matches(steps in prop::collection::vec(step(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut world = World::new().await;
            let mut index = world.index();
            for step in steps {
                match step {
                    Step::Add(count, seed) => {
                        let text = |n: u32| {
                            let mut bits = (n + 1).wrapping_mul(0x9E37_79B1).wrapping_add(seed * 7919);
                            let letter = |_| {
                                bits = bits.wrapping_mul(0x2C1B_3C6D).rotate_left(9) ^ 0x55;
                                ['a', 'b', 'c', ' '][bits as usize % 4]
                            };
                            (0..24).map(letter).collect::<String>()
                        };
                        world.add((0..count).map(text)).await;
                    }
                    Step::Expunge(first, count) => {
                        world.mailbox.remove(&NumSet::range(first, first + count)).await.unwrap();
                    }
                    Step::Update => index.update(world.id()).await.unwrap(),
                    Step::Look(from) => {
                        index.work(world.id(), Uid::new(from).unwrap()).await.unwrap();
                    },
                    Step::Restart(memory) => index = SearchIndex::new(world.store.clone(), memory),
                    Step::Ask(word) => {
                        world.ask(&index, &word).await;
                    }
                }
            }
            index.update(world.id()).await.unwrap();
            world.ask(&index, "abca").await;
        });
    }
}

/// A summary of 5 MB was listed, copied twice and read in one poll of 12 ms.
#[tokio::test]
async fn a_long_summary_is_listed_before_a_pause() {
    let world = World::new().await;
    let index = world.index();
    for (parts, is_long) in [(1, false), (30_000, true)] {
        let text = "--b\r\n\r\nx\r\n".repeat(parts);
        let message = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{text}");
        assert_eq!(posthaste_delivery::summarize(message.as_bytes()).len() > 1 << 20, is_long);
        world.append(vec![message]).await;
        let before = index.reads().messages;
        let mut work = std::pin::pin!(index.update(world.id()));
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(work.as_mut().poll(cx))).await;
        assert_eq!(first.is_pending(), is_long);
        if is_long {
            assert_eq!(index.reads().messages, before, "the summary was listed, and nothing read");
            work.await.unwrap();
        }
    }
}
