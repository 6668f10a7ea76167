//! The memory of LIST and LSUB: the names that they show.
//!
//! The names of an account's own mailboxes are shared with its list. The levels above them, and the
//! names of mailboxes of others, are made for one command. It holds them until its client has read
//! the answer. So they are reserved from the budget for reading: 50,000 levels of the longest names
//! take over 50 MiB.

use posthaste_mail_model::{AccountId, MailboxName, SEPARATOR};
use posthaste_net::BytePermit;
use posthaste_sharing::Owner;
use posthaste_store::{MailboxEntry, MailboxList};

use crate::reply::Failure;
use crate::service::{ImapService, UNRESERVED_READ_BYTES};

/// Octets of a name in a tree of names, and in the list that is made of it.
const NAME_BYTES: u64 = 128;

/// Octets of a name whose text is not shared: also the head of its allocation.
const MADE_BYTES: u64 = NAME_BYTES + 32;

/// Octets of a mailbox in a list that grows, and the head of its name.
const ENTRY_BYTES: u64 = 2 * size_of::<MailboxEntry>() as u64 + 32;

/// Steps of counting a name, and the octets of it that are looked at in one step more.
const NAME_STEPS: u64 = 20;
const OCTETS_PER_STEP: u64 = 4;

/// Whether the levels above a name are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Levels {
    Shown,
    LeftOut,
}

/// Counts what names take, and the levels above them.
#[derive(Debug, Default)]
pub(crate) struct NameBytes {
    names: u64,
    levels: u64,
    level_octets: u64,
}

impl NameBytes {
    /// Counts a name; returns the steps of this.
    pub(crate) fn add(&mut self, name: &MailboxName, levels: Levels) -> u64 {
        self.names += 1;
        if levels == Levels::LeftOut {
            return NAME_STEPS;
        }
        let text = name.as_str();
        let (levels, octets) = (text.matches(SEPARATOR).count() as u64, text.len() as u64);
        self.levels += levels;
        self.level_octets += levels * octets;
        NAME_STEPS + octets / OCTETS_PER_STEP
    }

    /// Octets of all of them, of which at most this many are levels.
    pub(crate) fn all(&self, levels_max: usize) -> u64 {
        let most = levels_max as u64;
        let octets = self.level_octets.min(most * MailboxName::LEN_MAX as u64);
        self.names * NAME_BYTES + self.levels.min(most) * MADE_BYTES + octets
    }
}

/// Octets of a copy of a list. Its names are shared.
pub(crate) fn copy_bytes(list: &MailboxList) -> u64 {
    list.entries.len() as u64 * ENTRY_BYTES + list.subscribed.len() as u64 * NAME_BYTES
}

/// Octets at most of the mailboxes that an owner shows of these, if there is room for so many.
pub(crate) fn shown_bytes(owner: &Owner, entries: &[MailboxEntry], room: usize) -> u64 {
    let shown = owner.mailboxes().min(entries.len()).min(room) as u64;
    let octets: usize = entries.iter().map(|entry| entry.name.as_str().len()).sum();
    let top = owner.top().len() as u64 + 1;
    shown * (ENTRY_BYTES + top) + (octets as u64).min(shown * MailboxName::LEN_MAX as u64)
}

/// Memory for names, reserved as they become more.
pub(crate) struct ListMemory<'s> {
    service: &'s ImapService,
    account: AccountId,
    bytes: u64,
    permit: Option<BytePermit>,
}

impl<'s> ListMemory<'s> {
    /// Nothing is reserved yet.
    pub(crate) const fn new(service: &'s ImapService, account: AccountId) -> Self {
        Self { service, account, bytes: 0, permit: None }
    }

    /// Waits until there is memory for so many octets more. Names that exceed the share of one
    /// account have all of it.
    pub(crate) async fn grow(&mut self, more: u64) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(more);
        let bytes = self.bytes.min(self.service.reads.largest() as u64);
        match &self.permit {
            _ if bytes <= UNRESERVED_READ_BYTES => {}
            Some(permit) => self.service.grow_to_read(self.account, permit, bytes).await?,
            None => self.permit = Some(self.service.reserve_to_read(self.account, bytes).await?),
        }
        Ok(())
    }

    /// The reservation, for as long as the names are held.
    pub(crate) fn into_permit(self) -> Option<BytePermit> {
        self.permit
    }
}

/// Waits for memory for so many octets of names, beside what the command holds already.
pub(crate) async fn reserve(
    service: &ImapService,
    account: AccountId,
    held: Option<&BytePermit>,
    bytes: u64,
) -> Result<Option<BytePermit>, Failure> {
    let left = service.reads.largest().saturating_sub(held.map_or(0, BytePermit::bytes));
    let mut memory = ListMemory::new(service, account);
    memory.grow(bytes.min(left as u64)).await?;
    Ok(memory.into_permit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> MailboxName {
        MailboxName::new(text).unwrap()
    }

    #[test]
    fn levels_above_a_name_are_counted_and_have_a_bound() {
        let deep = name(&vec!["x".repeat(30); 32].join("/"));
        let mut flat = NameBytes::default();
        for _ in 0..1000 {
            flat.add(&deep, Levels::LeftOut);
        }
        assert!(flat.all(50_000) <= UNRESERVED_READ_BYTES);
        let mut some = NameBytes::default();
        some.add(&deep, Levels::Shown);
        // The levels have 15 octets for each level below them, on average.
        assert!(some.all(50_000) >= 31 * 32 * 31 / 2);
        let mut many = NameBytes::default();
        for _ in 0..20_000 {
            many.add(&deep, Levels::Shown);
        }
        let most = 20_000 * NAME_BYTES + 50_000 * (MADE_BYTES + MailboxName::LEN_MAX as u64);
        assert_eq!(many.all(50_000), most);
    }
}
