//! The annotations that a session with METADATA enabled has reported: RFC 5464 §4.4.
//!
//! One record counts the changes of all annotations of an account. While the count is the same,
//! nothing else is read. After a change, all annotations are read and their hashes compared with
//! those last reported. So a session sees changes of any process or server.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::Annotated;
use posthaste_imap_codec::response::Untagged;
use posthaste_imap_codec::{EntryName, MailboxArg};
use posthaste_mail_model::AccountId;
use posthaste_net::Clock;
use tokio::sync::watch;

use crate::progress::Reports;
use crate::reply::Failure;
use crate::service::ImapService;
use crate::special_use;
use crate::wire::Wire;

/// The time after which IDLE checks for changes of other processes again. A check reads one
/// record.
const POLL_PAUSE: Duration = Duration::from_secs(10);

/// A hash for each entry, by its name in small letters.
type EntryHashes = BTreeMap<String, u64>;

/// The annotations that the client knows.
pub(crate) struct ReportedMetadata {
    hashing: RandomState,
    /// The count of changes up to which it knows all.
    changes: u64,
    hashes: BTreeMap<Annotated, EntryHashes>,
    /// Woken after changes in this process.
    woken: watch::Receiver<()>,
    /// The session's clock.
    clock: Clock,
}

impl ReportedMetadata {
    /// The present annotations, for a session with this clock.
    pub(crate) async fn read(
        service: &ImapService,
        account: AccountId,
        clock: Clock,
    ) -> Result<Self, Failure> {
        let (hashing, woken) = (RandomState::new(), service.annotated.of(account));
        let mut known = Self { hashing, changes: 0, hashes: BTreeMap::new(), woken, clock };
        known.changes = changes(service, account).await?;
        known.hashes = known.read_hashes(service, account).await?;
        Ok(known)
    }

    async fn read_hashes(
        &self,
        service: &ImapService,
        account: AccountId,
    ) -> Result<BTreeMap<Annotated, EntryHashes>, Failure> {
        let mut found: BTreeMap<Annotated, EntryHashes> = BTreeMap::new();
        let all = service.directory.metadata().all(account).await?;
        for (of, annotations) in all {
            let hashes = found.entry(of).or_default();
            for entry in annotations.iter() {
                hashes.insert(entry.name.to_ascii_lowercase(), self.hashing.hash_one(&entry.value));
            }
        }
        for entry in &service.store.list(account).await?.entries {
            if let Some(stored) = entry.special_use {
                let hashes = found.entry(Annotated::Mailbox(entry.id)).or_default();
                let value = special_use::value(stored);
                hashes.insert(special_use::ENTRY.to_owned(), self.hashing.hash_one(&value));
            }
        }
        Ok(found)
    }

    /// Prints the changes that others made since. With reports, the command at hand reports that it
    /// continues while they are read.
    pub(crate) async fn report_changes(
        &mut self,
        (service, account): (&ImapService, AccountId),
        wire: &mut Wire,
        reports: Option<Reports<'_>>,
    ) -> Result<(), Failure> {
        for change in wire.reporting_if(reports, self.changes_since(service, account)).await? {
            wire.say(change);
            wire.relieve().await?;
        }
        Ok(())
    }

    /// Waits until something may have changed.
    pub(crate) async fn wait_for_changes(&mut self) {
        // Boxed: a session should hold no memory for it until it waits.
        let poll = Box::pin(self.clock.sleep(POLL_PAUSE));
        tokio::select! {
            // The sender lives as long as the service: an error does not occur.
            Ok(()) = self.woken.changed() => {}
            () = poll => {}
        }
    }

    /// The responses that report the changes of others since. Deleted mailboxes are not reported.
    pub(crate) async fn changes_since(
        &mut self,
        service: &ImapService,
        account: AccountId,
    ) -> Result<Vec<Untagged>, Failure> {
        let changes = changes(service, account).await?;
        if changes == self.changes {
            return Ok(Vec::new());
        }
        let now = self.read_hashes(service, account).await?;
        let list = service.store.list(account).await?;
        let none = EntryHashes::new();
        let mut changed = Vec::new();
        let places = [(Annotated::Server, MailboxArg::from_text(""))].into_iter().chain(
            list.entries.iter().map(|entry| (Annotated::Mailbox(entry.id), MailboxArg::from(&entry.name))),
        );
        for (of, mailbox) in places {
            let (before, after) = (self.hashes.get(&of).unwrap_or(&none), now.get(&of).unwrap_or(&none));
            let entries = differences(before, after);
            if !entries.is_empty() {
                changed.push(Untagged::MetadataChanged { mailbox, entries });
            }
        }
        (self.changes, self.hashes) = (changes, now);
        Ok(changed)
    }

    /// Notes a change of this session's own client, which is not reported to it.
    pub(crate) fn note_own_change(&mut self, of: Annotated, name: &str, value: Option<&Bytes>) {
        let hash = value.map(|value| self.hashing.hash_one(value));
        let hashes = self.hashes.entry(of).or_default();
        let name = name.to_ascii_lowercase();
        match hash {
            Some(hash) => hashes.insert(name, hash),
            None => hashes.remove(&name),
        };
    }
}

async fn changes(service: &ImapService, account: AccountId) -> Result<u64, Failure> {
    Ok(service.directory.metadata().changes(account).await?)
}

/// Names that have another value, or one more or less.
fn differences(before: &EntryHashes, after: &EntryHashes) -> Vec<EntryName> {
    let changed = after.iter().filter(|(name, hash)| before.get(*name) != Some(hash));
    let removed = before.iter().filter(|(name, _)| !after.contains_key(*name));
    changed.chain(removed).filter_map(|(name, _)| EntryName::new(name)).collect()
}
