//! The bounds of a segment, and the numbers in it.

/// Messages of a segment. Gaps of their ordinals take two bytes at most.
pub const MESSAGES_MAX: usize = 4096;

/// Ranges of UIDs that a segment has at most. Beyond them, gaps are forgotten: the messages in them
/// are looked at again.
pub(crate) const RANGES_MAX: usize = 4 * MESSAGES_MAX;

/// The first bytes of a segment: its name and its version.
pub(crate) const MAGIC: [u8; 8] = *b"PHSEARC\x07";
/// Bytes before the ranges.
pub(crate) const HEAD_LEN: usize = 60;

/// Bytes that are no segment, or one that was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a segment of the search index is damaged; it can be removed and is made again")
    }
}

impl std::error::Error for Damaged {}

/// A number in four bytes, little-endian.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}
