//! Who requests a change of a mailbox, and the memory that was reserved for it.

use std::any::Any;
use std::sync::Arc;

use posthaste_mail_model::{AccountId, MailboxId};

use crate::offload::Place;

/// A permit for the memory of a change. It is held until the change has ended, also if its caller
/// is dropped.
pub type HeldPermit = Arc<dyn Any + Send + Sync>;

/// Who requests a change.
#[derive(Clone, Default)]
pub(crate) struct Requester {
    /// The account whose session requests it. `None`: no session does.
    pub account: Option<AccountId>,
    /// The permit that each of its changes holds until it has ended.
    pub held: Option<HeldPermit>,
}

impl Requester {
    pub fn of(account: Option<AccountId>) -> Self {
        Self { account, held: None }
    }

    /// The queue in which the requester's large changes of a mailbox wait.
    pub fn place(&self, mailbox: MailboxId) -> Place {
        self.account.map_or(Place::Mailbox(mailbox), Place::Account)
    }
}
