//! The fields of one message that a listing needs, in 28 bytes.

use posthaste_mail_model::{FlagSet, ModSeq, Uid};

/// One message in a view. Rows are in memory and on disk in the same little-endian layout:
///
/// | bytes | field |
/// | --- | --- |
/// | 0–3 | UID |
/// | 4–7 | size in octets (RFC822.SIZE), or what [`Row::WITHOUT_ITEMS`] says |
/// | 8–11 | internal date, unix seconds (to the year 2106) |
/// | 12–19 | flags, two words, low first |
/// | 20–27 | mod-sequence, two words, low first |
///
/// 28 rather than 32: eight-byte fields are kept as pairs of words so that the row needs no
/// padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Row {
    uid: Uid,
    size: u32,
    date: u32,
    flags: [u32; 2],
    modseq: [u32; 2],
}

impl Row {
    /// Bytes of a row.
    pub const LEN: usize = 28;

    /// The size of a message without items is this, plus the octets that it was sent with. Its
    /// RFC822.SIZE is in its summary ([`crate::form::Form::Unconverted`]).
    pub const WITHOUT_ITEMS: u32 = 0xf000_0000;

    /// A row. `date` is in unix seconds, `size` as [`Row::stored_size`] gives it.
    pub const fn new(uid: Uid, size: u32, date: u32, flags: FlagSet, modseq: ModSeq) -> Self {
        Self { uid, size, date, flags: words(flags.bits()), modseq: words(modseq.value()) }
    }

    /// UID.
    pub const fn uid(&self) -> Uid {
        self.uid
    }
    /// Octets of the whole message; if it [lacks its items](Row::lacks_items), of what was sent.
    pub const fn size(&self) -> u32 {
        if self.lacks_items() { self.size - Self::WITHOUT_ITEMS } else { self.size }
    }
    /// The size as rows keep it.
    pub const fn stored_size(&self) -> u32 {
        self.size
    }
    /// Whether delivery did not convert this rich message. Its RFC822.SIZE is in its summary, once
    /// that was made.
    pub const fn lacks_items(&self) -> bool {
        self.size >= Self::WITHOUT_ITEMS
    }
    /// Its share of [`crate::Counts::bytes`].
    pub(crate) const fn weight(&self) -> u64 {
        self.size as u64 + if self.lacks_items() { WITHOUT_ITEMS_WEIGHT } else { 0 }
    }
    /// The row of a message whose items were made, with its RFC822.SIZE.
    #[must_use]
    pub const fn with_size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }
    /// Internal date in unix seconds.
    pub const fn date(&self) -> u32 {
        self.date
    }
    /// Flags, by the mailbox's keyword table.
    pub const fn flags(&self) -> FlagSet {
        FlagSet::from_bits(whole(self.flags))
    }
    /// Mod-sequence of the last change.
    pub fn modseq(&self) -> ModSeq {
        let modseq = ModSeq::new(whole(self.modseq));
        debug_assert!(modseq.is_some(), "no row is made with more than {:?}", ModSeq::MAX);
        modseq.unwrap_or(ModSeq::MAX)
    }
    /// The row after a change of flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: FlagSet, modseq: ModSeq) -> Self {
        self.flags = words(flags.bits());
        self.modseq = words(modseq.value());
        self
    }

    /// The bytes of the table above.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let words = [
            self.uid.value(),
            self.size,
            self.date,
            self.flags[0],
            self.flags[1],
            self.modseq[0],
            self.modseq[1],
        ];
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// The inverse of [`Row::to_bytes`]; `None` for UID 0, and for a mod-sequence above 63 bits.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let word = |n: usize| {
            u32::from_le_bytes([bytes[4 * n], bytes[4 * n + 1], bytes[4 * n + 2], bytes[4 * n + 3]])
        };
        Some(Self {
            uid: Uid::new(word(0))?,
            size: word(1),
            date: word(2),
            flags: [word(3), word(4)],
            modseq: words(ModSeq::new(whole([word(5), word(6)]))?.value()),
        })
    }
}

/// Bits of `Counts::bytes` that count octets: 4 TiB. The 22 bits above count up to 4,194,303
/// messages without items.
pub(crate) const OCTETS_BITS: u32 = 42;

/// What turns the size of a row without items into its weight.
const WITHOUT_ITEMS_WEIGHT: u64 = (1 << OCTETS_BITS) - Row::WITHOUT_ITEMS as u64;

const fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

const fn whole(words: [u32; 2]) -> u64 {
    words[0] as u64 | (words[1] as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_items_has_the_octets_that_were_sent() {
        let row = |size| Row::new(Uid::MIN, size, 1, FlagSet::EMPTY, ModSeq::ZERO);
        let (made, bare) = (row(Row::WITHOUT_ITEMS - 1), row(Row::WITHOUT_ITEMS + 4096));
        assert_eq!((made.size(), made.lacks_items()), (Row::WITHOUT_ITEMS - 1, false));
        assert_eq!((bare.size(), bare.lacks_items()), (4096, true));
        assert_eq!(Row::from_bytes(&bare.to_bytes()), Some(bare));
        let mut counts = crate::Counts::default();
        [made, bare, bare].iter().for_each(|row| counts.add(row));
        assert_eq!((counts.octets(), counts.without_items()), (u64::from(made.size()) + 8192, 2));
        assert_eq!(crate::view::Totals::of(&[made, bare, bare]).counts(), counts);
        [bare, made, bare].iter().for_each(|row| counts.remove(row));
        assert_eq!(counts, crate::Counts { unseen: 0, ..crate::Counts::default() });
        assert_eq!(bare.with_size(9000).weight(), 9000);
    }

    #[test]
    fn a_row_is_its_bytes() {
        let row = Row::new(
            Uid::new(7).unwrap(),
            4096,
            1_700_000_000,
            FlagSet::SEEN.union(FlagSet::keyword(58)),
            ModSeq::new((1 << 40) + 3).unwrap(),
        );
        assert_eq!(std::mem::size_of::<Row>(), Row::LEN);
        assert_eq!(Row::from_bytes(&row.to_bytes()), Some(row));
        assert_eq!(row.flags(), FlagSet::SEEN.union(FlagSet::keyword(58)));
        assert_eq!(Row::from_bytes(&[0; 28]), None);
        // The highest bit of the mod-sequence: damage, not the highest mod-sequence.
        let mut damaged = row.to_bytes();
        damaged[27] |= 0x80;
        assert_eq!(Row::from_bytes(&damaged), None);
    }
}
