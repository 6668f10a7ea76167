//! Sweeps that cross with commits and changes of lists, step by step, against a real Cassandra
//! (`scripts/cassandra env`).
//!
//! Each test stops one engine at a certain step, lets another one sweep, and then continues the
//! first. This is the behaviour of a machine that was paused for longer than `sweep_after`. The
//! tests read no clock.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use posthaste_mail_model::{
    AccountId, FlagSet, Id, MailboxId, MailboxName, ModSeq, NumSet, Uid, UidValidity,
};
use posthaste_store::compressed;
use posthaste_store::suite::{self, Factory, Folder, World};
use posthaste_store::{
    CommitOutcome, Content, Engine, Holders, IncomingMessage, ListCommit, MailboxEntry, Store, StoreError,
    StoreOptions, Stored,
};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::PagingState;
use scylla::value::CqlValue;

use crate::cluster::ids::{blob, now_us};
use crate::cluster::work::Work;
use crate::commits::BatchOutcome;
use crate::commits::contents::CommitId;
use crate::mailboxes::partition::Partition;
use crate::{CassandraEngine, Options, advice, init};

pub(crate) struct Keyspace(Options);

#[async_trait::async_trait]
impl Factory for Keyspace {
    async fn open(&self) -> Arc<dyn Engine> {
        Arc::new(self.engine().await)
    }

    async fn reopen(&self, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        drop(engine);
        self.open().await
    }
}

impl Keyspace {
    /// A new keyspace, whose `sweep_after` is zero; `None` without a Cassandra.
    pub(crate) async fn new(what: &str) -> Option<Self> {
        let Some(host) = std::env::var("POSTHASTE_CASSANDRA").ok().filter(|host| !host.is_empty()) else {
            eprintln!("SKIPPED: POSTHASTE_CASSANDRA names no Cassandra (scripts/cassandra start; env)");
            return None;
        };
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        let mut options = Options::new(vec![host], format!("{what}_{ms}"));
        options.sweep_after = Duration::ZERO;
        options.sweep_every = Duration::ZERO;
        // A busy machine takes long to make tables; nothing here is about time.
        options.request_timeout = Duration::from_secs(60);
        init(&options, 1).await.unwrap();
        Some(Self(options))
    }

    pub(crate) async fn engine(&self) -> CassandraEngine {
        CassandraEngine::open(self.0.clone()).await.unwrap()
    }

    async fn session(&self) -> Session {
        SessionBuilder::new().known_node(&self.0.hosts[0]).build().await.unwrap()
    }

    /// How many rows there are of summaries, bodies and references.
    async fn contents(&self) -> [usize; 3] {
        let session = self.session().await;
        let mut counts = [0; 3];
        for (count, table) in counts.iter_mut().zip(["summary", "body", "bodyref"]) {
            let all = format!("SELECT * FROM {}.{table}", self.0.keyspace);
            *count = rows(session.query_unpaged(all, ()).await.unwrap()).len();
        }
        counts
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_comes_after_a_sweep_is_refused() {
    let Some(keyspace) = Keyspace::new("late").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10])).await;
    let commit = folder.appending(&[100, 300_000]);
    let ready = late.commits.prepare(&commit).await.unwrap().unwrap();
    suite::maintain(&sweeper).await;
    assert_eq!(late.commits.apply(&commit, &ready).await.unwrap(), BatchOutcome::Fenced);
    folder.verify().await;
    // As the engine does by itself: written again, it is applied and whole.
    assert_eq!(late.commit(commit.clone()).await.unwrap(), CommitOutcome::Done);
    folder.committed(&commit, None);
    folder.verify().await;
    world.check().await;
    folder.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_what_was_swept_is_refused() {
    let Some(keyspace) = Keyspace::new("copy").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let (mut folder, other) = (world.folder().await, world.folder().await);
    folder.commit(folder.appending(&[100, 200])).await;
    let copies = other.copying(&folder, &folder.uids());
    let ready = late.commits.prepare(&copies).await.unwrap().unwrap();
    folder.commit(folder.expunging(&folder.uids())).await;
    suite::maintain(&sweeper).await;
    assert_eq!(late.commits.apply(&copies, &ready).await.unwrap(), BatchOutcome::Fenced);
    assert_eq!(late.commit(copies).await.unwrap(), CommitOutcome::Conflict);
    other.verify().await;
    world.check().await;
}

