//! The mechanisms by name, and which of them are offered.

use std::fmt;

/// A mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4422 Appendix A, by the client's TLS certificate.
    External,
    /// SCRAM-SHA-256 (RFC 7677), bound to the TLS channel.
    ScramSha256Plus,
    /// SCRAM-SHA-256 without a channel binding.
    ScramSha256,
    /// SCRAM-SHA-1 (RFC 5802), bound to the TLS channel.
    ScramSha1Plus,
    /// SCRAM-SHA-1 without a channel binding.
    ScramSha1,
    /// An OAuth token: RFC 7628.
    OauthBearer,
    /// An OAuth token in the form used before RFC 7628: never standardised, documented by Google.
    Xoauth2,
    /// RFC 4616.
    Plain,
    /// Two prompts, never standardised (draft-murchison-sasl-login), still used.
    Login,
}

impl Mechanism {
    /// All mechanisms, in the order in which they are offered: the strongest first.
    const ALL: [Self; 9] = [
        Self::External,
        Self::ScramSha256Plus,
        Self::ScramSha256,
        Self::ScramSha1Plus,
        Self::ScramSha1,
        Self::OauthBearer,
        Self::Xoauth2,
        Self::Plain,
        Self::Login,
    ];

    /// The registered name of the mechanism.
    pub const fn name(self) -> &'static str {
        match self {
            Self::External => "EXTERNAL",
            Self::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha1Plus => "SCRAM-SHA-1-PLUS",
            Self::ScramSha1 => "SCRAM-SHA-1",
            Self::OauthBearer => "OAUTHBEARER",
            Self::Xoauth2 => "XOAUTH2",
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// By its registered name, in any case (RFC 4422 §3.1 has them in capitals; clients do not).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The mechanisms that are offered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Mechanisms(u16);

impl Mechanisms {
    /// A list of these mechanisms.
    pub fn of(mechanisms: &[Mechanism]) -> Self {
        Self(mechanisms.iter().fold(0, |bits, one| bits | one.bit()))
    }

    /// Adds a mechanism if it is offered.
    pub(super) const fn with(self, mechanism: Mechanism, offered: bool) -> Self {
        if offered { Self(self.0 | mechanism.bit()) } else { self }
    }

    /// Whether one is among them.
    pub const fn has(self, mechanism: Mechanism) -> bool {
        self.0 & mechanism.bit() != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of the mechanisms, the strongest first.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Mechanism::ALL.into_iter().filter(move |one| self.has(*one)).map(Mechanism::name)
    }
}

impl fmt::Display for Mechanisms {
    /// With a space between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Debug for Mechanisms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
