//! Stored passwords: an Argon2id hash for mechanisms that send the password, SCRAM keys for those
//! that do not.
//!
//! Both are made when a password is set, so that either kind of login works from then on. A thief
//! of the store can try passwords against the cheaper of the two. So the SCRAM iterations are well
//! above the 4096 of RFC 7677 §4. A [`Policy`] without SCRAM keeps Argon2id only. A record of an
//! earlier policy is replaced at the next login with its password: see [`Policy::renewal`].

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;

use crate::error::{DirectoryError, Result};
use crate::scram_keys::{SALT_LEN, ScramHash, ScramKeys};

/// Octets of SHA-256.
pub(crate) const KEY_LEN: usize = 32;
/// Octets of a password, before and after preparation. Long enough for any passphrase; each login
/// hashes it.
const PASSWORD_LEN_MAX: usize = 1024;

/// How many times the cost of a policy a hash of another store may have. The policy may have been
/// lowered since.
const COST_TIMES_MAX: u32 = 4;

/// Iterations of SCRAM's PBKDF2 by default: the most that clients with Cyrus SASL accept.
pub(crate) const SCRAM_ITERATIONS: u32 = 65_536;

/// The cost of a hash. Kept with each hash: an account's own is replaced at the next login with its
/// password, see [`Policy::renewal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Argon2id memory in KiB.
    pub argon2_memory_kib: u32,
    /// Argon2id passes.
    pub argon2_passes: u32,
    /// SCRAM iterations: paid once here and at each login by the client. `None` keeps no SCRAM
    /// keys, and SCRAM is not offered.
    pub scram_iterations: Option<u32>,
    /// Whether keys for SCRAM-SHA-1 are kept in addition to those for SCRAM-SHA-256, and the
    /// mechanism is offered.
    pub scram_sha1: bool,
}

impl Default for Policy {
    /// Argon2id with 19 MiB and 2 passes, one lane: the least OWASP advises (Password Storage
    /// Cheat Sheet), about 20 ms. More memory would cost a small server more than it costs an
    /// attacker: 19 MiB × cores is already taken in a login storm. SCRAM: 65,536 iterations. The
    /// same sheet advises 600,000 for PBKDF2 with SHA-256. With those, programs that use Cyrus
    /// SASL fail to log in. RFC 7677 §4 requires 4,096 at least.
    fn default() -> Self {
        Self {
            argon2_memory_kib: 19 * 1024,
            argon2_passes: 2,
            scram_iterations: Some(SCRAM_ITERATIONS),
            scram_sha1: false,
        }
    }
}

/// What a policy wants for an account's credentials at a login with its right password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// They stay.
    None,
    /// They are made again from the password.
    Due,
}

impl Policy {
    /// Cheap hashes for tests that make many accounts. Not for any password that matters.
    pub const fn cheap_for_tests() -> Self {
        Self { argon2_memory_kib: 64, argon2_passes: 1, scram_iterations: Some(4096), scram_sha1: false }
    }

    /// Whether credentials are made again: an Argon2id hash that cost less, SCRAM keys with any
    /// other number of iterations, or keys that are missing or not wanted.
    ///
    /// More iterations are replaced, too. A server sends the number before it knows the client (RFC
    /// 5802 §5), and for a name that does not exist it sends the configured one. So any other
    /// number says that the account exists.
    pub(crate) fn renewal(&self, credentials: &Credentials) -> Renewal {
        let iterations = |keys: &Option<ScramKeys>| keys.as_ref().map(|keys| keys.iterations);
        let scram = iterations(&credentials.scram) != self.scram_iterations
            || iterations(&credentials.scram_sha1) != self.sha1_iterations();
        let less = |name, wanted| parameter(&credentials.argon2, name).is_none_or(|had| had < wanted);
        match scram || less("m", self.argon2_memory_kib) || less("t", self.argon2_passes) {
            true => Renewal::Due,
            false => Renewal::None,
        }
    }

    /// Whether a hash of another store costs far more than this policy, and than the default one.
    /// Anybody may have it computed, by a login with a wrong password. A hash that cannot be read
    /// costs nothing.
    pub(crate) fn is_far_below(&self, phc: &str) -> bool {
        let params = PasswordHash::new(phc).and_then(|hash| Params::try_from(&hash));
        let most = |own: u32, usual: u32| own.max(usual).saturating_mul(COST_TIMES_MAX);
        let usual = Self::default();
        params.is_ok_and(|params| {
            params.m_cost() > most(self.argon2_memory_kib, usual.argon2_memory_kib)
                || params.t_cost() > most(self.argon2_passes, usual.argon2_passes)
        })
    }

