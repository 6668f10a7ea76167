//! The keys that tokens are signed with: a JWK set (RFC 7517) from a file or a URL.
//!
//! It is read when it is first needed, and again when it is an hour old. An authorization server
//! that has a new key signs with it at once. So a token with an unknown key id makes us read the
//! set again, at most once a minute for all clients together. A set that cannot be read leaves the
//! one before in use for a day.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use posthaste_directory::TokenError;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::algorithm::Algorithm;
use crate::http::{Http, Url};

/// The set is read again at this age. A withdrawn key is valid until then.
const FRESH_FOR: Duration = Duration::from_secs(60 * 60);
/// The time for which keys are used that could not be read again.
const USED_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Between two readings. Less would let unauthenticated clients cause requests. More would refuse
/// the first users of a new key for longer.
pub const READ_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Octets of a set, and keys of it that are used: servers have two or three, of less than 2 KiB.
const SET_LEN_MAX: usize = 256 * 1024;
const KEYS_MAX: usize = 64;
/// Keys that are tried for a token that names none.
const TRIED_MAX: usize = 8;

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// RFC 7518 §6.3.1.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// RFC 7518 §6.2.1: the point, uncompressed (SEC 1 §2.3.3).
    P256(Vec<u8>),
    /// RFC 8037 §2.
    Ed25519(Vec<u8>),
}

/// A key of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    id: Option<String>,
    /// The key itself.
    pub public: PublicKey,
}

impl Key {
    fn is_of(&self, algorithm: Algorithm) -> bool {
        matches!(
            (&self.public, algorithm),
            (PublicKey::Rsa { .. }, Algorithm::Rs256)
                | (PublicKey::P256(_), Algorithm::Es256)
                | (PublicKey::Ed25519(_), Algorithm::EdDsa)
        )
    }
}

/// Where the set is.
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(Url, Arc<Http>),
}

/// The keys in use.
pub struct KeyStore {
    source: KeySource,
    read_again_after: Duration,
    held: Mutex<CachedKeys>,
    /// One reading at a time.
    reading: Semaphore,
}

#[derive(Default)]
struct CachedKeys {
    keys: Arc<[Key]>,
    /// When they were read.
    read: Option<Instant>,
    /// When they were last tried to be read.
    tried: Option<Instant>,
}

impl KeyStore {
    /// `read_again_after`: see [`READ_AGAIN_AFTER`].
    pub fn new(source: KeySource, read_again_after: Duration) -> Self {
        Self { source, read_again_after, held: Mutex::default(), reading: Semaphore::new(1) }
    }

