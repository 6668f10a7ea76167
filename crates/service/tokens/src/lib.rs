//! Verifies OAuth access tokens, and finds their accounts.
//!
//! | module | what |
//! | --- | --- |
//! | [`algorithm`] | the signature algorithms of tokens |
//! | [`claims`] | the claims of a token, and the required ones |
//! | `jwt` | tokens that are read here (RFC 9068), signed with a key of the authorization server |
//! | [`keys`] | those keys (RFC 7517), from a file or a URL, and the times of a new fetch |
//! | [`introspection`] | tokens that the authorization server checks (RFC 7662) |
//! | [`http`] | the requests |
//!
//! Invariants:
//! * No error and no log line contains a token or its claims.
//! * An unauthenticated client can cause a bounded number of requests, each with a deadline and a
//!   bound on its answer. The throttle of logins counts those for tokens that are not valid, and
//!   those without an answer.
//! * A token is refused unless the configuration names its issuer, audience, algorithm and scope.

pub mod algorithm;
pub mod claims;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod http;
pub mod introspection;
mod jwt;
pub mod keys;

use async_trait::async_trait;
use posthaste_directory::{Granted, TokenCheck, TokenError, normal_domain, unix_time};
use posthaste_mail_model::Secret;

use crate::claims::{RequiredClaims, Terms};
use crate::introspection::Introspection;
use crate::keys::KeyStore;

/// Decides whether a token is valid.
pub enum Judge {
    /// This server, by the token's signature.
    Keys {
        /// The keys.
        keys: KeyStore,
        /// The algorithms that count.
        algorithms: Vec<algorithm::Algorithm>,
    },
    /// The authorization server.
    Server(Introspection),
}

/// Seconds that a session lasts if its token has no time at which it expires. The issuer may have
/// revoked the token since, so the client must show it again.
pub const WITHOUT_EXPIRY_SECONDS: u64 = 60 * 60;

/// Whether a session continues when the token that it began with expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// It ends then, or after [`WITHOUT_EXPIRY_SECONDS`].
    WithToken,
    /// It continues.
    Never,
}

/// Checks tokens.
pub struct Tokens {
    judge: Judge,
    wanted: RequiredClaims,
    /// For names without one.
    domain: String,
    /// The domains whose accounts tokens may name, in normal form; empty for all.
    domains: Vec<String>,
    session_end: SessionEnd,
    discovery: Option<String>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Tokens {
    /// `domain` is that of accounts whose claim has none.
    pub fn new(judge: Judge, wanted: RequiredClaims, domain: String, session_end: SessionEnd) -> Self {
        // OpenID Connect Discovery 1.0 §4: below the issuer.
        let discovery = wanted
            .issuer
            .starts_with("https://")
            .then(|| format!("{}/.well-known/openid-configuration", wanted.issuer.trim_end_matches('/')));
        Self { judge, wanted, domain, domains: Vec::new(), session_end, discovery }
    }

    /// The same for tokens that may name accounts of these domains alone, in normal form. None is
    /// all.
    #[must_use]
    pub fn for_domains(mut self, domains: Vec<String>) -> Self {
        self.domains = domains;
        self
    }

    /// Whether tokens may name this account.
    fn may_name(&self, account: &str) -> bool {
        let domain = account.rsplit_once('@').and_then(|(_, domain)| normal_domain(domain).ok());
        self.domains.is_empty() || domain.is_some_and(|domain| self.domains.contains(&domain))
    }

    async fn terms(&self, token: &str) -> Result<Terms, TokenError> {
        match &self.judge {
            Judge::Keys { keys, algorithms } => {
                let claims = jwt::verified(token, keys, algorithms).await?;
                self.wanted.judge(&claims)
            }
            Judge::Server(server) => server.terms(token, &self.wanted).await,
        }
    }
}

#[async_trait]
impl TokenCheck for Tokens {
    async fn check(&self, token: &Secret<String>) -> Result<Granted, TokenError> {
        let terms = self.terms(token.expose()).await?;
        let now = unix_time::now();
        let (name, expires) = terms.at(now)?;
        let name = if name.contains('@') { name } else { format!("{name}@{}", self.domain) };
        if !self.may_name(&name) {
            return Err(TokenError::Invalid("the token names an account of a domain that it may not name"));
        }
        let until = match self.session_end {
            SessionEnd::WithToken => Some(expires.unwrap_or(now + WITHOUT_EXPIRY_SECONDS)),
            SessionEnd::Never => None,
        };
        Ok(Granted { name, until })
    }

    fn scope(&self) -> &str {
        &self.wanted.scope
    }

    fn discovery(&self) -> Option<&str> {
        self.discovery.as_deref()
    }
}