/// The random part of an id.
fn random_of(id: Id) -> u128 {
    u128::from_be_bytes(id.to_bytes())
}

/// A change of a list that adds a mailbox, as a transfer makes it: the mailbox's id is years old.
fn adding(world: &World, random: u128) -> (MailboxId, ListCommit) {
    let id = MailboxId(Id::new(1_600_000_000_000, random));
    let uid_validity = UidValidity::new(7).unwrap();
    let entry =
        MailboxEntry { id, name: MailboxName::new("moved").unwrap(), uid_validity, special_use: None };
    let commit = ListCommit {
        account: world.account,
        expected: ModSeq::ZERO,
        version: ModSeq::ZERO.next(),
        upsert: vec![entry],
        remove: Vec::new(),
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: 7,
    };
    (id, commit)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_under_transfer_is_not_closed_permanently() {
    let Some(mut keyspace) = Keyspace::new("transfer").await else { return };
    // Patience does not help: the id is old.
    keyspace.0.sweep_after = Duration::from_secs(3600);
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let (id, commit) = adding(&world, random_of(late.mailboxes.cluster.new_id()));
    // The mailbox is made, and swept before the list names it: this change is refused, and made
    // again it is whole.
    let ready = late.lists.prepare(&commit).await.unwrap().unwrap();
    suite::maintain(&sweeper).await;
    assert_eq!(late.lists.put(&commit, ready).await.unwrap(), CommitOutcome::Conflict);
    assert_eq!(late.heads(&[id]).await.unwrap(), [None]);
    assert_eq!(late.commit_list(commit).await.unwrap(), CommitOutcome::Done);
    let mut folder = Folder::new(Arc::clone(&world.engine), id);
    folder.commit(folder.appending(&[100, 200])).await;
    suite::maintain(&sweeper).await;
    folder.verify().await;
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_is_late_does_not_close_what_a_list_came_to_name() {
    let Some(keyspace) = Keyspace::new("closing").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let (id, commit) = adding(&world, random_of(late.mailboxes.cluster.new_id()));
    // Left by an earlier run that was cut off.
    late.mailboxes.create_mailbox(world.account, id).await.unwrap();
    for (account, may_be) in [(world.account, false), (AccountId(late.mailboxes.cluster.new_id()), true)] {
        assert_eq!(late.may_be_of_another(account, id).await.unwrap(), may_be);
    }
    // The sweep reads the mailbox's fence and finds the list without it; then the list comes to
    // name it.
    let Partition::Open(fence) = sweeper.mailboxes.partition(id).await.unwrap() else { panic!("it is open") };
    assert_eq!(late.commit_list(commit).await.unwrap(), CommitOutcome::Done);
    assert!(!sweeper.mailboxes.close_mailbox(id, &fence).await.unwrap());
    assert!(!sweeper.lists.close_unlisted(world.account, id).await.unwrap());
    let mut folder = Folder::new(Arc::clone(&world.engine), id);
    folder.commit(folder.appending(&[100])).await;
    // Commits for a mailbox's earlier life do not touch the next one, though numbers come back.
    let stale = folder.appending(&[5]);
    let ready = late.commits.prepare(&stale).await.unwrap().unwrap();
    let Partition::Open(fence) = sweeper.mailboxes.partition(id).await.unwrap() else { panic!("it is open") };
    assert!(sweeper.mailboxes.close_mailbox(id, &fence).await.unwrap());
    sweeper.mailboxes.erase_mailbox(id).await.unwrap();
    late.mailboxes.create_mailbox(world.account, id).await.unwrap();
    let mut folder = Folder::new(Arc::clone(&world.engine), id);
    folder.commit(folder.appending(&[50, 60])).await;
    assert_eq!(late.commits.apply(&stale, &ready).await.unwrap(), BatchOutcome::Fenced);
    assert!(!sweeper.mailboxes.close_mailbox(id, &fence).await.unwrap());
    folder.verify().await;
    // A sweep that read of the closed mailbox erases it late: it lives again, and keeps its
    // summaries.
    sweeper.mailboxes.erase_mailbox(id).await.unwrap();
    folder.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_moved_while_a_sweep_removes_references_stays() {
    let Some(keyspace) = Keyspace::new("moved").await else { return };
    let sweeper = keyspace.engine().await;
    let world = World::new(&keyspace).await;
    let (mut inbox, mut archive, mut trash) =
        (world.folder().await, world.folder().await, world.folder().await);
    inbox.commit(inbox.appending(&[100, 300_000])).await;
    archive.commit_copies(archive.copying(&inbox, &inbox.uids()), &inbox).await;
    inbox.commit(inbox.expunging(&inbox.uids())).await;
    // Two references are dead, and the bodies have others.
    let (page, _) = sweeper.sweep.page_of_references(PagingState::start()).await.unwrap();
    let dead = sweeper.sweep.dead_references(page).await.unwrap();
    assert_eq!(dead.len(), 2);
    let owners = sweeper.sweep.owners_of(&dead).await.unwrap();
    // Now the messages continue, and what was alive a moment ago is dead as well.
    trash.commit_copies(trash.copying(&archive, &archive.uids()), &archive).await;
    archive.commit(archive.expunging(&archive.uids())).await;
    sweeper.sweep.release_all(dead, owners, now_us()).await.unwrap();
    trash.verify().await;
    suite::maintain(&sweeper).await;
    trash.verify().await;
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_crosses_with_expunge_and_sweep_reports_no_damage() {
    let Some(keyspace) = Keyspace::new("crossing").await else { return };
    let (reader, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10; 4])).await;
    let chunks = reader.mailboxes.all_chunks(folder.id).await.unwrap().unwrap();
    let wanted: Vec<(u32, Id)> = (1..=4).map(|uid| (uid, chunks[&0].origin(uid).unwrap())).collect();
    folder.commit(folder.expunging(&NumSet::from_ranges([(1, 1), (3, 4)]))).await;
    suite::maintain(&sweeper).await;
    let mut seen = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        seen.push(stored.uid.value());
        ControlFlow::Continue(())
    };
    let mut unreadable = NumSet::new();
    let visited = reader.mailboxes.visit_wanted(folder.id, &wanted, &mut visit, &mut unreadable).await;
    assert!(visited.unwrap().is_continue());
    assert!(unreadable.is_empty(), "{unreadable}");
    assert_eq!(seen, [2]);
    // A summary that is missing while its row is there is damage still.
    let session = keyspace.session().await;
    let delete = format!("DELETE FROM {}.summary WHERE mailbox = ? AND bucket = 0", keyspace.0.keyspace);
    session.query_unpaged(delete, (blob(folder.id.0),)).await.unwrap();
    let mut visit = |_: Stored<'_>| ControlFlow::Continue(());
    let visited = reader.mailboxes.visit_wanted(folder.id, &wanted, &mut visit, &mut unreadable).await;
    assert!(visited.unwrap().is_continue());
    assert_eq!(unreadable, NumSet::range(2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_chunk_leaves_no_tombstone() {
    let Some(keyspace) = Keyspace::new("chunks").await else { return };
    let engine = keyspace.engine().await;
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10; 300])).await;
    let before: Vec<u32> =
        engine.mailboxes.all_chunks(folder.id).await.unwrap().unwrap().into_keys().collect();
    assert_eq!(before.len(), 3);
    folder.commit(folder.expunging(&NumSet::range(1, 299))).await;
    let after = engine.mailboxes.all_chunks(folder.id).await.unwrap().unwrap();
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), before);
    assert_eq!(after.values().map(|chunk| chunk.rows.len()).collect::<Vec<_>>(), [0, 0, 1]);
    folder.commit(folder.appending(&[10; 200])).await;
    folder.verify().await;
    folder.verify_changes().await;
    world.check().await;
}

