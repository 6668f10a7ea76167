//! Many at once: through the engine alone, and through two stores that share it as two processes
//! would.

use std::sync::Arc;

use posthaste_mail_model::{FlagSet, NumSet, Uid};
use tokio::task::JoinSet;

use super::folder::{contents, load};
use super::{Factory, Folder, World, erased};
use crate::change::{CommitOutcome, FlagChange};
use crate::context::StoreOptions;
use crate::mailbox::IncomingMessage;
use crate::store::Store;

/// Tasks at once.
const TASKS: u32 = 6;
/// Messages each adds.
const EACH: u32 = 8;

/// Appenders that know nothing of each other: each tries until its commit is applied. UIDs come out
/// dense.
pub async fn appenders_never_share_a_uid(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let id = world.mailbox().await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let engine = Arc::clone(&world.engine);
        tasks.spawn(erased(async move {
            let mut uids = Vec::new();
            for n in 0..EACH {
                uids.push(append_one(&engine, id, (task * EACH + n) as usize).await);
            }
            uids
        }));
    }
    let mut uids: Vec<u32> = tasks.join_all().await.into_iter().flatten().map(Uid::value).collect();
    uids.sort_unstable();
    assert_eq!(uids, (1..=TASKS * EACH).collect::<Vec<_>>());
    let view = load(&*world.engine, id).await;
    assert_eq!(view.exists(), TASKS * EACH);
    assert_eq!(view.modseq().value(), u64::from(TASKS * EACH));
    // Each size was sent once.
    let mut sizes: Vec<u32> = view.rows(&view.all()).map(|(_, row)| row.size()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, (0..TASKS * EACH).collect::<Vec<_>>());
    world.check().await;
}

async fn append_one(
    engine: &Arc<dyn crate::Engine>,
    id: posthaste_mail_model::MailboxId,
    size: usize,
) -> Uid {
    // Far more than others could commit in between.
    for _ in 0..10_000 {
        let mut folder = Folder::new(Arc::clone(engine), id);
        folder.view = load(&**engine, id).await;
        let commit = folder.appending(&[size]);
        let uid = commit.appended[0].row.uid();
        if engine.commit(commit).await.unwrap() == CommitOutcome::Done {
            return uid;
        }
        tokio::task::yield_now().await;
    }
    panic!("a commit was refused 10,000 times");
}

/// Two stores on one engine, each with many clients on the same mailbox. Appends, flags and
/// expunges all take effect once, and both stores end with the same view.
pub async fn stores_share_an_engine(factory: &dyn Factory) {
    let world = World::new(factory).await;
    let id = world.mailbox().await;
    let stores = [0, 1].map(|_| Store::new(Arc::clone(&world.engine), StoreOptions::default()));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let store = stores[task as usize % 2].clone();
        tasks.spawn(erased(async move { client(&store, id, task).await }));
    }
    let kept: u32 = tasks.join_all().await.into_iter().sum();
    let view = load(&*world.engine, id).await;
    assert_eq!(view.exists(), kept);
    assert_eq!(view.head().uid_next.value(), TASKS * EACH + 1);
    assert_eq!(view.counts().unseen, 0);
    for store in &stores {
        let mailbox = store.open(id).await.unwrap();
        // A change that changes nothing still waits its turn; one that does must see all before it.
        let added = mailbox.append(vec![message(store, 3)]).await.unwrap();
        mailbox.remove(&added.uids.iter().map(|uid| uid.value()).collect()).await.unwrap();
        assert_eq!(mailbox.view().exists(), kept);
        store.wait_for_changes().await;
    }
    world.check().await;
}

fn message(store: &Store, size: usize) -> IncomingMessage {
    IncomingMessage {
        bytes: contents(size as u64, size),
        summary: contents(1, 30),
        body: store.new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: None,
    }
}

/// Appends messages, marks each as read and expunges every second. Returns how many it left.
async fn client(store: &Store, id: posthaste_mail_model::MailboxId, task: u32) -> u32 {
    use posthaste_mail_model::Flag;
    let mailbox = retry(|| store.open(id)).await;
    let mut kept = 0;
    for n in 0..EACH {
        let message = message(store, (task * 100 + n) as usize);
        let appended = retry(|| mailbox.append(vec![message.clone()])).await;
        let uid: NumSet = appended.uids.iter().map(|uid| uid.value()).collect();
        let stored = retry(|| mailbox.store_flags(&uid, FlagChange::Add, &[Flag::Seen], None)).await;
        assert_eq!(stored.changed, uid);
        let row = stored.view.rows_of_uids(&uid).next().map(|(_, row)| *row);
        assert_eq!(row.unwrap().flags(), FlagSet::SEEN);
        if n % 2 == 0 {
            retry(|| mailbox.store_flags(&uid, FlagChange::Add, &[Flag::Deleted], None)).await;
            let expunged = retry(|| mailbox.expunge(Some(&uid))).await;
            assert_eq!(expunged.uids, uid);
        } else {
            kept += 1;
        }
    }
    kept
}

/// Retries when the store is busy with too many changes, as a client would.
async fn retry<T, F: Future<Output = crate::Result<T>>>(mut act: impl FnMut() -> F) -> T {
    for _ in 0..1000 {
        match act().await {
            Ok(done) => return done,
            Err(crate::StoreError::Busy) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("busy a thousand times");
}
