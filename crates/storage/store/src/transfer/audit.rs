//! Compares both ends after a transfer.

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::{AccountId, MailboxId, Uid};

use super::read::{StoredSummary, batches, contents, loaded, same_summary, summaries};
use super::writer::{Arrived, Contents, same_arrival};
use super::{Progress, Transfer};
use crate::error::{Result, StoreError};
use crate::form::show_the_same;
use crate::row::Row;

/// Most differences reported for one account.
const FAULTS_MAX: usize = 20;

/// The contents that an audit compares besides lists, rows and heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Summaries and bodies: every octet at both ends is read.
    All,
    /// Summaries alone.
    Summaries,
}

impl Transfer<'_> {
    /// Compares an account's mail at both ends, bodies too if `bodies`; differences, a sentence
    /// each. Nothing that either engine cannot prove to be undamaged is compared: that is an
    /// error.
    #[boxed]
    pub async fn audit(
        &self,
        account: AccountId,
        bodies: Compare,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let list = self.from.load_list(account).await?;
        let here = self.retargeted(list.clone());
        let there = self.to.load_list(here.account).await?;
        if (&here.entries, &here.subscribed) != (&there.entries, &there.subscribed)
            || here.uid_validity_last != there.uid_validity_last
        {
            faults.push(format!("the mailbox list of account {account} differs"));
        }
        faults.extend(self.audit_mailboxes(account, bodies, progress).await?);
        Ok(faults)
    }

    /// [`Self::audit`] of the mailboxes alone, whatever else the list says.
    #[boxed]
    pub async fn audit_mailboxes(
        &self,
        account: AccountId,
        bodies: Compare,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let list = self.from.load_list(account).await?;
        for entry in &list.entries {
            let fault = self.audit_mailbox(entry.id, bodies, progress).await?;
            if let Some(fault) = fault.filter(|_| faults.len() < FAULTS_MAX) {
                faults.push(format!("mailbox {} of account {account}: {fault}", entry.name));
            }
        }
        Ok(faults)
    }

    async fn audit_mailbox(
        &self,
        id: MailboxId,
        bodies: Compare,
        progress: &mut Progress<'_>,
    ) -> Result<Option<String>> {
        let place = self.target_of(id);
        let ((head, rows), (head_there, rows_there)) =
            match (self.source(id).await, loaded(self.to, place).await) {
                (Err(StoreError::NoMailbox(_)), _) => return Ok(Some("it was deleted meanwhile".into())),
                (_, Err(StoreError::NoMailbox(_))) => return Ok(Some("it was not copied".into())),
                (here, there) => (here?, there?),
            };
        if let Some(at) = rows.iter().zip(&rows_there).position(|(a, b)| a != b) {
            return Ok(Some(format!("message number {} is another message or has other flags", at + 1)));
        }
        if rows.len() != rows_there.len() {
            return Ok(Some(format!("{} messages instead of {}", rows_there.len(), rows.len())));
        }
        let heads_differ = head.uid_next != head_there.uid_next
            || head.keywords != head_there.keywords
            || head.counts != head_there.counts
            || head.modseq > head_there.modseq;
        if heads_differ {
            return Ok(Some("UIDNEXT, keywords, counts or HIGHESTMODSEQ differ".into()));
        }
        for batch in batches(&rows) {
            let differs = match bodies {
                Compare::All => {
                    let (here, there) =
                        tokio::try_join!(self.contents(id, batch), contents(self.to, place, batch))?;
                    let same = |((uid, a), (_, b)): ((&u32, &Contents), (&u32, &Contents))| {
                        self.same_arrival((a.body, a.saved, a.created), (b.body, b.saved, b.created))
                            && same_summary(batch, *uid, (&a.summary, &b.summary))
                            && show_the_same(&a.bytes, &b.bytes)
                    };
                    here.len() != there.len() || !here.iter().zip(&there).all(same)
                }
                Compare::Summaries => {
                    let (here, there) =
                        tokio::try_join!(summaries(self.from, id, batch), summaries(self.to, place, batch))?;
                    let same = |((uid, a), (_, b)): ((&u32, &StoredSummary), (&u32, &StoredSummary))| {
                        self.same_arrival((a.0, a.1, a.2), (b.0, b.1, b.2))
                            && same_summary(batch, *uid, (&a.3, &b.3))
                    };
                    !here.keys().eq(there.keys()) || !here.iter().zip(&there).all(same)
                }
            };
            if differs {
                let (first, last) = (batch.first().map(Row::uid), batch.last().map(Row::uid));
                let uid = |uid: Option<Uid>| uid.map_or(0, Uid::value);
                return Ok(Some(format!("a message between UIDs {} and {} differs", uid(first), uid(last))));
            }
            progress(batch.len() as u64);
        }
        Ok(None)
    }

    /// Whether a message came in the same way at both ends. With a verifier, its body may have
    /// another id at the target.
    fn same_arrival(&self, here: Arrived, there: Arrived) -> bool {
        let here = if self.verifier.is_some() { (there.0, here.1, here.2) } else { here };
        same_arrival(here, there)
    }
}
