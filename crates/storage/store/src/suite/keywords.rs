//! Keywords whose slots are given again and again: no message, and no session, ever has one that
//! nobody set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use posthaste_mail_model::{Flag, Keyword, KeywordTable, NumSet};

use super::folder::{contents, load};
use super::{Factory, Seeded, World, new_body_id};
use crate::change::FlagChange;
use crate::context::StoreOptions;
use crate::error::StoreError;
use crate::mailbox::{IncomingMessage, Mailbox};
use crate::store::Store;
use crate::view::View;

/// Names in play: more than a mailbox has room for.
const NAMES: u64 = 90;
/// Keywords in one change at most: a handful of messages then has about the largest number of
/// keywords.
const AT_ONCE: u64 = 25;

type Names = BTreeSet<String>;

/// The keywords of each message, as a view shows them.
fn shown(view: &View) -> BTreeMap<u32, Names> {
    let table = &view.head().keywords;
    let names = |flags| table.flags_of(flags).map(|flag| flag.to_string()).collect();
    view.rows(&view.all()).map(|(_, row)| (row.uid().value(), names(row.flags()))).collect()
}

/// A session as its client sees it: it knows only the reported keywords.
struct Session {
    mailbox: Arc<Mailbox>,
    announced: Arc<View>,
    known: BTreeMap<u32, Names>,
}

impl Session {
    async fn open(store: &Store, id: posthaste_mail_model::MailboxId) -> Self {
        let mailbox = store.open(id).await.unwrap();
        let announced = mailbox.view();
        let known = shown(&announced);
        Self { mailbox, announced, known }
    }

    /// Reports changes to it, with or without expunges, and compares with what its view would
    /// answer.
    async fn sync(&mut self, holds: bool) {
        let newest = self.mailbox.current().await.unwrap();
        let mut diff = newest.difference_from(&self.announced);
        let mut next = newest;
        if holds {
            next = self.announced.holding_expunged(&next, &diff);
            diff = next.difference_from(&self.announced);
        }
        let renamed = next.head().keywords != self.announced.head().keywords;
        assert_eq!(diff.new_keywords, renamed, "FLAGS is sent when the table changed");
        self.known.retain(|uid, _| !diff.expunged_uids.contains(*uid));
        let now = shown(&next);
        for seqs in [&diff.changed, &diff.arrived] {
            for uid in next.uids_of_seqs(seqs).iter() {
                self.known.insert(uid, now[&uid].clone());
            }
        }
        assert_eq!(self.known, now, "the view shows a change that was not reported to the client");
        self.announced = next;
    }
}

/// Random keywords on few messages, through two stores, with sessions that learn of it now and
/// then.
pub async fn keywords_stay_with_their_messages(factory: &dyn Factory) {
    for seed in factory.seeds() {
        // Printed by the test harness only if the test fails.
        println!("seed {seed}");
        let world = World::new(factory).await;
        let id = world.mailbox().await;
        let small = StoreOptions { cache_bytes: 0, ..StoreOptions::default() };
        let stores = [0, 1].map(|_| Store::new(Arc::clone(&world.engine), small.clone()));
        let mut random = Seeded::new(seed);
        let mut sessions = Vec::new();
        for store in stores.iter().chain(&stores) {
            sessions.push(Session::open(store, id).await);
        }
        let mut model: BTreeMap<u32, Names> = BTreeMap::new();
        let (mut refused, mut renamed) = (0, 0);
        for step in 0..factory.random_steps() / 2 {
            let before = load(&*world.engine, id).await.head().keywords.clone();
            let flags = some_keywords(&mut random);
            let at = random.below(sessions.len() as u64) as usize;
            match random.below(8) {
                0 | 1 if model.len() < 5 => {
                    // Sometimes there is no session, so that the head alone is known.
                    if random.below(3) == 0 {
                        sessions.clear();
                    }
                    let message = message(flags.clone());
                    let destination = stores[at % 2].destination(id);
                    let appended = destination.append(vec![message]).await.unwrap();
                    let fits =
                        |flag: &&Flag| !appended.left_out.iter().any(|k| k.as_str() == flag.to_string());
                    let names = flags.iter().filter(fits).map(Flag::to_string).collect();
                    model.insert(appended.uids[0].value(), names);
                    while sessions.len() < 4 {
                        sessions.push(Session::open(&stores[sessions.len() % 2], id).await);
                    }
                }
                0 | 1 => {
                    let skipped = random.below(2) as usize;
                    let uid = *model.keys().nth(skipped).unwrap();
                    // A store that has not heard of the message leaves it.
                    let expunged = sessions[at].mailbox.remove(&NumSet::range(uid, uid)).await.unwrap();
                    expunged.uids.iter().for_each(|uid| drop(model.remove(&uid)));
                }
                kind => {
                    let change =
                        [FlagChange::Add, FlagChange::Remove, FlagChange::Replace][kind as usize % 3];
                    let Some(uid) = model.keys().nth(random.below(5) as usize).copied() else { continue };
                    let set = NumSet::range(uid, uid);
                    match sessions[at].mailbox.store_flags(&set, change, &flags, None).await {
                        Ok(stored) if stored.changed == set => {
                            apply(model.get_mut(&uid).unwrap(), change, &flags);
                        }
                        Ok(_) => {}
                        Err(StoreError::Keyword(_)) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let truth = load(&*world.engine, id).await;
            assert_eq!(shown(&truth), model, "step {step}");
            renamed += usize::from(!truth.head().keywords.renamed_since(&before).is_empty());
            if random.below(3) == 0 {
                let at = random.below(sessions.len() as u64) as usize;
                let holds = random.below(2) == 0;
                sessions[at].sync(holds).await;
            }
        }
        assert!(renamed > 0, "seed {seed} tests nothing: no slot was given to another keyword");
        refused += usize::from(is_refused_when_full(&sessions[0].mailbox, &model).await);
        assert!(refused > 0, "seed {seed}: a full table refused nothing");
        world.check().await;
    }
}

/// Gives every message every name until the table is full. Returns whether a STORE was refused
/// then.
async fn is_refused_when_full(mailbox: &Mailbox, model: &BTreeMap<u32, Names>) -> bool {
    let all: NumSet = model.keys().copied().collect();
    for n in 0..NAMES {
        let flag = Flag::Keyword(Keyword::new(&name(n)).unwrap());
        match mailbox.store_flags(&all, FlagChange::Add, &[flag], None).await {
            Ok(_) => {}
            Err(StoreError::Keyword(_)) => return true,
            Err(error) => panic!("{error}"),
        }
    }
    false
}

fn name(n: u64) -> String {
    match KeywordTable::COMMON.get(n as usize) {
        Some(common) => (*common).to_owned(),
        None => format!("own{n}"),
    }
}

fn some_keywords(random: &mut Seeded) -> Vec<Flag> {
    let names: BTreeSet<String> = (0..1 + random.below(AT_ONCE)).map(|_| name(random.below(NAMES))).collect();
    names.iter().map(|name| Flag::Keyword(Keyword::new(name).unwrap())).collect()
}

fn apply(names: &mut Names, change: FlagChange, flags: &[Flag]) {
    let these: Names = flags.iter().map(Flag::to_string).collect();
    match change {
        FlagChange::Replace => *names = these,
        FlagChange::Add => names.extend(these),
        FlagChange::Remove => names.retain(|name| !these.contains(name)),
    }
}

fn message(flags: Vec<Flag>) -> IncomingMessage {
    IncomingMessage {
        bytes: contents(1, 10),
        summary: contents(1, 30),
        body: new_body_id(),
        flags,
        date: 1,
        saved: None,
    }
}
