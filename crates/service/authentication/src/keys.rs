//! The keys that a domain signs its mail with: the directory record `dkim/<domain>`.
//!
//! ```text
//! {"v":1,"keys":[{"selector":"r20261123","algorithm":"rsa-sha256","state":"signing",
//!                 "since":1795435200,"public":"<base64>","private":"<base64 of PKCS #8>"},…]}
//! ```
//!
//! A key is `next` until its DNS record is published, then it signs, then it is `retired`. Its
//! private part is removed then, and its selector stays for as long as receivers may look it up.
//! Private parts are never printed nor logged.

use async_recursion::async_recursion as boxed;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use posthaste_mail_model::Secret;
use posthaste_store::{CommitOutcome, DirectoryChange, DirectoryEntry, Engine, StoreError};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// The form described here.
const VERSION: u32 = 1;
const PREFIX: &str = "dkim/";

/// Why keys cannot be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record is damaged, or of another version.
    #[error("the directory record {record} cannot be read: {why}")]
    Record {
        /// The name of the record.
        record: String,
        /// The fault.
        why: String,
    },
    /// The library refuses to make a key or a signature.
    #[error("a key of {domain} cannot be used: {what}; `posthaste domain rotate {domain}` makes new ones")]
    Crypto {
        /// The domain of the key.
        domain: String,
        /// The failed step.
        what: &'static str,
    },
    /// Somebody else changed the record meanwhile.
    #[error("the keys of {0} are being changed by another command; try again")]
    Busy(String),
}

/// A signature algorithm (RFC 6376 §3.3, RFC 8463 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// RSA, 2048 bits.
    #[serde(rename = "rsa-sha256")]
    Rsa,
    /// Ed25519.
    #[serde(rename = "ed25519-sha256")]
    Ed25519,
}

impl Algorithm {
    /// As in the tag `a=`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa => "rsa-sha256",
            Self::Ed25519 => "ed25519-sha256",
        }
    }
}

/// The present state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// Mail is signed with it.
    Signing,
    /// Mail is signed with it once its DNS record is published.
    Next,
    /// Nothing is signed with it any more.
    Retired,
}

/// One key of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainKey {
    /// Its name in DNS, below `_domainkey`.
    pub selector: String,
    /// The algorithm of the key.
    pub algorithm: Algorithm,
    /// The state of the key.
    pub state: KeyState,
    /// The beginning of that state, unix seconds.
    pub since: i64,
    /// As in the tag `p=`, before base64.
    pub public: Vec<u8>,
    /// PKCS #8; `None` for a retired key.
    private: Option<Secret<Vec<u8>>>,
}

impl DomainKey {
    /// The text of its DNS record (RFC 6376 §3.6.1, RFC 8463 §4).
    pub fn txt(&self) -> String {
        let kind = match self.algorithm {
            Algorithm::Rsa => "rsa",
            Algorithm::Ed25519 => "ed25519",
        };
        format!("v=DKIM1; k={kind}; p={}", STANDARD.encode(&self.public))
    }

    /// The key pair; `None` for a retired key.
    pub(crate) fn pair(&self, domain: &str) -> Result<Option<Pair>, KeyError> {
        let Some(private) = &self.private else { return Ok(None) };
        let refused = |_| crypto(domain, "its private part is damaged");
        Ok(Some(match self.algorithm {
            Algorithm::Rsa => Pair::Rsa(RsaKeyPair::from_pkcs8(private.expose()).map_err(refused)?),
            Algorithm::Ed25519 => {
                Pair::Ed25519(Ed25519KeyPair::from_pkcs8(private.expose()).map_err(refused)?)
            }
        }))
    }

    fn generate(
        domain: &str,
        algorithm: Algorithm,
        selector: String,
        state: KeyState,
        now: i64,
    ) -> Result<Self, KeyError> {
        let failed = |_| crypto(domain, "it cannot be made");
        let (private, public) = match algorithm {
            Algorithm::Rsa => {
                let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
                let private: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
                let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
                (private.as_ref().to_vec(), public.as_ref().to_vec())
            }
            Algorithm::Ed25519 => {
                let pair = Ed25519KeyPair::generate().map_err(failed)?;
                let private = pair.to_pkcs8().map_err(failed)?;
                (private.as_ref().to_vec(), pair.public_key().as_ref().to_vec())
            }
        };
        Ok(Self { selector, algorithm, state, since: now, public, private: Some(Secret::new(private)) })
    }
}

