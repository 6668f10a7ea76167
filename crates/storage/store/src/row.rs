//! The fields of one message that a listing needs, in 28 bytes.

use posthaste_mail_model::{FlagSet, ModSeq, Uid};

/// A message in a view. Rows are in memory and on disk in the same little-endian layout:
///
/// | bytes | field |
/// | --- | --- |
/// | 0–3 | UID |
/// | 4–7 | size in octets (RFC822.SIZE), or what [`Row::WITHOUT_ITEMS`] says |
/// | 8–11 | internal date, unix seconds (to the year 2106) |
/// | 12–19 | flags, two words, low first |
/// | 20–27 | mod-sequence, two words, low first |
///
/// 28 rather than 32: eight-byte fields are aligned to four, so that the row needs no padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Row {
    uid: Uid,
    size: u32,
    date: u32,
    flags: Packed<FlagSet>,
    modseq: Packed<ModSeq>,
}

/// A field of eight bytes that is aligned to four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(4))]
struct Packed<T>(T);

impl Row {
    /// Bytes of a row.
    pub const LEN: usize = 28;

    /// The size of a message without items is this, plus the octets that it was sent with. Its
    /// RFC822.SIZE is in its summary ([`crate::form::Form::Unconverted`]).
    pub const WITHOUT_ITEMS: u32 = 0xf000_0000;

    /// A row. `date` is in unix seconds, `size` as [`Row::stored_size`] gives it.
    pub const fn new(uid: Uid, size: u32, date: u32, flags: FlagSet, modseq: ModSeq) -> Self {
        Self { uid, size, date, flags: Packed(flags), modseq: Packed(modseq) }
    }

    /// The message's UID.
    pub const fn uid(&self) -> Uid {
        self.uid
    }
    /// Octets of the whole message; if it [lacks its items](Row::lacks_items), of the message as
    /// sent.
    pub const fn size(&self) -> u32 {
        if self.lacks_items() { self.size - Self::WITHOUT_ITEMS } else { self.size }
    }
    /// The size as the row stores it.
    pub const fn stored_size(&self) -> u32 {
        self.size
    }
    /// Whether delivery did not convert this rich message. Its RFC822.SIZE is in its summary, once
    /// that was made.
    pub const fn lacks_items(&self) -> bool {
        self.size >= Self::WITHOUT_ITEMS
    }
    /// The message's share of [`crate::Counts::bytes`].
    pub(crate) const fn weight(&self) -> u64 {
        self.size as u64 + if self.lacks_items() { WITHOUT_ITEMS_WEIGHT } else { 0 }
    }
    /// The row of a message whose items were computed, with its RFC822.SIZE.
    #[must_use]
    pub const fn with_size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }
    /// The internal date in unix seconds.
    pub const fn date(&self) -> u32 {
        self.date
    }
    /// The flags, by the mailbox's keyword table.
    pub const fn flags(&self) -> FlagSet {
        self.flags.0
    }
    /// Mod-sequence of the last change.
    pub const fn modseq(&self) -> ModSeq {
        self.modseq.0
    }
    /// The row after a change of flags.
    #[must_use]
    pub const fn with_flags(mut self, flags: FlagSet, modseq: ModSeq) -> Self {
        self.flags = Packed(flags);
        self.modseq = Packed(modseq);
        self
    }

    /// [`Row::with_flags`] for a row's bytes: nothing else of the row is read or written.
    #[inline]
    pub fn change_bytes(bytes: &mut [u8; Self::LEN], flags: FlagSet, modseq: ModSeq) {
        bytes[12..20].copy_from_slice(&flags.bits().to_le_bytes());
        bytes[20..].copy_from_slice(&modseq.value().to_le_bytes());
    }

    /// UID and mod-sequence in a row's bytes, as bare numbers. Those of damaged bytes may be
    /// invalid.
    #[inline]
    pub fn numbers_in(bytes: &[u8; Self::LEN]) -> (u32, u64) {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (word(0), u64::from(word(20)) | u64::from(word(24)) << 32)
    }

    /// The bytes of the table above.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&self.uid.value().to_le_bytes());
        out[4..8].copy_from_slice(&self.size.to_le_bytes());
        out[8..12].copy_from_slice(&self.date.to_le_bytes());
        out[12..20].copy_from_slice(&self.flags().bits().to_le_bytes());
        out[20..].copy_from_slice(&self.modseq().value().to_le_bytes());
        out
    }

    /// The inverse of [`Row::to_bytes`]; `None` for UID 0, and for a mod-sequence above 63 bits.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Some(Self {
            uid: Uid::new(word(0))?,
            size: word(4),
            date: word(8),
            flags: Packed(FlagSet::from_bits(long(12))),
            modseq: Packed(ModSeq::new(long(20))?),
        })
    }
}

/// Bits of `Counts::bytes` that count octets: 4 TiB. The 22 bits above count up to 4,194,303
/// messages without items.
pub(crate) const OCTETS_BITS: u32 = 42;

/// Added to the size of a row without items, this gives its weight.
const WITHOUT_ITEMS_WEIGHT: u64 = (1 << OCTETS_BITS) - Row::WITHOUT_ITEMS as u64;

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
        assert_eq!(Row::numbers_in(&row.to_bytes()), (7, (1 << 40) + 3));
        let (flags, modseq) = (FlagSet::DELETED.union(FlagSet::keyword(3)), ModSeq::new(1 << 50).unwrap());
        let mut bytes = row.to_bytes();
        Row::change_bytes(&mut bytes, flags, modseq);
        assert_eq!(Row::from_bytes(&bytes), Some(row.with_flags(flags, modseq)));
        assert_eq!(Row::from_bytes(&[0; 28]), None);
        // The highest bit of the mod-sequence: damage, not the highest mod-sequence.
        let mut damaged = row.to_bytes();
        damaged[27] |= 0x80;
        assert_eq!(Row::from_bytes(&damaged), None);
    }
}
