//! Mail into mailboxes that nobody has open: it needs their heads alone, and what sessions see
//! stays whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthaste_mail_model::{Flag, Keyword, MailboxId, ModSeq, NumSet};
use tokio::task::JoinSet;

use super::folder::{contents, load};
use super::layer::Layer;
use super::{Factory, Seeded, World, erased, new_body_id};
use crate::change::FlagChange;
use crate::context::StoreOptions;
use crate::engine::{Changes, Engine};
use crate::error::Result;
use crate::head::MailboxHead;
use crate::mailbox::{IncomingMessage, Mailbox};
use crate::row::Row;
use crate::store::Store;
use crate::view::View;

/// An engine that notes the mailboxes whose rows were read.
struct ReadCountingEngine {
    inner: Arc<dyn Engine>,
    /// Each call of `load` and `changes_since`.
    rows_read: Mutex<Vec<MailboxId>>,
}

impl ReadCountingEngine {
    fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self { inner, rows_read: Mutex::default() })
    }

    /// How often rows of this mailbox were read.
    fn reads_of(&self, mailbox: MailboxId) -> usize {
        self.rows_read.lock().iter().filter(|id| **id == mailbox).count()
    }
}

#[async_trait]
impl Layer for ReadCountingEngine {
    type Inner = dyn Engine;
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.rows_read.lock().push(mailbox);
        self.inner.load(mailbox, rows).await
    }
    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.rows_read.lock().push(mailbox);
        self.inner.changes_since(mailbox, since).await
    }
}

fn store(engine: &Arc<dyn Engine>) -> Store {
    Store::new(Arc::clone(engine), StoreOptions::default())
}

fn message(size: usize, flags: &[Flag]) -> IncomingMessage {
    IncomingMessage {
        bytes: contents(size as u64, size),
        summary: contents(1, 30),
        body: new_body_id(),
        flags: flags.to_vec(),
        date: 1,
        saved: None,
    }
}

fn keyword(text: &str) -> Flag {
    Flag::Keyword(Keyword::new(text).unwrap())
}

fn uids(low: u32, high: u32) -> NumSet {
    NumSet::range(low, high)
}

fn sizes_in(view: &View) -> BTreeMap<u32, u32> {
    view.rows(&view.all()).map(|(_, row)| (row.uid().value(), row.size())).collect()
}

/// A delivery, a COPY and a MOVE into a closed mailbox read none of its rows, also when another
/// process changed it meanwhile.
pub async fn mail_into_a_closed_mailbox_reads_no_rows(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let (source, target) = (world.mailbox().await, world.mailbox().await);
    let elsewhere = store(&world.engine);
    let seen = [Flag::Seen, keyword("$a")];
    let filled = (0..300).map(|n| message(n, &seen)).collect();
    elsewhere.destination(target).append(filled).await.unwrap();
    let originals = vec![message(5, &[keyword("$b")]), message(6, &[Flag::Deleted]), message(7, &[])];
    elsewhere.destination(source).append(originals).await.unwrap();

    let counted = ReadCountingEngine::new(Arc::clone(&world.engine));
    let engine: Arc<dyn Engine> = Arc::clone(&counted) as Arc<dyn Engine>;
    let here = store(&engine);
    let closed = here.destination(target);
    let one = closed.append(vec![message(1, &[Flag::Seen, keyword("$new")])]).await.unwrap();
    let two = closed.append(vec![message(2, &[]), message(3, &[])]).await.unwrap();
    let given: Vec<u32> = one.uids.iter().chain(&two.uids).map(|uid| uid.value()).collect();
    assert_eq!(given, [301, 302, 303]);
    // Another process changes it: the known head here is now behind.
    elsewhere.destination(target).append(vec![message(4, &[])]).await.unwrap();
    let three = closed.append(vec![message(5, &[])]).await.unwrap();
    assert_eq!((three.uids[0].value(), three.modseq > two.modseq.next()), (305, true));
    let opened = here.open(source).await.unwrap();
    let copied = closed.copy_from(&opened, &uids(1, 2)).await.unwrap();
    assert_eq!(copied.uids, uids(306, 307));
    elsewhere.destination(target).append(vec![message(4, &[])]).await.unwrap();
    let moved = opened.move_to(&uids(2, 3), &closed).await.unwrap();
    assert_eq!((moved.copied.uids, moved.expunged.uids), (uids(309, 310), uids(2, 3)));
    assert_eq!(counted.reads_of(target), 0, "rows of a closed mailbox were read");

    let head = here.status(&[target]).await.unwrap().remove(0).unwrap();
    assert_eq!((head.counts.messages, head.counts.unseen, head.counts.deleted), (310, 9, 2));
    assert_eq!(counted.reads_of(target), 0, "STATUS read rows");
    let view = here.open(target).await.unwrap().view();
    assert_eq!(counted.reads_of(target), 1, "opening reads the rows");
    assert_eq!(view.head(), &head, "what came in by the head alone is what the rows say");
    let flags = |uid: u32| {
        let (_, row) = view.row_of_uid(posthaste_mail_model::Uid::new(uid).unwrap()).unwrap();
        let names: Vec<String> = view.head().keywords.flags_of(row.flags()).map(|f| f.to_string()).collect();
        names.join(" ")
    };
    assert_eq!((flags(301), flags(306), flags(309)), ("\\Seen $new".into(), "$b".into(), "\\Deleted".into()));
    world.check().await;
}

