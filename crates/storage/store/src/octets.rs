//! Converts between values and the bytes that engines store: little-endian numbers, varints, texts,
//! sets.
//!
//! Reading never trusts a length. Every call returns `None` when the bytes end too early, and the
//! caller turns that into a fault that names the record.

use posthaste_mail_model::{Id, NumSet};

/// A reader over borrowed bytes: the unread rest.
#[derive(Debug, Clone, Copy)]
pub struct Octets<'a>(pub &'a [u8]);

impl<'a> Octets<'a> {
    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Reads a byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }
    /// Two bytes, low first.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    /// Four bytes, low first.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    /// Eight bytes, low first.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// Eight bytes, low first, signed.
    #[inline]
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
    /// An id: sixteen bytes.
    #[inline]
    pub fn id(&mut self) -> Option<Id> {
        self.array().map(Id::from_bytes)
    }

    /// Seven bits a byte, low first; at most ten bytes.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Bytes after their length.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    /// Text after its length.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }

    /// A set: how many ranges, then for each the gap since the last one's end and its length less
    /// one.
    pub fn set(&mut self) -> Option<NumSet> {
        let ranges = self.varint()?;
        let (mut set, mut floor) = (NumSet::new(), 0u64);
        for _ in 0..ranges {
            let low = floor.checked_add(self.varint()?)?;
            let high = low.checked_add(self.varint()?)?;
            set.push_range(u32::try_from(low).ok()?, u32::try_from(high).ok()?);
            floor = high;
        }
        Some(set)
    }

    /// Whether all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Puts a number in seven bits a byte, low first.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Puts bytes after their length.
pub fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Puts a set as [`Octets::set`] reads it.
pub fn put_set(out: &mut Vec<u8>, set: &NumSet) {
    put_varint(out, set.ranges().len() as u64);
    let mut floor = 0;
    for &(low, high) in set.ranges() {
        put_varint(out, u64::from(low - floor));
        put_varint(out, u64::from(high - low));
        floor = high;
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        #[test]
        fn sets_and_varints_come_back(
            numbers in prop::collection::vec(any::<u32>(), 0..40),
            value in any::<u64>(),
        ) {
            let set: NumSet = numbers.into_iter().collect();
            let mut out = Vec::new();
            put_set(&mut out, &set);
            put_varint(&mut out, value);
            put_counted(&mut out, b"text");
            let mut read = Octets(&out);
            prop_assert_eq!(read.set(), Some(set));
            prop_assert_eq!(read.varint(), Some(value));
            prop_assert_eq!(read.text(), Some("text"));
            prop_assert!(read.is_empty() && read.u8().is_none());
        }

        #[test]
        fn garbage_is_no_set(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Octets(&bytes).set();
        }
    }
}
