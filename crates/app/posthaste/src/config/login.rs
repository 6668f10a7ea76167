//! The section `login`: how users log in, and how passwords are kept.

use bytesize::ByteSize;
use posthaste_directory::{CertificateLogins, Network, Policy};
use serde::Deserialize;

use super::values::networks;

/// Least SCRAM iterations: RFC 7677 §4.
const SCRAM_ITERATIONS_MIN: u32 = 4096;
/// Most of them: a client would compute for a quarter of a minute.
const SCRAM_ITERATIONS_MAX: u32 = 20_000_000;
/// Least and most memory of one Argon2 hash, KiB. Less is below what OWASP advises for any number
/// of passes; eight hashes at a time of more would take 8 GiB.
const ARGON2_MEMORY_KIB: std::ops::RangeInclusive<u64> = 7 * 1024..=1024 * 1024;
/// Most passes: at 19 MiB some 200 ms.
const ARGON2_PASSES_MAX: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plaintext {
    Loopback,
    Always,
    Never,
}

/// The part of a client certificate that names its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certificates {
    Off,
    Listed,
    Email,
    CommonName,
}

impl From<Certificates> for CertificateLogins {
    fn from(set: Certificates) -> Self {
        match set {
            Certificates::Off => Self::Off,
            Certificates::Listed => Self::Listed,
            Certificates::Email => Self::Email,
            Certificates::CommonName => Self::CommonName,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Login {
    pub plaintext: Plaintext,
    pub scram: Plaintext,
    pub certificates: Certificates,
    pub scram_iterations: u32,
    pub scram_sha1: bool,
    pub argon2_memory: ByteSize,
    pub argon2_passes: u32,
    pub password_length_min: usize,
    #[serde(deserialize_with = "networks")]
    pub trusted_networks: Vec<Network>,
    pub unauthenticate: bool,
}

impl Login {
    /// The policy by which passwords are hashed.
    pub fn policy(&self) -> Policy {
        Policy {
            argon2_memory_kib: u32::try_from(self.argon2_memory.as_u64() / 1024).unwrap_or(u32::MAX),
            argon2_passes: self.argon2_passes,
            scram_iterations: (self.scram_iterations > 0).then_some(self.scram_iterations),
            scram_sha1: self.scram_sha1,
        }
    }

    /// Checks rules that the types do not express.
    pub(super) fn check(&self) -> Result<(), String> {
        let iterations = self.scram_iterations;
        if iterations != 0 && !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations) {
            return Err(format!(
                "`login.scram_iterations` must be from {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}, or 0 for no SCRAM"
            ));
        }
        if self.scram_sha1 && iterations == 0 {
            return Err("`login.scram_sha1` needs `login.scram_iterations`: 0 keeps no keys for SCRAM".into());
        }
        if !ARGON2_MEMORY_KIB.contains(&(self.argon2_memory.as_u64() / 1024)) {
            return Err("`login.argon2_memory` must be from 7 MiB to 1 GiB".into());
        }
        if !(1..=ARGON2_PASSES_MAX).contains(&self.argon2_passes) {
            return Err(format!("`login.argon2_passes` must be from 1 to {ARGON2_PASSES_MAX}"));
        }
        if self.password_length_min == 0 || self.password_length_min > 64 {
            return Err("`login.password_length_min` must be from 1 to 64".into());
        }
        Ok(())
    }
}