/// Messages that a client claimed as `\Recent` are not claimed again after mail came into the
/// closed mailbox.
pub async fn recent_survives_while_closed(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let id = world.mailbox().await;
    let small = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
    let store = Store::new(Arc::clone(&world.engine), small);
    store.destination(id).append(vec![message(1, &[]), message(2, &[])]).await.unwrap();
    let opened = store.open(id).await.unwrap();
    assert_eq!(opened.take_recent(), uids(1, 2));
    // A commit saves the claim; then the mailbox is closed and forgotten.
    opened.append(vec![message(3, &[])]).await.unwrap();
    drop(opened);
    let elsewhere = world.mailbox().await;
    store.destination(elsewhere).append(vec![message(1, &[])]).await.unwrap();
    store.destination(id).append(vec![message(4, &[])]).await.unwrap();
    let opened = store.open(id).await.unwrap();
    assert_eq!(opened.recent(), uids(3, 4));
    assert_eq!(opened.take_recent(), uids(3, 4));
    assert!(opened.take_recent().is_empty());
    world.check().await;
}

/// Many deliver while others open and leave: every view is the mailbox as of some moment, and none
/// goes back.
pub async fn opening_races_deliveries(factory: &dyn Factory) {
    const TASKS: u32 = 4;
    const EACH: u32 = 12;
    let world = World::new(factory).await;
    let id = world.mailbox().await;
    // Nothing is kept that nobody holds, so that the mailbox is closed again and again.
    let small = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
    let stores = [0, 1].map(|_| Store::new(Arc::clone(&world.engine), small.clone()));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let store = stores[task as usize % 2].clone();
        tasks.spawn(erased(async move {
            for n in 0..EACH {
                // As a client would, again when too many change at once.
                while store.destination(id).append(vec![message(n as usize, &[])]).await.is_err() {
                    tokio::task::yield_now().await;
                }
            }
        }));
        let store = stores[task as usize % 2].clone();
        tasks.spawn(erased(async move {
            let mut seen = 0;
            while seen < TASKS * EACH / 2 {
                let Ok(mailbox) = store.open(id).await else { continue };
                let view = mailbox.view();
                assert!(view.exists() >= seen, "a view goes back");
                seen = view.exists();
                assert_eq!(view.uids_of_seqs(&view.all()), uids(1, seen), "a view has a hole");
                assert_eq!(view.head().uid_next.value(), seen + 1);
                tokio::task::yield_now().await;
            }
        }));
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap();
    }
    assert_eq!(load(&*world.engine, id).await.exists(), TASKS * EACH);
    world.check().await;
}

/// Random mail into open and closed mailboxes through two stores that learn of each other by
/// conflicts alone.
pub async fn closed_and_open_agree(factory: &dyn Factory) {
    for seed in factory.seeds() {
        // Printed by the test harness only if the test fails.
        println!("seed {seed}");
        let mut play = Play::new(factory, seed).await;
        for step in 0..factory.random_steps() / 3 {
            let touched = play.step().await;
            if let Some((store, mailbox)) = touched {
                play.compare(store, mailbox, step).await;
            }
        }
        play.world.check().await;
    }
}

/// Mailboxes in play.
const MAILBOXES: u64 = 3;
/// Sessions at most.
const SESSIONS: usize = 4;

struct Play {
    world: World,
    stores: [Store; 2],
    ids: Vec<MailboxId>,
    /// Sizes by UID: what each mailbox should hold.
    models: Vec<BTreeMap<u32, u32>>,
    /// The next UID of each.
    next: Vec<u32>,
    /// Store, mailbox and handle of each session.
    sessions: Vec<(usize, usize, Arc<Mailbox>)>,
    random: Seeded,
}

