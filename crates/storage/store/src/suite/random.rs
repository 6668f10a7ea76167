//! Compares the engine with the oracle: the same random commits to both, and both must answer the
//! same throughout.

use std::sync::Arc;

use posthaste_mail_model::{AccountId, FlagSet, MailboxId, NumSet};

use super::{Factory, Folder, Seeded, add_mailbox, check, maintain, new_id};
use crate::change::{CommitOutcome, MailboxCommit};
use crate::engine::Engine;
use crate::oracle::MemoryEngine;

/// Mailboxes in play.
const FOLDERS: u64 = 3;

/// Random appends, copies, flags, expunges, stale commits and rounds of maintenance.
pub async fn as_the_oracle_does(factory: &dyn Factory) {
    for seed in factory.seeds() {
        // Printed by the test harness only if the test fails.
        println!("seed {seed}");
        let mut play = Play::new(factory, seed).await;
        for _ in 0..factory.random_steps() {
            play.step().await;
        }
        play.compare().await;
        check(&*play.engine).await;
        check(&*play.oracle).await;
        play.compare().await;
    }
}

struct Play {
    engine: Arc<dyn Engine>,
    oracle: Arc<dyn Engine>,
    folders: Vec<Folder>,
    /// Commits that are based on an old state.
    stale: Vec<MailboxCommit>,
    random: Seeded,
}

impl Play {
    async fn new(factory: &dyn Factory, seed: u64) -> Self {
        let engine = factory.open().await;
        let oracle: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let account = AccountId(new_id());
        let mut folders = Vec::new();
        for _ in 0..FOLDERS {
            let id = MailboxId(new_id());
            add_mailbox(&*engine, account, id).await;
            add_mailbox(&*oracle, account, id).await;
            folders.push(Folder::new(Arc::clone(&engine), id));
        }
        Self { engine, oracle, folders, stale: Vec::new(), random: Seeded::new(seed) }
    }

    /// A random part of a folder's UIDs: a range of them, or every n-th.
    fn some_uids(&mut self, folder: usize) -> NumSet {
        let all = self.folders[folder].uids();
        let (first, last) = (all.first().unwrap_or(1), all.last().unwrap_or(1));
        let span = u64::from(last - first) + 1;
        let low = first + self.random.below(span) as u32;
        let high = low.saturating_add(self.random.below(span) as u32);
        let every = 1 + self.random.below(3) as u32;
        all.intersection(&NumSet::range(low, high)).iter().filter(|uid| uid % every == 0).collect()
    }

    async fn step(&mut self) {
        let at = self.random.below(FOLDERS) as usize;
        let source = self.random.below(FOLDERS) as usize;
        let uids = self.some_uids(at);
        let folder = &self.folders[at];
        let commit = match self.random.below(10) {
            0..=3 => {
                let sizes: Vec<usize> =
                    (0..1 + self.random.below(30)).map(|_| self.random.below(2000) as usize).collect();
                folder.appending(&sizes)
            }
            4 => {
                let uids = self.some_uids(source);
                self.folders[at].copying(&self.folders[source], &uids)
            }
            5 | 6 => {
                let flags = FlagSet::from_bits(self.random.below(32));
                let keyword = (self.random.below(4) == 0).then(|| self.random.below(20));
                folder.flagging(&uids, flags, keyword)
            }
            7 | 8 => folder.expunging(&uids),
            _ => {
                maintain(&*self.engine).await;
                maintain(&*self.oracle).await;
                return self.compare_one(at).await;
            }
        };
        self.commit(at, source, commit).await;
        if self.random.below(4) == 0 {
            self.try_stale().await;
        }
        if self.random.below(8) == 0 {
            self.compare_one(at).await;
        }
    }

    async fn commit(&mut self, at: usize, source: usize, commit: MailboxCommit) {
        let (a, b) = (self.engine.commit(commit.clone()).await, self.oracle.commit(commit.clone()).await);
        assert_eq!(a.unwrap(), CommitOutcome::Done);
        assert_eq!(b.unwrap(), CommitOutcome::Done);
        let source = self.folders[source].clone();
        self.folders[at].committed(&commit, Some(&source));
        self.stale.push(commit);
        if self.stale.len() > 5 {
            self.stale.remove(0);
        }
    }

    async fn try_stale(&mut self) {
        let at = self.random.below(self.stale.len() as u64) as usize;
        let commit = self.stale[at].clone();
        assert_eq!(self.engine.commit(commit.clone()).await.unwrap(), CommitOutcome::Conflict);
        assert_eq!(self.oracle.commit(commit).await.unwrap(), CommitOutcome::Conflict);
    }

    async fn compare_one(&self, at: usize) {
        for engine in [&self.engine, &self.oracle] {
            let mut folder = self.folders[at].clone();
            folder.engine = Arc::clone(engine);
            folder.verify().await;
            folder.verify_changes().await;
        }
    }

    async fn compare(&self) {
        for at in 0..self.folders.len() {
            self.compare_one(at).await;
        }
        let ids: Vec<MailboxId> = self.folders.iter().map(|f| f.id).collect();
        assert_eq!(self.engine.heads(&ids).await.unwrap(), self.oracle.heads(&ids).await.unwrap());
    }
}
