//! The envelope of a message, while it is being put together, and the memory that it may take.
//!
//! A stranger may name a thousand recipients. Each may be long, and each may bring an account with
//! a hundred forwards. So the envelope has a bound in bytes, and an account that takes much memory
//! is in it once.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_delivery::Recipient;
use posthaste_directory::{ARC_BYTES, Account, Group, Target, allocated};
use posthaste_mail_model::AccountId;

use crate::address::{Mailbox, ReversePath};
use crate::command::{MailParameters, RcptParameters};

/// Bytes of memory that the recipients of one message may take. Their sum is:
///
/// ```text
///                         the longest      a usual one
/// the recipient itself            128              128
/// its address in RCPT             528               80      512 octets, and 60
/// ORCPT                           512               80      500 octets, and 60
/// its address and detail    416 + 416               96      of an account here
/// its account                   1,024              368      a larger one is in the envelope once
///                               3,024              752
/// ```
///
/// So at least 260 of the longest fit, and RFC 5321 §4.5.3.1.8 requires 100. A thousand usual ones
/// fit, as `LIMITS RCPTMAX` says. Only accounts with long lists of forwards fill it earlier, which
/// an administrator makes: 100 of them may have 80 forwards each. The bound is not higher because
/// the memory plan counts 1120 KiB for a session.
pub(super) const ENVELOPE_BYTES_MAX: usize = 768 << 10;

/// An account that takes more bytes than this is kept once for all recipients that it has. The
/// directory shares most smaller ones. They count for each recipient.
const ACCOUNT_BYTES_FEW: usize = 1024;

/// Bytes of an account in the table of those that are kept once. A table that has just grown is
/// half empty.
const KEPT_BYTES: usize = 64;

/// Places for recipients by which the list grows at most. By doubling, half of them could be empty.
const PLACES_MAX: usize = 64;

/// A message's envelope, while it is being put together.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The sender.
    pub from: ReversePath,
    /// The parameters of MAIL.
    pub parameters: MailParameters,
    /// The recipients.
    pub recipients: Vec<Addressee>,
    /// Accounts of recipients that take much memory. Of one that has changed meanwhile, it is the
    /// record that was read last.
    accounts: HashMap<AccountId, Arc<Account>>,
    /// Bytes of memory that the recipients take.
    held: usize,
}

/// A recipient of a message.
#[derive(Clone, Debug)]
pub struct Addressee {
    /// The address as named in RCPT.
    pub to: Mailbox,
    /// The parameters of RCPT.
    pub parameters: RcptParameters,
    /// The local target; `None` in a domain that is not ours.
    pub target: Option<Target>,
}

/// The recipient would take more memory than the envelope has left.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EnvelopeFull;

impl Transaction {
    /// An envelope without recipients.
    pub(super) fn new(from: ReversePath, parameters: MailParameters) -> Self {
        Self { from, parameters, recipients: Vec::new(), accounts: HashMap::new(), held: 0 }
    }

    /// Adds a recipient, if there is memory for it.
    pub(super) fn add(&mut self, mut addressee: Addressee) -> Result<(), EnvelopeFull> {
        let (mut held, mut kept) = (self.held + addressee.memory_bytes(), None);
        if let Some(Target::Account(Recipient { account, .. })) = &mut addressee.target {
            match self.accounts.get(&account.id) {
                Some(known) if known.version == account.version => *account = Arc::clone(known),
                // A record that has changed counts beside the earlier one.
                _ => {
                    let bytes = account.memory_bytes();
                    kept = (bytes > ACCOUNT_BYTES_FEW).then(|| Arc::clone(account));
                    held += bytes + kept.as_ref().map_or(0, |_| KEPT_BYTES);
                }
            }
        }
        if held > ENVELOPE_BYTES_MAX {
            return Err(EnvelopeFull);
        }
        self.held = held;
        self.accounts.extend(kept.map(|account| (account.id, account)));
        if self.recipients.len() == self.recipients.capacity() {
            self.recipients.reserve_exact(self.recipients.len().clamp(1, PLACES_MAX));
        }
        self.recipients.push(addressee);
        Ok(())
    }

    /// Bytes of memory that the recipients take.
    pub(super) const fn held(&self) -> usize {
        self.held
    }
}

impl Addressee {
    /// Bytes of memory that the recipient takes, without its account.
    fn memory_bytes(&self) -> usize {
        let Self { to, parameters, target } = self;
        let orcpt = parameters.orcpt.as_ref().map_or(0, |orcpt| allocated(orcpt.as_str().len()));
        let target = match target {
            None => 0,
            Some(Target::Account(recipient)) => recipient.address.memory_bytes(),
            Some(Target::Group(group)) => of_group(group),
        };
        size_of::<Self>() + allocated(to.as_str().len()) + orcpt + target
    }
}

/// Bytes of memory that a group takes for one recipient. All sessions share a group that is stored,
/// so its other members take none here. The group of a rewritten sender has one member.
fn of_group(group: &Group) -> usize {
    let first = group.members.first().map_or(0, |member| allocated(member.len()));
    allocated(ARC_BYTES + size_of::<Group>()) + allocated(group.address.len()) + first
}
