//! Delivers messages into mailboxes: see the crate's documentation.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use posthaste_directory::{Account, Directory, FormatSettings, Precompute, Recipient, ResolveError};
use posthaste_mail_model::{AccountId, BodyId, Flag, MailboxId, MailboxName, Uid};
use posthaste_mime_summary::summary_memory_max;
use posthaste_net::{ByteBudget, KeyedPermit, KeyedSemaphore, compute_threads, on_compute_thread_with};
use posthaste_store::compressed::Compression;
use posthaste_store::form::served_len;
use posthaste_store::{Appended, Destination, IncomingMessage, MailboxList, SpecialUse, Store, StoreError};

use crate::conversions::stored_plainly;
use crate::error::DeliveryError;
use crate::long_work::{LongWork, Room, Turn, WorkFor};
use crate::memory::{FINISHED_BYTES_DEFAULT, Reserves, SummaryMemory, is_long, one_share};
use crate::quota::{Quota, QuotaReservation, Quotas, Usage};

/// Makes a message's summary.
pub type Summarize = fn(&[u8]) -> Vec<u8>;

/// Default memory for all summaries being made: two of the largest messages, or twenty of 300 KiB
/// built to take much. A message that is not long ([`is_long`]) is not counted: a thread of the
/// runtime summarises one at a time.
const SUMMARIES_BYTES_DEFAULT: usize = 512 << 20;
/// Recipients whose mailboxes are appended to at a time. It is enough for the engine to commit them
/// as one group of at most some hundreds of commits. Twice as many would not save a sync.
const PARALLEL: usize = 64;

/// Mailboxes created for a new account besides INBOX: RFC 6154 §2.
pub const DEFAULT_MAILBOXES: [(&str, SpecialUse); 5] = [
    ("Sent", SpecialUse::Sent),
    ("Drafts", SpecialUse::Drafts),
    ("Trash", SpecialUse::Trash),
    ("Junk", SpecialUse::Junk),
    ("Archive", SpecialUse::Archive),
];

/// The settings of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// Octets of a message at most: what APPENDLIMIT and SIZE announce.
    pub message_len_max: u64,
    /// Limits of accounts that have none of their own.
    pub quota: Quota,
    /// Messages of a folder over which each opening of it is logged; 0 for none.
    pub folder_messages_warn: u64,
    /// The form of messages of accounts that do not set one.
    pub format: FormatSettings,
    /// The time when the items of rich mail are made.
    pub precompute: Precompute,
    /// The compression of new messages that need no other form.
    pub compress: Compression,
}

impl Default for DeliveryOptions {
    /// 64 MiB: twice the limit of large mail services, because a message is in memory while it
    /// arrives. No quota.
    fn default() -> Self {
        Self {
            message_len_max: 64 << 20,
            quota: Quota::default(),
            folder_messages_warn: 0,
            format: FormatSettings::default(),
            precompute: Precompute::default(),
            compress: Compression::None,
        }
    }
}

/// The place of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The account.
    pub account: AccountId,
    /// The mailbox.
    pub mailbox: MailboxId,
    /// The message's UID in the mailbox.
    pub uid: Uid,
    /// The id of the message's body: the same for all recipients.
    pub body: BodyId,
}

