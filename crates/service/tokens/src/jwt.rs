//! Signed tokens: a JWT (RFC 7519) as a JWS in its compact form (RFC 7515 §7.1).

use async_recursion::async_recursion as boxed;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthaste_directory::TokenError;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::claims::Claims;
use crate::keys::{Key, KeyStore, PublicKey};

/// RFC 7515 §4.1. Other parameters do not change what a signature means, except `crit`.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
    #[serde(default)]
    typ: Option<String>,
}

const SHAPE: TokenError = TokenError::Invalid("the token is not a signed JWT");

/// The claims of a token whose signature is right.
#[boxed]
pub async fn verified(token: &str, keys: &KeyStore, allowed: &[Algorithm]) -> Result<Claims, TokenError> {
    let (signed, signature) = token.rsplit_once('.').ok_or(SHAPE)?;
    let (header, payload) = signed.split_once('.').ok_or(SHAPE)?;
    let header: Header = serde_json::from_slice(&decoded(header)?).map_err(|_| SHAPE)?;
    // RFC 7515 §4.1.11: what must be understood, and here nothing of it is.
    if header.crit.is_some() {
        return Err(TokenError::Invalid("the token needs an extension of its format"));
    }
    if !header.typ.as_deref().is_none_or(is_access_token) {
        return Err(TokenError::Invalid("the token is a JWT of another type than an access token"));
    }
    let algorithm = Algorithm::from_name(&header.alg).filter(|one| allowed.contains(one));
    let algorithm =
        algorithm.ok_or(TokenError::Invalid("the token is signed by an algorithm that is not allowed"))?;
    let (signature, payload) = (decoded(signature)?, decoded(payload)?);
    let candidates = keys.of(header.kid.as_deref(), algorithm).await?;
    if candidates.is_empty() {
        return Err(TokenError::Invalid("the token is signed with a key that is not known"));
    }
    if !candidates.iter().any(|key| is_signed(key, algorithm, signed.as_bytes(), &signature)) {
        return Err(TokenError::Invalid("the signature of the token is wrong"));
    }
    claims_of(&payload)
}

/// The claims in the payload of a token.
pub(crate) fn claims_of(payload: &[u8]) -> Result<Claims, TokenError> {
    let claims = serde_json::from_slice::<Map<String, Value>>(payload).map(Claims).map_err(|_| SHAPE)?;
    // RFC 9068 §2.2: REQUIRED. A token without it would be valid for ever.
    if !claims.expires() {
        return Err(TokenError::Invalid("the token has no time at which it expires"));
    }
    Ok(claims)
}

/// RFC 8725 §3.11: a JWT of the same issuer for another purpose must not be accepted. RFC 9068
/// §2.1 has `at+jwt`; many servers write `JWT` instead, or nothing. Their other signed objects
/// usually have a type of their own: `logout+jwt`, `secevent+jwt`, `dpop+jwt`.
fn is_access_token(typ: &str) -> bool {
    // RFC 7515 §4.1.9: a media type, in any case, whose `application/` may be left out.
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "at+jwt" | "jwt")
}

/// RFC 7515 §2: base64url without padding.
fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| SHAPE)
}

/// The key decides which algorithm can be meant, and the token must mean the same: RFC 8725 §3.1.
fn is_signed(key: &Key, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
    match (&key.public, algorithm) {
        (PublicKey::Rsa { n, e }, Algorithm::Rs256) => {
            RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
        }
        (PublicKey::P256(point), Algorithm::Es256) => {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
        }
        (PublicKey::Ed25519(point), Algorithm::EdDsa) => {
            UnparsedPublicKey::new(&ED25519, point).verify(message, signature).is_ok()
        }
        _ => false,
    }
}
