//! The engine: builds the parts and delegates each call.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet};
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders, ListCommit,
    MailboxCommit, MailboxHead, MailboxList, Recodes, Report, Result, Row, StoreError, SummaryOf, Unreadable,
    Visit,
};

use crate::bodies::Bodies;
use crate::check::Check;
use crate::cluster::Cluster;
use crate::cluster::connection::Connection;
use crate::commits::Commits;
use crate::commits::contents::Contents;
use crate::directory::Directory;
use crate::lists::Lists;
use crate::mailboxes::Mailboxes;
use crate::options::Options;
use crate::options::keyspace::keyspace_is_valid;
use crate::schema;
use crate::schema::setting;
use crate::sweep::Sweep;
use crate::sweep::lease::Lease;

/// The engine on Apache Cassandra.
pub struct CassandraEngine {
    options: Options,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) lists: Arc<Lists>,
    bodies: Arc<Bodies>,
    directory: Directory,
    pub(crate) commits: Commits,
    pub(crate) sweep: Sweep,
}

impl std::fmt::Debug for CassandraEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CassandraEngine").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Creates keyspace and tables if they are missing, with `replicas` of each row in a new
/// keyspace. A new keyspace keeps its bodies where the options say, and claims that storage.
#[boxed]
pub async fn init(options: &Options, replicas: u32) -> Result<()> {
    let connection = Connection::open(options).await?;
    schema::init(&connection, keyspace_of(options)?, replicas, options).await
}

/// Upgrades the tables of a keyspace to the version of this program. Answers the versions before
/// and after. A keyspace of a later version is refused and left as it is.
#[boxed]
pub async fn upgrade(options: &Options) -> Result<(i32, i32)> {
    let connection = Connection::open(options).await?;
    schema::upgrade(&connection, keyspace_of(options)?).await
}

fn keyspace_of(options: &Options) -> Result<&str> {
    if keyspace_is_valid(&options.keyspace) {
        return Ok(&options.keyspace);
    }
    Err(StoreError::Unavailable(format!(
        "{:?} cannot be a keyspace: begin the path of --engine with a lower-case letter, and use lower-case \
         letters, digits and _, at most 48",
        options.keyspace
    )))
}

impl CassandraEngine {
    /// Connects to a keyspace made by [`init`].
    #[boxed]
    pub async fn open(options: Options) -> Result<Self> {
        let keyspace = keyspace_of(&options)?;
        let connection = Connection::open(&options).await?;
        schema::verify(&connection, keyspace).await?;
        schema::verify_datacenter(&connection, &options).await?;
        let backend = setting::open_bodies(&connection, keyspace, &options).await?;
        let cluster = Arc::new(Cluster::new(connection, keyspace).await?);
        let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&cluster)));
        let lists = Arc::new(Lists::new(Arc::clone(&cluster), Arc::clone(&mailboxes)));
        let bodies = Arc::new(Bodies::new(Arc::clone(&cluster), backend));
        let directory = Directory::new(Arc::clone(&cluster));
        let fresh = options.sweep_after / 4;
        let contents = Contents::new(Arc::clone(&mailboxes), Arc::clone(&bodies), fresh);
        let commits = Commits::new(Arc::clone(&mailboxes), contents, options.commit_bytes_max);
        let lease = Lease::new(cluster, options.sweep_lease, options.sweep_every);
        let sweep = Sweep::new(
            Arc::clone(&mailboxes),
            Arc::clone(&lists),
            Arc::clone(&bodies),
            lease,
            options.sweep_after,
        );
        Ok(Self { options, mailboxes, lists, bodies, directory, commits, sweep })
    }
}

#[async_trait]
impl Engine for CassandraEngine {
    fn epoch(&self) -> Epoch {
        // Only the database knows.
        None
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        self.directory.read(name).await
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        match octets {
            usize::MAX => self.directory.scan(prefix, after, limit).await,
            _ => self.directory.scan_within(prefix, after, limit, octets).await,
        }
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        self.directory.names(prefix, after, limit).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.directory.change(change).await
    }

    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        Ok(self.lists.read(account).await?.list)
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.lists.change(commit).await
    }

    async fn may_be_of_another(&self, account: AccountId, mailbox: MailboxId) -> Result<bool> {
        self.mailboxes.is_of_another(account, mailbox).await
    }

    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        self.mailboxes.heads_of(mailboxes).await
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        let (stored, all) = self.mailboxes.rows_of(mailbox).await?;
        rows(&all);
        Ok(stored.head)
    }

    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.mailboxes.changes_of(mailbox, since).await
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.commits.commit(commit).await
    }

    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.mailboxes.visit_summaries(mailbox, uids, visit).await
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.bodies.range(body, range).await
    }

    async fn has_body(&self, body: BodyId) -> Result<bool> {
        Ok(self.bodies.stored(body).await?.is_some())
    }

    fn recodes(&self) -> Recodes {
        self.bodies.recodes()
    }

    async fn recode(&self, body: BodyId, bytes: Bytes, holders: Holders) -> Result<CommitOutcome> {
        match holders {
            Holders::Any => self.sweep.recode(body, &bytes).await,
            // References and body are in different partitions, and a condition reaches one.
            Holders::AtMost(_) => Err(StoreError::Refused("this engine takes nothing from a stored message")),
        }
    }

    async fn add_summary(&self, message: SummaryOf, summary: Bytes) -> Result<CommitOutcome> {
        self.mailboxes.add_summary(&message, &summary).await
    }

    async fn references(&self, body: BodyId) -> Result<u64> {
        self.sweep.references(body).await
    }

    async fn maintain(&self) -> Result<Report> {
        self.sweep.run_piece().await
    }

    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        Check { mailboxes: &self.mailboxes, bodies: &self.bodies }.all(progress).await
    }
}
