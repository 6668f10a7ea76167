//! References between messages, for THREAD (RFC 5256 §3).

use posthaste_indexing::SortKeys;
use posthaste_mime_summary::SummaryRef;

use super::column::Column;
use super::keyed::Keyed;

/// The Message-ID of a message and its references, as numbers of identifiers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// The number of its Message-ID.
    pub(crate) own: Option<u32>,
    /// Whether its subject marks a reply or a forward (RFC 5256 §2.1).
    pub(crate) is_reply: bool,
    start: u32,
    count: u16,
}

/// A link for each of some messages. Identifiers are numbered, so that following them needs no
/// lookup by their text.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkColumn {
    /// The links.
    pub(crate) links: Column<Link>,
    references: Vec<u32>,
    identifiers: Identifiers,
}

impl LinkColumn {
    /// Prepares for this many more messages.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.identifiers.reserve(more);
    }

    /// The number of identifiers that have a number.
    pub(crate) fn identifiers(&self) -> usize {
        self.identifiers.hashes.len()
    }

    /// Values in it: the cost of a copy.
    pub(crate) fn values(&self) -> usize {
        self.links.len() + self.references.len() + self.identifiers()
    }

    /// The number of identifiers that are moved in the table when these links are made: mostly
    /// zero.
    pub(crate) fn moved_for(&self, new: &NewLinks) -> usize {
        let more = new.messages.len() + new.references.len();
        if self.identifiers.has_room(more) { 0 } else { self.identifiers() + more }
    }

    /// The messages to which a message refers, the root first.
    pub(crate) fn references(&self, link: Link) -> &[u32] {
        let start = link.start as usize;
        let references = self.references.get(start..start + usize::from(link.count));
        debug_assert!(references.is_some(), "a link of another column");
        references.unwrap_or_default()
    }

    /// Makes the links of these messages, and appends them.
    pub(crate) fn make(&mut self, new: &mut NewLinks, links: &mut Vec<Link>) {
        let mut ids = new.references.drain(..);
        for NewLink { own, is_reply, count } in new.messages.drain(..) {
            let own = own.map(|id| self.identifiers.number(id));
            let start = self.references.len() as u32;
            let numbers = ids.by_ref().take(usize::from(count)).map(|id| self.identifiers.number(id));
            self.references.extend(numbers);
            links.push(Link { own, is_reply, start, count });
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.references.capacity() * 4 + self.identifiers.memory_bytes()
    }
}

/// The identifiers of messages that get links together. Looking them up in a row is faster than
/// one between two summaries: the processor fetches several places of the table at once.
#[derive(Debug, Default)]
pub(crate) struct NewLinks {
    messages: Vec<NewLink>,
    references: Vec<u64>,
}

#[derive(Debug)]
struct NewLink {
    own: Option<u64>,
    is_reply: bool,
    count: u16,
}

impl NewLinks {
    /// Whether there is no message.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes those of a message. Returns how many references it has.
    pub(crate) fn push_summary(&mut self, summary: &SummaryRef<'_>) -> usize {
        let (own, is_reply) = (summary.message_id_hash(), summary.is_reply());
        self.push(NewLink { own, is_reply, count: 0 }, summary.reference_hashes())
    }

    /// The same of a message whose keys a segment has.
    pub(crate) fn push_stored(&mut self, keys: &SortKeys<'_>) -> usize {
        let references = keys.references.iter().map(|id| u64::from_le_bytes(*id));
        self.push(NewLink { own: keys.id, is_reply: keys.is_reply, count: 0 }, references)
    }

    fn push(&mut self, link: NewLink, references: impl Iterator<Item = u64>) -> usize {
        let start = self.references.len();
        self.references.extend(references.take(usize::from(u16::MAX)));
        let count = self.references.len() - start;
        self.messages.push(NewLink { count: count as u16, ..link });
        count
    }
}

/// Identifiers, each by the hash of its text that the summary has, and their numbers.
#[derive(Clone, Debug, Default)]
struct Identifiers {
    hashes: Vec<u64>,
    /// Open addressing: 0, or the number of an identifier and 1. A power of two, at least a quarter
    /// of it free.
    slots: Vec<u32>,
    keyed: Keyed,
}

impl Identifiers {
    fn reserve(&mut self, more: usize) {
        self.hashes.reserve(more);
        let wanted = (self.hashes.len() + more) * 4 / 3 + 1;
        if more > 0 && self.slots.len() < wanted {
            self.grow(wanted);
        }
    }

    /// Whether this many more have places without growth: as [`Self::number`] grows.
    fn has_room(&self, more: usize) -> bool {
        self.slots.len() > (self.hashes.len() + more) * 4 / 3
    }

    /// The place at which the search for an identifier begins.
    fn place(&self, hash: u64) -> usize {
        self.keyed.number(hash) as usize & self.slots.len().wrapping_sub(1)
    }

    fn number(&mut self, hash: u64) -> u32 {
        if self.slots.len() <= (self.hashes.len() + 1) * 4 / 3 {
            self.grow((self.hashes.len() + 1) * 2);
        }
        let mut at = self.place(hash);
        while let Some(number) = self.slots.get(at).and_then(|slot| slot.checked_sub(1)) {
            if self.hashes.get(number as usize) == Some(&hash) {
                return number;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        let number = self.hashes.len() as u32;
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = number + 1;
        }
        self.hashes.push(hash);
        number
    }

    /// Makes at least this many slots.
    fn grow(&mut self, wanted: usize) {
        let len = wanted.next_power_of_two().max(16);
        self.slots = vec![0; len];
        for (number, hash) in (1u32..).zip(&self.hashes) {
            let mut at = self.place(*hash);
            while self.slots.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (len - 1);
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = number;
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * 8 + self.slots.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_numbers_of_a_map() {
        let mut identifiers = Identifiers::default();
        let mut model = std::collections::HashMap::new();
        let mut state = 9u64;
        for round in 0..40_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Some come again; some differ in high bits alone, or in low ones.
            let hash = match state >> 62 {
                0 => state >> 50,
                1 => state >> 50 << 50,
                2 => round % 700,
                _ => state,
            };
            if round == 20_000 {
                identifiers.reserve(30_000);
            }
            let next = model.len() as u32;
            assert_eq!(identifiers.number(hash), *model.entry(hash).or_insert(next));
        }
        assert_eq!(identifiers.hashes.len(), model.len());
    }
}
