//! The engine that a test runs on, and an account of its own there.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use posthaste_mail_model::{AccountId, MailboxId, MailboxName, UidValidity};

use super::folder::Folder;
use super::values::new_id;
use crate::change::CommitOutcome;
use crate::engine::Engine;
use crate::list::{ListCommit, MailboxEntry};

/// Makes engines for tests.
#[async_trait]
pub trait Factory: Send + Sync {
    /// An engine on a store that may hold anything.
    async fn open(&self) -> Arc<dyn Engine>;

    /// Closes this engine, which must have no other holder, and opens its store again.
    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine>;

    /// How many steps [`as_the_oracle_does`](super::as_the_oracle_does) takes with each seed.
    fn random_steps(&self) -> usize {
        150
    }

    /// The seeds; a failure prints the one to replay.
    fn seeds(&self) -> Vec<u64> {
        vec![1, 2, 3]
    }
}

/// An engine and an account of its own.
pub struct World {
    /// The engine under test.
    pub engine: Arc<dyn Engine>,
    /// An account no other test has.
    pub account: AccountId,
}

impl World {
    /// On an engine of the factory's.
    #[boxed]
    pub async fn new(factory: &dyn Factory) -> Self {
        Self { engine: factory.open().await, account: AccountId(new_id()) }
    }

    /// Adds a mailbox to the account's list.
    #[boxed]
    pub async fn mailbox(&self) -> MailboxId {
        add_mailbox(&*self.engine, self.account, MailboxId(new_id())).await
    }

    /// A new mailbox, and its expected contents.
    #[boxed]
    pub async fn folder(&self) -> Folder {
        Folder::new(Arc::clone(&self.engine), self.mailbox().await)
    }

    /// Checks for faults, before and after deferred work is done.
    #[boxed]
    pub async fn check(&self) {
        check(&*self.engine).await;
    }
}

/// Adds a mailbox of this id to an account's list, named after it.
#[boxed]
pub async fn add_mailbox(engine: &dyn Engine, account: AccountId, id: MailboxId) -> MailboxId {
    let list = engine.load_list(account).await.unwrap();
    let uid_validity = UidValidity::new(list.uid_validity_last + 1).unwrap();
    let name = MailboxName::new(&format!("box {id}")).unwrap();
    let commit = ListCommit {
        account,
        expected: list.version,
        version: list.version.next(),
        upsert: vec![MailboxEntry { id, name, uid_validity, special_use: None }],
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: uid_validity.value(),
    };
    assert_eq!(engine.commit_list(commit).await.unwrap(), CommitOutcome::Done);
    id
}

/// Checks, does all maintenance, checks again.
#[boxed]
pub async fn check(engine: &dyn Engine) {
    for round in ["before maintenance", "after maintenance"] {
        let report = engine.check(&mut |_| {}).await.unwrap();
        assert!(report.faults.is_empty(), "{round}: {:#?}", report.faults);
        if round == "before maintenance" {
            maintain(engine).await;
        }
    }
}

/// Runs maintenance until nothing is left to do, up to a limit of rounds.
#[boxed]
pub async fn maintain(engine: &dyn Engine) {
    for _ in 0..10_000 {
        let report = engine.maintain().await.unwrap();
        assert!(report.faults.is_empty(), "{:#?}", report.faults);
        if report.examined == 0 {
            return;
        }
    }
    panic!("maintenance finds no end");
}
