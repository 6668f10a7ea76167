//! The contract of engines as tests: every engine's crate runs them all, and so does the oracle.
//!
//! ```text
//! #[tokio::test(flavor = "multi_thread")]
//! async fn the_contract_holds() {
//!     posthaste_store::suite::run_all(&MyFactory::new()).await;
//! }
//! ```
//! Each test makes an account of its own, so all may share one store, which may hold anything else.
//! A test panics where the engine breaks the contract; it ends with `maintain` and `check`.
// A failed test panics with the fault.
#![allow(clippy::unwrap_used)]

mod closed;
mod concurrent;
mod contents;
mod folder;
mod keywords;
pub mod layer;
mod lists;
mod mailboxes;
mod moves;
mod random;
mod transfer;

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_mail_model::{
    AccountId, BodyId, Id, Keyword, KeywordTable, MailboxId, MailboxName, ModSeq, Uid, UidValidity,
};

use crate::change::CommitOutcome;
use crate::engine::Engine;
use crate::head::{Counts, MailboxHead};
use crate::list::{ListCommit, MailboxEntry};
pub use closed::{
    closed_and_open_agree, mail_into_a_closed_mailbox_reads_no_rows, opening_races_deliveries,
    recent_survives_while_closed,
};
pub use concurrent::{appenders_never_share_a_uid, stores_share_an_engine};
pub use contents::{
    a_body_takes_another_form, a_summary_is_added_later, bodies_are_read_by_range, copies_share_their_body,
    one_body_for_many_recipients, references_are_counted, summaries_come_in_uid_order,
};
pub use folder::Folder;
pub use keywords::keywords_stay_with_their_messages;
pub use lists::{directory_entries_have_versions, lists_are_conditional, removed_mailboxes_cannot_be_read};
pub use mailboxes::{
    a_conflict_leaves_no_trace, a_new_mailbox_is_empty, changes_add_up, heads_come_in_the_order_asked,
    large_mailboxes, what_was_done_survives,
};
pub use moves::{
    a_move_within_a_mailbox_is_one_commit, a_pair_is_applied_whole, moves_that_cross_lose_nothing,
};
pub use random::as_the_oracle_does;
pub use transfer::mail_moves;

/// Makes engines for tests.
#[async_trait]
pub trait Factory: Send + Sync {
    /// An engine on a store that may hold anything.
    async fn open(&self) -> Arc<dyn Engine>;

    /// Closes this engine, which must have no other holder, and opens its store again.
    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine>;

    /// How many steps [`as_the_oracle_does`] takes with each seed.
    fn random_steps(&self) -> usize {
        150
    }

    /// The seeds; a failure prints the one to replay.
    fn seeds(&self) -> Vec<u64> {
        vec![1, 2, 3]
    }
}

/// Every test of the contract.
pub async fn run_all(factory: &dyn Factory) {
    a_new_mailbox_is_empty(factory).await;
    changes_add_up(factory).await;
    a_conflict_leaves_no_trace(factory).await;
    heads_come_in_the_order_asked(factory).await;
    what_was_done_survives(factory).await;
    summaries_come_in_uid_order(factory).await;
    bodies_are_read_by_range(factory).await;
    a_body_takes_another_form(factory).await;
    a_summary_is_added_later(factory).await;
    references_are_counted(factory).await;
    one_body_for_many_recipients(factory).await;
    copies_share_their_body(factory).await;
    lists_are_conditional(factory).await;
    removed_mailboxes_cannot_be_read(factory).await;
    directory_entries_have_versions(factory).await;
    appenders_never_share_a_uid(factory).await;
    stores_share_an_engine(factory).await;
    mail_into_a_closed_mailbox_reads_no_rows(factory).await;
    recent_survives_while_closed(factory).await;
    opening_races_deliveries(factory).await;
    closed_and_open_agree(factory).await;
    keywords_stay_with_their_messages(factory).await;
    a_pair_is_applied_whole(factory).await;
    a_move_within_a_mailbox_is_one_commit(factory).await;
    moves_that_cross_lose_nothing(factory).await;
    as_the_oracle_does(factory).await;
    large_mailboxes(factory).await;
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
    pub async fn new(factory: &dyn Factory) -> Self {
        Self { engine: factory.open().await, account: AccountId(new_id()) }
    }

    /// Adds a mailbox to the account's list.
    pub async fn mailbox(&self) -> MailboxId {
        add_mailbox(&*self.engine, self.account, MailboxId(new_id())).await
    }

    /// A new mailbox, and its expected contents.
    pub async fn folder(&self) -> Folder {
        Folder::new(Arc::clone(&self.engine), self.mailbox().await)
    }

    /// Checks for faults, before and after deferred work is done.
    pub async fn check(&self) {
        check(&*self.engine).await;
    }
}

/// Adds a mailbox of this id to an account's list, named after it.
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

/// An id no other run has: stores of clusters outlive a test run.
pub fn new_id() -> Id {
    let mut random = [0; 16];
    getrandom::fill(&mut random).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Id::new(now.as_millis() as u64, u128::from_le_bytes(random))
}

/// As [`new_id`].
pub fn new_body_id() -> BodyId {
    BodyId(new_id())
}

pub(crate) const fn modseq(n: u64) -> ModSeq {
    ModSeq::new(n).unwrap()
}

/// A small generator of pseudo-random numbers (the finaliser of MurmurHash3 over a counter): enough
/// to choose steps.
#[derive(Clone)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 33)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// A head in which every field has a value of its own: for tests of how engines store it.
pub fn sample_head() -> MailboxHead {
    let keywords = vec![Keyword::new("$Junk").unwrap(), Keyword::new("later").unwrap()];
    MailboxHead {
        modseq: ModSeq::new(77).unwrap(),
        uid_next: Uid::new(5).unwrap(),
        keywords: Arc::new(KeywordTable::from_keywords(keywords).unwrap()),
        counts: Counts { messages: 4, unseen: 3, deleted: 2, bytes: 1 << 40 },
        ..MailboxHead::default()
    }
}
