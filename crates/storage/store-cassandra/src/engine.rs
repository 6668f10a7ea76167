//! The engine: statements prepared once, and the trait's calls handed to those who know.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Epoch, ListCommit,
    MailboxCommit, MailboxHead, MailboxList, Report, Result, Row, StoreError, Unreadable, Visit,
};
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::{Mutex, MutexGuard};

use crate::bodies::Bodies;
use crate::contents::RecentBodies;
use crate::options::Options;
use crate::schema;
use crate::session::Database;
use crate::setting;
use crate::sweep::Sweep;

/// Lanes of commits: commits of one node on one mailbox go one after the other, since Paxos would only make them fight.
/// With 4,096, a hundred commits at once rarely share a lane with another mailbox's.
const LANES: usize = 4096;

/// Declares the statements: a name, the CQL, rows in a page.
macro_rules! statements {
    ($($name:ident: $cql:literal, $page:literal;)*) => {
        /// Every statement, prepared. `{k}` is the keyspace.
        pub(crate) struct Statements { $(pub(crate) $name: PreparedStatement,)* }
        impl Statements {
            async fn prepare(database: &Database, keyspace: &str) -> Result<Self> {
                Ok(Self { $($name: {
                    let mut prepared = database.prepare(&$cql.replace("{k}", keyspace)).await?;
                    prepared.set_page_size($page);
                    prepared
                },)* })
            }
        }
    };
}

statements! {
    head: "SELECT DISTINCT modseq, head FROM {k}.mailbox WHERE mailbox = ?", 10;
    head_settled: "SELECT DISTINCT modseq, head, fence FROM {k}.mailbox WHERE mailbox = ?", 10;
    mailboxes: "SELECT DISTINCT mailbox, account, modseq FROM {k}.mailbox", 100;
    // 128 chunks are at most 800 KiB.
    chunks: "SELECT modseq, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 0 AND low >= ? AND low <= ?", 128;
    floor: "SELECT modseq, head, fence, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 0 AND low <= ? \
            ORDER BY kind DESC, low DESC LIMIT 1", 10;
    log: "SELECT modseq, head, low, value FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low > ?", 2000;
    log_at: "SELECT value FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low = ?", 10;
    create: "UPDATE {k}.mailbox SET modseq = 0, head = ?, account = ?, fence = ? WHERE mailbox = ? \
             IF modseq = null", 10;
    advance: "UPDATE {k}.mailbox SET modseq = ?, head = ? WHERE mailbox = ? IF modseq = ? AND fence = ?", 10;
    fence: "UPDATE {k}.mailbox SET fence = ? WHERE mailbox = ? IF modseq >= 0 AND fence = ?", 10;
    remove: "UPDATE {k}.mailbox SET modseq = -1 WHERE mailbox = ? IF modseq >= 0 AND fence = ?", 10;
    put: "UPDATE {k}.mailbox SET value = ? WHERE mailbox = ? AND kind = ? AND low = ?", 10;
    trim: "DELETE FROM {k}.mailbox WHERE mailbox = ? AND kind = 1 AND low <= ?", 10;
    erase: "UPDATE {k}.mailbox SET modseq = null, head = null, account = null, fence = null WHERE mailbox = ? \
            IF modseq = -1", 10;
    erase_rows: "DELETE FROM {k}.mailbox WHERE mailbox = ? AND kind = ?", 10;

    list: "SELECT version, value, fence FROM {k}.list WHERE account = ?", 10;
    list_settled: "SELECT version, value, fence FROM {k}.list WHERE account = ?", 10;
    list_put: "UPDATE {k}.list SET version = ?, value = ? WHERE account = ? IF version = ? AND fence = ?", 10;
    list_fence: "UPDATE {k}.list SET fence = ? WHERE account = ? IF version = ? AND fence = ?", 10;

    entry: "SELECT version, commit, value FROM {k}.directory WHERE bucket = ? AND name = ?", 10;
    entry_settled: "SELECT version, commit, value FROM {k}.directory WHERE bucket = ? AND name = ?", 10;
    entries: "SELECT name, version, value FROM {k}.directory WHERE bucket = ? AND name >= ? LIMIT ?", 500;
    entry_put: "UPDATE {k}.directory SET version = ?, commit = ?, value = ? WHERE bucket = ? AND name = ? \
                IF version = ?", 10;
    entry_delete: "DELETE FROM {k}.directory WHERE bucket = ? AND name = ? IF version = ?", 10;

    summaries: "SELECT uid, commit, value FROM {k}.summary WHERE mailbox = ? AND bucket = ? AND uid >= ? \
                AND uid <= ?", 512;
    summary_keys: "SELECT uid, commit FROM {k}.summary WHERE mailbox = ? AND bucket = ?", 1000;
    summary_put: "UPDATE {k}.summary SET value = ? WHERE mailbox = ? AND bucket = ? AND uid = ? AND commit = ?", 10;
    summary_delete: "DELETE FROM {k}.summary WHERE mailbox = ? AND bucket = ? AND uid = ? AND commit = ?", 10;

    // 16 chunks are 4 MiB.
    body: "SELECT n, len, value FROM {k}.body WHERE body = ? AND n >= ? AND n <= ?", 16;
    body_put: "UPDATE {k}.body SET len = ?, value = ? WHERE body = ? AND n = ?", 10;
    body_len: "SELECT DISTINCT len FROM {k}.body WHERE body = ?", 10;
    body_delete: "DELETE FROM {k}.body USING TIMESTAMP ? WHERE body = ?", 10;
    refs: "SELECT mailbox, uid, commit FROM {k}.bodyref WHERE body = ?", 500;
    refs_all: "SELECT body, mailbox, uid, commit FROM {k}.bodyref", 1000;
    ref_put: "INSERT INTO {k}.bodyref (body, mailbox, uid, commit) VALUES (?, ?, ?, ?)", 10;
    lease: "SELECT holder, ended FROM {k}.lease WHERE name = 'sweep'", 10;
    lease_take: "UPDATE {k}.lease USING TTL ? SET holder = ? WHERE name = 'sweep' IF holder = ?", 10;
    lease_end: "UPDATE {k}.lease SET holder = null, ended = ? WHERE name = 'sweep' IF holder = ?", 10;
    ref_delete: "DELETE FROM {k}.bodyref WHERE body = ? AND mailbox = ? AND uid = ? AND commit = ?", 10;
}

