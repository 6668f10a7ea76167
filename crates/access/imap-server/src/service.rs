//! The state that all sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_delivery::{Delivery, HeldMessages};
use posthaste_directory::Directory;
use posthaste_filter::{Event, Filter};
use posthaste_imap_codec::Tag;
use posthaste_imap_codec::response::Code;
use posthaste_indexing::SearchIndex;
use posthaste_mail_model::AccountId;
use posthaste_net::{Accounts, ByteBudget, BytePermit, Certificates, Holder, KeyedSemaphore};
use posthaste_sharing::SharedMailboxes;
use posthaste_store::Store;

use crate::annotation_news::AnnotationNews;
use crate::heavy::Heavy;
use crate::keys::{CACHE_BYTES_DEFAULT, KeyCache};
use crate::options::ImapOptions;
use crate::progress::Reports;
use crate::reply::{Failure, Reply};

/// Bytes of the largest message the server accepts.
fn one_message(options: &ImapOptions) -> usize {
    usize::try_from(options.append_bytes_max).unwrap_or(usize::MAX)
}

/// Turns of all accounts together: more than there are sessions.
const TURNS_MAX: usize = 1 << 20;

/// Everything an IMAP session needs in addition to its connection. All listeners share one.
pub struct ImapService {
    pub(crate) options: ImapOptions,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) delivery: Delivery,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) budget: ByteBudget,
    /// The memory budget for parts of large messages that are read and held.
    pub(crate) reads: ByteBudget,
    /// Converted messages that sessions read in pieces, within that budget.
    pub(crate) held: HeldMessages,
    /// The limits of each account over all its sessions.
    pub(crate) accounts: Accounts,
    /// Threads for long computations.
    pub(crate) heavy: Heavy,
    /// The turns of the sessions of each account at long reports.
    pub(crate) turns: KeyedSemaphore<AccountId>,
    /// The turns of the commands of each account that copy, change or expunge many messages.
    pub(crate) copies: KeyedSemaphore<AccountId>,
    /// The values that SORT and THREAD compare.
    pub(crate) keys: KeyCache,
    /// The search index: the messages that may contain a word.
    pub(crate) index: SearchIndex,
    /// The changes of annotations in this process.
    pub(crate) annotated: AnnotationNews,
    /// Mailboxes of others.
    pub(crate) shared: SharedMailboxes,
    /// The memory budget for results that are kept up to date.
    pub(crate) contexts: ByteBudget,
    /// Scripts of mailboxes, and where they are managed (RFC 6785).
    pub(crate) scripts: Option<MailboxScripts>,
    acts: Option<RecordOfActs>,
    /// Counts parts whose transfer encoding was decoded.
    pub(crate) decoded: AtomicU64,
    /// Counts messages whose text was searched.
    pub(crate) opened: AtomicU64,
}

/// An administrative act of a client: SETQUOTA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdministrativeAct {
    /// The account that did it.
    pub by: String,
    /// The act, without secrets.
    pub what: String,
    /// Whether it succeeded.
    pub is_done: bool,
}

/// Keeps a record of administrative acts. It may wait for a disk.
pub type RecordOfActs = Arc<dyn Fn(AdministrativeAct) + Send + Sync>;

/// Runs the scripts of mailboxes.
pub(crate) struct MailboxScripts {
    pub(crate) filter: Filter,
    pub(crate) url: String,
}

/// Bytes of messages that all sessions together hold to answer FETCH and SEARCH: four of the
/// largest messages at once. Messages up to 128 KiB are not counted.
const READS_BYTES_DEFAULT: usize = 256 << 20;

/// Bytes of results that are kept up to date. A dense one takes an eighth of a byte a message, a
/// sorted one four bytes more.
const CONTEXTS_BYTES_DEFAULT: usize = 32 << 20;

/// Bytes of the search index in memory: some 40,000 messages of 4 KiB.
const INDEX_BYTES_DEFAULT: usize = 32 << 20;

/// Bytes that a session may hold without a reservation: a small message, or as much of something
/// else. The memory plan counts them for each connection.
pub(crate) const UNRESERVED_READ_BYTES: u64 = 128 * 1024;

/// The longest wait of a session for this memory before its command is refused.
const READS_WITHIN: Duration = Duration::from_secs(30);

impl ImapService {
    /// A service on the store and the directory of `delivery`. Without `certificates` there is no
    /// STARTTLS. `budget` bounds the bytes of messages that all sessions together hold while they
    /// are appended.
    pub fn new(
        options: ImapOptions,
        delivery: Delivery,
        certificates: Option<Certificates>,
        budget: ByteBudget,
    ) -> Self {
        // One account's share must hold the largest APPEND that is allowed.
        let largest = usize::try_from(options.append_total_bytes_max).unwrap_or(usize::MAX);
        let budget = budget.with_share_of_at_least(largest);
        let (store, directory) = (delivery.store().clone(), Arc::clone(delivery.directory()));
        let reads = ByteBudget::new(READS_BYTES_DEFAULT).with_share_of_at_least(one_message(&options));
        let (heavy, decoded, opened) = (Heavy::new(), AtomicU64::new(0), AtomicU64::new(0));
        let accounts = Accounts::default();
        let index = SearchIndex::new(store.clone(), INDEX_BYTES_DEFAULT);
        Self {
            options,
            store,
            shared: SharedMailboxes::new(Arc::clone(&directory)),
            directory,
            delivery,
            certificates,
            budget,
            reads,
            held: HeldMessages::default(),
            accounts,
            heavy,
            turns: KeyedSemaphore::new(TURNS_MAX, 1),
            copies: KeyedSemaphore::new(TURNS_MAX, 1),
            keys: KeyCache::new(CACHE_BYTES_DEFAULT),
            index,
            annotated: AnnotationNews::default(),
            contexts: ByteBudget::new(CONTEXTS_BYTES_DEFAULT),
            scripts: None,
            acts: None,
            decoded,
            opened,
        }
    }

