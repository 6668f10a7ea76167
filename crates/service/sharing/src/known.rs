//! The mailboxes that each account sees, as of a counted change.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_directory::{Account, Directory, Result};
use posthaste_mail_model::AccountId;

use crate::visible::{Owner, Visible};

/// Accounts whose view of others is kept. Most accounts share nothing, and take some 300 bytes.
const READERS_MAX: usize = 10_000;
/// Mailboxes in all these views: some 20 MB. A view that is dropped is read again.
const MAILBOXES_MAX: usize = 200_000;
/// Mailboxes of others that one account sees at most: five times as many as LIST shows. They take
/// some 100 bytes each. Beyond that, the owners of most are left out, so that nobody who shares
/// thousands hides what others share.
const VISIBLE_MAX: usize = 50_000;
/// Owners between two pauses for other tasks. Each costs a read of a record or two.
const OWNERS_AT_ONCE: usize = 32;

/// The known accounts.
#[derive(Default)]
pub(crate) struct KnownReaders(Mutex<Readers>);

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
    pub(crate) fn of(&self, reader: AccountId) -> Arc<KnownReader> {
        Arc::clone(self.0.lock().by_account.entry(reader).or_default())
    }

    /// Drops all views if there are too many. A view with `before` mailboxes has `now` ones.
    pub(crate) fn keep_within_bounds(&self, before: usize, now: usize) {
        let mut readers = self.0.lock();
        readers.mailboxes = (readers.mailboxes + now).saturating_sub(before);
        if readers.by_account.len() > READERS_MAX || readers.mailboxes > MAILBOXES_MAX {
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

    /// Reads the lists of those who changed them.
    pub(crate) async fn read(&self, directory: &Directory, reader: &Account) -> Result<Arc<Visible>> {
        self.read_up_to(VISIBLE_MAX, directory, reader).await
    }

    /// The same, with at most this many mailboxes.
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
        let owners = sharers.values().filter_map(|shared| shared.owner.clone());
        let visible = Arc::new(Visible::new(owners));
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
