//! The fields of one message that a listing needs, in 28 bytes.

use posthaste_mail_model::{FlagSet, ModSeq, Uid};

/// One message in a view. Rows are in memory and on disk in the same little-endian layout:
///
/// | bytes | field |
/// | --- | --- |
/// | 0–3 | UID |
/// | 4–7 | size in octets (RFC822.SIZE) |
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

    /// A row. `date` is in unix seconds.
    pub const fn new(uid: Uid, size: u32, date: u32, flags: FlagSet, modseq: ModSeq) -> Self {
        Self { uid, size, date, flags: words(flags.bits()), modseq: words(modseq.value()) }
    }

    /// UID.
    pub const fn uid(&self) -> Uid {
        self.uid
    }
    /// Octets of the whole message.
    pub const fn size(&self) -> u32 {
        self.size
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
