//! References between messages, for THREAD (RFC 5256 §3).

use std::collections::HashMap;

use posthaste_mime_summary::SummaryRef;

use super::Column;

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
    numbers: HashMap<u64, u32>,
}

impl LinkColumn {
    /// How many identifiers have a number.
    pub(crate) fn identifiers(&self) -> usize {
        self.numbers.len()
    }

    /// The messages to which a message refers, the root first.
    pub(crate) fn references(&self, link: Link) -> &[u32] {
        let start = link.start as usize;
        let references = self.references.get(start..start + usize::from(link.count));
        debug_assert!(references.is_some(), "a link of another column");
        references.unwrap_or_default()
    }

    /// Makes the link of a message.
    pub(crate) fn link(&mut self, summary: &SummaryRef<'_>) -> Link {
        let own = summary.message_id_hash().map(|id| self.number(id));
        let start = self.references.len();
        for id in summary.reference_hashes() {
            let number = self.number(id);
            self.references.push(number);
        }
        let count = (self.references.len() - start) as u16;
        Link { own, is_reply: summary.is_reply(), start: start as u32, count }
    }

    fn number(&mut self, id: u64) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(id).or_insert(next)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // A slot of the table has a control byte, and one in eight is free.
        self.links.memory_bytes() + self.references.capacity() * 4 + self.numbers.capacity() * 17 * 8 / 7
    }
}
