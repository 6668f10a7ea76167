//! The server's side of SASL (RFC 4422), without a socket: octets in, octets out, for IMAP
//! AUTHENTICATE and SMTP AUTH alike. Base 64, and `*` to give up, are the protocols' own.
//!
//! ```text
//! let mut exchange = Exchange::begin(mechanism, channel)?;
//! loop {
//!     match exchange.step(&directory, response).await {
//!         Step::Challenge(octets) => send them, wait for `response`,
//!         Step::Done(account) => in,
//!         Step::Fail(error) => wait for error.delay, then say so,
//!     }
//! }
//! ```
//!
//! The first `response` is the initial response, or `None` if the command brought none.

mod plain;
mod scram;
#[cfg(test)]
mod tests;

use posthaste_mail_model::Secret;
use std::net::IpAddr;

use crate::account::Account;
use crate::address::Address;
use crate::directory::Directory;
use crate::login::{LoginError, LoginFailure};

/// Octets of one response. The longest honest one is a SCRAM first message with a long name;
/// RFC 4616 §2 allows PLAIN three fields of 255. Decoded from base 64 it fits the protocols' line
/// limits.
pub const RESPONSE_LEN_MAX: usize = 8 * 1024;

/// What TLS knows that both ends must know alike, for channel binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsBindings {
    /// `tls-exporter`: 32 octets under the label `EXPORTER-Channel-Binding` (RFC 9266 §2); TLS
    /// 1.3, or TLS 1.2 with the extended master secret.
    pub exporter: Option<Vec<u8>>,
    /// `tls-server-end-point`: the hash of our certificate (RFC 5929 §4.1).
    pub server_end_point: Option<Vec<u8>>,
}

/// Whether mechanisms of a kind are offered on a channel without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plaintext {
    /// On loopback, or where the configuration says so.
    Allowed,
    /// Anywhere else.
    Refused,
}

/// What an exchange runs over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Who is at the other end.
    pub peer: IpAddr,
    /// What TLS knows; `None` without TLS.
    pub tls: Option<TlsBindings>,
    /// Whether passwords may be sent without TLS.
    pub plaintext: Plaintext,
    /// Whether SCRAM may run without TLS. Who listens can try passwords against what he heard.
    pub scram: Plaintext,
}

impl Channel {
    /// Whether a password may be sent over it.
    pub fn protects_passwords(&self) -> bool {
        self.tls.is_some() || self.plaintext == Plaintext::Allowed
    }

    /// Whether SCRAM may run over it.
    pub fn protects_proofs(&self) -> bool {
        self.protects_passwords() || self.scram == Plaintext::Allowed
    }

    /// Whether -PLUS is offered. Not in TLS 1.2: there clients bind to `tls-unique` if to anything
    /// (RFC 5929 §3), which is not available, and one that says so with `y` must not be taken for
    /// the victim of a downgrade.
    fn can_bind(&self) -> bool {
        self.tls.as_ref().is_some_and(|b| b.exporter.is_some())
    }
}

/// A mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// Two prompts, never standardised (draft-murchison-sasl-login), still used.
    Login,
    /// RFC 5802 with SHA-256 (RFC 7677).
    ScramSha256,
    /// The same, bound to the TLS channel.
    ScramSha256Plus,
}

impl Mechanism {
    /// By its registered name, in any case (RFC 4422 §3.1 has them in capitals; clients do not).
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [(&str, Mechanism); 4] = [
            ("PLAIN", Mechanism::Plain),
            ("LOGIN", Mechanism::Login),
            ("SCRAM-SHA-256", Mechanism::ScramSha256),
            ("SCRAM-SHA-256-PLUS", Mechanism::ScramSha256Plus),
        ];
        NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, mechanism)| *mechanism)
    }

    const fn sends_password(self) -> bool {
        matches!(self, Self::Plain | Self::Login)
    }
}

/// The mechanisms to offer on a channel, strongest first.
pub fn mechanisms(channel: &Channel) -> &'static [&'static str] {
    const ALL: &[&str] = &["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256", "PLAIN", "LOGIN"];
    match (channel.can_bind(), channel.protects_passwords(), channel.protects_proofs()) {
        (true, _, _) => ALL,
        (false, true, _) => &["SCRAM-SHA-256", "PLAIN", "LOGIN"],
        (false, false, true) => &["SCRAM-SHA-256"],
        (false, false, false) => &[],
    }
}

/// What comes of a response.
#[derive(Debug)]
pub enum Step {
    /// Send these octets (perhaps none) and come back with the client's response.
    Challenge(Vec<u8>),
    /// Logged in.
    Done(Box<Account>),
    /// Refused; the exchange is over.
    Fail(LoginError),
}