    /// These keys and no others, as read now.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_keys(keys: Vec<Key>) -> Self {
        let now = Some(Instant::now());
        let store = Self::new(KeySource::File(PathBuf::new()), USED_FOR);
        *store.held.lock() = CachedKeys { keys: keys.into(), read: now, tried: now };
        store
    }

    /// The keys that a token with this key id may be signed with.
    #[boxed]
    pub async fn of(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Vec<Key>, TokenError> {
        let found = self.known(id, algorithm);
        let since = |at: Option<Instant>| at.map(|at| at.elapsed());
        let (read, tried) = {
            let held = self.held.lock();
            (since(held.read), since(held.tried))
        };
        let is_fresh = read.is_some_and(|age| age < FRESH_FOR) && !found.is_empty();
        let may_read = tried.is_none_or(|ago| ago >= self.read_again_after);
        if !is_fresh && may_read {
            self.read_again(tried).await;
        }
        match self.held.lock().read {
            Some(read) if read.elapsed() < USED_FOR => {}
            _ => return Err(TokenError::Unavailable("the keys that verify tokens cannot be read".into())),
        }
        Ok(self.known(id, algorithm))
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Key> {
        let keys = Arc::clone(&self.held.lock().keys);
        let of_kind = keys.iter().filter(|key| key.is_of(algorithm));
        match id {
            Some(id) => {
                of_kind.filter(|key| key.id.as_deref() == Some(id)).take(TRIED_MAX).cloned().collect()
            }
            None => of_kind.take(TRIED_MAX).cloned().collect(),
        }
    }

    /// Reads the set, unless somebody else did while this waited.
    async fn read_again(&self, tried: Option<Duration>) {
        let began = Instant::now();
        let Ok(_turn) = self.reading.acquire().await else { return };
        let newest = self.held.lock().tried;
        if newest.is_some_and(|at| at > began) || (tried.is_none() && newest.is_some()) {
            return;
        }
        self.held.lock().tried = Some(Instant::now());
        let outcome = self.read().await;
        let mut held = self.held.lock();
        match outcome {
            Ok(keys) => (held.keys, held.read) = (keys.into(), Some(Instant::now())),
            Err(why) => tracing::error!(why, "the keys of OAuth tokens cannot be read: see `oauth.jwks`"),
        }
    }

    async fn read(&self) -> Result<Vec<Key>, String> {
        let json = match &self.source {
            KeySource::File(file) => {
                tokio::fs::read(file).await.map_err(|error| format!("{}: {error}", file.display()))?
            }
            KeySource::Url(url, http) => http.get(url, SET_LEN_MAX).await?.to_vec(),
        };
        parse(&json)
    }
}

/// RFC 7517 §5.
#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

/// RFC 7517 §4. Keys of other kinds are skipped (§5).
#[derive(Deserialize)]
struct Jwk {
    #[serde(default)]
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    use_: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

/// The keys of a set that can be used; an error if there is none.
pub fn parse(json: &[u8]) -> Result<Vec<Key>, String> {
    if json.len() > SET_LEN_MAX {
        return Err(format!("it has more than {SET_LEN_MAX} octets"));
    }
    // Only the place: the message may quote what was sent.
    let wrong = |error: serde_json::Error| format!("line {} is not of a JWK set", error.line());
    let set: Set = serde_json::from_slice(json).map_err(wrong)?;
    let keys: Vec<Key> = set.keys.into_iter().filter_map(Jwk::key).take(KEYS_MAX).collect();
    if keys.is_empty() {
        return Err("it has no key for RS256, ES256 or EdDSA".to_owned());
    }
    Ok(keys)
}

impl Jwk {
    fn key(self) -> Option<Key> {
        if self.use_.as_deref().is_some_and(|use_| use_ != "sig") {
            return None;
        }
        let octets = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().filter(|octets| !octets.is_empty());
        // Some servers pad with zeros, which RFC 7518 §6.3.1.1 forbids.
        let number =
            |text: &str| octets(text).map(|n| n.into_iter().skip_while(|b| *b == 0).collect::<Vec<u8>>());
        let fixed = |text: &str| octets(text).filter(|octets| octets.len() == 32);
        let (public, algorithm) = match (self.kty.as_str(), self.crv.as_str()) {
            ("RSA", _) => (PublicKey::Rsa { n: number(&self.n)?, e: number(&self.e)? }, "RS256"),
            ("EC", "P-256") => {
                let point = [vec![4], fixed(&self.x)?, fixed(&self.y)?].concat();
                (PublicKey::P256(point), "ES256")
            }
            ("OKP", "Ed25519") => (PublicKey::Ed25519(fixed(&self.x)?), "EdDSA"),
            _ => return None,
        };
        let is_for_it = self.alg.is_none_or(|alg| alg == algorithm);
        is_for_it.then_some(Key { id: self.kid, public })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_can_be_used_are_taken_from_a_set() {
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        let json = format!(
            r#"{{"keys":[{{"kty":"oct","k":"AAAA"}},{{"kty":"RSA","kid":"r","n":"AAEC","e":"AQAB","use":"sig"}},
            {{"kty":"RSA","n":"AQ","e":"AQAB","use":"enc"}},{{"kty":"RSA","n":"AQ","e":"AQAB","alg":"PS256"}},
            {{"kty":"EC","crv":"P-256","x":"{x}","y":"{x}","alg":"ES256"}},{{"kty":"EC","crv":"P-384","x":"{x}","y":"{x}"}},
            {{"kty":"OKP","crv":"Ed25519","x":"{x}","kid":"e"}},{{"kty":"OKP","crv":"Ed25519","x":"AA"}}]}}"#
        );
        let keys = parse(json.as_bytes()).unwrap();
        assert_eq!(keys.len(), 3, "{keys:?}");
        assert_eq!(keys[0].public, PublicKey::Rsa { n: vec![1, 2], e: vec![1, 0, 1] });
        assert!(matches!(&keys[1].public, PublicKey::P256(point) if point.len() == 65 && point[0] == 4));
        assert_eq!(keys[2].id.as_deref(), Some("e"));
        for bad in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct"}]}"#, r#"{"keys":7}"#] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(&vec![b' '; SET_LEN_MAX + 1]).is_err());
    }
}
