//! Message identifiers as numbers, for THREAD REFERENCES. RFC 5256 §3.
//!
//! A conversation is a relation of identifiers; 64 bits of each are enough to follow it and cost
//! eight bytes. An attacker can make two identifiers collide, which joins two conversations. A
//! forged References field has the same effect.

use crate::params::read_quoted;

/// The most identifiers of References that are kept: the first (the root) and the last ones
/// before the message.
pub(crate) const IDS_MAX: usize = 32;

/// FNV-1a, 64 bit: stable across releases, because it is stored.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The hashes of the identifiers in a field, in order.
#[derive(Debug, Clone)]
pub struct MessageIds<'m> {
    value: &'m [u8],
    at: usize,
}

/// The identifiers in a Message-ID, In-Reply-To or References field: what is between angle
/// brackets, without quotes and white space. RFC 5256 §3: quoted and unquoted forms are the same
/// identifier.
pub fn message_ids(value: &[u8]) -> MessageIds<'_> {
    MessageIds { value, at: 0 }
}

impl Iterator for MessageIds<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let open = memchr::memchr(b'<', self.value.get(self.at..)?)?;
            let mut at = self.at + open + 1;
            self.at = at;
            let mut id = Vec::with_capacity(80);
            while let Some(&byte) = self.value.get(at) {
                match byte {
                    b'>' | b'<' => break,
                    b'"' => {
                        let (text, end) = read_quoted(self.value, at);
                        id.extend_from_slice(&text);
                        at = end;
                        continue;
                    }
                    _ if byte <= b' ' => {}
                    _ => id.push(byte),
                }
                at += 1;
            }
            self.at = at;
            // Text without @ is not an identifier: In-Reply-To may have <no subject>.
            if self.value.get(at) == Some(&b'>') && id.contains(&b'@') {
                return Some(fnv1a(&id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_found() {
        let ids: Vec<u64> = message_ids(b" <a@b>\r\n\t<\"c\"@d> text <e @f> <none> <open@x").collect();
        assert_eq!(ids, [fnv1a(b"a@b"), fnv1a(b"c@d"), fnv1a(b"e@f")]);
        assert_eq!(message_ids(b"").count(), 0);
        assert_eq!(message_ids(b"<<a@b>").collect::<Vec<_>>(), [fnv1a(b"a@b")]);
    }
}
