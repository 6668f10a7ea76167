//! Flag lists as text, printed once for each set of bits and copied afterwards.
//!
//! Folders have few different sets of flags. Printing `(\Answered \Seen $Label1)` name by name for
//! every message would be half the cost of a listing. The cache lives for one command, so an idle
//! session holds none.

use posthaste_imap_codec::{NameEncoding, print};
use posthaste_mail_model::{FlagSet, KeywordTable};

use crate::gmail;

/// Slots, indexed by a hash of the bits. Folders seldom have twenty different sets. Two sets that
/// share a slot evict each other, which costs only time.
const SLOTS: usize = 64;

/// Bytes of text kept before the cache is emptied: 64 lists of the longest usual kind.
const TEXT_BYTES_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Default)]
struct Slot {
    bits: u64,
    recent: bool,
    start: u32,
    len: u32,
}

/// The cache, for one keyword table.
pub(crate) struct FlagNames<'t> {
    table: &'t KeywordTable,
    slots: Box<[Slot; SLOTS]>,
    text: Vec<u8>,
    /// The labels of the last set that was requested.
    labels: Option<(FlagSet, Vec<u8>)>,
}

impl<'t> FlagNames<'t> {
    /// An empty cache for the keywords of one view.
    pub(crate) fn new(table: &'t KeywordTable) -> Self {
        Self { table, slots: Box::new([Slot::default(); SLOTS]), text: Vec::with_capacity(256), labels: None }
    }

    /// The list with its parentheses.
    #[inline]
    pub(crate) fn list(&mut self, flags: FlagSet, recent: bool) -> &[u8] {
        // Fibonacci hashing; 58 leaves the six bits that 64 slots need.
        let hash = (flags.bits() ^ u64::from(recent) << 63).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let at = hash as usize % SLOTS;
        let slot = self.slots[at];
        let slot = if slot.len > 0 && slot.bits == flags.bits() && slot.recent == recent {
            slot
        } else {
            self.fill(at, flags, recent)
        };
        let text = self.text.get(slot.start as usize..(slot.start + slot.len) as usize);
        debug_assert!(text.is_some(), "a slot names bytes that the cache lacks");
        text.unwrap_or(b"()")
    }

    /// The labels of a set of flags, as Gmail has them, with their parentheses.
    pub(crate) fn labels(&mut self, flags: FlagSet, names: NameEncoding) -> &[u8] {
        let (known, text) = self.labels.get_or_insert_with(|| (FlagSet::EMPTY, b"()".to_vec()));
        if *known != flags {
            *known = flags;
            text.clear();
            gmail::labels::print_labels(text, self.table, flags, names);
        }
        text
    }

    fn fill(&mut self, at: usize, flags: FlagSet, recent: bool) -> Slot {
        if self.text.len() > TEXT_BYTES_MAX {
            self.text.clear();
            *self.slots = [Slot::default(); SLOTS];
        }
        let start = self.text.len();
        print_flags(&mut self.text, self.table, flags, recent);
        let slot =
            Slot { bits: flags.bits(), recent, start: start as u32, len: (self.text.len() - start) as u32 };
        self.slots[at] = slot;
        slot
    }
}

/// Appends `(\Seen …)`.
fn print_flags(out: &mut Vec<u8>, table: &KeywordTable, flags: FlagSet, recent: bool) {
    out.push(b'(');
    let start = out.len();
    if recent {
        out.extend_from_slice(b"\\Recent");
    }
    for flag in table.flags_of(flags) {
        if out.len() > start {
            out.push(b' ');
        }
        print::flag(out, &flag);
    }
    out.push(b')');
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Keyword;

    use super::*;

    #[test]
    fn every_set_prints_as_itself() {
        let keywords = (0..59).map(|n| Keyword::new(&format!("keyword-{n}")).unwrap()).collect();
        let table = KeywordTable::from_keywords(keywords).unwrap();
        let mut names = FlagNames::new(&table);
        // More sets than slots, twice over: collisions must not change the output.
        for round in 0..2 {
            for n in 0..2000u64 {
                let bits = n.wrapping_mul(0x0123_4567_89ab_cdef) & ((1 << (round + 20)) - 1);
                let set = FlagSet::from_bits(bits);
                for recent in [false, true] {
                    let mut plain = Vec::new();
                    print_flags(&mut plain, &table, set, recent);
                    assert_eq!(names.list(set, recent), plain);
                }
            }
        }
    }

    #[test]
    fn known_answers() {
        let table = KeywordTable::from_keywords(vec![Keyword::new("$Junk").unwrap()]).unwrap();
        let mut names = FlagNames::new(&table);
        assert_eq!(names.list(FlagSet::EMPTY, false), b"()");
        assert_eq!(names.list(FlagSet::EMPTY, true), b"(\\Recent)");
        let set = FlagSet::SEEN.union(FlagSet::keyword(0));
        assert_eq!(names.list(set, true), b"(\\Recent \\Seen $Junk)");
    }
}