/// Takes an applied commit back to the state in which Paxos accepted it and no replica has carried
/// it out. So a coordinator leaves it that died between propose and commit.
async fn back_to_accepted(
    session: &Session,
    keyspace: &str,
    mailbox: MailboxId,
    before: &[Vec<Option<CqlValue>>],
) {
    session.query_unpaged(format!("TRUNCATE {keyspace}.mailbox"), ()).await.unwrap();
    let put = format!(
        "INSERT INTO {keyspace}.mailbox (mailbox, kind, low, modseq, head, account, fence, value) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP 1"
    );
    for row in before {
        session.query_unpaged(put.as_str(), row).await.unwrap();
    }
    let table = format!(
        "SELECT id FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = 'mailbox'"
    );
    let table = rows(session.query_unpaged(table, ()).await.unwrap()).remove(0).remove(0);
    let key = Some(blob(mailbox.0));
    let found = session
        .query_unpaged(
            "SELECT most_recent_commit_at, most_recent_commit_version, most_recent_commit FROM system.paxos \
             WHERE row_key = ? AND cf_id = ?",
            (&key, &table),
        )
        .await
        .unwrap();
    let [at, version, update] = <[_; 3]>::try_from(rows(found).remove(0)).unwrap();
    assert!(update.is_some(), "Paxos remembers no commit");
    let accept = "UPDATE system.paxos SET proposal_ballot = ?, proposal_version = ?, proposal = ?, \
                  most_recent_commit_at = null, most_recent_commit_version = null, most_recent_commit = null \
                  WHERE row_key = ? AND cf_id = ?";
    session.query_unpaged(accept, (at, version, update, key, table)).await.unwrap();
}

