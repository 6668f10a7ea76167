//! New UIDs for rich mail that an earlier version of this program converted in another way.
//!
//! A message never shows other bytes under its UID (RFC 9051 §2.3.1.1). Earlier conversions are
//! not part of this program. Where its conversion gives other bytes, the message is *superseded*.
//! It is added again with a new UID, its flags, dates and annotations. Then the old one is
//! expunged.
//!
//! | stored body | superseded if |
//! | --- | --- |
//! | rich, with a hash of what clients see | the conversion has another hash |
//! | rich, not converted at delivery | the header has another number than [`CONVERSION`] |
//!
//! It happens when somebody first reads the message: the reader finds it expunged, and then the new
//! one. Messages of the second line may also be found without a conversion. [`Renewals::run`] gives
//! all of them new UIDs after the first start of a program with another number.
//!
//! Invariants: one message is renewed at a time in a process, so none becomes two. The new message
//! is durable before the old one is expunged. A step that is cut off is finished by the next
//! reader.

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_directory::{Account, Directory};
use posthaste_mail_model::{BodyId, MailboxId, NumSet, Uid};
use posthaste_net::ByteBudget;
use posthaste_store::form::FormHeader;
use posthaste_store::{Store, StoreError, Stored, SummaryOf, WeakStore, set_directory_entry};
use tokio::sync::Mutex;

use crate::conversions::{CONVERSION, Conversions, Renew, has_other_number};
use crate::deliver::{Delivery, DeliveryOptions};
use crate::error::DeliveryError;
use crate::long_work::LongWork;
use crate::replace::ReadBodies;

/// The directory record with the version of the conversion that all messages have after
/// [`Renewals::run`].
const DONE: &str = "conversion";
/// Accounts read at a time.
const ACCOUNTS: usize = 100;
/// The bodies of a mailbox are kept for its next message if there are at most this many: 4 MB.
const KEPT_MAX: usize = 100_000;

/// Gives superseded messages of a store new UIDs. Cheap to clone.
#[derive(Clone)]
pub struct Renewals(Arc<Shared>);

struct Shared {
    /// The store has the conversions, and they have this.
    store: WeakStore,
    directory: Arc<Directory>,
    options: DeliveryOptions,
    summaries: ByteBudget,
    long_work: LongWork,
    /// Held while a message is renewed. It has the mailbox of the latest one, whose bodies the next
    /// message in it need not read again.
    one: Mutex<Option<(MailboxId, ReadBodies)>>,
}

impl Renewals {
    /// From now on, readers of the store for which these conversions work give superseded messages
    /// new UIDs, as this delivery would store them.
    pub fn begin(delivery: &Delivery, conversions: &Conversions) -> Self {
        let (store, directory) = (delivery.store().downgrade(), Arc::clone(delivery.directory()));
        let (options, summaries) = (*delivery.options(), delivery.summaries().clone());
        let (long_work, one) = (delivery.long_work.clone(), Mutex::default());
        let renewals = Self(Arc::new(Shared { store, directory, options, summaries, long_work, one }));
        conversions.renew_by(Box::new(renewals.clone()));
        renewals
    }

    /// Renews all messages that came without items and whose conversion has another number. Returns
    /// how many. Nothing is looked at if that was done since the number changed. On a cluster the
    /// messages are left to their readers: two nodes would do the same at the same time.
    pub async fn run(&self) -> Result<u64, DeliveryError> {
        let store = self.store()?;
        if store.engine().epoch().is_none() {
            return Ok(0);
        }
        let number = Bytes::from(CONVERSION.to_string());
        let done = store.engine().directory_entry(DONE).await?;
        if done.is_some_and(|done| done.value == number) {
            return Ok(0);
        }
        let (mut renewed, mut failed, mut after) = (0, 0, None);
        loop {
            let accounts = self.0.directory.accounts(after.as_deref(), ACCOUNTS).await;
            let accounts = accounts?;
            let Some(last) = accounts.last() else { break };
            after = Some(last.name.clone());
            for account in &accounts {
                for found in self.superseded(&store, account).await? {
                    match self.renew_of(&store, account, found, usize::MAX).await {
                        Ok(()) => renewed += 1,
                        Err(error) => {
                            failed += 1;
                            let (account, uid) = (&account.name, found.uid);
                            tracing::warn!(account, %uid, %error, "a message did not get a new UID yet");
                        }
                    }
                }
            }
        }
        *self.0.one.lock().await = None;
        if failed == 0 {
            set_directory_entry(&**store.engine(), DONE, Some(number)).await?;
        }
        Ok(renewed)
    }

