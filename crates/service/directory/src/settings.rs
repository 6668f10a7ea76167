//! The ways to log in other than passwords. They may change while the server runs: see
//! [`crate::Directory::set_logins`].

use std::sync::Arc;

use crate::token::TokenCheck;

/// The part of a verified client certificate that names its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateLogins {
    /// No login by certificate.
    #[default]
    Off,
    /// Only certificates that an account lists.
    Listed,
    /// Listed certificates, and the address in the certificate.
    Email,
    /// Listed certificates, and the commonName in the certificate.
    CommonName,
}

/// The ways to log in that an administrator turns on.
#[derive(Clone, Default)]
pub struct LoginSettings {
    /// SASL EXTERNAL.
    pub certificates: CertificateLogins,
    /// SASL OAUTHBEARER and XOAUTH2: who checks tokens.
    pub tokens: Option<Arc<dyn TokenCheck>>,
}

impl std::fmt::Debug for LoginSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = self.tokens.is_some();
        f.debug_struct("LoginSettings")
            .field("certificates", &self.certificates)
            .field("tokens", &tokens)
            .finish()
    }
}