/// The engine on Apache Cassandra.
pub struct CassandraEngine {
    pub(crate) database: Database,
    pub(crate) statements: Statements,
    pub(crate) options: Options,
    pub(crate) bodies: Bodies,
    pub(crate) recent: RecentBodies,
    pub(crate) sweep: Mutex<Sweep>,
    lanes: Vec<Mutex<()>>,
}

impl std::fmt::Debug for CassandraEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CassandraEngine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Makes keyspace and tables where they are missing; `replicas` of each row in a new keyspace. A new keyspace keeps its
/// bodies where the options say, and claims that place.
pub async fn init(options: &Options, replicas: u32) -> Result<()> {
    let database = Database::connect(options).await?;
    schema::init(&database, keyspace_of(options)?, replicas, options).await
}

/// Takes the tables of a keyspace to the version of this program; the versions they had and have. A keyspace of a later version
/// is refused and left as it is.
pub async fn upgrade(options: &Options) -> Result<(i32, i32)> {
    let database = Database::connect(options).await?;
    schema::upgrade(&database, keyspace_of(options)?).await
}

fn keyspace_of(options: &Options) -> Result<&str> {
    if schema::keyspace_is_valid(&options.keyspace) {
        return Ok(&options.keyspace);
    }
    Err(StoreError::Unavailable(format!("{:?} cannot be a keyspace", options.keyspace)))
}

impl CassandraEngine {
    /// Connects to a keyspace made by [`init`].
    pub async fn open(options: Options) -> Result<Self> {
        let keyspace = keyspace_of(&options)?;
        let database = Database::connect(&options).await?;
        schema::verify(&database, keyspace).await?;
        let bodies = setting::open_bodies(&database, keyspace, &options).await?;
        let mut statements = Statements::prepare(&database, keyspace).await?;
        for settled in [
            &mut statements.head_settled,
            &mut statements.list_settled,
            &mut statements.entry_settled,
            &mut statements.log_at,
            &mut statements.lease,
        ] {
            // A read of this kind first finishes, or rules out, what other conditional writes began.
            settled.set_consistency(Consistency::LocalSerial);
        }
        let lanes = std::iter::repeat_with(Mutex::default).take(LANES).collect();
        let recent = RecentBodies::new(options.sweep_after / 4);
        let sweep = Mutex::new(Sweep::new(database.new_id()));
        Ok(Self { database, statements, options, bodies, recent, sweep, lanes })
    }

    /// Waits until this node's earlier commits on the mailbox are through. Held while the database works: waiting in line is what it
    /// is for.
    pub(crate) async fn lane(&self, mailbox: MailboxId) -> MutexGuard<'_, ()> {
        let [.., a, b] = mailbox.0.to_bytes();
        let at = usize::from(u16::from_le_bytes([a, b])) % LANES;
        self.lanes[at].lock().await
    }
}

#[async_trait]
impl Engine for CassandraEngine {
    fn epoch(&self) -> Epoch {
        // Only the database knows.
        None
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        self.entry(name).await
    }

    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.scan(prefix, after, limit).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.change_entry(change).await
    }

    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        Ok(self.stored_list(account).await?.list)
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.change_list(commit).await
    }

    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        self.heads_of(mailboxes).await
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        let (stored, all) = self.rows_of(mailbox).await?;
        rows(&all);
        Ok(stored.head)
    }

    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.changes_of(mailbox, since).await
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.commit_mailbox(commit).await
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.visit_summaries(mailbox, uids, visit).await
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.body_range(body, range).await
    }

    async fn maintain(&self) -> Result<Report> {
        self.sweep_on().await
    }

    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        self.check_all(progress).await
    }
}
