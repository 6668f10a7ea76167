//! The mailboxes of a store in memory, as those that make room for others.

use std::sync::Arc;

use parking_lot::Mutex;
use posthaste_mail_model::MailboxId;

use crate::cache::Cache;
use crate::mailbox::MailboxState;
use crate::open_views::{EvictableMailboxes, IdleMailbox};

/// The mailboxes of a store, those that nobody holds among them.
pub(super) type CachedMailboxes = Mutex<Cache<MailboxId, Arc<MailboxState>>>;

/// Whether anything holds a mailbox besides the cache: an open handle, a running change or a
/// leader.
pub(super) fn is_held(state: &Arc<MailboxState>) -> bool {
    Arc::strong_count(state) > 1
}

impl EvictableMailboxes for CachedMailboxes {
    fn idle(&self, of: &[MailboxId]) -> Vec<IdleMailbox> {
        let mailboxes = self.lock();
        let find = |id: &MailboxId| {
            let (state, used) = mailboxes.peek_used(id).filter(|(state, _)| !is_held(state))?;
            state.counted_rows().map(|rows| rows.idle(used))
        };
        of.iter().filter_map(find).collect()
    }

    fn evict(&self, chosen: &[MailboxId]) {
        let evicted: Vec<_> = {
            let mut mailboxes = self.lock();
            // Somebody may have opened one since.
            chosen.iter().filter_map(|id| mailboxes.remove_if(id, |state| !is_held(state))).collect()
        };
        // Freeing a large view takes a while, so it is not done under the lock.
        drop(evicted);
    }
}
