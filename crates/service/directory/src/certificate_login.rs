//! A login by a client certificate: SASL EXTERNAL.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use posthaste_net::ClientCertificate;

use crate::address::Address;
use crate::certificate::print_fingerprint;
use crate::directory::Directory;
use crate::grant::{By, Client, Login, Proven};
use crate::login_error::{LoginError, LoginFailure, enabled};
use crate::record::Stored;
use crate::settings::CertificateLogins;

impl Directory {
    /// Lets in the owner of a certificate: the account `authorization`, or if that is empty the
    /// first one that there is.
    pub(crate) async fn login_by_certificate(
        &self,
        certificate: &ClientCertificate,
        authorization: &str,
        client: Client,
    ) -> Result<Login, LoginError> {
        let proven = self.prove_certificate(certificate, authorization, client).await;
        self.confirm(proven).await
    }

    async fn prove_certificate(
        &self,
        certificate: &ClientCertificate,
        authorization: &str,
        client: Client,
    ) -> Result<Proven, LoginError> {
        let mode = self.logins().certificates;
        let named = named(certificate, mode);
        let attempt = self.begin_attempt(client, &key_of(certificate, authorization, &named));
        let refused = |failure| Err(LoginError { failure, delay: attempt.delay });
        if attempt.refused {
            return refused(LoginFailure::TooMany);
        }
        let found = match self.certificates.accounts_of(certificate, mode, named).await {
            Ok(found) => found,
            Err(error) => {
                self.forgive(attempt);
                return Err(LoginError::at_once(error.into()));
            }
        };
        if found.is_empty() {
            return refused(LoginFailure::Certificate);
        }
        // RFC 4422 §3.4.1: an identity of nobody else.
        let wanted = Address::parse(authorization).map(|address| address.to_string()).unwrap_or_default();
        let is_wanted = |stored: &Arc<Stored>| authorization.is_empty() || stored.account.name == wanted;
        let Some(stored) = found.into_iter().find(is_wanted) else {
            return refused(LoginFailure::AuthorizationId);
        };
        self.succeed(attempt);
        let account = enabled(Arc::clone(&stored.account))?;
        let by = match stored.certificates.is_empty() {
            true => By::Certificate(certificate.fingerprint),
            false => By::ListedCertificate(certificate.fingerprint),
        };
        // As those that began with a token end with it.
        let ends = certificate.ends.and_then(|ends| ends.duration_since(UNIX_EPOCH).ok());
        Ok(Proven(Login { until: ends.map(|ends| ends.as_secs()), ..Login::new(account, by) }))
    }
}

/// The key under which failures of a certificate are counted. One that names nobody is counted by
/// itself: with one key for all of them, failures of one would count for the others.
fn key_of(certificate: &ClientCertificate, authorization: &str, named: &[String]) -> String {
    let mut names = [authorization].into_iter().chain(named.iter().map(String::as_str));
    match names.find(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("certificate {}", print_fingerprint(&certificate.fingerprint)),
    }
}

/// The accounts that a certificate names.
fn named(certificate: &ClientCertificate, mode: CertificateLogins) -> Vec<String> {
    match mode {
        CertificateLogins::Off | CertificateLogins::Listed => Vec::new(),
        CertificateLogins::Email => certificate.emails.clone(),
        CertificateLogins::CommonName => certificate.common_name.iter().cloned().collect(),
    }
}
