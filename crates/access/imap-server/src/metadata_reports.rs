//! The annotations that a session with METADATA enabled has reported: RFC 5464 §4.4.
//!
//! One record counts the changes of all annotations of an account. While the count is the same,
//! nothing else is read. After a change, all annotations are read and their hashes compared with
//! those last reported. So a session sees changes of any process or server.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use posthaste_directory::Annotated;
use posthaste_imap_codec::response::Untagged;
use posthaste_imap_codec::{EntryName, MailboxArg};
use posthaste_mail_model::{AccountId, MailboxName};
use posthaste_net::Clock;
use tokio::sync::watch;

use crate::heavy::Pace;
use crate::kept_memory::KeptMemory;
use crate::progress::Reports;
use crate::reply::Failure;
use crate::service::ImapService;
use crate::special_use;
use crate::wire::Wire;

/// The time after which IDLE checks for changes of other processes again. A check reads one
/// record.
const POLL_PAUSE: Duration = Duration::from_secs(10);

/// Annotations of an account whose changes are reported at most, as for annotations of messages.
/// An account may have twenty times as many, and the hashes of those would take 20 MB a session.
const HASHES_MAX: usize = 10_000;

/// Octets of a hash in a tree of few, and of the allocation of its name.
const HASH_BYTES: usize = 160;

/// Steps of comparing the hashes of a mailbox, and of comparing one of them.
const PLACE_STEPS: u64 = 500;
const HASH_STEPS: u64 = 200;

/// The hashes of the values of one mailbox's annotations, by name in lowercase.
type EntryHashes = BTreeMap<String, u64>;

/// The hashes of all annotations of an account.
#[derive(Default)]
struct AccountHashes {
    places: BTreeMap<Annotated, EntryHashes>,
    count: usize,
    octets: usize,
}

impl AccountHashes {
    /// Adds one, and breaks off if there are too many.
    fn add(&mut self, of: Annotated, name: String, hash: u64) -> ControlFlow<()> {
        self.count += 1;
        self.octets += HASH_BYTES + name.len();
        self.places.entry(of).or_default().insert(name, hash);
        if self.count > HASHES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Those of one place.
    fn at(&self, of: Annotated) -> &EntryHashes {
        static NONE: EntryHashes = EntryHashes::new();
        self.places.get(&of).unwrap_or(&NONE)
    }

    /// Octets of all of them, and of the names that a report copies.
    fn bytes(&self) -> usize {
        2 * self.octets
    }
}

/// Changed annotations of a mailbox, or of the server.
pub(crate) struct MetadataNews {
    pub(crate) mailbox: Option<MailboxName>,
    entries: Vec<EntryName>,
}

impl MetadataNews {
    /// Their report. It is made when it is sent, because it has a copy of the mailbox's name.
    pub(crate) fn response(self) -> Untagged {
        let Self { mailbox, entries } = self;
        let mailbox = mailbox.as_ref().map_or_else(|| MailboxArg::from_text(""), MailboxArg::from);
        Untagged::MetadataChanged { mailbox, entries }
    }
}

/// The annotations that the client knows.
pub(crate) struct ReportedMetadata {
    /// Keyed at random: a client cannot choose values that look alike.
    hashing: RandomState,
    /// The count of changes at the last reading.
    changes: u64,
    hashes: AccountHashes,
    memory: KeptMemory,
    /// Changes in this process wake a waiting session.
    woken: watch::Receiver<()>,
    /// The connection's clock.
    clock: Clock,
}

impl ReportedMetadata {
    /// What there is now counts as reported. `None` if there are too many annotations.
    pub(crate) async fn read(
        service: &ImapService,
        account: AccountId,
        clock: Clock,
    ) -> Result<Option<Self>, Failure> {
        let (hashing, woken) = (RandomState::new(), service.annotated.of(account));
        let (hashes, memory) = (AccountHashes::default(), KeptMemory::new(service, account));
        let mut known = Self { hashing, changes: 0, hashes, memory, woken, clock };
        known.changes = changes(service, account).await?;
        let Some(hashes) = known.read_hashes(service, account).await? else { return Ok(None) };
        known.hashes = hashes;
        Ok(Some(known))
    }

