//! Changes that another process overtakes again and again. The clock stands still unless a change
//! waits.

use std::time::Duration;

use posthaste_mail_model::MailboxName;
use tokio::time::Instant;

use super::*;
use crate::ListCommit;

/// How often the other process is first. It was too often once: 16 attempts were the most.
const AHEAD: u32 = 40;

/// An engine with another process that commits first.
struct Overtaking {
    inner: MemoryEngine,
    elsewhere: Store,
    /// Whether it changes two mailboxes at once.
    pairs: bool,
    /// How long the other process takes for a commit.
    takes: Duration,
    /// The mailbox that it changes, and how often.
    mailbox: Mutex<(Option<MailboxId>, u32)>,
    /// How often it changes the list of mailboxes.
    list: Mutex<u32>,
}

impl Overtaking {
    fn new(pairs: bool, takes: Duration) -> Arc<Self> {
        let inner = MemoryEngine::new();
        let elsewhere = Store::new(Arc::new(inner.another_process()), StoreOptions::default());
        let (mailbox, list) = (Mutex::new((None, 0)), Mutex::new(0));
        Arc::new(Self { inner, elsewhere, pairs, takes, mailbox, list })
    }

    /// Lets the other process be first at this many commits on a mailbox.
    fn overtake(&self, mailbox: MailboxId, times: u32) {
        *self.mailbox.lock() = (Some(mailbox), times);
    }

    /// How often it would still be first.
    fn left(&self) -> u32 {
        self.mailbox.lock().1 + *self.list.lock()
    }

    /// The mailbox of a commit that the other process overtakes.
    fn overtaken(&self, mailboxes: &[MailboxId]) -> Option<MailboxId> {
        let mut left = self.mailbox.lock();
        let mailbox = left.0.filter(|mailbox| left.1 > 0 && mailboxes.contains(mailbox))?;
        left.1 -= 1;
        Some(mailbox)
    }

    fn list_is_overtaken(&self) -> bool {
        let mut left = self.list.lock();
        let overtaken = *left > 0;
        *left = left.saturating_sub(1);
        overtaken
    }

    async fn before(&self, mailboxes: &[MailboxId]) {
        if let Some(mailbox) = self.overtaken(mailboxes) {
            tokio::time::sleep(self.takes).await;
            self.elsewhere.destination(mailbox).append(vec![message(1, &[])]).await.unwrap();
        }
    }
}

async fn subscribe(store: &Store, account: AccountId, name: &str) {
    let name = MailboxName::new(name).unwrap();
    let change = store.change_list(account, |_, draft| {
        draft.subscribe(name.clone());
        Ok(())
    });
    change.await.unwrap();
}

#[async_trait::async_trait]
impl Layer for Overtaking {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.before(&[commit.mailbox]).await;
        self.inner.commit(commit).await
    }
    fn commits_pairs(&self) -> bool {
        self.pairs
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.before(&[pair[0].mailbox, pair[1].mailbox]).await;
        self.inner.commit_pair(pair).await
    }
    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        if self.list_is_overtaken() {
            subscribe(&self.elsewhere, commit.account, "theirs").await;
        }
        self.inner.commit_list(commit).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_done_however_often_others_come_first() {
    for pairs in [false, true] {
        let engine = Overtaking::new(pairs, Duration::ZERO);
        let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
        let (source, target) = (filled(&store, 9).await, filled(&store, 1).await);
        let first = |of: &Arc<Mailbox>| engine.overtake(of.id(), AHEAD);
        let at_last = || assert_eq!(engine.left(), 0, "with pairs: {pairs}");

        first(&target);
        target.append(vec![message(2, &[])]).await.unwrap();
        at_last();
        first(&source);
        let stored = source.store_flags(&set(&[(1, 2)]), FlagChange::Add, &[Flag::Seen], None).await.unwrap();
        assert_eq!(stored.changed, set(&[(1, 2)]));
        at_last();
        first(&source);
        assert_eq!(source.remove(&set(&[(9, 9)])).await.unwrap().uids, set(&[(9, 9)]));
        at_last();
        first(&target);
        assert_eq!(target.copy_from(&source, &set(&[(1, 3)])).await.unwrap().source, set(&[(1, 3)]));
        at_last();
        for (uid, overtaken, to) in [(1, &source, &target), (2, &target, &target), (3, &source, &source)] {
            first(overtaken);
            let one = set(&[(uid, uid)]);
            let moved = source.move_to(&one, &to.destination()).await.unwrap();
            assert_eq!((&moved.copied.source, &moved.expunged.uids), (&one, &one));
            at_last();
        }
        first(&target);
        let replaced =
            source.replace(Uid::new(4).unwrap(), &target.destination(), message(3, &[])).await.unwrap();
        assert_eq!((replaced.copied.source, replaced.expunged.uids), (set(&[(4, 4)]), set(&[(4, 4)])));
        at_last();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_changed_however_often_others_come_first() {
    let engine = Overtaking::new(false, Duration::ZERO);
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let account = AccountId(new_id());
    *engine.list.lock() = AHEAD;
    subscribe(&store, account, "ours").await;
    assert_eq!(engine.left(), 0);
    let list = store.list(account).await.unwrap();
    let names: Vec<&str> = list.subscribed.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["ours", "theirs"]);
}

/// A change that always comes second is refused in the end, and nothing of it remains.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_never_first_is_refused_after_half_a_minute() {
    let engine = Overtaking::new(false, Duration::from_secs(1));
    let store = Store::new(Arc::clone(&engine) as Arc<dyn Engine>, StoreOptions::default());
    let (source, target) = (filled(&store, 3).await, filled(&store, 1).await);
    engine.overtake(target.id(), u32::MAX);
    let ours = set(&[(1, 1)]);
    let mut begun = Instant::now();
    let mut is_refused = |outcome: Result<()>| {
        assert!(matches!(outcome, Err(StoreError::Busy)), "{outcome:?}");
        // Each attempt takes a second. A copy tries again with both leads.
        let after = begun.elapsed().as_secs();
        assert!((30..34).contains(&after), "after {after} s");
        begun = Instant::now();
    };
    is_refused(target.append(vec![message(7, &[])]).await.map(drop));
    is_refused(target.store_flags(&ours, FlagChange::Add, &[Flag::Seen], None).await.map(drop));
    is_refused(target.copy_from(&source, &set(&[(1, 2)])).await.map(drop));
    is_refused(source.move_to(&set(&[(1, 2)]), &target.destination()).await.map(drop));
    engine.overtake(target.id(), 0);
    let view = target.current().await.unwrap();
    assert_eq!((source.view().exists(), view.counts().unseen), (3, view.exists()));
    assert!(view.rows(&view.all()).skip(1).all(|(_, row)| row.size() == 1), "only theirs were added");
}