impl Play {
    async fn new(factory: &dyn Factory, seed: u64) -> Self {
        let world = World::new(factory).await;
        let small = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
        let stores = [0, 1].map(|_| Store::new(Arc::clone(&world.engine), small.clone()));
        let mut ids = Vec::new();
        for _ in 0..MAILBOXES {
            ids.push(world.mailbox().await);
        }
        let models = ids.iter().map(|_| BTreeMap::new()).collect();
        let next = ids.iter().map(|_| 1).collect();
        Self { world, stores, ids, models, next, sessions: Vec::new(), random: Seeded::new(seed) }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn flags(&mut self) -> Vec<Flag> {
        match self.below(5) {
            0 => vec![Flag::Seen],
            1 => vec![Flag::Deleted, keyword(&format!("$k{}", self.below(9)))],
            2 => vec![keyword("$common")],
            _ => Vec::new(),
        }
    }

    /// New messages in a mailbox, whose UIDs must follow those before.
    fn arrive(&mut self, mailbox: usize, given: &NumSet, sizes: &[u32]) {
        let expected = if sizes.is_empty() {
            NumSet::new()
        } else {
            uids(self.next[mailbox], self.next[mailbox] + sizes.len() as u32 - 1)
        };
        assert_eq!(given, &expected, "UIDs do not follow those before");
        self.next[mailbox] += sizes.len() as u32;
        self.models[mailbox].extend(given.iter().zip(sizes.iter().copied()));
    }

    /// One random step; the store and the mailbox it changed.
    async fn step(&mut self) -> Option<(usize, usize)> {
        let (store, mailbox) = (self.below(2), self.below(self.ids.len()));
        match self.below(10) {
            0..=3 => {
                let sizes: Vec<u32> = (0..self.below(6)).map(|_| self.below(500) as u32).collect();
                let messages = sizes.iter().map(|size| message(*size as usize, &self.flags())).collect();
                let destination = self.stores[store].destination(self.ids[mailbox]);
                let appended = destination.append(messages).await.unwrap();
                self.arrive(mailbox, &appended.uids.iter().map(|uid| uid.value()).collect(), &sizes);
                Some((store, mailbox)).filter(|_| !sizes.is_empty())
            }
            4 => {
                if self.sessions.len() == SESSIONS {
                    let oldest = self.below(SESSIONS);
                    self.sessions.remove(oldest);
                }
                let opened = self.stores[store].open(self.ids[mailbox]).await.unwrap();
                self.sessions.push((store, mailbox, opened));
                None
            }
            5 => {
                let at = self.below(SESSIONS);
                if at < self.sessions.len() {
                    self.sessions.remove(at);
                }
                None
            }
            _ => self.session_step(mailbox).await,
        }
    }

    /// One step of a random session.
    async fn session_step(&mut self, other: usize) -> Option<(usize, usize)> {
        let at = self.below(SESSIONS);
        let (store, mailbox, session) = self.sessions.get(at)?.clone();
        let low = self.below(40) as u32 + 1;
        let some = uids(low, low + self.below(15) as u32);
        match self.below(5) {
            0 => drop(session.take_recent()),
            1 => {
                let flags = self.flags();
                session.store_flags(&some, FlagChange::Replace, &flags, None).await.unwrap();
            }
            2 => {
                let expunged = session.remove(&some).await.unwrap().uids;
                self.models[mailbox].retain(|uid, _| !expunged.contains(*uid));
            }
            kind => {
                let before = self.models[mailbox].clone();
                let destination = self.stores[store].destination(self.ids[other]);
                let copied = if kind == 3 {
                    destination.copy_from(&session, &some).await.unwrap()
                } else {
                    let moved = session.move_to(&some, &destination).await.unwrap();
                    assert_eq!(moved.expunged.uids, moved.copied.source);
                    let expunged = moved.expunged.uids;
                    self.models[mailbox].retain(|uid, _| !expunged.contains(*uid));
                    moved.copied
                };
                let sizes: Vec<u32> = copied.source.iter().map(|uid| before[&uid]).collect();
                self.arrive(other, &copied.uids, &sizes);
                return Some((store, other)).filter(|_| !sizes.is_empty());
            }
        }
        None
    }

    /// The engine holds what it should, and so does the view of every session of the store that
    /// changed it.
    async fn compare(&self, store: usize, mailbox: usize, step: usize) {
        let truth = load(&*self.world.engine, self.ids[mailbox]).await;
        assert_eq!(sizes_in(&truth), self.models[mailbox], "step {step}");
        assert_eq!(truth.counts(), truth.head().counts);
        for (_, _, session) in self.sessions.iter().filter(|(s, m, _)| (*s, *m) == (store, mailbox)) {
            let view = session.view();
            assert!(view.difference_from(&truth).is_empty(), "step {step}: a session sees something else");
            assert_eq!(view.modseq(), truth.modseq(), "step {step}");
        }
    }
}
