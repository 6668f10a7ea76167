//! Why a login was refused.

use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::error::DirectoryError;

/// The failure of a client that only wants to know where to get a token: RFC 7628 §4.3. It is no
/// guess.
pub(crate) const NO_TOKEN: &str = "there is no token";

/// The failure of a token whose account does not exist here.
pub(crate) const NO_ACCOUNT: &str = "the token names no account of this server";

/// Why a login was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginFailure {
    /// Name or password is wrong; the answer does not show which. `[AUTHENTICATIONFAILED]`, 535
    /// 5.7.8.
    #[error("name or password is wrong")]
    Credentials,
    /// The password was right, but the account is disabled. `[AUTHORIZATIONFAILED]`, 535 5.7.13.
    #[error("this account is disabled")]
    Disabled,
    /// To act for somebody else is not offered. `[AUTHORIZATIONFAILED]`, 535 5.7.8.
    #[error("an account can act only for itself")]
    AuthorizationId,
    /// The client's message violates its mechanism. BAD, 501 5.5.2.
    #[error("the authentication exchange is malformed: {0}")]
    Malformed(&'static str),
    /// The channel the client bound to is not this one. `[AUTHENTICATIONFAILED]`, 535 5.7.8.
    #[error("channel binding failed: {0}")]
    ChannelBinding(&'static str),
    /// The certificate belongs to no account. `[AUTHENTICATIONFAILED]`, 535 5.7.8.
    #[error("this certificate belongs to no account here")]
    Certificate,
    /// The OAuth token is not taken. `[AUTHENTICATIONFAILED]`, 535 5.7.8.
    #[error("{0}")]
    Token(&'static str),
    /// The credential was valid, and has expired. `[EXPIRED]`, 535 5.7.8.
    #[error("this app password or token has expired: use a new one")]
    Expired,
    /// The credential is not for this protocol, or not for mail. `[AUTHORIZATIONFAILED]`, 535
    /// 5.7.8.
    #[error("this app password or token is not for this protocol")]
    Scope,
    /// No mechanism of that name. NO `[CANNOT]`, 504 5.5.4.
    #[error("no such authentication mechanism")]
    UnknownMechanism,
    /// The mechanism sends the password, or what one can be tried against, and nobody protects
    /// it. `[PRIVACYREQUIRED]`, 538 5.7.11.
    #[error("encryption is required to log in this way: use TLS")]
    EncryptionRequired,
    /// Too many failures from this address; the password was not looked at. `[UNAVAILABLE]`, 454
    /// 4.7.0.
    #[error("too many failed logins from this address: wait some minutes")]
    TooMany,
    /// A login that cannot be checked at present. `[UNAVAILABLE]`, 454 4.7.0.
    #[error("logins are unavailable: {0}")]
    Unavailable(#[from] DirectoryError),
}

/// A refused login, and how long to delay the answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{failure}")]
pub struct LoginError {
    /// The reason.
    pub failure: LoginFailure,
    /// The time to wait before the answer.
    pub delay: Duration,
}

impl LoginError {
    /// A refusal that is sent at once.
    pub const fn at_once(failure: LoginFailure) -> Self {
        Self { failure, delay: Duration::ZERO }
    }
}

/// The account of a right password, unless it is disabled. A login to a shared account is
/// refused, even if it has a password.
pub(crate) fn enabled(account: Arc<Account>) -> Result<Arc<Account>, LoginError> {
    if account.disabled || account.shared {
        Err(LoginError::at_once(LoginFailure::Disabled))
    } else {
        Ok(account)
    }
}
