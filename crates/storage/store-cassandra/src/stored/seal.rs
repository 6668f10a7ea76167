//! The checksum before every stored value. It is a CRC-32C of its location and the rest, so that
//! damage and a value under the wrong key are both detected.

use posthaste_mail_model::Id;

/// The location of a value: its kind, its owner and its key.
pub(crate) fn location(kind: u8, id: Id, number: u64) -> u32 {
    let crc = crc32c::crc32c_append(u32::from(kind), &id.to_bytes());
    crc32c::crc32c_append(crc, &number.to_le_bytes())
}

/// Puts the checksum before a value.
pub(crate) fn seal(location: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 4);
    out.extend_from_slice(&crc32c::crc32c_append(location, content).to_le_bytes());
    out.extend_from_slice(content);
    out
}

/// The value after its checksum; `None` if it does not match.
pub(crate) fn unseal(location: u32, value: &[u8]) -> Option<&[u8]> {
    let (sum, content) = value.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == crc32c::crc32c_append(location, content)).then_some(content)
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    properties! {
        #[test]
        fn a_seal_holds_in_its_location_alone(bytes in prop::collection::vec(any::<u8>(), 1..300), at in any::<prop::sample::Index>()) {
            let here = location(1, Id::new(1, 2), 3);
            let sealed = seal(here, &bytes);
            prop_assert_eq!(unseal(here, &sealed), Some(&bytes[..]));
            prop_assert_eq!(unseal(location(1, Id::new(1, 2), 4), &sealed), None);
            let mut other = sealed.clone();
            other[at.index(sealed.len())] ^= 4;
            prop_assert_eq!(unseal(here, &other), None);
        }
    }
}
