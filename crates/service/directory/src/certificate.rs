//! Client certificates: the account that a certificate names, and logins by certificates (SASL
//! EXTERNAL).
//!
//! An account may list certificates by their fingerprints. Then it accepts no others. For a
//! certificate that does not name its account, `certificate/<fingerprint>` names it. The list in
//! the account's record decides: a `certificate/` record alone allows no login.

use std::time::UNIX_EPOCH;

use async_recursion::async_recursion as boxed;
use posthaste_net::ClientCertificate;
use posthaste_store::CommitOutcome;

use crate::account::Account;
use crate::address::Address;
use crate::directory::Directory;
use crate::error::{DirectoryError, Result};
use crate::grant::{By, Client, Fingerprint, Login};
use crate::limits::CERTIFICATES_MAX;
use crate::login_error::{LoginError, LoginFailure, enabled};
use crate::record::{self, Stored};
use crate::settings::CertificateLogins;

/// Reads a fingerprint as programs print it: 64 hexadecimal digits, with or without colons.
pub fn parse_fingerprint(text: &str) -> Option<Fingerprint> {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b':').collect();
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let mut out = Fingerprint::default();
    if digits.len() != 2 * out.len() {
        return None;
    }
    for (octet, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *octet = digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?;
    }
    Some(out)
}