/// The path by which mail enters. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Delivery {
    store: Store,
    directory: Arc<Directory>,
    options: DeliveryOptions,
    summarize: Summarize,
    /// Memory for summaries being made.
    pub(crate) summaries: ByteBudget,
    /// Memory for summaries that are made and not stored yet, and for what scripts want.
    pub(crate) finished: ByteBudget,
    /// For summaries that find no memory there and must not wait for it.
    pub(crate) reserves: Reserves,
    /// Places for summaries and conversions.
    pub(crate) long_work: LongWork,
    quotas: Arc<Quotas>,
    /// For decoding what URLs name: one for each account.
    pub(crate) url_permits: KeyedSemaphore<[u8; 16]>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Delivery {
    /// A delivery into a store, for the accounts of a directory.
    pub fn new(store: Store, directory: Arc<Directory>, options: DeliveryOptions) -> Self {
        let summaries = one_share(ByteBudget::new(SUMMARIES_BYTES_DEFAULT));
        let finished = one_share(ByteBudget::new(FINISHED_BYTES_DEFAULT));
        let quotas = Arc::new(Quotas::new(store.clone()));
        let url_permits = KeyedSemaphore::new(compute_threads(), 1);
        Self {
            store,
            directory,
            options,
            summarize: crate::summarize,
            summaries,
            finished,
            reserves: Reserves::new(),
            long_work: LongWork::new(),
            quotas,
            url_permits,
        }
    }

    /// Sets the memory for summaries, which other deliveries may share. It must hold the largest
    /// message ([`posthaste_mime_summary::summary_memory_max`]), or such messages get a temporary
    /// error.
    #[must_use]
    pub fn with_summaries(mut self, budget: ByteBudget) -> Self {
        self.summaries = one_share(budget);
        self
    }

    /// Sets the memory for summaries that are made and not stored yet.
    #[must_use]
    pub fn with_finished(mut self, budget: ByteBudget) -> Self {
        self.finished = one_share(budget);
        self
    }

    /// Sets the places for summaries and conversions. Conversions for readers share them.
    #[must_use]
    pub fn with_long_work(self, long_work: LongWork) -> Self {
        Self { long_work, ..self }
    }

    /// The memory for summaries, for other work on whole messages.
    pub fn summaries(&self) -> &ByteBudget {
        &self.summaries
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The directory.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The settings of deliveries.
    pub fn options(&self) -> &DeliveryOptions {
        &self.options
    }

    /// The account that receives mail for an address.
    #[boxed]
    pub async fn resolve(&self, address: &str) -> Result<Recipient, ResolveError> {
        self.directory.resolve(address).await
    }

    /// An account's mailboxes. An account without any first gets INBOX and the defaults: at its
    /// first mail or its first login. `AccountRemoved` if it was removed after its record was read.
    #[boxed]
    pub async fn mailboxes(&self, account: &Account) -> Result<Arc<MailboxList>, DeliveryError> {
        static DEFAULTS: OnceLock<Vec<(MailboxName, SpecialUse)>> = OnceLock::new();
        let defaults = DEFAULTS.get_or_init(|| {
            let name = |(name, special): &(&str, SpecialUse)| Some((MailboxName::new(name).ok()?, *special));
            DEFAULT_MAILBOXES.iter().filter_map(name).collect()
        });
        let list = self.store.list(account.id).await?;
        if list.is_emptied() {
            self.check_not_removed(account).await?;
        }
        Ok(self.store.with_default_mailboxes(list, defaults).await?)
    }

    /// An emptied list is that of a removed account, or it was damaged. The directory knows which.
    #[boxed]
    async fn check_not_removed(&self, account: &Account) -> Result<(), DeliveryError> {
        match self.directory.account(&account.name).await? {
            // A removed account may have a successor of the same name.
            Some(now) if now.id == account.id => Ok(()),
            _ => Err(StoreError::AccountRemoved.into()),
        }
    }

    /// A message of the server itself, ready for a mailbox, without memory for its summary. What
    /// comes from others has that memory, and counts for them: see [`Delivery::incoming_held`].
    #[boxed]
    pub async fn incoming(
        &self,
        bytes: Bytes,
        flags: Vec<Flag>,
        date: Option<u32>,
    ) -> Result<IncomingMessage, DeliveryError> {
        self.incoming_with(WorkFor::SERVER, (bytes, flags, date), self.options.compress).await
    }

    /// A message ready for a mailbox: its size is checked and its summary is made. `date` is
    /// INTERNALDATE in unix seconds; without one, it is now.
    #[boxed]
    pub(crate) async fn incoming_for(
        &self,
        whose: WorkFor,
        bytes: Bytes,
        flags: Vec<Flag>,
        date: Option<u32>,
    ) -> Result<IncomingMessage, DeliveryError> {
        self.incoming_with(whose, (bytes, flags, date), self.options.compress).await
    }

    /// Makes a message as [`Self::incoming_for`] does, with this compression of the body. A body
    /// that nobody stores needs none.
    pub(crate) async fn incoming_with(
        &self,
        whose: WorkFor,
        (bytes, flags, date): (Bytes, Vec<Flag>, Option<u32>),
        compress: Compression,
    ) -> Result<IncomingMessage, DeliveryError> {
        self.check_size(bytes.len())?;
        if !is_long(bytes.len()) {
            return Ok(self.incoming_here(bytes, flags, date, compress));
        }
        let summarize = self.summarize;
        let room = self.room(whose, summary_memory_max(bytes.len())).await?;
        let work = on_compute_thread_with(room, move || (summarize(&bytes), stored_plainly(bytes, compress)));
        let (summary, stored) = work.await.map_err(|e| DeliveryError::Interrupted(e.to_string()))?;
        Ok(self.with_summary(stored, summary, flags, date))
    }

    /// Makes a message as [`Self::incoming_with`] does, on this thread. It is not long, and its
    /// size was checked.
    pub(crate) fn incoming_here(
        &self,
        bytes: Bytes,
        flags: Vec<Flag>,
        date: Option<u32>,
        compress: Compression,
    ) -> IncomingMessage {
        let summary = self.summary_of(&bytes);
        self.with_summary(stored_plainly(bytes, compress), summary, flags, date)
    }

    /// Waits for the turn to make the summary of a message of this many octets, if it is long.
    /// Take it before the memory for the summary.
    pub(crate) async fn turn_if_long(
        &self,
        whose: WorkFor,
        octets: usize,
        memory: SummaryMemory,
    ) -> Result<Option<Turn>, DeliveryError> {
        match is_long(octets) {
            true => self.long_work.turn(whose, memory).await.map(Some).ok_or(DeliveryError::Busy),
            false => Ok(None),
        }
    }

    /// Waits for a place for work that takes little memory.
    pub(crate) async fn place(&self, whose: WorkFor) -> Result<KeyedPermit<WorkFor>, DeliveryError> {
        self.long_work.place(whose).await.ok_or(DeliveryError::Busy)
    }

    /// Waits for a place and this much memory.
    pub(crate) async fn room(&self, whose: WorkFor, bytes: usize) -> Result<Room, DeliveryError> {
        self.long_work.room(whose, &self.summaries, bytes).await.ok_or(DeliveryError::Busy)
    }

    /// A message's summary. That of a long one is made on another thread.
    pub(crate) async fn summary_for(&self, whose: WorkFor, bytes: &Bytes) -> Result<Vec<u8>, DeliveryError> {
        if !is_long(bytes.len()) {
            return Ok(self.summary_of(bytes));
        }
        // The message is stored already, so it is summarised however little memory there is.
        let wanted = summary_memory_max(bytes.len()).min(self.summaries.largest());
        let room = self.room(whose, wanted).await?;
        let (summarize, bytes) = (self.summarize, bytes.clone());
        let work = on_compute_thread_with(room, move || summarize(&bytes));
        work.await.map_err(|e| DeliveryError::Interrupted(e.to_string()))
    }

    /// A message's summary, made on this thread.
    pub(crate) fn summary_of(&self, bytes: &[u8]) -> Vec<u8> {
        (self.summarize)(bytes)
    }

    /// A message whose summary and stored body are made.
    pub(crate) fn with_summary(
        &self,
        stored: Bytes,
        summary: Vec<u8>,
        flags: Vec<Flag>,
        date: Option<u32>,
    ) -> IncomingMessage {
        IncomingMessage {
            bytes: stored,
            summary: Bytes::from(summary),
            body: self.store.new_body_id(),
            flags,
            date: date.unwrap_or_else(|| self.now()),
            saved: None,
        }
    }

    /// Delivers a message as [`Self::deliver_for`] does. Its long work counts for the mail of the
    /// first recipient.
    pub fn deliver<'a>(
        &'a self,
        bytes: Bytes,
        recipients: &'a [Recipient],
    ) -> BoxFuture<'a, Vec<Result<Delivered, DeliveryError>>> {
        self.deliver_for(WorkFor::mail_to(recipients), bytes, recipients)
    }

    /// Delivers one message to the INBOX of each recipient and returns one result for each, in
    /// their order. Recipients that share an account get one copy and one result. RFC 2033 §4.2:
    /// each result is independent.
    #[boxed]
    pub async fn deliver_for(
        &self,
        whose: WorkFor,
        bytes: Bytes,
        recipients: &[Recipient],
    ) -> Vec<Result<Delivered, DeliveryError>> {
        let forms = match self.forms_to_file(whose, bytes, recipients).await {
            Ok(forms) => forms,
            Err(error) => return recipients.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut distinct: HashMap<AccountId, usize> = HashMap::with_capacity(recipients.len());
        let mut accounts: Vec<Arc<Account>> = Vec::with_capacity(recipients.len());
        let mut place = Vec::with_capacity(recipients.len());
        for recipient in recipients {
            place.push(*distinct.entry(recipient.account.id).or_insert_with(|| {
                accounts.push(Arc::clone(&recipient.account));
                accounts.len() - 1
            }));
        }
        let outcomes = match &accounts[..] {
            // Most mail is for one account, which needs no stream.
            [account] => {
                let message = forms.of(account).clone();
                let outcome = Box::pin(self.append_to_inbox(account, message)).await;
                vec![outcome]
            }
            _ => {
                // Of a thousand accounts, only those that run take memory.
                let appends = accounts.into_iter().map(|account| {
                    let message = forms.of(&account).clone();
                    async move { self.append_to_inbox(&account, message).await }
                });
                Box::pin(stream::iter(appends).buffered(PARALLEL).collect::<Vec<_>>()).await
            }
        };
        let lost = || Err(DeliveryError::Interrupted("no answer for this recipient".into()));
        place.into_iter().map(|at| outcomes.get(at).cloned().unwrap_or_else(lost)).collect()
    }

    async fn append_to_inbox(
        &self,
        account: &Account,
        message: IncomingMessage,
    ) -> Result<Delivered, DeliveryError> {
        let list = self.mailboxes(account).await?;
        let inbox = list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?.id;
        let body = message.body;
        let appended = self.append(account, &self.store.destination(inbox), vec![message]).await?;
        let uid = appended.uids.first().copied();
        let uid = uid.ok_or_else(|| DeliveryError::Interrupted("the store gave no UID".into()))?;
        Ok(Delivered { account: account.id, mailbox: inbox, uid, body })
    }

    /// Appends messages to a mailbox of an account, all or none, within the account's quota: see
    /// [`Delivery::reserve_quota`].
    #[boxed]
    pub async fn append(
        &self,
        account: &Account,
        mailbox: &Destination,
        messages: Vec<IncomingMessage>,
    ) -> Result<Appended, DeliveryError> {
        let bytes = messages.iter().map(|m| served_len(&m.bytes) as u64).sum();
        let more = Usage { bytes, messages: messages.len() as u64 };
        let reserved = match self.quotas.reserve_at_once(account, self.options.quota, more) {
            Some(reservation) => reservation,
            None => self.reserve_quota(account, more).await?,
        };
        mailbox.note_owner_limit(account.folder_limits.max);
        // If this future is dropped, the commit goes on with what is reserved for it.
        Ok(mailbox.clone().holding(reserved.until_stored()).append(messages).await?)
    }

    /// Reserves a part of an account's quota for messages that are about to come.
    #[boxed]
    pub async fn reserve_quota(
        &self,
        account: &Account,
        more: Usage,
    ) -> Result<QuotaReservation, DeliveryError> {
        self.quotas.reserve(account, self.options.quota, more).await
    }

    /// Whether an account has room for messages that have not come yet. Reserves nothing.
    #[boxed]
    pub async fn could_append(&self, account: &Account, more: Usage) -> Result<(), DeliveryError> {
        self.quotas.objection(account, self.options.quota, more).await
    }

    /// Whether an account may have room for a message that replaces another one, whichever that is.
    /// Reserves nothing.
    #[boxed]
    pub async fn could_replace(&self, account: &Account, octets: u64) -> Result<(), DeliveryError> {
        let Some(limit) = self.quota(account).bytes.filter(|limit| octets > *limit) else { return Ok(()) };
        // An account over its quota may make a message smaller. Nothing in it is larger than this.
        let used = self.usage(account.id).await?.charged();
        if octets > used {
            return Err(DeliveryError::OverQuota { used, limit, more: octets });
        }
        Ok(())
    }

    /// Whether an account and its INBOX have room for a message that has not come yet.
    #[boxed]
    pub async fn has_room(&self, account: &Account, octets: u64) -> Result<(), DeliveryError> {
        let more = Usage { bytes: octets, messages: 1 };
        self.quotas.objection(account, self.options.quota, more).await?;
        let Some(limit) = self.store.folder_messages_max(account.folder_limits.max) else { return Ok(()) };
        let list = self.mailboxes(account).await?;
        let inbox = list.find(&MailboxName::inbox()).ok_or(StoreError::NoSuchName)?.id;
        let heads = self.store.status(&[inbox]).await?;
        match heads.into_iter().flatten().any(|head| head.counts.messages >= limit) {
            true => Err(StoreError::FolderFull { limit }.into()),
            false => Ok(()),
        }
    }

    /// The limits of an account: its own, and the server's where it has none.
    pub fn quota(&self, account: &Account) -> Quota {
        self.options.quota.of(account)
    }

    /// The usage of an account, from the counts of its mailboxes. It loads none of them.
    #[boxed]
    pub async fn usage(&self, account: AccountId) -> Result<Usage, DeliveryError> {
        self.quotas.usage(account).await
    }

    pub(crate) fn check_size(&self, len: usize) -> Result<(), DeliveryError> {
        let (len, limit) = (len as u64, self.options.message_len_max);
        if len > limit { Err(DeliveryError::TooLarge { len, limit }) } else { Ok(()) }
    }

    /// Now, as an internal date.
    pub(crate) fn now(&self) -> u32 {
        u32::try_from(self.store.unix_ms() / 1000).unwrap_or(u32::MAX)
    }
}
