//! A cursor over untrusted bytes: every read fails if too few bytes are left.

use posthaste_mime_summary::InBounds;

use crate::error::Damage;
use crate::tags::Guid;

/// Reads little-endian numbers and byte strings, front to back.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn rest(&self) -> &'b [u8] {
        self.bytes.in_bounds(self.at..)
    }

    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'b [u8], Damage> {
        let piece = self.rest().get(..len).ok_or(Damage::Truncated { what, at: self.at })?;
        self.at += len;
        Ok(piece)
    }

    /// Bytes that fill up to a multiple of four. At the end of a list they may be missing.
    pub fn skip_padding(&mut self, len: usize) {
        self.at += (len.wrapping_neg() & 3).min(self.left());
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Damage> {
        let at = self.at;
        let piece = self.take(N, what)?;
        piece.try_into().map_err(|_| Damage::Truncated { what, at })
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Damage> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Damage> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn guid(&mut self, what: &'static str) -> Result<Guid, Damage> {
        self.array(what)
    }

    /// A length or a count.
    pub fn len(&mut self, what: &'static str) -> Result<usize, Damage> {
        let at = self.at;
        usize::try_from(self.u32(what)?).map_err(|_| Damage::Truncated { what, at })
    }
}
