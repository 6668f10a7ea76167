//! Bytes of stored values to numbers and back, and their checksum.
//!
//! Every value starts with a CRC-32C of its place and the rest, so that damage and a value under the wrong key are both
//! seen. Reading never trusts a length: `None` when the bytes end too early, which the caller turns into a fault that
//! names the record.

use posthaste_mail_model::{Id, NumSet};

/// A reader over borrowed bytes.
#[derive(Clone, Copy)]
pub(crate) struct Octets<'a>(pub(crate) &'a [u8]);

impl<'a> Octets<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|b| b[0])
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }
    pub(crate) fn id(&mut self) -> Option<Id> {
        self.array().map(Id::from_bytes)
    }

    /// Seven bits a byte, low first; at most ten bytes.
    pub(crate) fn varint(&mut self) -> Option<u64> {
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

    /// Text after its length.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }

    /// A set: how many ranges, then for each the gap since the last one's end and its length less one.
    pub(crate) fn set(&mut self) -> Option<NumSet> {
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
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_set(out: &mut Vec<u8>, set: &NumSet) {
    put_varint(out, set.ranges().len() as u64);
    let mut floor = 0;
    for &(low, high) in set.ranges() {
        put_varint(out, u64::from(low - floor));
        put_varint(out, u64::from(high - low));
        floor = high;
    }
}

/// Where a value belongs: what kind of thing, whose, which one.
pub(crate) fn place(kind: u8, id: Id, number: u64) -> u32 {
    let crc = crc32c::crc32c_append(u32::from(kind), &id.to_bytes());
    crc32c::crc32c_append(crc, &number.to_le_bytes())
}

/// Puts the checksum before a value.
pub(crate) fn seal(place: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 4);
    out.extend_from_slice(&crc32c::crc32c_append(place, content).to_le_bytes());
    out.extend_from_slice(content);
    out
}

/// The value behind its checksum; `None` if it does not match.
pub(crate) fn unseal(place: u32, value: &[u8]) -> Option<&[u8]> {
    let (sum, content) = value.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == crc32c::crc32c_append(place, content)).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_and_texts_come_back(
            numbers in prop::collection::vec(any::<u32>(), 0..40),
            value in any::<u64>(),
        ) {
            let set: NumSet = numbers.into_iter().collect();
            let mut out = Vec::new();
            put_set(&mut out, &set);
            put_varint(&mut out, value);
            put_text(&mut out, "text");
            let mut read = Octets(&out);
            prop_assert_eq!(read.set(), Some(set));
            prop_assert_eq!(read.varint(), Some(value));
            prop_assert_eq!(read.text(), Some("text"));
            prop_assert!(read.u8().is_none());
        }

        #[test]
        fn a_seal_holds_in_its_place_alone(bytes in prop::collection::vec(any::<u8>(), 1..300), at in any::<prop::sample::Index>()) {
            let here = place(1, Id::new(1, 2), 3);
            let sealed = seal(here, &bytes);
            prop_assert_eq!(unseal(here, &sealed), Some(&bytes[..]));
            prop_assert_eq!(unseal(place(1, Id::new(1, 2), 4), &sealed), None);
            let mut other = sealed.clone();
            other[at.index(sealed.len())] ^= 4;
            prop_assert_eq!(unseal(here, &other), None);
        }

        #[test]
        fn garbage_is_no_set(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Octets(&bytes).set();
        }
    }
}
