//! The interface by which the directory checks OAuth access tokens.

use async_trait::async_trait;
use posthaste_mail_model::Secret;

/// The grants of a valid token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The account it names.
    pub name: String,
    /// The time when sessions of the token end, unix seconds; `None` if they do not end by time.
    pub until: Option<u64>,
}

/// Why a token is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A token that is not valid: forged, revoked, or for another service.
    #[error("{0}")]
    Invalid(&'static str),
    /// A token that has expired. Clients try old tokens, and then fetch a new one.
    #[error("the token has expired")]
    Expired,
    /// A token that does not allow mail.
    #[error("the token lacks the scope")]
    Scope,
    /// The check is not possible just now.
    #[error("{0}")]
    Unavailable(String),
}

/// Checks OAuth access tokens.
#[async_trait]
pub trait TokenCheck: Send + Sync {
    /// Checks a token.
    async fn check(&self, token: &Secret<String>) -> Result<Granted, TokenError>;

    /// The scope that tokens must have; empty for any.
    fn scope(&self) -> &str;

    /// The address that names the source of tokens to clients: RFC 7628 §3.2.2,
    /// `openid-configuration`.
    fn discovery(&self) -> Option<&str>;
}
