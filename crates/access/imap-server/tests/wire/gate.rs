//! An engine that waits, so that a command takes as long as a test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_imap_server::{ImapOptions, ImapService, ProgressTimes};
use posthaste_mail_model::{BodyId, MailboxId, ModSeq};
use posthaste_net::ByteBudget;
use posthaste_store::suite::layer::Layer;
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, DirectoryChange, DirectoryEntry, Engine, ListCommit, MailboxCommit,
    MailboxHead, Result, Row, Store, StoreOptions,
};
use tokio::sync::watch;

use crate::harness::Server;

/// A time after which no test runs any more.
const NEVER: Duration = Duration::from_secs(3600);

/// Reports progress as soon as a command waits for something, and then at these intervals.
pub(crate) fn talkative_options(every: Duration) -> ImapOptions {
    let times = ProgressTimes { first: Duration::ZERO, every };
    ImapOptions { progress: times, ..ImapOptions::default() }
}

/// An engine with gates. It works only while they are open.
pub(crate) struct Gate {
    engine: Arc<dyn Engine>,
    /// Before reads and changes of mailboxes.
    mailboxes: watch::Sender<bool>,
    /// Before the directory and the counts of mailboxes.
    directory: watch::Sender<bool>,
    /// Before the records of what users have seen in mailboxes of others.
    seen: watch::Sender<bool>,
    /// Reads of bodies that pass before one closes the gate of mailboxes.
    reads: AtomicUsize,
}

impl Gate {
    /// A server that reports progress once, on an engine whose gates are open. On a cluster, a
    /// command waits and reports even then.
    pub(crate) fn server() -> (Server, Arc<Self>) {
        Self::server_reporting(NEVER)
    }

    /// The same, but it reports progress again and again at these intervals.
    pub(crate) fn server_reporting(every: Duration) -> (Server, Arc<Self>) {
        let mut gate = None;
        let wrap = |engine| {
            let open = || watch::Sender::new(true);
            let (mailboxes, directory, seen) = (open(), open(), open());
            let reads = AtomicUsize::new(usize::MAX);
            let made = Arc::new(Self { engine, mailboxes, directory, seen, reads });
            gate = Some(Arc::clone(&made));
            made as Arc<dyn Engine>
        };
        let service =
            |delivery| ImapService::new(talkative_options(every), delivery, None, ByteBudget::new(256 << 20));
        let server = Server::start_on(wrap, service);
        (server, gate.expect("a gate"))
    }

    /// A store for which no gate is closed, as another process has it.
    pub(crate) fn store_beside(&self) -> Store {
        Store::new(Arc::clone(&self.engine), StoreOptions::default())
    }

    pub(crate) fn set_open(&self, is_open: bool) {
        self.mailboxes.send_replace(is_open);
    }

    /// Closes the gate of mailboxes at a read of a body, after so many others.
    pub(crate) fn close_after_reads(&self, reads: usize) {
        self.reads.store(reads, Ordering::Relaxed);
    }

    pub(crate) fn set_directory_open(&self, is_open: bool) {
        self.directory.send_replace(is_open);
    }

    pub(crate) fn set_seen_open(&self, is_open: bool) {
        self.seen.send_replace(is_open);
    }
}

async fn pass(gate: &watch::Sender<bool>) {
    let _ = gate.subscribe().wait_for(|is_open| *is_open).await;
}

#[async_trait::async_trait]
impl Layer for Gate {
    type Inner = dyn Engine;

    fn inner(&self) -> &dyn Engine {
        &*self.engine
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        pass(&self.directory).await;
        if name.starts_with("seen/") {
            pass(&self.seen).await;
        }
        self.engine.directory_entry(name).await
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        pass(&self.directory).await;
        if prefix.starts_with("seen/") {
            pass(&self.seen).await;
        }
        self.engine.directory_scan_within(prefix, after, limit, octets).await
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        pass(&self.directory).await;
        self.engine.directory_commit(change).await
    }

    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        pass(&self.directory).await;
        self.engine.heads(mailboxes).await
    }

    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        pass(&self.mailboxes).await;
        self.engine.commit_list(commit).await
    }

    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        pass(&self.mailboxes).await;
        self.engine.load(mailbox, rows).await
    }

    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        pass(&self.mailboxes).await;
        self.engine.changes_since(mailbox, since).await
    }

    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        pass(&self.mailboxes).await;
        self.engine.commit(commit).await
    }

    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        pass(&self.mailboxes).await;
        self.engine.commit_pair(pair).await
    }

    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<bytes::Bytes> {
        // After zero comes the largest number.
        if self.reads.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.set_open(false);
        }
        pass(&self.mailboxes).await;
        self.engine.read_body(body, range).await
    }
}
