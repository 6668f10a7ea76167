//! Keys of authorised URLs: RFC 4467. One for each mailbox of an account.
//!
//! | record | content |
//! | --- | --- |
//! | `urlauth/<account id>/<mailbox id>` | 1 octet, the version 1; 32 octets, the key |
//!
//! A key is made when the first URL of its mailbox is authorised. The client may replace it by a
//! new one. Then no earlier URL is valid any more. A record is named by the mailbox's id, so URLs
//! do not apply to another mailbox that gets the same name. Backups have no keys: URLs that were
//! authorised before a restore are void.

use std::fmt::Write as _;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_store::CommitOutcome;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::error::{DirectoryError, Result};
use crate::records::{Records, TRIES};

/// The form of a record.
const VERSION: u8 = 1;
/// The first octet of a token: how it was made (RFC 4467 §6). 1 is HMAC-SHA-256 of the URL.
const ALGORITHM: u8 = 1;
/// Octets of a key: as many as the hash has. More would be hashed first.
const KEY_LEN: usize = 32;
/// Records per engine call: they are short.
const PAGE: usize = 256;

/// The key of a mailbox's authorised URLs.
pub struct UrlKey([u8; KEY_LEN]);

impl UrlKey {
    /// The proof that a URL was authorised, in hexadecimal digits: RFC 4467 §6.
    pub fn token(&self, rump: &str) -> String {
        // The hash works on blocks of 64 octets, and a shorter key is filled with zeros.
        let mut block = [0; 64];
        block[..KEY_LEN].copy_from_slice(&self.0);
        let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new((&block).into());
        mac.update(rump.as_bytes());
        let octets = std::iter::once(ALGORITHM).chain(mac.finalize().into_bytes());
        octets.fold(String::with_capacity(66), |mut text, octet| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{octet:02x}");
            text
        })
    }

    /// Whether a token is the proof of this URL. Takes as long whichever digit is wrong.
    pub fn proves(&self, rump: &str, token: &str) -> bool {
        self.token(rump).as_bytes().ct_eq(token.to_ascii_lowercase().as_bytes()).into()
    }
}

impl std::fmt::Debug for UrlKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UrlKey")
    }
}

fn prefix(account: AccountId) -> String {
    format!("urlauth/{account}/")
}

fn record(account: AccountId, mailbox: MailboxId) -> String {
    format!("{}{mailbox}", prefix(account))
}

fn read(name: &str, value: &[u8]) -> Result<UrlKey> {
    let key = value.strip_prefix(&[VERSION]).and_then(|key| key.try_into().ok());
    key.map(UrlKey).ok_or_else(|| DirectoryError::Record {
        record: name.to_owned(),
        why: "it has another form, or is damaged: RESETKEY makes a new one".into(),
    })
}

/// The keys of authorised URLs of all mailboxes.
pub struct UrlKeys {
    records: Records,
}

impl UrlKeys {
    pub(crate) fn new(records: Records) -> Self {
        Self { records }
    }

    /// The key of a mailbox; `None` if no URL of it was authorised.
    #[boxed]
    async fn get(&self, account: AccountId, mailbox: MailboxId) -> Result<Option<UrlKey>> {
        let name = record(account, mailbox);
        let entry = self.records.entry(&name).await?;
        entry.map(|entry| read(&name, &entry.value)).transpose()
    }

    /// Whether a token is the proof that a URL of a mailbox was authorised. It takes as long if
    /// there is no key.
    #[boxed]
    pub async fn prove(
        &self,
        account: AccountId,
        mailbox: MailboxId,
        rump: &str,
        token: &str,
    ) -> Result<bool> {
        let key = self.get(account, mailbox).await?;
        let has_key = key.is_some();
        // Without a key, a token of this one proves nothing.
        let is_proof = key.unwrap_or(UrlKey([0; KEY_LEN])).proves(rump, token);
        Ok(has_key & is_proof)
    }

    /// The key of a mailbox. A missing key is created.
    #[boxed]
    pub async fn get_or_make(&self, account: AccountId, mailbox: MailboxId) -> Result<UrlKey> {
        for _ in 0..TRIES {
            if let Some(key) = self.get(account, mailbox).await? {
                return Ok(key);
            }
            let mut value = [VERSION; 1 + KEY_LEN];
            getrandom::fill(&mut value[1..])
                .map_err(|error| DirectoryError::Hashing(format!("no randomness: {error}")))?;
            let value = Some(Bytes::copy_from_slice(&value));
            // The second of two writers uses the key of the first.
            self.records.put(record(account, mailbox), 0, value).await?;
        }
        Err(DirectoryError::Busy(record(account, mailbox)))
    }

    /// Forgets the key of a mailbox, and with it all URLs that were authorised.
    #[boxed]
    pub async fn forget(&self, account: AccountId, mailbox: MailboxId) -> Result<()> {
        let name = record(account, mailbox);
        for _ in 0..TRIES {
            let Some(entry) = self.records.entry(&name).await? else { return Ok(()) };
            if self.records.put(name.clone(), entry.version, None).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(name))
    }

    /// Forgets all keys of an account.
    #[boxed]
    pub async fn forget_all(&self, account: AccountId) -> Result<()> {
        loop {
            let page = self.records.scan(&prefix(account), None, PAGE).await?;
            for entry in &page {
                let (name, expected) = (entry.name.clone(), entry.version);
                // After a conflict with another change, the next page shows the record again.
                self.records.put(name, expected, None).await?;
            }
            if page.is_empty() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_key_and_one_url() {
        let (one, two) = (UrlKey([1; KEY_LEN]), UrlKey([2; KEY_LEN]));
        let rump = "imap://joe@example.com/INBOX/;UID=20;URLAUTH=submit+fred";
        let token = one.token(rump);
        assert_eq!(token.len(), 66);
        assert!(token.starts_with("01") && token.bytes().all(|b| b.is_ascii_hexdigit()));
        assert!(one.proves(rump, &token) && one.proves(rump, &token.to_ascii_uppercase()));
        assert!(!two.proves(rump, &token));
        assert!(!one.proves("imap://joe@example.com/INBOX/;UID=21;URLAUTH=submit+fred", &token));
        for wrong in ["", "01", &token[..65], &format!("{token}0"), &"0".repeat(66)] {
            assert!(!one.proves(rump, wrong), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", UrlKey([7; KEY_LEN])), "UrlKey");
    }
}