/// A private key, ready to sign.
pub(crate) enum Pair {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Pair {
    /// The signature of some text (RFC 6376 §3.3.1; RFC 8463 §3: of its hash).
    pub fn sign(&self, text: &[u8], domain: &str) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature)
                    .map_err(|_| crypto(domain, "it made no signature"))?;
                Ok(signature)
            }
            Self::Ed25519(pair) => Ok(pair.sign(digest(&SHA256, text).as_ref()).as_ref().to_vec()),
        }
    }
}

fn crypto(domain: &str, what: &'static str) -> KeyError {
    KeyError::Crypto { domain: domain.to_owned(), what }
}

/// All keys of a domain that this server sends for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainKeys {
    /// In lower case and A-labels.
    pub domain: String,
    /// In the order in which they were made.
    pub keys: Vec<DomainKey>,
    /// Version of the record; 0 if there is none.
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    v: u32,
    keys: Vec<KeyRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRecord {
    selector: String,
    algorithm: Algorithm,
    state: KeyState,
    since: i64,
    public: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    private: Option<String>,
}

impl DomainKeys {
    /// A domain without keys.
    pub fn new(domain: &str) -> Self {
        Self { domain: domain.to_owned(), keys: Vec::new(), version: 0 }
    }

    /// Makes a key of each algorithm. RSA takes some 100 ms.
    pub fn generate(&mut self, state: KeyState, now: i64) -> Result<(), KeyError> {
        for (algorithm, letter) in [(Algorithm::Rsa, 'r'), (Algorithm::Ed25519, 'e')] {
            let selector = self.free_selector(letter, now);
            self.keys.push(DomainKey::generate(&self.domain, algorithm, selector, state, now)?);
        }
        Ok(())
    }

    /// A name with the day in it that no key of the domain has.
    fn free_selector(&self, letter: char, now: i64) -> String {
        let at = OffsetDateTime::from_unix_timestamp(now).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let day = format!("{letter}{:04}{:02}{:02}", at.year(), u8::from(at.month()), at.day());
        let is_free = |name: &String| self.keys.iter().all(|key| key.selector != *name);
        let numbered = (2_u32..).map(|n| format!("{day}-{n}"));
        std::iter::once(day.clone()).chain(numbered).find(is_free).unwrap_or(day)
    }

    /// The keys in a state.
    pub fn in_state(&self, state: KeyState) -> impl Iterator<Item = &DomainKey> {
        self.keys.iter().filter(move |key| key.state == state)
    }

    /// Lets the next keys sign, and retires those that signed.
    pub fn switch(&mut self, now: i64) {
        for key in &mut self.keys {
            match key.state {
                KeyState::Next => (key.state, key.since) = (KeyState::Signing, now),
                KeyState::Signing => {
                    (key.state, key.since, key.private) = (KeyState::Retired, now, None);
                }
                KeyState::Retired => {}
            }
        }
    }

    /// Forgets keys that were retired before a time.
    pub fn forget_retired(&mut self, before: i64) {
        self.keys.retain(|key| key.state != KeyState::Retired || key.since >= before);
    }

    /// A domain's keys; `None` for a domain that this server does not send for.
    #[boxed]
    pub async fn find(engine: &dyn Engine, domain: &str) -> Result<Option<Self>, KeyError> {
        let entry = engine.directory_entry(&name_of(domain)).await?;
        entry.as_ref().map(Self::read).transpose()
    }

    /// Domains by name, those after `after`, at most `limit`.
    #[boxed]
    pub async fn list(engine: &dyn Engine, after: Option<&str>, limit: usize) -> Result<Vec<Self>, KeyError> {
        let after = after.map(name_of);
        let entries = engine.directory_scan(PREFIX, after.as_deref(), limit).await?;
        entries.iter().map(Self::read).collect()
    }

