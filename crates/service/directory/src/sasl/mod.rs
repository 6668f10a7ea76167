//! The server's side of SASL (RFC 4422), without a socket: octets in, octets out, for both IMAP
//! AUTHENTICATE and SMTP AUTH. Base64, and `*` to cancel, are the protocols' own.
//!
//! ```text
//! let mut exchange = Exchange::begin(&directory, mechanism, channel)?;
//! loop {
//!     match exchange.step(&directory, response).await {
//!         SaslStep::Challenge(octets) => send them, wait for `response`,
//!         SaslStep::Done(account) => in,
//!         SaslStep::Fail(error) => wait for error.delay, then say so,
//!         SaslStep::Refuse { challenge, error } => wait, send it, read any response, then say so,
//!     }
//! }
//! ```
//!
//! The first `response` is the initial response, or `None` if the command brought none.

mod bearer;
mod channel;
mod external;
mod mechanism;
mod plain;
mod scram;
#[cfg(test)]
mod tests;

use async_recursion::async_recursion as boxed;
use posthaste_mail_model::Secret;

use crate::address::same_user;
use crate::directory::Directory;
use crate::grant::Login;
use crate::login_error::{LoginError, LoginFailure};
use crate::scram_keys::ScramHash;
use crate::settings::CertificateLogins;

pub use channel::{Channel, Plaintext, TlsBindings};
pub use mechanism::{Mechanism, Mechanisms};

/// Octets of one response. The longest honest one has an OAuth token. Tokens with many claims have
/// some 4 KiB. Decoded from base64, the answer fits the protocols' line limits (RFC 4954 §4:
/// 12,288). RFC 4616 §2 allows PLAIN three fields of 255.
pub const RESPONSE_LEN_MAX: usize = 8 * 1024;

/// The mechanisms to offer on a channel.
pub fn mechanisms(directory: &Directory, channel: &Channel) -> Mechanisms {
    let logins = directory.logins();
    let (passwords, proofs) = (channel.protects_passwords(), channel.protects_proofs());
    let external = logins.certificates != CertificateLogins::Off && channel.has_certificate();
    let tokens = logins.tokens.is_some() && passwords;
    // Without keys nobody could log in with SCRAM, and a client that prefers it would fail.
    let sha256 = directory.policy.scram_iterations.is_some();
    let sha1 = directory.policy.sha1_iterations().is_some();
    Mechanisms::default()
        .with(Mechanism::External, external)
        .with(Mechanism::ScramSha256Plus, sha256 && channel.can_bind())
        .with(Mechanism::ScramSha256, sha256 && proofs)
        .with(Mechanism::ScramSha1Plus, sha1 && channel.can_bind())
        .with(Mechanism::ScramSha1, sha1 && proofs)
        .with(Mechanism::OauthBearer, tokens)
        .with(Mechanism::Xoauth2, tokens)
        .with(Mechanism::Plain, passwords)
        .with(Mechanism::Login, passwords)
}

/// The result of a response.
#[derive(Debug)]
pub enum SaslStep {
    /// Send these octets (perhaps none) and come back with the client's response.
    Challenge(Vec<u8>),
    /// Logged in.
    Done(Box<Login>),
    /// Refused; the exchange is over.
    Fail(LoginError),
    /// Refused. The challenge reports this to the client, whose next response is ignored, and the
    /// exchange is over: RFC 7628 §3.2.3.
    Refuse {
        /// To be sent after the error's delay.
        challenge: Vec<u8>,
        /// The reason.
        error: LoginError,
    },
}

/// A SASL exchange of one client.
pub struct Exchange {
    channel: Channel,
    state: SaslState,
    /// The account that the client named, as it did.
    name: String,
}

enum SaslState {
    Plain,
    LoginName,
    LoginPassword { name: String },
    Scram(Box<scram::Server>),
    External,
    Token(bearer::BearerMechanism),
    Over,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins an exchange, if the mechanism is offered on this channel.
    pub fn begin(directory: &Directory, mechanism: &str, channel: Channel) -> Result<Self, LoginError> {
        let unknown = LoginError::at_once(LoginFailure::UnknownMechanism);
        let mechanism = Mechanism::from_name(mechanism).ok_or(unknown.clone())?;
        if !mechanisms(directory, &channel).has(mechanism) {
            let in_tls = Channel { plaintext: Plaintext::Allowed, ..channel };
            let with_tls = mechanisms(directory, &in_tls).has(mechanism);
            return Err(if with_tls {
                LoginError::at_once(LoginFailure::EncryptionRequired)
            } else {
                unknown
            });
        }
        let state = match mechanism {
            Mechanism::Plain => SaslState::Plain,
            Mechanism::Login => SaslState::LoginName,
            Mechanism::External => SaslState::External,
            Mechanism::OauthBearer => SaslState::Token(bearer::BearerMechanism::OauthBearer),
            Mechanism::Xoauth2 => SaslState::Token(bearer::BearerMechanism::Xoauth2),
            Mechanism::ScramSha256Plus => scram_state(ScramHash::Sha256, scram::Binding::Demanded),
            Mechanism::ScramSha256 => scram_state(ScramHash::Sha256, scram::Binding::of(&channel)),
            Mechanism::ScramSha1Plus => scram_state(ScramHash::Sha1, scram::Binding::Demanded),
            Mechanism::ScramSha1 => scram_state(ScramHash::Sha1, scram::Binding::of(&channel)),
        };
        Ok(Self { channel, state, name: String::new() })
    }

