//! Tokens that only the authorization server can read: it gets a request about each (RFC 7662). An
//! answer is cached for a while, so that a client with several connections causes one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use posthaste_directory::{Recent, TokenError};
use posthaste_mail_model::Secret;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::claims::Claims;
use crate::http::{Http, Url, percent_encoded};

/// Octets of an answer: it is a handful of claims.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Answers that are remembered: 2,048 × 2 × at most some KiB. With more users at a time, some
/// answers are requested again.
const REMEMBERED: usize = 2048;

/// The key of an answer: a token is not kept.
type TokenHash = [u8; 32];

/// Asks an authorization server.
pub struct Introspection {
    url: Url,
    http: Arc<Http>,
    /// The value of the field Authorization; empty for none.
    authorization: Secret<String>,
    remembered_for: Duration,
    answers: Mutex<Recent<TokenHash, (Instant, Arc<Claims>)>>,
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

    /// The claims of a token from the server, if it is valid.
    #[boxed]
    pub async fn claims(&self, token: &str) -> Result<Claims, TokenError> {
        let hash: TokenHash = Sha256::digest(token).into();
        let known = self.answers.lock().get(&hash);
        if let Some((at, claims)) = known
            && at.elapsed() < self.remembered_for
        {
            return Ok(Claims::clone(&claims));
        }
        // RFC 7662 §2.1
        let form = format!("token={}&token_type_hint=access_token", percent_encoded(token));
        let answer = self.http.post(&self.url, &self.authorization, form, ANSWER_LEN_MAX).await;
        let answer = answer.map_err(TokenError::Unavailable)?;
        let claims = understood(&answer).map_err(|error| match error {
            TokenError::Unavailable(why) => TokenError::Unavailable(format!("{} {why}", self.url)),
            other => other,
        })?;
        self.answers.lock().insert(hash, (Instant::now(), Arc::new(claims.clone())));
        Ok(claims)
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
