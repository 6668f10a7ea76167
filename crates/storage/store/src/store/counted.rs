//! The counts of mailboxes, of which an account may have ten thousand.
//!
//! A head may have 10 KiB of keywords, and takes some microseconds to read. So no keywords are
//! held, and the heads of many mailboxes are read on another thread. They are read at once: if
//! messages moved between two reads, a quota would not count them.

use std::sync::Arc;

use posthaste_mail_model::{AccountId, MailboxId};
use tokio::runtime::Handle;

use super::Store;
use crate::error::Result;
use crate::head::Counts;
use crate::offload::{Place, is_large};

/// The number of messages of a change that take as long to resolve as one head takes to read.
const HEAD_MESSAGES: u64 = 25;

impl Store {
    /// The counts of mailboxes, in the order of the ids, without loading any; `None` for one that
    /// was removed. Many are read in the queue of this account.
    pub async fn counts(&self, account: AccountId, mailboxes: &[MailboxId]) -> Result<Vec<Option<Counts>>> {
        let epoch = self.engine().epoch();
        let known = |id: &MailboxId| self.known_head(*id, epoch).map(|head| head.counts);
        let mut counts: Vec<Option<Counts>> = mailboxes.iter().map(known).collect();
        let unknown: Vec<MailboxId> =
            mailboxes.iter().zip(&counts).filter(|(_, counts)| counts.is_none()).map(|(id, _)| *id).collect();
        if unknown.is_empty() {
            return Ok(counts);
        }
        let mut found = self.read_counts(account, unknown).await?.into_iter();
        for slot in counts.iter_mut().filter(|counts| counts.is_none()) {
            *slot = found.next().flatten();
        }
        Ok(counts)
    }

    async fn read_counts(&self, account: AccountId, unknown: Vec<MailboxId>) -> Result<Vec<Option<Counts>>> {
        // An engine on other machines waits for them.
        if self.engine().epoch().is_none() || !is_large(unknown.len() as u64 * HEAD_MESSAGES) {
            return self.engine().counts(&unknown).await;
        }
        let (engine, runtime) = (Arc::clone(self.engine()), Handle::current());
        let work = move || runtime.block_on(engine.counts(&unknown));
        // Boxed: few accounts have so many mailboxes.
        Box::pin(self.context().large_permits.run(Place::Account(account), work)).await?
    }
}