    /// Whether this server sends for any domain.
    #[boxed]
    pub async fn any(engine: &dyn Engine) -> Result<bool, KeyError> {
        Ok(!engine.directory_scan(PREFIX, None, 1).await?.is_empty())
    }

    /// Writes the record, if nobody else has changed it.
    #[boxed]
    pub async fn save(&mut self, engine: &dyn Engine) -> Result<(), KeyError> {
        let value = Some(self.write()?);
        self.commit(engine, value).await?;
        self.version += 1;
        Ok(())
    }

    /// Removes the record. The private keys are lost.
    #[boxed]
    pub async fn remove(self, engine: &dyn Engine) -> Result<(), KeyError> {
        self.commit(engine, None).await
    }

    async fn commit(&self, engine: &dyn Engine, value: Option<Bytes>) -> Result<(), KeyError> {
        let change = DirectoryChange { name: name_of(&self.domain), expected: self.version, value };
        match engine.directory_commit(change).await? {
            CommitOutcome::Done => Ok(()),
            CommitOutcome::Conflict => Err(KeyError::Busy(self.domain.clone())),
        }
    }

    /// The contents of a record.
    pub(crate) fn read(entry: &DirectoryEntry) -> Result<Self, KeyError> {
        let unreadable = |why: String| KeyError::Record { record: entry.name.clone(), why };
        // serde's own message may quote the record, which holds secrets.
        let damaged = |what: &str| unreadable(format!("{what} is not as expected: restore it from a backup"));
        let record: StoredKeys = serde_json::from_slice(&entry.value).map_err(|error| {
            match serde_json::from_slice::<AnyVersion>(&entry.value) {
                Ok(AnyVersion { v }) if v != VERSION => unreadable(format!(
                    "it has version {v}, and this program supports version {VERSION}: use the program that wrote it"
                )),
                _ => damaged(&format!("column {}", error.column())),
            }
        })?;
        if record.v != VERSION {
            return Err(damaged("its version"));
        }
        let octets = |text: &str| STANDARD.decode(text).map_err(|_| damaged("a key"));
        let key = |key: KeyRecord| {
            Ok(DomainKey {
                public: octets(&key.public)?,
                private: key.private.as_deref().map(octets).transpose()?.map(Secret::new),
                selector: key.selector,
                algorithm: key.algorithm,
                state: key.state,
                since: key.since,
            })
        };
        let keys = record.keys.into_iter().map(key).collect::<Result<_, KeyError>>()?;
        let domain = entry.name.strip_prefix(PREFIX).unwrap_or(&entry.name).to_owned();
        Ok(Self { domain, keys, version: entry.version })
    }

    fn write(&self) -> Result<Bytes, KeyError> {
        let key = |key: &DomainKey| KeyRecord {
            selector: key.selector.clone(),
            algorithm: key.algorithm,
            state: key.state,
            since: key.since,
            public: STANDARD.encode(&key.public),
            private: key.private.as_ref().map(|private| STANDARD.encode(private.expose())),
        };
        let record = StoredKeys { v: VERSION, keys: self.keys.iter().map(key).collect() };
        let text = serde_json::to_vec(&record);
        text.map(Bytes::from)
            .map_err(|error| KeyError::Record { record: name_of(&self.domain), why: error.to_string() })
    }
}

/// The version alone; other fields are ignored.
#[derive(Deserialize)]
struct AnyVersion {
    v: u32,
}

