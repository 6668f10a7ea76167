//! Recently verified passwords.
//!
//! Argon2 takes 20 ms of a core by design, and a mail client logs in every few minutes on several
//! connections. So a correct password is remembered, as a keyed hash under a key made at start,
//! together with account and record version. The next login costs a microsecond. Any change of the
//! record ends this. Wrong ones are not remembered.

use parking_lot::Mutex;

use crate::account::Account;
use crate::error::Result;
use crate::password::{self, KEY_LEN, MacKey};
use crate::recent::{AsIs, Recent};

/// Passwords remembered per generation. A hash table of 32,768 places has room for 28,672. More
/// accounts than that at a time only cost a hash now and then.
const REMEMBERED: usize = 28_000;
/// Bytes of both generations, whose places have up to 40 bytes.
pub(crate) const REMEMBERED_BYTES_MAX: u64 = 2 * 40 * 32_768;

/// Recently verified passwords.
pub(crate) struct Verified {
    key: MacKey,
    seen: Mutex<Recent<[u8; KEY_LEN], (), AsIs>>,
}

impl Verified {
    pub fn new() -> Result<Self> {
        let key = MacKey::new(&password::random()?);
        Ok(Self { key, seen: Mutex::new(Recent::of_hashes(REMEMBERED)) })
    }

    /// The key of an account at a version of its record, with a password.
    pub fn mark(&self, account: &Account, prepared: &str) -> [u8; KEY_LEN] {
        // Both fields before the password are of fixed length: no two inputs make one text.
        let version = account.version.to_le_bytes();
        self.key.mac(&[&account.id.0.to_bytes(), &version, prepared.as_bytes()])
    }

    pub fn contains(&self, mark: &[u8; KEY_LEN]) -> bool {
        self.seen.lock().get(mark).is_some()
    }

    pub fn remember(&self, mark: [u8; KEY_LEN]) {
        self.seen.lock().insert(mark, ());
    }
}