    /// The account that the client named, as it did; empty before that. For logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a response; `None` only at the start, if the command came without an initial response.
    #[boxed]
    pub async fn step(&mut self, directory: &Directory, response: Option<&[u8]>) -> SaslStep {
        let state = std::mem::replace(&mut self.state, SaslState::Over);
        let Some(response) = response else { return self.first_challenge(state) };
        if response.len() > RESPONSE_LEN_MAX {
            return malformed("a response is longer than 8192 octets");
        }
        match state {
            SaslState::Plain => self.plain(directory, response).await,
            SaslState::LoginName => match plain::text(response) {
                Ok(name) => {
                    self.name.clone_from(&name);
                    self.challenge(SaslState::LoginPassword { name }, b"Password:".to_vec())
                }
                Err(failure) => SaslStep::Fail(LoginError::at_once(failure)),
            },
            SaslState::LoginPassword { name } => match plain::text(response) {
                Ok(password) => self.log_in(directory, &name, password).await,
                Err(failure) => SaslStep::Fail(LoginError::at_once(failure)),
            },
            SaslState::Scram(server) => self.scram(directory, server, response).await,
            SaslState::External => self.external(directory, response).await,
            SaslState::Token(mechanism) => self.token(directory, mechanism, response).await,
            SaslState::Over => malformed("the exchange is over"),
        }
    }

    fn challenge(&mut self, state: SaslState, challenge: Vec<u8>) -> SaslStep {
        self.state = state;
        SaslStep::Challenge(challenge)
    }

    /// The client speaks first in all but LOGIN: an empty challenge lets it (RFC 4422 §3.3).
    fn first_challenge(&mut self, state: SaslState) -> SaslStep {
        match state {
            SaslState::LoginName => self.challenge(state, b"Username:".to_vec()),
            SaslState::Over => malformed("the exchange is over"),
            state => self.challenge(state, Vec::new()),
        }
    }

    async fn plain(&mut self, directory: &Directory, response: &[u8]) -> SaslStep {
        let message = plain::PlainMessage::parse(response);
        if let Ok(message) = &message {
            self.name.clone_from(&message.name);
        }
        match message {
            Ok(message) if !same_user(&message.authorization, &message.name) => {
                SaslStep::Fail(LoginError::at_once(LoginFailure::AuthorizationId))
            }
            Ok(message) => self.log_in(directory, &message.name, message.password).await,
            Err(failure) => SaslStep::Fail(LoginError::at_once(failure)),
        }
    }

    async fn log_in(&self, directory: &Directory, name: &str, password: String) -> SaslStep {
        done(directory.login(name, &Secret::new(password), self.channel.client).await)
    }

    async fn scram(
        &mut self,
        directory: &Directory,
        mut server: Box<scram::Server>,
        response: &[u8],
    ) -> SaslStep {
        let outcome = server.step(directory, &self.channel, response).await;
        server.name().clone_into(&mut self.name);
        match outcome {
            Ok(scram::ScramStep::Send(octets)) => self.challenge(SaslState::Scram(server), octets),
            Ok(scram::ScramStep::Done(login)) => SaslStep::Done(login),
            Err(error) => SaslStep::Fail(error),
        }
    }

    /// RFC 4422 Appendix A.
    async fn external(&mut self, directory: &Directory, response: &[u8]) -> SaslStep {
        let Some(certificate) = &self.channel.certificate else {
            return malformed("there is no certificate");
        };
        let authorization = match external::authorization(response) {
            Ok(authorization) => authorization,
            Err(failure) => return SaslStep::Fail(LoginError::at_once(failure)),
        };
        self.name = match authorization.is_empty() {
            true => {
                certificate.emails.first().or(certificate.common_name.as_ref()).cloned().unwrap_or_default()
            }
            false => authorization.clone(),
        };
        done(directory.login_by_certificate(certificate, &authorization, self.channel.client).await)
    }

    async fn token(
        &mut self,
        directory: &Directory,
        mechanism: bearer::BearerMechanism,
        response: &[u8],
    ) -> SaslStep {
        let message = match bearer::BearerMessage::parse(mechanism, response) {
            Ok(message) => message,
            Err(failure) => return SaslStep::Fail(LoginError::at_once(failure)),
        };
        self.name.clone_from(&message.name);
        let (name, outcome) =
            directory.login_by_token(&message.name, message.token, self.channel.client).await;
        self.name = name;
        match outcome {
            Ok(login) => SaslStep::Done(Box::new(login)),
            Err(error) => {
                match bearer::challenge(mechanism, &error.failure, directory.logins().tokens.as_deref()) {
                    Some(challenge) => SaslStep::Refuse { challenge, error },
                    None => SaslStep::Fail(error),
                }
            }
        }
    }
}

fn scram_state(hash: ScramHash, binding: scram::Binding) -> SaslState {
    SaslState::Scram(Box::new(scram::Server::new(hash, binding)))
}

fn malformed(why: &'static str) -> SaslStep {
    SaslStep::Fail(LoginError::at_once(LoginFailure::Malformed(why)))
}

fn done(outcome: Result<Login, LoginError>) -> SaslStep {
    match outcome {
        Ok(login) => SaslStep::Done(Box::new(login)),
        Err(error) => SaslStep::Fail(error),
    }
}
