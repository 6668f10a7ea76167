//! A login by an OAuth access token: SASL OAUTHBEARER and XOAUTH2.

use std::sync::Arc;

use posthaste_mail_model::Secret;
use sha2::{Digest, Sha256};

use crate::address::{Address, same_user};
use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::grant::{By, Client, Login, Proven};
use crate::login_error::{LoginError, LoginFailure, NO_ACCOUNT, NO_TOKEN, enabled};
use crate::throttle::Attempt;
use crate::token::{Granted, TokenCheck, TokenError};

/// Why a token is not checked: see `Throttle::begin_request`.
const UNANSWERED: &str = "too many requests about tokens of this client had no answer";

impl Directory {
    /// Checks a token with which a client wants to be `name`; empty for the one that the token
    /// names. Answers also with the name for the log.
    pub(crate) async fn login_by_token(
        &self,
        name: &str,
        token: Option<Secret<String>>,
        client: Client,
    ) -> (String, Result<Login, LoginError>) {
        let Some(tokens) = self.logins().tokens.clone() else {
            return (name.to_owned(), Err(LoginError::at_once(LoginFailure::UnknownMechanism)));
        };
        let Some(token) = token else {
            // RFC 7628 §4.3: the client wants to know where to get one. No guess was made.
            return (name.to_owned(), Err(LoginError::at_once(LoginFailure::Token(NO_TOKEN))));
        };
        let attempt = self.begin_attempt(client, &key_of(name, &token));
        if attempt.refused {
            let error = LoginError { failure: LoginFailure::TooMany, delay: attempt.delay };
            return (name.to_owned(), Err(error));
        }
        match self.granted(&tokens, &token, attempt).await {
            Ok(granted) => {
                let shown = if name.is_empty() { &granted.name } else { name };
                let proven = self.prove_granted(name, &granted, attempt).await;
                (shown.to_owned(), self.confirm(proven).await)
            }
            Err(error) => (name.to_owned(), Err(error)),
        }
    }

    /// The grants of a token. An expired token, or one for something else, does not count as a
    /// guess. Nor does one that cannot be checked: it counts as a request without an answer.
    async fn granted(
        &self,
        tokens: &Arc<dyn TokenCheck>,
        token: &Secret<String>,
        attempt: Attempt,
    ) -> Result<Granted, LoginError> {
        let Some(request) = self.begin_request(attempt) else {
            self.forgive(attempt);
            let why = DirectoryError::Tokens(UNANSWERED.to_owned());
            return Err(LoginError { failure: LoginFailure::Unavailable(why), delay: attempt.delay });
        };
        let checked = tokens.check(token).await;
        if !matches!(checked, Err(TokenError::Unavailable(_))) {
            self.end_request(request);
        }
        let failure = match checked {
            Ok(granted) => return Ok(granted),
            Err(TokenError::Invalid(why)) => {
                return Err(LoginError { failure: LoginFailure::Token(why), delay: attempt.delay });
            }
            Err(TokenError::Expired) => LoginFailure::Expired,
            Err(TokenError::Scope) => LoginFailure::Scope,
            Err(TokenError::Unavailable(why)) => LoginFailure::Unavailable(DirectoryError::Tokens(why)),
        };
        self.forgive(attempt);
        Err(LoginError::at_once(failure))
    }

    /// The login of a valid token.
    async fn prove_granted(
        &self,
        name: &str,
        granted: &Granted,
        attempt: Attempt,
    ) -> Result<Proven, LoginError> {
        let refused = |failure| Err(LoginError { failure, delay: attempt.delay });
        let asserted = Address::parse_asserted(&granted.name);
        let is_wanted = |asserted: &Address| same_user(name, asserted.as_str());
        if asserted.as_ref().is_ok_and(|asserted| !is_wanted(asserted)) {
            return refused(LoginFailure::AuthorizationId);
        }
        let found = match asserted {
            Ok(address) => self.records.stored(address.as_str()).await,
            Err(_) => Ok(None),
        };
        match found {
            Ok(Some(stored)) => {
                self.succeed(attempt);
                let account = enabled(Arc::clone(&stored.account))?;
                Ok(Proven(Login { until: granted.until, ..Login::new(account, By::Token) }))
            }
            Ok(None) => refused(LoginFailure::Token(NO_ACCOUNT)),
            Err(error) => {
                self.forgive(attempt);
                Err(LoginError::at_once(error.into()))
            }
        }
    }
}

/// The key under which failures of a token are counted. A client that names nobody is counted by
/// its token: with one key for all of them, failures of one would count for the others.
fn key_of(name: &str, token: &Secret<String>) -> String {
    match Address::parse(name) {
        Ok(address) => address.to_string(),
        Err(_) => format!("token {:x}", Sha256::digest(token.expose())),
    }
}