/// The name of a domain's record.
pub(crate) fn name_of(domain: &str) -> String {
    format!("{PREFIX}{domain}")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };
    use posthaste_store::MemoryEngine;

    use super::*;

    const NOW: i64 = 1_795_435_200;

    fn made(state: KeyState) -> DomainKeys {
        let mut keys = DomainKeys::new("example.org");
        keys.generate(state, NOW).unwrap();
        keys
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut keys = made(KeyState::Signing);
        keys.generate(KeyState::Next, NOW + 1).unwrap();
        keys.switch(NOW + 2);
        let value = keys.write().unwrap();
        let entry = DirectoryEntry { name: "dkim/example.org".into(), version: 7, value: value.clone() };
        assert_eq!(DomainKeys::read(&entry).unwrap(), DomainKeys { version: 7, ..keys.clone() });
        // Retired keys leave no private part, and no form of a key shows one.
        assert_eq!(String::from_utf8_lossy(&value).matches("private").count(), 2);
        let shown = format!("{keys:?}");
        assert_eq!(shown.matches("private: Some([secret])").count(), 2);
        assert_eq!(shown.matches("private: ").count(), 4);
    }

    #[test]
    fn a_damaged_record_is_refused_and_not_quoted() {
        let why = |json: &str| {
            let value = Bytes::from(json.to_owned());
            let entry = DirectoryEntry { name: "dkim/x".into(), version: 1, value };
            DomainKeys::read(&entry).unwrap_err().to_string()
        };
        assert!(why(r#"{"v":2,"secrets":[]}"#).contains("version 2"));
        assert!(why("hunter2").contains("column") && !why("hunter2").contains("hunter2"));
        assert!(why(r#"{"v":1,"keys":[{"selector":"s","algorithm":"rsa-sha256","state":"next","since":1,"public":"%"}]}"#).contains("a key"));
    }

    #[test]
    fn the_text_for_dns_gives_the_public_key_that_verifies() {
        for key in &made(KeyState::Signing).keys {
            let text = key.txt();
            let public = text.split("; ").find_map(|tag| tag.strip_prefix("p=")).unwrap();
            let public = STANDARD.decode(public).unwrap();
            assert_eq!(public, key.public);
            let signature = key.pair("x").unwrap().unwrap().sign(b"text", "x").unwrap();
            let (algorithm, signed): (&'static dyn VerificationAlgorithm, Vec<u8>) = match key.algorithm {
                Algorithm::Rsa => (&RSA_PKCS1_2048_8192_SHA256, b"text".to_vec()),
                Algorithm::Ed25519 => (&ED25519, digest(&SHA256, b"text").as_ref().to_vec()),
            };
            UnparsedPublicKey::new(algorithm, &public).verify(&signed, &signature).unwrap();
        }
    }

    #[test]
    fn selectors_have_the_day_and_are_never_the_same() {
        let mut keys = made(KeyState::Signing);
        keys.generate(KeyState::Next, NOW).unwrap();
        let names: Vec<&str> = keys.keys.iter().map(|key| key.selector.as_str()).collect();
        assert_eq!(names, ["r20261123", "e20261123", "r20261123-2", "e20261123-2"]);
    }

    #[test]
    fn a_rotation_ends_with_new_keys_that_sign() {
        let mut keys = made(KeyState::Signing);
        keys.generate(KeyState::Next, NOW).unwrap();
        keys.switch(NOW + 10);
        let states: Vec<KeyState> = keys.keys.iter().map(|key| key.state).collect();
        assert_eq!(states, [KeyState::Retired, KeyState::Retired, KeyState::Signing, KeyState::Signing]);
        assert!(keys.keys[0].pair("x").unwrap().is_none());
        keys.forget_retired(NOW + 10);
        assert_eq!(keys.keys.len(), 4);
        keys.forget_retired(NOW + 11);
        assert_eq!(keys.keys.len(), 2);
    }

    #[tokio::test]
    async fn of_two_changes_at_once_one_is_refused() {
        let engine = MemoryEngine::default();
        let mut keys = made(KeyState::Signing);
        assert!(!DomainKeys::any(&engine).await.unwrap());
        keys.save(&engine).await.unwrap();
        assert!(DomainKeys::any(&engine).await.unwrap());
        let mut other = DomainKeys::find(&engine, "example.org").await.unwrap().unwrap();
        keys.switch(NOW);
        keys.save(&engine).await.unwrap();
        assert!(matches!(other.save(&engine).await, Err(KeyError::Busy(_))));
        keys.remove(&engine).await.unwrap();
        assert!(DomainKeys::find(&engine, "example.org").await.unwrap().is_none());
    }
}