    /// The hashes of all annotations, if they are few enough and there is memory for them.
    async fn read_hashes(
        &mut self,
        service: &ImapService,
        account: AccountId,
    ) -> Result<Option<AccountHashes>, Failure> {
        let (mut found, hashing) = (AccountHashes::default(), &self.hashing);
        let all = service.directory.metadata().each(account, |of, annotations| {
            annotations.iter().try_for_each(|entry| {
                found.add(of, entry.name.to_ascii_lowercase(), hashing.hash_one(&entry.value))
            })
        });
        all.await?;
        let (list, mut pace) = (service.store.list(account).await?, Pace::default());
        for entry in &list.entries {
            if let Some(stored) = entry.special_use {
                let hash = hashing.hash_one(special_use::value(stored));
                // There are few uses.
                let _ = found.add(Annotated::Mailbox(entry.id), special_use::ENTRY.to_owned(), hash);
            }
            pace.worked(HASH_STEPS).await;
        }
        let fits = found.count <= HASHES_MAX && self.memory.resize(found.bytes()).is_ok();
        Ok(fits.then_some(found))
    }

    /// Prints the changes since the last report. Nothing is printed before all of it was read.
    /// Returns whether further changes can be reported.
    pub(crate) async fn report_changes(
        &mut self,
        (service, account): (&ImapService, AccountId),
        wire: &mut Wire,
        reports: Option<Reports<'_>>,
    ) -> Result<bool, Failure> {
        let changes = wire.reporting_if(reports, self.changes_since(service, account)).await?;
        let Some(changes) = changes else { return Ok(false) };
        for change in changes {
            wire.say(change.response());
            wire.relieve().await?;
        }
        Ok(true)
    }

    /// Waits until something may have changed, in this process or in another one.
    pub(crate) async fn wait_for_changes(&mut self) {
        // Boxed: a session should hold no memory for it until it waits.
        let poll = Box::pin(self.clock.sleep(POLL_PAUSE));
        tokio::select! {
            // The sender lives as long as the service: an error does not occur.
            Ok(()) = self.woken.changed() => {}
            () = poll => {}
        }
    }

    /// The changes since the last report. From then on they count as reported. `None` if there are
    /// too many annotations now.
    pub(crate) async fn changes_since(
        &mut self,
        service: &ImapService,
        account: AccountId,
    ) -> Result<Option<Vec<MetadataNews>>, Failure> {
        let changes = changes(service, account).await?;
        if changes == self.changes {
            return Ok(Some(Vec::new()));
        }
        let Some(now) = self.read_hashes(service, account).await? else { return Ok(None) };
        let list = service.store.list(account).await?;
        let (mut changed, mut pace) = (Vec::new(), Pace::default());
        let entries = differences(self.hashes.at(Annotated::Server), now.at(Annotated::Server));
        if !entries.is_empty() {
            changed.push(MetadataNews { mailbox: None, entries });
        }
        for entry in &list.entries {
            let of = Annotated::Mailbox(entry.id);
            let (before, after) = (self.hashes.at(of), now.at(of));
            pace.worked(PLACE_STEPS + HASH_STEPS * (before.len() + after.len()) as u64).await;
            let entries = differences(before, after);
            if !entries.is_empty() {
                changed.push(MetadataNews { mailbox: Some(entry.name.clone()), entries });
            }
        }
        (self.changes, self.hashes) = (changes, now);
        Ok(Some(changed))
    }

    /// What this session changed is not reported to it.
    pub(crate) fn note_own_change(&mut self, of: Annotated, name: &str, value: Option<&Bytes>) {
        let hash = value.map(|value| self.hashing.hash_one(value));
        let hashes = self.hashes.places.entry(of).or_default();
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