/// One exchange.
pub struct Exchange {
    channel: Channel,
    state: State,
    /// The account that the client named, as it did.
    name: String,
}

enum State {
    Plain,
    LoginName,
    LoginPassword { name: String },
    Scram(Box<scram::Server>),
    Over,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins an exchange, if the mechanism is offered on this channel.
    pub fn begin(mechanism: &str, channel: Channel) -> Result<Self, LoginError> {
        let unknown = LoginError::at_once(LoginFailure::UnknownMechanism);
        let mechanism = Mechanism::from_name(mechanism).ok_or(unknown.clone())?;
        let protected =
            if mechanism.sends_password() { channel.protects_passwords() } else { channel.protects_proofs() };
        if !protected {
            return Err(LoginError::at_once(LoginFailure::EncryptionRequired));
        }
        let state = match mechanism {
            Mechanism::Plain => State::Plain,
            Mechanism::Login => State::LoginName,
            Mechanism::ScramSha256 if channel.can_bind() => scram_state(scram::Binding::Offered),
            Mechanism::ScramSha256 => scram_state(scram::Binding::Impossible),
            Mechanism::ScramSha256Plus if channel.can_bind() => scram_state(scram::Binding::Demanded),
            Mechanism::ScramSha256Plus => return Err(unknown),
        };
        Ok(Self { channel, state, name: String::new() })
    }

    /// The account that the client named, as it did; empty before that. For logs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a response; `None` only at the start, if the command came without an initial response.
    pub async fn step(&mut self, directory: &Directory, response: Option<&[u8]>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        let Some(response) = response else { return self.first_challenge(state) };
        if response.len() > RESPONSE_LEN_MAX {
            return malformed("a response is longer than 8192 octets");
        }
        match state {
            State::Plain => self.plain(directory, response).await,
            State::LoginName => match plain::text(response) {
                Ok(name) => {
                    self.name.clone_from(&name);
                    self.ask(State::LoginPassword { name }, b"Password:".to_vec())
                }
                Err(failure) => Step::Fail(LoginError::at_once(failure)),
            },
            State::LoginPassword { name } => match plain::text(response) {
                Ok(password) => self.log_in(directory, &name, password).await,
                Err(failure) => Step::Fail(LoginError::at_once(failure)),
            },
            State::Scram(server) => self.scram(directory, server, response).await,
            State::Over => malformed("the exchange is over"),
        }
    }

    fn ask(&mut self, state: State, challenge: Vec<u8>) -> Step {
        self.state = state;
        Step::Challenge(challenge)
    }

    /// The client speaks first in PLAIN and SCRAM: an empty challenge lets it (RFC 4422 §3.3).
    fn first_challenge(&mut self, state: State) -> Step {
        match state {
            State::LoginName => self.ask(state, b"Username:".to_vec()),
            State::Over => malformed("the exchange is over"),
            state => self.ask(state, Vec::new()),
        }
    }

    async fn plain(&mut self, directory: &Directory, response: &[u8]) -> Step {
        let message = plain::Message::parse(response);
        if let Ok(message) = &message {
            self.name.clone_from(&message.name);
        }
        match message {
            Ok(message) if !same_user(&message.authorization, &message.name) => {
                Step::Fail(LoginError::at_once(LoginFailure::AuthorizationId))
            }
            Ok(message) => self.log_in(directory, &message.name, message.password).await,
            Err(failure) => Step::Fail(LoginError::at_once(failure)),
        }
    }

    async fn log_in(&self, directory: &Directory, name: &str, password: String) -> Step {
        match directory.login(name, &Secret::new(password), self.channel.peer).await {
            Ok(account) => Step::Done(Box::new(account)),
            Err(error) => Step::Fail(error),
        }
    }

    async fn scram(
        &mut self,
        directory: &Directory,
        mut server: Box<scram::Server>,
        response: &[u8],
    ) -> Step {
        let outcome = server.step(directory, &self.channel, response).await;
        server.name().clone_into(&mut self.name);
        match outcome {
            Ok(scram::Answer::Send(octets)) => self.ask(State::Scram(server), octets),
            Ok(scram::Answer::Done(account)) => Step::Done(account),
            Err(error) => Step::Fail(error),
        }
    }
}

fn scram_state(binding: scram::Binding) -> State {
    State::Scram(Box::new(scram::Server::new(binding)))
}

fn malformed(why: &'static str) -> Step {
    Step::Fail(LoginError::at_once(LoginFailure::Malformed(why)))
}

/// Whether an authorization identity is nobody else's: empty, or another spelling of the name.
fn same_user(authorization: &str, name: &str) -> bool {
    authorization.is_empty()
        || match (Address::parse(authorization), Address::parse(name)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
}
