//! The directory part of an engine, in a map, for this crate's tests: with changes from outside and
//! faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use posthaste_mail_model::{AccountId, BodyId, MailboxId, ModSeq, NumSet, Secret};
use posthaste_store::{
    BodyRange, Changes, CommitOutcome, DirectoryChange, DirectoryEntry, Engine, Epoch, ListCommit,
    MailboxCommit, MailboxHead, MailboxList, Report, Result, Row, StoreError, Unreadable, Visit, page_within,
};

use crate::{Account, AccountChange, By, Directory, Login, NewAccount, Policy};

/// Records by name; how many of the next commits lose a race; how many hashes' worth of reads were
/// made.
#[derive(Default)]
pub(crate) struct MemoryRecords {
    entries: Mutex<BTreeMap<String, (u64, Bytes)>>,
    conflicts: Mutex<usize>,
    /// The beginning of the records that cannot be written.
    broken: Mutex<String>,
    /// An action before the next change of a record whose name begins so.
    meanwhile: Mutex<Option<(String, BoxFuture)>>,
    /// Pages that were read.
    scans: Mutex<usize>,
    /// Octets of the records that were read.
    octets: Mutex<usize>,
    epoch: Mutex<Epoch>,
    /// Mailboxes that were removed. All others exist.
    removed: Mutex<BTreeSet<MailboxId>>,
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl MemoryRecords {
    /// The next `count` commits answer `Conflict`, as if someone else were always first.
    pub fn conflict(&self, count: usize) {
        *self.conflicts.lock() = count;
    }

    /// Makes each change of a record that begins so fail; "" ends it.
    pub fn fail_on(&self, prefix: &str) {
        prefix.clone_into(&mut self.broken.lock());
    }

    /// Has this happen before the next change of a record that begins so.
    pub fn before(&self, prefix: &str, happens: impl Future<Output = ()> + Send + 'static) {
        *self.meanwhile.lock() = Some((prefix.to_owned(), Box::pin(happens)));
    }

    /// Has this epoch from now on. At first it has none, as a cluster.
    pub fn set_epoch(&self, epoch: Epoch) {
        *self.epoch.lock() = epoch;
    }

    /// Removes a mailbox.
    pub fn remove_mailbox(&self, mailbox: MailboxId) {
        self.removed.lock().insert(mailbox);
    }

    /// Pages that were read since the last call.
    pub fn scans(&self) -> usize {
        std::mem::take(&mut *self.scans.lock())
    }

    /// Octets of the records that were read since the last call, without their names.
    pub fn octets_read(&self) -> usize {
        std::mem::take(&mut *self.octets.lock())
    }

    /// The octets of each record whose name begins so.
    pub fn lengths(&self, prefix: &str) -> Vec<usize> {
        let entries = self.entries.lock();
        let wanted = entries.iter().filter(|(name, _)| name.starts_with(prefix));
        wanted.map(|(_, (_, value))| value.len()).collect()
    }

    fn count_read(&self, value: &Bytes) -> Bytes {
        *self.octets.lock() += value.len();
        value.clone()
    }

    /// Writes a record without the directory.
    pub fn put(&self, name: &str, value: Bytes) {
        let mut entries = self.entries.lock();
        let version = entries.get(name).map_or(1, |(version, _)| version + 1);
        entries.insert(name.to_owned(), (version, value));
    }

    /// Everything that is stored, as text.
    pub fn dump(&self) -> String {
        let entries = self.entries.lock();
        entries
            .iter()
            .map(|(name, (_, value))| format!("{name} {}\n", String::from_utf8_lossy(value)))
            .collect()
    }
}

/// A directory on fresh records, with cheap hashes.
pub(crate) fn directory() -> (Arc<MemoryRecords>, Directory) {
    let records = Arc::new(MemoryRecords::default());
    let directory = other_process(&records);
    (records, directory)
}

/// A directory of another process, on the same records.
pub(crate) fn other_process(records: &Arc<MemoryRecords>) -> Directory {
    Directory::with_policy(Arc::clone(records) as Arc<dyn Engine>, Policy::cheap_for_tests()).unwrap()
}

pub(crate) fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

pub(crate) async fn add(directory: &Directory, name: &str, password: &str) -> Account {
    directory.add(name, &secret(password), NewAccount::default()).await.unwrap()
}

/// A login with the password that an account has now.
pub(crate) fn by_password(account: &Account) -> Login {
    Login::new(Arc::new(account.clone()), By::Password)
}

/// How an administrator ends all that was begun with the password of an account.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    NewPassword,
    Disable,
    Remove,
}

