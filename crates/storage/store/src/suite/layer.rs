//! Engines for tests that wrap another engine and change some of its calls.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet};

use crate::change::{CommitOutcome, MailboxCommit};
use crate::engine::{
    BodyRange, Changes, DirectoryChange, DirectoryEntry, Engine, Epoch, Holders, Recodes, Report, SummaryOf,
    Unreadable, Visit,
};
use crate::error::Result;
use crate::head::MailboxHead;
use crate::list::{ListCommit, MailboxList};
use crate::row::Row;

/// An engine in front of [`Layer::inner`]. Each call goes there unless the layer has one of its
/// own.
///
/// Whatever implements this is an [`Engine`].
#[async_trait]
#[allow(missing_docs, reason = "each is the call of `Engine` that has its name")]
pub trait Layer: Send + Sync + 'static {
    type Inner: Engine + ?Sized;
    /// The wrapped engine.
    fn inner(&self) -> &Self::Inner;

    fn epoch(&self) -> Epoch {
        self.inner().epoch()
    }
    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        self.inner().directory_entry(name).await
    }
    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.inner().directory_scan(prefix, after, limit).await
    }
    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        self.inner().directory_commit(change).await
    }
    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        self.inner().load_list(account).await
    }
    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        self.inner().commit_list(commit).await
    }
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        self.inner().heads(mailboxes).await
    }
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        self.inner().load(mailbox, rows).await
    }
    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        self.inner().changes_since(mailbox, since).await
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        self.inner().commit(commit).await
    }
    fn commits_pairs(&self) -> bool {
        self.inner().commits_pairs()
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        self.inner().commit_pair(pair).await
    }
    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        self.inner().summaries(mailbox, uids, visit).await
    }
    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        self.inner().read_body(body, range).await
    }
    fn recodes(&self) -> Recodes {
        self.inner().recodes()
    }
    async fn recode(&self, body: BodyId, bytes: Bytes, holders: Holders) -> Result<CommitOutcome> {
        self.inner().recode(body, bytes, holders).await
    }
    async fn add_summary(&self, message: SummaryOf, summary: Bytes) -> Result<CommitOutcome> {
        self.inner().add_summary(message, summary).await
    }
    async fn references(&self, body: BodyId) -> Result<u64> {
        self.inner().references(body).await
    }
}

#[async_trait]
impl<L: Layer> Engine for L {
    fn epoch(&self) -> Epoch {
        Layer::epoch(self)
    }
    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        Layer::directory_entry(self, name).await
    }
    async fn directory_scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        Layer::directory_scan(self, prefix, after, limit).await
    }
    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        Layer::directory_commit(self, change).await
    }
    async fn load_list(&self, account: AccountId) -> Result<MailboxList> {
        Layer::load_list(self, account).await
    }
    async fn commit_list(&self, commit: ListCommit) -> Result<CommitOutcome> {
        Layer::commit_list(self, commit).await
    }
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        Layer::heads(self, mailboxes).await
    }
    async fn load(
        &self,
        mailbox: MailboxId,
        rows: &mut (dyn for<'r> FnMut(&'r [Row]) + Send),
    ) -> Result<MailboxHead> {
        Layer::load(self, mailbox, rows).await
    }
    async fn changes_since(&self, mailbox: MailboxId, since: ModSeq) -> Result<Changes> {
        Layer::changes_since(self, mailbox, since).await
    }
    async fn commit(&self, commit: MailboxCommit) -> Result<CommitOutcome> {
        Layer::commit(self, commit).await
    }
    fn commits_pairs(&self) -> bool {
        Layer::commits_pairs(self)
    }
    async fn commit_pair(&self, pair: [MailboxCommit; 2]) -> Result<CommitOutcome> {
        Layer::commit_pair(self, pair).await
    }
    async fn summaries(
        &self,
        mailbox: MailboxId,
        uids: &NumSet,
        visit: &mut Visit<'_>,
    ) -> Result<Unreadable> {
        Layer::summaries(self, mailbox, uids, visit).await
    }
    async fn read_body(&self, body: BodyId, range: BodyRange) -> Result<Bytes> {
        Layer::read_body(self, body, range).await
    }
    fn recodes(&self) -> Recodes {
        Layer::recodes(self)
    }
    async fn recode(&self, body: BodyId, bytes: Bytes, holders: Holders) -> Result<CommitOutcome> {
        Layer::recode(self, body, bytes, holders).await
    }
    async fn add_summary(&self, message: SummaryOf, summary: Bytes) -> Result<CommitOutcome> {
        Layer::add_summary(self, message, summary).await
    }
    async fn references(&self, body: BodyId) -> Result<u64> {
        Layer::references(self, body).await
    }
    async fn maintain(&self) -> Result<Report> {
        self.inner().maintain().await
    }
    async fn check(&self, progress: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        self.inner().check(progress).await
    }
}