    fn store(&self) -> Result<Store, StoreError> {
        self.0.store.upgrade().ok_or_else(|| StoreError::Unavailable("the store was closed".to_owned()))
    }

    /// The messages of an account whose conversion has another number.
    async fn superseded(&self, store: &Store, account: &Account) -> Result<Vec<SummaryOf>, StoreError> {
        let list = store.list(account.id).await?;
        let mailboxes: Vec<MailboxId> = list.entries.iter().map(|entry| entry.id).collect();
        let counts = store.counts(account.id, &mailboxes).await?;
        let mut superseded = Vec::new();
        for (id, counts) in mailboxes.into_iter().zip(counts) {
            if counts.is_none_or(|counts| counts.without_items() == 0) {
                continue;
            }
            for (uid, body) in bare(store, id).await? {
                // A message that cannot be read is left to its readers.
                let begin = store.engine().read_body(body, 0..FormHeader::LEN as u64).await;
                if begin.is_ok_and(|begin| FormHeader::of(&begin).is_some_and(|of| has_other_number(&of))) {
                    superseded.push(SummaryOf { mailbox: id, uid, body });
                }
            }
        }
        Ok(superseded)
    }

    /// Up to `kept` bodies of the mailbox stay in memory for its next message.
    async fn renew_of(
        &self,
        store: &Store,
        account: &Account,
        superseded: SummaryOf,
        kept: usize,
    ) -> Result<(), StoreError> {
        let Shared { directory, options, summaries, long_work, one, .. } = &*self.0;
        let mut one = one.lock().await;
        let latest = one.take().filter(|(mailbox, _)| *mailbox == superseded.mailbox);
        let mut bodies = latest.map_or_else(ReadBodies::default, |(_, bodies)| bodies);
        let delivery = Delivery::new(store.clone(), Arc::clone(directory), *options);
        let delivery = delivery.with_summaries(summaries.clone()).with_long_work(long_work.clone());
        let mailbox = store.open_for_upkeep(superseded.mailbox).await?;
        let renewed = delivery.renewed(account, mailbox, superseded.uid, &mut bodies).await;
        let report = renewed.map_err(of_delivery)?;
        if bodies.count() <= kept {
            *one = Some((superseded.mailbox, bodies));
        }
        match report.failed {
            0 => Ok(()),
            _ => Err(StoreError::Unavailable("its conversion failed".to_owned())),
        }
    }

    /// The account that has a mailbox.
    async fn owner(&self, store: &Store, mailbox: MailboxId) -> Result<Account, StoreError> {
        let known = store.known_owner(mailbox);
        let mut after = None;
        loop {
            let accounts = self.0.directory.accounts(after.as_deref(), ACCOUNTS).await;
            let accounts = accounts.map_err(|error| of_delivery(error.into()))?;
            let Some(last) = accounts.last() else { return Err(StoreError::NoMailbox(mailbox)) };
            after = Some(last.name.clone());
            for account in accounts {
                let is_owner = match known {
                    Some(known) => known == account.id,
                    None => store.list(account.id).await?.entries.iter().any(|entry| entry.id == mailbox),
                };
                if is_owner {
                    return Ok(account);
                }
            }
        }
    }
}

#[async_trait]
impl Renew for Renewals {
    async fn renew(&self, superseded: SummaryOf) -> Result<(), StoreError> {
        let store = self.store()?;
        let account = self.owner(&store, superseded.mailbox).await?;
        self.renew_of(&store, &account, superseded, KEPT_MAX).await
    }
}

/// The messages of a mailbox that came without items.
async fn bare(store: &Store, mailbox: MailboxId) -> Result<Vec<(Uid, BodyId)>, StoreError> {
    let mailbox = match store.open_for_upkeep(mailbox).await {
        Err(StoreError::NoMailbox(_)) => return Ok(Vec::new()),
        opened => opened?,
    };
    let view = mailbox.view();
    let all = view.all();
    let rows = view.rows(&all).filter(|(_, row)| row.lacks_items());
    let uids: NumSet = rows.map(|(_, row)| row.uid().value()).collect();
    let mut bare = Vec::new();
    let mut visit = |stored: Stored<'_>| {
        bare.push((stored.uid, stored.body));
        ControlFlow::Continue(())
    };
    // Unreadable messages stay: their readers get the error.
    let _ = mailbox.summaries(&uids, &mut visit).await?;
    Ok(bare)
}

fn of_delivery(error: DeliveryError) -> StoreError {
    match error {
        DeliveryError::Store(error) => error,
        error => StoreError::Unavailable(error.to_string()),
    }
}