impl Ending {
    pub const ALL: [Self; 3] = [Self::NewPassword, Self::Disable, Self::Remove];

    /// Does it. Returns the reason for which a login is refused from then on.
    pub async fn of(self, directory: &Directory, account: &str) -> &'static str {
        match self {
            Self::NewPassword => {
                directory.set_password(account, &secret("another pencil")).await.unwrap();
                "credentials"
            }
            Self::Disable => {
                let disable = AccountChange { disabled: Some(true), ..AccountChange::default() };
                directory.set(account, disable).await.unwrap();
                "disabled"
            }
            Self::Remove => {
                directory.remove(account).await.unwrap();
                "credentials"
            }
        }
    }
}

fn none<T>() -> Result<T> {
    Err(StoreError::Unavailable("these tests have no mailboxes".into()))
}

#[async_trait]
impl Engine for MemoryRecords {
    fn epoch(&self) -> Epoch {
        *self.epoch.lock()
    }

    async fn directory_entry(&self, name: &str) -> Result<Option<DirectoryEntry>> {
        let entry = |(version, value): &(u64, Bytes)| DirectoryEntry {
            name: name.to_owned(),
            version: *version,
            value: self.count_read(value),
        };
        Ok(self.entries.lock().get(name).map(entry))
    }

    async fn directory_scan_within(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        octets: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        *self.scans.lock() += 1;
        let entries = self.entries.lock();
        let found = entries.iter().filter(|(name, _)| name.starts_with(prefix));
        let found = found.filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        let entry = |(name, (version, value)): (&String, &(u64, Bytes))| DirectoryEntry {
            name: name.clone(),
            version: *version,
            value: self.count_read(value),
        };
        Ok(page_within(found.take(limit).map(entry), octets))
    }

    async fn directory_names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let entries = self.entries.lock();
        let found = entries.keys().filter(|name| name.starts_with(prefix));
        let found = found.filter(|name| after.is_none_or(|after| name.as_str() > after));
        Ok(found.take(limit).cloned().collect())
    }

    async fn directory_commit(&self, change: DirectoryChange) -> Result<CommitOutcome> {
        let meanwhile = self.meanwhile.lock().take_if(|(prefix, _)| change.name.starts_with(&*prefix));
        if let Some((_, happens)) = meanwhile {
            happens.await;
        }
        let broken = self.broken.lock();
        if !broken.is_empty() && change.name.starts_with(&*broken) {
            return Err(StoreError::Unavailable("the disk is away".into()));
        }
        drop(broken);
        let mut conflicts = self.conflicts.lock();
        if *conflicts > 0 {
            *conflicts -= 1;
            return Ok(CommitOutcome::Conflict);
        }
        let mut entries = self.entries.lock();
        if entries.get(&change.name).map_or(0, |(version, _)| *version) != change.expected {
            return Ok(CommitOutcome::Conflict);
        }
        match change.value {
            Some(value) => entries.insert(change.name, (change.expected + 1, value)),
            None => entries.remove(&change.name),
        };
        Ok(CommitOutcome::Done)
    }

    async fn load_list(&self, _: AccountId) -> Result<MailboxList> {
        none()
    }
    async fn commit_list(&self, _: ListCommit) -> Result<CommitOutcome> {
        none()
    }
    async fn heads(&self, mailboxes: &[MailboxId]) -> Result<Vec<Option<MailboxHead>>> {
        let removed = self.removed.lock();
        Ok(mailboxes.iter().map(|id| (!removed.contains(id)).then(MailboxHead::default)).collect())
    }
    async fn load(&self, _: MailboxId, _: &mut (dyn for<'r> FnMut(&'r [Row]) + Send)) -> Result<MailboxHead> {
        none()
    }
    async fn changes_since(&self, _: MailboxId, _: ModSeq) -> Result<Changes> {
        none()
    }
    async fn commit(&self, _: MailboxCommit) -> Result<CommitOutcome> {
        none()
    }
    async fn summaries(&self, _: MailboxId, _: &NumSet, _: &mut Visit<'_>) -> Result<Unreadable> {
        none()
    }
    async fn read_body(&self, _: BodyId, _: BodyRange) -> Result<Bytes> {
        none()
    }
    async fn references(&self, _: BodyId) -> Result<u64> {
        none()
    }

    async fn maintain(&self) -> Result<Report> {
        none()
    }
    async fn check(&self, _: &mut (dyn FnMut(f64) + Send)) -> Result<Report> {
        none()
    }
}
