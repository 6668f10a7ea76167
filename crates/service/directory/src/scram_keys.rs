//! The keys that a SCRAM server keeps for a password (RFC 5802 §5.1), with SHA-256 (RFC 7677) or
//! SHA-1.
//!
//! SHA-1 is for clients that support nothing else. The known attacks on SHA-1 find collisions, and
//! SCRAM does not depend on collision resistance. But a thief of the store tries passwords against
//! the cheapest stored form, so each further form is a risk. SHA-1 is off by default.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use sha2::Sha256;

/// Octets of a salt: 128 bits, as RFC 9106 §3.1 recommends; more adds nothing.
pub(crate) const SALT_LEN: usize = 16;

/// The hash of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScramHash {
    Sha256,
    Sha1,
}

/// Holding them, one can check a client, but not be one.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ScramKeys {
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

impl ScramHash {
    /// Octets of a hash.
    pub const fn len(self) -> usize {
        match self {
            Self::Sha256 => digest::SHA256_OUTPUT_LEN,
            Self::Sha1 => digest::SHA1_OUTPUT_LEN,
        }
    }

    /// The hash of octets.
    pub fn digest(self, octets: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        };
        digest::digest(algorithm, octets).as_ref().to_vec()
    }

    /// HMAC (RFC 2104) under a key.
    pub fn hmac(self, key: &[u8], octets: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), octets).as_ref().to_vec()
    }

    /// `Hi`: RFC 5802 §2.2.
    fn salted(self, prepared: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        match self {
            Self::Sha256 => {
                let mut out = vec![0; self.len()];
                ::pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations.max(1), &mut out);
                out
            }
            Self::Sha1 => {
                let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
                let mut out = vec![0; self.len()];
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, iterations, salt, prepared.as_bytes(), &mut out);
                out
            }
        }
    }
}

impl ScramKeys {
    /// RFC 5802 §3.
    pub fn make(hash: ScramHash, prepared: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = hash.salted(prepared, salt, iterations);
        let client_key = hash.hmac(&salted, b"Client Key");
        Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: hash.digest(&client_key),
            server_key: hash.hmac(&salted, b"Server Key"),
        }
    }

    /// Keys for a name that nobody has, made from a key of the store. They have a salt of their
    /// own, the same each time, and a stored key that no proof fits.
    pub fn decoy(hash: ScramHash, key: &[u8], name: &str, iterations: u32) -> Self {
        // Each mechanism has a salt of its own, as real accounts have.
        let label = match hash {
            ScramHash::Sha256 => "",
            ScramHash::Sha1 => "-sha-1",
        };
        let made = |what: &str| ScramHash::Sha256.hmac(key, format!("{what}{label} {name}").as_bytes());
        let (mut salt, mut stored_key) = (made("salt"), made("stored"));
        salt.truncate(SALT_LEN);
        stored_key.truncate(hash.len());
        Self { iterations, salt, stored_key, server_key: vec![0; hash.len()] }
    }
}
