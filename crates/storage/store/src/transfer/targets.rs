//! The ids that an account and its mailboxes get at the target, and the records that go with
//! them.

use std::collections::BTreeMap;

use posthaste_mail_model::{AccountId, MailboxId, UidValidity};

/// The records about an account's mailboxes that are copied with its mail: journals of imports,
/// annotations, rights, and what readers have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedRecords {
    /// All of them.
    All,
    /// Those of the mailboxes that [`TargetIds::mailboxes`] names, if they keep the limits of
    /// such records. A backup may be forged. A record about another mailbox would become one
    /// about a mailbox of somebody else.
    OfListed,
    /// The same, without what other accounts keep about the mailboxes: it would count for them.
    /// Rights for everybody stay out, too.
    OfListedAndOwn,
}

/// The ids of an account and its mailboxes at the target. A mailbox that is not named keeps its
/// id, or its UIDVALIDITY.
#[derive(Debug, Clone)]
pub struct TargetIds {
    /// The account's id at the target.
    pub account: AccountId,
    /// The target's mailbox ids, by the source's.
    pub mailboxes: BTreeMap<MailboxId, MailboxId>,
    /// The target's UIDVALIDITYs, by the source's mailbox ids.
    pub uid_validities: BTreeMap<MailboxId, UidValidity>,
    /// The records that are copied.
    pub records: CopiedRecords,
}

impl TargetIds {
    /// Other ids, the same UIDVALIDITYs, and all records.
    pub fn with_ids(account: AccountId, mailboxes: BTreeMap<MailboxId, MailboxId>) -> Self {
        Self { account, mailboxes, uid_validities: BTreeMap::new(), records: CopiedRecords::All }
    }

    /// The id of a mailbox at the target.
    pub fn mailbox(&self, id: MailboxId) -> MailboxId {
        self.mailboxes.get(&id).copied().unwrap_or(id)
    }

    /// The id of a mailbox at the target; `None` if records about it are not copied.
    pub fn place_of_record(&self, id: MailboxId) -> Option<MailboxId> {
        match self.records {
            CopiedRecords::All => Some(self.mailbox(id)),
            CopiedRecords::OfListed | CopiedRecords::OfListedAndOwn => self.mailboxes.get(&id).copied(),
        }
    }

    /// Whether the records may be forged, so that their limits are checked.
    pub fn checks_records(&self) -> bool {
        self.records != CopiedRecords::All
    }
}
