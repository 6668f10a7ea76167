//! Recently verified passwords.
//!
//! Argon2 takes 20 ms of a core by design, and a mail client logs in every few minutes on several
//! connections. So a correct password is remembered, as a keyed hash under a key made at start,
//! together with account and record version. The next login costs a microsecond. Any change of the
//! record ends this. Wrong ones are not remembered.

use parking_lot::Mutex;

use crate::error::Result;
use crate::password::{self, KEY_LEN, MacKey, Renewal};
use crate::recent::{AsIs, Recent};
use crate::record::Stored;

/// Passwords remembered per generation. A hash table of 32,768 places has room for 28,672. More
/// accounts than that at a time only cost a hash now and then.
const REMEMBERED: usize = 28_000;
/// Bytes of both generations, whose places have up to 40 bytes.
pub(crate) const REMEMBERED_BYTES_MAX: u64 = 2 * 40 * 32_768;

/// Octets at the end of a hash, in base64: 94 bits of it.
const HASH_END: usize = 16;

/// Recently verified passwords.
pub(crate) struct Verified {
    key: MacKey,
    seen: Mutex<Recent<[u8; KEY_LEN], Renewal, AsIs>>,
}

impl Verified {
    pub fn new() -> Result<Self> {
        let key = MacKey::new(&password::random()?);
        Ok(Self { key, seen: Mutex::new(Recent::of_hashes(REMEMBERED)) })
    }

    /// The key of an account at a version of its record, with a password. A restored record may
    /// have the id and the version of an earlier one, and another password. So the end of its hash
    /// counts, too.
    pub fn mark(&self, stored: &Stored, prepared: &str) -> [u8; KEY_LEN] {
        // The fields before the password are of fixed length: no two inputs make one text.
        let (id, version) = (stored.account.id.0.to_bytes(), stored.account.version.to_le_bytes());
        let hash = stored.credentials.argon2.as_bytes().last_chunk::<HASH_END>().copied().unwrap_or_default();
        self.key.mac(&[&id, &version, &hash, prepared.as_bytes()])
    }

    /// What the policy wants for the credentials of a remembered password; `None` for any other
    /// password.
    pub fn renewal(&self, mark: &[u8; KEY_LEN]) -> Option<Renewal> {
        self.seen.lock().get(mark)
    }

    pub fn remember(&self, mark: [u8; KEY_LEN], renewal: Renewal) {
        self.seen.lock().insert(mark, renewal);
    }
}