/// A fingerprint as [`parse_fingerprint`] reads it: digits alone.
pub fn print_fingerprint(fingerprint: &Fingerprint) -> String {
    fingerprint.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl Directory {
    /// Adds a certificate to those of an account. From the first one on it takes no other.
    #[boxed]
    pub async fn add_certificate(&self, account: &str, fingerprint: Fingerprint) -> Result<Account> {
        let name = self.records.existing_name(account).await?;
        if let Some(owner) = self.certificate_owner(&fingerprint).await?.filter(|owner| *owner != name) {
            return Err(DirectoryError::CertificateTaken(owner));
        }
        let account = self
            .records
            .try_update(&name, |stored| {
                if !stored.certificates.contains(&fingerprint) {
                    if stored.certificates.len() >= CERTIFICATES_MAX {
                        return Err(DirectoryError::TooManyCertificates);
                    }
                    stored.certificates.push(fingerprint);
                }
                Ok(())
            })
            .await?;
        self.note_certificate(&name, &fingerprint).await?;
        Ok(account)
    }

    /// Takes a certificate from an account. Sessions that were begun with it end.
    #[boxed]
    pub async fn remove_certificate(&self, account: &str, fingerprint: Fingerprint) -> Result<Account> {
        let account = self
            .records
            .try_update(account, |stored| {
                let before = stored.certificates.len();
                stored.certificates.retain(|one| *one != fingerprint);
                let was_there = stored.certificates.len() < before;
                was_there.then_some(()).ok_or(DirectoryError::NoCertificate)
            })
            .await?;
        self.forget_certificate(&fingerprint).await?;
        Ok(account)
    }

    /// The certificates that an account lists.
    #[boxed]
    pub async fn certificates(&self, account: &str) -> Result<Vec<Fingerprint>> {
        Ok(self.records.existing_stored(account).await?.certificates)
    }

    /// Lets a certificate be found that an account lists.
    pub(crate) async fn note_certificate(&self, account: &str, fingerprint: &Fingerprint) -> Result<()> {
        let key = record::certificate_key(fingerprint);
        let expected = self.records.entry(&key).await?.map_or(0, |entry| entry.version);
        let value = record::write_certificate(fingerprint, account)?;
        match self.records.put(key.clone(), expected, Some(value)).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(DirectoryError::Busy(key)),
        }
    }

    /// Lets the certificates be found that are an account's in another directory, for a copy of
    /// that account under the same name. Call it before the copy's record is written: without that
    /// record a noted certificate lets nobody in. Nothing else may write to this directory.
    #[boxed]
    pub async fn mirror_certificates(&self, from: &Self, account: &str) -> Result<()> {
        let owned = from.owned_certificates(account).await?;
        for fingerprint in &owned {
            self.note_certificate(account, fingerprint).await?;
        }
        for stale in self.owned_certificates(account).await? {
            if !owned.contains(&stale) {
                self.forget_certificate(&stale).await?;
            }
        }
        Ok(())
    }

    /// Whether each certificate that is an account's in another directory is found here as that of
    /// the account of the same name.
    #[boxed]
    pub async fn has_certificates_of(&self, from: &Self, account: &str) -> Result<bool> {
        let here = self.owned_certificates(account).await?;
        Ok(from.owned_certificates(account).await?.iter().all(|fingerprint| here.contains(fingerprint)))
    }

    /// The certificates that an account lists, without those that are found as another one's.
    async fn owned_certificates(&self, account: &str) -> Result<Vec<Fingerprint>> {
        let listed =
            self.records.stored(account).await?.map(|stored| stored.certificates).unwrap_or_default();
        let mut owned = Vec::with_capacity(listed.len());
        for fingerprint in listed {
            if self.certificate_owner(&fingerprint).await?.as_deref() == Some(account) {
                owned.push(fingerprint);
            }
        }
        Ok(owned)
    }

    /// The certificates of these that no other account lists.
    pub(crate) async fn free_certificates(
        &self,
        account: &str,
        certificates: Vec<Fingerprint>,
    ) -> Result<Vec<Fingerprint>> {
        let mut free = Vec::with_capacity(certificates.len());
        for fingerprint in certificates {
            if self.certificate_owner(&fingerprint).await?.is_none_or(|owner| owner == account) {
                free.push(fingerprint);
            }
        }
        Ok(free)
    }

    pub(crate) async fn forget_certificate(&self, fingerprint: &Fingerprint) -> Result<()> {
        let key = record::certificate_key(fingerprint);
        if let Some(entry) = self.records.entry(&key).await? {
            // Somebody gave it to another account at the same time. The newer change counts.
            self.records.put(key, entry.version, None).await?;
        }
        Ok(())
    }

    /// The account that lists a certificate.
    async fn certificate_owner(&self, fingerprint: &Fingerprint) -> Result<Option<String>> {
        let entry = self.records.entry(&record::certificate_key(fingerprint)).await?;
        let Some(name) = entry.as_ref().map(record::read_certificate).transpose()? else { return Ok(None) };
        let stored = self.records.stored(&name).await?;
        Ok(stored.filter(|stored| stored.certificates.contains(fingerprint)).map(|_| name))
    }

    /// Lets in the owner of a certificate: the account `authorization`, or if that is empty the
    /// first one that there is.
    pub(crate) async fn login_by_certificate(
        &self,
        certificate: &ClientCertificate,
        authorization: &str,
        client: Client,
    ) -> Result<Login, LoginError> {
        let mode = self.logins().certificates;
        let named = named(certificate, mode);
        let key =
            [authorization].into_iter().chain(named.iter().map(String::as_str)).find(|name| !name.is_empty());
        let attempt = self.begin_attempt(client, key.unwrap_or_default());
        let refused = |failure| Err(LoginError { failure, delay: attempt.delay });
        if attempt.refused {
            return refused(LoginFailure::TooMany);
        }
        let found = match self.accounts_of(certificate, mode, named).await {
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
        let is_wanted = |stored: &Stored| authorization.is_empty() || stored.account.name == wanted;
        let Some(stored) = found.into_iter().find(is_wanted) else {
            return refused(LoginFailure::AuthorizationId);
        };
        self.succeed(attempt);
        let by = match stored.certificates.is_empty() {
            true => By::Certificate(certificate.fingerprint),
            false => By::ListedCertificate(certificate.fingerprint),
        };
        // As those that began with a token end with it.
        let ends = certificate.ends.and_then(|ends| ends.duration_since(UNIX_EPOCH).ok());
        Ok(Login { until: ends.map(|ends| ends.as_secs()), ..Login::new(enabled(stored.account)?, by) })
    }

    /// The accounts of a certificate: the one that lists it, and those that it names.
    async fn accounts_of(
        &self,
        certificate: &ClientCertificate,
        mode: CertificateLogins,
        named: Vec<String>,
    ) -> Result<Vec<Stored>> {
        let owner = self.certificate_owner(&certificate.fingerprint).await?;
        let mut found: Vec<Stored> = Vec::new();
        for name in owner.into_iter().chain(named) {
            let Ok(address) = Address::parse_asserted(&name) else { continue };
            let Some(stored) = self.records.stored(address.as_str()).await? else { continue };
            let listed = stored.certificates.contains(&certificate.fingerprint);
            let named = stored.certificates.is_empty() && mode != CertificateLogins::Listed;
            if (listed || named) && !found.iter().any(|one| one.account.id == stored.account.id) {
                found.push(stored);
            }
        }
        Ok(found)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_programs_print_them() {
        let hex = "00ff10".to_owned() + &"ab".repeat(29);
        let read = parse_fingerprint(&hex).unwrap();
        assert_eq!(read[..3], [0, 255, 16]);
        assert_eq!(print_fingerprint(&read), hex);
        let pairs: Vec<String> = hex
            .to_uppercase()
            .as_bytes()
            .chunks(2)
            .map(|p| String::from_utf8_lossy(p).into_owned())
            .collect();
        assert_eq!(parse_fingerprint(&pairs.join(":")), Some(read));
        for bad in ["", "00", &hex[1..], &hex.replace('f', "g"), "\u{e9}"] {
            assert_eq!(parse_fingerprint(bad), None, "{bad}");
        }
    }
}
