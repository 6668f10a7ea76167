//! Places for long work on messages: summaries of long messages, and conversions of rich mail.
//!
//! Such work runs on threads for computations. There is one place fewer than there are processors
//! ([`compute_threads`]). Each for whom work is done ([`WorkFor`]) has one place at a time, so
//! nobody alone takes all threads. Those who wait for a free place take turns.
//!
//! A message comes in, is perhaps sent on by scripts and groups, and is stored. These are steps
//! ([`SummaryMemory`]). Work that needs several of these takes them in this order, so that nothing
//! waits in a circle:
//!
//! 1. for each step, from the first to the last:
//!    1. the turn ([`Turn`]) of a command or delivery at this step, for a long message;
//!    2. memory for the summary until it is stored: at the first step that of the budget, at
//!       later ones what is free there, or the reserve of the step;
//! 2. a place, or the permit for the run of a script;
//! 3. memory for the work.
//!
//! Before all that, a message of another host is verified. It holds nothing of this list then. It
//! takes memory for the work, too: first bytes of the part for verifications, and then those of the
//! budget. With these, it waits for name servers, scanners and milters, and for nothing of this
//! list.
//!
//! What a script wants is held while the message goes to its next steps. Nothing waits for that
//! memory: it is there at once, or the message is deferred
//! ([`crate::Delivery::room_for_outcome`]).
//!
//! A turn ends when the summary is made, before the message goes to its next step. Only the first
//! step waits for the budget, and nobody at a later step does. A place is held for one piece of
//! work, and no piece begins another. Work that has the last waits for nothing. Each of these
//! waits has a deadline.
//!
//! Those who wait for a place may hold memory for a summary. Without turns, the many messages of
//! one account would take all of it while they wait for one place.

use std::net::IpAddr;

use posthaste_directory::Recipient;
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_net::{
    ByteBudget, BytePermit, Holder, KeyedPermit, KeyedSemaphore, OwnPermit, compute_threads,
};
use posthaste_store::Place;

use crate::memory::{SUMMARY_WITHIN, SummaryMemory};

/// For whom long work on a message is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkFor(Key);

/// The ids are octets, so that a key is small: the work of each message carries one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Account([u8; 16]),
    MailOf([u8; 16]),
    Mailbox([u8; 16]),
    Network(IpAddr),
    Server,
}

impl WorkFor {
    /// The server itself.
    pub const SERVER: Self = Self(Key::Server);

    /// An account: what its sessions append, read and submit.
    pub fn account(account: AccountId) -> Self {
        Self(Key::Account(account.0.to_bytes()))
    }

    /// The mail that others send to an account. It does not delay what the account's sessions do.
    pub fn mail_of(account: AccountId) -> Self {
        Self(Key::MailOf(account.0.to_bytes()))
    }

    /// The mail for these recipients: that of the first one.
    pub fn mail_to(recipients: &[Recipient]) -> Self {
        recipients.first().map_or(Self::SERVER, |first| Self::mail_of(first.account.id))
    }

    /// The hosts of a network, by its first address.
    pub const fn network(first: IpAddr) -> Self {
        Self(Key::Network(first))
    }

    /// What the server itself does with a mailbox.
    pub(crate) fn mailbox(mailbox: MailboxId) -> Self {
        Self(Key::Mailbox(mailbox.0.to_bytes()))
    }

    /// The account or the mailbox for which the store reads.
    pub(crate) fn reader(place: Place) -> Self {
        match place {
            Place::Account(account) => Self::account(account),
            Place::Mailbox(mailbox) => Self::mailbox(mailbox),
        }
    }
}

/// The places of one server. Clones share them.
#[derive(Debug, Clone)]
pub struct LongWork {
    places: KeyedSemaphore<WorkFor>,
    /// By the step, too: the holder of a summary must not wait for a turn of an earlier step.
    turns: KeyedSemaphore<(WorkFor, usize)>,
}

/// The turn of a command or delivery at one step. It ends when the summaries are made.
pub(crate) type Turn = OwnPermit<(WorkFor, usize)>;

/// A place for one piece of work, and memory for it. The work holds both, not the task that waits
/// for it: the work continues if a session ends.
#[derive(Debug)]
pub(crate) struct Room {
    _memory: BytePermit,
    _place: KeyedPermit<WorkFor>,
}

impl LongWork {
    /// The places of one server.
    #[allow(
        clippy::new_without_default,
        reason = "places are shared, so nobody should get others by accident"
    )]
    pub fn new() -> Self {
        // Turns have no bound in all: those who have one wait for memory or a place.
        Self { places: KeyedSemaphore::new(compute_threads(), 1), turns: KeyedSemaphore::new(0, 1) }
    }

    /// Waits for the turn of a step. `None` after a timeout.
    pub(crate) async fn turn(&self, whose: WorkFor, memory: SummaryMemory) -> Option<Turn> {
        self.turns.acquire_own_within((whose, memory.step()), SUMMARY_WITHIN).await
    }

    /// Waits for a place for work that takes little memory. `None` after a timeout.
    pub(crate) async fn place(&self, whose: WorkFor) -> Option<KeyedPermit<WorkFor>> {
        self.places.acquire_within(whose, SUMMARY_WITHIN).await
    }

    /// Waits for a place, and then for this much memory. `None` after a timeout.
    pub(crate) async fn room(&self, whose: WorkFor, budget: &ByteBudget, bytes: usize) -> Option<Room> {
        let place = self.place(whose).await?;
        let memory = budget.begin(Holder::Account([0; 16]));
        memory.grow_to_within(bytes, SUMMARY_WITHIN).await.ok()?;
        memory.complete();
        Some(Room { _memory: memory, _place: place })
    }

    /// Acquires the place of somebody, and none of the common ones.
    #[cfg(test)]
    pub(crate) async fn acquire_of(&self, whose: WorkFor) -> Option<OwnPermit<WorkFor>> {
        self.places.acquire_own(whose).await
    }

    /// How many have a place, and how many of their pieces have one or wait for it.
    #[cfg(test)]
    pub(crate) fn count(&self, whose: WorkFor) -> (usize, usize) {
        (self.places.keys(), self.places.count(&whose))
    }
}

#[cfg(test)]
#[path = "long_work_tests.rs"]
mod tests;