fn rows(result: scylla::response::query_result::QueryResult) -> Vec<Vec<Option<CqlValue>>> {
    let result = result.into_rows_result().unwrap();
    let rows = result.rows::<scylla::value::Row>().unwrap();
    rows.map(|row| row.unwrap().columns).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_in_flight_is_completed_before_a_sweep_judges() {
    let Some(keyspace) = Keyspace::new("flight").await else { return };
    let sweeper = keyspace.engine().await;
    let session = keyspace.session().await;
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10, 20])).await;
    let name = keyspace.0.keyspace.as_str();
    let all = format!("SELECT mailbox, kind, low, modseq, head, account, fence, value FROM {name}.mailbox");
    let before = rows(session.query_unpaged(all, ()).await.unwrap());
    folder.commit(folder.appending(&[30, 40])).await;
    back_to_accepted(&session, name, folder.id, &before).await;
    // A plain read does not see it, and its records look abandoned.
    let head = sweeper.mailboxes.head(folder.id).await.unwrap().unwrap();
    assert_eq!(head.head.counts.messages, 2, "the proposal is not in flight: the test tries nothing");
    suite::maintain(&sweeper).await;
    // The sweep's fence carried it out, and its contents are there.
    folder.verify().await;
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_names_few_copies() {
    let Some(keyspace) = Keyspace::new("advice").await else { return };
    let advice = advice(&keyspace.0).await.unwrap();
    // scripts/cassandra syncs its commit log, so that this is the only fault.
    let [why] = &advice[..] else { panic!("{advice:?}") };
    assert!(why.contains("keeps 1 of each row"), "{why}");
}

/// A change of a list that removes a mailbox.
async fn removing(world: &World, id: MailboxId) -> ListCommit {
    let list = world.engine.load_list(world.account).await.unwrap();
    ListCommit {
        account: world.account,
        expected: list.version,
        version: list.version.next(),
        upsert: Vec::new(),
        remove: vec![id],
        subscribe: Vec::new(),
        unsubscribe: Vec::new(),
        uid_validity_last: list.uid_validity_last,
    }
}

