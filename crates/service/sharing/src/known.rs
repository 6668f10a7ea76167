//! The mailboxes that each account sees, as of a counted change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_directory::{Account, Directory, Result};
use posthaste_mail_model::AccountId;

use crate::visible::{Owner, Visible};

/// Bytes of what is known by default. A view that is dropped is read again.
pub const SHARED_BYTES_MAX: u64 = 32 << 20;
/// The least of them: 20,000 mailboxes in all views, of which an account sees 15,000.
pub const SHARED_BYTES_LEAST: u64 = 4 << 20;
/// Bytes of an account that sees nothing of others, as most do.
const READER_BYTES: u64 = 300;
/// Bytes of a mailbox in a view.
const MAILBOX_BYTES: u64 = 100;
/// Mailboxes of others that one account sees at most: five times as many as LIST shows. They take
/// some 100 bytes each. Beyond that, the owners of most are left out, so that nobody who shares
/// thousands hides what others share.
const VISIBLE_MAX: usize = 50_000;
/// Owners between two pauses for other tasks. Each costs a read of a record or two.
const OWNERS_AT_ONCE: usize = 32;

/// The known accounts.
pub(crate) struct KnownReaders {
    bounds: Bounds,
    readers: Mutex<Readers>,
}

/// How much is kept.
#[derive(Clone, Copy)]
struct Bounds {
    /// Accounts whose view of others is kept.
    readers: usize,
    /// Mailboxes in all these views.
    mailboxes: usize,
    /// Mailboxes in a view that is about to be kept.
    visible: usize,
}

impl Bounds {
    /// What takes no more than these bytes: half for mailboxes that are kept, an eighth for
    /// accounts, and the rest for one new view.
    fn within(bytes: u64) -> Self {
        let count = |bytes: u64, of_one: u64| usize::try_from(bytes / of_one).unwrap_or(usize::MAX);
        Self {
            readers: count(bytes / 8, READER_BYTES),
            mailboxes: count(bytes / 2, MAILBOX_BYTES),
            visible: count(bytes / 8 * 3, MAILBOX_BYTES).min(VISIBLE_MAX),
        }
    }
}

#[derive(Default)]
struct Readers {
    by_account: HashMap<AccountId, Arc<KnownReader>>,
    /// Mailboxes in all their views.
    mailboxes: usize,
}

/// The visible mailboxes of one account.
#[derive(Default)]
pub(crate) struct KnownReader {
    /// Held by the session that reads for all sessions of the account.
    pub(crate) refresh: tokio::sync::Mutex<()>,
    seen: Mutex<Option<Arc<VisibleMailboxes>>>,
}

/// The mailboxes that an account sees, by the lists at one time.
struct VisibleMailboxes {
    /// How many changes there were before they were read.
    changes: u64,
    /// The accounts that may share something with it, and their mailboxes. Some may have shared
    /// something before, or share with others only.
    sharers: HashMap<AccountId, Shared>,
    visible: Arc<Visible>,
}

#[derive(Clone)]
struct Shared {
    /// How many changes of the owner's lists there were before they were read.
    changes: u64,
    owner: Option<Arc<Owner>>,
}

impl Shared {
    fn mailboxes(&self) -> usize {
        self.owner.as_ref().map_or(0, |owner| owner.mailboxes())
    }
}

impl KnownReaders {
    /// Knows what takes no more than these bytes.
    pub(crate) fn within(bytes: u64) -> Self {
        Self { bounds: Bounds::within(bytes), readers: Mutex::default() }
    }

    /// Mailboxes that one account sees at most.
    pub(crate) const fn visible_max(&self) -> usize {
        self.bounds.visible
    }

    pub(crate) fn of(&self, reader: AccountId) -> Arc<KnownReader> {
        Arc::clone(self.readers.lock().by_account.entry(reader).or_default())
    }

    /// Drops all views if there are too many. A view with `before` mailboxes has `now` ones.
    pub(crate) fn keep_within_bounds(&self, before: usize, now: usize) {
        let mut readers = self.readers.lock();
        readers.mailboxes = (readers.mailboxes + now).saturating_sub(before);
        if readers.by_account.len() > self.bounds.readers || readers.mailboxes > self.bounds.mailboxes {
            *readers = Readers::default();
        }
    }
}

impl KnownReader {
    /// The mailboxes that the account sees, if they were read after this many changes.
    pub(crate) fn as_of(&self, changes: u64) -> Option<Arc<Visible>> {
        let seen = self.seen.lock();
        seen.as_ref().filter(|seen| seen.changes >= changes).map(|seen| Arc::clone(&seen.visible))
    }

    /// Reads the lists of those who changed them, with at most this many mailboxes.
    pub(crate) async fn read_up_to(
        &self,
        visible_max: usize,
        directory: &Directory,
        reader: &Account,
    ) -> Result<Arc<Visible>> {
        let before = self.seen.lock().clone();
        // Before the lists are read: the next check finds a change that is made meanwhile.
        let changes = directory.acls().changes().await?;
        let (mut sharers, mut mailboxes, mut is_cut) = (HashMap::new(), 0, false);
        for (n, sharer) in directory.acls().sharers(reader).await?.into_iter().enumerate() {
            if n % OWNERS_AT_ONCE == OWNERS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let changes = directory.acls().changes_of(sharer.id).await?;
            let kept = before.as_ref().and_then(|seen| seen.sharers.get(&sharer.id));
            let shared = match kept.filter(|kept| kept.changes == changes) {
                Some(kept) => kept.clone(),
                None => {
                    let sharing = directory.acls().shared_by(&sharer, reader).await?;
                    Shared { changes, owner: sharing.map(|sharing| Arc::new(Owner::new(sharing))) }
                }
            };
            mailboxes += shared.mailboxes();
            sharers.insert(sharer.id, shared);
            while mailboxes > visible_max
                && let Some(left_out) = remove_largest(&mut sharers)
            {
                mailboxes -= left_out.mailboxes();
                is_cut = true;
            }
        }
        if is_cut {
            tracing::warn!(
                reader = reader.name,
                "others share more than {visible_max} mailboxes with an account: it does not see those of the \
                 owners who share most"
            );
        }
        let owners = sharers.values().filter_map(|shared| shared.owner.clone()).collect();
        let visible = Arc::new(Visible::of(owners).await);
        *self.seen.lock() =
            Some(Arc::new(VisibleMailboxes { changes, sharers, visible: Arc::clone(&visible) }));
        Ok(visible)
    }

    pub(crate) fn mailboxes(&self) -> usize {
        self.seen.lock().as_ref().map_or(0, |seen| seen.visible.mailboxes())
    }
}

/// Removes the one who shares most.
fn remove_largest(sharers: &mut HashMap<AccountId, Shared>) -> Option<Shared> {
    let largest = sharers.iter().max_by_key(|(id, shared)| (shared.mailboxes(), **id));
    let largest = largest.map(|(id, _)| *id)?;
    sharers.remove(&largest)
}
