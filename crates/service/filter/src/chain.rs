//! How far a message may go through scripts, and how much they may send because of it.

use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_delivery::{DeliveryError, SummaryMemory};
use posthaste_directory::Account;
use posthaste_queue::{LeaseEnd, TlsRequirement};

use crate::dsn_request::DsnRequest;
use crate::required_extensions::RequiredExtensions;

/// Where a message is kept if no script files it elsewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum DefaultFolder {
    #[default]
    Inbox,
    /// The policy of its author's domain, or a scanner, sends it there.
    Junk,
}

/// How often scripts of this server may send one message on to each other. A chain of forwards is
/// short; each step is held in memory while the next one runs.
const DEPTH_MAX: usize = 8;
// The last script may send it to a group.
const _: () = assert!(DEPTH_MAX < SummaryMemory::STEPS_MAX);

/// How often the scripts that receive one message may send mail: redirects, replies, notifications.
/// So may all runs of a mailbox's script because of one command. A script has 8 redirects, and each
/// may reach another script: eight scripts in a row would make millions of messages of one. More is
/// not needed: for a list of members there are groups.
pub(crate) const SENDS_MAX: usize = 100;

/// Where a message is on its way through scripts, which send it on to each other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain<'c> {
    /// How many scripts and groups have sent it on within this server.
    depth: usize,
    /// Whether its summary is made while the summary of the message that causes it is held.
    beside_others: bool,
    /// The count of messages sent so far, once a script has sent one.
    sends: Option<&'c AtomicUsize>,
    /// Whether the group that it comes to makes copies that count for nobody.
    is_free: bool,
    /// The account because of which it is sent, if one sends it.
    pub(crate) account: Option<&'c Account>,
    /// The sender's requirement of TLS. It holds for mail that is sent because of the message,
    /// too (RFC 8689 §4.2.1).
    pub(crate) tls: TlsRequirement,
    /// Where it is kept, here and wherever it is sent on to within this server.
    pub(crate) home: DefaultFolder,
    /// The needs of the message.
    pub(crate) needs: RequiredExtensions,
    /// The reports that its sender requests.
    pub(crate) asked: DsnRequest<'c>,
    /// The account that had logged in and brought it, by its name. The copies that groups make
    /// count for it, whatever the message goes through.
    pub(crate) submitter: Option<&'c str>,
    /// When another server may take the message over.
    lease_end: Option<&'c LeaseEnd>,
}

impl<'c> Chain<'c> {
    /// A message as it comes: its needs, and the sender's requirement of TLS.
    pub(crate) fn of(tls: TlsRequirement, needs: RequiredExtensions) -> Self {
        Self { tls, needs, ..Self::default() }
    }

    /// A message that a mailbox has: its needs.
    pub(crate) fn stored(needs: RequiredExtensions) -> Self {
        Self { needs, ..Self::default() }
    }

    /// Delivered here until another server may have taken it over.
    pub(crate) fn until(self, lease_end: Option<&'c LeaseEnd>) -> Self {
        Self { lease_end, ..self }
    }

    /// Brought by a user of this account, if one has logged in.
    pub(crate) fn submitted_by(self, account: Option<&'c str>) -> Self {
        Self { submitter: account, ..self }
    }

    /// An error once another server may have taken the message over: this one stops delivering
    /// it.
    pub(crate) fn check_lease(self) -> Result<(), DeliveryError> {
        match self.lease_end.is_some_and(LeaseEnd::is_over) {
            true => Err(DeliveryError::Interrupted("another server may have taken the message over".into())),
            false => Ok(()),
        }
    }

    /// How its summary gets memory. A script that sends it on holds that of its own message.
    pub(crate) fn summary_memory(self) -> SummaryMemory {
        if self.beside_others { SummaryMemory::SentOn(self.depth) } else { SummaryMemory::Counted }
    }

    /// Keeps the message there.
    pub(crate) fn for_home(self, home: DefaultFolder) -> Self {
        Self { home, ..self }
    }

    /// With the reports that its sender requests.
    pub(crate) fn asked(self, asked: DsnRequest<'c>) -> Self {
        Self { asked, ..self }
    }

    /// For a message with these needs that is made here because of this one. Its sender requests
    /// no report, and no user has submitted it.
    pub(crate) fn for_own(self, needs: RequiredExtensions) -> Self {
        Self { needs, asked: DsnRequest::default(), submitter: None, ..self }
    }

    /// One script further. No account sends the message yet.
    pub(crate) fn next(self) -> Self {
        Self { beside_others: true, ..self.to_members() }
    }

    /// One group further: it holds no summary while its members get the message.
    pub(crate) fn to_members(self) -> Self {
        let asked = self.asked.for_next();
        Self { depth: self.depth + 1, account: None, is_free: false, asked, ..self }
    }

    /// The next group's copies are not counted: there is no limit, or they were counted before.
    pub(crate) fn free(self) -> Self {
        Self { is_free: true, ..self }
    }

    /// Whether copies are not counted.
    pub(crate) fn is_free(self) -> bool {
        self.is_free
    }

    /// One script further: this account sends the message.
    pub(crate) fn next_by(self, account: &'c Account) -> Self {
        Self { account: Some(account), ..self.next() }
    }

    /// Counts from here on, unless something counts already.
    pub(crate) fn counted(self, sends: &'c AtomicUsize) -> Self {
        Self { sends: Some(self.sends.unwrap_or(sends)), ..self }
    }

    /// Whether a script or a group of this server has sent the message on already.
    pub(crate) fn is_sent_on(self) -> bool {
        self.depth > 0
    }

    /// Whether too many scripts have sent the message on.
    pub(crate) fn is_too_long(self) -> bool {
        self.depth > DEPTH_MAX
    }

    /// Counts the messages that a script sends. Returns whether it may be sent.
    pub(crate) fn count(self) -> bool {
        self.sends.is_none_or(|sends| sends.fetch_add(1, Ordering::Relaxed) < SENDS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_that_a_script_sends_on_waits_for_the_turn_of_its_step() {
        let chain = Chain::default();
        assert_eq!(chain.to_members().summary_memory(), SummaryMemory::Counted);
        assert_eq!(chain.next().summary_memory(), SummaryMemory::SentOn(1));
        assert_eq!(chain.next().to_members().next().summary_memory(), SummaryMemory::SentOn(3));
    }
}