impl CassandraEngine {
    fn commit_id(&self) -> CommitId {
        CommitId { id: self.mailboxes.cluster.new_id(), made: Instant::now() }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contents_that_come_after_a_mailbox_was_erased_are_swept() {
    let Some(keyspace) = Keyspace::new("erased").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10])).await;
    // A server has read the mailbox for this commit, and is stopped.
    let commit = folder.appending(&[100, 300_000]);
    let removal = removing(&world, folder.id).await;
    assert_eq!(world.engine.commit_list(removal).await.unwrap(), CommitOutcome::Done);
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0]);
    assert!(late.commits.contents.write(late.commit_id(), &commit).await.unwrap());
    assert_eq!(keyspace.contents().await, [2, 3, 2]);
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0], "summaries, bodies or references stay for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_far_above_all_uids_is_swept() {
    let Some(keyspace) = Keyspace::new("above").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let folder = world.folder().await;
    // It reaches beyond the first 1,024 UIDs, and is not applied.
    let commit = folder.appending(&[10; 1_100]);
    assert!(late.commits.prepare(&commit).await.unwrap().is_some());
    assert_eq!(keyspace.contents().await, [1_100; 3]);
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0]);
    folder.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_never_outlives_its_last_reference() {
    let Some(keyspace) = Keyspace::new("last").await else { return };
    let (late, sweeper) = (keyspace.engine().await, keyspace.engine().await);
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    // A sweep comes between a reference and its body.
    let (id, commit) = (late.commit_id(), folder.appending(&[300_000]));
    late.commits.contents.write_references(id, &commit).await.unwrap();
    assert_eq!(keyspace.contents().await, [0, 0, 1]);
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0]);
    late.commits.contents.write_records(id, &commit, Vec::new()).await.unwrap();
    assert_eq!(keyspace.contents().await, [0, 2, 1], "a body without a reference");
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0]);
    // A sweep takes no body that was written a moment ago: it stays with its reference.
    let before_us = now_us();
    folder.commit(folder.appending(&[300_000])).await;
    folder.commit(folder.expunging(&folder.uids())).await;
    let (page, _) = sweeper.sweep.page_of_references(PagingState::start()).await.unwrap();
    let dead = sweeper.sweep.dead_references(page).await.unwrap();
    let owners = sweeper.sweep.owners_of(&dead).await.unwrap();
    sweeper.sweep.release_all(dead, owners, before_us).await.unwrap();
    assert_eq!(keyspace.contents().await, [0, 2, 1], "a body without a reference");
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_lost_before_the_log_was_cut_is_unknown() {
    let Some(keyspace) = Keyspace::new("forgotten").await else { return };
    let late = keyspace.engine().await;
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    // It is applied, and its answer is lost.
    let commit = folder.appending(&[100]);
    let ready = late.commits.prepare(&commit).await.unwrap().unwrap();
    assert_eq!(late.commits.apply(&commit, &ready).await.unwrap(), BatchOutcome::Applied);
    folder.committed(&commit, None);
    assert_eq!(late.commits.apply(&commit, &ready).await.unwrap(), BatchOutcome::Applied);
    // Another one came first, and the log shows it.
    let stale = folder.appending(&[200]);
    let overtaken = late.commits.prepare(&stale).await.unwrap().unwrap();
    folder.commit(folder.appending(&[300])).await;
    assert_eq!(late.commits.apply(&stale, &overtaken).await.unwrap(), BatchOutcome::Overtaken);
    // Others cut the log: one commit takes the mod-sequence as far as thousands would.
    let mut jump = folder.appending(&[400]);
    jump.head.modseq = ModSeq::new(10_000).unwrap();
    folder.commit(jump).await;
    assert_eq!(late.commits.apply(&commit, &ready).await.unwrap(), BatchOutcome::Forgotten);
    assert_eq!(late.commits.apply(&stale, &overtaken).await.unwrap(), BatchOutcome::Forgotten);
    folder.verify().await;
    world.check().await;
}

