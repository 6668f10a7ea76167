//! Records of mailboxes that do not exist any more.
//!
//! Usually they are removed with the mailbox. A crash may leave some behind. A record of a mailbox
//! that does not name its keeper has no message at all: a keeper is named before it has a value,
//! and no id is given twice.

use std::collections::BTreeSet;

use posthaste_mail_model::AccountId;

use super::{Keeping, MessageAnnotationRecords, scan};
use crate::error::Result;
use crate::orphans::OwnedMailbox;

impl MessageAnnotationRecords {
    /// Removes what an account keeps of mailboxes that do not exist any more: a few of those in
    /// which it has values are looked at.
    pub(super) async fn forget_lost_mailboxes(
        &self,
        keeper: AccountId,
        places: &BTreeSet<OwnedMailbox>,
    ) -> Result<()> {
        let some = self.orphans.lock().some_of(places);
        for (owner, mailbox) in some {
            if self.keepers(owner, mailbox).await?.contains(&keeper) {
                continue;
            }
            let mut records = Vec::new();
            let prefix = Keeping { keeper, owner, mailbox }.prefix();
            scan(self.records.engine(), &prefix, |entry| {
                records.push((entry.name.clone(), entry.version));
                Ok(())
            })
            .await?;
            // A restore may bring the mailbox back with its id. It names the keepers first.
            if !self.keepers(owner, mailbox).await?.contains(&keeper) {
                // Records that others have changed meanwhile are read again the next time.
                self.remove_records(records).await?;
            }
        }
        Ok(())
    }
}
