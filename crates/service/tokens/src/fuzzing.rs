//! Any bytes as what clients and authorization servers send about tokens. For the fuzz target
//! `tokens`, and for the test below.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use posthaste_directory::TokenError;

use crate::algorithm::Algorithm;
use crate::claims::{Claims, RequiredClaims};
use crate::keys::{self, KeyStore};
use crate::{introspection, jwt};

/// 2026-11-25.
const NOW: u64 = 1_795_564_800;
/// RFC 8037 §A.2.
const KEYS: &[u8] =
    br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const ALL: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

/// The first byte says what the others are: a token, its payload, an answer about a token, or a set
/// of keys. Only claims that name an account, with a time that is not over, let anybody in.
pub fn tokens(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    match first & 3 {
        0 => {
            let Ok(token) = std::str::from_utf8(rest) else { return };
            let store = KeyStore::of_keys(keys::parse(KEYS).expect("it is a set"));
            if let Ok(claims) = now(jwt::verified(token, &store, &ALL)) {
                assert!(judge(&claims).is_none_or(|until| until.is_some()), "a token lets in for ever");
            }
        }
        1 => {
            if let Ok(claims) = jwt::claims_of(rest) {
                assert!(judge(&claims).is_none_or(|until| until.is_some()), "a token lets in for ever");
            }
        }
        2 => {
            if let Ok(claims) = introspection::understood(rest) {
                judge(&claims);
            }
        }
        _ => {
            if let Ok(keys) = keys::parse(rest) {
                assert!(!keys.is_empty());
                let store = KeyStore::of_keys(keys);
                let token = "eyJhbGciOiJFZERTQSJ9.e30.AAAA";
                assert!(now(jwt::verified(token, &store, &ALL)).is_err(), "a signature of three octets");
            }
        }
    }
}

/// The end of a token that lets somebody in.
fn judge(claims: &Claims) -> Option<Option<u64>> {
    let wanted = RequiredClaims {
        issuer: "https://id.example".to_owned(),
        audiences: vec!["mail".to_owned()],
        scope: "imap".to_owned(),
        claim: "email".to_owned(),
        leeway: Duration::from_secs(60),
    };
    let terms = wanted.judge(claims).ok()?;
    let (name, until) = terms.clone().at(NOW).ok()?;
    assert!(!name.is_empty() && claims.0["iss"] == "https://id.example" && claims.0.contains_key("aud"));
    assert!(until.is_none_or(|until| until > NOW));
    // At its end no token is accepted.
    let over = until.map(|until| terms.at(until));
    assert!(over.is_none_or(|over| matches!(over, Err(TokenError::Expired))));
    Some(until)
}

/// The result of work that waits for nothing.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("keys that are there are not waited for"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_invalid_token_logs_in() {
        posthaste_testkit::fuzz_seeds("tokens", 50_000, super::tokens);
    }
}