    /// Iterations of SCRAM-SHA-1, if it is on: those of SCRAM-SHA-256.
    pub(crate) fn sha1_iterations(&self) -> Option<u32> {
        self.scram_iterations.filter(|_| self.scram_sha1)
    }

    fn argon2(&self) -> Result<Argon2<'static>> {
        let params = Params::new(self.argon2_memory_kib, self.argon2_passes, 1, None)
            .map_err(|e| DirectoryError::Hashing(e.to_string()))?;
        Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
    }
}

/// A parameter of a PHC string: `m` or `t` of `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`. Each
/// login reads two. [`PasswordHash`] would decode salt and hash, too: a thirtieth of a session. A
/// search for characters costs more than one for octets: the pieces are short.
fn parameter(phc: &str, name: &str) -> Option<u32> {
    let parameters = phc.as_bytes().split(|octet| *octet == b'$').nth(3)?;
    let value = parameters
        .split(|octet| *octet == b',')
        .find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The stored forms of a password, by which it is checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// A PHC string.
    pub argon2: String,
    /// Absent if the policy had it so.
    pub scram: Option<ScramKeys>,
    /// For SCRAM-SHA-1. Absent unless the policy has it.
    pub scram_sha1: Option<ScramKeys>,
}

impl Credentials {
    /// Everything to be kept of a prepared password. Takes tens of milliseconds.
    pub fn make(prepared: &str, policy: Policy) -> Result<Self> {
        let salt = SaltString::encode_b64(&random::<SALT_LEN>()?)
            .map_err(|e| DirectoryError::Hashing(e.to_string()))?;
        let argon2 = policy
            .argon2()?
            .hash_password(prepared.as_bytes(), &salt)
            .map_err(|e| DirectoryError::Hashing(e.to_string()))?
            .to_string();
        let keys = |hash, iterations: Option<u32>| {
            let made =
                |n| Ok::<_, DirectoryError>(ScramKeys::make(hash, prepared, &random::<SALT_LEN>()?, n));
            iterations.map(made).transpose()
        };
        let scram = keys(ScramHash::Sha256, policy.scram_iterations)?;
        let scram_sha1 = keys(ScramHash::Sha1, policy.sha1_iterations())?;
        Ok(Self { argon2, scram, scram_sha1 })
    }
}

/// Whether a prepared password is the one a PHC string was made of. Takes tens of milliseconds and
/// as much memory as the string says.
pub(crate) fn verify(prepared: &str, phc: &str) -> bool {
    PasswordHash::new(phc)
        .and_then(|hash| Argon2::default().verify_password(prepared.as_bytes(), &hash))
        .is_ok()
}

/// A key of HMAC-SHA-256 for many texts. Its two blocks (RFC 2104 §2) are hashed once: for a
/// short text, half of the work.
pub(crate) struct MacKey(Hmac<Sha256>);

impl MacKey {
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let mut block = [0u8; 64];
        block[..KEY_LEN].copy_from_slice(key);
        // A key of exactly one block is used as it is, and RFC 2104 §2 pads shorter ones with
        // zeros: the same MAC.
        Self(<Hmac<Sha256> as hmac::digest::KeyInit>::new((&block).into()))
    }

    /// The MAC of parts joined.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; KEY_LEN] {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Random octets from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|e| DirectoryError::Hashing(format!("no randomness: {e}")))?;
    Ok(out)
}

/// A password in the form in which it is hashed: SASLprep (RFC 4013), which RFC 5802 §2.2 demands
/// of SCRAM clients.
///
/// SASLprep is frozen at Unicode 3.2 and refuses letters and emoji made since. For those the rules
/// of RFC 8265 §4.2.2 (OpaqueString) are used instead: spaces beyond ASCII become U+0020, then
/// NFC.
pub(crate) fn prepare(password: &str) -> Result<String> {
    if password.len() > PASSWORD_LEN_MAX {
        return Err(DirectoryError::Password("it is longer than 1024 octets"));
    }
    let prepared = match stringprep::saslprep(password) {
        Ok(prepared) => prepared.into_owned(),
        Err(_) => opaque_string(password)?,
    };
    match prepared.len() {
        0 => Err(DirectoryError::Password("it is empty")),
        n if n > PASSWORD_LEN_MAX => Err(DirectoryError::Password("it is longer than 1024 octets")),
        _ => Ok(prepared),
    }
}

