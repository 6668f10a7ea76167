//! Identifies the messages of an import by a digest of their bytes.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

/// Octets of a digest.
///
/// 16: among four thousand million messages, two share a digest by chance with a probability of
/// 2^-64. An attacker needs 2^64 hashes for such a pair, and only gains that the second of them is
/// not imported.
pub(super) const DIGEST_LEN: usize = 16;

/// The first octets of SHA-256 over a message as it is stored: CRLF line ends, without the flags an
/// mbox keeps in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest(pub [u8; DIGEST_LEN]);

impl Digest {
    /// The digest of a message.
    pub fn of(message: &[u8]) -> Self {
        let whole = Sha256::digest(message);
        let mut short = [0; DIGEST_LEN];
        short.copy_from_slice(&whole[..DIGEST_LEN]);
        Self(short)
    }
}

/// The number of times that each message was imported before and was not found in this run's
/// sources yet.
#[derive(Debug, Default)]
pub(super) struct ImportedCounts(HashMap<Digest, u32>);

impl ImportedCounts {
    /// Notes that this message was imported again.
    pub fn add(&mut self, digest: Digest) {
        *self.0.entry(digest).or_insert(0) += 1;
    }

    /// Whether this message was imported before. Counts: a message that was imported once is known
    /// once.
    pub fn take(&mut self, digest: Digest) -> bool {
        let Some(times) = self.0.get_mut(&digest) else { return false };
        *times -= 1;
        if *times == 0 {
            self.0.remove(&digest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_as_often_as_it_was_imported() {
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let mut known = ImportedCounts::default();
        [one, two, two].into_iter().for_each(|digest| known.add(digest));
        assert_eq!(
            [one, one, two, two, two].map(|digest| known.take(digest)),
            [true, false, true, true, false]
        );
    }
}
