//! An app password as the rest of the directory sees it. The operations on them are in
//! `app_password`.

use crate::grant::{AppPasswordId, Service};
use crate::password::KEY_LEN;

/// An app password of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPassword {
    /// The id of the app password.
    pub id: AppPasswordId,
    /// The purpose of the app password, in the owner's words. Each app password of an account has
    /// another label.
    pub label: String,
    /// The protocols for which it is valid; empty for all.
    pub services: Vec<Service>,
    /// The time when the app password was made, unix seconds.
    pub created: u64,
    /// The time when the app password ends, unix seconds.
    pub expires: Option<u64>,
    pub(crate) verifier: Verifier,
}

/// The stored hash of the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier(pub [u8; KEY_LEN]);

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

/// The app password to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAppPassword {
    /// See [`AppPassword::label`].
    pub label: String,
    /// See [`AppPassword::services`].
    pub services: Vec<Service>,
    /// See [`AppPassword::expires`].
    pub expires: Option<u64>,
}

impl AppPassword {
    /// Whether it has expired.
    pub fn has_ended(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether it is valid for a protocol.
    pub fn is_for(&self, service: Service) -> bool {
        self.services.is_empty() || self.services.contains(&service)
    }
}