    /// The reports that the command of this tag continues (RFC 9585), without a count.
    pub(crate) fn reports<'t>(&self, tag: &'t Tag) -> Reports<'t> {
        Reports::uncounted(tag, self.options.progress)
    }

    /// Sets the memory budget for reading large messages. One account may use a quarter
    /// of it, or one message of the largest size.
    #[must_use]
    pub fn with_reads(mut self, reads: ByteBudget) -> Self {
        self.reads = reads.with_share_of_at_least(one_message(&self.options));
        self
    }

    /// Sets what sessions hold of messages that they read in pieces. Services with the same budget
    /// for reading share it.
    #[must_use]
    pub fn with_held(mut self, held: HeldMessages) -> Self {
        self.held = held;
        self
    }

    /// Sets the places for long work. Services that follow each other share them.
    #[must_use]
    pub fn with_heavy(mut self, heavy: Heavy) -> Self {
        self.heavy = heavy;
        self
    }

    /// Sets the cache of sort keys. Services that follow each other share it.
    #[must_use]
    pub fn with_keys(mut self, keys: KeyCache) -> Self {
        self.keys = keys;
        self
    }

    /// Sets how many bytes are for what accounts see of others.
    #[must_use]
    pub fn with_shared_bytes(mut self, bytes: u64) -> Self {
        self.shared = self.shared.with_bytes_max(bytes);
        self
    }

    /// Sets the search index. Services that follow each other share it.
    #[must_use]
    pub fn with_index(mut self, index: SearchIndex) -> Self {
        self.index = index;
        self
    }

    /// Sets the memory budget for results that are kept up to date. One account may use
    /// a quarter of it. Services that follow each other share it.
    #[must_use]
    pub fn with_contexts(mut self, contexts: ByteBudget) -> Self {
        self.contexts = contexts;
        self
    }

    /// Lets the service run the scripts that mailboxes name (RFC 6785). `url` is that of
    /// ManageSieve: `sieve://HOST`.
    #[must_use]
    pub fn with_scripts(mut self, filter: Filter, url: String) -> Self {
        self.scripts = Some(MailboxScripts { filter, url });
        self
    }

    /// Sets the limits for each account. Share them with other services.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = accounts;
        self
    }

    /// Has the administrative acts of clients recorded.
    #[must_use]
    pub fn with_record_of_acts(mut self, acts: RecordOfActs) -> Self {
        self.acts = Some(acts);
        self
    }

    /// Records an administrative act.
    pub(crate) async fn acted(&self, act: AdministrativeAct) {
        let Some(acts) = self.acts.clone() else { return };
        if let Err(error) = tokio::task::spawn_blocking(move || acts(act)).await {
            tracing::error!(%error, "an administrative act was not recorded");
        }
    }

    /// Runs the script of a mailbox for messages that a command has added or changed there: up to
    /// a thousand runs, so wait for it only while the client is there.
    pub(crate) async fn happened(&self, event: Event<'_>) {
        if let Some(scripts) = &self.scripts {
            scripts.filter.on_event(event).await;
        }
    }

    /// The number of parts of messages that were decoded for FETCH BINARY since the start.
    pub fn parts_decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// The number of times that a message was decoded for SEARCH since the start.
    pub fn messages_searched(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// The number of accounts whose heavy work runs or waits.
    pub fn accounts_at_work(&self) -> usize {
        self.heavy.accounts()
    }

    /// Waits for memory to hold bytes read from a message. The memory is held until the permit is
    /// dropped.
    pub(crate) async fn reserve_to_read(
        &self,
        account: AccountId,
        bytes: u64,
    ) -> Result<BytePermit, Failure> {
        let permit = self.reads.begin(Holder::Account(account.0.to_bytes()));
        self.grow_to_read(account, &permit, bytes).await?;
        // No other session may displace this permit: it is returned soon.
        permit.complete();
        Ok(permit)
    }

    /// Waits until such a permit has this many bytes.
    pub(crate) async fn grow_to_read(
        &self,
        account: AccountId,
        permit: &BytePermit,
        bytes: u64,
    ) -> Result<(), Failure> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.held.make_room(account, &self.reads, bytes);
        if permit.grow_to_within(bytes, READS_WITHIN).await.is_err() {
            let text = "Too much is being read at the moment, try again later";
            return Err(Reply::no(Code::Unavailable, text).into());
        }
        Ok(())
    }
}
