//! Tokens that only the authorization server can read: it gets a request about each (RFC 7662). The
//! terms in an answer are cached for a while, so that a client with several connections causes one
//! request. The answer itself is not kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use posthaste_directory::{Recent, TokenError, allocated};
use posthaste_mail_model::Secret;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::claims::{Claims, RequiredClaims, Terms};
use crate::http::{Http, Url, percent_encoded};

/// Octets of an answer: it is a handful of claims.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Answers that are remembered in each of two generations. With more users at a time, some are
/// requested again.
const REMEMBERED: usize = 2048;
/// Places of the hash table of a generation. One of half as many has room for 1,792.
const PLACES: usize = 2 * REMEMBERED;
/// Octets of the account's name in an answer that is remembered. Names of accounts have at most
/// 382. Some spellings of an international domain are longer, and are requested each time.
const NAME_LEN_MAX: usize = 382;
/// Bytes of the names in both generations.
const NAMES_BYTES_MAX: usize = 2 * REMEMBERED * allocated(NAME_LEN_MAX);
/// Bytes of a place: a hash table has one byte more for each.
const PLACE_BYTES: usize = size_of::<(TokenHash, Remembered)>() + 1;
/// Bytes of all that is remembered of answers. A table that grows has the smaller one beside it.
pub const ANSWERS_BYTES_MAX: u64 = (NAMES_BYTES_MAX + (2 * PLACES + PLACES / 2) * PLACE_BYTES) as u64;

/// The key of an answer: a token is not kept.
type TokenHash = [u8; 32];
/// When an answer came, and the terms in it. An error is [`TokenError::Invalid`], without text of
/// its own.
type Remembered = (Instant, Result<Terms, TokenError>);

/// Asks an authorization server.
pub struct Introspection {
    url: Url,
    http: Arc<Http>,
    /// The value of the field Authorization; empty for none.
    authorization: Secret<String>,
    remembered_for: Duration,
    answers: Mutex<Recent<TokenHash, Remembered>>,
}

impl Introspection {
    /// `secret` is this server's, as the client `id`. An answer is remembered for `remembered_for`.
    pub fn new(
        url: Url,
        http: Arc<Http>,
        (id, secret): (&str, &Secret<String>),
        remembered_for: Duration,
    ) -> Self {
        let authorization = match id {
            "" => String::new(),
            // RFC 6749 §2.3.1
            id => {
                let pair = format!("{}:{}", percent_encoded(id), percent_encoded(secret.expose()));
                format!("Basic {}", STANDARD.encode(pair))
            }
        };
        let (authorization, answers) = (Secret::new(authorization), Mutex::new(Recent::new(REMEMBERED)));
        Self { url, http, authorization, remembered_for, answers }
    }

    /// The terms of a token from the server, if it is valid. `wanted` is the same in each call.
    #[boxed]
    pub async fn terms(&self, token: &str, wanted: &RequiredClaims) -> Result<Terms, TokenError> {
        let hash: TokenHash = Sha256::digest(token).into();
        let known = self.answers.lock().get(&hash);
        if let Some((at, terms)) = known
            && at.elapsed() < self.remembered_for
        {
            return terms;
        }
        // RFC 7662 §2.1
        let form = format!("token={}&token_type_hint=access_token", percent_encoded(token));
        let answer = self.http.post(&self.url, &self.authorization, form, ANSWER_LEN_MAX).await;
        let answer = answer.map_err(TokenError::Unavailable)?;
        let claims = understood(&answer).map_err(|error| match error {
            TokenError::Unavailable(why) => TokenError::Unavailable(format!("{} {why}", self.url)),
            other => other,
        })?;
        let terms = wanted.judge(&claims);
        let is_long = terms.as_ref().is_ok_and(|terms| terms.name_len() > NAME_LEN_MAX);
        if !is_long {
            self.answers.lock().insert(hash, (Instant::now(), terms.clone()));
        }
        terms
    }
}

/// The claims in an answer, if the token is valid.
pub(crate) fn understood(answer: &[u8]) -> Result<Claims, TokenError> {
    let unclear = |why: &str| TokenError::Unavailable(why.to_owned());
    let claims: Map<String, Value> =
        serde_json::from_slice(answer).map_err(|_| unclear("does not answer with JSON"))?;
    // RFC 7662 §2.2: REQUIRED. The answer about an invalid token has no other field.
    match claims.get("active") {
        Some(Value::Bool(true)) => Ok(Claims(claims)),
        Some(Value::Bool(false)) => Err(TokenError::Invalid("the token is not active")),
        _ => Err(unclear("does not say whether it is active")),
    }
}