/// The database's work for each kind of mail into a closed mailbox of this many messages.
async fn costs(keyspace: &Keyspace, messages: usize) -> Vec<(&'static str, Work)> {
    let world = World::new(keyspace).await;
    let (mut source, mut target) = (world.folder().await, world.folder().await);
    source.commit(source.appending(&[10; 10])).await;
    while target.uids().count() < messages as u64 {
        let more = (messages - target.uids().count() as usize).min(1_000);
        target.commit(target.appending(&vec![10; more])).await;
    }
    let engine = Arc::new(keyspace.engine().await);
    let counted = Arc::clone(&engine);
    let work = || counted.mailboxes.cluster.counters.so_far();
    let store = Store::new(engine, StoreOptions::default());
    let opened = store.open(source.id).await.unwrap();
    let closed = store.destination(target.id);
    let message = || IncomingMessage {
        bytes: vec![b'x'; 4_096].into(),
        summary: vec![b's'; 500].into(),
        body: store.new_body_id(),
        flags: Vec::new(),
        date: 1,
        saved: None,
    };
    let mut costs = Vec::new();
    for what in ["first message", "next message", "COPY of three", "MOVE of three"] {
        let before = work();
        match what {
            "COPY of three" => drop(closed.copy_from(&opened, &NumSet::range(1, 3)).await.unwrap()),
            "MOVE of three" => drop(opened.move_to(&NumSet::range(4, 6), &closed).await.unwrap()),
            _ => drop(closed.append(vec![message()]).await.unwrap()),
        }
        costs.push((what, work().since(before)));
    }
    assert_eq!(
        world.engine.heads(&[target.id]).await.unwrap().remove(0).unwrap().counts.messages as usize,
        messages + 8
    );
    costs
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_into_a_closed_mailbox_costs_the_same_at_any_size() {
    let Some(mut keyspace) = Keyspace::new("cost").await else { return };
    // As in service: the sweep takes old records only.
    keyspace.0.sweep_after = Duration::from_secs(3600);
    let few = costs(&keyspace, 100).await;
    for (what, work) in &few {
        println!("{what}: {work:?}");
    }
    // The last chunk has 100 rows here, too.
    let many = costs(&keyspace, 100 * 128 + 100).await;
    assert_eq!(few, many);
    // Opening reads all of it, or nothing was counted.
    let engine = keyspace.engine().await;
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    folder.commit(folder.appending(&[10; 1_000])).await;
    let before = engine.mailboxes.cluster.counters.so_far();
    engine.load(folder.id, &mut |_| {}).await.unwrap();
    assert_eq!(engine.mailboxes.cluster.counters.so_far().since(before).rows, 1 + 1_000_u64.div_ceil(128));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_does_not_stop_the_sweep() {
    let Some(keyspace) = Keyspace::new("damaged").await else { return };
    let sweeper = keyspace.engine().await;
    let session = keyspace.session().await;
    let world = World::new(&keyspace).await;
    let (mut damaged, mut other) = (world.folder().await, world.folder().await);
    damaged.commit(damaged.appending(&[100, 200])).await;
    damaged.commit(damaged.expunging(&NumSet::range(1, 1))).await;
    other.commit(other.appending(&[100, 200, 300])).await;
    other.commit(other.expunging(&NumSet::range(1, 2))).await;
    let name = &keyspace.0.keyspace;
    let read = format!("SELECT value FROM {name}.mailbox WHERE mailbox = ? AND kind = 0 AND low = 0");
    let key = (blob(damaged.id.0),);
    let good = rows(session.query_unpaged(read, &key).await.unwrap()).remove(0).remove(0);
    let put = format!("UPDATE {name}.mailbox SET value = ? WHERE mailbox = ? AND kind = 0 AND low = 0");
    let bad = Some(CqlValue::Blob(vec![0; 9]));
    session.query_unpaged(put.as_str(), (&bad, &key.0)).await.unwrap();
    suite::maintain(&sweeper).await;
    // The other mailbox was swept, and of the damaged one nothing was removed.
    assert_eq!(keyspace.contents().await, [3, 3, 3]);
    session.query_unpaged(put.as_str(), (&good, &key.0)).await.unwrap();
    damaged.verify().await;
    other.verify().await;
    suite::maintain(&sweeper).await;
    assert_eq!(keyspace.contents().await, [2, 2, 2]);
    world.check().await;
}

/// Another node that read the body before sends no piece of the other form as it is stored. A body
/// in several chunks keeps its form.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_body_takes_another_form_for_all_nodes() {
    let Some(keyspace) = Keyspace::new("forms").await else { return };
    let world = World::new(&keyspace).await;
    let mut folder = world.folder().await;
    let text = Bytes::from("the same words again\r\n".repeat(9_000));
    let body = suite::new_body_id();
    let content = Content::New { bytes: text.clone(), summary: Bytes::from_static(b"a summary") };
    folder.commit(folder.adding(vec![(body, text.len() as u32, FlagSet::EMPTY, content)])).await;
    folder.commit(folder.appending(&[300_000])).await;
    let store = Store::new(keyspace.open().await, StoreOptions::default());
    let mailbox = store.open(folder.id).await.unwrap();
    let piece = async |range: std::ops::Range<u64>| mailbox.read_body(Uid::MIN, body, range).await.unwrap();
    assert!(piece(150_000..150_100).await == text[150_000..150_100]);
    let packed = compressed::compress(&text).unwrap();
    for form in [&packed, &text, &packed] {
        let recoded = world.engine.recode(body, form.clone(), Holders::Any).await.unwrap();
        assert_eq!(recoded, CommitOutcome::Done);
        for range in [150_000..150_100, 5..9, 0..100, 190_000..200_000] {
            let expected = &text[range.start as usize..text.len().min(range.end as usize)];
            assert!(piece(range.clone()).await == expected, "{range:?}");
        }
    }
    let long = folder.kept.values().find(|kept| kept.body != body).unwrap();
    for (body, form) in [(long.body, text.clone()), (body, long.bytes.clone())] {
        let refused = world.engine.recode(body, form, Holders::Any).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    world.check().await;
}
