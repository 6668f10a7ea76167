//! Client certificates: the account that a certificate names. Logins by certificates are in
//! `certificate_login`.
//!
//! An account may list certificates by their fingerprints. Then it accepts no others. For a
//! certificate that does not name its account, `certificate/<fingerprint>` names it. The list in
//! the account's record decides: a `certificate/` record alone allows no login.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_net::ClientCertificate;
use posthaste_store::CommitOutcome;

use crate::account::Account;
use crate::address::Address;
use crate::error::{DirectoryError, Result};
use crate::grant::Fingerprint;
use crate::limits::CERTIFICATES_MAX;
use crate::record::{self, Stored};
use crate::records::Records;
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

/// The client certificates that accounts list.
pub struct Certificates {
    records: Records,
}

impl Certificates {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// Adds a certificate to those of an account. From the first one on it takes no other.
    #[boxed]
    pub async fn add(&self, account: &str, fingerprint: Fingerprint) -> Result<Account> {
        let name = self.records.existing_name(account).await?;
        if let Some(owner) = self.owner(&fingerprint).await?.filter(|owner| *owner != name) {
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
        self.put_key(&name, &fingerprint).await?;
        Ok(account)
    }

    /// Takes a certificate from an account. Sessions that were begun with it end.
    #[boxed]
    pub async fn remove(&self, account: &str, fingerprint: Fingerprint) -> Result<Account> {
        let account = self
            .records
            .try_update(account, |stored| {
                let before = stored.certificates.len();
                stored.certificates.retain(|one| *one != fingerprint);
                let was_there = stored.certificates.len() < before;
                was_there.then_some(()).ok_or(DirectoryError::NoCertificate)
            })
            .await?;
        self.forget(&fingerprint).await?;
        Ok(account)
    }

    /// The certificates that an account lists.
    #[boxed]
    pub async fn of(&self, account: &str) -> Result<Vec<Fingerprint>> {
        Ok(self.records.existing_stored(account).await?.certificates)
    }

    /// Writes the record by which a login finds the account that lists a certificate.
    pub(crate) async fn put_key(&self, account: &str, fingerprint: &Fingerprint) -> Result<()> {
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
    pub async fn mirror(&self, from: &Self, account: &str) -> Result<()> {
        let owned = from.owned(account).await?;
        for fingerprint in &owned {
            self.put_key(account, fingerprint).await?;
        }
        for stale in self.owned(account).await? {
            if !owned.contains(&stale) {
                self.forget(&stale).await?;
            }
        }
        Ok(())
    }

    /// Whether each certificate that is an account's in another directory is found here as that of
    /// the account of the same name.
    #[boxed]
    pub async fn has_all_in(&self, from: &Self, account: &str) -> Result<bool> {
        let here = self.owned(account).await?;
        Ok(from.owned(account).await?.iter().all(|fingerprint| here.contains(fingerprint)))
    }

    /// The certificates that an account lists, without those that are found as another one's.
    async fn owned(&self, account: &str) -> Result<Vec<Fingerprint>> {
        let listed =
            self.records.stored(account).await?.map(|stored| stored.certificates.clone()).unwrap_or_default();
        let mut owned = Vec::with_capacity(listed.len());
        for fingerprint in listed {
            if self.owner(&fingerprint).await?.as_deref() == Some(account) {
                owned.push(fingerprint);
            }
        }
        Ok(owned)
    }

    /// The certificates of these that no other account lists.
    pub(crate) async fn free(
        &self,
        account: &str,
        certificates: Vec<Fingerprint>,
    ) -> Result<Vec<Fingerprint>> {
        let mut free = Vec::with_capacity(certificates.len());
        for fingerprint in certificates {
            if self.owner(&fingerprint).await?.is_none_or(|owner| owner == account) {
                free.push(fingerprint);
            }
        }
        Ok(free)
    }

    pub(crate) async fn forget(&self, fingerprint: &Fingerprint) -> Result<()> {
        let key = record::certificate_key(fingerprint);
        if let Some(entry) = self.records.entry(&key).await? {
            // Somebody gave it to another account at the same time. The newer change counts.
            self.records.put(key, entry.version, None).await?;
        }
        Ok(())
    }

    /// The account that lists a certificate.
    async fn owner(&self, fingerprint: &Fingerprint) -> Result<Option<String>> {
        let entry = self.records.entry(&record::certificate_key(fingerprint)).await?;
        let Some(name) = entry.as_ref().map(record::read_certificate).transpose()? else { return Ok(None) };
        let stored = self.records.stored(&name).await?;
        Ok(stored.filter(|stored| stored.certificates.contains(fingerprint)).map(|_| name))
    }

    /// The accounts of a certificate: the one that lists it, and those that it names.
    pub(crate) async fn accounts_of(
        &self,
        certificate: &ClientCertificate,
        mode: CertificateLogins,
        named: Vec<String>,
    ) -> Result<Vec<Arc<Stored>>> {
        let owner = self.owner(&certificate.fingerprint).await?;
        let mut found: Vec<Arc<Stored>> = Vec::new();
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
