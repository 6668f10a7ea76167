//! The counts of mailboxes, of which an account may have ten thousand.
//!
//! A head may have 10 KiB of keywords, and takes some microseconds to read. So no keywords are
//! held, and the heads of many mailboxes are read on another thread.
//!
//! All counts are of one moment: if a message moved between two reads, a quota would not count it.
//! So the counts in memory are compared again after the others were read. A move changes those of
//! both of its mailboxes, the target's first.

use std::sync::Arc;

use posthaste_mail_model::{AccountId, MailboxId, ModSeq};
use tokio::runtime::Handle;

use super::Store;
use crate::error::Result;
use crate::head::Counts;
use crate::offload::{Place, is_large};

/// The number of messages of a change that take as long to resolve as one head takes to read.
const HEAD_MESSAGES: u64 = 25;

/// Times that counts are read because mailboxes in memory changed meanwhile.
const TRIES_MAX: usize = 4;

impl Store {
    /// The counts of mailboxes, in the order of the ids, without loading any; `None` for one that
    /// was removed. Many are read in the queue of this account.
    pub async fn counts(&self, account: AccountId, mailboxes: &[MailboxId]) -> Result<Vec<Option<Counts>>> {
        for _ in 0..TRIES_MAX {
            let known = self.known_counts(mailboxes);
            let unknown = mailboxes.iter().zip(&known).filter(|(_, known)| known.is_none());
            let unknown: Vec<MailboxId> = unknown.map(|(id, _)| *id).collect();
            let mut found = match unknown.is_empty() {
                true => Vec::new(),
                false => self.read_counts(account, unknown).await?,
            }
            .into_iter();
            if self.known_counts(mailboxes) == known {
                let counts = known.into_iter().map(|known| match known {
                    Some((_, counts)) => Some(counts),
                    None => found.next().flatten(),
                });
                return Ok(counts.collect());
            }
        }
        // The engine reads all of them at one moment. What it has to write first takes a while.
        self.read_counts(account, mailboxes.to_vec()).await
    }

    /// The mod-sequences and counts of mailboxes that are cached and known to be the newest.
    fn known_counts(&self, mailboxes: &[MailboxId]) -> Vec<Option<(ModSeq, Counts)>> {
        let epoch = self.engine().epoch();
        mailboxes.iter().map(|id| self.known(*id, epoch)?.counts()).collect()
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