fn opaque_string(password: &str) -> Result<String> {
    if password.chars().any(char::is_control) {
        return Err(DirectoryError::Password("it holds a control character"));
    }
    let spaced = password.chars().map(|c| if !c.is_ascii() && c.is_whitespace() { ' ' } else { c });
    Ok(spaced.nfc().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_knows_its_password() {
        let made = Credentials::make("pencil", Policy::cheap_for_tests()).unwrap();
        assert!(made.argon2.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{}", made.argon2);
        assert!(verify("pencil", &made.argon2));
        assert!(!verify("Pencil", &made.argon2));
        assert!(!verify("pencil", "not a hash"));
        let again = Credentials::make("pencil", Policy::cheap_for_tests()).unwrap();
        assert!(again.argon2 != made.argon2 && again.scram != made.scram, "salted");
    }

    #[test]
    fn a_policy_knows_what_it_replaces() {
        let policy = Policy::cheap_for_tests();
        let made = Credentials::make("pencil", policy).unwrap();
        assert_eq!(policy.renewal(&made), Renewal::None);
        for above in [
            Policy { argon2_memory_kib: 65, ..policy },
            Policy { argon2_passes: 2, ..policy },
            Policy { scram_iterations: Some(4097), ..policy },
            Policy { scram_iterations: None, ..policy },
            Policy { scram_sha1: true, ..policy },
        ] {
            assert_eq!(above.renewal(&made), Renewal::Due, "{above:?}");
            // Keys with other iterations are replaced by fewer, too. A better Argon2id hash stays.
            let is_argon2 = (above.scram_iterations, above.scram_sha1) == (Some(4096), false);
            let made_above = Credentials::make("pencil", above).unwrap();
            assert_eq!(policy.renewal(&made_above) == Renewal::Due, !is_argon2, "{above:?}");
        }
    }

    #[test]
    fn a_hash_without_its_parameters_is_made_again() {
        let policy = Policy { scram_iterations: None, ..Policy::cheap_for_tests() };
        let of = |argon2: &str| Credentials { argon2: argon2.to_owned(), scram: None, scram_sha1: None };
        assert_eq!(policy.renewal(&of("$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA")), Renewal::None);
        for argon2 in [
            "",
            "$argon2id",
            "$argon2id$v=19$m=64$c2FsdA",
            "$argon2id$v=19$m=,t=1$",
            "$argon2id$v=19$t=1,mm=64$",
            "$argon2id$v=19$t=1,m$",
            "$argon2id$v=19$m=6\u{664},t=1$",
            "$argon2id$v=19$m=63,m=64,t=1$",
            "$m=64,t=1$v=19",
        ] {
            assert_eq!(policy.renewal(&of(argon2)), Renewal::Due, "{argon2}");
        }
    }

    /// RFC 4231 §4.3 (test case 2) has a four-octet key: "Jefe", here padded by hand as RFC 2104
    /// pads it.
    #[test]
    fn hmac_of_a_known_answer() {
        let mut key = [0; KEY_LEN];
        key[..4].copy_from_slice(b"Jefe");
        let key = MacKey::new(&key);
        // The second one has nothing of the first.
        for _ in 0..2 {
            let mac = key.mac(&[b"what do ya want ", b"for nothing?"]);
            assert_eq!(mac[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        }
    }

    #[test]
    fn passwords_are_prepared() {
        // RFC 4013 §3, examples 1 to 5.
        assert_eq!(prepare("I\u{ad}X").unwrap(), "IX");
        assert_eq!(prepare("user").unwrap(), "user");
        assert_eq!(prepare("\u{aa}").unwrap(), "a");
        assert_eq!(prepare("\u{2168}").unwrap(), "IX");
        assert!(prepare("\u{7}").is_err());
        // Unicode after 3.2.
        assert_eq!(prepare("pass\u{1f680}\u{3000}word").unwrap(), "pass\u{1f680} word");
        assert!(prepare("").is_err() && prepare("\u{ad}").is_err() && prepare(&"x".repeat(1025)).is_err());
    }
}
